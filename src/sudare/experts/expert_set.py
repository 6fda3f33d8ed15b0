"""Experts: other members' models or releases, checked against each other, and what they say about rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    Perceptron,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from sudare.errors import DataError, InvalidParameter
from sudare.experts.weights import cached_rows
from sudare.linear import PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge
from sudare.privacy import Guarantee, Release
from sudare.schema import encode

Floats = NDArray[np.float64]
Combine = Literal["scores", "votes"]
Task = Literal["classification", "regression"]

# Exactly these, not what inherits from them: their output is X·coef + intercept for every row, so one product serves all.
_LINEAR_TYPES: Final = frozenset(
    {
        ElasticNet,
        Lasso,
        LinearRegression,
        LinearSVC,
        LogisticRegression,
        Perceptron,
        Ridge,
        RidgeClassifier,
        SGDClassifier,
    }
)
_PRIVATE_LINEAR_TYPES: Final = (PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge)
_BLOCK_NUMBERS: Final = 1 << 21
_LEAST_PROBABILITY: Final = 1e-12
# Squares of such answers, summed over all the rows there can be, are still numbers of this computer.
LARGEST_ANSWER: Final = 1e100


class CannotBeScored(Exception):
    """Some experts' answers or coefficients are not finite, or too large to be judged; `experts` are their numbers in the list that was given."""

    def __init__(self, experts: Collection[int]) -> None:
        super().__init__(f"experts {sorted(experts)}")
        self.experts = frozenset(experts)


@dataclass(frozen=True)
class ExpertSet:
    """Fitted models that agree on task, features and classes, and what each sender promised about its own records.

    `numbers` are the places of the models in the list that was given, some of which may have been left out.
    """

    models: Sequence[Any]
    guarantees: tuple[Guarantee, ...]
    task: Task
    classes: NDArray[Any] | None
    features: int | None
    stacked: tuple[Floats, Floats] | None
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, experts: object) -> ExpertSet:
        """The set of a list of fitted models and loaded releases."""
        if experts is None or isinstance(experts, str | bytes) or not hasattr(experts, "__iter__"):
            raise InvalidParameter("experts must be a list of fitted models or releases.", _GIVE_EXPERTS)
        listed = list(experts)
        if not listed:
            raise InvalidParameter("There are no experts.", _GIVE_EXPERTS)
        models = [expert.model() if isinstance(expert, Release) else expert for expert in listed]
        for number, model in enumerate(models):
            _check_can_answer(number, model)
        tasks = {_task(model) for model in models}
        if len(tasks) > 1:
            raise InvalidParameter("Some experts classify and some predict numbers.", "Combine one kind at a time.")
        task = tasks.pop()
        classes = _common_classes(models) if task == "classification" else None
        if len({_schema_of(model) for model in models}) > 1:
            raise InvalidParameter(
                "The experts were fitted with different schemas or encodings.", "Agree on one; leave out who differs."
            )
        guarantees = tuple(map(_guarantee, models))
        stacked, numbers = _stacked_coefficients(models), tuple(range(len(models)))
        return cls(models, guarantees, task, classes, _common_features(models), stacked, numbers)

    def without(self, experts: Collection[int]) -> ExpertSet:
        """The set without some experts, by their numbers in the list that was given. Raise DataError if none would be left."""
        kept = [place for place, number in enumerate(self.numbers) if number not in experts]
        if not kept:
            raise DataError(
                "No expert can be scored: all give answers that are not finite, or too large to be judged.",
                "Ask their senders, and look at your rows: their units may be others than the experts'.",
            )
        return replace(
            self,
            models=[self.models[place] for place in kept],
            guarantees=tuple(self.guarantees[place] for place in kept),
            stacked=None if self.stacked is None else (self.stacked[0][:, kept], self.stacked[1][kept]),
            numbers=tuple(self.numbers[place] for place in kept),
        )

    def __len__(self) -> int:
        return len(self.models)

    def blocks(self, rows: Any, combine: Combine, largest_score: float | None = None) -> Iterator[tuple[slice, Floats]]:
        """Outputs (rows × experts) on successive rows. A block may be overwritten, and is when the next one is asked for.

        Raise CannotBeScored with every expert that gives an answer which is not finite or too large on any of the rows.
        """
        largest = LARGEST_ANSWER if combine == "scores" and largest_score is None else np.finfo(np.float64).max
        for part, block in self._answers_in_blocks(rows):
            if not (block.max() <= largest and block.min() >= -largest):
                raise CannotBeScored(self._unscorable(rows, largest))
            if self.task == "classification" and combine == "votes":
                np.copyto(block, np.where(block > 0, 1.0, -1.0))
            elif largest_score is not None:
                np.clip(block, -largest_score, largest_score, out=block)
            yield part, block

    def _unscorable(self, rows: Any, largest: float) -> list[int]:
        unusable = np.zeros(len(self), dtype=np.bool_)
        for _, block in self._answers_in_blocks(rows):
            unusable |= ~(np.abs(block) <= largest).all(axis=0)
        return [self.numbers[place] for place in np.flatnonzero(unusable)]

    def _answers_in_blocks(self, rows: Any) -> Iterator[tuple[slice, Floats]]:
        total = row_count(rows)
        one_product = self.stacked is not None and isinstance(rows, np.ndarray)
        # Models that are asked one by one are asked about many rows at a time: each call has a price of its own.
        step = cached_rows(len(self)) if one_product else max(1, min(total, _BLOCK_NUMBERS // len(self)))
        space = np.empty((min(step, total), len(self)))
        for start in range(0, total, step):
            part = slice(start, min(start + step, total))
            block = space[: part.stop - start]
            with np.errstate(over="ignore", invalid="ignore"):
                self._answer_into(block, rows_between(rows, part))
            yield part, block

    def messages(self) -> tuple[Floats, Floats]:
        """Coefficients (experts × features) and intercepts of linear experts. Raise CannotBeScored where some are not finite or too large."""
        if not all(hasattr(model, "coef_") for model in self.models):
            raise InvalidParameter("An expert has no coefficients.", "This combination needs linear experts.")
        messages = _coefficients(self.models)
        if messages is None:
            raise InvalidParameter("The experts disagree on the number of coefficients.", "Agree on one schema.")
        usable = (np.abs(np.column_stack(messages)) <= LARGEST_ANSWER).all(axis=1)
        if not usable.all():
            raise CannotBeScored([self.numbers[place] for place in np.flatnonzero(~usable)])
        return messages

    def matrix(self, rows: Any) -> Floats:
        """Rows as the numbers that the experts' coefficients belong to: encoded by the experts' schema where they have one."""
        model = self.models[0]
        if getattr(model, "schema_digest_", None) is None:
            return np.asarray(rows, dtype=np.float64)
        return encode(model.declared_, rows, model.encoding).matrix

    def _answer_into(self, block: Floats, rows: Any) -> None:
        """Scores or predictions of all experts. Scores are log-odds where an expert gives probabilities only."""
        if self.stacked is not None and isinstance(rows, np.ndarray):
            np.matmul(rows, self.stacked[0], out=block)
            block += self.stacked[1]
        else:
            for number, model in enumerate(self.models):
                block[:, number] = self._answers(number, model, rows)

    def _answers(self, number: int, model: Any, rows: Any) -> Floats:
        if self.task == "regression":
            return _one_column(model.predict(rows), number)
        if hasattr(model, "decision_function"):
            return _one_column(model.decision_function(rows), number)
        if hasattr(model, "predict_proba"):
            chance = np.asarray(model.predict_proba(rows), dtype=np.float64)
            if chance.ndim != 2 or chance.shape[1] != 2:
                raise _not_binary(number)
            chance = np.clip(chance[:, 1], _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
            return np.asarray(np.log(chance) - np.log1p(-chance), dtype=np.float64)
        named = np.asarray(model.predict(rows))
        if self.classes is None:
            return np.where(_one_column(named, number) > 0, 1.0, -1.0)
        return np.where(named == self.classes[1], 1.0, -1.0)


def _stacked_coefficients(models: Sequence[Any]) -> tuple[Floats, Floats] | None:
    """Coefficients (features × experts) and intercepts, if every expert is a known linear model; else None."""
    found = _coefficients(models) if all(map(_is_linear, models)) else None
    return None if found is None else (np.ascontiguousarray(found[0].T), found[1])


def _coefficients(models: Sequence[Any]) -> tuple[Floats, Floats] | None:
    """Coefficients (experts × features) and intercepts; None where the experts have different numbers of them."""
    rows = [np.ravel(np.asarray(model.coef_, dtype=np.float64)) for model in models]
    if len({len(row) for row in rows}) > 1:
        return None
    return np.stack(rows), np.array([float(np.ravel(getattr(model, "intercept_", 0.0))[0]) for model in models])


def _is_linear(model: Any) -> bool:
    if type(model) in _PRIVATE_LINEAR_TYPES:
        return model.schema_digest_ is None
    return type(model) in _LINEAR_TYPES and isinstance(model.coef_, np.ndarray)


def row_count(rows: Any) -> int:
    """The number of rows of an array or a frame."""
    return int(rows.shape[0])


def rows_between(rows: Any, part: slice) -> Any:
    """Some successive rows of an array or of a frame of any library."""
    return rows[part] if isinstance(rows, np.ndarray) else nw.from_native(rows, eager_only=True)[part].to_native()


_GIVE_EXPERTS: Final = "Give fitted classifiers, fitted regressors, or releases from Release.load(…)."


def _check_can_answer(number: int, model: Any) -> None:
    if isinstance(model, type) or not any(
        hasattr(model, name) for name in ("decision_function", "predict_proba", "predict")
    ):
        raise InvalidParameter(
            f"Expert {number} has neither decision_function, predict_proba nor predict.", _GIVE_EXPERTS
        )
    if hasattr(model, "fit"):
        try:
            check_is_fitted(model)
        except NotFittedError:
            problem = f"Expert {number} is not fitted."
        else:
            return
        raise InvalidParameter(problem, _GIVE_EXPERTS)


def task_of(experts: Any) -> Task:
    """What the first expert does; without any, classification."""
    first = next(iter(experts), None) if hasattr(experts, "__iter__") else None
    return _task(first.model() if isinstance(first, Release) else first)


def _task(model: Any) -> Task:
    """Regression if the model's scikit-learn tags say so; models of other kinds classify."""
    return "regression" if hasattr(model, "__sklearn_tags__") and is_regressor(model) else "classification"


def _schema_of(model: Any) -> tuple[object, object]:
    """What a private model's columns mean; nothing for other models."""
    digest = getattr(model, "schema_digest_", None)
    return digest, None if digest is None else getattr(model, "encoding", None)


def _guarantee(model: Any) -> Guarantee:
    found = getattr(model, "guarantee_", None)
    return found if isinstance(found, Guarantee) else Guarantee.none(towards="the receiver")


def _common_classes(models: Sequence[Any]) -> NDArray[Any] | None:
    """The two classes all experts know, in their order; None if no expert says."""
    named = [np.asarray(model.classes_) for model in models if getattr(model, "classes_", None) is not None]
    if not named:
        return None
    if any(len(classes) != 2 for classes in named):
        raise InvalidParameter("An expert does not tell exactly two classes apart.", "Combine binary classifiers.")
    if not all(np.array_equal(classes, named[0]) for classes in named):
        raise InvalidParameter(
            "The experts disagree on the classes or their order.", "Agree on one schema; leave out who differs."
        )
    return named[0]


def _common_features(models: Sequence[Any]) -> int | None:
    counts = {int(model.n_features_in_) for model in models if getattr(model, "n_features_in_", None) is not None}
    if len(counts) > 1:
        raise InvalidParameter(
            f"The experts disagree on the number of features: {', '.join(map(str, sorted(counts)))}.",
            "Agree on one schema; leave out who differs.",
        )
    return counts.pop() if counts else None


def _one_column(answers: Any, number: int) -> Floats:
    column = np.asarray(answers, dtype=np.float64)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise _not_binary(number)
    return column


def _not_binary(number: int) -> InvalidParameter:
    return InvalidParameter(f"Expert {number} does not give one number a row.", "Combine binary classifiers.")
