"""Gibbs posteriors of losses that a user supplies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Final, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.utils.validation import check_is_fitted

from sudare.errors import DataError, InvalidParameter, NotSolved
from sudare.gibbs.lazy_uniforms import log_uniforms, normals
from sudare.gibbs.mechanisms import FIXED_PROPOSALS, check_drawing
from sudare.gibbs.temperatures import proportional_beta
from sudare.linear.rows import bounded_rows, norm_bounded_columns
from sudare.linear.solvers import nesterov_step
from sudare.linear.targets import check_lengths, checked_numbers, missing_y
from sudare.parameter_checks import Numbers
from sudare.privacy.accounting import Cost, gaussian_cost, gaussian_mu_within
from sudare.privacy.array_checks import checked_matrix
from sudare.privacy.guarantee import DEFAULT_DELTA
from sudare.privacy.ledger import Account
from sudare.privacy.mechanisms import power_of_two_below
from sudare.privacy.noise import NoiseSource
from sudare.privacy.private_estimator import Plan, PrivateEstimator, TensorRule, check_shapes
from sudare.privacy.release_content import Content, on_grid
from sudare.schema import Schema

Floats = NDArray[np.float64]
Function = Callable[..., Any]

_LARGEST: Final = 2.0**100
_POSITIVE: Final = Numbers(1 / _LARGEST, _LARGEST)
_NUMBERS: Final = {
    "lipschitz": _POSITIVE,
    "norm_bound": _POSITIVE,
    "regularization": _POSITIVE,
    "strong_convexity": Numbers(0, _LARGEST),
    "smoothness": Numbers(0, _LARGEST, optional=True),
    "dimension": Numbers(1, whole=True, optional=True),
}
_MOST_PROPOSALS: Final = 100_000
_BLOCK: Final = 64
# Accelerated steps, times √(M/m): they take e⁻¹⁵⁰ off the height above the minimum, more than there are digits.
_ACCELERATED_STEPS: Final = 300
_GRID_BITS: Final = 20
# Part of the precision that pays for the gradient that is left at the computed mode.
_SHARE: Final = 2.0**-10
_LARGEST_COST: Final = 1e-2
# Log acceptance above this shows that the loss is not what it was declared to be; below, it is rounding.
_ROUNDING: Final = 1e-6


@dataclass(frozen=True)
class CustomDraws:
    """(ε, δ)-DP and μ-GDP draws from exp(−β(Σ loss + (ρ/2)‖θ‖²)), replace-one rows, if the loss is as declared. Proof: proofs/gibbs.md.

    With a declared `smoothness` draws go on until they are done, and what could take too long is refused beforehand, from public facts.
    Without one they give up where that seems hopeless, which tells something about the records: for their owner only.
    """

    rows: int
    dimension: int
    lipschitz: float
    strong_convexity: float
    penalty: float
    epsilon: float
    delta: float
    draws: int = 1
    fixed_work: bool = False
    smoothness: float | None = None

    def __post_init__(self) -> None:
        _ = self.cost, self.inverse_temperature
        if self.smoothness is not None and not self.least_acceptance * _MOST_PROPOSALS >= 1:
            raise InvalidParameter(
                "The sampler could need too many proposals with so many rows and parameters, depending on the records.",
                "Use a larger regularization, fewer parameters, or a smoother loss.",
            )

    @property
    def least_acceptance(self) -> float:
        """A share of proposals that is accepted for every table, if the losses are as smooth as declared; 0 where nothing is declared.

        The posterior's curvature is at most β(ρ + nM_ℓ) in each direction, the proposals' β(ρ + nm_ℓ) less a 2⁻¹⁰th.
        """
        if self.smoothness is None:
            return 0.0
        ratio = self.convexity * (1 - _SHARE) / self._stiffness
        return math.exp(self.dimension / 2 * math.log(ratio) - _LARGEST_COST)

    @property
    def _stiffness(self) -> float:
        """ρ + nM_ℓ, or as if every curvature were the least one where nothing is declared."""
        declared = self.strong_convexity if self.smoothness is None else self.smoothness
        return self.penalty + self.rows * max(declared, self.strong_convexity)

    @cached_property
    def cost(self) -> Cost:
        """Gaussian with the largest μ that (ε, δ) allows."""
        return gaussian_cost(self.epsilon, self.delta)

    @property
    def convexity(self) -> float:
        """That of the summed losses and the penalty: ρ + nm_ℓ."""
        return self.penalty + self.rows * self.strong_convexity

    @cached_property
    def inverse_temperature(self) -> float:
        """β with 2βL/√(β(ρ + nm_ℓ)) = μ."""
        square = gaussian_mu_within(self.epsilon, self.delta) ** 2 / self.draws
        return proportional_beta(square, self.lipschitz, self.convexity)

    @property
    def noise_scale(self) -> float:
        """The largest standard deviation that a parameter can have."""
        return 1 / math.sqrt(self.inverse_temperature * self.convexity)

    @cached_property
    def grid(self) -> float:
        """The grid of the draws: about a millionth of the noise scale."""
        return power_of_two_below(self.noise_scale) * 2.0**-_GRID_BITS

    def sampled(
        self, energy: Callable[[Floats], float], slope: Callable[[Floats], Floats], source: NoiseSource
    ) -> tuple[Floats, float]:
        """Draws on the grid, and the share of accepted proposals; `energy` is the summed loss, `slope` its gradient, both in floats."""
        mode, left = self._mode(energy, slope)
        lowest = energy(mode) + self.penalty / 2 * float(mode @ mode)
        cost = self._gradient_cost(left)
        if self.smoothness is None and not cost <= _LARGEST_COST:
            raise NotSolved("The mode of the posterior could not be found well enough.", "Check loss and gradient.")
        deviation = self.noise_scale / math.sqrt(1 - _SHARE)
        accepted: list[Floats] = []
        made, width = 0, self.dimension + self.dimension % 2
        most = math.inf if self.smoothness is not None else _MOST_PROPOSALS * self.draws
        least = FIXED_PROPOSALS * self.draws if self.fixed_work else 0
        while made < most and (len(accepted) < self.draws or made < least):
            size = _BLOCK if len(accepted) < self.draws else min(_BLOCK, least - made)
            words = source.words(size * (width + 1)).reshape(size, -1)
            noise = normals(words[:, 1:])[0][:, : self.dimension]
            for normal, limit in zip(noise, log_uniforms(words[:, 0])[0], strict=True):
                point = mode + deviation * normal
                rise = energy(point) + self.penalty / 2 * float(point @ point) - lowest
                log_ratio = -self.inverse_temperature * rise + 0.5 * float(normal @ normal) - cost
                if not log_ratio <= _ROUNDING * (1 + self.inverse_temperature * abs(rise)):
                    raise DataError(
                        "The loss is not as convex as declared, or not a number.", "Check loss, gradient and convexity."
                    )
                made += 1
                if limit < log_ratio:
                    accepted.append(point)
                if len(accepted) >= self.draws and made >= least:
                    break
        if len(accepted) < self.draws:
            raise NotSolved(f"The sampler accepted too few of {most} proposals.", "Use a larger regularization.")
        return on_grid(np.array(accepted[: self.draws]), self.grid), len(accepted) / made

    def _gradient_cost(self, gradient_norm: float) -> float:
        return self.inverse_temperature * gradient_norm**2 / (2 * _SHARE * self.convexity)

    def _mode(self, energy: Callable[[Floats], float], slope: Callable[[Floats], Floats]) -> tuple[Floats, float]:
        """A point near the mode, and the gradient's norm there with something for its rounding."""

        def value(point: Floats) -> float:
            return energy(point) + self.penalty / 2 * float(point @ point)

        def gradient(point: Floats) -> Floats:
            return slope(point) + self.penalty * point

        options = {"maxiter": 10_000, "ftol": 0.0, "gtol": 0.0}

        def left(point: Floats) -> float:
            return float(np.linalg.norm(gradient(point))) * (1 + 1e-6) + 1e-12 * self.rows * self.lipschitz

        found = minimize(value, np.zeros(self.dimension), jac=gradient, method="L-BFGS-B", options=options)
        mode = np.asarray(found.x, dtype=np.float64)
        if self.smoothness is not None and not self._gradient_cost(left(mode)) <= _LARGEST_COST:
            mode = self._accelerated(gradient)
        return mode, left(mode)

    def _accelerated(self, gradient: Callable[[Floats], Floats]) -> Floats:
        """Near the mode, by as many of Nesterov's steps as a smooth loss needs wherever it starts from (proofs/solver.md)."""
        rate = math.sqrt(self.convexity / self._stiffness)
        low, high = np.zeros(self.dimension), np.zeros(self.dimension)
        for _ in range(math.ceil(_ACCELERATED_STEPS / rate)):
            step = nesterov_step(gradient, low, high, self.convexity, rate)
            low, high = step.low, step.high
        return low


@dataclass(eq=False, repr=False)
class GibbsPosterior(PrivateEstimator):
    """(ε, δ)-DP draws from the Gibbs posterior of a loss of your own, replace-one rows. Proof: proofs/gibbs.md.

    The promise rests on what you declare: that the gradients of any two records' losses differ by at most 2·lipschitz wherever θ is, and that each loss is convex.
    The loss is evaluated in floats, so unlike the other estimators here this one is not exact to the last bit. Arrays only.

    Parameters
    ----------
    loss : loss(theta, X), or loss(theta, X, y) with target_bounds: one number a row.
    gradient : gradient(theta, X) or gradient(theta, X, y): of the *sum* over the rows. None where JAX is installed and the loss is written for it.
    lipschitz, strong_convexity : L and m_ℓ of the losses of rows within `norm_bound`, whatever θ.
    smoothness : M_ℓ: no loss bends more than that, whatever θ. Needed with an account: without it a draw may have to be given up after it was
        paid for, depending on the records, and that would tell.
    dimension : of θ; None for the number of columns.
    epsilon, delta : the promise; delta must be positive.
    norm_bound : public bound on the Euclidean norm of a row; longer rows are scaled down to it.
    target_bounds : public bounds that y is clipped to; None if the loss takes no y.
    regularization : Λ of mean loss + (Λ/2)‖θ‖².
    draws, fixed_work, account, random_state : as in GibbsLogisticRegression.

    Attributes
    ----------
    parameters_ : the mean of the draws, on the grid.
    draws_, inverse_temperature_, total_variation_, penalty_, grid_, noise_scale_, acceptance_, sampler_, guarantee_, receipt_ : as in GibbsLogisticRegression.
    """

    # How many proposals were needed tells about the records.
    for_the_owner = (*PrivateEstimator.for_the_owner, "acceptance_")
    bounds = None
    schema = None

    loss: Function | None = None
    gradient: Function | None = None
    _: KW_ONLY
    lipschitz: float = 1.0
    strong_convexity: float = 0.0
    smoothness: float | None = None
    dimension: int | None = None
    epsilon: float = 1.0
    delta: float = DEFAULT_DELTA
    norm_bound: float = 1.0
    target_bounds: tuple[float, float] | None = None
    regularization: float = 1.0
    draws: int = 1
    fixed_work: bool = False
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None

    def plan(self, rows: int, declared: Schema) -> Plan[CustomDraws]:
        """Method and guarantee for so many rows."""
        dimension = len(declared.columns) if self.dimension is None else int(self.dimension)
        method = CustomDraws(
            rows,
            dimension,
            float(self.lipschitz),
            float(self.strong_convexity),
            float(self.regularization) * rows,
            float(self.epsilon),
            float(self.delta),
            int(self.draws),
            bool(self.fixed_work),
            None if self.smoothness is None else float(self.smoothness),
        )
        return Plan(method, self._guarantee(declared))

    def _plan_for(self, X: Any, y: Any) -> Plan[CustomDraws]:
        self._check_parameters()
        return self.plan(len(self._records(X, y, reset=True)[0]), self.declared_)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Charge, then draw."""
        self._forget()
        self._check_parameters()
        records = self._records(X, y, reset=True)
        loss, gradient = self._functions()
        rows = len(records[0])
        plan = self.plan(rows, self.declared_)
        method = plan.mechanism
        _check_functions(loss, gradient, method.dimension, records)
        passage = self._enter(plan)
        self.n_rows_, self.grid_, self.noise_scale_ = rows, method.grid, method.noise_scale
        self.penalty_, self.inverse_temperature_ = method.penalty, method.inverse_temperature
        self.total_variation_, self.sampler_ = float(method.cost.total_variation), "exact"
        self.draws_, self.acceptance_ = method.sampled(
            lambda point: float(np.sum(_losses(loss, point, records))),
            lambda point: np.asarray(gradient(point, *records), dtype=np.float64),
            passage.noise,
        )
        self.parameters_ = on_grid(self.draws_.mean(axis=0), self.grid_)
        self._seal()
        return self

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean loss at `parameters_`. Exact: for the owner only."""
        check_is_fitted(self)
        return -float(np.mean(_losses(self._functions()[0], self.parameters_, self._records(X, y, reset=False))))

    def _functions(self) -> tuple[Function, Function]:
        """Loss and gradient."""
        loss = cast(Function, self.loss)
        return _by_jax(loss) if self.gradient is None else (loss, self.gradient)

    def _records(self, X: Any, y: Any, *, reset: bool) -> tuple[Floats, ...]:
        """Rows within the norm bound, and targets within their bounds where the loss takes any."""
        matrix = checked_matrix(self, X, reset=reset)
        if reset:
            self._keep(norm_bounded_columns(matrix.shape[1], float(self.norm_bound)), None)
        rows = bounded_rows(matrix, float(self.norm_bound))[0]
        if self.target_bounds is None:
            return (rows,)
        if y is None:
            raise missing_y()
        targets = checked_numbers(y)
        check_lengths(len(rows), len(targets))
        return rows, np.clip(targets, *self.target_bounds)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_drawing(self.draws, self.fixed_work)
        if not callable(self.loss) or not (self.gradient is None or callable(self.gradient)):
            raise InvalidParameter("loss and gradient must be functions.", "Give loss=lambda theta, X: ….")
        for name, numbers in _NUMBERS.items():
            numbers.check(name, getattr(self, name))
        if self.smoothness is None and self.account is not None:
            raise InvalidParameter(
                "With an account GibbsPosterior needs the smoothness of the loss.",
                "Give smoothness=M, the largest second derivative of one row's loss in any direction, or leave account out.",
            )

    # What leaves

    def release_content(self) -> Content:
        """The parameters. The loss is code, and stays."""
        return self._content({"parameters": self.parameters_}, {"parameters": self.grid_})

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there is one vector of floats; the loss determines its length and values."""
        count = sum(tensor.size for tensor in content.tensors.values())
        check_shapes(content, {"parameters": TensorRule(count, np.float64)})

    def _take(self, content: Content) -> None:
        self.parameters_, self.grid_ = content.tensors["parameters"], content.grid("parameters")


def _losses(loss: Function, point: Floats, records: tuple[Floats, ...]) -> Floats:
    losses = np.asarray(loss(point, *records), dtype=np.float64)
    if losses.shape != (len(records[0]),):
        raise InvalidParameter("loss must give one number a row.", "Return an array as long as X.")
    return losses


def _check_functions(loss: Function, gradient: Function, dimension: int, records: tuple[Floats, ...]) -> None:
    """Raise unless loss and gradient give numbers of the right shapes at zero: what is wrong with them is told before a charge."""
    origin = np.zeros(dimension)
    losses, slope = _losses(loss, origin, records), np.asarray(gradient(origin, *records), dtype=np.float64)
    if slope.shape != (dimension,):
        raise InvalidParameter("gradient must give one number a parameter.", "Return the gradient of the summed loss.")
    if not (np.all(np.isfinite(losses)) and np.all(np.isfinite(slope))):
        raise DataError("The loss or its gradient is not a number at zero.", "Check loss and gradient.")


def _by_jax(loss: Function) -> tuple[Function, Function]:
    """The loss and the gradient of its sum, both by JAX in double precision."""
    try:
        import jax  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise InvalidParameter(
            "No gradient was given, and JAX is not installed.", "Give gradient=lambda theta, X: …."
        ) from None
    library: Any = jax
    slope = library.grad(lambda point, *records: loss(point, *records).sum())

    def doubled(function: Function) -> Function:
        def evaluated(point: Floats, *records: Floats) -> Floats:
            with library.enable_x64(True):
                return np.asarray(function(point, *records), dtype=np.float64)

        return evaluated

    return doubled(loss), doubled(slope)
