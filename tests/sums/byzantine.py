"""Dishonest members of a sum, by a seed: honest members run `sudare.sums.party.Party` as it is, the others send whatever they like.

The adversary holds the keys of up to `dishonest` members, and those of the relay where it collects, sees what is sent to them, and decides when messages between honest members
arrive, when deadlines pass and when members begin another attempt. `World.check` looks at everything from outside.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest

from sudare.sums import masks, member, serverless
from sudare.sums.canonical_encoding import packed_size
from sudare.sums.context import Participant, SumContext, members_in
from sudare.sums.member import MemberState
from sudare.sums.messages import (
    Dealt,
    Masked,
    Message,
    OpenedShares,
    Passed,
    Revealed,
)
from sudare.sums.party import Party
from sudare.sums.serverless import ServerlessState
from tests.sums.byzantine_adversary import Adversary
from tests.sums.byzantine_settings import (
    LEAVABLE,
    SERVERLESS,
    SPARSE,
    Set,
    Setting,
    Words,
    connected_agreement,
    context_at,
    participant_at,
    random_vector,
)
from tests.sums.word_equations import recovered_words


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
        self.collects_dishonestly = plan is not None or draw.random() < 0.5 or self.setting.is_relayed
        if self.setting.is_relayed:
            self.dishonest = frozenset(draw.sample(range(count), self.setting.dishonest))
        else:
            some = draw.sample(others, self.setting.dishonest - int(self.collects_dishonestly))
            self.dishonest = frozenset([*some, *([collector] if self.collects_dishonestly else [])])
        # Dishonest members, and the relay at the position after the last member.
        self.liars = self.dishonest | ({count} if self.setting.is_relayed else set())
        self.honest = self.setting.everyone - self.dishonest
        self.agreement = f"run {seed}"
        if self.setting.degree:
            # Few names, so that the search for connected graphs is made once for many runs.
            self.agreement = connected_agreement(
                self.setting, self.honest, self.iteration, self.attempts, f"graph {seed % 3}"
            )
        self.length = draw.choice((1, 3, 3, 5))
        self.words = {each: random_vector(draw, self.length) for each in self.setting.everyone}
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
        return context_at(self.setting, self.agreement, self.iteration, attempt)

    def participant(self, position: int, attempt: int) -> Participant:
        return participant_at(self.context(attempt), position)

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
        if position in self.liars:
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
        revealed = sent.revealed if all_revealed or collector in self.liars else {}
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
            elif self.context(attempt).collector in self.liars:
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
