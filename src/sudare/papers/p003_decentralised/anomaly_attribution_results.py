"""Which sensor is at fault, by each way to blame a variable; and ρ₀ by how well labelled faults are found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
from scipy.special import logsumexp
from sklearn.metrics import roc_auc_score

from sudare.array_types import Floats
from sudare.dictionary import MemberModel, PatternDictionary
from sudare.papers.p003_decentralised.algorithm1 import CollaborativeDictionary
from sudare.papers.p003_decentralised.likelihood_compensation import (
    mixture_compensation,
    single_variable_compensation,
)
from sudare.papers.p003_decentralised.made_up_consortia import Truth, chapter_truth, hard_truth
from sudare.papers.p003_decentralised.rho_by_detection import rho0_by_detection
from sudare.papers.repetitions import Measurements, measurements, noted, repetitions
from sudare.papers.study import Estimate, ResultTable, Tell

FAULTS: Final = 200
_CHOSEN: Final = "chosen"
SHIFTS: Final = (2.0, 3.0, 5.0)
DETECTION_ROWS: Final = 60
LABELLED_ROWS: Final = 200
RHOS: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)

Blame = Callable[[MemberModel, Floats], Floats]


def blames() -> dict[str, Blame]:
    """Records × variables: the larger, the more to blame."""
    return {
        "−ln p(x_i) alone": marginal_surprise,
        "−ln p(x_i | all others) (product)": lambda model, records: model.attribution(records),
        "compensation of single variables": lambda model, records: single_variable_compensation(model, records).gains,
        "likelihood compensation, all at once": lambda model, records: np.abs(mixture_compensation(model, records)),
    }


def marginal_surprise(model: MemberModel, records: Floats) -> Floats:
    """−ln p(x_i) of every variable by itself."""
    variances = np.diagonal(np.linalg.inv(model.patterns["precisions"]), axis1=1, axis2=2)
    distances = (records[:, np.newaxis] - model.patterns["means"]) ** 2 / variances
    logs = np.log(np.maximum(model.weights, 1e-300))[:, np.newaxis] - 0.5 * (distances + np.log(2 * np.pi * variances))
    return np.asarray(-logsumexp(logs, axis=1))


def fault_table(repeats: int, tell: Tell) -> ResultTable:
    """How often the sensor that was shifted is the one to be blamed most."""

    def note(hits: Measurements, seed: int) -> None:
        generator = np.random.default_rng([seed, 5])
        truth = hard_truth(generator)
        fitted = PatternDictionary(10, hide="nothing").fit(truth.records(generator, 150))
        model, usual = fitted.member(0), truth.records(generator, FAULTS)[0]
        sensors = generator.integers(usual.shape[1], size=FAULTS)
        signs = generator.choice([-1.0, 1.0], FAULTS)
        for shift in SHIFTS:
            faulty = usual.copy()
            faulty[np.arange(FAULTS), sensors] += shift * signs
            for name, blame in blames().items():
                found = float(np.mean(np.argmax(blame(model, faulty), axis=1) == sensors))
                hits.note((name, shift), found)

    hits = measurements(tell, repetitions("which sensor is at fault", repeats, partial(noted, note)))
    return ResultTable(
        "Which sensor is at fault: share of faults whose sensor is blamed most",
        ("blame", *(f"shifted by {shift:g} deviations" for shift in SHIFTS)),
        [(name, *(hits.at((name, shift)) for shift in SHIFTS)) for name in blames()],
        f"No ε. One sensor of ten is shifted in each of {FAULTS} records of a member of the hard case, scored by the member's model of the product's dictionary; ± one standard error over {repeats} truths. "
        "A tenth would be right by chance. Compensation of single variables asks how many nats one correction brings back; the conditional asks how strange one reading is: where patterns are Gaussian and one of them "
        "explains the record the two rank alike.",
    )


def detection_data(truth: Truth, generator: np.random.Generator, rows: int) -> list[tuple[Floats, np.ndarray]]:
    """Usual records of every member and as many faults, whose first two sensors are those of another record of the member."""
    usual, others = truth.records(generator, rows), truth.records(generator, rows)
    faults = [np.hstack([other[:, :2], own[:, 2:]]) for own, other in zip(usual, others, strict=True)]
    return [(np.concatenate(pair), np.repeat([0, 1], rows)) for pair in zip(usual, faults, strict=True)]


def rho_table(repeats: int, tell: Tell) -> ResultTable:
    """AUC on fresh faults at every ρ₀, at the one that labelled faults choose, and of the product, which asks BIC."""
    truth = chapter_truth()

    def note(areas: Measurements, seed: int) -> None:
        generator = np.random.default_rng([seed, 6])
        tables = truth.records(generator, DETECTION_ROWS)
        labelled, fresh = (detection_data(truth, generator, LABELLED_ROWS) for _ in range(2))
        model = CollaborativeDictionary(6, updates="corrected", random_state=seed, max_iter=60)
        choice = rho0_by_detection(model, tables, labelled, RHOS)
        for rho0, fitted in zip(choice.rho0s, choice.fitted, strict=True):
            areas.note(f"ρ₀ = {rho0:g}", _area(fitted, fresh))
        areas.note("ρ₀ by labelled faults", _area(choice.best, fresh))
        areas.note("ours, by BIC without labels", _area(PatternDictionary(6, hide="nothing").fit(tables), fresh))
        areas.note(_CHOSEN, choice.rho0)

    areas = measurements(tell, repetitions("ρ₀ by detection", repeats, partial(noted, note)))
    chosen = areas.numbers.pop(_CHOSEN)
    return ResultTable(
        "ρ₀ chosen by detection: AUC on fresh faults",
        ("dictionary", "AUC, mean of the members"),
        [(str(name), Estimate.of(values)) for name, values in areas.numbers.items()],
        f"No ε. The chapter's example with {DETECTION_ROWS} records a member, corrected updates from six patterns. A fault has its first two sensors from another record of the same member. {LABELLED_ROWS} usual records and as many "
        f"labelled faults a member choose ρ₀ (section 1.5.3), others judge; ± one standard error over {repeats} seeds. Chosen: {', '.join(f'{rho0:g}' for rho0 in sorted(set(chosen)))}.",
    )


def _area(fitted: CollaborativeDictionary | PatternDictionary, labelled: list[tuple[Floats, np.ndarray]]) -> float:
    areas = []
    for position, (records, labels) in enumerate(labelled):
        scores = fitted.member(position).score_samples(records)
        areas.append(float(roc_auc_score(labels, scores)))
    return float(np.mean(areas))
