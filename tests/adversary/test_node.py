"""What another member or the relay wants of a node: to end it, to fill its memory, to hold it up, to write on its disk."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sudare.consortium import LearningTask, ModelsTask
from sudare.consortium.network.message_dispatch import ASKED, STOP, Activity, Envelope
from sudare.consortium.network.transport.certificates import write_kits
from sudare.consortium.node import Node
from sudare.consortium.task_run import TaskRun
from sudare.consortium.tasks.release_exchange import ReleaseExchange
from tests.adversary.hostile_member import RECEIPT, TERMS, HostileMember
from tests.consortium.clinics import founded, node_of
from tests.consortium.local_transport import LocalHub
from tests.consortium.memory_store import MemoryStore

RISK = LearningTask("risk", "one-sum", 1.0)
MIB = 1 << 20


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return node_of(founded(tmp_path, RISK)[0], LocalHub())


@pytest.fixture
def west(node: Node) -> HostileMember:
    return HostileMember.among("west", node).meet()


def length(count: int) -> bytes:
    return count.to_bytes(8, "little")


def array_of_no_bytes(*shape: int) -> bytes:
    """An array whose sides are what the sender says, and which is empty."""
    return b"W" + length(len(shape)) + b"".join(map(length, shape)) + length(0)


@pytest.mark.parametrize("shape", [(2**63, 0), (0, 2**63), (2**64 - 1, 0), (2**62, 0)])
def test_end_another_members_node_with_an_array_that_has_no_bytes(west: HostileMember, shape: tuple[int, ...]) -> None:
    fields = (b"S" + length(4) + b"risk", b"S" + length(3) + b"sum", *(b"I" + length(1) + b"\0",) * 2, b"E" + length(0))
    content = b"O" + length(8) + b"Envelope" + length(6) + b"".join(fields) + array_of_no_bytes(*shape)
    west.say(array_of_no_bytes(*shape), content)
    west.say(Envelope("risk", STOP).to_bytes())
    assert west.session._peers["east"].channel is not None


@pytest.mark.parametrize(
    "text",
    [b"[" * 200_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000],
    ids=["lists", "tables", "closed"],
)
def test_end_another_members_node_with_nested_terms(node: Node, text: bytes) -> None:
    stranger = HostileMember.among("west", node, other_agreement=True).meet()
    stranger.hand_over(stranger.sealed(TERMS, text))
    assert "west" in node.dispatcher.session.differences()


def test_stop_everybodys_tasks_with_terms_under_the_same_agreement(west: HostileMember) -> None:
    west.hand_over(west.sealed(TERMS, b"{}"))
    assert not west.victim.session.differences()


def grown_mib(member: HostileMember, contents: Iterator[bytes]) -> float:
    """By how many MiB the process grew while it took these messages."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        member.flood(contents)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / MIB


def test_fill_a_nodes_memory_with_stops(west: HostileMember) -> None:
    stops = (Envelope(f"task-{number}", STOP, body=bytes(20_000)).to_bytes() for number in range(2_000))
    assert grown_mib(west, stops) < 4


def test_fill_a_nodes_memory_with_messages_of_tasks_that_there_are_not(west: HostileMember) -> None:
    messages = (Envelope(f"task-{number}", "sum", body=bytes(10_000)).to_bytes() for number in range(4_000))
    assert grown_mib(west, messages) < 4


def test_fill_a_nodes_memory_with_messages_of_a_task_that_has_not_begun(west: HostileMember) -> None:
    messages = (Envelope("risk", "sum", number, body=bytes(100_000)).to_bytes() for number in range(3_000))
    assert grown_mib(west, messages) < 160


def test_fill_a_nodes_memory_with_new_lives(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hello is authentic, of another life, and answers this life of the node."""
    monkeypatch.setattr("sudare.consortium.network.session._MOST_LIVES", 20, raising=False)
    for _ in range(60):
        west = HostileMember.among("west", node)
        for _ in range(3):
            west.now += 1.0
            west.hand_over(*west.due())
            west.hear()
    assert len(node.dispatcher.session._peers["west"].former) <= 20


def test_hold_up_a_node_with_a_receipt_of_eight_megabytes(west: HostileMember) -> None:
    """It took a second and a half, for each receipt; it must be dropped unread."""
    before = west.victim.session.drops.total
    west.hand_over(west.sealed(RECEIPT, struct.pack("<Q", 0) * 1_000_000))
    assert west.victim.session.drops.total == before + 1


def test_hold_up_a_node_with_a_message_of_millions_of_values(
    west: HostileMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sudare.sums import canonical_encoding as wire

    read = 0
    value = wire._Reader.value

    def counted(self: Any, depth: int) -> Any:
        nonlocal read
        read += 1
        return value(self, depth)

    monkeypatch.setattr(wire._Reader, "value", counted)
    west.say(b"L" + length(1_000_000) + b"N" * 1_000_000)
    assert read < 500_000


def test_make_a_node_queue_its_release_for_every_time_it_is_asked(west: HostileMember) -> None:
    """The attacker acknowledges nothing, and asks again."""
    for _ in range(50):
        west.victim.session.post("west", bytes(MIB))
    waiting = west.victim.session._peers["west"].waiting
    assert sum(len(each.content) for each in waiting) <= MIB


def test_keep_a_node_busy_by_what_comes_too_early_and_a_few_words_after_it(west: HostileMember) -> None:
    """Everything that was kept was offered again after each word: a hundred bytes took as long as all of it."""
    offered = 0

    class Early(Activity):
        finished = False

        def begin(self, now: float) -> None:
            """Nothing to do."""

        def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
            """Sums are for later."""
            nonlocal offered
            offered += 1
            return envelope.kind != "sum"

        def tick(self, now: float, present: frozenset[str]) -> None:
            """Wait."""

    west.victim.start(Early("risk", "east", ("east", "north", "west"), 60.0), west.now)
    for number in range(100):
        west.say(Envelope("risk", "sum", number).to_bytes())
    west.say(Envelope("risk", "ask").to_bytes())
    offered = 0
    for number in range(100):
        west.say(Envelope("risk", "ask", number).to_bytes(), Envelope("risk", ASKED, number).to_bytes())
    assert offered == 100
    west.victim.tick(west.now)
    assert offered == 200


class Counting(MemoryStore):
    """A store that counts what is read from it."""

    read = 0

    def load(self, name: str) -> bytes | None:
        self.read += 1
        return super().load(name)


def test_hold_up_a_node_by_large_releases_that_it_reads_twice_a_second(tmp_path: Path) -> None:
    """A finished task is looked at for withdrawals as long as the node runs: nobody's release is read for that."""
    task = ModelsTask("ages", "PrivateMean", 1.0)
    node = node_of(founded(tmp_path, task)[0], LocalHub())
    store, names = Counting(), ("east", "north", "west")
    for name in names:
        store.save(f"release-{name}", bytes(MIB))
    store.save("release-west", b"withdrawn")
    exchange = ReleaseExchange("ages", "east", dict.fromkeys(names, b""), b"", store, lambda release: None)
    assert exchange.finished
    assert exchange.withdrawn() == {"west"}
    done = TaskRun(task, "finished", activity=exchange, files=tuple(tmp_path / f"{each}.sudare" for each in names[:2]))
    before = store.read
    for _ in range(10):
        node._handle_finished(done, 0.0)
    assert store.read == before
    exchange.receive("north", Envelope("ages", "withdraw"), 0.0)
    exchange.receive("north", Envelope("ages", "withdraw"), 0.0)
    assert exchange.withdrawn() == {"north", "west"}
    exchange.withdraw()
    assert exchange.withdrawn() == set(names)


# Over FLARE


class Line:
    """A member behind a relay, and a peer, that both do whatever they like. All three talk over real lines."""

    def __init__(self, folder: Path, honest_relay: bool) -> None:
        import socket

        from nvflare.fuel.f3.cellnet.core_cell import CoreCell

        from sudare.consortium.network.transport.certificates import kit_files
        from sudare.consortium.network.transport.flare import FlareRelay, FlareTransport

        write_kits(folder / "kits", "localhost", ["victim", "mallory"])
        with socket.create_server(("localhost", 0)) as trial:
            self.address = f"localhost:{trial.getsockname()[1]}"

        def cell(name: str, kit: str, role: str, identity: str, identities: dict[str, str]) -> Any:
            credentials = {**kit_files(folder / "kits" / kit, role), "connection_security": "mtls"}
            return CoreCell(
                name, f"grpc://{self.address}", True, credentials, auth_identity=identity, auth_identity_map=identities
            )

        self.relay = FlareRelay(folder / "kits" / "relay", self.address) if honest_relay else None
        self.server = self.relay.cell if self.relay else cell("server", "relay", "server", "localhost", {})
        self.server.start()
        CoreCell.ALL_CELLS.clear()
        self.cell = cell
        self.victim = FlareTransport("victim", folder / "kits" / "victim", self.address)
        CoreCell.ALL_CELLS.clear()
        self.mallory = cell("mallory", "mallory", "client", "mallory", {"server": "localhost"})
        self.mallory.start()
        # Cells of one process would hand messages to each other directly.
        CoreCell.ALL_CELLS.clear()
        until(lambda: {"victim", "mallory"} <= set(self.server.agents))

    def close(self) -> None:
        self.victim.close()
        self.mallory.stop()
        if self.relay is None:
            self.server.stop()
        else:
            self.relay.close()

    def asked(self, cell: Any, target: str, channel: str, topic: str, payload: object, **headers: Any) -> str:
        """The code of the answer to a request."""
        from nvflare.fuel.f3.message import Message

        reply = cell.send_request(channel, topic, target, Message(headers, payload), timeout=2.0, optional=True)
        return str(reply.get_header("cn__return_code"))


def until(condition: Any) -> None:
    end = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def datums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where FLARE's decoder would write, if nobody says otherwise: not into the machine's shared folder while this is tested."""
    pytest.importorskip("nvflare")
    from nvflare.fuel.f3.stats_pool import StatsPoolManager
    from nvflare.fuel.utils.config_service import ConfigService

    monkeypatch.setattr(StatsPoolManager, "pools", {})
    folder = tmp_path / "shared" / "datums"
    folder.mkdir(parents=True)
    monkeypatch.setenv("NVFLARE_DATUM_DIR", str(folder))
    monkeypatch.setattr(ConfigService, "_var_values", {})
    return folder


def file_of(folder: Path) -> object:
    """What FLARE turns into a file at the receiver."""
    from nvflare.fuel.utils.fobs.datum import Datum

    path = folder / "evil"
    path.write_bytes(bytes(MIB))
    return {"file": Datum.file_datum(str(path))}


CHANNELS = [
    ("sudare", "packet"),
    ("credential_manager", "key_exchange"),
    ("cellnet.channel", "bulk"),
    ("nowhere", "nothing"),
    ("_stream_", "_blob_"),
    ("aux_communication", "object"),
]


def test_write_files_on_a_members_disk_from_the_relay_or_as_a_peer(tmp_path: Path, datums: Path) -> None:
    """Objects with files in them on every channel, by a relay that passes everything on and by a member behind it."""
    line = Line(tmp_path, honest_relay=False)
    try:
        for cell in (line.server, line.mallory):
            for channel, topic in CHANNELS:
                line.asked(cell, "victim", channel, topic, file_of(tmp_path))
        assert list(datums.iterdir()) == []
        assert line.victim.receive(0.0) is None
        assert line.victim.drops.total >= 2 * len(CHANNELS)
    finally:
        line.close()
    assert list(datums.iterdir()) == []


def test_write_files_on_the_relays_disk_and_fill_its_memory(tmp_path: Path, datums: Path) -> None:
    line = Line(tmp_path, honest_relay=True)
    try:
        for target in ("server", "victim"):
            for channel, topic in CHANNELS:
                line.asked(line.mallory, target, channel, topic, file_of(tmp_path))
        assert list(datums.iterdir()) == []
        from nvflare.fuel.f3.message import Message

        for number in range(300):
            line.mallory.fire_and_forget(f"channel-{number}", f"topic-{number}", "victim", Message(payload=b"x"))
        line.asked(line.mallory, "server", "last", "word", b"")
        assert len(line.server.received_msg_counter_pool.cat_counters) < 50
    finally:
        line.close()


def test_cut_a_member_off_or_make_it_connect_elsewhere(tmp_path: Path, datums: Path) -> None:
    line = Line(tmp_path, honest_relay=False)
    try:
        line.asked(line.mallory, "victim", "nowhere", "nothing", b"", cn__conn_url="grpc://localhost:1")
        assert not line.victim.cell.adhoc_connectors
        line.asked(line.mallory, "victim", "cellnet.channel", "bye", None)
        assert line.victim.reaches_relay()
    finally:
        line.close()


class Counted:
    """A cell that counts nothing."""

    total = 0


def test_enter_the_relay_under_many_names(tmp_path: Path, datums: Path) -> None:
    """Every name that a member invents below its own would be kept by the relay for ever."""
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell

    line = Line(tmp_path, honest_relay=True)
    child = line.cell("mallory.child", "mallory", "client", "mallory", {"server": "localhost"})
    child.start()
    CoreCell.ALL_CELLS.clear()
    try:
        until(lambda: "mallory.child" in line.server.agents or getattr(line.server, "drops", Counted()).total)
        assert set(line.server.communicator.conn_manager.sfm_endpoints) == {"victim", "mallory"}
    finally:
        child.stop()
        line.close()
