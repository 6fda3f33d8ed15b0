"""Numbers of every repetition of a study, and their means with standard errors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sudare.papers.study import Cell, Estimate, Tell
from sudare.report.plots import Panel, Series, curves


@dataclass
class Measurements:
    """One number for each repetition, under the name of what was measured, and ε where it depends on it."""

    numbers: dict[Hashable, list[float]] = field(default_factory=dict)

    def note(self, name: Hashable, value: float, epsilon: float | None = None) -> None:
        """Keep a number of one repetition."""
        self.numbers.setdefault(_key(name, epsilon), []).append(value)

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


def repetitions(tell: Tell, title: str, count: int) -> Iterator[int]:
    """0, 1, … count − 1; each is told before it begins."""
    for number in range(count):
        tell(f"{title}, repetition {number + 1} of {count}")
        yield number


def repeated(
    tell: Tell, title: str, count: int, seed: int, note: Callable[[Measurements, np.random.Generator], None]
) -> Measurements:
    """Numbers of so many repetitions, each with a generator of its own."""
    found = Measurements()
    for number in repetitions(tell, title, count):
        note(found, np.random.default_rng((seed, number)))
    return found


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
