"""Numbers of every repetition, by what was measured."""

from __future__ import annotations

from collections.abc import Hashable

from sudare.papers.study import Estimate


class Found:
    """Numbers under keys; a key that was noted once a repetition gives an estimate."""

    def __init__(self) -> None:
        self._values: dict[Hashable, list[float]] = {}

    def note(self, key: Hashable, value: float) -> None:
        """Keep a number of one repetition."""
        self._values.setdefault(key, []).append(value)

    def at(self, key: Hashable) -> Estimate:
        """Its mean and standard error."""
        return Estimate.of(self._values[key])

    def values(self, key: Hashable) -> list[float]:
        """The numbers themselves."""
        return self._values[key]

    def has(self, key: Hashable) -> bool:
        """Whether anything was noted."""
        return key in self._values

    @property
    def repeats(self) -> int:
        """The least number of repetitions of any key."""
        return min(len(values) for values in self._values.values())
