"""What declared columns promise, and that what is written of them stays as it was written."""

from __future__ import annotations

import pytest

from sudare.privacy import Guarantee
from sudare.privacy.declared_columns import promise, read_columns, rows_per_unit, written_columns
from sudare.schema import Category, Number, Schema
from sudare.statistics import PrivateHistogram, PrivateMean
from tests.release_kit import PERSON_SCHEMA, SCHEMA, unfit


def test_promise():
    assert promise(0.5, 1e-6, "add-remove", SCHEMA) == Guarantee(0.5, 1e-6, neighbours="add-remove")
    assert promise(0.5, 0.0, "replace-one", PERSON_SCHEMA) == Guarantee(0.5, unit="person")


def test_rows_per_unit():
    assert rows_per_unit(SCHEMA) == 1
    assert rows_per_unit(PERSON_SCHEMA) == 2


def test_what_is_written_of_the_columns_cannot_be_changed_by_whoever_reads_it():
    model = PrivateMean(bounds=(0, 1), random_state=0).fit([[0.5]])
    model.release_content().parameters["columns"][0][1]["high"] = 99
    assert model.release_content().parameters["columns"] == [["x0", {"kind": "number", "low": 0, "high": 1}]]


KNOWN = Schema(
    {"a": Category((0, 1)), "b": Number(0, 9, determined_by="a"), "c": Category((0, 1))},
    maps={"b": {0: 3, 1: 4.5}},
    impossible=[{"a": 0, "c": 1}],
)


def test_facts_about_several_columns_are_written_where_there_are_any():
    written = written_columns(KNOWN)
    assert written["maps"] == {"b": {"0": 3, "1": 4.5}}
    assert written["impossible"] == [{"a": [0], "c": [1]}]
    assert read_columns(written) == KNOWN
    assert {*written_columns(SCHEMA)} == {"columns", "person"}


@pytest.mark.parametrize(
    "changed",
    [{"impossible": []}, {"impossible": [{"a": 0, "c": 1}]}, {"maps": {"b": {"1": 4.5, "0": 3.0}}}, {"maps": {}}],
)
def test_another_spelling_of_them_is_refused(changed):
    with unfit("its columns are not declared in canonical form"):
        read_columns({**written_columns(KNOWN), **changed})


def test_learners_that_draw_no_rows_do_not_release_them():
    rows = {"a": [0, 1, 1], "b": [1.0, 2.0, 3.0], "c": [0, 0, 1]}
    histogram = PrivateHistogram(schema=KNOWN, random_state=0).fit(rows)
    assert not {"maps", "impossible"} & {*histogram.release_content().parameters}
