"""Which columns depend on each other within a pattern: chosen by the extended BIC, from a covariance and a count alone.

EBIC = −2 ln L + edges × (ln N + 4γ ln M) (Foygel and Drton 2010); with γ = ½ it finds the right graph as N grows even if M grows
with it. The supports along the graphical lasso's path are where the choice begins, not where it ends: the penalty that lets a
weak dependency in also lets in false ones that follow strong ones around. So single dependencies are then taken away and
added as long as EBIC falls.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Booleans, Floats
from sudare.dictionary.graphical_lasso import graphical_lasso

SUPPORT_WEIGHT: Final = 0.5
_PATH: Final = np.geomspace(1.0, 0.01, 30)
# In units of √(ln M/N), the size of the largest correlations that noise makes.
_SHORT_PATH: Final = (2.0, 1.4, 1.0, 0.7)
_MOST_CHANGES: Final = 200
# Estimates of what a change is worth are rough: so many of the best are tried one by one.
_CHANGES_TRIED: Final = 4
# Changes made one by one end lower; where more than these promise something that would take too long.
_CHANGES_ONE_BY_ONE: Final = 32
_LEAST_FALL: Final = 1e-6
_ZERO: Final = 1e-9


@dataclass(frozen=True, eq=False)
class SupportFit:
    """The most likely precision with zeros outside a support, for unit variances; `deviance` is −2 ln L up to a constant."""

    support: Booleans
    precision: Floats
    deviance: float

    @property
    def edges(self) -> int:
        """How many pairs depend on each other."""
        return (int(np.count_nonzero(self.support)) - len(self.support)) // 2

    def criterion(self, edge_price: float) -> float:
        """−2 ln L and what the edges cost."""
        return self.deviance + self.edges * edge_price


def edge_price(records: float, columns: int, weight: float = SUPPORT_WEIGHT) -> float:
    """ln N + 4γ ln M: by how much −2 ln L must fall for a dependency to stay."""
    return math.log(records) + 4 * weight * math.log(columns)


def support_by_ebic(covariance: Floats, count: float) -> Booleans:
    """The support of lowest EBIC that single additions and removals lead to, from the best along the graphical lasso's path.

    On the path the ordinary BIC decides: what it lets in too much is taken away again, and what it lacks is harder to see.
    """
    correlation, columns = _correlation(covariance), len(covariance)
    largest = float(np.abs(correlation - np.eye(columns)).max(initial=0.0))
    tried = [fitted_on(correlation, support, count) for support in _path(correlation, count, _PATH * largest)]
    generous = edge_price(count, columns, weight=0.0)
    best = min(tried, key=lambda fit: fit.criterion(generous))
    price = edge_price(count, columns)
    for _ in range(_MOST_CHANGES):
        better = _changed(correlation, best, count, price)
        if better is None:
            break
        best = better
    return best.support


def description_length(covariance: Floats, precision: Floats, count: float, rows: float) -> float:
    """What BIC pays for a pattern's dependencies: the price of the edges of a sparse precision, and the likelihood it costs.

    `precision` is the dense one whose likelihood is known. With responsibilities held fixed the likelihood of records falls at
    most by that of their pattern (the inequality behind EM), so that no further sum is needed. A few penalties are enough here.
    """
    roots = np.sqrt(np.diag(covariance))
    correlation, columns = _correlation(covariance), len(covariance)
    price = edge_price(rows, columns)
    dense = SupportFit(precision != 0, precision, _deviance(correlation, precision * np.outer(roots, roots), count))
    penalties = np.minimum(np.array(_SHORT_PATH) * math.sqrt(math.log(columns) / count), 1.0)
    tried = [fitted_on(correlation, support, count) for support in _path(correlation, count, penalties)]
    return min(fit.criterion(price) for fit in [dense, *tried]) - dense.deviance


def fitted_on(correlation: Floats, support: Booleans, count: float) -> SupportFit:
    """The fit on a support without a penalty, but for a little on the diagonal that keeps a clique of more columns than records finite."""
    penalty = np.where(support, 0.0, np.inf)
    np.fill_diagonal(penalty, 1e-3 / (count + 1))
    precision = graphical_lasso(correlation, penalty, 1e-7, penalize_diagonal=True).precision
    return SupportFit(support, precision, _deviance(correlation, precision, count))


def _path(correlation: Floats, count: float, penalties: Iterable[float]) -> Iterator[Booleans]:
    """No dependencies at all, then the graphical lasso's supports for falling penalties, each once, with fewer edges than records bear."""
    columns = len(correlation)
    empty = np.eye(columns, dtype=np.bool_)
    yield empty
    seen = {empty.tobytes()}
    start: Floats | None = None
    for penalty in penalties:
        if penalty <= 0:
            return
        start = graphical_lasso(correlation, penalty, 1e-6, start).precision
        support = np.abs(start) > _ZERO
        edges = (np.count_nonzero(support) - columns) // 2
        if support.tobytes() not in seen and edges + columns < count:
            seen.add(support.tobytes())
            yield support


def _changed(correlation: Floats, fit: SupportFit, count: float, price: float) -> SupportFit | None:
    """A support with a lower criterion by the best single change; where many promise something, by half of them at once."""
    pairs, worth = _worth_of_changes(correlation, fit, count, price)
    ranked = np.argsort(-worth, kind="stable")
    together = int(np.count_nonzero(worth > 0)) // 2
    while together > _CHANGES_ONE_BY_ONE // 2:
        tried = _with_changes(correlation, fit, count, pairs[:, ranked[:together]])
        if tried.criterion(price) < fit.criterion(price) - _LEAST_FALL:
            return tried
        together //= 2
    for change in ranked[:_CHANGES_TRIED]:
        if worth[change] > -price:
            tried = _with_changes(correlation, fit, count, pairs[:, [change]])
            if tried.criterion(price) < fit.criterion(price) - _LEAST_FALL:
                return tried
    return None


def _worth_of_changes(
    correlation: Floats, fit: SupportFit, count: float, price: float
) -> tuple[NDArray[np.intp], Floats]:
    """By how much the criterion falls, roughly, if a pair is taken away (from its partial correlation) or added (by its score)."""
    covariance = np.linalg.inv(fit.precision)
    diagonal, variances = np.diag(fit.precision), np.diag(covariance)
    partial = np.minimum(fit.precision**2 / np.outer(diagonal, diagonal), 1 - _ZERO)
    lost = -count * np.log1p(-partial)
    gained = count * (covariance - correlation) ** 2 / (np.outer(variances, variances) + covariance**2)
    upper = np.triu_indices(len(correlation), 1)
    return np.array(upper), np.where(fit.support, price - lost, gained - price)[upper]


def _with_changes(correlation: Floats, fit: SupportFit, count: float, pairs: NDArray[np.intp]) -> SupportFit:
    support = fit.support.copy()
    first, second = pairs
    support[first, second] ^= True
    support[second, first] ^= True
    return fitted_on(correlation, support, count)


def _correlation(covariance: Floats) -> Floats:
    roots = np.sqrt(np.diag(covariance))
    return np.asarray(covariance / np.outer(roots, roots))


def _deviance(correlation: Floats, precision: Floats, count: float) -> float:
    return float(-count * (np.linalg.slogdet(precision)[1] - np.sum(precision * correlation)))
