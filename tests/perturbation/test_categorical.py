"""Perturbations of category columns; their laws are counted in tests/guarantees/test_records.py."""

from __future__ import annotations

from sudare.perturbation import RetainReplace, SubsetSelection
from sudare.perturbation.categorical import best_kind, level_array


def test_kinds_are_chosen_by_variance() -> None:
    """Wang et al. (2017): direct answers while there are fewer than 3e^ε + 2 categories."""
    assert best_kind(7, 0.65) is RetainReplace
    assert best_kind(8, 0.65) is SubsetSelection
    assert best_kind(42, 5.2) is RetainReplace


def test_categories_of_mixed_kinds_are_objects() -> None:
    assert level_array(("a", "b")).dtype.kind == "U"
    assert level_array((1, "none")).dtype == object
