"""Which table or column is for choosing rules, and which for judging them: once and for all.

Rules may look at the tuning half only. Adult and breast cancer are for tuning, because older rules were found on them (docs/linear.md).
Never move a name from one half to the other; new tables may be added to either.
"""

from __future__ import annotations

from typing import Final, Literal

from benchmarks.panel.classification_tables import CLASSIFICATION_TABLES
from benchmarks.panel.number_columns import COLUMNS, PanelColumn
from benchmarks.panel.public_tables import PUBLIC_TABLES
from benchmarks.panel.regression_tables import REGRESSION_TABLES
from benchmarks.panel.table_definition import Half, PanelTable

TUNING: Final = frozenset({
    # with a label
    "skewed", "spiked amounts", "heavy tails", "whole numbers", "few rows, eight columns", "many columns", "unbalanced",
    "off centre", "no signal", "three classes", "determined pairs", "bent", "categories", "breast cancer", "iris", "adult",
    "five classes", "ten classes", "ten classes, uneven", "four classes, few rows", "four classes, mixed columns",
    "five classes, mixed columns", "few rows, three columns", "few rows, twenty columns", "forty columns, uneven",
    "very rare label", "few rows, categories", "two categories", "spiked amounts, few rows",
    # with a number
    "line", "steps", "bends, skewed target", "spiked target", "counts", "few rows, a number", "many columns, a number",
    "a number, no signal", "adult hours", "line, twelve columns", "line, twenty columns", "line, heavy tails",
    "steps, few rows", "bends, eight columns", "counts, few rows",
    # columns
    "normal", "two humps", "log-normal", "exponential", "student", "uniform", "square wave", "heaped ages", "mostly zero",
    "children", "both ends", "adult age", "cancer area",
})  # fmt: skip
JUDGING: Final = frozenset({
    # with a label
    "very skewed", "more spikes", "heavier tails", "whole numbers, rare label", "few rows", "a hundred columns",
    "more unbalanced", "alike columns", "far off centre", "no signal, rare label", "five uneven classes",
    "more determined pairs", "bent, rare label", "more categories", "wine", "digits", "pima",
    # with a number
    "line in wide bounds", "more steps", "bends", "skewed target", "spiked target, ten columns", "heavy-tailed target",
    "more counts", "few rows, a number, nine columns", "seventy columns, a number", "a skewed number, no signal", "diabetes",
    # columns
    "narrow normal", "four humps", "very skewed amounts", "gamma", "cauchy", "part of the range", "sawtooth",
    "hours with a spike", "zeros and wages", "visits", "scores at the top", "adult hours-per-week", "diabetes progression",
    "pima glucose",
})  # fmt: skip

ALL_TABLES: Final = (*CLASSIFICATION_TABLES, *REGRESSION_TABLES, *PUBLIC_TABLES)


def names(half: Half) -> frozenset[str]:
    """What belongs to a half."""
    return TUNING if half == "tuning" else JUDGING


def tables(half: Half, target: Literal["label", "number"] | None = None) -> tuple[PanelTable, ...]:
    """The tables of a half; those with a label or those with a number as target, where that is said."""
    return tuple(
        table
        for table in ALL_TABLES
        if table.name in names(half) and target in (None, "label" if table.is_classification else "number")
    )


def columns(half: Half) -> tuple[PanelColumn, ...]:
    """The columns of a half."""
    return tuple(column for column in COLUMNS if column.name in names(half))
