"""Does one person change no more than `most_rows` kept rows? Exactly, over all small tables; and is every planted bug seen? Proof: proofs/persons.md."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, chi2

from sudare.frames import PersonJoin, kept_persons, read
from sudare.frames.person_buckets import RowLimits
from sudare.privacy.contribution_bound_selection import BoundChoice, candidate_bounds
from sudare.privacy.noise import SeededNoise
from sudare.schema import Number, Person, Schema

KEY = b"a key for the tests of persons.."
VALUES = (0.0, 1.0)
# What one person may have: all multisets of at most three rows.
OWN_ROWS = [rows for size in range(4) for rows in itertools.combinations_with_replacement(VALUES, size)]
OTHERS = [
    ((0.0,), ()),
    ((0.0, 1.0), (1.0,)),
    ((0.0, 0.0, 1.0), (1.0, 1.0)),
    ((0.0, 1.0, 1.0, 1.0), (0.0, 0.0, 0.0)),
]


def table_of(persons):
    rows = [(name, value) for name, values in persons.items() for value in values]
    return {"who": [name for name, _ in rows], "x": [value for _, value in rows]}


def kept_by_key(persons, most_rows):
    """The kept rows as a multiset."""
    table = table_of(persons)
    if not table["who"]:
        return Counter()
    kept = kept_persons(table, Schema({"x": Number(0, 1)}, Person("who", most_rows)), KEY).source
    return Counter(zip(list(map(str, kept["who"])), map(float, kept["x"]), strict=True))


def first_of_a_shuffled_table(persons, most_rows):
    """A planted bug: the first rows of each person, in an order that depends on how many rows there are."""
    table = table_of(persons)
    order = np.random.default_rng(len(table["x"])).permutation(len(table["x"]))
    found: Counter = Counter()
    of_person: Counter = Counter()
    for place in order:
        who, value = table["who"][place], table["x"][place]
        if of_person[who] < most_rows:
            of_person[who] += 1
            found[who, value] += 1
    return found


def no_truncation(persons, most_rows):
    """A planted bug: everything is kept."""
    return Counter(zip(*table_of(persons).values(), strict=True))


def largest_change(kept, most_rows):
    """The largest number of rows that leave or enter when a person is added, and the largest number replaced by another person's with as many."""
    added = replaced = 0
    for first, second in OTHERS:
        without = kept({"b": first, "c": second}, most_rows)
        versions = {rows: kept({"a": rows, "b": first, "c": second}, most_rows) for rows in OWN_ROWS}
        for rows, found in versions.items():
            added = max(added, (found - without).total() + (without - found).total())
            for other, theirs in versions.items():
                if min(len(rows), most_rows) == min(len(other), most_rows):
                    replaced = max(replaced, (found - theirs).total(), (theirs - found).total())
    return added, replaced


@pytest.mark.parametrize("most_rows", [1, 2])
def test_one_person_changes_as_many_rows_as_are_declared(most_rows):
    assert largest_change(kept_by_key, most_rows) == (most_rows, most_rows)


@pytest.mark.parametrize("planted", [first_of_a_shuffled_table, no_truncation])
def test_planted_bugs_change_more(planted):
    assert max(largest_change(planted, 1)) > 1


# Two-sided, for 24 rows: one false alarm in a million.
FALSE_ALARM = 1e-6 / (2 * 24)
KEYS = 400


def inclusion_is_uniform(chosen, rows, most_rows):
    """Whether every row of a person is kept about as often as any other, over keys."""
    counts = np.zeros(rows)
    for number in range(KEYS):
        counts[chosen(hashlib.blake2b(number.to_bytes(4, "big"), digest_size=32).digest())] += 1
    assert counts.sum() == KEYS * most_rows
    low, high = binom.ppf([FALSE_ALARM, 1 - FALSE_ALARM], KEYS, most_rows / rows)
    return bool(np.all((counts >= low) & (counts <= high)))


def test_which_rows_are_kept_cannot_be_known_without_the_key():
    values = np.arange(8) / 8
    schema = Schema({"x": Number(0, 1)}, Person("who", 2))

    def chosen(key):
        kept = kept_persons({"who": ["a"] * 8, "x": values}, schema, key).source
        return np.searchsorted(values, np.asarray(kept["x"]))

    def chosen_by_plain_hash(key):
        digests = [hashlib.sha256(str(value).encode()).digest() for value in values]
        return np.argsort(np.array([int.from_bytes(each[:6], "big") for each in digests]))[:2]

    assert inclusion_is_uniform(chosen, 8, 2)
    assert not inclusion_is_uniform(chosen_by_plain_hash, 8, 2)


def test_copies_of_a_row_count_as_rows():
    # Nine rows are alike and one is different: it is kept one time in ten, not one in two.
    schema = Schema({"x": Number(0, 1)}, Person("who", 1))
    values = np.array([0.0] * 9 + [1.0])

    def kept_different(number):
        kept = kept_persons({"who": ["a"] * 10, "x": values}, schema, number.to_bytes(32, "big")).source
        return float(kept["x"][0].as_py())

    found = sum(kept_different(number) for number in range(KEYS))
    low, high = binom.ppf([1e-7, 1 - 1e-7], KEYS, 0.1)
    assert low <= found <= high


# Joins


def joined_rows(persons, most_rows, *, is_cut=True):
    """A planted bug without the cut: all pairs of rows of a person."""
    left, right = (table_of({who: rows[side] for who, rows in persons.items()}) for side in (0, 1))
    tables = ({"who": left["who"], "x": left["x"]}, {"who": right["who"], "y": right["x"]})
    if not tables[0]["who"] or not tables[1]["who"]:
        return Counter()
    schema = Schema({"x": Number(0, 1), "y": Number(0, 1)}, Person("who", 100))
    bounds = (most_rows, most_rows + 1) if is_cut else (99, 99)
    rows = [part.arrow for part in PersonJoin(*tables, schema, bounds, key=KEY).batches(None, 1000, schema)]
    return Counter(
        row for part in rows for row in zip(*(part[name].to_pylist() for name in ("who", "x", "y")), strict=True)
    )


@pytest.mark.parametrize(("is_cut", "expected"), [(True, 2), (False, 6)])
def test_one_person_changes_the_product_of_the_bounds_in_a_join(is_cut, expected):
    changes = []
    for mine in [((0.0,), (1.0,)), ((0.0, 1.0), (1.0, 0.0)), ((0.0, 1.0), (1.0, 0.0, 1.0)), ((0.0,), ())]:
        others = {"b": ((0.0, 1.0, 1.0), (1.0, 0.0, 0.0)), "c": ((1.0,), (1.0,))}
        without, found = (joined_rows(each, 1, is_cut=is_cut) for each in (others, {"a": mine, **others}))
        assert not without - found
        changes.append((found - without).total())
    assert max(changes) == expected


def test_a_learner_never_sees_more_of_a_join_than_it_declares():
    schema = Schema({"x": Number(0, 1), "y": Number(0, 1)}, Person("who", 3))
    tables = {"who": ["a"] * 9, "x": np.arange(9) / 9}, {"who": ["a"] * 9, "y": np.arange(9) / 9}
    join = PersonJoin(*tables, schema, (5, 5), key=KEY)
    assert read(join, schema=schema).rows == 25
    assert read(kept_persons(join, schema, KEY).source, schema=schema).rows == 3


# The bound


class RowsAbove(BoundChoice):
    """A planted bug: rows that would be cut in place of persons who have them."""

    def excess(self, histogram):
        numbers = np.arange(len(histogram))
        return [
            int((histogram * np.maximum(numbers - bound, 0)).sum()) - self.persons_above
            for bound in candidate_bounds(self.largest)
        ]


def law(choice, histogram, *, is_lowered=True):
    """The exact law of the choice. A planted bug where the number wanted is not lowered at random: all refusals before the answer are paid for by nothing."""
    rate = float(choice.rate)
    lowered = np.arange(int(60 / rate)) if is_lowered else np.zeros(1)
    weights = np.exp(-rate * lowered)
    excess = np.array([float(each) for each in choice.excess(histogram)])
    accepted = np.exp(-rate * np.maximum(excess + lowered[:, None], 0.0))
    accepted[:, -1] = 1.0
    before = np.cumprod(np.column_stack([np.ones(len(lowered)), 1 - accepted[:, :-1]]), axis=1)
    found = weights @ (accepted * before) / weights.sum()
    assert found.sum() == pytest.approx(1)
    return found


def test_bounds_are_drawn_by_this_law():
    histogram, draws = np.array([0, 3, 2, 0, 2, 1, 0, 1]), 4000
    choice = BoundChoice(0.9, Fraction(5, 2), 6)
    noise = SeededNoise(5)
    seen = np.bincount([choice.drawn(histogram, noise) for _ in range(draws)], minlength=7)[1:]
    expected = draws * law(choice, histogram)
    # Under seeds this is deterministic; a false alarm of another seed has probability 1e-6.
    assert chi2.sf(((seen - expected) ** 2 / expected).sum(), 5) > 1e-6
    assert (
        chi2.sf(((seen - draws * law(BoundChoice(0.6, Fraction(5, 2), 6), histogram)) ** 2 / expected).sum(), 5) < 1e-6
    )


@pytest.mark.parametrize(
    ("planted", "holds"),
    [(None, True), ("half the sensitivity", False), ("rows", False), ("threshold without noise", False)],
)
def test_the_bound_tells_no_more_than_its_share(planted, holds):
    epsilon = 1.0 if planted == "half the sensitivity" else 0.5
    choice, largest = (RowsAbove if planted == "rows" else BoundChoice)(epsilon, Fraction(3, 2), 6), 0.0
    laws: dict = {}

    def remembered(histogram):
        key = tuple(histogram.tolist())
        if key not in laws:
            laws[key] = law(choice, histogram, is_lowered=planted != "threshold without noise")
        return laws[key]

    # Up to three persons, and many with most rows: a jump.
    tables = [
        *itertools.combinations_with_replacement(range(1, 8), 3),
        *((more,) * 12 for more in range(1, 8)),
    ]
    for persons in tables:
        histogram = np.bincount(persons, minlength=8)
        for more in range(1, 8):
            neighbour = histogram + np.bincount([more], minlength=8)
            replaced = neighbour - np.bincount([persons[0]], minlength=8)
            for other in (neighbour, replaced):
                with np.errstate(divide="ignore"):
                    logarithms = np.log([remembered(histogram), remembered(other)])
                possible = np.isfinite(logarithms).any(axis=0)
                largest = max(largest, float(np.abs(np.diff(logarithms[:, possible], axis=0)).max()))
    assert (largest <= 0.5 + 1e-9) == holds
    if holds:
        # The worst pair is not far from the promise.
        assert largest > 0.25


def as_planned(choice, bound):
    """The limits, and what the choice takes."""
    return choice.limits(bound, 1.0)


def more_of_everybody(choice, bound):
    """A planted bug: all persons may have as many rows as those who are far above the bound."""
    limits, spent = choice.limits(bound, 1.0)
    return RowLimits.equal(limits.many), spent


def more_from_the_bound_on(choice, bound):
    """A planted bug: more rows of all who have more than the bound, of whom some count for little in the choice."""
    limits, spent = choice.limits(bound, 1.0)
    return RowLimits(limits.few, limits.many, min(limits.few + 1, limits.many_from)), spent


def more_for_nothing(choice, bound):
    """A planted bug: the choice takes half of its ε, whatever is kept."""
    limits, spent = choice.limits(bound, 1.0)
    return limits, spent if limits.many > limits.few else spent / 2


def largest_loss(choice, limits_of):
    """How far apart a person tells choice and fit together, the fit being noise on sums: exactly, over neighbours of both relations."""
    bounds, found = candidate_bounds(choice.largest), 0.0
    of_bounds = [limits_of(choice, bound) for bound in bounds]
    laws: dict = {}

    def logarithms(histogram):
        key = tuple(histogram.tolist())
        if key not in laws:
            with np.errstate(divide="ignore"):
                laws[key] = np.log(law(choice, histogram))
        return laws[key]

    largest_rows = choice.largest + 3
    kept = np.array([[limits.kept(rows) for limits, _ in of_bounds] for rows in range(largest_rows + 1)])
    tells = np.array([(1.0 - spent) / limits.many for limits, spent in of_bounds])
    tables = [
        *itertools.combinations_with_replacement((1, 2, 4, 5, 6, 7, 9), 2),
        *((rows,) * 9 for rows in range(1, largest_rows)),
        *((rows,) * 6 + (rows + 1,) * 6 for rows in range(1, largest_rows - 1)),
    ]
    for persons in tables:
        counts = [min(rows, choice.largest + 1) for rows in persons]
        without = np.bincount(counts, minlength=choice.largest + 2)
        added = {
            rows: without + np.bincount([min(rows, choice.largest + 1)], minlength=choice.largest + 2)
            for rows in range(1, largest_rows + 1)
        }
        for rows, table in added.items():
            loss = np.abs(logarithms(without) - logarithms(table)) + tells * kept[rows]
            found = max(found, float(loss.max()))
            if rows >= choice.largest:
                # Another person in place of this one, who has no fewer than the largest number either.
                loss = np.abs(logarithms(added[choice.largest]) - logarithms(table)) + tells * kept[rows]
                assert (kept[rows] == kept[choice.largest]).all()
                found = max(found, float(loss.max()))
    return found


@pytest.mark.parametrize(
    ("limits_of", "epsilon", "holds"),
    [
        (as_planned, 0.5, True),
        (as_planned, 0.25, True),
        (as_planned, 0.1, True),
        (more_of_everybody, 0.25, False),
        (more_from_the_bound_on, 0.25, False),
        (more_for_nothing, 0.5, False),
        (more_for_nothing, 0.25, False),
    ],
)
def test_a_person_with_more_rows_is_told_no_more_of_by_choice_and_fit_together(limits_of, epsilon, holds):
    choice = BoundChoice(epsilon, Fraction(3), 9, is_proportional=True)
    kept = [as_planned(choice, bound)[0] for bound in candidate_bounds(9)]
    assert any(each.many > each.few for each in kept) == (epsilon > 0.1)
    largest = largest_loss(choice, limits_of)
    assert (largest <= 1 + 1e-9) == holds
    assert largest > 0.9
