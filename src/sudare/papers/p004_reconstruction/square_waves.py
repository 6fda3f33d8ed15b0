"""Square Wave with EMS (Li et al. 2020) beside Laplace noise with ours, at equal local ε.

EMS is the estimator that Square Wave came with: expectation maximisation on fine cells, and after each step every cell gets the mean of
itself (twice) and its neighbours; it ends when the likelihood rests. It is here as they describe it. The product reconstructs Square
Wave by `Reconstruction`, as it does every number perturbation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.papers.p004_reconstruction import figure2, table2
from sudare.papers.p004_reconstruction.printed_values import l1_accuracy
from sudare.papers.repetitions import Measurements, estimated_series, measurements, noted, repetitions
from sudare.papers.study import Cell, ResultTable, Tell
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.perturbation.number_channels import Bounds, NumberPerturbation
from sudare.perturbation.square_wave import SquareWave
from sudare.reconstruction.binning import bin_edges, continuous_states, counted
from sudare.reconstruction.channels import ProductChannel
from sudare.reconstruction.iterative_bayes import expectation_maximisation
from sudare.reconstruction.number_reconstruction import Reconstruction
from sudare.report.plots import Panel, Series, curves

SEED: Final = 20240404
EPSILONS: Final = (0.5, 1.0, 4.0)
SIMULATED_RECORDS: Final = 100_000
WAYS: Final = ("wave, EMS", "wave, auto", "Laplace, auto")

_CELLS: Final = 256
_GAIN_AT_REST: Final = 1e-3
_MOST_STEPS: Final = 10_000


@dataclass(frozen=True, eq=False)
class Trial:
    """A column with its bounds, and the bins of the comparison."""

    name: str
    bounds: Bounds
    edges: Floats
    records: Callable[[np.random.Generator], Floats]


def trials() -> list[Trial]:
    """Ages and capital gains of Adult, and the mixture of figure 1."""
    age, gain = table2.AGE, table2.CAPITAL_GAIN
    return [
        Trial("Adult, age", age.bounds, age.bins["one year"], lambda generator: age.values()),
        Trial(
            "Adult, capital-gain", gain.bounds, gain.bins["zero, then 5,000 dollars"], lambda generator: gain.values()
        ),
        Trial(
            f"mixture of figure 1, {SIMULATED_RECORDS:,}",
            figure2.BOUNDS,
            figure2.edges_of(1.0),
            lambda generator: figure2.original_records(SIMULATED_RECORDS, generator),
        ),
    ]


def smoothed(shares: Floats) -> Floats:
    """Each cell the mean of itself, twice, and its neighbours; at the ends of itself, twice, and one."""
    padded = np.concatenate(([0.0], shares, [0.0]))
    sums = padded[:-2] + 2 * shares + padded[2:]
    weights = np.full(len(shares), 4.0)
    weights[[0, -1]] = 3.0
    means = sums / weights
    return np.asarray(means / means.sum())


def smoothed_expectation_maximisation(perturbation: NumberPerturbation, y: Floats) -> tuple[Floats, Floats]:
    """EMS: edges of the cells, and the share of records in each."""
    counts = counted(perturbation, y, _CELLS)
    states = continuous_states(perturbation, bin_edges(perturbation, _CELLS), _CELLS, np.empty(0))
    channel, frequencies = ProductChannel([states.channel]), counts.counts / counts.records
    shares, before = np.full(states.cells, 1 / states.cells), -np.inf
    for _ in range(_MOST_STEPS):
        shares = smoothed(expectation_maximisation(shares, channel, frequencies, 1))
        now = float(counts.counts @ np.log(np.maximum(states.channel @ shares, 1e-300)))
        if abs(now - before) < _GAIN_AT_REST:
            break
        before = now
    return states.edges, shares


def histogram_of(cells: Floats, shares: Floats, edges: Floats) -> Floats:
    """Shares in other bins, values being spread evenly within a cell; what lies outside counts into the first and the last."""
    below = np.interp(edges, cells, np.concatenate(([0.0], np.cumsum(shares))))
    below[0], below[-1] = 0.0, 1.0
    return np.diff(below)


def measured(
    tell: Tell, repeats: int, chosen: Sequence[Trial] | None = None, epsilons: Sequence[float] = EPSILONS
) -> Measurements:
    """Accuracy of the three ways for every column and ε."""
    return measurements(
        tell,
        (
            call
            for trial in (trials() if chosen is None else chosen)
            for epsilon in epsilons
            for call in repetitions(
                f"square wave, {trial.name}, ε = {epsilon:g}", repeats, partial(noted, note_trial, trial, epsilon)
            )
        ),
    )


def note_trial(found: Measurements, trial: Trial, epsilon: float, repetition: int) -> None:
    """One repetition: both kinds of noise on the same records."""
    original = trial.records(np.random.default_rng((SEED, repetition)))
    truth = np.histogram(original, trial.edges)[0] / len(original)
    wave, laplace = SquareWave(trial.bounds, epsilon=epsilon), LaplacePerturbation(trial.bounds, epsilon=epsilon)
    waves = wave.perturb(original, random_state=SEED + repetition)
    noisy = laplace.perturb(original, random_state=SEED + repetition)
    histograms = {
        "wave, EMS": histogram_of(*smoothed_expectation_maximisation(wave, waves), trial.edges),
        "wave, auto": Reconstruction(wave).fit(waves).distribution_.histogram(trial.edges),
        "Laplace, auto": Reconstruction(laplace).fit(noisy).distribution_.histogram(trial.edges),
    }
    for way, histogram in histograms.items():
        found.note((trial.name, epsilon, way), l1_accuracy(histogram, truth))


def accuracy_table(
    found: Measurements, chosen: Sequence[Trial] | None = None, epsilons: Sequence[float] = EPSILONS
) -> ResultTable:
    """The three ways beside each other."""
    rows: list[Sequence[Cell]] = [
        (trial.name, epsilon, *(found.at((trial.name, epsilon, way)) for way in WAYS))
        for trial in (trials() if chosen is None else chosen)
        for epsilon in epsilons
    ]
    return ResultTable(
        "Square Wave and Laplace noise at equal local ε: L1 accuracy",
        ("column", "ε", "Square Wave, EMS", "Square Wave, auto", "Laplace, auto"),
        rows,
        f"The same records for all, ± one standard error over {found.repeats} draws of the noise. EMS as Li et al. (2020) describe it, on {_CELLS} cells; 'auto' is "
        "our average by held-out likelihood. Bins as in table 2 and figure 2; nothing is declared but bounds. EMS knows no atoms: of the zeros among capital gains, which have a bin of their "
        "own, it spreads what it finds over a cell of 391 dollars.",
    )


def panel(found: Measurements, trial: Trial, epsilons: Sequence[float] = EPSILONS) -> Panel:
    """Accuracy against ε for one column."""

    def series(way: str, label: str) -> Series:
        return estimated_series(label, [found.at((trial.name, epsilon, way)) for epsilon in epsilons])

    labels = ("Square Wave, EMS", "Square Wave, auto", "Laplace, auto")
    return curves(
        epsilons,
        [series(way, label) for way, label in zip(WAYS, labels, strict=True)],
        x_label="local ε",
        y_label="L1 accuracy",
        title=f"{trial.name}: noise and estimator at equal ε",
        logarithmic_x=True,
    )
