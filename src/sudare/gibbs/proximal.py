"""Draws from a logistic Gibbs posterior within a total variation that is known beforehand. Proof: proofs/proximal.md.

The proximal sampler alternates y = x + √η·z with an exact draw from the posterior restricted by ‖x − y‖²/2η. How many steps it takes follows from public numbers.
Every acceptance is decided in floats with a bound on all rounding, or else in ball arithmetic; states have a hundred bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from flint import arb
from flint import ctx as ball_context
from numpy.typing import NDArray
from scipy.special import expit

from sudare.errors import InvalidParameter, NotSolved
from sudare.gibbs.balls import Open, is_less
from sudare.gibbs.chance import LIBRARY_ULPS, UNIT_ROUNDOFF, LazyUniforms, log_uniforms
from sudare.gibbs.fine import Fine, fine_normals
from sudare.gibbs.posteriors import LOGISTIC, Posterior
from sudare.gibbs.products import row_products
from sudare.privacy.accounting import rounded_up
from sudare.privacy.content import on_grid
from sudare.privacy.noise import NoiseSource, Words

Floats = NDArray[np.float64]

# Acceptance of a proposal is e^{−4} at least on average, for the stiffest rows there can be.
_LARGEST_RESIDUAL: Final = 4.0
_PROPOSALS_AT_ONCE: Final = 8
_MOST_PROPOSALS: Final = 100_000
_MOST_STEPS: Final = 2_000_000
# Part of the precision that pays for rounding in the proposal's mean and gradient.
_SHARE: Final = 2.0**-20
_LARGEST_COST: Final = 1e-2
# Factors are multiplied 2⁵ at a time, and at most five more, before a logarithm is taken.
_HALVINGS: Final = 5
_MOST_BITS: Final = 2**14
# States and proposals are kept within these multiples of √η, so that their hundred bits are fine enough.
_FARTHEST_STATE: Final = 2.0**12
_FARTHEST_PROPOSAL: Final = 2.0**10


@dataclass(frozen=True)
class ProximalPlan:
    """Step size and number of steps for a total variation of at most `distance`, from public numbers alone."""

    rows: int
    width: int
    norm_bound: float
    inverse_temperature: float
    penalty: float
    gradient_bound: float
    distance: float
    largest_curvature: float = 0.25

    def __post_init__(self) -> None:
        if self.steps > _MOST_STEPS or self._rounding > self.distance / 2:
            raise InvalidParameter(
                "The regularization is too small for the proximal sampler: it would take too many steps.",
                "Use a larger regularization.",
            )

    @property
    def prior_precision(self) -> float:
        """m = βρ."""
        return self.inverse_temperature * self.penalty

    @property
    def _data_precision(self) -> float:
        """The most that rows can add to the curvature in all directions together: βncR²."""
        return self.inverse_temperature * self.rows * self.largest_curvature * self.norm_bound**2

    @property
    def largest_precision(self) -> float:
        """M = m + βncR²."""
        return self.prior_precision + self._data_precision

    @cached_property
    def spread(self) -> float:
        """√η: half the largest trace over the proposals' precision m + 1/η is the residual that acceptance may have to bear."""
        wanted = self._data_precision / (2 * _LARGEST_RESIDUAL) - self.prior_precision
        return 1 / math.sqrt(max(wanted, self.prior_precision))

    @cached_property
    def first_divergence(self) -> float:
        """KL of the start N(θ₀, I/M) from the posterior: at most (p/2)log(M/m) + (βΓ)²/2m."""
        left = (self.inverse_temperature * self.gradient_bound) ** 2 / (2 * self.prior_precision)
        return (0.5 * self.width * math.log(self.largest_precision / self.prior_precision) + left) * (1 + 1e-9)

    @cached_property
    def _rate(self) -> float:
        """log(1 + mη), rounded down: the total variation falls by this in a step."""
        contraction: float = math.log1p(self.prior_precision * self.spread**2) * (1 - 1e-9)
        return contraction

    @cached_property
    def steps(self) -> int:
        """So many that √(KL₀/2)·(1 + mη)^{−K} is at most half of the distance."""
        start = math.sqrt(max(self.first_divergence, 1e-300) / 2)
        return max(1, math.ceil(math.log(2 * start / self.distance) / self._rate + 1e-6))

    @cached_property
    def _rounding(self) -> float:
        """What the rounding of states can add in all steps."""
        ratio = self.largest_precision * self.spread**2
        each = math.sqrt(self.width) * (2.0**-85 + ratio * self.width * 2.0**-77)
        return self.steps * each

    @cached_property
    def total_variation(self) -> Fraction:
        """A bound on the distance between what is drawn and the posterior, before rounding to a grid."""
        mixing = math.sqrt(self.first_divergence / 2) * math.exp(-self.steps * self._rate)
        return Fraction(rounded_up(Fraction((mixing + self._rounding) * (1 + 1e-9))))


class ProximalDraw(NamedTuple):
    """A point of the grid, and how many proposals it took (for the owner only)."""

    point: Floats
    proposals: int


def proximal_draw(posterior: Posterior, plan: ProximalPlan, grid: float, source: NoiseSource) -> ProximalDraw:
    """A draw within `plan.total_variation` of the logistic posterior, rounded to multiples of `grid`."""
    if posterior.gradient_bound > plan.gradient_bound:
        raise NotSolved("The mode of the posterior could not be found well enough.", NotSolved.help)
    chain = _Chain(posterior, plan)
    state = fine_normals(chain.width, source).times(1 / math.sqrt(plan.largest_precision))
    tangent = chain.tangent_at(np.zeros(chain.width))
    proposals = 0
    for _ in range(plan.steps):
        goal = state.plus(fine_normals(chain.width, source).times(plan.spread))
        tangent = chain.tangent_near_mode(tangent, goal)
        state, tried = _restricted_draw(_Restricted.of(chain, tangent, goal), source)
        proposals += tried
        if np.max(np.abs(state.high)) > _FARTHEST_STATE * plan.spread:
            raise NotSolved("The proximal sampler went astray.", NotSolved.help)
    return ProximalDraw(on_grid(Fine.of(posterior.mode).plus(state).high, grid), proposals)


class _Tangent(NamedTuple):
    """A point x* (an offset from the mode), the rows' weights 1/(1 + eˢ) there, and the gradient of the summed loss, as floats."""

    offset: Floats
    weights: Floats
    gradient: Floats


class _Chain:
    """A posterior with what all steps share."""

    def __init__(self, posterior: Posterior, plan: ProximalPlan) -> None:
        self.posterior, self.plan = posterior, plan
        self.count, self.width = posterior.rows.shape
        self.rows = row_products(posterior.rows)
        self.scores = posterior.scores
        self.mode_size = float(np.linalg.norm(posterior.mode))
        self.beta, self.prior = posterior.inverse_temperature, plan.prior_precision
        self.pull = 1 / plan.spread**2
        self.precision = self.prior + self.pull
        # A little wider than the restricted Gaussian part, by more than its rounding.
        self.deviation = 1 / math.sqrt(self.precision * (1 - _SHARE))
        curvature = expit(self.scores) * expit(-self.scores)
        hessian = self.beta * (posterior.rows.T @ (posterior.rows * curvature[:, np.newaxis]))
        self._inverse = np.linalg.inv(hessian + self.precision * np.eye(self.width))

    def tangent_at(self, offset: Floats) -> _Tangent:
        """The tangent plane at an offset from the mode."""
        return _Tangent(offset, *self.rows.slopes(self.scores, offset))

    def tangent_near_mode(self, last: _Tangent, goal: Fine) -> _Tangent:
        """Where the restricted law has its mode, by a Newton step from the last such place. Any point would be right."""
        gradient = self.beta * last.gradient + self.prior * (self.posterior.mode + last.offset)
        gradient = gradient + self.pull * (last.offset - goal.high)
        offset: Floats = last.offset - self._inverse @ gradient
        return self.tangent_at(offset)


class _Restricted(NamedTuple):
    """The law ∝ exp(−U(x) − ‖x − y‖²/2η), and the Gaussian that dominates it: mean, and what has to be taken off."""

    chain: _Chain
    tangent: _Tangent
    goal: Fine
    mean: Floats
    mean_error: float
    log_constant: float

    @classmethod
    def of(cls, chain: _Chain, tangent: _Tangent, goal: Fine) -> _Restricted:
        """The tangent plane at x* and both parabolas make a Gaussian; what rounding left is paid for by a wider one."""
        push = chain.beta * tangent.gradient + chain.prior * chain.posterior.mode
        mean = (chain.pull * goal.high - push) / chain.precision
        size = chain.pull * _norm(goal.high) + chain.beta * _norm(tangent.gradient) + chain.prior * chain.mode_size
        mean_error = 16 * UNIT_ROUNDOFF * size / chain.precision
        reach = chain.posterior.norm_bound * (chain.mode_size + _norm(tangent.offset))
        score_error = (chain.width + 4) * UNIT_ROUNDOFF * reach
        row_error = score_error / 4 + (chain.count + LIBRARY_ULPS + 4) * UNIT_ROUNDOFF
        gradient_error = chain.beta * chain.count * chain.posterior.norm_bound * row_error
        slack = chain.deviation * (gradient_error + chain.precision * mean_error)
        cost = 1.01 * (gradient_error * _norm(mean - tangent.offset) + slack**2 / _SHARE)
        if cost > _LARGEST_COST:
            raise NotSolved("The proximal sampler's steps are not exact enough for this many rows.", NotSolved.help)
        return cls(chain, tangent, goal, mean, mean_error, cost)


def _restricted_draw(law: _Restricted, source: NoiseSource) -> tuple[Fine, int]:
    """An exact draw from the restricted law, and how many proposals were made for it."""
    chain, tried = law.chain, 0
    while tried < _MOST_PROPOSALS:
        normal = fine_normals(_PROPOSALS_AT_ONCE * chain.width, source)
        steps = normal.times(chain.deviation)
        words = source.words(_PROPOSALS_AT_ONCE)
        mean = Fine.of(np.tile(law.mean, _PROPOSALS_AT_ONCE))
        points = Fine(*(part.reshape(_PROPOSALS_AT_ONCE, -1) for part in mean.plus(steps)))
        noise = Fine(*(part.reshape(_PROPOSALS_AT_ONCE, -1) for part in normal))
        gaps, errors = _gaps(law, points, noise, words)
        for index in range(_PROPOSALS_AT_ONCE):
            point = Fine(points.high[index], points.low[index])
            accepted = gaps[index] > 0
            # Also where something overflowed.
            if not abs(gaps[index]) > errors[index]:
                accepted = _is_accepted(
                    law, point, Fine(noise.high[index], noise.low[index]), words[index : index + 1], source
                )
            if accepted:
                farthest = _FARTHEST_PROPOSAL * chain.plan.spread * math.sqrt(chain.width)
                if _norm(point.high - law.tangent.offset) > farthest:
                    raise NotSolved("The proximal sampler went astray.", NotSolved.help)
                return point, tried + index + 1
        tried += _PROPOSALS_AT_ONCE
    raise NotSolved("The proximal sampler accepted no proposal.", NotSolved.help)


def _gaps(law: _Restricted, points: Fine, noise: Fine, words: Words) -> tuple[Floats, Floats]:
    """log acceptance less log u of several proposals, and bounds on the errors.

    log acceptance = −β(Σ(ℓ(a+t) − ℓ(a)) − gᵀΔ) + ½(1 − Pσ²)‖z‖² − constant, Δ = x − x*, t = SΔ.
    """
    chain, tangent = law.chain, law.tangent
    offsets = points.minus_floats(tangent.offset)
    changes = chain.rows.changes(offsets)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        rises = _summed_rises(tangent.weights, changes)
        linear = offsets @ tangent.gradient
        squares = np.einsum("ij,ij->i", noise.high, noise.high)
        excess = 0.5 * (1 - chain.precision * chain.deviation**2)
        logs, log_errors = log_uniforms(words)
        gaps = -chain.beta * (rises - linear) + excess * squares - law.log_constant - logs
        sizes, noises = np.sqrt(np.einsum("ij,ij->i", offsets, offsets)), np.sqrt(squares)
        norm_bound, width, count = chain.posterior.norm_bound, chain.width, chain.count
        largest = norm_bound * sizes * (1 + 1e-9)
        reach = chain.mode_size + _norm(tangent.offset) + sizes
        row_errors = norm_bound * (width + 6) * UNIT_ROUNDOFF * (reach + sizes)
        row_errors += UNIT_ROUNDOFF * (24 * np.exp(largest) + (count / 2**_HALVINGS + LIBRARY_ULPS + 4) * largest)
        linear_errors = (width + 8) * UNIT_ROUNDOFF * sizes * _norm(tangent.gradient)
        errors = chain.beta * (count * row_errors + linear_errors)
        errors += 8 * UNIT_ROUNDOFF * (chain.beta * (np.abs(rises) + np.abs(linear)) + squares + np.abs(logs) + 64)
        errors += chain.precision * law.mean_error * (chain.deviation * noises + law.mean_error)
    return gaps, errors + log_errors


def _summed_rises(weights: Floats, changes: Floats) -> Floats:
    """Σ(ℓ(a+t) − ℓ(a)) = Σ log(1 + w(e^{−t} − 1)) down the columns; products first, because a logarithm takes longer."""
    factors = np.expm1(-changes)
    factors *= weights[:, np.newaxis]
    factors += 1.0
    for _ in range(_HALVINGS):
        half = len(factors) // 2
        if half == 0:
            break
        odd = factors[2 * half :]
        factors = factors[:half] * factors[half : 2 * half]
        factors[: len(odd)] *= odd
    return np.asarray(np.log(factors).sum(axis=0))


def _is_accepted(law: _Restricted, point: Fine, noise: Fine, word: Words, source: NoiseSource) -> bool:
    """The same decision for one proposal, in ball arithmetic with as many bits as it takes."""
    lazy = LazyUniforms(word, source)
    while lazy.bits <= _MOST_BITS:
        with ball_context.workprec(2 * lazy.bits + 128):
            try:
                return is_less(lazy.balls()[0].log(), _log_acceptance(law, point, noise))
            except Open:
                lazy.refine()
    raise NotSolved("A decision of the sampler could not be made.", NotSolved.help)


def _log_acceptance(law: _Restricted, point: Fine, noise: Fine) -> arb:
    chain, posterior = law.chain, law.chain.posterior
    beta, spread = arb(posterior.inverse_temperature), arb(chain.plan.spread)
    prior, pull = beta * arb(posterior.penalty), 1 / (spread * spread)
    precision = prior + pull
    places, tangent = point.balls(), [arb(float(value)) for value in law.tangent.offset]
    mode, gradient = ([arb(float(value)) for value in values] for values in (posterior.mode, law.tangent.gradient))
    offsets = [place - start for place, start in zip(places, tangent, strict=True)]
    starts = [first + second for first, second in zip(mode, tangent, strict=True)]
    rises = arb(0)
    for row in posterior.rows:
        entries = np.flatnonzero(row)
        score = sum((arb(float(row[index])) * starts[index] for index in entries), start=arb(0))
        change = sum((arb(float(row[index])) * offsets[index] for index in entries), start=arb(0))
        rises += LOGISTIC.ball_rise(score, change)
    linear = sum((g * v for g, v in zip(gradient, offsets, strict=True)), start=arb(0))
    heights = sum((z * z for z in noise.balls()), start=arb(0)) / 2
    depth = arb(0)
    for place, goal, slope, centre in zip(places, law.goal.balls(), gradient, mode, strict=True):
        mean = (pull * goal - beta * slope - prior * centre) / precision
        depth += precision * (place - mean) ** 2 / 2
    return -beta * (rises - linear) - depth + heights - arb(law.log_constant)


def _norm(vector: Floats) -> float:
    return float(np.linalg.norm(vector))
