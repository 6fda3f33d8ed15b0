"""What private linear models let out, and how it is read back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sudare.linear.method_choice import METHODS, MethodName
from sudare.linear.reading import RowReader
from sudare.privacy.private_estimator import TensorRule, check_shapes
from sudare.privacy.release_content import Content, unfit
from sudare.schema import Schema
from sudare.schema.layout import ENCODINGS

Floats = NDArray[np.float64]


class ReleasedParameters(RowReader):
    """An estimator whose parameters are one matrix on a public grid, one row an output."""

    extra_parameters = ("encoding", "fit_intercept", "method", "norm_bound", "penalty", "target")
    # Which methods a release may name.
    methods: ClassVar[tuple[str, ...]] = METHODS

    parameters_: Floats
    method_: MethodName
    penalty_: float
    grid_: float

    @abstractmethod
    def _outputs(self) -> int:
        """How many score functions are fitted."""

    @abstractmethod
    def _set_parameters(self, parameters: Floats) -> None:
        """Keep the parameters, also in the form in which people read them."""

    @abstractmethod
    def _written_target(self) -> Any:
        """What is declared about the target, as plain values."""

    @abstractmethod
    def _take_target(self, written: Any) -> None:
        """Keep the target that a release declares; raises if it is none."""

    def release_content(self) -> Content:
        """Parameters on their grid, and what is public about them."""
        flat = np.ascontiguousarray(self.parameters_.ravel())
        extra = {
            "encoding": None if self.schema_digest_ is None else self.encoding,
            "fit_intercept": bool(self.fit_intercept),
            "method": self.method_,
            "norm_bound": self._layout(self.declared_).norm_bound,
            "penalty": self.penalty_,
            "target": self._written_target(),
        }
        return self._content({"parameters": flat}, {"parameters": self.grid_}, extra)

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there is one parameter for every column and output; it may be any number."""
        layout = self._layout(self.declared_)
        check_shapes(content, {"parameters": TensorRule(self._outputs() * layout.width, np.float64)})
        if content.parameters["norm_bound"] != layout.norm_bound:
            raise unfit("its norm bound is not that of its columns")

    @classmethod
    def _arguments(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        about_rows = "norm_bound" if parameters["encoding"] is None else "encoding"
        return {name: parameters[name] for name in ("epsilon", "delta", "fit_intercept", about_rows)}

    def _take_bounds(self, declared: Schema) -> None:
        # What is declared of an array is the norm of its rows.
        self.n_features_in_ = len(declared.features)

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        known = (
            parameters["encoding"] in ((None,) if self.schema is None else ENCODINGS)
            and type(parameters["fit_intercept"]) is bool
            and parameters["method"] in self.methods
            and all(_is_size(parameters[name]) for name in ("norm_bound", "penalty"))
        )
        if not known:
            raise unfit("its parameters are not those of its learner")
        self._check_parameters()
        self._take_target(parameters["target"])
        self.method_, self.penalty_ = parameters["method"], parameters["penalty"]

    def _take(self, content: Content) -> None:
        self.grid_ = content.grid("parameters")
        self._set_parameters(content.tensors["parameters"].reshape(self._outputs(), -1))


def _is_size(value: object) -> bool:
    return type(value) is float and 0 <= value < np.inf
