"""Six members in processes of their own, with a relay, on this machine: a round of our sums beside a round of a bare FLARE ring.

    python -m benchmarks.consortium_rounds [MEMBERS] [LENGTH] [--threshold T] [--namespaces] [--delay-seconds SECONDS]

They talk over the loopback address, or (as root, with iproute2) each from a network namespace of its own, where a delay each way can
be put on every member's cable.

Both send vectors of LENGTH numbers over the same cells, in turns. The ring is what FLARE alone gives: each member sends its vector to
both neighbours and waits for theirs; nothing is masked, acknowledged, resent or saved. Ours is a whole masked sum, its state on disk
before every message, divided by its ⌈log₂ S⌉ rounds. With a threshold below MEMBERS it is a sum with a collector, and whole sums are
told, which have no such rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import struct
import sys
import tempfile
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from sudare.consortium.network.message_dispatch import MessageDispatcher, drive, settle
from sudare.consortium.network.session import Session
from sudare.consortium.network.transport.flare import FlareTransport
from sudare.consortium.network.transport.message_filter import CHANNEL, TOPIC
from sudare.consortium.tasks.checkpoints import CheckpointStore
from sudare.consortium.tasks.sum_script_runner import SumRunner, Timeouts
from tests.consortium.namespaces import Network, network
from tests.consortium.processes import Order, VectorWalk, identity_of, names_of, pins_of, processes

BLOCKS, RING_ROUNDS, SUMS = 4, 12, 8
RING = b"RING"


class Ring:
    """A bare exchange with both neighbours over FLARE's cell."""

    def __init__(self, transport: FlareTransport, order: Order, length: int) -> None:
        self._cell, self._vector = transport.cell, np.full(length, float(order.position))
        names = names_of(order.members)
        self._neighbours = {names[(order.position + step) % order.members] for step in (-1, 1)}
        self._came: dict[int, set[str]] = {}
        self._condition, self._round = threading.Condition(), 0
        # A cell takes one kind of messages; those of the ring begin with a mark of their own.
        self._others = transport._take
        self._cell.register_request_cb(CHANNEL, TOPIC, self._take)

    def _take(self, message: Any) -> None:
        if bytes(message.payload[:4]) != RING:
            self._others(message)
            return
        (number,) = struct.unpack("<I", bytes(message.payload[4:8]))
        with self._condition:
            self._came.setdefault(number, set()).add(message.get_header("cn__origin"))
            self._condition.notify_all()

    def turn(self) -> float:
        """One round; how many seconds it took."""
        from nvflare.fuel.f3.message import Message

        began, number = time.perf_counter(), self._round
        for name in self._neighbours:
            content = RING + struct.pack("<I", number) + self._vector.tobytes()
            self._cell.fire_and_forget(CHANNEL, TOPIC, name, Message(payload=content), secure=True)
        with self._condition:
            self._condition.wait_for(lambda: self._came.get(number, set()) >= self._neighbours, 60.0)
        self._round += 1
        return time.perf_counter() - began


def take_part(order: Order) -> dict[str, Any]:
    """One member: ring and sums in turns."""
    began = time.perf_counter()
    name, identity, length = order.name, identity_of(order.name), int(order.options["length"])
    transport = FlareTransport(name, Path(order.folder) / "kits" / name, order.relay)
    pins, keys = pins_of(order.members, order.agreement), identity.member_keys(b"test")
    dispatcher = MessageDispatcher(Session(name, identity, keys.public, pins))
    found: dict[str, Any] = {"ours": [], "bare": [], "ready_after": 0.0}
    ring = Ring(transport, order, length)
    for block in range(BLOCKS):
        walk = VectorWalk(order.position, length, SUMS)
        store = CheckpointStore(Path(order.folder) / f"state-{name}-{block}")
        runner = SumRunner(
            f"block-{block}",
            order.group(pins, keys),
            walk,
            store,
            dispatcher.session.known_publics,
            Timeouts(120.0, 300.0),
        )
        dispatcher.start(runner, time.monotonic())
        if block == 0:
            drive(dispatcher, transport, lambda: len(dispatcher.session.known_publics()) == order.members, 300.0)
            found["ready_after"] = time.perf_counter() - began
        drive(dispatcher, transport, lambda at=runner: at.finished or bool(at.failure), 300.0)
        if runner.failure is not None:
            raise runner.failure
        found["ours"] += np.diff(walk.ended_at).tolist()
        found["bare"] += [ring.turn() for _ in range(RING_ROUNDS)][2:]
    settle(dispatcher, transport, 10.0)
    transport.close()
    return found


def measured(
    members: int, length: int, between: Network | None = None, threshold: int | None = None
) -> dict[str, float]:
    """Milliseconds a round, ours (where members may leave, a whole sum) and bare, and seconds until everyone knew everyone."""
    with tempfile.TemporaryDirectory() as folder, processes(Path(folder), members, between) as together:
        for position in range(members):
            order = together.order(position, "vector", options={"length": length}, threshold=threshold)
            program = [sys.executable, "-m", "benchmarks.consortium_rounds", "member", json.dumps(vars(order))]
            together._start(order.name, program)
        outcomes = together.outcomes()
    rounds = math.ceil(math.log2(members)) if threshold in (None, members) else 1
    ours = np.array([outcome["ours"] for outcome in outcomes]) * 1e3 / rounds
    bare = np.array([outcome["bare"] for outcome in outcomes]) * 1e3
    return {
        "ours_median_ms": float(np.median(ours)),
        "ours_least_ms": float(ours.min(axis=1).mean()),
        "bare_median_ms": float(np.median(bare)),
        "bare_least_ms": float(bare.min(axis=1).mean()),
        "start_seconds": max(float(outcome["ready_after"]) for outcome in outcomes),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["member"]:
        given = Order(**json.loads(sys.argv[2]))
        (Path(given.folder) / f"{given.name}.json").write_text(json.dumps(take_part(given)))
        os._exit(0)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.consortium_rounds")
    parser.add_argument("members", type=int, nargs="?", default=6)
    parser.add_argument("length", type=int, nargs="?", default=10_000)
    parser.add_argument("--threshold", type=int)
    parser.add_argument("--namespaces", action="store_true")
    parser.add_argument("--delay-seconds", type=float, default=0.0)
    asked = parser.parse_args()
    asked.namespaces |= asked.delay_seconds > 0
    place = network(names_of(asked.members), asked.delay_seconds) if asked.namespaces else nullcontext()
    with place as between:
        print(json.dumps({**vars(asked), **measured(asked.members, asked.length, between, asked.threshold)}))
