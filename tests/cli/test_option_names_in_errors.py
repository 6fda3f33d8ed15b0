"""Errors name options, not parameters, where a command is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from sudare.cli.option_names_in_errors import with_option_names
from sudare.errors import LedgerMissing
from sudare.languages import translated
from tests.cli.conftest import FIT_MEAN, Sudare

OPTIONS = {
    "by": "--by", "mean_of": "--mean-of", "epsilon": "--epsilon", "delta": "--delta", "method": "--method",
    "accept_weak_guarantee": "--accept-weak-guarantee", "account": "--account", "keys": "--key-column",
}  # fmt: skip


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('Give for example by=["sex"].', "Give for example --by sex."),
        ("`by` names no column to group by.", "--by names no column to group by."),
        ("epsilon must be a number above 0, got 0.", "--epsilon must be a number above 0, got 0."),
        ("Give epsilon such a number.", "Give --epsilon such a number."),
        ("X promises pure ε: delta must be 0.", "X promises pure ε: --delta must be 0."),
        ('Give CsvFile(path, method="cp932").', 'Give CsvFile(path, method="cp932").'),
        (
            'Say so: --csv "decimal=,", or sudare.frames.CsvFile(path, decimal=",") in Python.',
            'Say so: --csv "decimal=,".',
        ),
        (
            'Say: --csv "decimal=,", or --csv "thousands=," (sudare.frames.CsvFile(path, decimal=",") in Python).',
            'Say: --csv "decimal=,", or --csv "thousands=,".',
        ),
        (
            'For example --encoding cp932、Python では sudare.frames.CsvFile(path, encoding="cp932")、member.toml では',
            "For example --encoding cp932、member.toml では",
        ),
        ("Leave delta out.", "Leave --delta out."),
        ('Use method="auto".', "Use --method auto."),
        ('Use neighbours="add-remove", which tables take.', "Use --neighbours add-remove, which tables take."),
        ("Give accept_weak_guarantee=True.", "Give --accept-weak-guarantee."),
        ("A column is named twice in `keys` and mean_of.", "A column is named twice in --key-column and --mean-of."),
        ("A price needs an account.", "A price needs an account."),
        ("Give schema=Schema.load(…).", "Give --schema FILE."),
        ("Sorted by name; the method is new.", "Sorted by name; the method is new."),
        ("Give --epsilon, not --mean-of.", "Give --epsilon, not --mean-of."),
    ],
)
def test_parameters_become_options(said: str, told: str) -> None:
    assert with_option_names(said, OPTIONS) == told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("fit", "table", *FIT_MEAN[2:]), "--by names no column to group by. Give for example --by sex."),
        (("fit", "mean", *FIT_MEAN[2:], "--by", "smoker"), "`sudare fit mean` has no --by. Leave --by out. It is for: `table`."),
        (("fit", "quantiles", *FIT_MEAN[2:], "--delta", "1e-6"), "`sudare fit quantiles` has no --delta. Leave --delta out."),
        (("fit", "mean", *FIT_MEAN[2:], "--delta", "2"), "--delta"),
        (("fit", "logistic", *FIT_MEAN[2:]), "--target"),
        (("fit", "logistic", *FIT_MEAN[2:], "--target", "smoker", "--method", "magic"), "--method must be one of auto"),
    ],
)  # fmt: skip
def test_refusals_of_fits_name_options(house: Path, sudare: Sudare, words: tuple[str, ...], told: str) -> None:
    refused = sudare(*words, "--dry-run")
    assert refused.exit_code >= 10
    assert told in refused.stderr
    as_json = sudare(*words, "--dry-run", "--json").values["error"]
    assert as_json["exit_code"] == refused.exit_code


def test_a_missing_ledger_has_no_words_of_python() -> None:
    told = with_option_names(LedgerMissing.help, {"epsilon": "--epsilon"})
    assert told.endswith("when an account is opened with a budget (--budget).")
    told = with_option_names(translated(LedgerMissing.help, "ja"), {"epsilon": "--epsilon"})
    assert told.endswith("（--budget）。")
    assert "Python" not in told
