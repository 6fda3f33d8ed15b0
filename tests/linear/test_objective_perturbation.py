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
from sudare.linear.noise_calibration import laplace_is_quieter, quietest_norm
from sudare.linear.noisy_gradient_at_zero import MeanMessage
from sudare.linear.objective_perturbation import ObjectivePerturbation
from sudare.linear.rows import array_layout, bounded_rows, table_layout
from sudare.privacy.mechanisms import Laplace
from sudare.privacy.noise import SeededNoise
from sudare.schema import Category, Label, Number, Schema, encode

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
def test_noise_follows_what_is_declared_of_the_columns(fit_intercept):
    """By coordinates for one of every one-hot group, by the largest entry for numbers, by the norm where nothing else is known."""

    def norm(layout):
        facts = Facts(
            100, layout.width, layout.joint_norm, Logistic(), 9.0, sum_bound=layout.joint_sum, entry_bounds=layout.entry_bounds
        )  # fmt: skip
        assert ObjectivePerturbation(facts, 1.0, 1e-6).norm == "euclidean"
        return ObjectivePerturbation(facts, 1.0).norm

    assert norm(table_layout(TOWNS, "binned", fit_intercept)) == "sum"
    assert norm(table_layout(TOWNS, "centred", fit_intercept)) == "sum"
    assert norm(table_layout(NUMBERS, "centred", fit_intercept)) == "largest"
    assert norm(table_layout(ALIKE, "centred", fit_intercept)) == "largest"
    assert norm(array_layout(50, 1.0, fit_intercept)) == "euclidean"


def test_layouts_bound_every_entry():
    numbers = table_layout(NUMBERS, "centred", True)
    assert numbers.entry_bounds == (1.0, 1.0, 8.0, numbers.bias)
    assert array_layout(5, 1.0, True).entry_bounds == ()
    encoded = encode(NUMBERS, {"x": [-9.0, 1.0], "y": [1.0, 0.0], "z": [-99.0, 99.0]}, "centred").matrix
    assert (np.abs(bounded_rows(encoded, numbers.norm_bound)[0]) <= numbers.entry_bounds[:-1]).all()


@pytest.mark.parametrize("columns", [1, 2, 9, 30])
def test_noise_by_the_largest_entry_is_the_quieter_for_numbers(columns):
    """E‖b‖² is (p + 2)/3p of that of Euclidean noise with the same ε; where there is one column alone it is the same noise."""
    facts = Facts(20_000, columns, math.sqrt(columns), Logistic(), 1000.0, entry_bounds=(1.0,) * columns)
    bare = replace(facts, entry_bounds=())
    assert quietest_norm(columns, facts.norm_bound, math.inf, facts.entry_bounds) == (
        "largest" if columns > 1 else "euclidean"
    )
    if columns > 1:
        penalties = [public_penalty("objective", each, 1e-4, 0.0) for each in (facts, bare)]
        assert penalties[0] / penalties[1] == pytest.approx((columns + 2) / (3 * columns))
        sizes = []
        for each in (facts, bare):
            method, source = ObjectivePerturbation(each, 1.0), SeededNoise(0)
            sizes.append(np.mean([np.sum(method._linear_term(source) ** 2) for _ in range(2000)]))
        assert sizes[0] / sizes[1] == pytest.approx((columns + 2) / (3 * columns), rel=0.15)


def test_noise_by_the_largest_entry_is_left_out_where_it_is_not_exact():
    wide = Facts(20_000, 1025, math.sqrt(1025), Logistic(), 1000.0, entry_bounds=(1.0,) * 1025)
    assert ObjectivePerturbation(wide, 1.0).norm == "euclidean"
    narrow = Facts(20_000, 9, 3.0, Logistic(), 1e9, entry_bounds=(1.0,) * 9)
    assert ObjectivePerturbation(narrow, 2.0**-19).norm == "largest"
    assert ObjectivePerturbation(narrow, 2.0**-21).norm == "euclidean"


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
    mechanism = fitted.plan(400, TOWNS).mechanism.learning
    assert isinstance(mechanism, kind)
    assert mechanism.facts.sum_bound == 3.0
    assert mechanism.norm == "sum" if method == "objective" else isinstance(mechanism.mechanism, Laplace)
    assert fitted.guarantee_.epsilon == 4.0
    assert fitted.score(_towns()) > 0.8
