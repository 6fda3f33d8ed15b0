"""Paper 003 (Ide 2021): sums without a server, the pattern dictionary, what they cost and what they give away."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from sudare.papers.p003_decentralised.algorithm1_results import (
    KEY_BITS,
    em_over_sums_table,
    figure_1_7,
    figure_1_8,
    pruning_results,
)
from sudare.papers.p003_decentralised.anomaly_attribution_results import fault_table, rho_table
from sudare.papers.p003_decentralised.averaging_figures import figure_1_4, figure_1_5, figure_1_6, rounds_table
from sudare.papers.p003_decentralised.chunked_sum_assessment import Proposal
from sudare.papers.p003_decentralised.chunked_sum_plots import chain_panel, chunks_panel
from sudare.papers.p003_decentralised.chunked_sum_tables import (
    attack_table,
    breach_table,
    byzantine_table,
    chain_table,
)
from sudare.papers.p003_decentralised.detection_benchmark import detection_results
from sudare.papers.p003_decentralised.dictionary_figures import (
    anomaly_table,
    few_records_results,
    hard_table,
    recovery_table,
)
from sudare.papers.p003_decentralised.errata import ERRATA
from sudare.papers.p003_decentralised.figures1_1_to_1_3 import figure_1_1, figure_1_2, figure_1_3
from sudare.papers.p003_decentralised.graphs import cycle
from sudare.papers.p003_decentralised.lossy_averaging_results import lost_messages_panel, lost_messages_table
from sudare.papers.p003_decentralised.private_dictionary import private_results
from sudare.papers.p003_decentralised.record_reconstruction import records_attack_table
from sudare.papers.p003_decentralised.sum_costs import MOST_MEMBERS, figure_1_9, figure_1_9_counts, sums_table
from sudare.papers.study import Figure, Study, StudyResult, StudySettings, Tell
from sudare.report.plots import Panel

_FIGURE: Final = re.compile(r"Figure 1\.(\d)\b")
SEED: Final = 2021
REPEATS: Final = 30
PRUNINGS, FEW, FEWEST, TRAININGS = 20, 10, 5, 3
QUICK_HOW: Final = f"two seeds of everything, {MOST_MEMBERS[256]} members at most under encryption with 256 bits"
# What is the same in a quick run: computed, not repeated, or of one seed.
NEVER_SHORT: Final = (
    *(f"Figure 1.{number}" for number in range(1, 9)),
    *(f"Figure 1.{number}:" for number in (4, 5, 6, 8)),
    "Lost and late messages",
    "Breaches of random chunking",
    "Rewriting a chain",
    "Rewriting a chain of blocks",
    "Rounds of one sum among 128 members",
    "One sum over 10 members of 1,000 numbers",
    "One curious member against 5 chunks",
    "Byzantine generals and the proof of work",
)


def run(tell: Tell, settings: StudySettings) -> StudyResult:
    """Sums first, then the dictionary. What takes long is repeated twenty times or fewer where `repeats` allows."""
    found = in_the_chapters_order(StudyResult.joined(part(tell, settings) for part in PARTS.values()))
    return found.marked_quick(QUICK_HOW, NEVER_SHORT) if settings.quick else found


def in_the_chapters_order(found: StudyResult) -> StudyResult:
    """The chapter's figures by their numbers, and then what is ours."""

    def place(title: str) -> float:
        number = _FIGURE.match(title)
        return float(number[1]) if number else math.inf

    return StudyResult(
        sorted(found.tables, key=lambda table: place(table.title)),
        sorted(found.figures, key=lambda figure: place(figure.label)),
    )


def sums_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """Averaging, chunks, encryption, links that fail, and chains of blocks."""
    few, quick, generator = _few(settings), settings.quick, np.random.default_rng(SEED)
    tell("graphs and rounds")
    (four, four_panel), (five, five_panels), (six, six_panels) = figure_1_4(generator), figure_1_5(), figure_1_6()
    encrypted = min(few, TRAININGS)
    nine, nine_panel = figure_1_9(generator, few, tell, (256,) if quick else (1024, 2048), encrypted)
    tables = [
        four,
        five,
        six,
        rounds_table(),
        figure_1_9_counts(generator, few),
        nine,
        sums_table(generator),
        lost_messages_table(min(few, FEWEST), tell),
        breach_table(generator, 2_000 if quick else 50_000),
        attack_table(generator),
        chain_table(),
        byzantine_table(),
    ]
    runs = f"Bars: one standard error over {few} runs, of Paillier over {encrypted}; how often the chapter measured is not given in the text."
    return StudyResult(tables, _sums_figures(four_panel, five_panels, six_panels, nine_panel, runs))


def _sums_figures(four: Panel, five: Sequence[Panel], six: Sequence[Panel], nine: Panel, runs: str) -> Sequence[Figure]:
    """Figures 1.1 to 1.6 and 1.9 with their captions, and ours about sums."""
    return [
        Figure(
            "Figure 1.1",
            "The setting: members with data of their own, connected, without a server. A drawing.",
            [figure_1_1()],
        ),
        Figure(
            "Figure 1.2",
            "The gambler's ruin: debts of six gamblers who win a game with probability q = .4 and begin with debt 4, and (1.25). The chapter draws one path.",
            figure_1_2(),
        ),
        Figure(
            "Figure 1.3",
            "Cycles of order one (solid) and two (with the dashed edges), S = 5, 7, 8 and 12, as in the chapter.",
            figure_1_3(),
        ),
        Figure(
            "Figure 1.4",
            "Dynamic consensus: C with b = 2, S = 12, ε = 1/4b, first values uniform in ±10. The text prints ν₂ = .8415 and what is left after 20 rounds, .031 and .110 with √S; other numbers are not given in the text.",
            [four],
            "The first values: theirs are not given in the text.",
        ),
        Figure(
            "Figure 1.5",
            "Above (left in print): the second eigenvalue of cycles by S, b = 1, 2, 4, 8, 16. Below: rounds until (ν₂/ν₁)^t is 1/1000. The text prints 236, 47 and 6 for S = 10 and b = 1, 2, 3; they are 69, 28 and 16.",
            five,
            "ε = 1/4b: the chapter's ε is not given in the text here.",
        ),
        Figure(
            "Figure 1.6",
            "Rounds until √S(ν₂/ν₁)^t is 1/1000 with ε = 1/d_max, above (left in print) on the cycle, below with inverse chords: by the printed formula, and until members agree. Numbers are not given in the text.",
            six,
        ),
        Figure(
            "Figure 1.9",
            "Seconds of one sum of one number: cycle with b = 2, first values uniform in ±10, until the root mean squared error is .01, N_C = 5. Beside: masks, which are exact. Numbers are not given in the text. "
            + runs,
            [nine],
            "Python with gmpy2, not R's homomorpheR; the length of keys is not given in the text.",
        ),
        Figure(
            "Lost and late messages",
            "Root mean squared error against rounds when 30 % of messages are lost and the others are up to 5 rounds late; one run of each, gossip without a common clock. Only running sums go on to the mean.",
            [lost_messages_panel()],
        ),
        Figure(
            "Breaches of random chunking",
            "The probability that somebody receives all chunks of a member in one sum, S = 20, d = 4, members that forget all but first messages.",
            [chunks_panel(Proposal(cycle(20, 2), colluders=3))],
        ),
        Figure(
            "Rewriting a chain",
            "How likely what z blocks have confirmed is rewritten by a tenth of the power.",
            [chain_panel(0.1)],
        ),
    ]


def learner_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """The chapter's learner as printed and corrected, beside the product's."""
    eight, eight_panels = figure_1_8()
    prunings = min(settings.repeats, PRUNINGS)
    pruning, pruning_panels = pruning_results(prunings, tell)
    figures = [
        Figure(
            "Figure 1.7",
            "The true weights of three members over patterns A, B and C (1.85) to (1.87). The text prints those of member 1: 2/3, 1/3 and 0.",
            [figure_1_7()],
            "Members 2 and 3 have the same weights over other patterns: theirs are drawn in the chapter's figure, not given in the text.",
        ),
        Figure(
            "Figure 1.8",
            "Weights π of three members with 300 records each over the six patterns of a random start: the chapter's learner with the printed updates, with two penalties, with the corrected ones, and the product. "
            "The text says that three patterns are left and that their weights are nearly those of figure 1.7; numbers are not given in the text.",
            eight_panels,
            "ρ₀, λ₀, γ and the start are not given in the text.",
        ),
        Figure(
            "Patterns that γ-pruning leaves",
            f"Mean number of patterns left of six, and the median held-out gap, by the penalty ρ₀; {prunings} seeds.",
            pruning_panels,
        ),
    ]
    return StudyResult([eight, pruning], figures)


def em_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """The chapter's learner over sums that are not exact."""
    key_bits = KEY_BITS[:1] if settings.quick else KEY_BITS
    return StudyResult([em_over_sums_table(min(_few(settings), TRAININGS), tell, key_bits)], [])


def example_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """The product's dictionary without ε on the chapter's example."""
    return StudyResult([recovery_table(settings.repeats, tell)], [])


def hard_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """The same on a harder example."""
    return StudyResult([hard_table(settings.repeats, tell)], [])


def few_records_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """The same with few records: held-out gaps, and anomalies."""
    records, panel = few_records_results(_few(settings), tell)
    caption = f"Held-out gap by the number of records a member, {_bars(settings)}."
    return StudyResult([records, anomaly_table(_few(settings), tell)], [Figure("Few records", caption, [panel])])


def attribution_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """ρ₀ by labelled faults, the sensor at fault, and what exact sums give away."""
    fewest = min(settings.repeats, FEWEST)
    return StudyResult(
        [rho_table(fewest, tell), fault_table(fewest, tell), records_attack_table(_few(settings), tell)], []
    )


def private_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """The dictionary with ε."""
    table, panels = private_results(_few(settings), tell)
    caption = f"Held-out gap by ε, {_bars(settings)}."
    return StudyResult([table], [Figure("The dictionary with ε", caption, panels)])


def detection_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """Faults that are hard to see."""
    table, figure = detection_results(tell, StudySettings(_few(settings), settings.quick))
    return StudyResult([table], [figure])


def _few(settings: StudySettings) -> int:
    return min(settings.repeats, FEW)


def _bars(settings: StudySettings) -> str:
    return f"± one standard error over {_few(settings)} seeds"


PARTS: Final[Mapping[str, Callable[[Tell, StudySettings], StudyResult]]] = {
    "sums": sums_part,
    "learner": learner_part,
    "em": em_part,
    "example": example_part,
    "hard": hard_part,
    "few": few_records_part,
    "attribution": attribution_part,
    "private": private_part,
    "detection": detection_part,
}

STUDY: Final = Study(
    "Sums without a server, and the pattern dictionary", "003 (Ide 2021)", REPEATS, run, quick_repeats=2, errata=ERRATA
)
