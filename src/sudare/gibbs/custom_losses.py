"""Gibbs posteriors of losses that a user supplies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter
from sudare.frames.sources import in_memory
from sudare.gibbs.custom_draws import CUSTOM_SAMPLERS, CandidateDraws, CustomDraws
from sudare.gibbs.mechanisms import check_drawing
from sudare.gibbs.priors import Prior, check_prior, check_prior_at, check_prior_of_candidates
from sudare.linear.rows import bounded_rows, norm_bounded_columns
from sudare.linear.targets import check_lengths, checked_numbers, missing_y
from sudare.parameter_checks import Numbers
from sudare.privacy.array_checks import checked_matrix
from sudare.privacy.fit_plan import Plan
from sudare.privacy.guarantee import DEFAULT_DELTA
from sudare.privacy.ledger import Account
from sudare.privacy.mechanisms import power_of_two_below
from sudare.privacy.private_estimator import PrivateEstimator
from sudare.privacy.release_content import Content, TensorRule, check_shapes, on_grid
from sudare.safe_text import told
from sudare.schema import Schema, Table

Function = Callable[..., Any]

_LARGEST: Final = 2.0**100
_POSITIVE: Final = Numbers(1 / _LARGEST, _LARGEST)
_OPTIONAL: Final = Numbers(1 / _LARGEST, _LARGEST, optional=True)
_NUMBERS: Final = {
    "lipschitz": _POSITIVE,
    "norm_bound": _POSITIVE,
    "regularization": Numbers(0, _LARGEST),
    "strong_convexity": Numbers(0, _LARGEST),
    "smoothness": Numbers(0, _LARGEST, optional=True),
    "laplacian": Numbers(0, _LARGEST, optional=True),
    "radius": _OPTIONAL,
    "beta": _OPTIONAL,
    "dimension": Numbers(1, whole=True, optional=True),
}
_MOST_CANDIDATES: Final = 1_000_000
_CANDIDATE_BITS: Final = 40


@dataclass(eq=False, repr=False)
class GibbsPosterior(PrivateEstimator):
    """(ε, δ)-DP draws from the Gibbs posterior of a loss of your own, ε-DP with delta = 0, replace-one rows. Proofs: proofs/gibbs.md, proofs/smooth_samplers.md.

    The promise rests on what you declare. With delta > 0: that the gradients of any two records' losses differ by at most 2·lipschitz (they do where none is longer than lipschitz), and that each loss is convex. With
    delta = 0 and `candidates`: nothing but that a row's loss depends on no other row; losses outside of `loss_range` are clipped. With delta = 0 and a radius: that losses are
    convex and lie within `loss_range` for all θ within `radius`. Where a loss is seen not to be as declared the fit stops after the charge, and that tells something about
    the records: clip inside of your loss what rows could do to it, or take candidates. Arrays only.

    Parameters
    ----------
    loss : loss(theta, X), or loss(theta, X, y) with target_bounds: one number a row.
    gradient : gradient(theta, X) or gradient(theta, X, y): of the *sum* over the rows. None where JAX is installed and the loss is written for it, and
        with candidates.
    lipschitz, strong_convexity : L and m_ℓ of the losses of rows within `norm_bound`, for all θ within `radius`; losses must be defined and convex everywhere.
    smoothness : M_ℓ: no loss bends more than that in any direction. Needed with an account: without it a draw may have to be given up after it was
        paid for, depending on the records, and that would tell.
    laplacian : no loss bends more than that in all directions together (the trace of its second derivatives); None for dimension·smoothness. For a function of xᵀθ it is
        the smoothness itself, and fewer steps have to be allowed for, by the dimension.
    dimension : of θ; None for the number of columns.
    epsilon, delta : the promise; pure with delta = 0, which needs a loss_range.
    norm_bound : public bound on the Euclidean norm of a row; longer rows are scaled down to it.
    target_bounds : public bounds that y is clipped to; None if the loss takes no y.
    regularization : Λ of mean loss + (Λ/2)‖θ‖², where there is no prior: exp(−β(nΛ/2)‖θ‖²) takes its place. 0 only with delta = 0 and a radius.
    prior : NormalPrior, LogConcavePrior, or anything with their names: strongly log-concave unless delta = 0. β does not change it. It must be public:
        fixed before the records were seen.
    radius : θ lies within this distance of zero; None for everywhere.
    loss_range : (low, high), between which losses lie for all θ within `radius`; with `candidates` they are clipped to it.
    beta : β; None for the largest that epsilon and delta allow. One that is larger is refused; a smaller one is charged for what it is with
        delta > 0, and with the full epsilon where delta = 0.
    candidates : an array of points, one a row, among which one is drawn (delta = 0); fixed before the records were seen and never rows of the table. Losses may be
        of any shape.
    sampler : "exact" (delta = 0 only: total variation zero to the last bit), "rejection" (zero but for rounding in floats), "proximal" (a chain in floats, whose distance
        is charged), "langevin" (a chain in floats that is private by itself, near the posterior only as `wasserstein_distance_` says), or "auto".
    draws, fixed_work, account, random_state : as in GibbsLogisticRegression; Langevin's work is always fixed.

    Attributes
    ----------
    parameters_ : the mean of the draws, on the grid.
    sampler_ : the sampler that was used: a function of public facts.
    wasserstein_distance_ : with "langevin", a bound on W₂ between draw and posterior, in units of the largest deviation; infinite with `radius`, and where the mean
        gradient at zero is longer than lipschitz, which tells about the records: it stays with the owner. Else 0.
    draws_, inverse_temperature_, total_variation_, penalty_, grid_, noise_scale_, acceptance_, guarantee_, receipt_ : as in GibbsLogisticRegression.
    """

    # How many proposals were needed tells about the records, and so does how long their gradient is.
    for_the_owner = (*PrivateEstimator.for_the_owner, "acceptance_", "wasserstein_distance_")
    bounds = None
    schema = None

    loss: Function | None = None
    gradient: Function | None = None
    _: KW_ONLY
    lipschitz: float = 1.0
    strong_convexity: float = 0.0
    smoothness: float | None = None
    laplacian: float | None = None
    dimension: int | None = None
    epsilon: float = 1.0
    delta: float = DEFAULT_DELTA
    norm_bound: float = 1.0
    target_bounds: tuple[float, float] | None = None
    regularization: float = 1.0
    prior: Prior | None = None
    radius: float | None = None
    loss_range: tuple[float, float] | None = None
    beta: float | None = None
    candidates: ArrayLike | None = None
    draws: int = 1
    sampler: Literal["auto", "exact", "rejection", "proximal", "langevin"] = "auto"
    fixed_work: bool = False
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None

    def plan(self, rows: int, declared: Schema) -> Plan[CustomDraws | CandidateDraws]:
        """Method and guarantee for so many rows."""
        method: CustomDraws | CandidateDraws
        beta = None if self.beta is None else float(self.beta)
        if self.candidates is not None:
            method = CandidateDraws(rows, self._range(), float(self.epsilon), int(self.draws), beta, self.prior)
            if self.prior is not None:
                check_prior_of_candidates(self.prior, self._candidates())
        else:
            width = len(declared.columns) if self.dimension is None else int(self.dimension)
            if self.prior is not None:
                check_prior_at(self.prior, np.zeros(width))
            method = CustomDraws(
                rows,
                width,
                float(self.lipschitz),
                float(self.strong_convexity),
                float(self.regularization) * rows,
                float(self.epsilon),
                float(self.delta),
                int(self.draws),
                bool(self.fixed_work),
                None if self.smoothness is None else float(self.smoothness),
                None if self.laplacian is None else float(self.laplacian),
                self.prior,
                None if self.radius is None else float(self.radius),
                None if self.loss_range is None else self._range(),
                beta,
                self.sampler,
            )
        return Plan(method, self._guarantee(declared))

    def _plan_for(self, X: Any, y: Any) -> Plan[CustomDraws | CandidateDraws]:
        self._check_parameters()
        return self.plan(len(self._records(X, y, reset=True)[0]), self.declared_)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Charge, then draw."""
        self._forget()
        self._check_parameters()
        records = self._records(X, y, reset=True)
        rows = len(records[0])
        plan = self.plan(rows, self.declared_)
        method = plan.mechanism
        if isinstance(method, CandidateDraws):
            loss, candidates = cast(Function, self.loss), self._candidates()
            _losses(loss, candidates[0], records)
            passage = self._enter(plan)
            self.sampler_, self.wasserstein_distance_ = "exact", 0.0
            self.grid_, self.penalty_ = _candidate_grid(candidates), 0.0
            sampled = method.sampled(lambda point: _losses(loss, point, records), candidates, passage.noise)
        else:
            loss, gradient = self._functions()
            slope = _checked_slope(loss, gradient, method.dimension, records)
            passage = self._enter(plan)
            self.sampler_, self.wasserstein_distance_ = method.chosen_sampler, method.wasserstein_distance(slope)
            self.grid_, self.penalty_ = method.grid, method.penalty
            sampled = method.sampled(
                lambda point: _losses(loss, point, records),
                lambda point: np.asarray(gradient(point, *records), dtype=np.float64),
                passage.noise,
            )
        self.n_rows_, self.noise_scale_ = rows, method.noise_scale
        self.inverse_temperature_ = method.inverse_temperature
        self.total_variation_ = float(method.cost.total_variation)
        self.draws_, self.acceptance_ = sampled.points, sampled.acceptance
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
        if self.candidates is not None:
            return loss, loss
        return _by_jax(loss) if self.gradient is None else (loss, self.gradient)

    def _records(self, X: Any, y: Any, *, reset: bool) -> tuple[Floats, ...]:
        """Rows within the norm bound, and targets within their bounds where the loss takes any."""
        if reset:
            self._keep_source(X)
        held = in_memory(X)
        matrix = checked_matrix(self, held.arrow.to_pandas() if isinstance(held, Table) else held, reset=reset)
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

    def _range(self) -> tuple[float, float]:
        low, high = cast(tuple[float, float], self.loss_range)
        return float(low), float(high)

    def _candidates(self) -> Floats:
        """The candidates on their grid."""
        points = np.asarray(self.candidates, dtype=np.float64)
        return on_grid(points, _candidate_grid(points))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_drawing(self.draws, self.fixed_work)
        if not callable(self.loss) or not (self.gradient is None or callable(self.gradient)):
            raise InvalidParameter("loss and gradient must be functions.", "Give loss=lambda theta, X: ….")
        for name, numbers in _NUMBERS.items():
            numbers.check(name, getattr(self, name))
        check_prior(self.prior)
        if self.sampler not in CUSTOM_SAMPLERS:
            raise InvalidParameter(
                f"sampler must be one of {', '.join(CUSTOM_SAMPLERS)}, got {told(self.sampler)}.", 'Use sampler="auto".'
            )
        if self.loss_range is not None and not _is_range(self.loss_range):
            raise InvalidParameter("loss_range must be two numbers, the lower first.", "Use for example (0, 1).")
        if self.candidates is not None:
            self._check_candidates()
        elif self.regularization == 0 and self.prior is None and self.delta != 0:
            raise InvalidParameter("regularization is 0, and there is no prior.", "Use a positive one, or delta=0.")

    def _check_chargeable(self) -> None:
        super()._check_chargeable()
        if self.smoothness is None and self.candidates is None:
            raise InvalidParameter(
                "With an account GibbsPosterior needs the smoothness of the loss.",
                "Give smoothness=M, the largest second derivative of one row's loss in any direction, or leave account out.",
            )

    def _check_candidates(self) -> None:
        try:
            points = np.asarray(self.candidates, dtype=np.float64)
        except (TypeError, ValueError):
            points = np.empty(0)
        if points.ndim != 2 or not 1 <= len(points) <= _MOST_CANDIDATES or not np.all(np.isfinite(points)):
            raise InvalidParameter(
                f"candidates must be up to {_MOST_CANDIDATES:,} points of finite numbers, one a row.", "Give a matrix."
            )
        if self.delta != 0 or self.loss_range is None:
            raise InvalidParameter("Draws among candidates are pure.", "Give delta=0 and loss_range=(low, high).")

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


def _is_range(values: Any) -> bool:
    number = Numbers(-_LARGEST, _LARGEST)
    return (
        isinstance(values, tuple | list)
        and len(values) == 2
        and all(number.holds(value) for value in values)
        and values[0] < values[1]
    )


def _candidate_grid(points: Floats) -> float:
    """A power of two far below the largest coordinate of any candidate."""
    return power_of_two_below(max(float(np.max(np.abs(points))), 2.0**-100)) * 2.0**-_CANDIDATE_BITS


def _losses(loss: Function, point: Floats, records: tuple[Floats, ...]) -> Floats:
    losses = np.asarray(loss(point, *records), dtype=np.float64)
    if losses.shape != (len(records[0]),):
        raise InvalidParameter("loss must give one number a row.", "Return an array as long as X.")
    return losses


def _checked_slope(loss: Function, gradient: Function, dimension: int, records: tuple[Floats, ...]) -> Floats:
    """The gradient of the summed loss at zero. Raise unless loss and gradient give numbers of the right shapes at zero: what is wrong with them is told before a charge."""
    origin = np.zeros(dimension)
    losses, slope = _losses(loss, origin, records), np.asarray(gradient(origin, *records), dtype=np.float64)
    if slope.shape != (dimension,):
        raise InvalidParameter("gradient must give one number a parameter.", "Return the gradient of the summed loss.")
    if not (np.all(np.isfinite(losses)) and np.all(np.isfinite(slope))):
        raise DataError("The loss or its gradient is not a number at zero.", "Check loss and gradient.")
    return slope


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
