"""proofs/discovery.md, executed: the exact privacy loss of whole transcripts of a draft, and the exact δ of the values it shows.

A draft asks one histogram after the other, and where the next one looks depends on the noisy answers. So a transcript of one table is
answered again, word for word, by its neighbour: its loss is the sum of what the exact counts differ by, over the noise scales.
Nothing here is random but the tables, so no gate raises a false alarm.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.errors import InvalidParameter
from sudare.privacy.accounting import exact
from sudare.privacy.mechanisms import Laplace
from sudare.privacy.noise import SeededNoise
from sudare.statistics import found_bounds, schema_discovery
from sudare.statistics.found_bounds import BoundsRule
from sudare.statistics.schema_discovery import count_threshold, found_category, found_column

EPSILON = 0.7
PROMISED = exact(EPSILON)
KINDS = ("fractions", "whole numbers", "dates or times")
VALUES = st.sampled_from([0.0, 1.0, -3.0, 7.5, 1e6, -1e-9, 2.0**62, math.inf, math.nan, 300.0])


class Transcript(SeededNoise):
    """Noise that notes exact counts and scales; with `answers` it gives those instead of noise."""

    def __init__(self, answers: list[np.ndarray] | None = None) -> None:
        super().__init__(5)
        self.asked: list[tuple[np.ndarray, float]] = []
        self.given = answers
        self.answers: list[np.ndarray] = []

    def laplace(self, values: Any, scale: float) -> Any:
        self.asked.append((values.copy(), scale))
        answer = super().laplace(values, scale) if self.given is None else self.given[len(self.asked) - 1]
        self.answers.append(answer)
        return answer


def loss(first: np.ndarray, second: np.ndarray, kind: str = "fractions", unit_rows: int = 1) -> Fraction | None:
    """The exact loss of what a draft shows of a column, at most; None where the two tables are not even asked the same."""
    seen = Transcript()
    found_column(first, kind, EPSILON, unit_rows, seen)
    again = Transcript(seen.answers)
    try:
        found_column(second, kind, EPSILON, unit_rows, again)
    except (IndexError, ValueError):
        return None
    if [(len(counts), scale) for counts, scale in seen.asked] != [
        (len(counts), scale) for counts, scale in again.asked
    ]:
        return None
    pairs = zip(seen.asked, again.asked, strict=True)
    return sum(
        (Fraction(int(np.abs(one - other).sum())) / Fraction(scale) for (one, scale), (other, _) in pairs), Fraction(0)
    )


def neighbours(unit_rows: int, spread: float = 40.0) -> tuple[np.ndarray, np.ndarray]:
    """A column of which a unit's rows are far from where they are in the other."""
    column = np.random.default_rng(3).normal(spread, spread, 20_000)
    other = column.copy()
    column[:unit_rows], other[:unit_rows] = 35.0, 2e5
    return column, other


@pytest.mark.parametrize("unit_rows", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_a_transcript_loses_no_more_than_was_promised_and_nearly_that_much(kind: str, unit_rows: int) -> None:
    found = loss(*(np.rint(each) for each in neighbours(unit_rows)), kind, unit_rows)
    assert found is not None
    assert PROMISED * Fraction(99, 100) < found <= PROMISED


@settings(max_examples=40)
@given(st.lists(VALUES, min_size=1, max_size=6), VALUES, st.integers(1, 4000))
def test_no_replaced_row_loses_more(column: list[float], value: float, repeated: int) -> None:
    first = np.repeat(np.array(column), repeated)
    second = first.copy()
    second[0] = value
    found = loss(first, second)
    assert found is not None
    assert found <= PROMISED


def half_the_noise(epsilon: float, cells: int, unit_rows: int) -> Laplace:
    """Planted: only the cell that a row enters is counted."""
    return Laplace(float(unit_rows), epsilon, cells, integer_grid=1.0)


def test_planted_bugs_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = neighbours(1)
    with monkeypatch.context() as patched:
        patched.setattr(schema_discovery, "noise_on_counts", half_the_noise)
        assert (loss(first, second) or 0) > PROMISED
    with monkeypatch.context() as patched:
        # Shares that add up to more than one.
        patched.setattr(found_bounds.found_number, "__defaults__", (1, BoundsRule(shares=(0.5, 0.5, 0.5))))
        assert (loss(first, second) or 0) > PROMISED
    with monkeypatch.context() as patched:
        # A grid from the column itself.
        patched.setattr(
            schema_discovery, "found_number", lambda noisy, *_, whole: noisy(np.arange(7.0), EPSILON).sum() > 0 and None
        )
        patched.setattr(
            schema_discovery.np, "searchsorted", lambda edges, values, side: np.digitize(values, np.unique(values)) % 8
        )
        assert (loss(first, second) or 1) > PROMISED
    # The neighbour with all rows of a unit, protected as if it had one.
    assert (loss(*neighbours(4), "fractions", 1) or 0) > PROMISED


def chance_of_showing(
    values_of_unit: int, count_each: int, epsilon: float, delta: float, unit_rows: int, least: int
) -> float:
    """The exact probability that any of a unit's own values is shown: each has P(count + Z ≥ least), Z discrete Laplace."""
    scale = found_bounds.noise_on_counts(epsilon, 1, unit_rows).scale_in_steps
    q, steps = math.exp(-1 / scale), least - count_each
    shown = q**steps / (1 + q) if steps >= 1 else 1 - q ** (1 - steps) / (1 + q)
    return -math.expm1(values_of_unit * math.log1p(-shown))


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("unit_rows", [1, 2, 7])
def test_values_of_one_unit_alone_are_shown_with_probability_delta_at_most(
    unit_rows: int, epsilon: float, delta: float
) -> None:
    least = count_threshold(found_bounds.noise_on_counts(epsilon, 1, unit_rows).noise_scale, delta, unit_rows)
    for values in range(1, unit_rows + 1):
        assert chance_of_showing(values, unit_rows // values, epsilon, delta, unit_rows, least) <= delta
    # Planted: a threshold that forgets how many rows a unit has, or how many values.
    forgetful = math.ceil(found_bounds.noise_on_counts(epsilon, 1, 1).noise_scale * math.log(1 / delta))
    assert unit_rows == 1 or chance_of_showing(1, unit_rows, epsilon, delta, unit_rows, forgetful) > delta


def test_counts_of_values_that_both_tables_have_lose_epsilon_at_most() -> None:
    first = np.array(["a"] * 5000 + ["b"] * 5000, dtype=object)
    second = first.copy()
    second[0] = "b"
    scales = []
    for column in (first, second):
        seen = Transcript()
        found_category(Counter(column.tolist()), EPSILON, 1e-6, 1, seen)
        scales.append(seen.asked)
    ((one, scale),), ((other, _),) = scales
    assert Fraction(int(np.abs(one - other).sum())) / Fraction(scale) <= PROMISED
    assert Fraction(int(np.abs(one - other).sum())) / Fraction(scale) > PROMISED * Fraction(99, 100)


def test_a_delta_that_the_proof_does_not_cover_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="too large"):
        count_threshold(1000.0, 0.01, 1)
