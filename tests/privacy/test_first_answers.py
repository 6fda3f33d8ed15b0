"""proofs/repeated_answers.md: of a memory's collections the largest charge counts, and results of one memory form one chain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sudare.errors import InvalidParameter, NotCharged, RelationMismatch
from sudare.privacy import Guarantee, Ledger
from sudare.privacy.accounting import pure_cost
from sudare.privacy.first_answers import AnswerStep, first_answers, has_open_charge, known_digest, last_restore, mark_of
from sudare.privacy.ledger import Account, Charged, Result
from sudare.privacy.ledger_restore import restored
from tests.ledgers import quick_folder

PERSONS = Guarantee(1.0, unit="person", notion="local")
MEMORY, ANOTHER = "a" * 32, "b" * 32


@pytest.fixture
def account() -> Iterator[Account]:
    with quick_folder() as folder:
        yield Ledger(folder / "ledger.db").account("people", 3.0, unit="person")


def paid(account: Account, collection: int, memory: str = MEMORY) -> Charged:
    return account.charge(PERSONS, pure_cost(1.0), "a fit", answers=first_answers(memory, collection))


def entered(account: Account, charged: Charged, step: AnswerStep | None, content: str = "c") -> None:
    account.ledger._enter_result(charged.receipt, charged.guarantee, Result("a learner", content, "s"), step)


def test_collections_of_a_memory_cost_the_largest_and_all_else_its_sum(account: Account) -> None:
    for collection in (1, 2, 3):
        paid(account, collection)
        assert account.spent().epsilon == 1.0
    paid(account, 3)
    assert account.spent().epsilon == 2.0, "twice in one collection"
    assert account.quote(PERSONS, pure_cost(1.0), answers=first_answers(MEMORY, 2)).admitted
    paid(account, 1, ANOTHER)
    assert account.spent().epsilon == 3.0
    assert not account.quote(PERSONS, pure_cost(1.0)).admitted
    paid(account, 2, ANOTHER)
    assert account.spent().epsilon == 3.0
    account.ledger.verify()


def test_marks_of_collections_are_different() -> None:
    assert len({mark_of(memory, number, []) for memory in (MEMORY, ANOTHER) for number in range(1, 20)}) == 38


def test_a_charge_from_before_a_restore_is_not_gone_on_with(account: Account) -> None:
    before = mark_of(MEMORY, 1, account.entries())
    assert before == mark_of(MEMORY, 1, [])
    assert last_restore(account.entries()) == 0
    paid(account, 1)
    restored(account.ledger, [], [], "The disk was lost.")
    assert last_restore(account.entries()) == account.entries()[-1].position
    assert mark_of(MEMORY, 1, account.entries()) != before


def test_an_account_that_would_go_on_with_a_charge_is_closed_by_a_restore_that_knows_of_nothing_lost(
    account: Account,
) -> None:
    known = [paid(account, 1).receipt, account.charge(PERSONS, pure_cost(1.0), "a fit").receipt]
    others = account.ledger.account("others", 3.0, unit="person")
    finished = paid(others, 1, ANOTHER)
    entered(others, finished, AnswerStep(ANOTHER, "", "e1"))
    known += [finished.receipt, others.charge(PERSONS, pure_cost(1.0), "a fit").receipt]
    assert has_open_charge(account.entries())
    assert not has_open_charge(others.entries())
    assert restored(account.ledger, [], known, "The disk was lost.").closed == ("people",)
    assert (account.remaining().epsilon, others.remaining().epsilon) == (0.0, 1.0)
    assert not has_open_charge(account.entries()), "those from before are not gone on with"
    assert restored(account.ledger, [], known, "Once more.").closed == ()


@pytest.mark.parametrize("unit", ["record", "person"])
def test_only_accounts_and_promises_for_persons_pay_for_kept_answers(unit: str) -> None:
    with quick_folder() as folder:
        account = Ledger(folder / "ledger.db").account("people", 3.0, unit="person" if unit == "record" else "record")
        guarantee = Guarantee(1.0, unit=unit, notion="local")  # type: ignore[arg-type]
        for ask in (account.quote, lambda *given, **named: account.charge(*given, "a fit", **named)):
            with pytest.raises(RelationMismatch):
                ask(guarantee, pure_cost(1.0), answers=first_answers(MEMORY, 1))
        assert account.spent().epsilon == 0


def test_results_of_a_memory_form_one_chain(account: Account) -> None:
    assert account.known_answers(MEMORY) == ""
    first, beside = paid(account, 1), paid(account, 1, ANOTHER)
    entered(account, first, AnswerStep(MEMORY, "", "d1"))
    entered(account, first, AnswerStep(MEMORY, "", "d1"))
    entered(account, beside, AnswerStep(ANOTHER, "", "e1"))
    assert (account.known_answers(MEMORY), account.known_answers(ANOTHER)) == ("d1", "e1")
    second, rival = paid(account, 2), paid(account, 2)
    for before in ("", "e1", "d2"):
        with pytest.raises(NotCharged, match="Another collection was entered"):
            entered(account, second, AnswerStep(MEMORY, before, "d2"))
    entered(account, second, AnswerStep(MEMORY, "d1", "d2"))
    with pytest.raises(NotCharged, match="Another collection was entered"):
        entered(account, rival, AnswerStep(MEMORY, "d1", "d3"))
    assert account.ledger.result_of(rival.receipt) is None
    assert known_digest(account.entries(), MEMORY) == "d2"
    account.ledger.verify()


def test_a_charge_for_first_answers_takes_no_other_result(account: Account) -> None:
    kept, plain = paid(account, 1), account.charge(PERSONS, pure_cost(1.0), "a fit")
    for charged, step in ((kept, None), (kept, AnswerStep(ANOTHER, "", "e1")), (plain, AnswerStep(MEMORY, "", "d1"))):
        with pytest.raises(NotCharged, match="not one for first answers of its memory"):
            entered(account, charged, step)
    entered(account, plain, None)
    assert account.known_answers(MEMORY) == ""


def test_a_charge_for_a_slice_is_not_one_for_first_answers(account: Account) -> None:
    """Partitions of sources are digests, whose charges take results as ever."""
    with quick_folder() as folder:
        added = Ledger(folder / "ledger.db").account("people", 3.0, unit="person")
        part = first_answers(MEMORY, 1)
        charged = added.charge(PERSONS, pure_cost(1.0), "a fit", answers=type(part)("0" * 64, part.where))
        entered(added, charged, None)


def test_marks_cannot_be_those_of_requests(account: Account) -> None:
    with pytest.raises(InvalidParameter):
        account.charge(PERSONS, pure_cost(1.0), "a fit", "request 1, version 1", answers=first_answers(MEMORY, 1))
