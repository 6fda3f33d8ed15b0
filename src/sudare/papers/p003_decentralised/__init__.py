"""Paper 003 (Ide 2021): sums without a server, the pattern dictionary, what they cost and what they give away."""

from __future__ import annotations

from typing import Final

import numpy as np

from sudare.papers.p003_decentralised.averaging_figures import figure_1_4, figure_1_5, figure_1_6, rounds_table
from sudare.papers.p003_decentralised.chunked_sum_assessment import Proposal
from sudare.papers.p003_decentralised.chunked_sum_plots import chain_panel, chunks_panel
from sudare.papers.p003_decentralised.chunked_sum_tables import attack_table, breach_table, chain_table
from sudare.papers.p003_decentralised.dictionary_figures import (
    anomaly_table,
    few_records_results,
    figure_1_8,
    hard_table,
    recovery_table,
)
from sudare.papers.p003_decentralised.graphs import cycle
from sudare.papers.p003_decentralised.private_dictionary import private_results
from sudare.papers.p003_decentralised.record_reconstruction import records_attack_table
from sudare.papers.p003_decentralised.sum_costs import figure_1_9, figure_1_9_counts, sums_table
from sudare.papers.study import Figure, Study, StudyResult, StudySettings, Tell

SEED: Final = 2021
REPEATS: Final = 100


def run(tell: Tell, settings: StudySettings) -> StudyResult:
    """Sums first, then the dictionary. What takes long is repeated a tenth as often, but ten times where `repeats` allows."""
    repeats = settings.repeats
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
    figures = [
        Figure("Figure 1.4", "Convergence of averaging.", [four_panel]),
        Figure("Figure 1.5", "Spectra of circulant graphs.", five_panels),
        Figure("Figure 1.6", "Rounds of averaging.", six_panels),
        Figure("Breaches of random chunking", "", [chunks_panel(Proposal(cycle(20, 2), colluders=3))]),
        Figure("Rewriting a chain", "", [chain_panel(0.1)]),
        Figure("Figure 1.9", "Seconds of one sum.", [nine_panel]),
        Figure("Figure 1.8", "Patterns found.", [eight_panel]),
        Figure("Few records", "", [records_panel]),
        Figure("The dictionary with ε", "", private_panels),
    ]
    return StudyResult(tables, figures)


STUDY: Final = Study("Sums without a server, and the pattern dictionary", "003 (Ide 2021)", REPEATS, run)
