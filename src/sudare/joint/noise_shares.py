"""Noise in shares, for sums that everybody hears: pure ε by gamma-norm shares, (ε, δ) by discrete Gaussian ones.

Whoever hears a total knows its own share, and those it colludes with know theirs; members that leave take theirs away. With at most t
such shares of S (`colluders`), the S−t others must be enough, so each is one (S−t)th of what is needed. Proof: proofs/noise_shares.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Protocol

import numpy as np

from sudare.array_types import Integers, Words
from sudare.dictionary.distributed_noise import NoisePlan, NoisyTotal, check_colluders
from sudare.errors import InvalidParameter
from sudare.joint.gamma_norm_noise_shares import VARIANCE_FLOOR, gamma_norm_share
from sudare.privacy.accounting import Cost, exact, pure_cost, rounded_down
from sudare.privacy.noise import NoiseSource

# What a number's being discrete costs of ε, for each member: far more than 10·e^(−16π²) (proofs/noise_shares.md).
LATTICE_LOSS: Final = Fraction(1, 2**200)
# A total farther out than noise gets with probability e⁻⁶⁴ a number is implausible.
_FARTHEST_NATS: Final = 64.0
_FARTHEST_DEVIATIONS: Final = 12.0
_WORD: Final = 2**64


class ShareNoise(Protocol):
    """One sum's noise, in shares."""

    def noisy(self, steps: Integers, source: NoiseSource) -> Words:
        """A member's sums in whole steps with its share of the noise, modulo 2⁶⁴."""

    @property
    def total_deviation(self) -> float:
        """Standard deviation of the noise of a number in the total, all S shares together, in steps."""

    @property
    def farthest(self) -> float:
        """Beyond so many steps the noise of a number does not get."""


@dataclass(frozen=True)
class PureShares:
    """ε-DP towards any t members together and everyone else, replace-one rows. Proof: proofs/noise_shares.md.

    `sensitivity` bounds the Euclidean distance of neighbours' sums, in steps; `colluders` is t, as in `NoisePlan`.
    """

    sensitivity: Fraction
    epsilon: float
    size: int
    members: int
    colluders: int = 1

    def __post_init__(self) -> None:
        check_colluders(self.members, self.colluders)
        if self.size < 1 or self.sensitivity <= 0 or self.rate <= 0:
            raise InvalidParameter("The noise has no numbers, no sensitivity or no epsilon.", "Use positive ones.")

    @property
    def cost(self) -> Cost:
        """Pure ε."""
        return pure_cost(self.epsilon)

    @property
    def honest(self) -> int:
        """S−t: so many shares make the whole noise."""
        return self.members - self.colluders

    @cached_property
    def rate(self) -> float:
        """a in the density ∝ exp(−a‖b‖₂), in steps, rounded down; what the lattice costs is taken off ε first."""
        return rounded_down((exact(self.epsilon) - self.size * self.members * LATTICE_LOSS) / self.sensitivity)

    @cached_property
    def shape(self) -> Fraction:
        """(p+1)/2(S−t): the shape of a share's variance."""
        return Fraction(self.size + 1, 2 * self.honest)

    @property
    def total_deviation(self) -> float:
        """√(S·(floor + (p+1)/(a²(S−t))))."""
        return math.sqrt(self.members * (VARIANCE_FLOOR + 2 * float(self.shape) / self.rate**2))

    @property
    def farthest(self) -> float:
        """By Chernoff's bound at half of the largest rate: √2(ln 2·k + 64)/a with k the shape of all shares; and as far again for the floor."""
        whole = float(self.shape) * self.members
        return 2 * math.sqrt(2) * (math.log(2) * whole + _FARTHEST_NATS) / self.rate + 100 * math.sqrt(
            self.members * VARIANCE_FLOOR
        )

    def noisy(self, steps: Integers, source: NoiseSource) -> Words:
        """Sums plus a share. Nothing saturates: words wrap, which is adding modulo 2⁶⁴, for the total as for a share."""
        share = gamma_norm_share(self.size, self.shape, self.rate, source)
        return np.array(
            [(value + noise) % _WORD for value, noise in zip(steps.tolist(), share, strict=True)], dtype=np.uint64
        )


@dataclass(frozen=True)
class GaussianShares:
    """One sum of a `NoisePlan`: (ε, δ)-DP over all its sums, replace-one rows. Proof: proofs/noise_shares.md, proofs/dictionary.md."""

    plan: NoisePlan
    release: NoisyTotal

    @cached_property
    def total_deviation(self) -> float:
        """√S times a share's deviation."""
        return self.plan.share_in_steps(self.release) * math.sqrt(self.plan.members)

    @property
    def farthest(self) -> float:
        """Twelve deviations, which normal noise exceeds with probability e⁻⁷² a number."""
        return _FARTHEST_DEVIATIONS * self.total_deviation

    def noisy(self, steps: Integers, source: NoiseSource) -> Words:
        """Sums plus a discrete Gaussian share, modulo 2⁶⁴.

        The source saturates, so it is asked for noise alone: an addend that saturated would make the total no function of the noisy sum.
        """
        share = source.gaussian(np.zeros_like(steps), self.plan.share_in_steps(self.release))
        return steps.view(np.uint64) + share.view(np.uint64)
