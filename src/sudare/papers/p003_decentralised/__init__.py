"""Paper 003 (Ide 2021): sums without a server, the pattern dictionary, what they cost and what they give away."""

from __future__ import annotations

from typing import Final

import numpy as np

from sudare.papers.p003_decentralised.consensus_figures import (
    attack_table,
    breach_panel,
    breach_table,
    chain_figure,
    chain_table,
    figure_1_4,
    figure_1_5,
    figure_1_6,
    figure_1_9_counts,
    rounds_table,
)
from sudare.papers.p003_decentralised.examples import anomaly_table, few_records_results, hard_table, recovery_table
from sudare.papers.p003_decentralised.figures import figure_1_8, figure_1_9, records_attack_table
from sudare.papers.p003_decentralised.private_dictionary import private_results
from sudare.papers.p003_decentralised.sums_table import sums_table
from sudare.papers.study import Study, StudyResult, Tell

SEED: Final = 2021
REPEATS: Final = 100


def run(tell: Tell, repeats: int) -> StudyResult:
    """Sums first, then the dictionary. What takes long is repeated a tenth as often, but ten times where `repeats` allows."""
    few = min(repeats, max(10, repeats // 10))
    generator = np.random.default_rng(SEED)
    tell("graphs and rounds")
    (four, four_panel), (five, five_panels), (six, six_panels) = figure_1_4(generator), figure_1_5(), figure_1_6()
    nine, nine_panel = figure_1_9(generator, few, tell)
    eight, eight_panel = figure_1_8()
    recovery, hard = recovery_table(repeats, tell), hard_table(repeats, tell)
    records, records_panel = few_records_results(few, tell)
    private, private_panels = private_results(few, tell)
    tables = [
        four,
        five,
        six,
        rounds_table(),
        figure_1_9_counts(generator, few),
        nine,
        sums_table(generator),
        breach_table(generator),
        attack_table(generator),
        chain_table(),
        eight,
        recovery,
        hard,
        records,
        anomaly_table(few, tell),
        records_attack_table(few, tell),
        private,
    ]
    panels = [
        four_panel,
        *five_panels,
        *six_panels,
        breach_panel(),
        chain_figure(),
        nine_panel,
        eight_panel,
        records_panel,
        *private_panels,
    ]
    return StudyResult(tables, panels)


STUDY: Final = Study("Sums without a server, and the pattern dictionary", "003 (Ide 2021)", REPEATS, run)
