"""A private additive classifier: the log-odds of a class are a sum of shapes, one for every column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.frames.row_reader import checked_rows, placed
from sudare.frames.rows import Arrays, Rows
from sudare.frames.sources import by_batches, in_memory, is_in_memory
from sudare.linear.additive_boosting import AdditiveBoosting, BoostingRecipe
from sudare.linear.estimators import PrivateLinearClassifier
from sudare.linear.losses import Logistic, Loss
from sudare.linear.mechanism import LinearMechanism
from sudare.linear.method_choice import planned, public_penalty
from sudare.linear.rows import RowLayout, table_layout
from sudare.linear.targets import LogisticProbabilities, check_lengths, missing_y
from sudare.parameter_checks import Numbers
from sudare.privacy.array_checks import checked_matrix
from sudare.privacy.fit_plan import Plan
from sudare.privacy.ledger import Account
from sudare.privacy.private_estimator import Bounds, PrivateEstimator
from sudare.privacy.release_content import Content, TensorRule, check_shapes, on_grid, unfit
from sudare.schema import Column, Date, Encoding, Number, Schema, encode
from sudare.schema.encoder import one_positions

BOOSTING: Final = "boosting"
_DIRECTIONS: Final = {"increasing": 1, "decreasing": -1}
MAX_BINS: Final = Numbers(2, 10_000, whole=True, optional=True)


class Shape(NamedTuple):
    """What a column adds to the log-odds of a class, bin by bin, about its mean over the bins. `bins` are in words."""

    bins: tuple[str, ...]
    values: Floats


@dataclass(eq=False, repr=False)
class PrivateAdditiveClassifier(LogisticProbabilities, PrivateLinearClassifier):
    """(ε, δ)-DP or ε-DP additive classifier, replace-one rows. Proofs: proofs/additive_boosting.md, proofs/objective.md.

    The log-odds of a class are a sum of shapes, one for every column: steps over the bins of a number, a value for every category. With δ > 0 they are
    boosted, all columns at once, on noisy histograms; with delta = 0 they are the minimiser of a perturbed objective.

    Parameters
    ----------
    epsilon, delta : the promise. With delta = 0 it is pure.
    schema : declared columns; their bins are the steps of the shapes. `bounds` declare the columns of an array instead.
    max_bins : into how many equal bins the range of a number is cut, beside the bins that are declared; None for the declared ones alone. More bins
        have more noise.
    monotone : of columns of numbers by name, "increasing" or "decreasing": which way the shape must go (two classes only).
    classes : all classes there can be. Learned from y where neither they nor a schema are given: the guarantee is void then, and a
        fit with an account is refused.
    account : who pays. Without one the model may be looked at by its owner but not released.
    random_state : a seed, for tests and simulation only; it voids the guarantee.
    cluster : a client of dask.distributed, or the address of a scheduler, whose workers read the rows, keep them and add them up; None is here.

    Attributes
    ----------
    classes_ : as in scikit-learn.
    parameters_ : the shapes, one after the other, one row a class (one in all for two classes).
    method_, grid_, noise_scale_ : "boosting" or "objective", the grid of the parameters, size of the noise (public).
    guarantee_, receipt_ : what is promised, and the ledger entry that was written first.
    """

    extra_parameters = ("method", "monotone", "target")  # type: ignore[assignment]
    methods = (BOOSTING, "objective")
    encoding: ClassVar[Encoding] = "binned"  # type: ignore[misc]
    fit_intercept: ClassVar[bool] = False  # type: ignore[misc]
    norm_bound: ClassVar[float] = 1.0  # type: ignore[misc]
    regularization: ClassVar[float | None] = None  # type: ignore[misc]
    method: ClassVar[str] = "auto"  # type: ignore[misc]
    sampling_rate: ClassVar[float | None] = None  # type: ignore[misc]
    # Public numbers of the boosting; other ones are for `benchmarks.additive_boosting`.
    _recipe: ClassVar[BoostingRecipe] = BoostingRecipe()

    epsilon: float = 1.0
    delta: float = 0.0
    _: KW_ONLY
    bounds: Bounds | None = None  # type: ignore[assignment]
    max_bins: int | None = None
    monotone: Mapping[str, str] | None = None
    classes: Sequence[Any] | None = None
    schema: Schema | None = None
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None
    cluster: Any = None

    # Checks

    def _check_parameters(self) -> None:
        super()._check_parameters()
        MAX_BINS.check("max_bins", self.max_bins)
        monotone = self.monotone
        if monotone is not None and not (
            isinstance(monotone, Mapping) and all(way in _DIRECTIONS for way in map(str, monotone.values()))
        ):
            raise InvalidParameter(
                "monotone must name columns with “increasing” or “decreasing”.",
                'Use for example {"age": "increasing"}.',
            )

    def _directions(self, declared: Schema) -> tuple[int, ...]:
        """1, −1 or 0 for every column. Raise InvalidParameter where a column that is named cannot have one."""
        asked = self.monotone or {}
        for name in asked:
            if not isinstance(declared.features.get(name), Number):
                raise InvalidParameter(
                    f"monotone names {str(name)[:64]!r}, which is no declared column of numbers.",
                    "Name columns of numbers.",
                )
        if asked and self._outputs() > 1:
            raise InvalidParameter("monotone is for two classes.", "Leave it out, or learn one class against the rest.")
        return tuple(_DIRECTIONS[asked[name]] if name in asked else 0 for name in declared.features)

    # Reading: the bins of every row

    def _columns_of(self, schema: Schema) -> Schema:
        return finer(self._suited(schema), self.max_bins)

    def _bounded_column(self, low: float, high: float) -> Number:
        return finer_number(Number(low, high), self.max_bins)

    def _layout(self, declared: Schema) -> RowLayout:
        return table_layout(declared, "binned", False)

    def _read_rows(self, X: Any, y: Any) -> Rows:
        self._keep_source(X)
        schema = self.schema
        if schema is None:
            return self._read_arrays(X, y)
        if y is not None and not is_in_memory(X):
            raise InvalidParameter("y was given beside a data source.", "Declare the target in the schema.")
        self._keep(self._columns_of(schema), schema.digest)
        self._declare_target(y)
        reader = partial(self._reader()._block, y=y, schema=schema)
        return checked_rows(X, reader, schema, keep=True, cluster=self.cluster)

    def _read_arrays(self, X: Any, y: Any) -> Rows:
        if isinstance(X, Iterator) or not is_in_memory(X):
            raise InvalidParameter("A data source needs a schema.", "Give schema=Schema.load(…).")
        matrix = checked_matrix(self, X, reset=True)
        if y is None:
            raise missing_y()
        self._keep(self._bounded_columns(matrix.shape[1]), None)
        self._declare_target(y)
        targets = self._encoded_targets(y)
        check_lengths(len(matrix), len(targets))
        return placed(Rows.held(*self._bins(matrix), targets), self.cluster)

    def _bins(self, table: Any) -> Arrays:
        """The bins of every row: as positions for boosting, written out for a solver."""
        if self._reads_positions():
            return (one_positions(self.declared_, table),)
        return (encode(self.declared_, table, "binned").matrix,)

    def _reads_positions(self) -> bool:
        return self.delta > 0

    # Plan

    def plan(self, rows: int, declared: Schema) -> Plan[LinearMechanism]:
        """Mechanism and guarantee for so many rows of these columns; sets what is public about them."""
        directions = self._directions(declared)
        facts, epsilon, delta = self._facts(rows, declared, 0.0), self._values_epsilon(declared), float(self.delta)
        mechanism: LinearMechanism
        if delta > 0:
            sizes = tuple(block.width for block in declared.blocks("binned"))
            mechanism = AdditiveBoosting(facts, epsilon, delta, sizes, directions, ordered_bins(declared), self._recipe)
            self.method_ = BOOSTING  # type: ignore[assignment]
        else:
            facts = replace(facts, penalty=public_penalty("objective", facts, epsilon, delta))
            mechanism = planned("objective", facts, epsilon, delta)
            self.method_ = "objective"
        self.n_rows_, self.grid_, self.noise_scale_ = rows, mechanism.grid, mechanism.noise_scale
        return Plan(mechanism, self._guarantee(declared))

    def _loss(self) -> Loss:
        return Logistic()

    def _set_parameters(self, parameters: Floats) -> None:
        """Keep the shapes, each made to go where it must: that is post-processing, and changes nothing that goes there already."""
        directions, start, found = self._directions(self.declared_), 0, parameters.copy()
        for block, ordered, way in zip(
            self.declared_.blocks("binned"), ordered_bins(self.declared_), directions, strict=True
        ):
            if way:
                part = slice(start, start + ordered)
                found[0, part] = on_grid(isotonic_regression(found[0, part], increasing=way > 0), self.grid_)
            start += block.width
        super()._set_parameters(found)

    # Prediction

    def _scores(self, X: Any) -> Floats:
        """Log-odds, one column an output."""
        check_is_fitted(self)
        if self.schema_digest_ is not None and not is_in_memory(X):
            return by_batches(self._scores, X, self.declared_)
        table: Any = checked_matrix(self, X, reset=False) if self.schema_digest_ is None else in_memory(X)
        positions = one_positions(self.declared_, table)
        sums = np.stack([line[positions].sum(axis=1) for line in self.parameters_], axis=1)
        return unclipped_log_odds(sums) if self.method_ == BOOSTING else sums  # type: ignore[comparison-overlap]

    def shapes(self, output: int = 0) -> dict[str, Shape]:
        """What every column adds to the log-odds of a class, by its name: of the second of two classes, or of the class at that place."""
        from sudare.statistics.histogram import group_levels

        check_is_fitted(self)
        if not 0 <= output < len(self.parameters_):
            raise InvalidParameter(f"There is no class at place {output!r}.", "Count classes_ from 0.")
        ends = np.cumsum([block.width for block in self.declared_.blocks("binned")])
        parts = np.split(self.parameters_[output], ends[:-1])
        return {
            name: Shape(tuple("missing" if level is None else str(level) for level in group_levels(column)), part - part.mean())
            for (name, column), part in zip(self.declared_.features.items(), parts, strict=True)
        }  # fmt: skip

    # What is released, and how it is read back

    def release_content(self) -> Content:
        """Shapes on their grid, and what is public about them."""
        extra = {
            "method": self.method_,
            "monotone": dict(sorted((self.monotone or {}).items())),
            "target": self._written_target(),
        }
        flat = np.ascontiguousarray(self.parameters_.ravel())
        return self._content({"parameters": flat}, {"parameters": self.grid_}, extra)

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there is one parameter for every bin and output, and shapes go where they must."""
        width = self._layout(self.declared_).width
        check_shapes(content, {"parameters": TensorRule(self._outputs() * width, np.float64)})
        self.grid_ = content.grid("parameters")
        lines = content.tensors["parameters"].reshape(self._outputs(), -1)
        self._set_parameters(lines)
        if not np.array_equal(self.parameters_, lines):
            raise unfit("a shape does not go where it must")

    @classmethod
    def _arguments(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {name: parameters[name] for name in ("epsilon", "delta")} | {"monotone": parameters["monotone"] or None}

    def _take_bounds(self, declared: Schema) -> None:
        PrivateEstimator._take_bounds(self, declared)

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        if parameters["method"] != (BOOSTING if self.delta > 0 else "objective"):
            raise unfit("its parameters are not those of its learner")
        self._check_parameters()
        self._take_target(parameters["target"])
        self.method_ = parameters["method"]


def unclipped_log_odds(sums: Floats) -> Floats:
    """Log-odds from sums of shapes that were learned from slopes clipped at one half: ±log((1 + e^|s|)/2). Proof: proofs/additive_boosting.md."""
    return np.asarray(np.sign(sums) * (np.logaddexp(0.0, np.abs(sums)) - np.log(2.0)))


def finer(schema: Schema, max_bins: int | None) -> Schema:
    """The schema with finer bins of its numbers, by their bounds alone."""
    if max_bins is None:
        return schema
    columns: dict[str, Column] = {
        name: finer_number(column, max_bins) if isinstance(column, Number) else column
        for name, column in schema.columns.items()
    }
    return Schema(columns, schema.person, schema.target)


def finer_number(number: Number, max_bins: int | None) -> Number:
    """A number whose range is cut into so many equal bins, beside its declared bins. Dates keep the bins that they have."""
    if max_bins is None or isinstance(number, Date):
        return number
    edges = np.linspace(number.low, number.high, max_bins + 1)[1:-1]
    both = np.unique(np.concatenate([np.ceil(edges) if number.whole else edges, number.bins or ()]))
    inner = tuple(float(edge) for edge in both if number.low < edge < number.high)
    return replace(number, bins=inner) if inner else number


def ordered_bins(declared: Schema) -> tuple[int, ...]:
    """How many bins of each column are in order: those of numbers, without that of missing ones."""
    return tuple(len(column.edges) + 1 if isinstance(column, Number) else 0 for column in declared.features.values())
