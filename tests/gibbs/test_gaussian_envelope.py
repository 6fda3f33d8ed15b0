"""The envelope dominates: in every slab, in every box, for random posteriors, and where floats cancel."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb
from flint import ctx as ball_context
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sudare.errors import NotSolved
from sudare.gibbs.gaussian_envelope import curvature_floor, envelope
from sudare.gibbs.posteriors import Posterior
from tests.gibbs.posteriors import energies, logistic_posterior


def excess(score: float, change: float, floor: float) -> arb:
    """D(t) − ct²/2 in ball arithmetic."""
    with ball_context.workprec(600):
        a, t, c = arb(score), arb(change), arb(floor)
        slope = -1 / (1 + a.exp())
        return (-(a + t)).exp().log1p() - (-a).exp().log1p() - slope * t - c * t * t / 2


@settings(max_examples=300)
@given(
    st.floats(-60, 60),
    st.floats(-12, 2).map(lambda exponent: 10.0**exponent),
    st.floats(0.001, 1),
)
@example(0.0, 1e-12, 1.0)
@example(40.0, 1e-6, 1.0)
@example(-3.0, 300.0, 0.9999)
def test_curvature_floor_is_a_floor(score: float, half_width: float, share: float) -> None:
    floor = float(curvature_floor(np.array([score]), np.array([half_width]))[0])
    assert floor >= 0
    for change in (share * half_width, -share * half_width, half_width, -half_width):
        assert excess(score, change, floor) > 0


@pytest.mark.parametrize("half_width", [1e-9, 1e-4, 1e-2])
def test_small_slabs_lose_little(half_width: float) -> None:
    scores = np.linspace(-5, 5, 41)
    curvature = 1 / (2 + 2 * np.cosh(scores))
    floor = curvature_floor(scores, np.full(41, half_width))
    assert np.all(floor <= curvature)
    assert np.all(floor >= curvature * (1 - half_width))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 6), st.integers(0, 2**31), st.floats(-2, 1.5), st.floats(-2, 1.5))
def test_no_point_violates_the_envelope(rows: int, width: int, seed: int, penalty: float, temperature: float) -> None:
    """500 random points for each of 40 random envelopes: 20,000 comparisons, in every piece that there is."""
    check_random_points(logistic_posterior(rows, width, seed, 10.0**penalty, 10.0**temperature), seed, 500)


@pytest.mark.long
def test_twenty_thousand_random_envelopes_hold() -> None:
    random = np.random.default_rng(20_000)
    for seed in range(20_000):
        rows, width = int(random.integers(1, 30)), int(random.integers(1, 5))
        penalty, temperature = 10.0 ** random.uniform(-2, 1.5, 2)
        check_random_points(logistic_posterior(rows, width, seed, float(penalty), float(temperature)), seed, 20)


def check_random_points(posterior: Posterior, seed: int, count: int) -> None:
    """The posterior is below its envelope at so many random points, in every piece that they are in."""
    bound = envelope(posterior)
    random = np.random.default_rng(seed)
    spread = bound.step * bound.inverse_norm
    offsets = random.standard_normal((count, len(posterior.mode))) * spread * 10 ** random.uniform(-2, 1.5, (count, 1))
    changes = np.abs(offsets @ posterior.rows.T)
    rise = energies(posterior, posterior.mode + offsets) - energies(posterior, posterior.mode[np.newaxis])
    seen = np.zeros(count, dtype=bool)
    for piece in bound.pieces:
        inside = np.ones(count, dtype=bool) if piece.outer is None else np.all(changes <= piece.outer, axis=1)
        heights = ((offsets @ piece.factor) ** 2).sum(axis=1) / (2 * bound.step**2)
        slack = rise - heights + bound.log_constant
        assert np.all(slack[inside] >= -1e-9 * (1 + rise[inside]))
        seen |= inside
    assert seen.all()


def test_the_chain_is_cheaper_than_its_last_box() -> None:
    posterior = logistic_posterior(400, 8, 5, 4.0, 1.0)
    bound = envelope(posterior)
    assert len(bound.pieces) > 1
    whole = -np.sum(np.log(np.diag(bound.pieces[-1].factor)))
    assert np.logaddexp.reduce([piece.log_weight for piece in bound.pieces]) < whole - 1


def test_a_forgotten_gradient_breaks_the_envelope() -> None:
    """The planted bug of the prototype: a mode that is off, and no allowance for the gradient left there."""
    posterior = logistic_posterior(50, 2, 1, 1.0, 1.0)
    off = posterior.mode + 0.5
    honest = envelope(Posterior(posterior.rows, 1.0, 1.0, 1.0, off, 100.0))
    assert honest.log_constant > 100.0**2 / 2 / 2.0**-20
    lying = envelope(Posterior(posterior.rows, 1.0, 1.0, 1.0, off, 0.0))
    offsets = np.random.default_rng(0).standard_normal((2000, 2))
    rise = energies(posterior, off + offsets) - energies(posterior, off[np.newaxis])
    last = lying.pieces[-1]
    assert np.any(rise < ((offsets @ last.factor) ** 2).sum(axis=1) / (2 * lying.step**2) - 1e-6)


def test_a_penalty_that_rounding_would_swallow_is_refused() -> None:
    posterior = logistic_posterior(200, 3, 1, 1.0, 1.0)
    tiny = Posterior(posterior.rows, 1.0, 1e-9, 1.0, posterior.mode, 0.0)
    with pytest.raises(NotSolved, match="penalty"):
        envelope(tiny)


def test_rows_of_zeros_do_no_harm() -> None:
    posterior = Posterior(np.zeros((4, 2)), 1.0, 1.0, 1.0, np.zeros(2), 0.0)
    bound = envelope(posterior)
    assert np.isfinite([piece.log_weight for piece in bound.pieces]).all()
