"""Sums in a fixed tree: the same bits in however many pieces, and wherever, the parts are added.

Rows are cut into blocks of `BLOCK_ROWS` from the first row on. Neighbouring blocks are added first, then neighbouring pairs, and so on.
A run of blocks that starts anywhere can be added up on its own as far as the tree allows: what is left is a few nodes of the tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

BLOCK_ROWS: Final = 2**16


class Added(Protocol):
    """What can be added to its like."""

    def __add__(self, other: Any, /) -> Any: ...


Sum = TypeVar("Sum", bound=Added)


class BlockSum(NamedTuple, Generic[Sum]):
    """The sum of blocks place · 2^level up to (place + 1) · 2^level, without the last."""

    level: int
    place: int
    value: Sum


def nodes_of(parts: Iterable[Sum], first: int = 0) -> list[BlockSum[Sum]]:
    """What blocks number `first`, `first` + 1, … add up to: as few nodes of the tree as hold no other blocks."""
    return merged(BlockSum(0, place, part) for place, part in enumerate(parts, start=first))


def merged(nodes: Iterable[BlockSum[Sum]]) -> list[BlockSum[Sum]]:
    """Returns the blocks in as few nodes as possible; the nodes come in the order of their blocks."""
    found: list[BlockSum[Sum]] = []
    for node in nodes:
        whole = node
        while found and whole.place % 2 and found[-1].level == whole.level:
            whole = BlockSum(whole.level + 1, whole.place // 2, found.pop().value + whole.value)
        found.append(whole)
    return found


def total_of(nodes: Iterable[BlockSum[Sum]]) -> Sum | None:
    """The sum of all blocks of a source; None without any."""
    total: Sum | None = None
    for node in reversed(merged(nodes)):
        total = node.value if total is None else node.value + total
    return total


def pairwise_total(parts: Iterable[Sum]) -> Sum | None:
    """The sum of all parts, block by block, in the fixed tree; None without parts.

    2ⁿ parts from a multiple of 2ⁿ may be replaced by their own total without changing a bit of the result.
    """
    return total_of(nodes_of(parts))
