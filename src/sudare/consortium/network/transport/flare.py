"""Members of different organisations over NVIDIA FLARE's cells: outbound connections only, to a relay that sees ciphertext.

Every line is mutually authenticated TLS, every message is sealed by FLARE from cell to cell, and what is in it is sealed again by our
own session. None of that can be switched off. Messages are bytes: what comes in any other form, or by another of FLARE's channels, is
refused before FLARE decodes it, and the folder that its decoder would write to cannot be written to.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

from sudare.consortium.agreement.document_fields import host_and_port
from sudare.consortium.network.dropped_messages import Drops
from sudare.consortium.network.transport.announcement_board import AnnouncementBoard, announcements_in, posted
from sudare.consortium.network.transport.base import ARRIVED, MOST_PACKET_BYTES, Announcement, Packet
from sudare.consortium.network.transport.certificates import common_name, kit_files
from sudare.consortium.network.transport.flare_partial_import import use_only_what_is_imported
from sudare.consortium.network.transport.message_filter import (
    ANNOUNCEMENT,
    BULLETIN,
    CHANNEL,
    ENCODING,
    RELAY,
    TOPIC,
)
from sudare.consortium.network.transport.queues import FairQueue, Limits
from sudare.errors import ExtraMissing, InvalidParameter, NotConnected
from sudare.files import make_private_folder, new_private_folder, remove_folder, write_new

# More than these packets to one member are not kept: the oldest are dropped, and the session sends them again.
_UNSENT: Final = Limits(most_items=256, most_bytes=2 * MOST_PACKET_BYTES, most_total_bytes=2 * MOST_PACKET_BYTES)
_MOST_HEARD: Final = 1024
_FOLDER: Final = "flare-"
_DATUM_SETTING: Final = "datum_dir"
_LAST_WORDS_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 60.0


class CellTransport:
    """One member's way to the others over a cell. `address_of` gives the cell of a member by its name."""

    def __init__(self, name: str, cell: Any, address_of: Callable[[str], str], *, seal: bool) -> None:
        """`seal` is whether FLARE seals messages from cell to cell, which needs certificates; our session seals them in any case."""
        self.name = name
        self.cell = cell
        # FLARE's own cells answer to any name.
        drops = getattr(cell, "drops", None)
        self.drops = drops if isinstance(drops, Drops) else Drops()
        self._address_of, self._seal = address_of, seal
        self._arrived: FairQueue[Packet] = FairQueue(ARRIVED)
        self._senders: dict[str, _Sender] = {}
        self._heard: set[str] = set()
        # A cell that FLARE made decodes what comes for us, unless it is stopped before.
        getattr(cell, "core_cell", cell).add_incoming_filter(CHANNEL, TOPIC, self._refuse_objects)
        cell.register_request_cb(CHANNEL, TOPIC, self._take)

    def send(self, receiver: str, content: bytes) -> None:
        """Hand over to the thread for this receiver: one that cannot be reached holds up nobody else."""
        if receiver not in self._senders:
            self._senders[receiver] = _Sender(self.cell, self._address_of(receiver), TOPIC, self._seal)
        self._senders[receiver].put(content)

    def announce(self, announcement: Announcement, receivers: Collection[str]) -> None:
        """Send to each: FLARE's own server passes on nothing but messages to one."""
        for receiver in receivers:
            self.send(receiver, announcement.content)

    def reaches_relay(self) -> bool:
        """True: the line is the cell's own affair, and it is there as long as the job runs."""
        return True

    def receive(self, timeout_seconds: float) -> Packet | None:
        """The next packet."""
        return self._arrived.get(max(timeout_seconds, 0.0))

    def close(self) -> None:
        """Send what is unsent; the cell belongs to somebody else."""
        for sender in self._senders.values():
            sender.stop()

    def _refuse_objects(self, message: Any) -> Any:
        """FLARE's answer to a message that is not bytes, before it is decoded."""
        from nvflare.fuel.f3.cellnet.utils import make_reply

        if message.get_header(ENCODING) == "bytes":
            return None
        self.drops.count(_sender_of(message), "not-bytes")
        return make_reply("invalid_request")

    def _take(self, message: Any) -> None:
        content, sender = message.payload, _sender_of(message)
        if not isinstance(content, bytes | bytearray | memoryview):
            self.drops.count(sender, "not-bytes")
        elif len(content) > MOST_PACKET_BYTES:
            self.drops.count(sender, "too-large")
        elif sender not in self._heard and len(self._heard) >= _MOST_HEARD:
            self.drops.count(sender, "unknown-sender")
        else:
            self._take_from(sender, bytes(content))

    def _take_from(self, sender: str, content: bytes) -> None:
        self._heard.add(sender)
        for name in self._arrived.put(sender, Packet(sender, content), len(content)):
            self.drops.count(name, "over-quota")


def _sender_of(message: Any) -> str:
    return str(message.get_header("cn__origin")).partition(".")[0]


class FlareTransport(CellTransport):
    """A member with a cell of its own. `relay` is HOST:PORT; the kit's certificate must be in the member's name.

    Only `peers` may send to it, or whoever has a certificate if they are not given. `folder` is private: FLARE's own folder is made in
    it, and removed at the end; without it, in a new one that nobody else can open.
    """

    def __init__(
        self, name: str, kit: Path, relay: str, *, peers: Collection[str] | None = None, folder: Path | None = None
    ) -> None:
        certified = common_name(kit, "client")
        if certified != name:
            raise NotConnected(
                f"The kit '{kit.name}' is for '{certified}', not for '{name}'.", "Use the kit of this member."
            )
        host, _ = _address(relay)
        cell = _cell(name, relay, kit_files(kit, "client"), name, {RELAY: host}, peers)
        self._folder = closed_folder(folder)
        super().__init__(name, cell, lambda receiver: receiver, seal=True)
        self._peers = peers
        # What is for all is signed and holds no secret; the relay passes it on, so that it cannot be sealed for one.
        self._to_all = _Sender(cell, RELAY, ANNOUNCEMENT, False)
        cell.register_request_cb(CHANNEL, BULLETIN, self._take_bulletin)
        cell.start()

    def announce(self, announcement: Announcement, receivers: Collection[str]) -> None:
        """Send once, to the relay, which passes it on to all others."""
        self._to_all.put(posted(announcement))

    def reaches_relay(self) -> bool:
        """Whether the line to the relay is up."""
        return bool(self.cell.is_cell_connected(RELAY))

    def close(self) -> None:
        """Say goodbye to the relay."""
        self._to_all.stop()
        super().close()
        _stop(self.cell)
        remove_folder(self._folder)

    def _take_bulletin(self, message: Any) -> None:
        """Announcements as a relay passes them on. Who said them, their signatures tell."""
        for name, content in announcements_in(message.payload):
            if name != self.name and (self._peers is None or name in self._peers):
                self._take_from(name, content)


class _Sender:
    """A thread that sends to one member: the first message waits for its certificate, and an absent one takes seconds."""

    def __init__(self, cell: Any, receiver: str, topic: str, seal: bool) -> None:
        self._cell, self._receiver, self._topic, self._seal = cell, receiver, topic, seal
        self._unsent: FairQueue[bytes] = FairQueue(_UNSENT)
        self._thread = threading.Thread(target=self._run, name=f"to {receiver}", daemon=True)
        self._thread.start()

    def put(self, content: bytes) -> None:
        """Send soon, or not at all."""
        self._unsent.put(self._receiver, content, len(content))

    def stop(self) -> None:
        """End the thread after what is unsent, and wait a little for that."""
        self.put(b"")
        self._thread.join(_LAST_WORDS_SECONDS)

    def _run(self) -> None:
        from nvflare.fuel.f3.message import Message

        while (content := self._unsent.get(_LOOK_SECONDS)) != b"":
            if content is None:
                continue
            try:
                self._cell.fire_and_forget(
                    CHANNEL, self._topic, self._receiver, Message(payload=content), secure=self._seal, optional=True
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
        self._cell = _cell(RELAY, listen, kit_files(kit, "server"), common_name(kit, "server"), {}, None)
        self._folder = closed_folder(None)
        self._board = AnnouncementBoard()
        self._changed, self._is_open = threading.Condition(), True
        self._cell.register_request_cb(CHANNEL, ANNOUNCEMENT, self._take)
        self._passing_on = threading.Thread(target=self._pass_on, name="announcements", daemon=True)

    @property
    def cell(self) -> Any:
        """FLARE's cell, for those who want to watch what passes."""
        return self._cell

    def start(self) -> None:
        """Listen."""
        self._cell.start()
        self._passing_on.start()

    def connected(self) -> frozenset[str]:
        """Members whose line is up."""
        return frozenset(self._cell.agents)

    @property
    def drops(self) -> Drops:
        """What was refused or could not be passed on, by member and reason."""
        drops: Drops = self._cell.drops
        return drops

    def close(self) -> None:
        """Stop listening."""
        with self._changed:
            self._is_open = False
            self._changed.notify()
        _stop(self._cell)
        remove_folder(self._folder)

    def _take(self, message: Any) -> None:
        """Something that a member says to all others, by the line of that member."""
        with self._changed:
            if self._board.put(_sender_of(message), bytes(message.payload), time.monotonic()):
                self._changed.notify()
            else:
                self.drops.count(_sender_of(message), "malformed")

    def _pass_on(self) -> None:
        """Bulletins to all whose line is up, until the relay is closed."""
        from nvflare.fuel.f3.message import Message

        while self._is_open:
            with self._changed:
                self._changed.wait(min(self._board.next_due() - time.monotonic(), _LOOK_SECONDS))
                bulletins = self._board.due(self.connected(), time.monotonic())
            for receiver, content in bulletins:
                try:
                    self._cell.fire_and_forget(CHANNEL, BULLETIN, receiver, Message(payload=content), optional=True)
                except (RuntimeError, ValueError, OSError):
                    # Its line has gone: members say again what others have not heard.
                    continue


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


def _cell(
    name: str,
    address: str,
    files: dict[str, str],
    identity: str,
    identities: dict[str, str],
    peers: Collection[str] | None,
) -> Any:
    use_only_what_is_imported()
    try:
        from sudare.consortium.network.transport.flare_bytes_cell import BytesCell
    except ImportError:
        raise ExtraMissing(
            "The transport between organisations needs NVIDIA FLARE.",
            "Install it with: pip install 'sudare[consortium]'.",
        ) from None
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    for logger in ("CoreCell", "Communicator", "ConnManager", "SfmConnManager"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    if name in BytesCell.by_name:
        raise NotConnected(f"'{name}' already has a cell in this process.", "Close the other transport first.")
    credentials = {**files, "connection_security": "mtls"}
    return BytesCell(name, address, credentials, identity, identities, peers=peers, drops=Drops())


def closed_folder(parent: Path | None) -> Path:
    """A new private folder for FLARE, with a name that nobody can guess, in which its decoder can write nothing.

    What an earlier process left in `parent` is removed. Where the decoder looks for its folder there is a file: should anything ever get
    as far as that, it fails before a byte is written.
    """
    from nvflare.fuel.utils.config_service import ConfigService

    if parent is not None:
        make_private_folder(parent)
        for old in parent.glob(f"{_FOLDER}*"):
            remove_folder(old)
    folder = new_private_folder(parent, _FOLDER)
    closed = folder / "no-files"
    write_new(closed, b"")
    os.environ[f"NVFLARE_{_DATUM_SETTING.upper()}"] = str(closed)
    ConfigService._var_values[_DATUM_SETTING] = str(closed)
    return folder


def _stop(cell: Any) -> None:
    from nvflare.fuel.f3.stats_pool import StatsPoolManager

    cell.stop()
    type(cell).by_name.pop(cell.my_info.fqcn, None)
    # FLARE keeps a cell's counts for ever, and refuses a third cell of one name because of them.
    own = {id(value) for value in vars(cell).values()}
    for name in [name for name, pool in StatsPoolManager.pools.items() if id(pool) in own]:
        del StatsPoolManager.pools[name]
