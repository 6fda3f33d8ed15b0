"""Parameters that a release must hold to be taken: those that a learner could have written, and no other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sudare.errors import InvalidCost, InvalidParameter, SchemaError
from sudare.privacy import Guarantee
from sudare.privacy.release_content import Content
from sudare.statistics import PrivateHistogram, PrivateMean, PrivateStandardScaler
from tests.release_kit import unfit


def parameters(**changes) -> dict:
    values = {
        "epsilon": 1.0,
        "delta": 0.0,
        "neighbours": "replace-one",
        "rows": 7,
        "columns": [["x0", {"kind": "number", "low": 0, "high": 1}], ["x1", {"kind": "number", "low": 0, "high": 2}]],
        "person": None,
    }
    return {**values, **changes}


def mean_content(tensor=(0.5, 1.5), **changes) -> Content:
    return Content(parameters(**changes), {"mean": np.array(tensor, dtype=np.float64)}, {"mean": 0.25})


def test_content_that_is_accepted():
    assert PrivateMean.check_content(mean_content(), None) == Guarantee(1.0)
    assert PrivateMean.check_content(mean_content(delta=1e-6, rows=1), "0" * 64) == Guarantee(1.0, 1e-6)
    assert PrivateMean.check_content(mean_content(rows=2**53 - 1), "0" * 64) == Guarantee(1.0)
    person = {"column": "p", "most_rows": 3}
    assert PrivateMean.check_content(mean_content(person=person), "0" * 64) == Guarantee(1.0, unit="person")


def test_parameters_of_a_learner():
    missing = parameters()
    del missing["rows"]
    for wrong in ({}, missing, parameters(clipped=0)):
        with unfit("its parameters are not those of its learner"):
            PrivateMean.check_content(replace(mean_content(), parameters=wrong), None)


@pytest.mark.parametrize("value", [1, "1", None, True, [1.0], 0])
def test_parameters_that_are_not_numbers(value):
    with unfit("a parameter is not a number"):
        PrivateMean.check_content(mean_content(epsilon=value), None)
    with unfit("a parameter is not a number"):
        PrivateMean.check_content(mean_content(delta=value), None)


@pytest.mark.parametrize("change", [{"epsilon": 0.0}, {"epsilon": -1.0}, {"delta": 1.0}, {"delta": -0.5}])
def test_parameters_that_promise_nothing(change):
    with pytest.raises(InvalidCost):
        PrivateMean.check_content(mean_content(**change), None)


@pytest.mark.parametrize("value", ["add-remove", "", None, 1, ["replace-one"], {}])
def test_neighbours_of_a_learner(value):
    for learner in (PrivateMean, PrivateStandardScaler):
        with unfit("its neighbours are not those of its learner"):
            learner.check_content(mean_content(neighbours=value, rows=None), None)
    if value != "add-remove":
        with unfit("its neighbours are not those of its learner"):
            PrivateHistogram.check_content(mean_content(neighbours=value), None)


@pytest.mark.parametrize("rows", [0, -1, 2**53, 1.0, "1", None, True, [1]])
def test_number_of_rows(rows):
    with unfit("its number of rows is not what its neighbours allow"):
        PrivateMean.check_content(mean_content(rows=rows), None)
    if rows is not None:
        with unfit("its number of rows is not what its neighbours allow"):
            PrivateHistogram.check_content(mean_content(neighbours="add-remove", rows=rows), None)


@pytest.mark.parametrize(
    "columns",
    [
        None,
        "x0",
        {},
        [["x0"]],
        [["x0", {}, {}]],
        [[1, {}]],
        ["x0"],
        [["x0", {"kind": "number"}], None],
        [{"a": 1, "b": 2}],
    ],
)
def test_columns_that_are_not_declared(columns):
    with unfit("its columns are not declared"):
        PrivateMean.check_content(mean_content(columns=columns), None)


NUMBER_FACTS = {"kind": "number", "low": 0, "high": 1}


@pytest.mark.parametrize(
    "columns",
    [
        [["x0", NUMBER_FACTS], ["x0", NUMBER_FACTS]],
        [["x0", {**NUMBER_FACTS, "low": 0.0}]],
        [["x0", {**NUMBER_FACTS, "unit": None}]],
        [["x0", {**NUMBER_FACTS, "bins": [0.5, 0.75], "centre": 1.0}]],
    ],
)
def test_columns_in_another_spelling(columns):
    with unfit("its columns are not declared in canonical form"):
        PrivateMean.check_content(mean_content(columns=columns), "0" * 64)


@pytest.mark.parametrize("person", [{}, [], "p", {"column": "x0", "most_rows": 1}, {"column": "p", "most_rows": 0}])
def test_persons_that_cannot_be(person):
    with pytest.raises(SchemaError):
        PrivateMean.check_content(mean_content(person=person), "0" * 64)


@pytest.mark.parametrize(
    "columns",
    [
        [["x0", NUMBER_FACTS], ["x1", {"kind": "category", "values": ["a", "b"]}]],
        [["x0", NUMBER_FACTS], ["x1", {"kind": "label", "classes": [0, 1]}]],
        [["x0", {**NUMBER_FACTS, "missing": "centre"}], ["x1", NUMBER_FACTS]],
    ],
)
def test_columns_that_a_learner_does_not_take(columns):
    with unfit("its columns are not those of its learner"):
        PrivateMean.check_content(mean_content(columns=columns), "0" * 64)


@pytest.mark.parametrize(
    "changes",
    [
        {"columns": [["x1", NUMBER_FACTS], ["x0", NUMBER_FACTS]]},
        {"columns": [["x0", NUMBER_FACTS], ["x2", NUMBER_FACTS]]},
        {"columns": [["a", NUMBER_FACTS], ["b", NUMBER_FACTS]]},
        {"person": {"column": "p", "most_rows": 1}},
    ],
)
def test_columns_that_bounds_do_not_make(changes):
    PrivateMean.check_content(mean_content((0.5, 0.5), **changes), "0" * 64)
    with unfit("its columns are not those of its learner"):
        PrivateMean.check_content(mean_content((0.5, 0.5), **changes), None)


def test_categories_do_not_come_from_bounds():
    columns = [["x0", {"kind": "category", "values": ["a", "b"]}]]
    content = Content(parameters(columns=columns), {"counts": np.array([1, 2])}, {"counts": None})
    assert PrivateHistogram.check_content(content, "0" * 64) == Guarantee(1.0)
    with unfit("its columns are not those of its learner"):
        PrivateHistogram.check_content(content, None)


def test_tensors_of_a_learner():
    for tensors in ({}, {"mean": np.ones(3)}, {"mean": np.array([0, 1])}, {"mean": np.ones(2), "b": np.ones(2)}):
        with unfit("its tensors do not have the shapes and types of its learner"):
            PrivateMean.check_content(replace(mean_content(), tensors=tensors), None)


@pytest.mark.parametrize("tensor", [(-0.25, 1.0), (1.25, 1.0), (0.5, 2.25), (np.nan, 1.0), (np.inf, 1.0)])
def test_numbers_outside_of_the_bounds(tensor):
    with unfit("its numbers lie outside of what was declared"):
        PrivateMean.check_content(mean_content(tensor), None)
    assert PrivateMean.check_content(mean_content((0.0, 2.0)), None) == Guarantee(1.0)
    assert PrivateMean.check_content(mean_content((1.0, 0.0)), None) == Guarantee(1.0)


class Sworn(PrivateMean):
    """A mean with a parameter of its own in releases, which is 1."""

    extra_parameters = ("oath",)

    def _take_extra(self, parameters):
        self.oath_ = (1,).index(parameters["oath"])


def test_parameters_that_only_some_learners_write():
    assert Sworn.check_content(mean_content(oath=1), None) == Guarantee(1.0)
    assert Sworn.from_release(mean_content(oath=1), None).oath_ == 0
    for learner, changes in (
        (Sworn, {}),
        (Sworn, {"oath": 2}),
        (Sworn, {"oath": 1, "more": 1}),
        (PrivateMean, {"oath": 1}),
    ):
        with unfit("its parameters are not those of its learner"):
            learner.check_content(mean_content(**changes), None)


@pytest.mark.parametrize("error", [InvalidParameter("x", "y"), TypeError, ValueError, KeyError, AttributeError])
def test_learners_that_cannot_be_made_of_a_content(error, monkeypatch):
    def failing(*_):
        raise error

    for hook in ("_take_extra", "check_numbers"):
        with monkeypatch.context() as patch, unfit("its parameters are not those of its learner"):
            patch.setattr(PrivateMean, hook, failing)
            PrivateMean.check_content(mean_content(), None)
