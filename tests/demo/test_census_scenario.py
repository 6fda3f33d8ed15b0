"""The demo's census: charged locally before anything was perturbed, and reconstructed from the file alone."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.demo import SCENARIOS
from sudare.demo import census_scenario as census
from sudare.privacy import Ledger


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("census")
    return folder, census.play(folder, lambda text: None)


def test_it_was_charged_as_local_before_it_left(played):
    folder, _ = played
    ledger = Ledger(folder / "ledger.db", create=False)
    ledger.verify()
    entries = list(ledger.entries())
    assert [entry.kind for entry in entries] == ["ledger", "open", "charge", "result", "release"]
    assert entries[2].body["guarantee"]["notion"] == "local"
    # ½·ln((N − 1)/(k − 1))
    assert entries[2].body["guarantee"]["epsilon"] == pytest.approx(np.log(census.HOUSEHOLDS - 1) / 2, rel=1e-6)


def test_reconstruction_is_nearer_to_the_truth_than_what_was_seen(played):
    _, scene = played
    for name, perturbed, reconstructed, *_ in scene.parts[0].blocks[2].rows:
        # New noise each time: over twelve plays the differences were 14 ± 2.4, 17 ± 2.7 and 10 ± 0.5, five deviations and more.
        assert float(reconstructed) > float(perturbed), name


def test_three_promises_stand_together(played):
    _, scene = played
    lines = [row[0] for row in scene.parts[1].blocks[1].rows]
    assert [line.split(":")[0].split(",")[0] for line in lines] == ["Linking", "Local", "Central"]


def test_the_card_counts_answers_and_not_bytes(played):
    _, scene = played
    assert scene.parts[1].blocks[0].what.startswith("RecordPerturbation: 100,000 numbers (“age”); 100,000 numbers")


def test_it_is_part_of_the_demo():
    assert SCENARIOS["census"] == census.__name__
