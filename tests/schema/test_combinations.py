"""Facts about several columns: what is declared is kept in every way of writing, and what cannot hold is refused in words."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest

from sudare.errors import SchemaError
from sudare.schema import Category, Column, Date, Label, Number, Person, Schema, Span
from sudare.schema.combinations import cell_count, cell_text

FAMILY = """
[columns.sex]
kind = "category"
values = ["female", "male"]
missing = "no answer"

[columns.relationship]
kind = "category"
values = ["wife", "husband", "child"]

[columns.age]
kind = "number"
low = 0
high = 100
whole = true
bins = [18, 40, 65, 100]
atoms = [0, 40]
missing = "indicator"

[columns.degree]
kind = "category"
values = ["none", "school"]

[columns.years]
kind = "number"
low = 0
high = 20
determined_by = "degree"

[maps.years]
none = 0
school = 12.5

[[impossible]]
sex = "male"
relationship = "wife"

[[impossible]]
relationship = ["wife", "husband"]
age = { below = 18 }

[[impossible]]
relationship = "child"
age = [{ low = 65 }, "missing"]
years = 12.5
"""


def test_what_is_declared_is_read_and_written() -> None:
    schema = Schema.from_toml(FAMILY)
    assert schema.maps == {"years": {"none": 0, "school": 12.5}}
    assert schema.impossible[0] == {"sex": ("male",), "relationship": ("wife",)}
    assert schema.impossible[1] == {"relationship": ("wife", "husband"), "age": (Span(below=18),)}
    copies = [
        Schema.from_toml(schema.to_toml()),
        Schema.from_dict(json.loads(json.dumps(schema.to_dict()))),
        pickle.loads(pickle.dumps(schema)),
        copy.deepcopy(schema),
    ]
    for other in copies:
        assert other == schema
        assert hash(other) == hash(schema)
        assert other.digest == schema.digest
    plain = Schema(dict(schema.columns))
    assert plain != schema
    assert plain.digest != schema.digest
    assert not {"maps", "impossible"} & {*plain.to_dict()}
    changed = Schema(dict(schema.columns), maps={"years": {"none": 1, "school": 12.5}}, impossible=schema.impossible)
    assert changed != schema
    # To Python 1 and true are equal.
    columns = {"a": Category((0, 1)), "b": Category((False, True)), "c": Category((0, 1, 2))}
    assert Schema(columns, impossible=[{"a": 1, "c": 1}]) != Schema(columns, impossible=[{"a": 0, "c": 1}])


def test_cells_are_those_of_the_values() -> None:
    """Cells of age: 0 to 17, 18 to 39, 40 to 64, 65 to 99, and 100; atoms 0 and 40; missing. In place of years stands degree."""
    schema = Schema.from_toml(FAMILY)
    known = schema.known_cells
    assert cell_count(schema.columns["age"]) == 8
    assert known.impossible[1] == {"relationship": {0, 1}, "age": {0, 5}}
    assert known.impossible[2] == {"relationship": {2}, "age": {3, 4, 7}, "degree": {1}}
    assert known.excluded == known.impossible
    by, cells = known.maps["years"]
    assert (by, cells.tolist()) == ("degree", [0, 6])
    assert known.values("years", schema.maps["years"]) == [0, 12.5]
    alone = Schema(dict(schema.columns), impossible=[{"sex": "male", "age": 100.0}])
    assert alone.known_cells.impossible == ({"sex": {1}, "age": {4}},)
    texts = [cell_text(schema.columns["age"], cell) for cell in range(8)]
    assert texts == ["[0, 18)", "[18, 40)", "[40, 65)", "[65, 100)", "[100, 100]", "0", "40", "'missing'"]


def test_what_a_map_excludes_by_itself_needs_no_combination() -> None:
    schema = Schema.from_toml(FAMILY)
    told = Schema(
        dict(schema.columns),
        maps=schema.maps,
        impossible=[{"years": 0, "degree": "school"}, {"years": {"low": 13}, "sex": "male"}],
    )
    assert told.known_cells.excluded == ()
    assert len(told.known_cells.impossible) == 2


@pytest.mark.parametrize("bins", [None, (1, 2)])
def test_whole_numbers_determine_others(bins: tuple[float, ...] | None) -> None:
    columns: dict[str, Column] = {
        "stage": Number(0, 2, whole=True, bins=bins, atoms=(1,), missing="indicator"),
        "word": Category(("low", "high"), missing="unknown", determined_by="stage"),
    }
    words = {0: "low", 1.0: "low", "2": "high", "missing": "unknown"}
    schema = Schema(columns, maps={"word": words})
    assert schema.maps == {"word": {"0": "low", "1": "low", "2": "high", "missing": "unknown"}}
    assert schema.known_cells.maps["word"][1].tolist() == [0, 0, 1, 0, 2]
    assert Schema.from_toml(schema.to_toml()) == schema


def test_a_map_may_give_atoms_and_missing_numbers() -> None:
    columns: dict[str, Column] = {
        "plan": Category((False, True)),
        "price": Number(0, 9, bins=(5,), atoms=(2,), missing="indicator", determined_by="plan"),
    }
    schema = Schema(columns, maps={"price": {False: "missing", np.True_: 2}})
    assert schema.known_cells.maps["price"][1].tolist() == [3, 2]


COLUMNS: dict[str, Column] = {
    "sex": Category(("female", "male")),
    "wed": Category((False, True)),
    "age": Number(0, 100, whole=True, bins=(18, 40)),
    "height": Number(0, 250),
    "born": Date(first="2020-01-01", last="2021-01-01"),
    "degree": Category(("none", "school"), missing="unknown"),
    "years": Number(0, 20, whole=True, determined_by="degree"),
    "word": Category(("a", "b"), determined_by="degree"),
    "group": Category(("a", "b"), determined_by="age"),
    "of word": Category(("a", "b"), determined_by="word"),
    "of none": Category(("a", "b"), determined_by="nothing"),
    "ill": Label((0, 1)),
    "rank": Category(("a", "b"), determined_by="ill"),
}
YEARS = {"none": 0, "school": 12, "unknown": 0}


@pytest.mark.parametrize(
    ("maps", "told"),
    [
        (3, "not a table of columns"),
        ({"sex": {}}, "'sex', which no free column determines"),
        ({"nobody": {}}, "'nobody', which no free"),
        ({"ill": {}}, "'ill', which no free"),
        ({"of word": {"a": "a", "b": "b"}}, "'of word', which no free"),
        ({"of none": {}}, "'of none', which no free"),
        ({"years": 3}, "'years' is not a table"),
        ({"years": {**YEARS, "master": 3}}, "names 'master', which 'degree' cannot be"),
        ({"years": {"none": 0, "school": 12}}, "no value for 'degree' = 'unknown'"),
        ({"years": {**YEARS, "none": 21}}, "number that the column cannot be"),
        ({"years": {**YEARS, "none": 1.5}}, "number that the column cannot be"),
        ({"years": {**YEARS, "none": "missing"}}, "not a finite number"),
        ({"years": {**YEARS, 1.5: 0}}, "other than text"),
        ({"rank": {0: "a", "0": "b", 1: "a"}}, "'rank' names a value twice"),
        ({"word": {"none": "a", "school": "c", "unknown": "a"}}, "value of column 'word' that it cannot have"),
        ({"group": {"0": "a"}}, "'age' determines another by a map, and has bins of several"),
    ],
)
def test_maps_that_cannot_hold_are_refused(maps: Any, told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        Schema(COLUMNS, maps=maps)


@pytest.mark.parametrize(
    ("impossible", "told"),
    [
        (3, "`impossible` is not a list"),
        ("sex", "`impossible` is not a list"),
        ({"sex": "male"}, "`impossible` is not a list"),
        ([3], "not of two columns or more"),
        ([{"sex": "male"}], "not of two columns or more"),
        ([{"sex": "male", "nobody": 1}], "'nobody', which is not a declared number or category"),
        ([{"sex": "male", "born": "2020-01-02"}], "'born', which is not a declared number"),
        ([{"sex": "man", "wed": True}], "value of column 'sex' that it cannot have"),
        ([{"sex": "male", "wed": 1}], "value of column 'wed' that it cannot have"),
        ([{"sex": "male", "wed": []}], "empty list for 'wed'"),
        ([{"sex": "male", "wed": 1.5}], "other than text"),
        ([{"sex": "male", "age": 18}], "no whole bins"),
        ([{"sex": "male", "age": True}], "not a finite number"),
        ([{"sex": "male", "age": {"below": 17}}], "no whole bins"),
        ([{"sex": "male", "age": {"low": 17}}], "no whole bins"),
        ([{"sex": "male", "age": {"low": 40, "below": 18}}], "no whole bins"),
        ([{"sex": "male", "age": {}}], "no end"),
        ([{"sex": "male", "age": {"low": "x"}}], "not a finite number"),
        ([{"sex": "male", "age": {"high": 3}}], "other keys than low and below"),
        ([{"sex": "male", "age": "missing"}], "no whole bins"),
        ([{"sex": "male", "height": 0}], "no whole bins"),
        ([{"sex": "male", "years": 3}], "'years', which 'degree' determines in a way that is not declared"),
        ([{"sex": "male", "wed": True}, {"sex": ["male"], "wed": [False]}], "no row that has 'male' in column 'sex'"),
        (
            [{"sex": "male", "age": {"below": 18}}, {"sex": "female", "wed": [True, False]}],
            "no row that has 'female' in column 'sex'",
        ),
        (
            [{"sex": "male", "wed": True}, {"sex": "female", "ill": 0}, {"wed": True, "ill": 1}],
            "no row that has True in column 'wed'",
        ),
        ([{"sex": ["male", "female"], "age": {"low": 18, "below": 40}}], r"no row that has \[18, 40\) in column 'age'"),
    ],
)
def test_combinations_that_cannot_hold_are_refused(impossible: Any, told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        Schema(COLUMNS, impossible=impossible)


def test_a_map_and_combinations_that_contradict_each_other_are_refused() -> None:
    for wrong in ({"years": {"below": 13}, "degree": "school"}, {"years": [0], "sex": ["male", "female"]}):
        with pytest.raises(SchemaError, match=r"leaves no row that has '(school|none)' in column 'degree'"):
            Schema(COLUMNS, maps={"years": YEARS}, impossible=[wrong])
    with pytest.raises(SchemaError, match="'years' that its map does not have"):
        Schema(COLUMNS, maps={"years": YEARS}, impossible=[{"years": 13, "sex": "male"}])


def test_columns_that_are_connected_have_a_limit() -> None:
    columns = {f"x{place}": Category(tuple(range(20))) for place in range(6)}
    pairs = [{f"x{place}": 0, f"x{place + 1}": 0} for place in range(5)]
    assert Schema(columns, impossible=[pairs[0], pairs[2], pairs[4]])
    with pytest.raises(SchemaError, match="64,000,000 combinations"):
        Schema(columns, Person("who", 1), impossible=pairs)
