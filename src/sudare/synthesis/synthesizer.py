"""Private synthetic tables: rows of nobody, drawn from noisy counts, in the units and categories of the schema."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final, Literal, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sudare.errors import InvalidParameter
from sudare.parameter_checks import Numbers
from sudare.privacy.array_checks import checked_matrix
from sudare.privacy.declared_columns import rows_per_unit
from sudare.privacy.fit_plan import Plan
from sudare.privacy.guarantee import NEIGHBOURS, Neighbours
from sudare.privacy.ledger import Account
from sudare.privacy.private_estimator import Bounds, PrivateEstimator
from sudare.privacy.release_content import Content, unfit
from sudare.schema import Label, Number, Schema
from sudare.schema.columns import level_text
from sudare.schema.combinations import MISSING, cell_count
from sudare.synthesis import adaptive_marginals, marginals, microaggregation
from sudare.synthesis.adaptive_marginals import AdaptiveEngine, AdaptiveModel, released_rounds
from sudare.synthesis.column_pairs import Pair
from sudare.synthesis.marginals import MarginalEngine, released_pairs
from sudare.synthesis.microaggregation import MOST_GROUPS, MicroaggregationEngine
from sudare.synthesis.row_sampling import generator_of
from sudare.synthesis.staged_budget import StagedNoise
from sudare.synthesis.table_cells import (
    SCALED_STEP,
    CodedRows,
    Layout,
    cell_of,
    coded_rows,
    combination_counts,
    decoded,
    row_blocks,
)

EngineName = Literal["marginals", "adaptive", "microaggregation"]
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
    engine : "marginals" counts columns and pairs of columns with the label; "adaptive" chooses pairs one after another, each by
        what is wrong without it, and tells how far every pair is off; "microaggregation" is the route of paper
        002: noisy means of groups of neighbouring values within a class, columns independent of each other.
    epsilon, delta : the promise. With delta = 0 it is pure (Laplace noise), else the noise is Gaussian.
    tree : pairs of names that belong together and are public knowledge. By "marginals" the first that close no cycle make a
        tree and are counted with the label, the others without. None: chosen from the data, within the same ε and δ.
    groups : for microaggregation, into how many groups the values of a class are cut.
    neighbours : "replace-one" (the number of rows is public) or "add-remove" (it is not).
    account : who pays. Without one the result may be looked at by its owner but not released.
    random_state : a seed for the noise, for tests and simulation only; it voids the guarantee.

    Attributes
    ----------
    pairs_ : names of the pairs that were counted; those of the tree first, or in the order of the rounds.
    noise_scale_ : scale of the noise that one table would get from the whole budget (public).
    clipped_ : how many values lay outside the bounds, per column; for the owner only.
    contradicting_rows_ : of every column that another one determines, in how many rows it is in another cell; for the owner only.
    impossible_rows_ : of every combination that the schema declares impossible, how many rows have it; for the owner only.
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

    def sample(
        self,
        rows: int | None = None,
        random_state: int | np.random.Generator | None = None,
        given: Mapping[str, object] | None = None,
    ) -> pd.DataFrame:
        """A table of new rows, in the schema's units and categories; it costs nothing, however often and many.

        Without `rows` there are as many as there were, or where that is not public as the noisy counts speak of, up to a
        million, or fewer where there are many columns. A seed does no harm here: the noise is in the counts.
        With `given` (engine "adaptive") all rows have these values: {"sex": "female", "age": 40}.
        """
        return pd.concat(self.sample_batches(rows, random_state, given), ignore_index=True)

    def sample_batches(
        self,
        rows: int | None = None,
        random_state: int | np.random.Generator | None = None,
        given: Mapping[str, object] | None = None,
    ) -> Iterator[pd.DataFrame]:
        """The rows that `sample` gives, drawn batch by batch as they are asked for: memory does not grow with their number."""
        check_is_fitted(self)
        count = self.rows_by_default if rows is None else rows
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise InvalidParameter("rows must be a whole number of at least 1.", "Use for example rows=10_000.")
        generator = generator_of(random_state)
        model = self._model if given is None else self._model_given(given)
        most = max(1, min(_BATCH_ROWS, _BATCH_BYTES // largest_row_bytes(self.declared_)))
        batches = (min(most, int(count) - start) for start in range(0, int(count), most))
        return (self._batch(model, size, generator, given or {}) for size in batches)

    def _model_given(self, given: Mapping[str, object]) -> AdaptiveModel:
        """The distribution of rows with these values."""
        if not isinstance(self._model, AdaptiveModel):
            raise InvalidParameter(
                'Only the engine "adaptive" draws rows with given values.', "Draw rows, and keep some."
            )
        if not isinstance(given, Mapping) or not given or not {*given} <= {*self.declared_.columns}:
            raise InvalidParameter("given is not a mapping of column names to values.", 'Use given={"sex": "female"}.')
        cells = {name: cell_of(self.declared_.columns[name], value) for name, value in given.items()}
        known = self.declared_.known_cells
        among = []
        for name in {*given} & {*known.maps}:
            # A declared value is exact: others of its bin have no rows.
            values = known.values(name, self.declared_.maps[name])
            among.append((known.maps[name][0], [cell for cell, value in enumerate(values) if value == given[name]]))
        model = self._model.given(cells, among)
        if model is None:
            raise InvalidParameter("No row has the values given, by the released counts.", "Give fewer values.")
        return model

    def pair_errors(self, confidence: float = 0.95) -> pd.DataFrame:
        """How far each pair of columns is from the truth (engine "adaptive"), worst first; it costs nothing.

        `distance` is an estimate and `bound` what none of them exceeds with this confidence, all together: half the sum of
        |true − modelled| counts over the cells of the pair's table, as a share of the released number of rows. Rows drawn add their own chance.
        """
        check_is_fitted(self)
        engine = self._engine()
        if not isinstance(engine, AdaptiveEngine):
            raise InvalidParameter('Only the engine "adaptive" measures errors.', 'Fit with engine="adaptive".')
        Numbers(0.0, 1.0, open_low=True, open_high=True).check("confidence", confidence)
        names, counted = engine.names, {pair for pair, _ in released_rounds(self.released_)}
        table = {
            "first": [names[first] for first, _ in engine.pairs],
            "second": [names[second] for _, second in engine.pairs],
            "counted": [pair in counted for pair in engine.pairs],
        }
        if engine.pairs:
            distances, bounds = engine.error_bounds(self.released_, self._model.total, confidence)
            table |= {"distance": distances, "bound": np.minimum(bounds, 1.0)}
        else:
            table |= {"distance": [], "bound": []}
        return pd.DataFrame(table).sort_values("distance", ascending=False, ignore_index=True)

    @property
    def rows_by_default(self) -> int:
        """How many rows are drawn where nobody says how many. What a release says of itself decides that only up to a limit."""
        told = self.n_rows_ if self.n_rows_ is not None else round(self._model.total)
        most = min(_MOST_ROWS_BY_DEFAULT, _MOST_BYTES_BY_DEFAULT // largest_row_bytes(self.declared_))
        return int(np.clip(told, 1, max(1, most)))

    def _batch(self, model: Any, rows: int, generator: np.random.Generator, given: Mapping[str, Any]) -> pd.DataFrame:
        drawn = model.drawn(rows, generator)
        maps = model.maps if isinstance(model, AdaptiveModel) else {}
        values = {
            name: self._values(name, drawn[name], generator) for name in self.declared_.columns if name not in maps
        }
        for name, (by, cells) in maps.items():
            # One value for every cell of the other column, the same in every batch.
            values[name] = self._mapped_values(name, cells)[drawn[by]]
        values = {name: values[name] for name in self.declared_.columns}
        for name in given:
            # Within a bin, numbers were drawn evenly.
            values[name] = np.full(rows, given[name], dtype=values[name].dtype)
        return pd.DataFrame(values, copy=False)

    def _mapped_values(self, name: str, cells: NDArray[Any]) -> NDArray[Any]:
        """The value of a determined column for every cell of the one that determines it: that which is declared, or one of its cell."""
        column = self.declared_.columns[name]
        if name not in self.declared_.maps or not isinstance(column, Number):
            return self._values(name, cells, generator_of(0))
        told = self.declared_.known_cells.values(name, self.declared_.maps[name])
        return column.values_array(np.array([math.nan if value == MISSING else float(value) for value in told]))

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
        return self._planned_rows(X, y)[0]

    def dry_run(self, X: object, y: object = None) -> tuple[Plan[Any], CodedRows]:
        """Plan, and what looking through the rows tells the owner. Nothing is counted with noise, charged or stored.

        As in a fit no more rows of a person are looked at than the schema allows; where that number is "auto", its choice is in the plan.
        """
        person = self._person()
        if person is None:
            return self._planned_rows(X, y)
        twin = clone(self)
        kept = twin._kept(X, y)
        plan, rows = twin._planned_rows(kept.source, kept.y)
        return (twin._bound_plan(kept.source, kept.y, person)[2] if person.is_auto else plan), rows

    def _planned_rows(self, X: object, y: object) -> tuple[Plan[StagedNoise], CodedRows]:
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
        rows = coded_rows(data, y, self.declared_, self.label_, self._scaled_numbers())
        self.contradicting_rows_ = contradicting_rows(rows, self.declared_)
        self.impossible_rows_ = impossible_rows(rows, self.declared_)
        return rows

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
        return Schema(dict(schema.columns), schema.person, maps=schema.maps, impossible=schema.impossible)

    def _keep(self, declared: Schema, schema_digest: str | None) -> None:
        super()._keep(declared, schema_digest)
        if schema_digest is not None:
            names = [name for name in declared.columns if name != self.label_]
            self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)

    def _staged(self, declared: Schema) -> StagedNoise:
        guarantee = self._guarantee(declared)
        stages = {
            "marginals": marginals.STAGES,
            "adaptive": adaptive_marginals.most_stages(
                len(declared.columns) - len(declared.maps), "laplace" if guarantee.delta == 0 else "gaussian"
            ),
            "microaggregation": microaggregation.STAGES,
        }[self.engine]
        return StagedNoise(
            self._values_epsilon(declared), guarantee.delta, self.neighbours, rows_per_unit(declared), stages
        )

    def _scaled_numbers(self) -> frozenset[str]:
        """Number columns that are cut into groups."""
        if self.engine != "microaggregation":
            return frozenset()
        return frozenset(
            name
            for name, column in self.declared_.columns.items()
            if isinstance(column, Number) and name != self.label_
        )

    def _engine(self) -> MarginalEngine | AdaptiveEngine | MicroaggregationEngine:
        layout, noise = Layout.of(self.declared_, self.label_), self._staged(self.declared_)
        if self.engine != "adaptive" and determined_columns(self.declared_):
            raise InvalidParameter(
                f'The engine "{self.engine}" does not keep columns that others determine.',
                'Use engine="adaptive", or leave `determined_by` out of the schema.',
            )
        if self.engine != "adaptive" and self.declared_.impossible:
            raise InvalidParameter(
                f'The engine "{self.engine}" does not keep impossible combinations out.',
                'Use engine="adaptive", or leave `impossible` out of the schema.',
            )
        if self.engine == "marginals":
            return MarginalEngine(layout, noise, declared_pairs(self.tree, layout.names))
        if self.engine == "adaptive":
            maps = self.declared_.maps
            counted = tuple(each for each in determined_columns(self.declared_) if each[0] not in maps)
            engine = AdaptiveEngine(layout, noise, (), counted, self.declared_.known_cells)
            return replace(engine, declared=declared_pairs(self.tree, engine.names))
        if self.tree is not None:
            raise InvalidParameter("Microaggregation has no pairs of columns.", 'Leave tree out, or use "marginals".')
        return MicroaggregationEngine(layout, noise, self._scaled_numbers(), self.groups)

    # What leaves

    def _keep_released(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        engine = self._engine()
        self.released_, self._model = tensors, engine.model(tensors)
        if isinstance(engine, AdaptiveEngine):
            names, pairs = engine.names, list(dict.fromkeys(pair for pair, _ in released_rounds(tensors)))
        else:
            names, pairs = engine.layout.names, released_pairs(tensors)
        self.pairs_ = [(names[first], names[second]) for first, second in pairs]
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


def determined_columns(declared: Schema) -> tuple[tuple[str, str], ...]:
    """The columns that others determine, each with the one that does; that must be declared, and free itself."""
    found = {
        name: column.determined_by
        for name, column in declared.columns.items()
        if not isinstance(column, Label) and column.determined_by is not None
    }
    for name, by in found.items():
        if by not in declared.columns or by in found:
            raise InvalidParameter(
                f"Column {name!r} is determined by {by!r}, which is not declared, or determined itself.",
                "Name a declared column that has no `determined_by`.",
            )
    return tuple(found.items())


def contradicting_rows(rows: CodedRows, declared: Schema) -> dict[str, int]:
    """By column, in how many rows it is not in the cell that is declared, or that the column that determines it goes with most often. For the owner: a refusal would tell everybody."""
    found, maps = {}, declared.known_cells.maps
    for name, by in determined_columns(declared):
        if name in maps:
            found[name] = sum(
                int((maps[name][1][rows.codes[by][block]] != rows.codes[name][block]).sum())
                for block in row_blocks(rows.count)
            )
            continue
        shape = cell_count(declared.columns[by]), cell_count(declared.columns[name])
        counts = combination_counts([rows.codes[by], rows.codes[name]], shape).reshape(shape)
        found[name] = int(counts.sum() - counts.max(axis=1).sum())
    return found


def impossible_rows(rows: CodedRows, declared: Schema) -> list[int]:
    """How many rows have each combination that is declared impossible. For the owner."""
    found = []
    for combination in declared.known_cells.impossible:
        count = 0
        for block in row_blocks(rows.count):
            have = [np.isin(rows.codes[name][block], sorted(cells)) for name, cells in combination.items()]
            count += int(np.logical_and.reduce(have).sum())
        found.append(count)
    return found


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
