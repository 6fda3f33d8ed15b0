"""Audits by name: what `sudare audit NAME` runs.

Each compares claimed and measured ε for a mechanism or an estimator on a pair of neighbouring data sets chosen to be
hard. Draws come from the operating system's noise, as in production. Where the output's law is known its largest privacy loss is
computed as well: at ε = 0.1 a sample of this size cannot come near the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from sklearn.base import clone

from sudare.audit.densities import exact_epsilon
from sudare.audit.distinguish import distinguish, distinguish_gaussian
from sudare.audit.evidence import Audit, Floats
from sudare.audit.gibbs import CASES as GIBBS_CASES
from sudare.audit.gibbs import GibbsCase
from sudare.audit.linear import CASES as LINEAR_CASES
from sudare.audit.linear import LinearCase, law_epsilon
from sudare.audit.linear import Table as LinearTable
from sudare.audit.precision import precision
from sudare.audit.records import CASES as RECORD_CASES
from sudare.audit.records import RecordCase
from sudare.audit.synthesis import CASES as SYNTHESIS_CASES
from sudare.audit.synthesis import SynthesisCase
from sudare.errors import InvalidParameter, UnknownName
from sudare.privacy.accounting import gaussian_mu_within
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from sudare.privacy.noise import NoiseSource, SystemNoise
from sudare.privacy.private_estimator import PrivateEstimator
from sudare.statistics import PrivateHistogram, PrivateMean, PrivateStandardScaler

Pair = tuple[Floats, Floats]

EPSILONS: Final = (0.1, 1.0, 5.0)
AUDITED_DELTA: Final = 1e-6
_MEASURED_SHARE: Final = 0.7


@dataclass(frozen=True)
class Comparison:
    """Claimed beside measured, at one ε: from outputs, from their lowest bits, and from the law where it is known."""

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
class AuditReport:
    """What an audit found."""

    name: str
    subject: str
    samples: int
    comparisons: tuple[Comparison, ...]

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


@dataclass(frozen=True)
class NamedAudit:
    """An audit that can be asked for by name."""

    subject: str
    samples: int
    compare: Callable[[float, int, int], Comparison]


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
    comparisons = tuple(audit.compare(float(epsilon), count, random_state) for epsilon in epsilons)
    return AuditReport(name, audit.subject, count, comparisons)


def noise_comparison(
    mechanism: Laplace | Gaussian | GammaNorm, pair: Pair, samples: int, random_state: int
) -> Comparison:
    """Noise on a pair of vectors as far apart as its sensitivity allows."""
    claimed = Guarantee(float(mechanism.cost.epsilon), float(mechanism.cost.delta))
    draws = _draws_of(mechanism)
    options: dict[str, Any] = {"batched": True, "measured_share": _MEASURED_SHARE, "random_state": random_state}
    if mechanism.cost.mu is None:
        sampled = distinguish(draws, pair, claimed, samples, **options)
    else:
        sampled = distinguish_gaussian(draws, pair, claimed, mechanism.cost.mu, samples, **options)
    bits = precision(draws, pair, claimed, _bits_samples(samples), batched=True)
    return Comparison(claimed, sampled, bits, exact_epsilon(mechanism, pair))


def estimator_comparison(
    estimator: PrivateEstimator,
    outputs: Sequence[str],
    sums: Callable[[Floats], Floats],
    samples: int,
    random_state: int,
) -> Comparison:
    """An estimator fitted again and again to two neighbouring tables; `outputs` are the attributes looked at.

    `sums` says what the estimator adds up, so that the planned noise on it can be audited by its density too.
    """
    claimed = Guarantee(epsilon=estimator.epsilon, delta=estimator.delta)
    model = clone(estimator).fit(_TABLES[0])
    planned = model.plan(len(_TABLES[0]), model.declared_).mechanism

    def fitted(table: Floats) -> Floats:
        model = clone(estimator).fit(table)
        return np.concatenate([_flat(getattr(model, name)) for name in outputs])

    sampled = distinguish(fitted, _TABLES, claimed, samples, measured_share=_MEASURED_SHARE, random_state=random_state)
    bits = precision(fitted, _TABLES, claimed, _bits_samples(samples))
    exact = exact_epsilon(planned, (sums(_TABLES[0]), sums(_TABLES[1])))
    return Comparison(claimed, sampled, bits, exact)


def linear_comparison(case: LinearCase, epsilon: float, samples: int, random_state: int) -> Comparison:
    """A linear model fitted again and again to two neighbouring tables, and the law of its method on them."""
    lean = case.model(epsilon)
    claimed = Guarantee(lean.epsilon, lean.delta)
    model = clone(lean).fit(*case.pair[0])
    method = model.plan(model.n_rows_, model.declared_).mechanism

    def fitted(table: LinearTable) -> Floats:
        return np.asarray(clone(lean).fit(*table).parameters_.ravel())

    options: dict[str, Any] = {"measured_share": _MEASURED_SHARE, "random_state": random_state}
    if method.cost.mu is None:
        sampled = distinguish(fitted, case.pair, claimed, samples, **options)
    else:
        # The claim's μ, not the method's: a method with too little noise has a larger one.
        mu = gaussian_mu_within(claimed.epsilon, claimed.delta)
        sampled = distinguish_gaussian(fitted, case.pair, claimed, mu, samples, **options)
    bits = precision(fitted, case.pair, claimed, _bits_samples(samples))
    return Comparison(claimed, sampled, bits, law_epsilon(method, case.held()))


def record_comparison(case: RecordCase, epsilon: float, samples: int, random_state: int) -> Comparison:
    """A perturbation of one value, drawn again and again for two values; its law is known exactly."""
    claimed = Guarantee(epsilon, notion="local")
    draws, perturbation = case.draws(epsilon), case.made(epsilon)
    options: dict[str, Any] = {"batched": True, "measured_share": _MEASURED_SHARE, "random_state": random_state}
    sampled = distinguish(draws, case.pair, claimed, samples, **options)
    bits = precision(draws, case.pair, claimed, _bits_samples(samples), batched=True)
    return Comparison(claimed, sampled, bits, perturbation.exact_epsilon)


def synthesis_comparison(case: SynthesisCase, epsilon: float, samples: int, random_state: int) -> Comparison:
    """Noisy counts for synthetic rows, released again and again for two tables; their law is noise in stages."""
    claimed, draws = Guarantee(epsilon), case.draws(epsilon)
    options: dict[str, Any] = {"batched": True, "measured_share": _MEASURED_SHARE, "random_state": random_state}
    sampled = distinguish(draws, case.pair, claimed, samples, **options)
    bits = precision(draws, case.pair, claimed, _bits_samples(samples), batched=True)
    return Comparison(claimed, sampled, bits, case.computed(epsilon))


def gibbs_comparison(case: GibbsCase, epsilon: float, samples: int, random_state: int) -> Comparison:
    """A Gibbs posterior, drawn from again and again for two data sets; its law is known on a lattice."""
    method = case.method(epsilon)
    claimed, draws = Guarantee(method.epsilon, method.delta), case.draws(epsilon)
    mu = gaussian_mu_within(claimed.epsilon, claimed.delta)
    options: dict[str, Any] = {"batched": True, "measured_share": _MEASURED_SHARE, "random_state": random_state}
    sampled = distinguish_gaussian(draws, case.pair, claimed, mu, samples, **options)
    bits = precision(draws, case.pair, claimed, _bits_samples(samples), batched=True)
    return Comparison(claimed, sampled, bits, case.computed(epsilon))


def _gibbs_audit(case: GibbsCase) -> NamedAudit:
    return NamedAudit(
        case.subject, case.samples, lambda epsilon, samples, seed: gibbs_comparison(case, epsilon, samples, seed)
    )


def _record_audit(case: RecordCase) -> NamedAudit:
    return NamedAudit(
        case.subject, 100_000, lambda epsilon, samples, seed: record_comparison(case, epsilon, samples, seed)
    )


def _synthesis_audit(case: SynthesisCase) -> NamedAudit:
    return NamedAudit(
        case.subject, 2_000, lambda epsilon, samples, seed: synthesis_comparison(case, epsilon, samples, seed)
    )


def _linear_audit(case: LinearCase) -> NamedAudit:
    return NamedAudit(
        case.subject,
        case.samples,
        lambda epsilon, samples, seed: linear_comparison(case, epsilon, samples, seed),
    )


def _draws_of(mechanism: Laplace | Gaussian | GammaNorm) -> Callable[[Floats, int], Floats]:
    source: NoiseSource = SystemNoise()
    return lambda values, count: mechanism.draws(values, count, source)


def _bits_samples(samples: int) -> int:
    """Low bits give themselves away quickly: a tenth of the sample is plenty."""
    return max(samples // 10, 100)


def _flat(learned: Any) -> Floats:
    if isinstance(learned, dict):
        return np.concatenate([_flat(part) for part in learned.values()])
    return np.asarray(learned, dtype=np.float64).ravel()


def _neighbouring_tables(rows: int = 8) -> Pair:
    """Two tables of two columns in [0, 1] that differ in their last row, as much as the bounds allow."""
    first, second = np.tile([0.25, 0.75], (rows, 1)), np.tile([0.25, 0.75], (rows, 1))
    first[-1], second[-1] = 0.0, 1.0
    return first, second


_TABLES: Final = _neighbouring_tables()
_ORIGIN: Final = np.zeros(2)
_L1_NEIGHBOUR: Final = np.array([0.6, 0.4])
_L2_NEIGHBOUR: Final = np.array([0.6, 0.8])


def _mean(epsilon: float, samples: int, random_state: int) -> Comparison:
    def sums(table: Floats) -> Floats:
        return np.asarray(table.sum(axis=0))

    return estimator_comparison(PrivateMean(epsilon=epsilon, bounds=(0.0, 1.0)), ["mean_"], sums, samples, random_state)


def _histogram(epsilon: float, samples: int, random_state: int) -> Comparison:
    def sums(table: Floats) -> Floats:
        return np.concatenate([np.histogram(column, bins=2, range=(0.0, 1.0))[0] for column in table.T]).astype(float)

    estimator = PrivateHistogram(epsilon=epsilon, bounds=(0.0, 1.0), bins=2)
    return estimator_comparison(estimator, ["counts_"], sums, samples, random_state)


def _scaler(epsilon: float, samples: int, random_state: int) -> Comparison:
    def sums(table: Floats) -> Floats:
        z = 2 * table - 1
        return np.asarray(np.hstack([z, z * z]).sum(axis=0), dtype=np.float64)

    estimator = PrivateStandardScaler(epsilon=epsilon, bounds=(0.0, 1.0))
    return estimator_comparison(estimator, ["mean_", "scale_"], sums, samples, random_state)


_AUDITS: Final[dict[str, NamedAudit]] = {
    "laplace": NamedAudit(
        "Laplace noise on one number",
        100_000,
        lambda epsilon, samples, seed: noise_comparison(
            Laplace(1.0, epsilon), (np.zeros(1), np.ones(1)), samples, seed
        ),
    ),
    "laplace-vector": NamedAudit(
        "Laplace noise on a vector",
        100_000,
        lambda epsilon, samples, seed: noise_comparison(
            Laplace(1.0, epsilon, 2), (_ORIGIN, _L1_NEIGHBOUR), samples, seed
        ),
    ),
    "gaussian": NamedAudit(
        f"Gaussian noise on a vector, δ = {AUDITED_DELTA:g}",
        100_000,
        lambda epsilon, samples, seed: noise_comparison(
            Gaussian(1.0, epsilon, AUDITED_DELTA, 2), (_ORIGIN, _L2_NEIGHBOUR), samples, seed
        ),
    ),
    "gamma-norm": NamedAudit(
        "Euclidean gamma-norm noise on a vector",
        100_000,
        lambda epsilon, samples, seed: noise_comparison(
            GammaNorm(1.0, epsilon, 2), (_ORIGIN, _L2_NEIGHBOUR), samples, seed
        ),
    ),
    "PrivateMean": NamedAudit("PrivateMean of two columns", 2_000, _mean),
    "PrivateHistogram": NamedAudit("PrivateHistogram of two columns, two bins each", 2_000, _histogram),
    "PrivateStandardScaler": NamedAudit("PrivateStandardScaler of two columns", 2_000, _scaler),
    **{name: _linear_audit(case) for name, case in LINEAR_CASES.items()},
    **{name: _record_audit(case) for name, case in RECORD_CASES.items()},
    **{name: _synthesis_audit(case) for name, case in SYNTHESIS_CASES.items()},
    **{name: _gibbs_audit(case) for name, case in GIBBS_CASES.items()},
}
