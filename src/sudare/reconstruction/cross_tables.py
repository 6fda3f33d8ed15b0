"""Cross tables of two perturbed columns of any kind: numbers in public bins, categories, or one of each (paper 004, table 1)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
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
    proportions,
)
from sudare.reconstruction.channels import Channel, ListedPairs, ProductChannel, outer_product
from sudare.reconstruction.iterative_bayes import FOLDS, random_parts, stopped_by_validation, uniform_start
from sudare.reconstruction.joint_distribution import METHODS as NUMBER_METHODS
from sudare.reconstruction.joint_distribution import MOST_STEPS, HeldOutEstimates, JointReconstruction, bayes_margin
from sudare.reconstruction.maximum_likelihood import maximum_likelihood, stacked_weights
from sudare.reconstruction.number_reconstruction import Reconstruction
from sudare.reconstruction.pair_proportions import (
    ScoredAnswers,
    independence,
    scored_categories,
    scored_numbers,
    scored_pairs,
)
from sudare.reconstruction.point_mass_detection import detected_atoms
from sudare.reconstruction.reconstructed_distribution import Distribution, Layout
from sudare.schema import Level
from sudare.schema.columns import level_text

Edges = ArrayLike | None

BINS: Final = 10
"""How many equal bins a number column has if no edges are given."""
_MIXED_CELLS: Final = 96
_PAIR_STEPS: Final = 600
# Distinct answers may be as many as records; from independent columns on, this is far enough.
_LISTED_STEPS: Final = 562
_LEAST_SHARE: Final = 1e-6
_RAKING_STEPS: Final = 50
_SMALLEST: Final = 1e-300


@dataclass(frozen=True)
class ColumnBin:
    """A bin from `low` to below `high`; the last bin of a column has its upper edge too."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.10g} – {self.high:.10g}"


@dataclass(eq=False, repr=False)
class CrossTable(BaseEstimator):
    """Proportions of all pairs of values of two columns that were perturbed independently of each other. It costs no budget.

    The default averages a joint estimate with the product of the margins, weighted by the likelihood of held-out records: where noise hides
    how columns go together, little is left but the product. Margins are then those of each column on its own. The joint estimate is the Iterative Bayesian Technique, from independent
    columns on and stopped by cross-validation, for pairs with a category; `JointReconstruction` for two numbers. Numbers have fine
    cells, which are counted in bins in the end: so values need not be spread evenly within a wide bin.

    Parameters
    ----------
    first, second : the perturbations that were applied; values of the first become rows.
    first_edges, second_edges : public edges of bins, for number columns. None: ten equal bins between the bounds.
    method : "auto" is that average. Without it, two category columns have likelihood, shrinkage and inversion, as
        `CategoricalReconstruction`; two number columns bayes and mixture; one of each has bayes.
    random_state : seed of the parts for cross-validation, and of the pairings that the test of independence draws.

    Attributes
    ----------
    values_ : for each column its categories or intervals.
    probabilities_ : one row a value of the first column. They add up to one, less what lies outside of the bins.
    unbiased_, standard_errors_ : unbiased proportions, given how numbers are spread within bins, and what the perturbation does to each.
    independence_ : a test that the columns are independent of each other (`IndependenceTest`), for rows that are.
    dependence_ : the weight of the joint estimate, from 0 (the product of the margins) to 1.
    n_records_ : how many rows were given.
    """

    first: Perturbation
    second: Perturbation
    _: KW_ONLY
    first_edges: Edges = None
    second_edges: Edges = None
    method: str = "auto"
    random_state: int = 0

    def fit(self, y: Any, z: Any) -> Self:
        """From the perturbed values of both columns, row by row."""
        SEEDS.check("random_state", self.random_state)
        pair = self.first, self.second
        edges = [bins_of(*one) for one in zip(pair, (self.first_edges, self.second_edges), strict=True)]
        self.values_ = tuple(labels_of(*one) for one in zip(pair, edges, strict=True))
        self.dependence_ = 1.0
        if edges[0] is None and edges[1] is None:
            table = self._of_categories(y, z)
        elif edges[0] is not None and edges[1] is not None:
            table = self._of_numbers(y, z, [edges[0], edges[1]])
        else:
            table = self._of_both(y, z, edges)
        if self.method == "auto":
            margins = [own_bins(*one, self.random_state) for one in zip(pair, edges, (y, z), strict=True)]
            table = raked(table, *margins)
        self.probabilities_ = table
        scored = [own_scores(*one, self.random_state) for one in zip(pair, edges, (y, z), strict=True)]
        self.unbiased_, self.standard_errors_ = scored_pairs(*scored)
        self.independence_ = independence(scored[0], scored[1], np.random.default_rng(self.random_state))
        self.n_records_ = len(scored[0].answers)
        return self

    def _of_categories(self, y: Any, z: Any) -> Floats:
        self._check_method(("auto", *CATEGORY_METHODS))
        pair: Any = self.first, self.second
        answers = [answers_of(one, values) for one, values in zip(pair, (y, z), strict=True)]
        check_lengths(*answers)
        ticks, counts = distinct_answers(*answers)
        likelihoods = [np.where(each, one.odds, 1.0) for one, each in zip(pair, ticks, strict=True)]
        channel = ListedPairs(likelihoods[0], np.arange(len(counts)), likelihoods[1])
        if self.method == "auto":
            product = outer_product([own_shares(*one) for one in zip(pair, (y, z), strict=True)])
            parts = random_parts(counts, FOLDS, np.random.default_rng(self.random_state))
            stopped = stopped_by_validation(channel, product, parts, _LISTED_STEPS)
            return self._averaged(HeldOutEstimates(channel, parts, stopped.left_out), product, stopped.probabilities)
        scored = [scored_categories(one, each) for one, each in zip(pair, answers, strict=True)]
        table, _ = proportions(
            self.method,
            *scored_pairs(*scored),
            lambda: maximum_likelihood(channel, counts, most_steps=_PAIR_STEPS),
        )
        return table

    def _of_numbers(self, y: Any, z: Any, edges: list[Floats]) -> Floats:
        self._check_method(NUMBER_METHODS)
        pair: Any = self.first, self.second
        joint = JointReconstruction(pair, self.method, random_state=self.random_state).fit([y, z])
        found = joint.distribution_
        if self.method == "auto":
            product = outer_product(joint.margins_)
            found = replace(
                found, probabilities=self._averaged(joint.held_out_estimates_, product, found.probabilities)
            )
        return found.histogram(edges)

    def _of_both(self, y: Any, z: Any, edges: list[Floats | None]) -> Floats:
        """With numbers as rows; turned round in the end where they are the second column."""
        self._check_method(("auto", "bayes"))
        turned = edges[0] is None
        number: Any = self.second if turned else self.first
        category: Any = self.first if turned else self.second
        values, answers = (z, y) if turned else (y, z)
        bins: Any = edges[1] if turned else edges[0]
        table = mixed_table(number, category, values, answers, self.random_state)
        shares = table.shares
        if self.method == "auto":
            shares = self._averaged(table.held_out, outer_product([table.margin, table.own]), shares)
        layout = Layout.of([table.states], number.bounds)
        binned = layout.binning(bins) @ layout.carrying(table.states) @ shares
        return binned.T if turned else binned

    def _averaged(self, held_out: HeldOutEstimates, product: Floats, joint: Floats) -> Floats:
        """The product of the margins and the joint estimate, by the likelihood of held-out records."""
        independent = np.repeat(product[np.newaxis], len(held_out.parts), axis=0)
        weights = stacked_weights(held_out.channel, [independent, held_out.left_out], held_out.parts)
        self.dependence_ = float(weights[1])
        return np.asarray(weights[0] * product + weights[1] * joint)

    def _check_method(self, methods: tuple[str, ...]) -> None:
        if self.method not in methods:
            raise InvalidParameter(
                f"For these kinds of columns method must be one of {', '.join(methods)}, got {self.method!r}.",
                "Use one of these words, or none.",
            )

    def counts(self) -> Floats:
        """Expected numbers of records."""
        check_is_fitted(self)
        return np.asarray(self.probabilities_ * self.n_records_)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; an interval is a list of its two ends."""
        rows, columns = (
            [[value.low, value.high] if isinstance(value, ColumnBin) else value for value in values]
            for values in self.values_
        )
        return {
            "rows": rows,
            "columns": columns,
            "probabilities": self.probabilities_.tolist(),
            "standard_errors": self.standard_errors_.tolist(),
            "independence": self.independence_.to_dict(),
            "dependence": self.dependence_,
            "records": self.n_records_,
            "method": self.method,
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


def labels_of(perturbation: Perturbation, edges: Floats | None) -> tuple[Level | ColumnBin, ...]:
    """What rows or columns of the table stand for."""
    if edges is not None:
        return tuple(ColumnBin(low, high) for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    return perturbation.values if isinstance(perturbation, CategoryPerturbation) else ()


def value_text(value: Level | ColumnBin) -> str:
    """A category or an interval, as it is shown."""
    return str(value) if isinstance(value, ColumnBin) else level_text(value)


def check_lengths(first: NDArray[Any], second: NDArray[Any]) -> None:
    """Raise DataError unless both columns have the same number of rows."""
    if len(first) != len(second):
        raise DataError("The two columns have different lengths.", "Give two columns of the same rows.")


@dataclass(frozen=True, eq=False)
class MixedTable:
    """States of a number column and their probabilities with each category (columns of `shares`), as fitted and with parts held out.

    `margin` and `own` are the columns on their own.
    """

    states: States
    shares: Floats
    margin: Floats
    own: Floats
    held_out: HeldOutEstimates


@dataclass(frozen=True, eq=False)
class OwnColumn:
    """A number column on its own: its states and their probabilities, and the bins between `edges_y` that the perturbed numbers lie in."""

    states: States
    margin: Floats
    edges_y: Floats
    places: NDArray[np.intp]

    @classmethod
    def of(cls, number: NumberPerturbation, values: Floats, seed: int) -> Self:
        """By the Iterative Bayesian Technique."""
        cells = min(number.steps, _MIXED_CELLS)
        edges = bin_edges(number, cells)
        atoms = detected_atoms(number, counted(number, values, CELLS), CELLS)
        states = continuous_states(number, edges, cells, atoms)
        places = np.searchsorted(edges[1:-1], values)
        counts = np.bincount(places, minlength=len(edges) - 1).astype(np.float64)
        return cls(states, bayes_margin(states, counts, seed), edges, places)


def mixed_table(number: NumberPerturbation, category: CategoryPerturbation, y: Any, z: Any, seed: int) -> MixedTable:
    """The Iterative Bayesian Technique over cells times categories.

    Steps start with both columns independent of each other and every number alike; the categories are those of their own column.
    """
    values, ticks = checked_values(number, y), answers_of(category, z)
    check_lengths(values, ticks)
    column = OwnColumn.of(number, values, seed)
    states = column.states
    channel, counts = pair_problem(states.channel, column.places, category, ticks)
    own = own_shares(category, z)
    parts = random_parts(counts, FOLDS, np.random.default_rng(seed))
    most_steps = MOST_STEPS if isinstance(channel, ProductChannel) else _LISTED_STEPS
    stopped = stopped_by_validation(channel, outer_product([uniform_start(states), own]), parts, most_steps)
    held_out = HeldOutEstimates(channel, parts, stopped.left_out)
    return MixedTable(states, stopped.probabilities, column.margin, own, held_out)


def own_scores(perturbation: Perturbation, edges: Floats | None, y: Any, seed: int) -> ScoredAnswers:
    """Scores of a column's answers that depend on that column only, so that any pairing with those of an independent column was as likely."""
    if isinstance(perturbation, CategoryPerturbation):
        return scored_categories(perturbation, answers_of(perturbation, y))
    number: Any = perturbation
    values = checked_values(number, y)
    column = OwnColumn.of(number, values, seed)
    layout = Layout.of([column.states], number.bounds)
    margin = Distribution(layout, layout.carrying(column.states) @ column.margin, len(values), {})
    return scored_numbers(number, margin, column.edges_y, edges, values)  # type: ignore[arg-type]


def own_bins(perturbation: Perturbation, edges: Floats | None, y: Any, seed: int) -> Floats:
    """The values' shares of one column, reconstructed on its own by the best method for its kind."""
    if isinstance(perturbation, CategoryPerturbation):
        return np.asarray(CategoricalReconstruction(perturbation).fit(y).probabilities_)
    own: Any = perturbation
    return Reconstruction(own, random_state=seed).fit(y).distribution_.histogram(edges)  # type: ignore[arg-type]


def raked(table: Floats, first: Floats, second: Floats) -> Floats:
    """The table with these margins that is nearest in the sense of Kullback and Leibler (iterative proportional fitting).

    It is left as it is where the margins cannot be met, because bins of one column leave more out than those of the other.
    """
    if not math.isclose(first.sum(), second.sum(), rel_tol=1e-6):
        return table
    found = np.maximum(table, _LEAST_SHARE * outer_product([first, second]))
    for _ in range(_RAKING_STEPS):
        found *= (first / np.maximum(found.sum(axis=1), _SMALLEST))[:, np.newaxis]
        found *= second / np.maximum(found.sum(axis=0), _SMALLEST)
    return found


def own_shares(category: CategoryPerturbation, z: Any) -> Floats:
    """Proportions of a category column on its own, none of them zero."""
    own = np.maximum(CategoricalReconstruction(category, "likelihood").fit(z).probabilities_, _LEAST_SHARE)
    return np.asarray(own / own.sum())


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
