"""The ledger: what is admitted, what is refused and in which words, and which changes of the file are noticed."""

from __future__ import annotations

import copy
import csv
import datetime
import io
import json
import math
import os
import pickle
import random
import re
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import joblib
import pytest

from sudare.errors import (
    AccountMismatch,
    BudgetError,
    BudgetExceeded,
    InvalidCost,
    InvalidParameter,
    LedgerBusy,
    LedgerCorrupt,
    LedgerError,
    LedgerMissing,
    LedgerRolledBack,
    LedgerVersion,
    NotCharged,
    RelationMismatch,
    SourceTaken,
    SudareError,
    UnknownAccount,
)
from sudare.privacy import ledger_storage as storage
from sudare.privacy import ledger_tables as tables
from sudare.privacy.account_balance import AccountState, Amount
from sudare.privacy.accounting import (
    approximate_cost,
    decimal_up,
    exact,
    gaussian_cost,
    gaussian_epsilon,
    gaussian_mu_within,
    pure_cost,
)
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account, Charged, Ledger, Quote, Result
from sudare.privacy.ledger_chain import Head, Receipt, canonical_json
from tests.ledgers import busy_ledger, charge, charge_gaussian, compute, edited, fork, quick_folder, release


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger(path)


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.account("patients", epsilon=3.0, delta=1e-6)


class TestOpening:
    def test_a_new_ledger_has_one_entry_and_an_identity(self, ledger: Ledger, path: Path) -> None:
        (first,) = ledger.entries()
        assert first.kind == "ledger"
        assert first.account == ""
        assert first.body == {"ledger": ledger.identity}
        assert re.fullmatch("[0-9a-f]{32}", ledger.identity)
        assert ledger.head() == Head(ledger.identity, 0, first.hash)
        assert ledger.verify() == ledger.head()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_times_are_in_utc(self, ledger: Ledger) -> None:
        time = datetime.datetime.fromisoformat(ledger.entries()[0].time)
        assert time.utcoffset() == datetime.timedelta(0)
        assert time.microsecond == 0
        assert abs(datetime.datetime.now(datetime.UTC) - time) < datetime.timedelta(minutes=10)

    def test_opened_again_it_is_the_same(self, ledger: Ledger, path: Path) -> None:
        before = path.read_bytes()
        again = Ledger(path)
        assert again == ledger
        assert again.identity == ledger.identity
        assert hash(again) == hash(ledger)
        assert Ledger(path, create=False) == ledger
        assert path.read_bytes() == before

    def test_two_ledgers_differ(self, ledger: Ledger, folder: Path) -> None:
        other = Ledger(folder / "other.db")
        assert other != ledger
        assert hash(other) != hash(ledger)
        assert ledger != ledger.identity

    def test_not_created_unless_wanted(self, folder: Path) -> None:
        with pytest.raises(LedgerMissing) as caught:
            Ledger(folder / "gone.db", create=False)
        assert caught.value.problem == "There is no ledger at 'gone.db'."
        assert caught.value.remedy == LedgerMissing.help
        assert list(folder.iterdir()) == []

    def test_an_empty_database_holds_no_ledger(self, folder: Path) -> None:
        for name, statement in (("empty.db", "SELECT 1"), ("foreign.db", "CREATE TABLE people (name TEXT)")):
            with edited(folder / name) as connection:
                connection.execute(statement)
            (folder / name).touch()
            with pytest.raises(LedgerMissing) as caught:
                Ledger(folder / name, create=False)
            assert caught.value.problem == "The database holds no ledger."
            assert Ledger(folder / name).verify().position == 0

    def test_tables_without_a_first_entry_hold_no_ledger(self, ledger: Ledger, path: Path) -> None:
        with edited(path) as connection:
            connection.execute("DELETE FROM chain")
            connection.execute("DELETE FROM entries")
        with pytest.raises(LedgerMissing) as caught:
            Ledger(path, create=False)
        assert caught.value.problem == "The database holds no ledger."
        assert caught.value.remedy == LedgerMissing.help
        with pytest.raises(LedgerMissing) as caught:
            ledger.head()
        assert caught.value.problem == "The ledger was emptied."
        assert caught.value.remedy == LedgerMissing.help
        assert Ledger(path) != ledger

    def test_in_memory_is_refused(self) -> None:
        with pytest.raises(InvalidParameter, match="would forget what was spent"):
            Ledger(":memory:")

    def test_a_folder_is_refused(self, folder: Path) -> None:
        with pytest.raises(LedgerError, match=r"cannot be opened there \(Is a directory\)"):
            Ledger(folder)

    def test_a_file_that_is_no_database_is_refused_untouched(self, path: Path) -> None:
        path.write_bytes(b"name,age\nAda,36\n" * 100)
        for create in (True, False):
            with pytest.raises(LedgerCorrupt) as caught:
                Ledger(path, create=create)
            assert caught.value.problem == "The file is no ledger."
            assert caught.value.remedy == (
                "Check the path. If the ledger was there, its file was overwritten: keep it, and restore a backup that verifies."
            )
        assert path.read_bytes() == b"name,age\nAda,36\n" * 100

    @pytest.mark.parametrize("timeout", [-1.0, math.nan])
    def test_waiting_times_are_checked(self, path: Path, timeout: float) -> None:
        with pytest.raises(InvalidParameter, match="timeout_seconds must be"):
            Ledger(path, timeout_seconds=timeout)

    def test_what_is_there_is_opened_and_read_while_somebody_writes(self, path: Path, folder: Path) -> None:
        _ledger, receipts = busy_ledger(path)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        ledger = Ledger(path, timeout_seconds=0.0)
        account = ledger.account("patients", epsilon=4.0, delta=1e-6)
        assert account.remaining().epsilon == 2.5
        assert len(account.entries()) == 7
        assert len(ledger.accounts()) == 2
        assert ledger.contains(receipts[0])
        assert ledger.verify(receipts) == ledger.head()
        ledger.backup(folder / "copy.db")
        with pytest.raises(LedgerBusy, match="for 0 s"):
            ledger.account("new", epsilon=1.0)
        other.close()

    def test_the_waiting_time_is_used(self, ledger: Ledger, path: Path) -> None:
        assert ledger._storage.timeout_seconds == 60.0
        impatient = Ledger(path, timeout_seconds=0.01)
        account = impatient.account("patients", epsilon=1.0)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerBusy, match=r"locked by another process for 0.01 s"):
            charge(account, 0.1)
        assert account.spent() == (0.0, 0.0)
        other.execute("COMMIT")
        charge(account, 0.1)
        other.close()


class TestAccounts:
    def test_opened_and_opened_again(self, ledger: Ledger) -> None:
        first = ledger.account("patients", epsilon=3.0, delta=1e-6)
        before = ledger.head()
        for again in (
            ledger.account("patients"),
            ledger.account("patients", 3.0, 1e-6),
            ledger.account("patients", source="patients"),
        ):
            assert again == first
            assert hash(again) == hash(first)
        assert ledger.head() == before
        assert first.name == "patients"
        assert first.ledger is ledger

    def test_the_entry_says_what_was_agreed(self, ledger: Ledger) -> None:
        account = ledger.account(
            "visits",
            epsilon=1.0,
            delta=1e-6,
            neighbours="add-remove",
            unit="person",
            composition="gaussian",
            reserved_delta=1e-7,
            source="postgresql://db/visits",
        )
        (entry,) = account.entries()
        assert (entry.position, entry.account, entry.kind) == (1, "visits", "open")
        assert entry.body == account.terms.to_dict()
        assert account.terms.budget.epsilon == 1
        assert account.terms.budget.reserved_delta == Fraction(1, 10**7)
        assert (account.terms.neighbours, account.terms.unit) == ("add-remove", "person")
        assert account.terms.budget.composition == "gaussian"
        assert account.terms.source == "postgresql://db:5432/visits"

    def test_all_accounts_by_name(self, ledger: Ledger) -> None:
        assert ledger.accounts() == []
        names = ["b", "a", "c"]
        opened = [ledger.account(name, epsilon=1.0) for name in names]
        assert ledger.accounts() == [opened[1], opened[0], opened[2]]

    def test_accounts_of_two_ledgers_differ(self, ledger: Ledger, folder: Path) -> None:
        first, second = ledger.account("a", epsilon=1.0), Ledger(folder / "other.db").account("a", epsilon=1.0)
        assert first != second
        assert hash(first) != hash(second)
        assert first != ledger.account("b", epsilon=1.0)
        assert first != "a"

    @pytest.mark.parametrize(
        ("terms", "named"),
        [
            ({"epsilon": 4.0, "delta": 1e-6}, "epsilon"),
            ({"epsilon": 3.0}, "delta"),
            ({"unit": "person"}, "unit"),
            ({"neighbours": "add-remove"}, "neighbours"),
            ({"composition": "gaussian"}, "composition"),
            ({"source": "other"}, "source"),
        ],
    )
    def test_never_with_other_terms_later(self, ledger: Ledger, account: Account, terms: Any, named: str) -> None:
        before = ledger.head()
        with pytest.raises(AccountMismatch, match=f"^Account 'patients' was opened with another {named}: it has ε = 3"):
            ledger.account("patients", **terms)
        assert ledger.head() == before

    def test_an_account_needs_a_budget_at_first(self, ledger: Ledger) -> None:
        with pytest.raises(UnknownAccount, match="The ledger has no account 'patients', and no budget was given"):
            ledger.account("patients")
        assert ledger.accounts() == []

    @pytest.mark.parametrize(
        "epsilon", [0.0, -1.0, 5e-324, 2.2250738585072009e-308, math.nan, math.inf, -math.inf, True, "1.0"]
    )
    def test_unusable_budgets_are_refused(self, ledger: Ledger, epsilon: Any) -> None:
        with pytest.raises(InvalidCost, match="epsilon must be a positive, finite, normal number"):
            ledger.account("patients", epsilon=epsilon)
        assert ledger.accounts() == []

    @pytest.mark.parametrize("name", ["", "  ", None, 5, b"patients"])
    def test_an_account_has_a_name(self, ledger: Ledger, name: Any) -> None:
        with pytest.raises(InvalidParameter) as caught:
            ledger.account(name, epsilon=1.0)
        assert caught.value.problem == "An account needs a name."
        assert caught.value.remedy == "Use for example 'patients-2026'."

    @pytest.mark.parametrize("name", ["a\0b", "\ud800", "a\udfff"])
    def test_names_that_cannot_be_stored(self, ledger: Ledger, name: str) -> None:
        with pytest.raises(InvalidParameter) as caught:
            ledger.account(name, epsilon=1.0)
        assert caught.value.problem == "name must be text that can be stored."
        assert caught.value.remedy == "Use letters, figures and signs."

    def test_names_have_an_end(self, ledger: Ledger) -> None:
        assert ledger.account("x" * 256, epsilon=1.0).terms.source == "x" * 256
        with pytest.raises(InvalidParameter) as caught:
            ledger.account("x" * 257, epsilon=1.0)
        assert caught.value.problem == "An account's name has at most 256 letters."
        assert caught.value.remedy == "Use a shorter one."

    @pytest.mark.parametrize("name", ["a\nb", "\ue000", "a\x1b[2J", "a\u202eb", "a\u200bb", " a", "e\u0301"])
    def test_names_that_could_forge_a_line_open_no_account(self, ledger: Ledger, name: str) -> None:
        before = ledger.head()
        with pytest.raises(InvalidParameter, match=r"^The name of an account has .*Use plain text"):
            ledger.account(name, epsilon=1.0)
        assert ledger.head() == before

    def test_an_account_that_an_older_version_opened_under_such_a_name_still_pays(
        self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as older:
            older.setattr("sudare.privacy.ledger.name_fault", lambda name: None)
            ledger.account("a\nb", epsilon=1.0)
        account = ledger.account("a\nb")
        charge(account, 0.25)
        assert account.remaining() == (0.75, 0.0)
        ledger.verify()

    @pytest.mark.parametrize("name", ["Ärzte 2026", "患者", "it's; DROP TABLE entries--", "😀", "%s", "[bold]"])
    def test_odd_names(self, ledger: Ledger, name: str) -> None:
        account = ledger.account(name, epsilon=1.0)
        charge(account, 0.25)
        assert account.remaining() == (0.75, 0.0)
        assert ledger.accounts() == [account]
        assert ledger.verify([charge(account, 0.25).receipt]).position == 3

    def test_one_source_has_one_account(self, ledger: Ledger, account: Account) -> None:
        before = ledger.head()
        for name, source in (("second", "patients"), ("second", " patients "), ("second", "Ｐatients")):
            with pytest.raises(SourceTaken) as caught:
                ledger.account(name, epsilon=1.0, source=source)
            assert caught.value.problem == f"The source of account '{name}' is bound to account 'patients' already."
            assert caught.value.remedy == SourceTaken.help
        assert ledger.head() == before

    def test_no_account_looks_like_another(self, ledger: Ledger, account: Account) -> None:
        before = ledger.head()
        for name in ("Patients", "PATIENTS", "Ｐatients"):
            with pytest.raises(SourceTaken) as caught:
                ledger.account(name, epsilon=1.0, source="something else")
            assert caught.value.problem == (
                f"An account '{name}' could be mistaken for the account 'patients' that there is."
            )
            assert caught.value.remedy == "Use the account there is, or a name that does not look like it."
        with pytest.raises(InvalidParameter, match=r"^A word of an account's name mixes letters of CYRILLIC and LATIN"):
            ledger.account("раtients", epsilon=1.0, source="something else")
        assert ledger.head() == before

    def test_two_spellings_of_a_path_are_one_source(
        self, ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (folder / "table.csv").write_text("x")
        (folder / "link.csv").symlink_to(folder / "table.csv")
        monkeypatch.chdir(folder)
        ledger.account("first", epsilon=1.0, source="table.csv")
        for spelling in ("./table.csv", str(folder / "table.csv"), Path("table.csv"), "link.csv"):
            with pytest.raises(SourceTaken):
                ledger.account("second", epsilon=1.0, source=spelling)
        with pytest.raises(SourceTaken):
            ledger.account("table.csv", epsilon=1.0)

    def test_an_account_whose_balance_is_gone_is_not_opened_afresh(self, account: Account, path: Path) -> None:
        charge(account, 3.0)
        with edited(path) as connection:
            connection.execute("DELETE FROM accounts")
        with pytest.raises(LedgerCorrupt) as caught:
            account.ledger.account("patients", epsilon=3.0, delta=1e-6)
        assert caught.value.problem == "Account 'patients' has entries but no balance any more."
        assert caught.value.remedy == LedgerCorrupt.help

    def test_unknown_accounts(self, ledger: Ledger) -> None:
        nobody = Account(ledger, "nobody")
        acts: list[Callable[[], object]] = [
            lambda: charge(nobody, 1.0),
            lambda: nobody.disclose("x", "y", 1),
            nobody.spent,
            nobody.remaining,
            lambda: nobody.terms,
            lambda: ledger.raise_budget("nobody", epsilon=1.0, reason="x"),
        ]
        for act in acts:
            with pytest.raises(UnknownAccount) as caught:
                act()
            assert caught.value.problem == "The ledger has no account 'nobody'."
            assert caught.value.remedy == UnknownAccount.help
        assert nobody.entries() == []
        assert ledger.head().position == 0


class TestCharging:
    def test_a_charge_is_entered_with_what_it_was_for(self, account: Account) -> None:
        charged = account.charge(Guarantee(1.0), pure_cost(1.0), "PrivateMean", "a first look")
        (_, entry) = account.entries()
        assert charged == Charged(Receipt(account.ledger.identity, 2, entry.hash, "patients"), Guarantee(1.0))
        assert entry.kind == "charge"
        assert entry.account == "patients"
        assert entry.body == {
            "what": "PrivateMean",
            "purpose": "a first look",
            "cost": pure_cost(1.0).to_dict(),
            "guarantee": Guarantee(1.0).to_dict(),
            "nonce": entry.body["nonce"],
        }
        assert re.fullmatch("[0-9a-f]{32}", entry.body["nonce"])
        assert account.ledger.head() == Head(account.ledger.identity, 2, entry.hash)
        assert account.ledger.contains(charged.receipt)

    def test_what_was_paid_under_a_mark_is_found_again(self, account: Account) -> None:
        """And nothing else is: another mark, learner or price; a disclosure has none."""
        asked = Guarantee(0.25), pure_cost(0.25)
        assert account.receipt_of(*asked, "a fit", "run 1") is None
        account.charge(*asked, "a fit", "run 0")
        charged = account.charge(*asked, "a fit", "run 1")
        account.disclose("run 1", towards="the members", numbers=1, purpose="run 1")
        entries = account.entries()
        assert account.receipt_of(*asked, "a fit", "run 1") == charged.receipt
        assert account.receipt_of(*asked, "a fit", "run 2") is None
        assert account.receipt_of(*asked, "another fit", "run 1") is None
        assert account.receipt_of(Guarantee(0.3), pure_cost(0.3), "a fit", "run 1") is None
        assert account.entries() == entries

    def test_what_was_paid_in_another_relation_is_found_as_it_was_entered(self, account: Account) -> None:
        asked = Guarantee(0.25, neighbours="add-remove"), pure_cost(0.25)
        charged = account.charge(*asked, "a fit", "run 3")
        assert charged.guarantee == Guarantee(0.5)
        assert account.receipt_of(*asked, "a fit", "run 3") == charged.receipt
        assert account.ledger.promised(charged.receipt) == Guarantee(0.5)

    def test_ten_tenths_fill_one(self, ledger: Ledger) -> None:
        account = ledger.account("p", epsilon=1.0)
        for _ in range(10):
            charge(account, 0.1)
        assert account.spent() == Amount(1.0, 0.0)
        assert account.remaining() == Amount(0.0, 0.0)
        with pytest.raises(BudgetExceeded):
            charge(account, 1e-300)
        assert len(account.entries()) == 11

    def test_a_tenth_and_two_tenths_fill_three_tenths(self, ledger: Ledger) -> None:
        account = ledger.account("p", epsilon=0.3)
        charge(account, 0.1)
        charge(account, 0.2)
        assert account.remaining() == (0.0, 0.0)

    def test_spent_and_remaining(self, account: Account) -> None:
        assert account.spent() == (0.0, 0.0)
        assert account.remaining() == (3.0, 1e-6)
        charge(account, 1.0, 1e-7)
        assert account.spent() == Amount(epsilon=1.0, delta=1e-7)
        assert account.remaining() == Amount(epsilon=2.0, delta=9e-7)

    def test_too_much_is_refused_and_changes_nothing(self, account: Account) -> None:
        charge(account, 1.0)
        before = account.ledger.head()
        with pytest.raises(BudgetExceeded) as caught:
            account.charge(Guarantee(5.0), pure_cost(5.0), "this fit")
        assert caught.value.problem == "this fit asks for ε = 5 of account 'patients'; 2 of 3 is left."
        assert caught.value.remedy == (
            "Use epsilon <= 2, or have the steward raise the budget (`sudare budget raise patients --epsilon … --reason …`). "
            "Nothing was computed or spent."
        )
        assert account.ledger.head() == before
        assert account.spent() == (1.0, 0.0)

    def test_what_is_left_is_rounded_down_and_what_is_asked_up(self, ledger: Ledger) -> None:
        account = ledger.account("it's ours", epsilon=2.0)
        charge(account, 1.3333333333)
        with pytest.raises(BudgetExceeded) as caught:
            charge(account, 0.7777777777)
        assert str(caught.value) == (
            "a test asks for ε = 0.777778 of account 'it's ours'; 0.666666 of 2 is left. "
            "Use epsilon <= 0.666666, or have the steward raise the budget "
            "(`sudare budget raise 'it'\"'\"'s ours' --epsilon … --reason …`). Nothing was computed or spent."
        )
        charge(account, 0.666666)

    def test_delta_is_spoken_of_when_it_was_asked_for(self, account: Account) -> None:
        charge(account, 1.0, 4e-7)
        with pytest.raises(BudgetExceeded) as caught:
            charge(account, 5.0, 6e-7)
        assert caught.value.problem == (
            "a test asks for ε = 5, δ = 6e-07 of account 'patients'; 2 of 3, δ 6e-07 of 1e-06, is left."
        )
        assert caught.value.remedy.startswith("Use epsilon <= 2 at delta = 6e-07, or have the steward raise the budget")
        with pytest.raises(BudgetExceeded) as caught:
            charge(account, 1.0, 7e-7)
        assert caught.value.remedy.startswith("Use delta <= 6e-07, or have the steward raise the budget")
        assert "--delta … --reason" in caught.value.remedy
        charge(account, 1.0, 6e-7)

    def test_an_account_without_delta_asks_for_none(self, ledger: Ledger) -> None:
        with pytest.raises(BudgetExceeded) as caught:
            charge(ledger.account("pure", epsilon=3.0), 1.0, 1e-6)
        assert caught.value.remedy.startswith("Use delta = 0, or have the steward raise the budget")

    def test_when_nothing_is_left_only_the_steward_can_help(self, account: Account) -> None:
        charge(account, 3.0)
        with pytest.raises(BudgetExceeded) as caught:
            charge(account, 1.0)
        assert caught.value.problem == "a test asks for ε = 1 of account 'patients'; 0 of 3 is left."
        raising = "sudare budget raise patients --epsilon … --reason …"
        assert caught.value.remedy.startswith(f"Have the steward raise the budget (`{raising}`).")

    def test_when_nothing_is_left_at_all_delta_does_not_help(self, account: Account) -> None:
        charge(account, 3.0, 4e-7)
        with pytest.raises(BudgetExceeded) as caught:
            charge(account, 1.0, 6e-7)
        assert caught.value.remedy.startswith("Have the steward")

    def test_advice_in_the_relation_that_was_asked_for(self, account: Account) -> None:
        with pytest.raises(BudgetExceeded) as caught:
            charge(account, 2.0, neighbours="add-remove")
        assert (
            caught.value.problem
            == "a test asks for ε = 4 of account 'patients' (it counts replaced records, which are two steps); 3 of 3 is left."
        )
        assert caught.value.remedy.startswith("Use epsilon <= 1.5, or have")
        charge(account, 1.5, neighbours="add-remove")

    def test_advice_with_gaussian_composition_can_be_followed(self, ledger: Ledger) -> None:
        account = ledger.account("g", epsilon=1.0, delta=1e-6, composition="gaussian")
        charge_gaussian(account, 0.5, 1e-6)
        with pytest.raises(BudgetExceeded) as caught:
            charge(account, 1.0)
        advised = re.match(r"Use epsilon <= (\S+), or have", caught.value.remedy)
        assert advised is not None
        with pytest.raises(BudgetExceeded):
            charge(account, float(advised[1]) * 1.001)
        charge(account, float(advised[1]))

    def test_gaussian_composition_without_room_for_delta_says_what_is_reserved(self, ledger: Ledger) -> None:
        account = ledger.account("g", epsilon=1.0, delta=1e-6, composition="gaussian")
        with pytest.raises(BudgetExceeded) as caught:
            charge(account, 0.1, 1e-6)
        assert caught.value.remedy.startswith("Of the account's δ 9.53675e-13 is reserved for what is not Gaussian")

    @pytest.mark.parametrize("text", ["a\nb", "a\x1b[2J", "a\u202eb", "x" * 1025])
    def test_texts_that_could_forge_a_line_are_not_entered(self, account: Account, text: str) -> None:
        before = account.ledger.head()
        for name, arguments in (("what", (text, "")), ("purpose", ("x", text))):
            with pytest.raises(InvalidParameter, match=rf"^{name} (has a control|is longer).*Say it in one line"):
                account.charge(Guarantee(1.0), pure_cost(1.0), *arguments)
        assert account.ledger.head() == before

    @pytest.mark.parametrize("text", [None, 5, b"x", "\0", "\ud800"])
    def test_texts_are_checked_before_anything_is_entered(self, account: Account, text: Any) -> None:
        before = account.ledger.head()
        for name, arguments in (("what", (text, "")), ("purpose", ("x", text))):
            with pytest.raises(InvalidParameter) as caught:
                account.charge(Guarantee(1.0), pure_cost(1.0), *arguments)
            assert caught.value.problem == f"{name} must be text that can be stored."
        assert account.ledger.head() == before

    @pytest.mark.parametrize("epsilon", [5e-324, -1.0, 0.0, math.nan, math.inf, True])
    def test_unusable_epsilons_cannot_even_be_stated(self, epsilon: Any) -> None:
        with pytest.raises(InvalidCost):
            pure_cost(epsilon)
        with pytest.raises(InvalidCost):
            Guarantee(epsilon)

    @pytest.mark.parametrize(
        ("guarantee", "cost"),
        [
            (Guarantee(1.0), pure_cost(0.001)),
            (Guarantee(0.001), pure_cost(1.0)),
            (Guarantee(1.0, 1e-6), pure_cost(1.0)),
            (Guarantee(1.0), approximate_cost(1.0, 1e-7)),
        ],
    )
    def test_what_is_paid_is_what_is_promised(self, account: Account, guarantee: Guarantee, cost: Any) -> None:
        for act in (lambda: account.charge(guarantee, cost, "x"), lambda: account.quote(guarantee, cost)):
            with pytest.raises(InvalidCost) as caught:
                act()
            assert caught.value.problem == "The cost of a charge is not the (epsilon, delta) of its guarantee."
            assert caught.value.remedy == "State what the cost pays for."
        assert account.spent() == (0.0, 0.0)

    def test_what_promises_nothing_cannot_be_charged(self, account: Account) -> None:
        with pytest.raises(InvalidCost) as caught:
            account.charge(Guarantee.none("B"), pure_cost(1.0), "x")
        assert caught.value.problem == "What has no guarantee cannot be charged."
        assert caught.value.remedy == "Enter it with Account.disclose."

    def test_what_is_not_valid_cannot_be_charged_or_quoted(self, account: Account) -> None:
        void, before = Guarantee(1.0, valid=False), account.entries()
        for act in (lambda: account.charge(void, pure_cost(1.0), "x"), lambda: account.quote(void, pure_cost(1.0))):
            with pytest.raises(InvalidCost) as caught:
                act()
            assert caught.value.problem == (
                "A guarantee that is not valid cannot be charged: what it pays for could never leave."
            )
            assert caught.value.remedy == "Declare classes and bounds by public knowledge, and give no seed."
        assert account.entries() == before

    def test_a_charge_is_found_again_for_the_same_guarantee_only(self, account: Account) -> None:
        record, cost = Guarantee(1.0), pure_cost(1.0)
        receipt = account.charge(record, cost, "x", "run 1").receipt
        assert account.receipt_of(record, cost, "x", "run 1") == receipt
        for other in (Guarantee(1.0, unit="person"), Guarantee(1.0, notion="local"), Guarantee(1.0, towards="B")):
            assert account.receipt_of(other, cost, "x", "run 1") is None

    def test_what_protects_parameters_cannot_be_charged(self, account: Account) -> None:
        with pytest.raises(InvalidCost) as caught:
            charge(account, 1.0, notion="parameter")
        assert caught.value.problem == "A guarantee about parameters says nothing about the records of an account."
        assert caught.value.remedy == "Charge the guarantee that follows from it for a record."
        charge(account, 1.0, notion="local")

    def test_a_balance_that_was_tampered_with_takes_no_more_entries(self, account: Account, path: Path) -> None:
        charge(account, 1.0)
        with edited(path) as connection:
            connection.execute("""UPDATE accounts SET state = replace(state, '"epsilon":"1"', '"epsilon":"9"')""")
        assert account.spent() == (9.0, 0.0)
        with pytest.raises(BudgetExceeded) as caught:
            account.disclose("sums", "the members", 1)
        assert caught.value.problem == "Account 'patients' does not have that much left."
        assert caught.value.remedy == BudgetExceeded.help

    def test_a_purpose_need_not_be_given(self, account: Account) -> None:
        charge(account, 1.0)
        assert account.entries()[-1].body["purpose"] == ""

    def test_add_remove_is_charged_twice_to_a_replace_one_account(self, account: Account) -> None:
        charged = charge(account, 0.3, 1e-8, neighbours="add-remove")
        assert charged.guarantee == Guarantee(0.3, 1e-8, neighbours="add-remove").to("replace-one")
        assert account.spent().epsilon == 0.6
        assert account.spent().delta == charged.guarantee.delta
        assert account.entries()[-1].body["guarantee"] == charged.guarantee.to_dict()

    def test_a_gaussian_guarantee_is_stated_as_it_was_paid(self, account: Account) -> None:
        cost = gaussian_cost(0.3, 1e-8)
        charged = account.charge(Guarantee(0.3, 1e-8, neighbours="add-remove", towards="B"), cost, "x")
        paid = cost.for_group(2)
        assert charged.guarantee == Guarantee(0.6, decimal_up(paid.delta), towards="B")
        assert account.spent() == (0.6, charged.guarantee.delta)

    def test_add_remove_without_a_replace_one_guarantee_is_refused(self, account: Account) -> None:
        with pytest.raises(InvalidCost, match="A group of 2 at epsilon = 800, delta = 1e-06 has no guarantee left"):
            charge(account, 800.0, 1e-6, neighbours="add-remove")

    def test_replace_one_cannot_be_charged_to_an_add_remove_account(self, ledger: Ledger) -> None:
        account = ledger.account("p", epsilon=1.0, neighbours="add-remove")
        with pytest.raises(RelationMismatch, match="says nothing about add/remove") as caught:
            charge(account, 0.1)
        assert caught.value.remedy.startswith('Use neighbours="add-remove"')
        with pytest.raises(RelationMismatch, match="says nothing about add/remove"):
            account.check_relation("replace-one", "record")
        account.check_relation("add-remove", "record")
        charge(account, 0.1, neighbours="add-remove")
        assert account.spent() == (0.1, 0.0)

    def test_persons_and_records(self, ledger: Ledger) -> None:
        persons = ledger.account("p", epsilon=1.0, unit="person")
        with pytest.raises(RelationMismatch) as caught:
            charge(persons, 0.1)
        assert caught.value.problem == "Account 'p' protects persons, the guarantee only records."
        assert caught.value.remedy.startswith("Declare in the schema who a row belongs to: a section [person]")
        with pytest.raises(RelationMismatch, match=r"^Account 'p' protects persons"):
            persons.quote(Guarantee(0.1), pure_cost(0.1))
        charge(persons, 0.1, unit="person")
        charge(ledger.account("r", epsilon=1.0), 0.1, unit="person")

    def test_gaussian_charges_compose(self, ledger: Ledger) -> None:
        account = ledger.account("g", epsilon=1.0, delta=1e-6, composition="gaussian")
        for _ in range(50):
            charge_gaussian(account, 0.1, 1e-6)
        mu = gaussian_mu_within(0.1, 1e-6) * math.sqrt(50)
        left = float(account.terms.budget.delta - account.terms.budget.reserved_delta)
        assert account.spent().epsilon == pytest.approx(gaussian_epsilon(mu, left), rel=1e-9)
        assert account.spent().epsilon < 0.82
        assert ledger.verify().position == 51

    def test_a_basic_account_takes_large_epsilons(self, ledger: Ledger) -> None:
        account = ledger.account("p", epsilon=1000.0)
        charge(account, 500.0)
        charge(account, 500.0)
        assert account.remaining() == (0.0, 0.0)
        assert ledger.verify().position == 3


class TestQuote:
    def test_a_quote_tells_and_changes_nothing(self, account: Account) -> None:
        charge(account, 1.0, 1e-7)
        before = account.ledger.head()
        assert account.quote(Guarantee(0.5, 2e-7), approximate_cost(0.5, 2e-7)) == Quote(
            asked=Amount(0.5, 2e-7), left_before=Amount(2.0, 9e-7), left_after=Amount(1.5, 7e-7), admitted=True
        )
        assert account.quote(Guarantee(2.1), pure_cost(2.1)) == Quote(
            asked=Amount(2.1, 0.0), left_before=Amount(2.0, 9e-7), left_after=Amount(0.0, 9e-7), admitted=False
        )
        assert account.ledger.head() == before

    def test_a_quote_is_in_the_accounts_relation(self, account: Account) -> None:
        quote = account.quote(Guarantee(0.5, neighbours="add-remove"), pure_cost(0.5))
        assert quote.asked == Amount(1.0, 0.0)
        assert quote.left_after == Amount(2.0, 1e-6)

    def test_a_quote_beyond_all_floats(self, ledger: Ledger) -> None:
        account = ledger.account("p", epsilon=1e308)
        charge(account, 1e308)
        assert not account.quote(Guarantee(1e308), pure_cost(1e308)).admitted


EVENT: dict[str, Any] = {"who": "sato", "what": "a mean of 'visits'", "purpose": "a talk", "digest": "0" * 64}


class TestRequests:
    def test_an_event_is_entered_and_changes_no_balance(self, account: Account) -> None:
        receipt = account.enter_request("1a2b", 1, "asked", **EVENT)
        entry = account.entries()[-1]
        assert receipt == Receipt(account.ledger.identity, 2, entry.hash, "patients")
        assert entry.kind == "request"
        assert entry.body == {"request": "1a2b", "version": 1, "event": "asked", **EVENT}
        assert account.spent() == (0.0, 0.0)
        assert account.ledger.verify([receipt]).position == 2

    def test_the_same_event_is_entered_once(self, account: Account) -> None:
        account.disclose("sums", "the members", 1)
        first = account.enter_request("1a2b", 1, "approved", **EVENT)
        assert account.enter_request("1a2b", 1, "approved", **{**EVENT, "purpose": "again"}) == first
        others = [("1a2c", 1, "approved", EVENT), ("1a2b", 2, "approved", EVENT), ("1a2b", 1, "denied", EVENT)]
        others.append(("1a2b", 1, "approved", {**EVENT, "who": "mori"}))
        positions = [
            account.enter_request(name, version, event, **told).position for name, version, event, told in others
        ]
        assert positions == [4, 5, 6, 7]
        account.ledger.verify()

    def test_texts_that_cannot_be_shown_are_refused(self, account: Account) -> None:
        with pytest.raises(InvalidParameter, match="who has a control character"):
            account.enter_request("1a2b", 1, "asked", **{**EVENT, "who": "sa\nto"})
        assert len(account.entries()) == 1

    def test_of_a_request_anything_else_is_refused(self, path: Path) -> None:
        for body in (
            {},
            {"request": "1a2b", "version": "1", "event": "asked", **EVENT},
            {"request": 1, "version": 1, "event": "asked", **EVENT},
        ):
            ledger = Ledger(path.with_name(f"{len(str(body))}.db"))
            ledger.account("a", epsilon=1.0)
            with pytest.raises(ValueError, match="not an event of a request"), ledger._writing() as (connection, head):
                ledger._append(
                    connection,
                    head,
                    "a",
                    AccountState.from_text(cast("str", tables.account_state(connection, "a"))),
                    "request",
                    body,
                )

    def test_a_charge_is_gone_on_with_until_something_was_computed_for_it(self, account: Account) -> None:
        paid = (Guarantee(0.5), pure_cost(0.5), "PrivateMean", "a mark")
        assert account.begun(*paid) is None
        charged = account.charge(*paid)
        assert account.begun(*paid) == charged
        assert account.begun(*paid[:3], "another mark") is None
        compute(account.ledger, charged.receipt, "c" * 64)
        assert account.begun(*paid) is None


class TestDisclosing:
    def test_a_disclosure_is_entered(self, account: Account) -> None:
        receipt = account.disclose("sums", towards="the members", numbers=7, purpose="a sum")
        entry = account.entries()[-1]
        assert receipt == Receipt(account.ledger.identity, 2, entry.hash, "patients")
        assert entry.kind == "disclosure"
        assert entry.body == {
            "what": "sums",
            "purpose": "a sum",
            "numbers": 7,
            "guarantee": Guarantee.none("the members").to_dict(),
            "nonce": entry.body["nonce"],
        }
        assert re.fullmatch("[0-9a-f]{32}", entry.body["nonce"])
        assert account.disclose("sums", "the members", 1).position == 3
        assert account.entries()[-1].body["purpose"] == ""
        assert account.spent() == (0.0, 0.0)

    @pytest.mark.parametrize("numbers", [0, -1, 1.0, True, None])
    def test_at_least_one_number_is_shown(self, account: Account, numbers: Any) -> None:
        with pytest.raises(InvalidParameter) as caught:
            account.disclose("sums", "the members", numbers)
        assert caught.value.problem == f"A disclosure shows at least one number, got {numbers!r}."
        assert caught.value.remedy == "Count the values that leave."

    @pytest.mark.parametrize("name", ["what", "towards", "purpose"])
    def test_texts_are_checked(self, account: Account, name: str) -> None:
        texts = {"what": "sums", "towards": "the members", "purpose": "", name: "\0"}
        with pytest.raises(InvalidParameter, match=f"^{name} must be text"):
            account.disclose(numbers=1, **texts)
        with pytest.raises(InvalidCost, match="names towards whom"):
            account.disclose("sums", "", 1)


class TestReleasing:
    def test_one_charge_pays_for_one_content(self, account: Account) -> None:
        ledger = account.ledger
        receipt = charge(account, 1.0).receipt
        assert ledger.result_of(receipt) is None
        assert ledger.released_content(receipt) is None
        with pytest.raises(NotCharged) as caught:
            ledger.enter_release(receipt, "c" * 64)
        assert caught.value.problem == "This is not what was computed for the charge behind this release."
        assert caught.value.remedy == NotCharged.help
        compute(ledger, receipt, "c" * 64)
        ledger.enter_release(receipt, "c" * 64)
        result, entry = account.entries()[-2:]
        computed = {"learner": "PrivateMean", "content": "c" * 64, "seal": "5" * 64}
        assert (result.kind, result.body) == ("result", {"charge": 2, **computed})
        assert ledger.result_of(receipt) == Result(**computed)
        assert (entry.kind, entry.body) == ("release", {"charge": 2, "content": "c" * 64})
        assert ledger.released_content(receipt) == "c" * 64
        before = ledger.head()
        release(ledger, receipt, "c" * 64)
        assert ledger.head() == before
        with pytest.raises(NotCharged, match=r"^This is not what was computed"):
            ledger.enter_release(receipt, "d" * 64)
        with pytest.raises(NotCharged) as caught:
            compute(ledger, receipt, "d" * 64)
        assert caught.value.problem == "The charge behind this fit has paid for another result already."
        assert caught.value.remedy == "Release that one, or refit: every fit is charged."
        second = charge(account, 1.0).receipt
        release(ledger, second, "d" * 64)
        assert ledger.verify([receipt, second]).position == 7

    def test_a_result_is_entered_for_its_own_guarantee_only(self, account: Account) -> None:
        receipt = charge(account, 1.0).receipt
        shown = account.disclose("x", "y", 1)
        result = Result("PrivateMean", "c" * 64, "5" * 64)
        for wrong, guarantee in ((receipt, Guarantee(0.5)), (shown, Guarantee.none("y")), (shown, Guarantee(1.0))):
            with pytest.raises(NotCharged) as caught:
                account.ledger._enter_result(wrong, guarantee, result)
            assert caught.value.problem == "The ledger does not have the charge that this fit's receipt names."
            assert caught.value.remedy == NotCharged.help

    def test_a_receipt_must_be_of_a_charge_that_is_there(self, account: Account, ledger: Ledger) -> None:
        receipt = charge(account, 1.0).receipt
        ledger.account("other", epsilon=1.0)
        opening = ledger.entries()[1]
        for wrong in (
            Receipt("f" * 32, receipt.position, receipt.hash, "patients"),
            Receipt(ledger.identity, 9, receipt.hash, "patients"),
            Receipt(ledger.identity, receipt.position, "f" * 64, "patients"),
            Receipt(ledger.identity, receipt.position, receipt.hash, "other"),
            Receipt(ledger.identity, 1, opening.hash, "patients"),
            account.disclose("x", "y", 1),
        ):
            with pytest.raises(NotCharged) as caught:
                ledger.enter_release(wrong, "c" * 64)
            assert caught.value.problem == "The ledger does not have the charge that this release's receipt names."
            assert caught.value.remedy == NotCharged.help
            assert ledger.promised(wrong) is None
            assert ledger.result_of(wrong) is None
            assert ledger.released_content(wrong) is None
            if wrong.hash not in {entry.hash for entry in ledger.entries()}:
                assert not ledger.contains(wrong)
        assert ledger.contains(receipt)
        assert ledger.promised(receipt) == Guarantee(1.0)


class TestRaising:
    def test_a_raise_is_recorded_with_its_reason(self, account: Account) -> None:
        charge(account, 3.0)
        account.ledger.raise_budget("patients", epsilon=4.0, reason="a second study")
        entry = account.entries()[-1]
        assert entry.kind == "raise"
        assert entry.body == {**account.terms.to_dict(), "reason": "a second study"}
        assert account.terms.budget.epsilon == 4
        assert account.terms.budget.delta == exact(1e-6)
        assert account.remaining() == (1.0, 1e-6)
        account.ledger.raise_budget("patients", delta=1e-5, reason="more")
        assert account.terms.budget.delta == exact(1e-5)
        assert account.terms.budget.epsilon == 4
        charge(account, 1.0)
        assert account.ledger.verify().position == 5

    def test_the_old_budget_is_another_one_then(self, account: Account) -> None:
        account.ledger.raise_budget("patients", epsilon=4.0, reason="x")
        with pytest.raises(AccountMismatch):
            account.ledger.account("patients", epsilon=3.0, delta=1e-6)
        assert account.ledger.account("patients", epsilon=4.0, delta=1e-6) == account

    @pytest.mark.parametrize(
        "budget",
        [{}, {"epsilon": 3.0}, {"epsilon": 2.9}, {"delta": 1e-6}, {"delta": 0.0}, {"epsilon": 4.0, "delta": 1e-7}],
    )
    def test_only_upwards(self, account: Account, budget: dict[str, float]) -> None:
        before = account.ledger.head()
        with pytest.raises(InvalidParameter) as caught:
            account.ledger.raise_budget("patients", **budget, reason="x")
        assert caught.value.problem == "A budget can only be raised: account 'patients' has ε = 3, δ = 1e-06."
        assert caught.value.remedy == "Give a larger epsilon or delta."
        assert account.ledger.head() == before

    @pytest.mark.parametrize("reason", ["", " ", None, "\0"])
    def test_a_reason_is_needed(self, account: Account, reason: Any) -> None:
        with pytest.raises(InvalidParameter, match="reason"):
            account.ledger.raise_budget("patients", epsilon=4.0, reason=reason)
        with pytest.raises(InvalidParameter) as caught:
            account.ledger.raise_budget("patients", epsilon=4.0, reason=" ")
        assert caught.value.problem == "Raising a budget needs a reason."
        assert caught.value.remedy == "Say why in a sentence; it stays in the ledger."

    @pytest.mark.parametrize("budget", [{"epsilon": math.inf}, {"epsilon": True}, {"delta": 1.0}, {"delta": math.nan}])
    def test_unusable_numbers_are_refused(self, account: Account, budget: dict[str, float]) -> None:
        with pytest.raises(InvalidCost):
            account.ledger.raise_budget("patients", **budget, reason="x")

    def test_a_raise_may_not_make_a_full_reserve_overflow(self, ledger: Ledger) -> None:
        account = ledger.account("g", epsilon=1.0, delta=1e-6, composition="gaussian", reserved_delta=1e-9)
        # (1 + e)·2⁻³² is within 1e-9, (1 + e²)·2⁻³² is not.
        cost = gaussian_cost(0.1, 1e-3, Fraction(1, 2**32))
        account.charge(Guarantee(0.1, 1e-3), cost, "a sampler that is not so close")
        before = ledger.head()
        with pytest.raises(InvalidParameter) as caught:
            ledger.raise_budget("g", epsilon=2.0, reason="x")
        assert caught.value.problem == (
            "At that ε the reserved δ of account 'g' does not cover the noise it has paid for."
        )
        assert caught.value.remedy == "Raise ε by less, or delta only."
        assert ledger.head() == before
        ledger.raise_budget("g", delta=1e-5, reason="x")
        assert ledger.verify().position == 3


class TestClosing:
    def test_a_closed_account_pays_for_nothing_any_more(self, account: Account) -> None:
        charged = charge(account, 1.0)
        account.ledger.close_account("patients", reason="the study has ended")
        entry = account.entries()[-1]
        assert (entry.kind, entry.body) == ("close", {"reason": "the study has ended"})
        assert account.spent() == (1.0, 0.0)
        assert account.remaining() == (0.0, 0.0)
        assert not account.quote(Guarantee(0.1), pure_cost(0.1)).admitted
        before = account.ledger.head()
        for refused in (
            lambda: charge(account, 0.1),
            lambda: account.disclose("sums", "the members", 1),
            lambda: account.ledger.raise_budget("patients", epsilon=9.0, reason="x"),
            lambda: account.ledger.close_account("patients", reason="again"),
        ):
            with pytest.raises(BudgetError, match="Account 'patients' was closed by the steward") as raised:
                refused()
            assert type(raised.value) is BudgetError
        assert account.ledger.head() == before
        # What was paid for before may still leave, and requests may be denied.
        compute(account.ledger, charged.receipt, "c" * 64)
        release(account.ledger, charged.receipt, "c" * 64)
        account.enter_request("1a2b", 1, "denied", **EVENT)
        assert account.ledger.verify().position == before.position + 3
        assert account.ledger.account("patients") == account

    @pytest.mark.parametrize("reason", ["", "  ", "two\nlines"])
    def test_closing_needs_a_reason(self, account: Account, reason: str) -> None:
        with pytest.raises(InvalidParameter):
            account.ledger.close_account("patients", reason=reason)
        assert len(account.entries()) == 1

    def test_an_account_that_is_not_there_cannot_be_closed(self, ledger: Ledger) -> None:
        with pytest.raises(UnknownAccount):
            ledger.close_account("nobody", reason="x")

    @pytest.mark.parametrize("body", [{}, {"reason": 1}, {"reason": "x", "more": "y"}])
    def test_of_a_closing_anything_else_is_refused(self, account: Account, body: dict[str, Any]) -> None:
        ledger, state = account.ledger, account.state()
        with pytest.raises(ValueError, match="not a closing"), ledger._writing() as (connection, head):
            ledger._append(connection, head, "patients", state, "close", body)

    def test_a_charge_after_the_closing_is_noticed(self, account: Account) -> None:
        ledger, state = account.ledger, account.state()
        ledger.close_account("patients", reason="x")
        body = {"what": "a", "purpose": "", "cost": pure_cost(0.1).to_dict(), "guarantee": Guarantee(0.1).to_dict()}
        with ledger._writing() as (connection, head):
            # As if somebody had put the balance from before the closing back.
            ledger._append(connection, head, "patients", state, "charge", {**body, "nonce": "n"})
        with pytest.raises(LedgerCorrupt, match="Entry 3 of the ledger cannot be read"):
            ledger.verify()


class TestVerifying:
    def test_an_untouched_ledger(self, path: Path) -> None:
        ledger, receipts = busy_ledger(path)
        heads = [Head(ledger.identity, entry.position, entry.hash) for entry in ledger.entries()]
        assert ledger.verify([*heads, *receipts]) == heads[-1] == ledger.head()
        assert len(heads) == 10
        assert {entry.kind for entry in ledger.entries()} == {
            "ledger",
            "open",
            "charge",
            "disclosure",
            "result",
            "release",
            "raise",
        }

    def test_every_edit_of_every_cell_is_noticed(self, path: Path) -> None:
        """Any other value in any column of any row: of the entries, the accounts and the head."""
        ledger, _ = busy_ledger(path)
        original = path.read_bytes()
        other = {"position": 77, "format": 0, "one": 2}
        edits = 0
        for table in ("entries", "accounts", "chain"):
            with edited(path) as connection:
                cursor = connection.execute(f"SELECT rowid, * FROM {table}")
                columns = [column[0] for column in cursor.description][1:]
                rows = cursor.fetchall()
            for row in rows:
                for column, value in zip(columns, row[1:], strict=True):
                    for new in [other[column]] if column in other else [value + " ", b"x"]:
                        path.write_bytes(original)
                        with edited(path) as connection:
                            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, row[0]))
                        with pytest.raises(LedgerError):
                            ledger.verify()
                        if table == "chain":
                            with pytest.raises(LedgerError):
                                Ledger(path).verify()
                        edits += 1
        assert edits > 120
        path.write_bytes(original)
        assert ledger.verify().position == 9

    @pytest.mark.parametrize("position", range(10))
    def test_a_deleted_entry_is_noticed(self, path: Path, position: int) -> None:
        ledger, _ = busy_ledger(path)
        with edited(path) as connection:
            connection.execute("DELETE FROM entries WHERE position = ?", (position,))
        with pytest.raises(LedgerCorrupt):
            ledger.verify()

    @pytest.mark.parametrize("table", ["accounts", "entries"])
    def test_deleted_rows_and_tables_are_noticed(self, path: Path, table: str) -> None:
        ledger, _ = busy_ledger(path)
        with edited(path) as connection:
            connection.execute(f"DELETE FROM {table}")
        with pytest.raises(LedgerCorrupt):
            ledger.verify()
        with edited(path) as connection:
            connection.execute(f"DROP TABLE {table}")
        with pytest.raises(LedgerCorrupt):
            ledger.verify()
        with pytest.raises(LedgerCorrupt):
            Ledger(path).verify()

    def test_a_dropped_head_is_noticed_and_not_made_anew(self, path: Path) -> None:
        ledger, _ = busy_ledger(path)
        with edited(path) as connection:
            connection.execute("DROP TABLE chain")
        with pytest.raises(LedgerMissing, match="The database holds no ledger"):
            ledger.verify()
        with pytest.raises(LedgerCorrupt, match="a part of a ledger's tables only"):
            Ledger(path)

    def test_swapped_entries_are_noticed(self, path: Path) -> None:
        ledger, _ = busy_ledger(path)
        original = path.read_bytes()
        for first in range(10):
            for second in range(first):
                path.write_bytes(original)
                with edited(path) as connection:
                    for old, new in ((first, -1), (second, first), (-1, second)):
                        connection.execute("UPDATE entries SET position = ? WHERE position = ?", (new, old))
                with pytest.raises(LedgerCorrupt):
                    ledger.verify()

    def test_an_extra_account_is_noticed(self, path: Path) -> None:
        ledger, _ = busy_ledger(path)
        with edited(path) as connection:
            connection.execute("INSERT INTO accounts SELECT 'free', 'free', state FROM accounts WHERE name = 'visits'")
        with pytest.raises(LedgerCorrupt) as caught:
            ledger.verify()
        assert caught.value.problem == "An account's balance is not what its entries add up to."
        assert caught.value.remedy == LedgerCorrupt.help

    def test_a_head_moved_back_is_noticed(self, path: Path) -> None:
        ledger, _ = busy_ledger(path)
        before = ledger.entries()[-2]
        with edited(path) as connection:
            connection.execute("UPDATE chain SET position = ?, hash = ?", (before.position, before.hash))
        with pytest.raises(LedgerCorrupt) as caught:
            ledger.verify()
        assert caught.value.problem == "The ledger's last entry is not the one its head names."
        assert caught.value.remedy == LedgerCorrupt.help
        with pytest.raises(LedgerCorrupt, match="refused the ledger's statement"):
            charge(ledger.account("patients"), 0.1)

    def test_another_identity_is_noticed(self, path: Path) -> None:
        ledger, _ = busy_ledger(path)
        with edited(path) as connection:
            connection.execute("UPDATE chain SET ledger = ?", ("f" * 32,))
        with pytest.raises(LedgerMissing, match="Another ledger stands where the one in use was"):
            ledger.verify()
        with pytest.raises(LedgerCorrupt) as caught:
            Ledger(path).verify()
        assert caught.value.problem == "The ledger's identity was changed."
        assert caught.value.remedy == LedgerCorrupt.help

    def test_an_emptied_ledger_is_noticed(self, path: Path) -> None:
        ledger, _ = busy_ledger(path)
        with edited(path) as connection:
            connection.execute("DELETE FROM entries")
            connection.execute("DELETE FROM accounts")
        with pytest.raises(LedgerCorrupt, match="last entry is not the one its head names"):
            ledger.verify()

    def test_a_rewritten_chain_that_overspends_is_noticed(self, path: Path) -> None:
        """Somebody who recomputes every hash must still keep the budget: entries are replayed."""
        ledger, _ = busy_ledger(path)
        rewrite_chain(path, lambda kind, body: {**body, "cost": pure_cost(9.0).to_dict()} if kind == "charge" else body)
        with pytest.raises(LedgerCorrupt, match="Entry 3 of the ledger overspends its account"):
            ledger.verify()

    def test_a_rewritten_chain_with_smaller_charges_does_not_match_the_balances(self, path: Path) -> None:
        ledger, _ = busy_ledger(path)
        rewrite_chain(path, lambda kind, body: {**body, "cost": pure_cost(0.1).to_dict()} if kind == "charge" else body)
        with pytest.raises(LedgerCorrupt, match="An account's balance is not what its entries add up to"):
            ledger.verify()

    def test_a_damaged_file_is_noticed(self, path: Path) -> None:
        ledger, _ = busy_ledger(path)
        with edited(path) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("DELETE FROM sqlite_master WHERE name = 'ix_entries_account'")
        with pytest.raises(LedgerCorrupt) as caught:
            ledger.verify()
        assert caught.value.problem == "The database file is damaged."
        assert caught.value.remedy == LedgerCorrupt.help


def rewrite_chain(path: Path, change: Callable[[str, dict[str, Any]], dict[str, Any]]) -> None:
    """Change entries and recompute every hash after them, as a forger who knows the format would."""
    from sudare.privacy.ledger_chain import Entry

    with edited(path) as connection:
        previous = "0" * 64
        for row in connection.execute("SELECT position, time, account, kind, body FROM entries ORDER BY 1").fetchall():
            body = change(row[3], json.loads(row[4]))
            entry = Entry(row[0], previous, row[1], row[2], row[3], body)
            previous = entry.computed_hash()
            connection.execute(
                "UPDATE entries SET previous = ?, body = ?, hash = ? WHERE position = ?",
                (entry.previous, canonical_json(body), previous, row[0]),
            )
        connection.execute("UPDATE chain SET hash = ?", (previous,))


class TestRollingBack:
    def test_an_older_copy_put_back_is_noticed_by_a_head(self, path: Path, folder: Path) -> None:
        ledger, receipts = busy_ledger(path)
        shutil.copy(path, folder / "old.db")
        account = ledger.account("patients")
        late = charge(account, 0.5).receipt
        head = ledger.head()
        shutil.copy(folder / "old.db", path)
        assert ledger.verify(receipts).position == 9
        for known in (head, late):
            with pytest.raises(LedgerRolledBack) as caught:
                ledger.verify([known])
            assert caught.value.problem == (
                "The ledger once confirmed entry 10, which it no longer has; its last is 9."
            )
        assert not ledger.contains(late)
        charge(account, 0.1)
        with pytest.raises(LedgerRolledBack, match="once confirmed entry 10"):
            ledger.verify([late])

    def test_a_cut_off_end_is_noticed_by_a_receipt(self, path: Path) -> None:
        """The end is cut off with everything that would tell: entry, head and balance."""
        ledger, _ = busy_ledger(path)
        account = ledger.account("patients")
        with edited(path) as connection:
            before = (
                connection.execute("SELECT * FROM chain").fetchall(),
                connection.execute("SELECT * FROM accounts").fetchall(),
            )
        late = charge(account, 0.5).receipt
        with edited(path) as connection:
            connection.execute("DELETE FROM entries WHERE position = 10")
            connection.execute("DELETE FROM chain")
            connection.executemany("INSERT INTO chain VALUES (?, ?, ?, ?, ?)", before[0])
            connection.execute("DELETE FROM accounts")
            connection.executemany("INSERT INTO accounts VALUES (?, ?, ?)", before[1])
        assert ledger.verify().position == 9
        with pytest.raises(LedgerRolledBack):
            ledger.verify([late])

    def test_a_copy_charged_beside_the_original_is_noticed_by_receipts(
        self, path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Even when the same is charged to both in the same second."""
        monkeypatch.setattr("sudare.privacy.ledger._now", lambda: "2026-01-01T00:00:00+00:00")
        ledger, _ = busy_ledger(path)
        ledger.backup(folder / "twin.db")
        twin = Ledger(folder / "twin.db")
        receipts = [charge(each.account("patients"), 0.5).receipt for each in (ledger, twin)]
        assert ledger == twin
        for each, receipt in zip((ledger, twin), receipts, strict=True):
            assert each.verify([receipt]).position == 10
            with pytest.raises(LedgerRolledBack, match="once confirmed entry 10"):
                each.verify(receipts)
        shown = [each.account("patients").disclose("sums", "the members", 1) for each in (ledger, twin)]
        assert shown[0] != shown[1]

    def test_another_ledger_in_its_place_is_noticed(self, ledger: Ledger, path: Path, folder: Path) -> None:
        account = ledger.account("patients", epsilon=1.0)
        receipt = charge(account, 1.0).receipt
        Ledger(folder / "other.db").account("patients", epsilon=1.0)
        shutil.copy(folder / "other.db", path)
        acts: list[Callable[[], object]] = [
            lambda: charge(account, 1.0),
            account.spent,
            account.entries,
            ledger.verify,
            ledger.head,
            ledger.entries,
            ledger.accounts,
            lambda: ledger.account("patients"),
            lambda: ledger.contains(receipt),
            lambda: ledger.promised(receipt),
            lambda: ledger.backup(folder / "copy.db"),
        ]
        for act in acts:
            with pytest.raises(LedgerMissing, match="Another ledger stands where the one in use was"):
                act()
        with pytest.raises(LedgerRolledBack, match="given out by another ledger"):
            Ledger(path).verify([receipt])
        assert not Ledger(path).contains(receipt)

    def test_a_deleted_ledger_is_not_created_by_a_handle(self, account: Account, path: Path) -> None:
        path.unlink()
        acts: list[Callable[[], object]] = [
            lambda: charge(account, 1.0),
            account.remaining,
            account.ledger.verify,
            lambda: account.ledger.account("new", epsilon=1.0),
            lambda: pickle.loads(pickle.dumps(account)).spent(),
        ]
        for act in acts:
            with pytest.raises(LedgerMissing, match=r"^There is no ledger at 'ledger.db'\."):
                act()
        assert not path.exists()


def content_of(path: Path) -> list[Any] | None:
    """What the tables say, whatever the bytes are; None where that cannot be read."""
    try:
        with edited(path) as connection:
            tables = [
                connection.execute(f"SELECT * FROM {table}").fetchall() for table in ("chain", "entries", "accounts")
            ]
            return [sorted(table) for table in tables]
    except (sqlite3.Error, UnicodeDecodeError):
        return None


@pytest.mark.parametrize("flips", [150, pytest.param(20_000, marks=pytest.mark.long)])
def test_flipped_bytes_are_noticed_or_mean_nothing(path: Path, flips: int) -> None:
    """A flipped bit anywhere in the file is reported in our own words, or what the tables say is still the same."""
    _ledger, receipts = busy_ledger(path)
    original, content = path.read_bytes(), content_of(path)
    choose = random.Random(flips)
    used = [index for index, byte in enumerate(original) if byte]
    noticed = 0
    for _ in range(flips):
        damaged = bytearray(original)
        damaged[choose.choice(used)] ^= 1 << choose.randrange(8)
        path.write_bytes(damaged)
        try:
            Ledger(path, create=False).verify(receipts)
        except LedgerError:
            noticed += 1
        else:
            assert content_of(path) == content
        path.with_name("ledger.db-journal").unlink(missing_ok=True)
        path.with_name("ledger.db-wal").unlink(missing_ok=True)
    assert noticed > flips / 2


class TestHandles:
    def test_copies_charge_the_same_account(self, account: Account) -> None:
        twins = [account, copy.copy(account), copy.deepcopy(account), pickle.loads(pickle.dumps(account))]
        for count, twin in enumerate(twins, start=1):
            assert twin == account
            charge(twin, 0.1)
            assert account.spent().epsilon == pytest.approx(count / 10)
        assert len(account.entries()) == 5

    def test_a_fork_charges_the_same_account(self, account: Account) -> None:
        charge(account, 0.1)
        for _ in range(3):
            child = fork()
            if child == 0:
                charge(account, 0.1)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        assert account.spent() == (0.4, 0.0)
        assert account.ledger.verify().position == 5

    def test_joblib_workers_charge_the_same_account(self, account: Account) -> None:
        receipts = joblib.Parallel(n_jobs=2, backend="loky")(
            joblib.delayed(_charge_in_worker)(account) for _ in range(4)
        )
        assert account.spent() == (0.4, 0.0)
        assert sorted(receipt.position for receipt in receipts) == [2, 3, 4, 5]
        assert account.ledger.verify(receipts).position == 5

    def test_how_handles_read(self, account: Account, folder: Path) -> None:
        assert repr(account) == "Account('patients', Ledger('ledger.db'))"
        assert str(folder) not in repr(account.ledger)

    def test_a_servers_password_is_not_shown(self) -> None:
        ledger = Ledger.__new__(Ledger)
        ledger._storage = storage.Storage("postgresql://user:secret@host/db?sslpassword=secret", 1.0)
        assert repr(ledger) == "Ledger('postgresql://host/db')"


def _charge_in_worker(account: Account) -> Receipt:
    return account.charge(Guarantee(0.1), pure_cost(0.1), "a worker").receipt


class TestBackup:
    def test_a_backup_is_the_same_ledger(self, path: Path, folder: Path) -> None:
        ledger, receipts = busy_ledger(path)
        ledger.backup(folder / "copy.db")
        copied = Ledger(folder / "copy.db", create=False)
        assert copied == ledger
        assert copied.entries() == ledger.entries()
        assert copied.verify(receipts) == ledger.head()
        assert stat.S_IMODE((folder / "copy.db").stat().st_mode) == 0o600
        assert sorted(file.name for file in folder.iterdir()) == ["copy.db", "ledger.db"]

    def test_never_over_another_file(self, ledger: Ledger, folder: Path) -> None:
        (folder / "copy.db").write_text("mine")
        (folder / "link.db").symlink_to(folder / "nowhere")
        for name in ("copy.db", "link.db"):
            with pytest.raises(InvalidParameter) as caught:
                ledger.backup(folder / name)
            assert caught.value.problem == f"'{name}' exists already."
            assert caught.value.remedy == "Choose a new name for the copy."
        assert (folder / "copy.db").read_text() == "mine"

    def test_a_folder_that_is_not_there(self, ledger: Ledger, folder: Path) -> None:
        with pytest.raises(LedgerError) as caught:
            ledger.backup(folder / "no" / "copy.db")
        assert caught.value.problem == "'copy.db' cannot be written (FileNotFoundError)."
        assert caught.value.remedy == "Check folder, rights and space."

    def test_it_appears_whole_or_not_at_all(
        self, ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def half(_source: Path, target: Path) -> None:
            target.write_bytes(b"half")
            assert not (folder / "copy.db").exists()
            raise sqlite3.OperationalError("disk full")

        monkeypatch.setattr(storage, "copy_file", half)
        with pytest.raises(LedgerError, match=r"'copy.db' cannot be written \(OperationalError\)"):
            ledger.backup(folder / "copy.db")
        assert sorted(file.name for file in folder.iterdir()) == ["ledger.db"]

    def test_beside_the_target_so_that_it_can_be_linked(
        self, ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (folder / "backups").mkdir()
        monkeypatch.chdir(folder / "backups")
        seen: list[Path] = []
        original = storage.copy_file

        def noted(source: Path, target: Path) -> None:
            seen.append(target)
            original(source, target)

        monkeypatch.setattr(storage, "copy_file", noted)
        ledger.backup("copy.db")
        assert seen[0].parent.parent == folder / "backups"
        assert seen[0].parent.name.startswith(".backup-")
        assert Ledger("copy.db", create=False) == ledger

    def test_servers_have_their_own_tools(self) -> None:
        ledger = Ledger.__new__(Ledger)
        ledger._storage = storage.Storage("postgresql://host/db", 1.0)
        with pytest.raises(LedgerError) as caught:
            ledger.backup("copy.db")
        assert caught.value.problem == "This ledger is kept by a database server."
        assert caught.value.remedy == "Back it up with the server's own tool (pg_dump)."


class TestExport:
    def test_json_can_be_read_back(self, path: Path) -> None:
        ledger, _ = busy_ledger(path)
        ledger.account("患者", epsilon=1.0)
        text = ledger.export()
        assert text == ledger.export("json")
        assert json.loads(text) == [entry.to_dict() for entry in ledger.entries()]
        assert "患者" in text
        assert text.startswith('[\n  {\n    "position": 0,')

    def test_csv_can_be_read_back(self, path: Path) -> None:
        ledger, _ = busy_ledger(path)
        ledger.account('a "b", c', epsilon=1.0)
        rows = list(csv.DictReader(io.StringIO(ledger.export("csv"))))
        assert list(rows[0]) == ["position", "time", "account", "kind", "body", "previous", "hash"]
        found = [{**row, "position": int(row["position"]), "body": json.loads(row["body"])} for row in rows]
        assert found == [entry.to_dict() for entry in ledger.entries()]
        assert all(row["body"] == canonical_json(json.loads(row["body"])) for row in rows)

    def test_other_forms_are_refused(self, ledger: Ledger) -> None:
        with pytest.raises(InvalidParameter) as caught:
            ledger.export(cast("Any", "xml"))
        assert caught.value.problem == "A ledger is exported as json or csv, got 'xml'."
        assert caught.value.remedy == "Use one of these words."


class TestFormats:
    def test_an_older_ledger_is_migrated_when_it_is_opened(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        ledger, receipts = busy_ledger(path)
        monkeypatch.setattr(tables, "FORMAT", 5)
        monkeypatch.setattr(tables, "OLDEST_READABLE_FORMAT", 5)
        monkeypatch.setattr(
            tables, "MIGRATIONS", {4: lambda connection: connection.exec_driver_sql("CREATE TABLE notes (note TEXT)")}
        )
        with pytest.raises(LedgerVersion, match="an older one than 5"):
            ledger.verify()
        assert Ledger(path, create=False).verify(receipts).position == 9
        assert ledger.verify(receipts).position == 9
        with edited(path) as connection:
            assert connection.execute("SELECT format FROM chain").fetchall() == [(5,)]
            assert connection.execute("SELECT * FROM notes").fetchall() == []

    def test_a_charge_migrates_too(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        ledger, _ = busy_ledger(path)
        account = ledger.account("patients")
        monkeypatch.setattr(tables, "FORMAT", 5)
        monkeypatch.setattr(tables, "MIGRATIONS", {4: lambda _connection: None})
        charge(account, 0.5)
        assert ledger.verify().position == 10

    @pytest.mark.parametrize("older", [1, 2, 3])
    def test_an_older_ledger_is_read_as_it_is_and_changed_by_the_first_write(self, path: Path, older: int) -> None:
        ledger, receipts = busy_ledger(path)
        with edited(path) as connection:
            connection.execute("UPDATE chain SET format = ?", (older,))
        before = path.read_bytes()
        assert Ledger(path, create=False).verify(receipts).position == 9
        assert ledger.account("patients").remaining().epsilon == 2.5
        assert path.read_bytes() == before
        charge(ledger.account("patients"), 0.5)
        with edited(path) as connection:
            assert connection.execute("SELECT format FROM chain").fetchall() == [(4,)]
        assert ledger.verify(receipts).position == 10

    def test_a_failing_migration_leaves_the_ledger_usable_by_the_old_version(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(connection: Any) -> None:
            connection.exec_driver_sql("ALTER TABLE entries RENAME TO lines")
            raise OSError("no space")

        ledger, receipts = busy_ledger(path)
        with monkeypatch.context() as newer:
            newer.setattr(tables, "FORMAT", 5)
            newer.setattr(tables, "OLDEST_READABLE_FORMAT", 5)
            newer.setattr(tables, "MIGRATIONS", {4: fails})
            with pytest.raises(OSError, match="no space"):
                Ledger(path)
        assert ledger.verify(receipts).position == 9

    def test_a_newer_ledger_is_refused_untouched(self, path: Path) -> None:
        ledger, _ = busy_ledger(path)
        account = ledger.account("patients")
        with edited(path) as connection:
            connection.execute("DROP TABLE accounts")
            connection.execute("UPDATE chain SET format = 5")
        before = path.read_bytes()
        acts: list[Callable[[], object]] = [
            lambda: Ledger(path),
            lambda: Ledger(path, create=False),
            ledger.verify,
            lambda: charge(account, 0.1),
        ]
        for act in acts:
            with pytest.raises(LedgerVersion, match="has format 5, this version knows up to 4"):
                act()
        assert path.read_bytes() == before


def as_somebody_else(act: Callable[[], object]) -> str:
    """What happens when a user without special rights does this, in a child process: "done", or the error."""
    reading, writing = os.pipe()
    child = fork()
    if child == 0:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setegid(65534)
            os.seteuid(65534)
        try:
            act()
            answer = "done"
        except SudareError as error:
            answer = f"{type(error).__name__}: {error}"
        except BaseException as error:  # noqa: BLE001 (told to the parent)
            answer = repr(error)
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, encoding="utf-8") as answers:
        return answers.read()


class TestReadOnly:
    @pytest.fixture
    def protected(self, path: Path, folder: Path) -> Iterator[Path]:
        busy_ledger(path)
        path.chmod(0o444)
        folder.chmod(0o555)
        yield path
        folder.chmod(0o755)

    def test_a_read_only_ledger_can_be_read(self, protected: Path) -> None:
        def read() -> None:
            for create in (True, False):
                ledger = Ledger(protected, create=create)
                assert ledger.verify().position == 9
                account = ledger.account("patients", epsilon=4.0, delta=1e-6)
                assert account.remaining().epsilon == 2.5
                assert account.quote(Guarantee(1.0), pure_cost(1.0)).admitted
                assert len(ledger.accounts()) == 2
                assert len(ledger.export("csv").splitlines()) == 11

        assert as_somebody_else(read) == "done"

    def test_a_read_only_ledger_cannot_be_charged(self, protected: Path) -> None:
        assert as_somebody_else(lambda: charge(Ledger(protected).account("patients"), 0.1)) == (
            "LedgerError: The ledger's database cannot be used (OperationalError). Check that the disk has space, "
            "the file may be written and the server answers. Nothing was charged."
        )
        assert Ledger(protected).verify().position == 9

    def test_no_ledger_can_be_created_in_a_read_only_folder(self, protected: Path) -> None:
        assert as_somebody_else(lambda: Ledger(protected.with_name("new.db"))) == (
            "LedgerError: A ledger cannot be opened there (Permission denied). Check the path and its rights."
        )

    def test_a_ledger_that_may_not_be_read(self, path: Path, folder: Path) -> None:
        busy_ledger(path)
        folder.chmod(0o755)
        assert as_somebody_else(lambda: Ledger(path)).startswith(
            "LedgerError: The ledger's database cannot be used (OperationalError)."
        )


def test_messages_name_no_folders(path: Path, folder: Path) -> None:
    """Every error on a path that is wrong in some way, and not one of them says where it is."""
    _ledger, _ = busy_ledger(path)
    (folder / "text.db").write_text("not a database, but long enough to look at" * 10)
    secret = str(folder)
    acts: list[Callable[[], object]] = [
        lambda: Ledger(folder),
        lambda: Ledger(folder / "text.db"),
        lambda: Ledger(folder / "gone.db", create=False),
        lambda: Ledger(path / "below.db"),
        lambda: Ledger(path).backup(path),
        lambda: Ledger(path).backup(folder / "no" / "copy.db"),
        lambda: Ledger(path).account("new", epsilon=1.0, source=path) and Ledger(path).account("b", 1.0, source=path),
        lambda: Ledger(path).account("new", source="other"),
        lambda: Ledger(path).account("nobody"),
    ]
    for act in acts:
        with pytest.raises(SudareError) as caught:
            act()
        assert secret not in str(caught.value)
        assert secret not in repr(caught.value)


class AtMostFourEntries(Account):
    """Refuses whatever would be the ledger's fifth entry, and charges of more than 1/2."""

    def _check_entry(self, cost, entries) -> None:  # type: ignore[no-untyped-def]
        if len(entries()) > 3 or (cost is not None and cost.epsilon > 0.5):
            raise InvalidParameter("no", "no")


def test_an_account_that_refuses_does_so_before_anything_is_written(tmp_path: Path) -> None:
    plain = Ledger(tmp_path / "ledger.db").account("p", epsilon=9.0)
    account = AtMostFourEntries(plain.ledger, "p")
    with pytest.raises(InvalidParameter):
        charge(account, 0.6)
    charge(account, 0.5)
    account.disclose("sums", "members", 1)
    with pytest.raises(InvalidParameter):
        charge(account, 0.1)
    with pytest.raises(InvalidParameter):
        account.disclose("sums", "members", 1)
    assert [entry.kind for entry in plain.entries()] == ["open", "charge", "disclosure"]
