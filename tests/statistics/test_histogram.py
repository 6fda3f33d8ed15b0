"""The histogram: what it computes, to the last bit where there is no noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from sudare.errors import InvalidCost, InvalidParameter, SchemaError
from sudare.privacy import Guarantee
from sudare.privacy.column_sums import (
    l2_sensitivity,
)
from sudare.privacy.fit_plan import Plan
from sudare.privacy.mechanisms import Gaussian, Laplace
from sudare.privacy.release_content import Content
from sudare.schema import Category, Number, Person, Schema
from sudare.statistics import PrivateHistogram
from sudare.statistics.histogram import LARGEST_COUNT, proportions
from tests.release_kit import SCHEMA, fitted, refused, unfit


def declared(columns: int, most_rows: int | None = None) -> Schema:
    person = None if most_rows is None else Person("p", most_rows)
    return Schema({f"x{i}": Number(0, 1, bins=(0.5,)) for i in range(columns)}, person)


@pytest.mark.parametrize("most_rows", [None, 3])
@pytest.mark.parametrize(("neighbours", "cells"), [("replace-one", 2), ("add-remove", 1)])
def test_plans_of_the_histogram(most_rows, neighbours, cells):
    rows = most_rows or 1
    guarantee = Guarantee(0.5, neighbours=neighbours, unit="record" if most_rows is None else "person")
    pure = PrivateHistogram(0.5, neighbours=neighbours).plan(10, declared(3, most_rows))
    assert pure == Plan(Laplace(3.0 * cells * rows, 0.5, 6, integer_grid=1.0), guarantee)
    gaussian = PrivateHistogram(0.5, 1e-6, neighbours=neighbours).plan(10, declared(3, most_rows))
    l2 = l2_sensitivity(Fraction(cells), 3, rows)
    assert gaussian.mechanism == Gaussian(l2, 0.5, 1e-6, 6, integer_grid=1.0)


def test_histogram_tells_its_owner_how_many_values_were_clipped():
    rows = [[-1.0, 0.5], [0.5, 2.0], [3.0, 0.25], [1.0, 0.0]]
    model = PrivateHistogram(bounds=(0, 1), bins=2, random_state=0).fit(rows)
    assert model.clipped_ == {"x0": 2, "x1": 1}


def test_histogram_without_noise(no_noise):
    rows = np.array([[0.0, 1.0], [0.5, 2.0], [0.49, 3.0], [7.0, 4.0]])
    model = PrivateHistogram(bounds=([0, 0], [1, 4]), bins=2).fit(rows)
    assert {name: counts.tolist() for name, counts in model.counts_.items()} == {"x0": [2, 2], "x1": [1, 3]}
    assert model.counts_["x0"].dtype == np.int64
    assert model.probabilities_["x1"].tolist() == [0.25, 0.75]
    assert model.n_rows_ == 4
    assert model.noise_scale_ == 4.0
    assert PrivateHistogram(bounds=(0, 4), bins=2, neighbours="add-remove").fit(rows).n_rows_ is None


def test_histogram_of_a_schema_without_noise(no_noise):
    rows = pd.DataFrame(
        {
            "age": [10.0, None, 109.0],
            "bmi": [12.0, 18.5, 59.0],
            "smoker": ["no", None, "no"],
            "ill": [0, 1, 1],
        }
    )
    model = PrivateHistogram(schema=SCHEMA).fit(rows)
    assert model.counts_["age"].tolist() == [1, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    assert model.counts_["bmi"].tolist() == [1, 1, 0, 1]
    assert model.counts_["smoker"].tolist() == [2, 0, 1]
    assert list(model.counts_) == ["age", "bmi", "smoker"]


def test_gaussian_counts_are_whole(no_noise):
    model = PrivateHistogram(delta=1e-6, bounds=(0, 4), bins=4).fit([[0.0], [1.0], [1.5]])
    assert model.counts_["x0"].tolist() == [1, 2, 0, 0]


def test_score_of_the_histogram(no_noise):
    model = PrivateHistogram(bounds=(0, 1), bins=2).fit([[0.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.9, 1.0]])
    logs = math.log(0.75) + math.log(0.5)
    assert model.score([[0.1, 0.1]]) == pytest.approx(logs, rel=1e-15)
    assert model.score([[0.1, 0.1], [0.9, 0.9]]) == pytest.approx((logs + math.log(0.25) + math.log(0.5)) / 2)


def test_score_of_cells_that_noise_emptied(no_noise):
    model = PrivateHistogram(bounds=(0, 1), bins=2).fit([[0.0]] * 10)
    assert model.score([[1.0]]) == pytest.approx(math.log(0.5 / 10))
    model._set_counts(np.array([-3, -5]))
    assert model.probabilities_["x0"].tolist() == [0.5, 0.5]
    assert model.score([[1.0]]) == pytest.approx(math.log(0.5))
    model._set_counts(np.array([5, -5]))
    assert model.score([[1.0]]) == pytest.approx(math.log(0.1))
    model._set_counts(np.array([1, 0]))
    assert model.score([[1.0]]) == pytest.approx(math.log(0.5))


def test_score_uses_the_mean_total_of_the_columns(no_noise):
    model = PrivateHistogram(bounds=(0, 1), bins=2).fit([[0.0, 0.0]])
    model._set_counts(np.array([10, 0, 30, -4]))
    assert model.score([[1.0, 0.0]]) == pytest.approx(math.log(0.5 / 20))


def test_counts_saturate(far_off):
    model = PrivateHistogram(bounds=(0, 1), bins=2).fit([[0.0, 1.0]] * 3)
    assert model.counts_["x1"].tolist() == [LARGEST_COUNT, LARGEST_COUNT]
    assert LARGEST_COUNT == 2**53
    assert model.probabilities_["x0"].tolist() == [0.5, 0.5]
    assert model.score([[0.0, 0.0]]) == pytest.approx(2 * math.log(0.5))
    # So many of the largest counts add up to more than 64 bits hold.
    many = PrivateHistogram(bounds=(0, 1), bins=2000).fit([[0.0]])
    assert many.score([[0.0]]) == pytest.approx(math.log(1 / 2000))


def test_counts_saturate_below(far_below):
    model = PrivateHistogram(bounds=(0, 1), bins=2).fit([[0.0]])
    assert model.counts_["x0"].tolist() == [-LARGEST_COUNT, -LARGEST_COUNT]


def test_proportions():
    assert proportions(np.array([1, 3])).tolist() == [0.25, 0.75]
    assert proportions(np.array([-1, 2, 2])).tolist() == [0.0, 0.5, 0.5]
    assert proportions(np.array([0, 0, 0, 0])).tolist() == [0.25] * 4
    assert proportions(np.array([-1, -9])).tolist() == [0.5, 0.5]
    assert proportions(np.array([0, 1])).tolist() == [0.0, 1.0]


def test_bins():
    def edges(bins) -> tuple[float, ...]:
        model = PrivateHistogram(bounds=(0, 8), bins=bins).fit([[1.0]])
        column = model.declared_.columns["x0"]
        assert isinstance(column, Number)
        assert len(model.counts_["x0"]) == len(column.bins) + 1
        return column.bins

    assert edges(2) == (4.0,)
    assert edges(4) == edges(np.int64(4)) == (2.0, 4.0, 6.0)
    assert edges([1, 2.5]) == edges((1, 2.5)) == edges(np.array([1, 2.5])) == (1.0, 2.5)
    assert len(edges(10_000)) == 9_999
    assert len(PrivateHistogram(bounds=(0, 1)).fit([[1.0]]).counts_["x0"]) == 10


@pytest.mark.parametrize("bins", [1, 0, -3, True, False, 10_001, np.int64(1), 10**30])
def test_numbers_of_bins_that_cannot_be(bins):
    with refused(InvalidParameter, f"bins must be from 2 to 10000, got {bins!r}.", "Use for example 10."):
        PrivateHistogram(bounds=(0, 1), bins=bins).fit([[1.0]])


@pytest.mark.parametrize("bins", [None, 2.5, "10", {0.5}, {"a": 1}])
def test_bins_that_are_neither_number_nor_edges(bins):
    with refused(InvalidParameter, "bins must be a number of bins or a list of inner edges.", "Use for example 10."):
        PrivateHistogram(bounds=(0, 1), bins=bins).fit([[1.0]])


@pytest.mark.parametrize("bins", [[], [0], [2], [0.5, 0.4], [math.nan], ["a"]])
def test_edges_that_cannot_be(bins):
    with pytest.raises(SchemaError):
        PrivateHistogram(bounds=(0, 1), bins=bins).fit([[1.0]])


@pytest.mark.parametrize("neighbours", ["", "add/remove", None, 1])
def test_neighbours_that_are_not_known(neighbours):
    with refused(InvalidParameter, "neighbours must be one of replace-one, add-remove.", "Use one of these words."):
        PrivateHistogram(bounds=(0, 1), neighbours=neighbours).fit([[1.0]])
    with pytest.raises(InvalidCost, match="epsilon must be a positive"):
        PrivateHistogram("1", bounds=(0, 1), neighbours=neighbours).fit([[1.0]])


def test_content_of_counts():
    model = fitted(PrivateHistogram, "schema", None)
    content = model.release_content()
    assert content.tensors["counts"].tolist() == [count for part in model.counts_.values() for count in part]
    assert content.grids == {"counts": None}
    assert (content.tensors["counts"].shape, content.tensors["counts"].dtype) == ((10 + 4 + 3,), np.int64)
    model.check_numbers(content)


def histogram_content(counts, **parameters) -> Content:
    original = fitted(PrivateHistogram, "bounds", None, rows=[[0.5]], bins=2).release_content()
    return Content({**original.parameters, **parameters}, {"counts": np.array(counts)}, {"counts": None})


def test_values_of_a_released_histogram():
    for counts in ([0, 0], [-(2**53), 2**53]):
        assert PrivateHistogram.check_content(histogram_content(counts), None) == Guarantee(1.0)
    for counts in ([2**53 + 1, 0], [0, -(2**53) - 1], [-(2**63), 0]):
        with unfit("its numbers lie outside of what was declared"):
            PrivateHistogram.check_content(histogram_content(counts), None)


def test_bins_come_back():
    single = PrivateHistogram(bounds=(0, 1), bins=4).fit([[0.3]]).release_content()
    assert PrivateHistogram.from_release(single, None).bins == (0.25, 0.5, 0.75)
    for bins, bounds in ((4, (0, 1)), (4, (0, [1, 2])), ((0.25, 0.5), (0, [1, 2])), (2, (0, [1, 3]))):
        model = PrivateHistogram(bounds=bounds, bins=bins).fit(np.full((3, 2), 0.3))
        loaded = PrivateHistogram.from_release(model.release_content(), None)
        again = PrivateHistogram(**loaded.get_params()).fit(np.full((3, 2), 0.3))
        assert again.declared_ == model.declared_ == loaded.declared_
    assert PrivateHistogram.from_release(model.release_content(), None).bins == 2
    by_schema = PrivateHistogram.from_release(fitted(PrivateHistogram, "schema", None).release_content(), "0" * 64)
    assert by_schema.bins == 10


def test_categories_are_counted_by_their_declared_values(no_noise):
    schema = Schema({"a": Category((3, 1, 2))})
    model = PrivateHistogram(schema=schema).fit({"a": [1, 1, 3]})
    assert model.counts_["a"].tolist() == [1, 2, 0]
