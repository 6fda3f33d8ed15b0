"""Checkpoints on disk: one at a time runs with a folder, in this process or another."""

from __future__ import annotations

import gc
import multiprocessing
from pathlib import Path

import pytest

from sudare.consortium.tasks.checkpoints import CheckpointStore
from sudare.errors import InvalidParameter


def _opens(folder: Path, opened: CheckpointStore | None) -> str:
    """What a process is told that opens a folder, or saves with what it got from another process."""
    try:
        (CheckpointStore(folder).opened_alone() if opened is None else opened).save("sum-0", b"theirs")
    except InvalidParameter as error:
        return str(error)
    return "saved"


def told_to_another_process(folder: Path) -> str:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_opens, (folder, None))


def test_who_opens_a_folder_alone_takes_over_from_the_one_before(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "task")
    first = store.opened_alone()
    first.save("sum-0", b"first")
    (tmp_path / "link").symlink_to(tmp_path / "task")
    second = CheckpointStore(tmp_path / "link").opened_alone()
    assert second.load("sum-0") == b"first"
    with pytest.raises(InvalidParameter, match="Another run of this task"):
        first.save("sum-0", b"late")
    second.save("sum-0", b"second")
    assert first.load("sum-0") == b"second"
    assert second.names() == ["sum-0"]


def test_another_process_cannot_open_a_folder_that_is_open_here(tmp_path: Path) -> None:
    opened = CheckpointStore(tmp_path).opened_alone()
    assert "Another run of this task" in told_to_another_process(tmp_path)
    opened.save("sum-0", b"ours")
    del opened
    gc.collect()
    assert told_to_another_process(tmp_path) == "saved"
    assert CheckpointStore(tmp_path).opened_alone().load("sum-0") == b"theirs"


def test_a_forked_process_does_not_hold_what_its_parent_opened(tmp_path: Path) -> None:
    _INHERITED.append(CheckpointStore(tmp_path).opened_alone())
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert "Another run of this task" in pool.apply(_saves_with_inherited)
        assert "Another run of this task" in pool.apply(_opens, (tmp_path, None))
    _INHERITED.pop().save("sum-0", b"ours")


_INHERITED: list[CheckpointStore] = []


def _saves_with_inherited() -> str:
    return _opens(Path(), _INHERITED[0])
