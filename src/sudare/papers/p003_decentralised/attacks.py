"""What a curious member computes from the messages it is meant to see.

Averaging is linear and public: whoever knows the plan and watches its neighbours sees known linear combinations of everyone's first values. Once
these determine a member's value (observability, in the words of control theory), it is solved for. Chunking does not help: every chunk is
averaged the same way, so all chunks are recovered and added up. Against masks the same equations, solved exactly modulo 2^64, yield masked
words, which are uniform whatever they hide (tests/sums/test_word_equations.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter
from sudare.papers.p003_decentralised.averaging import Plan, trajectory

Transcript = Sequence[Mapping[int, Floats]]
"""For each round the value that each watched member sent; watchers' own values are in it too."""

# Combinations weaker than this cannot be told from the rounding of doubles.
_SMALLEST_SINGULAR_VALUE: Final = 1e-13
_DETERMINED: Final = 1e-6


@dataclass(frozen=True)
class Recovery:
    """First values (members × numbers; NaN where the messages do not determine them)."""

    values: Floats
    determined: NDArray[np.bool_]


def watched_members(plan: Plan, watchers: Iterable[int], round_number: int) -> tuple[int, ...]:
    """Watchers and their neighbours in that round (counted from 0)."""
    neighbours = plan.rounds[round_number].graph.neighbours
    seen = set(watchers)
    return tuple(sorted(seen.union(*(neighbours[watcher] for watcher in seen))))


def transcript_of(values: ArrayLike, plan: Plan, watchers: Iterable[int], rounds: int | None = None) -> Transcript:
    """What watchers see while these values are averaged; all rounds, or the first ones."""
    watching = tuple(watchers)
    count = len(plan.rounds) if rounds is None else min(rounds, len(plan.rounds))
    return [
        {member: state[member] for member in watched_members(plan, watching, number)}
        for number, state in enumerate(islice(trajectory(values, plan), count))
    ]


def recovered(plan: Plan, watchers: Iterable[int], transcript: Transcript) -> Recovery:
    """Everyone's first values, as far as the transcript determines them."""
    watching = tuple(watchers)
    if not 0 < len(transcript) <= len(plan.rounds):
        raise DataError(
            f"A transcript of {len(transcript)} rounds; the plan has {len(plan.rounds)}.", "Record each round once."
        )
    for number, sent in enumerate(transcript):
        if set(sent) != set(watched_members(plan, watching, number)):
            raise DataError(
                f"Round {number + 1} of the transcript is not what these watchers see.", "Keep every neighbour's value."
            )
    observed = np.concatenate([[sent[member] for member in sorted(sent)] for sent in transcript])
    inverse, determined = _inverse(_combinations(plan, watching, len(transcript)))
    return Recovery(np.where(determined[:, np.newaxis], inverse @ observed, np.nan), determined)


def determined_members(plan: Plan, watchers: Iterable[int], rounds: int | None = None) -> NDArray[np.bool_]:
    """Whose first values so many rounds (all, if not said) determine to double precision. Needs no messages: the plan is public."""
    count = len(plan.rounds) if rounds is None else min(rounds, len(plan.rounds))
    return _inverse(_combinations(plan, tuple(watchers), count))[1]


def recovered_addends(recoveries: Iterable[Recovery]) -> Floats:
    """The addends behind chunks that were recovered one by one: their sum (1.31)."""
    return np.asarray(np.sum([recovery.values for recovery in recoveries], axis=0))


def _combinations(plan: Plan, watchers: tuple[int, ...], rounds: int) -> Floats:
    """The rows that map first values to what is seen, round after round."""
    if not watchers or not all(0 <= watcher < plan.members for watcher in watchers):
        raise InvalidParameter("Watchers must be members, and at least one.", "Name members by their numbers.")
    maps = islice(trajectory(np.eye(plan.members), plan), rounds)
    rows = [state[list(watched_members(plan, watchers, number))] for number, state in enumerate(maps)]
    return np.concatenate(rows)


def _inverse(combinations: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The pseudo-inverse within double precision, and which members it determines."""
    # What is seen may have many more rows than members: its triangular factor has the same singular values.
    orthogonal, triangle = np.linalg.qr(combinations)
    left, strengths, right = np.linalg.svd(triangle)
    kept = strengths > _SMALLEST_SINGULAR_VALUE * strengths[0]
    basis = right[: len(strengths)][kept]
    inverse = (basis.T / strengths[kept]) @ left[:, : len(strengths)][:, kept].T @ orthogonal.T
    hidden = 1 - (basis**2).sum(axis=0)
    return inverse, hidden < _DETERMINED**2
