"""Categories reconstructed: unbiased scores, the maximum of the likelihood, shrinkage."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sudare.errors import DataError, InvalidParameter, UnknownCategory
from sudare.perturbation import LaplacePerturbation, RetainReplace, SubsetSelection, UnaryEncoding
from sudare.reconstruction import CategoricalReconstruction
from sudare.reconstruction.category_frequencies import METHODS

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
