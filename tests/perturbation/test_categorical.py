"""Perturbations of category columns; their laws are counted in tests/guarantees/test_records.py."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sudare.errors import DataError, MissingValue, SchemaError, UnknownCategory
from sudare.perturbation import RetainReplace, SubsetSelection, UnaryEncoding
from sudare.perturbation.categorical import best_kind, level_array

CATEGORIES = (RetainReplace, UnaryEncoding, SubsetSelection)


def test_kinds_are_chosen_by_variance() -> None:
    """Wang et al. (2017): direct answers while there are fewer than 3e^ε + 2 categories."""
    assert best_kind(7, 0.65) is RetainReplace
    assert best_kind(8, 0.65) is SubsetSelection
    assert best_kind(42, 5.2) is RetainReplace


def test_categories_of_mixed_kinds_are_objects() -> None:
    assert level_array(("a", "b")).dtype.kind == "U"
    assert level_array((1, "none")).dtype == object


def test_retained_probability_of_the_paper() -> None:
    """ρ = (r − 1)/(r − 1 + V) with r = √((N − 1)/(k − 1))."""
    perturbation = RetainReplace(list("abcde"), k=3, n_records=1001)
    ratio = math.sqrt(1000 / 2)
    own, other = perturbation.tick_probabilities
    assert own - other == pytest.approx((ratio - 1) / (ratio - 1 + 5), rel=1e-6)
    assert own == pytest.approx(ratio / (ratio - 1 + 5), rel=1e-6)
    assert own + 4 * other == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("kind", CATEGORIES)
def test_categories_that_cannot_be_perturbed(kind: Any) -> None:
    with pytest.raises(SchemaError, match="fewer than two"):
        kind(["a"], epsilon=1.0)
    with pytest.raises(SchemaError, match="more than 4096"):
        kind(range(5000), epsilon=1.0)
    perturbation = kind(["a", "b"], epsilon=1.0)
    with pytest.raises(UnknownCategory):
        perturbation.perturb(["a", "secret"])
    with pytest.raises(MissingValue):
        perturbation.perturb(["a", None])
    with pytest.raises(DataError, match="no values"):
        perturbation.perturb([])
    assert len(kind(["a", "b"], epsilon=1.0, missing="?").perturb(["a", None])) == 2
