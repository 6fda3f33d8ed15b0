"""Experts: other members' models or releases, checked against each other, and what they say about rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import expit, softmax
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

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter, SudareError
from sudare.experts.gibbs_weights import cached_rows
from sudare.frames.sources import in_memory
from sudare.linear import PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge
from sudare.privacy import Guarantee, Release
from sudare.privacy.array_checks import as_numbers
from sudare.schema import Schema, Table, as_table, encode

Combine = Literal["scores", "probabilities", "votes"]
Task = Literal["classification", "regression"]
Interval = tuple[float, float]

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

    `numbers` are the places of the models in the list that was given, some of which may have been left out. An answer about a row is `outputs`
    numbers: one for each of three classes or more, else one alone. The numbers of one expert stand side by side.
    """

    models: Sequence[Any]
    guarantees: tuple[Guarantee, ...]
    task: Task
    classes: NDArray[Any] | None
    features: int | None
    stacked: tuple[Floats, Floats] | None
    numbers: tuple[int, ...]
    outputs: int = 1

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
        _check_one_schema(models)
        guarantees = tuple(map(_guarantee, models))
        outputs, numbers = _output_count(classes), tuple(range(len(models)))
        stacked = _stacked_coefficients(models, outputs)
        return cls(models, guarantees, task, classes, _common_features(models), stacked, numbers, outputs)

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
            stacked=None if self.stacked is None else self._stacked_of(kept),
            numbers=tuple(self.numbers[place] for place in kept),
        )

    def target_bounds(self) -> Interval | None:
        """The bounds that all of the experts declare for their target; None where they do not, or differ."""
        declared = {getattr(model, "target_bounds_", None) for model in self.models}
        return declared.pop() if len(declared) == 1 else None

    def _stacked_of(self, kept: Sequence[int]) -> tuple[Floats, Floats]:
        coefficients, intercepts = cast(tuple[Floats, Floats], self.stacked)
        columns = (np.array(kept)[:, np.newaxis] * self.outputs + np.arange(self.outputs)).ravel()
        return np.ascontiguousarray(coefficients[:, columns]), intercepts[columns]

    def __len__(self) -> int:
        return len(self.models)

    def blocks(self, rows: Any, combine: Combine, within: Interval | None = None) -> Iterator[tuple[slice, Floats]]:
        """Answers (rows × experts·outputs) on successive rows, clipped to an interval. A block may be overwritten, and is by the next one.

        Raise CannotBeScored with every expert that gives an answer which is not finite or too large on any of the rows.
        """
        asked: Combine = "probabilities" if self._gives_probabilities(combine) else "scores"
        largest = LARGEST_ANSWER if combine == "scores" and within is None else np.finfo(np.float64).max
        for part, block in self.raw_blocks(rows, asked):
            if not (block.max() <= largest and block.min() >= -largest):
                raise CannotBeScored(self._unscorable(rows, asked, largest))
            if self.task == "classification" and combine == "votes":
                self._vote_in(block)
            elif within is not None:
                np.clip(block, *within, out=block)
            yield part, block

    def _gives_probabilities(self, combine: Combine) -> bool:
        return self.task == "classification" and combine == "probabilities"

    def _vote_in(self, block: Floats) -> None:
        """Scores turned into decisions: −1 or +1 for two classes, else ½ for the class decided for and −½ for all others."""
        if self.outputs == 1:
            np.copyto(block, np.where(block > 0, 1.0, -1.0))
            return
        scores = self.by_class(block)
        chosen = scores.argmax(axis=2)[:, :, np.newaxis]
        scores[...] = -0.5
        np.put_along_axis(scores, chosen, 0.5, axis=2)

    def by_class(self, block: Floats) -> Floats:
        """Returns the numbers as rows × experts × outputs."""
        return block.reshape(len(block), len(self), self.outputs)

    def _unscorable(self, rows: Any, asked: Combine, largest: float) -> list[int]:
        unusable = np.zeros(len(self), dtype=np.bool_)
        for _, block in self.raw_blocks(rows, asked):
            unusable |= ~(np.abs(self.by_class(block)) <= largest).all(axis=(0, 2))
        return [self.numbers[place] for place in np.flatnonzero(unusable)]

    def raw_blocks(self, rows: Any, asked: Combine) -> Iterator[tuple[slice, Floats]]:
        """Scores or probabilities as the experts give them, on successive rows: some may not be finite."""
        total, width = row_count(rows), len(self) * self.outputs
        one_product = self.stacked is not None and isinstance(rows, np.ndarray) and asked == "scores"
        # Models that are asked one by one are asked about many rows at a time: each call has a price of its own.
        step = cached_rows(width) if one_product else max(1, min(total, _BLOCK_NUMBERS // width))
        space = np.empty((min(step, total), width))
        for start in range(0, total, step):
            part = slice(start, min(start + step, total))
            block = space[: part.stop - start]
            with np.errstate(over="ignore", invalid="ignore"):
                if one_product:
                    self._multiply_into(block, rows[part])
                else:
                    self._ask_into(block, rows_between(rows, part), asked)
            yield part, block

    def messages(self) -> tuple[Floats, Floats]:
        """Coefficients (experts × outputs × features) and intercepts (experts × outputs) of linear experts.

        Raise CannotBeScored where some are not finite or too large.
        """
        if not all(hasattr(model, "coef_") for model in self.models):
            raise InvalidParameter("An expert has no coefficients.", "This combination needs linear experts.")
        messages = _coefficients(self.models, self.outputs)
        if len(set(map(_encoding_of, self.models))) > 1:
            raise InvalidParameter(
                "The experts' coefficients are for different encodings of the columns.",
                "Combine linear experts of one encoding, or use mirror averaging, which asks each of them.",
            )
        if messages is None:
            raise InvalidParameter("The experts disagree on the number of coefficients.", "Agree on one schema.")
        largest = np.maximum(np.abs(messages[0]).max(axis=(1, 2)), np.abs(messages[1]).max(axis=1))
        usable = largest <= LARGEST_ANSWER
        if not usable.all():
            raise CannotBeScored([self.numbers[place] for place in np.flatnonzero(~usable)])
        return messages

    def matrix(self, rows: Any) -> Floats:
        """Rows as the numbers that the experts' coefficients belong to: encoded by the experts' schema where they have one."""
        model = self.models[0]
        if getattr(model, "schema_digest_", None) is None:
            return as_numbers(rows, "X")
        return encode(model.declared_, rows, getattr(model, "used_encoding", model.encoding)).matrix

    def _multiply_into(self, block: Floats, rows: Floats) -> None:
        coefficients, intercepts = cast(tuple[Floats, Floats], self.stacked)
        np.matmul(rows, coefficients, out=block)
        block += intercepts

    def _ask_into(self, block: Floats, rows: Any, asked: Combine) -> None:
        answers = self.by_class(block)
        ask = self._probabilities if self._gives_probabilities(asked) else self._scores
        for place, model in enumerate(self.models):
            answers[:, place] = self._answered(ask, place, model, rows).reshape(-1, self.outputs)

    def _answered(self, ask: Callable[[int, Any, Any], Floats], place: int, model: Any, rows: Any) -> Floats:
        """What an expert answers. Raise DataError where it fails: messages of models that are not ours may quote a value."""
        try:
            return ask(place, model, rows)
        except SudareError:
            raise
        except (TypeError, ValueError, OverflowError):
            # Raised below and not here, where the original would stay in the chain of causes.
            pass
        raise DataError(
            f"Expert {self.numbers[place]} cannot answer about these rows.",
            "Give rows as it was fitted to: the same columns, with values of the same types.",
        )

    def _scores(self, place: int, model: Any, rows: Any) -> Floats:
        """Predictions of numbers; or scores: log-odds, or logarithms of several probabilities, where an expert gives probabilities only."""
        if self.task == "regression":
            return self._checked(model.predict(rows), place)
        if hasattr(model, "decision_function"):
            return self._checked(model.decision_function(rows), place)
        if not hasattr(model, "predict_proba"):
            return (
                self._decisions(place, model, rows) - 0.5
                if self.outputs > 1
                else 2 * self._decisions(place, model, rows) - 1
            )
        chances = np.clip(self._chances(place, model, rows), _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
        return np.asarray(np.log(chances) - (np.log1p(-chances) if self.outputs == 1 else 0.0), dtype=np.float64)

    def _probabilities(self, place: int, model: Any, rows: Any) -> Floats:
        """The probability of the second of two classes, or of each of several; by the logistic model where an expert gives scores only."""
        if hasattr(model, "predict_proba"):
            return self._chances(place, model, rows)
        if hasattr(model, "decision_function"):
            scores = self._checked(model.decision_function(rows), place)
            return np.asarray(expit(scores) if self.outputs == 1 else softmax(scores, axis=1), dtype=np.float64)
        return self._decisions(place, model, rows)

    def _chances(self, place: int, model: Any, rows: Any) -> Floats:
        """What an expert's `predict_proba` says: one column a class, or of two classes the second one's."""
        chances = np.asarray(model.predict_proba(rows), dtype=np.float64)
        if chances.ndim != 2 or chances.shape[1] != max(2, self.outputs):
            raise self._misshapen(place)
        return chances[:, 1] if self.outputs == 1 else chances

    def _decisions(self, place: int, model: Any, rows: Any) -> Floats:
        """1 for the class that an expert decides for and 0 for others; of two classes, the second one's."""
        named = np.asarray(model.predict(rows))
        if self.classes is None:
            return np.where(self._checked(named, place) > 0, 1.0, 0.0)
        told = self.classes[1:] if self.outputs == 1 else self.classes
        return np.asarray(named.reshape(-1, 1) == told, dtype=np.float64)

    def _checked(self, answers: Any, place: int) -> Floats:
        """Answers with one number a row, or one a class where there are several. Raise InvalidParameter if they have other shapes."""
        found = np.asarray(answers, dtype=np.float64)
        if self.outputs == 1 and found.ndim == 2 and found.shape[1] == 1:
            found = found[:, 0]
        if found.shape[1:] != (() if self.outputs == 1 else (self.outputs,)):
            raise self._misshapen(place)
        return found

    def _misshapen(self, place: int) -> InvalidParameter:
        wanted = "one number a row" if self.outputs == 1 else f"one number a class ({self.outputs}) for each row"
        return InvalidParameter(
            f"Expert {self.numbers[place]} does not give {wanted}.",
            "Combine experts for the same classes, or regressors.",
        )


def _output_count(classes: NDArray[Any] | None) -> int:
    """How many numbers answer about a row; two classes are assumed where nobody names them."""
    return 1 if classes is None or len(classes) == 2 else len(classes)


def _stacked_coefficients(models: Sequence[Any], outputs: int) -> tuple[Floats, Floats] | None:
    """Coefficients (features × experts·outputs) and intercepts, if every expert is a known linear model; else None."""
    found = _coefficients(models, outputs) if all(map(_is_linear, models)) else None
    if found is None:
        return None
    return np.ascontiguousarray(found[0].reshape(-1, found[0].shape[2]).T), found[1].ravel()


def _coefficients(models: Sequence[Any], outputs: int) -> tuple[Floats, Floats] | None:
    """Coefficients (experts × outputs × features) and intercepts; None where the experts have different numbers of them."""
    rows = [np.ravel(np.asarray(model.coef_, dtype=np.float64)) for model in models]
    sizes = {len(row) for row in rows}
    if len(sizes) > 1 or sizes.pop() % outputs:
        return None
    intercepts = [np.ravel(getattr(model, "intercept_", 0.0))[:outputs] for model in models]
    return np.stack(rows).reshape(len(models), outputs, -1), np.stack(
        [np.broadcast_to(np.asarray(intercept, dtype=np.float64), (outputs,)) for intercept in intercepts]
    )


def _is_linear(model: Any) -> bool:
    if type(model) in _PRIVATE_LINEAR_TYPES:
        return model.schema_digest_ is None
    return type(model) in _LINEAR_TYPES and isinstance(model.coef_, np.ndarray)


def frame_of(X: Any, schema: Schema | None = None) -> Any:
    """Rows in memory that can be cut into blocks: a frame or array as it is, every other source as a table of Arrow."""
    held = in_memory(X, schema)
    return as_table(held).arrow if isinstance(held, Table | Mapping | pa.RecordBatch) else held


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


def knows_several_classes(experts: Any) -> bool:
    """Whether an expert names more than two classes."""
    listed = list(experts) if hasattr(experts, "__iter__") else []
    named = (getattr(expert.model() if isinstance(expert, Release) else expert, "classes_", None) for expert in listed)
    return any(classes is not None and len(classes) > 2 for classes in named)


def _task(model: Any) -> Task:
    """Regression if the model's scikit-learn tags say so; models of other kinds classify."""
    return "regression" if hasattr(model, "__sklearn_tags__") and is_regressor(model) else "classification"


def _check_one_schema(models: Sequence[Any]) -> None:
    """Raise InvalidParameter unless the columns mean the same to all experts; how each encodes them is its own affair."""
    digests = [getattr(model, "schema_digest_", None) for model in models]
    others = [str(number) for number, digest in enumerate(digests) if digest != digests[0]]
    if others:
        raise InvalidParameter(
            f"Experts with other schemas than expert 0 has: {', '.join(others)}.",
            "Agree on one schema; leave out who differs.",
        )


def _encoding_of(model: Any) -> object:
    """How a private model encodes its columns; nothing for other models."""
    if getattr(model, "schema_digest_", None) is None:
        return None
    return getattr(model, "used_encoding", getattr(model, "encoding", None))


def _guarantee(model: Any) -> Guarantee:
    found = getattr(model, "guarantee_", None)
    return found if isinstance(found, Guarantee) else Guarantee.none(towards="the receiver")


def _common_classes(models: Sequence[Any]) -> NDArray[Any] | None:
    """The classes all experts know, in their order; None if no expert says."""
    named = [np.asarray(model.classes_) for model in models if getattr(model, "classes_", None) is not None]
    if not named:
        return None
    if any(len(classes) < 2 for classes in named):
        raise InvalidParameter("An expert knows one class only.", "Combine classifiers of at least two classes.")
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
