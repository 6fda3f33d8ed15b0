"""What a relay keeps of announcements, and the bulletins that it makes of them, under a clock of the test."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.consortium.network.transport.announcement_board import (
    MOST_ANNOUNCEMENT_BYTES,
    MOST_BULLETIN_BYTES,
    AnnouncementBoard,
    announcements_in,
    posted,
)
from sudare.consortium.network.transport.base import Announcement

ALL = ("east", "north", "west")


def put(
    board: AnnouncementBoard, sender: str, content: bytes, now: float, hello: bool = True, within: float = 0.2
) -> None:
    assert board.put(sender, posted(Announcement(content, hello, within)), now)


def read(bulletins: list[tuple[str, bytes]]) -> dict[str, list[tuple[str, bytes]]]:
    found: dict[str, list[tuple[str, bytes]]] = {}
    for receiver, content in bulletins:
        found.setdefault(receiver, []).extend(announcements_in(content))
    return found


def test_many_announcements_are_one_bulletin_for_each_and_nobody_hears_itself() -> None:
    board = AnnouncementBoard()
    for name in ALL:
        put(board, name, name.encode() * 3, 0.0)
    assert board.due(ALL, 0.1) == []
    assert board.next_due() == pytest.approx(0.2)
    bulletins = board.due(ALL, 0.2)
    assert len(bulletins) == 3
    for receiver, heard in read(bulletins).items():
        assert dict(heard) == {name: name.encode() * 3 for name in ALL if name != receiver}
    assert board.due(ALL, 1.0) == []
    assert board.next_due() == float("inf")


def test_what_may_wait_goes_with_what_may_not() -> None:
    board = AnnouncementBoard()
    put(board, "east", b"a beat", 0.0, hello=False, within=5.0)
    assert board.due(ALL, 1.0) == []
    put(board, "north", b"a hello", 1.0)
    assert dict(read(board.due(ALL, 1.2))["west"]) == {"east": b"a beat", "north": b"a hello"}


def test_of_each_the_last_hello_and_the_last_beat_are_kept() -> None:
    board = AnnouncementBoard()
    for number in range(1000):
        put(board, "east", b"hello %d" % number, 0.0)
        put(board, "east", b"beat %d" % number, 0.0, hello=False)
    assert read(board.due(ALL, 9.0))["west"] == [("east", b"hello 999"), ("east", b"beat 999")]
    assert len(board._entries) == 2


def test_whoever_comes_later_is_sent_all_at_once() -> None:
    board = AnnouncementBoard()
    put(board, "east", b"hello", 0.0)
    put(board, "east", b"beat", 0.0, hello=False)
    board.due(("east",), 1.0)
    put(board, "west", b"new", 100.0)
    found = read(board.due(("east", "west"), 100.2))
    assert found["west"] == [("east", b"hello"), ("east", b"beat")]
    assert found["east"] == [("west", b"new")]


def test_what_those_said_who_are_gone_is_forgotten() -> None:
    board = AnnouncementBoard()
    put(board, "east", b"hello", 0.0)
    board.due(ALL, 1.0)
    assert board.due(("north", "west"), 2.0) == []
    put(board, "south", b"hello", 3.0)
    assert "south" in read(board.due(("north", "south", "west"), 4.0)) or board._entries.keys() == {("south", True)}
    assert {sender for sender, _ in board._entries} == {"south"}
    assert set(board._passed_on_at) <= {"north", "south", "west"}


def test_whoever_says_something_all_the_time_is_passed_on_once_a_second() -> None:
    board, bulletins = AnnouncementBoard(), 0
    for step in range(1000):
        now = step / 100.0
        put(board, "east", b"again %d" % step, now, within=0.0)
        bulletins += len(board.due(ALL, now))
    assert bulletins <= 2 * 11


def test_a_bulletin_is_never_larger_than_a_member_takes() -> None:
    board, names = AnnouncementBoard(), [f"member-{number:03d}" for number in range(100)]
    for name in names:
        put(board, name, bytes(MOST_ANNOUNCEMENT_BYTES - 2), 0.0)
    found = board.due(names, 1.0)
    assert max(len(content) for _, content in found) <= MOST_BULLETIN_BYTES
    assert {len(heard) for heard in read(found).values()} == {100}


def test_a_relay_of_five_hundred_members_that_start_at_once_holds_each_hello_a_few_times() -> None:
    board, names = AnnouncementBoard(), [f"member-{number:03d}" for number in range(500)]
    for name in names:
        put(board, name, bytes(4000), 0.0)
    found = board.due(names, 1.0)
    assert len({receiver for receiver, _ in found}) == 500
    assert sum(map(len, {id(content): content for _, content in found}.values())) < 2 * 500 * 4200
    put(board, names[0], b"a beat", 2.0, hello=False)
    later = read(board.due([*names, "member-500"], 3.0))
    assert names[0] not in later
    assert {len(later[name]) for name in names[1:]} == {1}
    assert len(later["member-500"]) == 501


def test_what_is_no_announcement_is_not_kept() -> None:
    board = AnnouncementBoard()
    assert not board.put("east", b"", 0.0)
    assert not board.put("east", b"xx", 0.0)
    assert not board.put("east", bytes(MOST_ANNOUNCEMENT_BYTES + 1), 0.0)
    assert board.next_due() == float("inf")


@given(st.binary(max_size=200))
def test_whatever_a_relay_sends_as_a_bulletin_is_read_to_an_end(content: bytes) -> None:
    assert sum(len(said) for _, said in announcements_in(content)) <= len(content)


def test_a_farewell_is_passed_on_though_its_line_is_closed_by_then() -> None:
    board = AnnouncementBoard()
    put(board, "east", b"hello", 0.0)
    board.due(ALL, 1.0)
    put(board, "east", b"farewell", 1.1, hello=False)
    assert board.due(("north", "west"), 1.2) == []
    found = read(board.due(("north", "west"), 2.2))
    assert found == {name: [("east", b"farewell")] for name in ("north", "west")}
    assert board._entries == {}
    assert board._passed_on_at == {}
    assert board.due(("north", "west", "south"), 2.3) == []
