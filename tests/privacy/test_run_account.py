"""Whatever a run is of: one charge under its mark, for no more than was permitted, and no other entry is taken for it."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from sudare.errors import InvalidParameter, NotApproved, SudareError
from sudare.privacy.account_balance import Amount
from sudare.privacy.accounting import pure_cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account, Ledger
from sudare.privacy.ledger_restore import restored
from sudare.privacy.run_account import RunAccount, entries_of

MARK = "request 0123abcd, version 1"


class Run(RunAccount):
    def _beyond(self, beyond: str) -> SudareError:
        return NotApproved(f"The run {beyond}.", "Ask anew.")

    def _charged_already(self) -> SudareError:
        return NotApproved("It was charged already.", "Ask anew.")


@pytest.fixture
def plain(tmp_path: Path) -> Account:
    return Ledger(tmp_path / "ledger.db").account("clinic", epsilon=9.0)


def test_one_charge_that_is_gone_on_with(plain: Account) -> None:
    run = Run(plain, MARK, Amount(1.0, 0.0))
    first = run.charge(Guarantee(1.0), pure_cost(1.0), "model", "whatever a learner says")
    assert plain.entries()[-1].body["purpose"] == MARK
    for again in (run, Run(plain, MARK, Amount(1.0, 0.0)), copy.deepcopy(run)):
        assert again.charge(Guarantee(1.0), pure_cost(1.0), "model") == first
        assert again.receipt_of(Guarantee(1.0), pure_cost(1.0), "model", "another mark") == first.receipt
    with pytest.raises(NotApproved, match="charged already"):
        run.charge(Guarantee(0.5), pure_cost(0.5), "model")
    with pytest.raises(NotApproved, match="charged already"):
        Run(plain, MARK, Amount(1.0, 0.0), is_resumed=False).charge(Guarantee(1.0), pure_cost(1.0), "model")
    assert plain.spent() == (1.0, 0.0)


def test_a_charge_from_before_a_restore_is_not_gone_on_with(plain: Account) -> None:
    """The copy may lack its result, which may have left: another one would be a second answer for one charge."""
    run = Run(plain, MARK, Amount(1.0, 0.0))
    run.charge(Guarantee(1.0), pure_cost(1.0), "model")
    restored(plain.ledger, [], [], "The disk was lost.")
    for raised in (False, True):
        if raised:
            plain.ledger.raise_budget("clinic", epsilon=20.0, reason="Asked anew.")
        with pytest.raises(NotApproved, match="charged already"):
            run.charge(Guarantee(1.0), pure_cost(1.0), "model")
    assert Run(plain, f"{MARK}1", Amount(1.0, 0.0)).charge(Guarantee(1.0), pure_cost(1.0), "model").receipt


def test_no_more_than_was_permitted(plain: Account) -> None:
    with pytest.raises(NotApproved, match=r"asks for ε = 1\.5.* was permitted"):
        Run(plain, MARK, Amount(1.0, 0.0)).charge(Guarantee(1.5), pure_cost(1.5), "model")
    assert plain.spent() == (0.0, 0.0)


@pytest.mark.parametrize("purpose", [MARK, f"{MARK}, run 7", "request ffffffff, version 12"])
def test_nobody_else_enters_the_charge_of_a_request(plain: Account, purpose: str) -> None:
    """By its mark a run finds its charge again, so that another charge with it could be taken for its own."""
    for account in (plain, pickle.loads(pickle.dumps(plain))):
        with pytest.raises(InvalidParameter, match="by the run of that request only"):
            account.charge(Guarantee(0.1), pure_cost(0.1), "model", purpose)
        with pytest.raises(InvalidParameter, match="by the run of that request only"):
            account.disclose("sums", "the members", 3, purpose)
    assert [entry.kind for entry in plain.entries()] == ["open"]


@pytest.mark.parametrize("purpose", ["", "request of the board, version 1", f"as in {MARK}", f"{MARK}0th of a talk"])
def test_other_purposes_are_nobodys_mark(plain: Account, purpose: str) -> None:
    plain.charge(Guarantee(0.1), pure_cost(0.1), "model", purpose)
    assert entries_of(MARK, plain.entries()) == []


def test_marks_that_begin_alike_are_different(plain: Account) -> None:
    Run(plain, f"{MARK}0", Amount(1.0, 0.0)).charge(Guarantee(1.0), pure_cost(1.0), "model")
    assert entries_of(MARK, plain.entries()) == []
    Run(plain, MARK, Amount(1.0, 0.0)).charge(Guarantee(1.0), pure_cost(1.0), "model")
    assert plain.spent() == (2.0, 0.0)
