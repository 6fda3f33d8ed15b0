"""When members leave a sum: whose masked values the others still hold, how to add them, and whether the total can be opened.

Everything a survivor holds is a known combination, modulo 2^64, of members' masked values. Those that can be told from all
that survivors hold together stay in the sum; they need not be held by one survivor alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.consensus.attacks import recovered_words

Words = NDArray[np.uint64]
Members = frozenset[int]


@dataclass(frozen=True)
class RecoveryPlan:
    """The members whose masked values are added, and how often each survivor adds each row that it holds (modulo 2^64)."""

    included: Members
    weights: Mapping[int, Words]


def recovery_plan(held: Mapping[int, Words]) -> RecoveryPlan:
    """The plan of survivors who hold these rows (one a value, a column a member); each one's first row is its own value alone.

    A function of public facts, so that all survivors make the same plan.
    """
    survivors = sorted(held)
    members = held[survivors[0]].shape[1]
    gone = [member for member in range(members) if member not in held]
    others = [(survivor, row) for survivor in survivors for row in range(1, len(held[survivor]))]
    told = _told(held, others, gone)
    # Arrays wrap around silently, as they should here; single numpy numbers would warn.
    weights = {survivor: np.zeros(len(held[survivor]), dtype=np.uint64) for survivor in survivors}
    sums = np.zeros(members, dtype=np.uint64)
    for combination in told.values():
        for (survivor, row), weight in combination.items():
            weights[survivor][row : row + 1] += weight
            sums += weight * held[survivor][row]
    for survivor in survivors:
        # Rows that tell about those who left hold survivors' values too; every survivor counts once in the end.
        weights[survivor][:1] = np.uint64(1) - sums[survivor : survivor + 1]
    return RecoveryPlan(frozenset(survivors) | frozenset(told), weights)


def _told(
    held: Mapping[int, Words], rows: list[tuple[int, int]], gone: list[int]
) -> dict[int, dict[tuple[int, int], np.uint64]]:
    """For each member that left and can be told: the combination of rows that is its value, up to survivors' own."""
    distinct: dict[bytes, tuple[int, int]] = {}
    for survivor, row in rows:
        about_gone = held[survivor][row][gone]
        if about_gone.any():
            distinct.setdefault(about_gone.tobytes(), (survivor, row))
    if not distinct:
        return {}
    places = list(distinct.values())
    matrix = np.stack([held[survivor][row][gone] for survivor, row in places])
    found = recovered_words(matrix, np.eye(len(places), dtype=np.uint64))
    return {
        gone[column]: {place: weight for place, weight in zip(places, combination, strict=True) if weight}
        for column, combination in found.items()
    }


@dataclass(frozen=True)
class Openings:
    """Who can give what: voters so far, self-seeds known, holders of shares of each member's secrets (known or alive)."""

    voters: Members
    self_seeds: Members
    holders: Mapping[int, Members]


def can_open(included: Members, members: int, survivors: Members, threshold: int, openings: Openings) -> bool:
    """Whether survivors, with what they already know, can agree on the total over `included` and open it."""
    if len(openings.voters | survivors) < threshold:
        return False
    needs_shares = frozenset(range(members)) - survivors - (openings.self_seeds & included)
    return all(len(openings.holders[member]) >= threshold for member in needs_shares)
