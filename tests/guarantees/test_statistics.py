"""proofs/statistics.md, executed: one unit moves the exact sums by no more than the noise is calibrated for, and by that much.

The vectors are taken at the moment when the noise would be added, after reading, clipping, scaling, rounding and
summing, and compared as exact fractions: what floating point does to a sum is inside the comparison.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sudare.privacy.column_sums import exact_sums, fixed_point_step
from sudare.privacy.fit_plan import Plan
from sudare.privacy.mechanisms import Gaussian, InfinityNorm, Laplace
from sudare.schema import Category, Number, Person, Schema
from sudare.statistics import GroupedTable, PrivateHistogram, PrivateMean, PrivateStandardScaler
from sudare.statistics.grouped_noise import InfinityNormCells

LEARNERS = (PrivateMean, PrivateHistogram, PrivateStandardScaler)
DELTAS = (0.0, 1e-6)
RANGES = ((0.0, 1.0), (-1.0, 3.0), (0.1, 0.3), (-8e307, 8e307), (1e10, 1e10 + 1e-3), (0.0, 1e-200))


@dataclass
class Recorder:
    """A mechanism that notes the values it is given instead of adding noise to them."""

    mechanism: Any
    seen: list[list[Fraction]]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.mechanism, name)

    def apply(self, values: np.ndarray, source: object) -> np.ndarray:
        self.seen.append([Fraction(value) for value in values.tolist()])
        return values


def before_noise(learner: type, data: object, **parameters: Any) -> tuple[list[Fraction], Any]:
    """The exact vector to which a fit would add noise, and the mechanism that would add it."""
    recorders = []

    def plan(self: Any, rows: int, declared: Schema) -> Plan:
        planned = learner.plan(self, rows, declared)
        recorders.append(Recorder(planned.mechanism, []))
        return Plan(recorders[-1], planned.guarantee)

    type("Recorded", (learner,), {"plan": plan})(**parameters).fit(data)
    return recorders[-1].seen[-1], recorders[-1].mechanism


def distance(first: list[Fraction], second: list[Fraction], mechanism: Any) -> Fraction:
    """How far apart two vectors are, in the norm of the mechanism and as a part of its sensitivity; squared for L2."""
    differences = [abs(a - b) for a, b in zip(first, second, strict=True)]
    if isinstance(mechanism, InfinityNormCells):
        cells = len(differences) // mechanism.numbers
        largest = (max(differences[cell::cells]) for cell in range(cells))
        return sum(largest, Fraction(0)) / Fraction(mechanism.sensitivity)
    if isinstance(mechanism, Laplace):
        return sum(differences, Fraction(0)) / Fraction(mechanism.sensitivity)
    if isinstance(mechanism, InfinityNorm):
        return max(differences) / Fraction(mechanism.sensitivity)
    return sum((difference**2 for difference in differences), Fraction(0)) / Fraction(mechanism.sensitivity) ** 2


def between(low: float, high: float) -> st.SearchStrategy[float]:
    """Values within, at and beyond the bounds, and places where z² is rounded most."""
    special = [low, high, low + (high - low) / 4, low + (high - low) / 2, -1.7e308, 1.7e308, 0.0]
    return st.one_of(st.sampled_from(special), st.floats(low, high), st.floats(-1e300, 1e300))


@st.composite
def neighbouring_arrays(draw: Any) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    low, high = draw(st.sampled_from(RANGES))
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    first = draw(arrays(np.float64, (rows, columns), elements=between(low, high)))
    second = first.copy()
    second[draw(st.integers(0, rows - 1))] = draw(arrays(np.float64, columns, elements=between(low, high)))
    return first, second, (low, high)


@given(neighbours=neighbouring_arrays())
def test_a_replaced_row_moves_no_more_than_the_sensitivity(neighbours):
    first, second, bounds = neighbours
    for learner, delta in itertools.product(LEARNERS, DELTAS):
        one, mechanism = before_noise(learner, first, bounds=bounds, delta=delta)
        other, same = before_noise(learner, second, bounds=bounds, delta=delta)
        assert mechanism == same
        assert distance(one, other, mechanism) <= 1


@st.composite
def persons_tables(draw: Any) -> tuple[Schema, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """A table of persons with up to three rows each, the same with one person's rows replaced, and without that person."""
    most_rows = draw(st.integers(1, 3))
    schema = Schema(
        {
            "a": Number(-1, 3, missing="centre"),
            "b": Number(0, 1),
            "c": Category(("no", "yes"), missing="no answer"),
        },
        Person("person", most_rows),
    )
    owners = [person for person in range(draw(st.integers(2, 4))) for _ in range(draw(st.integers(1, most_rows)))]
    row = st.tuples(st.one_of(st.none(), between(-1, 3)), between(0, 1), st.sampled_from(["no", "yes", None]))

    def table(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
        frame = pd.DataFrame(rows, columns=["a", "b", "c"]).astype({"a": "float64", "b": "float64"})
        return frame.assign(person=owners)

    first = [draw(row) for _ in owners]
    second = [draw(row) if owner == 0 else kept for owner, kept in zip(owners, first, strict=True)]
    without = table(first)
    return schema, table(first), table(second), without[without.person != 0]


@given(tables=persons_tables())
def test_a_replaced_or_removed_person_moves_no_more_than_the_sensitivity(tables):
    schema, first, second, without = tables
    for learner, delta in itertools.product(LEARNERS, DELTAS):
        one, mechanism = before_noise(learner, first, schema=schema, delta=delta)
        other, _ = before_noise(learner, second, schema=schema, delta=delta)
        assert distance(one, other, mechanism) <= 1
    for delta in DELTAS:
        parameters = {"schema": schema, "delta": delta, "neighbours": "add-remove"}
        one, mechanism = before_noise(PrivateHistogram, first, **parameters)
        other, same = before_noise(PrivateHistogram, without, **parameters)
        assert mechanism == same
        assert distance(one, other, mechanism) <= 1


@given(neighbours=neighbouring_arrays())
def test_an_added_row_moves_counts_no_more_than_the_sensitivity(neighbours):
    first, _, bounds = neighbours
    assume(len(first) > 1)
    for delta in DELTAS:
        parameters = {"bounds": bounds, "delta": delta, "neighbours": "add-remove"}
        one, mechanism = before_noise(PrivateHistogram, first, **parameters)
        other, _ = before_noise(PrivateHistogram, first[1:], **parameters)
        assert distance(one, other, mechanism) <= 1
        # An added row enters one cell of every column: nothing is given away.
        assert distance(one, other, mechanism) > 1 - Fraction(1, 10**6)


# Tightness: a smaller constant would be wrong


def worst_rows(learner: type, in_l1: bool, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Two rows in [0, 1] that are as far apart as rows can be."""
    lowest = 0.25 if learner is PrivateStandardScaler and in_l1 else 0.0
    return np.full(columns, 1.0), np.full(columns, lowest)


@pytest.mark.parametrize("most_rows", [1, 3])
@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_the_worst_pair_attains_the_sensitivity(learner, delta, columns, most_rows):
    names = [f"x{index}" for index in range(columns)]
    schema = Schema({name: Number(0, 1) for name in names}, Person("person", most_rows))
    others = np.full((4, columns), 0.3)
    owners = [0] * most_rows + [1, 2, 3, 4]

    def table(row: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame(np.vstack([row] * most_rows + [others]), columns=names).assign(person=owners)

    _, mechanism = before_noise(learner, table(np.zeros(columns)), schema=schema, delta=delta)
    first, second = worst_rows(learner, isinstance(mechanism, Laplace), columns)
    one, _ = before_noise(learner, table(first), schema=schema, delta=delta)
    other, _ = before_noise(learner, table(second), schema=schema, delta=delta)
    assert 1 - Fraction(1, 10**6) < distance(one, other, mechanism) <= 1


# The constants of the scaler


@given(st.fractions(-1, 1), st.fractions(-1, 1))
def test_moments_of_one_row(a, b):
    """|a−b| + |a²−b²| ≤ 9/4 and (a−b)² + (a²−b²)² ≤ 4 on [−1, 1]."""
    assert abs(a - b) + abs(a**2 - b**2) <= Fraction(9, 4)
    assert (a - b) ** 2 + (a**2 - b**2) ** 2 <= 4


def test_moments_of_one_row_attain_the_constants():
    a, b = Fraction(1), Fraction(-1, 2)
    assert abs(a - b) + abs(a**2 - b**2) == Fraction(9, 4)
    a, b = Fraction(1), Fraction(-1)
    assert (a - b) ** 2 + (a**2 - b**2) ** 2 == 4


@pytest.mark.parametrize("step", [2.0**-6, 2.0**-4, 2.0**-3])
def test_rounded_moments_of_all_pairs(step):
    """On coarse grids all pairs of rows can be tried: rounding z² never costs more than the step that is paid for."""
    z = np.arange(-1, 1 + step, step)
    squares = np.rint(z * z / step) * step
    first = np.abs(z[:, None] - z[None, :])
    second = np.abs(squares[:, None] - squares[None, :])
    assert (first + second).max() <= 2.25 + step
    assert np.sqrt(first**2 + second**2).max() <= 2 + step
    assert (first + second).max() >= 2.25


# Why the sums are exact


def test_naive_sums_are_more_sensitive_than_the_proof_says():
    """Casacuberta et al. 2022: a float sum moves by more than a value when one value is replaced. Ours does not."""
    rows = 2**20
    tail = np.full(rows, 2.0**-33)
    with_one, without = np.concatenate([[1.0], tail]), np.concatenate([[0.0], tail])
    naive = [float(np.add.accumulate(values.astype(np.float32))[-1]) for values in (with_one, without)]
    assert naive[0] - naive[1] != 1.0
    step = fixed_point_step(rows + 1)
    ours = [float(exact_sums(values.reshape(-1, 1), step)[0]) for values in (with_one, without)]
    assert ours[0] - ours[1] == 1.0


@given(st.permutations(range(12)), arrays(np.float64, (12, 2), elements=st.floats(0, 1)))
def test_order_does_not_matter(order, rows):
    for learner in LEARNERS:
        one, _ = before_noise(learner, rows, bounds=(0, 1))
        other, _ = before_noise(learner, rows[list(order)], bounds=(0, 1))
        assert one == other


# A mechanism with too small a sensitivity would be noticed


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_planted_smaller_sensitivity_is_noticed(learner, monkeypatch):
    original = learner.plan

    def too_little(self: Any, rows: int, declared: Schema) -> Plan:
        planned = original(self, rows, declared)
        mechanism = planned.mechanism
        changed = type(mechanism)(**{**vars_of(mechanism), "sensitivity": mechanism.sensitivity * 0.999})
        return Plan(changed, planned.guarantee)

    monkeypatch.setattr(learner, "plan", too_little)
    with pytest.raises(AssertionError):
        test_the_worst_pair_attains_the_sensitivity(learner, 0.0, 2, 1)


def vars_of(mechanism: Any) -> dict[str, Any]:
    return {field.name: getattr(mechanism, field.name) for field in fields(mechanism)}


GROUPED = Schema(
    {
        "town": Category(("a", "b", "c"), missing="unknown"),
        "age": Number(0, 90, bins=(18, 65)),
        "pay": Number(-1, 3, missing="centre"),
        "hours": Number(0.1, 0.3),
    }
)
GROUPINGS = (
    {"by": ["town"]},
    {"by": ["town", "age"], "mean_of": ["pay"]},
    {"by": ["age"], "mean_of": ["pay", "hours"]},
    {"by": ["town"], "variance_of": ["hours"]},
)


@st.composite
def grouped_tables(draw: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table, and the same with one row replaced."""
    town, age = st.sampled_from(["a", "b", "c", None]), between(0, 90)
    row = st.tuples(town, age, st.one_of(st.none(), between(-1, 3)), between(0.1, 0.3))
    rows = [draw(row) for _ in range(draw(st.integers(2, 5)))]
    other = [*rows[:-1], draw(row)]
    kinds = dict.fromkeys(("age", "pay", "hours"), "float64")
    first, second = (pd.DataFrame(each, columns=list(GROUPED.columns)).astype(kinds) for each in (rows, other))
    return first, second


@given(tables=grouped_tables())
def test_a_row_moves_counts_and_sums_of_groups_no_more_than_the_sensitivity(tables):
    first, second = tables
    for grouping, delta in itertools.product(GROUPINGS, DELTAS):
        one, mechanism = before_noise(GroupedTable, first, schema=GROUPED, delta=delta, **grouping)
        other, same = before_noise(GroupedTable, second, schema=GROUPED, delta=delta, **grouping)
        assert mechanism == same
        assert distance(one, other, mechanism) <= 1
        added = {"schema": GROUPED, "delta": delta, "neighbours": "add-remove", **grouping}
        one, mechanism = before_noise(GroupedTable, first, **added)
        other, same = before_noise(GroupedTable, first[:-1], **added)
        assert mechanism == same
        assert distance(one, other, mechanism) <= 1


def grouped_extremes(same_group: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two tables whose last rows are as far apart as bounds allow, in one group or in two."""
    columns = {"town": ["a", "a"], "age": [20.0, 20.0], "pay": [0.0, -1.0], "hours": [0.2, 0.1]}
    first = pd.DataFrame(columns)
    last = ("a" if same_group else "b", 20.0 if same_group else 70.0, 3.0, 0.3)
    return first, pd.concat([first[:-1], pd.DataFrame([last], columns=list(columns))], ignore_index=True)


@pytest.mark.parametrize(("grouping", "delta"), list(itertools.product(GROUPINGS, DELTAS)))
def test_the_sensitivity_of_groups_is_attained_and_half_of_it_is_refuted(grouping, delta, monkeypatch):
    def farthest() -> Fraction:
        found = []
        for same_group in (True, False):
            (one, mechanism), (other, _) = (
                before_noise(GroupedTable, table, schema=GROUPED, delta=delta, **grouping)
                for table in grouped_extremes(same_group)
            )
            found.append(distance(one, other, mechanism))
        return max(found)

    # Of z and 2z² − 1 no pair of rows is as far apart in L2 as two numbers can be.
    least = Fraction(1, 2) if "variance_of" in grouping and delta else 1 - Fraction(1, 10**6)
    assert least <= farthest() <= 1

    def forgets_the_group_that_is_left(means, neighbours, unit_rows, dimension, epsilon, delta):
        """Planted bug: a replaced row is counted as an added one."""
        if delta > 0:
            return Gaussian((1 + means) ** 0.5 * unit_rows, epsilon, delta, dimension, integer_grid=2.0**-20)
        return InfinityNormCells(unit_rows, epsilon, 1 + means, dimension)

    monkeypatch.setattr("sudare.statistics.grouped_table.grouped_mechanism", forgets_the_group_that_is_left)
    assert farthest() > 1
