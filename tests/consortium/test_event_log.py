"""Logs: one JSON object a line, and nothing that is not on the lists can get into one."""

from __future__ import annotations

import errno
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.consortium import EventLog
from sudare.consortium.event_log import EVENTS, FIELDS
from sudare.errors import InvalidParameter
from sudare.files import LogFile

GOOD: dict[str, Any] = {
    "agreement": "a" * 64,
    "count": 12,
    "days": 29,
    "error": "NotApproved",
    "kind": "learning",
    "peer": "north",
    "percent": 19,
    "process": 4242,
    "round": 2,
    "seconds": 0.25,
    "task": "risk",
    "version": "0.1.0",
}


def event_with(name: str) -> str:
    """An event that has this field."""
    return next((event for event, fields in sorted(EVENTS.items()) if name in fields), "stopped")


def logged(**fields: Any) -> list[dict[str, Any]]:
    stream = io.StringIO()
    EventLog(stream, "east").write(event_with(next(iter(fields))), **fields)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("event", sorted(EVENTS))
def test_a_line_for_an_event_with_all_its_fields(event: str) -> None:
    stream, fields = io.StringIO(), {name: GOOD[name] for name in EVENTS[event]}
    EventLog(stream, "east").write(event, **fields)
    record = json.loads(stream.getvalue())
    assert record.pop("time").endswith("+00:00")
    assert record == {"member": "east", "event": event, **fields}


def test_an_event_has_its_own_fields_only() -> None:
    assert set(GOOD) == set(FIELDS) == {name for fields in EVENTS.values() for name in fields}
    stream = io.StringIO()
    with pytest.raises(InvalidParameter, match="has no such field"):
        EventLog(stream, "east").write("stopped", peer="north")
    assert stream.getvalue() == ""


class FullDisk(io.StringIO):
    """Takes nothing while it is full."""

    is_full = True

    def write(self, text: str, /) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


def test_lines_that_found_no_room_are_counted_and_told_when_there_is_some() -> None:
    stream = FullDisk()
    log = EventLog(stream, "east")
    log.write("relay-lost")
    log.write("relay-reached")
    stream.is_full = False
    log.write("stopped")
    records = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(each["event"], each.get("kind"), each.get("count")) for each in records] == [
        ("not-written", "log", 2),
        ("stopped", None, None),
    ]


def test_a_log_file_takes_whole_lines_at_once_and_none_is_kept_back(tmp_path: Path) -> None:
    with LogFile(tmp_path / "east.log") as file, LogFile(None) as nowhere:
        EventLog(file, "east").write("relay-lost")
        EventLog(nowhere, "east").write("relay-lost")
        assert json.loads((tmp_path / "east.log").read_text())["event"] == "relay-lost"
    with LogFile(Path("/dev/full")) as full, LogFile(tmp_path / "east.log") as file:
        with pytest.raises(OSError, match="No space left"):
            full.write("a line\n")
        file.write("another\n")
    assert (tmp_path / "east.log").read_text().endswith("\nanother\n")


def test_listeners_hear_every_event() -> None:
    heard: list[Any] = []
    log = EventLog(io.StringIO(), "east", [lambda event, fields: heard.append((event, dict(fields)))])
    log.write("connected", peer="north")
    assert heard == [("connected", {"peer": "north"})]


def test_every_event_is_written_somewhere_with_fields_of_its_own_and_documented() -> None:
    root = Path(__file__).resolve().parents[2]
    source = "".join(path.read_text("utf-8") for path in (root / "src/sudare/consortium").glob("*.py"))
    written = re.findall(r"log\.write\(\s*\"([a-z-]+)\"((?:, [a-z]+=)?[^\n]*)", source)
    assert {event for event, _ in written} == set(EVENTS)
    page = (root / "docs/operations.md").read_text("utf-8").partition("### Events")[2].partition("\n### ")[0]
    documented = dict(re.findall(r"^\| `([a-z-]+)` \|([^|]*)\|", page, re.MULTILINE))
    assert {event: set(re.findall(r"`([a-z]+)`", fields)) for event, fields in documented.items()} == {
        event: set(fields) for event, fields in EVENTS.items()
    }


@pytest.mark.parametrize("event", sorted(EVENTS))
def test_every_event_can_be_logged(event: str) -> None:
    stream = io.StringIO()
    EventLog(stream, "east").write(event)
    assert json.loads(stream.getvalue())["event"] == event


class Sneaky(str):
    """Text that prints as something else."""

    def __str__(self) -> str:
        return "private"


OBJECTS = [
    None, True, [1.5], {"a": 1}, (1,), b"bytes", np.float64(1.5), np.int64(3), np.arange(3.0), object(), ValueError("age 42"),
    "free text with a value", "two\nlines", "", Sneaky("north"), -1, 2**60, 1.5 + 0j, float("nan"), float("inf"), -0.5, "A" * 64,
]  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: f"{type(value).__name__}-{str(value)[:10]!r}")
def test_arbitrary_objects_are_refused_in_every_field(name: str, value: object) -> None:
    stream = io.StringIO()
    with pytest.raises(InvalidParameter) as refused:
        EventLog(stream, "east").write(event_with(name), **{name: value})  # type: ignore[arg-type]
    assert stream.getvalue() == ""
    assert "42" not in str(refused.value)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(FIELDS)), st.floats() | st.text() | st.binary() | st.lists(st.floats(), max_size=2))
def test_no_number_with_a_fraction_but_seconds_and_no_text_but_names(name: str, value: Any) -> None:
    try:
        (record,) = logged(**{name: value})
    except InvalidParameter:
        return
    if isinstance(value, float):
        assert name == "seconds"
    else:
        assert isinstance(value, str)
        assert all(letter in "abcdefghijklmnopqrstuvwxyz0123456789-.+" for letter in value) or name == "error"
    assert record[name] == value


@pytest.mark.parametrize("field", ["message", "value", "rows", "mean", "detail", "member", "event", "time"])
def test_other_fields_are_refused(field: str) -> None:
    with pytest.raises((InvalidParameter, TypeError)):
        logged(**{field: "north"})


def test_other_events_and_members_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="No event"):
        EventLog(io.StringIO(), "east").write("mean age is 42")
    with pytest.raises(InvalidParameter, match="belongs to a member"):
        EventLog(io.StringIO(), "East wing")
