"""What a lying collector and dishonest members hold of sums, as equations: which combinations of honest addends they determine.

Honest members run the code as it is. The adversary tells each of them other sets of members if it likes, votes for everything, and keeps all it gets.
Streams whose seeds it cannot compute are unknowns, as if they were uniform; a stream is named by its seed, so one that is used twice is one
unknown. All is linear modulo 2^64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sudare.sums import masks, member, serverless
from sudare.sums.context import Participant, SumContext, bitmap, members_in
from sudare.sums.input_records import InputRecord
from sudare.sums.masks import (
    MaskKey,
    fresh_pair_seed,
    lasting_pair_seed,
    mask_of,
    mask_secret,
    opened_box,
    self_seed,
)
from sudare.sums.member import MemberState
from sudare.sums.messages import (
    Advertised,
    Body,
    Certified,
    Dealt,
    Delivered,
    Directory,
    Included,
    Masked,
    Members,
    Message,
    OpenedShares,
    Passed,
    Revealed,
    SumKeys,
    Voted,
)
from sudare.sums.shamir import seed_or_none
from sudare.sums.statements import Statement, stated
from tests.sums.parties import participants, secrets_from

Words = NDArray[np.uint64]
Unknown = tuple[str, bytes, int]
"""("addend", digest of the input, member) or ("stream", seed, 0)."""


@dataclass
class View:
    """What the adversary holds of one attempt: masked vectors of honest members, what they are made of, and the seeds it can compute."""

    where: SumContext
    masked: dict[int, Words] = field(default_factory=dict)
    made_of: dict[int, dict[Unknown, int]] = field(default_factory=dict)
    known_seeds: set[bytes] = field(default_factory=set)
    votes: dict[int, bytes] = field(default_factory=dict)
    records: dict[int, InputRecord] = field(default_factory=dict)
    self_shares: dict[int, dict[int, Words]] = field(default_factory=dict)
    key_shares: dict[int, dict[int, Words]] = field(default_factory=dict)


Told = Mapping[str, Callable[[int], Members]]
"""What the adversary says to each member: who is "present", who has "dealt", who is "included"."""


def attacked(
    where: SumContext, words: Words, corrupt: Members, told: Told, records: Mapping[int, InputRecord] | None = None
) -> View:
    """An attempt under a collector that tells each member what it likes, and has dishonest members sign whatever helps it."""
    places = participants(where)
    count = len(places)
    everyone = frozenset(range(count))
    said = {stage: told.get(stage, lambda _: everyone) for stage in ("present", "dealt", "included")}
    states: dict[int, MemberState] = {}
    earlier = records or {}

    def answers(bodies: Mapping[int, Body]) -> dict[int, Body]:
        """What members answer who are still there."""
        found: dict[int, Body] = {}
        for position, body in bodies.items():
            if position in states and states[position].stopped is None:
                message = Message(where.collector, position, body)
                states[position], outgoing = member.step(places[position], states[position], message)
                for each in outgoing:
                    if each.receiver == where.collector:
                        found[position] = each.body
        return found

    keys: dict[int, Statement] = {}
    for position, participant in enumerate(places):
        states[position], (message,) = member.begun(participant, words[position], earlier.get(position))
        assert isinstance(message.body, Advertised)
        keys[position] = message.body.keys
    chosen = {
        position: frozenset(SumKeys.from_bytes(each.content, where, position).neighbours)
        if where.is_sparse
        else everyone - {position}
        for position, each in keys.items()
    }

    def directory(position: int) -> Directory:
        present = said["present"](position)
        near = [o for o in sorted(present - {position}) if o in chosen[position] or position in chosen[o]]
        return Directory(bitmap(present, count), {other: keys[other] for other in near})

    dealt = answers({position: directory(position) for position in everyone if position in said["present"](position)})
    boxes = {position: body.boxes for position, body in dealt.items() if isinstance(body, Dealt)}
    present_to = {position: states[position].present for position in boxes}

    def delivery(position: int) -> Delivered:
        dealers = said["dealt"](position)
        inbox = {sender: each[position] for sender, each in boxes.items() if sender in dealers and position in each}
        return Delivered(bitmap(dealers, count), inbox)

    vectors = answers({position: delivery(position) for position in boxes})
    inputs = {position: body for position, body in vectors.items() if isinstance(body, Masked)}
    view = View(where)
    for position, body in inputs.items():
        if position not in corrupt:
            view.masked[position] = body.words
            view.made_of[position] = _composition(places[position], states[position], words[position], body.words)

    collector = places[where.collector]
    cast = answers(
        {
            position: Included(stated(collector, "included", where.bitmap(said["included"](position))))
            for position in inputs
        }
    )
    votes = {position: body.vote for position, body in cast.items() if isinstance(body, Voted)}
    view.votes = {position: vote.content for position, vote in votes.items() if position not in corrupt}

    def certificate(position: int) -> Certified:
        """All votes equal to this member's, with those that dishonest members are glad to sign."""
        state, content = states[position], votes[position].content
        included = members_in(state.included, count)
        signed = {voter: vote.signature for voter, vote in votes.items() if vote.content == content}
        signed |= {each: stated(places[each], "vote", content).signature for each in corrupt}
        signed = {voter: signature for voter, signature in sorted(signed.items()) if voter in included}
        dealers = {owner: body.dealers.signature for owner, body in inputs.items()}
        dealers |= {each: stated(places[each], "dealers", state.dealers).signature for each in corrupt}
        return Certified(bitmap(signed, count), b"".join(signed.values()), dealers)

    revealed = answers({position: certificate(position) for position in votes})
    view.records = {position: state.record for position, state in states.items()}
    for position, body in revealed.items():
        if isinstance(body, Revealed):
            shares = OpenedShares.from_bytes(body.shares.content)
            for owner, share in shares.of_self_seeds.items():
                view.self_shares.setdefault(owner, {})[position] = share
            for owner, share in shares.of_mask_keys.items():
                view.key_shares.setdefault(owner, {})[position] = share
    for owner in set(boxes) - corrupt:
        for holder in corrupt & frozenset(boxes[owner]):
            held = opened_box(places[holder], present_to[owner], owner, boxes[owner][holder])
            view.self_shares.setdefault(owner, {})[holder] = held.of_self_seed
            view.key_shares.setdefault(owner, {})[holder] = held.of_mask_key
    view.known_seeds = _known_seeds(view, places, keys, corrupt)
    return view


def everyone_told(**sets: Iterable[int]) -> Told:
    """A collector that tells all members the same sets."""
    return {stage: (lambda _, each=frozenset(members): each) for stage, members in sets.items()}


def serverless_view(places: Sequence[Participant], words: Words, corrupt: Members) -> View:
    """Masked vectors in a sum without a collector, of each honest one among these participants: more than any parcels show."""
    view = View(places[0].context)
    for participant in places:
        if participant.position in corrupt:
            continue
        _, messages = serverless.begun(participant, words[participant.position])
        body = messages[0].body
        assert isinstance(body, Passed)
        assert body.window is not None
        view.masked[participant.position] = body.window
        others = [other for other in range(len(participant.publics)) if other != participant.position]
        seeds = {other: lasting_pair_seed(participant, other) for other in others}
        view.made_of[participant.position] = _checked(
            participant, words[participant.position], body.window, None, seeds
        )
    for holder in corrupt:
        for other in view.masked:
            view.known_seeds.add(lasting_pair_seed(places[holder], other))
    return view


# What vectors are made of, and which seeds can be computed


def _composition(participant: Participant, state: MemberState, words: Words, masked: Words) -> dict[Unknown, int]:
    """Coefficients of the addend and of all streams in a masked vector, from the member's own secrets."""
    dealers = members_in(state.dealers, len(participant.publics))
    own = MaskKey.of(mask_secret(participant))
    seeds = {
        other: fresh_pair_seed(
            participant.context,
            participant.position,
            own,
            other,
            SumKeys.from_bytes(each.content, participant.context, other).mask_key,
        )
        for other, each in state.keys.items()
        if other in dealers
    }
    return _checked(participant, words, masked, self_seed(participant), seeds)


def _checked(
    participant: Participant, words: Words, masked: Words, own: bytes | None, seeds: Mapping[int, bytes]
) -> dict[Unknown, int]:
    """The composition that gives the vector to the last bit: with the self-mask, or without it where the code forgets it."""
    addend: Unknown = ("addend", participant.context.input_digest, participant.position)
    pairs: dict[Unknown, int] = {addend: 1}
    for other, seed in seeds.items():
        unknown = ("stream", seed, 0)
        pairs[unknown] = pairs.get(unknown, 0) + (1 if participant.position < other else -1)
    with_self = pairs if own is None else {**pairs, ("stream", own, 0): 1}
    for candidate in (with_self, pairs):
        value = np.zeros_like(words)
        for (kind, seed, _), coefficient in candidate.items():
            value += np.uint64(coefficient % 2**64) * (words if kind == "addend" else mask_of(seed, len(words)))
        if np.array_equal(value, masked):
            return {unknown: coefficient for unknown, coefficient in candidate.items() if coefficient}
    raise AssertionError("a masked vector is made of something else")


def _known_seeds(
    view: View, places: Sequence[Participant], keys: Mapping[int, Statement], corrupt: Members
) -> set[bytes]:
    """Seeds of opened self-masks, and of all pairs of which the adversary has a key."""
    where, needed = view.where, view.where.share_threshold
    found: set[bytes] = set()
    private = {holder: mask_secret(places[holder]) for holder in corrupt}
    for owner, shares in view.self_shares.items():
        if len(shares) >= needed and owner not in corrupt:
            seed = seed_or_none(secrets_from(shares, needed))
            assert seed == self_seed(places[owner])
            found.add(seed)
    for owner, shares in view.key_shares.items():
        if len(shares) >= needed and owner not in corrupt:
            secret = seed_or_none(secrets_from(shares, needed))
            assert secret == mask_secret(places[owner])
            private[owner] = secret
    publics = {other: SumKeys.from_bytes(each.content, where, other).mask_key for other, each in keys.items()}
    for owner, secret in private.items():
        key = masks.MaskKey.of(secret)
        found |= {fresh_pair_seed(where, owner, key, o, public) for o, public in publics.items() if o != owner}
    return found


# Equations


def equations(views: Sequence[View]) -> tuple[list[Unknown], Words, Words]:
    """Unknowns, combinations and observed words of all masked vectors, known streams taken off. Streams come before addends."""
    rows: list[tuple[dict[Unknown, int], Words]] = []
    known = set().union(*(view.known_seeds for view in views))
    for view in views:
        for position, masked in view.masked.items():
            observed = masked.copy()
            left: dict[Unknown, int] = {}
            for unknown, coefficient in view.made_of[position].items():
                if unknown[0] == "stream" and unknown[1] in known:
                    observed -= np.uint64(coefficient % 2**64) * mask_of(unknown[1], len(masked))
                else:
                    left[unknown] = coefficient
            rows.append((left, observed))
    unknowns = sorted({unknown for left, _ in rows for unknown in left}, key=lambda each: (each[0] == "addend", each))
    places = {unknown: place for place, unknown in enumerate(unknowns)}
    combinations = np.zeros((len(rows), len(unknowns)), dtype=np.uint64)
    for row, (left, _) in enumerate(rows):
        for unknown, coefficient in left.items():
            combinations[row, places[unknown]] = np.uint64(coefficient % 2**64)
    return unknowns, combinations, np.array([observed for _, observed in rows])


def determined_sums(views: Sequence[View]) -> list[dict[Unknown, int]]:
    """A basis of all combinations of honest addends that the views determine, in reduced form; coefficients modulo 2^64."""
    unknowns, left, _ = equations(views)
    streams = sum(unknown[0] == "stream" for unknown in unknowns)
    done = 0
    for column in range(len(unknowns)):
        if column == streams:
            # What is left below has no stream in it: those are the combinations of addends alone.
            left, done = left[done:], 0
            assert not left[:, :streams].any()
        odd = np.flatnonzero(left[done:, column] & np.uint64(1))
        if len(odd):
            pivot = done + int(odd[0])
            left[[done, pivot]] = left[[pivot, done]]
            left[done] *= np.uint64(pow(int(left[done, column]), -1, 2**64))
            factors = left[:, column].copy()
            factors[done] = 0
            left -= np.outer(factors, left[done])
            done += 1
    if streams == len(unknowns):
        return []
    assert not left[done:].any()
    return [{unknowns[place]: int(row[place]) for place in np.flatnonzero(row)} for row in left[:done]]


def leaks(views: Sequence[View], corrupt: Members) -> list[str]:
    """Why the views show more than the theorem allows: for each input one sum of t − c honest addends or more, and nothing else."""
    found = []
    seen: set[bytes] = set()
    for combination in determined_sums(views):
        inputs = {unknown[1] for unknown in combination}
        where = views[0].where
        if set(combination.values()) != {1} or len(inputs) != 1:
            found.append("a combination that is no sum")
        elif len(combination) < where.threshold - len(corrupt):
            found.append(f"a sum of {len(combination)}")
        elif inputs & seen:
            found.append("two sums of one input")
        seen |= inputs
    return found
