"""Sizes of sums that dishonest members attack in tests, with contexts and participants for them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from sudare.sums.context import Participant, RelayedSumContext, Roster, SumContext
from sudare.sums.messages import (
    Message,
)
from sudare.sums.neighbour_graph import Neighbourhood
from sudare.sums.party import Party
from sudare.sums.relay_collector import RelayCollector
from sudare.sums.simulation import simulate
from tests.sums.parties import keys_of, roster

Words = np.ndarray[tuple[int], np.dtype[np.uint64]]
Set = frozenset[int]


# X25519 keys of small order: all secrets with them are zero.
SMALL_ORDER = (bytes(32), (1).to_bytes(32, "little"), (2**255 - 20).to_bytes(32, "little"))


@dataclass(frozen=True)
class Setting:
    """How many members, the threshold, how many are dishonest, in sparse sums the degree and threshold of neighbourhoods, and whether the relay collects."""

    members: int
    threshold: int
    dishonest: int
    degree: int = 0
    share_threshold: int = 0
    is_relayed: bool = False

    def context(self, agreement: str, iteration: int, attempt: int, task: str = "sums") -> SumContext:
        hood = Neighbourhood(self.degree, self.share_threshold) if self.degree else None
        which = agreement, task, iteration, attempt, self.roster, self.threshold, self.dishonest
        if self.is_relayed:
            return RelayedSumContext(*which, neighbourhood=hood, relay=keys_of(self.members).public)
        return SumContext(*which, neighbourhood=hood)

    @property
    def roster(self) -> Roster:
        return roster(self.members)

    @property
    def everyone(self) -> Set:
        return frozenset(range(self.members))


# Thresholds as low as they may be, so that a weaker check is enough for two totals; and what lies above.
LEAVABLE = (
    *(Setting(4, 3, 1), Setting(5, 4, 2), Setting(5, 4, 1), Setting(6, 4, 1), Setting(6, 5, 3), Setting(7, 5, 2)),
)
SPARSE = (Setting(8, 5, 1, 5, 3), Setting(8, 6, 2, 4, 3), Setting(9, 7, 1, 4, 3), Setting(8, 6, 2, 3, 3))
RELAYED = tuple(replace(each, is_relayed=True) for each in (*LEAVABLE, *SPARSE))
SERVERLESS = (Setting(3, 3, 1), Setting(4, 4, 2), Setting(5, 5, 1), Setting(5, 5, 3), Setting(7, 7, 3))


def choices(context: SumContext) -> dict[int, Set]:
    """Whom every member chooses in a sparse sum."""
    return {
        each: frozenset(Participant(context, each, keys_of(each)).out_neighbours) for each in range(len(context.roster))
    }


def is_connected(chosen: Mapping[int, Set], honest: Set, share_threshold: int) -> bool:
    """What the lemma on neighbourhoods gives but with small probability: no half of the honest members can be separated.

    Contexts as small as those of a test are chosen so that it holds; then all else must hold too.
    """
    dishonest = frozenset(chosen) - honest
    for size in range(1, len(honest) // 2 + 1):
        for some in itertools.combinations(sorted(honest), size):
            inside = dishonest.union(some)
            if all(len(chosen[each] & inside) >= share_threshold for each in some):
                return False
    return True


@lru_cache(maxsize=4096)
def connected_agreement(setting: Setting, honest: Set, iteration: int, attempts: tuple[int, ...], name: str) -> str:
    """The name of an agreement under which the graphs of all these attempts are connected."""
    for nonce in itertools.count():
        agreement = f"{name} {nonce}"
        contexts = (setting.context(agreement, iteration, attempt) for attempt in attempts)
        if all(is_connected(choices(each), honest, setting.share_threshold) for each in contexts):
            return agreement
    raise AssertionError


@lru_cache(maxsize=64)
def context_at(setting: Setting, agreement: str, iteration: int, attempt: int) -> SumContext:
    return setting.context(agreement, iteration, attempt)


@lru_cache(maxsize=512)
def participant_at(context: SumContext, position: int) -> Participant:
    return Participant(context, position, keys_of(position))


def random_vector(draw: random.Random, length: int) -> Words:
    return np.frombuffer(draw.randbytes(8 * length), dtype="<u8").astype(np.uint64)


@lru_cache(maxsize=64)
def recorded(setting: Setting) -> tuple[Message, ...]:
    """Everything that was sent in another sum of the same members, for replays."""
    context = setting.context("another", 5, 0)
    words = np.arange(3, dtype=np.uint64)
    members = [Party(Participant(context, each, keys_of(each)), words) for each in range(setting.members)]
    relay = Participant(context, setting.members, keys_of(setting.members)) if setting.is_relayed else None
    heard: list[Message] = []
    simulate([*members, *([] if relay is None else [RelayCollector(relay, 3)])], watch=heard.append)
    return tuple(heard)


@lru_cache(maxsize=64)
def cached_choices(context: SumContext) -> dict[int, Set]:
    return choices(context)
