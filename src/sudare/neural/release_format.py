"""What private networks let out, and how it is read back: with numpy alone."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from sudare.neural.calibration import Recipe
from sudare.neural.training_methods import VACUOUS_EPSILON, Floats
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.private_estimator import PrivateEstimator, TensorRule, check_shapes
from sudare.privacy.release_content import Content, unfit
from sudare.report.numbers import rounded_up
from sudare.schema import Schema
from sudare.schema.encodings import ENCODINGS

FLOAT_NOISE: Final = (
    "floating-point noise: drawn and added in 32-bit floats, so the guarantee is that of ideal arithmetic"
)
WHOLE_NOISE: Final = (
    "whole-numbered noise, its distance to the ideal law counted in δ; gradients were multiplied in 32-bit floats, with room "
    "for their rounding if the processor keeps to IEEE 754"
)


class ReleasedLayers(PrivateEstimator):
    """An estimator whose parameters are the layers of a network on a public grid."""

    numbers_only = False
    relations = ("replace-one", "add-remove")
    extra_parameters = (
        "approach",
        "encoding",
        "exact_noise",
        "expected_rows",
        "hidden",
        "parameter_epsilon",
        "target",
        "vacuous",
    )

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

    @classmethod
    def card_remarks(cls, parameters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        """Inexact noise, and the promise to a parameter beside that to a record."""
        remarks = []
        if parameters["exact_noise"] is False:
            remarks.append(("arithmetic", FLOAT_NOISE))
        elif parameters["approach"] == "gradient":
            remarks.append(("arithmetic", WHOLE_NOISE))
        if parameters["parameter_epsilon"] is not None:
            promised = rounded_up(parameters["parameter_epsilon"])
            text = f"ε = {promised} for one parameter of the model; for a record it is the guarantee above"
            remarks.append(("beside it", text))
        if parameters["vacuous"]:
            text = "the guarantee to a record says next to nothing; its owner released it all the same"
            remarks.append(("accepted", text))
        return tuple(remarks)

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

    def _restate(self, epsilon: float) -> None:
        super()._restate(epsilon)
        self.record_epsilon_ = epsilon

    def release_content(self) -> Content:
        """Parameters on their grid, and what is public about them."""
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
        return self._content({"parameters": self.parameters_}, {"parameters": self.grid_}, extra)

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there is one parameter for every weight and bias of the layers; it may be any number."""
        widths = itertools.pairwise(self._sizes(self.declared_))
        count = sum((inputs + 1) * width for inputs, width in widths)
        check_shapes(content, {"parameters": TensorRule(count, np.float64)})

    @classmethod
    def _arguments(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        told = ("approach", "delta", "encoding", "epsilon", "expected_rows", "neighbours")
        return {
            **{name: parameters[name] for name in told},
            "hidden": tuple(parameters["hidden"]),
            "accept_parameter_guarantee": parameters["vacuous"],
        }

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        if not _are_known(parameters):
            raise unfit("its parameters are not those of its learner")
        self._check_parameters()
        self._take_target(parameters["target"])

    def _take(self, content: Content) -> None:
        parameters = content.parameters
        self.approach_, self.exact_noise_ = parameters["approach"], parameters["exact_noise"]
        self.grid_ = content.grid("parameters")
        self.record_epsilon_, self.record_delta_ = parameters["epsilon"], parameters["delta"]
        promised = parameters["parameter_epsilon"]
        self.parameter_guarantee_ = None if promised is None else Guarantee(promised, notion="parameter")
        self._set_parameters(content.tensors["parameters"])


def _are_known(extra: Mapping[str, Any]) -> bool:
    """Whether what a network writes beside other learners has the types that it must have."""
    hidden, rows, promised = extra["hidden"], extra["expected_rows"], extra["parameter_epsilon"]
    return (
        extra["vacuous"] is (extra["epsilon"] > VACUOUS_EPSILON)
        and type(extra["exact_noise"]) is bool
        and isinstance(extra["approach"], str)
        and extra["encoding"] in ENCODINGS
        and isinstance(hidden, list)
        and all(type(width) is int for width in hidden)
        and (rows is None or (type(rows) is int and 0 < rows < 2**53))
        and (promised is None or (type(promised) is float and 0 < promised < np.inf))
    )
