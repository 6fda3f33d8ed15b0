"""proofs/quantiles.md, executed: over all neighbours of small tables no choice of cells is more than e^ε times as likely, and planted bugs are found.

Probabilities are computed by listing all choices, so nothing here can raise a false alarm; that draws follow them is tested in tests/statistics.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest

from sudare.statistics.joint_quantiles import Choice, JointQuantiles

Law = dict[tuple[int, ...], float]
Chosen = Callable[[list[np.ndarray], float], Law]
Draw = tuple[list[Choice], float]
TABLES = [
    *((0, 0, 0), (3, 0, 1), (1, 4, 0), (0, 2, 2), (5, 0, 0), (0, 0, 30), (30, 0, 1)),
    *((1, 8, 30), (8, 1, 30), (3, 0, 3, 9), (9, 0, 3, 0)),
]


def joint_law(errors: list[np.ndarray], rate: float) -> Law:
    """Probabilities ∝ exp(−a·largest error) of all choices."""
    weights = {
        cells: math.exp(-rate * max(int(row[cell]) for row, cell in zip(errors, cells, strict=True)))
        for cells in itertools.product(*(range(len(row)) for row in errors))
    }
    total = sum(weights.values())
    return {cells: weight / total for cells, weight in weights.items()}


def permute_and_flip_law(errors: list[np.ndarray], rate: float) -> Law:
    """Of one quantile: a uniform choice among the accepted cells, over all sets of accepted ones."""
    (row,) = errors
    chances = [math.exp(-rate * int(error - row.min())) for error in row]
    law = dict.fromkeys(((cell,) for cell in range(len(row))), 0.0)
    for tossed in itertools.product((False, True), repeat=len(chances)):
        chance = math.prod(p if up else 1 - p for p, up in zip(chances, tossed, strict=True))
        for cell in np.flatnonzero(tossed):
            law[(int(cell),)] += chance / sum(tossed)
    return law


def added(counts: tuple[int, ...]) -> Iterator[np.ndarray]:
    for cell in range(len(counts)):
        yield np.array(counts) + np.eye(len(counts), dtype=np.int64)[cell]


def largest_loss(mechanism: JointQuantiles, law_of_one: Chosen = permute_and_flip_law, rows: float = math.inf) -> float:
    """The largest |log ratio| of the probability of all choices between neighbours; of two groups that a replaced row may change, both.

    The loss of a second draw is added for every outcome of the first.
    """
    ends = mechanism.ends(rows)

    def loss_by_outcome(one: Draw, other: Draw) -> dict[tuple[int, ...], float]:
        laws = []
        for choices, rate in (one, other):
            law = law_of_one if len(choices) == 1 else joint_law
            laws.append(law([choice.errors() for choice in choices], rate) if choices else {(): 1.0})
        if laws[0].keys() != laws[1].keys():
            return dict.fromkeys(laws[0], math.inf)
        return {cells: abs(math.log(laws[0][cells] / laws[1][cells])) for cells in laws[0]}

    def losses(first: np.ndarray, second: np.ndarray) -> float:
        tables = ([first], [second])
        quantiles = loss_by_outcome(*(mechanism.first_draw(counts, ends) for counts in tables))
        if not ends:
            return max(quantiles.values())
        return max(
            loss
            + max(
                loss_by_outcome(*(mechanism.second_draw(counts, ends, np.array([cells])) for counts in tables)).values()
            )
            for cells, loss in quantiles.items()
        )

    of_adding = max(losses(np.array(counts), more) for counts in TABLES for more in added(counts))
    if mechanism.neighbours == "add-remove":
        return of_adding
    pairs = (pair for counts in TABLES for pair in itertools.combinations(added(counts), 2))
    of_replacing = max(losses(*pair) for pair in pairs)
    return max(of_replacing, 2 * of_adding) if mechanism.grouped else of_replacing


SETTINGS = [("add-remove", False), ("add-remove", True), ("replace-one", False), ("replace-one", True)]
WANTED = [((0.5,), None), ((0.25, 0.75), None), ((0.9,), 0.95), ((0.3,), 0.95)]


@pytest.mark.parametrize(("neighbours", "grouped"), SETTINGS)
@pytest.mark.parametrize(("quantiles", "level"), WANTED)
def test_no_choice_becomes_more_than_e_to_epsilon_times_as_likely(quantiles, level, neighbours, grouped) -> None:
    for epsilon in (0.3, 2.0):
        mechanism = JointQuantiles(quantiles, 1, epsilon, neighbours, grouped=grouped, level=level)
        assert largest_loss(mechanism) <= epsilon * (1 + 1e-12)
        assert largest_loss(mechanism, joint_law) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize(("neighbours", "grouped"), SETTINGS)
def test_the_number_of_rows_that_was_released_decides_which_ends_are_drawn(neighbours, grouped) -> None:
    """No end, one, or both: whatever it was, the draws are private. Without ends the quantile has all of ε."""
    mechanism = JointQuantiles((0.9,), 1, 1.0, neighbours, grouped=grouped, level=0.95)
    losses = {len(mechanism.ends(rows)): largest_loss(mechanism, rows=rows) for rows in (0, 200, 1000)}
    assert sorted(losses) == [0, 1, 2]
    assert max(losses.values()) <= 1 + 1e-12
    assert losses[0] > largest_loss(JointQuantiles((0.9,), 1, 0.9, neighbours, grouped=grouped))


def test_a_unit_of_several_rows_is_a_chain() -> None:
    one, three = (JointQuantiles((0.5,), 1, 1.0, "add-remove", rows) for rows in (1, 3))
    assert 3 * three.rate(Fraction(1)) == pytest.approx(one.rate(Fraction(1)))
    assert 3 * largest_loss(three) <= 1 + 1e-12


class ForgetsTheOtherGroup(JointQuantiles):
    """Planted bug: a replaced row is taken to change one group only."""

    @property
    def moves(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(move // 2 for move in super().moves)


class TakesTheSmallerMove(JointQuantiles):
    """Planted bug: an added record is taken to move errors as it does on the side where it moves them less."""

    @property
    def moves(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self.denominator - move for move in super().moves)


class TakesTheExactRank(JointQuantiles):
    """Planted bug: the wanted rank is that of the exact quantile, which an added record moves by one or not at all, where errors are taken to move by less."""

    def _wanted(self, counts: np.ndarray) -> list[int]:
        public = JointQuantiles(self.quantiles, self.columns, self.epsilon, "replace-one")
        return public._wanted(counts)


class ForgetsTheNormalizer(JointQuantiles):
    """Planted bug: weights change by e^ε each, as if their sum did not change."""

    def rate(self, share: Fraction) -> float:
        return 2 * super().rate(share)


class ForgetsItsWeights(JointQuantiles):
    """Planted bug: errors are weighted, and their sensitivity is not."""

    @property
    def sensitivity(self) -> int:  # type: ignore[override]
        return max(self.moves) * min(self.weights) // 2


class PaysForQuantilesOnly(JointQuantiles):
    """Planted bug: intervals are taken to cost nothing."""

    def rate(self, share: Fraction) -> float:
        return super().rate(Fraction(1))


class CountsTheRowsItself(JointQuantiles):
    """Planted bug: which ends are drawn is decided by the exact number of rows."""

    def first_draw(self, counts, ends):  # type: ignore[no-untyped-def]
        return super().first_draw(counts, self.ends(int(counts[0].sum())))

    def second_draw(self, counts, ends, middles):  # type: ignore[no-untyped-def]
        return super().second_draw(counts, self.ends(int(counts[0].sum())), middles)


class BeginsAtTheExactQuantile(JointQuantiles):
    """Planted bug: ends lie to both sides of the exact quantile, not of the one that was drawn."""

    def second_draw(self, counts, ends, middles):  # type: ignore[no-untyped-def]
        choices, _ = self.first_draw(counts, ends)
        exact = [[int(choice.errors().argmin()) for choice in choices]]
        return super().second_draw(counts, ends, np.array(exact))


@pytest.mark.parametrize(
    "planted",
    [
        ForgetsTheOtherGroup((0.25, 0.75), 1, 1.0, "replace-one", grouped=True),
        TakesTheSmallerMove((0.9,), 1, 1.0, "add-remove"),
        TakesTheExactRank((0.5,), 1, 1.0, "add-remove"),
        TakesTheExactRank((0.5,), 1, 1.0, "replace-one", grouped=True),
        ForgetsTheNormalizer((0.25, 0.75), 1, 1.0, "add-remove"),
        ForgetsTheNormalizer((0.5,), 1, 1.0, "add-remove"),
        ForgetsItsWeights((0.25, 0.75), 1, 1.0, "add-remove"),
        PaysForQuantilesOnly((0.5,), 1, 1.0, "add-remove", level=0.95),
        CountsTheRowsItself((0.5,), 1, 6.0, "add-remove", level=0.95),
        BeginsAtTheExactQuantile((0.5,), 1, 1.0, "add-remove", level=0.95),
    ],
    ids=lambda planted: type(planted).__name__,
)
def test_planted_bugs_are_found(planted: JointQuantiles) -> None:
    assert largest_loss(planted) > 1.05 * planted.epsilon
