"""What the private linear models share: reading rows and targets, planning, fitting, and what they let out."""

from __future__ import annotations

import functools
import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Final, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sudare.errors import DataError, InvalidParameter, ReleaseMalformed, SchemaError, SudareError
from sudare.frames import SqlSource, batches
from sudare.linear.losses import Loss
from sudare.linear.perturbation import Facts, Method
from sudare.linear.planning import METHODS, MethodName, chosen_method, planned, public_penalty
from sudare.linear.rows import Block, HeldRows, Rows, StreamedRows, bounded_rows, joint_norm, with_bias
from sudare.privacy.base import Plan, PrivateEstimator, TensorRule, checked_matrix
from sudare.privacy.estimators import rows_per_unit
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Quote
from sudare.privacy.mechanisms import power_of_two_below
from sudare.privacy.release import Content
from sudare.privacy.selection import select_privately
from sudare.schema import Encoding, Number, Schema, encode
from sudare.schema.layout import ENCODINGS

Floats = NDArray[np.float64]

_LARGEST_NORM: Final = 2.0**100
_EXTRA_PARAMETERS: Final = ("encoding", "fit_intercept", "method", "norm_bound", "penalty", "target")


class PrivateLinearModel(PrivateEstimator):
    """A linear model fitted within a privacy budget. Subclasses say what the targets are and which loss is used."""

    numbers_only = False

    norm_bound: float
    regularization: float | Sequence[float] | None
    fit_intercept: bool
    method: str
    bounds = None

    coef_: Floats
    intercept_: Floats | float
    method_: MethodName
    penalty_: float
    grid_: float
    noise_scale_: float

    # Targets

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss."""

    @abstractmethod
    def _declare_target(self, y: object, schema: Schema | None) -> bool:
        """Keep what is declared about the target; False where it had to be learned from y, which voids the guarantee."""

    @abstractmethod
    def _encoded_targets(self, y: object) -> Floats:
        """Targets as the loss takes them, one column an output."""

    @abstractmethod
    def _outputs(self) -> int:
        """How many score functions are fitted."""

    @abstractmethod
    def _written_target(self) -> Any:
        """What is declared about the target, as plain values."""

    @abstractmethod
    def _take_target(self, written: Any) -> None:
        """Keep the target that a release declares; raises if it is none."""

    @abstractmethod
    def _row_scores(self, X: Any, y: Any) -> Floats:
        """One number in [0, 1] a row, larger is better, for choosing among regularizations."""

    # Fitting

    def fit(self, X: Any, y: Any = None) -> Self:
        """Charge, then fit.

        `X` and `y` are arrays; or `X` is a table (or the path of one, or an iterator of batches) with a schema that
        declares the target.
        """
        self._forget()
        self._check_parameters()
        if self._candidates() is not None:
            return self._fit_chosen(X, y)
        rows, declared_target = self._read_rows(X, y)
        plan = self.plan(rows.count, self.declared_)
        if not declared_target:
            plan = replace(plan, guarantee=replace(plan.guarantee, valid=False))
        passage = self._enter(plan)
        self._set_parameters(cast(Method, plan.mechanism).fitted(rows, passage.noise))
        self._seal()
        return self

    def plan(self, rows: int, declared: Schema) -> Plan:
        """Method and guarantee for so many rows of these columns; sets what is public about the method."""
        facts = self._facts(rows, declared)
        epsilon, delta = float(self.epsilon), float(self.delta)
        self.method_ = chosen_method(facts, epsilon, delta) if self.method == "auto" else cast(MethodName, self.method)
        if self.regularization is None:
            penalty = public_penalty(self.method_, facts, epsilon, delta)
        else:
            penalty = float(cast(float, self.regularization)) * rows
        method = planned(self.method_, replace(facts, penalty=penalty), epsilon, delta)
        self.n_rows_, self.grid_, self.noise_scale_ = rows, method.grid, method.noise_scale
        self.penalty_ = float(getattr(method, "penalty", penalty))
        return Plan(method, self._guarantee(declared))

    def price(self, X: object, y: object = None) -> Quote:
        """What fitting would take from the account. Nothing is computed, charged or stored."""
        if self.account is None:
            raise InvalidParameter("A price needs an account.", "Give account=….")
        twin = clone(self)
        twin._check_parameters()
        if twin._candidates() is not None:
            twin.regularization = 1.0
        rows, _ = twin._read_rows(X, y)
        plan = twin.plan(rows.count, twin.declared_)
        return self.account.quote(plan.guarantee, plan.mechanism.cost)

    def _facts(self, rows: int, declared: Schema) -> Facts:
        bias = self._bias(declared)
        width = self._feature_count(declared) + (bias != 0)
        nonnegative = self.schema_digest_ is not None and bool(np.all(declared.bounds(self.encoding)[0] >= 0))
        return Facts(
            rows=rows,
            width=width,
            norm_bound=joint_norm(self._row_norm(declared), bias),
            loss=self._loss(),
            penalty=0.0,
            outputs=self._outputs(),
            rows_per_unit=rows_per_unit(declared),
            nonnegative=nonnegative,
        )

    def _feature_count(self, declared: Schema) -> int:
        return len(declared.features) if self.schema_digest_ is None else len(declared.names(self.encoding))

    def _row_norm(self, declared: Schema) -> float:
        """The public bound on a row's norm, without the bias."""
        return float(self.norm_bound) if self.schema_digest_ is None else declared.norm_bound(self.encoding)

    def _bias(self, declared: Schema) -> float:
        """The constant column: a power of two near half the row norm, so that it adds little to the noise; zero if none.

        None is needed where some column is encoded one-hot: its parts add up to one already.
        """
        if not self.fit_intercept or (self.schema_digest_ is not None and has_one_hot(declared, self.encoding)):
            return 0.0
        return power_of_two_below(self._row_norm(declared)) / 2

    def _set_parameters(self, parameters: Floats) -> None:
        """Coefficients and intercepts from parameters, of which the last is the bias where there is one."""
        self.parameters_ = parameters
        bias = self._bias(self.declared_)
        if bias:
            self.coef_, self.intercept_ = parameters[:, :-1], parameters[:, -1] * bias
        else:
            self.coef_, self.intercept_ = parameters, np.zeros(len(parameters))

    def _fit_chosen(self, X: Any, y: Any) -> Self:
        """Fit with a regularization chosen privately from the list, all from one ε."""
        if self.delta != 0:
            raise InvalidParameter(
                "Choosing among regularizations is for pure guarantees; delta is not 0.", "Set delta=0, or give one."
            )
        if isinstance(X, Iterator | str | os.PathLike | SqlSource):
            raise InvalidParameter("Choosing among regularizations needs the rows in memory.", "Give a table.")
        candidates = [clone(self).set_params(regularization=value) for value in self._candidates() or ()]
        chosen = select_privately(
            candidates,
            X,
            y,
            epsilon=self.epsilon,
            row_scores=lambda model, rows, targets: model._row_scores(rows, targets),
            account=self.account,
            random_state=self.random_state,
        )
        for name, value in vars(chosen.model).items():
            if name.endswith("_") and not name.startswith("_"):
                setattr(self, name, value)
        self.regularization_ = float((self._candidates() or ())[chosen.candidate])
        self._seal()
        return self

    def _candidates(self) -> tuple[float, ...] | None:
        value = self.regularization
        if value is None or isinstance(value, Real):
            return None
        return tuple(float(one) for one in cast(Sequence[float], value))

    # Reading

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.method not in (*METHODS, "auto"):
            raise InvalidParameter(f"method must be auto or one of {', '.join(METHODS)}.", 'Use method="auto".')
        if self.encoding not in ENCODINGS:
            raise InvalidParameter(f"encoding must be one of {', '.join(ENCODINGS)}.", "Use one of these words.")
        if not isinstance(self.norm_bound, Real) or not 1 / _LARGEST_NORM <= self.norm_bound <= _LARGEST_NORM:
            raise InvalidParameter(
                f"norm_bound must be a positive number, got {self.norm_bound!r}.",
                "Give the largest norm a row can have by public knowledge; longer rows are scaled down to it.",
            )
        try:
            candidates = self._candidates()
            values = candidates if candidates is not None else (self.regularization,)
            fine = len(values) > 0 and all(value is None or 1e-30 <= float(value) <= 1e30 for value in values)
        except (TypeError, ValueError):
            fine = False
        if not fine:
            raise InvalidParameter(
                "regularization must be a positive number, a list of them, or None.", "Use None for the public rule."
            )

    def _read_rows(self, X: Any, y: Any) -> tuple[Rows, bool]:
        """Bounded rows with targets, and whether everything was declared; keeps what is declared."""
        if self.schema is None:
            return self._read_arrays(X, y)
        if isinstance(X, str | os.PathLike | SqlSource):
            return self._read_source(X, y)
        if isinstance(X, Iterator):
            parts = list(batches(X, schema=self.schema))
            if not parts:
                raise DataError("The source has no rows.", "Give at least one batch.")
            self._keep_schema(self.schema)
            self.schema.check_person(iter(parts))
            declared_target = self._declare_target(None, self.schema)
            blocks = [self._block(part) for part in parts]
            return HeldRows(
                np.concatenate([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks])
            ), declared_target
        self._keep_schema(self.schema)
        self.schema.check_person(X)
        declared_target = self._declare_target(y, self.schema)
        matrix, targets = self._block(X, y)
        return HeldRows(matrix, targets), declared_target

    def _keep_schema(self, schema: Schema) -> None:
        declared = self._suited(schema)
        self._keep(declared, schema.digest)

    def _read_arrays(self, X: Any, y: Any) -> tuple[Rows, bool]:
        if isinstance(X, Iterator):
            pairs = list(X)
            if y is not None or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs) or not pairs:
                raise DataError("An iterator without a schema must give pairs (X, y).", "Give pairs, or a schema.")
            X, y = np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])
        if isinstance(X, str | os.PathLike | SqlSource):
            raise InvalidParameter("A data source needs a schema.", "Give schema=Schema.load(…).")
        matrix = checked_matrix(self, X, reset=True)
        norm = float(self.norm_bound)
        self._keep(unnamed_columns(matrix.shape[1], norm), None)
        if y is None:
            raise DataError("y is missing: requires y to be passed, but the target y is None.", "Give y.")
        declared_target = self._declare_target(y, None)
        targets = self._encoded_targets(y)
        if len(targets) != len(matrix):
            raise DataError(
                f"Found input variables with inconsistent numbers of samples: [{len(matrix)}, {len(targets)}].",
                "Give one target a row.",
            )
        bounded, self.clipped_rows_ = bounded_rows(matrix, norm)
        return HeldRows(with_bias(bounded, self._bias(self.declared_)), targets), declared_target

    def _read_source(self, source: Any, y: Any) -> tuple[Rows, bool]:
        """Rows that are read anew at every pass; the first pass checks them all, before anything is charged."""
        schema = cast(Schema, self.schema)
        if y is not None:
            raise InvalidParameter("y was given beside a data source.", "Declare the target in the schema.")
        self._keep_schema(schema)
        declared_target = self._declare_target(None, schema)
        if schema.person is not None:
            schema.check_person(iter(batches(source, schema=schema)))
        blocks: Iterable[Block] = (self._block(part) for part in batches(source, schema=schema))
        count = sum(len(matrix) for matrix, _ in blocks)
        if count == 0:
            raise DataError("The source has no rows.", "Check the path or query.")
        width = self._facts(count, self.declared_).width
        return (
            StreamedRows(lambda: (self._block(part) for part in batches(source, schema=schema)), count, width),
            declared_target,
        )

    def _block(self, table: Any, y: Any = None) -> Block:
        """Encoded, bounded rows of a table with their targets; from the table itself where y is not given."""
        schema = cast(Schema, self.schema)
        encoded = encode(self.declared_, table, self.encoding)
        if len(encoded.matrix) == 0:
            raise DataError("The table has no rows.", "Give at least one row.")
        if y is None:
            if schema.target is None:
                raise SchemaError("The schema declares no target, and no y was given.", "Declare one, or give y.")
            y = schema.encode_target(table)
            targets = self._encoded_codes(y)
        else:
            targets = self._encoded_targets(y)
        if len(targets) != len(encoded.matrix):
            raise DataError("The table and y have different numbers of rows.", "Give one target a row.")
        bounded, _ = bounded_rows(encoded.matrix, self._row_norm(self.declared_))
        return with_bias(bounded, self._bias(self.declared_)), targets

    @abstractmethod
    def _encoded_codes(self, target: Any) -> Floats:
        """Targets from the schema's encoding of the target column."""

    # Prediction

    def _scores(self, X: Any) -> Floats:
        """coef·x + intercept, one column an output."""
        check_is_fitted(self)
        if self.schema_digest_ is None:
            matrix = checked_matrix(self, X, reset=False)
        else:
            matrix = encode(self.declared_, X, self.encoding).matrix
        parameters = self.parameters_
        bias = self._bias(self.declared_)
        scores: Floats = matrix @ parameters[:, : matrix.shape[1]].T
        return scores + parameters[:, -1] * bias if bias else scores

    # Release

    def release_content(self) -> Content:
        """Parameters on their grid, and what is public about them."""
        flat = np.ascontiguousarray(self.parameters_.ravel())
        content = self._content({"parameters": flat}, {"parameters": self.grid_})
        extra = {
            "encoding": None if self.schema_digest_ is None else self.encoding,
            "fit_intercept": bool(self.fit_intercept),
            "method": self.method_,
            "norm_bound": self._row_norm(self.declared_),
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
        tensor = content.tensors["parameters"]
        facts = model._facts(content.parameters["rows"], model.declared_)
        if tensor.dtype != np.float64 or tensor.shape != (facts.outputs * facts.width,):
            raise _unfit("its tensors do not have the shapes and types of its learner")
        if extra["norm_bound"] != model._row_norm(model.declared_):
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

    def __getstate__(self) -> dict[str, Any]:
        # How many rows were scaled down is exact: it stays in the process that looked at the data.
        return {name: value for name, value in super().__getstate__().items() if name != "clipped_rows_"}


@functools.lru_cache(maxsize=64)
def unnamed_columns(count: int, norm_bound: float) -> Schema:
    """What is known of the columns of an array whose rows are within a norm."""
    return Schema({f"x{index}": Number(-norm_bound, norm_bound) for index in range(count)})


def has_one_hot(declared: Schema, encoding: Encoding) -> bool:
    """Whether some column becomes a group of columns of which one is 1 and the others are 0."""
    return encoding == "binned" or not all(isinstance(column, Number) for column in declared.features.values())


def _is_size(value: object) -> bool:
    return type(value) is float and 0 <= value < np.inf


def _unfit(reason: str) -> ReleaseMalformed:
    return ReleaseMalformed(f"This is not a release sudare can use: {reason}.", ReleaseMalformed.help)
