"""Gibbs posteriors of linear models as estimators: one draw is the model."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Final, Literal, Self, cast

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.frames.rows import Rows
from sudare.gibbs.default_penalties import ball_penalty, public_penalty, pure_logistic_penalty, squared_oscillation
from sudare.gibbs.mechanisms import (
    SAMPLERS,
    LinearDraws,
    LogisticDraws,
    RidgeDraws,
    Sampled,
    SamplerName,
    check_drawing,
)
from sudare.gibbs.pac_bayes import risk_bound
from sudare.gibbs.temperatures import pure_beta
from sudare.linear.estimators import PrivateLogisticRegression, PrivateRidge
from sudare.linear.linear_model import PrivateLinearModel
from sudare.linear.losses import CappedSquares, Loss
from sudare.linear.mechanism import Facts
from sudare.parameter_checks import Numbers
from sudare.privacy.fit_plan import Plan
from sudare.privacy.guarantee import DEFAULT_DELTA
from sudare.privacy.ledger import Account
from sudare.safe_text import told
from sudare.schema import Schema

_METHOD: Final = "gibbs"
_RADIUS: Final = Numbers(2.0**-100, 2.0**100, optional=True)
# Scores of pure logistic draws are at most this in size unless a radius is given.
_LARGEST_PURE_SCORE: Final = 4.0


class GibbsLinearModel(PrivateLinearModel):
    """A linear model drawn from a Gibbs posterior. Subclasses say how."""

    methods: ClassVar[tuple[str, ...]] = (_METHOD,)
    # How many proposals were needed, which sampler was used, and bounds on the risk tell about the records.
    for_the_owner = (*PrivateLinearModel.for_the_owner, "acceptance_", "sampler_", "pac_bayes_bound_")
    method = "auto"
    sampling_rate: float | None = None

    draws: int
    fixed_work: bool

    draws_: Floats
    inverse_temperature_: float
    total_variation_: float
    acceptance_: float
    sampler_: SamplerName

    @abstractmethod
    def _mechanism(self, facts: Facts) -> LinearDraws:
        """The mechanism for these public facts; a penalty of 0 stands for the public rule."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Charge, then draw. What X and y may be, `PrivateLogisticRegression.fit` says."""
        self._forget()
        self._check_parameters()
        rows = self._read_rows(X, y)
        plan = self.plan(rows.count, self.declared_)
        passage = self._enter(plan)
        method = plan.mechanism
        sampled = method.sampled(rows, passage.noise)
        self.draws_ = sampled.points
        self._set_parameters(method.combined(sampled.points))
        self.sampler_, self.acceptance_ = sampled.sampler, sampled.acceptance
        self._set_owner_facts(rows, sampled)
        self._seal()
        return self

    def _set_owner_facts(self, rows: Rows, sampled: Sampled) -> None:
        """Set attributes that are exact facts about the records, for the owner only."""

    def plan(self, rows: int, declared: Schema) -> Plan[LinearDraws]:
        """Method and guarantee for so many rows of these columns; sets what is public about the method."""
        self._choose_encoding(rows, declared)
        penalty = 0.0 if self.regularization is None else float(cast(float, self.regularization)) * rows
        method = self._mechanism(self._facts(rows, declared, penalty))
        self.method_ = _METHOD  # type: ignore[assignment]
        self.n_rows_, self.grid_, self.noise_scale_ = rows, method.grid, method.noise_scale
        self.penalty_, self.inverse_temperature_ = method.penalty, method.inverse_temperature
        self.total_variation_ = float(method.cost.total_variation)
        return Plan(method, self._guarantee(declared))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_drawing(self.draws, self.fixed_work)
        if self.regularization is not None and not isinstance(self.regularization, Real):
            raise InvalidParameter("regularization must be one positive number or None.", "Use None.")


@dataclass(eq=False, repr=False)
class GibbsLogisticRegression(GibbsLinearModel, PrivateLogisticRegression):
    """(ε, δ)-DP logistic regression, ε-DP with delta = 0: a draw from a Gibbs posterior, replace-one rows. Proofs: proofs/gibbs.md, proofs/proximal.md.

    Parameters
    ----------
    epsilon, delta : the promise; with delta = 0 it is pure, and parameters lie in a ball.
    norm_bound : public bound on the Euclidean norm of a row of an array; longer rows are scaled down to it. None is 1, with
        a warning where rows were longer. With a schema the bound comes from the schema.
    regularization : Λ of mean loss + (Λ/2)‖θ‖²; None for a public rule.
    radius : parameters lie in ‖θ‖ ≤ radius; None for everywhere, or with delta = 0 for 4 over the row norm. With delta = 0 a larger ball costs noise.
    fit_intercept : whether a penalised constant column is added; it counts into the row norm.
    classes : all classes there can be. Learned from y where neither they nor a schema are given: the guarantee is void then, and a
        fit with an account is refused.
    schema, encoding : declared columns, and how they become numbers: "centred", "scaled" or "binned", or "auto" (a public rule of rows and columns; docs/linear.md).
    draws : how many draws are made and averaged. They share the budget: each is noisier than one draw alone would be.
    sampler : "exact" (rejection, total variation zero), "proximal" (a chain, whose distance is charged), or "auto":
        exact where that is quick, else proximal.
    fixed_work : makes the number of proposals of the exact sampler constant, because it tells something about the records.
    account : who pays. Without one the model may be looked at by its owner but not released.
    random_state : a seed, for tests and simulation only; it voids the guarantee.

    Attributes
    ----------
    coef_, intercept_, classes_ : as in scikit-learn, of the mean of the draws.
    draws_ : the draws (draw × output × parameter), paid for.
    inverse_temperature_, penalty_, grid_, noise_scale_ : β, ρ = nΛ, the grid of the parameters, the prior's deviation (public).
    total_variation_ : what the sampler's distance may be, as charged; 0 with "exact".
    acceptance_, sampler_, pac_bayes_bound_ : accepted share of proposals, sampler used, and a bound on the risk of the model that holds with
        probability 0.95 for independent records. Exact facts about the records, for the owner only.
    guarantee_, receipt_ : what is promised, and the ledger entry that was written first.
    """

    epsilon: float = 1.0
    delta: float = DEFAULT_DELTA
    _: KW_ONLY
    norm_bound: float | None = None
    regularization: float | None = None
    radius: float | None = None
    fit_intercept: bool = True
    classes: Sequence[Any] | None = None
    schema: Schema | None = None
    encoding: Literal["auto", "binned", "centred", "scaled"] = "centred"
    draws: int = 1
    sampler: Literal["auto", "exact", "proximal"] = "auto"
    fixed_work: bool = False
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None
    # Parameters of the linear models that a draw does not have.
    method: ClassVar[str] = "auto"  # type: ignore[misc]
    sampling_rate: ClassVar[float | None] = None  # type: ignore[misc]
    cluster: ClassVar[Any] = None  # type: ignore[misc]
    decision: ClassVar[Literal["likeliest"]] = "likeliest"  # type: ignore[misc]
    extra_parameters = GibbsLinearModel.extra_parameters  # type: ignore[assignment]
    later_parameters = ()  # type: ignore[assignment]

    def _mechanism(self, facts: Facts) -> LogisticDraws:
        epsilon, delta, draws = float(self.epsilon), float(self.delta), int(self.draws)
        radius = None if self.radius is None else float(self.radius)
        if delta == 0 and radius is None:
            radius = _LARGEST_PURE_SCORE / facts.norm_bound
        if facts.penalty == 0:
            if delta == 0 and radius is not None:
                penalty = pure_logistic_penalty(facts, radius, epsilon, draws)
            else:
                penalty = public_penalty(facts, epsilon, delta, draws)
            facts = replace(facts, penalty=penalty)
        return LogisticDraws(facts, epsilon, delta, draws, self.sampler, bool(self.fixed_work), radius)

    def _set_owner_facts(self, rows: Rows, sampled: Sampled) -> None:
        several_rows = self.declared_.person is not None and self.declared_.person.bound > 1
        error_rate = self._error_rate(rows)
        # Rows of one person are not independent, and the prior of a ball is another one, so nothing is known then.
        unknown = several_rows or math.isnan(sampled.log_ratio)
        self.pac_bayes_bound_ = math.nan if unknown else risk_bound(error_rate, sampled.log_ratio, rows.count)

    def _error_rate(self, rows: Rows) -> float:
        wrong = 0
        for matrix, targets in rows.blocks():
            scores = matrix @ self.parameters_.T
            if self._outputs() == 1:
                wrong += int(np.count_nonzero((scores > 0) != (targets > 0)))
            else:
                wrong += int(np.count_nonzero(np.argmax(scores, axis=1) != np.argmax(targets, axis=1)))
        return wrong / rows.count

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _RADIUS.check("radius", self.radius)
        if self.sampler not in SAMPLERS:
            raise InvalidParameter(
                f"sampler must be one of {', '.join(SAMPLERS)}, got {told(self.sampler)}.", 'Use sampler="auto".'
            )


@dataclass(eq=False, repr=False)
class GibbsRidge(GibbsLinearModel, PrivateRidge):
    """(ε, δ)-DP ridge regression of bounded targets, ε-DP with delta = 0: a draw from a Gibbs posterior on a ball, replace-one rows. Proof: proofs/gibbs.md.

    Targets are clipped to the public `target_bounds` (or those of the schema's target) and scaled to [−1, 1]; the loss is the plain squared loss. Parameters lie
    within the public `radius` (of the scaled problem; None for 2 over the row norm, which lets predictions reach twice the targets' half-range). A
    larger radius costs noise. Other parameters are those of GibbsLogisticRegression.
    """

    # The loss is the plain squared one.
    residual_cap: ClassVar[float] = 1.0  # type: ignore[misc]

    epsilon: float = 1.0
    delta: float = DEFAULT_DELTA
    _: KW_ONLY
    target_bounds: tuple[float, float] | None = None
    norm_bound: float | None = None
    radius: float | None = None
    regularization: float | None = None
    fit_intercept: bool = True
    schema: Schema | None = None
    encoding: Literal["auto", "binned", "centred", "scaled"] = "centred"
    draws: int = 1
    fixed_work: bool = False
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None
    # Parameters of the linear models that a draw does not have.
    method: ClassVar[str] = "auto"  # type: ignore[misc]
    sampling_rate: ClassVar[float | None] = None  # type: ignore[misc]
    cluster: ClassVar[Any] = None  # type: ignore[misc]

    def _loss(self) -> Loss:
        return CappedSquares(1e6)

    def _mechanism(self, facts: Facts) -> RidgeDraws:
        epsilon, delta, draws = float(self.epsilon), float(self.delta), int(self.draws)
        radius = 2 / facts.norm_bound if self.radius is None else float(self.radius)
        if facts.penalty == 0:
            if delta == 0:
                beta = pure_beta(epsilon / draws, squared_oscillation(facts, radius))
                penalty = ball_penalty(facts, radius, beta)
            else:
                penalty = public_penalty(facts, epsilon, delta, draws, facts.norm_bound * radius / 2 + 1)
            facts = replace(facts, penalty=penalty)
        return RidgeDraws(facts, radius, epsilon, delta, draws, bool(self.fixed_work))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _RADIUS.check("radius", self.radius)

    def _written_target(self) -> Any:
        return {"low": self.target_bounds_[0], "high": self.target_bounds_[1]}

    def _take_target(self, written: Any) -> None:
        if not isinstance(written, dict) or set(written) != {"low", "high"}:
            raise TypeError("not the bounds of a target")
        super()._take_target({**written, "residual_cap": 1.0})
