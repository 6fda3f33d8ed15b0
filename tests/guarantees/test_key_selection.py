"""proofs/key_selection.md, executed: exact probabilities of every set of keys between all neighbours of small tables, and planted bugs that are found."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest

from sudare.statistics.key_selection import KeySelection

KEYS = 3
Table = tuple[int, ...]


def passes(count: int, selection: KeySelection) -> float:
    """The chance that a key with so many rows is selected; a key without rows never is."""
    if count == 0:
        return 0.0
    scale, missing = selection.noise.scale_in_steps, selection.threshold - count
    ratio = math.exp(-1 / scale)
    return ratio**missing / (1 + ratio) if missing > 0 else 1 - ratio ** (1 - missing) / (1 + ratio)


def law(table: Table, selection: KeySelection) -> dict[tuple[bool, ...], float]:
    chances = [passes(count, selection) for count in table]
    return {
        found: math.prod(chance if up else 1 - chance for chance, up in zip(chances, found, strict=True))
        for found in itertools.product((False, True), repeat=len(table))
    }


def moved(table: Table, rows: int, sign: int) -> Iterator[Table]:
    for places in itertools.combinations_with_replacement(range(len(table)), rows):
        changed = tuple(count + sign * places.count(key) for key, count in enumerate(table))
        if min(changed) >= 0:
            yield changed


def neighbours_of(table: Table, selection: KeySelection) -> Iterator[Table]:
    rows = range(1, selection.unit_rows + 1)
    fewer = {less for number in rows for less in moved(table, number, -1)}
    if selection.neighbours == "add-remove":
        yield from fewer
        yield from {more for number in rows for more in moved(table, number, +1)}
        return
    for number in rows:
        for less in moved(table, number, -1):
            yield from moved(less, number, +1)


def largest_delta(selection: KeySelection) -> float:
    """The least δ with which the selection is (ε, δ)-DP between all neighbours of tables of few and of about as many rows as the threshold."""
    around = selection.threshold
    tables = [*itertools.product((0, 1, 2), repeat=KEYS), (around - 1, 1, 0), (around, 0, 2), (around + 2, 2, 1)]
    worst = 0.0
    for table in tables:
        mine = law(table, selection)
        for other in set(neighbours_of(table, selection)):
            theirs = law(other, selection)
            grown = math.exp(selection.epsilon)
            worst = max(worst, sum(max(theirs[found] - grown * mine[found], 0.0) for found in mine))
    return worst


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-3), (3.0, 1e-2), (0.01, 0.2)])
def test_delta_covers_all_keys_that_one_unit_alone_has(neighbours, rows, epsilon, delta) -> None:
    selection = KeySelection(epsilon, delta, neighbours, rows)
    found = largest_delta(selection)
    assert found <= delta
    if delta <= 1e-3 and rows == 1:
        # Nothing is given away but what whole thresholds take.
        assert found >= delta / 10


class ForgetsRowsOfAUnit(KeySelection):
    """Planted bug: the threshold of one row a unit."""

    @property
    def threshold(self) -> int:  # type: ignore[override]
        scale = self.noise.scale_in_steps
        return math.ceil(scale * (1 / scale - math.log(self.delta) - math.log1p(math.exp(-1 / scale))))


class SelectsWhatNobodyHides(KeySelection):
    """Planted bug: every key with more rows than one unit can have, without regard to noise."""

    @property
    def threshold(self) -> int:  # type: ignore[override]
        return self.unit_rows + 1


@pytest.mark.parametrize("planted", [ForgetsRowsOfAUnit, SelectsWhatNobodyHides])
def test_planted_bugs_are_found(planted) -> None:
    assert largest_delta(planted(1.0, 1e-6, "replace-one", 3)) > 1.5e-6
