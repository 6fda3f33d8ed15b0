"""What private networks let out, and how it is read back: with numpy alone."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

import numpy as np

from sudare.errors import ReleaseMalformed, SudareError
from sudare.neural.calibration import Recipe
from sudare.neural.routes import VACUOUS_EPSILON, Floats
from sudare.privacy.base import PrivateEstimator, TensorRule
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.release import Content
from sudare.schema import Schema
from sudare.schema.layout import ENCODINGS

# Beside what every learner writes. The privacy card tells `exact_noise`, `parameter_epsilon` and `vacuous`.
_EXTRA_PARAMETERS: Final = (
    "approach",
    "encoding",
    "exact_noise",
    "expected_rows",
    "hidden",
    "parameter_epsilon",
    "target",
    "vacuous",
)


class ReleasedLayers(PrivateEstimator):
    """An estimator whose parameters are the layers of a network on a public grid."""

    numbers_only = False
    relations = ("replace-one", "add-remove")

    approach: str
    hidden: Sequence[int]
    expected_rows: int | None

    parameters_: Floats
    parameter_guarantee_: Guarantee | None
    approach_: str
    exact_noise_: bool
    grid_: float
    record_epsilon_: float
    record_delta_: float
    recipe_: Recipe
    noise_multiplier_: float

    @abstractmethod
    def _outputs(self) -> int:
        """How many values the last layer has."""

    @abstractmethod
    def _target(self) -> tuple[Any, ...]:
        """Classes, or bounds of a number."""

    @abstractmethod
    def _take_target(self, written: Any) -> None:
        """Keep the target that a release declares; raises if it is none."""

    def _sizes(self, declared: Schema) -> tuple[int, ...]:
        """Widths of the layers, inputs first."""
        return (len(declared.names(self.encoding)), *(int(width) for width in self.hidden), self._outputs())

    def _set_parameters(self, parameters: Floats) -> None:
        self.parameters_ = parameters

    def release_content(self) -> Content:
        """Parameters on their grid, and what is public about them."""
        content = self._content({"parameters": self.parameters_}, {"parameters": self.grid_})
        paper = self.parameter_guarantee_
        extra = {
            "epsilon": self.record_epsilon_,
            "delta": self.record_delta_,
            "approach": self.approach_,
            "encoding": self.encoding,
            "exact_noise": self.exact_noise_,
            "expected_rows": None if self.expected_rows is None else int(self.expected_rows),
            "hidden": [int(width) for width in self.hidden],
            "parameter_epsilon": None if paper is None else paper.epsilon,
            "target": list(self._target()),
            "vacuous": self.record_epsilon_ > VACUOUS_EPSILON,
        }
        return replace(content, parameters={**content.parameters, **extra})

    @classmethod
    def tensor_rules(cls, declared: Schema) -> Mapping[str, TensorRule]:
        """Lengths depend on layers and encoding as well: `check_content` looks at them."""
        return {}

    @classmethod
    def values_fit(cls, content: Content, declared: Schema) -> bool:
        """Parameters may be any numbers."""
        return True

    @classmethod
    def check_content(cls, content: Content, schema_digest: str | None) -> Guarantee:
        """What a released content promises, if it is one that `from_release` can take."""
        shared = {name: value for name, value in content.parameters.items() if name not in _EXTRA_PARAMETERS}
        extra = {name: content.parameters.get(name) for name in _EXTRA_PARAMETERS}
        guarantee = super().check_content(Content(shared, {}, {}), schema_digest)
        is_vacuous = guarantee.epsilon > VACUOUS_EPSILON
        if not set(_EXTRA_PARAMETERS) <= set(content.parameters) or not _are_known(extra, is_vacuous):
            raise _unfit("its parameters are not those of its learner")
        try:
            model = cls._shell(content, schema_digest)
        except (SudareError, TypeError, ValueError, KeyError):
            raise _unfit("its parameters are not those of its learner") from None
        sizes = model._sizes(model.declared_)
        count = sum((inputs + 1) * width for inputs, width in itertools.pairwise(sizes))
        tensors = {name: (tensor.shape, tensor.dtype) for name, tensor in content.tensors.items()}
        if tensors != {"parameters": ((count,), np.dtype(np.float64))}:
            raise _unfit("its tensors do not have the shapes and types of its learner")
        return guarantee

    @classmethod
    def from_release(cls, content: Content, schema_digest: str | None) -> Self:
        """A fitted learner from content that `check_content` accepted."""
        model = cls._shell(content, schema_digest)
        model._take(content)
        return model

    @classmethod
    def _shell(cls, content: Content, schema_digest: str | None) -> Self:
        """A learner with the declarations of a release, and without its numbers."""
        parameters = content.parameters
        model = cls(
            parameters["approach"],
            tuple(parameters["hidden"]),
            epsilon=parameters["epsilon"],
            delta=parameters["delta"],
            encoding=parameters["encoding"],
            neighbours=parameters["neighbours"],
            expected_rows=parameters["expected_rows"],
            accept_parameter_guarantee=parameters["vacuous"],
        )
        person = {} if parameters["person"] is None else {"person": parameters["person"]}
        declared = Schema.from_dict({"columns": dict(parameters["columns"]), **person})
        model._check_parameters()
        model.schema = declared if schema_digest is not None else None
        model._keep(declared, schema_digest)
        if schema_digest is None:
            model.n_features_in_ = len(declared.features)
        model._take_target(parameters["target"])
        return model

    def _take(self, content: Content) -> None:
        parameters = content.parameters
        self.n_rows_, self.approach_ = parameters["rows"], parameters["approach"]
        self.exact_noise_, self.grid_ = parameters["exact_noise"], content.grid("parameters")
        self.record_epsilon_, self.record_delta_ = parameters["epsilon"], parameters["delta"]
        promised = parameters["parameter_epsilon"]
        self.parameter_guarantee_ = None if promised is None else Guarantee(promised, notion="parameter")
        self._set_parameters(content.tensors["parameters"])


def _are_known(extra: Mapping[str, Any], is_vacuous: bool) -> bool:
    """Whether what a network writes beside other learners has the types that it must have."""
    hidden, rows, promised = extra["hidden"], extra["expected_rows"], extra["parameter_epsilon"]
    return (
        extra["vacuous"] is is_vacuous
        and type(extra["exact_noise"]) is bool
        and isinstance(extra["approach"], str)
        and extra["encoding"] in ENCODINGS
        and isinstance(hidden, list)
        and all(type(width) is int for width in hidden)
        and (rows is None or (type(rows) is int and 0 < rows < 2**53))
        and (promised is None or (type(promised) is float and 0 < promised < np.inf))
    )


def _unfit(reason: str) -> ReleaseMalformed:
    return ReleaseMalformed(f"This is not a release sudare can use: {reason}.", ReleaseMalformed.help)
