"""Public numbers of learning in batches; no JAX is needed to state them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from sudare.errors import InvalidParameter

Clipping = Literal["example", "batch"]


@dataclass(frozen=True)
class Course:
    """Passes over the rows, rows a batch, first rate and momentum."""

    epochs: int
    batch_rows: int
    rate: float
    momentum: float = 0.9

    def __post_init__(self) -> None:
        for name, number in (("epochs", self.epochs), ("batch_rows", self.batch_rows)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InvalidParameter(
                    f"{name} must be a whole number of at least 1, got {number!r}.", "Use for example 10."
                )
        if not 0 < self.rate < math.inf or not 0 <= self.momentum < 1:
            raise InvalidParameter(
                f"rate must be positive and momentum within [0, 1), got {self.rate!r} and {self.momentum!r}.",
                "Use for example 0.1 and 0.9.",
            )
