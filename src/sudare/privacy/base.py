"""What every private learner shares: declared columns, the way through the door, and what it lets out.

A learner plans first (`plan`: shape and parameters in, mechanism and guarantee out; no data), so that its price is
known before anything is spent; then it passes through the door and adds the noise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from sudare.errors import DataError, InvalidParameter, ReleaseMalformed, SchemaError
from sudare.privacy.accounting import Cost
from sudare.privacy.chain import Receipt
from sudare.privacy.guarantee import Guarantee, Neighbours, Unit, checked_delta, checked_epsilon
from sudare.privacy.ledger import Account, Quote
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release import Content, Passage, pass_through
from sudare.schema import Encoding, Number, Schema, encode

Floats = NDArray[np.float64]
Bounds = tuple[float, float] | tuple[Sequence[float], Sequence[float]]


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

    Subclasses name their encoding and tensors, plan a mechanism, and compute. `schema` declares the columns; without
    one, `bounds` does, for arrays of numbers.
    """

    encoding: ClassVar[Encoding] = "scaled"
    numbers_only: ClassVar[bool] = True
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

    def price(self, X: object) -> Quote:
        """What fitting to this table would take from the account. Nothing is computed, charged or stored."""
        if self.account is None:
            raise InvalidParameter("A price needs an account.", "Give account=….")
        twin = clone(self)
        rows = len(twin._read(X, reset=True))
        plan = twin.plan(rows, twin.declared_)
        return self.account.quote(plan.guarantee, plan.mechanism.cost)

    def _enter(self, plan: Plan) -> Passage:
        """Through the door: the charge is entered before this returns the noise."""
        passage = pass_through(
            self.account, self.random_state, plan.guarantee, plan.mechanism.cost, what=type(self).__name__
        )
        self.guarantee_, self.receipt_ = passage.guarantee, passage.receipt
        return passage

    def _read(self, X: object, *, reset: bool) -> Floats:
        """The encoded matrix of a table, by declared facts only. With `reset` this is a fit: declarations are kept."""
        if reset:
            self._check_parameters()
        else:
            check_is_fitted(self)
        declared = self._declared(X, reset=reset)
        table = X if self.schema is not None else checked_matrix(self, X, reset=reset)
        if reset:
            declared.check_person(X)
            self.declared_ = declared
            self.n_features_in_ = len(declared.features)
        encoded = encode(declared, table, self.encoding)
        if len(encoded.matrix) == 0:
            raise DataError("The table has no rows.", "Give at least one row.")
        if reset:
            self.clipped_ = encoded.clipped
        return encoded.matrix

    def _check_parameters(self) -> None:
        checked_epsilon(self.epsilon)
        checked_delta(self.delta)
        if self.account is not None and not isinstance(self.account, Account):
            raise InvalidParameter("account must be an Account.", "Get one from Ledger(…).account(…).")
        if self.schema is not None and not isinstance(self.schema, Schema):
            raise InvalidParameter("schema must be a Schema.", "Load one with Schema.load(…).")
        if self.schema is not None and self.bounds is not None:
            raise InvalidParameter("Both a schema and bounds were given.", "Give one of them: the schema has bounds.")

    def _declared(self, X: object, *, reset: bool) -> Schema:
        """The declared columns that this learner works on."""
        if not reset:
            return self.declared_
        if self.schema is not None:
            return self._chosen_columns(self.schema)
        return self._bounded_columns(checked_matrix(self, X, reset=True).shape[1])

    def _chosen_columns(self, schema: Schema) -> Schema:
        """The schema's features, or its number columns; a missing number stands at its centre where one was declared."""
        if not self.numbers_only:
            return Schema(dict(schema.features), schema.person)
        numbers = {
            name: replace(column, missing=column.stand_in)
            for name, column in schema.features.items()
            if isinstance(column, Number)
        }
        if not numbers:
            raise SchemaError(f"{type(self).__name__} needs a number column; the schema declares none.", "Declare one.")
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
        unit: Unit = "record" if declared.person is None else "person"
        return Guarantee(float(self.epsilon), float(self.delta), neighbours=self.neighbours, unit=unit)

    def _seal(self) -> None:
        self.seal_ = self.release_content().digest()

    def _content(
        self, rows: int | None, tensors: Mapping[str, NDArray[Any]], grids: Mapping[str, float | None]
    ) -> Content:
        """Public parameters beside the tensors: the declarations, the price, and the number of rows where it is public."""
        parameters = {
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "neighbours": self.neighbours,
            "rows": rows,
            "columns": self.declared_.to_toml(),
        }
        return Content(parameters, tensors, grids)

    @classmethod
    def check_content(cls, content: Content) -> None:
        """Nothing, if a released content is one that `from_release` can take."""
        parameters = content.parameters
        if set(parameters) != {"epsilon", "delta", "neighbours", "rows", "columns"}:
            raise _unfit("its parameters are not those of its learner")
        checked_epsilon(_number(parameters["epsilon"]))
        checked_delta(_number(parameters["delta"]))
        rows = parameters["rows"]
        if parameters["neighbours"] == "replace-one":
            if type(rows) is not int or not 0 < rows < 2**53:
                raise _unfit("its number of rows is not a whole number")
        elif parameters["neighbours"] != "add-remove" or rows is not None:
            raise _unfit("its neighbours are not known")
        rules = cls.tensor_rules(_columns(parameters["columns"]))
        found = {name: (tensor.shape, tensor.dtype) for name, tensor in content.tensors.items()}
        if found != {name: ((rule.size,), np.dtype(rule.dtype)) for name, rule in rules.items()}:
            raise _unfit("its tensors do not have the shapes and types of its learner")

    @classmethod
    def from_release(cls, content: Content) -> Self:
        """A fitted learner from content that `check_content` accepted."""
        parameters = content.parameters
        model = cls(epsilon=parameters["epsilon"], delta=parameters["delta"])
        model.neighbours = parameters["neighbours"]
        model.declared_ = model.schema = _columns(parameters["columns"])
        model.n_features_in_ = len(model.declared_.features)
        model._take(content)
        return model

    @abstractmethod
    def _take(self, content: Content) -> None:
        """Set the learned attributes from released content."""


def checked_matrix(estimator: BaseEstimator, X: object, *, reset: bool) -> Floats:
    """A finite float64 matrix; scikit-learn's checks without the parts of its messages that print data."""
    try:
        matrix: Floats = validate_data(estimator, X, reset=reset, dtype=np.float64)
    except ValueError as error:
        reason = str(error).splitlines()[0]
        if "could not convert" in reason:
            reason = "X holds text where numbers are needed."
        raise DataError(reason, "Give a table of finite numbers, or a schema that says what the columns are.") from None
    return matrix


def _unfit(reason: str) -> ReleaseMalformed:
    return ReleaseMalformed(f"This is not a release sudare can use: {reason}.", ReleaseMalformed.help)


def _number(value: object) -> float:
    if type(value) is not float:
        raise _unfit("a parameter is not a number")
    return value


def _columns(text: object) -> Schema:
    if not isinstance(text, str):
        raise _unfit("its columns are not declared")
    columns = Schema.from_toml(text)
    if columns.to_toml() != text:
        raise _unfit("its columns are not declared in canonical form")
    return columns
