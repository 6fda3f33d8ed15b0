"""From noisy sums to lines: without noise they are the right ones, with much noise the base rate; and what estimators make of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from sudare.errors import InvalidParameter
from sudare.linear import PrivateLogisticRegression, PrivateRidge
from sudare.linear.losses import CappedSquares, Logistic
from sudare.linear.mechanism import Facts
from sudare.linear.method_choice import needs_calibration
from sudare.linear.rows import array_layout, table_layout
from sudare.linear.score_calibration import (
    _NODES,
    CLASSES,
    NUMBERS,
    SEVERAL,
    Spread,
    _offset,
    association_values,
    expected_shares,
    log_odds_line,
    narrower,
    score_likeness,
    shrunk,
    spread_values,
    target_line,
    with_means,
)
from sudare.linear.targets import one_vs_rest_probabilities
from sudare.schema import Category, Label, Number, Schema

UNIT = Spread(np.zeros(1), np.ones(1))


def scores_and_labels(slope: float, rows: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    scores = random.normal(0.1, 0.2, (rows, 1))
    return scores, np.where(random.random((rows, 1)) < expit(slope * scores - 1), 1.0, -1.0)


@pytest.mark.parametrize("slope", [1.0, 4.0])
def test_without_noise_log_odds_are_those_of_the_rows(slope):
    scores, labels = scores_and_labels(slope)
    means = association_values(UNIT.of(scores), labels).mean(axis=0)
    shares = np.array([np.mean(labels > 0)])
    line = log_odds_line(shares, means, 1e-9, len(scores), UNIT, CLASSES)
    assert line.slope[0] == pytest.approx(slope, rel=0.15)
    assert expit(line.offset + line.slope * scores).mean() == pytest.approx(shares[0], abs=1e-3)


def test_with_much_noise_log_odds_are_the_base_rate_and_keep_the_order():
    scores, labels = scores_and_labels(4.0)
    means = association_values(UNIT.of(scores), labels).mean(axis=0)
    line = log_odds_line(np.array([0.2]), means, 1.0, len(scores), UNIT, CLASSES)
    assert line.slope[0] == CLASSES.least_slope
    assert np.ptp(expit(line.offset + line.slope * scores)) < 0.01


def test_an_association_against_the_direction_turns_nothing_round():
    scores, labels = scores_and_labels(4.0)
    means = association_values(UNIT.of(scores), -labels).mean(axis=0)
    assert log_odds_line(np.array([0.7]), means, 1e-9, len(scores), UNIT, CLASSES).slope[0] == CLASSES.least_slope
    assert target_line(0.4, means, 1e-9, len(scores), UNIT, NUMBERS).slope[0] == 0


def test_a_number_is_the_line_of_least_squares_or_its_mean():
    random = np.random.default_rng(0)
    scores = random.uniform(-0.5, 0.5, (100_000, 1))
    targets = 0.3 + 0.4 * scores + random.normal(0, 0.05, (100_000, 1))
    means = association_values(UNIT.of(scores), targets).mean(axis=0)
    line = target_line(float(targets.mean()), means, 1e-9, 100_000, UNIT, NUMBERS)
    assert (line.offset[0], line.slope[0]) == pytest.approx((0.3, 0.4), abs=0.01)
    noisy = target_line(0.31, means, 0.5, 100_000, UNIT, NUMBERS)
    assert (noisy.offset[0], noisy.slope[0]) == (0.31, 0.0)


LIKENESS = np.full((4, 4), 0.8) + 0.2 * np.eye(4)


def clouds_of_scores() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of four classes against the rest, normal and alike within classes, with ±1 targets and shares."""
    random, shares = np.random.default_rng(0), np.array([0.5, 0.25, 0.2, 0.05])
    codes = random.choice(4, 40_000, p=shares)
    noise = random.multivariate_normal(np.zeros(4), LIKENESS, 40_000)
    scores = 0.2 * (np.eye(4)[codes] - shares) + 0.15 * noise
    return scores, 2 * np.eye(4)[codes] - 1, np.mean(np.eye(4)[codes], axis=0)


def line_of(scores: np.ndarray, targets: np.ndarray, shares: np.ndarray):
    unit = Spread(np.zeros(4), np.ones(4))
    means = association_values(unit.of(scores), targets).mean(axis=0)
    return log_odds_line(shares, means, 1e-9, len(scores), unit, SEVERAL, LIKENESS)


def test_offsets_of_several_classes_give_each_its_share_after_division():
    scores, targets, shares = clouds_of_scores()
    line = line_of(scores, targets, shares)
    given = one_vs_rest_probabilities(line.offset + line.slope * scores)
    assert given.mean(axis=0) == pytest.approx(shares, abs=5e-3)
    assert line.slope[0] > 4
    # One by one each is right before the division, and not after it.
    alone = [_offset(share, float(line.slope[0]) * (0.17 * _NODES)) for share in shares]
    assert np.abs(one_vs_rest_probabilities(alone + line.slope * scores).mean(axis=0) - shares).max() > 0.02


def test_told_mean_probabilities_mend_offsets_where_scores_are_not_as_modelled():
    scores, targets, shares = clouds_of_scores()
    line = line_of(scores, targets, shares)
    moved = scores + np.array([0.1, -0.05, 0.0, 0.05])
    first = one_vs_rest_probabilities(line.offset + line.slope * moved).mean(axis=0)
    mended = with_means(line, shares, first, 1e-9)
    second = one_vs_rest_probabilities(mended.offset + line.slope * moved).mean(axis=0)
    assert np.abs(first - shares).max() > 0.08
    assert np.abs(second - shares).max() < 0.5 * np.abs(first - shares).max()
    # What is noise changes nothing.
    assert with_means(line, shares, first, 10.0).offset == pytest.approx(line.offset, abs=1e-3)


def test_scores_of_opposite_parameters_are_opposite():
    layout = array_layout(2, 1.0, True)
    parameters = np.array([[1.0, 0.0, 0.3], [-2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert score_likeness(parameters, layout) == pytest.approx(np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 1]]))
    assert score_likeness(np.zeros((2, 3)), layout) == pytest.approx(np.eye(2))
    declared = Schema({"job": Category(("a", "b")), "age": Number(0, 10)})
    hot = table_layout(declared, "centred", True)
    # What all levels of a category have in common moves no row beside another.
    same = np.zeros((2, hot.width))
    same[0, :3], same[1, :3] = [5.0, 5.0, 1.0], [0.0, 0.0, 1.0]
    assert score_likeness(same, hot)[0, 1] == pytest.approx(1.0)


def test_shares_are_never_none_or_all_and_add_up():
    assert expected_shares(np.array([0.3]), 1e-4) == pytest.approx([0.3], abs=1e-2)
    for noisy in (-5.0, 0.0, 1.0, 9.0):
        assert 0.001 < expected_shares(np.array([noisy]), 0.1)[0] < 0.999
    several = expected_shares(np.array([0.7, 0.2, -0.3]), 0.05)
    assert several.sum() == pytest.approx(1.0)
    assert (several > 0).all()


def test_spread_is_that_of_scores_and_wider_by_doubt():
    random = np.random.default_rng(0)
    scores = random.normal(2.0, 0.3, (10_000, 1))
    whole = Spread(np.array([1.0]), np.array([5.0]))
    means = spread_values(whole.of(scores)).mean(axis=0)
    found = narrower(whole, means, 1e-9, CLASSES)
    assert found.centre[0] == pytest.approx(2.0, abs=0.02)
    assert found.scale[0] == pytest.approx(CLASSES.widths * 0.3, rel=0.05)
    assert narrower(whole, means, 0.1, CLASSES).scale[0] > 2 * found.scale[0]


def test_shrinkage():
    assert shrunk(3.0, 9.0) == shrunk(0.0, 1.0) == 0.0
    assert shrunk(-3.0, 1.0) == pytest.approx(-3.0 + 1 / 3)


# Estimators

SCHEMA = Schema({"x": Number(0, 10), "kind": Category(("a", "b")), "y": Label((0, 1))})


def table(rows: int, rare: float) -> pd.DataFrame:
    random = np.random.default_rng(0)
    x = random.uniform(0, 10, rows)
    labels = (random.random(rows) < expit(np.log(rare) + 0.5 * (x - 5))).astype(int)
    return pd.DataFrame({"x": x, "kind": random.choice(["a", "b"], rows), "y": labels})


@pytest.mark.parametrize(("method", "delta"), [("objective", 0.0), ("output", 1e-6), ("mean", 0.0), ("descent", 1e-6)])
@pytest.mark.parametrize("encoding", ["centred", "binned"])
def test_mean_probability_is_the_base_rate_whatever_the_method(method, delta, encoding):
    rows = table(4000, 0.1)
    model = PrivateLogisticRegression(1.0, delta, schema=SCHEMA, method=method, encoding=encoding, random_state=0)
    assert model.fit(rows).predict_proba(rows)[:, 1].mean() == pytest.approx(rows["y"].mean(), abs=0.03)


def test_little_epsilon_gives_the_private_base_rate_and_the_private_mean():
    rows = table(600, 0.1)
    chances = PrivateLogisticRegression(0.05, schema=SCHEMA, random_state=0).fit(rows).predict_proba(rows)[:, 1]
    assert np.ptp(chances) < 0.05
    numbers = Schema({"x": Number(0, 10), "kind": Category(("a", "b")), "y": Number(-50, 50)}, target="y")
    answers = PrivateRidge(0.05, schema=numbers, random_state=0).fit(rows).predict(rows)
    assert np.ptp(answers) < 1e-6


def test_several_classes_get_their_shares():
    random = np.random.default_rng(0)
    X = random.uniform(-0.5, 0.5, (3000, 2))
    y = np.where(X[:, 0] > 0.3, 2, np.where(X[:, 1] > 0.1, 1, 0))
    model = PrivateLogisticRegression(3.0, 1e-6, classes=[0, 1, 2], norm_bound=1.0, random_state=0).fit(X, y)
    shares = np.bincount(y) / len(y)
    np.testing.assert_allclose(model.predict_proba(X).mean(axis=0), shares, atol=0.05)
    assert model.score(X, y) > 0.7


def test_encoding_auto_is_a_rule_of_rows_and_columns():
    many, few = table(4000, 0.5), table(100, 0.5)
    binned = PrivateLogisticRegression(1.0, schema=SCHEMA, encoding="auto", random_state=0).fit(many)
    assert binned.used_encoding == binned.encoding_ == "binned"
    explicit = PrivateLogisticRegression(1.0, schema=SCHEMA, encoding="binned", random_state=0).fit(many)
    np.testing.assert_array_equal(binned.parameters_, explicit.parameters_)
    np.testing.assert_array_equal(binned.predict_proba(few), explicit.predict_proba(few))
    assert (
        PrivateRidge(target_bounds=(0, 1), schema=SCHEMA, encoding="auto", random_state=0)
        .fit(few.drop(columns="y"), few["y"])
        .used_encoding
        == "centred"
    )


def test_shortening_rows_to_one_is_not_silent():
    X, y = np.full((20, 2), 3.0), np.arange(20) % 2
    with pytest.warns(RuntimeWarning, match="norm_bound"):
        PrivateLogisticRegression(classes=[0, 1], random_state=0).fit(X, y)


def facts_of(rows: int) -> Facts:
    return Facts(rows, 10, 1.0, Logistic(), 0.0)


def test_an_objective_in_which_noise_is_small_keeps_its_own_probabilities():
    assert needs_calibration("objective", facts_of(1199), 1.0, 0.0)
    assert not needs_calibration("objective", facts_of(1200), 1.0, 0.0)
    assert needs_calibration("objective", replace(facts_of(1200), rows_per_unit=2), 1.0, 0.0)
    assert needs_calibration("objective", facts_of(10**6), 1.0, 1e-6)
    assert needs_calibration("descent", facts_of(10**6), 1.0, 1e-6)
    # Numbers: of arrays, of which no bounds of columns are known.
    numbers = replace(facts_of(7200), loss=CappedSquares(1.0))
    assert not needs_calibration("objective", numbers, 1.0, 0.0)
    assert needs_calibration("objective", replace(numbers, rows=7199), 1.0, 0.0)
    assert needs_calibration("objective", replace(numbers, rows=10**6, entry_bounds=(1.0,) * 10), 1.0, 0.0)


@pytest.mark.parametrize("method", ["output", "descent", "mean", "statistics"])
def test_a_delta_that_hides_a_part_of_epsilon_is_refused_in_these_words(method):
    generator = np.random.default_rng(0)
    X, y = generator.uniform(-0.7, 0.7, (200, 2)), generator.integers(0, 3, 200)
    with pytest.raises(InvalidParameter, match="delta is so large beside epsilon"):
        PrivateLogisticRegression(0.001, 0.01, classes=[0, 1, 2], method=method, norm_bound=1.0).fit(X, y)
