"""Proposals of the rejection sampler, and the decisions about them that floats leave open, made with as many bits as it takes.

A proposal owns the first 64 bits of ideal uniform numbers, and gets more bits of the same numbers when a decision needs them. `rejection`
decides in floats; what rounding leaves open there is decided here in ball arithmetic (every number an interval that contains it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
from flint import arb, fmpz
from numpy.typing import NDArray

from sudare.array_types import Floats, Words
from sudare.ball_precision import ball_precision
from sudare.gibbs.gaussian_envelope import Envelope, Piece
from sudare.gibbs.lazy_uniforms import LazyUniforms, normal_balls, uniforms
from sudare.gibbs.posteriors import Posterior
from sudare.privacy.noise import NoiseSource

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
        """Logarithms of the pieces' weights."""
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


Decision = TypeVar("Decision")


class Undecided(Exception):
    """A decision that the known bits leave open."""


def decided_exactly(sampler: Sampler, words: Words, source: NoiseSource) -> tuple[float, Floats]:
    """The decision about one proposal, with as many bits as it takes."""
    return decided_with_enough_bits(words, source, lambda chance: _decided_in_balls(sampler, words, chance))


def decided_with_enough_bits(
    words: Words, source: NoiseSource, decision: Callable[[list[arb]], Decision], more_bits: int = 128
) -> Decision:
    """A decision from balls around uniform numbers that begin with these words; as often as it is `Undecided`, their known bits double.

    Balls have twice the bits of the numbers, and `more_bits`.
    """
    lazy = LazyUniforms(words, source)
    while True:
        with ball_precision(2 * lazy.bits + more_bits):
            try:
                return decision(lazy.balls())
            except Undecided:
                lazy.refine()


def _decided_in_balls(sampler: Sampler, words: Words, chance: list[arb]) -> tuple[float, Floats]:
    posterior, envelope, width = sampler.posterior, sampler.envelope, sampler.width
    pieces = envelope.pieces
    nowhere = np.zeros(width)
    index = chosen(sampler.log_weights, words[PIECE : PIECE + 1])[0]
    if index < 0:
        index = chosen_exactly([_exact_weight(sampler, piece) for piece in pieces], chance[PIECE])
    piece = pieces[index]
    whitened = normal_balls(chance[FIRST_NORMAL:])[:width]
    step = arb(envelope.step)
    if piece.log_tails is not None:
        whitened = _exactly_in_tail(sampler, piece, words, chance, whitened)
    offsets = [step * value for value in _solved_transposed(piece.factor, whitened)]
    rows = posterior.rows
    changes = [dot(row, offsets) for row in rows]
    if piece.outer is not None and any(
        is_less(arb(float(b)), abs(t)) for t, b in zip(changes, piece.outer, strict=True)
    ):
        return 0.0, nowhere
    multiplicity = 1
    if piece.inner is not None:
        counts = sum(is_less(arb(float(b)), abs(t)) for t, b in zip(changes, piece.inner, strict=True))
        if counts == 0:
            return 0.0, nowhere
        multiplicity = 1 if piece.log_tails is None else counts
    mode = [arb(float(value)) for value in posterior.mode]
    if posterior.radius is not None:
        square = sum(((m + v) ** 2 for m, v in zip(mode, offsets, strict=True)), start=arb(0))
        if is_less(arb(posterior.radius) ** 2, square):
            return 0.0, nowhere
    losses = arb(0)
    targets = np.zeros(len(rows)) if posterior.offsets is None else posterior.offsets
    for row, target, change in zip(rows, targets, changes, strict=True):
        losses += posterior.loss.ball_rise(dot(row, mode) - arb(float(target)), change)
    pairs = zip(mode, offsets, strict=True)
    prior = arb(posterior.penalty) * sum((v * (m + v / 2) for m, v in pairs), start=arb(0))
    heights = sum((z * z for z in whitened), start=arb(0)) / 2
    log_ratio = -arb(posterior.inverse_temperature) * (losses + prior) + heights - arb(envelope.log_constant)
    if not is_less(chance[ACCEPTANCE].log(), log_ratio - arb(multiplicity).log()):
        return 0.0, nowhere
    grid = arb(sampler.grid)
    multiples = [
        _certain(((m + v) / grid + arb(0.5)).floor().unique_fmpz()) for m, v in zip(mode, offsets, strict=True)
    ]
    return 1.0, np.array([float(multiple) for multiple in multiples]) * sampler.grid


def _certain(multiple: fmpz | None) -> fmpz:
    if multiple is None:
        raise Undecided
    return multiple


def is_less(left: arb, right: arb) -> bool:
    """left < right, if the balls can tell."""
    if left < right:
        return True
    if left > right:
        return False
    raise Undecided


def chosen_exactly(weights: list[arb], uniform: arb) -> int:
    """The index that a uniform number falls on, with probabilities proportional to weights, if the balls can tell."""
    place = uniform * sum(weights, start=arb(0))
    end = arb(0)
    for index, weight in enumerate(weights[:-1]):
        end += weight
        if is_less(place, end):
            return index
    return len(weights) - 1


def _exact_weight(sampler: Sampler, piece: Piece) -> arb:
    """1/det L, times the sum of the tails where only they are proposed."""
    weight = arb(1)
    for value in np.diag(piece.factor):
        weight /= arb(float(value))
    if piece.log_tails is None:
        return weight
    return weight * sum(_exact_tails(sampler, piece), start=arb(0))


def _exact_tails(sampler: Sampler, piece: Piece) -> list[arb]:
    return [_tail(_threshold(sampler, piece, index)[0]) for index in range(len(sampler.scores))]


def _threshold(sampler: Sampler, piece: Piece, index: int) -> tuple[arb, list[arb], arb]:
    """bᵢ in standard deviations of tᵢ; and L⁻¹sᵢ with its norm."""
    if piece.inner is None:
        raise AssertionError("only pieces with tails have thresholds")
    direction = _solved(piece.factor, [arb(float(value)) for value in sampler.posterior.rows[index]])
    norm = sum((value * value for value in direction), start=arb(0)).sqrt()
    return arb(float(piece.inner[index])) / (arb(sampler.envelope.step) * norm), direction, norm


def _tail(threshold: arb) -> arb:
    """P(|N(0, 1)| > threshold); a row of zeros never leaves its slab."""
    return (threshold / arb(2).sqrt()).erfc() if threshold.is_finite() else arb(0)


def _exactly_in_tail(sampler: Sampler, piece: Piece, words: Words, chance: list[arb], whitened: list[arb]) -> list[arb]:
    index = -1 if piece.log_tails is None else int(chosen(piece.log_tails, words[ROW : ROW + 1])[0])
    if index < 0:
        index = chosen_exactly(_exact_tails(sampler, piece), chance[ROW])
    threshold, direction, norm = _threshold(sampler, piece, index)
    length = arb(2).sqrt() * (chance[TAIL] * _tail(threshold)).erfcinv()
    side = 1 if is_less(arb(0.5), chance[SIDE]) else -1
    unit = [value / norm for value in direction]
    along = sum((u * z for u, z in zip(unit, whitened, strict=True)), start=arb(0))
    return [z + u * (side * length - along) for u, z in zip(unit, whitened, strict=True)]


def dot(row: Floats, values: list[arb]) -> arb:
    """The inner product of floats and balls."""
    return sum((arb(float(x)) * value for x, value in zip(row, values, strict=True)), start=arb(0))


def _solved(factor: Floats, right: list[arb]) -> list[arb]:
    """x with Lx = right."""
    result: list[arb] = []
    for row, value in zip(factor, right, strict=True):
        position = len(result)
        rest = dot(row[:position], result)
        result.append((value - rest) / arb(float(row[position])))
    return result


def _solved_transposed(factor: Floats, right: list[arb]) -> list[arb]:
    """x with Lᵀx = right."""
    reversed_factor = np.ascontiguousarray(factor.T[::-1, ::-1])
    return _solved(reversed_factor, right[::-1])[::-1]
