"""The demo's ten hospitals: real charges, real files, and nothing of the combined models leaves."""

from __future__ import annotations

import pytest

from sudare.demo import SCENARIOS
from sudare.demo import hospitals_scenario as hospitals
from sudare.errors import AuditFailed
from sudare.privacy import Ledger, Release


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hospitals")
    return folder, hospitals.play(folder, lambda text: None)


def test_every_hospital_paid_before_it_sent(played):
    folder, _ = played
    for name in hospitals.NAMES:
        ledger = Ledger(folder / f"{name}.db", create=False)
        ledger.verify()
        assert [entry.kind for entry in ledger.entries()] == ["ledger", "open", "charge", "result", "release"]
        assert ledger.account("patients").spent().epsilon == hospitals.MODEL_EPSILON
        assert (folder / f"{name}.sudare").exists()


def test_the_page_shows_each_gain_and_what_it_cost(played):
    _, scene = played
    gains = scene.parts[0].blocks[1]
    assert [row[0] for row in gains.rows] == list(hospitals.NAMES)
    for row in gains.rows:
        assert float(row[3]) - float(row[2]) == pytest.approx(float(row[4]), abs=0.06)
        assert row[5] == "ε 2.0 of 3.0"
    assert "NotReleasable" in scene.parts[1].blocks[1].lines[1]


def test_hospitals_and_tested_patients_share_nobody(tmp_path):
    members, unseen = hospitals._hospitals(tmp_path)
    seen = {index for member in members for index in member.table.index}
    assert len(seen) == len(hospitals.NAMES) * hospitals.PATIENTS
    assert not seen & set(unseen.index)
    assert unseen[hospitals.LABEL].mean() == 0.5


def test_a_release_of_a_combined_model_would_stop_the_demo(monkeypatch):
    monkeypatch.setattr(Release, "of", lambda model: model)
    with pytest.raises(AuditFailed):
        hospitals._refusal(None)


def test_it_is_part_of_the_demo():
    assert SCENARIOS["hospitals"] == hospitals.__name__
