"""Public numbers of learning in batches; no JAX is needed to state them."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Final, Literal

from sudare.errors import InvalidParameter

Clipping = Literal["example", "batch"]
LARGEST_RATE: Final = 1e30
MOST_ROWS: Final = 2**31


@dataclass(frozen=True)
class Course:
    """Passes over the rows, rows a batch, first rate and momentum."""

    epochs: int
    batch_rows: int
    rate: float
    momentum: float = 0.9

    def __post_init__(self) -> None:
        for name, number in (("epochs", self.epochs), ("batch_rows", self.batch_rows)):
            if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_ROWS:
                raise InvalidParameter(
                    f"{name} must be a whole number of at least 1 and at most 2³¹, got {number!r}.",
                    "Use for example 10.",
                )
        for name, size in (("rate", self.rate), ("momentum", self.momentum)):
            if isinstance(size, bool) or not isinstance(size, Real):
                raise InvalidParameter(f"{name} must be a number, got {size!r}.", "Leave it out.")
        # Far within what 32-bit floats hold.
        if not 0 < self.rate <= LARGEST_RATE or not 0 <= self.momentum < 1:
            raise InvalidParameter(
                f"rate must be positive and at most 10³⁰, and momentum within [0, 1), got {self.rate!r} and {self.momentum!r}.",
                "Use for example 0.1 and 0.9.",
            )
        # Whole numbers beyond 64 bits are numbers too, but not to JAX.
        object.__setattr__(self, "rate", float(self.rate))
