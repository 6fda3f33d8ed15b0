"""Audits of Gibbs posteriors: many draws of what production draws once from, and the posterior's law on a lattice.

Tables are in two dimensions, where the privacy profile can be computed by summing over a lattice (proofs/gibbs.md has the laws).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sudare.array_types import Floats
from sudare.audit.claimed_and_measured_epsilon import AuditedMechanism, NamedAudit
from sudare.audit.density_ratios import epsilon_of_cells
from sudare.audit.linear_audits import Table, flipped_pair, misclassified_pair
from sudare.frames.rows import Rows
from sudare.gibbs.default_penalties import public_penalty
from sudare.gibbs.exact_draws import exact_draws
from sudare.gibbs.gaussian_envelope import Envelope, envelope
from sudare.gibbs.mean import MeanDraws
from sudare.gibbs.mechanisms import LogisticDraws, RidgeDraws
from sudare.gibbs.posteriors import Posterior
from sudare.linear.losses import CappedSquares, Logistic
from sudare.linear.mechanism import Facts
from sudare.privacy.accounting import gaussian_mu_within
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SystemNoise

Drawing = LogisticDraws | RidgeDraws | MeanDraws

_DELTA: Final = 1e-6
_NODES: Final = 801
_DEVIATIONS: Final = 9.0
_MOST_PROPOSALS: Final = 10**8


def _audit(subject: str, samples: int, method: Callable[[float], Drawing], pair: tuple[Any, Any]) -> NamedAudit:
    """A Gibbs posterior, drawn from again and again for two data sets as the method takes them; its law is known on a lattice."""

    def at(epsilon: float) -> AuditedMechanism:
        drawing, source = method(epsilon), SystemNoise()

        def draws(data: Any, count: int) -> Floats:
            """Independent draws of the posterior that one release is a draw of."""
            posterior, bound = posterior_of(drawing, data)
            return exact_draws(posterior, bound, drawing.grid, count, source, _MOST_PROPOSALS).points

        claimed = Guarantee(drawing.epsilon, drawing.delta)
        mu = gaussian_mu_within(claimed.epsilon, claimed.delta)
        return AuditedMechanism(claimed, draws, pair, _lattice_epsilon(drawing, pair), mu)

    return NamedAudit(subject, samples, at)


def _lattice_epsilon(method: Drawing, pair: tuple[Any, Any]) -> float:
    """ε at the claimed δ, from both laws on one lattice."""
    posteriors = [posterior_of(method, data)[0] for data in pair]
    points = _lattice(posteriors)
    first, second = (_masses(posterior, points) for posterior in posteriors)
    return epsilon_of_cells(first, second, method.delta)


def posterior_of(method: Drawing, data: Any) -> tuple[Posterior, Envelope]:
    """The law that a method draws from, and its envelope."""
    if isinstance(method, LogisticDraws):
        posterior = method.posterior(data)
        return posterior, envelope(posterior)
    return method.posterior(data)


def _lattice(posteriors: list[Posterior]) -> Floats:
    """Points around both modes, nine of the prior's deviations to every side, or the ball where that is smaller."""
    one = posteriors[0]
    reach = _DEVIATIONS / math.sqrt(one.inverse_temperature * one.penalty)
    modes = np.array([posterior.mode for posterior in posteriors])
    axes = []
    for low, high in zip(modes.min(axis=0) - reach, modes.max(axis=0) + reach, strict=True):
        edge = math.inf if one.radius is None else one.radius
        axes.append(np.linspace(max(low, -edge), min(high, edge), _NODES))
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _masses(posterior: Posterior, points: Floats) -> Floats:
    """Probabilities of the lattice's cells. Rows that are alike are counted, so many cost no more than one."""
    targets = np.zeros(len(posterior.rows)) if posterior.offsets is None else posterior.offsets
    different, counts = np.unique(np.column_stack([posterior.rows, targets]), axis=0, return_counts=True)
    scores = different[:, :-1] @ posterior.mode - different[:, -1]
    offsets = points - posterior.mode
    rises = posterior.loss.rises(scores, offsets @ different[:, :-1].T) @ counts
    prior = posterior.penalty * (offsets @ posterior.mode + 0.5 * np.einsum("ij,ij->i", offsets, offsets))
    log_density = -posterior.inverse_temperature * (rises + prior)
    if posterior.radius is not None:
        log_density[np.einsum("ij,ij->i", points, points) > posterior.radius**2] = -np.inf
    weights = np.exp(log_density - log_density.max())
    return np.asarray(weights / weights.sum())


def _held(pair: tuple[Table, Table]) -> tuple[Rows, Rows]:
    first, second = (Rows.held(rows, targets[:, np.newaxis]) for rows, targets in pair)
    return first, second


# Rows that hold the parameters where both ways of the replaced row are misclassified.
_OTHERS: Final = 4_096
_FLIPPED: Final = _held(flipped_pair())
_MISCLASSIFIED: Final = _held(misclassified_pair(0.5, np.array([0.0, 1.0]), _OTHERS))
# A penalty so large that the ball hardly matters; and a small ball, so that a flipped target is nearly all that a row can do.
_STIFF_PENALTY, _SMALL_RADIUS = 2_000.0, 0.1


def _logistic(epsilon: float) -> LogisticDraws:
    facts = Facts(_OTHERS + 1, 2, 1.0, Logistic(), 0.0)
    return LogisticDraws(replace(facts, penalty=public_penalty(facts, epsilon, _DELTA)), epsilon, _DELTA)


AUDITS: Final[dict[str, NamedAudit]] = {
    "GibbsLogisticRegression": _audit(
        f"GibbsLogisticRegression, δ = {_DELTA:g}",
        10_000,
        _logistic,
        _MISCLASSIFIED,
    ),
    "GibbsRidge": _audit(
        f"GibbsRidge, δ = {_DELTA:g}",
        50_000,
        lambda epsilon: RidgeDraws(
            Facts(6, 2, 1.0, CappedSquares(1e6), _STIFF_PENALTY), _SMALL_RADIUS, epsilon, _DELTA
        ),
        _FLIPPED,
    ),
    "GibbsMean": _audit(
        f"GibbsMean of two columns, δ = {_DELTA:g}",
        50_000,
        lambda epsilon: MeanDraws(1_000, 2, math.sqrt(2) * (1 + 2.0**-50), 2.0, 1.0, epsilon, _DELTA),
        (np.array([-1.0, -1.0]), np.array([1.0, 1.0])),
    ),
}
