"""Numbers of every repetition, and whether their means reach what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sudare.papers.study import Estimate
from sudare.report.plots import Panel, Series, curves

Column = dict[float, list[float]]

NARROWLY: Final = "Narrowly: by less than two standard errors."


@dataclass
class Found:
    """Numbers of every repetition: single ones by name, and by name and ε."""

    single: dict[str, list[float]] = field(default_factory=dict)
    by_epsilon: dict[str, Column] = field(default_factory=dict)

    def note(self, name: str, value: float, epsilon: float | None = None) -> None:
        """Keep a number of one repetition."""
        if epsilon is None:
            self.single.setdefault(name, []).append(value)
        else:
            self.by_epsilon.setdefault(name, {}).setdefault(epsilon, []).append(value)

    def at(self, name: str, epsilon: float | None = None) -> Estimate:
        """Its mean over repetitions."""
        return Estimate.of(self.single[name] if epsilon is None else self.by_epsilon[name][epsilon])

    def smallest(self, name: str, epsilons: Sequence[float]) -> tuple[float, Estimate]:
        """The ε at which the mean is smallest, and that mean."""
        return min(((epsilon, self.at(name, epsilon)) for epsilon in epsilons), key=lambda found: found[1].value)

    def series(self, name: str, label: str, epsilons: Sequence[float]) -> Series:
        """A line of a plot."""
        points = [self.at(name, epsilon) for epsilon in epsilons]
        return Series(label, [point.value for point in points], [point.standard_error for point in points])

    def level(self, name: str, label: str, epsilons: Sequence[float]) -> Series:
        """A line that does not depend on ε."""
        value = self.at(name).value
        return Series(f"{label} ({value:.3f})", [value] * len(epsilons), dashed=True)

    @property
    def repeats(self) -> int:
        """How often the numbers were measured."""
        if self.single:
            return len(next(iter(self.single.values())))
        return len(next(iter(next(iter(self.by_epsilon.values())).values())))


# Whose numbers, under which name, and what the picture calls them.
Shown = tuple[Found, str, str]


def accuracies_panel(
    title: str, x_label: str, epsilons: Sequence[float], lines: Sequence[Shown], levels: Sequence[Shown]
) -> Panel:
    """Accuracy against ε, and levels that do not depend on it."""
    drawn = [found.series(name, label, epsilons) for found, name, label in lines]
    drawn += [found.level(name, label, epsilons) for found, name, label in levels]
    return curves(epsilons, drawn, x_label=x_label, y_label="accuracy", title=title)


def verdict(reached: Estimate, least: float) -> str:
    """Whether the mean is at least what was asked for; narrowly if its standard error leaves that open."""
    word = "reached" if reached.value >= least else "missed"
    return f"{word} narrowly" if abs(reached.value - least) < 2 * reached.standard_error else word
