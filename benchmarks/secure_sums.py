"""One secure sum among many members, with real cryptography: what it costs a member and its collector, beside Flower's SecAgg+.

    python -m benchmarks.secure_sums [--members 100 300 1000 3000 10000] [--numbers 1000] [--leaving 0.05] [--dishonest 0.05] [--flower]

All members and the collector run in one process, round by round, by the same steps as between machines. Seconds are processor seconds inside the steps, bytes those of packed messages.
A process remembers which signatures are right, so members simulated together verify each only once. The collector, whose part as a member is not counted with it, and a sample of
members are therefore measured as if alone: before each of their rounds all that is remembered is forgotten.
Nine in ten of those that leave have dealt their shares and send no vector, which costs the others most; the others leave in other rounds. The total must be the exact sum.

With `--flower` Flower's client and server then run on three of the sizes (benchmarks.flower_peer), with no more neighbours than ours deal shares to. A run with the usual sizes is written to
benchmarks/secure_sums.json and to the page docs/scale.md (benchmarks.secure_sums_page).
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Final, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import PeerMissing
from benchmarks.secure_sums_cost import Cost, flower_cost, told
from benchmarks.secure_sums_page import RESULTS, write_page
from sudare.sums import collector, member
from sudare.sums.canonical_encoding import packed_size
from sudare.sums.collector import CollectorState
from sudare.sums.context import Participant, Roster, SumContext, members_in, set_digest
from sudare.sums.keys import MemberKeys
from sudare.sums.member import MemberState
from sudare.sums.messages import Advertised, Certified, Confirmed, Dealt, Heard, Masked, Message, Voted
from sudare.sums.neighbour_graph import sum_neighbourhood
from sudare.sums.statements import forget_verified

Words = NDArray[np.uint64]
P = ParamSpec("P")
Result = TypeVar("Result")

MEMBERS: Final = (100, 300, 1_000, 3_000, 10_000)
BESIDE_FLOWER: Final = (100, 1_000, 10_000)
NUMBERS: Final = 1_000
SHARE: Final = 0.05
SAMPLE: Final = 10
FLOWER_SAMPLE: Final = 2
# The last thing that members say who leave in other rounds than after dealing; None: they never come.
_OTHER_LAST_MESSAGES: Final[tuple[type | None, ...]] = (None, Advertised, Masked, Voted)


@dataclass
class Clock:
    """Processor seconds of this process that went by under it."""

    seconds: float = 0.0

    def timed(self, work: Callable[P, Result], *arguments: P.args, **options: P.kwargs) -> Result:
        """What work returns."""
        began = time.process_time()
        result = work(*arguments, **options)
        self.seconds += time.process_time() - began
        return result


# Members


@dataclass
class SimulatedMember:
    """One member: its state, and what it has computed, sent and received. Who `leaves` says nothing after its `last_message`."""

    participant: Participant
    state: MemberState
    clock: Clock
    leaves: bool
    last_message: type | None
    is_alone: bool
    bytes_sent: int = 0
    bytes_received: int = 0
    certificates: Clock = field(default_factory=Clock)
    certificate_bytes: int = 0

    def answered(self, messages: Sequence[Message]) -> list[Message]:
        """What it sends after the messages of a round."""
        if self.leaves and self.last_message is None:
            return []
        if self.is_alone:
            forget()
            self.bytes_received += bytes_of(messages)
        sent: list[Message] = []
        for message in messages:
            before = self.clock.seconds
            self.state, answer = self.clock.timed(member.step, self.participant, self.state, message)
            sent += answer
            if isinstance(message.body, (Certified, Confirmed)) and self.is_alone:
                self.certificates.seconds += self.clock.seconds - before
                self.certificate_bytes += bytes_of([message])
        return self.said(sent)

    def said(self, messages: Sequence[Message]) -> list[Message]:
        """What really leaves it of this."""
        if self.leaves and self.last_message is None:
            return []
        if any(isinstance(each.body, self.last_message or ()) for each in messages):
            self.last_message = None
        if self.is_alone:
            self.bytes_sent += bytes_of(messages)
        return list(messages)


def forget() -> None:
    """Forget what this process has verified and read, so that the next member does it as if alone."""
    forget_verified()
    members_in.cache_clear()
    set_digest.cache_clear()


def bytes_of(messages: Iterable[Message]) -> int:
    """The bytes of all of them; a body that goes to many is measured once."""
    total, size, last = 0, 0, None
    for message in messages:
        if message.body is not last:
            last, size = message.body, packed_size(message) - packed_size((message.sender, message.receiver))
        total += size + packed_size((message.sender, message.receiver))
    return total


def begun(
    participant: Participant, words: Words, last_message: type | None, *, leaves: bool, is_alone: bool
) -> tuple[SimulatedMember, list[Message]]:
    """A member, and what it says first."""
    clock = Clock()
    state, messages = clock.timed(member.begun, participant, words)
    one = SimulatedMember(participant, state, clock, leaves, last_message, is_alone)
    return one, one.said(messages)


# The collector


@dataclass
class Collecting:
    """The collector's part."""

    participant: Participant
    state: CollectorState
    clock: Clock
    bytes_sent: int = 0

    def answered(self, messages: Iterable[Message]) -> list[Message]:
        """What it sends once a round is over: when everyone has answered, or at its deadline."""
        forget()
        stage = self.state.stage
        sent: list[Message] = []
        for message in messages:
            sent += self.clock.timed(collector.step, self.participant, self.state, message)
        if self.state.stage == stage:
            sent += self.clock.timed(collector.expired, self.participant, self.state)
        self.bytes_sent += bytes_of(sent)
        return sent


# One sum


@dataclass(frozen=True)
class Sizes:
    """What is asked for: members, numbers, and how many members may be dishonest and leave."""

    members: int
    numbers: int
    leaving: int
    dishonest: int

    def context(self, roster: Roster) -> SumContext:
        """A sum that so many members may leave, with the neighbourhoods that sums use."""
        threshold = self.members - self.leaving
        hood = sum_neighbourhood(self.members, self.dishonest, threshold)
        return SumContext("benchmark", "sum", 0, 0, roster, threshold, self.dishonest, neighbourhood=hood)


def run_cost(sizes: Sizes, sample: int = SAMPLE) -> Cost:
    """One sum from its first message to the total that everyone uses. Raise RuntimeError unless that is the sum of those who stayed."""
    keys = [MemberKeys.generated() for _ in range(sizes.members)]
    roster = Roster(tuple(f"member {number}" for number in range(sizes.members)), tuple(each.public for each in keys))
    context = sizes.context(roster)
    draw = np.random.default_rng(0)
    order = [int(each) for each in draw.permutation(sizes.members) if each != context.collector]
    leaving, alone = order[: sizes.leaving], frozenset(order[sizes.leaving : sizes.leaving + sample])
    last_messages = dict(zip(leaving, last_messages_of(sizes.leaving), strict=True))
    vectors = draw.integers(0, 2**64, (sizes.members, sizes.numbers), dtype=np.uint64)
    simulated, first = [], []
    with _without_collections():
        for position, words in enumerate(vectors):
            one, messages = begun(
                Participant(context, position, keys[position]),
                words,
                last_messages.get(position),
                leaves=position in last_messages,
                is_alone=position in alone,
            )
            simulated.append(one)
            first += messages
        participant = simulated[context.collector].participant
        collecting = Collecting(participant, collector.begun(sizes.members, sizes.numbers), Clock())
        run_rounds(simulated, collecting, first)
    check(vectors, simulated, collecting)
    measured = [simulated[position] for position in alone]
    return Cost(
        who="sudare",
        members=sizes.members,
        numbers=sizes.numbers,
        degree=context.neighbourhood.degree if context.neighbourhood else sizes.members - 1,
        threshold=context.share_threshold,
        leaving=sizes.leaving,
        member_seconds=statistics.mean(each.clock.seconds for each in measured),
        member_bytes_sent=statistics.mean(each.bytes_sent for each in measured),
        member_bytes_received=statistics.mean(each.bytes_received for each in measured),
        collector_seconds=collecting.clock.seconds,
        collector_bytes_sent=collecting.bytes_sent,
        how=how(context, measured),
        certificate_seconds=statistics.mean(each.certificates.seconds for each in measured),
        certificate_bytes=statistics.mean(each.certificate_bytes for each in measured),
    )


def last_messages_of(leaving: int) -> list[type | None]:
    """What each of those that leave says last: nine in ten have dealt, the others leave in other rounds by turns."""
    otherwise = leaving // 10
    return [_OTHER_LAST_MESSAGES[place % 4] for place in range(otherwise)] + [Dealt] * (leaving - otherwise)


def run_rounds(simulated: Sequence[SimulatedMember], collecting: Collecting, first: list[Message]) -> None:
    """Until nobody has more to say. Members that are measured alone come first in a round."""
    to_collector = first
    while to_members := collecting.answered(to_collector):
        to_collector = []
        while to_members:
            answers = _answers(simulated, to_members)
            to_collector += [each for each in answers if not isinstance(each.body, Heard)]
            to_members = [each for each in answers if isinstance(each.body, Heard)]


def _answers(simulated: Sequence[SimulatedMember], messages: Iterable[Message]) -> list[Message]:
    received: dict[int, list[Message]] = {}
    for message in messages:
        received.setdefault(message.receiver, []).append(message)
    order = sorted(received, key=lambda position: not simulated[position].is_alone)
    return [answer for position in order for answer in simulated[position].answered(received.pop(position))]


def check(vectors: Words, simulated: Sequence[SimulatedMember], collecting: Collecting) -> None:
    """Raise RuntimeError unless everyone who stayed uses the exact sum of the vectors that were sent."""
    included = sorted(collecting.state.inputs)
    total = vectors[included].sum(axis=0, dtype=np.uint64)
    stayed = [each for each in simulated if not each.leaves]
    if not all(each.state.total is not None and np.array_equal(each.state.total, total) for each in stayed):
        raise RuntimeError("A member that stayed has not the exact sum.")


def how(context: SumContext, measured: Sequence[SimulatedMember]) -> str:
    """What was measured."""
    slowest = max(each.clock.seconds for each in measured)
    return (
        f"every member and the collector run as they are, {context.dishonest:,} may be dishonest, {context.threshold:,} must vote;"
        f" {len(measured)} members that stay are measured as if each were alone, the slowest took {slowest:.3g} s; the total is exact."
    )


@contextmanager
def _without_collections() -> Iterator[None]:
    """Python looks for cycles among all members' objects in the middle of one member's step; there are none to find."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# Beside Flower


def measured(every: Iterable[Sizes], *, beside_flower: bool) -> list[Cost]:
    """All sizes, ours and then Flower's; told as they come."""
    found: list[Cost] = []
    for sizes in every:
        ours = run_cost(sizes)
        found.append(ours)
        print(told(ours), flush=True)
        if beside_flower and sizes.members in BESIDE_FLOWER:
            found.append(cost_of_flower(ours))
            print(told(found[-1]), flush=True)
    return found


def cost_of_flower(ours: Cost) -> Cost:
    """Flower's cost on our sizes; it needs an even number of neighbours, and has one fewer where ours is odd."""
    return flower_cost(
        members=ours.members,
        degree=ours.degree if ours.degree == ours.members - 1 else ours.degree - ours.degree % 2,
        threshold=ours.threshold,
        leaving=ours.leaving,
        numbers=ours.numbers,
        sample=FLOWER_SAMPLE,
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.secure_sums", description=__doc__)
    parser.add_argument("--members", type=int, nargs="+", default=list(MEMBERS))
    parser.add_argument("--numbers", type=int, default=NUMBERS)
    parser.add_argument("--leaving", type=float, default=SHARE, help="share of members that leave")
    parser.add_argument("--dishonest", type=float, default=SHARE, help="share of members that may be dishonest")
    parser.add_argument("--flower", action="store_true", help="Flower's SecAgg+ as well; with the usual sizes, written")
    options = parser.parse_args()
    every = [
        Sizes(count, options.numbers, int(options.leaving * count), int(options.dishonest * count))
        for count in options.members
    ]
    try:
        costs = measured(every, beside_flower=options.flower)
    except PeerMissing as reason:
        sys.exit(f"Flower is not there: {reason}")
    is_usual = every == [Sizes(count, NUMBERS, int(SHARE * count), int(SHARE * count)) for count in MEMBERS]
    if is_usual and options.flower:
        RESULTS.write_text(json.dumps([asdict(one) for one in costs], indent=2, ensure_ascii=False) + "\n", "utf-8")
        write_page(costs)


if __name__ == "__main__":
    main()
