"""Random schemas, tables that fit them, and the check that an error keeps a secret."""

from __future__ import annotations

import math
import traceback
import unicodedata
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from sudare.errors import SchemaError
from sudare.safe_text import name_fault, normal_name, text_fault
from sudare.schema import Category, Column, Label, Level, Number, Person, Schema

NAMES = st.text(min_size=1, max_size=6).map(normal_name).filter(lambda text: name_fault(text) is None)
WORDS = (
    st.text(max_size=5)
    .map(lambda text: unicodedata.normalize("NFC", text))
    .filter(lambda text: text_fault(text) is None)
)
BOUNDS = st.one_of(st.integers(-1000, 1000).map(float), st.floats(allow_nan=False, allow_infinity=False))


# Hypothesis examines every strategy that is made: those that do not depend on what was drawn are made once.
FRACTIONS = st.lists(st.floats(0, 1, exclude_min=True, exclude_max=True), max_size=5)
SCALES = st.none() | st.floats(1e-3, 1e3)
UNITS = st.none() | NAMES
CENTRES = st.sampled_from([None, "inside"])
MISSING = st.sampled_from([None, "centre", "inside"])
MISSING_OR_INDICATED = st.sampled_from([None, "centre", "inside", "indicator"])
# Larger whole numbers do not survive the frames that store them as fractions beside a missing value.
WHOLE = st.integers(1 - 2**53, 2**53 - 1)
LEVELS: dict[str, st.SearchStrategy[Any]] = {"words": WORDS, "whole numbers": WHOLE, "yes or no": st.booleans()}
LISTED_LEVELS = {kind: st.lists(found, min_size=2, max_size=5, unique=True) for kind, found in LEVELS.items()}
FURTHER_LEVELS = {kind: st.one_of(found, WORDS) for kind, found in LEVELS.items()}
KINDS_OF_LEVELS = st.sampled_from(list(LEVELS))
KINDS_OF_MISSING_LEVELS = st.sampled_from(["none", "listed", "further"])


@st.composite
def numbers(draw: st.DrawFn, may_indicate: bool = True) -> Number:
    low, high = sorted([draw(BOUNDS), draw(BOUNDS)])
    assume(low < high and math.isfinite(high - low))
    edges = sorted({low + fraction * (high - low) for fraction in draw(FRACTIONS)} - {low, high})
    centre, scale = draw(CENTRES), draw(SCALES)
    missing: Any = draw(MISSING_OR_INDICATED if may_indicate else MISSING)
    return Number(
        low,
        high,
        centre=None if centre is None else draw(st.floats(low, high)),
        scale=None if scale is None else min(scale * (high - low), 1e308) or 5e-324,
        bins=tuple(edge for edge in edges if low < edge < high) or None,
        unit=draw(UNITS),
        missing=draw(st.floats(low, high)) if missing == "inside" else missing,
    )


@st.composite
def levels(draw: st.DrawFn) -> tuple[tuple[Level, ...], Level | None]:
    """The listed values and the category of missing values."""
    kind = draw(KINDS_OF_LEVELS)
    values = tuple(draw(LISTED_LEVELS[kind]))
    match draw(KINDS_OF_MISSING_LEVELS):
        case "none":
            return values, None
        case "listed":
            return values, draw(st.sampled_from(values))
    further = draw(FURTHER_LEVELS[kind])
    assume(str(further).lower() not in [str(value).lower() for value in values])
    return values, further


CATEGORIES = levels().map(lambda drawn: Category(*drawn))
LABELS = levels().map(lambda drawn: Label(*drawn))


COLUMNS = st.dictionaries(NAMES, st.one_of(numbers(), CATEGORIES), min_size=1, max_size=4)
TARGETS = numbers(may_indicate=False)
KINDS_OF_TARGETS = st.sampled_from(["no target", "label", "number"])


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    columns: dict[str, Column] = draw(COLUMNS)
    others = NAMES.filter(lambda name: name not in columns)
    target = None
    match draw(KINDS_OF_TARGETS):
        case "label":
            columns[draw(others)] = draw(LABELS)
        case "number":
            target = draw(others)
            columns[target] = draw(TARGETS)
    person = draw(st.none() | st.builds(Person, others, st.integers(1, 10**6)))
    try:
        return Schema(columns, person, target)
    except SchemaError as error:
        # Two columns may by chance have the same name when encoded.
        assume("when encoded" not in error.problem)
        raise


def entries(column: Column) -> st.SearchStrategy[Any]:
    """Values that a column may hold, None for missing ones; numbers also outside of the bounds."""
    if isinstance(column, Number):
        found: st.SearchStrategy[Any] = st.one_of(st.floats(allow_nan=False), st.floats(column.low, column.high))
    else:
        listed = column.values if isinstance(column, Category) else column.classes
        found = st.sampled_from(listed)
    return found if column.missing is None else st.none() | found


@st.composite
def tables(draw: st.DrawFn, schema: Schema) -> dict[str, list[Any]]:
    """A table that fits the schema, as a dictionary of lists."""
    rows = draw(st.integers(1, 6))
    return {
        name: draw(st.lists(entries(column), min_size=rows, max_size=rows)) for name, column in schema.columns.items()
    }


SCHEMAS_WITH_TABLES = schemas().flatmap(lambda schema: st.tuples(st.just(schema), tables(schema)))


def chain_of(error: BaseException) -> list[BaseException]:
    """An error and all that it was raised from or while handling, whether shown or not."""
    chain: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        link = todo.pop()
        if link is not None and link not in chain:
            chain.append(link)
            todo += [link.__cause__, link.__context__]
    return chain


def assert_keeps(secret: str, error: BaseException) -> None:
    """No text of the error or of its chain contains the secret."""
    for link in chain_of(error):
        told = [str(link), repr(link), *traceback.format_exception_only(link)]
        assert not [text for text in told if secret in text], f"{type(link).__name__} tells the secret"
