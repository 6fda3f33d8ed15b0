"""The exact draw of several quantiles at once: its law, its intervals, cells, and what is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sudare.errors import InvalidParameter
from sudare.privacy.noise import SeededNoise, SystemNoise
from sudare.schema import Number
from sudare.statistics import joint_quantiles
from sudare.statistics.joint_quantiles import (
    MOST_COUNTS,
    Cells,
    Choice,
    JointQuantiles,
    checked_quantiles,
    exponential_coins,
)

COUNTS = np.array([2, 0, 3, 1])


def law(choices: list[Choice], rate: float) -> dict[tuple[int, ...], float]:
    """Probabilities of all choices ∝ exp(−a·largest error), by listing them."""
    errors = [choice.errors() for choice in choices]
    weights = {
        cells: math.exp(-rate * max(int(row[cell]) for row, cell in zip(errors, cells, strict=True)))
        for cells in itertools.product(*(range(len(row)) for row in errors))
    }
    total = sum(weights.values())
    return {cells: weight / total for cells, weight in weights.items()}


def test_errors_are_ranks_that_a_cell_misses() -> None:
    mechanism = JointQuantiles((0.25, 0.5), 1, 1.0, "add-remove")
    assert mechanism.denominator == 8
    assert mechanism.moves == (6, 4)
    assert mechanism.weights == (64, 96)
    # Six records of ranks ½, 3/2, …; cells hold the ranks ½–3/2, none, 5/2–9/2, 11/2. Wanted are 6/4 − 1/8 and 12/4 − 1/4.
    choices, _ = mechanism.first_draw([COUNTS], [])
    assert [choice.errors().tolist() for choice in choices] == [
        [0, 64 * 9, 64 * 9, 64 * 33],
        [96 * 10, 96 * 10, 0, 96 * 22],
    ]


@pytest.mark.parametrize("quantile", [0.1, 0.25, 0.5, 0.9])
def test_the_wanted_rank_is_that_of_the_exact_quantile_where_the_number_of_records_is_public_and_else_its_mean(
    quantile,
) -> None:
    public, secret = (JointQuantiles((quantile,), 1, 1.0, relation) for relation in ("replace-one", "add-remove"))
    differences = []
    for records in range(1, 1 + 4 * secret.denominator):
        values = np.arange(records)
        (choice,), _ = public.first_draw([np.ones(records, dtype=np.int64)], [])
        exact = np.quantile(values, quantile, method="inverted_cdf")
        assert np.flatnonzero(choice.errors() == 0).tolist() == [exact]
        (other,), _ = secret.first_draw([np.ones(records, dtype=np.int64)], [])
        differences.append(choice.rank - other.rank)
    assert np.mean(differences) == 0
    assert max(map(abs, differences)) < public.denominator / 2


def test_a_cell_that_only_touches_the_wanted_rank_is_worse_than_one_that_holds_it() -> None:
    """Of four records one to a cell, the median is the second; an empty cell misses it by as much as the farther of its neighbours."""
    (choice,), _ = JointQuantiles((0.5,), 1, 1.0, "replace-one").first_draw([np.array([1, 1, 0, 1, 1])], [])
    assert (choice.errors() / (choice.weight * 4)).tolist() == [1, 0, 1, 1, 2]
    assert choice.least == 0


def test_cells_up_to_an_error_are_found_by_bisection_also_where_no_cell_holds_the_wanted_rank() -> None:
    for neighbours, grouped in (("add-remove", False), ("replace-one", False), ("replace-one", True)):
        mechanism = JointQuantiles((0.2, 0.5), 1, 1.0, neighbours, grouped=grouped, level=0.95)
        for counts in itertools.product((0, 1, 3), repeat=4):
            tables, ends = [np.array(counts)], mechanism.ends(math.inf)
            choices = mechanism.first_draw(tables, ends)[0]
            for middle in range(4):
                choices += mechanism.second_draw(tables, ends, np.array([[middle, middle]]))[0]
            for choice in choices:
                assert (np.diff(choice.below) >= 0).all()
                assert (np.diff(choice.upto) >= 0).all()
                errors = choice.errors()
                assert choice.least == errors.min()
                first, past = choice.within(errors)
                for bound, *between in zip(errors, first, past, strict=True):
                    assert np.flatnonzero(errors <= bound).tolist() == list(range(*between))


def law_with_ends(mechanism: JointQuantiles) -> dict[tuple[int, ...], float]:
    """Probabilities of cells and the ends around them, by listing them: (cell, low, high) of each quantile, one after the other."""
    ends, found = mechanism.ends(math.inf), {}
    for cells, chance in law(*mechanism.first_draw([COUNTS], ends)).items():
        middles = np.array([cells])
        for places, share in law(*mechanism.second_draw([COUNTS], ends, middles)).items():
            low, high = np.array(places[::2]) - 1, middles[0] + np.array(places[1::2])
            found[tuple(np.stack([middles[0], low, high], axis=1).ravel().tolist())] = chance * share
    return found


@pytest.mark.parametrize("level", [None, pytest.param(0.95, marks=pytest.mark.long)])
def test_draws_follow_the_law_of_the_exponential_mechanism(level: float | None) -> None:
    mechanism = JointQuantiles((0.25, 0.5), 1, 3.0 if level is None else 9.0, "add-remove", level=level)
    expected = law(*mechanism.first_draw([COUNTS], [])) if level is None else law_with_ends(mechanism)
    source, draws = SystemNoise(), 2500
    seen = dict.fromkeys(expected, 0)
    for _ in range(draws):
        seen[tuple(mechanism.chosen([COUNTS], source).ravel().tolist())] += 1
    often = [cells for cells, share in expected.items() if draws * share >= 20]
    observed = [*(seen[cells] for cells in often), draws - sum(seen[cells] for cells in often)]
    shares = np.array([*(expected[cells] for cells in often), 1 - sum(expected[cells] for cells in often)])
    kept = draws * shares > 1
    # False alarms: one in a billion, far below one in a million where the chi-square law is only near.
    counted = np.array(observed)[kept]
    assert stats.chisquare(counted, shares[kept] / shares[kept].sum() * counted.sum()).pvalue > 1e-9


def test_balls_and_floats_draw_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = JointQuantiles((0.25, 0.5, 0.9), 2, 1.0, "replace-one", level=0.95)
    counts = [np.random.default_rng(0).integers(0, 9, 30), np.arange(25)]
    first = [mechanism.chosen(counts, SeededNoise(seed)).tolist() for seed in range(20)]
    monkeypatch.setattr(joint_quantiles, "_bound_by_floats", lambda *_: None)
    assert first == [mechanism.chosen(counts, SeededNoise(seed)).tolist() for seed in range(20)]


def test_coins_have_their_probability_and_are_exact_where_floats_end(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = np.repeat([0, 1, 3, 2000], 20_000)
    tossed = exponential_coins(errors, 0.5, SystemNoise()).reshape(4, -1).mean(axis=1)
    assert tossed[0] == 1
    assert tossed[3] == 0
    for share, probability in ((tossed[1], math.exp(-0.5)), (tossed[2], math.exp(-1.5))):
        # Six standard deviations.
        assert abs(share - probability) < 6 * math.sqrt(probability * (1 - probability) / 20_000)
    plain = exponential_coins(errors[::100], 0.5, SeededNoise(3))
    monkeypatch.setattr(joint_quantiles, "_FLOAT_MARGIN", 1.0)
    undecided = exponential_coins(errors[::100], 0.5, SeededNoise(3))
    # The words of the first sixty-four bits are the same, and decide.
    assert (plain == undecided).all()


def test_one_quantile_is_drawn_by_permute_and_flip() -> None:
    """McKenna and Sheldon 2020: of two cells the worse one is chosen half as often as it is accepted."""
    mechanism = JointQuantiles((0.5,), 1, 1.0, "add-remove")
    counts, source = np.array([4, 2]), SystemNoise()
    (choice,), rate = mechanism.first_draw([counts], [])
    errors = choice.errors()
    accepted = math.exp(-rate * int(errors[1] - errors[0]))
    share = np.mean([mechanism.chosen([counts], source)[0, 0] for _ in range(3000)])
    assert abs(share - accepted / 2) < 6 * math.sqrt(accepted / 2 / 3000)


def test_cells_are_declared_bins_or_of_one_width() -> None:
    declared, equal = Cells(Number(0, 10, bins=(2, 5))), Cells(Number(0, 10))
    assert declared.edges.tolist() == [0, 2, 5, 10]
    assert declared.of(np.array([0.0, 2.0, 4.9, 10.0])).tolist() == [0, 1, 1, 2]
    assert equal.count == 2**17
    assert Cells(Number(0, 10), MOST_COUNTS).count == 2
    whole = Cells(Number(0, 10, whole=True))
    assert (whole.count, whole.middles(whole.of(np.array([0.0, 7.0, 10.0]))).tolist()) == (11, [0, 7, 10])
    assert [end.tolist() for end in whole.intervals(np.array([[7, -1, 11]]))] == [[7], [0], [10]]
    coarse = Cells(Number(0, 10, whole=True), MOST_COUNTS // 4)
    assert coarse.edges.tolist() == [0, 2.5, 5, 7.5, 10]
    assert [end.tolist() for end in coarse.intervals(np.array([[1, 1, 1], [2, 1, 3]]))] == [[4, 6], [3, 3], [5, 10]]
    value, low, high = declared.intervals(np.array([[1, -1, 3], [1, 2, 0], [2, 1, 2]]))
    assert (value.tolist(), low.tolist(), high.tolist()) == ([3.5, 3.5, 7.5], [0, 2, 2], [10, 5, 10])


@pytest.mark.parametrize(
    "quantiles", [[], "0.5", [0], [1], [True], [0.5, 0.5], [0.7, 0.2], [0.12345], 0.5, ["a"], [math.nan], [0.5] * 101]
)
def test_quantiles_that_are_refused(quantiles: object) -> None:
    with pytest.raises(InvalidParameter):
        checked_quantiles(quantiles)


def test_ends_without_records_on_their_side_are_declared_bounds() -> None:
    mechanism = JointQuantiles((0.25, 0.5, 0.75), 1, 0.75, "replace-one", grouped=True, level=0.95)
    assert mechanism.ends(0) == ()
    few, all_of_them = mechanism.ends(300), mechanism.ends(math.inf)
    assert few == ((0, True), (1, False), (1, True), (2, False))
    assert len(all_of_them) == 6
    # Fewer ends cost less.
    assert mechanism.interval_share(few) < mechanism.interval_share(all_of_them) == Fraction(3, 23)
    counts = np.full(500, 1)
    drawn = mechanism.chosen([counts], SeededNoise(0), 300)[0]
    assert (drawn[0, 1], drawn[2, 2]) == (-1, 500)
    assert mechanism.chosen([counts], SeededNoise(0), 0)[0, :, 1:].tolist() == [[-1, 500]] * 3


def test_tables_of_more_rows_than_intervals_need_have_all_ends() -> None:
    mechanism = JointQuantiles((0.25, 0.5, 0.75), 2, 0.75, "replace-one", grouped=True, level=0.95)
    needed = mechanism.rows_for_intervals
    assert len(mechanism.ends(1.001 * needed)) == 6 > len(mechanism.ends(0.999 * needed))
    assert (
        len(mechanism.ends(1.001 * mechanism.rows_for_any_end))
        > 0
        == len(mechanism.ends(0.999 * mechanism.rows_for_any_end))
    )
    without = JointQuantiles((0.5,), 1, 1.0, "replace-one")
    assert without.rows_for_intervals == without.rows_for_any_end == 0


def test_a_single_median_has_both_ends_or_none() -> None:
    """One end alone has a smaller share of ε, and would reach farther than two."""
    mechanism = JointQuantiles((0.5,), 1, 0.25, "replace-one", grouped=True, level=0.95)
    assert mechanism.rows_for_any_end == mechanism.rows_for_intervals
    assert [len(mechanism.ends(share * mechanism.rows_for_intervals)) for share in (0.999, 1.001)] == [0, 2]


@pytest.mark.parametrize(
    ("quantiles", "columns", "epsilon", "rows"),
    [((0.5,), 1, 0.25, 300), ((0.5,), 1, 1.0, 2000), ((0.25, 0.5, 0.75), 1, 1.0, 400), ((0.1, 0.5), 2, 0.5, 3000)],
)
def test_ends_lie_as_far_away_as_their_law_says(
    quantiles: tuple[float, ...], columns: int, epsilon: float, rows: int
) -> None:
    """Also where noise on ranks is about as large as all ranks on a side: the first case has hardly more records than it needs."""
    mechanism = JointQuantiles(quantiles, columns, epsilon, "replace-one", grouped=True, level=0.95)
    ends, level, source = mechanism.ends(rows), 2 / 3, SeededNoise(3)
    assert ends
    counts, repeats = [np.full(rows, 1)] * columns, 400
    drawn = np.stack([mechanism.chosen(counts, source, rows) for _ in range(repeats)])
    beyond = []
    for end, distance in zip(ends, mechanism.end_distances(ends, rows, level), strict=True):
        place = drawn[:, :, end.quantile, 2 if end.is_upper else 1]
        beyond.append(np.mean(np.abs(place - drawn[:, :, end.quantile, 0]) > distance))
    # A share of 400 draws has the standard deviation .024; what the first draw is off by itself is left out of the law.
    assert np.allclose(beyond, 1 - level, atol=0.1), beyond


def test_small_groups_are_not_given_intervals_that_miss() -> None:
    """Of sixty records noise on ranks is larger than all ranks: ends that were drawn would lie anywhere."""
    cells, mechanism = Cells(Number(0, 1), 64), JointQuantiles((0.5,), 1, 0.3, "replace-one", grouped=True, level=0.95)
    values = np.sort(np.random.default_rng(0).beta(2, 9, 60))
    counts, source = np.bincount(cells.of(values), minlength=cells.count), SeededNoise(1)
    drawn = [cells.intervals(mechanism.chosen([counts], source, 60)[0])[1:] for _ in range(50)]
    assert all(low[0] <= values[29] <= high[0] for low, high in drawn)


def test_intervals_hold_where_values_are_dense_on_one_side_and_sparse_on_the_other() -> None:
    """Half of all records in a hundredth of the range: a cell with few records is as likely as one with many, and there are many more of them."""
    cells = Cells(Number(0, 1), 32)
    mechanism = JointQuantiles((0.25, 0.5, 0.75), 1, 0.75, "replace-one", grouped=True, level=0.95)
    random = np.random.default_rng(11)
    values = np.where(random.random(1000) < 0.5, 0.4 + 0.01 * random.random(1000), random.normal(0.45, 0.15, 1000))
    places = np.sort(cells.of(np.clip(values, 0, 1)))
    counts, exact, source = np.bincount(places, minlength=cells.count), places[[249, 499, 749]], SeededNoise(2)
    held = []
    for _ in range(300):
        middle, low, high = mechanism.chosen([counts], source, 1000)[0].T
        assert ((low <= middle) & (middle <= high)).all()
        held.append((low <= exact) & (exact <= high))
    assert np.mean(held, axis=0).min() > 0.92
