"""Audits of noise on vectors, and of means, histograms and scalers fitted again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from sklearn.base import clone

from sudare.array_types import Floats
from sudare.audit.claimed_and_measured_epsilon import AuditedMechanism, NamedAudit
from sudare.audit.density_ratios import exact_epsilon
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.mechanisms import GammaNorm, Gaussian, InfinityNorm, Laplace
from sudare.privacy.noise import SystemNoise
from sudare.privacy.private_estimator import PrivateEstimator
from sudare.statistics import PrivateHistogram, PrivateMean, PrivateStandardScaler
from sudare.statistics.found_bounds import noise_on_counts

AUDITED_DELTA: Final = 1e-6

_BOUNDS: Final = (0.0, 1.0)
_ORIGIN: Final = np.zeros(2)
_L1_NEIGHBOUR: Final = np.array([0.6, 0.4])
_L2_NEIGHBOUR: Final = np.array([0.6, 0.8])
_INFINITY_NEIGHBOUR: Final = np.array([1.0, 1.0])


def audited_noise(
    mechanism: Laplace | Gaussian | GammaNorm | InfinityNorm, pair: tuple[Floats, Floats]
) -> AuditedMechanism:
    """Noise on a pair of vectors as far apart as its sensitivity allows."""
    source, cost = SystemNoise(), mechanism.cost
    return AuditedMechanism(
        Guarantee(float(cost.epsilon), float(cost.delta)),
        lambda values, count: mechanism.draws(values, count, source),
        pair,
        exact_epsilon(mechanism, pair),
        cost.mu,
    )


def audited_estimator(
    estimator: PrivateEstimator, outputs: Sequence[str], sums: Callable[[Floats], Floats]
) -> AuditedMechanism:
    """An estimator fitted again and again to two neighbouring tables; `outputs` are the attributes looked at.

    `sums` says what the estimator adds up, so that the planned noise on it can be audited by its density too.
    """
    model = clone(estimator).fit(_TABLES[0])
    planned = model.plan(len(_TABLES[0]), model.declared_).mechanism

    def fitted(table: Floats) -> Floats:
        model = clone(estimator).fit(table)
        return np.concatenate([_flat(getattr(model, name)) for name in outputs])

    return AuditedMechanism(
        Guarantee(epsilon=estimator.epsilon, delta=estimator.delta),
        fitted,
        _TABLES,
        exact_epsilon(planned, (sums(_TABLES[0]), sums(_TABLES[1]))),
        batched=False,
    )


def _flat(learned: Any) -> Floats:
    if isinstance(learned, dict):
        return np.concatenate([_flat(part) for part in learned.values()])
    return np.asarray(learned, dtype=np.float64).ravel()


def _neighbouring_tables(rows: int = 8) -> tuple[Floats, Floats]:
    """Two tables of two columns in [0, 1] that differ in their last row, as much as the bounds allow."""
    first, second = np.tile([0.25, 0.75], (rows, 1)), np.tile([0.25, 0.75], (rows, 1))
    first[-1], second[-1] = 0.0, 1.0
    return first, second


_TABLES: Final = _neighbouring_tables()


def _counts(table: Floats) -> Floats:
    return np.concatenate([np.histogram(column, bins=2, range=_BOUNDS)[0] for column in table.T]).astype(float)


def _scaled_sums(table: Floats) -> Floats:
    z = 2 * table - 1
    return np.asarray(np.hstack([z, z * z]).sum(axis=0), dtype=np.float64)


AUDITS: Final[dict[str, NamedAudit]] = {
    "laplace": NamedAudit(
        "Laplace noise on one number",
        100_000,
        lambda epsilon: audited_noise(Laplace(1.0, epsilon), (np.zeros(1), np.ones(1))),
    ),
    "laplace-vector": NamedAudit(
        "Laplace noise on a vector",
        100_000,
        lambda epsilon: audited_noise(Laplace(1.0, epsilon, 2), (_ORIGIN, _L1_NEIGHBOUR)),
    ),
    "gaussian": NamedAudit(
        f"Gaussian noise on a vector, δ = {AUDITED_DELTA:g}",
        100_000,
        lambda epsilon: audited_noise(Gaussian(1.0, epsilon, AUDITED_DELTA, 2), (_ORIGIN, _L2_NEIGHBOUR)),
    ),
    "gamma-norm": NamedAudit(
        "Euclidean gamma-norm noise on a vector",
        100_000,
        lambda epsilon: audited_noise(GammaNorm(1.0, epsilon, 2), (_ORIGIN, _L2_NEIGHBOUR)),
    ),
    "infinity-norm": NamedAudit(
        "Infinity-norm noise on a vector",
        30_000,
        lambda epsilon: audited_noise(InfinityNorm(1.0, epsilon, 2), (_ORIGIN, _INFINITY_NEIGHBOUR)),
    ),
    "PrivateMean": NamedAudit(
        "PrivateMean of two columns",
        2_000,
        lambda epsilon: audited_estimator(
            PrivateMean(epsilon=epsilon, bounds=_BOUNDS), ["mean_"], lambda table: np.asarray(table.sum(axis=0))
        ),
    ),
    "PrivateHistogram": NamedAudit(
        "PrivateHistogram of two columns, two bins each",
        2_000,
        lambda epsilon: audited_estimator(
            PrivateHistogram(epsilon=epsilon, bounds=_BOUNDS, bins=2), ["counts_"], _counts
        ),
    ),
    "schema-draft": NamedAudit(
        "Counts from which a draft finds bounds",
        100_000,
        lambda epsilon: audited_noise(noise_on_counts(epsilon, 2, 1), (np.array([1.0, 0.0]), np.array([0.0, 1.0]))),
    ),
    "PrivateStandardScaler": NamedAudit(
        "PrivateStandardScaler of two columns",
        2_000,
        lambda epsilon: audited_estimator(
            PrivateStandardScaler(epsilon=epsilon, bounds=_BOUNDS), ["mean_", "scale_"], _scaled_sums
        ),
    ),
}
