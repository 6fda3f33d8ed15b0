"""Weights for experts from their losses: final Gibbs weights (eq. 11) and their average over time (eqs. 15–16).

Numbers of equations are those of Minami, Arai, Sato and Nakagawa (2015). Losses come as blocks of rows × experts in the
order of the data; one block is held at a time, so memory does not grow with the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LOGISTIC_TEMPERATURE: Final = math.e
"""β_φ of condition (19) for φ(z) = log(1 + e^z) on |z| ≤ 1: φ'²/φ'' = e^z, so e is enough, and no less is."""

PATH_POINTS: Final = 200
_CACHED_NUMBERS: Final = 1 << 16
_MOST_ROWS: Final = 128
_NARROW: Final = 200
_EXPONENT_LIMIT: Final = 700.0
# e^-42 < 2^-60: all weights that are left out sum to less than the rounding error of those that are not.
_NEGLIGIBLE_EXPONENT: Final = 42.0


@dataclass(frozen=True)
class MirrorAverage:
    """Averaged weights, and the weights λ⁽ᵗ⁾ they are the average of, at some numbers of rows t."""

    weights: Floats
    path: Floats
    path_rows: NDArray[np.intp]


def logistic_losses(negative_margins: Floats) -> Floats:
    """log(1 + e^z) for z = −y·f(x), written over z: the loss of sudare.linear, at a tenth of the price."""
    if negative_margins.size and negative_margins.max() > _EXPONENT_LIMIT:
        return np.logaddexp(0.0, negative_margins, out=negative_margins)
    np.exp(negative_margins, out=negative_margins)
    return np.log1p(negative_margins, out=negative_margins)


def squared_losses(residuals: Floats) -> Floats:
    """(f(x) − y)² for residuals, written over them."""
    return np.square(residuals, out=residuals)


def gibbs_weights(total_losses: Floats, temperature: float) -> Floats:
    """Weights proportional to e^(−loss/β), computed from differences to the least loss (eq. 11)."""
    weights = np.exp((total_losses.min() - total_losses) / temperature)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def exponential_weights(loss_blocks: Iterable[Floats], experts: int, temperature: float) -> Floats:
    """Gibbs weights of the total losses: the order of rows does not matter (eq. 11)."""
    totals = np.zeros(experts)
    for losses in loss_blocks:
        totals += losses.sum(axis=0)
        totals -= totals.min()
    return gibbs_weights(totals, temperature)


def mirror_average(
    loss_blocks: Iterable[Floats], experts: int, rows: int, temperature: float, path_points: int = PATH_POINTS
) -> MirrorAverage:
    """The average over t = 1 … n of the Gibbs weights of the first t rows' losses (eqs. 15 and 16).

    Losses must not be negative. Blocks are used as scratch space: they hold other numbers afterwards.
    """
    totals, summed = np.zeros(experts), np.zeros(experts)
    path_rows = np.unique(np.linspace(1, rows, min(rows, path_points)).round().astype(np.intp))
    path = np.zeros((len(path_rows), experts))
    margin = temperature * (math.log(experts) + _NEGLIGIBLE_EXPONENT)
    done = 0
    for losses in loss_blocks:
        for piece in _cached_pieces(losses):
            sums = piece.sum(axis=0)
            # Totals only grow: whoever is this far behind the best of the piece's end has no weight within the piece.
            runners = np.flatnonzero(totals <= (totals + sums).min() + margin)
            race = piece if len(runners) == experts else piece[:, runners]
            race = _accumulate(race, totals[runners])
            shares = _unnormalised_weights(race, temperature)
            summed[runners] += shares @ race
            shown = np.flatnonzero((path_rows > done) & (path_rows <= done + len(race)))
            at = path_rows[shown] - done - 1
            path[np.ix_(shown, runners)] = race[at] * shares[at, np.newaxis]
            totals += sums
            # Weights see differences only: the least total is taken off, so that long data lose no digits.
            totals -= totals.min()
            done += len(race)
    return MirrorAverage(summed / rows, path, path_rows)


def oracle_residual(temperature: float, experts: int, rows: int) -> float:
    """β log M / n: how far the averaged model's expected risk may be above that of the best expert (eq. 20)."""
    return temperature * math.log(experts) / rows


def cached_rows(experts: int) -> int:
    """How many rows of that many numbers stay in the processor's cache."""
    return min(_MOST_ROWS, max(1, _CACHED_NUMBERS // experts))


def _cached_pieces(losses: Floats) -> Iterable[Floats]:
    step = cached_rows(losses.shape[1])
    return (losses[start : start + step] for start in range(0, len(losses), step))


def _accumulate(losses: Floats, before: Floats) -> Floats:
    """Losses added up from row to row, written over the losses; both ways are several times as fast as cumsum here."""
    if losses.shape[1] < _NARROW:
        losses[0] += before
        return np.tri(len(losses)) @ losses
    for row in losses:
        before = np.add(row, before, out=row)
    return losses


def _unnormalised_weights(cumulative: Floats, temperature: float) -> Floats:
    """e^(−(loss − least loss)/β) of each row in place, and what each row is to be multiplied by to sum to one."""
    cumulative -= cumulative.min(axis=1, keepdims=True)
    cumulative /= -temperature
    # e^-600 is as good as nothing, and numbers too small for a float64 of full precision are slow to compute with.
    np.maximum(cumulative, -600.0, out=cumulative)
    np.exp(cumulative, out=cumulative)
    return np.asarray(1.0 / cumulative.sum(axis=1), dtype=np.float64)
