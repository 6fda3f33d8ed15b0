"""A training as a script of sums: what one member computes between one total and the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sudare.array_types import Words


@dataclass(frozen=True)
class Finished:
    """What a walk ends with; the same at every member."""

    result: object


class Walk(Protocol):
    """One member's way through a script of sums: state and total in, state and addend out.

    Noise in an addend may be drawn here: the runner keeps the addend, and never asks twice for one that was sent. `included` are
    the positions, in the agreement's order, of those whose addends are in the total. Where totals are without noise (`is_exact`) all sums of a
    task are over the members of the first: what a later total lacks of an earlier one would be the addend of whoever was left out.
    """

    @property
    def is_exact(self) -> bool:
        """Whether there is no noise in the totals."""

    def begun(self) -> tuple[bytes, Words]:
        """The first state and addend."""

    def step(self, state: bytes, total: Words, included: tuple[int, ...]) -> tuple[bytes, Words | Finished]:
        """The next state and addend after a total, or what the walk ends with."""
