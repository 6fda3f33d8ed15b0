"""Sixteen simulated columns unlike those of the paper: changes to the average are tried on such ones first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.papers.p004_reconstruction.printed_values import l1_accuracy
from sudare.papers.p004_reconstruction.table2 import METHODS
from sudare.papers.repetitions import Measurements, measurements, noted, repetitions
from sudare.papers.study import Cell, Estimate, ResultTable, Tell
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.reconstruction.number_reconstruction import each_method

Draw = Callable[[np.random.Generator, int], Floats]

SEED: Final = 20240404
SIZES: Final = (1_000, 10_000)
_BINS: Final = 12
_REPEATS_IN_ONE: Final = 3
_LEAST_REPEATS: Final = 2
_TINY: Final = 1e-9
# Points of L1 accuracy.
_CLEARLY: Final = 5.0


def normal_mixture(weights: Sequence[float], means: Sequence[float], scales: Sequence[float]) -> Draw:
    """Of records from normal components."""

    def draw(generator: np.random.Generator, size: int) -> Floats:
        component = generator.choice(len(weights), size, p=weights)
        return np.asarray(means)[component] + np.asarray(scales)[component] * generator.standard_normal(size)

    return draw


def any_mixture(generator: np.random.Generator, size: int) -> Floats:
    """One to six normal components, drawn anew."""
    count = int(generator.integers(1, 7))
    weights, means = generator.dirichlet(np.full(count, 1.5)), generator.uniform(0.05, 0.95, count)
    scales = 0.01 * 15 ** generator.random(count)
    return normal_mixture(weights.tolist(), means.tolist(), scales.tolist())(generator, size)


def two_blocks(generator: np.random.Generator, size: int) -> Floats:
    """Uniform in two places, with a gap between them."""
    first = generator.random(size) < 0.6
    return np.where(first, generator.uniform(0.05, 0.35, size), generator.uniform(0.7, 0.85, size))


def steps(generator: np.random.Generator, size: int) -> Floats:
    """Six equal steps of very different heights."""
    heights = np.array([1, 4, 2, 0.2, 3, 1])
    return np.asarray((generator.choice(6, size, p=heights / heights.sum()) + generator.random(size)) / 6)


def mostly_zero(zeros: float, capped: float, rest: Draw) -> Draw:
    """Zero or the upper bound with these probabilities, else as given."""

    def draw(generator: np.random.Generator, size: int) -> Floats:
        place = generator.random(size)
        return np.where(place < zeros, 0.0, np.where(place < zeros + capped, 1.0, rest(generator, size)))

    return draw


def few_values(generator: np.random.Generator, size: int) -> Floats:
    """Fifteen values with log-normal places, drawn anew."""
    places = np.clip(generator.lognormal(np.log(0.1), 0.7, 15), 0.005, 0.95)
    return np.asarray(generator.choice(places, size, p=generator.dirichlet(np.full(15, 0.7))))


COLUMNS: Final[dict[str, Draw]] = {
    "uniform": lambda generator, size: generator.random(size),
    "normal": normal_mixture([1], [0.5], [0.15]),
    "narrow normal": normal_mixture([1], [0.62], [0.04]),
    "beta, skewed": lambda generator, size: generator.beta(2, 6, size),
    "exponential": lambda generator, size: np.minimum(generator.exponential(0.15, size), 0.999),
    "two equal peaks": normal_mixture([0.5, 0.5], [0.3, 0.7], [0.08, 0.08]),
    "two unequal peaks": normal_mixture([0.75, 0.25], [0.35, 0.8], [0.12, 0.03]),
    "peak on a hill": normal_mixture([0.6, 0.4], [0.5, 0.5], [0.18, 0.02]),
    "claw": normal_mixture([0.5, *[0.1] * 5], [0.5, 0.2, 0.35, 0.5, 0.65, 0.8], [0.18, *[0.02] * 5]),
    "Student, heavy tails": lambda generator, size: 0.45 + 0.06 * generator.standard_t(2.5, size),
    "any mixture": any_mixture,
    "two blocks": two_blocks,
    "steps": steps,
    "88% zero, log-normal, cap": mostly_zero(
        0.88, 0.01, lambda g, size: np.clip(g.lognormal(-2.8, 0.8, size), 0.002, 0.9)
    ),
    "80% zero, gamma": mostly_zero(0.8, 0.0, lambda g, size: np.clip(g.gamma(3, 0.08, size), 0.004, 1)),
    "90% zero, few values, cap": mostly_zero(0.9, 0.005, few_values),
}


def edges_of(name: str) -> Floats:
    """Twelve equal bins; zero alone where most values are."""
    edges = np.linspace(0, 1, _BINS + 1)
    return np.concatenate(([-_TINY, _TINY], edges[1:])) if "zero" in name else edges


def measured(
    tell: Tell, repeats: int, names: Sequence[str] = tuple(COLUMNS), sizes: Sequence[int] = SIZES
) -> Measurements:
    """Accuracy of every method, noise for k = 2; a third of the repetitions."""

    def note(found: Measurements, place: int, size: int, repetition: int) -> None:
        name = names[place]
        perturbation = LaplacePerturbation((0, 1), k=2, n_records=size)
        generator = np.random.default_rng((SEED, place, size, repetition))
        original = np.clip(COLUMNS[name](generator, size), 0, 1)
        y = perturbation.perturb(original, random_state=SEED + repetition)
        truth = np.histogram(original, edges_of(name))[0] / size
        for method, distribution in each_method(perturbation, y, with_auto=True).items():
            found.note((name, size, method), l1_accuracy(distribution.histogram(edges_of(name)), truth))

    return measurements(
        tell,
        (
            call
            for place, name in enumerate(names)
            for size in sizes
            for call in repetitions(
                f"other columns, {name}, {size:,} records",
                max(_LEAST_REPEATS, repeats // _REPEATS_IN_ONE),
                partial(noted, note, place, size),
            )
        ),
    )


def accuracy_table(
    found: Measurements, names: Sequence[str] = tuple(COLUMNS), sizes: Sequence[int] = SIZES
) -> ResultTable:
    """A row for each column, then the mean of all, then how much 'auto' is better than each method on the same records."""
    keys = [(size, method) for size in sizes for method in METHODS]
    rows: list[Sequence[Cell]] = [(name, *(found.at((name, *key)) for key in keys)) for name in names]
    means = {key: np.mean([found.values((name, *key)) for name in names], axis=0) for key in keys}
    rows.append(("all", *(Estimate.of(means[key]) for key in keys)))
    rows.append(("auto less this", *(Estimate.of(means[key[0], "auto"] - means[key]) for key in keys)))
    return ResultTable(
        f"Other columns: L1 accuracy in {_BINS} bins, Laplace noise for k = 2",
        ("column", *(f"{size:,}, {method}" for size, method in keys)),
        rows,
        "Simulated columns on [0, 1]; 'any mixture' and 'few values' are drawn anew in every repetition, the noise always. Zero has a bin of its own where it has "
        f"most records. Nothing is declared. ± one standard error over {found.repeats} repetitions. Changes to the average are tried "
        f"on columns of these kinds first. {behind_text(found, names, sizes)}",
    )


def behind_text(found: Measurements, names: Sequence[str], sizes: Sequence[int]) -> str:
    """Where 'auto' is clearly behind the average by evidence, which was the default before it, in words."""
    places = [
        f"{name} ({size:,} records)"
        for size in sizes
        for name in names
        if found.at((name, size, "auto")).value < found.at((name, size, "evidence")).value - _CLEARLY
    ]
    return f"'auto' is more than {_CLEARLY:g} points behind 'evidence' at: {'; '.join(places) or 'no column'}."
