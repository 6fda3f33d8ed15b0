"""proofs/key_selection.md, executed: exact probabilities of every set of keys between all neighbours of small tables, and planted bugs that are found."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from sudare.statistics.joint_quantiles import JointQuantiles
from sudare.statistics.key_selection import KeySelection
from tests.guarantees.test_quantiles import permute_and_flip_law

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


# Keys, then a median of each group that was found and of all other rows: counts of two cells for each of two keys.

Cells = tuple[tuple[int, int], ...]
Shown = Callable[[Cells, tuple[bool, ...]], list[np.ndarray]]


def groups_of(table: Cells, found: tuple[bool, ...]) -> list[np.ndarray]:
    """The counts of each key that was found, and of all other rows together."""
    kept = [np.array(counts) for counts, up in zip(table, found, strict=True) if up]
    others = [counts for counts, up in zip(table, found, strict=True) if not up]
    return [*kept, np.array(others, dtype=np.int64).reshape(-1, 2).sum(axis=0)]


def groups_that_occur(table: Cells, found: tuple[bool, ...]) -> list[np.ndarray]:
    """Planted bug: medians of all keys that rows have, whether they were found or not."""
    return [np.array(counts) for counts in table if sum(counts)]


def law_with_medians(
    table: Cells, selection: KeySelection, medians: JointQuantiles, shown: Shown
) -> dict[tuple[object, ...], float]:
    """The chance of every set of keys with every choice of cells."""
    chances: dict[tuple[object, ...], float] = {}
    for found, chance in law(tuple(map(sum, table)), selection).items():
        laws = []
        for counts in shown(table, found):
            choices, rate = medians.first_draw([counts], ())
            laws.append(permute_and_flip_law([choice.errors() for choice in choices], rate))
        for cells in itertools.product(*laws):
            chances[(found, cells)] = chance * math.prod(one[cell] for one, cell in zip(laws, cells, strict=True))
    return chances


def delta_of_both(selection: KeySelection, medians: JointQuantiles, shown: Shown = groups_of) -> float:
    """The least δ with which keys and medians together are (ε, δ)-DP, ε the sum of both, between all neighbours of some tables."""
    near = selection.threshold // 2
    worst = 0.0
    for table in (((1, 0), (0, 0)), ((0, 1), (3, 2)), ((near, near + 1), (1, 0)), ((near + 2, near), (near, near + 3))):
        mine = law_with_medians(table, selection, medians, shown)
        flat = tuple(itertools.chain.from_iterable(table))
        for other in set(neighbours_of(flat, selection)):
            theirs = law_with_medians((other[:2], other[2:]), selection, medians, shown)
            grown = math.exp(selection.epsilon + medians.epsilon)
            worst = max(worst, sum(max(theirs[seen] - grown * mine.get(seen, 0.0), 0.0) for seen in theirs))
    return worst


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("rows", [1, 2])
def test_medians_of_found_keys_and_of_the_others_cost_their_own_epsilon_beside(neighbours, rows) -> None:
    selection = KeySelection(0.5, 1e-4, neighbours, rows)
    medians = JointQuantiles((0.5,), 1, 1.5, neighbours, rows, grouped=True)
    assert delta_of_both(selection, medians) <= 1e-4


class PaysForOneGroup(JointQuantiles):
    """Planted bug: a replaced row is taken to change the median of one group only, and errors to move by less than they do."""

    def rate(self, share):  # type: ignore[no-untyped-def]
        return 4 * super().rate(share)


@pytest.mark.parametrize(("kind", "shown"), [(PaysForOneGroup, groups_of), (JointQuantiles, groups_that_occur)])
def test_planted_bugs_of_medians_by_key_are_found(kind, shown) -> None:
    selection = KeySelection(0.5, 1e-4, "replace-one", 1)
    assert delta_of_both(selection, kind((0.5,), 1, 1.5, "replace-one", 1, grouped=True), shown) > 2e-4
