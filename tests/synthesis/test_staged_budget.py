"""One budget, spent in stages."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sudare.audit.synthesis_audits import Replay
from sudare.errors import InvalidParameter
from sudare.privacy.accounting import exact, gaussian_mu_within, mu_of_pure
from sudare.privacy.noise import SeededNoise
from sudare.synthesis.staged_budget import StagedNoise, mean_size


def test_noise_in_stages():
    noise = StagedNoise(1.0, 0.0, "replace-one", 3, 2)
    assert noise.for_counts(Fraction(1, 2), 5, 7).noise_scale == pytest.approx(2 * 3 * 5 / 0.5)
    assert noise.for_scores(Fraction(1, 4), 5).noise_scale == pytest.approx(2 * 3 * 5 / 0.25)
    assert noise.noise_scale == pytest.approx(6.0)
    assert mean_size(noise.for_counts(Fraction(1), 1, 1)) == pytest.approx(6.0)
    smooth = StagedNoise(1.0, 1e-5, "add-remove", 1, 2)
    assert smooth.for_counts(Fraction(1, 4), 4, 9).noise_scale == pytest.approx(4 * smooth.noise_scale)
    assert mean_size(smooth.for_counts(Fraction(1), 1, 1)) == pytest.approx(smooth.noise_scale * math.sqrt(2 / math.pi))
    assert noise.apply(np.array([5.0, 7.0]), Replay(SeededNoise(0), [np.array([1, 2])])).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("epsilon", "stages"), [(1.0, 3), (15.0, 20), (20.0, 3), (25.0, 100)])
def test_the_cost_of_stages_covers_the_distances_of_their_noise(epsilon, stages):
    noise = StagedNoise(epsilon, 1e-5, "replace-one", 2, stages)
    stage = noise.for_counts(Fraction(1, stages), 3, 500)
    assert stages * stage.cost.total_variation <= noise.cost.total_variation
    assert noise.cost.epsilon == Fraction(epsilon)


def test_stages_whose_noise_cannot_be_exact_enough_are_refused():
    with pytest.raises(InvalidParameter, match=r"cannot be exact enough for epsilon = 40\.0 .* Use a larger delta"):
        _ = StagedNoise(40.0, 1e-5, "replace-one", 1, 3).cost


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_a_choice_has_the_range_that_its_share_allows(neighbours):
    moves = (2 if neighbours == "replace-one" else 1) * 3
    pure = StagedNoise(0.7, 0.0, neighbours, 3, 5)
    assert pure.choice_rate(Fraction(1, 4)) * 2 * moves == pytest.approx(0.7 / 4)
    assert pure.choice_rate(Fraction(1, 4)) * 2 * moves <= exact(0.7) / 4
    smooth = StagedNoise(0.7, 1e-6, neighbours, 3, 5)
    allowed = Fraction(gaussian_mu_within(0.7, 1e-6)) ** 2 / 4
    half_range = smooth.choice_rate(Fraction(1, 4)) * moves
    assert Fraction(mu_of_pure(half_range)) ** 2 <= allowed
    assert Fraction(mu_of_pure(half_range * Fraction(1001, 1000))) ** 2 > allowed
