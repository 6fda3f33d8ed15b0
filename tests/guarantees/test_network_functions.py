"""Any JAX function is clipped row by row: a row moves the sum by the clip at most, and an audit of a step finds no more than is claimed, but finds broken twins."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.neural import per_row_clipping as network
from sudare.neural.function_facts import FunctionFacts, Target
from sudare.neural.parameter_trees import tree_of
from sudare.neural.row_gradients import RowGradients
from tests.guarantees.test_neural_gradient import one_step_audit
from tests.neural.images import convolutional, convolutional_start

ROWS = 8
START = convolutional_start(channels=(2, 3), classes=3)
TREE = tree_of(START, None)


def convolutional_blocks():
    facts = FunctionFacts.traced(
        convolutional, "cross_entropy", TREE, (8, 8), Target(3), rows=ROWS, neighbours="replace-one", declared=None
    )
    return facts.gradients.compiled()


BLOCKS = convolutional_blocks()


def whole_sum(blocks, kept, clip):
    with jax.enable_x64(True):
        total = network.accumulated(None, blocks, kept, network.StepSettings(1.0, 1.0, 0.0, clip, 1.0, 1.0))
    return np.concatenate([np.ravel(part) for part in total]).astype(np.float64) / network.NOISE_DEVIATION


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([0.01, 1.0, 30.0]), st.floats(0.01, 10), st.integers(0, ROWS - 1))
def test_one_row_moves_the_sum_of_a_network_with_convolutions_by_the_clip_at_most(seed, size, clip, place):
    random = np.random.default_rng(seed)
    params = [jnp.asarray(size * random.normal(size=leaf.shape), jnp.float32) for leaf in TREE.leaves]
    images, labels = random.uniform(0, 1, (ROWS + 1, 64)), random.integers(0, 3, (ROWS + 1, 1))

    def blocks(order):
        return BLOCKS(params, [], images[order].astype(np.float32), labels[order].astype(np.float32))

    order = np.arange(ROWS)
    kept = np.ones(ROWS, dtype=np.float32)
    with_row = whole_sum(blocks(order), kept, clip)
    kept[place] = 0
    without = whole_sum(blocks(order), kept, clip)
    kept[place], order[place] = 1, ROWS
    replaced = whole_sum(blocks(order), kept, clip)
    assert np.linalg.norm(with_row - without) <= 1
    assert np.linalg.norm(with_row - replaced) <= 2


# An audit of one step, and of twins that are broken


def loss(trained, frozen, row, target):
    return -jnp.sum(target * jax.nn.log_softmax(row @ trained[0] + trained[1]))


def clipped_by_blocks(change=lambda blocks: blocks):
    """The sum of a step whose norms are of `change` of the blocks."""

    def clipped_sum(parameters, x, targets, kept, clip):
        leaves = jax.tree.leaves(parameters)
        blocks = RowGradients.traced(loss, leaves, [], x[0], targets[0]).compiled()(leaves, [], x, targets)
        step_settings = network.StepSettings(1.0, 1.0, 0.0, clip, 1.0, 1.0)
        with jax.enable_x64(True):
            factors = network.row_factors(change(blocks), kept, step_settings)
            total = [block.whole_sum(factors[None]) for block in jax.tree.map(lambda values: values[None], blocks)]
        return tuple(np.asarray(part) * (clip / network.NOISE_DEVIATION) for part in total)

    return clipped_sum


def without_an_array(blocks):
    """A broken twin: the norm leaves the weights out, and counts biases alone."""
    return blocks[1:]


def gradient_of_the_batch(parameters, x, targets, kept, clip):
    """A broken twin: the function is given the batch, and the gradient of its sum is clipped as if it were a row's."""
    leaves = jax.tree.leaves(parameters)
    total = jax.grad(lambda held: jnp.sum(jax.vmap(loss, (None, None, 0, 0))(held, [], x, targets) * kept))(leaves)
    norm = jnp.sqrt(sum(jnp.sum(part**2) for part in total))
    return tuple(part * jnp.minimum(1.0, clip / norm) for part in total)


def test_a_step_of_any_function_shows_a_row_no_better_than_claimed():
    audit, claimed = one_step_audit(clipped_by_blocks())
    assert 0.5 * claimed.epsilon < audit.epsilon_lower_bound <= claimed.epsilon


@pytest.mark.parametrize("broken", [clipped_by_blocks(without_an_array), gradient_of_the_batch])
def test_broken_steps_of_functions_are_caught(broken):
    audit, claimed = one_step_audit(broken)
    assert audit.epsilon_lower_bound > claimed.epsilon
