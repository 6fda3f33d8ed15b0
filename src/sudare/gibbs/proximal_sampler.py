"""Draws from a logistic Gibbs posterior within a total variation that is known beforehand. Proof: proofs/proximal.md.

The proximal sampler alternates y = x + √η·z with an exact draw from the posterior restricted by ‖x − y‖²/2η. How many steps it takes follows from public numbers.
Every acceptance is decided in floats with a bound on all rounding, or else in ball arithmetic; states have a hundred bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from flint import arb
from scipy.sparse import csr_array
from scipy.special import expit

from sudare.array_types import Floats, Words
from sudare.errors import InvalidParameter, NotSolved
from sudare.gibbs.double_double_normals import DoubleDouble, double_double_normals
from sudare.gibbs.lazy_uniforms import LIBRARY_ULPS, UNIT_ROUNDOFF, log_uniforms
from sudare.gibbs.posteriors import LOGISTIC, Posterior
from sudare.gibbs.rejection_decisions import decided_with_enough_bits, is_less
from sudare.privacy.accounting import rounded_up
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release_content import on_grid

# Acceptance of a proposal is e^{−4} at least on average, for the stiffest rows there can be.
_LARGEST_RESIDUAL: Final = 4.0
_PROPOSALS_AT_ONCE: Final = 8
_MOST_STEPS: Final = 2_000_000
_MEAN_ROUNDING: Final = 16 * UNIT_ROUNDOFF
# Part of the precision that pays for rounding in the proposal's mean and gradient.
_SHARE: Final = 2.0**-20
_LARGEST_COST: Final = 1e-2
# Factors are multiplied 2⁵ at a time, and at most five more, before a logarithm is taken.
_HALVINGS: Final = 5
# Rows with a smaller share of entries that are not zero are multiplied as sparse ones.
_SPARSE_BELOW: Final = 0.3
# States stay within this multiple of √η, so that their hundred bits are fine enough; how surely, `_escape` says.
_FARTHEST_STATE: Final = 2.0**12


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
        if not (
            self.steps <= _MOST_STEPS
            and self._rounding + self._escape <= self.distance / 2
            and self._step_cost <= _LARGEST_COST
        ):
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
        """The number K of steps for which √(KL₀/2)·(1 + mη)^{−K} is at most half of the distance."""
        start = math.sqrt(max(self.first_divergence, 1e-300) / 2)
        return max(1, math.ceil(math.log(2 * start / self.distance) / self._rate + 1e-6))

    @cached_property
    def _rounding(self) -> float:
        """What the rounding of states can add in all steps. A draw is no farther than `reach`·√η from its tangent's point, but for a 2⁻¹⁰th."""
        ratio = self.largest_precision * self.spread**2
        reach = math.sqrt(self.width) + 1.01 + math.sqrt(2 * math.log(2**10 * self.steps / self.distance))
        each = math.sqrt(self.width) * (2.0**-85 + ratio * reach * 2.0**-86)
        return self.steps * each + self.distance * 2.0**-10

    @cached_property
    def _escape(self) -> float:
        """A bound on the probability that some state is farther from the mode than 2¹²√η, for every table.

        The start has a density of at most e^w times the posterior's, but for a tail of a sixteenth of the distance; so have all
        states. A coordinate of the posterior is as far as √p + s prior deviations with probability 2e^{−s²/2} at most.
        """
        gradient = self.inverse_temperature * self.gradient_bound / math.sqrt(self.prior_precision)
        ratio = self.largest_precision / self.prior_precision
        tail = math.sqrt(self.width) + math.sqrt(2 * math.log(16 / self.distance))
        warmth = self.width / 2 * math.log(ratio) + gradient**2 / 2 + gradient * tail / math.sqrt(ratio)
        room = _FARTHEST_STATE * self.spread * math.sqrt(self.prior_precision) - math.sqrt(self.width) - gradient
        if room <= 0:
            return 1.0
        log_escape = warmth + math.log(2 * self.width * self.steps) - room * room / 2
        return self.distance / 16 + math.exp(min(0.0, log_escape))

    @cached_property
    def _step_cost(self) -> float:
        """The most that rounding can take off a step's acceptance, for every table: `_Restricted.of` at the farthest states."""
        farthest = 2 * _FARTHEST_STATE * self.spread * math.sqrt(self.width)
        mode_size = math.sqrt(2 * self.rows * math.log(2) / self.penalty) + self.gradient_bound / self.penalty
        pull = 1 / self.spread**2
        precision = self.prior_precision + pull
        slope = self.inverse_temperature * self.rows * self.norm_bound
        gradient_error = self.inverse_temperature * _gradient_error(
            self.rows, self.width, self.norm_bound, mode_size + farthest
        )
        mean_error = _MEAN_ROUNDING * (pull * farthest + slope + self.prior_precision * mode_size) / precision
        return _cost_of_rounding(gradient_error, mean_error, precision, 1.01 / math.sqrt(precision))

    @cached_property
    def total_variation(self) -> Fraction:
        """A bound on the distance between what is drawn and the posterior, before rounding to a grid."""
        mixing = math.sqrt(self.first_divergence / 2) * math.exp(-self.steps * self._rate)
        return Fraction(rounded_up(Fraction((mixing + self._rounding + self._escape) * (1 + 1e-9))))


def _gradient_error(rows: int, width: int, norm_bound: float, size: float) -> float:
    """More than the rounding in the gradient of the summed loss at a point of that size."""
    score_error = (width + 4) * UNIT_ROUNDOFF * norm_bound * size
    return rows * norm_bound * (score_error / 4 + (rows + LIBRARY_ULPS + 4) * UNIT_ROUNDOFF)


def _cost_of_rounding(gradient_error: float, mean_error: float, precision: float, distance: float) -> float:
    """What a wider proposal has to have taken off for these errors, `distance` from its mean to where the tangent touches."""
    slack = (gradient_error + precision * mean_error) / math.sqrt(precision * (1 - _SHARE))
    return 1.01 * (gradient_error * distance + slack**2 / _SHARE)


class ProximalDraw(NamedTuple):
    """A point of the grid, and how many proposals it took (for the owner only)."""

    point: Floats
    proposals: int


def proximal_draw(posterior: Posterior, plan: ProximalPlan, grid: float, source: NoiseSource) -> ProximalDraw:
    """A draw within `plan.total_variation` of the logistic posterior, rounded to multiples of `grid`."""
    if posterior.gradient_bound > plan.gradient_bound:
        raise NotSolved("The mode of the posterior could not be found well enough.", NotSolved.help)
    chain = _Chain(posterior, plan)
    state = double_double_normals(chain.width, source).times(1 / math.sqrt(plan.largest_precision))
    tangent = chain.tangent_at(np.zeros(chain.width))
    proposals = 0
    for _ in range(plan.steps):
        goal = state.plus(double_double_normals(chain.width, source).times(plan.spread))
        tangent = chain.tangent_near_mode(tangent, goal)
        state, tried = _restricted_draw(_Restricted.of(chain, tangent, goal), source)
        proposals += tried
    return ProximalDraw(on_grid(DoubleDouble.of(posterior.mode).plus(state).high, grid), proposals)


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
        dense = posterior.rows
        is_sparse = np.count_nonzero(dense) < _SPARSE_BELOW * dense.size
        # S and Sᵀ, whose products have no more terms than a row or a column has entries.
        self._rows: Any = csr_array(dense) if is_sparse else dense
        self._columns: Any = csr_array(dense.T) if is_sparse else dense.T
        self.scores = posterior.scores
        self.mode_size = float(np.linalg.norm(posterior.mode))
        self.beta, self.prior = posterior.inverse_temperature, plan.prior_precision
        self.pull = 1 / plan.spread**2
        self.precision = self.prior + self.pull
        # A little wider than the restricted Gaussian part, by more than its rounding.
        self.deviation = 1 / math.sqrt(self.precision * (1 - _SHARE))
        # One deviation of the restricted law away from its mode, at most.
        self._largest_gradient = math.sqrt(self.precision)
        curvature = expit(self.scores) * expit(-self.scores)
        hessian = self.beta * (posterior.rows.T @ (posterior.rows * curvature[:, np.newaxis]))
        self._inverse = np.linalg.inv(hessian + self.precision * np.eye(self.width))

    def tangent_at(self, offset: Floats) -> _Tangent:
        """The tangent plane at an offset from the mode."""
        with np.errstate(over="ignore"):
            weights: Floats = 1 / (1 + np.exp(self.scores + self._rows @ offset))
        return _Tangent(offset, weights, -(self._columns @ weights))

    def changes(self, offsets: Floats) -> Floats:
        """S·offsetᵀ for several offsets, one a row; one column each."""
        return np.asarray(self._rows @ offsets.T)

    def tangent_near_mode(self, last: _Tangent, goal: DoubleDouble) -> _Tangent:
        """Near where the restricted law has its mode: a Newton step from the last such place, and gradient steps where that misses.

        Each gradient step takes a ninth or more off the gradient. Any point would be right, but far from the mode few proposals are accepted.
        """
        offset: Floats = last.offset - self._inverse @ self._restricted_gradient(last, goal)
        tangent = self.tangent_at(offset)
        while _norm(gradient := self._restricted_gradient(tangent, goal)) > self._largest_gradient:
            tangent = self.tangent_at(tangent.offset - gradient / (self.plan.largest_precision + self.pull))
        return tangent

    def _restricted_gradient(self, tangent: _Tangent, goal: DoubleDouble) -> Floats:
        """The gradient of U(x) + ‖x − y‖²/2η at the tangent's point."""
        prior = self.prior * (self.posterior.mode + tangent.offset)
        return self.beta * tangent.gradient + prior + self.pull * (tangent.offset - goal.high)


class _Restricted(NamedTuple):
    """The law ∝ exp(−U(x) − ‖x − y‖²/2η), and the Gaussian that dominates it: mean, and what has to be taken off."""

    chain: _Chain
    tangent: _Tangent
    goal: DoubleDouble
    mean: Floats
    mean_error: float
    log_constant: float

    @classmethod
    def of(cls, chain: _Chain, tangent: _Tangent, goal: DoubleDouble) -> _Restricted:
        """The tangent plane at x* and both parabolas make a Gaussian; what rounding left is paid for by a wider one."""
        push = chain.beta * tangent.gradient + chain.prior * chain.posterior.mode
        mean = (chain.pull * goal.high - push) / chain.precision
        size = chain.pull * _norm(goal.high) + chain.beta * _norm(tangent.gradient) + chain.prior * chain.mode_size
        mean_error = _MEAN_ROUNDING * size / chain.precision
        point_size = chain.mode_size + _norm(tangent.offset)
        gradient_error = chain.beta * _gradient_error(chain.count, chain.width, chain.posterior.norm_bound, point_size)
        cost = _cost_of_rounding(gradient_error, mean_error, chain.precision, _norm(mean - tangent.offset))
        return cls(chain, tangent, goal, mean, mean_error, cost)


def _restricted_draw(law: _Restricted, source: NoiseSource) -> tuple[DoubleDouble, int]:
    """An exact draw from the restricted law, and how many proposals were made for it."""
    chain, tried = law.chain, 0
    while True:
        normal = double_double_normals(_PROPOSALS_AT_ONCE * chain.width, source)
        steps = normal.times(chain.deviation)
        words = source.words(_PROPOSALS_AT_ONCE)
        mean = DoubleDouble.of(np.tile(law.mean, _PROPOSALS_AT_ONCE))
        points = DoubleDouble(*(part.reshape(_PROPOSALS_AT_ONCE, -1) for part in mean.plus(steps)))
        noise = DoubleDouble(*(part.reshape(_PROPOSALS_AT_ONCE, -1) for part in normal))
        gaps, errors = _gaps(law, points, noise, words)
        for index in range(_PROPOSALS_AT_ONCE):
            point = DoubleDouble(points.high[index], points.low[index])
            accepted = gaps[index] > 0
            # Also where something overflowed.
            if not abs(gaps[index]) > errors[index]:
                accepted = _is_accepted(
                    law, point, DoubleDouble(noise.high[index], noise.low[index]), words[index : index + 1], source
                )
            if accepted:
                return point, tried + index + 1
        tried += _PROPOSALS_AT_ONCE


def _gaps(law: _Restricted, points: DoubleDouble, noise: DoubleDouble, words: Words) -> tuple[Floats, Floats]:
    """log acceptance less log u of several proposals, and bounds on the errors.

    log acceptance = −β(Σ(ℓ(a+t) − ℓ(a)) − gᵀΔ) + ½(1 − Pσ²)‖z‖² − constant, Δ = x − x*, t = SΔ.
    """
    chain, tangent = law.chain, law.tangent
    offsets = points.minus_floats(tangent.offset)
    changes = chain.changes(offsets)
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


def _is_accepted(law: _Restricted, point: DoubleDouble, noise: DoubleDouble, word: Words, source: NoiseSource) -> bool:
    """The same decision for one proposal, in ball arithmetic with as many bits as it takes."""
    return decided_with_enough_bits(
        word, source, lambda chance: is_less(chance[0].log(), _log_acceptance(law, point, noise))
    )


def _log_acceptance(law: _Restricted, point: DoubleDouble, noise: DoubleDouble) -> arb:
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
