"""The paper's bounds hold on laws that can be computed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from sudare.errors import DataError, InvalidParameter
from sudare.linear.losses import Logistic
from sudare.linear.mechanism import Facts
from sudare.papers.p001_gibbs_posteriors import theorems
from sudare.papers.p001_gibbs_posteriors.estimators import FixedBetaDraws, GibbsPosteriorClassifier, eq_27_beta
from sudare.privacy.accounting import gaussian_delta

RANDOM = np.random.default_rng(1)


def test_the_gibbs_map_is_lipschitz_and_the_exponential_mechanism_is_pure():
    """Eqs. 4 to 8 and Theorem 2 on random functions of a finite set."""
    for _ in range(50):
        f, shift = RANDOM.uniform(0, 5, 20), RANDOM.uniform(-1, 1, 20)
        base = RANDOM.uniform(0.1, 1, 20)
        beta = theorems.exponential_mechanism_beta(0.8, 1.0)
        laws = [theorems.gibbs_map(beta, values, base) for values in (f, f + shift)]
        assert theorems.d_priv(*laws) <= 2 * beta * np.max(np.abs(shift)) + 1e-12 <= 0.8 + 1e-12
        assert theorems.hockey_stick_delta(*laws, 0.8) == 0
        assert theorems.hockey_stick_delta(*laws, 0.0) > 0


def test_theorem_3():
    """Likelihoods between e^{−B} and e^B, two of them on two points: 4βB is reached in the limit, never passed."""
    for B in (0.5, 2.0):
        law = theorems.gibbs_map(1.0, [B, -B], [1e-9, 1.0])
        other = theorems.gibbs_map(1.0, [-B, B], [1e-9, 1.0])
        assert 0.99 * theorems.bounded_likelihood_epsilon(1.0, B) < theorems.d_priv(law, other)
        assert theorems.d_priv(law, other) <= theorems.bounded_likelihood_epsilon(1.0, B)


@pytest.mark.parametrize("beta", [0.05, 0.3])
def test_theorem_8_bounds_the_tail_of_linear_losses(beta):
    divergence = theorems.d_plus(beta, 1, 0.0, 1.0, 1.0)
    for t in (0.1, 0.5, 2.0):
        exact = float(ndtr(-t / (2 * beta)))
        assert exact <= theorems.concentration_tail(t, divergence)
        assert theorems.lipschitz_tail(t, 2 * beta, 1.0) == pytest.approx(theorems.concentration_tail(t, divergence))
        above = theorems.privacy_loss_tail(divergence + t, divergence)
        assert above == pytest.approx(theorems.concentration_tail(t, divergence))
    assert theorems.privacy_loss_tail(divergence, divergence) == 1.0


def test_what_neither_law_can_give_does_not_tell_them_apart():
    assert theorems.d_priv([0.5, 0.5, 0.0], [0.25, 0.75, 0.0]) == pytest.approx(math.log(2))
    assert theorems.d_priv([1.0, 0.0], [0.5, 0.5]) == math.inf


def test_constants_of_section_3():
    assert theorems.least_radius(1.0, 2.0, 4, 1.0) == 5.0
    assert theorems.restriction_constant(2.0) == pytest.approx(1 + math.log(4 / 3))
    assert theorems.approximate_sampling_delta(0.0, 1e-5, 1e-6) == pytest.approx(1.2e-5)
    # Eq. 31 is the D at which eq. 21 is δ.
    assert theorems.privacy_loss_tail(1.0, theorems.u(1.0, 1e-5)) == pytest.approx(1e-5)


def test_the_classifier_of_section_4_1():
    assert eq_27_beta(1.0, 1e-5, 100, 0.1, 2.0) == pytest.approx(0.25 * math.sqrt(10 / (1 + 2 * math.log(1e5))))
    z = np.array([[0.1, 0.0], [-0.1, 0.0]] * 20)
    assert not hasattr(GibbsPosteriorClassifier(), "release_content")
    with pytest.raises(InvalidParameter, match="two classes"):
        GibbsPosteriorClassifier().fit(z, range(40))
    with pytest.raises(InvalidParameter, match="temperature"):
        GibbsPosteriorClassifier(temperature="cold").fit(z, [0, 1] * 20)
    for wrong in ({"epsilon": 0.0}, {"delta": 0.0}, {"delta": 1.0}, {"lam": 0.0}, {"R": -1.0}):
        with pytest.raises(InvalidParameter, match=f"{next(iter(wrong))} must be a number"):
            GibbsPosteriorClassifier(**wrong).fit(z, [0, 1] * 20)


def test_the_delta_of_the_classifier_has_the_distance_of_a_chain_that_could_draw_in_it():
    facts = Facts(1_000, 5, 1.0, Logistic(), 20.0)
    method = FixedBetaDraws(facts, 1.0, 1e-5, sampler="auto", beta=0.5)
    profile = gaussian_delta(2 * 0.5 / math.sqrt(10.0), 1.0)
    distance = float(method.proximal_plan.total_variation)
    assert distance > 0
    assert method.kept_delta == theorems.approximate_sampling_delta(1.0, profile, distance) > profile
    assert FixedBetaDraws(facts, 1.0, 1e-5, sampler="exact", beta=0.5).kept_delta == profile
    z = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 2))
    model = GibbsPosteriorClassifier(0.5, lam=0.1, classes=[0, 1], random_state=0).fit(z, (z[:, 0] > 0).astype(int))
    assert model.delta_ > gaussian_delta(2 * model.beta_ * math.sqrt(2) / math.sqrt(20.0), 0.5)


def test_nothing_is_promised_where_the_classifier_learned_its_classes():
    """Two tables that differ in one record give different `classes_` with certainty, which is δ = 1."""
    z = np.eye(4) / 2
    one, other = ["no", "no", "no", "flu"], ["no", "no", "no", "hiv"]
    learned = [GibbsPosteriorClassifier(0.1, random_state=0).fit(z, y) for y in (one, other)]
    assert set(learned[0].classes_) != set(learned[1].classes_)
    assert [model.delta_ for model in learned] == [1.0, 1.0]
    declared = GibbsPosteriorClassifier(0.1, temperature="tight", classes=["no", "flu"], random_state=0)
    for y in (one, ["no"] * 4):
        assert list(declared.fit(z, y).classes_) == ["no", "flu"]
        assert declared.delta_ <= 1e-5
        assert set(declared.predict(z)) <= {"no", "flu"}
    with pytest.raises(DataError, match="not among the declared classes"):
        declared.fit(z, other)
    with pytest.raises(InvalidParameter, match="two classes"):
        declared.set_params(classes=["no", "flu", "hiv"]).fit(z, other)
