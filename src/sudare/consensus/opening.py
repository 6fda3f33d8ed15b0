"""Agreement on who is in a masked sum, and its opening: a signed vote each, then seeds, then the total."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sudare.consensus.messages import Facts, Members, Revealed, SumState, Voted
from sudare.consensus.recovery import Openings, can_open
from sudare.consensus.relaying import survivors_of, told_to_all
from sudare.consensus.sharing.masks import (
    Seat,
    Vote,
    boxed_seeds,
    repaired_seed,
    unmasked,
    vote,
    vote_holds,
)


def with_votes(seat: Seat, state: SumState, votes: dict[int, Vote]) -> SumState:
    """With those votes that are new and verify. Once t agree, more say nothing new."""
    if certified(seat, state) is not None:
        return state
    known = dict(state.facts.votes)
    for member, cast in votes.items():
        if member not in known and vote_holds(seat, member, cast):
            known[member] = cast
    return state.changed(facts=replace(state.facts, votes=known))


def certified(seat: Seat, state: SumState) -> Members | None:
    """The set of members on which t votes agree. As 2t > S and nobody votes twice, there is at most one."""
    votes = state.facts.votes
    if len(votes) < seat.context.threshold:
        return None
    included, count = Counter(cast.included for cast in votes.values()).most_common(1)[0]
    return included if count >= seat.context.threshold else None


def openable(seat: Seat, state: SumState, included: Members) -> bool:
    """Whether those who are left can open the total over these members, judged by their reports alone: all judge alike."""
    if not seat.context.repairable:
        return True
    survivors, everyone = survivors_of(seat, state), range(len(seat.publics))
    known, votes = Facts(), dict[int, Vote]()
    for survivor in survivors:
        known = known.joined(state.reports[survivor].facts)
        votes.update(state.reports[survivor].facts.votes)
    voters = {member for member, cast in votes.items() if cast.included == included and vote_holds(seat, member, cast)}
    holders = {
        member: frozenset(known.shares.get(member, {}))
        | frozenset(survivor for survivor in survivors if member in state.reports[survivor].dealers)
        for member in everyone
    }
    openings = Openings(frozenset(voters), frozenset(known.self_seeds), holders)
    return can_open(included, len(everyone), frozenset(survivors), seat.context.threshold, openings)


def cast_vote(seat: Seat, state: SumState, included: Members) -> SumState:
    """Tell everyone, with a signature, whose masked values are in the total that this member holds."""
    cast = vote(seat, included)
    facts = replace(state.facts, votes={**state.facts.votes, seat.position: cast})
    return told_to_all(seat, state.changed(facts=facts), Voted(cast))


def reveal(seat: Seat, state: SumState) -> SumState:
    """On t equal votes: the own self-seed, and of each that left the share of its self-seed or of its box, never both."""
    included = certified(seat, state)
    if included is None or not seat.context.repairable:
        return state
    known = seat.position in state.facts.self_seeds or seat.position not in included
    self_seed = None if known else seat.self_seed()
    gone = state.left | (frozenset(range(len(seat.publics))) - included)
    due = sorted((gone & frozenset(state.shares)) - state.revealed - frozenset(state.facts.self_seeds))
    if self_seed is None and not due:
        return state
    held = state.shares
    shares = {each: held[each].of_self_seed if each in included else held[each].of_box_key for each in due}
    revealed = Revealed(included, self_seed, shares, {each: held[each].box for each in due if each not in included})
    facts = state.facts.with_revealed(seat.position, revealed)
    state = state.changed(facts=facts, revealed=state.revealed | frozenset(due))
    return told_to_all(seat, state, revealed)


def open_total(seat: Seat, state: SumState) -> SumState:
    """The total, once every mask in it is known."""
    included, threshold, facts = state.included, seat.context.threshold, state.facts
    if state.total is not None or state.masked_total is None or included is None or not seat.context.repairable:
        return state
    if certified(seat, state) != included:
        return state
    everyone = frozenset(range(len(seat.publics)))
    by_shares = everyone - (included & frozenset(facts.self_seeds))
    if any(len(facts.shares.get(member, {})) < threshold for member in by_shares):
        return state
    repaired = {member: repaired_seed(facts.shares[member], threshold) for member in by_shares}
    self_seeds = {member: facts.self_seeds.get(member, repaired.get(member, b"")) for member in included}
    pair_seeds = {
        member: boxed_seeds(facts.boxes[member], repaired[member], seat.context) for member in everyone - included
    }
    return state.changed(total=unmasked(state.masked_total, sorted(included), self_seeds, pair_seeds))
