"""Members that can reach the relay and nobody else: each in a network namespace of its own, bit for bit as in one process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.consortium.namespaces import PORT, RELAY, Network, network, why_there_can_be_none
from tests.consortium.processes import (
    Processes,
    check_outcomes,
    dictionary_in_process,
    hospitals_in_process,
    names_of,
    processes,
    wait_for_iteration,
)

pytest.importorskip("nvflare")
MISSING = why_there_can_be_none()
pytestmark = [pytest.mark.long, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]

NEEDS_TUN = pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="/dev/net/tun is not there")
WITH_DELAY = pytest.mark.parametrize("delay_seconds", [0.0, pytest.param(0.1, marks=NEEDS_TUN)])
# Prints the seconds until a connection was made, or `none`.
CONNECT = """
import socket, sys, time
began = time.monotonic()
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3.0).close()
    print(time.monotonic() - began)
except OSError:
    print("none")
"""
LISTEN = """
import socket, sys
listener = socket.create_server(("", int(sys.argv[1])))
print("listening", flush=True)
while True:
    listener.accept()[0].close()
"""


def connecting(between: Network, source: str, target: str) -> float | None:
    """Seconds until a connection is made; None if none can be."""
    program = [*between.within(source), sys.executable, "-c", CONNECT, between.address_of(target), str(PORT)]
    said = subprocess.run(program, check=True, capture_output=True, text=True).stdout.strip()
    return None if said == "none" else float(said)


def can_connect(between: Network, source: str, target: str) -> bool:
    return connecting(between, source, target) is not None


def listening_at(between: Network, name: str) -> list[str]:
    """The lines about sockets that listen in a namespace."""
    program = [*between.within(name), "ss", "--no-header", "--listening", "--numeric", "--tcp", "--udp"]
    return subprocess.run(program, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.fixture
def listeners() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def test_the_relay_can_be_reached_and_other_members_cannot(listeners: list[subprocess.Popen[str]]) -> None:
    first, second = names_of(2)
    with network(names_of(2)) as between:
        for name in (RELAY, second):
            program = [*between.within(name), sys.executable, "-c", LISTEN, str(PORT)]
            process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
            listeners.append(process)
            assert process.stdout is not None
            assert process.stdout.readline() == "listening\n"
        assert can_connect(between, first, RELAY)
        assert can_connect(between, second, RELAY)
        assert not can_connect(between, first, second)
        # That is the switch's doing: whoever is not kept apart does reach this listener.
        assert can_connect(between, RELAY, second)
        assert can_connect(between, second, second)


def spaces() -> str:
    """The names of all network namespaces of this machine."""
    return subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout


@WITH_DELAY
def test_nothing_is_left_of_a_network_after_a_failure(delay_seconds: float) -> None:
    seen: list[str] = []

    def fail() -> None:
        with network(names_of(2), delay_seconds) as between:
            seen.append(between.within(RELAY)[-1].removesuffix(RELAY))
            assert seen[0] in spaces()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert seen[0] not in spaces()


@contextmanager
def started(folder: Path, work: str, members: int, between: Network) -> Iterator[Processes]:
    with processes(folder, members, between) as together:
        for position in range(members):
            together.start(together.order(position, work, silence_seconds=300.0))
        yield together


def check_topology(together: Processes) -> None:
    """While they work, nobody but the relay listens; and nobody but the relay can be reached."""
    between, names = together.network, names_of(together.members)
    assert between is not None
    listening = {name: listening_at(between, name) for name in (RELAY, *names)}
    assert all(together.running[name].poll() is None for name in listening)
    assert any(f":{PORT} " in line for line in listening.pop(RELAY))
    assert listening == {name: [] for name in names}
    assert all(can_connect(between, name, RELAY) for name in names)
    assert not any(can_connect(between, name, other) for name in names for other in names if other != name)


@WITH_DELAY
def test_the_chapters_example_gives_the_bits_of_one_process(tmp_path: Path, delay_seconds: float) -> None:
    expected, first = dictionary_in_process(), names_of(3)[0]
    with network(names_of(3), delay_seconds) as between, started(tmp_path, "dictionary", 3, between) as together:
        wait_for_iteration(tmp_path / f"state-{first}", 1)
        check_topology(together)
        # A connection takes a way and the way back.
        assert (connecting(between, first, RELAY) or 0.0) >= 2 * delay_seconds
        check_outcomes(together, expected)


@WITH_DELAY
def test_ten_hospitals_learn_the_bits_of_one_process(tmp_path: Path, delay_seconds: float) -> None:
    expected = hospitals_in_process()
    with network(names_of(10), delay_seconds) as between, started(tmp_path, "hospitals", 10, between) as together:
        check_outcomes(together, expected)


def test_a_cable_that_is_out_for_five_seconds_changes_no_bit(tmp_path: Path) -> None:
    expected, name = dictionary_in_process(), names_of(3)[1]
    with network(names_of(3)) as between, started(tmp_path, "dictionary", 3, between) as together:
        wait_for_iteration(tmp_path / f"state-{name}", 5)
        between.pull_out(name)
        assert not can_connect(between, name, RELAY)
        time.sleep(5.0)
        assert all(together.running[each].poll() is None for each in names_of(3))
        between.plug_in(name)
        check_outcomes(together, expected)
