"""What a request would promise, cost and leave, and how far its result would be off: from public facts, nothing charged."""

from __future__ import annotations

import datetime
import hashlib
import os
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sudare.errors import DataError, InvalidParameter, SchemaError, SudareError
from sudare.frames.person_rows import used_row_count
from sudare.frames.sources import source
from sudare.privacy.account_balance import Amount
from sudare.privacy.accounting import Cost, decimal_up
from sudare.privacy.guarantee import Guarantee, Unit
from sudare.privacy.ledger import Quote
from sudare.privacy.source_identity import change_times, given_source
from sudare.report import strength_of
from sudare.report.privacy_card import Strength
from sudare.requests.expected_error import ExpectedError, expected_errors
from sudare.requests.field_values import values_of_texts
from sudare.requests.request import Request, Values, Version
from sudare.requests.request_kinds import Kind, epsilon_fields, kind_named, make
from sudare.requests.steward_settings import AskableTable, RequestSettings
from sudare.schema import Schema

if TYPE_CHECKING:
    from sudare.privacy.private_estimator import PrivateEstimator

# What is the same for both does not depend on how many rows there are.
_TWO_NUMBERS_OF_ROWS: Final = (1_000, 3_000)
_ERRORS_OF_TABLES: Final = (SchemaError, DataError, InvalidParameter)


@dataclass(frozen=True)
class Price:
    """What a version costs now, of which budget, the word for its guarantee, and what would be left."""

    quote: Quote
    budget: Amount
    strength: Strength


def now() -> str:
    """The time as requests keep it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def version_of(
    settings: RequestSettings,
    table: AskableTable,
    kind: str,
    values: Values,
    who: str,
    reason: str,
    *,
    is_owner: bool = False,
) -> Version:
    """What is asked for, with what it promises and costs. Raise an error where no learner can do it; nothing is charged.

    The table is read as far as the price needs it. What is found wrong in it is told to its owner only.
    """
    _check_says_epsilon(kind_named(kind), values)
    schema = table.schema()
    model = estimator(kind, schema, values)
    unit: Unit = "record" if schema.person is None else "person"
    with settings.account_to_quote(table) as account:
        model.account = account
        # Before a row is read: which of two errors is told would else depend on how many there are.
        account.check_relation(model.neighbours, unit, given_source(table.place))
        try:
            data = table.data()
            plan, state = model.planned(data), table_state(table)
            expected = tuple(public_errors(kind, model, data))
        except Exception as error:
            # Which foreign error comes up may depend on the table as well as one of these.
            tells_of_table = isinstance(error, _ERRORS_OF_TABLES) or not isinstance(error, SudareError)
            if is_owner or not tells_of_table:
                raise
            raise _unfit() from None
        # In the relation of the account: what is quoted is what will be charged.
        account.quote(plan.guarantee, plan.mechanism.cost, given_source(data))
    return Version(
        number=1,
        kind=kind,
        values={name: list(texts) for name, texts in values.items()},
        guarantee=plan.guarantee.to_dict(),
        cost=plan.mechanism.cost.to_dict(),
        expected=expected,
        schema=schema.digest,
        table_state=state,
        who=who,
        when=now(),
        reason=reason,
    )


def _check_says_epsilon(kind: Kind, values: Values) -> None:
    """Raise InvalidParameter unless somebody chose how much may be revealed: no default is approved by not looking."""
    names = [name for name in epsilon_fields(kind) if any(text.strip() for text in values.get(name, ()))]
    if not names:
        options = " or ".join(kind.field(name).option for name in epsilon_fields(kind))
        raise InvalidParameter("The request does not say its ε.", f"Choose it: give {options}.")


def public_errors(kind: str, model: PrivateEstimator, data: str | os.PathLike[str]) -> list[ExpectedError]:
    """Typical errors, as far as they follow from public facts: where the number of rows is secret, those that do not depend on it."""
    if model.neighbours == "replace-one":
        return expected_errors(kind, model, used_row_count(data, model.schema))
    fewer, more = (expected_errors(kind, model, rows) for rows in _TWO_NUMBERS_OF_ROWS)
    # A bar that shows an error among all records would tell how many there are.
    fewer, more = ([replace(each, whole=None) for each in errors] for errors in (fewer, more))
    same = [each for each in fewer if each in more]
    return same or expected_errors(kind, model, 0)


def _unfit() -> DataError:
    """What whoever may not see the table is told of it: not a value, not a name, not a number of rows."""
    return DataError(
        "The table does not fit its schema or these values.", "Nothing was charged. Ask a steward, who sees why."
    )


def estimator(kind: str, schema: Schema, values: Values) -> PrivateEstimator:
    """The learner that a kind and its values ask for, without an account."""
    texts = values_of_texts(kind_named(kind), schema, values)
    made: PrivateEstimator = make(kind, schema, texts)
    return made


def table_state(table: AskableTable, salt: str = "") -> str:
    """A salt and a digest with it that is another one when the table was changed, as far as that shows without reading it; a new salt without one.

    Entries of the ledger have a digest of this: without the salt, which only the folder of requests has, the size of a file could be found by trying.
    """
    salt = salt or uuid.uuid4().hex
    data = table.data()
    seen = salt, source(data).state(), change_times(given_source(data))
    return f"{salt}:{hashlib.sha256(repr(seen).encode()).hexdigest()}"


def is_in_state(table: AskableTable, state: str) -> bool:
    """Whether the table is as it was when `table_state` gave this."""
    return table_state(table, state.partition(":")[0]) == state


def price_now(settings: RequestSettings, request: Request) -> Price:
    """What the newest version of a request would do to its account now."""
    version = request.newest
    guarantee, cost = Guarantee.from_dict(version.guarantee), Cost.from_dict(version.cost)
    with settings.account_to_quote(settings.table(request.table)) as account:
        budget = account.terms.budget
        amount = Amount(decimal_up(budget.epsilon), decimal_up(budget.delta))
        return Price(account.quote(guarantee, cost), amount, strength(version))


def strength(version: Version) -> Strength:
    """The word for what a version promises."""
    guarantee = Guarantee.from_dict(version.guarantee)
    return strength_of(guarantee.epsilon, guarantee.delta, notion=guarantee.notion, valid=guarantee.valid)
