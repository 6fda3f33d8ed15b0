"""Which total each member says it heard: signed, and compared before the total is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sudare.sums.context import Participant
from sudare.sums.messages import HEARD_BYTES, Heard
from sudare.sums.statements import Statement, holds


@dataclass(frozen=True)
class HeardTotals:
    """What this member says it heard, once it has a total, and what the others said, by sender."""

    own: Heard | None = None
    others: Mapping[int, Heard] = field(default_factory=dict)

    def with_own(self, own: Heard) -> HeardTotals:
        """After this member has a total itself."""
        return HeardTotals(own, self.others)

    def with_other(self, me: Participant, sender: int, body: Heard) -> HeardTotals:
        """Returns these with what another member said, if it is signed and the first it says. Where there is a collector, its statement must be with it and say the same."""
        if sender in self.others:
            return self
        # Only what a total's digest can be is kept: nobody fills another's memory.
        is_believed = len(body.heard.content) == HEARD_BYTES and holds(me, body.heard, "heard", sender)
        if not me.context.may_leave:
            is_believed = is_believed and body.total is None
        else:
            is_believed = (
                is_believed
                and body.total is not None
                and holds(me, body.total, "total", me.context.collector)
                and body.total.content == body.heard.content
            )
        return HeardTotals(self.own, {**self.others, sender: body}) if is_believed else self

    @property
    def _all(self) -> list[Heard]:
        return [*self.others.values(), *([] if self.own is None else [self.own])]

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
        everything = self._all
        if len({body.heard.content for body in everything}) < 2:
            return ()
        first = everything[0]
        other = next(body for body in everything if body.heard.content != first.heard.content)
        both = (first.total, other.total, first.heard, other.heard)
        return tuple(statement for statement in both if statement is not None)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Everything that was signed."""
        return tuple(each for body in self._all for each in (body.heard, body.total) if each is not None)
