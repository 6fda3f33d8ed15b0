"""Breast cancer at ten hospitals: one private model of all patients, which each corrects by its own.

Bounds are round numbers that stand for what doctors know before they look. Nothing else is taken as known: centres and scales are found by
the consortium itself, within its budget. Beside it, the patients of study 000 with centres and scales taken as public knowledge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from sudare.array_types import Floats
from sudare.experts.own_plus_consensus import LEAST_DOUBT, MOST_DOUBT, Consensus, own_plus_consensus
from sudare.joint import ConsortiumModel, consortium_model
from sudare.papers.p000_weak_learners import simulated_members
from sudare.papers.p000_weak_learners.learning_tasks import REAL_NODES, Task, breast_cancer, dealt_places
from sudare.papers.repetitions import Measurements
from sudare.schema import Label, Number, Schema, encode

LABEL: Final = "malignant"
EPSILONS: Final = (0.5, 1.0, 2.5, 5.0)
DELTA: Final = 1e-5
SCALER_SHARE: Final = 0.2
TESTED: Final = (85, 84)
SCALED, BOUNDED, PUBLIC = "common scales", "declared bounds only", "public scales"

_BOUNDS: Final = (
    (5, 35), (5, 45), (30, 220), (50, 3000), (0, 0.2), (0, 0.4), (0, 0.5), (0, 0.25), (0.1, 0.4), (0.04, 0.1),
    (0, 3), (0, 5), (0, 25), (0, 600), (0, 0.04), (0, 0.15), (0, 0.4), (0, 0.06), (0, 0.08), (0, 0.03),
    (5, 40), (5, 50), (30, 260), (50, 4500), (0, 0.25), (0, 1.2), (0, 1.3), (0, 0.3), (0.1, 0.7), (0.04, 0.25),
)  # fmt: skip


@dataclass(frozen=True)
class Patients:
    """Ten hospitals' tables, and patients that none of them has seen, both kinds equally often."""

    members: Sequence[pd.DataFrame]
    unseen: pd.DataFrame


def schema() -> Schema:
    """Thirty measurements within declared bounds, and what is to be told."""
    names = load_breast_cancer().feature_names.tolist()
    numbers = {name: Number(float(low), float(high)) for name, (low, high) in zip(names, _BOUNDS, strict=True)}
    return Schema({**numbers, LABEL: Label((0, 1))})


def dealt(generator: np.random.Generator) -> Patients:
    """400 patients of ten hospitals, 169 to test on, as in study 000 but with their measurements as they are."""
    bunch: Any = load_breast_cancer(as_frame=True)
    table = bunch.data.assign(**{LABEL: (bunch.target == 0).astype(int)})
    unseen, members = dealt_places(np.where(table[LABEL] == 1, 1.0, -1.0), TESTED, REAL_NODES, generator)
    return Patients([table.iloc[own] for own in members], table.iloc[unseen])


def note_hospitals(found: Measurements, generator: np.random.Generator) -> None:
    """Accuracies of one split: of the common model, of every hospital's correction of it, and of its own patients alone."""
    patients, declared = dealt(generator), schema()
    for epsilon in EPSILONS:
        for name, share in ((SCALED, SCALER_SHARE), (BOUNDED, 0.0)):
            together = consortium_model(
                patients.members,
                schema=declared,
                epsilon=epsilon,
                delta=DELTA,
                scaler_share=share,
                fit_intercept=False,
                random_state=int(generator.integers(2**31)),
                hide="nothing",
            )
            task = _encoded(patients, together)
            _note(found, name, epsilon, task, together)


def note_public_scales(found: Measurements, generator: np.random.Generator) -> None:
    """The same with the rows of study 000, and every combination of per-member models beside it."""
    task = breast_cancer(generator)
    members = [(rows, labels) for rows, labels in zip(task.rows, task.labels, strict=True)]
    found.note("alone", task.accuracy(simulated_members.own_without_messages(task)).mean())
    found.note("pooled", task.accuracy(simulated_members.pooled(task)).mean())
    for epsilon in EPSILONS:
        together = consortium_model(
            members,
            classes=[-1, 1],
            epsilon=epsilon,
            delta=DELTA,
            fit_intercept=False,
            random_state=int(generator.integers(2**31)),
            hide="nothing",
        )
        _note(found, PUBLIC, epsilon, task, together)
        note_combinations(found, epsilon, task, generator)


def note_combinations(found: Measurements, epsilon: float, task: Task, generator: np.random.Generator) -> None:
    """What receivers make of models that members published one by one, at the same ε (pure)."""
    means = simulated_members.mean_messages(task, epsilon, generator)
    printed = simulated_members.chaudhuri_messages(task, epsilon, generator)
    found.note("own and others", task.accuracy(simulated_members.own_and_others(task, means)).mean(), epsilon)
    found.note("averaged means", task.accuracy(simulated_members.mirror_averaged(task, means)).mean(), epsilon)
    found.note("averaged as printed", task.accuracy(simulated_members.mirror_averaged(task, printed)).mean(), epsilon)


def corrected(task: Task, together: ConsortiumModel) -> Floats:
    """Every member's `together.combination(i)` fitted on its own rows, all at once."""
    parameters, doubt = together.learned.parameters, min(max(together.learned.doubt, LEAST_DOUBT), MOST_DOUBT)
    members = len(task.rows)
    direction = parameters / max(float(np.linalg.norm(parameters)), np.finfo(np.float64).tiny)
    consensus = Consensus(np.tile(direction, (members, 1)), np.full(members, doubt))
    return own_plus_consensus(task.rows, task.labels, consensus)[0]


def _note(found: Measurements, name: str, epsilon: float, task: Task, together: ConsortiumModel) -> None:
    found.note(name, float(task.accuracy(together.learned.parameters).mean()), epsilon)
    found.note(f"{name}, with own", float(task.accuracy(corrected(task, together)).mean()), epsilon)
    found.note(f"{name}, own only", float(task.accuracy(simulated_members.own_without_messages(task)).mean()), epsilon)


def _encoded(patients: Patients, together: ConsortiumModel) -> Task:
    """The hospitals' rows as the common model reads them."""
    reading = together.learned.reading
    features = Schema(dict(schema().features if reading.schema is None else reading.schema.features))

    def rows(table: pd.DataFrame) -> Floats:
        return encode(features, table, reading.encoding).matrix

    def signs(table: pd.DataFrame) -> Floats:
        return np.where(table[LABEL].to_numpy() == 1, 1.0, -1.0)

    return Task(
        np.stack([rows(table) for table in patients.members]),
        np.stack([signs(table) for table in patients.members]),
        rows(patients.unseen),
        signs(patients.unseen),
    )
