"""Which of several relays a node uses: the first of the list that answers, so that members with the same list meet without a word to each other."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sudare.consortium.agreement.document_fields import host_and_port

# A line that is down for so long does not come back by itself.
_LOST_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 15.0
_ANSWER_SECONDS: Final = 5.0
# One that was gone to and not reached is left alone for so long, twice as long each time, up to the second number.
_FIRST_REST_SECONDS: Final = 60.0
_LONGEST_REST_SECONDS: Final = 300.0
# A relay that is just starting, or failing again and again, is not gone back to at its first word.
_ANSWERS_IN_A_ROW: Final = 2


def answers_at(address: str, kit: Path | None = None) -> bool:
    """Whether a relay answers at HOST:PORT: with a kit, whether what is there has a certificate of its authority; without, whether connections are taken."""
    found = host_and_port(address)
    if found is None:
        return False
    try:
        with socket.create_connection(found, _ANSWER_SECONDS) as line:
            if kit is not None:
                _authenticated(line, kit, found[0])
    except OSError:
        return False
    return True


def _authenticated(line: socket.socket, kit: Path, host: str) -> None:
    """Open TLS as a member does. Raise OSError where the other end has no certificate of the kit's authority, or the kit cannot be used."""
    context = ssl.create_default_context(cafile=kit / "startup" / "rootCA.pem")
    # Whose host it is, FLARE compares when it connects.
    context.check_hostname = False
    context.load_cert_chain(kit / "startup" / "client.crt", kit / "startup" / "client.key")
    context.set_alpn_protocols(["h2"])
    context.wrap_socket(line, server_hostname=host).close()


def first_answering(addresses: tuple[str, ...], answers: Callable[[str], bool] = answers_at) -> str:
    """The first address that answers; the first of all where none does, or there is one only."""
    return addresses[0] if len(addresses) == 1 else next(filter(answers, addresses), addresses[0])


@dataclass
class RelayFailover:
    """The relays of a member file, in their order, and which one is in use.

    Where the line is down for a while, the first other one that answers is gone to. From a later one of the list the node goes back to an earlier one
    that answers again, once it may leave. They are asked beside the node, and only then. One that answers and is not reached for all that (`reaches_relay`
    needs FLARE's own greeting) is left alone for a while, so that nodes do not go to and fro.
    """

    addresses: tuple[str, ...]
    answers: Callable[[str], bool] = answers_at
    _position: int = 0
    _lost_at: float | None = None
    _looked_at: float = float("-inf")
    _looking: threading.Thread | None = None
    _in_a_row: dict[int, int] = field(default_factory=dict)
    _is_reached: bool = False
    # How often each was gone to without being reached since it was last, and until when it is left alone.
    _failures: dict[int, int] = field(default_factory=dict)
    _rests_until: dict[int, float] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The relay in use."""
        return self.addresses[self._position]

    def moves(self, now: float, *, reaches_relay: bool, may_leave: bool) -> bool:
        """Whether another relay is in use from now on. `may_leave` is whether a relay that is reached may be left."""
        self._lost_at = None if reaches_relay else now if self._lost_at is None else self._lost_at
        if reaches_relay:
            self._is_reached = True
            self._failures.pop(self._position, None)
        is_lost = self._lost_at is not None and now - self._lost_at >= _LOST_SECONDS
        others = [at for at in range(len(self.addresses)) if at != self._position and (is_lost or at < self._position)]
        wanted = [at for at in others if now >= self._rests_until.get(at, now)]
        if not wanted:
            self._in_a_row = {}
            return False
        self._look(wanted, now)
        needed = 1 if is_lost else _ANSWERS_IN_A_ROW
        found = next((at for at in wanted if self._in_a_row.get(at, 0) >= needed), None)
        if found is None or not (is_lost or may_leave):
            return False
        if not self._is_reached:
            failures = self._failures[self._position] = self._failures.get(self._position, 0) + 1
            rest = min(_FIRST_REST_SECONDS * 2 ** (failures - 1), _LONGEST_REST_SECONDS)
            self._rests_until[self._position] = now + rest
        self._position, self._lost_at, self._in_a_row, self._is_reached = found, None, {}, False
        return True

    def _look(self, wanted: list[int], now: float) -> None:
        """Ask the relays, in a thread of its own: one that does not answer takes seconds."""
        if now - self._looked_at < _LOOK_SECONDS or (self._looking is not None and self._looking.is_alive()):
            return
        self._looked_at = now
        self._looking = threading.Thread(target=self._count, args=(wanted,), name="relays", daemon=True)
        self._looking.start()

    def _count(self, wanted: list[int]) -> None:
        before = self._in_a_row
        self._in_a_row = {at: before.get(at, 0) + 1 for at in wanted if self.answers(self.addresses[at])}
