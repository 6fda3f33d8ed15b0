"""How the ε of a record is split over its columns, and which perturbation each column gets. No data are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.perturbation.categorical import (
    CategoryPerturbation,
    RetainReplace,
    SubsetSelection,
    UnaryEncoding,
    best_kind,
)
from sudare.perturbation.column_perturbation import Perturbation
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.perturbation.linkage_risk import checked_local_epsilon, epsilon_of_k
from sudare.perturbation.number_channels import NumberPerturbation
from sudare.perturbation.one_column_per_record import ANSWERED, AnsweredColumn, perturbed_block
from sudare.perturbation.square_wave import SquareWave
from sudare.privacy.accounting import Cost, decimal_down, exact, pure_cost
from sudare.privacy.declared_columns import promise, rows_per_unit
from sudare.privacy.fit_plan import Plan
from sudare.privacy.guarantee import group_epsilon
from sudare.privacy.noise import NoiseSource
from sudare.schema import Column, Number, Schema

AUTOMATIC: Final = "auto"
OF_NUMBERS: Final[dict[str, type[SquareWave] | type[LaplacePerturbation]]] = {
    SquareWave.kind: SquareWave,
    LaplacePerturbation.kind: LaplacePerturbation,
}
OF_CATEGORIES: Final[dict[str, type[CategoryPerturbation]]] = {
    kind.kind: kind for kind in (RetainReplace, UnaryEncoding, SubsetSelection)
}


@dataclass(frozen=True)
class RecordNoise:
    """The noise of a whole record: each column by its own perturbation, all of them together ε-local DP for the unit."""

    epsilon: float
    perturbations: Mapping[str, Perturbation]

    @property
    def cost(self) -> Cost:
        """What is charged: pure ε."""
        return pure_cost(self.epsilon)

    @property
    def noise_scale(self) -> float:
        """The widest noise of a number column, in units of its range; 0 without one."""
        numbers = [each for each in self.perturbations.values() if isinstance(each, NumberPerturbation)]
        return max((each.noise_scale / (each.bounds[1] - each.bounds[0]) for each in numbers), default=0.0)

    def apply(self, values: Floats, source: NoiseSource) -> Floats:
        """One record, given by a number or position for each column: its outputs, sets as rows of zeros and ones."""
        laws = [each for each in self.perturbations.values() if not isinstance(each, AnsweredColumn)]
        columns = [np.array([value], dtype=each.column_type) for value, each in zip(values, laws, strict=True)]
        stored = perturbed_block(self.perturbations, columns, source)
        outputs = [each.unpacked(stored[name]).ravel() for name, each in self.perturbations.items()]
        return np.concatenate(outputs).astype(np.float64)


@dataclass(frozen=True)
class RecordPlan(Plan[RecordNoise]):
    """What a perturbation of records will do. `row_epsilon` is the local ε of one row, `guarantee` the promise to the unit."""

    row_epsilon: float
    perturbations: Mapping[str, Perturbation]


def planned_records(
    declared: Schema,
    *,
    epsilon: float | None,
    k: int | None,
    n_records: int,
    split: Mapping[str, float] | None,
    methods: Mapping[str, str] | None,
    one_column: bool = False,
) -> RecordPlan:
    """Perturbations for all declared columns: ε is the unit's (a record's, or a person's with all rows), k that of its rows.

    With `one_column` every row answers one column, with all of the row's ε.
    """
    most_rows = rows_per_unit(declared)
    if k is not None:
        row_epsilon = epsilon_of_k(k, n_records, most_rows)
        unit_epsilon = group_epsilon(row_epsilon, most_rows)
    else:
        unit_epsilon = float(epsilon or 0.0)
        row_epsilon = decimal_down(exact(unit_epsilon) / most_rows)
    names = list(declared.columns)
    if one_column:
        check_sampled(names, split)
        shares = dict.fromkeys(names, checked_local_epsilon(row_epsilon))
    else:
        shares = split_epsilon(row_epsilon, names, split)
    chosen = checked_methods(declared, methods)
    perturbations = {
        name: perturbation_of(column, chosen[name], shares[name]) for name, column in declared.columns.items()
    }
    if one_column:
        perturbations[ANSWERED] = AnsweredColumn(names)
    guarantee = promise(unit_epsilon, 0.0, "replace-one", declared, notion="local")
    return RecordPlan(RecordNoise(unit_epsilon, perturbations), guarantee, row_epsilon, perturbations)


def check_sampled(names: list[str], split: object) -> None:
    """Raise InvalidParameter unless each row can answer one of these columns with the whole ε."""
    if split is not None:
        raise InvalidParameter("Where a record answers one column, ε is not split.", "Leave split or one_column out.")
    if len(names) < 2:
        raise InvalidParameter("There is only one column to answer.", "Leave one_column out.")
    if ANSWERED in names:
        raise InvalidParameter(
            f"A column called {ANSWERED!r} says which column a row answers.", "Rename the declared column of that name."
        )


def split_epsilon(row_epsilon: float, names: list[str], split: Mapping[str, float] | None) -> dict[str, float]:
    """A share of ε for every column, each rounded down, so that they never add up to more; equal shares without a split."""
    weights = dict.fromkeys(names, Fraction(1)) if split is None else checked_split(names, split)
    total, whole_epsilon = sum(weights.values()), exact(row_epsilon)
    return {
        name: checked_local_epsilon(decimal_down(whole_epsilon * weight / total)) for name, weight in weights.items()
    }


def checked_split(names: list[str], split: object) -> dict[str, Fraction]:
    """Weights of the columns in their order, if all columns have one and all are positive."""
    if not isinstance(split, Mapping) or set(split) != set(names):
        raise InvalidParameter(
            "split must give every declared column a weight, and no other.",
            f"Give weights for {', '.join(map(repr, names))}, or leave split out for equal shares.",
        )
    weights: dict[str, Fraction] = {}
    for name in names:
        weight = split[name]
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 1e-9 <= weight <= 1e9:
            raise InvalidParameter(f"The weight of {name!r} in split is not a positive number.", "Use for example 1.")
        weights[name] = exact(weight)
    return weights


def checked_methods(declared: Schema, methods: object) -> dict[str, str]:
    """The kind of perturbation of every column: "auto" where none is named."""
    if methods is not None and (not isinstance(methods, Mapping) or not set(methods) <= set(declared.columns)):
        raise InvalidParameter(
            "methods names a column that is not declared.", f"There are {', '.join(map(repr, declared.columns))}."
        )
    named: Mapping[str, Any] = methods or {}
    for name, kind in named.items():
        known = OF_NUMBERS if isinstance(declared.columns[name], Number) else OF_CATEGORIES
        if kind != AUTOMATIC and kind not in known:
            raise InvalidParameter(
                f"{name!r} cannot be perturbed by {kind!r}.", f"Use {', '.join(sorted((AUTOMATIC, *known)))}."
            )
    return {name: named.get(name, AUTOMATIC) for name in declared.columns}


def perturbation_of(column: Column, kind: str, epsilon: float) -> Perturbation:
    """The perturbation of one column: a square wave for numbers, and for categories what has the smaller variance, unless named."""
    if isinstance(column, Number):
        number_kind = SquareWave if kind == AUTOMATIC else OF_NUMBERS[kind]
        return number_kind((column.low, column.high), epsilon=epsilon, whole=column.whole)
    chosen = best_kind(len(column.levels), epsilon) if kind == AUTOMATIC else OF_CATEGORIES[kind]
    return chosen(column.listed_levels, epsilon=epsilon, missing=column.missing)
