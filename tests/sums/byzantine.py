"""Dishonest members of a sum, by a seed: honest members run `sudare.sums.party.Party` as it is, the others send whatever they like.

The adversary holds the keys of up to `dishonest` members, sees what is sent to them, and decides when messages between honest members
arrive, when deadlines pass and when members begin another attempt. `World.check` looks at everything from outside.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache

import numpy as np
import pytest

from sudare.errors import SudareError
from sudare.papers.p003_decentralised.attacks import recovered_words
from sudare.sums import masks, member, serverless
from sudare.sums.context import Participant, Roster, SumContext, bitmap, members_in
from sudare.sums.keys import MemberKeys
from sudare.sums.masks import dealt
from sudare.sums.member import MemberState
from sudare.sums.messages import (
    Advertised,
    Affirmed,
    Body,
    Certified,
    Confirmed,
    Dealt,
    Delivered,
    Directory,
    GivenUp,
    Heard,
    Included,
    Masked,
    Message,
    Opened,
    OpenedShares,
    Passed,
    Revealed,
    SumKeys,
    Voted,
    Withdrawn,
    heard_content,
    included_content,
    vote_content,
)
from sudare.sums.neighbours import Neighbourhood
from sudare.sums.party import Party
from sudare.sums.serverless import ServerlessState
from sudare.sums.simulation import simulate
from sudare.sums.statements import KINDS, Statement, stated
from sudare.sums.wire import packed_size

Words = np.ndarray[tuple[int], np.dtype[np.uint64]]
Set = frozenset[int]


def keys_of(number: int) -> MemberKeys:
    parts = (hashlib.sha256(f"{part} of byzantine test member {number}".encode()).digest() for part in "esr")
    return MemberKeys(*parts)


KEYS = [keys_of(number) for number in range(20)]
# X25519 keys of small order: all secrets with them are zero.
SMALL_ORDER = (bytes(32), (1).to_bytes(32, "little"), (2**255 - 20).to_bytes(32, "little"))


@dataclass(frozen=True)
class Setting:
    """How many members, the threshold, how many are dishonest, and in sparse sums the degree and threshold of neighbourhoods."""

    members: int
    threshold: int
    dishonest: int
    degree: int = 0
    share_threshold: int = 0

    def context(self, agreement: str, iteration: int, attempt: int, task: str = "sums") -> SumContext:
        hood = Neighbourhood(self.degree, self.share_threshold) if self.degree else None
        return SumContext(
            agreement, task, iteration, attempt, self.roster, self.threshold, self.dishonest, neighbourhood=hood
        )

    @property
    def roster(self) -> Roster:
        return _roster(self.members)

    @property
    def everyone(self) -> Set:
        return frozenset(range(self.members))


@lru_cache
def _roster(count: int) -> Roster:
    return Roster(tuple(f"member-{number}" for number in range(count)), tuple(each.public for each in KEYS[:count]))


# Thresholds as low as they may be, so that a weaker check is enough for two totals; and what lies above.
LEAVABLE = (
    *(Setting(4, 3, 1), Setting(5, 4, 2), Setting(5, 4, 1), Setting(6, 4, 1), Setting(6, 5, 3), Setting(7, 5, 2)),
)
SPARSE = (Setting(8, 5, 1, 5, 3), Setting(8, 6, 2, 4, 3), Setting(9, 7, 1, 4, 3), Setting(8, 6, 2, 3, 3))
SERVERLESS = (Setting(3, 3, 1), Setting(4, 4, 2), Setting(5, 5, 1), Setting(5, 5, 3), Setting(7, 7, 3))


def choices(context: SumContext) -> dict[int, Set]:
    """Whom every member chooses in a sparse sum."""
    return {
        each: frozenset(Participant(context, each, KEYS[each]).out_neighbours) for each in range(len(context.roster))
    }


def is_connected(chosen: Mapping[int, Set], honest: Set, share_threshold: int) -> bool:
    """What the lemma on neighbourhoods gives but with small probability: no half of the honest members can be separated.

    Contexts as small as those of a test are chosen so that it holds; then all else must hold too.
    """
    dishonest = frozenset(chosen) - honest
    for size in range(1, len(honest) // 2 + 1):
        for some in itertools.combinations(sorted(honest), size):
            inside = dishonest.union(some)
            if all(len(chosen[each] & inside) >= share_threshold for each in some):
                return False
    return True


@lru_cache(maxsize=4096)
def connected_agreement(setting: Setting, honest: Set, iteration: int, attempts: tuple[int, ...], name: str) -> str:
    """The name of an agreement under which the graphs of all these attempts are connected."""
    for nonce in itertools.count():
        agreement = f"{name} {nonce}"
        contexts = (setting.context(agreement, iteration, attempt) for attempt in attempts)
        if all(is_connected(choices(each), honest, setting.share_threshold) for each in contexts):
            return agreement
    raise AssertionError


class Violated(AssertionError):
    """Something that must hold whatever dishonest members do did not."""


@dataclass
class Sent:
    """What honest members did in one attempt, seen from outside."""

    pair_seeds: dict[int, dict[int, bytes]] = field(default_factory=dict)
    masked: dict[int, Words] = field(default_factory=dict)
    dealt_to: dict[int, Set] = field(default_factory=dict)
    revealed: dict[int, OpenedShares] = field(default_factory=dict)
    parcels: list[tuple[Words, Words]] = field(default_factory=list)


class World:
    """Honest members, the adversary, and all that happens."""

    def __init__(self, seed: int, settings: Sequence[Setting] | None = None, plan: str | None = None) -> None:
        self.draw = draw = random.Random(seed)
        self.setting = draw.choice(settings or draw.choice((LEAVABLE, LEAVABLE, SPARSE, SERVERLESS)))
        count = self.setting.members
        self.iteration = draw.randrange(3)
        self.attempts = self._attempts()
        collector = self.iteration % count
        others = [each for each in range(count) if each != collector]
        self.collects_dishonestly = plan is not None or draw.random() < 0.5
        some = draw.sample(others, self.setting.dishonest - int(self.collects_dishonestly))
        self.dishonest = frozenset([*some, *([collector] if self.collects_dishonestly else [])])
        self.honest = self.setting.everyone - self.dishonest
        self.agreement = f"run {seed}"
        if self.setting.degree:
            # Few names, so that the search for connected graphs is made once for many runs.
            self.agreement = connected_agreement(
                self.setting, self.honest, self.iteration, self.attempts, f"graph {seed % 3}"
            )
        self.length = draw.choice((1, 3, 3, 5))
        self.words = {each: _random_words(draw, self.length) for each in self.setting.everyone}
        self.parties: dict[int, dict[int, Party]] = {each: {} for each in self.honest}
        self.saved: dict[int, bytes | None] = dict.fromkeys(self.honest)
        self.persists = draw.random() < 0.1
        self.sent: dict[int, Sent] = defaultdict(Sent)
        self.rows: dict[int, dict[int, Words]] = {}
        self.places: dict[int, dict[int, dict[str, Words]]] = defaultdict(dict)
        self.flight: list[tuple[int, Message]] = []
        self.early: dict[int, list[tuple[int, Message]]] = defaultdict(list)
        self.reached: set[str] = set()
        self.largest = 0
        self.orderly = draw.random() < 0.7
        self.lost = draw.choice((0.0, 0.0, 0.0, 0.03))
        self.adversary = Adversary(self, plan)

    def _attempts(self) -> tuple[int, ...]:
        """Numbers of attempts: with another collector or the same again."""
        count = self.setting.members
        number = self.draw.choice((1, 2, 2, 3))
        return (0, *sorted(self.draw.sample((1, 2, count, count + 1), number - 1)))

    def context(self, attempt: int) -> SumContext:
        return _context(self.setting, self.agreement, self.iteration, attempt)

    def participant(self, position: int, attempt: int) -> Participant:
        return _seat(self.context(attempt), position)

    # What happens

    def run(self) -> None:
        """One sum, until nothing more happens or enough has; then everything is checked."""
        with self._watched_masks():
            for position in sorted(self.honest):
                self.begin(position, 0)
            self.post(0, self.adversary.begun(0))
            for _ in range(400):
                if not self._something_happens():
                    break
        self.check()

    def _something_happens(self) -> bool:
        if self.flight:
            place = 0 if self.orderly else self.draw.randrange(min(len(self.flight), 8))
            attempt, message = self.flight.pop(place)
            if self.draw.random() >= self.lost:
                self.deliver(attempt, message)
            if self.draw.random() < self.adversary.injects:
                attempt = self.draw.choice(self.attempts)
                self.post(attempt, self.adversary.crafted(attempt))
            if self.draw.random() < 0.002:
                self.expire()
            return True
        return self.adversary.acts_when_idle() or self.expire() or self.go_on()

    def post(self, attempt: int, messages: Sequence[Message]) -> None:
        self.flight += [(attempt, message) for message in messages]

    def deliver(self, attempt: int, message: Message) -> None:
        position = message.receiver
        if position in self.dishonest:
            self.adversary.receive(attempt, message)
            return
        current = max(self.parties[position])
        if attempt > current:
            self.early[position].append((attempt, message))
        elif attempt == current:
            if self.persists and self.draw.random() < 0.05:
                self.restart(position, attempt)
            with self.acting(position, attempt):
                party = self.parties[position][attempt]
                before = party.state.member
                outgoing = party.receive(message)
            self._shadow(position, attempt, message, before, outgoing)
            self.look(position, attempt, outgoing)

    def begin(self, position: int, attempt: int) -> None:
        with self.acting(position, attempt):
            party = Party(
                self.participant(position, attempt), self.words[position], self._persist(position), self.saved[position]
            )
            self.parties[position][attempt] = party
            outgoing = party.begin()
        self._shadow_begun(position, attempt, outgoing)
        self.look(position, attempt, outgoing)
        early, self.early[position] = self.early[position], []
        self.flight += early

    def restart(self, position: int, attempt: int) -> None:
        """The member's process ends and starts again from what it saved."""
        with self.acting(position, attempt):
            participant, saved = self.participant(position, attempt), self.saved[position]
            party = Party(participant, self.words[position], self._persist(position), saved)
            self.parties[position][attempt] = party
            again = party.begin()
        self.post(attempt, again)

    def _persist(self, position: int) -> Callable[[bytes], None] | None:
        def kept(content: bytes) -> None:
            self.saved[position] = content

        return kept if self.persists else None

    def expire(self) -> bool:
        """A deadline passes at the honest members that collect."""
        before = len(self.flight)
        for position in sorted(self.honest):
            attempt = max(self.parties[position])
            with self.acting(position, attempt):
                outgoing = self.parties[position][attempt].expire()
            self.look(position, attempt, outgoing)
        return len(self.flight) > before

    def go_on(self) -> bool:
        """Members that are not done begin the next attempt, as `sudare.consortium.tasks.sum_attempts` does."""
        moved = False
        for position in sorted(self.honest):
            attempt = max(self.parties[position])
            party = self.parties[position][attempt]
            later = [each for each in self.attempts if each > attempt]
            is_over = party.total is not None or party.stopped == "contradiction"
            if later and not is_over and self.draw.random() < 0.95:
                if not self.persists:
                    self.saved[position] = party.state.to_bytes()
                self.begin(position, later[0])
                moved = True
        if moved:
            attempt = max(max(each) for each in self.parties.values())
            self.post(attempt, self.adversary.begun(attempt))
        return moved

    @contextmanager
    def acting(self, position: int, attempt: int) -> Iterator[None]:
        """An honest member acts: whatever came, no exception comes out."""
        self.actor = position, attempt
        try:
            yield
        except Exception as error:
            raise Violated(f"member {position} ended with {type(error).__name__}: {error}") from error

    @contextmanager
    def _watched_masks(self) -> Iterator[None]:
        """Which seeds honest members' masks are made of, as they are used."""
        true = masks.add_pair_masks

        def watched(words: Words, owner: int, seeds: Mapping[int, bytes]) -> None:
            position, attempt = self.actor
            if owner == position and position in self.honest:
                self.sent[attempt].pair_seeds.setdefault(position, dict(seeds))
            true(words, owner, seeds)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(member, "add_pair_masks", watched)
            patched.setattr(serverless, "add_pair_masks", watched)
            yield

    def look(self, position: int, attempt: int, outgoing: Sequence[Message]) -> None:
        """Note what an honest member sends, and how large its state is."""
        sent = self.sent[attempt]
        for message in outgoing:
            body = message.body
            if isinstance(body, Dealt):
                sent.dealt_to[position] = frozenset(body.boxes)
            elif isinstance(body, Masked):
                sent.masked[position] = body.words
            elif isinstance(body, Revealed):
                sent.revealed[position] = OpenedShares.from_bytes(body.shares.content)
            self.reached.add(type(body).__name__)
        party = self.parties[position][attempt]
        collected = party.state.collector
        if collected is not None:
            # What a collector says to itself is in its state only.
            if position in collected.boxes:
                sent.dealt_to[position] = frozenset(collected.boxes[position])
            if position in collected.shares:
                sent.revealed[position] = OpenedShares.from_bytes(collected.shares[position].content)
        if party.total is not None:
            self.reached.add("used")
        self.post(attempt, outgoing)
        if self.draw.random() < 0.02:
            self.measure(position, attempt)

    def measure(self, position: int, attempt: int) -> None:
        size = packed_size(self.parties[position][attempt].state)
        self.largest = max(self.largest, size)
        most = most_state_bytes(self.setting.members, self.length, persists=self.persists)
        if size > most:
            raise Violated(f"member {position} keeps {size} bytes of {most}")

    # A shadow of the dissemination: which members' masked vectors are in what is passed on

    def _shadow_begun(self, position: int, attempt: int, outgoing: Sequence[Message]) -> None:
        if isinstance(self.parties[position][attempt].state.member, ServerlessState):
            own = np.zeros(self.setting.members, dtype=np.uint64)
            own[position] = 1
            self.places[attempt][position] = {"window": own, "partial": np.zeros_like(own)}
            self._shadow_sent(position, attempt, outgoing)

    def _shadow_sent(self, position: int, attempt: int, outgoing: Sequence[Message]) -> None:
        shadow = self.places[attempt][position]
        for message in outgoing:
            if isinstance(message.body, Passed):
                for name in ("window", "partial"):
                    vector = getattr(message.body, name)
                    if vector is not None:
                        row = shadow[f"{name} {message.body.round}"] if message.body.round else shadow[name]
                        self.rows[id(vector)] = {"row": row, "vector": vector}
                        if message.receiver in self.dishonest:
                            self.sent[attempt].parcels.append((row, vector))

    def _shadow(
        self, position: int, attempt: int, message: Message, before: object, outgoing: Sequence[Message]
    ) -> None:
        """Follow the vectors through the rounds that this message completed."""
        after = self.parties[position][attempt].state.member
        if not isinstance(before, ServerlessState) or not isinstance(after, ServerlessState):
            return
        body, shadow = message.body, self.places[attempt][position]
        if isinstance(body, Passed) and body.round not in before.waiting:
            is_kept = body.round in after.waiting
            is_used = before.place.round <= body.round < after.place.round
            if is_kept or is_used:
                for name in ("window", "partial"):
                    known = self.rows.get(id(getattr(body, name)))
                    shadow[f"came {name} {body.round}"] = (
                        known["row"]
                        if known is not None and known["vector"] is getattr(body, name)
                        else np.zeros(self.setting.members, dtype=np.uint64)
                    )
        for number in range(before.place.round, after.place.round):
            round_ = serverless.dissemination.rounds_of(self.setting.members)[number]
            window, partial = shadow["window"], shadow["partial"]
            if round_.extends_partial:
                partial = window + shadow[f"came partial {number}"] if round_.sends_partial else window
            if round_.sends_window:
                window = window + shadow[f"came window {number}"]
            shadow |= {"window": window, "partial": partial}
            shadow |= {f"window {number + 1}": window, f"partial {number + 1}": partial}
        self._shadow_sent(position, attempt, outgoing)

    # What must hold

    def check(self) -> None:
        """Raise Violated unless all that must hold does."""
        for position, parties in self.parties.items():
            for attempt, party in parties.items():
                self.measure(position, attempt)
                if party.failure is not None and not str(party.failure):
                    raise Violated("a sum was stopped without a word")
        self._check_totals()
        for attempt in self.sent:
            self._check_opened(attempt)
        self._check_addends()

    def _check_totals(self) -> None:
        """All totals that honest members use for this input are one, and honest members opened one set only."""
        used = {
            (party.included, party.total.tobytes())
            for parties in self.parties.values()
            for party in parties.values()
            if party.total is not None
        }
        if len(used) > 1:
            raise Violated(f"{len(used)} totals were used for one input")
        opened = {
            party.state.member.included
            for parties in self.parties.values()
            for party in parties.values()
            if isinstance(party.state.member, MemberState) and party.state.member.stage in ("opened", "heard")
        }
        if len(opened) > 1:
            raise Violated("shares were given out for two sets of members with one input")
        for content in opened:
            included = members_in(content, self.setting.members)
            if len(included) < self.setting.threshold:
                raise Violated(f"{len(included)} members were opened, fewer than the threshold")
            if len(included & self.honest) < self.setting.threshold - self.setting.dishonest:
                raise Violated("too few honest members are in what was opened")

    def openable(self, attempt: int, *, all_revealed: bool) -> tuple[Set, Set]:
        """Honest members whose self-seeds, and whose keys for masks, the adversary's shares open.

        With all that honest members have revealed, or with what they revealed to a dishonest collector.
        """
        sent, needed = self.sent[attempt], self.context(attempt).share_threshold
        collector = self.context(attempt).collector
        revealed = sent.revealed if all_revealed or collector in self.dishonest else {}
        found: tuple[set[int], set[int]] = (set(), set())
        for owner, holders in sent.dealt_to.items():
            theirs = len(holders & self.dishonest)
            for place, half in enumerate(("of_self_seeds", "of_mask_keys")):
                given = sum(owner in getattr(each, half) for each in revealed.values())
                if theirs + given >= needed:
                    found[place].add(owner)
        return frozenset(found[0]), frozenset(found[1])

    def _check_opened(self, attempt: int) -> None:
        self_seeds, mask_keys = self.openable(attempt, all_revealed=True)
        if self_seeds & mask_keys:
            raise Violated(f"both halves of the secrets of {sorted(self_seeds & mask_keys)} are open")
        for owner in self_seeds:
            states = [parties[attempt].state.member for parties in self.parties.values() if attempt in parties]
            sets = {
                members_in(each.included, self.setting.members)
                for each in states
                if isinstance(each, MemberState) and each.stage in ("opened", "heard")
            }
            if not any(owner in each and len(each) >= self.setting.threshold for each in sets):
                raise Violated(f"the self-mask of {owner} is open without a set that allows it")

    def equations(self) -> tuple[list[dict[bytes | int, int]], list[Words]]:
        """What the adversary sees of honest addends: each as {unknown seed, or member: coefficient}, and the words."""
        rows: list[dict[bytes | int, int]] = []
        observed: list[Words] = []
        for attempt, sent in self.sent.items():
            self_seeds, mask_keys = self.openable(attempt, all_revealed=False)
            own = {each: self._masked_row(attempt, each, self_seeds, mask_keys) for each in sent.pair_seeds}
            if not self.context(attempt).may_leave:
                for counts, vector in sent.parcels:
                    row: dict[bytes | int, int] = defaultdict(int)
                    total = vector.copy()
                    for position in self.honest:
                        times = int(counts[position])
                        for unknown, factor in own[position][0].items() if times else ():
                            row[unknown] += times * factor
                        total -= np.uint64(times) * own[position][1] if times else np.uint64(0)
                    rows.append(row)
                    observed.append(total)
            elif self.context(attempt).collector in self.dishonest:
                for position, vector in sent.masked.items():
                    rows.append(own[position][0])
                    observed.append(vector - own[position][1])
        for parties in self.parties.values():
            for party in parties.values():
                collected = party.state.collector
                if collected is not None and collected.total is not None:
                    # What an honest collector announces to everyone, less what dishonest members put in.
                    among = sorted(self.honest & frozenset(collected.inputs))
                    rows.append(dict.fromkeys(among, 1))
                    observed.append(np.sum([self.words[each] for each in among], axis=0, dtype=np.uint64))
        return rows, observed

    def _masked_row(
        self, attempt: int, position: int, self_seeds: Set, mask_keys: Set
    ) -> tuple[dict[bytes | int, int], Words]:
        """A masked vector as addend and unknown masks, and the sum of its known masks."""
        row: dict[bytes | int, int] = defaultdict(int)
        known = np.zeros(self.length, dtype=np.uint64)
        row[position] = 1
        if self.context(attempt).may_leave:
            seed = masks.self_seed(self.participant(position, attempt))
            if position in self_seeds:
                known = known + masks.mask_of(seed, self.length)
            else:
                row[seed] += 1
        for other, seed in self.sent[attempt].pair_seeds[position].items():
            sign = 1 if position < other else -1
            if other in self.dishonest or {position, other} & mask_keys:
                known = known + np.uint64(sign % 2**64) * masks.mask_of(seed, self.length)
            else:
                row[seed] += sign
        return row, known

    def _check_addends(self) -> None:
        """Whatever can be combined from what was seen is one sum, over at least t − c honest addends (all, where nobody may leave)."""
        rows, observed = self.equations()
        if not rows:
            return
        left, columns = self.matrix(rows)
        unknowns = len(columns) - len(self.honest)
        found = recovered_words(left, np.stack(observed))
        alone = [columns[each] for each in found if each >= unknowns]
        if alone:
            raise Violated(f"the addends of {alone} are determined by what was seen")
        sums = visible_sums(left, unknowns)
        if len(sums) > 1:
            raise Violated("two different sums of honest addends can be computed from what was seen")
        least = self.setting.threshold - self.setting.dishonest
        for each in sums:
            if len(each) < least:
                raise Violated(f"the sum of {len(each)} honest addends, fewer than {least}, can be computed")
            self.reached.add("learnt")

    def matrix(self, rows: Sequence[Mapping[bytes | int, int]]) -> tuple[Words, list[bytes | int]]:
        """Coefficients of unknown seeds and then of honest members, and what the columns are."""
        unknowns = dict.fromkeys(key for row in rows for key in row if isinstance(key, bytes))
        columns: list[bytes | int] = [*unknowns, *sorted(self.honest)]
        place = {key: number for number, key in enumerate(columns)}
        found = np.zeros((len(rows), len(columns)), dtype=np.int64)
        for number, row in enumerate(rows):
            for key, factor in row.items():
                found[number, place[key]] += factor
        return found.astype(np.uint64), columns

    def explains(self, addends: Mapping[int, Words]) -> bool:
        """Whether all that the adversary saw would be the same with these addends of honest members and other masks, as likely as the true ones."""
        rows, observed = self.equations()
        if not rows:
            return True
        left, columns = self.matrix(rows)
        unknowns = len(columns) - len(self.honest)
        values = np.stack([addends[each] for each in sorted(self.honest)])
        rest = np.stack(observed) - left[:, unknowns:] @ values
        reduced = eliminated(np.concatenate([left[:, :unknowns], rest], axis=1), unknowns)
        return not reduced[~reduced[:, :unknowns].any(axis=1)].any()


def visible_sums(combinations: Words, unknowns: int) -> set[Set]:
    """Sets of members whose sums follow from combinations in which the first columns are unknown masks."""
    left = eliminated(combinations, unknowns)
    clear = left[~left[:, :unknowns].any(axis=1)][:, unknowns:]
    return {frozenset(np.flatnonzero(row).tolist()) for row in clear if row.any()}


def eliminated(matrix: Words, columns: int) -> Words:
    """Rows combined modulo 2^64 so that each of the first columns is in one of them only, or in none."""
    left, done = matrix.copy(), 0
    for column in range(columns):
        odd = np.flatnonzero(left[done:, column] & np.uint64(1))
        if len(odd):
            pivot = done + int(odd[0])
            left[[done, pivot]] = left[[pivot, done]]
            left[done] *= np.uint64(pow(int(left[done, column]), -1, 1 << 64))
            factors = left[:, column].copy()
            factors[done] = 0
            left -= np.outer(factors, left[done])
            done += 1
    return left


def most_state_bytes(members: int, length: int, *, persists: bool) -> int:
    """A bound on what a member keeps of a sum: vectors, and of each pair of members a statement, a box and shares; twice if it remembers what it sent."""
    return (1 + persists) * (8_000 + 8 * length * (8 + 2 * members) + 1_500 * members**2)


@lru_cache(maxsize=64)
def _context(setting: Setting, agreement: str, iteration: int, attempt: int) -> SumContext:
    return setting.context(agreement, iteration, attempt)


@lru_cache(maxsize=512)
def _seat(context: SumContext, position: int) -> Participant:
    return Participant(context, position, KEYS[position])


def _random_words(draw: random.Random, length: int) -> Words:
    return np.frombuffer(draw.randbytes(8 * length), dtype="<u8").astype(np.uint64)


@lru_cache(maxsize=64)
def recorded(setting: Setting) -> tuple[Message, ...]:
    """Everything that was sent in another sum of the same members, for replays."""
    context = setting.context("another", 5, 0)
    words = np.arange(3, dtype=np.uint64)
    parties = [Party(Participant(context, each, KEYS[each]), words) for each in range(setting.members)]
    heard: list[Message] = []
    simulate(parties, watch=heard.append)
    return tuple(heard)


# The adversary


@dataclass
class Told:
    """What a dishonest collector tells one honest member in an attempt. Of those in `hidden` it shows neither keys nor boxes."""

    present: Set
    dealers: Set
    included: Set
    total: Words
    hidden: Set = frozenset()


PLANS = (
    "sets",
    "dealers",
    "directories",
    "few",
    "undealt",
    "phantom",
    "isolate",
    "apart",
    "totals",
    "difference",
    "plain",
)


class Adversary:
    """Members that run the honest program and lie now and then, send what they make up, or collect by a plan."""

    def __init__(self, world: World, plan: str | None) -> None:
        self.world, self.draw = world, world.draw
        draw = world.draw
        self.lies = draw.choice((0.02, 0.05, 0.05, 0.1, 0.3)) if plan is None else 0.0
        self.injects = draw.choice((0.0, 0.0, 0.02, 0.5)) if plan is None else 0.0
        self.plan = plan
        if plan is None and world.collects_dishonestly and world.setting.threshold < world.setting.members:
            self.plan = draw.choice((None, *PLANS)) if draw.random() < 0.6 else None
        self.parties: dict[int, dict[int, Party]] = defaultdict(dict)
        self.seen: list[tuple[int, Message]] = []
        self.statements: list[Statement] = []
        self.held: list[tuple[int, Message]] = []
        self.collectors: dict[int, DishonestCollector] = {}

    @property
    def members(self) -> list[int]:
        return sorted(self.world.dishonest)

    def begun(self, attempt: int) -> list[Message]:
        """What dishonest members send at the beginning of an attempt."""
        context = self.world.context(attempt)
        if self.plan is not None and context.may_leave and context.collector in self.world.dishonest:
            self.collectors.setdefault(attempt, DishonestCollector(self, attempt))
            return []
        outgoing: list[Message] = []
        for position in self.members:
            if position not in self.parties[attempt]:
                participant = self.world.participant(position, attempt)
                party = Party(participant, self.world.words[position])
                self.parties[attempt][position] = party
                outgoing += self.said(attempt, party.begin())
        return outgoing

    def receive(self, attempt: int, message: Message) -> None:
        self.seen.append((attempt, message))
        self.statements += [each for each in vars(message.body).values() if isinstance(each, Statement)]
        if isinstance(message.body, Directory):
            self.statements += message.body.keys.values()
        if attempt in self.collectors:
            self.collectors[attempt].receive(message)
            return
        party = self.parties[attempt].get(message.receiver)
        if party is not None:
            self.world.actor = -1, attempt
            self.world.post(attempt, self.said(attempt, party.receive(message)))

    def said(self, attempt: int, outgoing: Sequence[Message]) -> list[Message]:
        """What is sent in place of what the honest program sends."""
        found: list[Message] = []
        for message in outgoing:
            if message.receiver in self.world.dishonest:
                found.append(message)
            elif self.draw.random() < self.lies:
                found += self.lie(attempt, message)
            else:
                found.append(message)
        return found

    def acts_when_idle(self) -> bool:
        world = self.world
        before = len(world.flight)
        for collector in self.collectors.values():
            world.post(collector.attempt, collector.acts())
        if self.held and len(world.flight) == before:
            held, self.held = self.held, []
            world.flight += held
        if len(world.flight) == before:
            for attempt, parties in self.parties.items():
                for party in parties.values():
                    world.actor = -1, attempt
                    world.post(attempt, self.said(attempt, party.expire()))
        return len(world.flight) > before

    # Lies

    def lie(self, attempt: int, message: Message) -> list[Message]:
        kind = self.draw.randrange(8)
        if kind == 0:
            return []
        if kind == 1:
            return [message, message]
        if kind == 2:
            self.held.append((attempt, message))
            return []
        if kind == 3:
            return [message, *self.crafted(attempt)]
        if kind == 4:
            return self.well_formed(replace(message, body=self.replayed(type(message.body), message.body)))
        return self.well_formed(replace(message, body=self.changed(attempt, message.body)))

    def well_formed(self, message: Message) -> list[Message]:
        """The message as its bytes are read; nothing if it has no bytes that are one."""
        try:
            return [Message.from_bytes(message.to_bytes())]
        except (SudareError, TypeError, OverflowError):
            return []

    def replayed(self, kind: type, otherwise: Body) -> Body:
        """A body of this kind of another attempt, sum or member."""
        bodies = [message.body for _, message in self.seen] + [each.body for each in recorded(self.world.setting)]
        return self.draw.choice([each for each in bodies if isinstance(each, kind)] or [otherwise])

    def changed(self, attempt: int, body: Body) -> Body:
        """With another value in one of its fields."""
        names = [each.name for each in fields(body)]
        if not names:
            return body
        name = self.draw.choice(names)
        return replace(body, **{name: self.other(attempt, getattr(body, name))})

    def other(self, attempt: int, value: object) -> object:
        draw = self.draw
        if isinstance(value, Statement):
            return self.other_statement(attempt, value)
        if isinstance(value, bytes):
            return self.other_bytes(value)
        if isinstance(value, np.ndarray):
            return self.other_words(value)
        if isinstance(value, Mapping):
            return self.other_mapping(attempt, dict(value))
        if isinstance(value, int):
            return draw.choice((value + 1, value - 1, -1, 2**40, draw.randrange(10)))
        return draw.choice((None, _random_words(draw, self.world.length)))

    def other_bytes(self, value: bytes) -> bytes:
        draw = self.draw
        kind = draw.randrange(6)
        if kind == 0 or not value:
            return draw.choice((b"", draw.randbytes(draw.randrange(1, 100)), bytes(50_000)))
        if kind == 1:
            return value[: draw.randrange(len(value))]
        if kind == 2:
            return value + draw.randbytes(draw.randrange(1, 64))
        if kind == 3:
            return bitmap(self.some_members(), self.world.setting.members)
        spot = draw.randrange(len(value))
        return value[:spot] + bytes([value[spot] ^ (1 << draw.randrange(8))]) + value[spot + 1 :]

    def other_words(self, value: Words) -> Words | None:
        draw = self.draw
        return draw.choice(
            (
                _random_words(draw, len(value)),
                value + np.uint64(1 << 28),
                _random_words(draw, len(value) + 1),
                np.zeros(0, dtype=np.uint64),
                np.zeros((1, len(value)), dtype=np.uint64),
                np.zeros(20_000, dtype=np.uint64),
            )
        )

    def other_mapping(self, attempt: int, value: dict[int, object]) -> dict[int, object]:
        draw = self.draw
        if not value:
            return {draw.randrange(-1, 12): self.statement(attempt)}
        key = draw.choice(sorted(value))
        kind = draw.randrange(5)
        if kind == 0:
            del value[key]
        elif kind == 1:
            value[draw.choice((-1, 2**33, draw.randrange(12)))] = value[key]
        elif kind == 2:
            value[key] = value[draw.choice(sorted(value))]
        else:
            value[key] = self.other(attempt, value[key])
        return value

    def other_statement(self, attempt: int, value: Statement) -> Statement:
        draw = self.draw
        kind = draw.randrange(5)
        if kind == 0 and self.statements:
            return draw.choice(self.statements)
        if kind == 1:
            return replace(value, signer=draw.choice((-1, 2**40, draw.randrange(10))))
        if kind == 2:
            return replace(value, content=self.other_bytes(value.content))
        if kind == 3 and value.signer in self.world.dishonest:
            participant = self.world.participant(value.signer, draw.choice((attempt, attempt, 0)))
            return stated(participant, value.kind, self.other_bytes(value.content))
        return self.statement(attempt, value.kind if value.kind in KINDS else None)

    # What is made up

    def some_members(self, least: int = 0) -> Set:
        everyone = sorted(self.world.setting.everyone)
        return frozenset(self.draw.sample(everyone, self.draw.randint(least, len(everyone))))

    def many_members(self) -> Set:
        return self.some_members(self.world.setting.threshold)

    def statement(self, attempt: int, kind: str | None = None) -> Statement:
        """Signed by a dishonest member, about anything; or one that was seen."""
        draw, world = self.draw, self.world
        if self.statements and draw.random() < 0.3:
            return draw.choice(self.statements)
        kind = draw.choice(KINDS) if kind is None else kind
        context = world.context(attempt)
        words = draw.choice((world.words[self.members[0]], _random_words(draw, world.length)))
        contents = {
            "keys": self.sum_keys(attempt),
            "dealers": bitmap(self.many_members(), len(context.roster)),
            "included": included_content(context, self.many_members()),
            "vote": vote_content(context, self.many_members(), self.many_members()),
            "shares": self.shares(),
            "total": heard_content(context, self.many_members(), words),
            "heard": heard_content(context, self.many_members(), words),
        }
        content = draw.randbytes(40) if draw.random() < 0.1 else contents[kind]
        if kind == "heard" and draw.random() < 0.3:
            content = bytes(60_000)
        return stated(world.participant(draw.choice(self.members), attempt), kind, content)

    def sum_keys(self, attempt: int) -> bytes:
        """Keys of its own, of small order, or those of others."""
        draw, world = self.draw, self.world
        theirs = [each.content[:32] for each in self.statements if each.kind == "keys"]
        key = draw.choice((*SMALL_ORDER, draw.randbytes(32), *theirs))
        chosen = sorted(draw.sample(range(world.setting.members), world.setting.degree))
        return SumKeys(key, draw.randbytes(32), tuple(chosen)).to_bytes()

    def shares(self) -> bytes:
        def some() -> dict[int, Words]:
            owners = self.draw.sample((*range(12), 2**32 - 1), self.draw.randrange(5))
            return {each: _random_words(self.draw, 5) & np.uint64(2**60 - 1) for each in owners}

        return OpenedShares(some(), some()).to_bytes()

    def crafted(self, attempt: int) -> list[Message]:
        """A well-formed message of any kind from a dishonest member to an honest one."""
        draw, world = self.draw, self.world
        count, context = world.setting.members, world.context(attempt)
        kind = draw.choice(
            (Advertised, Dealt, Masked, Voted, Revealed, Withdrawn, Directory, Delivered, Included, Certified, Opened)
            + (Passed, Heard, Heard, GivenUp, Affirmed, Confirmed)
        )
        words = self.other_words(world.words[self.members[0]])
        boxes = {each: draw.randbytes(draw.choice((0, 15, 96, 96, 96))) for each in self.some_members()}
        bodies = {
            Dealt: lambda: Dealt(boxes),
            Masked: lambda: Masked(words, self.statement(attempt, "dealers")),
            Withdrawn: Withdrawn,
            GivenUp: GivenUp,
            Directory: lambda: Directory(
                bitmap(self.many_members(), count), {each: self.statement(attempt, "keys") for each in range(count)}
            ),
            Delivered: lambda: Delivered(bitmap(self.many_members(), count), boxes),
            Included: lambda: Included(self.statement(attempt, "included")),
            Certified: lambda: Certified(bitmap(self.many_members(), count), draw.randbytes(64 * count), boxes),
            Confirmed: lambda: Confirmed(bitmap(self.many_members(), count), draw.randbytes(64 * count)),
            Affirmed: lambda: Affirmed(self.statement(attempt, "heard")),
            Opened: lambda: Opened(words, self.statement(attempt, "total")),
            Passed: lambda: Passed(draw.randrange(4), words, draw.choice((None, words))),
            Heard: lambda: Heard(self.statement(attempt, "heard"), draw.choice((None, self.statement(attempt)))),
            Advertised: lambda: Advertised(self.statement(attempt, "keys")),
            Voted: lambda: Voted(self.statement(attempt, "vote")),
            Revealed: lambda: Revealed(self.statement(attempt, "shares")),
        }
        body = bodies[kind]() if draw.random() < 0.7 else self.replayed(kind, bodies[kind]())
        sender = context.collector if context.collector in self.members and draw.random() < 0.7 else None
        sender = draw.choice(self.members) if sender is None else sender
        return self.well_formed(Message(sender, draw.choice(sorted(world.honest)), body))


class DishonestCollector:
    """A dishonest collector in one attempt: it tells each honest member what its plan says, and knows everything its members know."""

    def __init__(self, adversary: Adversary, attempt: int) -> None:
        self.adversary, self.attempt, self.world = adversary, attempt, adversary.world
        self.draw, self.context = adversary.draw, adversary.world.context(attempt)
        self.keys: dict[int, Statement] = {}
        self.boxes: dict[int, dict[int, bytes]] = {}
        self.dealers: dict[int, Statement] = {}
        self.votes: dict[int, Statement] = {}
        self.affirmed: dict[int, Statement] = {}
        self.phase = 0
        self.told: dict[int, Told] = {}
        self.untold: Set = frozenset()

    def receive(self, message: Message) -> None:
        body = message.body
        if isinstance(body, Advertised):
            self.keys[message.sender] = body.keys
        elif isinstance(body, Dealt):
            self.boxes[message.sender] = dict(body.boxes)
        elif isinstance(body, Masked):
            self.dealers[message.sender] = body.dealers
        elif isinstance(body, Voted):
            self.votes[message.sender] = body.vote
        elif isinstance(body, Affirmed):
            self.affirmed[message.sender] = body.heard

    def acts(self) -> list[Message]:
        """The messages of the next round to all honest members."""
        phases = (
            *(self.directory, self.delivered, self.included, self.certified, self.opened, self.heard),
            self.confirmed,
        )
        if self.phase == len(phases):
            return []
        if self.phase == 0:
            for position in self.world.dishonest:
                participant = self.world.participant(position, self.attempt)
                self.keys[position] = member.begun(participant, self.world.words[position])[1][0].body.keys
            self.told = self.planned()
        say = phases[self.phase]
        self.phase += 1
        found: list[Message] = []
        for position in sorted(self.told):
            bodies = say(position, self.told[position])
            for body in bodies if isinstance(bodies, list) else [bodies]:
                sender = body.heard.signer if isinstance(body, Heard) else self.context.collector
                found.append(Message(sender, position, body))
        return self.adversary.said(self.attempt, found) if self.draw.random() < 0.3 else found

    # What it tells one member

    def neighbours(self, position: int, told: Told) -> list[int]:
        """Those whose keys the member is shown."""
        there = told.present - {position}
        if not self.context.is_sparse:
            return sorted(there - told.hidden)
        near = [each for each in there if each in self.chosen[position] or position in self.chosen[each]]
        return sorted(each for each in near if each not in told.hidden)

    @property
    def chosen(self) -> dict[int, Set]:
        return _choices(self.context)

    def directory(self, position: int, told: Told) -> Body:
        shown = {each: self.keys[each] for each in self.neighbours(position, told) if each in self.keys}
        return Directory(bitmap(told.present, len(self.context.roster)), shown)

    def delivered(self, position: int, told: Told) -> Body:
        count = len(self.context.roster)
        boxes = {}
        for dealer in self.neighbours(position, told):
            if dealer not in told.dealers or (self.context.is_sparse and position not in self.chosen[dealer]):
                continue
            if dealer in self.world.dishonest:
                boxes[dealer] = _box(
                    self.world.participant(dealer, self.attempt), bitmap(told.present, count), position
                )
            elif position in self.boxes.get(dealer, {}):
                boxes[dealer] = self.boxes[dealer][position]
        return Delivered(bitmap(told.dealers, count), boxes)

    def included(self, position: int, told: Told) -> Body:
        participant = self.world.participant(self.context.collector, self.attempt)
        return Included(stated(participant, "included", included_content(self.context, told.included)))

    def certified(self, position: int, told: Told) -> Body:
        content = vote_content(self.context, told.dealers, told.included)
        votes = self.signed_by_all("vote", content, self.votes)
        voters = sorted(frozenset(votes) & told.included)
        dealers = bitmap(told.dealers, len(self.context.roster))
        owners = self.signed_by_all("dealers", dealers, self.dealers)
        # A true signature over something else where there is none.
        owners = {each: said.signature for each, said in self.dealers.items()} | owners
        return Certified(
            bitmap(voters, len(self.context.roster)),
            b"".join(votes[each] for each in voters),
            dict(sorted(owners.items())),
        )

    def signed_by_all(self, kind: str, content: bytes, said: Mapping[int, Statement]) -> dict[int, bytes]:
        """Signatures of all dishonest members, and of the honest ones that said just this."""
        found = {
            each: stated(self.world.participant(each, self.attempt), kind, content).signature
            for each in self.world.dishonest
        }
        return found | {each: vote.signature for each, vote in said.items() if vote.content == content}

    def confirmed(self, position: int, told: Told) -> Body | list[Body]:
        opened = self.opened(position, told)
        if not isinstance(opened, Opened):
            return []
        found = self.signed_by_all("heard", opened.total.content, self.affirmed)
        hearers = sorted(found)
        return Confirmed(bitmap(hearers, len(self.context.roster)), b"".join(found[each] for each in hearers))

    def opened(self, position: int, told: Told) -> Body | list[Body]:
        later = [each for each in self.world.attempts if each > self.attempt]
        if position in self.untold or (self.adversary.plan in ("phantom", "difference") and later):
            # Kept back, so that members begin another attempt with the same input.
            return []
        participant = self.world.participant(self.context.collector, self.attempt)
        return Opened(told.total, stated(participant, "total", heard_content(self.context, told.included, told.total)))

    def heard(self, position: int, told: Told) -> list[Body]:
        opened = self.opened(position, told)
        if not isinstance(opened, Opened):
            return []
        content = opened.total.content
        participants = [self.world.participant(each, self.attempt) for each in sorted(self.world.dishonest)]
        return [Heard(stated(participant, "heard", content), opened.total) for participant in participants]

    # Plans

    def planned(self) -> dict[int, Told]:
        """What each honest member that is there is told."""
        world, draw, setting = self.world, self.draw, self.world.setting
        there = sorted(world.honest & frozenset(self.keys))
        total = _random_words(draw, world.length)
        everyone = world.dishonest.union(there)
        plan = self.adversary.plan
        leaving = max(0, len(everyone) - setting.threshold)
        half = draw.sample(there, len(there) // 2)
        groups = [frozenset(half), frozenset(there) - frozenset(half)]
        if plan in ("sets", "dealers", "directories"):
            sets = [self.less_some_of(everyone, groups[1], leaving), self.less_some_of(everyone, groups[0], leaving)]
            both = []
            for each in sets:
                present = each if plan == "directories" else everyone
                dealers = everyone if plan == "sets" else each
                both.append(Told(present, dealers, each, total))
            return {each: both[0 if each in groups[0] else 1] for each in there}
        if plan == "few":
            size = draw.randrange(1, setting.threshold)
            return {each: Told(everyone, everyone, self.few_with(each, size), total) for each in there}
        if plan == "undealt":
            dealers = self.less_some_of(everyone, frozenset(there), leaving)
            included = self.less_some_of(dealers, frozenset(there), leaving) | (everyone - dealers)
            return {each: Told(everyone, dealers, included, total) for each in there}
        if plan == "phantom":
            return self.with_phantom(there, everyone, total, leaving)
        if plan == "isolate":
            return self.isolating(there, everyone, total, leaving)
        if plan == "apart":
            return self.setting_apart(there, everyone, total, leaving)
        if plan == "totals":
            told = Told(everyone, everyone, self.less_some_of(everyone, frozenset(there), leaving), total)
            other = replace(told, total=total + np.uint64(1))
            self.untold = (
                frozenset(draw.sample(there, draw.randrange(len(there)))) if draw.random() < 0.5 else frozenset()
            )
            return {each: told if each in groups[0] else other for each in there}
        included = self.less_some_of(everyone, frozenset(there), leaving)
        dealers = everyone if plan == "difference" else self.less_some_of(everyone, frozenset(there) & included, 0)
        return dict.fromkeys(there, Told(everyone, dealers, included, total))

    def less_some_of(self, everyone: Set, some: Set, most: int) -> Set:
        """Claim that members of `some` have left, though they live."""
        count = self.draw.randint(0 if self.adversary.plan == "totals" else min(1, most), most)
        return everyone - frozenset(self.draw.sample(sorted(some), min(count, len(some))))

    def few_with(self, position: int, size: int) -> Set:
        others = sorted(self.world.setting.everyone - {position})
        return frozenset([position, *self.draw.sample(others, size - 1)])

    def with_phantom(self, there: list[int], everyone: Set, total: Words, leaving: int) -> dict[int, Told]:
        """One honest member is said to be in the sum and shown to nobody; those who chose it are said to have left. Later it is in it."""
        earlier = next((each for each in self.adversary.collectors.values() if each.attempt < self.attempt), None)
        if earlier is not None and earlier.told:
            included = next(iter(earlier.told.values())).included
            return dict.fromkeys(sorted(included & frozenset(there)), Told(everyone, included, included, total))
        chosen_by = {each: frozenset(other for other in there if each in self.chosen[other]) - {each} for each in there}
        phantom = min(there, key=lambda each: (len(chosen_by[each]), each))
        included = everyone - chosen_by[phantom]
        if len(chosen_by[phantom]) > leaving:
            included = everyone - frozenset(sorted(chosen_by[phantom])[: max(leaving, 0)])
        told = Told(everyone, included, included, total, frozenset({phantom}))
        return dict.fromkeys(sorted(included & frozenset(there) - {phantom}), told)

    def near(self, there: list[int]) -> dict[int, list[int]]:
        """Honest members that mask with each other."""
        return {
            each: [other for other in there if other in self.chosen[each] or each in self.chosen[other]]
            for each in there
        }

    def isolating(self, there: list[int], everyone: Set, total: Words, leaving: int) -> dict[int, Told]:
        """Claim that the honest neighbours of one member have left."""
        near = self.near(there)
        victim = min(there, key=lambda each: (len(near[each]), each))
        included = everyone - frozenset(sorted(near[victim])[:leaving])
        return dict.fromkeys(there, Told(everyone, included if self.draw.random() < 0.5 else everyone, included, total))

    def setting_apart(self, there: list[int], everyone: Set, total: Words, leaving: int) -> dict[int, Told]:
        """Tell one member that only those of its neighbours have dealt that are then said to have left."""
        near, needed, chosen = self.near(there), self.context.share_threshold, self.chosen
        for victim, count in itertools.product(there, range(leaving + 1)):
            for some in itertools.combinations(near[victim], count):
                gone, silent = frozenset(some), frozenset(near[victim]) - frozenset(some)
                voters = [each for each in frozenset(there) - gone - {victim} if len(chosen[each] - gone) >= needed]
                opening = self.world.dishonest.union(voters)
                is_open = all(len(chosen[each] & opening) >= needed for each in (victim, *gone))
                has_enough = len(chosen[victim] - silent) >= needed and len(silent) <= leaving
                if is_open and has_enough and len(opening) >= self.context.threshold:
                    told = Told(everyone, everyone, everyone - gone, total)
                    return dict.fromkeys(there, told) | {victim: replace(told, dealers=everyone - silent)}
        return dict.fromkeys(there, Told(everyone, everyone, everyone, total))


@lru_cache(maxsize=64)
def _choices(context: SumContext) -> dict[int, Set]:
    return choices(context)


def _box(participant: Participant, present: bytes, receiver: int) -> bytes:
    holders = tuple(each for each in participant.out_neighbours if each == receiver)
    return dealt(participant, present, holders)[1][receiver] if holders else b""
