"""Generated plants: the same records at every call, halves apart, and floors that tell who is ahead."""

from __future__ import annotations

import json

import numpy as np
import pytest

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
