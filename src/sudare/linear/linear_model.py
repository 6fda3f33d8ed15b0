"""What the private linear models share, from top to bottom: checks, reading, plan, fit, prediction, release.

A model *has* a reader of rows (`sudare.frames.row_reader`), a mechanism (`mechanism`, chosen by `method_choice`) and a target (`targets`). A fit reads
and checks all rows, plans from public facts, charges the account, and only then draws noise; what is released is on a public grid.
"""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Final, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter, SchemaError
from sudare.frames.row_reader import checked_rows, placed
from sudare.frames.row_spool import Spool
from sudare.frames.rows import Arrays, Rows
from sudare.frames.sources import by_batches, in_memory, is_in_memory
from sudare.frames.spark_sums import is_spark
from sudare.linear.descent import GradientDescent
from sudare.linear.descent_on_centred_targets import RECIPE as CENTRED_RECIPE
from sudare.linear.descent_on_centred_targets import CentredDescent, CentredRecipe, budget_parts
from sudare.linear.losses import Loss
from sudare.linear.mechanism import Facts, LinearMechanism
from sudare.linear.mechanism_with_score_line import CalibratedMechanism, split
from sudare.linear.method_choice import (
    METHODS,
    STATISTICS,
    MethodName,
    chosen_encoding,
    chosen_method,
    needs_calibration,
    planned,
    public_penalty,
)
from sudare.linear.rows import RowLayout, array_layout, bounded_rows, norm_bounded_columns, table_layout, with_bias
from sudare.linear.score_calibration import Recipe
from sudare.linear.sufficient_statistics import RECIPE as STATISTICS_RECIPE
from sudare.linear.sufficient_statistics import StatisticsRecipe, SufficientStatistics
from sudare.linear.targets import check_lengths, missing_y
from sudare.parameter_checks import Numbers
from sudare.privacy.array_checks import checked_matrix
from sudare.privacy.candidate_selection import Selection, row_count, selection_plan
from sudare.privacy.declared_columns import rows_per_unit
from sudare.privacy.fit_plan import Calibrated, Plan
from sudare.privacy.private_estimator import PrivateEstimator
from sudare.privacy.release_content import Content, TensorRule, check_shapes, unfit
from sudare.safe_text import told
from sudare.schema import ENCODINGS, Encoding, Schema, encode
from sudare.schema.encoder import one_positions

_LARGEST_NORM: Final = 2.0**100
# The bound on rows of an array where none is given: they are shortened to it, and that is said.
_UNDECLARED_NORM: Final = 1.0
_SHORTENED: Final = (
    "No norm_bound was given, and rows longer than 1 were shortened to 1. Give norm_bound=… by public knowledge, or a schema; "
    "or scale the columns."
)
_AUTO: Final = "auto"


class PrivateLinearModel(PrivateEstimator):
    """A linear model fitted within a privacy budget. Subclasses say what the targets are and which loss is used.

    Its parameters are one matrix on a public grid, one row an output.
    """

    numbers_only = False
    for_the_owner = (*PrivateEstimator.for_the_owner, "clipped_rows_")
    extra_parameters = ("encoding", "fit_intercept", "method", "norm_bound", "penalty", "target")
    # Which methods a release may name.
    methods: ClassVar[tuple[str, ...]] = METHODS
    # How scores are given their level and slope; None where they are left as they are. Other ones are for `benchmarks.panel.linear_choices`.
    _calibration: ClassVar[Recipe | None] = None
    # The same of several classes.
    _calibration_of_several: ClassVar[Recipe | None] = None
    # The same of sufficient statistics, for learners that have this method.
    _statistics: ClassVar[StatisticsRecipe] = STATISTICS_RECIPE
    # The same of descent on numbers.
    _centred: ClassVar[CentredRecipe] = CENTRED_RECIPE

    bounds = None
    encoding: Literal["auto", "binned", "centred", "scaled"]  # type: ignore[assignment]
    norm_bound: float | None
    regularization: float | Sequence[float] | None
    fit_intercept: bool
    method: str
    sampling_rate: float | None

    encoding_: Encoding
    parameters_: Floats
    coef_: Floats
    intercept_: Floats | float
    method_: MethodName
    penalty_: float
    grid_: float
    noise_scale_: float
    clipped_rows_: int

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss."""

    @abstractmethod
    def _outputs(self) -> int:
        """How many score functions are fitted."""

    @abstractmethod
    def _row_scores(self, X: Any, y: Any) -> Floats:
        """One number in [0, 1] a row, larger is better, for choosing among regularizations."""

    @abstractmethod
    def _declare_target(self, y: object) -> None:
        """Keep what is declared about the target, or what y tells where nothing is, which voids the guarantee."""

    @abstractmethod
    def _encoded_targets(self, y: object) -> Floats:
        """Targets as the loss takes them, one column an output."""

    @abstractmethod
    def _encoded_codes(self, target: Any) -> Floats:
        """Targets from the schema's encoding of the target column."""

    @abstractmethod
    def _written_target(self) -> Any:
        """What is declared about the target, as plain values."""

    @abstractmethod
    def _take_target(self, written: Any) -> None:
        """Keep the target that a release declares; raises if it is none."""

    # Checks

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.method not in (*self.methods, "auto"):
            raise InvalidParameter(
                f"method must be auto or one of {', '.join(self.methods)}, got {told(self.method)}.",
                'Use method="auto".',
            )
        bound = self._norm_bound()
        if not isinstance(bound, Real) or not 1 / _LARGEST_NORM <= bound <= _LARGEST_NORM:
            raise InvalidParameter(
                f"norm_bound must be a positive number, got {self.norm_bound!r}.",
                "Give the largest norm a row can have by public knowledge; longer rows are scaled down to it.",
            )
        Numbers(2.0**-32, 1, optional=True).check("sampling_rate", self.sampling_rate)
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

    def _candidates(self) -> tuple[float, ...] | None:
        value = self.regularization
        if value is None or isinstance(value, Real):
            return None
        return tuple(float(one) for one in cast(Sequence[float], value))

    # Reading: bounded rows with targets, by declared facts only

    def _norm_bound(self) -> float:
        """The bound on the rows of an array."""
        return _UNDECLARED_NORM if self.norm_bound is None else self.norm_bound

    @property
    def used_encoding(self) -> Encoding:
        """How columns became numbers: what "auto" stands for, where that was asked for and is known."""
        return cast(Encoding, getattr(self, "encoding_", self.encoding))

    def _choose_encoding(self, rows: int, declared: Schema) -> None:
        """Keep what "auto" stands for with so many rows."""
        if self.encoding == _AUTO:
            self.encoding_ = self._chosen_encoding(rows, declared)

    def _chosen_encoding(self, rows: int, declared: Schema) -> Encoding:
        """What "auto" stands for with so many rows."""
        return chosen_encoding(rows, declared)

    def _known_encodings(self) -> tuple[str, ...]:
        return (_AUTO, *super()._known_encodings())

    def _released_sums(self, declared: Schema) -> int:
        return len(declared.names(self.used_encoding))

    def _layout(self, declared: Schema) -> RowLayout:
        if self.schema_digest_ is None:
            return array_layout(len(declared.columns), float(self._norm_bound()), bool(self.fit_intercept))
        return table_layout(declared, self.used_encoding, bool(self.fit_intercept))

    def _read_rows(self, X: Any, y: Any) -> Rows:
        """Bounded rows with targets, all checked; keeps what is declared."""
        if is_spark(X):
            raise InvalidParameter(
                "The rows of a Spark dataframe come in no fixed order, and a model needs one.",
                "Write it to Parquet files, and give their path.",
            )
        self._keep_source(X)
        schema = self.schema
        if schema is None:
            return self._read_pairs(X, y) if isinstance(X, Iterator) else self._read_arrays(X, y)
        if y is not None and not is_in_memory(X):
            raise InvalidParameter("y was given beside a data source.", "Declare the target in the schema.")
        self._keep(self._suited(schema), schema.digest)
        self._declare_target(y)
        if self.encoding == _AUTO:
            X = in_memory(X, schema)
            self._choose_encoding(row_count(X), self.declared_)
        return checked_rows(
            X, partial(self._reader()._block, y=y, schema=schema), schema, keep=True, cluster=self.cluster
        )

    def _reader(self) -> Self:
        """This model as workers of a cluster may have it: without account."""
        reader = copy.copy(self)
        reader.account, reader.cluster = None, None
        return reader

    def _read_arrays(self, X: Any, y: Any) -> Rows:
        if not is_in_memory(X):
            raise InvalidParameter("A data source needs a schema.", "Give schema=Schema.load(…).")
        matrix = checked_matrix(self, X, reset=True)
        self._keep(norm_bounded_columns(matrix.shape[1], float(self._norm_bound())), None)
        if y is None:
            raise missing_y()
        self._declare_target(y)
        targets = self._encoded_targets(y)
        check_lengths(len(matrix), len(targets))
        rows, self.clipped_rows_ = self._bounded(matrix)
        return placed(Rows.held(rows, targets), self.cluster)

    def _read_pairs(self, pairs: Iterator[Any], y: Any) -> Rows:
        """Rows and targets of pairs of arrays. Targets wait as they are, one value a row, where nothing is declared of them."""
        if y is not None:
            raise _not_pairs()
        spool, waiting = Spool(), []
        self.clipped_rows_ = 0
        is_declared = not self._undeclared()
        if is_declared:
            self._declare_target(None)
        for number, pair in enumerate(pairs):
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise _not_pairs()
            matrix = checked_matrix(self, pair[0], reset=number == 0)
            if number == 0:
                self._keep(norm_bounded_columns(matrix.shape[1], float(self._norm_bound())), None)
            targets = self._encoded_targets(pair[1]) if is_declared else np.asarray(pair[1])
            check_lengths(len(matrix), len(targets))
            rows, clipped = self._bounded(matrix)
            self.clipped_rows_ += clipped
            spool.append((rows, targets) if is_declared else (rows,))
            if not is_declared:
                waiting.append(targets)
        if spool.count == 0:
            raise _not_pairs()
        if is_declared:
            return placed(Rows.held(*spool.together()), self.cluster)
        undeclared = np.concatenate(waiting)
        self._declare_target(undeclared)
        return placed(Rows.held(*spool.together(), self._encoded_targets(undeclared)), self.cluster)

    def _bounded(self, matrix: Floats) -> tuple[Floats, int]:
        layout = self._layout(self.declared_)
        bounded, clipped = bounded_rows(matrix, layout.norm_bound)
        if clipped and self.norm_bound is None and self.schema_digest_ is None:
            warnings.warn(_SHORTENED, RuntimeWarning, stacklevel=2)
        return with_bias(bounded, layout.bias), clipped

    def _block(self, table: Any, y: Any, schema: Schema) -> Arrays:
        """Encoded, bounded rows of a table with their targets; from the table itself where y is not given."""
        if self._reads_positions():
            rows: NDArray[Any] = one_positions(self.declared_, table)
        else:
            rows = self._bounded(encode(self.declared_, table, self.used_encoding).matrix)[0]
        if y is not None:
            targets = self._encoded_targets(y)
        elif schema.target is None:
            raise SchemaError("The schema declares no target, and no y was given.", "Declare one, or give y.")
        else:
            targets = self._encoded_codes(schema.encode_target(table))
        check_lengths(len(rows), len(targets))
        return rows, targets

    def _reads_positions(self) -> bool:
        """Whether rows are read as positions of ones: descent takes them so, and ones are within every bound and on every grid."""
        is_descent = self.method == "descent" or (self.method == "auto" and self.delta > 0)
        return self.used_encoding == "binned" and is_descent and "descent" in self.methods

    # Plan

    def plan(self, rows: int, declared: Schema) -> Plan[LinearMechanism]:
        """Mechanism and guarantee for so many rows of these columns; sets what is public about them."""
        self._choose_encoding(rows, declared)
        penalty = 0.0 if self.regularization is None else float(cast(float, self.regularization)) * rows
        facts, layout = self._facts(rows, declared, penalty), self._layout(declared)
        epsilon, delta = self._values_epsilon(declared), float(self.delta)
        recipe = self._calibration_for(facts, layout)
        self.method_ = cast(MethodName, self.method)
        if self.method == "auto":
            self.method_ = self._chosen_method(facts, epsilon, delta, recipe is not None, layout.is_binned)
        if not self._needs_shares() and not needs_calibration(self.method_, facts, epsilon, delta):
            recipe = None
        if self.sampling_rate is not None and self.method_ != "descent":
            raise InvalidParameter(
                f'sampling_rate is for method="descent"; this fit is planned with "{self.method_}".',
                'Leave it out, or use method="descent" with delta > 0.',
            )
        if self.method_ == STATISTICS and facts.loss.one_sided and recipe is None:
            raise InvalidParameter(
                'method="statistics" learns a direction of classes, and there is no column for a level.',
                "Use fit_intercept=True, or another method.",
            )
        located = None if facts.loss.one_sided else self._located_mechanism(facts, layout, epsilon, recipe is not None)
        if located is not None:
            return self._planned(located, rows, declared)
        parts = None
        if recipe is not None:
            is_gaussian = self.method_ != "objective" and self.sampling_rate in (None, 1)
            parts = split(epsilon, delta, rows / facts.rows_per_unit, recipe, is_gaussian)
        promise = (epsilon, delta) if parts is None else (parts.epsilon, parts.delta)
        if self.regularization is None:
            facts = replace(facts, penalty=public_penalty(self.method_, facts, *promise))
        if self.method_ == STATISTICS:
            mechanism: LinearMechanism = SufficientStatistics(facts, layout, *promise, self._statistics)
        else:
            mechanism = planned(self.method_, facts, *promise, self._sampling_rate(), recipe is not None)
        if parts is not None and recipe is not None:
            mechanism = CalibratedMechanism(mechanism, layout, parts, epsilon, delta, recipe)
        return self._planned(mechanism, rows, declared)

    def _needs_shares(self) -> bool:
        """Whether answers need the shares of classes."""
        return False

    def _calibration_for(self, facts: Facts, layout: RowLayout) -> Recipe | None:
        """How scores are given their level and slope; None where there is no place for a level, too."""
        recipe = self._calibration if facts.outputs == 1 else self._calibration_of_several
        return recipe if layout.has_constant else None

    def _located_mechanism(
        self, facts: Facts, layout: RowLayout, epsilon: float, has_level: bool
    ) -> LinearMechanism | None:
        """A mechanism of numbers that finds out itself where they lie; None where the method has none."""
        delta = float(self.delta)
        if self.method_ == STATISTICS:
            return SufficientStatistics(facts, layout, epsilon, delta, self._statistics)
        if self.method_ != "descent" or not has_level or delta == 0:
            return None
        level, rest = budget_parts(epsilon, facts.rows / facts.rows_per_unit, self._centred)
        descent = cast(GradientDescent, planned("descent", facts, rest, delta, self._sampling_rate()))
        return CentredDescent(descent, layout, level, epsilon, delta, self._centred)

    def _sampling_rate(self) -> float:
        return 1.0 if self.sampling_rate is None else float(self.sampling_rate)

    def _planned(self, mechanism: LinearMechanism, rows: int, declared: Schema) -> Plan[LinearMechanism]:
        """The plan of a fit with a mechanism; keeps what is public about it."""
        self.n_rows_, self.penalty_ = rows, mechanism.penalty
        self.grid_, self.noise_scale_ = mechanism.grid, mechanism.noise_scale
        return Plan(mechanism, self._guarantee(declared))

    def _chosen_method(
        self, facts: Facts, epsilon: float, delta: float, is_calibrated: bool, is_binned: bool
    ) -> MethodName:
        """What "auto" stands for."""
        if self.sampling_rate is not None and delta > 0:
            # Steps that see some of the rows are descent's.
            return "descent"
        return chosen_method(facts, epsilon, delta, is_calibrated, is_binned and STATISTICS in self.methods)

    def _facts(self, rows: int, declared: Schema, penalty: float) -> Facts:
        layout = self._layout(declared)
        return Facts(
            rows=rows,
            width=layout.width,
            norm_bound=layout.joint_norm,
            loss=self._loss(),
            penalty=penalty,
            outputs=self._outputs(),
            rows_per_unit=rows_per_unit(declared),
            nonnegative=layout.nonnegative,
            sum_bound=layout.joint_sum,
            entry_bounds=layout.entry_bounds,
        )

    def _plan_for(self, X: Any, y: Any) -> Plan[Calibrated]:
        self._check_parameters()
        if self._candidates() is not None:
            return self._selection_plan(X, y)
        return self.plan(self._read_rows(X, y).count, self.declared_)

    def _selection_plan(self, X: Any, y: Any) -> Plan[Selection]:
        """What choosing among the regularizations will do, and promises."""
        X = self._chosen_rows(X)
        self._keep_source(X)
        if self.delta != 0:
            raise InvalidParameter(
                "Choosing among regularizations is for pure guarantees; delta is not 0.", "Set delta=0, or give one."
            )
        candidates = [clone(self).set_params(regularization=value) for value in self._candidates() or ()]
        return selection_plan(candidates, X, y, epsilon=self.epsilon)

    def _chosen_rows(self, X: Any) -> Any:
        """The table that all tries of a choice among regularizations are fitted to: in memory, because each reads it."""
        if self.schema is None and not is_in_memory(X):
            raise InvalidParameter(
                "Choosing among regularizations needs a table, or a schema for a data source.", "Give one."
            )
        return in_memory(X, self.schema)

    # Fit: read, plan, charge, noise, seal

    def fit(self, X: Any, y: Any = None) -> Self:
        """Charge, then fit.

        `X` and `y` are arrays; or `X` is whatever `sudare.frames.source` takes, with a schema that declares the target; or, without a
        schema, an iterator of pairs (X, y). Encoded rows of a source wait in memory or, where they are more than
        `sudare.frames.row_spool.SPOOL_ABOVE_BYTES`, in an unnamed temporary file.
        """
        self._forget()
        self._check_parameters()
        if self._candidates() is not None:
            return self._fit_chosen(X, y)
        rows = self._read_rows(X, y)
        plan = self.plan(rows.count, self.declared_)
        passage = self._enter(plan)
        parameters, shares = plan.mechanism.fitted_with_shares(rows, passage.noise)
        self._take_shares(shares)
        self._set_parameters(parameters)
        self._seal()
        return self

    def _fit_chosen(self, X: Any, y: Any) -> Self:
        """Fit with a regularization chosen privately from the list, all from one ε."""
        X = self._chosen_rows(X)
        plan = self._selection_plan(X, y)
        selection = plan.mechanism
        passage = self._enter(plan, purpose=selection.purpose)
        place, model = selection.best(X, y, lambda tried: tried._row_scores(X, y), passage.noise)
        winner = model._as_the_outcome_of(passage, self.account)
        for name, value in vars(winner).items():
            if name.endswith("_") and not name.startswith("_"):
                setattr(self, name, value)
        self.regularization_ = float((self._candidates() or ())[place])
        return self

    def _take_shares(self, shares: Floats | None) -> None:
        """Keep the released shares of classes, where there are some and the model has a use for them."""

    def _set_parameters(self, parameters: Floats) -> None:
        """Coefficients and intercepts from parameters, of which the last is the bias where there is one."""
        self.parameters_ = parameters
        bias = self._layout(self.declared_).bias
        if bias:
            self.coef_, self.intercept_ = parameters[:, :-1], parameters[:, -1] * bias
        else:
            self.coef_, self.intercept_ = parameters, np.zeros(len(parameters))

    # Prediction

    def _scores(self, X: Any) -> Floats:
        """coef·x + intercept, one column an output."""
        check_is_fitted(self)
        if self.schema_digest_ is not None and not is_in_memory(X):
            return by_batches(self._scores, X, self.declared_)
        if self.schema_digest_ is None:
            matrix = checked_matrix(self, X, reset=False)
        else:
            matrix = encode(self.declared_, in_memory(X), self.used_encoding).matrix
        parameters = self.parameters_
        bias = self._layout(self.declared_).bias
        scores: Floats = matrix @ parameters[:, : matrix.shape[1]].T
        return scores + parameters[:, -1] * bias if bias else scores

    # What is released, and how it is read back

    def release_content(self) -> Content:
        """Parameters on their grid, and what is public about them."""
        flat = np.ascontiguousarray(self.parameters_.ravel())
        extra = {
            "encoding": None if self.schema_digest_ is None else self.used_encoding,
            "fit_intercept": bool(self.fit_intercept),
            "method": self.method_,
            "norm_bound": self._layout(self.declared_).norm_bound,
            "penalty": self.penalty_,
            "target": self._written_target(),
            **self._more_extra(),
        }
        others = self._more_tensors()
        grids = {"parameters": self.grid_} | {name: grid for name, (_, grid) in others.items()}
        return self._content({"parameters": flat} | {name: each for name, (each, _) in others.items()}, grids, extra)

    def _more_extra(self) -> dict[str, Any]:
        """What is public of a model and not of other linear models."""
        return {}

    def _more_tensors(self) -> dict[str, tuple[Floats, float]]:
        """Released numbers beside the parameters, and the grid of each."""
        return {}

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there is one parameter for every column and output, of any size that coefficients can have."""
        layout = self._layout(self.declared_)
        rules = {"parameters": TensorRule(self._outputs() * layout.width, np.float64)}
        check_shapes(content, rules | self._more_rules(content))
        if content.parameters["norm_bound"] != layout.norm_bound:
            raise unfit("its norm bound is not that of its columns")
        with np.errstate(over="ignore"):
            self._set_parameters(content.tensors["parameters"].reshape(self._outputs(), -1))
        if not (np.isfinite(self.coef_).all() and np.isfinite(self.intercept_).all()):
            raise unfit("its coefficients are larger than any number")

    def _more_rules(self, content: Content) -> dict[str, TensorRule]:
        """What released numbers beside the parameters must be."""
        return {}

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


def _not_pairs() -> DataError:
    return DataError("An iterator without a schema must give pairs (X, y).", "Give pairs, or a schema.")


def _is_size(value: object) -> bool:
    return type(value) is float and 0 <= value < np.inf
