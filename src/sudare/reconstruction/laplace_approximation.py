"""The most likely parameters of a model with a normal prior, and how much the data speak for the model.

Parameters z have the prior N(0, I). A model turns them into probabilities of states; the channel turns those into probabilities
of the bins in which the perturbed values were counted. The mode is found by damped Fisher scoring. The log-evidence is
Laplace's approximation at the mode; it is the sum of the log-probabilities with which the model would have predicted each record
from those before it, so models are compared on records they had not seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular
from scipy.special import softmax

from sudare.array_types import Floats
from sudare.reconstruction.binning import Counts, States

_MOST_STEPS: Final = 60
_GAIN_AT_REST: Final = 1e-2
_LONGEST_STEP: Final = 2.0
_LEAST_PROBABILITY: Final = 1e-300
_LEAST_DAMPING, _FIRST_DAMPING, _MOST_DAMPING = 1e-9, 1e-3, 1e6


class StateModel(Protocol):
    """A distribution over states that depends on parameters with the prior N(0, I)."""

    @property
    def size(self) -> int:
        """How many parameters there are."""

    def probabilities(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Probabilities of the states, and their derivatives: one column a parameter."""


ModelT = TypeVar("ModelT", bound=StateModel)


@dataclass(frozen=True, eq=False)
class PosteriorMode(Generic[ModelT]):
    """A mode: its parameters, the states' probabilities, and the precision (negative Hessian) of the log-posterior there."""

    model: ModelT
    states: States
    parameters: Floats
    probabilities: Floats
    precision: Floats
    log_posterior: float
    log_evidence: float

    @property
    def log_likelihood(self) -> float:
        """The log-posterior without the prior."""
        return self.log_posterior + float(self.parameters @ self.parameters) / 2

    def spread(self) -> Floats:
        """A matrix S with S·Sᵀ the covariance of the probabilities, by linearisation at the mode."""
        _, slopes = self.model.probabilities(self.parameters)
        root, _ = cho_factor(self.precision, lower=True)
        return np.asarray(solve_triangular(root, slopes.T, lower=True).T)


@dataclass(frozen=True)
class _Point:
    """What is known of the log-posterior at some parameters."""

    parameters: Floats
    probabilities: Floats
    slopes: Floats
    expected: Floats
    height: float


def most_likely(model: ModelT, states: States, counts: Counts, start: Floats) -> PosteriorMode[ModelT]:
    """The mode that is reached from `start`."""
    point = _at(model, states, counts, start)
    gradient, precision = _curvature(point, states, counts)
    damping = _FIRST_DAMPING
    for _ in range(_MOST_STEPS):
        step = _step(gradient, precision, damping)
        following = _at(model, states, counts, point.parameters + step)
        while following.height < point.height and damping < _MOST_DAMPING:
            damping = max(damping, _FIRST_DAMPING) * 8
            step = _step(gradient, precision, damping)
            following = _at(model, states, counts, point.parameters + step)
        gain = following.height - point.height
        if gain < 0:
            break
        point = following
        gradient, precision = _curvature(point, states, counts)
        damping = max(damping / 6, _LEAST_DAMPING)
        if gain < _GAIN_AT_REST:
            break
    root, _ = cho_factor(precision, lower=True)
    evidence = point.height - float(np.log(root.diagonal()).sum())
    return PosteriorMode(model, states, point.parameters, point.probabilities, precision, point.height, evidence)


def averaged(fits: Sequence[PosteriorMode[Any]], log_weights: Floats) -> Floats:
    """The mean of the fits' probabilities, weighted."""
    return np.asarray(softmax(log_weights) @ np.array([fit.probabilities for fit in fits]))


def _at(model: StateModel, states: States, counts: Counts, parameters: Floats) -> _Point:
    probabilities, slopes = model.probabilities(parameters)
    expected = np.maximum(states.channel @ probabilities, _LEAST_PROBABILITY)
    height = float(counts.counts @ np.log(expected)) - float(parameters @ parameters) / 2
    return _Point(parameters, probabilities, slopes, expected, height if math.isfinite(height) else -math.inf)


def _curvature(point: _Point, states: States, counts: Counts) -> tuple[Floats, Floats]:
    """Gradient of the log-posterior, and Fisher information plus prior precision."""
    slopes = states.channel @ point.slopes
    gradient = slopes.T @ (counts.counts / point.expected) - point.parameters
    weighted = slopes * np.sqrt(counts.records / point.expected)[:, np.newaxis]
    precision = weighted.T @ weighted
    precision.flat[:: len(gradient) + 1] += 1.0
    return gradient, precision


def _step(gradient: Floats, precision: Floats, damping: float) -> Floats:
    damped = precision.copy()
    damped.flat[:: len(gradient) + 1] *= 1 + damping
    try:
        step: Floats = cho_solve(cho_factor(damped, lower=True, overwrite_a=True), gradient)
    except LinAlgError:
        step = gradient / damped.diagonal()
    longest = float(np.abs(step).max())
    return step * min(1.0, _LONGEST_STEP / longest) if longest > 0 else step
