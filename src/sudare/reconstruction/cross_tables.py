"""Cross tables of two perturbed columns of any kind: numbers in public bins, categories, or one of each (paper 004, table 1)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter
from sudare.parameter_checks import SEEDS
from sudare.perturbation.categorical import CategoryPerturbation
from sudare.perturbation.column_perturbation import Perturbation
from sudare.perturbation.number_channels import NumberPerturbation, checked_edges
from sudare.reconstruction.binning import CELLS, States, bin_edges, checked_values, continuous_states, counted
from sudare.reconstruction.category_frequencies import METHODS as CATEGORY_METHODS
from sudare.reconstruction.category_frequencies import (
    CategoricalReconstruction,
    answers_of,
    distinct_answers,
    mean_scores,
    proportions,
    tick_scores,
)
from sudare.reconstruction.channels import Channel, ListedPairs, ProductChannel, outer_product
from sudare.reconstruction.iterative_bayes import FOLDS, random_parts, stopped_by_validation, uniform_start
from sudare.reconstruction.joint_distribution import METHODS as NUMBER_METHODS
from sudare.reconstruction.joint_distribution import MOST_STEPS, JointReconstruction
from sudare.reconstruction.maximum_likelihood import maximum_likelihood
from sudare.reconstruction.point_mass_detection import detected_atoms
from sudare.reconstruction.reconstructed_distribution import Layout
from sudare.schema import Level

Edges = ArrayLike | None

BINS: Final = 10
"""How many equal bins a number column has if no edges are given."""
_MIXED_CELLS: Final = 96
_PAIR_STEPS: Final = 600


@dataclass(frozen=True)
class Interval:
    """A bin from `low` to below `high`; the last bin of a column has its upper edge too."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.10g} to {self.high:.10g}"


@dataclass(eq=False, repr=False)
class CrossTable(BaseEstimator):
    """Proportions of all pairs of values of two columns that were perturbed independently of each other. It costs no budget.

    Two category columns are estimated as one in `CategoricalReconstruction`; two number columns are `JointReconstruction`, counted
    in bins. For one of each, the Iterative Bayesian Technique runs over fine cells times categories, stopped by cross-validation,
    and cells are then counted in bins: so values need not be spread evenly within a wide bin.

    Parameters
    ----------
    first, second : the perturbations that were applied; values of the first become rows.
    first_edges, second_edges : public edges of bins, for number columns. None: ten equal bins between the bounds.
    method : None is best for most. Two category columns have likelihood (the default: the errors of pairs go together, which
        shrinkage does not know), shrinkage and inversion; two number columns auto, bayes and mixture; one of each has bayes.
    random_state : seed of the parts for cross-validation.

    Attributes
    ----------
    values_ : for each column its categories or intervals.
    probabilities_ : one row a value of the first column. They add up to one, less what lies outside of the bins.
    unbiased_, standard_errors_ : unbiased proportions and their errors, for two category columns; else None.
    n_records_ : how many rows were given.
    """

    first: Perturbation
    second: Perturbation
    _: KW_ONLY
    first_edges: Edges = None
    second_edges: Edges = None
    method: str | None = None
    random_state: int = 0

    def fit(self, y: Any, z: Any) -> Self:
        """From the perturbed values of both columns, row by row."""
        SEEDS.check("random_state", self.random_state)
        pair = self.first, self.second
        edges = [bins_of(*one) for one in zip(pair, (self.first_edges, self.second_edges), strict=True)]
        self.values_ = tuple(labels_of(*one) for one in zip(pair, edges, strict=True))
        self.unbiased_: Floats | None = None
        self.standard_errors_: Floats | None = None
        if edges[0] is None and edges[1] is None:
            self._fit_categories(y, z)
        elif edges[0] is not None and edges[1] is not None:
            self.method_ = self._known_method(NUMBER_METHODS, "auto")
            joint = JointReconstruction(pair, self.method_, random_state=self.random_state)
            found = joint.fit([y, z]).distribution_
            self.probabilities_, self.n_records_ = found.histogram([edges[0], edges[1]]), found.records
        else:
            self.method_ = self._known_method(("bayes",), "bayes")
            self._fit_mixed(y, z, edges)
        return self

    def _fit_categories(self, y: Any, z: Any) -> None:
        self.method_ = self._known_method(CATEGORY_METHODS, "likelihood")
        pair: Any = self.first, self.second
        answers = [answers_of(one, values) for one, values in zip(pair, (y, z), strict=True)]
        check_lengths(*answers)
        ticks, counts = distinct_answers(*answers)
        likelihoods = [np.where(each, one.odds, 1.0) for one, each in zip(pair, ticks, strict=True)]
        channel = ListedPairs(likelihoods[0], np.arange(len(counts)), likelihoods[1])
        scores = [tick_scores(one, each) for one, each in zip(pair, ticks, strict=True)]
        self.unbiased_, self.standard_errors_ = mean_scores(counts, *scores)
        self.probabilities_, _ = proportions(
            self.method_,
            self.unbiased_,
            self.standard_errors_,
            lambda: maximum_likelihood(channel, counts, most_steps=_PAIR_STEPS),
        )
        self.n_records_ = len(answers[0])

    def _fit_mixed(self, y: Any, z: Any, edges: list[Floats | None]) -> None:
        """With numbers as rows; turned round in the end where they are the second column."""
        turned = edges[0] is None
        number, category = (self.second, self.first) if turned else (self.first, self.second)
        values, answers = (z, y) if turned else (y, z)
        states, shares = mixed_table(number, category, values, answers, self.random_state)  # type: ignore[arg-type]
        layout = Layout.of([states], number.bounds)  # type: ignore[attr-defined]
        binning = layout.binning(edges[1] if turned else edges[0])  # type: ignore[arg-type]
        binned = binning @ layout.carrying(states) @ shares
        self.probabilities_ = binned.T if turned else binned
        self.n_records_ = len(answers)

    def _known_method(self, methods: tuple[str, ...], default: str) -> str:
        if self.method is not None and self.method not in methods:
            raise InvalidParameter(
                f"For these kinds of columns method must be one of {', '.join(methods)}, got {self.method!r}.",
                "Use one of these words, or none.",
            )
        return self.method or default

    def counts(self) -> Floats:
        """Expected numbers of records."""
        check_is_fitted(self)
        return np.asarray(self.probabilities_ * self.n_records_)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; an interval is a list of its two ends."""
        rows, columns = (
            [[value.low, value.high] if isinstance(value, Interval) else value for value in values]
            for values in self.values_
        )
        return {
            "rows": rows,
            "columns": columns,
            "probabilities": self.probabilities_.tolist(),
            "standard_errors": None if self.standard_errors_ is None else self.standard_errors_.tolist(),
            "records": self.n_records_,
            "method": self.method_,
        }


def bins_of(perturbation: Perturbation, edges: Edges) -> Floats | None:
    """Edges of a number column's bins; None for categories."""
    if isinstance(perturbation, CategoryPerturbation):
        if edges is not None:
            raise InvalidParameter("A category column has no bins.", "Give edges for number columns only.")
        return None
    if not isinstance(perturbation, NumberPerturbation):
        raise InvalidParameter("A cross table needs number or category columns.", "Use their perturbations.")
    return np.linspace(*perturbation.bounds, BINS + 1) if edges is None else checked_edges(edges, "edges")


def labels_of(perturbation: Perturbation, edges: Floats | None) -> tuple[Level | Interval, ...]:
    """What rows or columns of the table stand for."""
    if edges is not None:
        return tuple(Interval(low, high) for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    return perturbation.values if isinstance(perturbation, CategoryPerturbation) else ()


def check_lengths(first: NDArray[Any], second: NDArray[Any]) -> None:
    """Raise DataError unless both columns have the same number of rows."""
    if len(first) != len(second):
        raise DataError("The two columns have different lengths.", "Give two columns of the same rows.")


def mixed_table(
    number: NumberPerturbation, category: CategoryPerturbation, y: Any, z: Any, seed: int
) -> tuple[States, Floats]:
    """The states of a number column, and their probabilities (rows) with each category.

    Steps start with both columns independent of each other and every number alike; the categories are those of their own column.
    """
    values, ticks = checked_values(number, y), answers_of(category, z)
    check_lengths(values, ticks)
    cells = min(number.steps, _MIXED_CELLS)
    edges = bin_edges(number, cells)
    atoms = detected_atoms(number, counted(number, values, CELLS), CELLS)
    states = continuous_states(number, edges, cells, atoms)
    places = np.searchsorted(edges[1:-1], values)
    channel, counts = pair_problem(states.channel, places, category, ticks)
    own = np.maximum(CategoricalReconstruction(category, "likelihood").fit(z).probabilities_, 1e-6)
    start = outer_product([uniform_start(states), own / own.sum()])
    parts = random_parts(counts, FOLDS, np.random.default_rng(seed))
    return states, stopped_by_validation(channel, start, parts, MOST_STEPS).probabilities


def pair_problem(
    transition: Floats, places: NDArray[np.intp], category: CategoryPerturbation, ticks: NDArray[np.bool_]
) -> tuple[Channel, Floats]:
    """The channel of pairs and how often each pair of answers came: all pairs where answers are single categories, else the distinct ones."""
    odds = category.odds
    if not category.answers_with_sets:
        count = ticks.shape[1]
        replies = np.where(np.eye(count, dtype=np.bool_), odds, 1.0) / (odds + count - 1)
        channel = ProductChannel([transition, replies])
        return channel, channel.counted([places, ticks.argmax(axis=1)])
    keys = np.column_stack([places.astype(np.int64), np.packbits(ticks, axis=1)])
    distinct, times = np.unique(keys, axis=0, return_counts=True)
    answers = np.unpackbits(distinct[:, 1:].astype(np.uint8), axis=1, count=ticks.shape[1]).astype(np.bool_)
    return ListedPairs(transition, distinct[:, 0], np.where(answers, odds, 1.0)), times.astype(np.float64)
