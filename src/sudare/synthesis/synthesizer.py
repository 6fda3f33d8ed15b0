"""Private synthetic tables: rows of nobody, drawn from noisy counts, in the units and categories of the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sudare.errors import InvalidParameter
from sudare.privacy.array_checks import checked_matrix
from sudare.privacy.declared_columns import rows_per_unit
from sudare.privacy.fit_plan import Plan
from sudare.privacy.guarantee import NEIGHBOURS, Neighbours
from sudare.privacy.ledger import Account
from sudare.privacy.private_estimator import Bounds, PrivateEstimator
from sudare.privacy.release_content import Content, unfit
from sudare.schema import Number, Schema
from sudare.schema.columns import level_text
from sudare.synthesis import marginals, microaggregation
from sudare.synthesis.column_pairs import Pair
from sudare.synthesis.marginals import MarginalEngine, released_pairs
from sudare.synthesis.microaggregation import MOST_GROUPS, MicroaggregationEngine
from sudare.synthesis.row_sampling import generator_of
from sudare.synthesis.staged_budget import StagedNoise
from sudare.synthesis.table_cells import SCALED_STEP, CodedRows, Layout, coded_rows, decoded

EngineName = Literal["marginals", "microaggregation"]
ENGINES: Final = get_args(EngineName)

_MOST_ROWS_BY_DEFAULT: Final = 1_000_000
_MOST_BYTES_BY_DEFAULT: Final = 2**30
_BATCH_ROWS: Final = 200_000
_BATCH_BYTES: Final = 2**27


@dataclass(eq=False, repr=False)
class PrivateSynthesizer(PrivateEstimator):
    """ε-DP or (ε, δ)-DP synthetic rows, replace-one or add/remove rows. Proof: proofs/synthesis.md.

    Parameters
    ----------
    schema : the public facts about all columns, bins included; or `bounds` for arrays of numbers.
    label : the column that every count is made together with; without it the schema's target, if there is one.
    engine : "marginals" counts columns and pairs of columns with the label; "microaggregation" is the route of paper
        002: noisy means of groups of neighbouring values within a class, columns independent of each other.
    epsilon, delta : the promise. With delta = 0 it is pure (Laplace noise), else the noise is Gaussian.
    tree : for marginals, pairs of names that belong together and are public knowledge. The first that close no cycle make a
        tree and are counted with the label, the others without. None: chosen from the data, within the same ε and δ.
    groups : for microaggregation, into how many groups the values of a class are cut.
    neighbours : "replace-one" (the number of rows is public) or "add-remove" (it is not).
    account : who pays. Without one the result may be looked at by its owner but not released.
    random_state : a seed for the noise, for tests and simulation only; it voids the guarantee.

    Attributes
    ----------
    pairs_ : names of the pairs that were counted; those of the tree first.
    noise_scale_ : scale of the noise that one table would get from the whole budget (public).
    clipped_ : how many values lay outside the bounds, per column; for the owner only.
    guarantee_, receipt_ : what is promised, and the ledger entry that was written first.
    """

    numbers_only = False
    relations = NEIGHBOURS
    extra_parameters = ("engine", "groups", "label", "tree")

    schema: Schema | None = None
    _: KW_ONLY
    label: str | None = None
    engine: EngineName = "marginals"
    epsilon: float = 1.0
    delta: float = 0.0
    tree: Sequence[tuple[str, str]] | None = None
    groups: int = 20
    bounds: Bounds | None = None
    neighbours: Neighbours = "replace-one"
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None

    def fit(self, X: object, y: object = None) -> Self:
        """Look through the rows, charge, and count with noise. X is whatever `sudare.frames.source` takes.

        The label is a column of X; where X lacks it, it is y. With `bounds` there is no label, and y is not looked at.
        """
        rows = self._looked_through(X, y)
        plan = self.plan(rows.count, self.declared_)
        engine = self._engine()
        passage = self._enter(plan)
        tensors = engine.measured(rows, passage.noise)
        self.n_rows_ = rows.count if self.neighbours == "replace-one" else None
        self.clipped_ = rows.clipped
        self._keep_released(tensors)
        self._seal()
        return self

    def sample(self, rows: int | None = None, random_state: int | np.random.Generator | None = None) -> pd.DataFrame:
        """A table of new rows, in the schema's units and categories; it costs nothing, however often and many.

        Without `rows` there are as many as there were, or where that is not public as the noisy counts speak of, up to a
        million, or fewer where there are many columns. A seed does no harm here: the noise is in the counts.
        """
        return pd.concat(self.sample_batches(rows, random_state), ignore_index=True)

    def sample_batches(
        self, rows: int | None = None, random_state: int | np.random.Generator | None = None
    ) -> Iterator[pd.DataFrame]:
        """The rows that `sample` gives, drawn batch by batch as they are asked for: memory does not grow with their number."""
        check_is_fitted(self)
        count = self.rows_by_default if rows is None else rows
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise InvalidParameter("rows must be a whole number of at least 1.", "Use for example rows=10_000.")
        generator = generator_of(random_state)
        most = max(1, min(_BATCH_ROWS, _BATCH_BYTES // largest_row_bytes(self.declared_)))
        return (self._batch(min(most, int(count) - start), generator) for start in range(0, int(count), most))

    @property
    def rows_by_default(self) -> int:
        """How many rows are drawn where nobody says how many. What a release says of itself decides that only up to a limit."""
        told = self.n_rows_ if self.n_rows_ is not None else round(self._model.total)
        most = min(_MOST_ROWS_BY_DEFAULT, _MOST_BYTES_BY_DEFAULT // largest_row_bytes(self.declared_))
        return int(np.clip(told, 1, max(1, most)))

    def _batch(self, rows: int, generator: np.random.Generator) -> pd.DataFrame:
        drawn = self._model.drawn(rows, generator)
        return pd.DataFrame(
            {name: self._values(name, drawn[name], generator) for name in self.declared_.columns}, copy=False
        )

    def _values(self, name: str, drawn: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
        column = self.declared_.columns[name]
        if isinstance(column, Number) and drawn.dtype.kind == "f":
            values = np.clip(column.low + (column.high - column.low) * drawn, column.low, column.high)
            return column.values_array(np.rint(values)) if column.whole else values
        return decoded(column, drawn, generator)

    def plan(self, rows: int, declared: Schema) -> Plan[StagedNoise]:
        """The whole budget, in stages whose shares are public."""
        guarantee = self._guarantee(declared)
        return Plan(self._staged(declared), guarantee)

    def _plan_for(self, X: Any, y: Any) -> Plan[StagedNoise]:
        return self.dry_run(X, y)[0]

    def dry_run(self, X: object, y: object = None) -> tuple[Plan[StagedNoise], CodedRows]:
        """Plan, and what looking through the rows tells the owner. Nothing is counted with noise, charged or stored."""
        twin = clone(self)
        rows = twin._looked_through(X, y)
        twin._engine()
        return twin.plan(rows.count, twin.declared_), rows

    # Declarations

    def _looked_through(self, X: object, y: object) -> CodedRows:
        """The rows as cells, with what is declared about them kept; whatever is wrong with them is told before a charge."""
        self._forget()
        self._check_parameters()
        self._keep_source(X)
        data: Any = X
        if self.schema is None:
            self.label_, y = None, None
            matrix = checked_matrix(self, X, reset=True)
            self._declare(X, matrix)
            data = dict(zip(self.declared_.columns, matrix.T, strict=True))
        else:
            self.label_ = self._checked_label(self.schema)
            self._keep(self._suited(self.schema), self.schema.digest)
        self._engine()
        return coded_rows(data, y, self.declared_, self.label_, self._scaled_numbers())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.engine not in ENGINES:
            raise InvalidParameter(f"engine must be one of {', '.join(ENGINES)}.", "Use one of these words.")
        if self.schema is None and self.label is not None:
            raise InvalidParameter("A label needs a schema that declares it.", "Give schema=Schema.load(…).")
        if isinstance(self.groups, bool) or not isinstance(self.groups, int) or not 2 <= self.groups <= MOST_GROUPS:
            raise InvalidParameter(f"groups must be a whole number from 2 to {MOST_GROUPS}.", "Use for example 20.")

    def _checked_label(self, schema: Schema) -> str | None:
        label = schema.target if self.label is None else self.label
        if label is not None and (not isinstance(label, str) or label not in schema.columns):
            raise InvalidParameter("label is not a column of the schema.", "Name a declared column, or leave it out.")
        if label is not None and len(schema.columns) < 2:
            raise InvalidParameter("The label is the only column.", "Declare a column besides it.")
        return label

    @classmethod
    def _suited(cls, schema: Schema) -> Schema:
        """All declared columns, the target too."""
        return Schema(dict(schema.columns), schema.person)

    def _keep(self, declared: Schema, schema_digest: str | None) -> None:
        super()._keep(declared, schema_digest)
        if schema_digest is not None:
            names = [name for name in declared.columns if name != self.label_]
            self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)

    def _staged(self, declared: Schema) -> StagedNoise:
        guarantee = self._guarantee(declared)
        stages = marginals.STAGES if self.engine == "marginals" else microaggregation.STAGES
        return StagedNoise(
            self._values_epsilon(declared), guarantee.delta, self.neighbours, rows_per_unit(declared), stages
        )

    def _scaled_numbers(self) -> frozenset[str]:
        """Number columns that are cut into groups."""
        if self.engine == "marginals":
            return frozenset()
        return frozenset(
            name
            for name, column in self.declared_.columns.items()
            if isinstance(column, Number) and name != self.label_
        )

    def _engine(self) -> MarginalEngine | MicroaggregationEngine:
        layout, noise = Layout.of(self.declared_, self.label_), self._staged(self.declared_)
        if self.engine == "marginals":
            return MarginalEngine(layout, noise, declared_pairs(self.tree, layout.names))
        if self.tree is not None:
            raise InvalidParameter("Microaggregation has no pairs of columns.", 'Leave tree out, or use "marginals".')
        return MicroaggregationEngine(layout, noise, self._scaled_numbers(), self.groups)

    # What leaves

    def _keep_released(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        engine = self._engine()
        self.released_, self._model = tensors, engine.model(tensors)
        names = engine.layout.names
        self.pairs_ = [(names[first], names[second]) for first, second in released_pairs(tensors)]
        self.noise_scale_ = engine.noise.noise_scale

    def release_content(self) -> Content:
        """The noisy numbers, and which pairs were counted."""
        extra = {
            "engine": self.engine,
            "groups": self.groups if self.engine == "microaggregation" else None,
            "label": self.label_,
            "tree": None if self.tree is None else [list(pair) for pair in self.tree],
        }
        return self._content(self.released_, _grids(self.released_), extra)

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless the tensors are those of the engine, on their grid."""
        if not self._engine().fits(content.tensors):
            raise unfit("its tensors are not those of its learner")
        if dict(content.grids) != _grids(content.tensors):
            raise unfit("its numbers are not on their grid")

    @classmethod
    def _arguments(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        tree, groups = parameters["tree"], parameters["groups"]
        told = ("delta", "engine", "epsilon", "label", "neighbours")
        return {
            **{name: parameters[name] for name in told},
            "tree": None if tree is None else [tuple(pair) for pair in tree],
            **({} if groups is None else {"groups": groups}),
        }

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        if (parameters["groups"] is None) == (self.engine == "microaggregation"):
            raise unfit("its parameters are not those of its learner")
        self._check_parameters()
        self.label_ = None if self.schema is None or self.label is None else self._checked_label(self.schema)

    def _take(self, content: Content) -> None:
        self._keep_released(content.tensors)


def largest_row_bytes(declared: Schema) -> int:
    """How many bytes a row of these columns takes at most, where it is held as codes, objects and text one after the other."""
    texts = (
        max(len(level_text(level).encode()) for level in column.levels)
        for column in declared.columns.values()
        if not isinstance(column, Number)
    )
    return 32 * len(declared.columns) + sum(texts)


def _grids(tensors: Mapping[str, NDArray[Any]]) -> dict[str, float | None]:
    """Scaled numbers lie on a grid; counts and pairs are whole."""
    return {name: SCALED_STEP if tensor.dtype.kind == "f" else None for name, tensor in tensors.items()}


def declared_pairs(tree: object, names: Sequence[str]) -> tuple[Pair, ...] | None:
    """Declared pairs of names as positions, the smaller first; None where none are declared."""
    if tree is None:
        return None
    places = {name: index for index, name in enumerate(names)}
    wrong = InvalidParameter(
        "tree is not a list of pairs of different columns, each pair once and without the label.",
        'Give for example tree=[("age", "sex")], or leave it out to have pairs chosen privately.',
    )
    if isinstance(tree, str) or not isinstance(tree, Sequence):
        raise wrong
    if not all(isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2 for pair in tree):
        raise wrong
    if not all(isinstance(name, str) and name in places for pair in tree for name in pair):
        raise wrong
    pairs = [(min(places[a], places[b]), max(places[a], places[b])) for a, b in tree]
    if len(set(pairs)) < len(pairs) or any(first == second for first, second in pairs):
        raise wrong
    return tuple(pairs)
