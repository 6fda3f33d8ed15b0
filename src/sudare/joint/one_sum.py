"""One secure sum: ε-DP gradient at zero of everybody's rows, replace-one rows. Proof: proofs/noise_shares.md.

Σ y·x with gamma-norm noise in shares. It has no solver, no slack and no second round; features should be publicly centred.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sudare.array_types import Floats
from sudare.joint.member_rows import ModelReading
from sudare.joint.scaler import Script
from sudare.joint.sum_requests import MeanSum
from sudare.joint.training_terms import LearningPlan
from sudare.linear.losses import Logistic
from sudare.linear.mechanism import public_grid
from sudare.privacy.release_content import on_grid


@dataclass(frozen=True, eq=False)
class Learned:
    """A linear model of everybody's rows, the same at every member.

    `reading` says what the parameters belong to; `noise_scale` is the deviation of a parameter's noise, `grid` where parameters lie.
    """

    reading: ModelReading
    parameters: Floats
    rows: int
    noise_scale: float
    grid: float

    @property
    def doubt(self) -> float:
        """κ for `OwnPlusConsensus`: (1 − ρ)/(ρ√p), ρ the part of the squared length of p parameters that is not noise (public).

        Were all that is missing spread evenly over p directions, each would have a pth of it; were it in one, all of it.
        """
        length = float(self.parameters @ self.parameters)
        noise = self.noise_scale**2 * len(self.parameters)
        return noise / max(length - noise, noise * 1e-9, math.ulp(0.0)) / math.sqrt(len(self.parameters))


def one_sum(reading: ModelReading, plan: LearningPlan) -> Script[Learned]:
    """One noisy sum, made parameters by a Newton step in which all directions are taken to be alike."""
    noise, step = plan.sums[0], reading.step
    most = plan.rows * reading.joint_norm / step
    total = yield MeanSum(reading.width, most, reading, noise, step)
    loss = Logistic()
    curvature = loss.largest_curvature * plan.rows * reading.joint_norm**2 / reading.width
    factor = 0.5 / curvature * step
    noise_scale = noise.total_deviation * factor
    grid = public_grid(noise_scale)
    return Learned(reading, on_grid(np.asarray(total * factor, dtype=np.float64), grid), plan.rows, noise_scale, grid)
