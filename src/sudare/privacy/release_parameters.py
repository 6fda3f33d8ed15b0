"""The public parameters that every learner writes into a release, and how they are checked when they are read back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from sudare.privacy.declared_columns import COMBINATIONS, read_columns, written_columns
from sudare.privacy.guarantee import Neighbours
from sudare.privacy.release_content import unfit
from sudare.safe_text import text_fault
from sudare.schema import Schema

_NAMES: Final = {"epsilon", "delta", "neighbours", "rows", "columns", "person"}
# What a release from a slice says besides: the values of the columns by which it was cut.
_SLICE: Final = "slice"


def written_parameters(
    epsilon: float,
    delta: float,
    neighbours: Neighbours,
    rows: int | None,
    declared: Schema,
    where: Mapping[str, str],
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """The price, the number of rows where it is public, the declared columns, the slice, and what one learner writes besides."""
    return {
        "epsilon": epsilon,
        "delta": delta,
        "neighbours": neighbours,
        "rows": rows,
        **written_columns(declared),
        **({_SLICE: dict(where)} if where else {}),
        **extra,
    }


def read_declarations(
    parameters: Mapping[str, Any], extra: Collection[str], later: Collection[str], relations: Collection[str]
) -> Schema:
    """The declared columns. Raise ReleaseMalformed unless the parameters are such as `written_parameters` writes.

    `extra` are the names of those that one learner writes besides, `later` those of them that older versions did not write.
    """
    if {*parameters, *set(later).intersection(extra)} - {_SLICE, *COMBINATIONS} != {*_NAMES, *extra}:
        raise unfit("its parameters are not those of its learner")
    if type(parameters["epsilon"]) is not float or type(parameters["delta"]) is not float:
        raise unfit("a parameter is not a number")
    if parameters["neighbours"] not in relations:
        raise unfit("its neighbours are not those of its learner")
    rows, rows_are_public = parameters["rows"], parameters["neighbours"] == "replace-one"
    is_row_count = type(rows) is int and 0 < rows < 2**53
    if not is_row_count if rows_are_public else rows is not None:
        raise unfit("its number of rows is not what its neighbours allow")
    if _SLICE in parameters and (rows_are_public or not _is_slice(parameters[_SLICE])):
        raise unfit("its slice is not one of columns with their values")
    return read_columns(parameters)


def read_slice(parameters: Mapping[str, Any]) -> Mapping[str, str]:
    """The values of the columns by which a release's rows were cut; empty where it is of all rows."""
    where: Mapping[str, str] = parameters.get(_SLICE, {})
    return where


def _is_slice(where: object) -> bool:
    """Whether a value is the values of at least one column, as text."""
    return (
        isinstance(where, dict)
        and len(where) > 0
        and not any(text_fault(text) for pair in where.items() for text in pair)
    )
