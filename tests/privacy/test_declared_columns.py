"""What declared columns promise, and that what is written of them stays as it was written."""

from __future__ import annotations

from sudare.privacy import Guarantee
from sudare.privacy.declared_columns import promise, rows_per_unit
from sudare.statistics import PrivateMean
from tests.release_kit import PERSON_SCHEMA, SCHEMA


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
