"""Counters of what was dropped: bounded, logged now and then, and without a word of what others sent."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from sudare.consortium import LearningTask
from sudare.consortium.agreement.document_fields import NAME
from sudare.consortium.network.dropped_messages import REASONS, DropLines, Drops, place_of
from sudare.consortium.network.message_dispatch import Envelope
from tests.adversary.hostile_member import HostileMember
from tests.consortium.clinics import founded, node_of
from tests.consortium.local_transport import LocalHub


def test_senders_that_are_no_names_or_too_many_are_counted_as_one() -> None:
    drops = Drops()
    drops.count("east", "malformed")
    for number in range(3_000):
        drops.count(f"sender-{number}", "malformed")
    drops.count("Not\na name", "malformed")
    for _ in range(3):
        drops.count(None, "too-large")
    counts = drops.counts()
    assert len(counts) <= 1_026
    assert counts["east", "malformed"] == 1
    assert drops.by_reason() == {"malformed": 3_002, "too-large": 3}
    assert drops.total == 3_005


def test_every_reason_can_be_logged() -> None:
    assert all(NAME.fullmatch(reason) for reason in REASONS)


def test_a_line_at_once_and_then_one_a_minute() -> None:
    lines, counts = DropLines(), {("east", "malformed"): 1, ("east", "repeated"): 50}
    assert lines.due(counts, 0.0) == [("east", "malformed", 1)]
    counts["east", "malformed"] = 500
    assert lines.due(counts, 59.0) == []
    assert lines.due(counts, 60.0) == [("east", "malformed", 499)]
    assert lines.due(counts, 600.0) == []


def test_the_place_of_an_error_holds_no_value() -> None:
    with pytest.raises(ValueError, match="secret") as caught:
        raise ValueError("secret 42")
    place = place_of(caught.value)
    assert place.startswith("ValueError at test_dropped_messages.py:")
    assert "secret" not in place


def test_a_fault_in_handling_a_message_is_told_once_and_the_node_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where sudare itself is wrong the owner hears of it; the sender's next message is handled as if nothing had been."""
    log, told = io.StringIO(), []
    node = node_of(founded(tmp_path, LearningTask("risk", "one-sum", 1.0))[0], LocalHub(), log)
    node.tell = told.append
    west = HostileMember.among("west", node).meet()
    with monkeypatch.context() as patch:
        patch.setattr(Envelope, "from_bytes", lambda content: 1 // 0)
        west.say(b"one", b"two")
    with monkeypatch.context() as patch:
        patch.setattr(node.dispatcher.session, "receive", lambda packet, now: {}["value of somebody"])
        west.hand_over(b"three")
    node._poll(stay=True)
    node._looked_at = float("-inf")
    node._poll(stay=True)
    assert len([text for text in told if "please report" in text]) == 2
    assert "value of somebody" not in "".join(told)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    (line,) = [line for line in lines if line["event"] == "message-dropped"]
    assert (line["peer"], line["kind"], line["count"]) == ("west", "unexpected-error", 3)
    west.say(Envelope("risk", "sum").to_bytes())
    assert node.dispatcher.wanted(node.agreement.member_names) == {"risk"}
    assert node.health()["dropped"]["unexpected-error"] == 3
