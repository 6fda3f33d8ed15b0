"""A private network that is any function written in JAX: `PrivateNetwork(apply, params, loss)`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats, Singles
from sudare.errors import DataError, InvalidParameter
from sudare.frames.sources import by_batches, is_in_memory
from sudare.linear.targets import (
    accuracy_of,
    checked_classes,
    checked_labels,
    checked_numbers,
    checked_target_bounds,
    class_codes,
    finite_answers,
    r2_of,
    refuse_no_target,
)
from sudare.neural.network_estimator import DpSgdTraining
from sudare.neural.parameter_trees import Leaf, nested, read_leaves, trained_arrays, tree_of
from sudare.neural.training_method_base import LARGEST_INPUT, check_inputs, require_jax
from sudare.privacy.declared_columns import natural_bounds
from sudare.privacy.release_content import Content, unfit
from sudare.schema import Encoding, Number, Schema

_ROWS_AT_ONCE: Final = 1024
_LOSSES: Final = ("cross_entropy", "squared")
_OWN_LOSS: Final = "own"


@dataclass(eq=False, repr=False)
class PrivateNetwork(DpSgdTraining):
    """(ε, δ)-DP parameters of any JAX function by DP-SGD, replace-one or add/remove records. Proof: proofs/dp_sgd.md.

    The loss of every row is computed for that row alone, whatever `apply` does with a batch, and its gradient is clipped; `params` are where
    training starts, and what of them is not trained is public and stays: never take them from the records.

    Parameters
    ----------
    apply : apply(params, inputs): outputs for inputs [rows, …], rows first. Functions of Flax and Haiku are such; of Equinox, combine
        parts and map over rows inside.
    params : a tree of arrays (dicts, lists, modules).
    loss : "cross_entropy" (outputs are one score a class), "squared" (half the squared distance to the target), or loss(output, target)
        for one row, whose target is a class's place or an array of numbers. None for the first with classes, the second without.
    trainable : says of the name of an array ("layers/0/weights") whether it is trained. None: all 32- and 64-bit floats are.
    classes, target_bounds : all classes there can be, or public bounds that every number of the target is clipped to; or a schema with a target.
    bounds : public (low, high) of the inputs, for arrays [rows, …]: values are clipped to them and not scaled.
    schema, encoding : declared columns of a table, and how they become numbers.
    epsilon, delta, neighbours, expected_rows, max_iter, sampling_rate, clip, learning_rate, momentum, max_physical_batch_size, checkpoint,
    verbose, accept_weak_guarantee, account, random_state : as in PrivateMLPClassifier.

    Attributes
    ----------
    params_ : the tree with what was trained. Of a network from a release: give it `apply`, and `params` of the same tree where a part was frozen or
        the tree is more than dicts and lists.
    leaves_ : path, shape and type of every array, and whether it was trained: what a release declares.
    classes_, recipe_, noise_multiplier_, noise_scale_, grid_, guarantee_, receipt_ : as in PrivateMLPClassifier.
    """

    apply: Callable[..., Any] | None = None
    params: Any = None
    loss: Callable[..., Any] | str | None = None
    _: KW_ONLY
    trainable: Callable[[str], bool] | None = None
    classes: Sequence[Any] | None = None
    target_bounds: tuple[float, float] | None = None
    encoding: Encoding = "scaled"

    extra_parameters: ClassVar[tuple[str, ...]] = (
        *DpSgdTraining.extra_parameters,
        "frozen",
        "input_shape",
        "loss",
        "predicts",
        "target_shape",
        "tree",
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor" if self.classes is None and self.target_bounds is not None else "classifier"
        tags.target_tags.required = self.schema is None
        return tags

    # Declarations

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.loss is not None and not callable(self.loss) and self.loss not in (*_LOSSES, _OWN_LOSS):
            raise InvalidParameter(
                'loss must be "cross_entropy", "squared" or a function.', "Give loss=lambda output, target: …."
            )
        for name in ("apply", "trainable"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise InvalidParameter(f"{name} must be a function.", "See the documentation of PrivateNetwork.")

    def _declared_target(self) -> tuple[Any, Any]:
        """Classes and bounds of the target, of which one is None. Raise InvalidParameter unless one is declared."""
        classes, bounds = self.classes, self.target_bounds
        if isinstance(self.schema, Schema) and self.schema.target is not None:
            column = self.schema.columns[self.schema.target]
            if isinstance(column, Number):
                classes, bounds = None, (column.low, column.high)
            else:
                classes, bounds = self.schema.classes, None
        if (classes is None) == (bounds is None):
            raise InvalidParameter(
                "PrivateNetwork needs either classes or target_bounds.",
                "Give classes=[…], target_bounds=(low, high), or a schema with a target.",
            )
        return classes, bounds

    def _declare_target(self, y: object) -> None:
        classes, bounds = self._declared_target()
        if classes is not None:
            self.classes_ = checked_classes(classes)
        else:
            self.target_bounds_ = checked_target_bounds(bounds)

    @property
    def _loss(self) -> Callable[..., Any] | str:
        return ("cross_entropy" if hasattr(self, "classes_") else "squared") if self.loss is None else self.loss

    def _target(self) -> tuple[Any, ...]:
        return tuple(self.classes_.tolist()) if hasattr(self, "classes_") else self.target_bounds_

    # Reading

    def _read_rows(self, X: Any, y: Any) -> tuple[Singles, Singles]:
        if self.apply is None or self.params is None or self.loss == _OWN_LOSS:
            raise InvalidParameter(
                "PrivateNetwork needs apply and params, and the loss where it is a function.",
                "Give PrivateNetwork(apply, params, loss, …).",
            )
        rows, targets = super()._read_rows(X, y)
        if self.schema is not None:
            self.input_shape_ = rows.shape[1:]
        return rows, targets

    def _read(self, X: Any, *, reset: bool) -> Floats:
        """Encoded rows of a table; rows of an array as they are but within the bounds, flat."""
        if self.schema is not None if reset else self.schema_digest_ is not None:
            return super()._read(X, reset=reset)
        shape = np.shape(X)
        if len(shape) < 2 or 0 in shape:
            raise DataError(
                "X must be an array of rows: [rows, …].", "Give one with two axes or more, none of them empty."
            )
        if not reset and shape[1:] != tuple(self.input_shape_):
            raise DataError(
                f"Rows have shape {shape[1:]}; the network takes {tuple(self.input_shape_)}.",
                "Give rows of that shape.",
            )
        flat = np.asarray(X).reshape(shape[0], -1) if len(shape) > 2 else X
        matrix = np.asarray(self._open(flat, reset=reset), dtype=np.float64)
        low, high = natural_bounds(self.declared_)
        if reset:
            self.input_shape_ = shape[1:]
            outside = np.sum((matrix < low) | (matrix > high), axis=0).tolist()
            self.clipped_ = dict(zip(self.declared_.features, outside, strict=True))
        clipped: Floats = np.clip(matrix, low, high)
        return clipped

    def _encoded_targets(self, y: object) -> Singles:
        if hasattr(self, "classes_"):
            return self._encoded_codes(class_codes(checked_labels(y), self.classes_))
        numbers = np.asarray(y)
        self.target_shape_ = numbers.shape[1:]
        return self._clipped(checked_numbers(numbers.ravel()).reshape(len(numbers), -1))

    def _encoded_codes(self, target: Any) -> Singles:
        self.target_shape_ = ()
        codes = np.asarray(target, dtype=np.float64)[:, np.newaxis]
        return codes.astype(np.float32) if hasattr(self, "classes_") else self._clipped(codes)

    def _clipped(self, numbers: Floats) -> Singles:
        return np.clip(numbers, *self.target_bounds_).astype(np.float32)

    # The plan

    def _facts(self, rows: int, declared: Schema) -> Any:
        require_jax()
        from sudare.neural.function_facts import FunctionFacts, Target

        if self.schema is None:
            _check_natural(declared)
        else:
            check_inputs(declared, self.encoding)
        if not hasattr(self, "input_shape_"):
            self._declare_target(None)
        tree = tree_of(self.params, self.trainable)
        self.leaves_: tuple[Leaf, ...] = tree.leaves
        self.frozen_digest_: str | None = tree.digest(trained=False)
        shape = getattr(self, "input_shape_", (len(declared.names(self.encoding)),))
        target = Target(len(self.classes_) if hasattr(self, "classes_") else 0, getattr(self, "target_shape_", ()))
        function: Any = self.apply
        return FunctionFacts.traced(
            function, self._loss, tree, shape, target, rows=rows, neighbours=self.neighbours, declared=declared
        )

    def _largest_physical_batch(self, facts: Any) -> int:
        return int(facts.largest_physical_batch)

    # Prediction

    @property
    def params_(self) -> Any:
        """The tree of parameters, trained ones in their places. Raise InvalidParameter where `params` do not fit the release."""
        check_is_fitted(self)
        trained = trained_arrays(self.leaves_, self.parameters_)
        if self.params is None and self.frozen_digest_ is None:
            return nested(self.leaves_, trained)
        names = {leaf.name for leaf in self.leaves_ if leaf.trained}
        fits = self.params is not None
        if fits:
            tree = tree_of(self.params, names.__contains__)
            fits = tree.leaves == self.leaves_ and tree.digest(trained=False) == self.frozen_digest_
        if not fits:
            raise InvalidParameter(
                "params are not of the tree that was trained, or not with its public part.",
                "Give params of that tree, its frozen arrays as they were: a release holds their digest only.",
            )
        import jax

        new = iter(trained)
        values = [next(new) if leaf.trained else value for leaf, value in zip(tree.leaves, tree.values, strict=True)]
        return jax.tree.unflatten(tree.structure, values)

    def _scores(self, X: Any) -> Floats:
        if self.apply is None:
            raise InvalidParameter(
                "The function did not travel with the release.", "Give it: model.set_params(apply=…)."
            )
        check_is_fitted(self)
        if self.schema_digest_ is not None and not is_in_memory(X):
            return by_batches(self._scores, X, self.declared_)
        matrix, params, function = self._read(X, reset=False), self.params_, self.apply
        shape = tuple(self.input_shape_)
        parts = [
            np.asarray(
                function(params, matrix[start : start + _ROWS_AT_ONCE].astype(np.float32).reshape(-1, *shape)),
                dtype=np.float64,
            )
            for start in range(0, len(matrix), _ROWS_AT_ONCE)
        ]
        return np.concatenate(parts)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row, that of the largest output; or the outputs, within the bounds of the target where the loss is "squared"."""
        scores = finite_answers(self._scores(X))
        if hasattr(self, "classes_"):
            labels: NDArray[Any] = self.classes_[np.argmax(scores, axis=1)]
            return labels
        if self._loss != "squared":
            return scores
        return np.clip(scores.reshape(len(scores), *self.target_shape_), *self.target_bounds_)

    def predict_proba(self, X: Any) -> Floats:
        """The softmax of the outputs. Raise InvalidParameter where there are no classes."""
        check_is_fitted(self)
        if not hasattr(self, "classes_"):
            raise InvalidParameter("This network predicts numbers, not classes.", "Use predict.")
        return np.asarray(softmax(finite_answers(self._scores(X)), axis=1))

    def score(self, X: Any, y: Any = None) -> float:
        """Accuracy of classes, or R². Exact: for the owner only. Without y the target is taken from the table."""
        predicted = self.predict(X)
        if y is None and self.schema is not None and self.schema.target is not None:
            y = self.schema.encode_target(X)
            y = self.classes_[y] if hasattr(self, "classes_") else y
        refuse_no_target(y)
        if hasattr(self, "classes_"):
            return accuracy_of(y, predicted)
        return r2_of(np.asarray(y).reshape(len(predicted), -1), predicted.reshape(len(predicted), -1))

    # The release

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there are as many parameters as the tree has, and inputs as there are columns."""
        super().check_numbers(content)
        columns = self.declared_.features if self.schema_digest_ is None else self.declared_.names(self.encoding)
        if math.prod(self.input_shape_) != len(columns):
            raise unfit("its inputs are not those of its columns")

    def _parameter_count(self) -> int:
        return sum(leaf.size for leaf in self.leaves_ if leaf.trained)

    def _network_extra(self) -> dict[str, Any]:
        loss = self._loss
        return {
            "frozen": self.frozen_digest_,
            "input_shape": [int(side) for side in self.input_shape_],
            "loss": loss if isinstance(loss, str) else _OWN_LOSS,
            "predicts": "class" if hasattr(self, "classes_") else "number",
            "target_shape": [int(side) for side in self.target_shape_],
            "tree": [leaf.written() for leaf in self.leaves_],
        }

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        frozen, loss, shapes = (
            parameters["frozen"],
            parameters["loss"],
            (parameters["input_shape"], parameters["target_shape"]),
        )
        self.leaves_ = read_leaves(parameters["tree"])
        is_class = parameters["predicts"] == "class"
        if not (
            parameters["predicts"] in ("class", "number")
            and loss in (*_LOSSES, _OWN_LOSS)
            and loss != ("squared" if is_class else "cross_entropy")
            and all(
                isinstance(shape, list) and all(type(side) is int and side > 0 for side in shape) for shape in shapes
            )
            and not (is_class and shapes[1])
            and (frozen is None) is all(leaf.trained for leaf in self.leaves_)
            and (frozen is None or (type(frozen) is str and len(bytes.fromhex(frozen)) == 32))
        ):
            raise unfit("its parameters are not those of its learner")
        self.frozen_digest_, self.loss = frozen, loss
        self.input_shape_, self.target_shape_ = map(tuple, shapes)
        self._takes_classes = is_class
        super()._take_extra(parameters)

    def _take_target(self, written: Any) -> None:
        if not isinstance(written, list) or len({type(value) for value in written}) != 1:
            raise TypeError("not a target")
        if not self._takes_classes:
            if [type(value) for value in written] != [float, float]:
                raise TypeError("not the bounds of a target")
            self.target_bounds = self.target_bounds_ = checked_target_bounds(tuple(written))
            return
        if type(written[0]) not in (str, int, bool, float):
            raise TypeError("not a list of classes")
        self.classes_, self.classes = checked_classes(written), tuple(written)


def _check_natural(declared: Schema) -> None:
    """Raise InvalidParameter unless all inputs are within ±2³⁰."""
    low, high = natural_bounds(declared)
    if max(np.max(np.abs(low)), np.max(np.abs(high))) > LARGEST_INPUT:
        raise InvalidParameter("bounds go beyond 2³⁰, too large for a network.", "Use another unit.")
