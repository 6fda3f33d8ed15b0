"""A mixture that a member fits to its own records alone. Nobody else sees it, so that it costs no ε.

p(x) = Σ_k π_k Σ_c ω_c f(x | μ_k, c·Σ_k) for Gaussian families: with `tails` a pattern has records at several scales (Tukey's
contaminated normal), which few records far out cannot widen. Covariances have a conjugate prior with a target, so that the objective
has a maximum, and rises in every iteration. Other families have the updates of the shared patterns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from sudare.array_types import Floats
from sudare.dictionary.exponential_families import Expected, Family, Patterns, symmetric
from sudare.dictionary.gaussian_families import DiagonalGaussian, SparseGaussian

# Variances of a heavy-tailed pattern in units of its narrowest one.
TAILS: Final[tuple[float, ...]] = (1.0, 4.0, 16.0)
NO_TAILS: Final[tuple[float, ...]] = (1.0,)
_STEPS: Final = 60
# Nats a record by which a step must raise the objective for another one to be worth it.
_TOLERANCE: Final = 3e-4
_LLOYD_STEPS: Final = 10
# Where clusters are begun records count as at most so many robust deviations from the median.
_FARTHEST: Final = 4.0
_MAD_TO_DEVIATION: Final = 1.4826
_SMALLEST_COUNT: Final = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class Mixture:
    """Patterns with weights that add up to one; the first `shared` of them are not one's own."""

    patterns: Patterns
    weights: Floats
    shared: int = 0

    def log_densities(self, family: Family, Z: Floats) -> Floats:
        """ln p of every record."""
        return np.asarray(logsumexp(family.log_joint(Z, self.weights, self.patterns), axis=1))


@dataclass(frozen=True, eq=False)
class CovariancePrior:
    """The target that covariances (or variances) are drawn to, and for how many records it counts."""

    target: Floats
    records: float


def robust_deviations(Z: Floats, least: float = 1e-3) -> Floats:
    """Returns for every column a deviation from the median absolute deviation, or where most records agree the standard deviation, or `least`."""
    by_median = _MAD_TO_DEVIATION * np.median(np.abs(Z - np.median(Z, axis=0)), axis=0)
    found = np.where(by_median > least, by_median, Z.std(axis=0))
    return np.asarray(np.maximum(found, least))


def fitted_mixture(
    family: Family,
    Z: Floats,
    count: int,
    prior: CovariancePrior,
    tails: tuple[float, ...] = NO_TAILS,
    beside: Mixture | None = None,
) -> Mixture:
    """Returns `count` patterns of the family fitted to records, beside patterns that stay as they are, which come first in the answer."""
    (found, _) = deque(iterations(family, Z, count, prior, tails, beside), maxlen=1).pop()
    return found


def iterations(
    family: Family,
    Z: Floats,
    count: int,
    prior: CovariancePrior,
    tails: tuple[float, ...] = NO_TAILS,
    beside: Mixture | None = None,
) -> Iterator[tuple[Mixture, float]]:
    """EM: mixtures, each with the objective it has, which rises from one to the next."""
    start = Z
    if beside is not None:
        # Patterns of one's own begin where the others explain least.
        explained = beside.log_densities(family, Z)
        start = Z[explained <= np.quantile(explained, min(0.25 * count, 0.9))]
    first = _hard_totals(family, start, clusters(start, count), tails)
    found = _maximised(family, first, prior, tails)
    share = len(start) / len(Z) if beside is not None else 1.0
    weights = share * _tied_weights(first.counts, tails) / len(start)
    if beside is not None:
        found, weights = beside.patterns.joined(found), np.append((1 - share) * beside.weights, weights)
    fixed = 0 if beside is None else len(beside.patterns)
    before = -np.inf
    for _ in range(_STEPS):
        totals = family.expected(Z, weights, found)
        own = found.kept(np.arange(fixed, len(found)))
        objective = totals.log_likelihood + _log_prior(family, own.kept(np.arange(0, len(own), len(tails))), prior)
        yield Mixture(found, weights, fixed), objective
        if objective - before < _TOLERANCE * len(Z):
            return
        before = objective
        moved = Expected(totals.counts[fixed:], totals.statistics[fixed:], 0.0)
        updated = _maximised(family, moved, prior, tails, own)
        found = updated if beside is None else beside.patterns.joined(updated)
        weights = np.append(totals.counts[:fixed], _tied_weights(moved.counts, tails)) / totals.counts.sum()


def clusters(Z: Floats, count: int) -> NDArray[np.intp]:
    """A label for each record: the widest cluster is cut in two across its main axis (Su and Dy 2007), then Lloyd's steps."""
    scaled = np.clip((Z - np.median(Z, axis=0)) / robust_deviations(Z), -_FARTHEST, _FARTHEST)
    labels = np.zeros(len(Z), dtype=np.intp)
    for new in range(1, count):
        parts = [scaled[labels == k] for k in range(new)]
        widths = [float(((part - part.mean(axis=0)) ** 2).sum()) for part in parts]
        if max(widths) == 0:
            break
        widest = int(np.argmax(widths))
        centred = parts[widest] - parts[widest].mean(axis=0)
        along = centred @ np.linalg.eigh(centred.T @ centred)[1][:, -1]
        if not 0 < np.count_nonzero(along > 0) < len(along):
            break  # equal records, whose mean is rounded to one side of them all
        labels[np.flatnonzero(labels == widest)[along > 0]] = new
    labels = np.unique(labels, return_inverse=True)[1]
    for _ in range(_LLOYD_STEPS):
        members = np.eye(labels.max() + 1)[labels]
        centres = members.T @ scaled / members.sum(axis=0)[:, np.newaxis]
        nearest = np.argmin((centres**2).sum(axis=1) - 2 * scaled @ centres.T, axis=1)
        nearest = np.unique(nearest, return_inverse=True)[1]
        if np.array_equal(nearest, labels):
            break
        labels = nearest
    return labels


def _hard_totals(family: Family, Z: Floats, labels: NDArray[np.intp], tails: tuple[float, ...]) -> Expected:
    """Totals of clusters; at first most records of each are at the narrowest scale."""
    shares = np.full(len(tails), 0.1)
    shares[0] = 1.1 - shares.sum() if len(tails) > 1 else 1.0
    members = np.eye(labels.max() + 1)[labels]
    spread = np.repeat(members, len(tails), axis=1) * np.tile(shares, members.shape[1])
    return Expected(spread.sum(axis=0), spread.T @ family.statistics(Z), 0.0)


def _tied_weights(counts: Floats, tails: tuple[float, ...]) -> Floats:
    """Weights π_k ω_c in proportion to counts, adding up to their sum: scales have the same shares in all patterns."""
    table = counts.reshape(-1, len(tails))
    total = table.sum()
    if total <= 0:
        return counts
    return np.asarray(np.outer(table.sum(axis=1), table.sum(axis=0)) / total).ravel()


def _maximised(
    family: Family, totals: Expected, prior: CovariancePrior, tails: tuple[float, ...], before: Patterns | None = None
) -> Patterns:
    """The patterns of highest objective for these totals, each at all scales."""
    if not isinstance(family, SparseGaussian | DiagonalGaussian):
        return family.updated(totals.counts, totals.statistics, before)
    scales = np.array(tails)
    counts = totals.counts.reshape(-1, len(scales))
    size = prior.target.shape[-1]
    statistics = totals.statistics.reshape(*counts.shape, -1) / scales[:, np.newaxis]
    summed = statistics.sum(axis=1)
    weights = np.maximum((counts / scales).sum(axis=1), _SMALLEST_COUNT)[:, np.newaxis]
    means = summed[:, :size] / weights
    divisor = counts.sum(axis=1)[:, np.newaxis] + prior.records
    if isinstance(family, SparseGaussian):
        centred = (
            symmetric(summed[:, size:], size)
            - weights[..., np.newaxis] * means[:, :, np.newaxis] * means[:, np.newaxis]
        )
        precisions = np.linalg.inv((centred + prior.records * prior.target) / divisor[..., np.newaxis])
        precisions = (precisions + precisions.transpose(0, 2, 1)) / 2
    else:
        precisions = divisor / (summed[:, size:] - weights * means**2 + prior.records * prior.target)
    at_scales = precisions[:, np.newaxis] / scales.reshape(-1, *[1] * (precisions.ndim - 1))
    return Patterns(
        {"means": np.repeat(means, len(scales), axis=0), "precisions": at_scales.reshape(-1, *precisions.shape[1:])}
    )


def _log_prior(family: Family, patterns: Patterns, prior: CovariancePrior) -> float:
    """Of the covariances at the narrowest scale: (n₀/2)(ln det Λ − tr ΨΛ), summed; of other families their own."""
    if not isinstance(family, SparseGaussian | DiagonalGaussian):
        return family.log_prior(patterns)
    precisions = patterns["precisions"]
    if isinstance(family, SparseGaussian):
        log_dets = np.linalg.slogdet(precisions)[1].sum()
    else:
        log_dets = np.log(precisions).sum()
    return float(prior.records / 2 * (log_dets - np.sum(precisions * prior.target)))
