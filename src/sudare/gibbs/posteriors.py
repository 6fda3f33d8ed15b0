"""Gibbs posteriors of linear scores, as the samplers see them: rows, loss, penalty, a point near the mode, and a region.

The density is ∝ exp(−β(Σ loss(sᵢᵀθ − oᵢ) + (ρ/2)‖θ‖²)), on all of ℝᵖ or on a ball around zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from flint import arb

from sudare.array_types import Floats


class ScoreLoss(Protocol):
    """A convex loss of a score, in floats and in balls, with what its rounding depends on."""

    def rises(self, scores: Floats, changes: Floats) -> Floats:
        """loss(score + change) − loss(score)."""

    def largest_slope(self, reach: Floats) -> Floats:
        """A bound on |slope| at scores of that size."""

    def largest_value(self, reach: Floats) -> Floats:
        """A bound on the loss at scores of that size."""

    def ball_rise(self, score: arb, change: arb) -> arb:
        """loss(score + change) − loss(score) in ball arithmetic."""


@dataclass(frozen=True)
class LogisticLoss:
    """log(1 + e^{−score}); rows carry the sign of their label."""

    def rises(self, scores: Floats, changes: Floats) -> Floats:
        """Without overflow; absolute errors of a few units in the last place of 1 + |score|."""
        return np.asarray(softplus(-(scores + changes)) - softplus(-scores))

    def largest_slope(self, reach: Floats) -> Floats:
        """|slope| ≤ 1."""
        return np.ones_like(reach)

    def largest_value(self, reach: Floats) -> Floats:
        """log(1 + e^{−score}) ≤ 1 + |score|."""
        return 1 + reach

    def ball_rise(self, score: arb, change: arb) -> arb:
        """log(1 + e^{−score−change}) − log(1 + e^{−score})."""
        return (-(score + change)).exp().log1p() - (-score).exp().log1p()


@dataclass(frozen=True)
class SquaredLoss:
    """score²/2; the score is prediction less target."""

    def rises(self, scores: Floats, changes: Floats) -> Floats:
        """change·(score + change/2)."""
        return np.asarray(changes * (scores + 0.5 * changes))

    def largest_slope(self, reach: Floats) -> Floats:
        """|score|."""
        return reach

    def largest_value(self, reach: Floats) -> Floats:
        """Twice the square of the score, which also bounds the products in `rises`."""
        return 2 * reach * reach

    def ball_rise(self, score: arb, change: arb) -> arb:
        """change·(score + change/2)."""
        return change * (score + change / 2)


@dataclass(frozen=True)
class LinearLoss:
    """−score: what is left of ‖θ − x‖²/2 when the part that no record changes goes to the penalty."""

    def rises(self, scores: Floats, changes: Floats) -> Floats:
        """−change."""
        return -changes

    def largest_slope(self, reach: Floats) -> Floats:
        """|slope| ≤ 1."""
        return np.ones_like(reach)

    def largest_value(self, reach: Floats) -> Floats:
        """|score|."""
        return reach

    def ball_rise(self, score: arb, change: arb) -> arb:
        """−change."""
        return -change


LOGISTIC: Final = LogisticLoss()
LINEAR: Final = LinearLoss()
SQUARED: Final = SquaredLoss()


def softplus(numbers: Floats) -> Floats:
    """log(1 + eˣ)."""
    return np.asarray(np.maximum(numbers, 0.0) + np.log1p(np.exp(-np.abs(numbers))))


@dataclass(frozen=True, eq=False)
class Posterior:
    """∝ exp(−β(Σ loss(sᵢᵀθ − oᵢ) + (ρ/2)‖θ‖²)) on ‖θ‖ ≤ radius: rows of norm ≤ R, and a point to start from.

    All numbers are what they are as floats: they define the law. An envelope is built on the function with penalty ρ + ν, ν the `tilt`, which is 0 unless
    there is a ball; `gradient_bound` bounds the norm of that function's gradient (without β) at `mode`.
    """

    rows: Floats
    inverse_temperature: float
    penalty: float
    norm_bound: float
    mode: Floats
    gradient_bound: float
    loss: ScoreLoss = LOGISTIC
    offsets: Floats | None = None
    radius: float | None = None
    tilt: float = 0.0

    @property
    def width(self) -> int:
        """How many parameters."""
        return len(self.mode)

    @property
    def scores(self) -> Floats:
        """sᵢᵀθ₀ − oᵢ."""
        products: Floats = self.rows @ self.mode
        return products if self.offsets is None else products - self.offsets

    @property
    def largest_offset(self) -> float:
        """A bound on |oᵢ|."""
        return 0.0 if self.offsets is None else float(np.max(np.abs(self.offsets)))
