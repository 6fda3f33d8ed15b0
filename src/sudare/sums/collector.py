"""The collector of a sum that members may leave: it adds masked vectors, passes on what members say, and opens the total.

Nobody has to trust it: members check what it tells them (`sudare.sums.member`), and one that lies makes the sum fail. It goes from round to
round when everyone has answered, or at a deadline if enough have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.errors import InvalidParameter, MessageMalformed
from sudare.sums.context import Seat, SumContext, bitmap
from sudare.sums.keys import is_of_small_order
from sudare.sums.masks import BOX_BYTES, MaskKey, add_pair_masks, commitment, fresh_pair_seed, take_self_masks
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
    included_content,
    vote_content,
)
from sudare.sums.shamir import secrets_of_many, seed_or_none
from sudare.sums.statements import Statement, holds, stated

Words = NDArray[np.uint64]
Outgoing = tuple[Message, ...]


@dataclass
class CollectorState:
    """What a collector remembers. `stage` is what it waits for, from `waiting` members; `gone` are those that answer no more, in any stage.

    `among` are those it may include, where it has voted for a set in an earlier attempt: all of them or none. Of masked vectors it keeps the sum and
    the signatures that came with them. `shares` are what members gave out after the vote. `expected` is what members sign in this round, where all
    sign the same.
    """

    length: int
    among: frozenset[int] | None = None
    stage: str = "keys"
    keys: dict[int, Statement] = field(default_factory=dict)
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


def begun(members: int, length: int, among: Members | None = None) -> CollectorState:
    """The state before anything came, for vectors of so many words. `among` are those whom this member has voted for in an earlier attempt."""
    gone = {} if among is None else {member: True for member in range(members) if member not in among}
    masked_total = np.zeros(length, dtype=np.uint64)
    return CollectorState(length, among, masked_total=masked_total, gone=gone, waiting=members - len(gone))


def step(seat: Seat, state: CollectorState, message: Message) -> Outgoing:
    """Take a message into the state, and return what to send.

    What comes twice, out of turn or is not what it must be changes nothing, but that its sender is not waited for.
    """
    sender, body = message.sender, message.body
    if state.stage in ("done", "stopped") or sender in state.gone:
        return ()
    is_waited_for = sender in _asked(seat, state) and sender not in _answers(state)
    if isinstance(body, Withdrawn):
        is_taken = False
    else:
        expected, take = _TAKEN[state.stage]
        if not is_waited_for or not isinstance(body, expected):
            return ()
        try:
            is_taken = take(seat, state, sender, body)
        except (MessageMalformed, InvalidParameter):
            is_taken = False
    if not is_taken:
        state.gone[sender] = True
    state.waiting -= int(is_waited_for)
    return _gone_on(seat, state) if state.waiting == 0 else ()


def expired(seat: Seat, state: CollectorState) -> Outgoing:
    """The deadline of a round has passed: go on with those who have answered if they are enough, or give up."""
    if state.stage in ("done", "stopped"):
        return ()
    return _gone_on(seat, state)


def has_enough(seat: Seat, state: CollectorState) -> bool:
    """Whether so many have answered in this round that the sum can go on without the others."""
    if state.stage in ("done", "stopped"):
        return False
    is_open = state.stage in ("keys", "boxes", "inputs")
    needed = seat.context.threshold if state.among is None or not is_open else len(state.among)
    return len(_answers(state)) >= needed


def waits_for(seat: Seat, state: CollectorState) -> Members:
    """Those whose answers this round still waits for."""
    if state.stage in ("done", "stopped"):
        return frozenset()
    return frozenset(_asked(seat, state)) - frozenset(_answers(state)) - frozenset(state.gone)


# What is waited for, and what came of it


_ASKED: Final = {"boxes": "keys", "inputs": "boxes", "votes": "inputs", "shares": "votes", "heard": "inputs"}


def _asked(seat: Seat, state: CollectorState) -> Collection[int]:
    """Who was asked in this round: those who have answered in one before."""
    return range(len(seat.publics)) if state.stage == "keys" else _collected(state, _ASKED[state.stage])


def _answers(state: CollectorState) -> Collection[int]:
    """Who has answered in this round."""
    return _collected(state, state.stage)


def _collected(state: CollectorState, stage: str) -> Collection[int]:
    found: Collection[int] = getattr(state, stage)
    return found


def _take_keys(seat: Seat, state: CollectorState, sender: int, body: Advertised) -> bool:
    if not holds(seat, body.keys, "keys", sender):
        return False
    keys = SumKeys.from_bytes(body.keys.content, seat.context, sender)
    if is_of_small_order(keys.mask_key):
        return False
    state.keys[sender] = body.keys
    return True


def _take_boxes(seat: Seat, state: CollectorState, sender: int, body: Dealt) -> bool:
    chosen = _keys_of(seat, state, sender).neighbours if seat.context.is_sparse else range(len(seat.publics))
    if body.boxes.keys() != {other for other in chosen if other in state.keys and other != sender}:
        return False
    if any(len(box) != BOX_BYTES for box in body.boxes.values()):
        return False
    state.boxes[sender] = dict(body.boxes)
    return True


def _take_input(seat: Seat, state: CollectorState, sender: int, body: Masked) -> bool:
    is_of_form = body.words.shape == (state.length,) and holds(seat, body.dealers, "dealers", sender)
    if not is_of_form or body.dealers.content != state.expected or state.masked_total is None:
        return False
    state.masked_total = state.masked_total + body.words
    state.inputs[sender] = body.dealers.signature
    return True


def _take_vote(seat: Seat, state: CollectorState, sender: int, body: Voted) -> bool:
    if not holds(seat, body.vote, "vote", sender) or body.vote.content != state.expected:
        return False
    state.votes[sender] = body.vote.signature
    return True


def _take_shares(seat: Seat, state: CollectorState, sender: int, body: Revealed) -> bool:
    if not holds(seat, body.shares, "shares", sender):
        return False
    given = OpenedShares.from_bytes(body.shares.content)
    # One share at most of each who has dealt: nobody fills the collector's memory.
    owners = (*given.of_self_seeds, *given.of_mask_keys)
    if len(owners) > len(state.boxes) or not frozenset(owners) <= frozenset(state.boxes):
        return False
    state.shares[sender] = body.shares
    return True


def _take_heard(seat: Seat, state: CollectorState, sender: int, body: Affirmed) -> bool:
    if not holds(seat, body.heard, "heard", sender) or body.heard.content != state.expected:
        return False
    state.heard[sender] = body.heard.signature
    return True


_Take = Callable[[Seat, CollectorState, int, Any], bool]
_TAKEN: dict[str, tuple[type, _Take]] = {
    "keys": (Advertised, _take_keys),
    "boxes": (Dealt, _take_boxes),
    "inputs": (Masked, _take_input),
    "votes": (Voted, _take_vote),
    "shares": (Revealed, _take_shares),
    "heard": (Affirmed, _take_heard),
}


# From round to round


def _gone_on(seat: Seat, state: CollectorState) -> Outgoing:
    """The messages of the next round, or of giving up where too few have answered."""
    if not has_enough(seat, state) and state.stage != "shares":
        return _stop(seat, state)
    stage, messages = _FOLLOWING[state.stage]
    outgoing = messages(seat, state)
    if state.stage != "stopped":
        # Where everyone is a neighbour, everyone tells everyone which total it heard.
        state.stage = "done" if stage == "heard" and not seat.context.is_sparse else stage
        asked = () if state.stage == "done" else _asked(seat, state)
        state.waiting = sum(member not in state.gone for member in asked)
    return outgoing


def _directories(seat: Seat, state: CollectorState) -> Outgoing:
    """To each member who is there: all, and the keys of its neighbours."""
    present = bitmap(state.keys, len(seat.publics))
    neighbours = _neighbours(seat, state)
    return tuple(
        Message(seat.position, member, Directory(present, {each: state.keys[each] for each in neighbours[member]}))
        for member in sorted(state.keys)
    )


def _neighbours(seat: Seat, state: CollectorState) -> dict[int, list[int]]:
    """Of each member those it has chosen and those who have chosen it, among those who are there."""
    there = sorted(state.keys)
    if not seat.context.is_sparse:
        return {member: [each for each in there if each != member] for member in there}
    found: dict[int, set[int]] = {member: set() for member in there}
    for member in there:
        for other in _keys_of(seat, state, member).neighbours:
            if other in found:
                found[member].add(other)
                found[other].add(member)
    return {member: sorted(each) for member, each in found.items()}


def _deliveries(seat: Seat, state: CollectorState) -> Outgoing:
    """To each member who has dealt: who else has, and the boxes for it."""
    dealers = state.expected = bitmap(state.boxes, len(seat.publics))
    inbox: dict[int, dict[int, bytes]] = {member: {} for member in state.boxes}
    for sender, boxes in state.boxes.items():
        for receiver, box in boxes.items():
            if receiver in inbox:
                inbox[receiver][sender] = box
    return tuple(Message(seat.position, member, Delivered(dealers, boxes)) for member, boxes in sorted(inbox.items()))


def _inclusion(seat: Seat, state: CollectorState) -> Outgoing:
    included = frozenset(state.inputs)
    state.expected = vote_content(seat.context, frozenset(state.boxes), included)
    return _to_each(seat, state.inputs, Included(stated(seat, "included", included_content(seat.context, included))))


def _certificates(seat: Seat, state: CollectorState) -> Outgoing:
    """To each voter: the votes, and of those in the sum whose shares it holds that they masked for the same dealers."""
    owners: dict[int, dict[int, bytes]] = {voter: {} for voter in state.votes}
    for owner, signature in state.inputs.items():
        for holder in state.boxes[owner]:
            if holder in owners:
                owners[holder][owner] = signature
    votes = _certificate_of(seat, state.votes)
    return tuple(Message(seat.position, voter, Certified(*votes, owners[voter])) for voter in sorted(owners))


def _certificate_of(seat: Seat, signatures: Mapping[int, bytes]) -> tuple[bytes, bytes]:
    """Signatures of t members: who they are, as a bitmap, and the signatures in the order of members. More would prove no more."""
    signers = sorted(signatures)[: seat.context.threshold]
    return bitmap(signers, len(seat.publics)), b"".join(signatures[signer] for signer in signers)


def _opening(seat: Seat, state: CollectorState) -> Outgoing:
    """The total, if enough shares came and every secret is what its owner has committed to."""
    total = opened_total(seat, state)
    if total is None:
        return _stop(seat, state)
    state.total = total
    state.expected = heard_content(seat.context, frozenset(state.inputs), total)
    return _to_each(seat, state.inputs, Opened(total, stated(seat, "total", state.expected)))


def _confirmation(seat: Seat, state: CollectorState) -> Outgoing:
    return _to_each(seat, state.inputs, Confirmed(*_certificate_of(seat, state.heard)))


_FOLLOWING: dict[str, tuple[str, Callable[[Seat, CollectorState], Outgoing]]] = {
    "keys": ("boxes", _directories),
    "boxes": ("inputs", _deliveries),
    "inputs": ("votes", _inclusion),
    "votes": ("shares", _certificates),
    "shares": ("heard", _opening),
    "heard": ("done", _confirmation),
}


def _stop(seat: Seat, state: CollectorState) -> Outgoing:
    state.stage = "stopped"
    return _to_each(seat, state.keys, GivenUp())


def _to_each(seat: Seat, receivers: Iterable[int], body: Body) -> Outgoing:
    return tuple(Message(seat.position, receiver, body) for receiver in sorted(receivers))


def _keys_of(seat: Seat, state: CollectorState, member: int) -> SumKeys:
    return SumKeys.from_bytes(state.keys[member].content, seat.context, member)


# Opening

# So many single holders are left out by turns when shares do not give what their owners have committed to.
_MOST_LEFT_OUT: Final = 128


def opened_total(seat: Seat, state: CollectorState) -> Words | None:
    """The total over the members whose vectors came, all masks taken off; None if secrets cannot be told from the shares."""
    given = {holder: OpenedShares.from_bytes(each.content) for holder, each in state.shares.items()}
    included = sorted(state.inputs)
    left = sorted(frozenset(state.boxes) - frozenset(included))
    keys = {member: _keys_of(seat, state, member) for member in state.keys}
    of_self_seeds = {holder: each.of_self_seeds for holder, each in given.items()}
    of_mask_keys = {holder: each.of_mask_keys for holder, each in given.items()}
    self_seeds = _secrets(
        seat.context,
        state,
        included,
        of_self_seeds,
        lambda owner, seed: commitment(seat.context, seed) == keys[owner].commitment,
    )
    secrets = _secrets(
        seat.context, state, left, of_mask_keys, lambda owner, secret: MaskKey.of(secret).public == keys[owner].mask_key
    )
    if state.masked_total is None or self_seeds is None or secrets is None:
        return None
    total = state.masked_total.copy()
    take_self_masks(total, self_seeds.values())
    neighbours = _neighbours(seat, state) if left else {}
    for member in left:
        key = MaskKey.of(secrets[member])
        others = (other for other in neighbours[member] if other in state.inputs)
        seeds = {other: fresh_pair_seed(seat.context, member, key, other, keys[other].mask_key) for other in others}
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
