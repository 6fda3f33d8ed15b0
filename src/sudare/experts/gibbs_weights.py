"""Losses of experts, and weights from them: final Gibbs weights (eq. 11) and their average over time (eqs. 15–16).

Numbers of equations are those of Minami, Arai, Sato and Nakagawa (2015). The temperatures with which averages over time obey an oracle inequality
are proved in proofs/aggregation.md. Losses come as blocks of rows × experts in the
order of the data; one block is held at a time, so memory does not grow with the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats

LOGISTIC_TEMPERATURE: Final = math.e
"""β_φ of condition (19) for φ(z) = log(1 + e^z) on |z| ≤ 1: φ'²/φ'' = e^z, so e is enough, and no less is."""
BRIER_TEMPERATURE: Final = 4.0
"""β for the Brier score ‖p − e_y‖² of probabilities: twice its largest value."""
LARGEST_CLASS_SCORE: Final = 0.5
"""Where scores of three classes or more are cut off: two classes with scores ∓½ have the log-odds ±1 of condition (19)."""

PATH_POINTS: Final = 200
_CACHED_NUMBERS: Final = 1 << 16
_MOST_ROWS: Final = 128
_NARROW: Final = 200
_EXPONENT_LIMIT: Final = 700.0
# e^-42 < 2^-60: all weights that are left out sum to less than the rounding error of those that are not.
_NEGLIGIBLE_EXPONENT: Final = 42.0


@dataclass(frozen=True)
class MirrorAverage:
    """Averaged weights, and the weights λ⁽ᵗ⁾ they are the average of, at some numbers of rows t; the last is that of all rows."""

    weights: Floats
    path: Floats
    path_rows: NDArray[np.intp]

    def from_equal_weights(self) -> Floats:
        """The average over t = 0 … n − 1, which begins with equal weights: the one that the oracle inequality is proved for."""
        moved = self.weights + (1 / len(self.weights) - self.path[-1]) / self.path_rows[-1]
        return np.asarray(np.maximum(moved, 0.0), dtype=np.float64)


def logistic_losses(negative_margins: Floats) -> Floats:
    """log(1 + e^z) for z = −y·f(x), written over z: the loss of sudare.linear, at a tenth of the price."""
    if negative_margins.size and negative_margins.max() > _EXPONENT_LIMIT:
        return np.logaddexp(0.0, negative_margins, out=negative_margins)
    np.exp(negative_margins, out=negative_margins)
    return np.log1p(negative_margins, out=negative_margins)


def softmax_losses(scores: Floats, codes: NDArray[np.intp]) -> Floats:
    """log Σ_c e^(s_c) − s_y for scores (rows × experts × classes), which are overwritten, and the class y of each row."""
    scores -= scores.max(axis=2, keepdims=True)
    of_true = scores[np.arange(len(codes)), :, codes]
    return np.asarray(np.log(np.exp(scores, out=scores).sum(axis=2)) - of_true, dtype=np.float64)


def brier_losses(probabilities: Floats, codes: NDArray[np.intp]) -> Floats:
    """‖p − e_y‖² for probabilities (rows × experts × classes), which are overwritten, and the class y of each row."""
    probabilities[np.arange(len(codes)), :, codes] -= 1.0
    return np.asarray(np.einsum("rmc,rmc->rm", probabilities, probabilities), dtype=np.float64)


def softmax_temperature(classes: int) -> float:
    """β for the softmax loss of scores within ± the largest one: (k − 1)e^(2B); for two classes the paper's e."""
    return (classes - 1) * math.exp(2 * LARGEST_CLASS_SCORE)


def squared_temperature(low: float, high: float) -> float:
    """β for the squared loss of predictions and targets within bounds: twice the largest loss."""
    return 2 * (high - low) ** 2


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


def mirror_average(loss_blocks: Iterable[Floats], experts: int, rows: int, temperature: float) -> MirrorAverage:
    """The average over t = 1 … n of the Gibbs weights of the first t rows' losses (eqs. 15 and 16).

    Losses must not be negative. Blocks are used as scratch space: they hold other numbers afterwards.
    """
    totals, summed = np.zeros(experts), np.zeros(experts)
    path_rows = np.unique(np.linspace(1, rows, min(rows, PATH_POINTS)).round().astype(np.intp))
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


def gibbs_residual(temperature: float, experts: int, rows: int) -> float:
    """β log M / n + 1/(8β): how far an expert drawn with Gibbs weights of losses in [0, 1] may be above the best one, in expected risk."""
    return oracle_residual(temperature, experts, rows) + 1 / (8 * temperature)


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
