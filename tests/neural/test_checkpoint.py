"""Checkpoints: private files that hold what a run needs to go on, and are taken for nothing else."""

from __future__ import annotations

import os
import stat
from dataclasses import replace

import numpy as np
import pytest

from sudare.errors import DataError
from sudare.neural import checkpoint
from sudare.neural.checkpoint import Checkpoint
from sudare.neural.seeded_randomness import RunState
from tests.release_kit import refused

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)
TARGETS = np.eye(2, dtype=np.float32)[[0, 1, 0, 1, 1, 0]]
DECLARED = {"epsilon": 1.0, "steps": 3}
DAMAGED = refused(
    DataError, "The checkpoint is damaged or was not written by sudare.", "Give another path to begin a new run."
)


@pytest.fixture
def kept():
    return checkpoint.new_checkpoint(ROWS, TARGETS, DECLARED)


def test_nothing_is_kept_where_there_is_no_file(tmp_path):
    assert checkpoint.load(tmp_path / "none") is None


@pytest.mark.parametrize("stage", ["begun", "charged", "running"])
def test_what_is_saved_is_loaded(kept, stage, tmp_path):
    if stage != "begun":
        kept = replace(kept, seed=bytes(range(32)))
    if stage == "running":
        kept = replace(kept, state=RunState(7, np.array([0.5, -2.0, 1e-30, 3.0], dtype=np.float32)))
    path = tmp_path / "run"
    checkpoint.save(path, kept)
    loaded = checkpoint.load(path)
    assert (loaded.mark, loaded.key, loaded.digest, loaded.seed) == (kept.mark, kept.key, kept.digest, kept.seed)
    if stage == "running":
        assert loaded.state.step == 7
        np.testing.assert_array_equal(loaded.state.values, kept.state.values)
    else:
        assert loaded.state is None


def test_a_checkpoint_is_for_its_owners_eyes(kept, tmp_path):
    path = tmp_path / "run"
    old = os.umask(0)
    try:
        checkpoint.save(path, kept)
        checkpoint.save(path, kept)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_failed_replacement_leaves_the_old_file(kept, tmp_path, monkeypatch):
    path = tmp_path / "run"
    checkpoint.save(path, kept)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "replace", full)
    with refused(
        DataError, "The checkpoint cannot be written (No space left on device).", "Check folder, rights and space."
    ):
        checkpoint.save(path, replace(kept, seed=bytes(32)))
    assert checkpoint.load(path) == kept
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_it_belongs_to_its_data_and_parameters(kept):
    checkpoint.check_same_run(kept, ROWS, TARGETS, DECLARED)
    changed = ROWS.copy()
    changed[3, 1] = np.nextafter(changed[3, 1], np.float32(100))
    others = [
        (changed, TARGETS, DECLARED),
        (ROWS[::-1], TARGETS, DECLARED),
        (ROWS, TARGETS[::-1], DECLARED),
        (ROWS, TARGETS, {**DECLARED, "epsilon": 1.1}),
        (ROWS.reshape(4, 3), TARGETS, DECLARED),
    ]
    for other in others:
        with pytest.raises(DataError, match="other data or other parameters; nothing was charged"):
            checkpoint.check_same_run(kept, *other)


def test_the_digest_confirms_no_guess_without_its_key(kept):
    again = checkpoint.new_checkpoint(ROWS, TARGETS, DECLARED)
    assert again.digest != kept.digest
    assert again.mark != kept.mark


@pytest.mark.parametrize("damage", ["empty", "cut", "bit", "other", "list", "short seed"])
def test_damaged_files_are_refused(kept, damage, tmp_path):
    path = tmp_path / "run"
    whole = replace(kept, seed=bytes(32), state=RunState(2, np.ones(5, dtype=np.float32)))
    checkpoint.save(path, whole)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(
        {
            "empty": b"",
            "cut": bytes(content[:-3]),
            "bit": bytes(content),
            "other": b'{"format": "something"}\n',
            "list": b"[1]\n",
            "short seed": checkpoint._written(Checkpoint("run 0", bytes(32), "0", bytes(5))),
        }[damage]
    )
    with DAMAGED:
        checkpoint.load(path)


def test_a_folder_is_no_checkpoint(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        checkpoint.load(tmp_path)


def test_it_can_only_be_written_where_there_is_a_folder(kept, tmp_path):
    with pytest.raises(DataError, match="cannot be written"):
        checkpoint.save(tmp_path / "none" / "run", kept)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_one_that_others_may_read_is_refused(kept, mode, tmp_path):
    checkpoint.save(tmp_path / "run", kept)
    (tmp_path / "run").chmod(mode)
    with pytest.raises(DataError, match="open to others"):
        checkpoint.load(tmp_path / "run")


def test_its_text_shows_no_seed(kept):
    assert repr(bytes(32)) not in repr(replace(kept, seed=bytes(32), key=bytes(32)))
