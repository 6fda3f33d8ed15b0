"""Which variable is to blame: likelihood compensation (Idé et al. 2021, AAAI; named in section 1.5.4), for regressions and for a member's own mixture.

The compensation δ of a record is the correction that makes it likely again, at the least cost: argmin_δ a(x + δ) + (λ/2)‖δ‖² + ν‖δ‖₁, where a is −ln p. No privacy for a record: all of it
is about single records of one's own. The product's `MemberModel.attribution` is the other way that the chapter names, −ln p(x_i | all others).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from sudare.array_types import Floats
from sudare.dictionary import MemberModel
from sudare.dictionary.exponential_families import log_weights
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.member_tables import finite_matrix
from sudare.errors import DataError, InvalidParameter
from sudare.parameter_checks import Numbers
from sudare.privacy.array_checks import as_numbers

_PRIORS: Final = Numbers(0)
_SIGMAS: Final = Numbers(0, open_low=True)
_SHRINK: Final = 0.5
_SHORTEST_STEP: Final = 1e-12
_SLACK: Final = 1e-12
_DIFFERENCE: Final = 1e-4
_MODE_STEPS: Final = 100


def likelihood_compensation(
    predict: Callable[[Floats], Floats],
    X: ArrayLike,
    y: ArrayLike,
    sigma: float = 1.0,
    ridge: float = 0.01,
    lasso: float = 0.01,
    max_iter: int = 500,
    tol: float = 1e-6,
) -> Floats:
    """δ of the inputs for y = predict(x) + N(0, σ²), one correction for all given records together; the model may be any black box.

    a is the mean of (y − predict(x + δ))²/2σ². Its slope is taken by central differences; columns should be of order one.
    """
    inputs, outputs = as_numbers(X, "X"), as_numbers(y, "y")
    if inputs.ndim != 2 or outputs.shape != inputs.shape[:1]:
        raise DataError(
            "Inputs are records × variables and outputs one number a record.", "Give X and y of one length."
        )
    _SIGMAS.check("sigma", sigma)

    def missed(shift: Floats) -> float:
        found = as_numbers(predict(inputs + shift), "What predict returns")
        if found.shape != outputs.shape:
            raise DataError(
                f"predict returns an array of shape {found.shape} for {len(outputs)} records.",
                "Let it return one number a record.",
            )
        return float(np.square(outputs - found).mean())

    def losses(shifts: Floats) -> Floats:
        return np.array([missed(shift) for shift in shifts]) / (2 * sigma**2)

    def slopes(shifts: Floats) -> Floats:
        moves = np.eye(inputs.shape[1]) * _DIFFERENCE
        ends = losses(shifts + moves) - losses(shifts - moves)
        return np.asarray(ends[np.newaxis] / (2 * _DIFFERENCE))

    return np.asarray(_compensated(losses, slopes, (1, inputs.shape[1]), ridge, lasso, max_iter, tol)[0])


def mixture_compensation(
    model: MemberModel, X: object, ridge: float = 0.01, lasso: float = 0.1, max_iter: int = 500, tol: float = 1e-6
) -> Floats:
    """δ of every record under a member's own mixture of Gaussian patterns (1.88), records × variables; δ is in units of the patterns' deviations."""
    mixture, records = _Mixture.of(model), _matrix(model, X)
    found = _compensated(*mixture.around(records), records.shape, ridge, lasso, max_iter, tol)
    return np.asarray(mixture.scale * found)


@dataclass(frozen=True, eq=False)
class SingleCompensation:
    """For every record and variable: the correction of this variable alone that helps most, and the nats that it gains."""

    shifts: Floats
    gains: Floats


def single_variable_compensation(model: MemberModel, X: object) -> SingleCompensation:
    """The best correction of each variable by itself, the others as they are, under a member's mixture (1.88); no prior on δ.

    Along one variable the mixture is one of K normal laws in one dimension; from each of their means its peaks are climbed, and the highest is taken.
    """
    mixture, records = _Mixture.of(model), _matrix(model, X)
    precisions = mixture.precisions
    residuals = records[:, np.newaxis] - mixture.means
    pulled = np.einsum("kij,nkj->nki", precisions, residuals)
    diagonal = np.diagonal(precisions, axis1=1, axis2=2)
    # Records × patterns × variables: where x_i would be expected given the others, and ln π_k f_k there.
    centres = records[:, np.newaxis] - pulled / diagonal
    joint = mixture.log_joint(records)
    peaks = joint[:, :, np.newaxis] + 0.5 * pulled**2 / diagonal
    shifts, best = np.zeros_like(records), np.full(records.shape, -np.inf)
    for start in range(len(mixture.means)):
        place = centres[:, start]
        for _ in range(_MODE_STEPS):
            pull = _shares(peaks - 0.5 * diagonal * (place[:, np.newaxis] - centres) ** 2) * diagonal
            place = (pull * centres).sum(axis=1) / pull.sum(axis=1)
        reached = logsumexp(peaks - 0.5 * diagonal * (place[:, np.newaxis] - centres) ** 2, axis=1)
        shifts = np.where(reached > best, place - records, shifts)
        best = np.maximum(reached, best)
    return SingleCompensation(shifts, best - logsumexp(joint, axis=1)[:, np.newaxis])


@dataclass(frozen=True, eq=False)
class _Mixture:
    """A member's Gaussian patterns that have weight."""

    means: Floats
    precisions: Floats
    log_weights: Floats

    @classmethod
    def of(cls, model: MemberModel) -> _Mixture:
        if not isinstance(model.family, SparseGaussian):
            raise InvalidParameter(
                f"Compensation is for Gaussian patterns; these are {model.family.name}.",
                "Use family='sparse_gaussian', or MemberModel.attribution.",
            )
        used = model.weights > 0
        return cls(model.patterns["means"][used], model.patterns["precisions"][used], log_weights(model.weights[used]))

    @property
    def scale(self) -> Floats:
        """A deviation for each variable: the root of the mean of the patterns' variances."""
        variances = np.diagonal(np.linalg.inv(self.precisions), axis1=1, axis2=2)
        return np.asarray(np.sqrt(np.exp(self.log_weights) @ variances))

    def log_joint(self, records: Floats) -> Floats:
        """ln π_k f_k(x), up to a constant of all patterns."""
        residuals = records[:, np.newaxis] - self.means
        distances = np.einsum("nki,kij,nkj->nk", residuals, self.precisions, residuals)
        return np.asarray(self.log_weights + 0.5 * np.linalg.slogdet(self.precisions)[1] - 0.5 * distances)

    def around(self, records: Floats) -> tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]:
        """−ln p(x + scale·δ) of every record and its slope by δ."""

        def losses(shifts: Floats) -> Floats:
            return np.asarray(-logsumexp(self.log_joint(records + self.scale * shifts), axis=1))

        def slopes(shifts: Floats) -> Floats:
            places = records + self.scale * shifts
            shares = _shares(self.log_joint(places))
            pulls = np.einsum("kij,nkj->nki", self.precisions, places[:, np.newaxis] - self.means)
            return np.asarray(self.scale * np.einsum("nk,nki->ni", shares, pulls))

        return losses, slopes


def _compensated(
    losses: Callable[[Floats], Floats],
    slopes: Callable[[Floats], Floats],
    shape: tuple[int, ...],
    ridge: float,
    lasso: float,
    max_iter: int,
    tol: float,
) -> Floats:
    """argmin loss(δ) + (λ/2)‖δ‖² + ν‖δ‖₁ of every record from δ = 0, by proximal gradient steps that are shortened until the loss falls enough."""
    for name, value in (("ridge", ridge), ("lasso", lasso)):
        _PRIORS.check(name, value)

    def smooth(at: Floats) -> Floats:
        return np.asarray(losses(at) + 0.5 * ridge * np.square(at).sum(axis=1))

    shifts, steps = np.zeros(shape), np.ones((shape[0], 1))
    for _ in range(max_iter):
        here, downhill = smooth(shifts), slopes(shifts) + ridge * shifts
        while True:
            moved = shifts - steps * downhill
            moved = np.sign(moved) * np.maximum(np.abs(moved) - steps * lasso, 0.0)
            moves = moved - shifts
            promised = here + (downhill * moves).sum(axis=1) + np.square(moves).sum(axis=1) / (2 * steps[:, 0])
            too_far = (smooth(moved) > promised + _SLACK) & (steps[:, 0] > _SHORTEST_STEP)
            if not too_far.any():
                break
            steps[too_far] *= _SHRINK
        shifts = moved
        if float(np.abs(moves).max(initial=0.0)) <= tol:
            break
        steps /= _SHRINK
    return shifts


def _shares(log_joint: Floats) -> Floats:
    return np.asarray(np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True)))


def _matrix(model: MemberModel, X: object) -> Floats:
    return finite_matrix(X, model.columns, model.schema)
