"""What a node says of its line to the relay."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from sudare.consortium import LearningTask
from sudare.consortium.node import Node
from tests.consortium.clinics import founded, node_of
from tests.consortium.local_transport import LocalHub


class Line:
    """A node's events and words, with a line that is up or down as a test says."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_up, self.told = False, list[str]()
        self._log = io.StringIO()
        self.node: Node = node_of(founded(folder, LearningTask("risk", "one-sum", 1.0))[0], LocalHub(), self._log)
        self.node.tell = self.told.append
        monkeypatch.setattr(self.node.transport, "reaches_relay", lambda: self.is_up, raising=False)

    def at(self, second: float, *, is_up: bool = False) -> None:
        self.is_up = is_up
        self.node.peers.look(second)

    def events(self) -> list[str]:
        found = [json.loads(line)["event"] for line in self._log.getvalue().splitlines()]
        return [each for each in found if each.startswith("relay-")]


def test_a_relay_that_is_not_there_when_a_node_starts_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a new certificate that does not fit, or an address that is wrong, nobody would hear of it before somebody asks for the status."""
    line = Line(tmp_path, monkeypatch)
    for second in range(100, 120):
        line.at(float(second))
    assert line.events() == []
    for second in range(120, 400):
        line.at(float(second))
    assert line.events() == ["relay-lost"]
    assert [each for each in line.told if "the relay is not reached" in each] == [
        "the relay is not reached: it is down, or line, proxy or certificate are not right; it is tried again all the time"
    ]
    line.at(400.0, is_up=True)
    line.at(500.0)
    line.at(600.0)
    assert line.events() == ["relay-lost", "relay-reached", "relay-lost"]
    assert sum("the line to the relay is down" in each for each in line.told) == 1


def test_a_relay_that_answers_soon_after_the_start_is_not_told_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line(tmp_path, monkeypatch)
    for second in range(19):
        line.at(float(second))
    line.at(19.0, is_up=True)
    line.at(60.0, is_up=True)
    assert line.events() == ["relay-reached"]
