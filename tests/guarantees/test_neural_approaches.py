"""LearningFirst and AnonymizedLearning on two tables of one row that pull every parameter to opposite ends.

The record's ε, d times the parameter's, is kept; the paper's claim that a record has the parameter's ε is refuted, and so are two fifths of the noise.
Right claims are refuted with probability at most 1e-6.
"""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sudare.audit import distinguish
from sudare.neural.training_method_base import Facts, flattened
from sudare.papers.p002_networks import anonymized_learning as updates
from sudare.papers.p002_networks import parameter_intervals as intervals
from sudare.papers.p002_networks.anonymized_learning import Quantisation, levels_of, noisy_update
from sudare.papers.p002_networks.approaches import AnonymizedLearning, LearningFirst, parameters_in
from sudare.papers.p002_networks.discrete_laplace import discrete_laplace
from sudare.papers.p002_networks.ordinary_training import trained_without_privacy
from sudare.papers.p002_networks.parameter_intervals import Interval
from sudare.privacy.noise import SeededNoise, SystemNoise
from sudare.schema import Number, Schema

SIZES = (1, 2)
PARAMETERS = parameters_in(SIZES)
EPSILON = 0.5
SAMPLES = 20_000
FACTS = Facts(1, SIZES, "cross_entropy", "replace-one", Schema({"x": Number(0, 1)}), "scaled", (0, 1))
LABELS = np.eye(2, dtype=np.float32)
ROW = np.ones((1, 1), dtype=np.float32)


@pytest.fixture(scope="module")
def after_learning():
    """Draws of LearningFirst by label: the same start, so that only the label differs."""
    method = LearningFirst(FACTS, EPSILON, limit=0.25, epochs=200, batch_size=1, learning_rate=1.0)
    ends = {
        label: flattened(
            trained_without_privacy(
                ROW, LABELS[[label]], SIZES, "cross_entropy", method.sgd, SeededNoise(1), method.limit
            )
        )
        for label in (0, 1)
    }
    # Learned as far as the limit allows, one way and the other.
    np.testing.assert_allclose(np.abs(ends[0] - ends[1]), 2 * method.limit, rtol=0.05)
    source = SystemNoise()

    def draws(label, count):
        return np.clip(method.mechanism.draws(ends[label], count, source), -method.limit, method.limit)

    return method, draws


def test_learning_first_promises_a_record_d_times_epsilon(after_learning):
    method, draws = after_learning
    audit = distinguish(draws, (0, 1), method.epsilon, SAMPLES, batched=True, measured_share=0.7)
    assert method.epsilon == PARAMETERS * EPSILON
    assert audit.holds, str(audit)
    # The audit sees that much is really lost.
    assert audit.tightness > 0.5, str(audit)


def test_the_papers_epsilon_claimed_for_a_record_is_refuted(after_learning):
    _, draws = after_learning
    audit = distinguish(draws, (0, 1), EPSILON, SAMPLES, batched=True, measured_share=0.7)
    assert not audit.holds, str(audit)


def drawn_updates(method: AnonymizedLearning, noise_share: Fraction):
    """Draws of the first update by label, all parameters at zero."""
    start = ((jnp.zeros((1, 2)), jnp.zeros(2)),)
    box = Interval(jnp.zeros(1), jnp.ones(1))
    levels = levels_of(1, method.noise_factor)

    def one(label, drawn):
        quantisation = Quantisation(method.entry_threshold, levels)
        return noisy_update(
            start, ROW, label[None], jnp.ones(1), drawn, box, quantisation, "cross_entropy", method.clipping
        )

    many = jax.jit(jax.vmap(one, in_axes=(None, 0)))

    def draws(label, count):
        noise = discrete_laplace(count * PARAMETERS, noise_share * levels * method.noise_factor, SystemNoise())
        parts = jax.tree.leaves(many(jnp.asarray(LABELS[label]), noise.reshape(count, PARAMETERS)))
        return np.concatenate([np.asarray(part).reshape(count, -1) for part in parts], axis=1).astype(np.float64)

    return draws


@pytest.mark.parametrize("clipping", ["example", "batch"])
def test_an_anonymized_update_promises_a_record_d_times_epsilon(clipping):
    method = AnonymizedLearning(FACTS, EPSILON, clipping=clipping, threshold=0.25)
    draws = drawn_updates(method, Fraction(1))
    audit = distinguish(draws, (0, 1), method.epsilon, SAMPLES, batched=True, measured_share=0.7)
    assert audit.holds, str(audit)
    assert audit.tightness > 0.5, str(audit)
    assert not distinguish(draws, (0, 1), EPSILON, SAMPLES, batched=True, measured_share=0.7).holds


@pytest.mark.parametrize("clipping", ["example", "batch"])
def test_two_fifths_of_the_noise_are_found(clipping):
    method = AnonymizedLearning(FACTS, EPSILON, clipping=clipping, threshold=0.25)
    audit = distinguish(
        drawn_updates(method, Fraction(2, 5)), (0, 1), method.epsilon, SAMPLES, batched=True, measured_share=0.7
    )
    assert not audit.holds, str(audit)


# A squared loss whose predictions, 8 to 18, are beyond every target: slopes without 0 are 7 to 19, within the threshold 7 to 7.04.
BEYOND = ((jnp.full((1, 1), 8.0), jnp.full(1, 8.0)),)
WIDE_BOX = Interval(jnp.zeros(1), jnp.full(1, 1.25))
NEAR = Quantisation(7.04, 2**16)
PAIR = tuple(jnp.asarray(rows, jnp.float32) for rows in ([[0.0], [0.0]], [[0.0], [1.25]]))


def beyond_all_targets():
    """Draws of the update after which predictions are beyond every target, by table; claimed: ε = 1 for two entries."""

    def one(table, drawn):
        return noisy_update(BEYOND, table, jnp.zeros((2, 1)), jnp.ones(2), drawn, WIDE_BOX, NEAR, "squared", "example")

    many = jax.jit(jax.vmap(one, in_axes=(None, 0)))

    def draws(table, count):
        noise = discrete_laplace(2 * count, Fraction(2 * NEAR.levels), SystemNoise()).reshape(count, 2)
        weights, bias = many(PAIR[table], noise)[0]
        return np.column_stack([np.asarray(weights).ravel(), np.asarray(bias).ravel()]).astype(np.float64)

    return draws


def without_zero(predicted, loss):
    """Slopes as they were bounded once: of whole rows only, not of shortened ones."""
    return Interval(predicted.low - 1, predicted.high + 1)


def without_clipping(values, per_unit, lowest, highest):
    """Levels that trust the interval."""
    return jnp.round(values * per_unit).astype(jnp.int32)


def trusted_ends(parameters, inputs, times, threshold, loss):
    """Intervals as they were: whole rows' slopes within the threshold."""
    ends = intervals.gradient_intervals(parameters, inputs, loss)
    return tuple(jax.tree.map(lambda end: jnp.clip(end, -threshold, threshold), part) for part in ends)


def test_slopes_beyond_all_targets_are_covered_by_the_noise():
    audit = distinguish(beyond_all_targets(), (0, 1), 1.0, SAMPLES, batched=True, measured_share=0.7)
    assert audit.holds, str(audit)
    # The weight moves by the whole of its interval and the bias by a fifth: that is 0.6 at most.
    assert audit.tightness > 0.3, str(audit)


def test_intervals_without_zero_are_found(monkeypatch):
    """The noise then covers 0.04 of an entry that shortening moves by 1.4."""
    monkeypatch.setattr(intervals, "residual_interval", without_zero)
    monkeypatch.setattr(updates, "update_intervals", trusted_ends)
    monkeypatch.setattr(updates, "nearest_level", without_clipping)
    audit = distinguish(beyond_all_targets(), (0, 1), 1.0, SAMPLES, batched=True, measured_share=0.7)
    assert audit.epsilon_lower_bound > 3, str(audit)


def test_rows_that_are_clipped_to_their_levels_need_no_trust_in_intervals(monkeypatch):
    """Wrong intervals cost accuracy, and nothing else."""
    monkeypatch.setattr(intervals, "residual_interval", without_zero)
    monkeypatch.setattr(updates, "update_intervals", trusted_ends)
    audit = distinguish(beyond_all_targets(), (0, 1), 1.0, SAMPLES, batched=True, measured_share=0.7)
    assert audit.holds, str(audit)
