"""The account of one run: charged once, for no more than was permitted, whoever asks and however often."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.consortium.tasks.task_account import Permission, TaskAccount
from sudare.errors import NotApproved
from sudare.privacy import Account, Ledger, Release
from sudare.privacy.accounting import approximate_cost, gaussian_cost, pure_cost
from sudare.privacy.guarantee import Guarantee
from sudare.statistics import PrivateMean
from tests.consortium.clinics import IDENTITIES, patients
from tests.ledgers import quick_folder

MARK = "task 'ages' of agreement 0123456789abcdef"
PERMITTED = Permission("ages", MARK, 1.0, 1e-6)


@pytest.fixture
def plain(tmp_path: Path) -> Account:
    return Ledger(tmp_path / "ledger.db").account("clinic", epsilon=100.0, delta=1e-3)


def test_one_charge_and_no_second_by_another_run(plain: Account) -> None:
    first = TaskAccount(plain, PERMITTED, "a", False)
    receipt = first.charge(Guarantee(1.0), pure_cost(1.0), "model", "run b").receipt
    assert plain.entries()[-1].body["purpose"] == f"{MARK}, run b"
    assert first.receipt_of(Guarantee(1.0), pure_cost(1.0), "model", "run b") == receipt
    for again in (first, TaskAccount(plain, PERMITTED, "a", False), TaskAccount(plain, PERMITTED, "c", True)):
        for copied in (again, copy.deepcopy(again), pickle.loads(pickle.dumps(again))):
            with pytest.raises(NotApproved, match="run already"):
                copied.charge(Guarantee(0.1), pure_cost(0.1), "model")
            with pytest.raises(NotApproved, match="run already"):
                copied.disclose("sums", "members", 3)
    assert plain.spent() == (1.0, 0.0)


def test_a_task_whose_name_begins_alike_is_another(plain: Account) -> None:
    plain.charge(Guarantee(1.0), pure_cost(1.0), "model", f"{MARK}0, run a")
    plain.charge(Guarantee(1.0), pure_cost(1.0), "model", "task 'ages-2' of agreement 0123456789abcdef")
    TaskAccount(plain, PERMITTED, "a", False).charge(Guarantee(1.0), pure_cost(1.0), "model")


@given(
    epsilon=st.floats(0.01, 3.0),
    delta=st.sampled_from([0.0, 1e-9, 1e-6, 1.000001e-6, 1e-5]),
    gaussian=st.booleans(),
    neighbours=st.sampled_from(["replace-one", "add-remove"]),
)
def test_nothing_above_what_was_permitted_is_charged(
    epsilon: float, delta: float, gaussian: bool, neighbours: str
) -> None:
    with quick_folder() as folder:
        plain = Ledger(folder / "ledger.db").account("clinic", epsilon=100.0, delta=1e-3)
        cost = pure_cost(epsilon) if not delta else (gaussian_cost if gaussian else approximate_cost)(epsilon, delta)
        guarantee = Guarantee(epsilon, delta, neighbours=neighbours)  # type: ignore[arg-type]
        asked = plain.quote(guarantee, cost).asked
        account = TaskAccount(plain, PERMITTED, "a", True)
        if asked.epsilon > 1.0 or asked.delta > 1e-6 * (1 + 1e-9):
            with pytest.raises(NotApproved, match="was permitted"):
                account.charge(guarantee, cost, "model")
            assert plain.spent() == (0.0, 0.0)
        else:
            account.charge(guarantee, cost, "model")
            assert plain.spent() == asked


def test_of_two_who_ask_at_once_one_pays(plain: Account) -> None:
    barrier, outcomes = threading.Barrier(6), []

    def work(run: int) -> None:
        account = TaskAccount(plain, PERMITTED, str(run), True)
        barrier.wait()
        try:
            account.charge(Guarantee(1.0), pure_cost(1.0), "model")
            outcomes.append("paid")
        except NotApproved:
            outcomes.append("refused")

    threads = [threading.Thread(target=work, args=(run,)) for run in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["paid", *["refused"] * 5]
    assert plain.spent() == (1.0, 0.0)


def test_a_run_that_was_killed_goes_on_with_its_charge_until_its_result_was_entered(
    plain: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = patients(0, rows=50)[["age"]].to_numpy()

    def fitted() -> PrivateMean:
        return PrivateMean(1.0, bounds=(0, 100), account=TaskAccount(plain, PERMITTED, "a", True)).fit(table)

    with monkeypatch.context() as power_cut:
        power_cut.setattr("sudare.privacy.private_estimator.enter_result", killed)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                fitted()
    model = fitted()
    assert plain.spent() == (1.0, 0.0)
    with pytest.raises(NotApproved, match="run already"):
        fitted()
    Release.of(model).save(tmp_path / "own.sudare", key=IDENTITIES["east"].signing_key)
    assert [entry.kind for entry in plain.entries()] == ["open", "charge", "result", "release"]


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_disclosure_is_entered_once_a_run(plain: Account) -> None:
    account = TaskAccount(plain, PERMITTED, "a", True)
    assert account.disclose("sums", "members", 3) == account.disclose("sums", "members", 3)
    with pytest.raises(NotApproved, match="run already"):
        account.disclose("sums", "members", 4)
    with pytest.raises(NotApproved, match="run already"):
        TaskAccount(plain, PERMITTED, "b", True).disclose("sums", "members", 3)
    with pytest.raises(NotApproved, match="run already"):
        account.charge(Guarantee(1.0), pure_cost(1.0), "model")
    assert [entry.kind for entry in plain.entries()] == ["open", "disclosure"]
