"""What could be had at all: the problems of table 2 and figure 2 for somebody who knows more than any method is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from scipy.special import ndtr

from sudare.array_types import Floats
from sudare.papers.p004_reconstruction import figure2, table2
from sudare.papers.p004_reconstruction.printed_values import FIGURE_1, l1_accuracy
from sudare.papers.repetitions import Measurements, measurements, noted, repetitions
from sudare.papers.study import Cell, ResultTable, Tell
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.reconstruction.binning import States, bin_edges, cell_count, continuous_states, counted
from sudare.reconstruction.normal_mixture import cell_masses
from sudare.reconstruction.number_reconstruction import Reconstruction
from sudare.reconstruction.reconstructed_distribution import Layout

SMALL: Final = 1_000
LARGE: Final = 1_000_000
DRAWS: Final = 60_000
_DRAWS_AT_ONCE: Final = 1_000
_BLURS: Final = (0.1, 0.2)
_STEP: Final = 1e-4
_TINY: Final = 1e-300


@dataclass(frozen=True, eq=False)
class KnownFamily:
    """Draws from a prior that knows the family: log-probabilities of the bins of y, and histograms by width; a row a draw."""

    log_seen: Floats
    histograms: dict[float, Floats]

    def weights(self, counts: Floats) -> Floats:
        """Posterior weights of the draws."""
        heights = self.log_seen @ counts
        weights = np.exp(heights - heights.max())
        return np.asarray(weights / weights.sum())


def known_family(perturbation: LaplacePerturbation, draws: int, generator: np.random.Generator) -> KnownFamily:
    """Four normal components: any weights, means between the bounds, scales from the smallest to the largest true one."""
    cells = cell_count(perturbation)
    states = continuous_states(perturbation, bin_edges(perturbation, cells), cells, np.empty(0))
    binnings = {width: Layout(states.edges, states.atoms).binning(figure2.edges_of(width)) for width in figure2.WIDTHS}
    seen: list[Floats] = []
    histograms: dict[float, list[Floats]] = {width: [] for width in binnings}
    components = len(FIGURE_1.weights)
    for start in range(0, draws, _DRAWS_AT_ONCE):
        shape = (min(_DRAWS_AT_ONCE, draws - start), components)
        weights = generator.dirichlet(np.ones(components), shape[0])
        means = generator.uniform(*perturbation.bounds, shape)
        smallest, largest = FIGURE_1.scales.min(), FIGURE_1.scales.max()
        scales = smallest * (largest / smallest) ** generator.random(shape)
        masses, _, _ = cell_masses(states.edges, means.ravel(), scales.ravel())
        shares = np.einsum("cdk,dk->cd", masses.reshape(cells, *shape), weights)
        seen.append(np.log(np.maximum(states.channel @ shares, _TINY)).T)
        for width, binning in binnings.items():
            histograms[width].append((binning @ shares).T)
    return KnownFamily(np.vstack(seen), {width: np.vstack(found) for width, found in histograms.items()})


def note_known_family(found: Measurements, family: KnownFamily, repetition: int) -> None:
    """The posterior mean on the records and noise of a repetition of figure 2, and how many draws it rests on."""
    original, perturbation, y = figure2.repetition_of(SMALL, repetition)
    weights = family.weights(counted(perturbation, y, cell_count(perturbation)).counts)
    for width, histograms in family.histograms.items():
        truth = np.histogram(original, figure2.edges_of(width))[0] / SMALL
        found.note(("known", width), l1_accuracy(weights @ histograms, truth))
    found.note(("known", "draws"), 1 / float(weights @ weights))


def blurred_accuracy(values: Floats, edges: Floats, blur: float) -> float:
    """Of the shares of bins if both ends are known exactly and what lies between them up to a normal blur."""
    low, high = values.min(), values.max()
    between = values[(values > low) & (values < high)]
    reach = np.clip(edges, low, high)
    below = ndtr((reach[:, np.newaxis] - between) / blur)
    masses = np.diff(below, axis=0) / (below[-1] - below[0])
    found = masses.sum(axis=1) / len(values)
    found += np.histogram(values[(values == low) | (values == high)], edges)[0] / len(values)
    return l1_accuracy(found, np.histogram(values, edges)[0] / len(values))


def log_normal_probabilities(states: States, parameters: Floats) -> Floats:
    """Shares of the two atoms, then mean and log-deviation of the logarithm of what lies between."""
    first, last, mean, log_deviation = parameters
    standard = (np.log(np.maximum(states.edges, _TINY)) - mean) / math.exp(log_deviation)
    masses = np.diff(ndtr(standard))
    return np.concatenate((masses / masses.sum() * (1 - first - last), [first, last]))


def efficient_log_normal_accuracy(
    values: Floats, perturbation: LaplacePerturbation, edges: Floats
) -> tuple[float, float]:
    """At the Cramér–Rao bound of two atoms and a log-normal law between them: L1 accuracy, and the deviation of the first atom.

    Bins' errors are normal with the bias of the law and covariance G·I⁻¹·Gᵀ.
    """
    cells = 2 * cell_count(perturbation)
    low, high = perturbation.bounds
    states = continuous_states(perturbation, bin_edges(perturbation, cells), cells, np.array([low, high]))
    between = np.log(values[(values > low) & (values < high)])
    at = np.array([np.mean(values == low), np.mean(values == high), between.mean(), math.log(between.std())])
    slopes = np.column_stack(
        [
            (log_normal_probabilities(states, at + move) - log_normal_probabilities(states, at - move)) / (2 * _STEP)
            for move in _STEP * np.eye(len(at))
        ]
    )
    seen = states.channel @ slopes
    expected = states.channel @ log_normal_probabilities(states, at)
    covariance = np.linalg.inv(len(values) * (seen.T / expected) @ seen)
    binning = Layout(states.edges, states.atoms).binning(edges)
    bias = binning @ log_normal_probabilities(states, at) - np.histogram(values, edges)[0] / len(values)
    spread = binning @ slopes
    deviations = np.sqrt(np.einsum("bp,pq,bq->b", spread, covariance, spread))
    return 100 * (1 - 0.5 * float(mean_sizes(bias, deviations).sum())), 100 * math.sqrt(covariance[0, 0])


def mean_sizes(means: Floats, deviations: Floats) -> Floats:
    """E|X| of normal X."""
    standard = means / np.maximum(deviations, _TINY)
    bell = np.exp(-0.5 * standard**2) * math.sqrt(2 / math.pi)
    return np.asarray(deviations * bell + means * (1 - 2 * ndtr(-standard)))


def known_family_rows(tell: Tell, simulated: Measurements, repeats: int, draws: int = DRAWS) -> list[Sequence[Cell]]:
    """Figure 2 with 1,000 records: 'auto', and the posterior mean of somebody who knows the family."""
    family = known_family(figure2.perturbation_of(SMALL), draws, np.random.default_rng(figure2.SEED))
    found = Measurements()
    for repetition in range(repeats):
        tell(f"limits, repetition {repetition + 1} of {repeats}")
        note_known_family(found, family, repetition)
    effective = found.at(("known", "draws")).value
    return [
        (
            f"figure 2, {SMALL:,} records, bins of {width:g}",
            f"four normal components of about these scales; posterior mean ({effective:.0f} effective draws)",
            found.at(("known", width)),
            simulated.at((SMALL, width, "auto")),
        )
        for width in figure2.WIDTHS
    ]


def known_count_rows(tell: Tell, simulated: Measurements, repeats: int, size: int = LARGE) -> list[Sequence[Cell]]:
    """Figure 2 with a million records: 'auto', and the mixture of somebody who knows how many components there are."""

    def note(found: Measurements, repetition: int) -> None:
        original, perturbation, y = figure2.repetition_of(size, repetition)
        distribution = (
            Reconstruction(perturbation, "mixture", components=len(FIGURE_1.weights), atoms=()).fit(y).distribution_
        )
        for width in figure2.WIDTHS:
            edges = figure2.edges_of(width)
            found.note(width, l1_accuracy(distribution.histogram(edges), np.histogram(original, edges)[0] / size))

    found = measurements(tell, repetitions(f"limits, {size:,} records", repeats, partial(noted, note)))
    rows: list[Sequence[Cell]] = []
    for width in figure2.WIDTHS:
        problem, average = f"figure 2, {size:,} records, bins of {width:g}", simulated.at((size, width, "auto"))
        rows.append((problem, "four normal components, no atoms; our mixture", found.at(width), average))
        efficient = figure2.efficient_accuracy(size, width)
        rows.append((problem, "four normal components; efficient, unbiased", efficient, average))
    return rows


def census_rows(table_2: Measurements, column: table2.Column = table2.CAPITAL_GAIN) -> list[Sequence[Cell]]:
    """Capital gains: with both atoms known, and with the law known but for four parameters."""
    values = column.values()
    perturbation = table2.perturbation_of(column, len(values))
    rows: list[Sequence[Cell]] = []
    for bins, edges in column.bins.items():
        average = table_2.at((column.name, bins, "auto"))
        for part in _BLURS:
            accuracy = blurred_accuracy(values, edges, part * perturbation.noise_scale)
            knows = f"shares of zero and of the cap exactly, the rest blurred by {part:g} of the noise scale"
            rows.append((f"{column.name}, {bins}", knows, accuracy, average))
        accuracy, deviation = efficient_log_normal_accuracy(values, perturbation, edges)
        knows = f"that the rest is log-normal; efficient, unbiased (error of zero's share: {deviation:.0f} points)"
        rows.append((f"{column.name}, {bins}", knows, accuracy, average))
    return rows


def limits_table(tell: Tell, table_2: Measurements, simulated: Measurements, repeats: int) -> ResultTable:
    """What knowing more would be worth."""
    return ResultTable(
        "Limits: what somebody would reach who knows more",
        ("problem", "who knows", "accuracy", "auto, which does not"),
        [
            *known_family_rows(tell, simulated, figure2.repeats_at(SMALL, repeats)),
            *known_count_rows(tell, simulated, figure2.repeats_at(LARGE, repeats)),
            *census_rows(table_2),
        ],
        "L1 accuracy. Where 'auto' is at or above such a limit, a higher number would be luck, or a prior that happens to suit this column. "
        "Values of capital gains lie on a few single dollars, closer together than any noise lets through.",
    )
