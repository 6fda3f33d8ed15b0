"""Several columns at once: Table 1's cross table, correlated mixtures in two and three dimensions, and cross tables of the census."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sudare.array_types import Floats
from sudare.papers.datasets import data
from sudare.papers.p004_reconstruction.algorithm2 import FiniteMixtureJointReconstruction
from sudare.papers.p004_reconstruction.printed_values import l1_accuracy
from sudare.papers.repetitions import Measurements, measurements, noted, repetitions
from sudare.papers.study import Cell, Estimate, ResultTable, Tell
from sudare.perturbation.categorical import RetainReplace
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.perturbation.square_wave import SquareWave
from sudare.reconstruction.cross_tables import CrossTable
from sudare.reconstruction.joint_distribution import JointReconstruction

SEED: Final = 20240403
BOUNDS: Final = (-1.0, 11.0)
RECORDS: Final = 100_000
BINS: Final = {2: 12, 3: 8}
METHODS: Final = ("bayes", "mixture", "auto")
DIAGONAL: Final = "no covariance (19)"
ROTATED: Final = "Algorithm 2"
MOST_STEPS: Final = 300
"""Of the paper's two ways, so that minutes do; with rotation L need not rise, and more steps do not bring it to rest."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Normal components with covariance, whether ε is split over the columns or each has the k = 2 rule for itself, and the noise."""

    name: str
    weights: Floats
    means: Floats
    covariances: Floats
    split: bool
    noise: type[LaplacePerturbation] | type[SquareWave] = LaplacePerturbation

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return int(self.means.shape[1])

    @property
    def settings(self) -> tuple[int, str, str, str]:
        """Columns, name, noise, and how ε is shared: what tells mixtures apart."""
        noise = "Laplace" if self.noise is LaplacePerturbation else "Square Wave"
        return self.columns, self.name, noise, "split" if self.split else "k = 2 each"

    @property
    def edges(self) -> list[Floats]:
        """Bins of one in two dimensions, of one and a half in three."""
        return [np.linspace(*BOUNDS, BINS[self.columns] + 1)] * self.columns

    def rows(self, size: int, generator: np.random.Generator) -> Floats:
        """A sample."""
        return self.rows_of(generator.choice(len(self.weights), size, p=self.weights), generator)

    def rows_of(self, component: NDArray[np.intp], generator: np.random.Generator) -> Floats:
        """A row from each of these components."""
        noise = generator.standard_normal((len(component), self.columns))
        roots = np.linalg.cholesky(self.covariances)
        return np.asarray(self.means[component] + np.einsum("nij,nj->ni", roots[component], noise))

    @property
    def is_papers(self) -> bool:
        """Whether the paper's two ways know what to do: Laplace noise, and two dimensions, where they show what they can."""
        return self.noise is LaplacePerturbation and self.columns == 2

    def epsilon(self, size: int) -> float:
        """k = 2: local ε = ½·ln(N − 1), for each column or for all together."""
        return 0.5 * math.log(size - 1) / (self.columns if self.split else 1)

    def perturbation(self, size: int) -> LaplacePerturbation | SquareWave:
        """Of every column."""
        return self.noise(BOUNDS, epsilon=self.epsilon(size))

    def laplace(self, size: int) -> LaplacePerturbation:
        """Laplace noise with the same ε: what the paper's ways take."""
        return LaplacePerturbation(BOUNDS, epsilon=self.epsilon(size))


_TWO: Final = (
    np.array([0.6, 0.4]),
    np.array([[3.0, 3.0, 4.0], [7.0, 6.0, 6.0]]),
    np.array(
        [[[1.0, 0.7, 0.5], [0.7, 1.0, 0.3], [0.5, 0.3, 1.0]], [[1.0, -0.6, 0.2], [-0.6, 1.5, -0.4], [0.2, -0.4, 1.0]]]
    ),
)
_THREE: Final = (
    np.array([0.5, 0.3, 0.2]),
    np.array([[3.0, 3.0, 4.0], [6.0, 7.0, 6.0], [8.0, 3.0, 7.0]]),
    np.array(
        [
            [[1.0, 0.7, 0.3], [0.7, 1.0, 0.4], [0.3, 0.4, 1.0]],
            [[1.5, -0.9, 0.2], [-0.9, 1.0, -0.3], [0.2, -0.3, 0.8]],
            [[0.6, 0.2, 0.0], [0.2, 0.8, 0.3], [0.0, 0.3, 1.0]],
        ]
    ),
)
# Three columns take twelve seconds a repetition, so they have fewer settings.
_SETTINGS: Final = {
    2: ((False, LaplacePerturbation), (True, LaplacePerturbation), (True, SquareWave)),
    3: ((False, LaplacePerturbation), (True, SquareWave)),
}
MIXTURES: Final = tuple(
    Mixture(f"{number} components", weights, means[:, :columns], covariances[:, :columns, :columns], split, noise)
    for columns, settings in _SETTINGS.items()
    for number, (weights, means, covariances) in (("two", _TWO), ("three", _THREE))
    for split, noise in settings
)


def measured(tell: Tell, repeats: int, mixtures: Sequence[Mixture] = MIXTURES, records: int = RECORDS) -> Measurements:
    """Accuracy, error of the covariance, and error of the components' covariances, for every method."""

    def note(found: Measurements, number: int, repetition: int) -> None:
        generator = np.random.default_rng((SEED, number, repetition))
        note_mixture(found, mixtures[number], mixtures[number].rows(records, generator), SEED + 100 * repetition)

    return measurements(
        tell,
        (
            call
            for number, mixture in enumerate(mixtures)
            for call in repetitions(f"{mixture.columns} columns, {mixture.name}", repeats, partial(noted, note, number))
        ),
    )


def note_mixture(found: Measurements, mixture: Mixture, rows: Floats, seed: int) -> None:
    """One repetition: a new sample, new noise. The paper's ways and 'mixture' know the number of components, 'auto' does not."""
    perturbation = mixture.perturbation(len(rows))
    columns = [
        perturbation.perturb(column, shuffle=False, random_state=seed + number) for number, column in enumerate(rows.T)
    ]
    truth = np.histogramdd(rows, mixture.edges)[0] / len(rows)
    channels = [perturbation] * mixture.columns
    known = JointReconstruction(channels, "mixture", components=len(mixture.weights)).fit(columns).distribution_
    model = JointReconstruction(channels).fit(columns)
    for method, result in (("bayes", model.bayes_distribution_), ("mixture", known), ("auto", model.distribution_)):
        if result is not None:
            found.note((mixture.settings, "accuracy", method), l1_accuracy(result.histogram(mixture.edges), truth))
            found.note((mixture.settings, "covariance", method), relative_error(result.covariance(), np.cov(rows.T)))
    if known.components is not None:
        error = component_error(mixture, known.components.means, known.components.covariances)
        found.note((mixture.settings, "components", "mixture"), error)
    if mixture.is_papers:
        note_paper(found, mixture, rows, columns, seed)


def note_paper(found: Measurements, mixture: Mixture, rows: Floats, columns: Sequence[Floats], seed: int) -> None:
    """The paper's two ways, from the perturbed columns and the number of components."""
    channels = [mixture.laplace(len(rows))] * mixture.columns
    truth = np.histogramdd(rows, mixture.edges)[0] / len(rows)
    for name, rotate in ((DIAGONAL, False), (ROTATED, True)):
        model = FiniteMixtureJointReconstruction(
            channels, len(mixture.weights), rotate=rotate, max_iter=MOST_STEPS, random_state=seed
        )
        with warnings.catch_warnings():
            # Whether it came to rest is noted, and told in the table.
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit = model.fit(columns)
        components = fit.components_
        found.note((mixture.settings, "at rest", name), float(fit.converged_))
        found.note(
            (mixture.settings, "components", name), component_error(mixture, components.means, components.covariances)
        )
        total = total_covariance(components.weights, components.means, components.covariances)
        found.note((mixture.settings, "covariance", name), relative_error(total, np.cov(rows.T)))
        if fit.distribution_ is not None:
            found.note(
                (mixture.settings, "accuracy", name), l1_accuracy(fit.distribution_.histogram(mixture.edges), truth)
            )


def relative_error(estimate: Floats, truth: Floats) -> float:
    """Percent, in the Frobenius norm."""
    return float(100 * np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def total_covariance(weights: Floats, means: Floats, covariances: Floats) -> Floats:
    """Of a mixture: within components and between them."""
    centred = means - weights @ means
    return np.asarray(np.tensordot(weights, covariances, 1) + (centred * weights[:, np.newaxis]).T @ centred)


def component_error(mixture: Mixture, means: Floats, covariances: Floats) -> float:
    """The mean over components of the relative error of the covariance; each is compared with the one of the nearest mean."""
    nearest = [int(np.argmin(((means - mean) ** 2).sum(axis=1))) for mean in mixture.means]
    return float(
        np.mean([relative_error(covariances[k], truth) for k, truth in zip(nearest, mixture.covariances, strict=True)])
    )


def accuracy_table(found: Measurements, mixtures: Sequence[Mixture] = MIXTURES) -> ResultTable:
    """L1 accuracy of joint histograms."""
    rows = [
        (*one.settings, *(_cell(found, (one.settings, "accuracy", name)) for name in (DIAGONAL, ROTATED, *METHODS)))
        for one in mixtures
    ]
    return ResultTable(
        "Several columns: L1 accuracy of the joint histogram",
        ("columns", "mixture", "noise", "ε", DIAGONAL, ROTATED, *METHODS),
        rows,
        f"{RECORDS:,} records; ± one standard error over {found.repeats} samples. Bins of 1 in two dimensions (144), of "
        "1.5 in three (512). 'bayes' is the Iterative Bayesian Technique on fine cells stopped by cross-validation; 'mixture' and the paper's two ways are "
        "told the number of components, 'auto' is not. Noise: local ε = 5.76 for every column, or 5.76 for all together. The paper's ways know Laplace noise; "
        "they were run in two dimensions.",
    )


def covariance_table(found: Measurements, mixtures: Sequence[Mixture] = MIXTURES) -> ResultTable:
    """Errors of covariances, of components and of all."""
    rows: list[Sequence[Cell]] = []
    for one in mixtures:
        keys: list[Hashable] = [(one.settings, "components", name) for name in (DIAGONAL, ROTATED, "mixture")]
        keys += [(one.settings, "covariance", name) for name in (ROTATED, "bayes", "auto")]
        at_rest = found.values((one.settings, "at rest", ROTATED))
        share = f"{sum(at_rest):.0f} of {len(at_rest)}" if at_rest else None
        rows.append((*one.settings, *(_cell(found, key) for key in keys), share))
    return ResultTable(
        "Several columns: error of covariances in percent",
        (
            "columns",
            "mixture",
            "noise",
            "ε",
            f"components, {DIAGONAL}",
            f"components, {ROTATED}",
            "components, ours",
            f"total, {ROTATED}",
            "total, bayes",
            "total, auto",
            f"{ROTATED} came to rest",
        ),
        rows,
        "Relative Frobenius error, of each component's covariance (mean over components) and of all records'. Algorithm 2 rotates data into "
        "principal axes and goes on as if the noise there were Laplace of the same scale: it is not. Both of the paper's ways start at random, from the perturbed rows alone, and have the closed-form "
        f"update and {MOST_STEPS} steps at most; the paper prints no experiment with several columns.",
    )


def _cell(found: Measurements, key: Hashable) -> Estimate | None:
    return found.at(key) if found.values(key) else None


@dataclass(frozen=True)
class CensusPair:
    """Two columns of Adult with public bins; no edges for a category."""

    first: str
    first_bounds: tuple[float, float]
    first_edges: tuple[float, ...]
    second: str
    second_bounds: tuple[float, float] | None
    second_edges: tuple[float, ...] | None


_AGES: Final = (17.0, 25.0, 35.0, 45.0, 55.0, 65.0, 90.0)
CENSUS: Final = (
    CensusPair("age", (17, 90), _AGES, "hours-per-week", (1, 99), (1.0, 20.0, 35.0, 45.0, 60.0, 99.0)),
    CensusPair("age", (17, 90), _AGES, "sex", None, None),
    CensusPair("age", (17, 90), _AGES, "education", None, None),
)


def census_table(
    tell: Tell, repeats: int, pairs: Sequence[CensusPair] = CENSUS, rows: int | None = None
) -> ResultTable:
    """Table 1's use: cross tables of the census, with k = 2 split over both columns."""
    table = data("adult-train").iloc[:rows]
    epsilon = 0.25 * math.log(len(table) - 1)
    found = Measurements()
    for pair in pairs:
        first = table[pair.first].to_numpy(dtype=np.float64)
        own = LaplacePerturbation(pair.first_bounds, epsilon=epsilon)
        if pair.second_bounds is None:
            second = table[pair.second].astype(str).to_numpy()
            levels = tuple(sorted(set(second)))
            other: LaplacePerturbation | RetainReplace = RetainReplace(levels, epsilon=epsilon)
            groups = [np.histogram(first[second == level], pair.first_edges)[0] for level in levels]
            truth = np.array(groups).T / len(first)
        else:
            second = table[pair.second].to_numpy(dtype=np.float64)
            other = LaplacePerturbation(pair.second_bounds, epsilon=epsilon)
            bins = [np.array(pair.first_edges), np.array(pair.second_edges)]
            truth = np.histogramdd([first, second], bins)[0] / len(first)
        tell(f"{pair.first} × {pair.second}")
        for repetition in range(repeats):
            y = own.perturb(first, shuffle=False, random_state=SEED + repetition)
            z = other.perturb(second, shuffle=False, random_state=SEED + 1000 + repetition)
            found.note(pair, l1_accuracy(joint_shares(pair, own, other, y, z), truth))
        found.note((pair, "independent"), l1_accuracy(np.outer(truth.sum(axis=1), truth.sum(axis=0)), truth))
    return ResultTable(
        "Cross tables of Adult",
        ("rows", "columns", "L1 accuracy", "true margins, taken as independent"),
        [(pair.first, pair.second, found.at(pair), found.values((pair, "independent"))[0]) for pair in pairs],
        f"k = 2 for both columns together: local ε = {epsilon:.2f} each; ± one standard error over {repeats} draws of the noise. The last column "
        "is what one would have who knew both margins exactly and nothing of how they go together.",
    )


def joint_shares(
    pair: CensusPair, own: LaplacePerturbation, other: LaplacePerturbation | RetainReplace, y: Floats, z: Any
) -> Floats:
    """The joint estimate alone, without the product of the margins."""
    if isinstance(other, LaplacePerturbation):
        edges: Any = [pair.first_edges, pair.second_edges]
        return JointReconstruction([own, other]).fit([y, z]).distribution_.histogram(edges)
    return CrossTable(own, other, first_edges=pair.first_edges, method="bayes").fit(y, z).probabilities_


def table_1(records: int = 10_000) -> ResultTable:
    """Table 1: heights and weights, perturbed and reconstructed as a cross table."""
    generator = np.random.default_rng(SEED)
    heights = generator.normal(166, 8, records)
    weights = 62 + 0.9 * (heights - 166) + generator.normal(0, 8, records)
    epsilon = 0.25 * math.log(records - 1)
    height, weight = (LaplacePerturbation(bounds, epsilon=epsilon) for bounds in ((130, 210), (30, 110)))
    edges = np.arange(140.5, 191, 10), np.arange(40.5, 91, 10)
    y = height.perturb(heights, shuffle=False, random_state=SEED)
    z = weight.perturb(weights, shuffle=False, random_state=SEED + 1)
    found = JointReconstruction([height, weight]).fit([y, z]).distribution_.histogram(edges) * records
    truth = np.histogram2d(heights, weights, edges)[0]
    names = [[f"[{low + 0.5:.0f}-{low + 9.5:.0f}]" for low in ends[:-1]] for ends in edges]
    rows: list[Sequence[Cell]] = [
        (name, *(f"{count:.0f} ({true:.0f})" for count, true in zip(counts, trues, strict=True)))
        for name, counts, trues in zip(names[0], found, truth, strict=True)
    ]
    return ResultTable(
        "Table 1: heights and weights, perturbed and reconstructed as a cross table",
        ("height", *(f"weight {name}" for name in names[1])),
        rows,
        f"Reconstructed counts, the original ones in brackets. {records:,} made-up people, Laplace noise for k = 2 over both columns together: local ε = {epsilon:.2f} each. "
        "The paper's table is an illustration with three records and six cells; whose data they are is not given in the text.",
    )
