"""Which signed statements a member holds of a sum: those it took in, and those that it refused and that may prove a lie."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from sudare.sums.canonical_encoding import field_types
from sudare.sums.collector import CollectorState
from sudare.sums.context import Participant
from sudare.sums.heard_totals import HeardTotals
from sudare.sums.member import MemberState
from sudare.sums.messages import Body, heard_content, vote_content
from sudare.sums.serverless import ServerlessState
from sudare.sums.statements import KINDS, SIGNATURE_BYTES, Kind, Statement

# Two of one kind by one signer prove that it lied; more prove nothing more.
_MOST_OF_A_KIND: Final = 2
# No honest statement is larger: shares of every member's secrets, or keys with a choice of neighbours.
_MOST_BYTES, _MOST_BYTES_A_MEMBER = 1 << 8, 1 << 6


def signed_in(body: Body) -> list[Statement]:
    """The statements that a message holds whole."""
    found: list[Statement] = []
    kind: type = type(body)
    for name in _names_of_statements(kind):
        value = getattr(body, name)
        if isinstance(value, Statement):
            found.append(value)
        elif isinstance(value, Mapping):
            found += value.values()
    return found


@lru_cache(maxsize=64)
def _names_of_statements(kind: type) -> tuple[str, ...]:
    """The fields of a class of messages that may hold statements, or several of them by member."""
    types = {Statement, Statement | None, Mapping[int, Statement]}
    return tuple(name for name, each in field_types(kind).items() if each in types)


def signed_to_member(me: Participant, state: MemberState | ServerlessState) -> list[Statement]:
    """What a member was told and took in."""
    found = [*state.heard_totals.statements]
    if isinstance(state, ServerlessState):
        return found
    found += [*state.keys.values(), *state.collected]
    if state.certificate is not None:
        body, content = (
            state.certificate,
            vote_content(me.context, *map(me.context.members_in, (state.dealers, state.included))),
        )
        found += _of(me, "vote", content, _by_signer(sorted(me.context.members_in(body.voters)), body.signatures))
        # Only those that it had to check, put together as they were then: a collector may cut them anyhow.
        owners = sorted(frozenset(state.shares) & me.context.members_in(state.included) - {me.position})
        signatures = b"".join(body.dealers.get(owner, b"") for owner in owners)
        found += _of(me, "dealers", state.dealers, _by_signer(owners, signatures))
    if state.confirmation is not None and state.heard_totals.own is not None:
        hearers = _by_signer(sorted(me.context.members_in(state.confirmation.hearers)), state.confirmation.signatures)
        found += _of(me, "heard", state.heard_totals.own.heard.content, hearers)
    return found


def signed_to_collector(me: Participant, state: CollectorState) -> list[Statement]:
    """What a collector was told and took in."""
    dealers, included = frozenset(state.boxes), frozenset(state.inputs)
    found = [*state.keys.values(), *state.aside.values(), *state.shares.values()]
    found += _of(me, "dealers", me.context.bitmap(dealers), state.inputs)
    found += _of(me, "vote", vote_content(me.context, dealers, included), state.votes)
    if state.total is not None:
        found += _of(me, "heard", heard_content(me.context, included, state.total), state.heard)
    return found


def with_refused(
    me: Participant,
    refused: tuple[Statement, ...],
    body: Body,
    member: MemberState | ServerlessState | None,
    collector: CollectorState | None,
) -> tuple[Statement, ...]:
    """The refused statements after a message: with those in it that are signed, about this sum, and were not taken in. A relay is no `member`."""
    for each in signed_in(body):
        if _is_taken(each, member, collector):
            continue
        alike = [other for other in refused if (other.kind, other.signer) == (each.kind, each.signer)]
        is_new = len(alike) < _MOST_OF_A_KIND and all(other.content != each.content for other in alike)
        signers = me.context.publics
        is_of_sum = each.kind in KINDS and each.context == me.context.digest and 0 <= each.signer < len(signers)
        is_small = len(each.content) <= _MOST_BYTES + _MOST_BYTES_A_MEMBER * len(me.publics)
        if is_new and is_of_sum and is_small and each.is_signed_by(signers[each.signer].signing):
            refused = (*refused, each)
    return refused


def _is_taken(each: Statement, member: MemberState | ServerlessState | None, collector: CollectorState | None) -> bool:
    heard_totals, signer = HeardTotals() if member is None else member.heard_totals, each.signer
    if each.kind == "heard":
        other = heard_totals.others.get(signer)
        is_taken = (other is not None and other.heard == each) or (
            heard_totals.own is not None and heard_totals.own.heard == each
        )
        return is_taken or (collector is not None and collector.heard.get(signer) == each.signature)
    if each.kind == "total":
        return heard_totals.own is not None and heard_totals.own.total == each
    if isinstance(member, MemberState) and (member.keys.get(signer) == each or each in member.collected):
        return True
    if collector is None:
        return False
    signature = (collector.votes if each.kind == "vote" else collector.inputs).get(signer)
    return each in (collector.keys.get(signer), collector.shares.get(signer)) or signature == each.signature


def _of(me: Participant, kind: Kind, content: bytes, signatures: Mapping[int, bytes]) -> list[Statement]:
    """One statement for each signature."""
    digest = me.context.digest
    return [Statement(kind, signer, digest, content, signature) for signer, signature in signatures.items()]


def _by_signer(signers: list[int], signatures: bytes) -> dict[int, bytes]:
    """Signatures in the order of members, by their signers."""
    places = range(0, len(signatures), SIGNATURE_BYTES)
    return {signer: signatures[at : at + SIGNATURE_BYTES] for signer, at in zip(signers, places, strict=True)}
