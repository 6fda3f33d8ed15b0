"""Generated plants: members with sensors, usual records to learn from, and later ones with faults; fixed seeds, tuning and judging apart.

A plant has states (rows of means and loadings of a few hidden factors), which its members share, share in part, or do not share.
Its records are in the order of time. Rules may look at the tuning half only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.panel.table_definition import Half

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

SIZES: Final = (60, 300, 1200)
_TEST_RECORDS: Final = 600
# Faults last for so many records, and usual stretches between them as well.
_SPAN: Final = 15


@dataclass(frozen=True)
class Plant:
    """How records are drawn. Lengths are in deviations of a sensor within a state."""

    name: str
    half: Half
    seed: int
    members: int = 4
    sensors: int = 8
    states: int = 3
    factors: int = 2
    # How far apart states are, and which share of them all members have in common.
    distance: float = 2.5
    shared_states: float = 1.0
    # By how much a member's own sensors are shifted and scaled.
    offset: float = 0.0
    # How far sensors walk from the first usual record to the last of the test.
    drift: float = 0.0
    # Correlation of factors and noise from record to record; states last accordingly.
    memory: float = 0.0
    # Degrees of freedom of factors and noise; 0 is normal.
    freedom: float = 0.0
    # How strongly sensors are bent: the record is x + curve·(x² − 1)/2 in the first half of the sensors.
    curve: float = 0.0
    # The shares of the stated size that members have.
    shares: tuple[float, ...] = (1.0,)
    fault: float = 4.0

    def drawn(self, size: int, repetition: int) -> list[Member]:
        """The members' records for a size; other states and records for every repetition."""
        random = np.random.default_rng([self.seed, repetition])
        common = _States.drawn(random, self)
        common_states = round(self.shared_states * self.states)
        members = []
        for position in range(self.members):
            own = _States.drawn(random, self)
            states = common.replaced_from(common_states, own)
            rows = max(int(size * self.shares[position % len(self.shares)]), self.sensors + 2)
            members.append(_member(random, self, states, rows))
        return members


@dataclass(frozen=True, eq=False)
class Member:
    """What a member learns from, and later records of which some are faulty."""

    records: Floats
    later: Floats
    is_faulty: Booleans


@dataclass(frozen=True, eq=False)
class _States:
    means: Floats
    loadings: Floats
    noise: Floats

    @classmethod
    def drawn(cls, random: np.random.Generator, plant: Plant) -> _States:
        shape = (plant.states, plant.sensors)
        means = plant.distance / np.sqrt(2) * random.normal(size=shape)
        loadings = random.normal(size=(*shape, plant.factors)) * (random.random((*shape, plant.factors)) < 0.6)
        return cls(means, loadings, random.uniform(0.4, 0.8, shape))

    def replaced_from(self, first: int, other: _States) -> _States:
        return _States(
            *(np.concatenate([ours[:first], theirs[first:]]) for ours, theirs in zip(self, other, strict=True))
        )

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter((self.means, self.loadings, self.noise))


def _member(random: np.random.Generator, plant: Plant, states: _States, rows: int) -> Member:
    total = rows + _TEST_RECORDS
    shares = random.dirichlet(np.full(plant.states, 2.0))
    order = _state_sequence(random, shares, total, plant.memory)
    hidden = _noise(random, (total, plant.factors), plant)
    noise = _noise(random, (total, plant.sensors), plant)
    dependent = np.einsum("tsf,tf->ts", states.loadings[order], hidden)
    usual = states.means[order] + dependent + states.noise[order] * noise
    offset = plant.offset * random.normal(size=plant.sensors)
    scale = np.exp(0.2 * plant.offset * random.normal(size=plant.sensors))
    walk = plant.drift * random.normal(size=plant.sensors) * np.linspace(0, 1, total)[:, np.newaxis]
    usual = offset + scale * (usual + walk)
    bent = usual.copy()
    first = plant.sensors // 2
    bent[:, :first] += plant.curve / 2 * (usual[:, :first] ** 2 - 1)
    later, is_faulty = _with_faults(random, bent[rows:], bent[:rows].std(axis=0), plant.fault)
    return Member(bent[:rows], later, is_faulty)


def _state_sequence(random: np.random.Generator, shares: Floats, total: int, memory: float) -> NDArray[np.intp]:
    drawn = random.choice(len(shares), size=total, p=shares)
    stays = random.random(total) < memory
    for t in range(1, total):
        if stays[t]:
            drawn[t] = drawn[t - 1]
    return np.asarray(drawn, dtype=np.intp)


def _noise(random: np.random.Generator, shape: tuple[int, int], plant: Plant) -> Floats:
    """Unit variance at memory 0 and normal tails; a stationary sequence with memory."""
    drawn = random.normal(size=shape)
    for t in range(1, len(drawn)):
        drawn[t] = plant.memory * drawn[t - 1] + np.sqrt(1 - plant.memory**2) * drawn[t]
    if plant.freedom:
        drawn /= np.sqrt(random.chisquare(plant.freedom, (len(drawn), 1)) / plant.freedom)
    return np.asarray(drawn)


def _with_faults(
    random: np.random.Generator, usual: Floats, deviations: Floats, size: float
) -> tuple[Floats, Booleans]:
    """Every second span is faulty: a sensor is off, has the value of another time, is noisy, or two are exchanged."""
    later, is_faulty = usual.copy(), np.zeros(len(usual), dtype=np.bool_)
    for number, start in enumerate(range(_SPAN, len(usual), 2 * _SPAN)):
        span = slice(start, start + _SPAN)
        length = len(usual[span])
        first, second = random.choice(usual.shape[1], 2, replace=False)
        if number % 4 == 0:
            later[span, first] += random.choice([-1, 1]) * size / 2 * deviations[first]
        elif number % 4 == 1:
            later[span, first] = usual[random.integers(0, len(usual), length), first]
        elif number % 4 == 2:
            later[span, first] += size / 2 * deviations[first] * random.normal(size=length)
        else:
            scaled = (usual[span][:, [second, first]] - usual[:, [second, first]].mean(0)) / deviations[[second, first]]
            later[span][:, [first, second]] = scaled * deviations[[first, second]] + usual[:, [first, second]].mean(0)
        is_faulty[span] = True
    return later, is_faulty


TUNING: Final = (
    Plant("alike", "tuning", 101),
    Plant("alike, many states", "tuning", 102, states=5, sensors=10, members=5),
    Plant("different", "tuning", 103, shared_states=0.0),
    Plant("shared in part", "tuning", 104, shared_states=0.67, offset=0.3),
    Plant("drifting", "tuning", 105, drift=2.0),
    Plant("correlated in time", "tuning", 106, memory=0.9),
    Plant("heavy-tailed", "tuning", 107, freedom=4.0),
    Plant("few records", "tuning", 108, shares=(0.25, 1.0, 0.5, 1.0), sensors=10),
    Plant("curved", "tuning", 109, curve=0.5, distance=1.5),
)
JUDGING: Final = (
    Plant("alike", "judging", 201, states=4, factors=3, distance=2.2),
    Plant("alike, other sensors", "judging", 202, states=2, sensors=12, members=6, factors=3),
    Plant("different", "judging", 203, states=2, shared_states=0.0, distance=3.0),
    Plant("shared in part", "judging", 204, states=4, shared_states=0.5, offset=0.5, members=5),
    Plant("drifting", "judging", 205, drift=1.5, states=2, offset=0.2),
    Plant("correlated in time", "judging", 206, memory=0.95, factors=3, states=2),
    Plant("heavy-tailed", "judging", 207, freedom=3.0, states=2, distance=3.5),
    Plant("few records", "judging", 208, shares=(0.3, 0.3, 1.0, 1.0, 0.5), members=5, sensors=9),
    Plant("curved", "judging", 209, curve=0.4, states=2, distance=2.0, factors=3),
)
PLANTS: Final[dict[Half, tuple[Plant, ...]]] = {"tuning": TUNING, "judging": JUDGING}
