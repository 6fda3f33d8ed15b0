"""Runs that are killed and resumed: the same guarantee, one charge, and never fresh noise for a step that was seen."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sudare.errors import DataError, SeededNoiseRefused
from sudare.neural import checkpoint
from sudare.neural import network_estimator as models
from sudare.privacy import Release
from tests.neural.killed_run import STEPS, account_in, model
from tests.neural.tables import crossed

ROOT = Path(__file__).parents[2]


def charges(folder):
    return [entry for entry in account_in(folder).entries() if entry.kind == "charge"]


def kill_a_run(folder, moment):
    done = subprocess.run(
        [sys.executable, "-m", "tests.neural.killed_run", str(folder), moment],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


# The file is saved before the charge, after it with the seed, and after 50, 100 and all steps.
@pytest.mark.parametrize(
    ("moment", "charged", "step"),
    [("1", 0, None), ("charged", 1, None), ("2", 1, None), ("3", 1, 50)],
    ids=["before the charge", "after the charge", "before the first step", "after 50 steps"],
)
def test_a_killed_run_is_charged_once_and_repeats_its_noise(moment, charged, step, tmp_path):
    kill_a_run(tmp_path, moment)
    kept = checkpoint.load(tmp_path / "run")
    assert len(charges(tmp_path)) == charged
    assert (kept.state.step if kept.state else None) == step
    resumed = model(tmp_path).fit(*crossed())
    assert len(charges(tmp_path)) == 1
    assert resumed.receipt_.position == charges(tmp_path)[0].position
    assert (resumed.guarantee_.epsilon, resumed.guarantee_.valid) == (2.0, True)
    finished = checkpoint.load(tmp_path / "run")
    assert finished.state.step == STEPS
    assert kept.seed in (None, finished.seed)
    # The whole run again, from the first step, with the seed that was kept: the same numbers.
    checkpoint.save(tmp_path / "run", replace(finished, state=None))
    again = model(tmp_path).fit(*crossed())
    np.testing.assert_array_equal(again.parameters_, resumed.parameters_)
    assert len(charges(tmp_path)) == 1
    assert Release.of(again).content.digest() == Release.of(resumed).content.digest()


def test_a_finished_run_is_handed_back(tmp_path):
    first = model(tmp_path).fit(*crossed())
    second = model(tmp_path).fit(*crossed())
    assert second.seal_ == first.seal_
    assert len(charges(tmp_path)) == 1


def test_other_data_or_parameters_are_refused_and_cost_nothing(tmp_path):
    """The same noise on other data would show what is different; so nothing is drawn, and nothing charged."""
    model(tmp_path).fit(*crossed())
    X, y = crossed()
    before = (tmp_path / "run").read_bytes()
    with pytest.raises(DataError, match="other data or other parameters; nothing was charged"):
        model(tmp_path).fit(X[1:], y[1:])
    for changed in (
        {"epsilon": 1.0},
        {"hidden_layer_sizes": (5,)},
        {"clip": 0.5},
        {"learning_rate": 0.1},
        {"bounds": (-2, 2)},
        {"classes": [1, 0]},
    ):
        with pytest.raises(DataError, match="other data or other parameters; nothing was charged"):
            model(tmp_path, **changed).fit(X, y)
    assert len(charges(tmp_path)) == 1
    assert (tmp_path / "run").read_bytes() == before


def test_another_ledger_is_another_run(tmp_path):
    """A checkpoint is not a receipt: beside a ledger that never saw its charge it opens nothing."""
    model(tmp_path).fit(*crossed())
    for file in tmp_path.glob("ledger.db*"):
        file.unlink()
    with pytest.raises(DataError, match="other data or other parameters"):
        model(tmp_path).fit(*crossed())
    assert charges(tmp_path) == []


def test_an_older_copy_of_the_ledger_is_charged_again(tmp_path):
    account_in(tmp_path)
    shutil.copytree(tmp_path, tmp_path / "backup")
    first = model(tmp_path).fit(*crossed())
    for file in tmp_path.glob("ledger.db*"):
        file.unlink()
    for file in (tmp_path / "backup").iterdir():
        shutil.copy(file, tmp_path)
    assert charges(tmp_path) == []
    second = model(tmp_path).fit(*crossed())
    assert len(charges(tmp_path)) == 1
    np.testing.assert_array_equal(second.parameters_, first.parameters_)


def test_another_version_does_not_go_on(tmp_path, monkeypatch):
    """It might make other noise of the same seed."""
    model(tmp_path).fit(*crossed())
    monkeypatch.setattr(models, "version", lambda package: "0")
    with pytest.raises(DataError, match="other data or other parameters"):
        model(tmp_path).fit(*crossed())


def test_a_seed_is_refused_beside_an_account_here_too(tmp_path):
    model(tmp_path).fit(*crossed())
    with pytest.raises(SeededNoiseRefused):
        model(tmp_path, random_state=0).fit(*crossed())
    assert len(charges(tmp_path)) == 1


def test_without_an_account_a_run_is_resumed_as_well(tmp_path):
    first = model(tmp_path).set_params(account=None).fit(*crossed())
    again = model(tmp_path).set_params(account=None).fit(*crossed())
    np.testing.assert_array_equal(first.parameters_, again.parameters_)
    assert first.receipt_ is None
    with pytest.raises(DataError, match="other data or other parameters"):
        model(tmp_path).fit(*crossed())


def test_a_new_path_is_a_new_run(tmp_path):
    first = model(tmp_path).fit(*crossed())
    second = model(tmp_path).set_params(checkpoint=tmp_path / "other").fit(*crossed())
    assert len(charges(tmp_path)) == 2
    assert (first.parameters_ != second.parameters_).any()
    assert json.loads((tmp_path / "run").read_bytes().partition(b"\n")[0])["mark"] in {
        entry.body["purpose"] for entry in charges(tmp_path)
    }
