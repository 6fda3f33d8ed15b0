"""The demo's five factories: a line in every ledger before the first sum, and alarms where the fault is."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.demo import SCENARIOS
from sudare.demo import factories_scenario as factories
from sudare.privacy import Ledger


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("factories")
    return folder, factories.play(folder, lambda text: None)


@pytest.mark.long
def test_every_factory_entered_what_it_would_show(played):
    folder, scene = played
    shown = int(scene.parts[2].result.split(" saw ")[1].split(" ")[0].replace(",", ""))
    for name in factories.NAMES:
        ledger = Ledger(folder / f"{name}.db", create=False)
        ledger.verify()
        entries = list(ledger.entries())
        assert [entry.kind for entry in entries] == ["ledger", "open", "disclosure"]
        assert entries[2].body["guarantee"]["notion"] == "none"
        assert entries[2].body["numbers"] >= shown


@pytest.mark.long
def test_the_dictionary_is_the_truth_and_the_fault_is_found(played):
    _, scene = played
    means = scene.parts[0].blocks[1]
    found = np.array([[float(cell) for cell in row[1:]] for row in means.rows])
    assert len(found) == len(factories.MODES)
    for mean in factories._MEANS:
        # Within half a spread of a true way of running; seed and data are fixed.
        assert np.min(np.max(np.abs(found - mean) / factories._SPREADS, axis=1)) < 0.5
    together, alone = (float(row[1]) for row in scene.parts[1].blocks[1].rows)
    assert together > 95
    assert together > alone


def test_it_is_part_of_the_demo():
    assert SCENARIOS["factories"] == factories.__name__
