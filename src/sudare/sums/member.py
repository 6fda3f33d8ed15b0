"""One member of a sum that others may leave, as pure steps: (me, state, message) → (state, messages to send).

Rounds, after Bonawitz et al. 2017 (active variant) on the sparse graphs of Bell et al. 2020: keys for this sum, shares of secrets to
neighbours, the masked vector, a signed vote on whose vectors are in the sum, shares that open the masks of that one set, and a
signed statement on the total that was heard. A member answers each round of a collector once, and only if what it was told is justified by what
it knows itself; a collector that lies can make the sum fail and nothing else. Proof: proofs/secure_sums.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sudare.array_types import Words
from sudare.errors import (
    InvalidParameter,
    MembersMissing,
    SecondTotalRefused,
    StatementsContradict,
    SumError,
)
from sudare.sums.context import Participant
from sudare.sums.heard_totals import HeardTotals
from sudare.sums.input_records import InputRecord, admitted, second_total_refused
from sudare.sums.masks import (
    HeldShares,
    MaskKey,
    add_pair_masks,
    commitment,
    dealt,
    fresh_pair_seed,
    mask_of,
    mask_secret,
    opened_box,
    self_seed,
)
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
from sudare.sums.statements import Statement, all_hold, holds, quorum_holds, stated

# Nobody honest is chosen so often by honest members that it has more neighbours than 4k + 40 (proofs/neighbourhoods.md).
_MOST_TIMES_CHOSEN: Final = 4
_MOST_NEIGHBOURS_BESIDE: Final = 40


@dataclass(frozen=True)
class MemberState:
    """All that a member of a sum remembers; saved before anything is sent, it lets a restart send the same bytes again.

    `stage` is what it waits for: the directory, what was delivered, who is included, the certificate, the opened total, or that others
    heard the same. Sets of members are bitmaps.
    """

    record: InputRecord
    words: Words
    stage: str = "directory"
    keys: Mapping[int, Statement] = field(default_factory=dict)
    present: bytes = b""
    dealers: bytes = b""
    shares: Mapping[int, HeldShares] = field(default_factory=dict)
    included: bytes = b""
    collected: tuple[Statement, ...] = ()
    certificate: Certified | None = None
    opened: Words | None = None
    heard_totals: HeardTotals = field(default_factory=HeardTotals)
    confirmation: Confirmed | None = None
    total: Words | None = None
    stopped: str | None = None


Outgoing = tuple[Message, ...]
Step = tuple[MemberState, Outgoing]


def _require(is_justified: bool) -> None:
    """Raise SumError unless what the collector asks for is justified by this member's own messages."""
    if not is_justified:
        raise SumError("What the collector asks for is not justified by what this member knows.", SumError.help)


def begun(me: Participant, words: Words, earlier: InputRecord | None = None, among: Members | None = None) -> Step:
    """The first state and message. `earlier` is what this member remembers of the same input, from any attempt.

    `among` are the only members that a new input is added up with, where that is settled before.
    """
    state = MemberState(admitted(me, words, earlier, among), words)
    key = MaskKey.of(mask_secret(me))
    chosen = me.out_neighbours if me.context.is_sparse else ()
    keys = SumKeys(key.public, commitment(me.context, self_seed(me)), chosen)
    return state, _to_collector(
        me, Advertised(stated(me, "keys", keys.to_bytes()), state.record.only_set_to_vote_for(me.context))
    )


def step(me: Participant, state: MemberState, message: Message) -> Step:
    """The state after a message, and what to send. What comes twice, out of turn or from somebody else than it must changes nothing."""
    body = message.body
    if state.stopped is not None:
        return state, ()
    if isinstance(body, Heard):
        return _settled(me, replace(state, heard_totals=state.heard_totals.with_other(me, message.sender, body)))
    if message.sender != me.context.collector:
        return state, ()
    if isinstance(body, GivenUp):
        return (state if state.total is not None else replace(state, stopped="given up")), ()
    answers: dict[str, tuple[type, Callable[[Participant, MemberState, Any], Step]]] = {
        "directory": (Directory, _deal),
        "delivered": (Delivered, _mask),
        "included": (Included, _vote),
        "certified": (Certified, _reveal),
        "opened": (Opened, _hear),
        "heard": (Confirmed, _confirm),
    }
    expected, answer = answers[state.stage]
    if not isinstance(body, expected) or state.total is not None:
        return state, ()
    try:
        return answer(me, state, body)
    except SecondTotalRefused:
        return _stopped(me, state, "second total")
    except (SumError, InvalidParameter):
        return _stopped(me, state, "unjustified")


def failure(me: Participant, state: MemberState) -> SumError | None:
    """Why this member's sum was stopped, if it was."""
    name = me.context.names[me.context.collector]
    if state.stopped is None:
        return None
    if state.stopped == "second total":
        return second_total_refused()
    if state.stopped == "contradiction":
        return StatementsContradict(
            "Members were told different totals of one sum. The signed statements that show it are kept.",
            "See `sudare consortium blame`; no total was used.",
        )
    if state.stopped == "given up":
        needed, count = me.context.threshold, len(me.publics)
        return MembersMissing(
            f"'{name}' collected this sum and gave it up: it needs {needed} of {count} members to the end.",
            "Nothing was opened. Wait until members are back and begin another attempt.",
        )
    return SumError(
        f"Through '{name}', who collected this sum, came what this member's own messages do not justify, or a box of shares that does not open.",
        "Nothing of this member was opened. A box that does not open was damaged by its sender or on the way. See `sudare consortium blame`.",
    )


# Rounds


def _deal(me: Participant, state: MemberState, body: Directory) -> Step:
    """Check who is there and the keys of the neighbours; give each neighbour shares of this member's secrets."""
    context = me.context
    present = context.members_in(body.present)
    _require(_are_enough(me, present))
    chosen = tuple(other for other in me.out_neighbours if other in present)
    expected = frozenset(body.keys)
    # Everyone in the directory is there; those this member chose are all in it, and whoever else is has chosen this member.
    _require(me.position not in expected and frozenset(chosen) <= expected <= present)
    own = MaskKey.of(mask_secret(me))
    mask_keys = {own.public}
    for other, statement in body.keys.items():
        _require(holds(me, statement, "keys", other))
        keys = SumKeys.from_bytes(statement.content, context, other)
        mask_keys.add(keys.mask_key)
        _require(not context.is_sparse or other in chosen or me.position in keys.neighbours)
    _require(len(mask_keys) == 1 + len(body.keys))
    most = _MOST_TIMES_CHOSEN * len(me.out_neighbours) + _MOST_NEIGHBOURS_BESIDE
    _require(not context.is_sparse or len(body.keys) <= most)
    held, boxes = dealt(me, body.present, chosen)
    after = replace(state, stage="delivered", present=body.present, keys=dict(body.keys), shares={me.position: held})
    return after, _to_collector(me, Dealt(boxes))


def _mask(me: Participant, state: MemberState, body: Delivered) -> Step:
    """Open the neighbours' boxes and send the vector under masks with every neighbour that has dealt."""
    context = me.context
    dealers = context.members_in(body.dealers)
    _require(_are_enough(me, dealers) and dealers <= context.members_in(state.present))
    neighbours = _neighbour_keys(me, state)
    holding = {other for other in neighbours if other in dealers and _chose(me, neighbours[other])}
    _require(frozenset(body.boxes) == holding)
    shares = {other: opened_box(me, state.present, other, box) for other, box in body.boxes.items()}
    own = MaskKey.of(mask_secret(me))
    seeds = {
        other: fresh_pair_seed(context, me.position, own, other, keys.mask_key)
        for other, keys in neighbours.items()
        if other in dealers
    }
    masked = state.words + mask_of(self_seed(me), len(state.words))
    add_pair_masks(masked, me.position, seeds)
    after = replace(state, stage="included", dealers=body.dealers, shares={**state.shares, **shares})
    return after, _to_collector(me, Masked(masked, stated(me, "dealers", body.dealers)))


def _vote(me: Participant, state: MemberState, body: Included) -> Step:
    """Vote, once for an input, for a set of enough members that have all dealt their shares."""
    context = me.context
    _require(holds(me, body.included, "included", context.collector))
    included = context.members_in(body.included.content)
    dealers = context.members_in(state.dealers)
    _require(_are_enough(me, included) and included <= dealers)
    # Recorded before the vote is sent; raises where another set was voted for.
    record = state.record.with_vote(context, body.included.content)
    after = replace(
        state,
        stage="certified",
        record=record,
        included=body.included.content,
        collected=(*state.collected, body.included),
    )
    return after, _to_collector(me, Voted(stated(me, "vote", vote_content(context, dealers, included))))


def _reveal(me: Participant, state: MemberState, body: Certified) -> Step:
    """On t votes equal to its own (`quorum_holds`): of each owner the share of its self-seed if it is in the sum, else of its key; never both."""
    context = me.context
    included, dealers = context.members_in(state.included), context.members_in(state.dealers)
    voters = context.members_in(body.voters)
    content = vote_content(context, dealers, included)
    _require(voters <= included and quorum_holds(me, "vote", content, voters, body.signatures))
    owners = frozenset(state.shares) & included - {me.position}
    # Whoever masked its vector for other dealers than those voted for may have no honest neighbour among them: its self-mask stays closed.
    signatures = b"".join(body.dealers.get(owner, b"") for owner in sorted(owners))
    _require(all_hold(me, "dealers", state.dealers, owners, signatures))
    shares = OpenedShares(
        {owner: held.of_self_seed for owner, held in state.shares.items() if owner in included},
        {owner: held.of_mask_key for owner, held in state.shares.items() if owner not in included},
    )
    # Kept without what nobody asked for.
    certificate = Certified(body.voters, body.signatures, {owner: body.dealers.get(owner, b"") for owner in owners})
    after = replace(state, stage="opened", certificate=certificate)
    return after, _to_collector(me, Revealed(stated(me, "shares", shares.to_bytes())))


def _hear(me: Participant, state: MemberState, body: Opened) -> Step:
    """Take the total that the collector signs, and tell neighbours which it is."""
    context = me.context
    included = context.members_in(state.included)
    _require(body.words.shape == state.words.shape and holds(me, body.total, "total", context.collector))
    _require(body.total.content == heard_content(context, included, body.words))
    own = Heard(stated(me, "heard", body.total.content), body.total)
    neighbours = _neighbour_keys(me, state)
    receivers = [each for each in sorted(included) if each in neighbours and _chose(me, neighbours[each])]
    state = replace(state, stage="heard", opened=body.words, heard_totals=state.heard_totals.with_own(own))
    state, _ = _settled(me, state)
    affirmed = _to_collector(me, Affirmed(own.heard)) if context.is_sparse else ()
    return state, (*(Message(me.position, receiver, own) for receiver in receivers), *affirmed)


def _confirm(me: Participant, state: MemberState, body: Confirmed) -> Step:
    """Where not everyone is a neighbour: use the total on t equal statements of members that heard it."""
    own = state.heard_totals.own
    hearers = me.context.members_in(body.hearers)
    _require(
        own is not None
        and me.context.is_sparse
        and quorum_holds(me, "heard", own.heard.content, hearers, body.signatures)
    )
    return replace(state, total=state.opened, confirmation=body), ()


def _settled(me: Participant, state: MemberState) -> Step:
    """Use the total once t members heard the same, where everyone is a neighbour; stop where statements differ."""
    if state.total is not None:
        return state, ()
    if state.heard_totals.contradiction:
        return _stopped(me, state, "contradiction")
    heard_by = len(state.heard_totals.agreeing) + 1
    if state.opened is not None and heard_by >= me.context.threshold and not me.context.is_sparse:
        return replace(state, total=state.opened), ()
    return state, ()


def _are_enough(me: Participant, members: Members) -> bool:
    """Whether this member is among these, and they are enough for a vote and hold enough of its shares."""
    is_quorum = me.position in members and len(members) >= me.context.threshold
    return is_quorum and me.has_enough_in(members)


def _neighbour_keys(me: Participant, state: MemberState) -> dict[int, SumKeys]:
    return {other: SumKeys.from_bytes(each.content, me.context, other) for other, each in state.keys.items()}


def _chose(me: Participant, keys: SumKeys) -> bool:
    """Whether the owner of these keys has this member among its share holders."""
    return not me.context.is_sparse or me.position in keys.neighbours


def _to_collector(me: Participant, body: Body) -> Outgoing:
    return (Message(me.position, me.context.collector, body),)


def _stopped(me: Participant, state: MemberState, reason: str) -> Step:
    return replace(state, stopped=reason), _to_collector(me, Withdrawn())


__all__ = ["MemberState", "begun", "failure", "step"]
