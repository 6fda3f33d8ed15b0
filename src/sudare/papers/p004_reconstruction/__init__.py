"""Paper 004 (Hasegawa, Kikuchi, Igarashi, Hamada and Senda): reconstruction of one column, its table and figures, and bands."""

from __future__ import annotations

from typing import Final

from sudare.papers.p004_reconstruction import (
    bands_table,
    figure2,
    limits,
    other_columns,
    several_columns,
    square_waves,
    table2,
)
from sudare.papers.study import Figure, Study, StudyResult, StudySettings, Tell


def run(tell: Tell, settings: StudySettings) -> StudyResult:
    """All tables and figures."""
    repeats = settings.repeats
    columns = table2.measured(tell, repeats)
    simulated = figure2.measured(tell, repeats)
    others = other_columns.measured(tell, repeats)
    bands = bands_table.measured(tell, repeats)
    waves = square_waves.measured(tell, repeats)
    joint = several_columns.measured(tell, repeats)
    return StudyResult(
        [
            table2.table_2(columns),
            *(figure2.accuracy_table(simulated, width) for width in figure2.WIDTHS),
            limits.limits_table(tell, columns, simulated, repeats),
            other_columns.accuracy_table(others),
            bands_table.coverage_table(bands),
            square_waves.accuracy_table(waves),
            figure2.speed_table(tell),
            several_columns.accuracy_table(joint),
            several_columns.covariance_table(joint),
            several_columns.census_table(tell, repeats),
        ],
        [
            Figure("Figure 2", "Accuracy against the number of records.", [figure2.figure_2_panel(simulated)]),
            Figure(
                "Figure 1",
                "Densities before, perturbed and reconstructed.",
                [figure2.picture(), *(table2.picture(column) for column in table2.COLUMNS[:2])],
            ),
            Figure(
                "Square Wave beside Laplace",
                "Accuracy against ε.",
                [square_waves.panel(waves, trial) for trial in square_waves.trials()[::2]],
            ),
        ],
    )


STUDY: Final = Study(
    title="Perturb and reconstruct: table 2 and figures 1 and 2, bands, Square Wave beside Laplace, and speed",
    paper="004: Hasegawa, Kikuchi, Igarashi, Hamada, Senda, A new reconstruction method with finite mixture models",
    repeats=10,
    run=run,
)
