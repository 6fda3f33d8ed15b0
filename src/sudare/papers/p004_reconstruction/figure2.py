"""Figure 2 of paper 004: the mixture of figure 1 at four sizes, and what no method can exceed."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.papers.p004_reconstruction.algorithm1 import (
    FIGURE_1,
    FIGURE_2_NOISE,
    algorithm_1,
    iterative_technique,
    l1_accuracy,
    mixture_histogram,
)
from sudare.papers.repetitions import Measurements, estimated_series, repetitions
from sudare.papers.study import ResultTable, Tell
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.reconstruction.binning import bin_edges, cell_count, continuous_states
from sudare.reconstruction.estimators import Reconstruction, each_method
from sudare.reconstruction.normal_mixture import cell_masses
from sudare.reconstruction.plots import histogram_panel
from sudare.report.plots import Panel, Series, curves

Floats = NDArray[np.float64]

SEED: Final = 20240402
BOUNDS: Final = (-2.5, 9.5)
WIDTHS: Final = (1.0, 0.5, 0.1)
PAPER_RATE: Final = 1e-3
PAPER_COMPONENTS: Final = (2, 3, 4, 5, 6)
METHODS: Final = ("auto", "smooth", "mixture", "bayes")
_TIMED: Final = 3
MORE_REPEATS: Final = {1_000: 10, 10_000: 4}
"""Small samples are repeated this many times as often: their accuracy varies most, and they cost least."""


def original_records(size: int, generator: np.random.Generator) -> Floats:
    """A sample of the mixture of figure 1."""
    component = generator.choice(len(FIGURE_1.weights), size, p=FIGURE_1.weights)
    return FIGURE_1.means[component] + FIGURE_1.scales[component] * generator.standard_normal(size)


def perturbation_of(size: int) -> LaplacePerturbation:
    """The printed noise scale with fixed bounds; the paper took the range from its data."""
    low, high = BOUNDS
    return LaplacePerturbation(BOUNDS, epsilon=(high - low) / FIGURE_2_NOISE[size])


def edges_of(width: float) -> Floats:
    """Bins from −3 to 10; those of width one begin at whole numbers, so that every component is cut in two."""
    return np.linspace(-3, 10, round(13 / width) + 1)


def repeats_at(size: int, repeats: int) -> int:
    """How often a size is repeated."""
    return repeats * MORE_REPEATS.get(size, 1)


def measured(tell: Tell, repeats: int, sizes: Sequence[int] = tuple(FIGURE_2_NOISE)) -> Measurements:
    """Accuracy of every method at every size and width."""
    found = Measurements()
    for size in sizes:
        for repetition in repetitions(tell, f"figure 2, {size:,} records", repeats_at(size, repeats)):
            note_size(found, size, repetition)
            if repetition < repeats:
                note_algorithm_1(found, size, repetition)
    return found


def note_size(found: Measurements, size: int, repetition: int) -> None:
    """One repetition: a new sample, new noise."""
    original, perturbation, y = repetition_of(size, repetition)
    truth = {width: np.histogram(original, edges_of(width))[0] / size for width in WIDTHS}
    for method, distribution in each_method(perturbation, y).items():
        for width in WIDTHS:
            found.note((size, width, method), l1_accuracy(distribution.histogram(edges_of(width)), truth[width]))
    for width in WIDTHS:
        technique = iterative_technique(perturbation, y, edges_of(width))
        found.note((size, width, "technique"), l1_accuracy(technique, truth[width]))


def note_algorithm_1(found: Measurements, size: int, repetition: int) -> None:
    """The paper's method on the same records and noise."""
    original, perturbation, y = repetition_of(size, repetition)
    generator = np.random.default_rng((SEED, size, repetition, 1))
    for count in PAPER_COMPONENTS:
        parameters, _ = algorithm_1(y, perturbation.noise_scale, count, PAPER_RATE, generator)
        for width in WIDTHS:
            truth = np.histogram(original, edges_of(width))[0] / size
            found.note((size, width, count), l1_accuracy(mixture_histogram(parameters, edges_of(width)), truth))


def repetition_of(size: int, repetition: int) -> tuple[Floats, LaplacePerturbation, Floats]:
    """Records, perturbation and perturbed records of a repetition."""
    original = original_records(size, np.random.default_rng((SEED, size, repetition)))
    perturbation = perturbation_of(size)
    return original, perturbation, perturbation.perturb(original, random_state=SEED + 1000 * repetition)


def accuracy_table(found: Measurements, width: float, sizes: Sequence[int] = tuple(FIGURE_2_NOISE)) -> ResultTable:
    """All methods at one width of bins."""
    rows = []
    for size in sizes:
        printed = max((found.at((size, width, count)) for count in PAPER_COMPONENTS), key=lambda cell: cell.value)
        cells = [found.at((size, width, name)) for name in ("technique", *METHODS)]
        limit = efficient_accuracy(size, width)
        rows.append((size, cells[0], printed, *cells[1:], limit))
    return ResultTable(
        f"Figure 2: L1 accuracy in bins of {width:g}",
        (
            "records",
            "iterative technique",
            "Algorithm 1, best K",
            *METHODS,
            "efficient, unbiased",
        ),
        rows,
        "Noise scales as printed (3.18, 2.45, 2.03, 1.75). ± one standard error; samples and noise are drawn anew in every repetition "
        f"({found.repeats} or more; Algorithm 1 in the first of them). Algorithm 1 is given the best of K = 2 … 6 after the fact. The last column is what an unbiased estimator would "
        "reach that knows there are four normal components and uses every bit of the data (Cramér–Rao); where it is low, only methods that assume "
        "something, as all of ours do, do better.",
    )


def efficient_accuracy(size: int, width: float) -> float | None:
    """Expected L1 accuracy, against the law, at the Cramér–Rao bound of the four-component mixture; None where it is below zero.

    The errors of the bins are normal with covariance G·I⁻¹·Gᵀ, and E|error| = sd·√(2/π).
    """
    perturbation = perturbation_of(size)
    cells = 2 * cell_count(perturbation)
    states = continuous_states(perturbation, bin_edges(perturbation, cells), cells, np.empty(0))
    span = BOUNDS[1] - BOUNDS[0]
    masses, by_mean, by_scale = cell_masses(states.edges, FIGURE_1.means, FIGURE_1.scales)
    free = np.hstack([masses[:, :-1] - masses[:, -1:], by_mean * FIGURE_1.weights * span, by_scale * FIGURE_1.weights])
    slopes = states.channel @ free
    expected = states.channel @ (masses @ FIGURE_1.weights)
    information = size * (slopes.T / expected) @ slopes
    bins = np.array([np.histogram(states.centres, edges_of(width), weights=column)[0] for column in free.T]).T
    covariance = bins @ np.linalg.solve(information, bins.T)
    deviations = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    accuracy = 100 * (1 - 0.5 * math.sqrt(2 / math.pi) * float(deviations.sum()))
    return accuracy if accuracy > 0 else None


def figure_2_panel(found: Measurements, sizes: Sequence[int] = tuple(FIGURE_2_NOISE)) -> Panel:
    """Accuracy against the number of records, in bins of one."""

    def series(name: str | int, label: str) -> Series:
        return estimated_series(label, [found.at((size, 1.0, name)) for size in sizes])

    return curves(
        [math.log10(size) for size in sizes],
        [
            series("auto", "auto"),
            series("mixture", "mixture"),
            series("smooth", "smooth"),
            series("technique", "iterative technique"),
            series(4, "Algorithm 1, K = 4"),
        ],
        x_label="records, powers of ten",
        y_label="L1 accuracy",
        title="Figure 2: bins of one",
    )


def picture(size: int = 100_000) -> Panel:
    """Figure 1's mixture, perturbed and reconstructed."""
    original = original_records(size, np.random.default_rng(SEED))
    y = perturbation_of(size).perturb(original, random_state=SEED)
    return histogram_panel(
        Reconstruction(perturbation_of(size)).fit(y).distribution_,
        edges_of(0.5),
        original=original,
        perturbed=y,
        x_label="x",
        title=f"Figure 1: {size:,} records",
    )


def speed_table(tell: Tell, size: int = 1_000_000) -> ResultTable:
    """Processor time and memory of a reconstruction."""
    original = original_records(size, np.random.default_rng(SEED))
    perturbation = perturbation_of(size)
    y = perturbation.perturb(original, random_state=SEED)
    jobs: dict[str, Callable[[], object]] = {
        "auto": lambda: Reconstruction(perturbation).fit(y),
        "mixture, 4 components": lambda: Reconstruction(perturbation, "mixture", components=4).fit(y),
        "smooth": lambda: Reconstruction(perturbation, "smooth").fit(y),
        "bayes": lambda: Reconstruction(perturbation, "bayes").fit(y),
    }
    rows = []
    for name, job in jobs.items():
        tell(f"speed of {name}")
        seconds = [_processor_seconds(job) for _ in range(_TIMED)]
        tracemalloc.start()
        job()
        megabytes = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        rows.append((name, min(seconds), megabytes))
    return ResultTable(
        f"One column of {size:,} records",
        ("method", "seconds of one processor", "megabytes beyond the data"),
        rows,
        f"The least of {_TIMED} runs; set OMP_NUM_THREADS=1 to have one thread. Time hardly depends on the number of records: they are counted "
        "in bins first.",
    )


def _processor_seconds(job: Callable[[], object]) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start
