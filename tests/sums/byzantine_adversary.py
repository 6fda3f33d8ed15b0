"""What dishonest members of a sum and a dishonest collector send, by a seed."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from sudare.errors import SudareError
from sudare.sums import member
from sudare.sums.context import Participant, bitmap
from sudare.sums.masks import dealt
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
    vote_content,
)
from sudare.sums.party import Party
from sudare.sums.relay_collector import RelayCollector
from sudare.sums.statements import KINDS, Statement, stated
from tests.sums.byzantine_settings import (
    SMALL_ORDER,
    Set,
    Words,
    cached_choices,
    random_vector,
    recorded,
)

if TYPE_CHECKING:
    from tests.sums.byzantine import World


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
        self.parties: dict[int, dict[int, Party | RelayCollector]] = defaultdict(dict)
        self.seen: list[tuple[int, Message]] = []
        self.statements: list[Statement] = []
        self.held: list[tuple[int, Message]] = []
        self.collectors: dict[int, DishonestCollector] = {}

    @property
    def members(self) -> list[int]:
        return sorted(self.world.dishonest)

    @property
    def liars(self) -> list[int]:
        """Dishonest members, and a relay that collects."""
        return sorted(self.world.liars)

    def begun(self, attempt: int) -> list[Message]:
        """What dishonest members send at the beginning of an attempt."""
        context = self.world.context(attempt)
        if self.plan is not None and context.may_leave and context.collector in self.world.liars:
            self.collectors.setdefault(attempt, DishonestCollector(self, attempt))
            return []
        outgoing: list[Message] = []
        for position in self.liars:
            if position not in self.parties[attempt]:
                participant = self.world.participant(position, attempt)
                words = self.world.words.get(position)
                party = RelayCollector(participant, self.world.length) if words is None else Party(participant, words)
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
            if message.receiver in self.world.liars:
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
        return draw.choice((None, random_vector(draw, self.world.length)))

    def other_bytes(self, value: bytes) -> bytes:
        draw = self.draw
        kind = draw.randrange(6)
        if kind == 0 or not value:
            named = bitmap(self.some_members(), self.world.setting.members)
            return draw.choice((b"", draw.randbytes(draw.randrange(1, 100)), bytes(50_000), named))
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
                random_vector(draw, len(value)),
                value + np.uint64(1 << 28),
                random_vector(draw, len(value) + 1),
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
        if kind == 3 and value.signer in self.world.liars:
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
        words = draw.choice((world.words[self.members[0]], random_vector(draw, world.length)))
        contents = {
            "keys": self.sum_keys(attempt),
            "dealers": bitmap(self.many_members(), len(context.roster)),
            "included": context.bitmap(self.many_members()),
            "vote": vote_content(context, self.many_members(), self.many_members()),
            "shares": self.shares(),
            "total": heard_content(context, self.many_members(), words),
            "heard": heard_content(context, self.many_members(), words),
        }
        content = draw.randbytes(40) if draw.random() < 0.1 else contents[kind]
        if kind == "heard" and draw.random() < 0.3:
            content = bytes(60_000)
        return stated(world.participant(draw.choice(self.liars), attempt), kind, content)

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
            return {each: random_vector(self.draw, 5) & np.uint64(2**60 - 1) for each in owners}

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
            Advertised: lambda: Advertised(self.statement(attempt, "keys"), bitmap(self.many_members(), count)),
            Voted: lambda: Voted(self.statement(attempt, "vote")),
            Revealed: lambda: Revealed(self.statement(attempt, "shares")),
        }
        body = bodies[kind]() if draw.random() < 0.7 else self.replayed(kind, bodies[kind]())
        sender = context.collector if context.collector in self.liars and draw.random() < 0.7 else None
        sender = draw.choice(self.liars) if sender is None else sender
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
        return cached_choices(self.context)

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
        return Included(stated(participant, "included", self.context.bitmap(told.included)))

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
        participants = [self.world.participant(each, self.attempt) for each in self.adversary.liars]
        return [Heard(stated(participant, "heard", content), opened.total) for participant in participants]

    # Plans

    def planned(self) -> dict[int, Told]:
        """What each honest member that is there is told."""
        world, draw, setting = self.world, self.draw, self.world.setting
        there = sorted(world.honest & frozenset(self.keys))
        if not there:
            return {}
        total = random_vector(draw, world.length)
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


def _box(participant: Participant, present: bytes, receiver: int) -> bytes:
    holders = tuple(each for each in participant.out_neighbours if each == receiver)
    return dealt(participant, present, holders)[1][receiver] if holders else b""
