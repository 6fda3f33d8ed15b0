"""The Gaussian mechanism whose privacy curve lies above that of a run, so that the Gaussian filter can be charged for it. Proof: proofs/gaussian_domination.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from flint import arb
from scipy.special import erfcx

from sudare.array_types import Floats
from sudare.ball_precision import ball_precision
from sudare.privacy.accounting import gaussian_delta_ball

# Losses at which the two curves are compared: so many at most, and not nearer to each other than the run's curve is known.
MOST_PLACES: Final = 1024
_BALL_BITS: Final = 96
_BISECTIONS: Final = 40
_LARGEST_MU: Final = 64.0
# After so many tiny steps upwards a μ found with floats is above what they can be wrong by, or there is none.
_MOST_RAISES: Final = 8
_RAISE: Final = 2.0**-24


class PrivacyCurve(NamedTuple):
    """The δ of a run at losses ε ≥ 0, for the worse of both orders of neighbours, known up to `rest`; from the last place on it is at most `rest`."""

    places: Floats
    deltas: Floats
    rest: float


def privacy_curve(delta_at: Callable[[Floats], Floats], loss_step: float, rest: float) -> PrivacyCurve | None:
    """The curve at equally spaced losses up to where δ is at most `rest`; None where that is beyond all reach."""
    last = loss_step * MOST_PLACES
    while delta_at(np.array([last]))[0] > rest:
        last *= 2
        if last > 2.0**10:
            return None
    # Lowered while the rest is still reached: the nearer the places, the smaller the μ.
    while last > loss_step * MOST_PLACES and delta_at(np.array([last * 0.75]))[0] <= rest:
        last *= 0.75
    places = np.linspace(0.0, last, MOST_PLACES + 1)
    return PrivacyCurve(places, delta_at(places), rest)


def dominating_mu(curve: PrivacyCurve) -> float | None:
    """A μ such that the run is within 2·rest of a μ-GDP one; None where there is none below 64.

    That is δ ≤ (1 − 2·rest)·δ_μ + rest at every loss, with δ as the curve has it. Between two places the run's δ is at most that at the first, and δ_μ at
    least that at the second.
    """
    if curve.deltas[-1] > curve.rest:
        return None
    low, high = 0.0, _LARGEST_MU
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if _seems_above(curve, middle) else (middle, high)
    for _ in range(_MOST_RAISES):
        if _is_above(curve, high):
            return high
        high *= 1 + _RAISE
    return None


def _seems_above(curve: PrivacyCurve, mu: float) -> bool:
    """As well as floats can tell."""
    later, root = curve.places[1:], math.sqrt(2.0)
    # e^ε·φ(−μ/2 − ε/μ) = φ(μ/2 − ε/μ), so both terms of δ_μ have that factor.
    near, far = mu / 2 - later / mu, mu / 2 + later / mu
    gaussian = np.exp(-(near**2) / 2) / 2 * (erfcx(-near / root) - erfcx(far / root))
    return bool(np.all(curve.deltas[:-1] <= (1 - 2 * curve.rest) * gaussian + curve.rest))


def _is_above(curve: PrivacyCurve, mu: float) -> bool:
    """Beyond doubt: by ball arithmetic, at every place."""
    with ball_precision(_BALL_BITS):
        rest = arb(curve.rest)
        return all(
            bool(arb(delta) <= (1 - 2 * rest) * gaussian_delta_ball(mu, later) + rest)
            for delta, later in zip(curve.deltas.tolist(), curve.places[1:].tolist(), strict=False)
        )
