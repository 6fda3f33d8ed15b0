"""What private linear models let out, and how it is read back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ReleaseMalformed, SudareError
from sudare.linear.planning import METHODS, MethodName
from sudare.linear.reading import RowReader
from sudare.privacy.base import TensorRule
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.release import Content
from sudare.schema import Schema
from sudare.schema.layout import ENCODINGS

Floats = NDArray[np.float64]

_EXTRA_PARAMETERS: Final = ("encoding", "fit_intercept", "method", "norm_bound", "penalty", "target")


class ReleasedParameters(RowReader):
    """An estimator whose parameters are one matrix on a public grid, one row an output."""

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
        content = self._content({"parameters": flat}, {"parameters": self.grid_})
        extra = {
            "encoding": None if self.schema_digest_ is None else self.encoding,
            "fit_intercept": bool(self.fit_intercept),
            "method": self.method_,
            "norm_bound": self._layout(self.declared_).norm_bound,
            "penalty": self.penalty_,
            "target": self._written_target(),
        }
        return replace(content, parameters={**content.parameters, **extra})

    @classmethod
    def tensor_rules(cls, declared: Schema) -> Mapping[str, TensorRule]:
        """Lengths depend on classes and encoding as well: `check_content` looks at them."""
        return {}

    @classmethod
    def values_fit(cls, content: Content, declared: Schema) -> bool:
        """Parameters may be any numbers."""
        return True

    @classmethod
    def check_content(cls, content: Content, schema_digest: str | None) -> Guarantee:
        """What a released content promises, if it is one that `from_release` can take."""
        extra = {name: content.parameters.get(name) for name in _EXTRA_PARAMETERS}
        shared = {name: value for name, value in content.parameters.items() if name not in extra}
        guarantee = super().check_content(Content(shared, {}, {}), schema_digest)
        known = (
            set(_EXTRA_PARAMETERS) <= set(content.parameters)
            and extra["encoding"] in ((None,) if schema_digest is None else ENCODINGS)
            and type(extra["fit_intercept"]) is bool
            and extra["method"] in METHODS
            and all(_is_size(extra[name]) for name in ("norm_bound", "penalty"))
            and set(content.tensors) == {"parameters"}
        )
        if not known:
            raise _unfit("its parameters are not those of its learner")
        try:
            model = cls._shell(content, schema_digest)
        except (SudareError, TypeError, ValueError, KeyError):
            raise _unfit("its parameters are not those of its learner") from None
        tensor, layout = content.tensors["parameters"], model._layout(model.declared_)
        if tensor.dtype != np.float64 or tensor.shape != (model._outputs() * layout.width,):
            raise _unfit("its tensors do not have the shapes and types of its learner")
        if extra["norm_bound"] != layout.norm_bound:
            raise _unfit("its norm bound is not that of its columns")
        return guarantee

    @classmethod
    def from_release(cls, content: Content, schema_digest: str | None) -> Self:
        """A fitted learner from content that `check_content` accepted."""
        model = cls._shell(content, schema_digest)
        parameters = content.parameters
        model.method_, model.penalty_, model.n_rows_ = (parameters[name] for name in ("method", "penalty", "rows"))
        model._take(content)
        return model

    @classmethod
    def _shell(cls, content: Content, schema_digest: str | None) -> Self:
        """A learner with the declarations of a release, and without its numbers."""
        parameters = content.parameters
        model = cls(epsilon=parameters["epsilon"], delta=parameters["delta"])
        shared = Schema.from_dict(
            {
                "columns": dict(parameters["columns"]),
                **({"person": parameters["person"]} if parameters["person"] else {}),
            }
        )
        model.fit_intercept = parameters["fit_intercept"]
        if schema_digest is None:
            model.norm_bound = parameters["norm_bound"]
            model.n_features_in_ = len(shared.features)
        else:
            model.schema = shared
            model.encoding = parameters["encoding"]  # type: ignore[misc]
        model._check_parameters()
        model._keep(shared, schema_digest)
        model._take_target(parameters["target"])
        return model

    def _take(self, content: Content) -> None:
        self.grid_ = content.grid("parameters")
        self._set_parameters(content.tensors["parameters"].reshape(self._outputs(), -1))


def _is_size(value: object) -> bool:
    return type(value) is float and 0 <= value < np.inf


def _unfit(reason: str) -> ReleaseMalformed:
    return ReleaseMalformed(f"This is not a release sudare can use: {reason}.", ReleaseMalformed.help)
