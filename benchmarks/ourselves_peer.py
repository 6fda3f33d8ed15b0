"""Our side again, without what a benchmark is about."""

from __future__ import annotations

from collections.abc import Callable

import jax

from benchmarks.network_workloads import image_inputs, ordinary_image_step, step_inputs
from benchmarks.workloads import sparse_correlations
from sudare.dictionary.graphical_lasso import graphical_lasso
from sudare.neural import per_row_clipping as network

Run = Callable[[], object]


def graphical_lasso_warm(variables: int, rows: int, penalty: float, tolerance_of_peer: float) -> Run:
    """The graphical lasso for weights that changed by 2%, without the solution before."""
    S = sparse_correlations(variables, rows, disturbance=0.02)
    return lambda: graphical_lasso(S, penalty)


def network_step(batch: int, inputs: int, width: int) -> Run:
    """The step of a network without clipping and noise."""
    given = step_inputs(batch, inputs, width)
    return lambda: jax.block_until_ready(
        network.plain_step(given.state, given.x, given.targets, given.kept, given.settings, "cross_entropy")
    )


def convolution_step(batch: int, side: int, channels: int, width: int) -> Run:
    """The step of a network with convolutions without clipping and noise."""
    step = ordinary_image_step(image_inputs(batch, side, channels, width))
    return lambda: jax.block_until_ready(step())


CASES = {
    "graphical_lasso_warm": graphical_lasso_warm,
    "network_step": network_step,
    "convolution_step": convolution_step,
}
