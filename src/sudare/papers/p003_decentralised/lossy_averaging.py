"""Averaging when messages are lost or late and links come and go: the chapter's open issue (section 1.6), simulated.

Dynamic consensus (1.27) and gossip keep the sum only if both ends of a link move together; a lost message moves one of them, and the error stays. Push-sum (Kempe et al. 2003) sends
mass instead of values, so late messages and one-way links do no harm, but lost ones still take mass away. With running sums (Hadjicostis, Vaidya and Domínguez-García 2016) a message
says how much was ever sent over its link: the next one that arrives brings what lost ones did not. No privacy for a record or an addend: neighbours see both.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sudare.array_types import Booleans, Floats
from sudare.errors import InvalidParameter
from sudare.papers.p003_decentralised.averaging import checked_values
from sudare.papers.p003_decentralised.graphs import Graph, from_edges
from sudare.papers.p003_decentralised.spectra import adjacency, laplacian, safe_step
from sudare.parameter_checks import Numbers

_CHANCES: Final = Numbers(0, 1, open_high=True)
_ROUNDS: Final = Numbers(0, whole=True)


@dataclass(frozen=True)
class Links:
    """Who can send to whom, and what becomes of messages.

    Parameters
    ----------
    graph : the communication graph.
    loss : the chance that a message is lost, each by itself; its sender does not learn it.
    latest : the most rounds by which a message is late; each is late by 0, …, `latest` with equal chance.
    changing : whether members sit at other random places of the graph in every round.
    down : edges that never work, as pairs of members.
    asynchronous : no common clock: in a round, as many times as there are members, one random member sends to one random neighbour.
    """

    graph: Graph
    loss: float = 0.0
    latest: int = 0
    changing: bool = False
    down: tuple[tuple[int, int], ...] = ()
    asynchronous: bool = False

    def __post_init__(self) -> None:
        _CHANCES.check("loss", self.loss)
        _ROUNDS.check("latest", self.latest)
        edges = set(self.graph.edges)
        if not all((min(pair), max(pair)) in edges for pair in self.down):
            raise InvalidParameter("An edge that is down is none of the graph's.", "Name edges of the graph.")
        left = edges - {(min(pair), max(pair)) for pair in self.down}
        if not self.changing and not from_edges("links that work", self.graph.members, left).connected:
            raise InvalidParameter(
                "Links that work do not join all members: these never agree.", "Leave more links up."
            )

    def sendings(self, generator: np.random.Generator) -> Iterator[Booleans]:
        """Without end, who sends to whom at a time (senders × receivers): at all times of a round, and then of the next."""
        members, linked = self.graph.members, adjacency(self.graph) > 0
        for first, second in self.down:
            linked[first, second] = linked[second, first] = False
        while True:
            if self.changing:
                places = generator.permutation(members)
                linked = linked[np.ix_(places, places)]
            if not self.asynchronous:
                yield linked
                continue
            for sender in generator.integers(members, size=members):
                sent = np.zeros_like(linked)
                receivers = np.flatnonzero(linked[sender])
                if len(receivers):
                    sent[sender, generator.choice(receivers)] = True
                yield sent

    @property
    def times_a_round(self) -> int:
        """How many times there are in a round."""
        return self.graph.members if self.asynchronous else 1

    def arriving(self, sent: Booleans, generator: np.random.Generator) -> list[Booleans]:
        """Of what is sent now, what arrives now, a time later, and so on; lost messages nowhere."""
        late = generator.integers(self.latest * self.times_a_round + 1, size=sent.shape)
        safe = sent & (generator.random(sent.shape) >= self.loss)
        return [safe & (late == times) for times in range(self.latest * self.times_a_round + 1)]


Content = TypeVar("Content")
Averaging = Callable[[ArrayLike, Links, int, np.random.Generator], Iterator[Floats]]


def dynamic_consensus(values: ArrayLike, links: Links, rounds: int, generator: np.random.Generator) -> Iterator[Floats]:
    """What everyone holds before the first round and after each by (1.27), ε = 1/(2·largest degree); a message that does not arrive moves nobody."""
    current = checked_values(values, links.graph.members)
    step = safe_step(links.graph)
    yield current
    waiting: deque[list[tuple[Booleans, Floats]]] = deque()
    for sent, last in _times(links, rounds, generator):
        _queue(waiting, links.arriving(sent, generator), current)
        moved = current.copy()
        for arrived, old in waiting.popleft():
            moved += step * (arrived.T @ old - arrived.sum(axis=0)[:, np.newaxis] * current)
        current = moved
        if last:
            yield current


def gossip(values: ArrayLike, links: Links, rounds: int, generator: np.random.Generator) -> Iterator[Floats]:
    """Asynchronous gossip (Boyd et al. 2006): one member at a time asks a neighbour, and both take their mean; if the answer is lost only the neighbour does.

    Late messages would meet other values than they left; they are simulated as lost by those who wait for an answer.
    """
    current = checked_values(values, links.graph.members).copy()
    yield current.copy()
    on_time = (1 - links.loss) / (1 + links.latest)
    for sent, last in _times(links, rounds, generator):
        for asking, asked in zip(*np.nonzero(sent), strict=True):
            if generator.random() < on_time:
                mean = (current[asking] + current[asked]) / 2
                current[asked] = mean
                if generator.random() < on_time:
                    current[asking] = mean
        if last:
            yield current.copy()


def push_sum(values: ArrayLike, links: Links, rounds: int, generator: np.random.Generator) -> Iterator[Floats]:
    """Push-sum: everyone sends equal parts of its mass and weight to itself and its neighbours; their ratio is its idea of the mean."""
    mass = _with_weights(checked_values(values, links.graph.members))
    yield _ratios(mass)
    waiting: deque[list[tuple[Booleans, Floats]]] = deque()
    for sent, last in _times(links, rounds, generator):
        parts = mass / (1 + sent.sum(axis=1))[:, np.newaxis]
        _queue(waiting, links.arriving(sent, generator), parts)
        # Who sends to nobody keeps all: its part is the whole.
        mass = parts.copy()
        for arrived, old in waiting.popleft():
            mass += arrived.T @ old
        if last:
            yield _ratios(mass)


def robust_push_sum(values: ArrayLike, links: Links, rounds: int, generator: np.random.Generator) -> Iterator[Floats]:
    """Push-sum with running sums: a message holds all that was ever sent over its link, so that lost and late ones only wait."""
    mass = _with_weights(checked_values(values, links.graph.members))
    members, numbers = mass.shape
    ever_sent = np.zeros((members, members, numbers))
    received, newest = np.zeros_like(ever_sent), np.full((members, members), -1)
    yield _ratios(mass)
    waiting: deque[list[tuple[Booleans, tuple[int, Floats]]]] = deque()
    for time, (sent, last) in enumerate(_times(links, rounds, generator)):
        parts = mass / (1 + sent.sum(axis=1))[:, np.newaxis]
        ever_sent = ever_sent + sent[:, :, np.newaxis] * parts[:, np.newaxis]
        _queue(waiting, links.arriving(sent, generator), (time, ever_sent))
        mass = parts.copy()
        for arrived, (when, told) in waiting.popleft():
            news = arrived & (newest < when)
            newest[news] = when
            gained = np.where(news[:, :, np.newaxis], told - received, 0.0)
            received = received + gained
            mass += gained.sum(axis=0)
        if last:
            yield _ratios(mass)


def expected_square_error(values: ArrayLike, graph: Graph, loss: float, rounds: int) -> tuple[float, float]:
    """Of (1.27) with messages lost independently: E|mean of the members − true mean|², and the mean over members of E|value − true mean|².

    Exactly, by the recursion of E ξξᵀ: a round multiplies by I − ε(1 − p)(D − A) and adds ε²p(1 − p)·E(ξ_j − ξ_i)² to the variance of member i for each of its neighbours j.
    """
    _CHANCES.check("loss", loss)
    centred = checked_values(values, graph.members)
    centred = centred - centred.mean(axis=0)
    step, linked = safe_step(graph), adjacency(graph)
    expected = np.eye(graph.members) - step * (1 - loss) * laplacian(graph)
    second = centred @ centred.T
    for _ in range(rounds):
        variances = np.diag(second)
        squares = variances[:, np.newaxis] + variances - 2 * second
        second = expected @ second @ expected.T
        second[np.diag_indices(graph.members)] += step**2 * loss * (1 - loss) * (linked * squares).sum(axis=1)
    numbers = centred.shape[1]
    return float(second.mean()) / numbers, float(np.diag(second).mean()) / numbers


def rounds_until(states: Iterator[Floats], error: float) -> int | None:
    """The first round after which all members' root mean squared distance from the mean of the first values is at most `error`; None if there is none."""
    first = next(states)
    mean = first.mean(axis=0)
    if math.sqrt(np.square(first - mean).mean()) <= error:
        return 0
    for count, state in enumerate(states, start=1):
        if math.sqrt(np.square(state - mean).mean()) <= error:
            return count
    return None


def _times(links: Links, rounds: int, generator: np.random.Generator) -> Iterator[tuple[Booleans, bool]]:
    """Who sends to whom at all times of so many rounds, and whether a round ends with it."""
    _ROUNDS.check("rounds", rounds)
    sendings = links.sendings(generator)
    for number in range(1, rounds * links.times_a_round + 1):
        yield next(sendings), number % links.times_a_round == 0


def _queue(waiting: deque[list[tuple[Booleans, Content]]], arriving: list[Booleans], content: Content) -> None:
    """Put what is sent now to where it arrives: the first entry is now."""
    for times, arrived in enumerate(arriving):
        if times == len(waiting):
            waiting.append([])
        if arrived.any():
            waiting[times].append((arrived, content))


def _with_weights(values: Floats) -> Floats:
    """Values with the weight 1 as the last number."""
    return np.hstack([values, np.ones((len(values), 1))])


def _ratios(mass: Floats) -> Floats:
    return np.asarray(mass[:, :-1] / mass[:, -1:])
