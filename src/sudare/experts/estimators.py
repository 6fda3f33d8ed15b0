"""Combining other members' models on one's own data: mirror averaging, Gibbs weights, the plain average, stacking.

Every sender stays protected by its own guarantee, whatever the receiver does with the models (Proposition 4.1 of Minami
et al. 2015: post-processing). The receiver's own data are not protected at all: weights and combined models stay with
their owner, and `Release.of` refuses them. What may be released is `sudare.experts.private_weights`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal

import numpy as np

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter
from sudare.experts.batched_ridge_cross_validation import PENALTIES, batch_fitted
from sudare.experts.combined_experts import CombinedExperts, one_vs_rest_targets, positive
from sudare.experts.expert_set import CannotBeScored, Combine, Interval
from sudare.experts.gibbs_weights import (
    BRIER_TEMPERATURE,
    LARGEST_CLASS_SCORE,
    LOGISTIC_TEMPERATURE,
    exponential_weights,
    mirror_average,
    oracle_residual,
    softmax_temperature,
    squared_temperature,
)
from sudare.linear.targets import checked_target_bounds, one_vs_rest_probabilities

Temperature = float | Literal["theory"]

_LARGEST_RATIO: Final = 1e8


@dataclass(eq=False, repr=False)
class AverageExperts(CombinedExperts):
    """The plain average of the experts: own data choose nothing.

    Parameters
    ----------
    experts : fitted classifiers of the same classes, or regressors, or releases of such.
    combine : of classifiers, "scores" adds up scores, "probabilities" what they hold probable, "votes" their decisions (−1 or +1; with three
        classes or more, −½ or ½ for each). Regressors have predictions only.

    Attributes
    ----------
    weights_ : one weight an expert, 1/M.
    guarantee_ : what each sender promised about its own records, in the order of the experts.
    """

    experts: Sequence[Any] = ()
    _: KW_ONLY
    combine: Combine = "scores"

    def _learn(self, rows: Any, targets: Floats) -> None:
        # The average needs no answers, but an expert that has none to give would spoil it.
        for _ in self.expert_set_.blocks(rows, self.combine, self._within()):
            pass
        self.weights_ = self._of_all(np.full(len(self.expert_set_), 1 / len(self.expert_set_)))


@dataclass(eq=False, repr=False)
class _Tempered(CombinedExperts):
    """Combinations with a temperature."""

    experts: Sequence[Any] = ()
    _: KW_ONLY
    temperature: Temperature = 3.0
    combine: Combine = "scores"
    target_bounds: Interval | None = None

    def _targets(self, y: Any, rows: int) -> Floats:
        targets, bounds = super()._targets(y, rows), self._target_bounds()
        return targets if bounds is None else np.clip(targets, *bounds)

    def _target_bounds(self) -> Interval | None:
        """Public bounds of numbers: those given, or with "theory" those that all experts declare; None where answers have no limits."""
        if self.expert_set_.task == "classification":
            return None
        if self.target_bounds is not None:
            return checked_target_bounds(self.target_bounds)
        bounds = self.expert_set_.target_bounds() if self.temperature == "theory" else None
        if bounds is None and self.temperature == "theory":
            raise InvalidParameter(
                "temperature='theory' needs bounds for the numbers that are predicted; the experts do not agree on any.",
                "Give target_bounds=(low, high) by public knowledge, or a number as temperature.",
            )
        return bounds

    def _beta(self) -> float:
        if self.temperature != "theory":
            return positive("temperature", self.temperature)
        bounds = self._target_bounds()
        if bounds is not None:
            return squared_temperature(*bounds)
        if self.combine == "probabilities":
            return BRIER_TEMPERATURE
        return LOGISTIC_TEMPERATURE if self.expert_set_.outputs == 1 else softmax_temperature(self.expert_set_.outputs)

    def _within(self) -> Interval | None:
        if self.expert_set_.task == "regression":
            return self._target_bounds()
        if self.combine == "probabilities":
            return 0.0, 1.0
        largest = 1.0 if self.expert_set_.outputs == 1 else LARGEST_CLASS_SCORE
        return (-largest, largest) if self.temperature == "theory" else None


class ExponentialWeights(_Tempered):
    """Gibbs weights of the experts' total losses on own data (eq. 11): the order of rows does not matter.

    Parameters
    ----------
    experts, combine : as in AverageExperts.
    temperature : β > 0; small trusts the best expert, large trusts all. "theory" as in MirrorAveraging.
    target_bounds : as in MirrorAveraging.

    Attributes
    ----------
    weights_ : one weight an expert; they sum to one. Learned from own data: for the owner only.
    guarantee_ : as in AverageExperts.
    """

    def _learn(self, rows: Any, targets: Floats) -> None:
        self.temperature_ = self._beta()
        weights = exponential_weights(self._loss_blocks(rows, targets), len(self.expert_set_), self.temperature_)
        self.weights_ = self._of_all(_finite(weights))


class MirrorAveraging(_Tempered):
    """The average over time of the Gibbs weights of losses so far, in the order of the data (eqs. 15–17).

    Experts are judged by the logistic loss of scores and votes (of three classes or more, the softmax loss), by the Brier score of probabilities, and by
    the squared loss of numbers. With temperature="theory" the expected risk is at most that of the best expert plus `oracle_residual_` (eq. 20),
    by proofs/aggregation.md: scores are cut off at ±1 with β = e, those of k ≥ 3 classes at ±½ with β = (k − 1)e, probabilities
    have β = 4, numbers within bounds β = 2(high − low)², and the average begins with equal weights, as the proof does: over t = 0 … n − 1. With a number it is over
    t = 1 … n, as printed.

    Parameters
    ----------
    experts, combine : as in AverageExperts.
    temperature : β > 0, the paper's 3 by default, or "theory".
    target_bounds : of regressors: public bounds that predictions and targets are clipped to. With "theory" those that all experts declare,
        as released ones do, need not be given.

    Attributes
    ----------
    weights_ : one weight an expert; they sum to one. Learned from own data: for the owner only.
    weight_path_ : weights λ⁽ᵗ⁾ after the numbers of rows in `path_rows_` (at most 200 of them): for the owner only.
    oracle_residual_ : β log M / n.
    guarantee_ : as in AverageExperts.
    """

    def _learn(self, rows: Any, targets: Floats) -> None:
        self.temperature_ = self._beta()
        count, losses = len(self.expert_set_), self._loss_blocks(rows, targets)
        average = mirror_average(losses, count, len(targets), self.temperature_)
        weights = average.from_equal_weights() if self.temperature == "theory" else average.weights
        self.weights_, self.weight_path_ = self._of_all(_finite(weights)), self._of_all(average.path)
        self.path_rows_ = average.path_rows
        self.oracle_residual_ = oracle_residual(self.temperature_, count, len(targets))


@dataclass(eq=False, repr=False)
class StackedExperts(CombinedExperts):
    """Penalised regression on the experts' answers (Sarwate et al. 2014): weights of any sign, with an intercept.

    Of three classes or more each has weights of its own for what the experts say of it, fitted against the rest.

    Parameters
    ----------
    experts, combine : as in AverageExperts.
    penalty : λ of the sum of losses + (λ/2)‖weights‖², or "cross-validation" to choose it on own data.

    Attributes
    ----------
    weights_, intercept_ : learned from own data: for the owner only. With three classes or more, one row and one number a class.
    penalty_ : the penalty used, or those of the classes.
    guarantee_ : as in AverageExperts.
    """

    experts: Sequence[Any] = ()
    _: KW_ONLY
    penalty: float | Literal["cross-validation"] = "cross-validation"
    combine: Combine = "scores"

    def _learn(self, rows: Any, targets: Floats) -> None:
        experts = self.expert_set_
        answers = np.concatenate([block.copy() for _, block in experts.blocks(rows, self.combine)])
        outputs = experts.by_class(answers).transpose(2, 0, 1)
        self._refuse_overwhelming(outputs)
        scale = np.maximum(np.sqrt(np.mean(outputs**2)), np.finfo(np.float64).tiny)
        designs = np.concatenate([outputs / scale, np.ones((*outputs.shape[:2], 1))], axis=2)
        penalties = PENALTIES if self.penalty == "cross-validation" else (positive("penalty", self.penalty),)
        relative = np.ones(designs.shape[2])
        fitted = batch_fitted(designs, one_vs_rest_targets(targets, experts.outputs), penalties, relative, experts.task)
        weights, intercepts = fitted.coefficients[:, :-1] / scale, fitted.coefficients[:, -1]
        if experts.outputs == 1:
            self.weights_, self.intercept_ = self._of_all(weights[0]), float(intercepts[0])
            self.penalty_ = float(fitted.penalties[0])
        else:
            self.weights_, self.intercept_, self.penalty_ = self._of_all(weights), intercepts, fitted.penalties

    def _adds_probabilities(self) -> bool:
        return False

    def _class_probabilities(self, scores: Floats) -> Floats:
        return one_vs_rest_probabilities(scores)

    def _refuse_overwhelming(self, outputs: Floats) -> None:
        """Raise CannotBeScored where an expert's answers are so much larger than those of most that beside them the others' would be lost."""
        sizes = np.sqrt(np.mean(outputs**2, axis=(0, 1)))
        usual = np.sort(sizes)[(len(sizes) - 1) // 2]
        overwhelming = np.flatnonzero(sizes > _LARGEST_RATIO * usual) if usual > 0 else np.array([], dtype=np.intp)
        if overwhelming.size:
            raise CannotBeScored([self.expert_set_.numbers[place] for place in overwhelming])


def _finite(weights: Floats) -> Floats:
    if not np.all(np.isfinite(weights)):
        raise DataError("Losses are too large for numbers of this computer.", "Leave out experts that answer absurdly.")
    return weights
