"""Generated plants: the same records at every call, halves apart, and floors that tell who is ahead."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.page_parts import with_part
from benchmarks.panel import plants_judged
from benchmarks.panel.simulated_plants import PLANTS, SIZES


@pytest.mark.parametrize(
    "plant", [*PLANTS["tuning"], *PLANTS["judging"]], ids=lambda plant: f"{plant.half} {plant.name}"
)
def test_records_are_the_same_at_every_call_and_faults_are_later(plant):
    first, again = plant.drawn(60, 0), plant.drawn(60, 0)
    assert len(first) == plant.members
    for one, other in zip(first, again, strict=True):
        assert one.records.tobytes() == other.records.tobytes()
        assert one.records.shape[1] == plant.sensors
        assert 0.4 < one.is_faulty.mean() < 0.6
        assert np.isfinite(one.later).all()


def test_the_halves_have_the_same_kinds_and_other_seeds():
    seeds = [plant.seed for half in PLANTS.values() for plant in half]
    assert len(set(seeds)) == len(seeds)
    kinds = {"alike", "different", "drifting", "correlated in time", "heavy-tailed", "few records"}
    assert all(kinds <= {plant.name for plant in half} for half in PLANTS.values())


def test_the_committed_results_are_of_the_whole_judging_half():
    found = json.loads((plants_judged._FOLDER / "plants_judged.json").read_text())
    assert found["times_run"] >= 1
    assert [(row["plant"], row["size"]) for row in found["rows"]] == [
        (plant.name, size) for plant in PLANTS["judging"] for size in SIZES
    ]


def test_the_page_has_the_committed_numbers():
    page = plants_judged.PAGE.read_text("utf-8")
    found = json.loads((plants_judged._FOLDER / "plants_judged.json").read_text("utf-8"))
    assert with_part(page, plants_judged.PART, plants_judged.table(found["rows"])) == page


def test_the_page_says_how_long_fits_take():
    seconds = [row["seconds"] for row in json.loads((plants_judged._FOLDER / "plants_seconds.json").read_text("utf-8"))]
    sentence = f"Fits of 4 × 4,000 records take {min(seconds)} to {max(seconds)} seconds of one core (`--seconds`)."
    assert sentence in plants_judged.PAGE.read_text("utf-8")


def test_the_page_says_where_a_private_dictionary_is_behind():
    found = json.loads((plants_judged._FOLDER / "plants_judged.json").read_text("utf-8"))["rows"]
    assert all(row["floors"]["not below the best"] and row["floors"].get("ahead where alike", True) for row in found)
    (behind,) = (row for row in found if not row["floors"]["private not below alone"])
    assert (behind["plant"], behind["size"], behind["private_over_alone"]) == ("correlated in time", 60, -0.0121)
    sentence = f"but in one of {len(found)} cases: records correlated in time, 60 a member (.012)"
    assert sentence in plants_judged.PAGE.read_text("utf-8")


def test_the_page_says_how_far_dictionaries_are_behind_on_plants_that_rules_were_chosen_on():
    found = json.loads((plants_judged._FOLDER / "plants_tuning.json").read_text("utf-8"))["rows"]
    for key, sentence in (
        ("over_best", "up to {} behind the better of own and pooled (without ε; {}, {} records a member)"),
        ("private_over_alone", "up to {} behind members alone (ε = 3; {}, {})"),
    ):
        worst = min(found, key=lambda row: row[key])
        said = sentence.format(f"{-worst[key] + 1e-9:.3f}".removeprefix("0"), worst["plant"], worst["size"])
        assert said in plants_judged.PAGE.read_text("utf-8")
