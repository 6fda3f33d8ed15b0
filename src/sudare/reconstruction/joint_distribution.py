"""Several number columns together: their joint distribution from values that were perturbed independently of each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter
from sudare.parameter_checks import SEEDS, Numbers
from sudare.perturbation.number_channels import NumberPerturbation, checked_edges, checked_numbers
from sudare.reconstruction.binning import CELLS, States, bin_edges, checked_values, continuous_states, counted
from sudare.reconstruction.channels import Channel, ProductChannel, along_axes, outer_product
from sudare.reconstruction.iterative_bayes import (
    FOLDS,
    expectation_maximisation,
    random_parts,
    stopped_by_validation,
    uniform_start,
)
from sudare.reconstruction.maximum_likelihood import stacked_weights
from sudare.reconstruction.multivariate_normal_mixture import (
    MOST_COMPONENTS,
    Grid,
    JointComponents,
    MixtureFit,
    MixtureLikelihood,
    information_criterion,
    mixture_fits,
)
from sudare.reconstruction.point_mass_detection import declared_atoms, detected_atoms
from sudare.reconstruction.reconstructed_distribution import Distribution, Layout, drawn_rows

Method = Literal["auto", "bayes", "mixture"]
METHODS: Final = get_args(Method)
ColumnAtoms = Sequence[Sequence[float]] | Literal["auto"]

MOST_COLUMNS: Final = 3
MOST_STEPS: Final = 3162
# Fewest and most cells a column, by the number of columns: combinations stay in the ten thousands.
_CELLS: Final = {2: (48, 64), 3: (24, 32)}
_CELLS_IN_SCALE: Final = 4
_ROUGH_STEPS: Final = 300
_LEAST_PROBABILITY: Final = 1e-300
_NO_BAND: Final = (
    "the columns were reconstructed together, which comes without a band; use Reconstruction for one column."
)


@dataclass(frozen=True, eq=False)
class JointClusters:
    """Components, and P(component | perturbed row in combined bin): one axis a column, between its `edges`, then one of components."""

    components: JointComponents
    edges: Sequence[Floats]
    posterior: Floats

    @classmethod
    def of(
        cls, components: JointComponents, densities: Floats, channel: ProductChannel, edges: Sequence[Floats]
    ) -> JointClusters:
        """From the probabilities of combined cells in each component, a column a component, seen through the channel."""
        cells = densities.T.reshape(-1, *channel.shape)
        seen = np.moveaxis(channel.forward(cells), 0, -1) * components.weights
        return cls(components, edges, seen / np.maximum(seen.sum(axis=-1, keepdims=True), _LEAST_PROBABILITY))


@dataclass(frozen=True, eq=False)
class JointDistribution:
    """What several columns looked like together: a probability for each combination of cells and atoms of the columns."""

    layouts: Sequence[Layout]
    probabilities: Floats
    records: int
    method_weights: Mapping[str, float]
    clusters: JointClusters | None = None

    @property
    def components(self) -> JointComponents | None:
        """Components of the mixture with the best information criterion; None if no mixture was fitted."""
        return self.clusters.components if self.clusters else None

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return len(self.layouts)

    def histogram(self, edges: Sequence[ArrayLike]) -> Floats:
        """Probabilities of combined bins, one axis a column; bins as in `Distribution.histogram`. What lies outside is left out."""
        if len(edges) != self.columns:
            raise InvalidParameter(
                f"There are edges for {len(edges)} columns, but {self.columns} columns.", "Give edges for each column."
            )
        binnings = [
            layout.binning(checked_edges(bins, "edges")) for layout, bins in zip(self.layouts, edges, strict=True)
        ]
        return along_axes(binnings, self.probabilities)

    def marginal(self, column: int) -> Distribution:
        """One column on its own. A reconstruction of that column alone is a little more exact, and has bands."""
        if not 0 <= column < self.columns:
            raise InvalidParameter(f"There is no column {column}.", f"Use 0 to {self.columns - 1}.")
        others = tuple(axis for axis in range(self.columns) if axis != column)
        return Distribution(
            self.layouts[column],
            self.probabilities.sum(axis=others),
            self.records,
            self.method_weights,
            unresolved=_NO_BAND,
        )

    def mean(self) -> Floats:
        """The means of the columns."""
        return np.array([self.marginal(column).mean() for column in range(self.columns)])

    def covariance(self) -> Floats:
        """The covariance matrix."""
        means = self.mean()
        found = np.diag([self.marginal(column).variance() for column in range(self.columns)])
        for first in range(self.columns):
            for second in range(first):
                others = tuple(axis for axis in range(self.columns) if axis not in (first, second))
                pair = self.probabilities.sum(axis=others)
                places = [self.layouts[column].middles - means[column] for column in (second, first)]
                found[first, second] = found[second, first] = places[0] @ pair @ places[1]
        return found

    def correlation(self) -> Floats:
        """The correlation matrix."""
        covariance = self.covariance()
        scales = np.sqrt(covariance.diagonal())
        return np.asarray(covariance / np.outer(scales, scales))

    def sample(self, size: int, random_state: int | np.random.Generator | None = None) -> Floats:
        """New rows with this distribution, one column a column; none belongs to anybody."""
        return drawn_rows(self.layouts, self.probabilities, size, random_state)

    def responsibilities(self, columns: Sequence[ArrayLike] | Floats) -> Floats:
        """P(component | row) for perturbed rows, given as to `fit`: a row for each, a column for each component."""
        if self.clusters is None:
            raise InvalidParameter(
                "This distribution has no components to assign rows to.",
                "Use method='mixture', or 'auto' without atoms.",
            )
        values = [checked_numbers(column) for column in listed_columns(columns, self.columns)]
        _check_lengths(values)
        bins = [np.searchsorted(edges[1:-1], column) for edges, column in zip(self.clusters.edges, values, strict=True)]
        return np.asarray(self.clusters.posterior[tuple(bins)])

    def predict(self, columns: Sequence[ArrayLike] | Floats) -> NDArray[np.intp]:
        """The likeliest component of each perturbed row."""
        return np.asarray(self.responsibilities(columns).argmax(axis=1))


@dataclass(frozen=True, eq=False)
class _Problem:
    """Counts of combined bins between edges, the channel to them, and random parts of the records."""

    states: Sequence[States]
    edges: Sequence[Floats]
    channel: ProductChannel
    counts: Floats
    parts: Sequence[Floats]

    @property
    def start(self) -> Floats:
        """Every combination of states alike, as for one column."""
        return outer_product([uniform_start(states) for states in self.states])

    def margins(self, seed: int) -> list[Floats]:
        """Each column on its own."""
        axes = range(len(self.states))
        own = [self.counts.sum(axis=tuple(axis for axis in axes if axis != column)) for column in axes]
        return [bayes_margin(states, counts, seed) for states, counts in zip(self.states, own, strict=True)]

    @property
    def has_atoms(self) -> bool:
        """Whether some value has a probability of its own."""
        return any(len(states.atoms) for states in self.states)


@dataclass(frozen=True, eq=False)
class HeldOutEstimates:
    """Parts of the records (counts of combined answers), and the estimates that were made without each."""

    channel: Channel
    parts: Sequence[Floats]
    left_out: Floats


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A reconstruction from all records, and one without each part."""

    name: str
    probabilities: Floats
    left_out: Floats


@dataclass(eq=False, repr=False)
class JointReconstruction(BaseEstimator):
    """The joint distribution of two or three number columns that were perturbed independently. It costs no budget.

    Three columns are the most, because every combination of cells has a probability; `CrossTable` takes two of any kind.

    Parameters
    ----------
    perturbations : those that were applied, one a column.
    method : 'bayes' is the Iterative Bayesian Technique on combined cells, stopped by cross-validation; 'mixture' are mixtures of
        normal distributions with full covariance; 'auto' weighs both by how likely they made records that they had not seen.
    components : how many normal distributions a mixture has; None weighs 1 … 6 in the same way.
    atoms : for each column the values with a probability of their own; 'auto' finds them on the bounds. Mixtures have none, so
        'auto' leaves them out where there are atoms.
    random_state : seed of the parts for cross-validation and of the starts.

    Attributes
    ----------
    distribution_ : a `JointDistribution`; where mixtures took part it also tells clusters apart (`predict`).
    bayes_distribution_ : what the Iterative Bayesian Technique gives alone, if it took part; else None.
    margins_ : each column on its own, by that technique; over the same cells and atoms as `distribution_`.
    edges_ : for each column the edges of bins in which its perturbed values were counted.
    held_out_estimates_ : the same average as `distribution_`, without each part of the records.
    """

    perturbations: Sequence[NumberPerturbation]
    method: Method = "auto"
    _: KW_ONLY
    components: int | None = None
    atoms: ColumnAtoms = "auto"
    random_state: int = 0

    def fit(self, columns: Sequence[ArrayLike] | Floats) -> Self:
        """From the perturbed columns, row by row: a list with each column, or an array with one column a column."""
        self._check_parameters()
        SEEDS.check("random_state", self.random_state)
        values = checked_columns(self.perturbations, columns)
        problem = self._problem(values)
        candidates: list[_Candidate] = []
        fits: list[MixtureFit] = []
        if self.method != "mixture":
            candidates.append(bayes_candidate(problem))
        if self.method == "mixture" or (self.method == "auto" and not problem.has_atoms):
            fits = self._mixtures(problem, rough_shape(problem))
            candidates += [mixture_candidate(problem, fit) for fit in fits]
        weights = stacked_weights(problem.channel, [candidate.left_out for candidate in candidates], problem.parts)
        probabilities = np.tensordot(weights, np.array([candidate.probabilities for candidate in candidates]), 1)
        layouts = [
            Layout.of([states], perturbation.bounds)
            for states, perturbation in zip(problem.states, self.perturbations, strict=True)
        ]
        by_name = {candidate.name: 0.0 for candidate in candidates}
        for candidate, weight in zip(candidates, weights, strict=True):
            by_name[candidate.name] += float(weight)
        records = len(values[0])
        self.distribution_ = JointDistribution(
            layouts, probabilities, records, by_name, clusters_of(fits, problem, self.perturbations, records)
        )
        left_out = np.tensordot(weights, np.array([candidate.left_out for candidate in candidates]), 1)
        self.held_out_estimates_, self.edges_ = (
            HeldOutEstimates(problem.channel, problem.parts, left_out),
            problem.edges,
        )
        self.margins_ = problem.margins(self.random_state)
        self.bayes_distribution_ = (
            None
            if self.method == "mixture"
            else JointDistribution(layouts, candidates[0].probabilities, records, {"bayes": 1.0}, None)
        )
        return self

    def _check_parameters(self) -> None:
        if self.method not in METHODS:
            raise InvalidParameter(f"There is no method {self.method!r}.", f"Use one of: {', '.join(METHODS)}.")
        if not 2 <= len(self.perturbations) <= MOST_COLUMNS:
            raise InvalidParameter(
                f"{len(self.perturbations)} columns cannot be reconstructed together.",
                f"Give 2 to {MOST_COLUMNS} perturbations; for one column use Reconstruction.",
            )
        if not all(isinstance(perturbation, NumberPerturbation) for perturbation in self.perturbations):
            raise InvalidParameter(
                "Every perturbation must be one of a number column.", "With a category column use CrossTable."
            )
        Numbers(1, MOST_COMPONENTS, whole=True, optional=True).check("components", self.components)
        if isinstance(self.atoms, str):
            if self.atoms != "auto":
                raise InvalidParameter(f"atoms must be 'auto' or lists, got '{self.atoms}'.", "Use [(0,), ()].")
            return
        if not isinstance(self.atoms, Sequence) or len(self.atoms) != len(self.perturbations):
            raise InvalidParameter("atoms must have one list a column.", "Use for example atoms=[(0,), ()].")
        if self.method == "mixture" and any(len(atoms) for atoms in self.atoms):
            raise InvalidParameter("Mixtures of several columns have no atoms.", "Use method='bayes' or 'auto'.")

    def _problem(self, values: Sequence[Floats]) -> _Problem:
        states, places, every_edges = [], [], []
        for number, (perturbation, column) in enumerate(zip(self.perturbations, values, strict=True)):
            cells = joint_cell_count(perturbation, len(values))
            edges = bin_edges(perturbation, cells)
            atoms = self._atoms(number, column)
            states.append(continuous_states(perturbation, edges, cells, atoms))
            places.append(np.searchsorted(edges[1:-1], column))
            every_edges.append(edges)
        channel = ProductChannel([one.channel for one in states])
        counts = channel.counted(places)
        parts = random_parts(counts, FOLDS, np.random.default_rng(self.random_state))
        return _Problem(states, every_edges, channel, counts, parts)

    def _atoms(self, number: int, column: Floats) -> Floats:
        perturbation = self.perturbations[number]
        if self.method == "mixture":
            return np.empty(0)
        if not isinstance(self.atoms, str):
            return declared_atoms(perturbation, self.atoms[number])
        return detected_atoms(perturbation, counted(perturbation, column, CELLS), CELLS)

    def _mixtures(self, problem: _Problem, shape: Floats) -> list[MixtureFit]:
        chosen = self.components is not None
        fits = mixture_fits(
            Grid(problem.channel.shape),
            problem.channel,
            problem.counts,
            shape,
            self.components or MOST_COMPONENTS,
            self.random_state,
            all_of_them=chosen,
        )
        return fits[-1:] if chosen else fits


def checked_columns(perturbations: Sequence[NumberPerturbation], columns: Sequence[ArrayLike] | Floats) -> list[Floats]:
    """One column of possible outputs for each perturbation, all of the same length."""
    given = listed_columns(columns, len(perturbations))
    values = [checked_values(*pair) for pair in zip(perturbations, given, strict=True)]
    _check_lengths(values)
    return values


def listed_columns(columns: Sequence[ArrayLike] | Floats, expected: int) -> list[Any]:
    """The columns of a list or of an array with one column a column; raise DataError unless there are as many as perturbations."""
    given = list(columns.T) if isinstance(columns, np.ndarray) and columns.ndim == 2 else list(columns)
    if len(given) != expected:
        raise DataError(f"There are {len(given)} columns and {expected} perturbations.", "Give one for each column.")
    return given


def _check_lengths(values: Sequence[Floats]) -> None:
    """Raise DataError unless all columns have as many rows."""
    if len({len(column) for column in values}) > 1:
        raise DataError("The columns have different lengths.", "Give columns of the same rows, in the same order.")


def joint_cell_count(perturbation: NumberPerturbation, columns: int) -> int:
    """How finely a column is cut if it is reconstructed with others: more finely where the noise is narrow."""
    fewest, most = _CELLS[columns]
    low, high = perturbation.bounds
    wanted = math.ceil(_CELLS_IN_SCALE * (high - low) / perturbation.noise_scale)
    return min(perturbation.steps, max(fewest, min(most, wanted)))


def bayes_margin(states: States, counts: Floats, seed: int) -> Floats:
    """The Iterative Bayesian Technique for one column, from counts of its perturbed values."""
    parts = random_parts(counts, FOLDS, np.random.default_rng(seed))
    channel = ProductChannel([states.channel])
    return stopped_by_validation(channel, uniform_start(states), parts, MOST_STEPS).probabilities


def bayes_candidate(problem: _Problem) -> _Candidate:
    """The Iterative Bayesian Technique."""
    stopped = stopped_by_validation(problem.channel, problem.start, problem.parts, MOST_STEPS)
    return _Candidate("bayes", stopped.probabilities, stopped.left_out)


def rough_shape(problem: _Problem) -> Floats:
    """Returns the distribution in which mixtures look for clusters: the technique's after enough steps for peaks to show."""
    frequencies = problem.counts / problem.counts.sum()
    return expectation_maximisation(problem.start, problem.channel, frequencies, _ROUGH_STEPS)


def mixture_candidate(problem: _Problem, fit: MixtureFit) -> _Candidate:
    """A mixture, and the same one refitted without each part."""
    grid = Grid(problem.channel.shape)
    precision = MixtureLikelihood(grid, problem.channel, problem.counts, fit.count).precision(fit.parameters)
    left_out = []
    for part in problem.parts:
        likelihood = MixtureLikelihood(grid, problem.channel, problem.counts - part, fit.count)
        moved = likelihood.moved_mode(fit.parameters, precision)
        left_out.append(likelihood.described(moved).probabilities)
    return _Candidate("mixture", fit.probabilities, np.array(left_out))


def clusters_of(
    fits: Sequence[MixtureFit], problem: _Problem, perturbations: Sequence[NumberPerturbation], records: int
) -> JointClusters | None:
    """Components of the mixture with the best information criterion, in the columns' units, and which rows are whose."""
    if not fits:
        return None
    best = max(fits, key=lambda fit: information_criterion(fit, records, len(perturbations)))
    likelihood = MixtureLikelihood(Grid(problem.channel.shape), problem.channel, problem.counts, best.count)
    _, means, factors = likelihood.unpacked(best.parameters)
    low = np.array([perturbation.bounds[0] for perturbation in perturbations])
    widths = np.array([perturbation.bounds[1] for perturbation in perturbations]) - low
    found = best.components
    components = JointComponents(
        found.weights, low + widths * found.means, found.covariances * np.outer(widths, widths)
    )
    return JointClusters.of(components, likelihood.densities(means, factors), problem.channel, problem.edges)
