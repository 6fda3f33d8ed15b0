"""Faults that are hard to see: how well members find them alone, together, and together with ε.

Sixty plants with 60 records each share three states of eight sensors; each plant knows two. States overlap, and within a state sensors
depend on each other in pairs, so that a fault is rarely far from what is usual: even the truth itself does not find every one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from sklearn.metrics import roc_auc_score

from sudare.array_types import Floats
from sudare.dictionary import PatternDictionary
from sudare.dictionary.member_tables import Layout, Records
from sudare.dictionary.training import SimulatedTraining
from sudare.papers.p003_decentralised.dictionary_figures import mixture_by_bic, own_weights_score
from sudare.papers.p003_decentralised.made_up_consortia import CHAPTER_WEIGHTS, Truth
from sudare.papers.repetitions import Measurements, estimated_series, measurements, noted, repetitions
from sudare.papers.study import Cell, Estimate, Figure, ResultTable, StudySettings, Tell
from sudare.report.plots import Panel, Series, curves

EPSILONS: Final = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
QUICK_EPSILONS: Final = (1.0, 5.0)
DELTA: Final = 1e-6
SENSORS: Final = 8
MEMBERS: Final = 60
ROWS: Final = 60
QUICK_MEMBERS: Final = 30
START: Final = 5
BOUNDS: Final = (-8.0, 8.0)
# Members whose detectors are tried, one of each kind, and how many usual and faulty records each of them sees.
TRIED: Final = 3
TEST_ROWS: Final = 400

_MEAN: Final = 0.8
_CORRELATION: Final = 0.9
_COMMON_PAIRS: Final = ((0, 1), (2, 3))
_SHIFT: Final = 1.5
_SEED: Final = 41

# Two sensors, and not one: then what members find alone, in one place, and with the truth itself is neither chance nor perfect (above .7 and below .98).
FAULTS: Final = ("absent state", "sensor off by 1.5", "two sensors of another record")
WAYS: Final = ("the truth itself", "own records", "all records in one place", "all records in one place, own weights")

Scorer = Callable[[int, Floats], Floats]


def plant_truth(members: int) -> Truth:
    """Three states with means ±.8 and unit variances. Sensors depend on each other in pairs, with correlations of ±.9.

    Two pairs are the same in all states; the other four sensors are paired anew in each.
    """
    generator = np.random.default_rng(_SEED)
    means = _MEAN * generator.choice([-1.0, 1.0], (3, SENSORS))
    covariances = np.repeat(np.eye(SENSORS)[np.newaxis], 3, axis=0)
    for covariance in covariances:
        own_pairs = generator.permutation(np.arange(4, SENSORS)).reshape(-1, 2)
        signs = (1.0, 1.0, *generator.choice([-1.0, 1.0], len(own_pairs)))
        for (first, second), sign in zip((*_COMMON_PAIRS, *own_pairs), signs, strict=True):
            covariance[first, second] = covariance[second, first] = sign * _CORRELATION
    precisions = np.asarray(np.linalg.inv(covariances), dtype=np.float64)
    return Truth(means, precisions, CHAPTER_WEIGHTS[np.arange(members) % 3])


@dataclass(frozen=True, eq=False)
class Trial:
    """A consortium's records, and for each member that is tried usual records and faulty ones of every kind."""

    truth: Truth
    records: list[Floats]
    usual: list[Floats]
    faulty: list[dict[str, Floats]]

    def areas(self, scorer: Scorer) -> dict[str, float]:
        """AUC of every fault, the mean over the members that are tried."""
        found: dict[str, list[float]] = {}
        for member, (usual, faulty) in enumerate(zip(self.usual, self.faulty, strict=True)):
            labels, scores = np.repeat([0, 1], TEST_ROWS), scorer(member, usual)
            for fault, records in faulty.items():
                area = roc_auc_score(labels, np.concatenate([scores, scorer(member, records)]))
                found.setdefault(fault, []).append(float(area))
        return {fault: float(np.mean(areas)) for fault, areas in found.items()}


def new_trial(seed: int, members: int = MEMBERS) -> Trial:
    """Fresh records of the same plants."""
    truth, generator = plant_truth(members), np.random.default_rng([_SEED, seed])
    records = truth.records(generator, ROWS)
    usual = truth.records(generator, TEST_ROWS)[:TRIED]
    faulty = [faulty_records(truth, member, generator) for member in range(TRIED)]
    return Trial(truth, records, usual, faulty)


def faulty_records(truth: Truth, member: int, generator: np.random.Generator) -> dict[str, Floats]:
    """A state that the member does not know; one sensor that is off; two sensors with the values of another usual record."""
    rows, sensors = np.arange(TEST_ROWS), generator.integers(SENSORS, size=(2, TEST_ROWS))
    off, mixed, other = (truth.records(generator, TEST_ROWS)[member] for _ in range(3))
    off[rows, sensors[0]] += _SHIFT * generator.choice([-1.0, 1.0], TEST_ROWS)
    absent = truth.of_patterns(generator, np.full(TEST_ROWS, int(np.argmin(truth.weights[member]))))
    second = (sensors[1] + generator.integers(1, SENSORS, size=TEST_ROWS)) % SENSORS
    for taken in (sensors[1], second):
        mixed[rows, taken] = other[rows, taken]
    return dict(zip(FAULTS, (absent, off, mixed), strict=True))


def without_epsilon(trial: Trial, seed: int) -> Iterator[tuple[str, Scorer]]:
    """What the truth would find, what members find alone, and what they would find if they gave up their records."""
    yield WAYS[0], lambda member, X: trial.truth.model(member).score_samples(X)
    own = [mixture_by_bic(records, 4, seed) for records in trial.records[:TRIED]]
    yield WAYS[1], lambda member, X: -np.asarray(own[member].score_samples(X))
    pooled = mixture_by_bic(np.concatenate(trial.records), 4, seed)
    yield WAYS[2], lambda _, X: -np.asarray(pooled.score_samples(X))
    yield WAYS[3], lambda member, X: -own_weights_score(pooled, trial.records[member], X)


class TriedMembers(PatternDictionary):
    """The dictionary with own parts of the first members only, who are tried; those of others take long and are not asked for."""

    def _take(self, training: SimulatedTraining, layout: Layout, members: Sequence[Records]) -> None:
        super()._take(replace(training, own=training.own[:TRIED]), layout, members[:TRIED])


def fitted_dictionary(trial: Trial, epsilon: float | None, seed: int) -> TriedMembers:
    """The dictionary of all members; with ε, by seeded noise of the same law."""
    model = TriedMembers(
        START,
        bounds=BOUNDS,
        hide="nothing",
        epsilon=epsilon,
        delta=None if epsilon is None else DELTA,
        random_state=None if epsilon is None else seed,
    )
    return model.fit(trial.records)


def dictionary_scorer(trial: Trial, epsilon: float | None, seed: int) -> Scorer:
    """The dictionary's scores."""
    fitted = fitted_dictionary(trial, epsilon, seed)
    return lambda member, X: fitted.member(member).score_samples(X)


def detection_results(tell: Tell, settings: StudySettings) -> tuple[ResultTable, Figure]:
    """AUC of three faults for members alone, records in one place, and dictionaries without and with ε."""
    members = QUICK_MEMBERS if settings.quick else MEMBERS
    epsilons = QUICK_EPSILONS if settings.quick else EPSILONS

    def note(found: Measurements, seed: int) -> None:
        trial = new_trial(seed, members)
        dictionaries = ((_name(epsilon), dictionary_scorer(trial, epsilon, seed)) for epsilon in (*epsilons, None))
        for name, scorer in (*without_epsilon(trial, seed), *dictionaries):
            for fault, area in trial.areas(scorer).items():
                found.note((name, fault), area)

    samples = measurements(tell, repetitions("faults that are hard to see", settings.repeats, partial(noted, note)))
    names = (*WAYS, *map(_name, (*epsilons, None)))
    found = {name: {fault: samples.at((name, fault)) for fault in FAULTS} for name in names}
    rows: list[Sequence[Cell]] = [(name, *(each[fault] for fault in FAULTS)) for name, each in found.items()]
    table = ResultTable(
        f"Faults that are hard to see: AUC, {members} members with {ROWS} records each, {SENSORS} sensors, three states",
        ("scores", *FAULTS),
        rows,
        f"With ε: replace-one records, δ = {DELTA:g}, towards everyone; seeded noise of the same law. Each member knows two of three states. "
        f"Members are of three kinds, equally many; one of each is tried. ± one standard error over {settings.repeats} repetitions, the same for all. "
        "Records in one place cannot find an absent state, however many they are: it is usual at other members. That line is at chance for what it is, and not because the fault is hard.",
    )
    differs = f"{QUICK_MEMBERS} members and {len(QUICK_EPSILONS)} values of ε." if settings.quick else ""
    figure = Figure(
        "Faults that are hard to see",
        "AUC against ε, with one standard error over repetitions; dashed: without ε. Not in the chapter.",
        [_panel(found, fault, epsilons) for fault in FAULTS],
        differs,
    )
    return table, figure


def _name(epsilon: float | None) -> str:
    return "dictionary, no ε" if epsilon is None else f"dictionary, ε = {epsilon:g}"


def _panel(found: Mapping[str, Mapping[str, Estimate]], fault: str, epsilons: Sequence[float]) -> Panel:
    with_epsilon = estimated_series("dictionary with ε", [found[_name(epsilon)][fault] for epsilon in epsilons])
    flat = [Series(name, [found[name][fault].value] * len(epsilons), dashed=True) for name in (*WAYS, _name(None))]
    return curves(epsilons, [with_epsilon, *flat], x_label="ε", y_label="AUC", title=fault)
