"""Noisy descent of networks keeps its promise: what a row can do, how rows are sampled, what noise is enough; and broken twins are caught."""

from __future__ import annotations

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sudare.audit.distinguishing_test import distinguish, distinguish_gaussian
from sudare.errors import InvalidParameter, SchemaError, SudareError
from sudare.linear import descent as linear_descent
from sudare.linear.descent import sampled_accountant
from sudare.neural import PrivateMLPClassifier, dp_sgd
from sudare.neural import per_row_clipping as network
from sudare.neural import seeded_randomness as sampling
from sudare.neural.dp_sgd import DpSgd, Recipe
from sudare.neural.seeded_randomness import RunSeed
from sudare.neural.training_method_base import Facts, flattened, layered
from sudare.papers.p002_networks.estimators import AnonymizedLearningClassifier, LearningFirstClassifier
from sudare.privacy import discrete_gaussian
from sudare.privacy.accounting import exact, gaussian_epsilon, total_variation_delta
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SystemNoise
from sudare.schema import Label, Number, Schema
from tests.neural.nets import clipped_gradient_sum, flat, losses, random_network, shapes, whole_sum

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
    step_settings = network.StepSettings(1.0, 1.0, 0.0, 0.01, sigma, 1.0)
    unit = 0.01 * sigma / network.NOISE_DEVIATION

    @jax.jit
    def stepped(total, noise):
        state = network.initial_state(parameters)
        return jax.vmap(lambda drawn: network.with_noise(state, total, drawn, step_settings).parameters)(noise)

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

    monkeypatch.setattr(dp_sgd, "sampled_multiplier", noted_multiplier)
    monkeypatch.setattr(sampling, "poisson_sample", noted_sample)
    method = DpSgd(facts_of(40), 1.0, 1e-3, Recipe(3, 0.125, 1.0, 0.1, 0.9, 64))
    rows = np.random.default_rng(0).uniform(-1, 1, (40, 2)).astype(np.float32)
    method.fitted(rows, np.eye(2, dtype=np.float32)[np.arange(40) % 2], SystemNoise())
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
    multiplier = DpSgd(facts_of(1000, neighbours, (97, 97)), epsilon, delta, recipe).noise_multiplier
    spent = sampled_accountant(sampling_rate, multiplier, steps, 5e-5 * min(1, epsilon), neighbours).get_epsilon(delta)
    assert 0.97 * epsilon < spent <= epsilon


@pytest.mark.parametrize(("neighbours", "moved"), [("replace-one", 2), ("add-remove", 1)])
def test_full_batches_compose_as_one_gaussian(neighbours, moved):
    recipe = Recipe(9, 1.0, 1.0, 1.0, 0.9, 64)
    method = DpSgd(facts_of(10, neighbours), 1.0, 1e-5, recipe)
    mu = moved * 3 / method.noise_multiplier
    assert method.cost.mu is not None
    assert method.cost.mu * (1 - 1e-9) < mu <= method.cost.mu
    assert gaussian_epsilon(mu, 1e-5) <= 1.0


def test_known_numbers():
    """q = 1/8, σ = 2, T = 400, δ = 1e-5 by dp-accounting: 6.34 between add/remove neighbours, 13.06 between replace-one ones."""
    for neighbours, known in (("add-remove", 6.34), ("replace-one", 13.06)):
        assert sampled_accountant(0.125, 2.0, 400, 1e-3, neighbours).get_epsilon(1e-5) == pytest.approx(known, abs=0.01)


@pytest.mark.long
def test_whole_runs_cannot_be_told_apart_better_than_claimed(monkeypatch):
    """And the twin that forgets to sample, with the noise of one that does, is caught."""
    recipe = Recipe(1, 0.125, 0.01, 0.1, 0.0, 64)
    method = DpSgd(facts_of(2), 1.0, 0.05, recipe)
    first = np.array([[1.0, 1.0, 1.0, 0.0], [1.0, -1.0, 1.0, 0.0]])
    second = np.array([[1.0, 1.0, 0.0, 1.0], [1.0, -1.0, 1.0, 0.0]])
    source, claimed = SystemNoise(), Guarantee(1.0, 0.05)

    def last_layer(values):
        singles = values.astype(np.float32)
        return flattened(method.fitted(singles[:, :2], singles[:, 2:], source))[-2:]

    audit = distinguish(last_layer, (first, second), claimed, 300)
    assert audit.epsilon_lower_bound <= 1.0
    monkeypatch.setattr(sampling, "poisson_sample", lambda rows, rate, words: np.ones(rows, dtype=bool))
    caught = distinguish(last_layer, (first, second), claimed, 300)
    assert caught.epsilon_lower_bound > 1.0


# Extreme declarations


finite = st.one_of(
    st.floats(-(2.0**30), 2.0**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, 1.0, -1.0, 2.0**30, 1e39, -1e39, 5e-324]),
)
scales = st.one_of(st.floats(1e-3, 1e9), st.floats(5e-324, 1e300))
clips = st.one_of(st.floats(2.0**-20, 2.0**20), st.floats(1e-320, 1e300), st.sampled_from([2.0**-20, 2.0**20, 1e-12]))
weight_sizes = st.sampled_from([0.0, 1e-45, 1e-38, 1e-30, 1e-19, 1e-10, 1.0, 2.0**10])


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(finite, finite, finite, scales),
    st.sampled_from(["scaled", "centred", "binned"]),
    clips,
    weight_sizes,
    weight_sizes,
    losses,
    st.sampled_from([2.0**-20, 0.25, 1.0, 1000.0]),
)
def test_every_declaration_is_refused_or_has_rows_within_the_clip(ends, encoding, clip, first, last, loss, multiplier):
    """Whatever is declared: refused before a row is seen, or the row at either end of its bounds counts as one clip at most, and as a number."""
    low, high, centre, scale = ends
    try:
        column = Number(
            min(low, high), max(low, high), centre=min(max(centre, min(low, high)), max(low, high)), scale=scale
        )
        schema = Schema({"x": column})
        facts = Facts(10, (len(schema.names(encoding)), 3, 2), loss, "replace-one", schema, encoding, (0, 1))
        DpSgd(facts, 1.0, 1e-3, Recipe(1, 1.0, clip, 1.0, 0.0, 64))
    except SudareError:
        return
    rows = np.array(schema.bounds(encoding), dtype=np.float32)
    inputs = len(rows[0])
    x = jnp.asarray(np.concatenate([rows, rows])[:, :1] if inputs == 1 else np.pad(rows, ((0, 2), (0, 12 - inputs))))
    shape = (x.shape[1], 3, 2)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=100)
    sizes_of = ((shape[0], 3, first), (3, 2, last))
    parameters = tuple(
        (jnp.asarray(size * signs[: a * b].reshape(a, b), jnp.float32), jnp.full(b, size, jnp.float32))
        for a, b, size in sizes_of
    )
    targets = jnp.asarray([[1.0, 0.0], [0.0, 1.0], [1e-19, -1e-19], [1e-38, 1.0]], jnp.float32)
    units = network.NOISE_DEVIATION / multiplier
    for row in range(4):
        kept = jnp.asarray(np.eye(4)[row], jnp.float32)
        counted = flat(whole_sum(parameters, x, targets, kept, clip, loss, multiplier))
        assert np.linalg.norm(counted) <= units


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (PrivateMLPClassifier, {"delta": 1e-3, "max_iter": 2, "sampling_rate": 1.0}),
        (LearningFirstClassifier, {"delta": 0.0}),
        (AnonymizedLearningClassifier, {"delta": 0.0}),
    ],
)
def test_no_network_takes_inputs_that_are_too_large(estimator, options):
    """And the largest that are taken leave numbers."""
    for largest, taken in ((2.0**30, True), (2.0**31, False), (1e39, False)):
        schema = Schema({"x": Number(0, largest, centre=0, scale=1), "y": Label((0, 1))})
        model = estimator(
            (3,),
            epsilon=1.0,
            schema=schema,
            encoding="centred",
            random_state=0,
            accept_weak_guarantee=True,
            **options,
        )
        table = {"x": [1.0] * 9 + [largest], "y": [0, 1] * 5}
        if taken:
            assert np.all(np.isfinite(model.fit(table).parameters_))
        else:
            with pytest.raises(SchemaError, match="beyond 2³⁰"):
                model.fit(table)
            with pytest.raises(SchemaError, match="beyond 2³⁰"):
                model.plan(10, schema)


# What the distance to ideal noise costs


@pytest.mark.parametrize("sampling_rate", [0.125, 1.0])
def test_the_distance_of_the_noise_is_charged_to_delta(sampling_rate):
    """Drawn and ideal noise of the whole run differ by so much, and δ of the ideal run is less by (1 + e^ε) times that."""
    recipe = Recipe(400, sampling_rate, 1.0, 1.0, 0.9, 64)
    method = DpSgd(facts_of(1000, hidden=(64, 64)), 1.0, 1e-6, recipe)
    d = 3 * 64 + 65 * 64 + 65 * 2
    assert method.parameters == d
    assert method.distance == 400 * (d * discrete_gaussian.DISTANCE + Fraction(1, 2**69))
    assert float(method.distance) < 1e-14
    ideal = dp_sgd.delta_of_ideal_noise(1.0, 1e-6, method.distance)
    assert 1e-6 * (1 - 1e-7) < ideal < 1e-6
    assert exact(1e-6) - exact(ideal) >= total_variation_delta(exact(1.0), method.distance)
    if sampling_rate == 1:
        assert method.cost.total_variation >= method.distance
    else:
        spent = sampled_accountant(sampling_rate, method.noise_multiplier, 400, 5e-4, "replace-one").get_epsilon(ideal)
        assert spent <= 1.0


def test_a_delta_that_the_noise_is_not_exact_enough_for_is_refused():
    for sampling_rate in (0.125, 1.0):
        method = DpSgd(facts_of(1000, hidden=(64, 64)), 1.0, 1e-15, Recipe(400, sampling_rate, 1.0, 1.0, 0.9, 64))
        with pytest.raises(InvalidParameter, match="not drawn so exactly"):
            _ = method.noise_multiplier
        with pytest.raises(InvalidParameter, match="not drawn so exactly"):
            _ = method.cost if sampling_rate == 1 else method.noise_multiplier


def test_samples_find_their_slots():
    """Bernstein's bound of 2⁻⁶⁹ for every rate and number of rows, and no more slots than rows."""
    for rows in (1, 10, 1000, 10**5, 10**7):
        for sampling_rate in (2.0**-32, 1e-3, 0.125, 0.5, 0.999, 1.0):
            expected = rows * sampling_rate
            room = dp_sgd.slots_for(rows, sampling_rate) - expected
            assert dp_sgd.slots_for(rows, sampling_rate) <= max(rows, 1)
            if dp_sgd.slots_for(rows, sampling_rate) < rows:
                spread = expected * (1 - sampling_rate)
                assert room**2 / 2 / (spread + room / 3) > 69 * math.log(2)


# Where rows are placed


def test_other_rows_do_not_matter_to_a_row():
    """What a row's gradient is made of, bit by bit, beside other rows: a row's place is its own, and only its place and itself count."""
    parameters, x, targets = random_network(3, (13, (7,), 3), "cross_entropy", rows=192)
    other = random_network(4, (13, (7,), 3), "cross_entropy", rows=192)
    for place in (0, 5, 64, 130, 191):
        mixed = other[1].at[place].set(x[place]), other[2].at[place].set(targets[place])
        for before, after in zip(
            jax.tree.leaves(network.row_parts(parameters, x, targets, None, "cross_entropy")),
            jax.tree.leaves(network.row_parts(parameters, *mixed, None, "cross_entropy")),
            strict=True,
        ):
            np.testing.assert_array_equal(np.asarray(before)[place], np.asarray(after)[place])


def test_one_row_more_changes_one_part_of_the_sum():
    """Parts of 128 rows: those without the row are the same to the last bit, so that floats are rounded otherwise in one part only."""
    parameters, x, targets = random_network(8, (5, (7,), 3), "cross_entropy", rows=512)
    step_settings = network.StepSettings(1.0, 1.0, 0.0, 0.5, 1.0, 1.0)
    blocks = network.row_parts(parameters, x, targets, None, "cross_entropy")
    kept = np.random.default_rng(0).integers(0, 2, 512).astype(np.float32)
    kept[300] = 0
    with_row = kept.copy()
    with_row[300] = 1

    def part(mask, start):
        inside = np.zeros(512, dtype=np.float32)
        inside[start : start + 128] = mask[start : start + 128]
        with jax.enable_x64(True):
            return flat(network.accumulated(None, blocks, inside, step_settings))

    with jax.enable_x64(True):
        whole = [flat(network.accumulated(None, blocks, mask, step_settings)) for mask in (kept, with_row)]
    for mask, total in zip((kept, with_row), whole, strict=True):
        np.testing.assert_array_equal(sum(part(mask, start) for start in range(0, 512, 128)), total)
    assert np.linalg.norm(whole[1] - whole[0]) <= network.NOISE_DEVIATION
    np.testing.assert_array_equal(whole[1] - whole[0], part(with_row, 256) - part(kept, 256))


def test_sums_of_parts_are_as_right_as_the_margin_says():
    """Against exact sums of the same float32 factors, in rationals' stead 64-bit floats: the error is below what two parts are allowed."""
    parameters, x, targets = random_network(9, (12, (9, 4), 2), "cross_entropy", size=3.0, rows=128)
    step_settings = network.StepSettings(1.0, 1.0, 0.0, 0.01, 1.0, 1.0)
    blocks = network.row_parts(parameters, x, targets, None, "cross_entropy")
    inputs, slopes = ([getattr(block, part) for block in blocks[::2]] for part in ("inputs", "slopes"))
    with jax.enable_x64(True):
        factors = np.asarray(network.row_factors(blocks, jnp.ones(128), step_settings))[:, None]
        total = flat(network.accumulated(None, blocks, jnp.ones(128), step_settings))
    weighted = [np.asarray(np.asarray(slope) * factors, dtype=np.float64) for slope in slopes]
    exact_sum = np.concatenate(
        [
            np.concatenate([np.ravel(np.asarray(a, dtype=np.float64).T @ slope), slope.sum(axis=0)])
            for a, slope in zip(inputs, weighted, strict=True)
        ]
    )
    ordered = np.concatenate(
        [np.ravel(part) for part in jax.tree.leaves(tuple((w, b) for w, b in layered(total, (12, 9, 4, 2))))]
    )
    allowed = 128**2 * 2.0**-24 * network.NOISE_DEVIATION + math.sqrt(len(total))
    assert 0 < np.linalg.norm(ordered - exact_sum) <= allowed
