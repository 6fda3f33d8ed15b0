"""A combination of experts that may be released: the average of experts that were drawn with Gibbs weights of their losses on own rows.

Experts are other members' released models, hence public; all that own rows decide is how often each was drawn, and that is paid for. A file holds these counts and
the digests of the experts; whoever has the experts' files too can predict with it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter
from sudare.experts.combined_experts import CombinedExperts, labels_of, tags_of_experts
from sudare.experts.expert_set import ExpertSet, Interval, Task, frame_of, row_count, task_of
from sudare.experts.gibbs_weights import brier_losses, gibbs_residual
from sudare.linear.rows import norm_bounded_columns
from sudare.linear.targets import (
    accuracy_of,
    check_lengths,
    checked_classes,
    checked_numbers,
    checked_target_bounds,
    class_codes,
    missing_y,
    r2_of,
)
from sudare.parameter_checks import Numbers
from sudare.privacy import Release
from sudare.privacy.array_checks import checked_matrix
from sudare.privacy.column_sums import exact_sums_of_blocks, fixed_point_step
from sudare.privacy.declared_columns import rows_per_unit
from sudare.privacy.discrete_exponential_mechanism import MOST_DRAWS, Counts, GibbsDraws
from sudare.privacy.fit_plan import Plan
from sudare.privacy.ledger import Account
from sudare.privacy.private_estimator import PrivateEstimator
from sudare.privacy.release import is_loaded
from sudare.privacy.release_content import Content, TensorRule, check_shapes, check_within, unfit
from sudare.schema import Number, Schema
from sudare.schema.table_from_any_frame import no_rows


def _classifies(model: Any) -> bool:
    return bool(model._task() == "classification")


@dataclass(eq=False, repr=False)
class PrivateExponentialWeights(PrivateEstimator):
    """ε-DP average of experts that are drawn by their losses on own rows (eq. 11), replace-one rows. Proof: proofs/aggregation.md.

    Every draw takes an expert with probability ∝ exp(−loss/β), β = 2·draws/ε: the exponential mechanism. Losses are summed over own rows: half the Brier score of
    probabilities, or the squared loss of numbers in units of their range; both lie in [0, 1]. Answers that are not numbers count as knowing nothing.

    Parameters
    ----------
    experts : fitted classifiers of the same classes, or regressors. With an account, releases from `Release.load` only: experts must be public.
    epsilon : the promise, pure.
    draws : how many experts are drawn and averaged; they share ε. Few find the best expert, many average well.
    target_bounds : of regressors: public bounds that predictions and targets are clipped to; not needed where all experts declare the same.
    schema : the experts' schema, where they have one: it tells the target's column, and the person whom the promise is to.
    account : who pays. Without one the result may be looked at by its owner but not released.
    random_state : a seed, for tests and simulation only; it voids the guarantee.

    Attributes
    ----------
    counts_, weights_ : how often each expert was drawn, and its share.
    classes_ or target_bounds_ : what is predicted.
    temperature_ : β.
    oracle_residual_ : β log M / n + 1/(8β): how far above the best expert's the expected loss is at most, in the units above.
    expert_digests_ : SHA-256 of the experts' files.
    guarantee_, receipt_ : what is promised, and the ledger entry that was written first.
    """

    numbers_only = False
    extra_parameters = ("draws", "experts", "target")
    # A choice among experts is pure, whatever number of them is drawn.
    delta = 0.0
    bounds = None

    experts: Sequence[Any] = ()
    epsilon: float = 1.0
    _: KW_ONLY
    draws: int = 4
    target_bounds: Interval | None = None
    schema: Schema | None = None
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None

    # Plan and fit

    def plan(self, rows: int, declared: Schema) -> Plan[GibbsDraws]:
        """One row moves every expert's loss by at most one."""
        return Plan(self._mechanism(declared), self._guarantee(declared))

    def _mechanism(self, declared: Schema) -> GibbsDraws:
        return GibbsDraws(self._values_epsilon(declared), int(self.draws), rows_per_unit(declared))

    def _plan_for(self, X: Any, y: Any) -> Plan[GibbsDraws]:
        return self.plan(len(self._opened(X, y)[2]), self.declared_)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Ask all experts about own rows, charge, then draw."""
        experts, rows, targets = self._opened(X, y)
        step = fixed_point_step(len(targets))
        totals = exact_sums_of_blocks(_losses(experts, rows, targets, self._scale()), len(experts), step)
        plan = self.plan(len(targets), self.declared_)
        passage = self._enter(plan)
        self.n_rows_ = len(targets)
        self._set_counts(plan.mechanism.counts([Fraction(total) for total in totals.tolist()], passage.noise))
        never_drawn = [number for number, count in enumerate(self.counts_) if not count]
        self.expert_set_: ExpertSet | None = experts.without(never_drawn)
        self._seal()
        return self

    def _set_counts(self, counts: Counts) -> None:
        self.counts_, self.weights_ = counts, counts / counts.sum()
        self.temperature_ = self._mechanism(self.declared_).noise_scale
        self.oracle_residual_ = gibbs_residual(self.temperature_, len(counts), self.n_rows_ or 1)

    # Checks and reading: whatever can be refused is refused before the charge

    def _check_parameters(self) -> None:
        super()._check_parameters()
        Numbers(1, MOST_DRAWS, whole=True).check("draws", self.draws)

    def _undeclared(self) -> str:
        models = ExpertSet.of(self.experts)
        if models.task == "classification":
            return "classes" if models.classes is None else ""
        return "target_bounds" if self._declared_bounds(models) is None else ""

    def _declared_bounds(self, experts: ExpertSet) -> Interval | None:
        if self.target_bounds is not None:
            return checked_target_bounds(self.target_bounds)
        number = None if self.schema is None or self.schema.target is None else self.schema.columns[self.schema.target]
        return (number.low, number.high) if isinstance(number, Number) else experts.target_bounds()

    def _opened(self, X: Any, y: Any) -> tuple[ExpertSet, Any, Floats]:
        """Experts, own rows and targets (places of classes, or numbers), all checked; keeps what is declared."""
        self._forget()
        self._check_parameters()
        self._keep_source(X)
        # Experts are asked in blocks of rows, which a frame can be cut into.
        X = frame_of(X, self.schema)
        experts = ExpertSet.of(self.experts)
        rows = self._own_rows(X, experts)
        self.expert_digests_: tuple[str | None, ...] = tuple(
            each.digest if isinstance(each, Release) else None for each in self.experts
        )
        targets = self._own_targets(X, y, experts)
        check_lengths(row_count(rows), len(targets))
        return experts, rows, targets

    def _check_chargeable(self) -> None:
        if not all(map(is_loaded, self.experts or ())):
            raise InvalidParameter(
                "An expert is not a release that was loaded from a file and not changed since: what is drawn among models that are not public would tell about them. Nothing was charged.",
                "Give releases from Release.load(…), your own ones too; or leave account out.",
            )
        super()._check_chargeable()

    def _own_rows(self, X: Any, experts: ExpertSet) -> Any:
        """A table where the experts have a schema, which must be this one's; else a finite matrix."""
        digest = getattr(experts.models[0], "schema_digest_", None)
        if digest != (None if self.schema is None else self.schema.digest):
            raise InvalidParameter(
                "The experts were fitted with another schema than the one given here, or one of both has none.",
                "Give schema=… as the experts were fitted with it.",
            )
        if self.schema is not None:
            if not hasattr(X, "columns") and not hasattr(X, "column_names"):
                raise InvalidParameter("Experts with a schema need a table.", "Give a frame with the declared columns.")
            self.schema.check_person(X)
            self._keep(self._suited(self.schema), digest)
            rows = X
        else:
            rows = checked_matrix(self, X, reset=True)
            if experts.features not in (None, rows.shape[1]):
                raise DataError(
                    f"The rows have {rows.shape[1]} features; the experts were fitted on {experts.features}.",
                    "Use the same columns.",
                )
            # Nothing rests on the norm of own rows: losses are bounded whatever the rows are.
            self._keep(norm_bounded_columns(rows.shape[1], 1.0), None)
        if row_count(rows) == 0:
            raise no_rows()
        return rows

    def _own_targets(self, X: Any, y: Any, experts: ExpertSet) -> Floats:
        """The places of own labels among the classes, or numbers within their bounds."""
        in_table = y is None and self.schema is not None and self.schema.target is not None
        if y is None and not in_table:
            raise missing_y()
        if experts.task == "classification":
            if in_table and self.schema is not None:
                y = np.asarray(self.schema.classes)[self.schema.encode_target(X)]
            labels = labels_of(y)
            self.classes_ = checked_classes(np.unique(labels) if experts.classes is None else experts.classes)
            if experts.classes is None and len(self.classes_) > 2:
                raise DataError(
                    "Only binary classification is supported. The type of the target is multiclass, and no expert names its classes.",
                    "Use experts with classes_.",
                )
            return class_codes(labels, self.classes_).astype(np.float64)
        numbers = checked_numbers(self.schema.encode_target(X) if in_table and self.schema is not None else y)
        bounds = self._declared_bounds(experts)
        if bounds is None:
            bounds = float(numbers.min()), float(numbers.max())
            bounds = bounds if bounds[0] < bounds[1] else (bounds[0] - 1, bounds[1] + 1)
        self.target_bounds_ = checked_target_bounds(bounds)
        return np.clip(numbers, *self.target_bounds_)

    def _task(self) -> Task:
        if hasattr(self, "target_bounds_") or hasattr(self, "classes_"):
            return "classification" if hasattr(self, "classes_") else "regression"
        return task_of(self.experts)

    def _scale(self) -> Interval | None:
        """The bounds of numbers; None for classes."""
        return None if self._task() == "classification" else self.target_bounds_

    # Prediction

    def with_experts(self, experts: Iterable[Release]) -> Self:
        """A copy of a received combination that predicts with these experts, found by their digests. Raise InvalidParameter unless all that were drawn are there."""
        check_is_fitted(self)
        given = {release.digest: release for release in experts if isinstance(release, Release)}
        needed = [digest for digest, count in zip(self.expert_digests_, self.counts_, strict=True) if count]
        missing = sum(digest not in given for digest in needed)
        if missing:
            raise InvalidParameter(
                f"{missing} of the {len(needed)} experts that this combination is made of are not among the releases.",
                "Give the files that `expert_digests_` names, loaded with Release.load(…); those of weight 0 are not needed.",
            )
        found = copy.copy(self)
        found.expert_set_ = ExpertSet.of([given[digest] for digest in needed])
        return found

    def _mixture(self, X: Any) -> Floats:
        """The drawn experts' answers, averaged: rows × outputs."""
        check_is_fitted(self)
        experts = self.expert_set_
        if experts is None:
            raise InvalidParameter(
                "This combination was loaded from a file, which names its experts and does not hold them.",
                "Use model.with_experts([Release.load(…), …]).",
            )
        rows = frame_of(X, self.declared_) if self.schema_digest_ is not None else checked_matrix(self, X, reset=False)
        weights = self.weights_[self.counts_ > 0]
        blocks = (_bounded(experts, block, self._scale()) for _, block in experts.raw_blocks(rows, "probabilities"))
        return np.concatenate([np.tensordot(answers, weights, axes=(1, 0)) for answers in blocks])

    @available_if(_classifies)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes: those of the drawn experts, averaged."""
        mixture = self._mixture(X)
        return np.hstack([1 - mixture, mixture]) if mixture.shape[1] == 1 else mixture

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes, or numbers if the experts are regressors."""
        check_is_fitted(self)
        if not _classifies(self):
            return self._mixture(X)[:, 0]
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def score(self, X: Any, y: Any) -> float:
        """Accuracy, or R² if the experts are regressors. Exact: for the owner only."""
        predicted = self.predict(X)
        return accuracy_of(y, predicted) if _classifies(self) else r2_of(y, predicted)

    __sklearn_clone__ = CombinedExperts.__sklearn_clone__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.schema is None
        return tags_of_experts(tags, self.experts, classify=_classifies(self))

    # What is released, and how it is read back

    @classmethod
    def card_remarks(cls, parameters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        """What was drawn among."""
        of = f"{parameters['draws']} draws among {len(parameters['experts'])} released models, named by their digests"
        return (("combines", f"{of}; each keeps its own guarantee"),)

    def release_content(self) -> Content:
        """How often each expert was drawn, and which they are."""
        classes = self._task() == "classification"
        target: Any = (
            self.classes_.tolist() if classes else dict(zip(("low", "high"), self.target_bounds_, strict=True))
        )
        extra = {"draws": int(self.draws), "experts": list(self.expert_digests_), "target": target}
        return self._content({"counts": self.counts_}, {"counts": None}, extra)

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there is one count an expert, and as many draws as were paid for."""
        check_shapes(content, {"counts": TensorRule(len(self.expert_digests_), np.int64)})
        counts = content.tensors["counts"]
        check_within(counts, 0, self._mechanism(self.declared_).draws)
        if int(counts.sum()) != self.draws:
            raise unfit("its draws are not as many as it says")

    @classmethod
    def _arguments(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {"epsilon": parameters["epsilon"], "draws": parameters["draws"]}

    def _take_bounds(self, declared: Schema) -> None:
        self.n_features_in_ = len(declared.features)

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        experts, target = parameters["experts"], parameters["target"]
        if parameters["delta"] != 0 or type(self.draws) is not int or not _are_digests(experts):
            raise unfit("its parameters are not those of its learner")
        self.expert_digests_, self.expert_set_ = tuple(experts), None
        if isinstance(target, list):
            if not all(type(level) in (str, int, bool, float) for level in target) or len(set(map(type, target))) != 1:
                raise unfit("its classes are not labels of one type")
            self.classes_ = checked_classes(target)
        elif isinstance(target, dict) and set(target) == {"low", "high"}:
            if not all(type(end) is float for end in target.values()):
                raise unfit("its bounds are not numbers")
            self.target_bounds = self.target_bounds_ = checked_target_bounds((target["low"], target["high"]))
        else:
            raise unfit("it does not say what it predicts")

    def _take(self, content: Content) -> None:
        self._set_counts(content.tensors["counts"])


def _are_digests(experts: object) -> bool:
    return (
        isinstance(experts, list)
        and len(experts) > 0
        and all(
            isinstance(each, str) and len(each) == 64 and not set(each) - set("0123456789abcdef") for each in experts
        )
    )


def _losses(experts: ExpertSet, rows: Any, targets: Floats, bounds: Interval | None) -> Iterator[Floats]:
    """Losses in [0, 1] (rows × experts): half the Brier score, or squares of distances in units of the range."""
    for part, block in experts.raw_blocks(rows, "probabilities"):
        answers, own = _bounded(experts, block, bounds), targets[part]
        if experts.outputs > 1:
            losses = brier_losses(answers, own.astype(np.intp)) / 2
        else:
            # Of two classes half the Brier score is the square of either probability's distance from the truth.
            distances = (answers[:, :, 0] - own[:, np.newaxis]) / (1.0 if bounds is None else bounds[1] - bounds[0])
            losses = distances**2
        yield np.clip(losses, 0.0, 1.0)


def _bounded(experts: ExpertSet, block: Floats, bounds: Interval | None) -> Floats:
    """Answers (rows × experts × outputs) within their bounds; those that are not numbers stand for knowing nothing."""
    answers = experts.by_class(block)
    low, high = (0.0, 1.0) if bounds is None else bounds
    nothing = 1 / experts.outputs if experts.outputs > 1 else low + (high - low) / 2
    known = np.isfinite(answers).all(axis=2, keepdims=True)
    return np.clip(np.where(known, answers, nothing), low, high)
