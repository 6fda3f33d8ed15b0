"""Consortium-wide learning: one model of everybody's rows by secure sums with noise in shares, beside models that members publish one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sudare.joint import consortium_model
from sudare.papers.own_studies.joint_learning import hospitals
from sudare.papers.p000_weak_learners import simulated_members
from sudare.papers.p000_weak_learners.learning_tasks import SYNTHETIC_NODES, Task, synthetic
from sudare.papers.repetitions import Measurements, Shown, accuracies_panel, repeated
from sudare.papers.study import Figure, ResultTable, Study, StudyResult, StudySettings, Tell
from sudare.report.plots import Panel

EPSILONS: Final = (0.1, 0.3, 0.5, 1.1)
DELTA: Final = 1e-6
MANY_KNOWN: Final = 33
ONE_SUM, DESCENT, CAREFUL = "one pure sum, t = 1", "descent, t = 1", f"descent, t = {MANY_KNOWN}"
# Consortium-wide models cost little to simulate, and differ little from each other: twice as many seeds.
CHEAP_FACTOR: Final = 2

# Seeds of the reported numbers. Steps, shares and the doubt were chosen on other seeds, and these were not looked at before.
SYNTHETIC_SEED, PATIENTS_SEED, PUBLIC_SEED = 20261115, 20261116, 20261117


def run(tell: Tell, settings: StudySettings) -> StudyResult:
    """Synthetic rows and patients."""
    repeats = settings.repeats
    joint = repeated(tell, "everybody's synthetic rows", CHEAP_FACTOR * repeats, SYNTHETIC_SEED, note_joint_models)
    single = repeated(tell, "models published one by one", repeats, SYNTHETIC_SEED, note_single_models)
    scaled = repeated(
        tell, "hospitals with declared bounds", CHEAP_FACTOR * repeats, PATIENTS_SEED, hospitals.note_hospitals
    )
    public = repeated(tell, "hospitals with public scales", repeats, PUBLIC_SEED, hospitals.note_public_scales)
    tables = [synthetic_table(joint, single), cancer_table(scaled, public)]
    figures = [
        Figure("Synthetic rows", "Accuracy against ε; bars are standard errors.", [synthetic_panel(joint, single)]),
        Figure("Hospitals", "Accuracy against ε; bars are standard errors.", [cancer_panel(scaled, public)]),
    ]
    return StudyResult(tables, figures)


# Synthetic rows of paper 000


def note_joint_models(found: Measurements, generator: np.random.Generator) -> None:
    """Accuracies of consortium-wide models, which are the same at every member."""
    task = synthetic(generator)
    found.note("pooled", task.accuracy(simulated_members.pooled(task)).mean())
    for epsilon in EPSILONS:
        for name, delta, colluders in ((ONE_SUM, 0.0, 1), (DESCENT, DELTA, 1), (CAREFUL, DELTA, MANY_KNOWN)):
            found.note(name, joint_accuracy(task, epsilon, delta, colluders, generator), epsilon)


def joint_accuracy(task: Task, epsilon: float, delta: float, colluders: int, generator: np.random.Generator) -> float:
    """Share of test rows that a consortium-wide model tells right; simulated noise, the product's own code."""
    together = consortium_model(
        [(rows, labels) for rows, labels in zip(task.rows, task.labels, strict=True)],
        classes=[-1, 1],
        epsilon=epsilon,
        delta=delta,
        colluders=colluders,
        fit_intercept=False,
        random_state=int(generator.integers(2**31)),
        hide="nothing",
    )
    return float(task.accuracy(together.learned.parameters).mean())


def note_single_models(found: Measurements, generator: np.random.Generator) -> None:
    """Every combination of per-member models, on the same rows as the first repetitions of the consortium-wide ones."""
    task = synthetic(generator)
    found.note("alone", task.accuracy(simulated_members.own_without_messages(task)).mean())
    for epsilon in EPSILONS:
        hospitals.note_combinations(found, epsilon, task, generator)


def synthetic_table(joint: Measurements, single: Measurements) -> ResultTable:
    """All against ε."""
    return ResultTable(
        "Synthetic task of paper 000: one model of everybody's rows, and combinations of per-member models",
        (
            "ε",
            ONE_SUM,
            DESCENT,
            CAREFUL,
            "own plus consensus of noisy means",
            "mirror averaging, noisy means",
            "mirror averaging, as printed",
        ),
        [
            (
                epsilon,
                *(joint.at(name, epsilon) for name in (ONE_SUM, DESCENT, CAREFUL)),
                *(single.at(name, epsilon) for name in ("own and others", "averaged means", "averaged as printed")),
            )
            for epsilon in EPSILONS
        ],
        f"{SYNTHETIC_NODES} members × 50 rows, replace-one records. One sum and per-member models: pure ε (δ = 0). Descent: δ = {DELTA:g}. t is how many shares of the "
        f"noise may be known or missing, whoever looks included. Mean ± one standard error over {joint.repeats} seeds; per-member models {single.repeats}. All members hold "
        f"the same consortium-wide model. Own data only, tuned: {single.at('alone')}; everybody's data in one place: {joint.at('pooled')}.",
    )


def synthetic_panel(joint: Measurements, single: Measurements) -> Panel:
    """The same as a picture."""
    joint_lines = [(joint, name, f"everybody's rows: {name}") for name in (ONE_SUM, DESCENT, CAREFUL)]
    title = "Synthetic task, 100 members × 50 rows"
    return _beside_combinations(title, EPSILONS, joint_lines, single)


def _beside_combinations(title: str, epsilons: Sequence[float], lines: Sequence[Shown], single: Measurements) -> Panel:
    """Consortium-wide models, and every combination of per-member models."""
    combinations = [
        (single, "own and others", "own plus consensus"),
        (single, "averaged means", "mirror averaging, noisy means"),
        (single, "averaged as printed", "mirror averaging, as printed"),
    ]
    levels = [(single, "alone", "own data only, tuned")]
    return accuracies_panel(title, "ε (replace-one)", epsilons, [*lines, *combinations], levels)


# Patients of ten hospitals


def cancer_table(scaled: Measurements, public: Measurements) -> ResultTable:
    """Common models with what was known beforehand, and combinations of per-member models."""
    names = [f"{hospitals.SCALED}, with own", f"{hospitals.SCALED}, own only", f"{hospitals.BOUNDED}, with own"]
    return ResultTable(
        "Breast cancer, ten hospitals: the consortium-wide model, and with each hospital's own patients",
        (
            "ε",
            "common scales: alone",
            "common scales: with own",
            "common scales: own only",
            "declared bounds only: with own",
            "public scales: alone",
            "public scales: with own",
            "public scales: own plus consensus of noisy means",
        ),
        [
            (
                epsilon,
                scaled.at(hospitals.SCALED, epsilon),
                *(scaled.at(name, epsilon) for name in names),
                public.at(hospitals.PUBLIC, epsilon),
                public.at(f"{hospitals.PUBLIC}, with own", epsilon),
                public.at("own and others", epsilon),
            )
            for epsilon in hospitals.EPSILONS
        ],
        f"40 patients a hospital, replace-one records, t = 1; consortium-wide models: descent at δ = {hospitals.DELTA:g}; per-member models: pure ε. Common scales take "
        f"{hospitals.SCALER_SHARE:.0%} of the budget and know nothing but declared bounds; public scales are those of study 000, rounded means and deviations of the data set that stand for public "
        f"knowledge. Mean over hospitals ± one standard error over {scaled.repeats} random splits, public scales {public.repeats}. With public scales: own data only, tuned "
        f"{public.at('alone')}; everybody's data in one place {public.at('pooled')}. The rule for common scales and for the doubt was chosen on other random splits of these same patients, so levels may be a "
        "little optimistic. Own only: the same receiver without the common model, on rows scaled alike.",
    )


def cancer_panel(scaled: Measurements, public: Measurements) -> Panel:
    """The same as a picture, with every combination of per-member models."""
    lines = [
        (public, f"{hospitals.PUBLIC}, with own", "consortium-wide and own, public scales"),
        (scaled, f"{hospitals.SCALED}, with own", "consortium-wide and own, common scales"),
        (public, hospitals.PUBLIC, "consortium-wide, public scales"),
    ]
    return _beside_combinations("Breast cancer, ten hospitals × 40 patients", hospitals.EPSILONS, lines, public)


STUDY: Final = Study(
    title="Consortium-wide learning: one private model of everybody's rows beside combinations of per-member models",
    paper="000: Minami, Arai, Sato, Nakagawa (2015), Aggregating differentially private weak learners; the tasks, not the method",
    repeats=10,
    run=run,
)
