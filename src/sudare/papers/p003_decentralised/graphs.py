"""Who talks to whom: the communication graphs a consortium can agree on.

A graph is a public fact of the agreement, so every construction is a function of numbers alone: all members build the same one.
Members are numbered from 0; numbers of equations are those of Ide (2021), who numbers them from 1.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, get_args

from sudare.errors import InvalidParameter
from sudare.parameter_checks import Numbers

GraphName = Literal["cycle", "inverse-chords", "random-regular", "exponential", "hypercube", "base-k", "complete"]
GRAPH_NAMES: Final[tuple[GraphName, ...]] = get_args(GraphName)

_MOST_ATTEMPTS: Final = 1_000


@dataclass(frozen=True)
class Graph:
    """Neighbours of each member in ascending order, both ways, nobody its own. `radices` are set where members are digits."""

    name: str
    neighbours: tuple[tuple[int, ...], ...]
    radices: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.neighbours) < 2:
            raise InvalidParameter("A graph of fewer than two members has nobody to talk to.", "Name at least two.")
        linked = [set(each) for each in self.neighbours]
        for member, each in enumerate(self.neighbours):
            ordered = each == tuple(sorted(linked[member])) and member not in linked[member]
            within = all(0 <= other < len(linked) and member in linked[other] for other in each)
            if not (ordered and within):
                raise InvalidParameter(
                    f"Neighbours of member {member} are not ascending, mutual and others.",
                    "List every edge at both of its ends.",
                )

    @property
    def members(self) -> int:
        """S."""
        return len(self.neighbours)

    @cached_property
    def degrees(self) -> tuple[int, ...]:
        """How many neighbours each member has."""
        return tuple(map(len, self.neighbours))

    @property
    def largest_degree(self) -> int:
        """The most neighbours one member has."""
        return max(self.degrees)

    @property
    def regular(self) -> bool:
        """Whether all members have equally many neighbours."""
        return len(set(self.degrees)) == 1

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Every edge once, the smaller member first."""
        return tuple((member, other) for member, each in enumerate(self.neighbours) for other in each if member < other)

    @cached_property
    def connected(self) -> bool:
        """Whether news from anybody reaches everybody."""
        reached, frontier = {0}, [0]
        while frontier:
            new = set(self.neighbours[frontier.pop()]) - reached
            reached |= new
            frontier.extend(new)
        return len(reached) == self.members

    def relabelled(self, places: Sequence[int]) -> Graph:
        """The same graph with member i at the place that member places[i] had: line 5 of Algorithm 2."""
        if sorted(places) != list(range(self.members)):
            raise InvalidParameter("Places are not a permutation of the members.", "Give every place to one member.")
        sitting = {place: member for member, place in enumerate(places)}
        moved = tuple(tuple(sorted(sitting[other] for other in self.neighbours[place])) for place in places)
        return Graph(f"{self.name}, relabelled", moved)


def from_edges(name: str, members: int, edges: Iterable[tuple[int, int]], radices: tuple[int, ...] = ()) -> Graph:
    """The graph with these edges; repeated edges count once, loops not at all."""
    _at_least("members", members, 2)
    linked: list[set[int]] = [set() for _ in range(members)]
    among = Numbers(0, members - 1, whole=True)
    for first, second in edges:
        if not (among.holds(first) and among.holds(second)):
            raise InvalidParameter("An edge leads to nobody.", f"Members are numbered from 0 to {members - 1}.")
        if first != second:
            linked[first].add(second)
            linked[second].add(first)
    return Graph(name, tuple(tuple(sorted(each)) for each in linked), radices)


def cycle(members: int, reach: int = 1) -> Graph:
    """C_S^b (1.36): everyone talks to the `reach` nearest on either side, so the degree is 2b; needs S ≥ 2b + 1."""
    _at_least("reach", reach, 1)
    _at_least("members", members, 2 * reach + 1)
    offsets = range(1, reach + 1)
    return from_edges(f"cycle of reach {reach}", members, _circulant_edges(members, offsets))


def cycle_with_inverse_chords(members: int) -> Graph:
    """The cycle, and a chord from each x to its inverse modulo S where there is one (section 1.4.5; Vadhan 2012).

    An expander for prime S. For other S many numbers have no inverse; for S = 5 and the divisors of 24 no chord is added at all.
    """
    _at_least("members", members, 3)
    chords = ((x, pow(x, -1, members)) for x in range(1, members) if math.gcd(x, members) == 1)
    return from_edges("cycle with inverse chords", members, [*_circulant_edges(members, (1,)), *chords])


def random_regular(members: int, degree: int, seed: int = 0) -> Graph:
    """A connected graph in which everyone has `degree` neighbours, drawn by pairing (after Steger and Wormald 1999).

    The order of the pairing comes from SHA-256 of the seed: the same graph on every machine and in every version. Where most members are
    neighbours, those who are not are drawn instead.
    """
    _at_least("degree", degree, 2)
    _at_least("members", members, degree + 1)
    Numbers(whole=True).check("seed", seed)
    if members * degree % 2:
        raise InvalidParameter(
            f"No graph of {members} members has degree {degree}: the product is odd.", "Change one of them by one."
        )
    dense = 2 * degree > members - 1
    for attempt in range(_MOST_ATTEMPTS):
        edges = _paired(members, members - 1 - degree if dense else degree, f"{seed}/{attempt}")
        if edges is not None:
            if dense:
                edges = set(itertools.combinations(range(members), 2)) - edges
            graph = from_edges(f"random {degree}-regular", members, edges)
            if graph.connected:
                return graph
    raise InvalidParameter(
        f"No connected graph of degree {degree} on {members} members was found.", "Use another seed or degree."
    )


def exponential(members: int) -> Graph:
    """Everyone talks to those 1, 2, 4, 8 … places away on either side."""
    _at_least("members", members, 2)
    offsets = itertools.takewhile(lambda offset: offset < members, (1 << power for power in itertools.count()))
    return from_edges("exponential", members, _circulant_edges(members, offsets))


def mixed_radix(radices: Sequence[int]) -> Graph:
    """Members are numbers with these radices, lowest digit first; neighbours differ in one digit."""
    radices = _checked_radices(radices)
    name = "hypercube" if set(radices) == {2} else "numbers that differ in one digit"
    edges = itertools.chain.from_iterable(digit_edges(radices, digit) for digit in range(len(radices)))
    return from_edges(name, math.prod(radices), edges, radices)


def digit_edges(radices: Sequence[int], digit: int) -> list[tuple[int, int]]:
    """Pairs of members that differ in this digit and no other."""
    radices = _checked_radices(radices)
    Numbers(0, len(radices) - 1, whole=True).check("digit", digit)
    place = math.prod(radices[:digit])
    return [
        (member, member + gain * place)
        for member in range(math.prod(radices))
        for gain in range(1, radices[digit] - member // place % radices[digit])
    ]


def hypercube(members: int) -> Graph:
    """Numbers that differ in one binary digit are neighbours; S is a power of two."""
    return base_k(members, 2)


def base_k(members: int, base: int | None = None) -> Graph:
    """Numbers that differ in one digit to this base are neighbours; without a base, digits are counted by S's prime factors."""
    _at_least("members", members, 2)
    if base is None:
        return mixed_radix(prime_factors(members))
    _at_least("base", base, 2)
    digits = round(math.log(members, base))
    if base**digits != members:
        raise InvalidParameter(
            f"{members} members are no power of {base}.",
            f"Use {base ** max(1, digits)}, or the graph 'base-k' without a base, which takes every number.",
        )
    return mixed_radix((base,) * digits)


def complete(members: int) -> Graph:
    """Everyone talks to everyone."""
    _at_least("members", members, 2)
    return from_edges("complete", members, itertools.combinations(range(members), 2), (members,))


def graph_named(name: str, members: int, degree: int = 4, seed: int = 0) -> Graph:
    """The graph of that name. The degree matters to cycles (where it is even: twice the reach) and random regular graphs."""
    if name == "cycle":
        _at_least("degree", degree, 2)
        if degree % 2:
            raise InvalidParameter(f"A cycle has an even degree; got {degree}.", "Use 2 for the plain cycle.")
        return cycle(members, degree // 2)
    if name == "random-regular":
        return random_regular(members, degree, seed)
    by_members = {
        "inverse-chords": cycle_with_inverse_chords,
        "exponential": exponential,
        "hypercube": hypercube,
        "base-k": base_k,
        "complete": complete,
    }
    if not isinstance(name, str) or name not in by_members:
        raise InvalidParameter(f"There is no graph {name!r}.", f"Use one of: {', '.join(GRAPH_NAMES)}.")
    return by_members[name](members)


def prime_factors(number: int) -> tuple[int, ...]:
    """The primes whose product is the number, ascending, with repetition."""
    _at_least("number", number, 1)
    factors, rest, candidate = [], number, 2
    while candidate * candidate <= rest:
        while rest % candidate == 0:
            factors.append(candidate)
            rest //= candidate
        candidate += 1
    return (*factors, rest) if rest > 1 else tuple(factors)


def _circulant_edges(members: int, offsets: Iterable[int]) -> list[tuple[int, int]]:
    return [(member, (member + offset) % members) for offset in offsets for member in range(members)]


def _paired(members: int, degree: int, seed: str) -> set[tuple[int, int]] | None:
    """Ends of edges paired in a random order, unfit pairs thrown back; None where a whole sweep fits nowhere."""
    ends = [(member, number) for member in range(members) for number in range(degree)]
    edges: set[tuple[int, int]] = set()
    while ends:
        ends = _shuffled(ends, f"{seed}/{len(ends)}/{len(edges)}")
        left: list[tuple[int, int]] = []
        for first, second in zip(ends[::2], ends[1::2], strict=True):
            edge = (min(first[0], second[0]), max(first[0], second[0]))
            if edge[0] == edge[1] or edge in edges:
                left += [first, second]
            else:
                edges.add(edge)
        if len(left) == len(ends):
            return None
        ends = left
    return edges


def _shuffled(ends: list[tuple[int, int]], seed: str) -> list[tuple[int, int]]:
    return sorted(ends, key=lambda end: hashlib.sha256(f"{seed}/{end[0]}/{end[1]}".encode()).digest())


def _at_least(name: str, value: int, least: int) -> None:
    Numbers(least, whole=True).check(name, value)


def _checked_radices(radices: Sequence[int]) -> tuple[int, ...]:
    if isinstance(radices, str) or not isinstance(radices, Sequence) or not radices:
        raise InvalidParameter("The radices are not a list of whole numbers.", "Give the factors of S.")
    for radix in radices:
        _at_least("A radix", radix, 2)
    return tuple(radices)
