"""The private networks: of classes and of numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from sudare.linear.targets import (
    ClassTarget,
    NumberTarget,
    checked_labels,
    checked_numbers,
    checked_target_bounds,
    class_codes,
    finite_answers,
)
from sudare.neural.private_network import PrivateNetwork
from sudare.neural.training_methods import Floats, LossName, Singles
from sudare.privacy.guarantee import Neighbours
from sudare.privacy.ledger import Account
from sudare.privacy.private_estimator import Bounds
from sudare.schema import Encoding, Schema


class PrivateMLPClassifier(ClassTarget, PrivateNetwork):
    """(ε, δ)-DP network of classes, replace-one or add/remove records. Proof: proofs/dp_sgd.md.

    ReLU layers, softmax and cross-entropy. Predictions need numpy alone; training needs the extra `neural` (JAX).

    Parameters
    ----------
    approach : "gradient" (noisy gradient descent), or one of the three of paper 002 (docs/neural.md): "anonymizing_first",
        "learning_first", "anonymized_learning". Of the last two ε protects a parameter; `guarantee_` is always that of a record.
    hidden : widths of the hidden layers.
    epsilon, delta : the promise. "gradient" needs delta > 0.
    schema, encoding : declared columns, and how they become numbers ("binned", "scaled" or "centred").
    bounds : public (low, high) of the columns of an array, where there is no schema.
    classes : all classes there can be. Learned from y where neither they nor a schema are given: the guarantee is void then, and a
        fit with an account is refused.
    neighbours : "replace-one" (the number of rows is public) or "add-remove" (it is not: declare `expected_rows`).
    expected_rows : about how many rows there are, by public knowledge; for "add-remove".
    steps, sampling_rate, rate : how to descend; None for a public rule of (rows, ε, δ).
    clip, momentum : bound on a row's gradient; how much of the last step goes into the next.
    physical_batch : most rows treated at once, for memory; no part of the promise.
    approach_options : of the other approaches.
    accept_parameter_guarantee : go on where ε of a record is above 20; the card of a release tells.
    checkpoint : where a run keeps its state and seed (a private file), to go on when it was killed.
    progress : show a bar.
    account : who pays. Without one the model may be looked at by its owner but not released.
    random_state : a seed, for tests and simulation only; it voids the guarantee.

    Attributes
    ----------
    classes_ : as in scikit-learn.
    recipe_, noise_multiplier_, noise_scale_, grid_ : how it descended, noise over clip, size of noise, grid (public).
    guarantee_, receipt_ : what is promised to a record, and the ledger entry that was written first.
    parameter_guarantee_ : what paper 002 promises to a parameter; None for "gradient".
    """

    def __init__(
        self,
        approach: str = "gradient",
        hidden: Sequence[int] = (64, 64),
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        schema: Schema | None = None,
        bounds: Bounds | None = None,
        classes: Sequence[Any] | None = None,
        neighbours: Neighbours = "replace-one",
        expected_rows: int | None = None,
        steps: int | None = None,
        sampling_rate: float | None = None,
        clip: float = 1.0,
        rate: float | None = None,
        momentum: float = 0.9,
        physical_batch: int | None = None,
        encoding: Encoding = "binned",
        approach_options: Mapping[str, Any] | None = None,
        accept_parameter_guarantee: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: bool = False,
        account: Account | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.approach = approach
        self.hidden = hidden
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.bounds = bounds
        self.classes = classes
        self.neighbours = neighbours
        self.expected_rows = expected_rows
        self.steps = steps
        self.sampling_rate = sampling_rate
        self.clip = clip
        self.rate = rate
        self.momentum = momentum
        self.physical_batch = physical_batch
        self.encoding = encoding  # type: ignore[misc]
        self.approach_options = approach_options
        self.accept_parameter_guarantee = accept_parameter_guarantee
        self.checkpoint = checkpoint
        self.progress = progress
        self.account = account
        self.random_state = random_state

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

    def _loss(self) -> LossName:
        return "cross_entropy"

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


class PrivateMLPRegressor(NumberTarget, PrivateNetwork):
    """(ε, δ)-DP network of a bounded number, replace-one or add/remove records. Proof: proofs/dp_sgd.md.

    Targets are clipped to the public `target_bounds` (or those of the schema's target) and scaled to [−1, 1]; the loss is half
    the squared distance. Other parameters are those of PrivateMLPClassifier.
    """

    def __init__(
        self,
        approach: str = "gradient",
        hidden: Sequence[int] = (64, 64),
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        schema: Schema | None = None,
        bounds: Bounds | None = None,
        target_bounds: tuple[float, float] | None = None,
        neighbours: Neighbours = "replace-one",
        expected_rows: int | None = None,
        steps: int | None = None,
        sampling_rate: float | None = None,
        clip: float = 1.0,
        rate: float | None = None,
        momentum: float = 0.9,
        physical_batch: int | None = None,
        encoding: Encoding = "binned",
        approach_options: Mapping[str, Any] | None = None,
        accept_parameter_guarantee: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: bool = False,
        account: Account | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.approach = approach
        self.hidden = hidden
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.neighbours = neighbours
        self.expected_rows = expected_rows
        self.steps = steps
        self.sampling_rate = sampling_rate
        self.clip = clip
        self.rate = rate
        self.momentum = momentum
        self.physical_batch = physical_batch
        self.encoding = encoding  # type: ignore[misc]
        self.approach_options = approach_options
        self.accept_parameter_guarantee = accept_parameter_guarantee
        self.checkpoint = checkpoint
        self.progress = progress
        self.account = account
        self.random_state = random_state

    def predict(self, X: Any) -> Floats:
        """The target of each row, in its own unit and within its bounds."""
        scores = np.clip(self._scores(X)[:, 0], -1.0, 1.0)
        low, high = self.target_bounds_
        return np.asarray(low + (high - low) * (scores + 1) / 2)

    def _loss(self) -> LossName:
        return "squared"

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
