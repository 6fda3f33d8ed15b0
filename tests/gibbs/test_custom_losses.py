"""Losses of a user: what cannot be certified from public facts is refused before the charge."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from sudare.errors import (
    DataError,
    InvalidParameter,
    NotSolved,
)
from sudare.gibbs import GibbsPosterior, LogConcavePrior, NormalPrior, potentials, smooth_proximal
from sudare.privacy import Ledger
from tests.gibbs.sharp_loss import sharp, sharp_slope
from tests.gibbs.tables import separable
from tests.gibbs.test_sklearn_checks import distance_from_rows, pull_of_rows

PAIR = np.full((3, 1), -0.5), np.array([[-0.5], [-0.5], [0.5]])


@pytest.fixture
def account(tmp_path):
    return Ledger(tmp_path / "ledger.db").account("patients", epsilon=1000.0, delta=0.01)


def distance(theta, X):
    return np.sqrt(1 + ((theta - X) ** 2).sum(axis=1))


def pull(theta, X):
    return ((theta - X) / distance(theta, X)[:, np.newaxis]).sum(axis=0)


def test_with_an_account_smoothness_must_be_declared(account):
    with pytest.raises(InvalidParameter, match="smoothness"):
        GibbsPosterior(sharp, sharp_slope, dimension=2, account=account).fit(PAIR[0])
    assert account.spent().epsilon == 0
    # Its owner may look at it.
    assert GibbsPosterior(sharp, sharp_slope, dimension=2, random_state=0).fit(PAIR[0]).parameters_.shape == (2,)


def test_what_could_take_for_ever_is_refused_whatever_the_records(account):
    model = GibbsPosterior(sharp, sharp_slope, dimension=30, smoothness=1e6, regularization=0.1, account=account)
    for X in PAIR:
        with pytest.raises(InvalidParameter, match="too many proposals"):
            model.fit(X)
    assert account.spent().epsilon == 0
    model.set_params(dimension=2, smoothness=100.0)
    for X in PAIR:
        assert model.fit(X).parameters_.shape == (2,)


@pytest.mark.parametrize("smoothness", [-1.0, np.nan, True, "1"])
def test_smoothness_is_a_number(smoothness):
    with pytest.raises(InvalidParameter, match="smoothness"):
        GibbsPosterior(distance, pull, smoothness=smoothness).fit(np.zeros((3, 2)))


def test_fixed_work_goes_on_where_it_is_not_enough(monkeypatch):
    X = np.random.default_rng(0).normal(size=(50, 2))
    monkeypatch.setattr("sudare.gibbs.custom_draws.FIXED_PROPOSALS", 1)
    few = GibbsPosterior(distance, pull, smoothness=1.0, fixed_work=True, draws=3, random_state=0).fit(X)
    assert few.draws_.shape == (3, 2)
    monkeypatch.setattr("sudare.gibbs.custom_draws.FIXED_PROPOSALS", 100)
    many = GibbsPosterior(distance, pull, smoothness=1.0, fixed_work=True, draws=3, random_state=0).fit(X)
    assert many.acceptance_ * 300 == pytest.approx(round(many.acceptance_ * 300))


def test_where_the_first_search_for_the_mode_fails_accelerated_steps_find_it(account, monkeypatch):
    class Lost:
        x = np.full(2, 5.0)

    X = np.random.default_rng(0).normal(size=(50, 2))
    found = GibbsPosterior(distance, pull, smoothness=1.0, norm_bound=10.0, random_state=0).fit(X).parameters_
    monkeypatch.setattr("sudare.gibbs.potentials.minimize", lambda *_, **__: Lost())
    again = GibbsPosterior(distance, pull, smoothness=1.0, norm_bound=10.0, random_state=0).fit(X).parameters_
    np.testing.assert_allclose(again, found, atol=1e-5)
    GibbsPosterior(distance, pull, smoothness=1.0, account=account).fit(X)
    assert account.spent().epsilon == 1.0
    with pytest.raises(NotSolved):
        GibbsPosterior(distance, pull, random_state=0).fit(X)


def test_functions_that_give_no_numbers_are_refused_before_the_charge(account):
    def nothing(theta, X):
        return np.full(len(X), np.nan)

    def one_number(theta, X):
        return 1.0

    for loss, gradient in ((nothing, pull), (one_number, pull), (distance, one_number)):
        with pytest.raises((InvalidParameter, DataError)):
            GibbsPosterior(loss, gradient, smoothness=1.0, account=account).fit(np.zeros((3, 2)))
    assert account.spent().epsilon == 0


def bent(theta, X, y):
    """Nearly |residual|, but smooth."""
    return np.sqrt(1 + (X @ theta - y) ** 2)


def bent_slope(theta, X, y):
    return ((X @ theta - y) / bent(theta, X, y)) @ X


def test_a_loss_of_ones_own():
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(size=(400, 2)) / 10 + [0.3, -0.2], np.full((20, 2), 5.0)])
    model = GibbsPosterior(
        distance_from_rows, pull_of_rows, epsilon=20.0, norm_bound=10.0, regularization=1e-3, random_state=0
    ).fit(X)
    np.testing.assert_allclose(model.parameters_, [0.3, -0.2], atol=0.4)
    assert model.score(X) > -2
    assert 0 < model.acceptance_ <= 1
    assert model.total_variation_ == 0


def test_a_loss_with_targets():
    X, y = separable(200)
    model = GibbsPosterior(
        bent, bent_slope, epsilon=20.0, regularization=0.1, target_bounds=(0, 1), draws=2, random_state=0
    ).fit(X, y)
    assert model.draws_.shape == (2, 3)
    with pytest.raises(DataError, match="y is missing"):
        clone(model).fit(X, None)


def test_a_gradient_by_jax():
    jax = pytest.importorskip("jax", reason="jax not installed")

    def smooth(theta, X):
        return jax.numpy.sqrt(1 + ((theta - X) ** 2).sum(axis=1))

    X, _ = separable(100)
    by_jax = GibbsPosterior(smooth, norm_bound=2.0, random_state=0).fit(X)
    by_hand = GibbsPosterior(distance_from_rows, pull_of_rows, norm_bound=2.0, random_state=0).fit(X)
    np.testing.assert_allclose(by_jax.parameters_, by_hand.parameters_, atol=1e-5)


def test_without_jax_a_gradient_is_needed(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(InvalidParameter, match="JAX is not installed"):
        GibbsPosterior(distance_from_rows).fit(separable()[0])


def test_a_loss_that_is_not_convex_is_noticed():
    def concave(theta, X):
        return -np.sqrt(1 + 100 * ((theta - X) ** 2).sum(axis=1)) / 10

    def slope(theta, X):
        return -10 * ((theta - X) / np.sqrt(1 + 100 * ((theta - X) ** 2).sum(axis=1))[:, np.newaxis]).sum(axis=0)

    with pytest.raises((DataError, NotSolved)):
        GibbsPosterior(concave, slope, epsilon=5.0, regularization=0.01, random_state=0).fit(separable(50)[0])


def test_the_price_of_a_loss_of_ones_own(account):
    X, _ = separable()
    quote = GibbsPosterior(distance_from_rows, pull_of_rows, epsilon=0.5, smoothness=1.0, account=account).price(X)
    assert (quote.asked.epsilon, quote.admitted) == (0.5, True)
    assert account.spent().epsilon == 0


@pytest.mark.parametrize(
    "options",
    [
        {"loss": None},
        {"gradient": 3},
        {"lipschitz": 0},
        {"strong_convexity": -1},
        {"dimension": 0},
        {"delta": 0.0},
        {"delta": 0.0, "loss_range": (1.0, 0.0)},
        {"delta": 0.0, "loss_range": (0.0, 9.0), "sampler": "proximal"},
        {"delta": 0.0, "loss_range": (0.0, 9.0)},
        {"regularization": 0.0},
        {"sampler": "exact"},
        {"sampler": "quick"},
        {"sampler": "proximal", "fixed_work": True},
        {"sampler": "proximal"},
        {"sampler": "proximal", "smoothness": 1.0, "epsilon": 700.0},
        {"radius": 0.0},
        {"beta": 1e9},
        {"prior": 3},
        {"prior": LogConcavePrior(np.sum, np.sum, 0.0)},
        {"prior": LogConcavePrior(np.sum, np.sum, -1.0)},
        {"candidates": np.zeros((2, 3))},
        {"candidates": [0.0], "delta": 0.0, "loss_range": (0.0, 1.0)},
        {"candidates": "some", "delta": 0.0, "loss_range": (0.0, 1.0)},
        {"regularization": math.nan},
        {"loss": lambda theta, X: 1.0},
    ],
)
def test_bad_parameters_of_posteriors(options):
    given = {"loss": distance_from_rows, "gradient": pull_of_rows, **options}
    with pytest.raises(InvalidParameter):
        GibbsPosterior(**given).fit(separable()[0])


def logistic(theta, X, y):
    return np.logaddexp(0, -y * (X @ theta))


def logistic_slope(theta, X, y):
    return -(y / (1 + np.exp(y * (X @ theta)))) @ X


def signed(rows, width, seed=0):
    X, y = separable(rows, width, seed=seed)
    return X, 2.0 * y - 1


FACTS = {"lipschitz": 1.0, "smoothness": 0.25, "laplacian": 0.25, "target_bounds": (-1, 1)}


@pytest.mark.parametrize(
    ("options", "sampler"),
    [
        ({"regularization": 1.0}, "rejection"),
        ({"regularization": 0.01}, "proximal"),
        ({"regularization": 0.05, "sampler": "langevin"}, "langevin"),
        ({"prior": NormalPrior(0.5), "sampler": "proximal"}, "proximal"),
        ({"regularization": 0.01, "radius": 0.5}, "rejection"),
        ({"delta": 0.0, "loss_range": (0.0, 2.2), "radius": 2.0, "regularization": 0.1}, "exact"),
        ({"delta": 0.0, "loss_range": (0.0, 2.2), "candidates": np.eye(12)}, "exact"),
    ],
)
def test_every_sampler_is_charged_and_says_what_it_is(options, sampler, account):
    X, y = signed(300, 12)
    model = GibbsPosterior(logistic, logistic_slope, **FACTS, account=account, **options).fit(X, y)
    assert model.sampler_ == sampler
    assert model.parameters_.shape == (12,)
    assert (account.spent().epsilon, account.spent().delta) == (1.0, options.get("delta", 1e-6))
    assert (model.total_variation_ > 0) == (sampler == "proximal")
    assert (model.wasserstein_distance_ > 0) == (sampler == "langevin")
    if "radius" in options:
        assert np.linalg.norm(model.parameters_) <= options["radius"] * (1 + 1e-5)


def test_failure_comes_before_the_charge_and_many_rows_are_drawn(account):
    """5,000 rows of 30 columns: given up after minutes, and charged, when rejection was all there was."""
    X, y = signed(5_000, 30)
    model = GibbsPosterior(logistic, logistic_slope, **FACTS, account=account)
    with pytest.raises(InvalidParameter, match="too many proposals"):
        clone(model).set_params(regularization=1e-6).fit(X, y)
    with pytest.raises(InvalidParameter, match="steps"):
        clone(model).set_params(regularization=1e-6, sampler="langevin").fit(X, y)
    assert account.spent().epsilon == 0
    drawn = clone(model).set_params(regularization=0.005).fit(X, y)
    assert drawn.sampler_ == "proximal"
    assert np.mean(np.sign(X @ drawn.parameters_) == y) > 0.85


def test_a_smaller_beta_is_charged_for_what_it_is(account):
    X, y = signed(300, 2)
    model = GibbsPosterior(logistic, logistic_slope, **FACTS, account=account)
    largest = clone(model).fit(X, y)
    half = clone(model).set_params(beta=largest.inverse_temperature_ / 4).fit(X, y)
    assert half.inverse_temperature_ == largest.inverse_temperature_ / 4
    mus = [each.plan(300, each.declared_).mechanism.cost.mu for each in (largest, half)]
    assert mus[1] == pytest.approx(mus[0] / 2, rel=1e-6)


def test_a_prior_elsewhere_draws_the_parameters_there():
    X, y = signed(50, 2)
    prior = NormalPrior(0.01, (3.0, -3.0))
    model = GibbsPosterior(logistic, logistic_slope, **FACTS, prior=prior, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.parameters_, [3.0, -3.0], atol=0.2)
    same = LogConcavePrior(prior.log_density, prior.gradient, prior.strong_convexity, prior.smoothness)
    again = GibbsPosterior(logistic, logistic_slope, **FACTS, prior=same, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.parameters_, model.parameters_)


def test_candidates_need_no_gradient_and_no_convexity():
    """A loss with many valleys; the best of the candidates is found."""
    X = np.full((2_000, 1), 0.3)

    def waves(theta, X):
        return np.sin(8 * (theta[0] - X[:, 0])) ** 2

    grid = np.linspace(0.2, 0.5, 31)[:, np.newaxis]
    model = GibbsPosterior(waves, delta=0.0, loss_range=(0, 1), candidates=grid, random_state=0).fit(X)
    assert abs(model.parameters_[0] - 0.3) < 0.02
    assert model.score(X) > -0.1


def test_a_gradient_that_is_no_number_in_the_ball_ends_the_fit():
    def holed(theta, X):
        return np.where(np.all(theta == 0), (theta - X).sum(axis=0), np.nan)

    model = GibbsPosterior(
        distance, holed, delta=0.0, loss_range=(0, 9), radius=1.0, smoothness=1.0, regularization=0.0
    )
    with pytest.raises(DataError, match="not a number"):
        model.fit(np.ones((5, 2)))


@pytest.mark.parametrize(
    "prior",
    [
        NormalPrior(1.0, (0.0, 0.0, 0.0)),
        LogConcavePrior(lambda theta: 1 / 0, lambda theta: -theta, 1.0, 1.0),
        LogConcavePrior(lambda theta: 0.0, lambda theta: np.zeros(5), 1.0, 1.0),
        LogConcavePrior(lambda theta: np.nan, lambda theta: -theta, 1.0, 1.0),
    ],
)
def test_a_prior_that_gives_no_numbers_is_refused_before_the_charge(prior, account):
    facts = {"delta": 0.0, "loss_range": (0, 9), "radius": 1.0, "smoothness": 1.0, "account": account}
    with pytest.raises(InvalidParameter, match="prior"):
        GibbsPosterior(distance, pull, prior=prior, **facts).fit(np.zeros((5, 2)))
    assert account.spent().epsilon == 0


@pytest.mark.parametrize(
    ("facts", "match"),
    [
        ({"strong_convexity": 0.9, "smoothness": 0.5}, "No loss bends less than its strong convexity"),
        ({"strong_convexity": 0.9, "smoothness": 1.0, "laplacian": 1.5}, "all directions together"),
        (
            {"smoothness": 1.0, "prior": LogConcavePrior(lambda t: 0.0, lambda t: 0 * t, 2.0, 1.0)},
            "No prior bends less",
        ),
        # Floats are 10⁻⁴ apart there, a hundred times the prior's deviation.
        ({"smoothness": 1.0, "prior": NormalPrior(1e-6, 1e12)}, "narrower than floating point"),
        ({"smoothness": 1.0, "prior": NormalPrior(1e-6, 1e12), "sampler": "proximal"}, "narrower than floating point"),
        # On the grid of exact draws it falls by a factor of e¹⁰ from a point to the next; such a fit went on without end.
        (
            {"smoothness": 1.0, "prior": NormalPrior(1e-3, 1e4), "delta": 0.0, "loss_range": (0, 9), "radius": 1.0},
            "pulls so hard out of the ball",
        ),
    ],
)
def test_what_no_table_could_be_drawn_for_is_refused_before_the_charge(facts, match, account):
    with pytest.raises(InvalidParameter, match=match):
        GibbsPosterior(distance, pull, **facts, account=account).fit(np.zeros((5, 2)))
    assert account.spent().epsilon == 0


def test_a_prior_whose_mode_is_near_outside_of_the_ball_is_drawn_exactly():
    facts = {"delta": 0.0, "loss_range": (0, 9), "radius": 1.0, "smoothness": 1.0, "prior": NormalPrior(0.1, 2.0)}
    model = GibbsPosterior(distance, pull, **facts).fit(np.zeros((5, 2)))
    assert model.sampler_ == "exact"
    assert 0.9 < np.linalg.norm(model.parameters_) <= 1


@pytest.mark.parametrize("log_density", [-np.inf, np.nan, np.inf])
def test_a_prior_without_a_possible_candidate_is_refused_before_the_charge(log_density, account):
    prior = LogConcavePrior(lambda theta: log_density, lambda theta: theta, 0.0)
    facts = {"delta": 0.0, "loss_range": (0, 9), "candidates": np.eye(2), "account": account}
    with pytest.raises(InvalidParameter, match="prior"):
        GibbsPosterior(distance, prior=prior, **facts).fit(np.zeros((5, 2)))
    assert account.spent().epsilon == 0


def test_a_smaller_beta_costs_the_full_epsilon_where_delta_is_zero():
    facts = {"delta": 0.0, "loss_range": (0, 9), "radius": 1.0, "smoothness": 1.0}
    X = np.zeros((5, 2))
    costs = [
        GibbsPosterior(distance, pull, beta=beta, **facts)._plan_for(X, None).mechanism.cost for beta in (None, 1e-6)
    ]
    assert costs[0] == costs[1]


def test_so_steep_a_posterior_on_a_ball_that_floats_miss_its_tilt_is_refused(account):
    facts = {"delta": 0.0, "loss_range": (0, 9), "radius": 1.0, "smoothness": 1.0, "regularization": 1.0}
    with pytest.raises(InvalidParameter, match="exact sampler"):
        GibbsPosterior(distance, pull, epsilon=1e8, **facts, account=account).fit(np.zeros((5, 2)))
    assert account.spent().epsilon == 0


def steep(theta, X):
    """Bends like 1,000 near rows, in every direction."""
    return 1000 * np.sqrt(1 + ((theta - X) ** 2).sum(axis=1))


def steep_pull(theta, X):
    return 1000 * ((theta - X) / np.sqrt(1 + ((theta - X) ** 2).sum(axis=1))[:, np.newaxis]).sum(axis=0)


def kinked(theta, X):
    return 5 * np.abs(theta[0] - X[:, 0])


def kinked_pull(theta, X):
    return np.array([5 * np.sign(theta[0] - X[:, 0]).sum()])


@pytest.mark.parametrize("sampler", ["rejection", "proximal"])
@pytest.mark.timeout(60)
def test_a_loss_that_bends_more_than_declared_does_not_go_on_for_ever(sampler):
    """Without the declared smoothness the fit would end too; declared wrongly it would look for an accepted point without end."""
    X = np.random.default_rng(0).normal(size=(200, 12)) / 5
    declared = {"lipschitz": 1.0, "smoothness": 1e-3, "regularization": 0.01}
    with pytest.raises(DataError, match="not as smooth as declared"):
        GibbsPosterior(steep, steep_pull, epsilon=5.0, sampler=sampler, random_state=0, **declared).fit(X)


@pytest.mark.timeout(60)
def test_neither_does_an_exact_draw():
    options = {"epsilon": 2.0, "delta": 0.0, "radius": 1.0, "smoothness": 1.0}
    with pytest.raises(DataError, match="not as smooth as declared"):
        GibbsPosterior(kinked, kinked_pull, loss_range=(0, 2), regularization=0.05, **options).fit(np.ones((2, 1)))
    X = np.random.default_rng(0).normal(size=(2000, 12)) / 5
    small = {**options, "smoothness": 1e-3, "loss_range": (1000, 2000), "regularization": 0.0}
    with pytest.raises(DataError, match="not as smooth as declared"):
        GibbsPosterior(steep, steep_pull, **small).fit(X)


def test_a_loss_as_declared_is_drawn_however_many_proposals_are_refused(monkeypatch):
    """Patience ends at once here, and what is then looked at shows that all is as declared."""
    monkeypatch.setattr(potentials, "_PATIENCE", 0.0)
    monkeypatch.setattr(smooth_proximal, "_PATIENCE", 0)
    X = np.random.default_rng(0).normal(size=(50, 3)) / 5
    for options in ({"sampler": "rejection"}, {"sampler": "proximal"}, {"delta": 0.0, "radius": 1.0}):
        given = {"loss_range": (1, 3), "smoothness": 1.0, "draws": 20, "epsilon": 20.0, **options}
        model = GibbsPosterior(distance, pull, random_state=0, **given).fit(X)
        assert model.acceptance_ < 1


def test_no_distance_is_stated_where_gradients_are_longer_than_lipschitz():
    """Gradients 3,001 that differ by nothing: as private as with lipschitz=1, and the posterior is far from where steps start."""
    X = np.ones((1000, 1))

    def model(push):
        return GibbsPosterior(
            lambda theta, X: push * theta[0] + X[:, 0] * theta[0],
            lambda theta, X: np.array([(push + X[:, 0]).sum()]),
            smoothness=0.0,
            prior=NormalPrior(scale=1.0),
            epsilon=1.0,
            delta=1e-5,
            sampler="langevin",
            random_state=0,
        ).fit(X)

    far, near = model(3000.0), model(0.0)
    assert far.wasserstein_distance_ == math.inf
    assert abs(far.parameters_[0] + 1000 * 3001 * far.inverse_temperature_) > 5
    assert 0 < near.wasserstein_distance_ < 1
    # It depends on the records here, so no copy has it.
    assert not hasattr(pickle.loads(pickle.dumps(near.set_params(loss=None, gradient=None))), "wasserstein_distance_")
