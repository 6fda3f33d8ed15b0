"""Several relays: a node goes to the first that answers when its line is lost, and back to an earlier one when it may."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from pathlib import Path

import pytest

from sudare.consortium import LearningTask, Member
from sudare.consortium.agreement.member_settings import TransportSettings
from sudare.consortium.network.transport.certificates import write_kits
from sudare.consortium.relay_failover import RelayFailover, answers_at, first_answering
from sudare.errors import SudareError
from tests.consortium.clinics import founded
from tests.consortium.processes import free_port

RELAYS = ("a:1", "b:1", "c:1")


class Relays:
    """Relays that answer or not, and a node's choice among them under a clock of the test."""

    def __init__(self) -> None:
        self.up = set(RELAYS)
        # Those that take connections and nothing more.
        self.deaf: set[str] = set()
        self.asked: list[str] = []
        self.choice = RelayFailover(RELAYS, self.answers)
        self.now, self.moves = 0.0, 0

    def answers(self, address: str) -> bool:
        self.asked.append(address)
        return address in self.up | self.deaf

    def wait(self, seconds: float, *, may_leave: bool = True) -> str:
        """The relay in use after so long."""
        for _ in range(int(seconds)):
            self.now += 1.0
            reaches = self.choice.address in self.up
            self.moves += self.choice.moves(self.now, reaches_relay=reaches, may_leave=may_leave)
            if self.choice._looking is not None:
                self.choice._looking.join()
        return self.choice.address


def test_nobody_is_asked_while_the_first_relay_is_reached() -> None:
    relays = Relays()
    assert relays.wait(600.0) == "a:1"
    assert relays.asked == []


def test_the_first_other_one_that_answers_is_gone_to_and_left_when_an_earlier_one_is_back() -> None:
    relays = Relays()
    relays.up = {"c:1"}
    assert relays.wait(15.0) == "a:1"
    assert relays.wait(30.0) == "c:1"
    relays.up = {"b:1", "c:1"}
    assert relays.wait(120.0, may_leave=False) == "c:1"
    assert relays.wait(5.0) == "b:1"
    relays.up = {"a:1", "b:1"}
    # At its first word it may still be starting.
    assert relays.wait(10.0) == "b:1"
    assert relays.wait(40.0) == "a:1"


def test_where_none_answers_the_one_in_use_is_tried_on() -> None:
    relays = Relays()
    relays.up = set()
    assert relays.wait(600.0) == "a:1"
    assert set(relays.asked) == {"b:1", "c:1"}


def test_a_relay_that_comes_and_goes_is_not_gone_back_to() -> None:
    relays = Relays()
    relays.up = {"b:1"}
    assert relays.wait(60.0) == "b:1"
    for _ in range(10):
        relays.up = {"a:1", "b:1"}
        assert relays.wait(15.0) == "b:1"
        relays.up = {"b:1"}
        assert relays.wait(15.0) == "b:1"


def test_an_address_that_only_takes_connections_is_left_alone_longer_and_longer() -> None:
    relays = Relays()
    relays.up, relays.deaf = {"b:1"}, {"a:1"}
    assert relays.wait(60.0) == "b:1"
    relays.wait(3600.0)
    # An hour of going to and fro every minute would be more than a hundred moves.
    assert relays.moves < 30
    relays.up = {"a:1", "b:1"}
    assert relays.wait(400.0) == "a:1"
    # Once it was reached, that it was deaf before counts no more.
    relays.up, relays.deaf = {"b:1"}, set()
    assert relays.wait(60.0) == "b:1"
    relays.up = {"a:1", "b:1"}
    assert relays.wait(60.0) == "a:1"


def test_a_relay_is_what_has_a_certificate_of_the_authority(tmp_path: Path) -> None:
    write_kits(tmp_path / "kits", "localhost", ["east"])
    write_kits(tmp_path / "others", "localhost", ["east"])
    with socket.create_server(("localhost", 0)) as silent:
        # Taken by the system, and never answered.
        address = f"localhost:{silent.getsockname()[1]}"
        assert answers_at(address)
        silent.settimeout(0.0)
        threading.Timer(0.2, silent.close).start()
        assert not answers_at(address, tmp_path / "kits/east")
    for kit, is_relay in (("kits", True), ("others", False)):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        startup = tmp_path / kit / "relay/startup"
        context.load_cert_chain(startup / "server.crt", startup / "server.key")
        with socket.create_server(("localhost", 0)) as listening:
            listening.settimeout(10.0)
            served = threading.Thread(target=shake_hands, args=(listening, context))
            served.start()
            assert answers_at(f"localhost:{listening.getsockname()[1]}", tmp_path / "kits/east") == is_relay
            served.join()


def shake_hands(listening: socket.socket, context: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError):
        line, _ = listening.accept()
        context.wrap_socket(line, server_side=True).close()


def test_members_with_one_list_meet_at_one_relay_whatever_fails() -> None:
    members = [Relays() for _ in range(3)]
    for up in ({"b:1", "c:1"}, {"c:1"}, {"b:1", "c:1"}, {"a:1"}, set(RELAYS)):
        for each in members:
            each.up = up
        assert len({each.wait(200.0) for each in members}) == 1
    assert members[0].choice.address == "a:1"


def test_who_runs_one_task_takes_the_first_that_answers() -> None:
    assert first_answering(RELAYS, lambda address: address == "b:1") == "b:1"
    assert first_answering(RELAYS, lambda address: False) == "a:1"
    assert first_answering(("a:1",), lambda address: pytest.fail("there is no choice")) == "a:1"
    assert not answers_at(f"localhost:{free_port()}")
    assert not answers_at("nowhere")


@pytest.mark.parametrize(
    ("lines", "is_right"),
    [
        ('relay = "a:1"\nother_relays = ["b:1"]', True),
        ('other_relays = ["b:1"]', False),
        ('relay = "a:1"\nother_relays = ["a:1"]', False),
        ('relay = "a:1"\nother_relays = ["b"]', False),
        ('relay = "a:1"\nother_relays = ["b:1"]\nproxy = "http://proxy.example:3128"', False),
    ],
)
def test_a_member_file_lists_further_relays(lines: str, is_right: bool, tmp_path: Path) -> None:
    path = founded(tmp_path, LearningTask("risk", "one-sum", 1.0))[0].folder / "member.toml"
    path.write_text(f"{path.read_text()}\n[transport]\n{lines}\n")
    if is_right:
        assert Member.load(path).transport.relays == ("a:1", "b:1")
    else:
        with pytest.raises(SudareError, match="other_relays"):
            Member.load(path)
    assert TransportSettings().relays == ()
