"""Audits of private linear models on pairs of neighbouring tables, by one replaced row, that are hard for each method.

Tables are in two dimensions or more: in one, half the sensitivity is nearly invisible.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from sklearn.base import clone

from sudare.array_types import Floats
from sudare.audit.claimed_and_measured_epsilon import AuditedMechanism, NamedAudit
from sudare.audit.linear_output_laws import law_epsilon
from sudare.frames.rows import Rows
from sudare.linear import PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge
from sudare.linear.linear_model import PrivateLinearModel
from sudare.linear.rows import bounded_rows
from sudare.privacy.accounting import gaussian_mu_within
from sudare.privacy.guarantee import Guarantee

# Rows and targets, the latter −1 and +1 (for ridge regression, numbers between).
Table = tuple[Floats, Floats]


@dataclass(frozen=True)
class LinearCase:
    """A model of every ε, two neighbouring tables, and how many fits to each."""

    subject: str
    samples: int
    model: Callable[[float], PrivateLinearModel]
    pair: tuple[Table, Table]

    def held(self) -> tuple[Rows, Rows]:
        """Both tables as the model sees them."""
        first, second = (Rows.held(bounded_rows(rows, 1.0)[0], targets[:, np.newaxis]) for rows, targets in self.pair)
        return first, second

    def at(self, epsilon: float) -> AuditedMechanism:
        """The model fitted again and again to both tables, and the law of its method on them."""
        unfitted = self.model(epsilon)
        claimed = Guarantee(unfitted.epsilon, unfitted.delta)
        model = clone(unfitted).fit(*self.pair[0])
        method = model.plan(model.n_rows_, model.declared_).mechanism
        # The claim's μ, not the method's: a method with too little noise has a larger one.
        mu = None if method.cost.mu is None else gaussian_mu_within(claimed.epsilon, claimed.delta)

        def fitted(table: Table) -> Floats:
            return np.asarray(clone(unfitted).fit(*table).parameters_.ravel())

        return AuditedMechanism(claimed, fitted, self.pair, law_epsilon(method, self.held()), mu, batched=False)


def flipped_pair() -> tuple[Table, Table]:
    """One unit row whose target goes from +1 to −1, beside five rows across."""
    rows = np.array([[1.0, 0.0], *[[0.0, 1.0]] * 5])
    first, second = np.ones(len(rows)), np.ones(len(rows))
    second[0] = -1.0
    return (rows, first), (rows, second)


def misclassified_pair(angle: float, others: Floats, count: int) -> tuple[Table, Table]:
    """A row at `angle` below the first axis, mirrored at the second: both ways it may be misclassified far off.

    The logistic loss pulls with its full slope only there. `others` is the row that holds the parameters in place.
    """
    along, down = math.cos(angle), -math.sin(angle)
    rest = np.tile(others, (count, 1))
    targets = np.ones(count + 1)
    return (np.vstack([[-along, down], rest]), targets), (np.vstack([[along, down], rest]), targets)


# Rows that hold the parameters in place, and the penalty ρ at which both ways of the replaced row pull hardest.
_OBJECTIVE_OTHERS, _OUTPUT_OTHERS, _OUTPUT_PENALTY = 400, 4096, 2.0
# A penalty that keeps scores near zero, where a hinge and a residual have their full slope.
_STIFF_PENALTY: Final = 2_000.0
# Residuals are capped so low that all gradients are clipped, always.
_LOW_CAP: Final = 0.01
_DELTA: Final = 1e-6

_FLIPPED: Final = flipped_pair()
_ACROSS_FIRST_AXIS: Final = misclassified_pair(0.35, np.array([1.0, 0.0]), _OBJECTIVE_OTHERS)
_ALONG_SECOND_AXIS: Final = misclassified_pair(0.465, np.array([0.0, 1.0]), _OUTPUT_OTHERS)


def _logistic(epsilon: float, **options: Any) -> PrivateLinearModel:
    return PrivateLogisticRegression(epsilon, classes=[-1, 1], fit_intercept=False, **options)


def _hinge(epsilon: float, **options: Any) -> PrivateLinearModel:
    return PrivateLinearSVC(epsilon, classes=[-1, 1], fit_intercept=False, **options)


def _ridge(epsilon: float, **options: Any) -> PrivateLinearModel:
    return PrivateRidge(epsilon, target_bounds=(-1, 1), fit_intercept=False, **options)


def _weight(penalty: float, pair: tuple[Table, Table]) -> float:
    """Λ of the penalty ρ = nΛ."""
    return penalty / len(pair[0][0])


CASES: Final[dict[str, LinearCase]] = {
    "PrivateLogisticRegression-objective": LinearCase(
        "PrivateLogisticRegression, objective perturbation",
        10_000,
        lambda epsilon: _logistic(epsilon, method="objective", regularization=_weight(1 / epsilon, _ACROSS_FIRST_AXIS)),
        _ACROSS_FIRST_AXIS,
    ),
    "PrivateLogisticRegression-output": LinearCase(
        "PrivateLogisticRegression, output perturbation",
        4_000,
        lambda epsilon: _logistic(
            epsilon, method="output", regularization=_weight(_OUTPUT_PENALTY, _ALONG_SECOND_AXIS)
        ),
        _ALONG_SECOND_AXIS,
    ),
    "PrivateLogisticRegression-descent": LinearCase(
        f"PrivateLogisticRegression, noisy descent, δ = {_DELTA:g}",
        3_000,
        lambda epsilon: _logistic(epsilon, delta=_DELTA, method="descent"),
        _FLIPPED,
    ),
    "PrivateLogisticRegression-mean": LinearCase(
        "PrivateLogisticRegression, mean message",
        18_000,
        lambda epsilon: _logistic(epsilon, method="mean"),
        _FLIPPED,
    ),
    "PrivateLinearSVC-objective": LinearCase(
        "PrivateLinearSVC, objective perturbation",
        16_000,
        lambda epsilon: _hinge(epsilon, method="objective", regularization=_weight(_STIFF_PENALTY, _FLIPPED)),
        _FLIPPED,
    ),
    "PrivateLinearSVC-output": LinearCase(
        "PrivateLinearSVC, output perturbation",
        16_000,
        lambda epsilon: _hinge(epsilon, method="output", regularization=_weight(_STIFF_PENALTY, _FLIPPED)),
        _FLIPPED,
    ),
    "PrivateRidge-objective": LinearCase(
        "PrivateRidge, objective perturbation",
        16_000,
        lambda epsilon: _ridge(epsilon, method="objective", regularization=_weight(_STIFF_PENALTY, _FLIPPED)),
        _FLIPPED,
    ),
    "PrivateRidge-descent": LinearCase(
        f"PrivateRidge, noisy descent, δ = {_DELTA:g}",
        3_000,
        lambda epsilon: _ridge(epsilon, delta=_DELTA, method="descent", residual_cap=_LOW_CAP),
        _FLIPPED,
    ),
}

AUDITS: Final = {name: NamedAudit(case.subject, case.samples, case.at) for name, case in CASES.items()}
