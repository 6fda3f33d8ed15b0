"""Numbers of repetitions are kept apart by name and ε, every repetition is told, and more processes give the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from joblib import parallel_config

from sudare.papers.repetitions import Measurements, estimated_series, repeated, repeated_results
from sudare.papers.study import Estimate


def test_numbers_are_kept_by_name_and_epsilon():
    found = Measurements()
    for value in (0.8, 0.9):
        found.note("accuracy", value, 1.0)
        found.note("accuracy", value + 0.05, 2.0)
        found.note(("pooled", 3), value)
    assert found.at("accuracy", 1.0) == Estimate(pytest.approx(0.85), pytest.approx(0.05), 2)
    assert found.values("accuracy", 2.0) == [0.8 + 0.05, 0.9 + 0.05]
    assert found.values(("pooled", 3)) == [0.8, 0.9]
    assert found.values("nothing") == []
    assert found.repeats == 2
    found.note("once", 1.0)
    assert found.repeats == 1


def test_a_series_has_means_and_standard_errors():
    series = estimated_series("ours", [Estimate(1.0, 0.1, 3), Estimate(2.0, 0.2, 3)])
    assert (series.values, series.standard_errors) == ([1.0, 2.0], [0.1, 0.2])


def test_every_repetition_is_told():
    told: list[str] = []
    assert repeated_results(told.append, "figure 3", 2, lambda number: 10 * number) == [0, 10]
    assert told == ["figure 3, repetition 1 of 2", "figure 3, repetition 2 of 2"]


def drawn_numbers(backend: str, jobs: int) -> Measurements:
    def note(found: Measurements, generator: np.random.Generator) -> None:
        found.note("draw", generator.uniform())
        found.note("draw", generator.uniform(), 1.0)

    with parallel_config(backend=backend, n_jobs=jobs):
        return repeated(lambda _: None, "draws", 5, 7, note)


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.long)])
def test_several_jobs_give_the_same_numbers_in_the_same_order(backend):
    alone = repeated(lambda _: None, "draws", 5, 7, lambda found, generator: found.note("draw", generator.uniform()))
    together = drawn_numbers(backend, 2)
    assert together.values("draw") == alone.values("draw")
    assert together.numbers == drawn_numbers(backend, 1).numbers
