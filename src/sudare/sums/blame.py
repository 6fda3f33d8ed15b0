"""What signed statements prove: who said different things about one sum, or voted for two sets of members with one input."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from sudare.errors import MessageMalformed
from sudare.sums.statements import KINDS, Kind, Statement
from sudare.sums.wire import packed, unpacked

# The content of a vote begins with the digest of the input (`sudare.sums.messages.vote_content`).
_INPUT_BYTES: Final = 32


@dataclass(frozen=True)
class Transcript:
    """Everything signed that one member heard or said in a sum, with all members' names and keys for signatures, in their order."""

    members: tuple[str, ...]
    signing_keys: tuple[bytes, ...]
    task: str
    iteration: int
    statements: tuple[Statement, ...]

    def to_bytes(self) -> bytes:
        """The canonical form."""
        return packed(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> Transcript:
        """The transcript of these bytes. Raise MessageMalformed unless they are one."""
        found = unpacked(content, cls, Statement)
        if not isinstance(found, cls) or len(found.members) != len(found.signing_keys):
            raise MessageMalformed("These bytes are not a transcript.", "Give the file that a member saved.")
        return found

    @property
    def signed(self) -> tuple[Statement, ...]:
        """The statements whose signatures are their signers'."""
        keys = self.signing_keys
        return tuple(
            each for each in self.statements if 0 <= each.signer < len(keys) and each.is_signed_by(keys[each.signer])
        )


@dataclass(frozen=True)
class Contradiction:
    """Two signed statements that no honest member makes both; or, where `signer` is None, that cannot both be true."""

    signer: str | None
    reason: str
    statements: tuple[Statement, Statement]


def contradictions(transcripts: Sequence[Transcript]) -> list[Contradiction]:
    """What the transcripts of members of one consortium prove. Where totals differ and nobody can be named, `signer` is None."""
    statements = list(dict.fromkeys(each for transcript in transcripts for each in transcript.signed))
    names = transcripts[0].members if transcripts else ()
    lies = [
        Contradiction(names[first.signer], reason, (first, second))
        for reason, groups in (
            ("two different statements about one sum", _same_kind(statements)),
            ("votes for two sets of members with one input", _same_input(statements)),
        )
        for first, second in map(_differing, groups)
        if first is not second
    ]
    heard = [_differing(group) for group in _grouped(statements, "heard", lambda each: each.context)]
    unattributed = [
        Contradiction(None, "members heard different totals of one sum", pair)
        for pair in heard
        if pair[0] is not pair[1] and not any(lie.statements[0].context == pair[0].context for lie in lies)
    ]
    return lies + unattributed


def _same_kind(statements: Sequence[Statement]) -> list[list[Statement]]:
    """Statements of one signer of one kind about one sum."""
    return [group for kind in KINDS for group in _grouped(statements, kind, lambda each: (each.signer, each.context))]


def _same_input(statements: Sequence[Statement]) -> list[list[Statement]]:
    """Of each signer one vote an attempt, over all attempts with one input; they must be for one set of members."""
    groups = _grouped(statements, "vote", lambda each: (each.signer, each.content[:_INPUT_BYTES]))
    found = []
    for group in groups:
        sets = {_members_voted_for(each): each for each in group}
        contexts = {each.context for each in sets.values()}
        if len(sets) > 1 and len(contexts) > 1:
            found.append(list(sets.values()))
    return found


def _members_voted_for(vote: Statement) -> bytes:
    """The second of the two sets that a vote names."""
    return vote.content[(_INPUT_BYTES + len(vote.content)) // 2 :]


def _grouped(
    statements: Sequence[Statement], kind: Kind, key: Callable[[Statement], Hashable]
) -> list[list[Statement]]:
    groups: dict[Hashable, list[Statement]] = {}
    for each in statements:
        if each.kind == kind:
            groups.setdefault(key(each), []).append(each)
    return list(groups.values())


def _differing(group: list[Statement]) -> tuple[Statement, Statement]:
    """Two of different content; the same one twice if there are none."""
    return group[0], next((each for each in group if each.content != group[0].content), group[0])
