"""Claimed beside measured ε of one mechanism: from its outputs, from their lowest bits, and from the law of the outputs where it is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from sudare.audit.distinguishing_test import Mechanism, distinguish, distinguish_gaussian
from sudare.audit.epsilon_lower_bounds import Audit
from sudare.audit.lowest_bits import distinguish_lowest_bits
from sudare.privacy.guarantee import Guarantee

_MEASURED_SHARE: Final = 0.7


@dataclass(frozen=True)
class EpsilonComparison:
    """Claimed beside measured, at one ε."""

    claimed: Guarantee
    sampled: Audit
    lowest_bits: Audit
    computed: float | None

    @property
    def measured(self) -> float:
        """The largest lower bound on ε."""
        return max(self.sampled.epsilon_lower_bound, self.lowest_bits.epsilon_lower_bound, self.computed or 0.0)

    @property
    def holds(self) -> bool:
        """Whether every measurement leaves the claim standing."""
        return self.measured <= self.claimed.epsilon

    def to_dict(self) -> dict[str, Any]:
        """Plain values for tables and JSON."""
        return {
            "epsilon": self.claimed.epsilon,
            "delta": self.claimed.delta,
            "neighbours": self.claimed.neighbours,
            "measured": self.measured,
            "sampled": self.sampled.epsilon_lower_bound,
            "lowest_bits": self.lowest_bits.epsilon_lower_bound,
            "computed": self.computed,
            "event": self.sampled.event,
            "counts": str(self.sampled.counts),
            "confidence": self.sampled.confidence,
            "holds": self.holds,
        }


@dataclass(frozen=True)
class AuditedMechanism:
    """A mechanism with its claim, two neighbouring data sets that are hard for it, and the ε of its law on them where that is known.

    Outputs are drawn as `outputs(data, count)` if `batched`, else one by one. With `mu` the claim rests on μ-GDP.
    """

    claimed: Guarantee
    outputs: Mechanism
    pair: tuple[Any, Any]
    computed: float | None
    mu: float | None = None
    batched: bool = True

    def compared(self, samples: int, random_state: int = 0) -> EpsilonComparison:
        """Measured on so many outputs on each data set; the seed is for learning scores only."""
        options: dict[str, Any] = {
            "batched": self.batched,
            "measured_share": _MEASURED_SHARE,
            "random_state": random_state,
        }
        if self.mu is None:
            sampled = distinguish(self.outputs, self.pair, self.claimed, samples, **options)
        else:
            sampled = distinguish_gaussian(self.outputs, self.pair, self.claimed, self.mu, samples, **options)
        # Low bits give themselves away quickly: a tenth of the sample is plenty.
        few = max(samples // 10, 100)
        bits = distinguish_lowest_bits(self.outputs, self.pair, self.claimed, few, batched=self.batched)
        return EpsilonComparison(self.claimed, sampled, bits, self.computed)


@dataclass(frozen=True)
class NamedAudit:
    """What is audited, in words; how many outputs to draw on each data set; and the mechanism for an ε."""

    subject: str
    samples: int
    at: Callable[[float], AuditedMechanism]
