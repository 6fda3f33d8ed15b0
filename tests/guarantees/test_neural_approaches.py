"""LearningFirst and AnonymizedLearning on two tables of one row that pull every parameter to opposite ends.

The record's ε, d times the parameter's, is kept; the paper's claim that a record has the parameter's ε is refuted, and so are two fifths of the noise.
Right claims are refuted with probability at most 1e-6.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sudare.audit import distinguish
from sudare.neural.approaches import AnonymizedLearning, LearningFirst, parameters_in
from sudare.neural.intervals import Interval
from sudare.neural.ordinary import ordinarily_learned
from sudare.neural.routes import Facts, flattened
from sudare.neural.updates import Noise, noisy_update
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
    route = LearningFirst(FACTS, EPSILON, limit=0.25, epochs=200, batch_rows=1, rate=1.0)
    ends = {
        label: flattened(
            ordinarily_learned(ROW, LABELS[[label]], SIZES, "cross_entropy", route.course, SeededNoise(1), route.limit)
        )
        for label in (0, 1)
    }
    # Learned as far as the limit allows, one way and the other.
    np.testing.assert_allclose(np.abs(ends[0] - ends[1]), 2 * route.limit, rtol=0.05)
    source = SystemNoise()

    def draws(label, count):
        return np.clip(route.mechanism.draws(ends[label], count, source), -route.limit, route.limit)

    return route, draws


def test_learning_first_promises_a_record_d_times_epsilon(after_learning):
    route, draws = after_learning
    audit = distinguish(draws, (0, 1), route.epsilon, SAMPLES, batched=True, measured_share=0.7)
    assert route.epsilon == PARAMETERS * EPSILON
    assert audit.holds, str(audit)
    # The audit sees that much is really lost.
    assert audit.tightness > 0.5, str(audit)


def test_the_papers_epsilon_claimed_for_a_record_is_refuted(after_learning):
    _, draws = after_learning
    audit = distinguish(draws, (0, 1), EPSILON, SAMPLES, batched=True, measured_share=0.7)
    assert not audit.holds, str(audit)


def updates(route: AnonymizedLearning, noise_share: float):
    """Draws of the first update by label, all parameters at zero."""
    start = ((jnp.zeros((1, 2)), jnp.zeros(2)),)
    box = Interval(jnp.zeros(1), jnp.ones(1))
    noise = Noise(route.entry_threshold, noise_share * route.noise_factor)

    def one(label, key):
        return noisy_update(start, ROW, label[None], jnp.ones(1), key, box, noise, "cross_entropy", route.clipping)

    many = jax.jit(jax.vmap(one, in_axes=(None, 0)))

    def draws(label, count):
        keys = jax.random.split(jax.random.key(label), count)
        parts = jax.tree.leaves(many(jnp.asarray(LABELS[label]), keys))
        return np.concatenate([np.asarray(part).reshape(count, -1) for part in parts], axis=1).astype(np.float64)

    return draws


@pytest.mark.parametrize("clipping", ["example", "batch"])
def test_an_anonymized_update_promises_a_record_d_times_epsilon(clipping):
    route = AnonymizedLearning(FACTS, EPSILON, clipping=clipping, threshold=0.25)
    draws = updates(route, 1.0)
    audit = distinguish(draws, (0, 1), route.epsilon, SAMPLES, batched=True, measured_share=0.7)
    assert audit.holds, str(audit)
    assert audit.tightness > 0.5, str(audit)
    assert not distinguish(draws, (0, 1), EPSILON, SAMPLES, batched=True, measured_share=0.7).holds


@pytest.mark.parametrize("clipping", ["example", "batch"])
def test_two_fifths_of_the_noise_are_found(clipping):
    route = AnonymizedLearning(FACTS, EPSILON, clipping=clipping, threshold=0.25)
    audit = distinguish(updates(route, 0.4), (0, 1), route.epsilon, SAMPLES, batched=True, measured_share=0.7)
    assert not audit.holds, str(audit)
