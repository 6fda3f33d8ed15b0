"""What a learner lets out: public parameters, tensors on public grids, and the seal that shows a later change."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.errors import ReleaseMalformed
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger_chain import Receipt, canonical_json
from sudare.privacy.release_file import Tensors


@dataclass(frozen=True, eq=False)
class Beside:
    """A file that leaves with a release because it is more than a release holds. A parameter of the release is its SHA-256."""

    suffix: str
    pieces: Callable[[], Iterable[bytes]]


@dataclass(frozen=True, eq=False)
class Content:
    """What a learner would let out: public parameters, tensors, and the grid each tensor's numbers lie on.

    A grid of None marks whole numbers (integer tensors); floats always lie on a power of two.
    """

    parameters: Mapping[str, Any]
    tensors: Tensors
    grids: Mapping[str, float | None]
    beside: Beside | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Content) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def grid(self, name: str) -> float:
        """The grid of a tensor of floats."""
        grid = self.grids[name]
        if grid is None:
            raise unfit(f"tensor '{name}' has no grid")
        return grid

    def digest(self) -> str:
        """SHA-256 that changes when anything that would leave is changed."""
        hashed = hashlib.sha256(canonical_json(dict(self.parameters)).encode())
        for name in sorted(self.tensors):
            tensor = self.tensors[name]
            hashed.update(
                f"\0{name} {tensor.dtype.str} {tensor.shape} {self.grids[name]}\0".encode() + tensor.tobytes()
            )
        return hashed.hexdigest()

    def kept(self) -> Content:
        """A copy that does not change when the learner does."""
        tensors = {name: tensor.copy() for name, tensor in self.tensors.items()}
        for tensor in tensors.values():
            tensor.setflags(write=False)
        return replace(self, tensors=tensors)


def sealed(content: Content, guarantee: Guarantee, receipt: Receipt | None, schema_digest: str | None) -> str:
    """What `fit` writes down last: it no longer matches when a fitted learner or its promise is changed."""
    paid = None if receipt is None else receipt.to_dict()
    text = canonical_json([content.digest(), guarantee.to_dict(), paid, schema_digest])
    return hashlib.sha256(text.encode()).hexdigest()


def on_grid(values: Floats, grid: float) -> Floats:
    """Values rounded to a public grid (a power of two), zero without a sign."""
    with np.errstate(over="ignore"):
        steps = values / grid
        # A float that many steps away from zero is a multiple of the grid as it is.
        return np.where(np.abs(steps) < 2.0**53, np.rint(steps) * grid, values) + 0.0


def unfit(reason: str) -> ReleaseMalformed:
    """What is said of a file in canonical form that no learner could have written."""
    return ReleaseMalformed(f"This is not a release sudare can use: {reason}.", ReleaseMalformed.help)


class TensorRule(NamedTuple):
    """The length and the type a released tensor must have."""

    size: int
    dtype: type[np.generic]


def check_shapes(content: Content, rules: Mapping[str, TensorRule]) -> None:
    """Raise ReleaseMalformed unless the released tensors have these names, lengths and types."""
    expected = {name: ((rule.size,), np.dtype(rule.dtype)) for name, rule in rules.items()}
    if {name: (tensor.shape, tensor.dtype) for name, tensor in content.tensors.items()} != expected:
        raise unfit("its tensors do not have the shapes and types of its learner")


def check_within(values: NDArray[Any], low: Floats | float, high: Floats | float) -> None:
    """Raise ReleaseMalformed unless all released values lie from low to high; NaN does not."""
    if not np.all((values >= low) & (values <= high)):
        raise unfit("its numbers lie outside of what was declared")
