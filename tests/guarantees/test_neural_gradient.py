"""Noisy descent of networks keeps its promise: what a row can do, how rows are sampled, what noise is enough; and broken twins are caught."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sudare.audit.distinguish import distinguish, distinguish_gaussian
from sudare.linear import descent as linear_descent
from sudare.linear.descent import sampled_accountant
from sudare.neural import calibration, network, sampling
from sudare.neural.calibration import Recipe, noise_multiplier
from sudare.neural.gradient import NoisyDescent
from sudare.neural.routes import Applied, Facts
from sudare.neural.sampling import RunSeed
from sudare.privacy.accounting import gaussian_epsilon
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SystemNoise
from sudare.schema import Number, Schema
from tests.neural.nets import clipped_gradient_sum, flat, losses, random_network, shapes

SCHEMA = Schema({"x0": Number(-1, 1), "x1": Number(-1, 1)})


def facts_of(rows, neighbours="replace-one", hidden=(2,)):
    return Facts(rows, (2, *hidden, 2), "cross_entropy", neighbours, SCHEMA, "scaled", (0, 1))


# What a row can do


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), shapes, losses, st.floats(0.1, 100), st.floats(0.01, 10), st.integers(0, 7))
def test_one_row_moves_the_clipped_sum_by_the_clip_at_most(seed, shape, loss, size, clip, place):
    """C where it is added or removed, 2C where it is replaced: in whole units, because rows are clipped a little shorter."""
    parameters, x, targets = random_network(seed, shape, loss, size)
    other = random_network(seed + 1, shape, loss, size)
    kept = np.ones(8, dtype=np.float32)
    with_row = flat(clipped_gradient_sum(parameters, x, targets, jnp.asarray(kept), clip, loss))
    kept[place] = 0
    without = flat(clipped_gradient_sum(parameters, x, targets, jnp.asarray(kept), clip, loss))
    kept[place] = 1
    changed_x, changed_targets = x.at[place].set(other[1][place]), targets.at[place].set(other[2][place])
    replaced = flat(clipped_gradient_sum(parameters, changed_x, changed_targets, jnp.asarray(kept), clip, loss))
    assert np.linalg.norm(with_row - without) <= clip
    assert np.linalg.norm(with_row - replaced) <= 2 * clip


def sum_clipped_as_a_whole(parameters, x, targets, kept, clip):
    """A broken twin: the batch's sum is clipped, and one row can turn it round."""
    total = network.gradient_sum(parameters, x, targets, kept, "cross_entropy")
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(total)))
    return network.mapped(lambda leaf: leaf * jnp.minimum(1.0, clip / norm), total)


def mean_clipped(parameters, x, targets, kept, clip):
    """A broken twin: gradients are averaged first and clipped after, so that a row may fill the whole batch's clip."""
    rows = jnp.sum(kept)
    total = network.gradient_sum(parameters, x, targets, kept / rows, "cross_entropy")
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(total)))
    return network.mapped(lambda leaf: leaf * jnp.minimum(1.0, clip / norm) * rows, total)


def clipped_row_by_row(parameters, x, targets, kept, clip):
    return clipped_gradient_sum(parameters, x, targets, kept, clip, "cross_entropy")


def half_sensitivity(parameters, x, targets, kept, clip):
    """A broken twin: rows are clipped to twice the clip that the noise is for."""
    return clipped_row_by_row(parameters, x, targets, kept, 2 * clip)


def one_step_audit(clipped_sum, noise_share=1.0, samples=4000):
    """The parameters after one full step, with and without a row that is wrong where seven others are right."""
    x = jnp.tile(jnp.asarray([1.0, 0.5, -0.5], jnp.float32), (8, 1))
    parameters = ((jnp.outer(x[0], jnp.asarray([1.0, -1.0])), jnp.zeros(2)),)
    targets = jnp.asarray(np.eye(2)[[0] * 7 + [1]], jnp.float32)
    sigma = 1.0
    pace = network.Pace(1.0, 1.0, 0.0, 0.01, sigma, 1.0)
    unit = 0.01 * sigma / network.NOISE_DEVIATION

    @jax.jit
    def stepped(total, noise):
        state = network.initial_state(parameters)
        return jax.vmap(lambda drawn: network.with_noise(state, total, drawn, pace).parameters)(noise)

    def mechanism(kept, count):
        total = jax.tree.map(
            lambda part: np.rint(np.asarray(part, dtype=np.float64) / unit).astype(np.int64),
            clipped_sum(parameters, x, targets, kept, 0.01),
        )
        noise = RunSeed.drawn(SystemNoise()).noise(0, count * 8).reshape(count, 8)
        with jax.enable_x64(True):
            leaves = jax.tree.leaves(stepped(total, np.rint(noise_share * noise).astype(np.int64)))
        return np.concatenate([np.asarray(leaf, dtype=np.float64).reshape(count, -1) for leaf in leaves], axis=1)

    without, with_row = jnp.asarray([1.0] * 7 + [0.0]), jnp.ones(8)
    claimed = Guarantee(gaussian_epsilon(1 / sigma, 1e-3), 1e-3, neighbours="add-remove")
    return distinguish_gaussian(mechanism, (without, with_row), claimed, 1 / sigma, samples, batched=True), claimed


def test_one_step_shows_a_row_no_better_than_claimed():
    """A Gaussian with μ = 1/σ: the bound holds with probability 1 − 1e-6 or better by `distinguish_gaussian`'s confidence, and half of it is found."""
    audit, claimed = one_step_audit(clipped_row_by_row)
    assert audit.epsilon_lower_bound <= claimed.epsilon
    assert audit.epsilon_lower_bound > 0.5 * claimed.epsilon


@pytest.mark.parametrize(
    ("broken", "noise_share"),
    [
        (clipped_row_by_row, 0.0),
        (clipped_row_by_row, 0.5),
        (half_sensitivity, 1.0),
        (sum_clipped_as_a_whole, 1.0),
        (mean_clipped, 1.0),
    ],
    ids=["no noise", "half of the noise", "half the sensitivity", "the batch's sum clipped", "clipped after averaging"],
)
def test_broken_steps_are_caught(broken, noise_share):
    audit, claimed = one_step_audit(broken, noise_share)
    assert audit.epsilon_lower_bound > claimed.epsilon


# How rows are sampled


def inclusions_fit(kept_rows, sampling_rate, rows=1000, steps=60):
    """Whether rows come as often as q says, one row as another, and the counts of samples vary as independent rows make them.

    Binomial tails of 1e-7 for the total; for the variance of counts chi-square tails of 1e-7: false alarms below 1e-6.
    """
    samples = np.array([kept_rows(step, rows, sampling_rate) for step in range(steps)])
    low, high = stats.binom.ppf([1e-7, 1 - 1e-7], rows * steps, sampling_rate)
    spread = np.sum((samples.sum(axis=1) - rows * sampling_rate) ** 2) / (rows * sampling_rate * (1 - sampling_rate))
    within = stats.chi2.ppf([1e-7, 1 - 1e-7], steps)
    return low <= samples.sum() <= high and within[0] <= spread <= within[1]


@pytest.mark.parametrize("sampling_rate", [1 / 64, 1 / 8, 0.7])
def test_rows_are_sampled_as_accounted(sampling_rate):
    seed = RunSeed.drawn(SystemNoise())
    assert inclusions_fit(seed.kept_rows, sampling_rate)


def test_other_ways_to_sample_are_caught():
    """A rate that is a tenth too large; and batches of one size, which are no Poisson samples."""
    seed = RunSeed.drawn(SystemNoise())
    assert not inclusions_fit(lambda step, rows, rate: seed.kept_rows(step, rows, 1.1 * rate), 1 / 8)
    order = np.random.default_rng(0)
    assert not inclusions_fit(
        lambda step, rows, rate: np.isin(np.arange(rows), order.permutation(rows)[: round(rate * rows)]), 1 / 8
    )


def sampled_as_accounted(monkeypatch, sampled_share=1.0):
    """Whether the rate that a run samples with is the one that its noise was calibrated for."""
    accounted, drawn = [], []
    honest_sample = sampling.poisson_sample

    def noted_multiplier(rate, *rest):
        accounted.append(rate)
        return linear_descent.sampled_multiplier(rate, *rest)

    def noted_sample(rows, rate, source):
        drawn.append(rate * sampled_share)
        return honest_sample(rows, rate * sampled_share, source)

    monkeypatch.setattr(calibration, "sampled_multiplier", noted_multiplier)
    monkeypatch.setattr(sampling, "poisson_sample", noted_sample)
    route = NoisyDescent(facts_of(40), 1.0, 1e-3, Recipe(3, 0.125, 1.0, 0.1, 0.9, 64))
    rows = np.random.default_rng(0).uniform(-1, 1, (40, 2)).astype(np.float32)
    route.fitted(rows, np.eye(2, dtype=np.float32)[np.arange(40) % 2], SystemNoise())
    return len(drawn) == 3 and set(drawn) == set(accounted)


def test_the_rate_sampled_is_the_rate_accounted(monkeypatch):
    assert sampled_as_accounted(monkeypatch)


def test_a_run_that_samples_more_than_it_accounts_is_caught(monkeypatch):
    assert not sampled_as_accounted(monkeypatch, sampled_share=1.5)


# What noise is enough


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize(
    ("sampling_rate", "steps", "epsilon", "delta"),
    [(0.125, 100, 0.1, 1e-5), (0.125, 400, 1.0, 1e-5), (0.5, 7, 4.0, 1e-6)],
)
def test_the_noise_of_a_run_is_just_enough(neighbours, sampling_rate, steps, epsilon, delta):
    """ε by privacy loss distributions with steps ten times finer than those that calibration used: at most what was asked for, and close to it."""
    recipe = Recipe(steps, sampling_rate, 1.0, 1.0, 0.9, 64)
    multiplier = noise_multiplier(recipe, epsilon, delta, neighbours, 10_000)
    spent = sampled_accountant(sampling_rate, multiplier, steps, 5e-5 * min(1, epsilon), neighbours).get_epsilon(delta)
    assert 0.97 * epsilon < spent <= epsilon


@pytest.mark.parametrize(("neighbours", "moved"), [("replace-one", 2), ("add-remove", 1)])
def test_full_batches_compose_as_one_gaussian(neighbours, moved):
    recipe = Recipe(9, 1.0, 1.0, 1.0, 0.9, 64)
    route = NoisyDescent(facts_of(10, neighbours), 1.0, 1e-5, recipe)
    mu = moved * 3 / route.noise_multiplier
    assert route.cost.mu is not None
    assert route.cost.mu * (1 - 1e-9) < mu <= route.cost.mu
    assert gaussian_epsilon(mu, 1e-5) <= 1.0


def test_known_numbers():
    """q = 1/8, σ = 2, T = 400, δ = 1e-5 by dp-accounting: 6.34 between add/remove neighbours, 13.06 between replace-one ones."""
    for neighbours, known in (("add-remove", 6.34), ("replace-one", 13.06)):
        assert sampled_accountant(0.125, 2.0, 400, 1e-3, neighbours).get_epsilon(1e-5) == pytest.approx(known, abs=0.01)


def test_whole_runs_cannot_be_told_apart_better_than_claimed(monkeypatch):
    """And the twin that forgets to sample, with the noise of one that does, is caught."""
    recipe = Recipe(1, 0.125, 0.01, 0.1, 0.0, 64)
    method = Applied(NoisyDescent(facts_of(2), 1.0, 0.05, recipe), 2)
    first = np.array([[1.0, 1.0, 1.0, 0.0], [1.0, -1.0, 1.0, 0.0]])
    second = np.array([[1.0, 1.0, 0.0, 1.0], [1.0, -1.0, 1.0, 0.0]])
    source, claimed = SystemNoise(), Guarantee(1.0, 0.05)

    def last_layer(values):
        return method.apply(values, source)[-2:]

    audit = distinguish(last_layer, (first, second), claimed, 300)
    assert audit.epsilon_lower_bound <= 1.0
    monkeypatch.setattr(sampling, "poisson_sample", lambda rows, rate, words: np.ones(rows, dtype=bool))
    caught = distinguish(last_layer, (first, second), claimed, 300)
    assert caught.epsilon_lower_bound > 1.0
