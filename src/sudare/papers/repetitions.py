"""Repetitions of a study, in one process or several, their numbers, and means with standard errors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed

from sudare.papers.study import Cell, Estimate, Tell
from sudare.report.plots import Panel, Series, curves

Result = TypeVar("Result")


@dataclass
class Measurements:
    """One number for each repetition, under the name of what was measured, and ε where it depends on it."""

    numbers: dict[Hashable, list[float]] = field(default_factory=dict)

    def note(self, name: Hashable, value: float, epsilon: float | None = None) -> None:
        """Keep a number of one repetition."""
        self.numbers.setdefault(_key(name, epsilon), []).append(value)

    def extend(self, other: Measurements) -> None:
        """Keep the numbers of later repetitions, too."""
        for key, values in other.numbers.items():
            self.numbers.setdefault(key, []).extend(values)

    def values(self, name: Hashable, epsilon: float | None = None) -> list[float]:
        """The numbers themselves; none if nothing was noted."""
        return self.numbers.get(_key(name, epsilon), [])

    def at(self, name: Hashable, epsilon: float | None = None) -> Estimate:
        """Their mean and its standard error."""
        return Estimate.of(self.values(name, epsilon))

    @property
    def repeats(self) -> int:
        """The least number of repetitions of anything."""
        return min(map(len, self.numbers.values()))

    def rows(self, names: Sequence[Hashable], epsilons: Sequence[float]) -> list[tuple[Cell, ...]]:
        """Rows of a table: ε, and the estimate of everything named at it."""
        return [(epsilon, *(self.at(name, epsilon) for name in names)) for epsilon in epsilons]

    def series(self, name: Hashable, label: str, epsilons: Sequence[float]) -> Series:
        """A line of a plot against ε, with standard errors."""
        return estimated_series(label, [self.at(name, epsilon) for epsilon in epsilons])


def _key(name: Hashable, epsilon: float | None) -> Hashable:
    return name if epsilon is None else (name, epsilon)


def repetitions(title: str, count: int, result: Callable[[int], Result]) -> Iterable[tuple[str, Callable[[], Result]]]:
    """result(0), … result(count − 1) as calls with titles."""
    for number in range(count):
        yield f"{title}, repetition {number + 1} of {count}", partial(result, number)


def results(tell: Tell, calls: Iterable[tuple[str, Callable[[], Result]]]) -> list[Result]:
    """What the calls return, in their order; titles are told as they end, or begin where there is one process.

    Runs in as many processes as `joblib.parallel_config` says (`sudare study --jobs`), else in this one. Calls draw from
    generators of their own, so that the numbers are the same.
    """
    titled = list(calls)
    parallel = Parallel(return_as="generator")
    if parallel.n_jobs == 1:
        return [_told(tell, title, call) for title, call in titled]
    found = []
    for (title, _), result in zip(titled, parallel(delayed(call)() for _, call in titled), strict=True):
        tell(title)
        found.append(result)
    return found


def _told(tell: Tell, title: str, call: Callable[[], Result]) -> Result:
    tell(title)
    return call()


def repeated_results(tell: Tell, title: str, count: int, result: Callable[[int], Result]) -> list[Result]:
    """result(0), … result(count − 1)."""
    return results(tell, repetitions(title, count, result))


def noted(note: Callable[..., None], *arguments: Any) -> Measurements:
    """The numbers that `note`, called with new measurements and the arguments, keeps."""
    found = Measurements()
    note(found, *arguments)
    return found


def measurements(tell: Tell, notes: Iterable[tuple[str, Callable[[], Measurements]]]) -> Measurements:
    """The numbers that all calls return, in their order."""
    found = Measurements()
    for part in results(tell, notes):
        found.extend(part)
    return found


def repeated(
    tell: Tell, title: str, count: int, seed: int, note: Callable[[Measurements, np.random.Generator], None]
) -> Measurements:
    """Numbers of so many repetitions, each with a generator of its own."""

    def repetition(number: int) -> Measurements:
        return noted(note, np.random.default_rng((seed, number)))

    return measurements(tell, repetitions(title, count, repetition))


def estimated_series(label: str, estimates: Sequence[Estimate]) -> Series:
    """A line of a plot, with standard errors."""
    return Series(label, [each.value for each in estimates], [each.standard_error for each in estimates])


# Whose numbers, under which name, and what the picture calls them.
Shown = tuple[Measurements, str, str]


def accuracies_panel(
    title: str, x_label: str, epsilons: Sequence[float], lines: Sequence[Shown], levels: Sequence[Shown]
) -> Panel:
    """Accuracy against ε, and dashed levels that do not depend on it."""
    drawn = [found.series(name, label, epsilons) for found, name, label in lines]
    for found, name, label in levels:
        level = found.at(name).value
        drawn.append(Series(f"{label} ({level:.3f})", [level] * len(epsilons), dashed=True))
    return curves(epsilons, drawn, x_label=x_label, y_label="accuracy", title=title)
