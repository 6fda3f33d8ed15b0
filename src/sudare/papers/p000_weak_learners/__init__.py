"""Paper 000 (Minami, Arai, Sato and Nakagawa 2015): its algorithms, bounds, figures and tables, what wins, and one site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sudare.papers.p000_weak_learners import (
    excess_risks,
    figures4_5,
    logistic_regression_results,
    synthetic_data_results,
)
from sudare.papers.p000_weak_learners.adult_accuracy import fresh_table, official_table, one_site, one_site_panel
from sudare.papers.p000_weak_learners.errata import ERRATA
from sudare.papers.p000_weak_learners.figures4_5 import (
    CANCER_TITLE,
    PIMA_TITLE,
    patients,
    patients_figure,
    patients_peer,
    patients_table,
)
from sudare.papers.p000_weak_learners.learning_tasks import breast_cancer, diabetes
from sudare.papers.p000_weak_learners.private_aggregation_results import released_combinations
from sudare.papers.study import Figure, Study, StudyResult, StudySettings, Tell

# Parts that cost little are repeated this many times as often: their spread over seeds is large, or margins are small.
CHEAP_FACTOR, ADULT_FACTOR = 3, 2
QUICK_EPSILONS, QUICK_PATIENT_EPSILONS = (0.1, 0.5, 1.1, 1.9), (0.1, 1.0, 2.5)
QUICK_ROWS, QUICK_NODES = (50, 200), (10, 50, 100)
QUICK_HOW: Final = "fewer repetitions and fewer values of ε, n and M"


def run(tell: Tell, settings: StudySettings) -> StudyResult:
    """All figures and tables."""
    found = StudyResult.joined(part(tell, settings) for part in PARTS.values())
    return found.marked_quick(QUICK_HOW) if settings.quick else found


def synthetic_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """Figures 1 and 3, Tables 1 and 2, and what wins."""
    epsilons = QUICK_EPSILONS if settings.quick else synthetic_data_results.EPSILONS
    factor = 1 if settings.quick else CHEAP_FACTOR
    printed = synthetic_data_results.figure_3(tell, factor * settings.repeats, epsilons)
    peer = synthetic_data_results.figure_3_peer(tell, factor * settings.repeats, epsilons)
    best = synthetic_data_results.winning(tell, settings.repeats, epsilons)
    return StudyResult(
        synthetic_data_results.figure_3_tables(printed, best, peer, epsilons),
        synthetic_data_results.figure_3_figures(printed, best, peer, epsilons),
    )


def patients_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """Figures 4 and 5."""
    epsilons = QUICK_PATIENT_EPSILONS if settings.quick else figures4_5.EPSILONS
    repeats = settings.repeats if settings.quick else CHEAP_FACTOR * settings.repeats
    tables, figures = [], []
    for label, title, deal in (("Figure 4", CANCER_TITLE, breast_cancer), ("Figure 5", PIMA_TITLE, diabetes)):
        found = patients(tell, deal, title, repeats, epsilons)
        peer = patients_peer(tell, deal, title, repeats, epsilons)
        tables.append(patients_table(title, found, peer, epsilons))
        figures.append(patients_figure(label, title, found, peer, epsilons))
    return StudyResult(tables, figures)


def bounds_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """Theorems 2.1, 2.2 and 4.1 beside what was measured."""
    objective_rows = QUICK_ROWS if settings.quick else excess_risks.OBJECTIVE_ROWS
    descent_rows = QUICK_ROWS if settings.quick else excess_risks.DESCENT_ROWS
    nodes = QUICK_NODES if settings.quick else excess_risks.NODES
    objective = excess_risks.objective_risks(tell, settings.repeats, objective_rows)
    descent = excess_risks.descent_risks(tell, settings.repeats, descent_rows)
    aggregate = excess_risks.aggregate_risks(tell, settings.repeats, nodes)
    return StudyResult(
        [
            excess_risks.theorem_2_1_table(objective, objective_rows),
            excess_risks.sigma_table(descent_rows),
            excess_risks.theorem_2_2_table(descent, descent_rows),
            excess_risks.theorem_4_1_table(aggregate, nodes),
        ],
        excess_risks.bounds_figures(objective, descent, aggregate, objective_rows, descent_rows, nodes),
    )


def product_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """The private linear classifiers of the product on Adult, and their methods on small tables."""
    adult = one_site(tell, settings.repeats if settings.quick else ADULT_FACTOR * settings.repeats)
    repeats = settings.repeats if settings.quick else CHEAP_FACTOR * settings.repeats
    methods, sampling = (
        logistic_regression_results.methods_compared(tell, repeats),
        logistic_regression_results.sampling_compared(tell, repeats),
    )
    caption = "Accuracy against ε on Adult by the product's private linear classifiers; bars are standard errors. Not in the paper."
    return StudyResult(
        [
            official_table(adult),
            fresh_table(adult),
            logistic_regression_results.methods_table(methods),
            logistic_regression_results.sampling_table(sampling),
        ],
        [Figure("One site", caption, [one_site_panel(adult)])],
    )


PARTS: Final[Mapping[str, Callable[[Tell, StudySettings], StudyResult]]] = {
    "synthetic": synthetic_part,
    "patients": patients_part,
    "bounds": bounds_part,
    "product": product_part,
    "combinations": released_combinations,
}

STUDY: Final = Study(
    title="Aggregating private weak learners: figures 3 to 5, tables 1 and 2, Algorithms 1 and 2 and their bounds, what wins, one site (Adult), and its future work: several classes, numbers, and combinations that may be released",
    paper="000: Minami, Arai, Sato, Nakagawa (2015), Aggregating differentially private weak learners",
    repeats=10,
    run=run,
    errata=ERRATA,
)
