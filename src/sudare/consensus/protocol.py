"""A masked sum among members that may leave, as pure steps: (seat, state, event) → (state, messages to send).

Without repair (threshold t = S) members disseminate their masked values and hold the total after ⌈log₂ S⌉ rounds.
With repair (t < S) they first deal shares and say that they hold them, disseminate, vote with a signature on whose values are
in the masked total, and on t equal votes open the self-masks of those who are in it and the pairwise masks of those who are not.

When somebody leaves, everyone stops where it is and reports what it holds. Once all who are left have reported the same
leavers, all make the same decision: hand round the masked total if anybody has it; else add up again what can be told from
what they hold; else stop, all with the same error. A member votes once for an input, so that no two totals can be opened.

Nothing here talks to anybody: `Missing` events and the delivery of messages are the caller's. Proof: proofs/secure_sums.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from sudare.consensus.messages import (
    Dealt,
    Event,
    Given,
    InputRecord,
    Members,
    Message,
    Missing,
    Passed,
    Ready,
    Reason,
    Report,
    Revealed,
    Stopped,
    SumState,
    Voted,
    members_named,
    shares_in,
    vectors_in,
)
from sudare.consensus.opening import cast_vote, open_total, openable, reveal, with_votes
from sudare.consensus.recovery import recovery_plan
from sudare.consensus.relaying import (
    add_up,
    begin_relay,
    combined,
    holdings,
    is_late,
    placed,
    sent_to,
    survivors_of,
    told_to_all,
    unit_row,
)
from sudare.consensus.sharing.masks import Seat, dealings, masked, opened_dealing
from sudare.errors import MaskReused, MembersMissing, MessageMalformed, SecondTotalRefused, SumError
from sudare.sums.shamir import PRIME, SEED_LIMBS

Words = NDArray[np.uint64]
Outgoing = tuple[Message, ...]
Step = tuple[SumState, Outgoing]


def begun(seat: Seat, words: Words, earlier: InputRecord | None = None) -> Step:
    """The first state and messages. `earlier` is what this member remembers of the same input, from any attempt."""
    state = SumState(seat.context.digest, admitted(seat, words, earlier), len(words))
    hidden = masked(seat, words)
    if not seat.context.repairable:
        state = _settled(seat, _begin_first_relay(seat, state, hidden))
        return state, state.sent
    own, dealt = dealings(seat)
    state = state.changed(shares={seat.position: own}, rows=(unit_row(seat, seat.position),), values=(hidden,))
    for other, dealing in dealt.items():
        state = sent_to(seat, state, [other], Dealt(dealing))
    state = _settled(seat, state)
    return state, state.sent


def step(seat: Seat, state: SumState, event: Event) -> Step:
    """The state after an event, and what to send. Events that come twice, too late or from those who left change nothing."""
    if state.stopped is not None:
        return _answered(seat, state, event)
    if isinstance(event, Missing):
        after = state if event.member in state.left else _with_left(seat, state, frozenset({event.member}))
    elif event.sender in state.left:
        return state, ()
    else:
        _check_message(seat, state, event)
        after = _received(seat, state, event)
    after = _settled(seat, after)
    return after, after.sent[len(state.sent) :]


def _answered(seat: Seat, state: SumState, event: Event) -> Step:
    """One who has stopped says so to whoever still waits for its report."""
    if isinstance(event, Missing) or not isinstance(event.body, Report) or state.stopped in (None, "left out"):
        return state, ()
    answer = Message(seat.position, event.sender, Stopped(str(state.stopped)))
    # Remembered once, however often it is asked for.
    return (state if _was_said(state, answer) else state.changed(sent=(*state.sent, answer))), (answer,)


def _was_said(state: SumState, message: Message) -> bool:
    return any(
        each.receiver == message.receiver and isinstance(each.body, Stopped) and each.body == message.body
        for each in state.sent
    )


def failure(seat: Seat, state: SumState) -> SumError | None:
    """Why this member's sum was stopped; the same text at every member that was not itself taken to have left."""
    if state.stopped is None:
        return None
    if state.stopped == "second total":
        return SecondTotalRefused(
            "A total over other members than those agreed on was asked for the same input; two totals show the difference.",
            "Finish the total that was agreed on, or begin a new iteration.",
        )
    if state.stopped == "left out":
        return MembersMissing("The others went on without this member.", "Join again with the next iteration.")
    needed, count = seat.context.threshold, len(seat.context.members)
    return MembersMissing(
        f"This sum over {count} members needs {needed} of them to the end, and fewer are left.",
        "Nothing was opened. Wait until they are back and begin another attempt.",
    )


def admitted(seat: Seat, words: Words, earlier: InputRecord | None) -> InputRecord:
    """The record of this input, if the data are those of every earlier attempt and its members can still be summed."""
    context = seat.context
    key = seat.keys.own_seed(b"tag of an input", context.input_digest)
    # A keyed tag: whoever finds the record cannot use it to test guesses of the data.
    tag = AESGCM(key).encrypt(bytes(12), b"", words.data.cast("B"))
    if earlier is None:
        settled = None if context.repairable else context.members
        return InputRecord(context.input_digest, tag, settled)
    if earlier.input_digest != context.input_digest:
        raise SumError(
            "The saved record is of another input.", "Give the record of this agreement, task and iteration."
        )
    if earlier.data_tag != tag:
        raise MaskReused(
            "This input was already sent with other data; under the same mask the two would show their difference.",
            "Send the same data again, or give the changed data a new iteration.",
        )
    allowed = earlier.settled is None or set(earlier.settled) <= set(context.members)
    if not allowed or (not context.repairable and earlier.settled not in (None, context.members)):
        raise SecondTotalRefused(
            "This input was already promised to a total over other members; two totals show the difference.",
            "Begin the attempt with the same members, or begin a new iteration.",
        )
    return replace(earlier, settled=earlier.settled if context.repairable else context.members)


# Sending and receiving


def _check_message(seat: Seat, state: SumState, message: Message) -> None:
    """Refuse what no member that follows the protocol sends, before any of it is used."""
    body, count = message.body, len(seat.publics)
    named = members_named(body) | {message.sender}
    if message.receiver != seat.position or not all(0 <= each < count for each in named):
        raise MessageMalformed("A message names somebody who is not a member of this sum.", "It is of another sum.")
    if any(vector.shape != (state.length,) for vector in vectors_in(body)):
        raise MessageMalformed(
            f"A message holds a vector of another length than {state.length}.", "Members must agree on what is summed."
        )
    if isinstance(body, Report) and (body.rows.ndim != 2 or body.rows.shape[1] != count):
        raise MessageMalformed("A report has not one column for each member.", "The sender's version differs.")
    # Its own value and two of every round, in the dissemination of all and in one after each leave.
    most_rows = 1 + 2 * (count.bit_length() + 1) * (count - seat.context.threshold + 2)
    if isinstance(body, Report) and len(body.rows) > most_rows:
        raise MessageMalformed("A report has more rows than anybody can hold.", "The sender's version differs.")
    if isinstance(body, Passed) and not 0 <= body.round < count.bit_length():
        raise MessageMalformed("A parcel is of a round that there is not.", "The sender's version differs.")
    if any(share.shape != (SEED_LIMBS,) or (share >= np.uint64(PRIME)).any() for share in shares_in(body)):
        raise MessageMalformed("A message holds a share that is none.", "The sender's version differs.")


def _received(seat: Seat, state: SumState, message: Message) -> SumState:
    sender, body = message.sender, message.body
    if isinstance(body, Passed | Given):
        return placed(seat, state, message)
    if isinstance(body, Dealt):
        if sender in state.shares:
            return state
        return state.changed(shares={**state.shares, sender: opened_dealing(seat, sender, body.dealing)})
    if isinstance(body, Ready):
        return state.changed(ready=state.ready | {sender})
    if isinstance(body, Voted):
        return with_votes(seat, state, {sender: body.vote})
    if isinstance(body, Revealed):
        return state.changed(facts=state.facts.with_revealed(sender, body))
    if isinstance(body, Report):
        return _with_report(seat, state, sender, body)
    return state if state.total is not None else state.changed(stopped=body.reason)


# When somebody leaves


def _with_left(seat: Seat, state: SumState, newly: Members) -> SumState:
    """Stop adding, keep what came, and report it to all who are left."""
    left = state.left | newly
    if seat.position in left:
        return state.changed(stopped="left out")
    rows, values = holdings(seat, state)
    state = state.changed(
        left=left,
        rows=state.rows + rows,
        values=state.values + values,
        relay=None,
        decided=False,
        early=tuple(message for message in state.early if not is_late(message, left)),
    )
    report = Report(
        left,
        np.stack(state.rows or [unit_row(seat, seat.position)]),
        state.included,
        frozenset(state.shares),
        state.facts,
    )
    return told_to_all(seat, state.changed(reports={seat.position: report}), report)


def _with_report(seat: Seat, state: SumState, sender: int, report: Report) -> SumState:
    state = state.changed(facts=state.facts.joined(report.facts))
    state = with_votes(seat, state, dict(report.facts.votes))
    if not report.left <= state.left:
        state = _with_left(seat, state, report.left - state.left)
    if report.left == state.left and state.stopped is None:
        state = state.changed(reports={**state.reports, sender: report})
    return state


# What follows from what is known: each rule does its part or nothing


def _settled(seat: Seat, state: SumState) -> SumState:
    rules: tuple[Callable[[Seat, SumState], SumState], ...] = (
        _say_ready,
        _all_ready,
        _decide,
        add_up,
        _vote,
        reveal,
        open_total,
    )
    for rule in rules:
        if state.stopped is None:
            state = rule(seat, state)
    return state


def _say_ready(seat: Seat, state: SumState) -> SumState:
    """Once everyone's shares are here, tell everyone."""
    if not seat.context.repairable or seat.position in state.ready or len(state.shares) < len(seat.publics):
        return state
    return told_to_all(seat, state.changed(ready=state.ready | {seat.position}), Ready())


def _all_ready(seat: Seat, state: SumState) -> SumState:
    """Once everyone holds everyone's shares, masked values may go out: from then on every leaver can be repaired."""
    if state.left or state.decided or len(state.ready) < len(seat.publics):
        return state
    return _begin_first_relay(seat, state, state.values[0])


def _begin_first_relay(seat: Seat, state: SumState, hidden: Words) -> SumState:
    everyone = tuple(range(len(seat.publics)))
    return begin_relay(seat, state, everyone, frozenset(everyone), None, hidden)


def _decide(seat: Seat, state: SumState) -> SumState:
    """All who are left have reported the same: give the masked total to those who lack it, or add up again, or stop."""
    if not state.left or state.decided or len(state.reports) + len(state.left) < len(seat.publics):
        return state
    survivors = survivors_of(seat, state)
    complete = {member: state.reports[member].complete for member in survivors}
    totals = {included for included in complete.values() if included is not None}
    if len(totals) > 1:
        return _stop(seat, state, "second total")
    if totals:
        (included,) = totals
        return _give(seat, state, included, [member for member in survivors if complete[member] is None])
    if not seat.context.repairable:
        return _stop(seat, state, "missing")
    plan = recovery_plan({member: state.reports[member].rows for member in survivors})
    if not openable(seat, state, plan.included):
        return _stop(seat, state, "missing")
    rows = np.stack([combined(plan.weights[member], state.reports[member].rows) for member in survivors])
    own = combined(plan.weights[seat.position], np.stack(state.values))
    return begin_relay(seat, state, tuple(survivors), plan.included, rows, own)


def _give(seat: Seat, state: SumState, included: Members, lacking: list[int]) -> SumState:
    """Somebody holds the masked total: the first who does gives it to those who lack it."""
    if not openable(seat, state, included):
        return _stop(seat, state, "missing")
    early, state = state.early, state.changed(early=(), decided=True)
    giver = next(member for member in survivors_of(seat, state) if member not in lacking)
    if seat.position == giver and state.masked_total is not None:
        state = sent_to(seat, state, lacking, Given(state.left, included, state.masked_total))
    for message in early:
        state = placed(seat, state, message)
    return state


def _vote(seat: Seat, state: SumState) -> SumState:
    """Vote for the total that this member holds, unless the input was promised to another one."""
    if not seat.context.repairable or state.included is None or seat.position in state.facts.votes:
        return state
    names = tuple(seat.context.members[member] for member in sorted(state.included))
    if state.record.settled not in (None, names):
        return _stop(seat, state, "second total")
    return cast_vote(seat, state.changed(record=replace(state.record, settled=names)), state.included)


def _stop(seat: Seat, state: SumState, reason: Reason) -> SumState:
    return told_to_all(seat, state.changed(stopped=reason), Stopped(reason))
