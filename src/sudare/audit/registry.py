"""Audits by name: what `sudare audit NAME` runs.

Each compares claimed and measured ε for a mechanism or an estimator on a pair of neighbouring data sets chosen to be
hard. Draws come from the operating system's noise, as in production. Where the output's law is known its largest privacy loss is
computed as well: at ε = 0.1 a sample of this size cannot come near the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sudare.audit import (
    expert_audits,
    gibbs_audits,
    linear_audits,
    noise_audits,
    perturbation_audits,
    synthesis_audits,
)
from sudare.audit.claimed_and_measured_epsilon import EpsilonComparison, NamedAudit
from sudare.errors import InvalidParameter, UnknownName

EPSILONS: Final = (0.1, 1.0, 5.0)
_AUDITS: Final[dict[str, NamedAudit]] = {
    **noise_audits.AUDITS,
    **linear_audits.AUDITS,
    **perturbation_audits.AUDITS,
    **synthesis_audits.AUDITS,
    **gibbs_audits.AUDITS,
    **expert_audits.AUDITS,
}


@dataclass(frozen=True)
class AuditReport:
    """What an audit found."""

    name: str
    subject: str
    samples: int
    comparisons: tuple[EpsilonComparison, ...]

    @property
    def holds(self) -> bool:
        """Whether the promise held at every ε."""
        return all(comparison.holds for comparison in self.comparisons)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for tables and JSON."""
        return {
            "name": self.name,
            "subject": self.subject,
            "samples": self.samples,
            "holds": self.holds,
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
        }


def audit_names() -> tuple[str, ...]:
    """The audits there are."""
    return tuple(_AUDITS)


def run_audit(
    name: str, *, samples: int | None = None, epsilons: Sequence[float] = EPSILONS, random_state: int = 0
) -> AuditReport:
    """Run one audit; `samples` outputs are drawn on each data set for every ε."""
    if name not in _AUDITS:
        raise UnknownName(f"There is no audit {name!r}.", f"Use one of: {', '.join(_AUDITS)}.")
    if not epsilons:
        raise InvalidParameter("An audit needs at least one epsilon.", "Leave epsilons out for 0.1, 1 and 5.")
    audit = _AUDITS[name]
    count = audit.samples if samples is None else samples
    comparisons = tuple(audit.at(float(epsilon)).compared(count, random_state) for epsilon in epsilons)
    return AuditReport(name, audit.subject, count, comparisons)
