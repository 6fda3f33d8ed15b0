"""How many neighbours a member of a secure sum needs. Statements and proofs: proofs/neighbourhoods.md.

In a sparse sum every member chooses k others at random, its out-neighbours. It masks its vector with those it chose and those that chose it, and deals
its secrets to the k, so that any t_k of them can recover them. S members, of which at most c are dishonest and at most d leave.

SciPy is imported where it is needed: nodes of fewer than two hundred members do not need it.
Bounds are base-2 logarithms, rounded up: sums of positive terms in double precision, enlarged by more than what rounding can have taken away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from sudare.array_types import Floats, Integers
from sudare.errors import InvalidParameter
from sudare.sums import pseudorandom_streams as streams

FAILURE_BITS: Final = 40
FEWEST_OF_A_SPARSE_GRAPH: Final = 200
# Sizes of separated sets up to this one are added up one by one; larger ones in blocks, each counted as its worst member.
_SINGLE_SIZES: Final = 512
_BLOCKS_PER_FACTOR_E: Final = 1000
# Log-factorials are within 4 units in the last place; a hypergeometric term adds up nine of them.
_ROUNDING: Final = 64 * 2.0**-52
# What integers do to the smallest degree: feasible degrees may lie a few below one that is not.
_DEGREES_LOOKED_BACK: Final = 32


@dataclass(frozen=True)
class Neighbourhood:
    """Whom a member masks with and deals shares to: `degree` others, any `threshold` of which recover what was dealt."""

    degree: int
    threshold: int

    def is_complete(self, members: int) -> bool:
        """Whether everybody is everybody's neighbour."""
        return self.degree == members - 1


def complete(members: int, threshold: int) -> Neighbourhood:
    """Everybody deals to everybody else, and as many must be there to recover a secret as must vote for a set."""
    return Neighbourhood(members - 1, threshold)


@lru_cache(maxsize=64)
def neighbourhood(
    members: int, dishonest: int, leaving: int, threshold: int, failure_bits: int = FAILURE_BITS
) -> Neighbourhood:
    """The smallest degree, with a share threshold, for which privacy and liveness each fail with probability at most 2^−failure_bits.

    Complete where that degree would reach half of the others or does not exist, and where nobody may leave (threshold = members).
    `threshold` is the number of members that must vote for a set: 2·threshold > members + dishonest.
    """
    _check(members, dishonest, leaving)
    if threshold < members and 2 * threshold <= members + dishonest:
        raise InvalidParameter(
            f"With {members} members, of which {dishonest} may be dishonest, {threshold} votes do not settle who is in a sum.",
            f"Use a threshold of at least {(members + dishonest) // 2 + 1}.",
        )
    if threshold > members - leaving:
        raise InvalidParameter(
            f"{threshold} members must vote, but {leaving} of {members} may leave.",
            f"Use a threshold of at most {members - leaving}, or fewer that leave.",
        )
    largest = (members - 2) // 2
    if threshold == members or largest < 1:
        return complete(members, threshold)

    # Two terms of the bound, which usually decide, before all of them.
    ends = np.array([1, max(1, (members - dishonest) // 2)])
    quickly = -failure_bits * math.log(2)

    def sparse(degree: int) -> Neighbourhood | None:
        lost = _most_neighbours_lost(members, leaving, degree, failure_bits)
        shares = degree - lost
        if shares < 1 or np.any(_separated_sets(members, dishonest, degree, shares, ends, ends) > quickly):
            return None
        fits = privacy_failure_log2(members, dishonest, degree, shares) <= -failure_bits
        return Neighbourhood(degree, shares) if fits else None

    too_few, enough = 0, 1
    while sparse(enough) is None:
        if enough == largest:
            return complete(members, threshold)
        too_few, enough = enough, min(2 * enough, largest)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (middle, enough) if sparse(middle) is None else (too_few, middle)
    candidates = (sparse(degree) for degree in range(max(1, enough - _DEGREES_LOOKED_BACK), enough + 1))
    return next(each for each in candidates if each is not None)


def sum_neighbourhood(members: int, dishonest: int, threshold: int) -> Neighbourhood:
    """The neighbourhood that sums use where S − threshold members may leave: complete below two hundred members.

    There a sparse graph would save little, and `most_separated` would ask for more noise. Beside the dishonest members one more, which follows the
    protocol, may look at what it holds: bounds are those for all of these together.
    """
    if members < FEWEST_OF_A_SPARSE_GRAPH:
        return complete(members, threshold)
    return neighbourhood(members, min(dishonest + 1, members - 2), members - threshold, threshold)


def privacy_failure_log2(members: int, dishonest: int, degree: int, threshold: int) -> float:
    """An upper bound on log₂ of the probability that some set of at most half of the honest members could be separated from the others.

    A set A of honest members is separated if each of its members has `threshold` or more of its out-neighbours in A or among the dishonest. Where no such
    set exists, no choice of who is excluded, made in sight of all neighbourhoods, leaves the honest members of a sum in two parts that share
    no mask; nor do dishonest members hold `threshold` shares of anybody (A of one member). At most `dishonest` members are so, fixed before neighbours
    are chosen. With h = S − c' honest: Σ_{a ≤ h/2} C(h, a) P[Hypergeometric(S − 1, a − 1 + c', k) ≥ t_k]^a, and here the worst c' ≤ c for each a.
    """
    _check(members, dishonest, 0)
    _check_degree(members, degree, threshold)
    if members - dishonest < 2:
        return -math.inf
    if not _worst_if_all_dishonest(members, dishonest, degree, threshold):
        return 0.0
    first, last = _blocks(members // 2)
    return _log2_sum(_separated_sets(members, dishonest, degree, threshold, first, last))


def liveness_failure_log2(members: int, leaving: int, degree: int, threshold: int) -> float:
    """An upper bound on log₂ of the probability that some member keeps fewer than `threshold` of its out-neighbours when `leaving` members go.

    Who leaves is chosen without regard to who chose whom. S · P[Hypergeometric(S − 1, d, k) > k − t_k].
    """
    _check(members, 0, leaving)
    _check_degree(members, degree, threshold)
    lost = degree - threshold + 1
    tail = _log_tail(members, np.array([min(leaving, members - 1)]), degree, lost)
    return min(0.0, _log2_sum(tail + math.log(members)))


def most_separated(members: int, dishonest: int, absent: int, degree: int, failure_bits: int = FAILURE_BITS) -> int:
    """How many honest members of the set voted for may be missing from the one sum that is opened, but with probability 2^−failure_bits.

    `absent` is S − t: so many members may be outside the set that was voted for. A dishonest collector that excludes all who chose a member, and delivers none
    of its shares, opens the sum without it. With b missing: none of the others' members chose any of them, at most
    C(S, b) C(S, e) (e + 1) [C(S − 1 − b, k) / C(S − 1, k)]^max(S − c − e − b, (S − c)/2), added up over all larger b. In a complete graph nobody is missing.
    """
    _check(members, dishonest, absent)
    _check_degree(members, degree, 1)
    table = _log_factorials(members)
    missing = np.arange(1, members // 2 + 1)
    unchosen = members - 1 - missing
    possible = unchosen >= degree
    nobody_chose = table[unchosen] - table[np.maximum(unchosen - degree, 0)]
    nobody_chose = nobody_chose - (table[members - 1] - table[members - 1 - degree]) + _ROUNDING * table[members]
    honest = members - dishonest
    choosers = np.maximum(honest - absent - missing, (honest + 1) // 2)
    ways = table[members] - table[missing] - table[members - missing] + 2 * _ROUNDING * table[members]
    half = min(absent, members // 2)
    ways = ways + table[members] - table[half] - table[members - half] + math.log(absent + 1)
    terms = np.where(possible, ways + choosers * np.minimum(0.0, nobody_chose), -np.inf)
    beyond = np.logaddexp.accumulate(terms[::-1])[::-1]
    # Each of at most S/2 additions rounds by a few units in the last place.
    rounding = members * 2.0**-50 * np.max(np.abs(terms[possible]), initial=0.0)
    enough = beyond <= -failure_bits * math.log(2) - rounding
    return int(len(missing) if not enough[-1] else np.flatnonzero(enough)[0])


def chosen_neighbours(seed: bytes, members: int, position: int, degree: int) -> tuple[int, ...]:
    """Positions of `degree` of the other members, ascending: a uniform subset, drawn with a secret seed that serves nothing else.

    Those with the smallest of S pseudorandom 64-bit words; subsets are equally likely but for ties, which have probability at most S²/2^65.
    """
    if not 0 <= position < members or not 0 <= degree < members:
        raise InvalidParameter(
            f"{degree} neighbours of member {position} among {members} members.", "Use 0 ≤ position, degree < members."
        )
    others = np.delete(np.arange(members), position)
    words = streams.stretched(seed, members - 1)
    smallest = np.argsort(words, kind="stable")[:degree]
    return tuple(int(place) for place in np.sort(others[smallest]))


def _most_neighbours_lost(members: int, leaving: int, degree: int, failure_bits: int) -> int:
    """The fewest out-neighbours such that nobody loses more, but with probability 2^−failure_bits."""
    too_few, enough = -1, min(degree, leaving)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        fails = liveness_failure_log2(members, leaving, degree, degree - middle) > -failure_bits
        too_few, enough = (middle, enough) if fails else (too_few, middle)
    return enough


def _worst_if_all_dishonest(members: int, dishonest: int, degree: int, threshold: int) -> bool:
    """Whether every term of the bound is shown to grow with c', so that c' = min(c, S − 2a) is the worst.

    With K marked members, (t/K)(1 − r)(h + 1) ≥ 2 ln 2 is enough, where r < 1 is the ratio of the hypergeometric probabilities of t + 1 and t; worst
    at the largest K (proofs/neighbourhoods.md). Where it does not hold the tails are so heavy that nothing would be gained.
    """
    if dishonest == 0:
        return True
    marked = (members - dishonest) // 2 + dishonest
    unmarked_unchosen = members - 1 - marked - degree + threshold + 1
    if unmarked_unchosen <= 0:
        return False
    ratio = max(0, marked - threshold) * (degree - threshold) / ((threshold + 1) * unmarked_unchosen)
    return threshold / marked * (1 - ratio) * (members - dishonest + 1) > 2 * math.log(2) + 1e-9


def _separated_sets(
    members: int, dishonest: int, degree: int, threshold: int, first: Integers, last: Integers
) -> Floats:
    """Upper bounds on ln of the expected number of separated sets of between `first` and `last` members, for each such block of sizes."""
    # c' = min(c, S − 2a) falls with a, from `many` to `few`; a − 1 + c' marked members are never more than (S + c)/2 − 1.
    few, many = np.minimum(dishonest, members - 2 * last), np.minimum(dishonest, members - 2 * first)
    marked = np.minimum(last - 1 + many, (members + dishonest) // 2 - 1)
    tail = _log_tail(members, marked, degree, threshold)
    honest = members - few
    table = _log_factorials(members)
    ways = table[honest] - table[last] - table[honest - last] + _ROUNDING * table[members]
    return np.asarray(ways + first * tail + np.log(last - first + 1))


def _blocks(most: int) -> tuple[Integers, Integers]:
    """First and last sizes of blocks that together hold 1, …, most."""
    single = np.arange(1, min(most, _SINGLE_SIZES) + 1)
    if most <= _SINGLE_SIZES:
        return single, single
    steps = int(math.log(most / _SINGLE_SIZES) * _BLOCKS_PER_FACTOR_E) + 2
    ends = np.unique(np.geomspace(_SINGLE_SIZES, most, steps).astype(np.int64))
    ends[-1] = most
    last = np.concatenate([single, ends[ends > _SINGLE_SIZES]])
    return np.concatenate([[1], last[:-1] + 1]), last


def _log_tail(members: int, marked: Integers, degree: int, at_least: int) -> Floats:
    """Upper bounds on ln P[Hypergeometric(S − 1, marked, degree) ≥ at_least], at most 0."""
    if at_least <= 0:
        return np.zeros(len(marked))
    others = members - 1
    table = _log_factorials(members)
    marked = np.minimum(marked, others)[:, None]
    unmarked = others - marked
    inside = np.arange(at_least, degree + 1)[None, :]
    outside = degree - inside
    left_inside, left_outside = marked - inside, unmarked - outside
    possible = (left_inside >= 0) & (left_outside >= 0)
    terms = table[marked] - table[inside] - table[np.maximum(left_inside, 0)]
    terms = terms + table[unmarked] - table[outside] - table[np.maximum(left_outside, 0)]
    subsets = table[others] - table[degree] - table[others - degree]
    from scipy import special

    total: Floats = special.logsumexp(np.where(possible, terms - subsets, -np.inf), axis=1)
    return np.asarray(np.minimum(0.0, total + _ROUNDING * table[members]))


def _log2_sum(logarithms: Floats) -> float:
    """log₂ of the sum of what has these natural logarithms, rounded up, and at most 0: the bound of a probability."""
    from scipy import special

    total = float(special.logsumexp(logarithms)) / math.log(2)
    return min(0.0, total + 2.0**-40 * (1 + abs(total))) if total > -math.inf else total


@lru_cache(maxsize=4)
def _log_factorials(most: int) -> Floats:
    from scipy import special

    table = special.gammaln(np.arange(most + 1, dtype=np.float64) + 1)
    table.setflags(write=False)
    return np.asarray(table)


def _check(members: int, dishonest: int, leaving: int) -> None:
    if members < 2 or not 0 <= dishonest <= members or not 0 <= leaving <= members:
        raise InvalidParameter(
            f"{members} members, {dishonest} dishonest, {leaving} leaving.",
            "Use at least 2 members, and between 0 and all of them dishonest or leaving.",
        )


def _check_degree(members: int, degree: int, threshold: int) -> None:
    if not 1 <= degree <= members - 1 or not 1 <= threshold <= degree:
        raise InvalidParameter(
            f"{degree} neighbours among {members} members, {threshold} of which recover a secret.",
            f"Use 1 to {members - 1} neighbours, and a threshold of 1 to that many.",
        )
