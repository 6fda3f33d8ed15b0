"""Descent on targets about their released mean, in units of their released spread. Proof: proofs/descent.md.

Declared bounds of a target are often much wider than it is; noise on gradients is in units of these bounds. A little of ε tells where targets lie, and the rest is spent in units of that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.frames.rows import Rows
from sudare.linear.descent import GradientDescent
from sudare.linear.losses import CappedSquares
from sudare.linear.mechanism import Facts, LinearMechanism
from sudare.linear.rows import RowLayout
from sudare.linear.score_calibration import CalibrationLine, with_line
from sudare.linear.target_moments import Located, TargetMoments
from sudare.privacy.accounting import (
    Cost,
    approximate_cost,
    decimal_down,
    exact,
    mu_of_pure,
    rounded_up_root,
)
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release_content import on_grid

_SUM_BITS: Final = 51
_MOST_BITS: Final = 20


@dataclass(frozen=True)
class CentredRecipe:
    """Public constants, found on arrays of the panel's tuning half (`python -m benchmarks.panel.linear_choices centred`).

    The moments of the target get `level_share` of ε at most, and no more than gives n·ε of `enough`; targets are clipped at `widths` standard deviations from their mean.
    """

    level_share: float = 0.3
    enough: float = 40.0
    widths: float = 1.5


RECIPE: Final = CentredRecipe()


@dataclass(frozen=True)
class LocatedSquares(CappedSquares):
    """Capped squares of targets about a level, in units of a half-width, and clipped to [−1, 1]."""

    level: float = 0.0
    half_width: float = 1.0

    def _located(self, targets: Floats) -> Floats:
        return np.asarray(np.clip((targets - self.level) / self.half_width, -1.0, 1.0))

    def value(self, scores: Floats, targets: Floats) -> Floats:
        """The loss."""
        return super().value(scores, self._located(targets))

    def slope(self, scores: Floats, targets: Floats) -> Floats:
        """The residual, capped."""
        return super().slope(scores, self._located(targets))

    def curvature(self, scores: Floats, targets: Floats) -> Floats:
        """One within the cap, else 0."""
        return super().curvature(scores, self._located(targets))


def budget_parts(epsilon: float, rows: float, recipe: CentredRecipe = RECIPE) -> tuple[float, float]:
    """ε of the moments of the target and of the descent, for so many rows (divided by those of a person)."""
    level = decimal_down(exact(epsilon) * exact(min(recipe.level_share, recipe.enough / (rows * epsilon))))
    return level, decimal_down(exact(epsilon) - exact(level))


@dataclass(frozen=True)
class CentredDescent(LinearMechanism):
    """(ε, δ)-DP least squares of targets in [−1, 1], replace-one rows: their moments, then descent on targets about them. Proof: proofs/descent.md.

    `descent` is planned for what of ε the moments leave. The layout has a place for a level.
    """

    descent: GradientDescent
    layout: RowLayout
    level_epsilon: float
    epsilon: float
    delta: float
    recipe: CentredRecipe = RECIPE

    def __post_init__(self) -> None:
        _ = self.cost, self.moments.noise

    @property
    def facts(self) -> Facts:  # type: ignore[override]
        """Those of the descent."""
        return self.descent.facts

    @cached_property
    def moments(self) -> TargetMoments:
        """The release that tells where targets lie."""
        bits = min(_MOST_BITS, (_SUM_BITS - self.facts.rows.bit_length()) // 2)
        return TargetMoments(self.facts.rows, self.facts.rows_per_unit, self.level_epsilon, bits)

    @cached_property
    def cost(self) -> Cost:
        """(ε, δ), with the μ of both parts where descent has one."""
        steps = self.descent.cost
        if steps.mu is None:
            return approximate_cost(self.epsilon, self.delta)
        squared = Fraction(mu_of_pure(exact(self.level_epsilon))) ** 2 + Fraction(steps.mu) ** 2
        # The δ of descent has the distance to ideal noise at its own ε: an ε₀-DP release before it adds nothing to it.
        return Cost(exact(self.epsilon), exact(self.delta), rounded_up_root(squared), steps.total_variation, apart=True)

    @property
    def noise_scale(self) -> float:
        """That of the descent, before the half-width."""
        return self.descent.noise_scale

    @property
    def grid(self) -> float:
        """That of the descent."""
        return self.descent.grid

    def fitted(self, rows: Rows, source: NoiseSource) -> Floats:
        """Parameters of targets in [−1, 1]."""
        found = self.moments.located(rows, source)
        parameters = found.half_width(self.recipe.widths) * self._about(found).fitted(rows, source)
        line = CalibrationLine(np.array([found.level]), np.ones(1))
        return on_grid(with_line(parameters, line, self.layout), self.grid)

    def _about(self, found: Located) -> GradientDescent:
        """The descent on targets about a released level: of another loss with the same bounds, so with the same noise."""
        cap = self.facts.loss.largest_slope
        loss = LocatedSquares(cap, found.level, found.half_width(self.recipe.widths))
        return replace(self.descent, facts=replace(self.facts, loss=loss))
