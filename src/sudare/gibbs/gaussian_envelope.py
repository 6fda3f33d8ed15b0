"""A dominating envelope for logistic Gibbs posteriors: Gaussians on nested boxes around the mode. Proof: proofs/gibbs.md.

The posterior is ∝ exp(−β(Σ log(1 + e^{−sᵢᵀθ}) + (ρ/2)‖θ‖²)). Around θ₀ let tᵢ = sᵢᵀ(θ − θ₀). While |tᵢ| ≤ τᵢ, the loss of row i bends at
least like cᵢtᵢ²/2, so inside a box a Gaussian with precision β(ρI + Sᵀdiag(c)S) dominates. A chain of boxes, each with its own Gaussian, covers
everything; the Gaussian of a box is only needed outside of the box before it, that is on a union of slabs' complements |tᵢ| > bᵢ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.linalg import blas, lapack
from scipy.special import expit, log_ndtr

from sudare.array_types import Floats
from sudare.errors import NotSolved
from sudare.frames.rows import BLOCK_ROWS
from sudare.gibbs.lazy_uniforms import UNIT_ROUNDOFF
from sudare.gibbs.posteriors import Posterior, softplus

# Part of the penalty that pays for the gradient that is left at the computed mode.
GRADIENT_SHARE: Final = 2.0**-20
LARGEST_GRADIENT_COST: Final = 1e-2
# Half-widths of the boxes, in standard deviations of each row's score.
_WIDTHS: Final = (3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0, 10.0, 13.0, 18.0, 30.0, 60.0, 200.0, math.inf)
_FEW_WIDTHS: Final = (4.0, 5.0, 6.0, 7.5, 10.0, 15.0, 30.0, 100.0, math.inf)
_LARGE_TABLE: Final = 2_000_000


@dataclass(frozen=True, eq=False)
class Piece:
    """One box and its Gaussian v = h·L⁻ᵀz. `inner` are the half-widths of the box before (None: all of the Gaussian is proposed)."""

    factor: Floats
    inner: Floats | None
    outer: Floats | None
    row_deviations: Floats
    log_weight: float
    log_tails: Floats | None


@dataclass(frozen=True, eq=False)
class Envelope:
    """Pieces with their weights; `step` is h with 1/h² ≤ β, `log_constant` what has to be taken off so that nothing exceeds the envelope.

    `inverse_norm` bounds ‖L⁻¹‖ of every piece. `expected_acceptance` is the share of proposals that a Gaussian posterior with the curvature at the mode
    would accept: for the owner only.
    """

    pieces: Sequence[Piece]
    step: float
    log_constant: float
    inverse_norm: float
    expected_acceptance: float = 1.0


def curvature_floor(scores: Floats, half_widths: Floats) -> Floats:
    """c with ℓ(a+t) − ℓ(a) − ℓ′(a)t ≥ ct²/2 for all |t| ≤ τ, ℓ the logistic loss (Lemma 1 of proofs/gibbs.md).

    D(t)/t² has its minimum over |t| ≤ τ at an end. The difference is lowered by more than its rounding; where little of it
    is left, ℓ″(a + s) ≥ ℓ″(a)e^{−|s|} gives D(τ) ≥ ℓ″(a)(τ − 1 + e^{−τ}).
    """
    wrong = expit(-scores)
    curvature = wrong * expit(scores)
    loss = softplus(-scores)
    sides = [softplus(-(scores + t)) - loss + wrong * t for t in (half_widths, -half_widths)]
    rounding = 32 * UNIT_ROUNDOFF * (1 + np.abs(scores) + half_widths)
    with np.errstate(over="ignore", under="ignore"):
        squares = np.maximum(half_widths**2, 1e-300)
    direct = 2 * (np.minimum(*sides) - rounding) / squares
    # (τ − 1 + e^{−τ})·2/τ² = 1 − τ/3 + τ²/12 − …, an alternating series below one.
    small = half_widths < 0.1
    safe = np.where(small, 1.0, half_widths)
    ratio = np.where(small, 1 - half_widths / 3, 2 * (safe - 1 + np.exp(-safe)) / squares)
    return np.asarray(np.maximum(np.maximum(direct, curvature * ratio * (1 - 1e-12)), 0.0))


def envelope(posterior: Posterior) -> Envelope:
    """The cheapest chain of boxes among the candidates, for a logistic posterior."""
    rows = posterior.rows
    count, width = rows.shape
    penalty = posterior.penalty + posterior.tilt
    cost = gradient_cost(posterior.inverse_temperature, posterior.gradient_bound, penalty) + ball_cost(posterior)
    scores = posterior.scores
    step = step_for(posterior.inverse_temperature)
    at_mode = lowered_factor(rows, expit(scores) * expit(-scores), penalty)
    deviations = np.maximum(step * _row_norms(at_mode, rows), 1e-290)
    widths = _WIDTHS if count * width <= _LARGE_TABLE else _FEW_WIDTHS
    boxes = [None if math.isinf(size) else size * deviations for size in widths]
    factors, row_deviations = [], []
    for box in boxes:
        floor = np.zeros(count) if box is None else curvature_floor(scores, box)
        factors.append(lowered_factor(rows, floor, penalty))
        row_deviations.append(step * _row_norms(factors[-1], rows))
    volumes = [log_volume(factor) for factor in factors]
    chain = _cheapest_chain(boxes, row_deviations, volumes)
    pieces = []
    for position, index in enumerate(chain):
        before = None if position == 0 else boxes[chain[position - 1]]
        tails = None if before is None else _log_tails(before, row_deviations[index])
        extra = 0.0 if tails is None else min(0.0, float(np.logaddexp.reduce(tails)))
        # Where the slabs' tails add up to more than the whole Gaussian, the whole is proposed.
        whole = before is not None and extra == 0.0
        pieces.append(
            Piece(
                factor=factors[index],
                inner=before,
                outer=boxes[index],
                row_deviations=row_deviations[index],
                log_weight=volumes[index] + extra,
                log_tails=None if whole else tails,
            )
        )
    weight = float(np.logaddexp.reduce([piece.log_weight for piece in pieces]))
    return Envelope(pieces, step, cost, inverse_norm_for(penalty), math.exp(log_volume(at_mode) - weight - cost))


def gradient_cost(inverse_temperature: float, gradient_bound: float, penalty: float) -> float:
    """K = βΓ²/(2ηρ) of Lemma 2: what the gradient left at the computed mode takes off, rounded up.

    Any cost is right; draws are planned such that it is at most `LARGEST_GRADIENT_COST`, so that few proposals are lost by it.
    """
    return inverse_temperature * gradient_bound**2 / (2 * GRADIENT_SHARE * penalty) * (1 + 1e-9)


def ball_cost(posterior: Posterior) -> float:
    """βν(B² − ‖θ₀‖²)/2, rounded up: what an envelope with the larger penalty ρ + ν takes off on the ball ‖θ‖ ≤ B."""
    if posterior.radius is None:
        return 0.0
    weight, square = posterior.inverse_temperature * posterior.tilt, float(posterior.mode @ posterior.mode)
    return weight / 2 * (posterior.radius**2 - square) + 1e-12 * weight * (posterior.radius**2 + square)


def least_acceptance(rows: int, width: int, norm_bound: float, curvature: float, penalty: float) -> float:
    """A share of proposals that is accepted for every table: the envelope weighs at most as much as the prior alone (proofs/gibbs.md)."""
    stiffer = 1 + rows * curvature * norm_bound**2 / (width * penalty)
    return math.exp(-LARGEST_GRADIENT_COST - width * (GRADIENT_SHARE + math.log(stiffer) / 2))


def penalty_for_acceptance(acceptance: float, rows: int, width: int, norm_bound: float, curvature: float) -> float:
    """The penalty at which `least_acceptance` is about that share."""
    return rows * curvature * norm_bound**2 / (width * math.expm1(-2 * math.log(acceptance) / width))


def step_for(inverse_temperature: float) -> float:
    """h with 1/h² ≤ β also after rounding."""
    return (1 + 2.0**-48) / math.sqrt(inverse_temperature)


def inverse_norm_for(penalty: float) -> float:
    """A bound on ‖L⁻¹‖ where LLᵀ is at least ρ(1 − 2·share)I."""
    return 1 / math.sqrt(penalty * (1 - 2 * GRADIENT_SHARE))


def log_volume(factor: Floats) -> float:
    """log(1/det L) of a triangular L with a positive diagonal."""
    return -float(np.sum(np.log(np.diag(factor))))


def rounding_of_factor(rows: int, width: int, trace: float) -> float:
    """More than all rounding in forming Sᵀdiag(c)S block by block and in Cholesky's method, for a matrix of that trace."""
    additions = min(rows, BLOCK_ROWS) + rows / BLOCK_ROWS
    return 8 * (additions + 2 * width + 16) * UNIT_ROUNDOFF * trace


def smallest_penalty(rows: int, width: int, norm_bound: float, curvature: float) -> float:
    """A penalty that rounding cannot swallow, whatever the rows: public, so that it can be asked for before anything is charged."""
    share = rounding_of_factor(rows, width, 1.0) * 2 / GRADIENT_SHARE
    if share * width > 0.5:
        return math.inf
    return share * rows * curvature * norm_bound**2 / (1 - share * width) * 1.01


def lowered_factor(rows: Floats, curvature: Floats, penalty: float) -> Floats:
    """Lower Cholesky factor L with LLᵀ ≤ ρ(1 − share)I + Sᵀdiag(c)S: lowered by more than all rounding."""
    count, width = rows.shape
    matrix = np.zeros((width, width), order="F")
    roots = np.sqrt(curvature)
    for start in range(0, count, BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        weighted = rows[part] * roots[part, np.newaxis]
        matrix = blas.dsyrk(1.0, weighted.T, beta=1.0, c=matrix, lower=1, overwrite_c=1)
    lowered = rounding_of_factor(count, width, float(np.trace(matrix)) + width * penalty)
    if lowered > penalty * GRADIENT_SHARE / 2:
        raise NotSolved(
            "The penalty is too small for this many rows: rounding could break the envelope.", NotSolved.help
        )
    matrix[np.diag_indices(width)] += penalty * (1 - GRADIENT_SHARE) - lowered
    factor, failed = lapack.dpotrf(matrix, lower=1, clean=1)
    if failed:
        raise NotSolved("The envelope's precision matrix is not positive definite in floating point.", NotSolved.help)
    return np.asarray(factor, dtype=np.float64)


def _row_norms(factor: Floats, rows: Floats) -> Floats:
    """‖L⁻¹sᵢ‖ of every row."""
    whitened = blas.dtrsm(1.0, factor, rows.T, lower=1)
    return np.asarray(np.sqrt(np.einsum("ij,ij->j", whitened, whitened)))


def _log_tails(box: Floats, row_deviations: Floats) -> Floats:
    """log P(|tᵢ| > bᵢ) under a piece's Gaussian."""
    with np.errstate(divide="ignore"):
        return np.asarray(math.log(2) + log_ndtr(-box / row_deviations))


def _cheapest_chain(
    boxes: Sequence[Floats | None], row_deviations: Sequence[Floats], volumes: Sequence[float]
) -> list[int]:
    """Indices of the boxes whose pieces together weigh least; the last box is everything."""
    best, previous = list(volumes), [-1] * len(boxes)
    for outer in range(len(boxes)):
        for inner in range(outer):
            before = boxes[inner]
            if before is None:
                continue
            tail = min(0.0, float(np.logaddexp.reduce(_log_tails(before, row_deviations[outer]))))
            total = float(np.logaddexp(best[inner], volumes[outer] + tail))
            if total < best[outer]:
                best[outer], previous[outer] = total, inner
    chain, index = [], len(boxes) - 1
    while index >= 0:
        chain.append(index)
        index = previous[index]
    return chain[::-1]
