"""Results of one version of the agreement make room for those of the next, and stay."""

from __future__ import annotations

from pathlib import Path

from sudare.consortium.tasks.results_folder import agreement_of, make_room

FIRST, SECOND = "1" * 64, "2" * 64


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


def test_results_of_another_version_are_set_aside_and_those_of_this_one_stay(tmp_path: Path) -> None:
    assert agreement_of(tmp_path) is None
    make_room(tmp_path, FIRST)
    (tmp_path / "model.sudare").write_text("first")
    make_room(tmp_path, FIRST)
    assert (tmp_path / "model.sudare").read_text() == "first"
    make_room(tmp_path, SECOND)
    assert agreement_of(tmp_path) == SECOND
    assert "model.sudare" not in names(tmp_path)
    assert names(tmp_path / "earlier") == {"001-model.sudare"}


def test_results_without_a_mark_are_set_aside_too_and_the_members_own_release_stays(tmp_path: Path) -> None:
    for name in ("north.sudare", "own.sudare"):
        (tmp_path / name).write_text("of an earlier program")
    make_room(tmp_path, FIRST)
    assert "own.sudare" in names(tmp_path)
    assert names(tmp_path / "earlier") == {"001-north.sudare"}


def test_a_mark_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    make_room(tmp_path, FIRST)
    (mark,) = (path for path in tmp_path.iterdir() if path.is_file())
    mark.write_bytes(b"\xff\xfe")
    assert agreement_of(tmp_path) is None
