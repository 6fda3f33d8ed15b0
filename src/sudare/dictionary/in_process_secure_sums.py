"""Members' addends become a total, in one process, by `sudare.sums`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sudare.array_types import Floats
from sudare.errors import InvalidParameter, MembersMissing
from sudare.sums.fixed_point import FixedPoint
from sudare.sums.in_process import HIDES, Hide, secure_sum
from sudare.sums.keys import MemberKeys

# Addends lie within ±1. Floats of that size have no finer bits worth keeping, and a thousand members still fit into 64.
ADDENDS: Final = FixedPoint(-1.0, 1.0, 2.0**-52)


def adder(members: int, hide: Hide) -> Callable[[Sequence[Floats]], list[Floats]]:
    """A function from one addend per member to what each of them ends with: the total, and nothing else."""
    if hide not in HIDES:
        raise InvalidParameter(f"There is no way of hiding named {hide!r}.", f"Use one of: {', '.join(HIDES)}.")
    keys = [MemberKeys.generated() for _ in range(members)] if hide == "masks" else None

    def add_up(addends: Sequence[Floats]) -> list[Floats]:
        if members == 1:
            return [addends[0]]
        found = secure_sum(addends, hide, fixed_point=ADDENDS, keys=keys)
        totals = [total for total in found.totals if total is not None]
        if len(totals) < members:
            raise MembersMissing("A member left a sum.", "Begin the training again.")
        return totals

    return add_up
