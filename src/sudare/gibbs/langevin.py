"""Unadjusted Langevin steps as a mechanism of their own. Proof: proofs/smooth_samplers.md.

x ← x − h∇U(x) + √(2h)·z from a start that no record changes. However many steps there are, the last point is as private as a draw of the law
∝ e^{−U} itself, so no distance between the two has to be paid for. The distance is a matter of accuracy only, and public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.gibbs.lazy_uniforms import normals
from sudare.gibbs.potentials import Curvature, Potential
from sudare.privacy.noise import NoiseSource

MOST_STEPS: Final = 200_000
# The step is so many times shorter than the largest for which steps contract.
_SHORTER: Final = 8.0
# Steps go on until what is left of the start's distance is e⁻¹⁰.
_DECAY: Final = 10.0
_NORMALS_AT_ONCE: Final = 100_000


@dataclass(frozen=True)
class LangevinPlan:
    """Step size and number of steps, from public numbers alone. Raise InvalidParameter where they cannot be planned."""

    curvature: Curvature

    def __post_init__(self) -> None:
        if self.curvature.smoothness is None or not self.curvature.convexity > 0:
            raise InvalidParameter(
                "Langevin steps need a declared smoothness and a strongly convex exponent.",
                "Give smoothness, and a prior or regularization.",
            )
        if not self.steps <= MOST_STEPS:
            raise InvalidParameter(
                f"Langevin steps would be {self.steps:,}, more than {MOST_STEPS:,}.", "Use a larger regularization."
            )

    @cached_property
    def step_size(self) -> float:
        """h = 1/(8M): h ≤ 2/(κ + M), so that a step without noise contracts by 1 − hκ."""
        return _step_size(self.curvature.convexity, self.curvature.smoothness or 0.0)

    @cached_property
    def steps(self) -> int:
        """10/(hκ)."""
        return steps_needed(self.curvature.convexity, self.curvature.smoothness or 0.0)

    def mu(self, slope: float) -> float:
        """μ of the last point where the gradients of neighbours' U differ by at most `slope`, rounded up; below slope/√κ.

        μ² = s²/2h·(1 + c)(1 − c^K)/((1 − c)(1 + c^K)) with s = h·slope and c = 1 − hκ.
        """
        loss = self.step_size * self.curvature.convexity
        left = math.exp(self.steps * math.log1p(-loss))
        square = slope**2 * self.step_size / 2 * (2 - loss) / loss * (1 - left) / (1 + left)
        return math.sqrt(square) * (1 + 1e-9)

    def wasserstein_distance(self, slope_at_zero: float) -> float:
        """A bound on the distance W₂ between last point and law, in the law's largest deviations 1/√κ; infinite on a ball, where no bound is known to us.

        √(c^K·W² + 2hMp) with c = 1 − hκ (Durmus, Majewski and Miasojedow 2019). W bounds the start's distance: ‖∇U(0)‖ ≤ `slope_at_zero`
        puts the mode within slope/√κ of zero, and the law is within √p of its mode. Nothing private rests on it.
        """
        known = self.curvature
        if known.radius is not None:
            return math.inf
        start = slope_at_zero / math.sqrt(known.convexity) + math.sqrt(known.dimension)
        left = math.exp(self.steps * math.log1p(-self.step_size * known.convexity))
        smoothness = max(known.smoothness or 0.0, known.convexity)
        return math.sqrt(left * start**2 + 2 * self.step_size * smoothness * known.dimension)


def steps_needed(convexity: float, smoothness: float) -> int:
    """10/(hκ) with h = 1/(8M), however many that are."""
    return math.ceil(_DECAY / (_step_size(convexity, smoothness) * convexity))


def _step_size(convexity: float, smoothness: float) -> float:
    return 1 / (_SHORTER * max(smoothness, convexity))


def langevin_draws(potential: Potential, plan: LangevinPlan, draws: int, source: NoiseSource) -> Floats:
    """The last points of independent chains from zero, projected on the ball after every step where there is one."""
    known = potential.curvature
    width, step = known.dimension, plan.step_size
    scale = math.sqrt(2 * step)
    points = []
    for _ in range(draws):
        point = np.zeros(width)
        left = plan.steps
        while left:
            count = min(left, max(1, _NORMALS_AT_ONCE // width))
            words = source.words(count * (width + width % 2)).reshape(count, -1)
            for normal in normals(words)[0][:, :width]:
                point = point - step * potential.gradient(point) + scale * normal
                if known.radius is not None and point @ point > known.radius**2:
                    point *= known.radius / math.sqrt(float(point @ point))
            left -= count
        points.append(point)
    return np.array(points)
