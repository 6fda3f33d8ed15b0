"""Members of different organisations over NVIDIA FLARE's cells: outbound connections only, to a relay that sees ciphertext.

Every line is mutually authenticated TLS, every message is sealed by FLARE from cell to cell, and what is in it is sealed again by our
own session. None of that can be switched off. Messages are bytes: FLARE's way of packing objects is never used on what comes.
"""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sudare.consortium.documents import host_and_port
from sudare.consortium.transport.base import Packet
from sudare.consortium.transport.certificates import common_name, kit_files
from sudare.errors import ExtraMissing, InvalidParameter, NotConnected

_CHANNEL: Final = "sudare"
_TOPIC: Final = "packet"
_RELAY: Final = "server"
# More than this many unsent packets to one member are dropped; the session sends them again.
_MOST_UNSENT: Final = 256
_RECENTLY_SECONDS: Final = 10.0
_LAST_WORDS_SECONDS: Final = 1.0


class CellTransport:
    """One member's way to the others over a cell. `address_of` gives the cell of a member by its name."""

    def __init__(self, name: str, cell: Any, address_of: Callable[[str], str], *, seal: bool) -> None:
        """`seal` is whether FLARE seals messages from cell to cell, which needs certificates; our session seals them in any case."""
        self.name = name
        self.cell = cell
        self._address_of, self._seal = address_of, seal
        self._arrived: queue.SimpleQueue[Packet] = queue.SimpleQueue()
        self._senders: dict[str, _Sender] = {}
        self._heard: dict[str, float] = {}
        cell.register_request_cb(_CHANNEL, _TOPIC, self._take)

    def send(self, receiver: str, content: bytes) -> None:
        """Hand over to the thread for this receiver: one that cannot be reached holds up nobody else."""
        if receiver not in self._senders:
            self._senders[receiver] = _Sender(self.cell, self._address_of(receiver), self._seal)
        self._senders[receiver].put(content)

    def receive(self, timeout_seconds: float) -> Packet | None:
        """The next packet."""
        try:
            return self._arrived.get(timeout=max(timeout_seconds, 0.0))
        except queue.Empty:
            return None

    def connected(self) -> frozenset[str]:
        """Those heard of lately."""
        since = time.monotonic() - _RECENTLY_SECONDS
        return frozenset(name for name, at in list(self._heard.items()) if at >= since)

    def close(self) -> None:
        """Send what is unsent; the cell belongs to somebody else."""
        for sender in self._senders.values():
            sender.stop()

    def _take(self, message: Any) -> None:
        content = message.payload
        if isinstance(content, bytes | bytearray | memoryview):
            sender = str(message.get_header("cn__origin")).partition(".")[0]
            self._heard[sender] = time.monotonic()
            self._arrived.put(Packet(sender, bytes(content)))


class FlareTransport(CellTransport):
    """A member with a cell of its own. `relay` is HOST:PORT; the kit's certificate must be in the member's name."""

    def __init__(self, name: str, kit: Path, relay: str) -> None:
        certified = common_name(kit, "client")
        if certified != name:
            raise NotConnected(
                f"The kit '{kit.name}' is for '{certified}', not for '{name}'.", "Use the kit of this member."
            )
        host, _ = _address(relay)
        cell = _cell(name, relay, kit_files(kit, "client"), name, {_RELAY: host})
        super().__init__(name, cell, lambda receiver: receiver, seal=True)
        cell.start()

    def connected(self) -> frozenset[str]:
        """Those heard of lately, while the relay is there."""
        return super().connected() if self.reaches_relay() else frozenset()

    def reaches_relay(self) -> bool:
        """Whether the line to the relay is up."""
        return bool(self.cell.is_cell_connected(_RELAY))

    def close(self) -> None:
        """Say goodbye to the relay."""
        super().close()
        _stop(self.cell)


class _Sender:
    """A thread that sends to one member: the first message waits for its certificate, and an absent one takes seconds."""

    def __init__(self, cell: Any, receiver: str, seal: bool) -> None:
        self._cell, self._receiver, self._seal = cell, receiver, seal
        self._unsent: queue.Queue[bytes] = queue.Queue(_MOST_UNSENT)
        self._thread = threading.Thread(target=self._run, name=f"to {receiver}", daemon=True)
        self._thread.start()

    def put(self, content: bytes) -> None:
        """Send soon, or not at all."""
        try:
            self._unsent.put_nowait(content)
        except queue.Full:
            return

    def stop(self) -> None:
        """End the thread after what is unsent, and wait a little for that."""
        self.put(b"")
        self._thread.join(_LAST_WORDS_SECONDS)

    def _run(self) -> None:
        from nvflare.fuel.f3.message import Message

        while content := self._unsent.get():
            try:
                self._cell.fire_and_forget(
                    _CHANNEL, _TOPIC, self._receiver, Message(payload=content), secure=self._seal, optional=True
                )
            except (RuntimeError, ValueError, OSError):
                # No certificate from the receiver yet, or no line: the packet is lost, which the session expects.
                continue


class FlareRelay:
    """The cell that all members connect to. It passes on what it cannot read."""

    def __init__(self, kit: Path, listen: str) -> None:
        """`listen` is HOST:PORT, with the host that the members' kits were made for."""
        # FLARE goes on silently where it cannot listen, so the address is tried first.
        _check_is_free(_address(listen))
        self._cell = _cell(_RELAY, listen, kit_files(kit, "server"), common_name(kit, "server"), {})

    @property
    def cell(self) -> Any:
        """FLARE's cell, for those who want to watch what passes."""
        return self._cell

    def start(self) -> None:
        """Listen."""
        self._cell.start()

    def connected(self) -> frozenset[str]:
        """Members whose line is up."""
        return frozenset(self._cell.agents)

    def close(self) -> None:
        """Stop listening."""
        _stop(self._cell)


def _address(text: str) -> tuple[str, int]:
    found = host_and_port(text)
    if found is None:
        raise InvalidParameter(f"'{text}' is not an address.", "Give HOST:PORT, such as relay.example:8002.")
    return found


def _check_is_free(address: tuple[str, int]) -> None:
    """Whether this machine can listen there: the host is its own, and nobody else listens."""
    host, port = address
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            # Connections that are just ending do not count, as they do not for the relay itself.
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(place)
            trial.listen(1)
    except OSError as error:
        raise NotConnected(
            f"The relay cannot listen at {host}:{port} ({error.strerror}).",
            "Choose a free port, and a host name that is this machine's own.",
        ) from None


def _cell(name: str, address: str, files: dict[str, str], identity: str, identities: dict[str, str]) -> Any:
    try:
        from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    except ImportError:
        raise ExtraMissing(
            "The transport between organisations needs NVIDIA FLARE.",
            "Install it with: pip install 'sudare[consortium]'.",
        ) from None
    # FLARE logs every message that found nobody; that is the session's business.
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    for logger in ("CoreCell", "Communicator", "ConnManager", "SfmConnManager"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    if name in CoreCell.ALL_CELLS:
        raise NotConnected(f"'{name}' already has a cell in this process.", "Close the other transport first.")
    credentials = {**files, "connection_security": "mtls"}
    return CoreCell(name, f"grpc://{address}", True, credentials, auth_identity=identity, auth_identity_map=identities)


def _stop(cell: Any) -> None:
    cell.stop()
    type(cell).ALL_CELLS.pop(cell.my_info.fqcn, None)
