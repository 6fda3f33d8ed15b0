"""A network for tests: the relay and every member in a network namespace of its own, each with one cable to a switch.

The switch passes frames between the relay's cable and the others, and none between members: the firewall is the topology.
Addresses are from the range that is kept for documentation (RFC 5737); nothing outside these namespaces can be reached from inside.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

RELAY = "relay"
PORT = 8102
ROOT = Path(__file__).resolve().parents[2]


def why_there_can_be_none() -> str | None:
    """What is missing on this machine for network namespaces; None if nothing is."""
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode != 0:
        return "network namespaces cannot be made here, which takes root"
    return None


class Network:
    """Namespaces with cables. With a delay, everything takes so many seconds longer, each way, on every member's cable."""

    def __init__(self, members: Sequence[str], delay_seconds: float = 0.0) -> None:
        self._tag = f"sudare-{secrets.token_hex(3)}"
        self._switch = f"{self._tag}-switch"
        self._names = (RELAY, *members)
        self._delay_seconds = delay_seconds
        self._delaying: subprocess.Popen[str] | None = None

    def open(self) -> None:
        """Lay all cables."""
        _do("ip", "netns", "add", self._switch)
        _do("ip", "-n", self._switch, "link", "add", "name", "bridge", "type", "bridge")
        _do("ip", "-n", self._switch, "link", "set", "dev", "bridge", "up")
        for name in self._names:
            _do("ip", "netns", "add", self._space(name))
        delayed = self._names[1:] if self._delay_seconds > 0 else ()
        for name in self._names:
            if name not in delayed:
                there = ("peer", "name", "eth0", "netns", self._space(name))
                _do("ip", "-n", self._switch, "link", "add", "name", self._socket(name), "type", "veth", *there)
        if delayed:
            self._lay_delayed_cables(delayed)
        for name in self._names:
            _do("ip", "-n", self._switch, "link", "set", "dev", self._socket(name), "master", "bridge", "up")
            if name != RELAY:
                _do("bridge", "-n", self._switch, "link", "set", "dev", self._socket(name), "isolated", "on")
            _do("ip", "-n", self._space(name), "address", "add", f"{self.address_of(name)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _do("ip", "-n", self._space(name), "link", "set", "dev", device, "up")

    def address_of(self, name: str) -> str:
        """The address of the relay or of a member."""
        return f"192.0.2.{1 + self._names.index(name)}"

    def within(self, name: str) -> list[str]:
        """What stands before a command that is to run in the namespace of the relay or of a member."""
        return ["ip", "netns", "exec", self._space(name)]

    def pull_out(self, name: str) -> None:
        """The cable is out of the switch."""
        _do("ip", "-n", self._switch, "link", "set", "dev", self._socket(name), "down")

    def plug_in(self, name: str) -> None:
        """The cable is back."""
        _do("ip", "-n", self._switch, "link", "set", "dev", self._socket(name), "up")

    def close(self) -> None:
        """Remove what there is of it, even if it was not all made."""
        if self._delaying is not None:
            self._delaying.kill()
            self._delaying.wait()
        for space in (self._switch, *map(self._space, self._names)):
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)

    def _space(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def _socket(self, name: str) -> str:
        return f"socket-{self._names.index(name)}"

    def _lay_delayed_cables(self, names: Sequence[str]) -> None:
        cables = [f"{self._space(name)}:eth0:{self._switch}:{self._socket(name)}" for name in names]
        program = [sys.executable, "-m", "tests.consortium.delay_line", str(self._delay_seconds), *cables]
        self._delaying = subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._delaying.stdout is not None
        assert self._delaying.stdout.readline() == "ready\n"


@contextmanager
def network(members: Sequence[str], delay_seconds: float = 0.0) -> Iterator[Network]:
    """A network that is gone afterwards, whatever happened."""
    made = Network(members, delay_seconds)
    try:
        made.open()
        yield made
    finally:
        made.close()


def _do(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
