"""Paper 004 (Hasegawa, Kikuchi, Igarashi, Hamada and Senda): reconstruction by finite mixtures, its tables and figures, and ours beside them."""

from __future__ import annotations

from dataclasses import replace
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
_QUICK: Final = "Quick run: few repetitions, up to 100,000 records, and a part of our own comparisons."


def run(tell: Tell, settings: StudySettings) -> StudyResult:
    """All tables and figures."""
    repeats = settings.repeats
    sizes = QUICK_SIZES if settings.quick else figure2.SIZES
    columns = table2.measured(tell, repeats)
    simulated = figure2.measured(tell, repeats, sizes)
    several = several_columns.MIXTURES[:1] if settings.quick else several_columns.MIXTURES
    joint = several_columns.measured(tell, repeats, several)
    grouped = clusters.measured(tell, repeats)
    waves = square_waves.measured(tell, repeats)
    tables = [
        several_columns.table_1(),
        table2.table_2(columns),
        table2.table_2_by_components(columns),
        table2.table_2_early_stops(columns),
        *(figure2.accuracy_table(simulated, width, sizes) for width in figure2.WIDTHS),
        figure2.components_table(simulated, sizes),
        figure2.winners_table(simulated, sizes),
        clusters.table(grouped),
        several_columns.accuracy_table(joint, several),
        several_columns.covariance_table(joint, several),
        several_columns.census_table(tell, repeats),
        square_waves.accuracy_table(waves),
        figure2.speed_table(tell),
    ]
    if not settings.quick:
        tables += [
            limits.limits_table(tell, columns, simulated, repeats),
            other_columns.accuracy_table(other_columns.measured(tell, repeats)),
            bands_table.coverage_table(bands_table.measured(tell, repeats)),
        ]
    figures = [
        figure2.figure_1(),
        figure2.figure_2(simulated, sizes),
        Figure(
            "Reconstructions",
            "Histograms of original, perturbed and reconstructed values, with 90 % bands: the product's 'auto'.",
            [figure2.picture(), *(table2.picture(column) for column in (table2.AGE, table2.EDUCATION))],
        ),
        Figure(
            "Square Wave beside Laplace",
            "L1 accuracy against the local ε. Bars are standard errors over draws of the noise.",
            [square_waves.panel(waves, trial) for trial in square_waves.trials()[::2]],
        ),
    ]
    if settings.quick:
        tables = [replace(table, says=f"{table.says} {_QUICK}") for table in tables]
        figures = [replace(figure, differs=f"{figure.differs} {_QUICK}".strip()) for figure in figures]
    return StudyResult(tables, figures)


STUDY: Final = Study(
    title="Perturb and reconstruct: tables 1 and 2, figures 1 and 2, both algorithms beside the product, bands and speed",
    paper="004: Hasegawa, Kikuchi, Igarashi, Hamada, Senda, A new reconstruction method with finite mixture models",
    repeats=10,
    run=run,
    quick_repeats=2,
    errata=ERRATA,
)
