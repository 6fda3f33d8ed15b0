"""FLARE's cell, made to take nothing but bytes: what `message_filter` does not let in is neither decoded nor kept.

Beside that, nobody can make it grow: a line hands over no more frames than were worked off, what waits to be sent has a limit for every
sender, a name has few lines, and a line has one name. Written for NVIDIA FLARE 2.7 to 2.9; where its inside differs, it is refused.
"""

from __future__ import annotations

import contextlib
import logging
import struct
import threading
from collections.abc import Collection, Iterator
from typing import Any, ClassVar, Final

from nvflare.fuel.f3 import communicator
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import InvalidRequest
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.drivers.grpc.qq import QueueClosed
from nvflare.fuel.f3.drivers.grpc_driver import GrpcDriver

from sudare.consortium.network.dropped_messages import Drops
from sudare.consortium.network.transport.message_filter import (
    DESTINATION,
    ENCODING,
    EXPECTS_REPLY,
    FROM,
    ID,
    MOST_PAYLOAD_BYTES,
    ON_CHANNEL,
    ON_TOPIC,
    ORIGIN,
    ORIGINAL,
    REFUSED,
    RELAY,
    TO,
    TYPE,
    FilterDecision,
    MemberRules,
    RelayRules,
    is_certificate_of,
)
from sudare.consortium.network.transport.queues import FairQueue, Limits
from sudare.errors import NotConnected

_PREFIX: Final = struct.Struct(">IHBBHHHH")
_DATA_FRAME: Final = 1
_MOST_CONTROL_BYTES: Final = 1 << 12
_MOST_HEADER_BYTES: Final = 1 << 16
MOST_FRAME_BYTES: Final = MOST_PAYLOAD_BYTES + _MOST_HEADER_BYTES + _PREFIX.size
# Frames of one line that wait for a thread. The line is not read meanwhile, which slows down whoever sends by it, and nobody else.
_MOST_FRAMES: Final = 32
# What waits to be sent by one line.
_UNSENT: Final = Limits(most_items=1 << 13, most_bytes=2 * MOST_FRAME_BYTES, most_total_bytes=4 * MOST_FRAME_BYTES)
_MOST_LINES: Final = 4
_MOST_WORKERS: Final = 1024
_MOST_KEYS: Final = 1024
# Certificates that are asked for at the same time, each by a thread of its own.
_MOST_EXCHANGES: Final = 64
_ANSWER_SECONDS: Final = 10.0
_PEER_NAME: Final = "peer_cn"
_LOOK_SECONDS: Final = 5.0


class BytesCell(CoreCell):
    """A cell that takes packets of bytes from known members, or passes them on, and refuses everything else before it is decoded.

    `by_name` are those of this process. They talk over lines, as those of other machines do: limits are kept there.
    """

    by_name: ClassVar[dict[str, BytesCell]] = {}

    def __init__(
        self,
        name: str,
        address: str,
        credentials: dict[str, str],
        identity: str,
        identities: dict[str, str],
        *,
        peers: Collection[str] | None,
        drops: Drops,
    ) -> None:
        # FLARE logs every message that found nobody, and quotes it; that is the session's business.
        logging.getLogger(__name__).setLevel(logging.CRITICAL)
        # Cells that FLARE finds here get messages from each other directly.
        self.ALL_CELLS: dict[str, CoreCell] = {}
        self.by_name[name] = self
        _load_driver()
        super().__init__(
            name,
            f"grpc://{address}",
            True,
            credentials,
            max_timeout=_ANSWER_SECONDS,
            auth_identity=identity,
            auth_identity_map=identities,
        )
        self.drops = drops
        self._sending = threading.local()
        self._exchanges: set[str] = set()
        self._exchanges_lock = threading.Lock()
        self.connector_manager.adhoc_allowed = False
        manager = self.credential_manager
        root = manager.get_ca_cert()
        self._rules: MemberRules | RelayRules = (
            RelayRules(name)
            if name == RELAY
            else MemberRules(
                name,
                None if peers is None else frozenset(peers),
                lambda origin: origin in manager.cert_cache,
                lambda origin, content: is_certificate_of(origin, content, root),
            )
        )
        _Lines(self, self.communicator.conn_manager, drops).install()
        self._restrict_drivers()

    def process_message(self, endpoint: Any, connection: Any, app_id: int, message: Any) -> None:
        """Take a message in, or refuse it: the first thing that is done with it."""
        decision = self._rules.decision_on(str(endpoint.name), message.headers, message.payload)
        if decision.reason is not None:
            sender = endpoint.name if self.my_info.fqcn == RELAY else decision.headers.get(ORIGIN)
            self.drops.count(sender, decision.reason)
            self._answer_refusal(endpoint, decision)
            if decision.reason == "no-certificate":
                self._begin_exchange(decision.headers[ORIGIN])
            return
        message.headers = decision.headers
        if decision.certificates is not None:
            message.payload = decision.certificates
        super().process_message(endpoint, connection, app_id, message)

    def _begin_exchange(self, peer: str) -> None:
        """Ask a peer for its certificate. One that has ours from before this process was started does not begin the exchange, and where there is nothing to send to it, nobody else would."""
        with self._exchanges_lock:
            if peer in self._exchanges or len(self._exchanges) >= _MOST_EXCHANGES:
                return
            self._exchanges.add(peer)
        threading.Thread(target=self._exchange, args=(peer,), name=f"certificate of {peer}", daemon=True).start()

    def _exchange(self, peer: str) -> None:
        try:
            self.cert_ex.get_certificate(peer)
        except (RuntimeError, ValueError, OSError):
            # The next packet that is refused asks again.
            return
        finally:
            with self._exchanges_lock:
                self._exchanges.discard(peer)

    def decrypt_payload(self, message: Any) -> None:
        """Open FLARE's seal. FLARE decodes right after this, so that what is to be decoded ends here, whichever way it came."""
        if message.get_header(ENCODING) not in (None, "bytes", "none"):
            self.drops.count(message.get_header(ORIGIN), "not-bytes")
            raise InvalidRequest("not bytes")
        super().decrypt_payload(message)
        cipher = self.credential_manager.cell_cipher
        for cache in (cipher._cached_dec, cipher._cached_enc):
            if len(cache) > _MOST_KEYS:
                cache.clear()

    @contextlib.contextmanager
    def _in_the_name_of(self, origin: object) -> Iterator[None]:
        self._sending.origin = origin if isinstance(origin, str) else ""
        try:
            yield
        finally:
            self._sending.origin = ""

    @property
    def sending_for(self) -> str:
        """Whose message this thread is sending."""
        return str(getattr(self._sending, "origin", ""))

    def _send_to_endpoint(self, to_endpoint: Any, message: Any) -> str:
        with self._in_the_name_of(message.get_header(ORIGIN)):
            return str(super()._send_to_endpoint(to_endpoint, message) or "")

    def _receive_bulk_message(self, request: Any) -> None:
        raise InvalidRequest("no bulk messages here")

    def _add_adhoc_connector(self, to_cell: str, url: str) -> None:
        """Connect to nobody but the relay, whatever a message says."""

    def _answer_refusal(self, endpoint: Any, decision: FilterDecision) -> None:
        """Tell whoever waits for an answer that there is none, in words that do not depend on what was asked."""
        headers = decision.headers
        if headers.get(TYPE) != "req" or headers.get(EXPECTS_REPLY) is not True or not isinstance(headers.get(ID), str):
            return
        own, destination = self.my_info.fqcn, headers[DESTINATION]
        reply = make_reply("invalid_request")
        reply.add_headers(
            {
                ON_CHANNEL: REFUSED,
                ON_TOPIC: REFUSED,
                FROM: own,
                TO: endpoint.name,
                ORIGIN: own,
                DESTINATION: headers[ORIGIN],
                ID: headers[ID],
                TYPE: "reply",
            }
        )
        if destination != own:
            # Whoever asked waits for an answer of that one.
            original = {DESTINATION: destination, ON_CHANNEL: REFUSED, ON_TOPIC: REFUSED}
            reply.add_headers({ID: [headers[ID]], TYPE: "return", ORIGINAL: original})
        self._send_reply(reply, endpoint)

    def _restrict_drivers(self) -> None:
        add = self.communicator.add_connector_advanced

        def added(driver: Any, mode: Any, params: dict[str, Any], secure: bool, start: bool = False) -> Any:
            if not hasattr(driver, "options"):
                raise NotConnected("FLARE's driver takes no limits.", "Use the versions of the lock file.")
            driver.max_workers = _MOST_WORKERS
            driver.options = [
                ("grpc.max_send_message_length", MOST_FRAME_BYTES + _MOST_CONTROL_BYTES),
                ("grpc.max_receive_message_length", MOST_FRAME_BYTES + _MOST_CONTROL_BYTES),
            ]
            return add(driver, mode, params, secure, start)

        self.communicator.add_connector_advanced = added


def _load_driver() -> None:
    """Load FLARE's driver for gRPC, the only one that is used: it would load all, with the packages that they need."""
    if getattr(communicator, "driver_loaded", True):
        return
    communicator.driver_mgr.register(GrpcDriver)
    communicator.driver_loaded = True


class _Lines:
    """The lines of a cell: how many, in whose name, and how much may be under way on each."""

    def __init__(self, cell: BytesCell, manager: Any, drops: Drops) -> None:
        self._cell, self._manager, self._drops = cell, manager, drops
        self._lock = threading.Lock()
        self._by_name: dict[str, list[Any]] = {}

    def install(self) -> None:
        """Replace the methods of FLARE's connection manager by those here, which keep the limits and then call FLARE's."""
        manager = self._manager
        for name in ("handle_new_connection", "close_connection", "update_endpoint", "process_frame"):
            if not callable(getattr(manager, name, None)):
                raise NotConnected("This version of FLARE cannot be limited.", "Use the versions of the lock file.")
        opened, closed, named = manager.handle_new_connection, manager.close_connection, manager.update_endpoint
        manager.handle_new_connection = lambda connection: self._on_opened(connection, opened)
        manager.close_connection = lambda connection: self._on_closed(connection, closed)
        manager.update_endpoint = lambda line, data: self._on_named(line, data, named)
        manager.process_frame = self._on_frame

    def _on_opened(self, connection: Any, go_on: Any) -> None:
        connection.oq = UnsentFrames(self._cell)
        name, surplus = self._name_of(connection), []
        with self._lock:
            lines = self._by_name.setdefault(name, [])
            lines.append(connection)
            while len(lines) > _MOST_LINES:
                surplus.append(lines.pop(0))
        go_on(connection)
        for each in surplus:
            self._drops.count(name, "over-quota")
            each.close()

    def _on_closed(self, connection: Any, go_on: Any) -> None:
        name = self._name_of(connection)
        with self._lock:
            self._by_name[name] = [each for each in self._by_name.get(name, []) if each is not connection]
            if not self._by_name[name]:
                del self._by_name[name]
        go_on(connection)

    def _on_named(self, line: Any, data: Any, go_on: Any) -> None:
        """A line has the name that its certificate says, and has it once."""
        expected = self._name_of(line.conn) if self._cell.my_info.fqcn == RELAY else RELAY
        given = data.get("endpoint_name") if isinstance(data, dict) else None
        if line.sfm_endpoint is not None or given != expected:
            self._drops.count(expected, "unauthentic" if line.sfm_endpoint is None else "repeated")
            if line.sfm_endpoint is None:
                line.conn.close()
            return
        go_on(line, {"endpoint_name": expected, "fqcn": expected})

    def _on_frame(self, line: Any, frame: bytes) -> None:
        """Hand a frame to a thread, or wait until those before it were worked off: the line is not read meanwhile."""
        manager = self._manager
        if not _has_possible_size(frame):
            self._drops.count(self._name_of(line.conn), "too-large")
            return
        if manager.stopped:
            return
        if not hasattr(line, "frames_under_way"):
            line.frames_under_way = _UnderWay()
        under_way, size = line.frames_under_way, len(frame)
        while not under_way.begin(size):
            if manager.stopped:
                return
        try:
            done = manager.frame_mgr_executor.submit(manager.process_frame_task, line, frame)
        except RuntimeError:
            under_way.end(size)
            return
        done.add_done_callback(lambda _: under_way.end(size))

    def _name_of(self, connection: Any) -> str:
        if self._cell.my_info.fqcn != RELAY:
            return RELAY
        return str((connection.get_conn_properties() or {}).get(_PEER_NAME, ""))


class _UnderWay:
    """Frames of one line that threads work on or will."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._frames = self._bytes = 0

    def begin(self, size: int) -> bool:
        """Wait for room for a frame, at most a second; whether there was."""
        with self._changed:
            has_room = self._changed.wait_for(
                lambda: not self._frames or (self._frames < _MOST_FRAMES and self._bytes + size <= MOST_FRAME_BYTES),
                1.0,
            )
            if has_room:
                self._frames += 1
                self._bytes += size
            return has_room

    def end(self, size: int) -> None:
        """One frame was worked off."""
        with self._changed:
            self._frames -= 1
            self._bytes -= size
            self._changed.notify()


def _has_possible_size(frame: bytes) -> bool:
    """Whether a frame is long enough for its beginning and its headers, and not larger than its kind can be."""
    if len(frame) < _PREFIX.size:
        return False
    _, header_bytes, kind, *_ = _PREFIX.unpack_from(frame)
    most = MOST_FRAME_BYTES if kind == _DATA_FRAME else _MOST_CONTROL_BYTES
    return len(frame) <= most and header_bytes <= len(frame) - _PREFIX.size


class UnsentFrames:
    """FLARE's queue of what is to be sent by a line, with a limit, and with turns among those in whose name it is sent."""

    def __init__(self, cell: BytesCell) -> None:
        self._cell = cell
        self._frames: FairQueue[Any] = FairQueue(_UNSENT)
        self.closed = False

    def close(self) -> None:
        """Send nothing more."""
        self.closed = True
        # Whoever waits for a frame is woken, and sees that.
        self._frames.put("", None, 0)

    def append(self, frame: Any) -> None:
        """Send a frame soon, or drop the oldest of the same sender."""
        if self.closed:
            raise QueueClosed("queue stopped")
        for sender in self._frames.put(self._cell.sending_for, frame, len(frame.data)):
            self._cell.drops.count(sender, "over-quota")

    def __iter__(self) -> UnsentFrames:
        return self

    def __next__(self) -> Any:
        while not self.closed:
            frame = self._frames.get(_LOOK_SECONDS)
            if frame is not None:
                return frame
        raise StopIteration
