"""Logs: one JSON object a line, and nothing that is not on the lists can get into one."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.consortium import EventLog
from sudare.consortium.event_log import EVENTS, FIELDS
from sudare.errors import InvalidParameter

GOOD: dict[str, Any] = {
    "agreement": "a" * 64,
    "count": 12,
    "error": "NotApproved",
    "kind": "learning",
    "peer": "north",
    "process": 4242,
    "round": 2,
    "seconds": 0.25,
    "task": "risk",
    "version": "0.1.0",
}


def logged(**fields: Any) -> list[dict[str, Any]]:
    stream = io.StringIO()
    EventLog(stream, "east").write("task-finished", **fields)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_for_an_event() -> None:
    (record,) = logged(**GOOD)
    assert record.pop("time").endswith("+00:00")
    assert record == {"member": "east", "event": "task-finished", **GOOD}
    assert set(GOOD) == set(FIELDS)


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
        EventLog(stream, "east").write("task-finished", **{name: value})  # type: ignore[arg-type]
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
