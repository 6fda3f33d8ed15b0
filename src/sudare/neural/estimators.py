"""The fully connected networks, of classes and of numbers: what they are, what they predict, and how a release is read.

`FullyConnectedNetwork` is the network; a subclass names the target (`NetworkClassifier`, `NetworkRegressor`) and the way of training
(`DpSgdTraining`; the approaches of paper 002 are in `sudare.papers.p002_networks`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats, Singles
from sudare.frames.sources import by_batches, is_in_memory
from sudare.linear.targets import (
    ClassTarget,
    NumberTarget,
    checked_labels,
    checked_numbers,
    checked_target_bounds,
    class_codes,
    finite_answers,
)
from sudare.neural.network_estimator import DpSgdTraining, NetworkEstimator
from sudare.neural.training_method_base import (
    Facts,
    LossName,
    check_inputs,
    check_widths,
    layer_outputs,
    layered,
    parameters_in,
)
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.learner_registry import learner_class
from sudare.privacy.release_content import Content, unfit
from sudare.schema import Schema

# How releases were written before the parameter was called as in scikit-learn; then one learner had all approaches of paper 002.
_FORMER_HIDDEN: Final = "hidden"
_FORMER_APPROACHES: Final = {
    "anonymizing_first": "AnonymizingFirst",
    "learning_first": "LearningFirst",
    "anonymized_learning": "AnonymizedLearning",
}


@dataclass(eq=False, repr=False)
class FullyConnectedNetwork(NetworkEstimator):
    """A fully connected ReLU network fitted within a privacy budget."""

    hidden_layer_sizes: Sequence[int] = (64, 64)

    extra_parameters: ClassVar[tuple[str, ...]] = (*NetworkEstimator.extra_parameters, "hidden_layer_sizes")
    loss: ClassVar[LossName]

    @abstractmethod
    def _outputs(self) -> int:
        """How many values the last layer has."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_widths(self.hidden_layer_sizes)

    def _facts(self, rows: int, declared: Schema) -> Facts:
        check_inputs(declared, self.encoding)
        return Facts(
            rows=rows,
            sizes=self._sizes(declared),
            loss=self.loss,
            neighbours=self.neighbours,
            declared=declared,
            encoding=self.encoding,
            target=self._target(),
        )

    def _sizes(self, declared: Schema) -> tuple[int, ...]:
        """Widths of the layers, inputs first."""
        return (len(declared.names(self.encoding)), *map(int, self.hidden_layer_sizes), self._outputs())

    def _parameter_count(self) -> int:
        return parameters_in(self._sizes(self.declared_))

    def _scores(self, X: Any) -> Floats:
        """The last layer's values."""
        check_is_fitted(self)
        if self.schema_digest_ is not None and not is_in_memory(X):
            return by_batches(self._scores, X, self.declared_)
        matrix = self._read(X, reset=False)
        return layer_outputs(layered(self.parameters_, self._sizes(self.declared_)), matrix)

    # The release

    def _network_extra(self) -> dict[str, Any]:
        return {"hidden_layer_sizes": [int(width) for width in self.hidden_layer_sizes]}

    @classmethod
    def check_content(cls, content: Content, schema_digest: str | None) -> Guarantee:
        """What a released content promises. Raise ReleaseMalformed unless `from_release` can take it."""
        reader, current = cls._current(content)
        return super(FullyConnectedNetwork, reader).check_content(current, schema_digest)

    @classmethod
    def from_release(cls, content: Content, schema_digest: str | None) -> Self:
        """A fitted network from content that `check_content` accepted: of paper 002's class where the content is of its approach."""
        reader, current = cls._current(content)
        return cast(Self, super(FullyConnectedNetwork, reader).from_release(current, schema_digest))

    @classmethod
    def _current(cls, content: Content) -> tuple[type[FullyConnectedNetwork], Content]:
        """The class that a content is of, and the content with the names of today."""
        parameters = dict(content.parameters)
        if _FORMER_HIDDEN not in parameters or "hidden_layer_sizes" in parameters:
            return cls, content
        parameters["hidden_layer_sizes"] = parameters.pop(_FORMER_HIDDEN)
        current = replace(content, parameters=parameters)
        former = _FORMER_APPROACHES.get(str(parameters.get("approach")))
        if former is None or cls.approach in _FORMER_APPROACHES:
            return cls, current
        return learner_class(former + ("Classifier" if cls.loss == "cross_entropy" else "Regressor")), current

    @classmethod
    def _arguments(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {**super()._arguments(parameters), "hidden_layer_sizes": tuple(parameters["hidden_layer_sizes"])}

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        sizes = parameters["hidden_layer_sizes"]
        if not isinstance(sizes, list) or not all(type(width) is int for width in sizes):
            raise unfit("its parameters are not those of its learner")
        super()._take_extra(parameters)


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkClassifier(ClassTarget, FullyConnectedNetwork):
    """A private network of classes: softmax and cross-entropy."""

    classes: Sequence[Any] | None = None

    loss: ClassVar[LossName] = "cross_entropy"

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes. Raise DataError where the parameters are too large for the rows."""
        return np.asarray(softmax(finite_answers(self._scores(X)), axis=1))

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of the probabilities. Raise DataError where the parameters are too large for the rows."""
        return np.asarray(log_softmax(finite_answers(self._scores(X)), axis=1))

    def decision_function(self, X: Any) -> Floats:
        """Scores: above zero for the second of two classes; else one column a class."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row. Raise DataError where the parameters are too large for the rows."""
        codes = np.argmax(finite_answers(self._scores(X)), axis=1)
        predicted: NDArray[Any] = self.classes_[codes]
        return predicted

    def _outputs(self) -> int:
        return len(self.classes_)

    def _target(self) -> tuple[Any, ...]:
        return tuple(self.classes_.tolist())

    def _encoded_targets(self, y: object) -> Singles:
        return self._encoded_codes(class_codes(checked_labels(y), self.classes_))

    def _encoded_codes(self, target: Any) -> Singles:
        codes = np.asarray(target, dtype=np.intp)
        return np.asarray(codes[:, np.newaxis] == np.arange(len(self.classes_)), dtype=np.float32)

    def _take_target(self, written: Any) -> None:
        super()._take_target(written)
        self.classes = tuple(written)


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkRegressor(NumberTarget, FullyConnectedNetwork):
    """A private network of a bounded number: half the squared distance of targets scaled to [−1, 1]."""

    target_bounds: tuple[float, float] | None = None

    loss: ClassVar[LossName] = "squared"

    def predict(self, X: Any) -> Floats:
        """The target of each row, in its own unit and within its bounds."""
        scores = np.clip(self._scores(X)[:, 0], -1.0, 1.0)
        low, high = self.target_bounds_
        return np.asarray(low + (high - low) * (scores + 1) / 2)

    def _target(self) -> tuple[Any, ...]:
        return self.target_bounds_

    def _encoded_targets(self, y: object) -> Singles:
        return self._encoded_codes(checked_numbers(y))

    def _encoded_codes(self, target: Any) -> Singles:
        low, high = self.target_bounds_
        scaled = 2 * (np.clip(np.asarray(target, dtype=np.float64), low, high) - low) / (high - low) - 1
        return np.asarray(np.clip(scaled, -1.0, 1.0)[:, np.newaxis], dtype=np.float32)

    def _take_target(self, written: Any) -> None:
        if not isinstance(written, list) or [type(value) for value in written] != [float, float]:
            raise TypeError("not the bounds of a target")
        self.target_bounds = self.target_bounds_ = checked_target_bounds(tuple(written))


@dataclass(eq=False, repr=False)
class PrivateMLPClassifier(DpSgdTraining, NetworkClassifier):
    """(ε, δ)-DP network of classes by DP-SGD, replace-one or add/remove records. Proof: proofs/dp_sgd.md.

    ReLU layers, softmax and cross-entropy. Predictions need numpy alone; training needs the extra `neural` (JAX).

    Parameters
    ----------
    hidden_layer_sizes : widths of the hidden layers.
    epsilon, delta : the promise; delta > 0.
    schema, encoding : declared columns, and how they become numbers ("binned", "scaled" or "centred").
    bounds : public (low, high) of the columns of an array, where there is no schema.
    classes : all classes there can be. Learned from y where neither they nor a schema are given: the guarantee is void then, and a
        fit with an account is refused.
    neighbours : "replace-one" (the number of rows is public) or "add-remove" (it is not: declare `expected_rows`).
    expected_rows : about how many rows there are, by public knowledge; for "add-remove".
    max_iter, sampling_rate, learning_rate : the number of steps, the probability of a row to be in a step's sample, and how far a step
        goes in units of the clip; None for a public rule of (rows, ε, δ).
    clip, momentum : bound on the norm of a row's gradient; how much of the last step goes into the next.
    max_physical_batch_size : most rows of a sample treated at once, for memory; no part of the promise.
    accept_weak_guarantee : go on where ε of a record is above 20; the card of a release tells.
    checkpoint : where a run keeps its state and seed (a private file), to go on without paying again when it was killed.
    verbose : show a progress bar.
    account : who pays. Without one the model may be looked at by its owner but not released.
    random_state : a seed, for tests and simulation only; it voids the guarantee.

    Attributes
    ----------
    classes_, n_iter_ : as in scikit-learn; the number of steps is public.
    recipe_, noise_multiplier_, noise_scale_, grid_ : settings of the training, noise over clip, size of noise, grid (public).
    guarantee_, receipt_ : what is promised to a record, and the ledger entry that was written first.
    """


@dataclass(eq=False, repr=False)
class PrivateMLPRegressor(DpSgdTraining, NetworkRegressor):
    """(ε, δ)-DP network of a bounded number by DP-SGD, replace-one or add/remove records. Proof: proofs/dp_sgd.md.

    Targets are clipped to the public `target_bounds` (or those of the schema's target) and scaled to [−1, 1]; the loss is half
    the squared distance. Other parameters are those of PrivateMLPClassifier.
    """
