"""Files are whole or not there, replaced whole or left alone, and seen by whom they are for."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from sudare.files import PRIVATE_MODE, SHARED_MODE, LogFile, is_taken, write_atomically, write_new


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [PRIVATE_MODE, SHARED_MODE])
def test_a_file_has_its_content_and_its_mode_whatever_the_umask(tmp_path, mode):
    old = os.umask(0o077)
    try:
        write_new(tmp_path / "new", b"content", mode)
        write_new(tmp_path / "pieces", iter([b"con", b"", b"tent"]), mode)
        write_atomically(tmp_path / "replaced", b"earlier", SHARED_MODE)
        write_atomically(tmp_path / "replaced", b"content", mode)
    finally:
        os.umask(old)
    assert {path.name for path in tmp_path.iterdir()} == {"new", "pieces", "replaced"}
    for path in tmp_path.iterdir():
        assert (path.read_bytes(), mode_of(path)) == (b"content", mode)


def test_a_file_that_is_there_stays(tmp_path):
    (tmp_path / "there").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "there", b"other")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("there", b"mine")]


def test_pieces_that_end_in_an_error_leave_nothing(tmp_path):
    def pieces():
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_new(tmp_path / "new", pieces())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["fchmod", "fsync", "replace"])
def test_a_failed_replacement_leaves_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("file", b"old")]


def test_a_long_name_can_be_written(tmp_path):
    """The temporary file beside it has a short name of its own."""
    write_atomically(tmp_path / ("x" * 255), b"content")
    assert (tmp_path / ("x" * 255)).read_bytes() == b"content"


def test_a_log_that_was_closed_takes_nothing_and_writes_into_no_other_file(tmp_path):
    """The number of a closed file is given to the next that is opened: a late line must not get into it."""
    with LogFile(tmp_path / "node.jsonl") as log:
        log.write("first\n")
        number = log._handle
    with open(tmp_path / "ledger.db", "wb") as other:
        assert other.fileno() == number
        with pytest.raises(OSError, match="Bad file descriptor"):
            log.write("late\n")
    assert (tmp_path / "ledger.db").read_bytes() == b""
    assert (tmp_path / "node.jsonl").read_text() == "first\n"


def test_a_link_that_leads_nowhere_has_its_name(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert is_taken(tmp_path / "link")
    assert not is_taken(tmp_path / "nowhere")
    for name in ("x" * 300, "nul\0"):
        with pytest.raises(OSError):  # noqa: PT011 - of several kinds
            is_taken(tmp_path / name)
