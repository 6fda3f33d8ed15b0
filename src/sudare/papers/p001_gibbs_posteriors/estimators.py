"""§4.1 as an estimator: a linear classifier drawn from the Gibbs posterior of eq. 26, at eq. 27's inverse temperature or at the tight one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.frames.rows import Rows
from sudare.gibbs.mechanisms import LogisticDraws
from sudare.linear.losses import Logistic
from sudare.linear.mechanism import Facts
from sudare.linear.targets import accuracy_of, check_lengths, checked_classes, checked_labels, class_codes
from sudare.papers.p000_weak_learners.estimators import warn_of_shortened_rows
from sudare.papers.p001_gibbs_posteriors.inverse_temperatures import gaussian_beta
from sudare.papers.p001_gibbs_posteriors.theorems import approximate_sampling_delta
from sudare.parameter_checks import Numbers
from sudare.privacy.accounting import gaussian_delta
from sudare.privacy.array_checks import checked_matrix
from sudare.privacy.noise import noise_source

_NUMBERS: Final = {
    "epsilon": Numbers(0, open_low=True),
    "delta": Numbers(0, 1, open_low=True, open_high=True),
    "lam": Numbers(0, open_low=True),
    "R": Numbers(0, open_low=True),
}


def eq_27_beta(epsilon: float, delta: float, n: int, lam: float, R: float) -> float:
    """(ε/2R)·√(nλ/(1 + 2 log(1/δ))), as printed; the paper needs β below it."""
    return epsilon / (2 * R) * math.sqrt(n * lam / (1 + 2 * math.log(1 / delta)))


@dataclass(frozen=True)
class FixedBetaDraws(LogisticDraws):
    """Draws at a given β: `inverse_temperature` is what it is given, and `kept_delta` what follows from it."""

    beta: float = 1.0

    @cached_property
    def inverse_temperature(self) -> float:
        """As given."""
        return self.beta

    @property
    def kept_delta(self) -> float:
        """The δ that a draw keeps at ε: that of the tight profile and, where a chain could draw, what its distance adds (Theorem 12)."""
        facts = self.facts
        profile = gaussian_delta(2 * self.beta * facts.norm_bound / math.sqrt(self.beta * facts.penalty), self.epsilon)
        if self.proximal_plan is None:
            return profile
        return approximate_sampling_delta(self.epsilon, profile, float(self.proximal_plan.total_variation))


class GibbsPosteriorClassifier(ClassifierMixin, BaseEstimator):
    """(ε, `delta_`)-DP for two public `classes` as computed by the tight profile and the sampler's distance for rows of norm ≤ R; nothing of it can be released, and there is no ledger.

    Eqs. 24 to 27: sgn(aᵀz + b) with (a, b) from ∝ exp(−β Σ log(1 + e^{−y(aᵀz + b)}))·N(0, I/nλ), which is (25) made random. Longer rows are scaled down to norm R. `temperature` is "eq. 27" (β as
    printed, with R) or "tight" (with √(R² + 1), the norm of a row with its constant column). Without `classes`
    they are learned from y: `classes_` then shows a class that one record alone has, nothing is promised, and `delta_` is 1.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        lam: float = 0.01,
        R: float = 1.0,
        *,
        fit_intercept: bool = True,
        temperature: Literal["eq. 27", "tight"] = "eq. 27",
        classes: Sequence[Any] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon, self.delta, self.lam, self.R = epsilon, delta, lam, R
        self.fit_intercept, self.temperature = fit_intercept, temperature
        self.classes, self.random_state = classes, random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Draw once."""
        for name, numbers in _NUMBERS.items():
            numbers.check(name, getattr(self, name))
        if self.temperature not in ("eq. 27", "tight"):
            raise InvalidParameter('temperature must be "eq. 27" or "tight".', 'Use "tight".')
        rows, targets = checked_matrix(self, X, reset=True), checked_labels(y)
        check_lengths(len(rows), len(targets))
        self.classes_ = np.unique(targets) if self.classes is None else checked_classes(self.classes)
        if len(self.classes_) != 2:
            raise InvalidParameter("The paper's classifier has two classes.", "Use GibbsLogisticRegression for more.")
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        warn_of_shortened_rows(norms, self.R, "R")
        rows = self._with_constant(rows / np.maximum(1, norms / self.R))
        signs = np.where(class_codes(targets, self.classes_) == 1, 1.0, -1.0)
        n, precision = len(rows), len(rows) * self.lam
        norm = math.sqrt(self.R**2 + 1) if self.fit_intercept else self.R
        printed = eq_27_beta(self.epsilon, self.delta, n, self.lam, self.R)
        tight = self.temperature == "tight"
        self.beta_ = gaussian_beta(self.epsilon, self.delta, norm, precision) if tight else printed
        # Eq. 26's prior is not heated: exp(−(nλ/2)‖θ‖²) is exp(−β(ρ/2)‖θ‖²) with ρ = nλ/β.
        facts = Facts(n, rows.shape[1], norm * (1 + 2.0**-40), Logistic(), precision / self.beta_)
        method = FixedBetaDraws(facts, self.epsilon, self.delta, sampler="auto", beta=self.beta_)
        self.delta_ = 1.0 if self.classes is None else method.kept_delta
        sampled = method.sampled(Rows.held(rows, signs[:, np.newaxis]), noise_source(self.random_state))
        self.theta_: Floats = sampled.points[0, 0]
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """aᵀz + b; rows are scaled down as in fitting."""
        check_is_fitted(self)
        rows = checked_matrix(self, X, reset=False)
        rows = rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True) / self.R)
        return np.asarray(self._with_constant(rows) @ self.theta_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class on whose side a row is."""
        return np.asarray(self.classes_[(self.decision_function(X) > 0).astype(int)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy. Exact: for the owner only."""
        return accuracy_of(y, self.predict(X), sample_weight)

    def _with_constant(self, rows: Floats) -> Floats:
        return np.hstack([rows, np.ones((len(rows), 1))]) if self.fit_intercept else rows
