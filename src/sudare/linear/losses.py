"""Convex losses of a linear score: value, slope and curvature, and the public bounds on them that privacy rests on.

Every function takes scores xᵀθ and targets of the same shape. Classification targets are −1 and +1; regression targets
are numbers. Slopes and curvatures are derivatives with respect to the score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from sudare.array_types import Floats
from sudare.errors import InvalidParameter


class Loss(ABC):
    """A convex function of a score, differentiable, with bounded slope and curvature. Losses with equal parameters are equal.

    `joint`: |slope| = g implies curvature ≤ g(1 − g). `one_sided`: the slope's sign depends on the target alone.
    """

    joint: ClassVar[bool] = False
    one_sided: ClassVar[bool] = True

    @property
    @abstractmethod
    def largest_slope(self) -> float:
        """A bound on |slope|, whatever the score and target."""

    @property
    @abstractmethod
    def largest_curvature(self) -> float:
        """A bound on the curvature, whatever the score and target."""

    @property
    @abstractmethod
    def value_at_zero(self) -> float:
        """A bound on the value at score zero."""

    @abstractmethod
    def value(self, scores: Floats, targets: Floats) -> Floats:
        """The loss."""

    @abstractmethod
    def slope(self, scores: Floats, targets: Floats) -> Floats:
        """Its first derivative."""

    @abstractmethod
    def curvature(self, scores: Floats, targets: Floats) -> Floats:
        """Its second derivative, where there is one."""

    def derivatives(self, scores: Floats, targets: Floats) -> tuple[Floats, Floats]:
        """Slope and curvature together, the same numbers as one by one."""
        return self.slope(scores, targets), self.curvature(scores, targets)


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + e^{−y·score}): slope −y·g and curvature g(1 − g) with g = 1/(1 + e^{y·score})."""

    largest_slope = 1.0
    largest_curvature = 0.25
    # log 2, rounded up.
    value_at_zero = 0.6931471805599454
    joint = True

    def value(self, scores: Floats, targets: Floats) -> Floats:
        """The loss, without overflow."""
        return np.asarray(np.logaddexp(0.0, -targets * scores), dtype=np.float64)

    def slope(self, scores: Floats, targets: Floats) -> Floats:
        """−y·g."""
        return np.asarray(-targets * expit(-targets * scores), dtype=np.float64)

    def curvature(self, scores: Floats, targets: Floats) -> Floats:
        """g(1 − g)."""
        wrong = expit(-targets * scores)
        return np.asarray(wrong * (1.0 - wrong), dtype=np.float64)

    def derivatives(self, scores: Floats, targets: Floats) -> tuple[Floats, Floats]:
        """Slope and curvature, from one g."""
        signs = -targets
        wrong: Floats = expit(signs * scores)
        return signs * wrong, wrong * (1.0 - wrong)


@dataclass(frozen=True)
class SmoothedHinge(Loss):
    """The hinge loss max(0, 1 − y·score), made a parabola within `width` of its corner (Chapelle 2007)."""

    width: float = 0.5

    largest_slope = 1.0

    def __post_init__(self) -> None:
        if not 1e-6 <= self.width <= 1e6:
            raise InvalidParameter(f"The smoothing width must be positive, got {self.width!r}.", "Use for example 0.5.")

    @property
    def largest_curvature(self) -> float:
        """1/(2·width), rounded up."""
        return float(np.nextafter(0.5 / self.width, np.inf))

    @property
    def value_at_zero(self) -> float:
        """At most 1 + width."""
        return 1.0 + self.width

    def value(self, scores: Floats, targets: Floats) -> Floats:
        """0 beyond 1 + width, a line before 1 − width, and a parabola that joins them."""
        excess = 1.0 + self.width - targets * scores
        bowl = np.clip(excess, 0.0, 2 * self.width)
        return np.asarray(bowl**2 / (4 * self.width) + np.maximum(excess - 2 * self.width, 0.0), dtype=np.float64)

    def slope(self, scores: Floats, targets: Floats) -> Floats:
        """−y times a ramp from 0 to 1."""
        ramp = np.clip((1.0 + self.width - targets * scores) / (2 * self.width), 0.0, 1.0)
        return np.asarray(-targets * ramp, dtype=np.float64)

    def curvature(self, scores: Floats, targets: Floats) -> Floats:
        """1/(2·width) within the parabola, else 0."""
        inside = np.abs(1.0 - targets * scores) < self.width
        return np.asarray(inside * (0.5 / self.width), dtype=np.float64)


@dataclass(frozen=True)
class CappedSquares(Loss):
    """½(score − target)² where the residual is at most `cap`, and a line beyond (Huber 1964).

    Targets lie in [−1, 1]; with a cap of 2 every score in that range has the plain squared loss.
    """

    cap: float = 1.0

    largest_curvature = 1.0
    # Targets lie in [−1, 1].
    value_at_zero = 0.5
    one_sided = False

    def __post_init__(self) -> None:
        if not 1e-6 <= self.cap <= 1e6:
            raise InvalidParameter(f"The residual cap must be positive, got {self.cap!r}.", "Use for example 1.0.")

    @property
    def largest_slope(self) -> float:
        """The cap."""
        return self.cap

    def value(self, scores: Floats, targets: Floats) -> Floats:
        """The loss."""
        size = np.abs(scores - targets)
        inside = np.minimum(size, self.cap)
        return np.asarray(inside * (size - 0.5 * inside), dtype=np.float64)

    def slope(self, scores: Floats, targets: Floats) -> Floats:
        """The residual, capped."""
        return np.asarray(np.clip(scores - targets, -self.cap, self.cap), dtype=np.float64)

    def curvature(self, scores: Floats, targets: Floats) -> Floats:
        """One within the cap, else 0."""
        return np.asarray(np.abs(scores - targets) < self.cap, dtype=np.float64)
