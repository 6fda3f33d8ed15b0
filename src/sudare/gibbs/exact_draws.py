"""Exact draws from a Gibbs posterior of linear scores, rounded to a public grid. Proof: proofs/gibbs.md.

Proposals come from the envelope's pieces and are accepted with the ratio of posterior to envelope. Every decision (which piece, which row, inside or
outside a box, accepted or not, which point of the grid) is made in floats with a bound on all that rounding can do. Where that leaves it
open, it is made again in ball arithmetic with as many bits as it takes. So the output has exactly the law of the ideal posterior rounded to
the grid: nothing has to be added to δ.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from scipy.linalg import blas
from scipy.special import log_ndtr, ndtri_exp

from sudare.array_types import Booleans, Floats, Words
from sudare.errors import NotSolved
from sudare.gibbs.gaussian_envelope import Envelope, Piece
from sudare.gibbs.lazy_uniforms import LIBRARY_ULPS, UNIT_ROUNDOFF, log_uniforms, normals
from sudare.gibbs.posteriors import Posterior
from sudare.gibbs.rejection_decisions import (
    ACCEPTANCE,
    FIRST_NORMAL,
    PIECE,
    ROW,
    SIDE,
    TAIL,
    Sampler,
    chosen,
    decided_exactly,
)
from sudare.privacy.noise import NoiseSource

_BLOCK_ENTRIES: Final = 4_000_000
_LARGEST_BLOCK: Final = 4096
_SUMMED_BLOCK: Final = 256


class Draws(NamedTuple):
    """Points of the grid; how many proposals were made, and how many accepted (for the owner only: it tells something about the data)."""

    points: Floats
    proposals: int
    accepted: int


def exact_draws(
    posterior: Posterior,
    envelope: Envelope,
    grid: float,
    count: int,
    source: NoiseSource,
    most_proposals: int | None = None,
    least_proposals: int = 0,
) -> Draws:
    """Independent draws, rounded to multiples of `grid`. Raise NotSolved where too few of `most_proposals` were accepted.

    At least `least_proposals` are computed even if fewer were needed, so that as long as these are enough their number tells nothing.
    """
    sampler = Sampler(posterior, envelope, grid)
    block = int(max(1, min(_LARGEST_BLOCK, _BLOCK_ENTRIES // max(len(sampler.scores), sampler.width))))
    accepted: list[Floats] = []
    found = made = rounds = 0
    most = math.inf if most_proposals is None else most_proposals
    while made < most and (found < count or made < least_proposals):
        wanted = max(least_proposals - made, (8 * (count - found) + 8) << min(rounds, 20))
        size = int(min(block, most - made, wanted))
        words = source.words(size * sampler.words_per_proposal).reshape(size, -1)
        points = _accepted_points(sampler, words, source)
        accepted.append(points)
        found, made, rounds = found + len(points), made + size, rounds + 1
    if found < count:
        raise NotSolved(
            f"The sampler accepted too few of {most_proposals} proposals.",
            'Use a larger regularization, a smaller epsilon, or sampler="proximal".',
        )
    return Draws(np.concatenate(accepted)[:count], made, found)


def _accepted_points(sampler: Sampler, words: Words, source: NoiseSource) -> Floats:
    """Accepted proposals of a block in their order, on the grid."""
    outcome = np.full(len(words), np.nan)
    points = np.empty((len(words), sampler.width))
    pieces = chosen(sampler.log_weights, words[:, PIECE])
    for index, piece in enumerate(sampler.envelope.pieces):
        members = np.flatnonzero(pieces == index)
        if len(members):
            outcome[members], points[members] = _decided(sampler, piece, words[members])
    for member in np.flatnonzero(np.isnan(outcome)):
        outcome[member], points[member] = decided_exactly(sampler, words[member], source)
    accepted: Floats = points[outcome == 1]
    return accepted


def _decided(sampler: Sampler, piece: Piece, words: Words) -> tuple[Floats, Floats]:
    """1 for accepted, 0 for refused, NaN for open; and the points."""
    offsets, whitened, errors, open_ = _proposals(sampler, piece, words)
    posterior = sampler.posterior
    rows, width = posterior.rows, sampler.width
    sizes = np.sqrt(np.einsum("ij,ij->i", offsets, offsets))
    changes = offsets @ rows.T
    change_errors = posterior.norm_bound * (errors + (width + 2) * UNIT_ROUNDOFF * sizes)
    inside = np.ones(len(words), dtype=bool)
    if piece.outer is not None:
        sure_in, sure_out = _within(changes, piece.outer, change_errors)
        inside &= ~sure_out
        open_ |= ~sure_in & ~sure_out
    multiplicity = np.ones(len(words))
    if piece.inner is not None:
        margin = change_errors[:, np.newaxis] + 4 * UNIT_ROUNDOFF * piece.inner
        beyond = np.abs(changes) > piece.inner
        open_ |= np.any(np.abs(np.abs(changes) - piece.inner) <= margin, axis=1)
        counts = np.count_nonzero(beyond, axis=1)
        inside &= counts > 0
        if piece.log_tails is not None:
            multiplicity = np.maximum(counts, 1).astype(np.float64)
    if posterior.radius is not None:
        sure_in_ball, sure_out_of_ball = _within_ball(posterior, offsets, errors, posterior.radius)
        inside &= ~sure_out_of_ball
        open_ |= ~sure_in_ball & ~sure_out_of_ball
    log_ratio, ratio_errors = _log_ratio(sampler, offsets, whitened, changes, change_errors, errors)
    logs, log_errors = log_uniforms(words[:, ACCEPTANCE])
    gaps = log_ratio - np.log(multiplicity) - logs
    open_ |= np.abs(gaps) <= ratio_errors + log_errors + 4 * UNIT_ROUNDOFF * (np.abs(log_ratio) + np.abs(logs) + 64)
    steps = (posterior.mode + offsets) / sampler.grid
    nearest = np.rint(steps)
    slack = 0.5 - np.abs(steps - nearest)
    step_errors = (errors + 4 * UNIT_ROUNDOFF * (sizes + np.max(np.abs(posterior.mode))))[:, np.newaxis] / sampler.grid
    unclear = np.any(slack <= step_errors, axis=1)
    accepted = inside & (gaps > 0)
    outcome = np.where(open_ | (accepted & unclear), np.nan, accepted.astype(np.float64))
    # A proposal that is surely outside is refused however the rest would go.
    return np.where(~inside & ~open_, 0.0, outcome), nearest * sampler.grid


def _within(changes: Floats, box: Floats, change_errors: Floats) -> tuple[Booleans, Booleans]:
    """Which rows of changes are surely within the box, and which are surely not."""
    margin = change_errors[:, np.newaxis] + 4 * UNIT_ROUNDOFF * box
    excess = np.abs(changes) - box
    return np.all(excess < -margin, axis=1), np.any(excess > margin, axis=1)


def _within_ball(posterior: Posterior, offsets: Floats, errors: Floats, radius: float) -> tuple[Booleans, Booleans]:
    """Which points are surely within the radius, and which are surely not."""
    points = posterior.mode + offsets
    norms = np.sqrt(np.einsum("ij,ij->i", points, points))
    margin = errors + (posterior.width + 8) * UNIT_ROUNDOFF * (norms + float(np.linalg.norm(posterior.mode)) + radius)
    return norms < radius - margin, norms > radius + margin


def _proposals(sampler: Sampler, piece: Piece, words: Words) -> tuple[Floats, Floats, Floats, Booleans]:
    """Offsets v = h·L⁻ᵀz, the vectors z, bounds on the errors of v, and where nothing is known for sure."""
    width = sampler.width
    whitened, coordinate_errors = normals(words[:, FIRST_NORMAL:])
    whitened = np.ascontiguousarray(whitened[:, :width])
    errors = np.sqrt(np.einsum("ij,ij->i", coordinate_errors[:, :width], coordinate_errors[:, :width]))
    open_ = np.zeros(len(words), dtype=bool)
    if piece.log_tails is not None:
        whitened, errors, open_ = _moved_to_tails(sampler, piece, words, whitened, errors)
    step, inverse = sampler.envelope.step, sampler.envelope.inverse_norm
    offsets = step * blas.dtrsm(1.0, piece.factor, whitened.T, lower=1, trans_a=1).T
    sizes = np.sqrt(np.einsum("ij,ij->i", offsets, offsets))
    factor_norm = float(np.linalg.norm(piece.factor))
    solving = 2 * (width + 2) * UNIT_ROUNDOFF * factor_norm * inverse * sizes
    return offsets, whitened, step * inverse * errors + solving, open_


def _moved_to_tails(
    sampler: Sampler, piece: Piece, words: Words, whitened: Floats, errors: Floats
) -> tuple[Floats, Floats, Booleans]:
    """z with its part along a row's direction replaced by a draw beyond that row's slab."""
    tails, inner = piece.log_tails, piece.inner
    if tails is None or inner is None:
        raise AssertionError("only pieces with tails are moved")
    index = chosen(tails, words[:, ROW])
    open_ = index < 0
    index = np.maximum(index, 0)
    directions = blas.dtrsm(1.0, piece.factor, sampler.posterior.rows[index].T, lower=1).T
    norms = np.sqrt(np.einsum("ij,ij->i", directions, directions))
    directions = directions / norms[:, np.newaxis]
    thresholds = inner[index] / piece.row_deviations[index]
    logs, log_errors = log_uniforms(words[:, TAIL])
    lengths = -ndtri_exp(log_ndtr(-thresholds) + logs)
    # d(length) = d(log tail)·Φ(−length)/φ(length) ≤ d(log tail)/length beyond 1, and less than 1.3 of it everywhere.
    factor_error = (
        4 * (sampler.width + 2) * UNIT_ROUNDOFF * float(np.linalg.norm(piece.factor)) * sampler.envelope.inverse_norm
    )
    relative = factor_error + 64 * LIBRARY_ULPS * UNIT_ROUNDOFF
    length_errors = 1.3 * (log_errors + relative * (thresholds + 1) ** 2) + relative * lengths
    sides = np.where(words[:, SIDE] >> np.uint64(63) == 1, 1.0, -1.0)
    along = np.einsum("ij,ij->i", directions, whitened)
    moved = whitened + directions * (sides * lengths - along)[:, np.newaxis]
    turning = 2 * factor_error * (np.abs(along) + lengths)
    return (
        moved,
        errors + length_errors + turning + 8 * sampler.width * UNIT_ROUNDOFF * (np.abs(along) + lengths),
        open_,
    )


def _log_ratio(
    sampler: Sampler, offsets: Floats, whitened: Floats, changes: Floats, change_errors: Floats, errors: Floats
) -> tuple[Floats, Floats]:
    """log(posterior/envelope) at the proposals, at most 0 where the envelope is used, and bounds on its errors."""
    posterior = sampler.posterior
    beta, penalty, mode = posterior.inverse_temperature, posterior.penalty, posterior.mode
    count, width = posterior.rows.shape
    losses = _summed(posterior.loss.rises(sampler.scores, changes))
    squares = np.einsum("ij,ij->i", offsets, offsets)
    prior = penalty * (offsets @ mode + 0.5 * squares)
    heights = 0.5 * np.einsum("ij,ij->i", whitened, whitened)
    log_ratio = -beta * (losses + prior) + heights - sampler.envelope.log_constant
    mode_size = float(np.linalg.norm(mode))
    sizes = np.sqrt(squares)
    score_error = (width + 2) * UNIT_ROUNDOFF * (posterior.norm_bound * mode_size + posterior.largest_offset)
    reach = posterior.norm_bound * (mode_size + sizes) + posterior.largest_offset
    # n terms of bounded size, each with its own error, summed in blocks.
    additions = _SUMMED_BLOCK + count / _SUMMED_BLOCK + 2
    slopes, values = posterior.loss.largest_slope(reach), posterior.loss.largest_value(reach)
    row_errors = slopes * (change_errors + score_error) + (LIBRARY_ULPS + additions) * UNIT_ROUNDOFF * values
    prior_errors = penalty * ((mode_size + sizes) * errors + 4 * width * UNIT_ROUNDOFF * (mode_size * sizes + squares))
    whitened_errors = errors / (sampler.envelope.step * sampler.envelope.inverse_norm)
    height_errors = np.sqrt(2 * heights) * whitened_errors + 2 * width * UNIT_ROUNDOFF * heights
    return log_ratio, beta * (count * row_errors + prior_errors) + height_errors


def _summed(terms: Floats) -> Floats:
    """Sums along the last axis, blocks first: each has at most n/block + block additions in a row, in any order."""
    rows, count = terms.shape
    padded = np.zeros((rows, -(-count // _SUMMED_BLOCK) * _SUMMED_BLOCK))
    padded[:, :count] = terms
    sums: Floats = padded.reshape(rows, -1, _SUMMED_BLOCK).sum(axis=2).sum(axis=1)
    return sums
