"""What the float side and the ball side of the rejection sampler share: the words of a proposal, and how a piece is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.gibbs.gaussian_envelope import Envelope
from sudare.gibbs.lazy_uniforms import uniforms
from sudare.gibbs.posteriors import Posterior
from sudare.privacy.noise import Words

Floats = NDArray[np.float64]

# The words of a proposal: piece, row, tail, side, acceptance; then two for every two coordinates.
PIECE, ROW, TAIL, SIDE, ACCEPTANCE, FIRST_NORMAL = range(6)
# Relative error of cumulated weights and of tails, beyond any rounding of the formulas that give them.
_WEIGHT_ERROR: Final = 1e-9


@dataclass(frozen=True, eq=False)
class Sampler:
    """A posterior, an envelope of it, and the grid of the draws."""

    posterior: Posterior
    envelope: Envelope
    grid: float

    @cached_property
    def scores(self) -> Floats:
        """Scores at the mode."""
        return self.posterior.scores

    @property
    def width(self) -> int:
        """How many parameters."""
        return self.posterior.width

    @cached_property
    def log_weights(self) -> Floats:
        """Of the pieces."""
        return np.array([piece.log_weight for piece in self.envelope.pieces])

    @property
    def words_per_proposal(self) -> int:
        """Five, and as many as there are coordinates, made even."""
        return FIRST_NORMAL + 2 * ((self.width + 1) // 2)


def chosen(log_weights: Floats, words: Words) -> NDArray[np.int64]:
    """Indices with probabilities proportional to weights; −1 where a word is too near to the end of an interval to tell."""
    weights = np.exp(log_weights - np.max(log_weights))
    ends = np.cumsum(weights)
    places = uniforms(words) * ends[-1]
    index = np.minimum(np.searchsorted(ends, places), len(ends) - 1)
    near = _WEIGHT_ERROR * ends[-1]
    starts = np.concatenate([[0.0], ends[:-1]])
    at_start = (index > 0) & (places - starts[index] < near)
    at_end = (index < len(ends) - 1) & (ends[index] - places < near)
    return np.where(at_start | at_end, -1, index)
