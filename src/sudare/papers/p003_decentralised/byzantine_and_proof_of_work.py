"""Section 1.3 of Ide (2021) as functions: Byzantine generals, the proof of work, and the gambler's ruin.

The chances that a chain is rewritten, (1.25) and what holds after z confirmations, are in `chunked_sum_risk`: `catch_up_probability`, `nakamoto_probability`, `rewrite_probability`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.parameter_checks import Numbers
from sudare.privacy.array_checks import as_numbers

HASH_BITS: Final = 256
_GENERALS: Final = Numbers(1, whole=True)
_WHOLE: Final = Numbers(0, whole=True)
_OPINIONS: Final = Numbers(0, 1, whole=True)
_SHARES: Final = Numbers(0, 1)


# Byzantine generals (section 1.3.2)


def traitors_withstood(members: int) -> int:
    """The most traitors with whom loyal generals still agree by talking in pairs: fewer than S/3."""
    _GENERALS.check("members", members)
    return (members - 1) // 3


def oral_messages_sent(members: int, traitors: int) -> int:
    """Messages of Lamport, Shostak and Pease's (1982) algorithm for one order that withstands so many traitors: (S − 1) + (S − 1)(S − 2) + …, exponential in them."""
    _GENERALS.check("members", members)
    _WHOLE.check("traitors", traitors)
    return sum(math.perm(members - 1, depth + 1) for depth in range(traitors + 1))


Lie = Callable[[int, int, int], int]
"""What a traitor says: (speaker, hearer, what it heard) → 0 or 1."""


def byzantine_decisions(opinions: Sequence[int], traitors: Collection[int], depth: int, lie: Lie) -> list[int]:
    """What every general decides (1 attacks) when each tells all its opinion by oral messages of this depth, and all follow the majority; ties are 0.

    Traitors say whatever `lie` returns. Loyal ones agree if `depth` is at least the number of traitors, and these are fewer than a third.
    """
    members = len(opinions)
    _GENERALS.check("how many generals there are", members)
    for opinion in opinions:
        _OPINIONS.check("an opinion", opinion)
    _WHOLE.check("depth", depth)
    _check_named("traitors", traitors, members)
    heard = np.zeros((members, members), dtype=np.int64)
    for commander, opinion in enumerate(opinions):
        lieutenants = [member for member in range(members) if member != commander]
        for member, order in _oral(commander, lieutenants, opinion, depth, traitors, lie).items():
            heard[member, commander] = order
        heard[commander, commander] = opinion
    return [int(2 * row.sum() > members) for row in heard]


def _oral(
    commander: int, lieutenants: list[int], order: int, depth: int, traitors: Collection[int], lie: Lie
) -> dict[int, int]:
    """OM(depth): what each lieutenant takes for the commander's order."""
    told = {
        lieutenant: lie(commander, lieutenant, order) if commander in traitors else order for lieutenant in lieutenants
    }
    if depth == 0:
        return told
    votes = {lieutenant: [told[lieutenant]] for lieutenant in lieutenants}
    for speaker in lieutenants:
        others = [lieutenant for lieutenant in lieutenants if lieutenant != speaker]
        for hearer, word in _oral(speaker, others, told[speaker], depth - 1, traitors, lie).items():
            votes[hearer].append(word)
    return {lieutenant: int(2 * sum(words) > len(words)) for lieutenant, words in votes.items()}


# The proof of work (section 1.3.3)


def block_hash(b0: int, c: int, kappa: int) -> int:
    """b = h(b₀, c | κ) (1.18) with SHA-256 of the three numbers one after the other."""
    return int.from_bytes(hashlib.sha256(f"{b0}/{c}/{kappa}".encode()).digest(), "big")


def proof_of_work(b0: int, c: int, below: int, start: int = 0) -> int:
    """The first κ from `start` on whose hash is below the given number; takes 2²⁵⁶/below attempts on average."""
    # From 1 on zero is below, as one hash of 2²⁵⁶ is; between 0 and 1 the search would never end.
    Numbers(1, 2**HASH_BITS, whole=True).check("below", below)
    _WHOLE.check("start", start)
    kappa = start
    while block_hash(b0, c, kappa) >= below:
        kappa += 1
    return kappa


def approval_probabilities(cpu: ArrayLike) -> Floats:
    """p_m = CPU_m / Σ CPU (1.19): how likely each miner is to approve the next block."""
    power = as_numbers(cpu, "The powers")
    if power.ndim != 1 or not np.isfinite(power).all() or (power < 0).any() or not power.sum() > 0:
        raise InvalidParameter("Powers are not numbers from 0 on with a positive sum.", "Give one for each miner.")
    return np.asarray(power / power.sum())


def group_probabilities(cpu: ArrayLike, bad: Collection[int]) -> tuple[float, float]:
    """(p, q) of (1.20): that one of the good miners approves the next block, and that one of the bad ones does."""
    chances = approval_probabilities(cpu)
    _check_named("bad miners", bad, len(chances))
    wicked = float(chances[sorted(set(bad))].sum())
    return 1 - wicked, wicked


def _check_named(what: str, numbers: Collection[int], count: int) -> None:
    """Raise InvalidParameter unless these are numbers of members, who are counted from 0."""
    if not all(Numbers(0, count - 1, whole=True).holds(number) for number in numbers):
        raise InvalidParameter(
            f"One of the {what} is nobody.", f"Members are counted from 0; there are {count}, up to {count - 1}."
        )


# The gambler's ruin (section 1.3.4)


def debt_paths(share: float, debt: int, games: int, paths: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Debts of gamblers that win a game with chance q and begin with debt z, paths × games + 1; those who reach zero stay there (figure 1.2)."""
    _SHARES.check("share", share)
    for name, value in (("debt", debt), ("games", games), ("paths", paths)):
        _WHOLE.check(name, value)
    steps = np.where(generator.random((paths, games)) < share, -1, 1)
    walked = np.hstack([np.full((paths, 1), debt), debt + np.cumsum(steps, axis=1)])
    return np.where(np.minimum.accumulate(walked, axis=1) <= 0, 0, walked)


def ruin_probability_truncated(share: float, debt: int, most: int = 2000) -> float:
    """R_z of (1.21) with R_0 = 1 and R_most = 0, in closed form: what (1.25) is the limit of."""
    _SHARES.check("share", share)
    if not 0 < debt < most:
        raise InvalidParameter("The debt is not between 0 and the largest one.", "Use a larger `most`.")
    ratio = share / (1 - share) if share < 1 else math.inf
    if ratio == 1:
        return 1 - debt / most
    # Sums of (1.23)'s differences, which shrink or grow by q/p: written so that neither overflows.
    if ratio > 1:
        return (
            -math.expm1((most - debt) * -math.log(ratio)) / -math.expm1(most * -math.log(ratio)) if share < 1 else 1.0
        )
    return (ratio**debt - ratio**most) / (1 - ratio**most)
