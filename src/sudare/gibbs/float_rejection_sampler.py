"""Draws by rejection from an isotropic Gaussian around the mode, in floats. Proof: proofs/gibbs.md, "Losses of a user"."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.errors import DataError, NotSolved
from sudare.gibbs.lazy_uniforms import log_uniforms, normals
from sudare.gibbs.potentials import LARGEST_GRADIENT_COST, Potential, RefusedProposals, isotropic_envelope
from sudare.privacy.noise import NoiseSource

MOST_PROPOSALS: Final = 100_000
_BLOCK: Final = 64
# Log acceptance above this, and above this share of the numbers that it is the difference of, shows that the loss is not what it was declared to be; below, it is rounding.
_ROUNDING: Final = 1e-6
_SHARE_ROUNDING: Final = 2.0**-40


def rejection_draws(
    potential: Potential, draws: int, source: NoiseSource, least_proposals: int = 0
) -> tuple[Floats, float]:
    """Draws, and the share of accepted proposals. At least so many proposals are made.

    Raise DataError where U is seen not to be as declared, and NotSolved where no smoothness was declared and that takes too long.
    """
    known, bound = potential.curvature, isotropic_envelope(potential)
    if known.smoothness is None and not bound.gradient_cost <= LARGEST_GRADIENT_COST:
        raise NotSolved("The mode of the posterior could not be found well enough.", "Check loss and gradient.")
    lowest = potential.value(bound.centre)
    deviation = 1 / math.sqrt(bound.precision)
    accepted: list[Floats] = []
    refused = RefusedProposals(potential, bound)
    made, width = 0, known.dimension + known.dimension % 2
    most = math.inf if known.smoothness is not None else MOST_PROPOSALS * draws
    while made < most and (len(accepted) < draws or made < least_proposals):
        size = _BLOCK if len(accepted) < draws else min(_BLOCK, least_proposals - made)
        words = source.words(size * (width + 1)).reshape(size, -1)
        noise = normals(words[:, 1:])[0][:, : known.dimension]
        for normal, limit in zip(noise, log_uniforms(words[:, 0])[0], strict=True):
            point = bound.centre + deviation * normal
            made += 1
            before = len(accepted)
            if known.radius is None or point @ point <= known.radius**2:
                rise = potential.value(point) - lowest
                log_ratio = -rise + 0.5 * float(normal @ normal) - bound.log_constant
                check_log_ratio(log_ratio, rise, abs(lowest))
                if limit < log_ratio:
                    accepted.append(point)
            if len(accepted) == before:
                refused.refused(point)
            else:
                refused.accepted()
            if len(accepted) >= draws and made >= least_proposals:
                break
    if len(accepted) < draws:
        raise NotSolved(f"The sampler accepted too few of {most} proposals.", "Use a larger regularization.")
    return np.array(accepted[:draws]), len(accepted) / made


def check_log_ratio(log_ratio: float, rise: float, size: float) -> None:
    """Raise DataError unless a law stays below its envelope, but for rounding; `size` is that of the numbers whose difference the rise is."""
    if not log_ratio <= _ROUNDING * (1 + abs(rise)) + _SHARE_ROUNDING * size:
        raise DataError(
            "The loss is not as convex as declared, or not a number.", "Check loss, gradient and convexity."
        )
