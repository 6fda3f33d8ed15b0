"""Checkpoints on disk: one at a time runs with a folder, in this process or another."""

from __future__ import annotations

import gc
import multiprocessing
from pathlib import Path

import pytest

from sudare.consortium.tasks.checkpoints import CheckpointStore
from sudare.errors import InvalidParameter, StateDamaged


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


def test_a_run_can_follow_another_one_also_while_an_earlier_one_is_still_remembered(tmp_path: Path) -> None:
    """An error that it raised, or a cycle, may keep an earlier store longer than the one that took over from it."""
    first = CheckpointStore(tmp_path).opened_alone()
    second = CheckpointStore(tmp_path).opened_alone()
    del second
    third = CheckpointStore(tmp_path).opened_alone()
    third.save("sum-0", b"third")
    with pytest.raises(InvalidParameter, match="open"):
        first.save("sum-0", b"first")
    assert third.load("sum-0") == b"third"


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


def test_any_bit_that_flips_and_any_end_that_is_cut_off_is_told_as_damage(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save("sum-0", b"an addend")
    path = tmp_path / "sum-0"
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(StateDamaged, match="'sum-0' of this task's state is damaged"):
            store.load("sum-0")
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(StateDamaged, match="is damaged"):
            store.load("sum-0")
    path.write_bytes(whole + b"\0")
    with pytest.raises(StateDamaged, match="is damaged"):
        store.load("sum-0")
    # What was saved under another name is not this one's.
    path.write_bytes(whole)
    path.rename(tmp_path / "sum-1")
    with pytest.raises(StateDamaged, match="is damaged"):
        store.load("sum-1")


def test_what_earlier_versions_wrote_is_read_as_it_is(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    for content in (b"withdrawn", (97).to_bytes(4, "big"), b"dacecace" * 4, b"\x07\0\0\0packed"):
        (tmp_path / "sum-0").write_bytes(content)
        assert store.load("sum-0") == content


def test_a_folder_in_the_place_of_a_checkpoint_is_told_and_can_be_set_aside(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    assert store.load("run") is None
    (tmp_path / "run").mkdir()
    with pytest.raises(StateDamaged, match=r"'run' of this task's state cannot be read \(Is a directory\)"):
        store.load("run")
    store.set_aside("run")
    assert (store.load("run"), store.names()) == (None, [])


def _saves_with_inherited() -> str:
    return _opens(Path(), _INHERITED[0])
