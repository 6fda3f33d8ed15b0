"""What commands that charge an account share: the account, the look before the charge, and what is told after it."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sudare.cli.command_output import DEFAULT_LEDGER, AsJson, DryRun, LedgerAddress
from sudare.cli.language import spoken
from sudare.cli.options import (
    Composition,
    CsvFacts,
    Encoding,
    Filter,
    HasHeader,
    NewBudget,
    NewBudgetDelta,
    NewRelease,
    SigningKey,
    table_name,
    table_place,
    table_source,
)
from sudare.errors import InvalidParameter, ReleaseExists
from sudare.files import is_taken, space_kept

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from sudare.privacy import Account, Ledger
    from sudare.privacy.fit_plan import Plan
    from sudare.privacy.ledger import Quote
    from sudare.privacy.source_identity import SliceIdentity
    from sudare.schema import Schema

Model = TypeVar("Model", bound=Any)


class Signing(NamedTuple):
    """The path of a release, and the key it is signed with."""

    output: Path
    key: Ed25519PrivateKey


def ready_to_sign(output: Path | None, key: Path | None) -> Signing:
    """All that can go wrong after a charge is looked at before it."""
    from sudare.cli.key_files import private_key

    if output is None or key is None:
        raise InvalidParameter("A release needs --output and --key.", "Give both, or --dry-run to see the price only.")
    check_can_be_written(output)
    return Signing(output, private_key(key))


def check_can_be_written(output: Path) -> None:
    """Raise an error unless a new file can be written there: looked at before a charge."""
    from sudare.privacy.release_file import LARGEST_FILE_BYTES

    if is_name_taken(output):
        raise ReleaseExists(f"'{output.name}' exists already.", ReleaseExists.help)

    folder = output.absolute().parent
    if not folder.is_dir():
        raise InvalidParameter(f"There is no folder for '{output}'.", "Make it first. Nothing was charged.")
    try:
        # Rights alone do not tell: the file system may be full or read-only.
        with space_kept(folder, LARGEST_FILE_BYTES):
            pass
    except OSError as error:
        raise InvalidParameter(
            f"'{output}' cannot be written ({error.strerror}).", "Choose another --output. Nothing was charged."
        ) from None


def is_name_taken(output: Path) -> bool:
    """Whether something has the name of a file that is to be written. Raise InvalidParameter where no file can have it."""
    try:
        return is_taken(output)
    except OSError as error:
        raise InvalidParameter(
            f"'{output}' cannot be written ({error.strerror}).", "Choose another --output. Nothing was charged."
        ) from None


@dataclass(frozen=True)
class Payment:
    """Which account pays for a table, and the budget it is opened with where it is new."""

    ledger: str
    account: str | None
    table: str
    budget: float | None
    budget_delta: float | None = None
    composition: Filter | None = None
    # That of the fit; an account that is opened for it has the same one.
    neighbours: str = "replace-one"

    @contextmanager
    def payer(self, schema: Schema, dry_run: bool) -> Iterator[Account | None]:
        """The account, bound to the table if it is new, refused if it is for another one. In a dry run a copy of the ledger is
        used, or nobody pays.

        A new account is opened by its first charge: what is refused before leaves no account, and no ledger, behind.
        """
        from sudare.cli.account_opened_by_first_charge import AccountToOpen
        from sudare.cli.dry_run import ledger_or_copy
        from sudare.frames import source
        from sudare.privacy import Ledger
        from sudare.privacy.source_identity import given_source

        opens = self.budget is not None
        if opens or self._name not in account_names(self.ledger):
            # An account is for ever: a name that was mistyped must not open one, and is told as what it is.
            source(table_place(self.table)).state()
        if dry_run and self.account is None and not opens:
            yield None
            return
        is_new = opens and self._name not in account_names(self.ledger)
        with ledger_or_copy(self.ledger, is_new or (dry_run and opens), create=opens) as ledger:
            account = self._account(ledger, schema, is_new)
            account.check_source(given_source(table_place(self.table)))
            if is_new and not dry_run:
                account = AccountToOpen(account, lambda: self._account(Ledger(self.ledger), schema, is_new))
            yield account

    @property
    def _name(self) -> str:
        return Path(table_name(self.table)).stem if self.account is None else self.account

    def _account(self, ledger: Ledger, schema: Schema, is_new: bool) -> Account:
        if self.budget is None:
            return ledger.account(self._name)
        unit: Any = "record" if schema.person is None else "person"
        composition: Any = None if self.composition is None else self.composition.value
        neighbours: Any = self.neighbours if is_new else None
        return ledger.account(
            self._name,
            self.budget,
            self.budget_delta,
            neighbours=neighbours,
            unit=unit,
            composition=composition,
            source=table_place(self.table),
        )


@dataclass(frozen=True)
class ChargedOptions:
    """Options of every command that reads a table, charges an account, and writes a release."""

    has_header: HasHeader = None
    encoding: Encoding = None
    csv: CsvFacts = None
    budget: NewBudget = None
    budget_delta: NewBudgetDelta = None
    composition: Composition = None
    ledger: LedgerAddress = DEFAULT_LEDGER
    output: NewRelease = None
    key: SigningKey = None
    dry_run: DryRun = False
    as_json: AsJson = False

    def source(self, table: str) -> str | os.PathLike[str]:
        """The table, with what was said about how it is written."""
        return table_source(table, self.has_header, self.encoding, self.csv)

    def account_of(self, account: str | None, table: str) -> str | None:
        """The account that was named, else the one that is called like the table, where the ledger has it or it must pay."""
        name = Path(table_name(table)).stem
        if account is not None or (self.dry_run and self.budget is None and name not in account_names(self.ledger)):
            return account
        return name

    def payment(self, account: str | None, table: str, neighbours: str = "replace-one") -> Payment:
        """Who pays for the table."""
        return Payment(self.ledger, account, table, self.budget, self.budget_delta, self.composition, neighbours)

    def signing(self) -> Signing | None:
        """Returns the path of the release and its key; None in a dry run."""
        return None if self.dry_run else ready_to_sign(self.output, self.key)


def charging(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of `ChargedOptions`, its last parameter, as options of its own."""
    *own, last = inspect.signature(command, eval_str=True).parameters.values()
    shared = inspect.signature(ChargedOptions, eval_str=True).parameters

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        options = ChargedOptions(**{name: given.pop(name) for name in shared if name in given})
        command(**given, **{last.name: options})

    with_options.__signature__ = inspect.Signature([*own, *shared.values()])  # type: ignore[attr-defined]
    return with_options


def account_names(ledger: str) -> set[str]:
    """The accounts that a ledger has; none where there is no ledger yet."""
    from sudare.errors import LedgerMissing
    from sudare.privacy import Ledger

    try:
        return {account.name for account in Ledger(ledger, create=False).accounts()}
    except LedgerMissing:
        return set()


def fitted_or_planned(
    payment: Payment,
    schema: Schema,
    data: object,
    signing: Signing | None,
    make: Callable[[Account | None], Model],
    tell_plan: Callable[[Model], None],
) -> Model:
    """The model, charged and fitted; where nothing will be signed, in a dry run, its plan is told instead."""
    with payment.payer(schema, dry_run=signing is None) as payer:
        model = make(payer)
        if signing is None:
            tell_plan(model)
        else:
            model.fit(data)
    return model


def quoted(quote: Quote, account: str) -> dict[str, Any]:
    """What a charge would do to an account."""
    return {
        "account": account,
        "asked": quote.asked._asdict(),
        "admitted": quote.admitted,
        "left_before": quote.left_before._asdict(),
        "left_after": quote.left_after._asdict(),
    }


def price_of_plan(
    plan: Plan[Any], account: Account | None, word: str = "", answers: SliceIdentity | None = None
) -> tuple[dict[str, Any], str]:
    """What a plan would do to an account, in values and in a sentence; where nobody pays, only its ε."""
    from sudare.report.number_formatting import rounded_up

    if account is None:
        aside = f" ({spoken(word)})" if word else ""
        return {}, f"This would cost ε = {rounded_up(plan.guarantee.epsilon)}{aside}."
    quote = account.quote(plan.guarantee, plan.mechanism.cost, answers=answers)
    return quoted(quote, account.name), price_text(quote, account.name, word)


def price_text(quote: Quote, account: str, word: str = "") -> str:
    """Returns the price in a sentence, with the word for its strength; where a charge would be refused for its δ alone, that is said."""
    from sudare.report.number_formatting import left_text, spent_text

    asked, left = quote.asked, quote.left_before
    has_delta = bool(asked.delta)
    after = "it would be refused"
    if quote.admitted:
        after = f"{left_text(*quote.left_after, has_delta=has_delta)} would be left"
    elif asked.delta > left.delta and asked.epsilon <= left.epsilon:
        after = "it would be refused because of δ alone: give a smaller --delta (0 where it is not needed), or open the account with a --budget-delta"
    aside = f" ({spoken(word)})" if word else ""
    return (
        f"This would cost {spent_text(*asked)}{aside} of account '{account}', "
        f"which has {left_text(*left, has_delta=has_delta)} left; {after}."
    )


def relation_lines(account: Account, neighbours: str) -> list[str]:
    """Why a fit costs an account two steps, where it does; none where both have the same relation."""
    if account.terms.neighbours == neighbours:
        return []
    return [
        f"Account '{account.name}' counts replaced records: each is one removed and one added, so this fit costs it twice its ε. "
        "An account that `sudare fit … --neighbours add-remove --budget …` opens counts added and removed ones, and pays it once."
    ]


def clipped_columns(clipped: Mapping[str, int]) -> dict[str, int]:
    """How many values were clipped, for each column that has any."""
    return {name: count for name, count in clipped.items() if count}


def paid(model: Any) -> dict[str, Any]:
    """What a charged model took from its account, and how many values it clipped, where it counts them; for its owner."""
    clipped = getattr(model, "clipped_", None)
    return {
        "receipt": model.receipt_.to_dict(),
        "remaining": model.account.remaining()._asdict(),
        **({} if clipped is None else {"clipped": clipped_columns(clipped)}),
    }


def paid_lines(model: Any) -> list[str]:
    """Returns what was paid in sentences."""
    from sudare.report.number_formatting import left_text

    account = model.account
    remaining = left_text(*account.remaining(), has_delta=account.terms.budget.delta > 0)
    left = f"Account '{account.name}' has {remaining} left."
    clipped = getattr(model, "clipped_", None)
    if clipped is None:
        return [left]
    return [left, f"{sum(clipped.values()):,} values lay outside the bounds and were clipped; only you see this."]
