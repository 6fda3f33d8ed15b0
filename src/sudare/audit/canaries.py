"""Canaries: records planted by a coin each. Whoever guesses the coins from what a learner released too well refutes its claim.

One run is enough (Steinke, Nasr and Jagielski 2023): each of m canaries is included with probability 1/2, independently,
and every canary gets a score from the outputs. The highest scores are guessed to be in, the lowest to be out, the rest
is not guessed. If including or leaving out one canary is (ε, δ)-private (add/remove), then of r guesses at least v are
right with probability at most

    P[B ≥ v] + 2·m·δ·max_i P[v > B ≥ v − i]/i,    B ~ Binomial(r, e^ε/(1 + e^ε))          (their Theorem 5.2),

however scores were made and whatever else is in the table. An ε for which this is below 1 − confidence is refuted, and so
is every smaller one: the bound below errs with probability at most 1 − confidence. It is never surer than δ: a claim to be
refuted at a confidence of 1 − 10⁻⁶ must be made at a δ well below 10⁻⁶.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from scipy.stats import binom

from sudare.array_types import Floats
from sudare.audit.epsilon_lower_bounds import DEFAULT_CONFIDENCE, Audit, Counts
from sudare.errors import InvalidParameter
from sudare.parameter_checks import Numbers
from sudare.privacy.guarantee import Guarantee

Flags = NDArray[np.bool_]

FEWEST_CANARIES: Final = 20
# Shares of the canaries that are guessed. Trying several is paid for by dividing the error among them.
GUESSED_SHARES: Final = (1.0, 0.5, 0.25, 0.1)
_LARGEST_EPSILON: Final = 64.0
_BISECTIONS: Final = 50


@dataclass(frozen=True)
class Guesses:
    """Guesses about canaries: how many were guessed in and out, and how many of these had been included."""

    canaries: int
    guessed_in: int
    included_among_in: int
    guessed_out: int
    included_among_out: int

    @property
    def made(self) -> int:
        """All guesses."""
        return self.guessed_in + self.guessed_out

    @property
    def right(self) -> int:
        """Guesses that were right."""
        return self.included_among_in + self.guessed_out - self.included_among_out


def coins(canaries: int, generator: np.random.Generator) -> Flags:
    """Which canaries are included: a fair coin each."""
    return generator.random(canaries) < 0.5


def guesses_by_score(scores: ArrayLike, included: Flags, share: float) -> Guesses:
    """The highest scores guessed in and equally many of the lowest guessed out: a share of all canaries."""
    values = np.asarray(scores, dtype=np.float64)
    order = np.argsort(np.where(np.isnan(values), 0.0, values), kind="stable")
    half = max(1, int(len(order) * share) // 2)
    lowest, highest = order[:half], order[-half:]
    return Guesses(len(order), half, int(included[highest].sum()), half, int(included[lowest].sum()))


def chance_of_guesses(guesses: Guesses, epsilon: float, delta: float) -> float:
    """At most the probability that so many guesses or more are right where one canary's inclusion is (ε, δ)-private."""
    at_least = float(binom.sf(guesses.right - 1, guesses.made, expit(epsilon)))
    if delta == 0 or guesses.right == 0:
        return min(1.0, at_least)
    # P[v > B ≥ v − i]/i for i = 1 … v.
    masses = binom.pmf(np.arange(guesses.right)[::-1], guesses.made, expit(epsilon))
    below = np.cumsum(masses) / np.arange(1, guesses.right + 1)
    return float(min(1.0, at_least + 2 * guesses.canaries * delta * below.max()))


def epsilon_of_guesses(guesses: Guesses, delta: float, confidence: float) -> float:
    """The largest ε that the guesses refute at this confidence; 0 if none."""
    error = 1 - confidence
    if chance_of_guesses(guesses, 0.0, delta) > error:
        return 0.0
    refuted, other = 0.0, _LARGEST_EPSILON
    for _ in range(_BISECTIONS):
        middle = (refuted + other) / 2
        if chance_of_guesses(guesses, middle, delta) <= error:
            refuted = middle
        else:
            other = middle
    return refuted


def canary_audit(
    scores: ArrayLike,
    included: Flags,
    claimed: Guarantee,
    confidence: float = DEFAULT_CONFIDENCE,
    *,
    shares: Sequence[float] = GUESSED_SHARES,
) -> Audit:
    """A lower bound on ε at the claimed δ from one run, right with probability `confidence`. The claim is about add/remove.

    `scores` should be larger for canaries that were included; they may depend on everything that was released, and on which
    canaries there were, but not on the coins.
    """
    if claimed.neighbours != "add-remove":
        raise InvalidParameter(
            "A canary is there or not: the claim must be about add/remove neighbours.",
            "Audit the add/remove guarantee from which a replace-one guarantee was converted.",
        )
    if len(included) != np.size(scores) or len(included) < FEWEST_CANARIES:
        raise InvalidParameter(
            f"{np.size(scores)} scores were given for {len(included)} canaries.",
            f"Give one score a canary, and at least {FEWEST_CANARIES} canaries.",
        )
    Numbers(0, 1, open_low=True, open_high=True).check("confidence", confidence)
    error = (1 - confidence) / len(shares)
    tried = [guesses_by_score(scores, included, share) for share in shares]
    bounds = [epsilon_of_guesses(guesses, claimed.delta, 1 - error) for guesses in tried]
    best = int(np.argmax(bounds))
    guesses = tried[best]
    counts = Counts(guesses.included_among_in, guesses.guessed_in, guesses.included_among_out, guesses.guessed_out)
    event = f"{guesses.right} of {guesses.made} guesses about {guesses.canaries} canaries were right; included"
    return Audit(claimed, bounds[best], event, confidence, counts)


def scores_along(moves: Floats, directions: Floats) -> Floats:
    """How far each canary's own parameters moved along the direction in which it pulls: one row a canary."""
    lengths = np.linalg.norm(directions, axis=1)
    return np.asarray(np.sum(moves * directions, axis=1) / np.where(lengths > 0, lengths, 1.0), dtype=np.float64)
