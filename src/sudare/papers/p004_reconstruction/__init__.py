"""Paper 004 (Hasegawa, Kikuchi, Igarashi, Hamada and Senda): reconstruction by finite mixtures, its tables and figures, and ours beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sudare.papers.p004_reconstruction import (
    bands_table,
    clusters,
    figure2,
    limits,
    other_columns,
    several_columns,
    square_waves,
    table2,
)
from sudare.papers.p004_reconstruction.algorithm1 import FiniteMixtureReconstruction
from sudare.papers.p004_reconstruction.algorithm2 import FiniteMixtureJointReconstruction
from sudare.papers.p004_reconstruction.errata import ERRATA
from sudare.papers.p004_reconstruction.iterative_technique import iterative_bayesian_technique
from sudare.papers.study import Figure, Study, StudyResult, StudySettings, Tell

__all__ = [
    "STUDY",
    "FiniteMixtureJointReconstruction",
    "FiniteMixtureReconstruction",
    "iterative_bayesian_technique",
    "run",
]

QUICK_SIZES: Final = (1_000, 10_000, 100_000)
QUICK_HOW: Final = "few repetitions, up to 100,000 records, and a part of our own comparisons"
# What is the same in a quick run.
NEVER_SHORT: Final = ("Table 1:", "One column of 1,000,000 records", "Figure 1", "Reconstructions")


def run(tell: Tell, settings: StudySettings) -> StudyResult:
    """All tables and figures."""
    found = StudyResult.joined(part(tell, settings) for part in (QUICK_PARTS if settings.quick else PARTS).values())
    return found.marked_quick(QUICK_HOW, NEVER_SHORT) if settings.quick else found


def one_column_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """Table 2, both figures, and what could be had at most."""
    sizes = QUICK_SIZES if settings.quick else figure2.SIZES
    columns = table2.measured(tell, settings.repeats)
    simulated = figure2.measured(tell, settings.repeats, sizes)
    tables = [
        table2.table_2(columns),
        table2.table_2_by_components(columns),
        table2.table_2_early_stops(columns),
        *(figure2.accuracy_table(simulated, width, sizes) for width in figure2.WIDTHS),
        figure2.components_table(simulated, sizes),
        figure2.winners_table(simulated, sizes),
    ]
    if not settings.quick:
        tables.append(limits.limits_table(tell, columns, simulated, settings.repeats))
    pictures = Figure(
        "Reconstructions",
        "Histograms of original, perturbed and reconstructed values, with 90 % bands: the product's default, 'auto'.",
        [figure2.picture(), *(table2.picture(column) for column in (table2.AGE, table2.EDUCATION))],
    )
    return StudyResult(tables, [figure2.figure_1(), figure2.figure_2(simulated, sizes), pictures])


def several_columns_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """Joint distributions and clusters."""
    chosen = several_columns.MIXTURES[:1] if settings.quick else several_columns.MIXTURES
    joint = several_columns.measured(tell, settings.repeats, chosen)
    tables = [
        clusters.table(clusters.measured(tell, settings.repeats)),
        several_columns.accuracy_table(joint, chosen),
        several_columns.covariance_table(joint, chosen),
    ]
    return StudyResult(tables, [])


def cross_tables_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """Table 1, and pairs of census columns."""
    return StudyResult([several_columns.table_1(), several_columns.census_table(tell, settings.repeats)], [])


def square_waves_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """The other noise at equal ε."""
    waves = square_waves.measured(tell, settings.repeats)
    figure = Figure(
        "Square Wave beside Laplace",
        "L1 accuracy against the local ε. Bars are standard errors over draws of the noise.",
        [square_waves.panel(waves, trial) for trial in square_waves.trials()[::2]],
    )
    return StudyResult([square_waves.accuracy_table(waves)], [figure])


def speed_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """What a reconstruction costs."""
    return StudyResult([figure2.speed_table(tell)], [])


def other_columns_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """Simulated columns of other kinds."""
    return StudyResult([other_columns.accuracy_table(other_columns.measured(tell, settings.repeats))], [])


def bands_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """How often bands hold."""
    return StudyResult([bands_table.coverage_table(bands_table.measured(tell, settings.repeats))], [])


# Repetitions have seeds of their own, so that a part gives the same numbers by itself.
QUICK_PARTS: Final[Mapping[str, Callable[[Tell, StudySettings], StudyResult]]] = {
    "cross_tables": cross_tables_part,
    "one_column": one_column_part,
    "several_columns": several_columns_part,
    "square_waves": square_waves_part,
    "speed": speed_part,
}
PARTS: Final[Mapping[str, Callable[[Tell, StudySettings], StudyResult]]] = {
    **QUICK_PARTS,
    "other_columns": other_columns_part,
    "bands": bands_part,
}

STUDY: Final = Study(
    title="Perturb and reconstruct: tables 1 and 2, figures 1 and 2, both algorithms beside the product, bands and speed",
    paper="004: Hasegawa, Kikuchi, Igarashi, Hamada, Senda, A new reconstruction method with finite mixture models",
    repeats=10,
    run=run,
    quick_repeats=2,
    errata=ERRATA,
)
