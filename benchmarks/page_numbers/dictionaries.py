"""Numbers of docs/dictionary.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.page_numbers.places import Told, result, row, rows_with, study, told, up
from sudare.dictionary.held_out_stacking import _MOST_RECORDS

PAGE = "dictionary"


def all_told() -> Iterator[Told]:
    """What the page says."""
    yield told(PAGE, "From more than {} records it learns from some of them", _MOST_RECORDS)
    yield from _faults()
    yield from _plants()


def _faults() -> Iterator[Told]:
    """The study's benchmark of detection."""
    example = study("003", "The chapter's example: three members, three patterns, four sensors, 300 records each")
    held = 3 * 300 * 4
    yield told(
        PAGE, "shows about {} numbers to members that hold {} together", round(example[6]["numbers shown"], -3), held
    )
    table = study("003", "Faults that are hard to see: AUC, 60 members with 60 records each, 8 sensors, three states")
    areas = {
        scores: [cell["value"] for head, cell in line.items() if head != "scores"] for scores, line in table.items()
    }
    yield told(PAGE, "its {} there is chance by construction", areas["all records in one place"][0])
    private = {float(scores.rpartition("= ")[2]): found for scores, found in areas.items() if "ε = " in scores}
    own = areas["own records"]
    yield told(PAGE, "of dictionaries at ε from {} to {}", min(private), max(private))
    ahead = [level for level, found in private.items() if all(map(float.__gt__, found, own))]
    behind = [level for level, found in private.items() if all(map(float.__lt__, found, own))]
    yield told(PAGE, "and from ε = {} on, on average, more of every kind than members alone", min(ahead))
    yield told(PAGE, "**At ε = {} and below members are still", max(behind))
    lost = [alone - shared for level in behind for alone, shared in zip(own, private[level], strict=True)]
    yield told(PAGE, "better off alone**, by {} to {}", min(lost), max(lost))


def _plants() -> Iterator[Told]:
    """Plants that no rule was chosen on, and those on which the rules were."""
    judged, tuned = (result(f"benchmarks/panel/plants_{half}.json") for half in ("judged", "tuning"))
    rows = judged["rows"]
    yield told(PAGE, "the judging half was run {} time", judged["times_run"])
    best, alone = _least(tuned["rows"], "over_best"), _least(tuned["rows"], "private_over_alone")
    yield told(
        PAGE, "are up to {} behind the better of own and pooled (without ε; drifting, {} records a member) and up to {} behind members alone (ε = {}; correlated in time, {})",
        -best["over_best"], row(rows_with(tuned["rows"], plant="drifting"), over_best=best["over_best"])["size"],
        -alone["private_over_alone"], tuned["epsilon"], row(rows_with(tuned["rows"], plant="correlated in time"), private_over_alone=alone["private_over_alone"])["size"],
    )  # fmt: skip
    yield told(
        PAGE,
        "Without ε the dictionary is nowhere more than {} below the best of the three others",
        up(-_least(rows, "over_best")["over_best"]),
    )
    worse = [each for each in rows if each["private_over_alone"] < -0.01]
    (one,) = worse
    yield told(
        PAGE, "With ε = {} it is nowhere more than .01 below members alone but in one of {} cases: records correlated in time, {} a member ({})",
        judged["epsilon"], len(rows), row(worse, plant="correlated in time")["size"], -one["private_over_alone"],
    )  # fmt: skip
    yield told(PAGE, "({}, {} and {} for the three sizes)", *dict.fromkeys(each["repetitions"] for each in rows))
    seconds = [each["seconds"] for each in result("benchmarks/panel/plants_seconds.json")]
    yield told(PAGE, "Fits of 4 × 4,000 records take {} to {} seconds of one core", min(seconds), max(seconds))


def _least(rows: list[dict[str, Any]], what: str) -> dict[str, Any]:
    return min(rows, key=lambda each: float(each[what]))
