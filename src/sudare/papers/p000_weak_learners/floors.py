"""What was asked of the study before it was built, and what was found, line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sudare.papers.p000_weak_learners.census import BINNED_PURE, PURE_GOAL, SETTINGS, OneSite
from sudare.papers.p000_weak_learners.repetitions import NARROWLY, Found, verdict
from sudare.papers.study import Estimate, ResultTable

PROTOTYPE_CHAUDHURI: Final[Mapping[float, float]] = {
    0.1: 0.792, 0.3: 0.783, 0.5: 0.776, 0.7: 0.810, 0.9: 0.836, 1.1: 0.870, 1.3: 0.886, 1.5: 0.911, 1.7: 0.919, 1.9: 0.925,
}  # fmt: skip
LARGEST_DISTANCE: Final = 0.02
COMBINED_ASKED: Final[Mapping[float, float]] = {0.1: 0.95, 0.5: 0.96, 1.1: 0.985, 1.9: 0.99}
MEMBERS_ASKED, MEMBERS_FROM = 95.0, 1.1
PIMA_ASKED, PIMA_AT = 0.71, 1.0
CANCER_LOSS: Final = 0.005
CANCER_GOAL, CANCER_GOAL_UP_TO = 0.947, 2.5

Row = tuple[str, float, str, Estimate, str]


@dataclass(frozen=True)
class Parts:
    """All that the study measured."""

    printed: Found
    best: Found
    cancer: Found
    diabetes: Found
    adult: OneSite


def floors_table(parts: Parts, epsilons: Sequence[float], real_epsilons: Sequence[float]) -> ResultTable:
    """Every bound with what was found."""
    return ResultTable(
        "What was asked for, and what was reached",
        ("", "ε", "asked", "found", ""),
        [
            prototype_row(parts.printed, epsilons),
            *combined_rows(parts.best, epsilons),
            *patients_rows(parts.cancer, parts.diabetes, real_epsilons),
            *adult_rows(parts.adult),
        ],
        "Replace-one records; δ = 0 unless stated; ± one standard error over the repetitions of the tables above. Every gain is paired: the same members with and "
        "without messages, so a receiver that ignores them gains zero. On the synthetic task, breast cancer and Pima the tuned own models alone come near or above some of these bounds: "
        f"the gains say what the messages are worth. {NARROWLY}",
    )


def prototype_row(printed: Found, epsilons: Sequence[float]) -> Row:
    """The ε at which mirror averaging of the paper's messages is farthest from the earlier prototype."""

    def distance(epsilon: float) -> float:
        return abs(printed.at("chaudhuri", epsilon).value - PROTOTYPE_CHAUDHURI[epsilon])

    farthest = max(epsilons, key=distance)
    ours, theirs = printed.at("chaudhuri", farthest), PROTOTYPE_CHAUDHURI[farthest]
    room = Estimate(LARGEST_DISTANCE - distance(farthest), ours.standard_error, ours.repeats)
    asked = f"{theirs} ± {LARGEST_DISTANCE}"
    return (
        "mirror averaging, the paper's messages: farthest from the prototype",
        farthest,
        asked,
        ours,
        verdict(room, 0),
    )


def combined_rows(best: Found, epsilons: Sequence[float]) -> list[Row]:
    """Own plus consensus on the synthetic task: accuracy, gain and members that gain."""
    rows: list[Row] = []
    for epsilon, least in COMBINED_ASKED.items():
        if epsilon in epsilons:
            rows.append(at_least("synthetic: own plus consensus", epsilon, least, best.at("combined", epsilon)))
    for epsilon in COMBINED_ASKED:
        if epsilon in epsilons:
            rows.append(at_least("synthetic: paired gain over μ = 0", epsilon, 0.0, best.at("gain", epsilon)))
    later = [epsilon for epsilon in epsilons if epsilon >= MEMBERS_FROM]
    if later:
        epsilon, fewest = best.smallest("better", later)
        title = f"synthetic: members of 100 that beat their tuned own model, fewest from ε = {MEMBERS_FROM}"
        rows.append(at_least(title, epsilon, MEMBERS_ASKED, fewest))
    return rows


def patients_rows(cancer: Found, diabetes: Found, epsilons: Sequence[float]) -> list[Row]:
    """Pima and breast cancer."""
    epsilon, loss = cancer.smallest("gain", epsilons)
    rows = [at_least("breast cancer: smallest paired gain over the tuned own model", epsilon, -CANCER_LOSS, loss)]
    early = [epsilon for epsilon in epsilons if epsilon <= CANCER_GOAL_UP_TO]
    epsilon, lowest = cancer.smallest("combined", early)
    title = f"breast cancer: own plus consensus, lowest up to ε = {CANCER_GOAL_UP_TO} (a goal)"
    rows.append(at_least(title, epsilon, CANCER_GOAL, lowest))
    if PIMA_AT in epsilons:
        rows.append(
            at_least("Pima: own plus consensus", PIMA_AT, PIMA_ASKED, diabetes.at("combined", PIMA_AT)),
        )
        rows.append(at_least("Pima: paired gain over μ = 0", PIMA_AT, 0.0, diabetes.at("gain", PIMA_AT)))
    return rows


def adult_rows(adult: OneSite) -> list[Row]:
    """One site, on the official test rows."""
    rows = [
        at_least(f"Adult, {setting.name}", epsilon, least, adult.official.at(setting.name, epsilon))
        for setting in SETTINGS
        for epsilon, least in setting.asked.items()
    ]
    goal = adult.official.at(BINNED_PURE.name, 1.0)
    return [*rows, at_least(f"Adult, {BINNED_PURE.name} (a goal)", 1.0, PURE_GOAL, goal)]


def at_least(title: str, epsilon: float, least: float, found: Estimate) -> Row:
    """A number that was to be at least so large."""
    return title, epsilon, f"≥ {least:g}", found, verdict(found, least)
