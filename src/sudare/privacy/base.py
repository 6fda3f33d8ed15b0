"""What every private learner shares: declared columns, the way through the door, and what it lets out.

A learner plans first (`plan`: shape and parameters in, mechanism and guarantee out; no data), so that its price is
known before anything is spent; then it passes through the door and adds the noise.
"""

from __future__ import annotations

import functools
import json
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from sudare.errors import DataError, InvalidParameter, ReleaseMalformed, SchemaError, WrongType
from sudare.privacy.accounting import Cost
from sudare.privacy.chain import Receipt, canonical_json
from sudare.privacy.container import LARGEST_HEADER_BYTES
from sudare.privacy.guarantee import Guarantee, Neighbours, Unit, checked_delta, checked_epsilon
from sudare.privacy.ledger import Account, Quote
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release import Content, Passage, paid_passage, pass_through, sealed
from sudare.schema import Encoding, Number, Schema, encode

Floats = NDArray[np.float64]
Bounds = tuple[float, float] | tuple[Sequence[float], Sequence[float]]

# Within this, half of a range and the grid below it are far from the smallest floats.
SMALLEST_RANGE: Final = 2.0**-900
# What a manifest holds besides the declared columns is far shorter than this.
LARGEST_DECLARATION_BYTES: Final = LARGEST_HEADER_BYTES - 2**16

_PARAMETERS: Final = {"epsilon", "delta", "neighbours", "rows", "columns", "person"}
# First lines of scikit-learn's messages that tell shapes, names of types and kinds of gaps, and never a value.
_TELLS_NO_VALUE: Final = re.compile(
    r"Found array with|Expected 2D array|Expected a 2-dimensional container|Input X contains (NaN|infinity)"
    r"|X has \d+ features, but|The feature names should match|Feature names are only supported"
    r"|Complex data not supported|Sparse data was passed|float\(\) argument must be"
)


class Mechanism(Protocol):
    """Noise calibrated to a promise (sudare.privacy.mechanisms)."""

    @property
    def cost(self) -> Cost:
        """What using it costs."""

    @property
    def noise_scale(self) -> float:
        """How much noise it adds, in the units of the values."""

    def apply(self, values: Floats, source: NoiseSource) -> Floats:
        """Values with noise."""


@dataclass(frozen=True)
class Plan:
    """What a fit will do, known from shape and parameters alone."""

    mechanism: Mechanism
    guarantee: Guarantee


class TensorRule(NamedTuple):
    """The length and the type a released tensor must have."""

    size: int
    dtype: type[np.generic]


class PrivateEstimator(BaseEstimator):
    """A learner whose `fit` charges an account before it draws noise, and whose result can be released.

    Subclasses name their encoding, relations and tensors, plan a mechanism, and compute. `schema` declares the columns;
    without one, `bounds` does, for arrays of numbers. A learner is fitted when it is sealed, which `fit` does last: a
    fit that fails leaves nothing of itself or of an earlier one that could be released.
    """

    encoding: ClassVar[Encoding] = "scaled"
    numbers_only: ClassVar[bool] = True
    relations: ClassVar[tuple[Neighbours, ...]] = ("replace-one",)
    neighbours: Neighbours = "replace-one"

    epsilon: float
    delta: float
    bounds: Bounds | None
    schema: Schema | None
    account: Account | None
    random_state: int | np.random.RandomState | None

    guarantee_: Guarantee
    receipt_: Receipt | None
    seal_: str | None
    clipped_: Mapping[str, int]
    declared_: Schema
    schema_digest_: str | None
    n_rows_: int | None
    n_features_in_: int

    @abstractmethod
    def plan(self, rows: int, declared: Schema) -> Plan:
        """Mechanism and guarantee for so many rows of these columns."""

    @abstractmethod
    def release_content(self) -> Content:
        """Everything that would leave."""

    @classmethod
    @abstractmethod
    def tensor_rules(cls, declared: Schema) -> Mapping[str, TensorRule]:
        """Length and type of every tensor that leaves, by name."""

    @classmethod
    @abstractmethod
    def values_fit(cls, content: Content, declared: Schema) -> bool:
        """Whether the numbers of a released content lie where those of this learner lie."""

    @abstractmethod
    def _take(self, content: Content) -> None:
        """Set the learned attributes from released content."""

    def price(self, X: object) -> Quote:
        """What fitting to this table would take from the account. Nothing is computed, charged or stored."""
        if self.account is None:
            raise InvalidParameter("A price needs an account.", "Give account=….")
        twin = clone(self)
        rows = len(twin._read(X, reset=True))
        plan = twin.plan(rows, twin.declared_)
        return self.account.quote(plan.guarantee, plan.mechanism.cost)

    def _enter(self, plan: Plan, mark: str = "") -> Passage:
        """Through the door: the charge is entered before this returns the noise. A mark's charge is entered once only."""
        what, cost, passage = type(self).__name__, plan.mechanism.cost, None
        if mark and self.account is not None and self.random_state is None:
            passage = paid_passage(self.account, plan.guarantee, cost, what, mark)
        if passage is None:
            passage = pass_through(self.account, self.random_state, plan.guarantee, cost, what, purpose=mark)
        self.guarantee_, self.receipt_ = passage.guarantee, passage.receipt
        return passage

    def _read(self, X: object, *, reset: bool) -> Floats:
        """The encoded matrix of a table, by declared facts only. With `reset` this is a fit: declarations are kept."""
        table = self._open(X, reset=reset)
        encoded = encode(self.declared_, table, self.encoding)
        if len(encoded.matrix) == 0:
            raise no_rows()
        if reset:
            self.clipped_ = encoded.clipped
        return encoded.matrix

    def _open(self, X: object, *, reset: bool) -> object:
        """The table, or the checked matrix where no schema declares its columns; with `reset` declarations are kept."""
        if reset:
            self._forget()
            self._check_parameters()
            by_schema = self.schema is not None
        else:
            check_is_fitted(self)
            by_schema = self.schema_digest_ is not None
        table = X if by_schema else checked_matrix(self, X, reset=reset)
        if reset:
            self._declare(X, table)
        return table

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _check_parameters(self) -> None:
        checked_epsilon(self.epsilon)
        checked_delta(self.delta)
        if self.account is not None and not isinstance(self.account, Account):
            raise InvalidParameter("account must be an Account.", "Get one from Ledger(…).account(…).")
        if self.schema is not None and not isinstance(self.schema, Schema):
            raise InvalidParameter("schema must be a Schema.", "Load one with Schema.load(…).")
        if self.schema is not None and self.bounds is not None:
            raise InvalidParameter("Both a schema and bounds were given.", "Give one of them: the schema has bounds.")

    def _declare(self, X: object, table: Any) -> None:
        """Keep what is declared about the columns of this table."""
        if self.schema is None:
            declared = self._suited(self._bounded_columns(table.shape[1]))
        else:
            declared = self._suited(self.schema)
            declared.check_person(X)
        if self.account is not None and len(canonical_json(_written_text(declared))) > LARGEST_DECLARATION_BYTES:
            raise InvalidParameter(
                "The declared columns are too many to be written into a release.",
                "Declare fewer columns, bins or categories, or fit in parts.",
            )
        self._keep(declared, None if self.schema is None else self.schema.digest)

    def _keep(self, declared: Schema, schema_digest: str | None) -> None:
        self.declared_, self.schema_digest_ = declared, schema_digest
        if schema_digest is not None:
            self.n_features_in_ = len(declared.features)
            self.feature_names_in_ = np.array(list(declared.features), dtype=object)

    @classmethod
    def _suited(cls, schema: Schema) -> Schema:
        """The schema's features, or its number columns; a missing number stands at its centre where one was declared."""
        if not cls.numbers_only:
            return Schema(dict(schema.features), schema.person)
        numbers = {
            name: replace(column, missing=column.stand_in)
            for name, column in schema.features.items()
            if isinstance(column, Number)
        }
        if not numbers:
            raise SchemaError(f"{cls.__name__} needs a number column; the schema declares none.", "Declare one.")
        for name, number in numbers.items():
            if number.high - number.low < SMALLEST_RANGE:
                raise SchemaError(f"The range of column {name!r} is below 2⁻⁹⁰⁰.", "Use another unit.")
        return Schema(numbers, schema.person)

    def _bounded_columns(self, count: int) -> Schema:
        """A schema of number columns from `bounds`."""
        if self.bounds is None:
            raise InvalidParameter(
                f"{type(self).__name__} needs public bounds, got none.",
                "Give bounds=(low, high) or a schema. Do not take them from the data: that would void the guarantee.",
            )
        try:
            low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (count,)) for end in self.bounds)
        except (TypeError, ValueError):
            raise InvalidParameter(
                f"bounds must be two numbers or two sequences of {count}.", "Give for example bounds=(0, 110)."
            ) from None
        return Schema({f"x{index}": self._bounded_column(low[index], high[index]) for index in range(count)})

    def _bounded_column(self, low: float, high: float) -> Number:
        return Number(float(low), float(high))

    def _guarantee(self, declared: Schema) -> Guarantee:
        return promise(checked_epsilon(self.epsilon), checked_delta(self.delta), self.neighbours, declared)

    def _seal(self) -> None:
        self.seal_ = sealed(self.release_content(), self.guarantee_, self.receipt_, self.schema_digest_)

    def _content(self, tensors: Mapping[str, NDArray[Any]], grids: Mapping[str, float | None]) -> Content:
        """Public parameters beside the tensors: the declarations, the price, and the number of rows where it is public."""
        parameters = {
            "epsilon": checked_epsilon(self.epsilon),
            "delta": checked_delta(self.delta),
            "neighbours": self.neighbours,
            "rows": self.n_rows_,
            **_written(self.declared_),
        }
        return Content(parameters, tensors, grids)

    @classmethod
    def check_content(cls, content: Content, schema_digest: str | None) -> Guarantee:
        """What a released content promises, if it is one that `from_release` can take."""
        parameters = content.parameters
        if set(parameters) != _PARAMETERS:
            raise _unfit("its parameters are not those of its learner")
        epsilon, delta, neighbours = (parameters[name] for name in ("epsilon", "delta", "neighbours"))
        if type(epsilon) is not float or type(delta) is not float:
            raise _unfit("a parameter is not a number")
        if neighbours not in cls.relations:
            raise _unfit("its neighbours are not those of its learner")
        rows_are_public = neighbours == "replace-one"
        if not _is_row_count(parameters["rows"]) if rows_are_public else parameters["rows"] is not None:
            raise _unfit("its number of rows is not what its neighbours allow")
        declared = _read_columns(parameters)
        if cls._suited(declared) != declared or (schema_digest is None and not _is_from_bounds(declared)):
            raise _unfit("its columns are not those of its learner")
        rules = {name: ((rule.size,), np.dtype(rule.dtype)) for name, rule in cls.tensor_rules(declared).items()}
        if {name: (tensor.shape, tensor.dtype) for name, tensor in content.tensors.items()} != rules:
            raise _unfit("its tensors do not have the shapes and types of its learner")
        if not cls.values_fit(content, declared):
            raise _unfit("its numbers lie outside of what was declared")
        return promise(epsilon, delta, neighbours, declared)

    @classmethod
    def from_release(cls, content: Content, schema_digest: str | None) -> Self:
        """A fitted learner from content that `check_content` accepted."""
        parameters = content.parameters
        declared = _read_columns(parameters)
        model = cls(epsilon=parameters["epsilon"], delta=parameters["delta"])
        if schema_digest is None:
            low, high = natural_bounds(declared)
            model.bounds, model.n_features_in_ = (tuple(low.tolist()), tuple(high.tolist())), len(low)
        else:
            model.schema = declared
        model._keep(declared, schema_digest)
        model.n_rows_ = parameters["rows"]
        model._take(content)
        return model

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "seal_")

    def __getstate__(self) -> dict[str, Any]:
        # How many values were clipped is exact: it stays in the process that looked at the data.
        return {name: value for name, value in super().__getstate__().items() if name != "clipped_"}


def promise(epsilon: float, delta: float, neighbours: Neighbours, declared: Schema) -> Guarantee:
    """The guarantee of a learner with these parameters: to persons where the schema knows them, else to records."""
    unit: Unit = "record" if declared.person is None else "person"
    return Guarantee(epsilon, delta, neighbours=neighbours, unit=unit)


def no_rows() -> DataError:
    return DataError("The table has no rows.", "Give at least one row.")


def natural_bounds(declared: Schema) -> tuple[Floats, Floats]:
    """Low and high of number columns in their own units."""
    numbers = [column for column in declared.features.values() if isinstance(column, Number)]
    return np.array([number.low for number in numbers]), np.array([number.high for number in numbers])


def checked_matrix(estimator: BaseEstimator, X: object, *, reset: bool) -> Floats:
    """A finite float64 matrix; scikit-learn's checks, but none of its messages that may quote a value."""
    if _needs_no_conversion(X) and _is_what_was_fitted(estimator, X, reset=reset):
        return X
    kind: type[DataError | WrongType]
    try:
        # Its first test for gaps adds everything up, which may overflow to both sides; it then looks at each value.
        with np.errstate(invalid="ignore"):
            matrix: Floats = validate_data(estimator, X, reset=reset, dtype=np.float64)
        return matrix
    except (ValueError, TypeError, OverflowError) as error:
        kind = WrongType if isinstance(error, TypeError) else DataError
        first_line = str(error).partition("\n")[0]
    # Raised here and not above, where the original would stay in the chain of causes.
    reason = first_line if _TELLS_NO_VALUE.match(first_line) else "X cannot be read as a table of numbers."
    raise kind(
        reason, "Give a table of finite numbers, or a schema. Reshape your data: array.reshape(-1, 1) is one column."
    )


def _needs_no_conversion(X: object) -> TypeGuard[Floats]:
    """Whether X is a matrix that scikit-learn's checks would hand back as it is. They take longer than a small fit."""
    return type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.size > 0 and bool(np.isfinite(X).all())


def _is_what_was_fitted(estimator: BaseEstimator, X: Floats, *, reset: bool) -> bool:
    """Whether columns without names are what the estimator knows; with `reset` it knows them from now on."""
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = X.shape[1]
        return True
    return not hasattr(estimator, "feature_names_in_") and getattr(estimator, "n_features_in_", None) == X.shape[1]


def _unfit(reason: str) -> ReleaseMalformed:
    return ReleaseMalformed(f"This is not a release sudare can use: {reason}.", ReleaseMalformed.help)


def _is_row_count(rows: object) -> bool:
    return type(rows) is int and 0 < rows < 2**53


def _written(declared: Schema) -> dict[str, Any]:
    """Declared columns as plain values; a list of pairs, because their order is one of the facts."""
    written: dict[str, Any] = json.loads(_written_text(declared))
    return written


@functools.lru_cache(maxsize=64)
def _written_text(declared: Schema) -> str:
    """The canonical text of `_written`; text, because what is kept must not be changed by whoever is given it."""
    document = declared.to_dict()
    return canonical_json(
        {"columns": [list(pair) for pair in document["columns"].items()], "person": document.get("person")}
    )


def _read_columns(parameters: Mapping[str, Any]) -> Schema:
    """The columns that `_written` wrote; any other spelling of them is refused."""
    columns, person = parameters["columns"], parameters["person"]
    if not isinstance(columns, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in columns
    ):
        raise _unfit("its columns are not declared")
    document = {"columns": dict(columns)}
    declared = Schema.from_dict(document if person is None else {**document, "person": person})
    if _written_text(declared) != canonical_json({"columns": columns, "person": person}):
        raise _unfit("its columns are not declared in canonical form")
    return declared


def _is_from_bounds(declared: Schema) -> bool:
    """Whether a schema could have been made from `bounds`."""
    numbers = all(isinstance(column, Number) for column in declared.columns.values())
    return (
        numbers
        and declared.person is None
        and list(declared.columns) == [f"x{i}" for i in range(len(declared.columns))]
    )
