"""The state folder's format: earlier ones are brought on step by step, also after a crash, and later ones are refused untouched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sudare.consortium import LearningTask
from sudare.consortium.state_format import FORMAT, FORMAT_FILE, MIGRATIONS, migrate_state
from sudare.errors import ConsortiumError, SudareError
from tests.consortium.clinics import founded, node_of
from tests.consortium.local_transport import LocalHub


def test_every_format_has_a_step_to_the_next() -> None:
    assert sorted(MIGRATIONS) == list(range(1, FORMAT))


def test_steps_are_done_once_each_and_go_on_after_a_crash(tmp_path: Path) -> None:
    done: list[int] = []

    def step(number: int, *, fails: bool = False):  # type: ignore[no-untyped-def]
        def migrate(folder: Path) -> None:
            if fails:
                raise OSError("disk full")
            done.append(number)

        return migrate

    with pytest.raises(OSError, match="disk full"):
        migrate_state(tmp_path, {1: step(1), 2: step(2, fails=True)})
    assert migrate_state(tmp_path, {1: step(1), 2: step(2)}) == 2
    assert migrate_state(tmp_path, {1: step(1), 2: step(2)}) == 3
    assert done == [1, 2]


def test_a_node_refuses_a_later_format_and_touches_nothing(tmp_path: Path) -> None:
    member = founded(tmp_path, LearningTask("risk", "one-sum", 1.0))[0]
    node_of(member, LocalHub())
    path = member.state_folder / FORMAT_FILE
    assert json.loads(path.read_text()) == {"format": FORMAT}
    path.write_text(json.dumps({"format": FORMAT + 1}))
    before = {file: file.read_bytes() for file in member.state_folder.iterdir() if file.is_file()}
    with pytest.raises(ConsortiumError, match=f"format {FORMAT + 1}"):
        node_of(member, LocalHub())
    assert before == {file: file.read_bytes() for file in member.state_folder.iterdir() if file.is_file()}
    path.write_text("[]")
    with pytest.raises(SudareError):
        node_of(member, LocalHub())
