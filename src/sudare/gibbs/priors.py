"""Priors of Gibbs posteriors: a log density up to a constant, its gradient, and how much −log π bends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.parameter_checks import Numbers

_CURVATURES = Numbers(0, 2.0**100)
_OPTIONAL_CURVATURES = Numbers(0, 2.0**100, optional=True)


class Prior(Protocol):
    """A log-concave prior that was fixed before the records were seen."""

    @property
    def strong_convexity(self) -> float:
        """m: −log π bends at least so much in every direction."""

    @property
    def smoothness(self) -> float | None:
        """−log π bends at most so much; None where nobody knows."""

    def log_density(self, theta: Floats) -> float:
        """log π(θ), up to a constant."""

    def gradient(self, theta: Floats) -> Floats:
        """The gradient of log π."""


@dataclass(frozen=True)
class LogConcavePrior:
    """A prior of your own: functions of θ, and constants that must hold everywhere."""

    log_density: Callable[[Floats], Any]
    gradient: Callable[[Floats], Any]
    strong_convexity: float
    smoothness: float | None = None


@dataclass(frozen=True)
class NormalPrior:
    """N(mean, scale²·I)."""

    scale: float = 1.0
    mean: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        Numbers(2.0**-50, 2.0**50).check("scale", self.scale)

    @property
    def strong_convexity(self) -> float:
        """1/scale²."""
        return 1 / self.scale**2

    @property
    def smoothness(self) -> float:
        """1/scale²."""
        return 1 / self.scale**2

    def log_density(self, theta: Floats) -> float:
        """−‖θ − mean‖²/(2·scale²)."""
        offset = theta - np.asarray(self.mean)
        return -0.5 * float(offset @ offset) * self.strong_convexity

    def gradient(self, theta: Floats) -> Floats:
        """−(θ − mean)/scale²."""
        return np.asarray(-(theta - np.asarray(self.mean)) * self.strong_convexity)


@dataclass(frozen=True)
class QuadraticPrior:
    """exp(−(precision/2)‖θ‖²); a precision of 0 is the uniform measure."""

    precision: float

    @property
    def strong_convexity(self) -> float:
        """The precision."""
        return self.precision

    @property
    def smoothness(self) -> float:
        """The precision."""
        return self.precision

    def log_density(self, theta: Floats) -> float:
        """−(precision/2)‖θ‖²."""
        return -0.5 * self.precision * float(theta @ theta)

    def gradient(self, theta: Floats) -> Floats:
        """−precision·θ."""
        return -self.precision * theta


def check_prior(prior: Any) -> None:
    """Raise InvalidParameter unless this is None, or has a log density, its gradient and its constants."""
    if prior is None:
        return
    if not all(callable(getattr(prior, name, None)) for name in ("log_density", "gradient")):
        raise InvalidParameter(
            "prior must have a log_density and a gradient.", "Use NormalPrior or LogConcavePrior of sudare.gibbs."
        )
    strong, smooth = getattr(prior, "strong_convexity", None), getattr(prior, "smoothness", None)
    _CURVATURES.check("strong_convexity of the prior", strong)
    _OPTIONAL_CURVATURES.check("smoothness of the prior", smooth)
    if smooth is not None and smooth < strong:
        raise InvalidParameter(
            "No prior bends less than its strong convexity.", "Give a smoothness that is at least strong_convexity."
        )


def check_prior_at(prior: Prior, point: Floats) -> None:
    """Raise InvalidParameter unless log density and gradient give finite numbers of the right shapes at a public point."""
    try:
        log_density, slope = float(prior.log_density(point)), np.asarray(prior.gradient(point), dtype=np.float64)
    except Exception as error:
        raise InvalidParameter(
            f"The prior's log density or gradient raised {type(error).__name__} at zero.", "Check the prior."
        ) from error
    if slope.shape != point.shape or not (math.isfinite(log_density) and np.all(np.isfinite(slope))):
        raise InvalidParameter(
            f"The prior must give a finite log density and {len(point)} finite slopes at zero.", "Check the prior."
        )


def check_prior_of_candidates(prior: Prior, candidates: Floats) -> None:
    """Raise InvalidParameter unless the log density of every candidate is a number or −inf, and of some candidate a number."""
    try:
        log_densities = np.array([float(prior.log_density(point)) for point in candidates])
    except Exception as error:
        raise InvalidParameter(
            f"The prior's log density raised {type(error).__name__} at a candidate.", "Check the prior."
        ) from error
    if np.any(np.isnan(log_densities)) or not np.isfinite(np.max(log_densities)):
        raise InvalidParameter(
            "The prior's log density must be a finite number at some candidate, and a number or -inf at the others.",
            "Check the prior.",
        )
