"""Declared columns: what they promise, how a release writes them, and how they are read back."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.privacy.guarantee import Guarantee, Neighbours, Notion, Unit
from sudare.privacy.ledger_chain import canonical_json
from sudare.privacy.release_content import unfit
from sudare.schema import Number, Schema


def promise(
    epsilon: float,
    delta: float,
    neighbours: Neighbours,
    declared: Schema | None,
    *,
    notion: Notion = "central",
    is_declared: bool = True,
) -> Guarantee:
    """The guarantee of a computation with these parameters: to persons where the schema knows them, else to records.

    It is void where something that the computation rests on is not declared but learned from the records.
    """
    unit: Unit = "record" if declared is None or declared.person is None else "person"
    return Guarantee(epsilon, delta, neighbours=neighbours, unit=unit, notion=notion, valid=is_declared)


def rows_per_unit(declared: Schema | None) -> int:
    """How many rows one protected unit can have."""
    return 1 if declared is None or declared.person is None else declared.person.bound


def natural_bounds(declared: Schema) -> tuple[Floats, Floats]:
    """Low and high of number columns in their own units."""
    numbers = [column for column in declared.features.values() if isinstance(column, Number)]
    return np.array([number.low for number in numbers]), np.array([number.high for number in numbers])


def given_bounds(bounds: Any, columns: int) -> tuple[Floats, Floats]:
    """Low and high of so many columns. Raise InvalidParameter unless `bounds` are two numbers, or two sequences of one number a column."""
    try:
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (columns,)) for end in bounds)
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"bounds must be two numbers or two sequences of {columns}.", "Give for example bounds=(0, 110)."
        ) from None
    return low, high


@functools.lru_cache(maxsize=64)
def number_within(low: float, high: float) -> Number:
    """A column of numbers with these bounds. Kept, as small fits take no longer than their declarations."""
    return Number(low, high)


@functools.lru_cache(maxsize=8)
def unnamed_columns(numbers: tuple[Number, ...]) -> Schema:
    """A schema of such columns, called x0, x1, …; few are kept, because their layouts may be large."""
    return Schema({f"x{index}": number for index, number in enumerate(numbers)})


# Facts about several columns, written where there are any.
COMBINATIONS: Final = ("maps", "impossible")


def written_columns(declared: Schema) -> dict[str, Any]:
    """Declared columns as plain values; a list of pairs, because their order is one of the facts."""
    written: dict[str, Any] = json.loads(written_text(declared))
    return written


@functools.lru_cache(maxsize=64)
def written_text(declared: Schema) -> str:
    """The canonical text of `written_columns`; text, because what is kept must not be changed by whoever is given it."""
    document = declared.to_dict()
    return canonical_json(
        {
            "columns": [list(pair) for pair in document["columns"].items()],
            "person": document.get("person"),
            **_combinations(document),
        }
    )


def _combinations(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in COMBINATIONS if name in document}


def read_columns(parameters: Mapping[str, Any]) -> Schema:
    """The columns that `written_columns` wrote; any other spelling of them is refused."""
    columns, person = parameters["columns"], parameters["person"]
    if not isinstance(columns, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in columns
    ):
        raise unfit("its columns are not declared")
    document = {"columns": dict(columns), **_combinations(parameters)}
    declared = Schema.from_dict(document if person is None else {**document, "person": person})
    if written_text(declared) != canonical_json({"columns": columns, "person": person, **_combinations(parameters)}):
        raise unfit("its columns are not declared in canonical form")
    return declared


def is_from_bounds(declared: Schema) -> bool:
    """Whether a schema could have been made from `bounds`."""
    numbers = all(isinstance(column, Number) for column in declared.columns.values())
    return (
        numbers
        and declared.person is None
        and list(declared.columns) == [f"x{i}" for i in range(len(declared.columns))]
    )
