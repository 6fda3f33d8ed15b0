"""Which pure noise a fit gets: independent Laplace noise where the schema's columns make it the quieter, by public facts alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.linear import PrivateLogisticRegression
from sudare.linear.losses import Logistic, SmoothedHinge
from sudare.linear.mechanism import Facts
from sudare.linear.method_choice import public_penalty
from sudare.linear.noise_calibration import laplace_is_quieter
from sudare.linear.noisy_gradient_at_zero import MeanMessage
from sudare.linear.objective_perturbation import ObjectivePerturbation
from sudare.linear.rows import array_layout, bounded_rows, table_layout
from sudare.privacy.mechanisms import Laplace
from sudare.privacy.noise import SeededNoise
from sudare.schema import Category, Label, Number, Schema

LEVELS = tuple("abcdefgh")
TOWNS = Schema({"town": Category(LEVELS), "trade": Category(LEVELS), "age": Number(0, 80), "ill": Label((0, 1))})
NUMBERS = Schema(
    {"x": Number(-1, 1), "y": Number(-1, 1), "z": Number(-3, 3, centre=1.0, scale=0.5), "ill": Label((0, 1))}
)
ALIKE = Schema({**{f"x{index}": Number(-1, 1) for index in range(4)}, "ill": Label((0, 1))})


def _towns(rows=400):
    random = np.random.default_rng(0)
    town, trade = random.choice(LEVELS, size=(2, rows))
    return pd.DataFrame(
        {"town": town, "trade": trade, "age": random.uniform(0, 80, rows), "ill": (town > "d").astype(int)}
    )


def test_layouts_bound_sums_by_the_schema():
    assert table_layout(TOWNS, "binned", True).joint_sum == 3.0
    numbers = table_layout(NUMBERS, "centred", True)
    # (−3 − 1)/0.5 and (3 − 1)/0.5 for z, and the constant column.
    assert numbers.joint_sum == 1 + 1 + 8 + numbers.bias
    assert numbers.bias > 0
    assert array_layout(5, 1.0, True).joint_sum == math.inf


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_noise_is_by_coordinates_where_few_entries_of_a_row_are_large(fit_intercept):
    """One of every one-hot group, or one wide column among narrow ones; but not numbers that are all alike."""

    def by_coordinates(layout):
        facts = Facts(100, layout.width, layout.joint_norm, Logistic(), 9.0, sum_bound=layout.joint_sum)
        assert not ObjectivePerturbation(facts, 1.0, 1e-6).by_coordinates
        return ObjectivePerturbation(facts, 1.0).by_coordinates

    assert by_coordinates(table_layout(TOWNS, "binned", fit_intercept))
    assert by_coordinates(table_layout(TOWNS, "centred", fit_intercept))
    assert by_coordinates(table_layout(NUMBERS, "centred", False))
    assert not by_coordinates(table_layout(ALIKE, "centred", fit_intercept))
    assert not by_coordinates(array_layout(50, 1.0, fit_intercept))


@given(st.integers(1, 60), st.floats(0.1, 10))
def test_a_bound_that_follows_from_the_norm_alone_never_pays(width, norm):
    assert not laplace_is_quieter(math.sqrt(width) * norm, norm, width)


@pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge(0.5)])
def test_the_linear_term_has_the_smaller_variance(loss):
    """The public penalty, which follows the noise of a coordinate, is smaller with it."""
    declared = Facts(20_000, 60, 3.0, loss, 0.0, sum_bound=9.0)
    bare = replace(declared, sum_bound=math.inf)
    penalties = [public_penalty("objective", facts, 0.1, 0.0) for facts in (declared, bare)]
    assert penalties[0] / penalties[1] == pytest.approx(2 * 9.0**2 / (61 * 3.0**2))
    assert public_penalty("objective", declared, 0.1, 1e-6) == public_penalty("objective", bare, 0.1, 1e-6)

    def deviation(facts):
        method, source = ObjectivePerturbation(replace(facts, penalty=1000.0), 1.0), SeededNoise(0)
        return np.std([method._linear_term(source) for _ in range(400)])

    # 24,000 draws of heavy-tailed numbers: their deviation is right to a few per cent; the seed is fixed.
    assert deviation(declared) / deviation(bare) == pytest.approx(math.sqrt(2) * 9 / (math.sqrt(61) * 3), rel=0.05)


@given(st.integers(0, 10**6), st.sampled_from([0.5, 1.7, 3.0]))
def test_bounding_rows_does_not_raise_their_sums(seed, norm_bound):
    matrix = np.random.default_rng(seed).normal(size=(20, 6))
    bounded, _ = bounded_rows(matrix, norm_bound)
    assert (np.abs(bounded) <= np.abs(matrix)).all()


@pytest.mark.parametrize(("method", "kind"), [("objective", ObjectivePerturbation), ("mean", MeanMessage)])
def test_fits_with_a_schema_use_it(method, kind):
    lean = PrivateLogisticRegression(4.0, schema=TOWNS, encoding="binned", method=method, random_state=0)
    fitted = lean.fit(_towns())
    mechanism = fitted.plan(400, TOWNS).mechanism
    assert isinstance(mechanism, kind)
    assert mechanism.facts.sum_bound == 3.0
    assert mechanism.by_coordinates if method == "objective" else isinstance(mechanism.mechanism, Laplace)
    assert fitted.guarantee_.epsilon == 4.0
    assert fitted.score(_towns()) > 0.8
