"""A backup put back: the very ledger where later entries are known, accounts closed where they are not; rollback is still noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.errors import BudgetExceeded, InvalidParameter, LedgerCorrupt, LedgerRolledBack, NotCharged
from sudare.privacy import ledger_tables as tables
from sudare.privacy.account_balance import is_restore_body
from sudare.privacy.accounting import Budget, Spent, approximate_cost, gaussian_cost, pure_cost
from sudare.privacy.ledger import Ledger
from sudare.privacy.ledger_chain import Entry, Head, Receipt
from sudare.privacy.ledger_restore import Restoration, parsed_export, restored
from tests.ledgers import busy_ledger, charge, charge_gaussian, quick_folder, release


class House:
    """A ledger, a backup of it, and what happened after the backup."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger, self.receipts = busy_ledger(folder / "ledger.db")
        self.early_head = self.ledger.head()
        self.ledger.backup(folder / "backup.db")
        self.early_export = self.ledger.export()
        self.late_receipt = charge(self.ledger.account("patients"), 0.25).receipt
        charge_gaussian(self.ledger.account("visits"), 0.1, 1e-7)
        self.ledger.account("later", epsilon=1.0)
        self.late_head = self.ledger.head()
        self.export = self.ledger.export()

    def copy(self) -> Ledger:
        """The backup, put back."""
        target = self.folder / f"copy-{len(list(self.folder.iterdir()))}.db"
        Ledger(self.folder / "backup.db", create=False).backup(target)
        return Ledger(target, create=False)


@pytest.fixture
def house() -> Iterator[House]:
    with quick_folder() as folder:
        yield House(folder)


# What is known


def test_a_backup_put_back_is_a_rollback(house: House) -> None:
    copy = house.copy()
    copy.verify([house.early_head, *house.receipts])
    for known in (house.late_head, house.late_receipt):
        with pytest.raises(LedgerRolledBack):
            copy.verify([known])


def test_later_entries_from_an_export_give_the_very_ledger(house: House) -> None:
    copy = house.copy()
    done = restored(copy, parsed_export(house.export), [house.late_head, house.late_receipt], "disk failed")
    assert done == Restoration(3, (), ())
    assert copy.head() == house.ledger.head()
    assert copy.entries() == house.ledger.entries()
    assert copy.verify([house.early_head, house.late_head, house.late_receipt, *house.receipts]) == house.late_head
    assert {account.name: account.spent() for account in copy.accounts()} == {
        account.name: account.spent() for account in house.ledger.accounts()
    }
    # And it goes on like one.
    charge(copy.account("later"), 0.5)
    release(copy, house.late_receipt, "d" * 64)
    copy.verify([house.late_head])


def test_a_part_of_the_later_entries_is_put_back_and_the_rest_closes_the_accounts(house: House) -> None:
    copy = house.copy()
    some = parsed_export(house.export)[:-1]
    done = restored(copy, some, [house.late_head, house.late_receipt], "disk failed")
    assert (done.entries_added, done.lost, done.closed) == (2, (house.late_head,), ("patients", "visits"))
    copy.verify([house.late_head, house.late_receipt])


def test_nothing_lost_closes_nothing(house: House) -> None:
    copy = house.copy()
    assert restored(copy, [], [house.early_head], "moved to another machine") == Restoration(0, (), ())
    assert copy.head() == house.early_head


# What is not known


@pytest.mark.parametrize("told", [True, False], ids=["a point is known to be lost", "nothing is known"])
def test_accounts_are_closed_where_nobody_knows(told: bool, house: House) -> None:
    copy = house.copy()
    known = [house.late_head, house.late_receipt] if told else []
    done = restored(copy, [], known, "disk failed")
    assert done == Restoration(0, tuple(known), ("patients", "visits"))
    for name in done.closed:
        account = copy.account(name)
        assert account.remaining()[0] == 0.0
        for attempt in (lambda a=account: charge(a, 1e-9), lambda a=account: charge_gaussian(a, 1e-6, 1e-9)):
            with pytest.raises(BudgetExceeded):
                attempt()
        assert account.entries()[-1].body["reason"] == "disk failed"
    copy.verify(known)


def test_a_raise_that_nobody_remembers_closes_the_accounts(house: House) -> None:
    """Whoever can write to an export can put entries at its end; those that spend do no harm."""
    house.ledger.raise_budget("patients", epsilon=1000.0, reason="forged")
    export = parsed_export(house.ledger.export())
    copy = house.copy()
    assert restored(copy, export, [house.late_head], "disk failed").closed == ("later", "patients", "visits")
    assert copy.account("patients").remaining().epsilon == 0
    # A point that was kept after it vouches for it, and so does the backup.
    copy = house.copy()
    assert restored(copy, export, [house.ledger.head()], "disk failed").closed == ()
    assert copy.entries() == house.ledger.entries()
    assert restored(copy, [], [house.early_head], "disk failed").closed == ()


def test_only_acknowledged_points_are_taken_as_lost(house: House) -> None:
    copy = house.copy()
    restored(copy, [], [house.late_head], "disk failed")
    copy.verify([house.late_head])
    with pytest.raises(LedgerRolledBack):
        copy.verify([house.late_receipt])
    with pytest.raises(LedgerRolledBack):
        copy.verify([replace(house.late_head, hash="0" * 64)])
    # A point that turns up later is acknowledged by restoring once more.
    again = restored(copy, [], [house.late_head, house.late_receipt], "a release turned up")
    assert again.lost == (house.late_head, house.late_receipt)
    assert copy.entries()[-1].body["lost"] == [[house.late_receipt.position, house.late_receipt.hash]]
    copy.verify([house.late_head, house.late_receipt])


def test_what_a_lost_charge_paid_for_does_not_leave(house: House) -> None:
    copy = house.copy()
    restored(copy, [], [house.late_receipt], "disk failed")
    assert not copy.contains(house.late_receipt)
    with pytest.raises(NotCharged):
        copy.enter_release(house.late_receipt, "d" * 64)


def test_the_steward_opens_closed_accounts_by_raising(house: House) -> None:
    copy = house.copy()
    restored(copy, [], [], "disk failed")
    budget = copy.account("patients").terms.budget
    copy.raise_budget("patients", epsilon=float(budget.epsilon) + 0.5, reason="checked by hand")
    charge(copy.account("patients"), 0.5)
    with pytest.raises(BudgetExceeded):
        charge(copy.account("patients"), 0.01)
    copy.raise_budget("visits", delta=2e-6, reason="checked by hand")
    charge_gaussian(copy.account("visits"), 0.01, 1e-7)
    copy.verify([])


def test_restoring_a_restored_ledger_from_its_export(house: House) -> None:
    """A restore entry is an entry like any other: exported, backed up and put back."""
    copy = house.copy()
    restored(copy, [], [house.late_head], "disk failed")
    another = house.copy()
    assert restored(another, parsed_export(copy.export()), [copy.head()], "failed again").closed == ()
    assert another.entries() == copy.entries()
    another.verify([house.late_head])


# What is refused


@pytest.mark.parametrize("reason", ["", "  ", "two\nlines"])
def test_a_reason_is_needed(reason: str, house: House) -> None:
    copy = house.copy()
    with pytest.raises(
        InvalidParameter, match=r"^Restoring needs a reason\. Say why in a sentence; it stays in the ledger\.$"
    ):
        restored(copy, [], [], reason)
    assert copy.head() == house.early_head


def test_points_and_exports_of_another_ledger_are_refused(house: House) -> None:
    copy = house.copy()
    other = Ledger(house.folder / "other.db")
    other.account("patients", epsilon=9.0)
    with pytest.raises(
        LedgerRolledBack,
        match=r"^A head or receipt was given out by another ledger than this one\. Check that this is the right backup\.$",
    ):
        restored(copy, [], [other.head()], "mixed up")
    with pytest.raises(
        LedgerRolledBack,
        match=r"^The export is of another ledger, or of one that went on differently\. Check that both belong together\.$",
    ):
        restored(copy, parsed_export(other.export()), [], "mixed up")
    assert copy.head() == house.early_head


def test_an_export_that_went_on_differently_is_refused(house: House) -> None:
    copy = house.copy()
    charge(copy.account("patients"), 0.125)
    before = copy.head()
    with pytest.raises(LedgerRolledBack, match="went on differently"):
        restored(copy, parsed_export(house.export), [house.late_head], "two copies")
    assert copy.head() == before


def forgeries(export: list[Entry], last: int) -> Iterator[list[Entry]]:
    """Exports that were changed after they were made."""
    for position in range(last + 1, len(export)):
        entry = export[position]
        dearer = {**entry.body, "what": "nothing"}
        yield [*export[:position], replace(entry, body=dearer), *export[position + 1 :]]
        yield [*export[:position], *export[position + 1 :]] if position + 1 < len(export) else []
        changed = replace(entry, account="visits" if entry.account != "visits" else "patients")
        yield [*export[:position], replace(changed, hash=changed.computed_hash()), *export[position + 1 :]]


def test_a_changed_export_is_refused_and_changes_nothing(house: House) -> None:
    last = house.early_head.position
    for forged in filter(None, forgeries(parsed_export(house.export), last)):
        copy = house.copy()
        with pytest.raises(
            InvalidParameter,
            match=r"^The export does not continue this copy: .* Use an export made after the backup\.$",
        ):
            restored(copy, forged, [house.late_head], "forged")
        assert copy.verify() == house.early_head


def test_an_export_that_overspends_is_refused(house: House) -> None:
    """Hashes can be computed by anybody: the budget is checked, too."""
    copy = house.copy()
    first = parsed_export(house.export)[house.early_head.position + 1]
    cost = {**first.body["cost"], "epsilon": "1000"}
    forged = replace(first, body={**first.body, "cost": cost})
    forged = replace(forged, hash=forged.computed_hash())
    with pytest.raises(InvalidParameter, match="does not continue"):
        restored(copy, [forged], [], "forged")


def test_a_damaged_backup_is_refused(house: House) -> None:
    copy = house.copy()
    with copy._storage.transaction() as connection:
        tables.set_account_state(connection, "patients", tables.account_state(connection, "visits") or "")
    with pytest.raises(LedgerCorrupt):
        restored(copy, [], [], "disk failed")


def test_a_copy_from_before_the_first_account_cannot_be_closed() -> None:
    with quick_folder() as folder:
        ledger = Ledger(folder / "ledger.db")
        with pytest.raises(
            InvalidParameter,
            match=r"^This copy is from before the first account\. Use a newer backup, or add entries from an export\.$",
        ):
            restored(ledger, [], [], "disk failed")
        assert restored(ledger, [], [ledger.head()], "disk failed").closed == ()


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", "[{}]", "[" * 100_000, "null", '"a"'])
def test_other_texts_are_no_export(text: str) -> None:
    with pytest.raises(
        InvalidParameter,
        match=r"^This is not an export of a ledger\. Give a file that `sudare budget export` wrote as JSON\.$",
    ):
        parsed_export(text)


@pytest.mark.parametrize(
    ("field", "value"), [("position", "3"), ("position", True), ("body", []), ("hash", 1), ("kind", None), ("more", 1)]
)
def test_an_export_with_a_field_of_another_type_is_none(field: str, value: Any, house: House) -> None:
    values = json.loads(house.export)
    values[1][field] = value
    with pytest.raises(InvalidParameter, match="not an export"):
        parsed_export(json.dumps(values))


# The parts


@pytest.mark.parametrize(
    ("body", "is_one"),
    [
        ({"lost": [], "reason": "r"}, True),
        ({"lost": [[1, "a"], [2, "b"]], "reason": "r"}, True),
        ({"lost": [[1]], "reason": "r"}, False),
        ({"lost": [["a", 1]], "reason": "r"}, False),
        ({"lost": [[True, "a"]], "reason": "r"}, False),
        ({"lost": [(1, "a")], "reason": "r"}, False),
        ({"lost": {}, "reason": "r"}, False),
        ({"lost": [], "reason": 1}, False),
        ({"lost": []}, False),
        ({"lost": [], "reason": "r", "more": 1}, False),
    ],
)
def test_the_body_of_a_restore(body: dict[str, Any], is_one: bool) -> None:
    assert is_restore_body(body) is is_one


def test_a_restore_entry_of_another_form_corrupts_the_ledger(house: House) -> None:
    copy = house.copy()
    with copy._storage.transaction() as connection:
        head = copy._head(connection)
        from sudare.privacy.ledger_chain import next_entry

        tables.append(connection, next_entry(head, "now", "patients", "restore", {"lost": [[1]], "reason": ""}))
    with pytest.raises(LedgerCorrupt):
        copy.verify()


BUDGETS = [
    Budget.of(2.0),
    Budget.of(2.0, 1e-5),
    Budget.of(2.0, 1e-5, "gaussian"),
    Budget.of(1.0, 1e-5, "gaussian", 1e-6),
]
COSTS = [
    pure_cost(0.25),
    approximate_cost(0.5, 1e-7),
    gaussian_cost(0.5, 1e-6),
    gaussian_cost(0.1, 1e-7, Fraction(1, 10**14)),
]
SMALL = [pure_cost(1e-12), approximate_cost(1e-12, 1e-12), gaussian_cost(1e-6, 1e-9)]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(BUDGETS), st.lists(st.sampled_from(COSTS), max_size=4), st.lists(st.sampled_from(COSTS), max_size=4)
)
def test_used_up_admits_itself_nothing_more_and_covers_whatever_was_lost(
    budget: Budget, kept: list, lost: list
) -> None:
    known, truth = Spent.of(kept), Spent.of([*kept, *lost])
    if not budget.admits(known):
        return
    full = budget.used_up(known)
    assert budget.admits(full)
    assert not any(budget.admits(full.plus(cost)) for cost in SMALL)
    assert full.epsilon >= known.epsilon
    assert full.total_variation == known.total_variation
    if budget.admits(truth):
        # Whatever could follow the truth is refused after the full totals: nothing is spent twice.
        assert not any(
            budget.admits(full.plus(cost)) and not budget.admits(truth.plus(cost)) for cost in [*COSTS, *SMALL]
        )
    assert budget.used_up(full) == full


def test_a_receipt_knows_its_account_still(house: House) -> None:
    copy = house.copy()
    restored(copy, [], [house.late_head], "disk failed")
    wrong = Receipt(**{**house.receipts[0].to_dict(), "account": "visits"})
    with pytest.raises(LedgerRolledBack, match="another account"):
        copy.verify([wrong])
    assert isinstance(house.late_head, Head)
