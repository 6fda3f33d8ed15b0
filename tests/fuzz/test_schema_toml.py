"""Whatever text is offered as a schema: a schema that survives being written, or a SchemaError; nothing else."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.errors import SchemaError
from sudare.schema import Schema

VALID = """\
[columns.age]
kind = "number"
low = 0
high = 110
centre = 40.5
scale = 2e1
bins = [18, 30.5, 65]
unit = "years"
missing = "indicator"

[columns."blood type"]
kind = "category"
values = ["0", "A", "B", "AB"]
missing = "not known"

[columns.smoker]
kind = "category"
values = [true, false]

[columns.outcome]
kind = "label"
classes = [0, 1, -2]

[columns.group]
kind = "category"
values = ["a", "b"]
determined_by = "smoker"

[person]
column = "patient_id"
most_rows = 3

[maps.group]
true = "a"
false = "b"

[[impossible]]
smoker = true
age = { below = 18 }
"blood type" = ["A", "not known"]
"""
WORDS = [
    *"[]{}=\"'.,#\n\\?-",
    *(
        "kind",
        "low",
        "high",
        "bins",
        "missing",
        "values",
        "columns",
        "person",
        "target",
        "most_rows",
        "maps",
        "impossible",
        "below",
        "column",
        "label",
    ),
    *(
        "inf",
        "nan",
        "-0.0",
        "1e400",
        "true",
        "1979-05-27",
        "07:32:00",
        "0x10",
        "9" * 400,
        "5e-324",
        '"?"',
        '""',
        "[[]]",
    ),
    *("[target]\n", '"\\ud800"', '"\\u0000"', "[columns]", "columns.age", '"centre"', "number", "category"),
]
DAMAGED_IN_DEFAULT_RUN = 3_000
DAMAGED_IN_LONG_RUN = 200_000


def check(text: str) -> None:
    try:
        schema = Schema.from_toml(text)
    except SchemaError:
        return
    assert Schema.from_toml(schema.to_toml()) == schema
    for encoding in ("scaled", "centred", "binned"):
        assert schema.norm_bound(encoding) < float("inf")  # type: ignore[arg-type]


def damaged(generator: random.Random) -> str:
    """The valid text with a few pieces cut out, doubled, moved, or replaced by words of the trade."""
    text = VALID
    for _ in range(generator.randint(1, 4)):
        start = generator.randrange(len(text) + 1)
        end = min(len(text), start + generator.choice([0, 1, 2, 5, 20, 80]))
        piece = generator.choice(["", text[start:end] * 2, generator.choice(WORDS), chr(generator.randrange(0xD800))])
        if generator.random() < 0.3:
            lines = text.splitlines(keepends=True)
            generator.shuffle(lines)
            text = "".join(lines[: generator.randrange(len(lines) + 1)])
        else:
            text = text[:start] + piece + text[end:]
        text = text or VALID
    return text


def test_the_text_that_is_damaged_is_valid() -> None:
    assert Schema.from_toml(VALID).label == "outcome"


@settings(max_examples=300)
@given(st.text() | st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_any_text(text: str) -> None:
    check(text)


def test_damaged_schemas() -> None:
    generator = random.Random(20260)
    for _ in range(DAMAGED_IN_DEFAULT_RUN):
        check(damaged(generator))


@pytest.mark.long
def test_many_damaged_schemas() -> None:
    generator = random.Random()
    for _ in range(DAMAGED_IN_LONG_RUN):
        text = damaged(generator)
        try:
            check(text)
        except Exception as error:
            raise AssertionError(f"not refused cleanly: {text!r}") from error


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3) | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(["kind", "low", "high", "centre", "scale", "bins", "unit", "missing", "values", "classes"])
FACTS = st.dictionaries(KEYS, ANYTHING | st.sampled_from(["number", "category", "label", 0, 1, [0, 1]]))


@settings(max_examples=300)
@given(st.dictionaries(st.text(max_size=3), FACTS | ANYTHING, max_size=3), ANYTHING, ANYTHING)
def test_any_dictionary(columns: dict[str, object], target: object, person: object) -> None:
    for document in (columns, {"columns": columns}, {"columns": columns, "target": target, "person": person}):
        try:
            schema = Schema.from_dict(document)
        except SchemaError:
            continue
        assert Schema.from_dict(schema.to_dict()) == schema
