"""What signed statements prove about the sums of a task: who lied, or among whom somebody did.

Every rule below is one that an honest member's own statements keep whatever the others do (tests/sums/test_blame.py). So whoever breaks one by
its own statements lied; where statements of several members break one together, at least one of them lied, and no more can be said.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from sudare.errors import InvalidParameter, MessageMalformed
from sudare.sums.canonical_encoding import packed, unpacked_as
from sudare.sums.context import RelayedSumContext, Roster, SumContext, members_in, set_digest
from sudare.sums.keys import PublicKeys, is_of_small_order
from sudare.sums.messages import Members, OpenedShares, SumKeys
from sudare.sums.neighbour_graph import Neighbourhood
from sudare.sums.shamir import secrets_of_many, seed_or_none
from sudare.sums.statements import COLLECTED_KINDS, KINDS, Statement

Words = NDArray[np.uint64]
Item = TypeVar("Item")
# These name their sets, others sign digests of them.
_NAMING: Final = ("dealers", "included")
_DIGEST_BYTES: Final = 32
# Every start of a process makes at most two for each member; what a file of others claims beyond that is not looked at.
_MOST_ATTEMPTS_A_MEMBER: Final = 64
# In all: some seconds of work, whatever files of others claim.
_MOST_CONTEXTS: Final = 1 << 18

Reason = Literal[
    "two statements",
    "impossible statement",
    "own statements differ",
    "two sets",
    "two histories",
    "collector and member differ",
    "dealers differ",
    "totals differ",
    "totals differ without a collector",
    "copied keys",
    "shares do not fit",
    "histories differ",
]
MEANINGS: Final[Mapping[Reason, str]] = {
    "two statements": "signed two different statements of one kind about one attempt",
    "impossible statement": "signed a statement that the program never makes",
    "own statements differ": "signed two statements of which at most one can be true",
    "two sets": "voted with one input in two attempts where it may vote once, or for two sets of members",
    "two histories": "took part in one sum after two different histories of totals",
    "collector and member differ": "a member signed something else than the collector",
    "dealers differ": "members were told of different dealers of shares, or one of them says so",
    "totals differ": "members signed different totals of one sum",
    "totals differ without a collector": "members signed different totals of one sum: somebody passed on something false",
    "copied keys": "two members signed the same key or commitment, which one of them copied",
    "shares do not fit": "a share does not fit what its owner committed to: it was dealt falsely, or given out falsely",
    "histories differ": "members went into one sum after different histories of totals",
}


@dataclass(frozen=True)
class Transcript:
    """Everything signed that one member heard or said in all attempts at one sum. It holds no secrets of anybody.

    `context` is that of the last attempt. Shares in it are those that were given out after a vote: one half of what they open at most.
    """

    context: SumContext | RelayedSumContext
    statements: tuple[Statement, ...]

    def to_bytes(self) -> bytes:
        """The canonical form."""
        return packed(self)

    @classmethod
    def from_bytes(cls, content: bytes, most_values: int | None = None) -> Transcript:
        """The transcript of these bytes. Raise MessageMalformed unless they are one; other members' may have so many values at most."""
        inner = (SumContext, RelayedSumContext, Roster, PublicKeys, Neighbourhood, Statement)
        return unpacked_as(cls, content, *inner, most_values=most_values)

    @property
    def iteration(self) -> int:
        """Which sum of the task it is about."""
        return self.context.iteration


@dataclass(frozen=True)
class Contradiction:
    """Signed statements that cannot all be honest. At least one of the members `among` lied.

    Statements on one side say the same. A single one can contradict the protocol itself.
    """

    reason: Reason
    among: tuple[str, ...]
    iteration: int
    attempts: tuple[int, ...]
    sides: tuple[tuple[Statement, ...], ...]

    @property
    def liar(self) -> str | None:
        """The member whose own signatures prove that it lied; None if the lie cannot be attributed."""
        return self.among[0] if len(self.among) == 1 else None


def contradictions(transcripts: Sequence[Transcript]) -> list[Contradiction]:
    """What transcripts of one task prove: first what proves a lie of one member, then what nobody is proven to have caused.

    Signatures are checked by the keys in the first transcript, which must be the caller's own. Raise InvalidParameter unless the others
    name the same members and keys, agreement and task.
    """
    found = broken_rules(transcripts)
    attributed = [each for each in found if each.liar is not None]
    liars = {each.liar for each in attributed}
    # What a proven liar took part in needs no other explanation.
    return attributed + [each for each in found if each.liar is None and not liars & set(each.among)]


def broken_rules(transcripts: Sequence[Transcript]) -> list[Contradiction]:
    """Returns all contradictions, those included that a proven liar may have caused among others."""
    if not transcripts:
        return []
    _check_same_task(transcripts)
    sums = _sums(transcripts)
    found = [each for about in sums for each in _within(about)]
    return [*found, *_two_sets(sums), *_histories(sums)]


def _check_same_task(transcripts: Sequence[Transcript]) -> None:
    first = transcripts[0].context
    expected = first.agreement, first.task, first.roster, first.publics
    for each in transcripts:
        context = each.context
        if (context.agreement, context.task, context.roster, context.publics) != expected:
            raise InvalidParameter(
                "A transcript is of another agreement or task, or of members with other keys.",
                "Give transcripts of one task of one agreement.",
            )


# What was said about one attempt


class _About:
    """The signed statements about one attempt, with what those of the right form say."""

    def __init__(self, context: SumContext, statements: Sequence[Statement]) -> None:
        self.context, self.statements = context, statements
        self.malformed: list[Statement] = []
        self.keys: dict[int, tuple[Statement, SumKeys]] = {}
        self.shares: dict[int, tuple[Statement, OpenedShares]] = {}
        # Of statements about sets: by kind and signer, who dealt, who is in the sum, and which total.
        self.sets: dict[str, dict[int, tuple[Statement, _Sets]]] = {}
        # The sets that somebody names, by the digests that others sign.
        self.members: dict[bytes, Members] = {}
        everyone = frozenset(range(len(context.roster)))
        self.members[set_digest(everyone, len(everyone))] = everyone
        for each in sorted(statements, key=lambda each: each.kind not in _NAMING):
            try:
                self._read(each)
            except MessageMalformed:
                self.malformed.append(each)

    def _read(self, each: Statement) -> None:
        context, signer = self.context, each.signer
        if signer >= len(context.roster) and each.kind not in COLLECTED_KINDS:
            raise MessageMalformed("A relay says only what collectors say.", "Use one program version.")
        if not context.may_leave and each.kind != "heard":
            raise MessageMalformed("A sum without a collector has no such statement.", "Use one program version.")
        if each.kind == "keys":
            keys = SumKeys.from_bytes(each.content, context, signer)
            if is_of_small_order(keys.mask_key):
                raise MessageMalformed("A key is of small order.", "Use one program version.")
            self.keys.setdefault(signer, (each, keys))
        elif each.kind == "shares":
            shares = OpenedShares.from_bytes(each.content)
            _check_shares(shares, signer, len(context.roster))
            self.shares.setdefault(signer, (each, shares))
        else:
            if each.kind in _NAMING:
                members = members_in(each.content, len(context.roster))
                self.members[set_digest(members, len(context.roster))] = members
            sets = _sets_of(each, context)
            self._check(each, sets)
            self.sets.setdefault(each.kind, {}).setdefault(signer, (each, sets))

    def _check(self, each: Statement, sets: _Sets) -> None:
        """Raise MessageMalformed unless an honest member can have signed it."""
        collects = each.kind in COLLECTED_KINDS
        signs = self.context.collector == each.signer if collects else True
        dealers, included = self.members.get(sets.dealers), self.members.get(sets.included)
        named = [members for members in (dealers, included) if members is not None]
        holds_itself = collects or all(each.signer in members for members in named)
        is_within = dealers is None or included is None or included <= dealers
        is_enough = all(len(members) >= self.context.threshold for members in named)
        # Where nobody may leave, all are in the sum.
        is_whole = self.context.may_leave or included is not None
        if not (signs and holds_itself and is_within and is_enough and is_whole):
            raise MessageMalformed("No honest member signs this.", "Use one program version.")

    def said(self, *kinds: str) -> Iterator[tuple[Statement, _Sets]]:
        """What members said of these kinds, in the order of kinds and members."""
        for kind in kinds:
            said = self.sets.get(kind, {})
            yield from (said[signer] for signer in sorted(said))

    def contradiction(self, reason: Reason, among: Iterable[int], *sides: Sequence[Statement]) -> Contradiction:
        """Returns a contradiction with the names of those among whom somebody lied."""
        names = tuple(self.context.names[member] for member in sorted(set(among)))
        attempt = (self.context.attempt,)
        return Contradiction(reason, names, self.context.iteration, attempt, tuple(map(tuple, sides)))


@dataclass(frozen=True)
class _Sets:
    """Digests of the sets of members and of the total that a statement speaks of; empty where it does not."""

    dealers: bytes = b""
    included: bytes = b""
    total: bytes = b""


def _sets_of(each: Statement, context: SumContext) -> _Sets:
    """What a statement says of sets. Raise MessageMalformed unless it has the form of its kind."""
    count, content = len(context.roster), each.content
    if each.kind == "dealers":
        return _Sets(dealers=set_digest(members_in(content, count), count))
    if each.kind == "included":
        return _Sets(included=set_digest(members_in(content, count), count))
    parts = [content[at : at + _DIGEST_BYTES] for at in range(0, len(content), _DIGEST_BYTES)]
    if len(content) != _DIGEST_BYTES * (3 if each.kind == "vote" else 2):
        raise MessageMalformed("A statement has another size.", "Use one program version.")
    if each.kind != "vote":
        return _Sets(included=parts[0], total=parts[1])
    if parts[0] != context.input_digest:
        raise MessageMalformed("A vote is on another input.", "Use one program version.")
    return _Sets(parts[1], parts[2])


def _check_shares(shares: OpenedShares, signer: int, count: int) -> None:
    """Raise MessageMalformed where both halves of somebody's secrets are given out, or the signer's own self-seed is not."""
    halves = frozenset(shares.of_self_seeds), frozenset(shares.of_mask_keys)
    if halves[0] & halves[1] or signer not in halves[0] or not halves[0] | halves[1] <= frozenset(range(count)):
        raise MessageMalformed("No honest member gives out these shares.", "Use one program version.")


def _sums(transcripts: Sequence[Transcript]) -> list[_About]:
    """All that is signed about each attempt that a transcript can be about, in the order of iterations and attempts."""
    publics = transcripts[0].context.publics
    contexts = _contexts(transcripts)
    found: dict[bytes, dict[tuple[str, int, bytes], Statement]] = {}
    for each in dict.fromkeys(each for transcript in transcripts for each in transcript.statements):
        # Kinds and digests of other lengths could be read out of the bytes of an honest signature.
        is_of_sum = each.kind in KINDS and each.context in contexts and 0 <= each.signer < len(publics)
        if is_of_sum and each.is_signed_by(publics[each.signer].signing):
            found.setdefault(each.context, {}).setdefault((each.kind, each.signer, each.content), each)
    about = [_About(contexts[digest], list(each.values())) for digest, each in found.items()]
    return sorted(about, key=lambda each: (each.context.iteration, each.context.attempt, each.context.history))


def _contexts(transcripts: Sequence[Transcript]) -> dict[bytes, SumContext]:
    """The attempts that a transcript can be about, by their digests: first attempts of all sums first, up to a number that is soon looked at."""
    members = len(transcripts[0].context.roster)
    last: dict[int, int] = {}
    for each in transcripts:
        claimed = min(each.context.attempt, _MOST_ATTEMPTS_A_MEMBER * members)
        last[each.iteration] = max(claimed, last.get(each.iteration, 0))
    bases = {(base := replace(each.context, attempt=0)).digest: base for each in transcripts}.values()
    everything = (
        replace(base, attempt=attempt)
        for attempt in range(max(last.values()) + 1)
        for base in bases
        if attempt <= last[base.iteration]
    )
    return {context.digest: context for context in islice(everything, _MOST_CONTEXTS)}


# Within one attempt


def _within(about: _About) -> Iterator[Contradiction]:
    yield from _two_statements(about)
    for each in about.malformed:
        yield about.contradiction("impossible statement", [each.signer], [each])
    yield from _own_statements(about)
    yield from _against_collector(about)
    yield from _sides_of(about, "dealers differ", ("dealers", "vote"), lambda sets: sets.dealers)
    totals: Reason = "totals differ" if about.context.may_leave else "totals differ without a collector"
    yield from _sides_of(about, totals, ("heard",), lambda sets: (sets.included, sets.total))
    yield from _copied_keys(about)
    yield from _unfit_shares(about)


def _two_statements(about: _About) -> Iterator[Contradiction]:
    for group in _grouped(about.statements, lambda each: (each.kind, each.signer)):
        if len(group) > 1:
            yield about.contradiction("two statements", [group[0].signer], *([each] for each in group[:2]))


def _own_statements(about: _About) -> Iterator[Contradiction]:
    """Pairs of statements of one signer that its program never makes both."""
    pairs = (("dealers", "vote"), ("vote", "heard"), ("included", "total"))
    for first_kind, second_kind in pairs:
        for signer, (second, theirs) in about.sets.get(second_kind, {}).items():
            said = about.sets.get(first_kind, {}).get(signer)
            if said is not None and not _agree(said[1], theirs):
                yield about.contradiction("own statements differ", [signer], [said[0]], [second])
    for signer, (shares, given) in about.shares.items():
        said = about.sets.get("vote", {}).get(signer)
        if said is not None and not _is_asked_for(about, said[1], given):
            yield about.contradiction("own statements differ", [signer], [said[0]], [shares])
    if about.context.is_sparse:
        for each, sets in about.said("dealers", "vote"):
            keys, members = about.keys.get(each.signer), about.members.get(sets.included or sets.dealers)
            if keys is not None and members is not None:
                holders = frozenset(keys[1].neighbours) & members
                if len(holders) < about.context.share_threshold:
                    yield about.contradiction("own statements differ", [each.signer], [keys[0]], [each])


def _agree(first: _Sets, second: _Sets) -> bool:
    """Whether two statements say the same of what both speak of."""
    pairs = ((first.dealers, second.dealers), (first.included, second.included), (first.total, second.total))
    return all(one == other for one, other in pairs if one and other)


def _is_asked_for(about: _About, vote: _Sets, given: OpenedShares) -> bool:
    """Whether these are shares that a vote asks for: self-seeds of those in the sum, keys of dealers that are not.

    Also where nobody has named the sets that were voted for.
    """
    dealers, included = about.members.get(vote.dealers), about.members.get(vote.included)
    if dealers is None or included is None:
        return True
    halves = frozenset(given.of_self_seeds), frozenset(given.of_mask_keys)
    if about.context.is_sparse:
        return halves[0] <= included and halves[1] <= dealers - included
    return halves == (included, dealers - included)


def _against_collector(about: _About) -> Iterator[Contradiction]:
    """A member signs of the sum what the collector signed: where they differ, the collector signed something else for it, or it lies."""
    for collected, sets in about.said("included", "total"):
        for each, theirs in about.said("vote", "heard"):
            if not _agree(sets, theirs):
                yield about.contradiction(
                    "collector and member differ", [collected.signer, each.signer], [collected], [each]
                )


def _sides_of(
    about: _About, reason: Reason, kinds: tuple[str, ...], key: Callable[[_Sets], Hashable]
) -> Iterator[Contradiction]:
    """Members that were to say the same of something and do not, by what they say; the collector told them, or everyone did."""
    sides: dict[Hashable, list[Statement]] = {}
    for each, sets in about.said(*kinds):
        sides.setdefault(key(sets), []).append(each)
    if len(sides) > 1:
        signers = [each.signer for side in sides.values() for each in side]
        context = about.context
        among = [*signers, context.collector] if context.may_leave else range(len(context.roster))
        yield about.contradiction(reason, among, *sides.values())


def _copied_keys(about: _About) -> Iterator[Contradiction]:
    """Keys and commitments are drawn from secrets of their owners; two that are equal were copied."""
    owners: dict[bytes, Statement] = {}
    for signer, (each, keys) in sorted(about.keys.items()):
        for drawn in (keys.mask_key, keys.commitment):
            first = owners.setdefault(drawn, each)
            if first.signer != signer:
                yield about.contradiction("copied keys", [first.signer, signer], [first], [each])


# Shares


def _unfit_shares(about: _About) -> Iterator[Contradiction]:
    """Shares that do not give what their owner committed to."""
    context = about.context
    for owner, (keys, said) in about.keys.items():
        holders = {owner, *said.neighbours} if context.is_sparse else set(range(len(context.roster)))
        given = {holder: each for holder, (_, each) in about.shares.items() if holder in holders}
        seeds = {holder: each.of_self_seeds[owner] for holder, each in given.items() if owner in each.of_self_seeds}
        secrets = {holder: each.of_mask_keys[owner] for holder, each in given.items() if owner in each.of_mask_keys}
        for shares, is_right in ((seeds, partial(said.is_self_seed, context)), (secrets, said.is_mask_secret)):
            if len(shares) < context.share_threshold:
                continue
            fitting = _fitting(shares, context.share_threshold, is_right)
            others = sorted(frozenset(shares) - fitting)
            if not others:
                continue
            # So many that enough of them are honest: then what they agree on is what an honest owner dealt.
            if len(fitting) >= context.share_threshold + context.dishonest:
                for holder in others:
                    yield about.contradiction("shares do not fit", [owner, holder], [keys], [about.shares[holder][0]])
            else:
                statements = [about.shares[holder][0] for holder in sorted(shares)]
                yield about.contradiction("shares do not fit", [owner, *shares], [keys], statements)


def _fitting(shares: Mapping[int, Words], needed: int, is_right: Callable[[bytes], bool]) -> Members:
    """Holders whose shares lie on one polynomial that gives the right secret; those of the best one found, single holders left out by turns."""
    best: Members = frozenset()
    for left_out in (None, *sorted(shares)):
        holders = [holder for holder in sorted(shares) if holder != left_out]
        if len(holders) < needed:
            continue
        chosen = holders[:needed]
        # A share lies on the polynomial through the others if it gives the same secret in the place of one of them.
        rows = [[*chosen[:-1], holder] for holder in (chosen[-1], *(each for each in shares if each not in chosen))]
        values = np.array([[shares[holder] for holder in row] for row in rows], dtype=np.uint64)
        limbs = secrets_of_many(np.array(rows, dtype=np.uint64), values)
        secret = seed_or_none(limbs[0])
        if secret is None or not is_right(secret):
            continue
        same = (limbs == limbs[0]).all(axis=1)
        fitting = frozenset(chosen) | {row[-1] for row, fits in zip(rows, same.tolist(), strict=True) if fits}
        best = max(best, fitting, key=len)
        if len(best) == len(shares):
            break
    return best


# Over attempts, and over iterations


def _two_sets(sums: Sequence[_About]) -> Iterator[Contradiction]:
    """Votes of one member with one input: for one set of members, and on a sparse graph in one attempt."""
    votes = [(about, *vote) for about in sums for vote in about.sets.get("vote", {}).values()]
    for group in _grouped(votes, lambda vote: (vote[1].signer, vote[0].context.iteration)):
        about, first, sets = group[0]
        for other, second, theirs in group[1:]:
            if theirs.included != sets.included or about.context.is_sparse or other.context.is_sparse:
                attempts = about.context.attempt, other.context.attempt
                found = about.contradiction("two sets", [first.signer], [first], [second])
                yield replace(found, attempts=attempts)
                break


def _histories(sums: Sequence[_About]) -> Iterator[Contradiction]:
    """Contexts of one iteration that differ in what was heard before: nobody honest is in both, and all honest participants in one."""
    for group in _grouped(sums, lambda about: about.context.iteration):
        sides: dict[bytes, dict[int, Statement]] = {}
        for about in group:
            signers = sides.setdefault(about.context.history, {})
            for each in about.statements:
                signers.setdefault(each.signer, each)
        if len(sides) < 2:
            continue
        said: dict[int, list[Statement]] = {}
        for side in sides.values():
            for signer, statement in side.items():
                said.setdefault(signer, []).append(statement)
        everyone = range(len(group[0].context.publics))
        found = group[0].contradiction("histories differ", everyone, *(tuple(side.values()) for side in sides.values()))
        yield replace(found, attempts=())
        for signer in sorted(said):
            if len(said[signer]) > 1:
                one, another = said[signer][:2]
                yield replace(group[0].contradiction("two histories", [signer], [one], [another]), attempts=())


def _grouped(items: Iterable[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    groups: dict[Hashable, list[Item]] = {}
    for each in items:
        groups.setdefault(key(each), []).append(each)
    return list(groups.values())
