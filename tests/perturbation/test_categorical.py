"""Categories reconstructed: unbiased scores, the maximum of the likelihood, shrinkage, and pairs of columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from sudare.errors import DataError, InvalidParameter, UnknownCategory
from sudare.perturbation import LaplacePerturbation, RetainReplace, SubsetSelection, UnaryEncoding
from sudare.perturbation.categorical import best_kind, level_array
from sudare.reconstruction import CategoricalCrossTable, CategoricalReconstruction
from sudare.reconstruction.category_frequencies import METHODS, Answers
from sudare.reconstruction.maximum_likelihood import maximum_likelihood, projected_on_simplex
from sudare.reconstruction.shrinkage import PRIORS, SizePrior, posterior_mean

KINDS = (RetainReplace, UnaryEncoding, SubsetSelection)
LEVELS = ("a", "b", "c", "d", "e", "f")
TRUTH = np.array([0.4, 0.3, 0.15, 0.1, 0.05, 0.0])


def records(count: int = 20_000) -> Any:
    return np.repeat(LEVELS, np.rint(TRUTH * count).astype(int))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0.65, 5.2])
def test_proportions_come_back(kind: Any, method: Any, epsilon: float) -> None:
    """Within six standard errors of each unbiased proportion, over and above what projection or prior can move."""
    perturbation = kind(LEVELS, epsilon=epsilon)
    found = CategoricalReconstruction(perturbation, method).fit(perturbation.perturb(records(), random_state=2))
    assert found.probabilities_.sum() == pytest.approx(1.0)
    assert np.all(found.probabilities_ >= 0)
    assert np.all(np.abs(found.unbiased_ - TRUTH) < 6 * found.standard_errors_)
    assert np.all(np.abs(found.probabilities_ - TRUTH) < 6 * found.standard_errors_.max())
    assert found.n_records_ == 20_000
    assert found.counts().sum() == pytest.approx(20_000)
    assert found.to_dict()["values"] == list(LEVELS)
    assert str(found).count("±") == len(LEVELS)
    assert math.isnan(found.gap_) == (method != "likelihood")


@pytest.mark.parametrize("kind", KINDS)
def test_standard_errors_are_what_repetition_shows(kind: Any) -> None:
    """Over 200 seeded repeats, the deviation of a proportion is within five of its own standard errors (a twentieth each)."""
    perturbation = kind(LEVELS, epsilon=1.0)
    values = records(2_000)
    fits = [
        CategoricalReconstruction(perturbation, "inversion").fit(perturbation.perturb(values, random_state=seed))
        for seed in range(200)
    ]
    seen = np.std([fit.unbiased_ for fit in fits], axis=0, ddof=1)
    said = np.mean([fit.standard_errors_ for fit in fits], axis=0)
    assert np.all(np.abs(seen / said - 1) < 0.25)


@pytest.mark.parametrize("kind", KINDS)
def test_likelihood_is_at_its_maximum(kind: Any) -> None:
    """Newton inside the simplex and EM agree with each other and with a general optimiser, up to the certified gap."""
    perturbation = kind(LEVELS, epsilon=0.9)
    answers = Answers.of(perturbation, perturbation.perturb(records(3_000), random_state=5))

    def log_likelihood(proportions: Any) -> float:
        return float(answers.counts @ np.log(1 + (perturbation.odds - 1) * (answers.ticks @ proportions)))

    def negative(free: Any) -> float:
        shares = np.exp(free - free.max())
        return -log_likelihood(shares / shares.sum())

    newton = answers.maximum_likelihood(perturbation)
    em = maximum_likelihood(answers.channel(perturbation))
    best = -min(minimize(negative, start, method="BFGS").fun for start in (np.zeros(6), np.log(TRUTH + 0.01)))
    assert newton.gap <= 0.011
    assert em.gap <= 0.01
    for fitted in (newton, em):
        assert log_likelihood(fitted.proportions) >= best - 0.02
        assert best >= log_likelihood(fitted.proportions) - fitted.gap - 1e-6


def test_gap_is_a_certificate() -> None:
    """Stopped early, the gap says so, and no proportions are better by more than it."""
    perturbation = SubsetSelection(LEVELS, epsilon=0.9)
    answers = Answers.of(perturbation, perturbation.perturb(records(3_000), random_state=5))
    early = maximum_likelihood(answers.channel(perturbation), most_steps=2)
    late = answers.maximum_likelihood(perturbation)

    def log_likelihood(proportions: Any) -> float:
        return float(answers.counts @ np.log(1 + (perturbation.odds - 1) * (answers.ticks @ proportions)))

    assert early.gap > 1
    assert 0 < log_likelihood(late.proportions) - log_likelihood(early.proportions) <= early.gap


def test_many_answers_are_fitted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    from sudare.reconstruction import category_frequencies as frequencies

    perturbation = UnaryEncoding(LEVELS, epsilon=0.9)
    perturbed = perturbation.perturb(records(3_000), random_state=5)
    whole = CategoricalReconstruction(perturbation, "likelihood").fit(perturbed)
    monkeypatch.setattr(frequencies, "_MOST_NEWTON_WORK", 0)
    monkeypatch.setattr(frequencies, "_ANSWERS_AT_ONCE", 5)
    pieces = CategoricalReconstruction(perturbation, "likelihood").fit(perturbed)
    assert pieces.probabilities_ == pytest.approx(whole.probabilities_, abs=2e-3)


def test_whole_answers_tell_more_than_counts() -> None:
    """With unary encoding at a large ε, the likelihood of whole rows of ticks beats inverted counts: mean L1 error of 12 seeds."""
    perturbation = UnaryEncoding(tuple(range(30)), epsilon=4.0)
    truth = 1 / np.arange(1, 31.0)
    truth /= truth.sum()
    values = np.repeat(np.arange(30), np.rint(truth * 5_000).astype(int))
    shares = np.bincount(values, minlength=30) / len(values)
    errors: dict[Any, float] = {"likelihood": 0.0, "inversion": 0.0}
    for seed in range(12):
        perturbed = perturbation.perturb(values, random_state=seed)
        for method in errors:
            found = CategoricalReconstruction(perturbation, method).fit(perturbed)
            errors[method] += float(np.abs(found.probabilities_ - shares).sum())
    assert errors["likelihood"] < 0.95 * errors["inversion"]


def test_shrinkage_wins_where_many_small_categories_drown() -> None:
    """One large category among forty: mean L1 error over four seeds, against both others."""
    truth = np.concatenate([[0.8], np.full(39, 0.2 / 39)])
    values = np.repeat(np.arange(40), np.rint(truth * 4_000).astype(int))
    shares = np.bincount(values, minlength=40) / len(values)
    perturbation = SubsetSelection(tuple(range(40)), epsilon=1.0)
    errors: dict[Any, list[float]] = {method: [] for method in METHODS}
    for seed in range(4):
        perturbed = perturbation.perturb(values, random_state=seed)
        for method in METHODS:
            found = CategoricalReconstruction(perturbation, method).fit(perturbed)
            errors[method].append(float(np.abs(found.probabilities_ - shares).sum()))
    means = {method: np.mean(values) for method, values in errors.items()}
    assert means["shrinkage"] < 0.7 * min(means["likelihood"], means["inversion"])


@given(st.lists(st.floats(-0.2, 1.0), min_size=2, max_size=12), st.floats(1e-4, 0.1))
def test_shrunken_proportions_are_proportions(estimates: list[float], error: float) -> None:
    found = posterior_mean(np.array(estimates), np.full(len(estimates), error))
    assert np.all(np.isfinite(found))
    assert np.all(found >= 0)
    assert found.sum() == pytest.approx(1.0)


def test_shrinkage_leaves_alone_what_is_sure() -> None:
    sure = np.array([0.55, 0.3, 0.15])
    assert posterior_mean(sure, np.full(3, 1e-5)) == pytest.approx(sure, abs=1e-4)


def test_shrinkage_keeps_the_order() -> None:
    estimates = np.array([0.5, 0.3, 0.1, 0.06, 0.03, 0.01])
    assert np.all(np.diff(posterior_mean(estimates, np.full(6, 0.05))) < 0)


def test_priors_have_mean_one() -> None:
    edges = np.concatenate([[0.0], np.geomspace(1e-9, 4e3, 4000)])
    middles = (edges[1:] + edges[:-1]) / 2
    for prior in PRIORS:
        assert prior.masses(edges) @ middles == pytest.approx(1.0, rel=2e-3)
    assert SizePrior.alike(2.0).log_density_of_sum(1) == pytest.approx(math.log(4 * math.exp(-2)))


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=8))
def test_projection_is_the_nearest_point(point: list[float]) -> None:
    """First-order condition: nobody on the simplex lies further along the direction to the point."""
    target = np.array(point)
    nearest = projected_on_simplex(target)
    assert nearest.sum() == pytest.approx(1.0)
    assert nearest.min() >= 0
    direction = target - nearest
    assert direction.max() <= direction @ nearest + 1e-9


def test_kinds_are_chosen_by_variance() -> None:
    """Wang et al. (2017): direct answers while there are fewer than 3e^ε + 2 categories."""
    assert best_kind(7, 0.65) is RetainReplace
    assert best_kind(8, 0.65) is SubsetSelection
    assert best_kind(42, 5.2) is RetainReplace


# Pairs


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pair", [(RetainReplace, RetainReplace), (RetainReplace, SubsetSelection), (UnaryEncoding, SubsetSelection)])  # fmt: skip
def test_cross_tables_come_back(pair: tuple[Any, Any], method: Any) -> None:
    rng = np.random.default_rng(0)
    joint = np.array([[0.3, 0.05, 0.05], [0.05, 0.25, 0.3]])
    drawn = rng.choice(6, size=20_000, p=joint.ravel())
    first, second = np.array(["x", "y"])[drawn // 3], drawn % 3
    shares = np.bincount(drawn, minlength=6).reshape(2, 3) / 20_000
    rows, columns = pair[0](["x", "y"], epsilon=2.0), pair[1]([0, 1, 2], epsilon=2.0)
    y, z = rows.perturb(first, shuffle=False, random_state=1), columns.perturb(second, shuffle=False, random_state=2)
    found = CategoricalCrossTable(rows, columns, method).fit(y, z)
    assert found.probabilities_.shape == (2, 3)
    assert found.probabilities_.sum() == pytest.approx(1.0)
    assert np.all(np.abs(found.unbiased_ - shares) < 6 * found.standard_errors_)
    assert np.all(np.abs(found.probabilities_ - shares) < 6 * found.standard_errors_)
    assert found.counts().sum() == pytest.approx(20_000)
    assert found.to_dict()["columns"] == [0, 1, 2]


def test_columns_of_a_cross_table_belong_together() -> None:
    rows = RetainReplace(["x", "y"], epsilon=2.0)
    with pytest.raises(DataError, match="different lengths"):
        CategoricalCrossTable(rows, rows).fit(["x", "y"], ["x"])
    with pytest.raises(InvalidParameter, match="method must be one of"):
        CategoricalCrossTable(rows, rows, "guess").fit(["x"], ["y"])  # type: ignore[arg-type]


# What is refused


def test_answers_must_be_answers() -> None:
    perturbation = UnaryEncoding(["x", "y", "z"], epsilon=1.0)
    with pytest.raises(InvalidParameter, match="method must be one of"):
        CategoricalReconstruction(perturbation, "guess").fit([[True, False, True]])  # type: ignore[arg-type]
    for wrong in ([[True, False]], [[1, 0, 1]], [True, False, True]):
        with pytest.raises(DataError, match="rows of 3 ticks"):
            CategoricalReconstruction(perturbation).fit(wrong)
    with pytest.raises(DataError, match="no perturbed values"):
        CategoricalReconstruction(perturbation).fit(np.zeros((0, 3), dtype=bool))
    with pytest.raises(UnknownCategory):
        CategoricalReconstruction(RetainReplace(["x", "y"], epsilon=1.0)).fit(["x", "q"])
    with pytest.raises(InvalidParameter, match="not perturbed as a category"):
        CategoricalReconstruction(LaplacePerturbation((0, 1), epsilon=1.0)).fit([0.5])  # type: ignore[arg-type]


def test_missing_is_a_category_of_its_own() -> None:
    perturbation = RetainReplace([1, 2], epsilon=8.0, missing="none")
    found = CategoricalReconstruction(perturbation, "inversion").fit(perturbation.perturb([1, 2, None, 1] * 500))
    assert found.values_ == (1, 2, "none")
    assert found.probabilities_ == pytest.approx([0.5, 0.25, 0.25], abs=0.03)
    assert level_array(("a", "b")).dtype.kind == "U"
    assert level_array((1, "none")).dtype == object
