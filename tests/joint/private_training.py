"""A private dictionary between members, for tests: small tables, noise that follows from what it is added to, stores that remember."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sudare.array_types import Words
from sudare.consortium.tasks.sum_participant import Attempt
from sudare.consortium.tasks.sum_script_runner import Checkpoint, IterationStart
from sudare.dictionary import PatternDictionary
from sudare.dictionary.private_training import PrivateTerms
from sudare.joint.private_dictionary_script import PrivateDictionaryWalk
from sudare.joint.sum_script import Finished
from sudare.privacy import Account, Guarantee, Ledger
from sudare.privacy.noise import SystemNoise
from sudare.sums.canonical_encoding import unpacked
from tests.consortium.simulated_consortium import CrashingStore

BOUNDS = (np.full(2, -8.0), np.full(2, 8.0))
EPSILON, DELTA = 5.0, 1e-6
ITERATIONS = 2
# The count of records, the opening, and the iterations.
SUMS = 2 + ITERATIONS


def tables(members: int, rows: int = 40) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    centres = np.array([[-3.0, 0.0], [3.0, 1.0]])
    return [centres[draw.integers(2, size=rows)] + draw.normal(size=(rows, 2)) for _ in range(members)]


def estimator(**options: object) -> PatternDictionary:
    settings = {"bounds": BOUNDS, "epsilon": EPSILON, "delta": DELTA, "private_iterations": ITERATIONS, **options}
    return PatternDictionary(2, **settings)  # type: ignore[arg-type]


def terms_of(members: int, colluders: int = 1) -> PrivateTerms:
    terms, _ = estimator().training(tables(1)[0], members)
    return PrivateTerms(terms, EPSILON, DELTA, colluders, ITERATIONS)


def walks(
    members: int, accounts: Mapping[int, Account] | None = None, colluders: int = 1
) -> Callable[[int], PrivateDictionaryWalk]:
    """What makes a member's walk, anew for every life of its process. Members without an account pay nothing."""
    held, private = tables(members), terms_of(members, colluders)

    def walk(position: int) -> PrivateDictionaryWalk:
        _, records = estimator().training(held[position], members)
        account = (accounts or {}).get(position)
        return PrivateDictionaryWalk(private, Guarantee(EPSILON, DELTA), records, account, purpose="task 'joint'")

    return walk


def account_in(folder: Path, name: str = "ledger", epsilon: float = 6.0, delta: float = 1e-5) -> Account:
    return Ledger(folder / f"{name}.db").account("records", epsilon=epsilon, delta=delta)


def charges_of(account: Account) -> list[dict[str, object]]:
    return [dict(entry.body) for entry in account.entries() if entry.kind == "charge"]


class NoiseOfItsValues(SystemNoise):
    """Noise that follows from the values: one process and many draw the same for the same addend. Protects nobody."""

    def gaussian(self, values: np.ndarray, scale: float) -> np.ndarray:
        seed = int.from_bytes(hashlib.sha256(values.tobytes() + repr(scale).encode()).digest(), "big")
        return values + np.rint(np.random.default_rng(seed).normal(scale=scale, size=values.shape)).astype(np.int64)


@dataclass
class RememberingStore(CrashingStore):
    """Every addend that was ever safe on disk, by the sum it was for: what may have been sent."""

    addends: dict[int, set[bytes]] = field(default_factory=dict)

    def save(self, name: str, content: bytes) -> None:
        try:
            super().save(name, content)
        finally:
            if name.startswith("sum-") and self.contents.get(name) == content:
                start = unpacked(content, Checkpoint, IterationStart, Attempt).start
                self.addends.setdefault(start.iteration, set()).add(start.addend.tobytes())


class Listening:
    """A walk that notes the totals it hears."""

    is_exact = False

    def __init__(self, walk: PrivateDictionaryWalk, heard: list[Words]) -> None:
        self._walk, self._heard = walk, heard

    def begun(self) -> tuple[bytes, Words]:
        return self._walk.begun()

    def step(self, state: bytes, total: Words, included: tuple[int, ...]) -> tuple[bytes, Words | Finished]:
        self._heard.append(total)
        return self._walk.step(state, total, included)
