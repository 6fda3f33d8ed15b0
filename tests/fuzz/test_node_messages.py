"""A live node, and a member with a proper key that sends it whatever can be sent: it lives, forgets, counts, and then works with the others."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

from sudare.consortium import LearningTask, ModelsTask, ScalerTask
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.event_log import EventLog
from sudare.consortium.network.message_dispatch import HELD, STOP, Envelope, drive
from sudare.consortium.network.presence_announcements import BEAT, HEADER, MAGIC
from sudare.consortium.network.session import Session
from sudare.consortium.network.transport.base import Packet
from sudare.consortium.node import Node
from sudare.consortium.tasks.sum_script_runner import Total
from sudare.sums import canonical_encoding as wire
from sudare.sums.canonical_encoding import packed
from sudare.sums.messages import (
    Advertised,
    Affirmed,
    Certified,
    Confirmed,
    Dealt,
    Delivered,
    Directory,
    GivenUp,
    Heard,
    Included,
    Masked,
    Message,
    Opened,
    OpenedShares,
    Passed,
    Revealed,
    Voted,
    Withdrawn,
)
from sudare.sums.statements import KINDS, Statement
from tests.adversary.hostile_member import HELLO, MESSAGE, RECEIPT, REFUSAL, TERMS, HostileMember
from tests.consortium.clinics import IDENTITIES, founded, node_of
from tests.consortium.local_transport import LocalHub, LocalTransport

IN_DEFAULT_RUN = 3_000
IN_LONG_RUN = 100_000
MIB = 1 << 20

RISK = LearningTask("risk", "one-sum", 1.0)
MODELS = ModelsTask("models", "PrivateLogisticRegression", 2.0)
SCALES = ScalerTask("scales", 1.0)


def length(count: int) -> bytes:
    return count.to_bytes(8, "little")


class Babble:
    """Contents and packets that no honest program makes, by a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.recorded: list[bytes] = []

    def damaged(self, content: bytes) -> bytes:
        """Flipped, cut, lengthened, spliced."""
        draw, changed = self.random, bytearray(content)
        for _ in range(draw.choice([1, 1, 2, 8])):
            spot = draw.randrange(len(changed) + 1)
            kind = draw.randrange(5)
            if kind == 0 and changed:
                changed[spot % len(changed)] ^= 1 << draw.randrange(8)
            elif kind == 1:
                del changed[spot:]
            elif kind == 2:
                changed[spot:spot] = draw.randbytes(draw.randrange(1, 40))
            elif kind == 3:
                changed[spot : spot + 8] = length(draw.choice([0, 1, 2**31, 2**63, 2**64 - 1]))
            else:
                changed[spot : spot + draw.randrange(20)] = b""
        return bytes(changed)

    def value(self, depth: int = 0) -> bytes:
        """Something in the form of packed values, with lengths that lie."""
        draw = self.random
        lie = draw.choice([0, 1, 2, 3, 2**16, 2**32, 2**63, 2**64 - 1])
        kind = draw.randrange(9 if depth < 30 else 5)
        if kind < 2:
            return bytes([draw.randrange(256)])
        if kind == 2:
            return b"I" + length(lie) + draw.randbytes(8)
        if kind == 3:
            return b"W" + length(draw.choice([0, 1, 2, 3, 9])) + length(lie) + length(draw.choice([0, lie])) + length(0)
        if kind == 4:
            return b"S" + length(lie) + b"\xff" * draw.randrange(9)
        inner = [self.value(depth + 1) for _ in range(draw.randrange(4))]
        tag = draw.choice([b"L", b"E", b"M"])
        return tag + length(draw.choice([len(inner), lie])) + b"".join(inner)

    def bomb(self) -> bytes:
        """Small, well formed at first sight, and large, deep or impossible when it is believed."""
        draw = self.random
        side = draw.choice([2**63, 2**64 - 1, 2**62, 2**33])
        shape = draw.choice([(side, 0), (0, side), (side,), (side, side)])
        name = b"Envelope"
        return draw.choice(
            [
                b"W" + length(len(shape)) + b"".join(map(length, shape)) + length(0),
                (b"L" + length(1)) * draw.choice([10, 100, 10_000]) + b"N",
                b"L" + length(300_000) + b"N" * 300_000,
                b"I" + length(5_000) + b"\x01" * 5_000,
                b"S" + length(100_000) + b"x" * 100_000,
                b"O" + length(len(name)) + name + length(5) + b"N" * 5,
                b"O" + length(len(name)) + name + length(2**64 - 1),
                b"M" + length(2) + b"NN" * 2,
            ]
        )

    def body(self) -> bytes:
        """What stands in an envelope: messages of a sum that do not fit it, or none at all."""
        draw = self.random
        side = draw.choice([0, 1, 4, 64, 5_000])
        words = np.zeros(side, dtype=np.uint64)
        members = frozenset(draw.sample(range(-2, 9), draw.randrange(5)))
        some, kept = draw.randbytes(draw.choice([0, 1, 1, 32, 65])), {draw.choice([-1, 0, 1, 2, 2**70]): b"box"}
        shares = OpenedShares({2: words}, {2**32 - 1: words}).to_bytes()
        said = Statement(
            draw.choice([*KINDS, "x"]), draw.choice([-1, 0, 1, 2, 2**40]), some, shares, draw.randbytes(64)
        )
        bodies = (
            Passed(draw.choice([0, 1, 10**9, -1]), words, draw.choice([None, words.reshape(1, -1)])),
            *(Advertised(said), Dealt(kept), Masked(words, said), Voted(said), Revealed(said), Affirmed(said)),
            *(Directory(some, {2: said}), Delivered(some, kept), Included(said), Certified(some, some, kept)),
            *(Opened(words, said), Confirmed(some, some), Heard(said, draw.choice([None, said]))),
            *(Withdrawn(), GivenUp()),
        )
        choices = (
            packed(Message(draw.randrange(-1, 4), draw.randrange(4), draw.choice(bodies))),
            packed(Message(2, 0, draw.choice(bodies))),
            packed(Total(words, members)),
            self.value(),
            self.bomb(),
            draw.randbytes(draw.randrange(200)),
            b"",
        )
        found = draw.choice(choices)
        return self.damaged(found) if draw.random() < 0.4 else found

    def envelope(self) -> bytes:
        """Of tasks that are there and that are not."""
        draw = self.random
        task = draw.choice(["risk", "risk", "models", f"none-{draw.randrange(10**9)}", "", "Ä" * 40, "x" * 100])
        kind = draw.choice([STOP, "sum", "sum", "heard", "ask", "release", "fetch", "withdraw", "else", ""])
        iteration = draw.choice([0, 0, 1, 2, 10**6, 2**60, -1, 2**4000])
        body = bytes(MIB) if draw.random() < 0.02 else self.body()
        content = packed(Envelope(task, kind, iteration, draw.choice([0, 1, 10**6]), body))
        return self.damaged(content) if draw.random() < 0.3 else content

    def terms(self) -> bytes:
        draw = self.random
        return draw.choice(
            [
                b"[" * 50_000,
                b'{"a":' * 20_000,
                b"1" * 100_000,
                b"[1e999]",
                json.dumps({"x": "y" * 64}).encode(),
                b"{}",
                b"\xff",
            ]
        )

    def sealed(self, member: HostileMember) -> bytes:
        """Under the right keys."""
        draw = self.random
        kind = draw.choice([MESSAGE] * 12 + [RECEIPT, RECEIPT, TERMS, HELLO, BEAT, REFUSAL, 0, 8, 255])
        contents: dict[int, Callable[[], bytes]] = {
            MESSAGE: draw.choice([self.envelope, self.envelope, self.envelope, self.value, self.bomb]),
            RECEIPT: lambda: (
                struct.pack("<3Q", *(draw.choice([0, 5, 2**63]) for _ in range(3)))[: draw.choice([24, 23, 0])]
                * draw.choice([1, 1, 1, 1_000, 50_000])
            ),
            TERMS: self.terms,
        }
        packet = member.sealed(kind, contents.get(kind, lambda: draw.randbytes(60))())
        self.recorded = [*self.recorded[-200:], packet]
        return self.damaged(packet) if draw.random() < 0.1 else packet

    def unsealed(self) -> bytes:
        """Under no keys: noise, replays, and packets that were changed on the way."""
        draw = self.random
        fields = draw.randrange(256), draw.randbytes(16), draw.randbytes(16), draw.getrandbits(64)
        header = HEADER.pack(MAGIC, *fields)
        choices = [draw.randbytes(draw.randrange(300)), header + draw.randbytes(draw.randrange(300)), header[:9]]
        if self.recorded:
            real = draw.choice(self.recorded)
            choices += [real, self.damaged(real)]
        return draw.choice(choices)


class LiveNode:
    """A node in a thread of its own, as it runs at a member."""

    def __init__(self, node: Node) -> None:
        self.node, self.error, self.ends = node, None, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            drive(self.node.dispatcher, self.node.transport, lambda: self.node._poll(stay=True) or self.ends.is_set())
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            self.error = error

    def check(self) -> None:
        if self.error is not None:
            raise AssertionError(f"the node ended: {type(self.error).__name__}") from self.error
        assert self.thread.is_alive()

    def end(self) -> None:
        self.ends.set()
        self.thread.join(30.0)
        self.node.transport.close()


class Telephone(HostileMember):
    """The hostile member, over the transport that honest ones use."""

    def __init__(self, name: str, session: Session, transport: LocalTransport) -> None:
        self.name, self.session, self.transport = name, session, transport

    @property
    def channel(self) -> object:
        return self.session._peers["east"].channel

    def greet(self) -> None:
        """Hellos to all, until the victim has heard this one: what is sealed after that opens the channel there."""
        end = time.monotonic() + 60.0
        while self.channel is None:
            assert time.monotonic() < end
            for receiver, content in self.session.due(time.monotonic()):
                self.transport.send(receiver, content)
            self.listen(0.01)

    def listen(self, seconds: float) -> None:
        while (packet := self.transport.receive(seconds)) is not None:
            self.session.receive(packet, time.monotonic())

    def send(self, content: bytes) -> None:
        self.transport.send("east", content)


def until(condition: Callable[[], bool], *living: LiveNode) -> None:
    end = time.monotonic() + 300.0
    while not condition():
        for each in living:
            each.check()
        assert time.monotonic() < end
        time.sleep(0.01)


def besieged(tmp_path: Path, count: int, seed: int) -> None:
    hub = LocalHub()
    members = founded(tmp_path, RISK, MODELS, SCALES)
    east, north = (LiveNode(node_of(member, hub)) for member in members[:2])
    dispatcher, babble = east.node.dispatcher, Babble(seed)
    before = psutil.Process(os.getpid()).memory_info().rss
    try:
        west = Telephone("west", HostileMember.among("west", east.node).session, hub.join("west"))
        west.greet()
        waiting = hub.queue_of("east")
        assert waiting is not None
        for number in range(count):
            if babble.random.random() < 0.6:
                west.send(babble.sealed(west))
            else:
                waiting.put("west", Packet("west", babble.unsealed()), 300)
            if number % 97 == 0:
                waiting.put("nobody", Packet("nobody", babble.unsealed()), 300)
            if number % 1_000 == 999:
                # Another life of the same member, now and then after a goodbye.
                west.send(west.session.farewell(time.monotonic()).content)
                west.session = HostileMember.among("west", east.node).session
                west.greet()
            if len(waiting) > 1_000:
                until(lambda: len(waiting) < 10, east, north)
                west.listen(0.0)
        until(lambda: len(waiting) == 0, east, north)
        grown = (psutil.Process(os.getpid()).memory_info().rss - before) / MIB
        counts = east.node.health()["dropped"]
        west.transport.close()
        honest = LiveNode(node_of(members[2], hub))
        honest.node.ask("scales")
        nodes = (east, north, honest)
        until(lambda: all(_state(each, "scales") in ("finished", "failed") for each in nodes), *nodes)
        assert [_state(each, "scales") for each in nodes] == ["finished"] * 3
        honest.end()
    finally:
        east.end()
        north.end()
    assert {"malformed", "unauthentic", "repeated", "too-large", "unknown-task", "unknown-sender"} <= set(counts)
    assert "unexpected-error" not in counts
    assert dispatcher.held_bytes <= HELD.most_total_bytes
    assert grown < 400


def _state(living: LiveNode, task: str) -> str:
    run = living.node.task_runs.get(task)
    return "" if run is None else run.state


def test_a_node_outlives_thousands_of_hostile_messages_and_then_finishes_a_task(tmp_path: Path) -> None:
    besieged(tmp_path, IN_DEFAULT_RUN, seed=15)


def test_a_reader_that_leaves_impossible_arrays_to_numpy_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: what ended a node before is caught by the one guard, and these messages find it."""

    def unguarded(content: bytes, *classes: type, most_values: int | None = None) -> object:
        return wire._Reader(content, {each.__name__: each for each in classes}, most_values).value(0)

    monkeypatch.setattr(wire, "_LONGEST_SIDE", 2**64)
    monkeypatch.setattr("sudare.sums.canonical_encoding.unpacked", unguarded)
    with pytest.raises(AssertionError, match="unexpected-error"):
        besieged(tmp_path, 800, seed=15)


@pytest.mark.long
def test_a_node_outlives_a_hundred_thousand_hostile_messages(tmp_path: Path) -> None:
    besieged(tmp_path, IN_LONG_RUN, seed=151)


# Over FLARE


class RawCell:
    """A member's cell as FLARE makes it, in the hands of somebody who writes headers of its own."""

    def __init__(self, name: str, folder: Path, address: str) -> None:
        from nvflare.fuel.f3.cellnet.core_cell import CoreCell

        from sudare.consortium.network.transport.certificates import kit_files

        credentials = {**kit_files(folder / "kits" / name, "client"), "connection_security": "mtls"}
        self.cell = CoreCell(
            name, f"grpc://{address}", True, credentials, auth_identity=name, auth_identity_map={"server": "localhost"}
        )
        self.cell.start()

    def send(self, babble: Babble, folder: Path) -> None:
        """One message: real or raw headers, bytes or objects or files, sealed or not."""
        from nvflare.fuel.f3.message import Message
        from nvflare.fuel.utils import fobs
        from nvflare.fuel.utils.fobs.datum import Datum

        draw = babble.random
        payloads = (
            b"",
            babble.unsealed(),
            bytes(100_000),
            {"a": [1, 2]},
            {"file": Datum.file_datum(str(folder / "evil"))},
            [[[]]],
        )
        payload = draw.choice(payloads)
        channel = draw.choice(["sudare", "sudare", "credential_manager", "cellnet.channel", f"channel-{draw.random()}"])
        topic = draw.choice(["packet", "packet", "key_exchange", "bulk", "bye", f"topic-{draw.random()}"])
        target = draw.choice(["east", "east", "server", "nobody", "east.x"])
        if draw.random() < 0.5:
            message = Message({}, payload)
            is_sealed = draw.random() < 0.5 and isinstance(payload, bytes) and target == "east"
            self.cell.fire_and_forget(channel, topic, target, message, secure=is_sealed, optional=True)
            return
        odd = [None, True, 7, "x" * 300, ["a"], {"a": "b"}, b"\xff", 2**60]
        headers = {
            "cn__msg_type": draw.choice(["req", "reply", "return", *odd]),
            "cn__origin": draw.choice(["west", "north", "server", *odd]),
            "cn__destination": draw.choice(["east", "east", "server", *odd]),
            "cn__channel": draw.choice([channel, *odd]),
            "cn__topic": draw.choice([topic, *odd]),
            "cn__payload_encoding": draw.choice(["bytes", "fobs", "none", *odd]),
            "cn__secure": draw.choice([True, False, *odd]),
            "cn__encrypted": draw.choice([True, False, *odd]),
            "cn__req_id": draw.choice(["1", ["1"], *odd]),
            "cn__reply_expected": draw.choice([True, False]),
            "cn__conn_url": "grpc://localhost:1",
            "cn__route": [["x" * draw.randrange(99), 0.0]],
            "cn__original_headers": draw.choice([{"cn__destination": "east"}, *odd]),
        }
        content = payload if isinstance(payload, bytes) else bytes(fobs.dumps(payload))
        agent = self.cell.agents.get("server")
        if agent is not None:
            self.cell.communicator.send(agent.endpoint, draw.choice([1, 1, 1, 9]), Message(headers, content))


@pytest.mark.long
def test_a_node_behind_a_relay_outlives_hostile_cells_and_then_finishes_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nvflare")
    import socket

    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.fuel.f3.stats_pool import StatsPoolManager

    from sudare.consortium.network.transport.certificates import write_kits
    from sudare.consortium.network.transport.flare import FlareRelay, FlareTransport

    monkeypatch.setattr(StatsPoolManager, "pools", {})
    monkeypatch.setenv("NVFLARE_DATUM_DIR", "")
    (tmp_path / "evil").write_bytes(bytes(10_000))
    members, babble = founded(tmp_path, RISK, MODELS, SCALES), Babble(7)
    write_kits(tmp_path / "kits", "localhost", [member.name for member in members])
    with socket.create_server(("localhost", 0)) as trial:
        address = f"localhost:{trial.getsockname()[1]}"
    relay = FlareRelay(tmp_path / "kits" / "relay", address)
    relay.start()
    CoreCell.ALL_CELLS.clear()

    def living(member: Member) -> LiveNode:
        peers = [each.name for each in members if each.name != member.name]
        kit = tmp_path / "kits" / member.name
        transport = FlareTransport(member.name, kit, address, peers=peers, folder=member.state_folder)
        # Cells of one process would hand messages to each other directly.
        CoreCell.ALL_CELLS.clear()
        return LiveNode(Node(member, IDENTITIES[member.name], transport, EventLog(io.StringIO(), member.name)))

    east, north = living(members[0]), living(members[1])
    west = RawCell("west", tmp_path, address)
    CoreCell.ALL_CELLS.clear()
    until(lambda: {"east", "north", "west"} <= relay.connected(), east, north)
    before = psutil.Process(os.getpid()).memory_info().rss
    for _ in range(5_000):
        with contextlib.suppress(Exception):
            west.send(babble, tmp_path)
    until(lambda: relay.drops.total + east.node.transport.drops.total > 3_000, east, north)
    west.cell.stop()
    StatsPoolManager.pools.clear()
    grown = (psutil.Process(os.getpid()).memory_info().rss - before) / MIB
    honest = living(members[2])
    honest.node.ask("scales")
    nodes = (east, north, honest)
    until(lambda: all(_state(each, "scales") in ("finished", "failed") for each in nodes), *nodes)
    states, folders = [_state(each, "scales") for each in nodes], [*members[0].state_folder.glob("flare-*/*")]
    for each in nodes:
        each.end()
    relay.close()
    assert states == ["finished"] * 3
    assert [path.name for path in folders] == ["no-files"]
    assert not [*members[0].state_folder.glob("flare-*")]
    assert {"not-admitted", "not-bytes", "malformed"} <= set(relay.drops.by_reason())
    assert len(relay.cell.received_msg_counter_pool.cat_counters) < 50
    assert grown < 300
