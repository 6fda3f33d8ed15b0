"""Agreement on a total before it is used: members sign what they heard and compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sudare.sums.context import Seat
from sudare.sums.messages import Heard, heard_bytes
from sudare.sums.statements import Statement, holds


@dataclass(frozen=True)
class Hearing:
    """What this member heard (the content of its statement, once it has one) and what others said they heard, by sender."""

    own: Heard | None = None
    others: Mapping[int, Heard] = field(default_factory=dict)

    def with_own(self, own: Heard) -> Hearing:
        """After this member has a total itself."""
        return replace(self, own=own)

    def with_other(self, seat: Seat, sender: int, body: Heard) -> Hearing:
        """With what another member said, if it is signed and the first it says. The collector's word must be the same."""
        # Only what a total's digest can be is kept: nobody fills another's memory.
        is_believed = len(body.heard.content) == heard_bytes(seat.context) and holds(seat, body.heard, "heard", sender)
        if not seat.context.may_leave:
            is_believed = is_believed and body.total is None
        else:
            word = body.total
            is_believed = (
                is_believed
                and word is not None
                and holds(seat, word, "total", seat.context.collector)
                and word.content == body.heard.content
            )
        if not is_believed or sender in self.others:
            return self
        return replace(self, others={**self.others, sender: body})

    @property
    def agreeing(self) -> frozenset[int]:
        """Those who heard what this member heard."""
        if self.own is None:
            return frozenset()
        content = self.own.heard.content
        return frozenset(sender for sender, body in self.others.items() if body.heard.content == content)

    @property
    def contradiction(self) -> tuple[Statement, ...]:
        """Signed statements that cannot all be true, if there are any."""
        everything = [*self.others.values(), *([] if self.own is None else [self.own])]
        for body in everything[1:]:
            first = everything[0]
            if body.heard.content != first.heard.content:
                words = (first.total, body.total, first.heard, body.heard)
                return tuple(statement for statement in words if statement is not None)
        return ()

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Everything that was signed."""
        bodies = [*self.others.values(), *([] if self.own is None else [self.own])]
        return tuple(each for body in bodies for each in (body.heard, body.total) if each is not None)
