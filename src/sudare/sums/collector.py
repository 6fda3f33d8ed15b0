"""The collector of a sum that members may leave: it adds masked vectors, passes on what members say, and opens the total.

Nobody has to trust it: members check what it tells them (`sudare.sums.member`), and one that lies makes the sum fail. It goes from round to
round when everyone has answered, or at a deadline if enough have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sudare.array_types import Words
from sudare.errors import InvalidParameter, MessageMalformed
from sudare.sums.context import Participant, SumContext
from sudare.sums.keys import is_of_small_order
from sudare.sums.masks import BOX_BYTES, MaskKey, add_pair_masks, fresh_pair_seed, take_self_masks
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
    Included,
    Masked,
    Members,
    Message,
    Opened,
    OpenedShares,
    Revealed,
    SumKeys,
    Voted,
    Withdrawn,
    heard_content,
    vote_content,
)
from sudare.sums.shamir import secrets_of_many, seed_or_none
from sudare.sums.statements import Kind, Statement, holds, stated

Outgoing = tuple[Message, ...]


@dataclass
class CollectorState:
    """What a collector remembers. `stage` is what it waits for, from `waiting` members; `gone` are those that answer no more, in any stage.

    `among` are those it may include, all of them or none: whom it has voted for itself in an earlier attempt, or whom members say that they have. `bound`
    is what these say, as bitmaps, and `aside` are keys of those that cannot vote for the set of this attempt. Of masked vectors it keeps the sum and the
    signatures that came with them. `shares` are what members gave out after the vote. `expected` is what members sign in this round, where all sign the same.
    """

    length: int
    among: frozenset[int] | None = None
    stage: str = "keys"
    keys: dict[int, Statement] = field(default_factory=dict)
    bound: dict[int, bytes] = field(default_factory=dict)
    aside: dict[int, Statement] = field(default_factory=dict)
    boxes: dict[int, dict[int, bytes]] = field(default_factory=dict)
    inputs: dict[int, bytes] = field(default_factory=dict)
    masked_total: Words | None = None
    votes: dict[int, bytes] = field(default_factory=dict)
    shares: dict[int, Statement] = field(default_factory=dict)
    heard: dict[int, bytes] = field(default_factory=dict)
    gone: dict[int, bool] = field(default_factory=dict)
    waiting: int = 0
    expected: bytes = b""
    total: Words | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing is waited for any more."""
        return self.stage in ("done", "stopped")

    def answers(self, stage: str | None = None) -> Collection[int]:
        """Who has answered in a round; in the current one, unless another is named."""
        found: Collection[int] = getattr(self, stage or self.stage)
        return found


def begun(members: int, length: int, among: Members | None = None) -> CollectorState:
    """The state before anything came, for vectors of so many words. `among` are those whom this member has voted for in an earlier attempt."""
    gone = {} if among is None else {member: True for member in range(members) if member not in among}
    masked_total = np.zeros(length, dtype=np.uint64)
    return CollectorState(length, among, masked_total=masked_total, gone=gone, waiting=members - len(gone))


def step(me: Participant, state: CollectorState, message: Message) -> Outgoing:
    """Take a message into the state, and return what to send.

    What comes twice, out of turn or is not what it must be changes nothing, but that its sender is not waited for.
    """
    sender, body = message.sender, message.body
    if state.is_over or sender in state.gone:
        return ()
    is_waited_for = sender in _asked(me, state) and sender not in state.answers()
    if isinstance(body, Withdrawn):
        is_taken = False
    else:
        current = _ROUNDS[state.stage]
        if not is_waited_for or not isinstance(body, current.body):
            return ()
        try:
            is_taken = current.take(me, state, sender, body)
        except (MessageMalformed, InvalidParameter):
            is_taken = False
    if not is_taken:
        state.gone[sender] = True
    state.waiting -= int(is_waited_for)
    return _gone_on(me, state) if state.waiting == 0 else ()


def expired(me: Participant, state: CollectorState) -> Outgoing:
    """The deadline of a round has passed: go on with those who have answered if they are enough, or give up."""
    if state.is_over:
        return ()
    return _gone_on(me, state)


def given_up(me: Participant, state: CollectorState) -> Outgoing:
    """Give this attempt up, and tell all members so."""
    state.stage = "stopped"
    return _to_each(me, me.context.everyone, GivenUp())


def has_enough(me: Participant, state: CollectorState) -> bool:
    """Whether so many have answered in this round that the sum can go on without the others."""
    if state.is_over:
        return False
    if state.stage == "keys":
        return _who_can_agree(me, state) is not None
    is_open = state.stage in ("boxes", "inputs")
    needed = me.context.threshold if state.among is None or not is_open else len(state.among)
    return len(state.answers()) >= needed


def waits_for(me: Participant, state: CollectorState) -> Members:
    """Those whose answers this round still waits for."""
    if state.is_over:
        return frozenset()
    return frozenset(_asked(me, state)) - frozenset(state.answers()) - frozenset(state.gone)


# What is waited for, and what came of it


def _asked(me: Participant, state: CollectorState) -> Collection[int]:
    """Who was asked in this round: those who have answered in one before."""
    before = _ROUNDS[state.stage].asked
    return me.context.everyone if before is None else state.answers(before)


_Take = Callable[[Participant, CollectorState, int, Any], bool]


def _take_keys(me: Participant, state: CollectorState, sender: int, body: Advertised) -> bool:
    if not holds(me, body.keys, "keys", sender):
        return False
    keys = SumKeys.from_bytes(body.keys.content, me.context, sender)
    if is_of_small_order(keys.mask_key):
        return False
    if body.votes_for:
        only = me.context.members_in(body.votes_for)
        if only and sender not in only:
            return False
        state.bound[sender] = body.votes_for
    state.keys[sender] = body.keys
    return True


def _who_can_agree(me: Participant, state: CollectorState) -> Members | None:
    """Members with keys here that can all vote for their own set, and are enough; None as long as there are none.

    Members vote for one set with one input, over all attempts: a set that some of them cannot vote for would bind the others to it in vain. So it is
    a set that somebody is bound to, with everyone in it, or members that are bound to none. What more members say than may be dishonest comes first; what
    fewer say is followed where it leaves no free member out, and in every other attempt only: liars who claim a set and then leave it stop no more than those.
    """
    context, there = me.context, frozenset(state.keys)
    if state.among is not None:
        return state.among if state.among <= there else None
    free = there - state.bound.keys()
    told = Counter(state.bound.values())
    sides = {
        members: told[content]
        for content in sorted(told, key=lambda content: (-told[content], content))
        if len(members := context.members_in(content)) >= context.threshold
        and members <= there
        and all(state.bound.get(each, content) == content for each in members)
        # A member that collects is in the sum itself.
        and (me.position in members or me.position not in context.everyone)
    }
    for members, count in sides.items():
        if count > context.dishonest or (free <= members and context.attempt % 2 == 1):
            return members
    return free if len(free) >= context.threshold else next(iter(sides), None)


def _take_boxes(me: Participant, state: CollectorState, sender: int, body: Dealt) -> bool:
    chosen = _keys_of(me, state, sender).neighbours if me.context.is_sparse else me.context.everyone
    if body.boxes.keys() != {other for other in chosen if other in state.keys and other != sender}:
        return False
    if any(len(box) != BOX_BYTES for box in body.boxes.values()):
        return False
    state.boxes[sender] = dict(body.boxes)
    return True


def _take_input(me: Participant, state: CollectorState, sender: int, body: Masked) -> bool:
    is_of_form = body.words.shape == (state.length,) and holds(me, body.dealers, "dealers", sender)
    if not is_of_form or body.dealers.content != state.expected or state.masked_total is None:
        return False
    state.masked_total = state.masked_total + body.words
    state.inputs[sender] = body.dealers.signature
    return True


def _take_shares(me: Participant, state: CollectorState, sender: int, body: Revealed) -> bool:
    if not holds(me, body.shares, "shares", sender):
        return False
    given = OpenedShares.from_bytes(body.shares.content)
    # One share at most of each who has dealt: nobody fills the collector's memory.
    owners = (*given.of_self_seeds, *given.of_mask_keys)
    if len(owners) > len(state.boxes) or not frozenset(owners) <= frozenset(state.boxes):
        return False
    state.shares[sender] = body.shares
    return True


def _take_signature(kind: Kind) -> _Take:
    """Take in a statement of this kind that says what all sign in this round; its signature is kept."""

    def take(me: Participant, state: CollectorState, sender: int, body: Voted | Affirmed) -> bool:
        statement = body.vote if isinstance(body, Voted) else body.heard
        if not holds(me, statement, kind, sender) or statement.content != state.expected:
            return False
        (state.votes if kind == "vote" else state.heard)[sender] = statement.signature
        return True

    return take


# From round to round


def _gone_on(me: Participant, state: CollectorState) -> Outgoing:
    """The messages of the next round, or of giving up where too few have answered."""
    if not has_enough(me, state) and state.stage != "shares":
        return _stop(me, state)
    current = _ROUNDS[state.stage]
    outgoing = current.messages(me, state)
    if state.stage != "stopped":
        # Where everyone is a neighbour, everyone tells everyone which total it heard.
        state.stage = "done" if current.following == "heard" and not me.context.is_sparse else current.following
        asked = () if state.stage == "done" else _asked(me, state)
        state.waiting = sum(member not in state.gone for member in asked)
    return outgoing


def _directories(me: Participant, state: CollectorState) -> Outgoing:
    """To each member that can agree on one set: all of them, and the keys of its neighbours."""
    agreeing = _who_can_agree(me, state) or frozenset()
    for member in sorted(frozenset(state.keys) - agreeing):
        state.aside[member] = state.keys.pop(member)
    if not agreeing.isdisjoint(state.bound):
        state.among = agreeing
    present = me.context.bitmap(state.keys)
    neighbours = _neighbours(me, state)
    return tuple(
        Message(me.position, member, Directory(present, {each: state.keys[each] for each in neighbours[member]}))
        for member in sorted(state.keys)
    )


def _neighbours(me: Participant, state: CollectorState) -> dict[int, list[int]]:
    """Of each member those it has chosen and those who have chosen it, among those who are there."""
    there = sorted(state.keys)
    if not me.context.is_sparse:
        return {member: [each for each in there if each != member] for member in there}
    found: dict[int, set[int]] = {member: set() for member in there}
    for member in there:
        for other in _keys_of(me, state, member).neighbours:
            if other in found:
                found[member].add(other)
                found[other].add(member)
    return {member: sorted(each) for member, each in found.items()}


def _deliveries(me: Participant, state: CollectorState) -> Outgoing:
    """To each member who has dealt: who else has, and the boxes for it."""
    dealers = state.expected = me.context.bitmap(state.boxes)
    inbox: dict[int, dict[int, bytes]] = {member: {} for member in state.boxes}
    for sender, boxes in state.boxes.items():
        for receiver, box in boxes.items():
            if receiver in inbox:
                inbox[receiver][sender] = box
    return tuple(Message(me.position, member, Delivered(dealers, boxes)) for member, boxes in sorted(inbox.items()))


def _inclusion(me: Participant, state: CollectorState) -> Outgoing:
    included = frozenset(state.inputs)
    state.expected = vote_content(me.context, frozenset(state.boxes), included)
    return _to_each(
        me,
        state.inputs,
        Included(stated(me, "included", me.context.bitmap(included))),
    )


def _certificates(me: Participant, state: CollectorState) -> Outgoing:
    """To each voter: the votes, and of those in the sum whose shares it holds that they masked for the same dealers."""
    owners: dict[int, dict[int, bytes]] = {voter: {} for voter in state.votes}
    for owner, signature in state.inputs.items():
        for holder in state.boxes[owner]:
            if holder in owners:
                owners[holder][owner] = signature
    votes = _certificate_of(me, state.votes)
    return tuple(Message(me.position, voter, Certified(*votes, owners[voter])) for voter in sorted(owners))


def _certificate_of(me: Participant, signatures: Mapping[int, bytes]) -> tuple[bytes, bytes]:
    """Signatures of t members: who they are, as a bitmap, and the signatures in the order of members. More would prove no more."""
    signers = sorted(signatures)[: me.context.threshold]
    return me.context.bitmap(signers), b"".join(signatures[signer] for signer in signers)


def _opening(me: Participant, state: CollectorState) -> Outgoing:
    """The total, if enough shares came and every secret is what its owner has committed to."""
    total = opened_total(me, state)
    if total is None:
        return _stop(me, state)
    state.total = total
    state.expected = heard_content(me.context, frozenset(state.inputs), total)
    return _to_each(me, state.inputs, Opened(total, stated(me, "total", state.expected)))


def _confirmation(me: Participant, state: CollectorState) -> Outgoing:
    return _to_each(me, state.inputs, Confirmed(*_certificate_of(me, state.heard)))


@dataclass(frozen=True)
class _Round:
    """Who is asked (whoever has answered in the round `asked`; None is everyone), how answers are taken in, and what is sent next."""

    asked: str | None
    body: type
    take: _Take
    messages: Callable[[Participant, CollectorState], Outgoing]
    following: str


_ROUNDS: Final = {
    "keys": _Round(None, Advertised, _take_keys, _directories, "boxes"),
    "boxes": _Round("keys", Dealt, _take_boxes, _deliveries, "inputs"),
    "inputs": _Round("boxes", Masked, _take_input, _inclusion, "votes"),
    "votes": _Round("inputs", Voted, _take_signature("vote"), _certificates, "shares"),
    "shares": _Round("votes", Revealed, _take_shares, _opening, "heard"),
    "heard": _Round("inputs", Affirmed, _take_signature("heard"), _confirmation, "done"),
}


def _stop(me: Participant, state: CollectorState) -> Outgoing:
    state.stage = "stopped"
    return _to_each(me, (*state.keys, *state.aside), GivenUp())


def _to_each(me: Participant, receivers: Iterable[int], body: Body) -> Outgoing:
    return tuple(Message(me.position, receiver, body) for receiver in sorted(receivers))


def _keys_of(me: Participant, state: CollectorState, member: int) -> SumKeys:
    return SumKeys.from_bytes(state.keys[member].content, me.context, member)


# Opening

# So many single holders are left out by turns when shares do not give what their owners have committed to.
_MOST_LEFT_OUT: Final = 128


def opened_total(me: Participant, state: CollectorState) -> Words | None:
    """The total over the members whose vectors came, all masks taken off; None if secrets cannot be told from the shares."""
    given = {holder: OpenedShares.from_bytes(each.content) for holder, each in state.shares.items()}
    included = sorted(state.inputs)
    left = sorted(frozenset(state.boxes) - frozenset(included))
    keys = {member: _keys_of(me, state, member) for member in state.keys}
    of_self_seeds = {holder: each.of_self_seeds for holder, each in given.items()}
    of_mask_keys = {holder: each.of_mask_keys for holder, each in given.items()}
    self_seeds = _secrets(
        me.context, state, included, of_self_seeds, lambda owner, seed: keys[owner].is_self_seed(me.context, seed)
    )
    secrets = _secrets(me.context, state, left, of_mask_keys, lambda owner, secret: keys[owner].is_mask_secret(secret))
    if state.masked_total is None or self_seeds is None or secrets is None:
        return None
    total = state.masked_total.copy()
    take_self_masks(total, self_seeds.values())
    neighbours = _neighbours(me, state) if left else {}
    for member in left:
        key = MaskKey.of(secrets[member])
        others = (other for other in neighbours[member] if other in state.inputs)
        seeds = {other: fresh_pair_seed(me.context, member, key, other, keys[other].mask_key) for other in others}
        # What the member that left would have added undoes the others' sides.
        add_pair_masks(total, member, seeds)
    return total


def _secrets(
    context: SumContext,
    state: CollectorState,
    owners: list[int],
    given: Mapping[int, Mapping[int, Words]],
    is_right: Callable[[int, bytes], bool],
) -> dict[int, bytes] | None:
    """The secrets of these owners, each from the shares of t_k of its holders; None if they cannot be told.

    Where shares give another secret than their owner committed to, single holders are left out by turns: one who lies stops nothing.
    """
    found: dict[int, bytes] = {}
    for left_out in (None, *sorted(given)[:_MOST_LEFT_OUT]):
        missing = [owner for owner in owners if owner not in found]
        if not missing:
            break
        shares = {holder: each for holder, each in given.items() if holder != left_out}
        candidates = _candidates(context.share_threshold, state, missing, shares)
        found |= {owner: secret for owner, secret in candidates.items() if is_right(owner, secret)}
    return found if len(found) == len(owners) else None


def _candidates(
    needed: int, state: CollectorState, owners: list[int], given: Mapping[int, Mapping[int, Words]]
) -> dict[int, bytes]:
    """What the first t_k shares of each owner give, where there are so many and they give 32 bytes."""
    held: dict[int, list[tuple[int, Words]]] = {owner: [] for owner in owners}
    for holder in sorted(given):
        for owner, share in given[holder].items():
            is_holder = holder == owner or holder in state.boxes.get(owner, {})
            if owner in held and is_holder and len(held[owner]) < needed:
                held[owner].append((holder, share))
    ready = [owner for owner in owners if len(held[owner]) == needed]
    if not ready:
        return {}
    holders = np.array([[holder for holder, _ in held[owner]] for owner in ready], dtype=np.uint64)
    shares = np.array([[share for _, share in held[owner]] for owner in ready], dtype=np.uint64)
    limbs = secrets_of_many(holders, shares)
    return {owner: seed for owner, each in zip(ready, limbs, strict=True) if (seed := seed_or_none(each)) is not None}
