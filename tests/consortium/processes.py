"""Members in processes of their own, with a relay between them, on this machine: started, watched and ended by their ids.

They talk over the loopback address, or each lives in a network namespace of its own (`namespaces.Network`).

Run as `python -m tests.consortium.processes JSON`, this is one such member. What it has in the end goes into a file as a digest, so that
bits can be compared with those of one process.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.array_types import Words
from sudare.consortium.agreement.identity import Identity
from sudare.consortium.network.message_dispatch import MessageDispatcher, drive, settle
from sudare.consortium.network.session import PinnedAgreement, Session
from sudare.consortium.network.transport.certificates import write_kits
from sudare.consortium.tasks.checkpoints import CheckpointStore
from sudare.consortium.tasks.sum_participant import Attempt
from sudare.consortium.tasks.sum_script_runner import Checkpoint, IterationStart, SumGroup, SumRunner, Timeouts
from sudare.dictionary import PatternDictionary
from sudare.dictionary.training import trained
from sudare.joint import LearningTerms, LearningWalk, MemberTable, ModelReading
from sudare.joint.dictionary_script import DictionaryWalk, TrainedDictionary
from sudare.joint.in_process_simulation import plain_adder, walked
from sudare.joint.sum_script import Finished, Walk
from sudare.sums.canonical_encoding import unpacked
from sudare.sums.context import most_dishonest
from sudare.sums.keys import MemberKeys
from tests.consortium.namespaces import PORT, RELAY, Network

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Order:
    """What a member's process is to do."""

    position: int
    members: int
    folder: str
    relay: str
    work: str
    agreement: str = "together"
    key: str = ""
    silence_seconds: float = 30.0
    gathering_seconds: float = 240.0
    threshold: int | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return names_of(self.members)[self.position]

    def group(self, pins: PinnedAgreement, keys: MemberKeys) -> SumGroup:
        threshold = self.members if self.threshold is None else self.threshold
        dishonest = min(1, most_dishonest(self.members, threshold))
        names = names_of(self.members)
        signed = {name: identity_of(name).member_keys(b"test").public for name in names}
        return SumGroup(pins.agreement_digest.hex(), names, self.name, keys, threshold, dishonest, signed=signed)


def names_of(members: int) -> tuple[str, ...]:
    return tuple(f"site-{position:02d}" for position in range(members))


def identity_of(name: str) -> Identity:
    return Identity(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest()))


def pins_of(members: int, agreement: str) -> PinnedAgreement:
    keys = {name: identity_of(name).public_key for name in names_of(members)}

    def digests(nonce: bytes) -> dict[str, str]:
        return {"name": hashlib.sha256(nonce + agreement.encode()).hexdigest()}

    return PinnedAgreement(hashlib.sha256(agreement.encode()).digest(), keys, digests)


# What they do: the walk of each kind of work, and the digest of what it ends with


class VectorWalk:
    """Sums of a vector of random words, one after the other: for timing."""

    is_exact = False

    def __init__(self, position: int, length: int, sums: int) -> None:
        self._words = np.frombuffer(np.random.default_rng(position).bytes(8 * length), dtype="<u8").copy()
        self._sums, self.ended_at = sums, []

    def begun(self) -> tuple[bytes, Words]:
        return (0).to_bytes(4, "big"), self._words

    def step(self, state: bytes, total: Words, included: tuple[int, ...]) -> tuple[bytes, Words | Finished]:
        number = int.from_bytes(state, "big") + 1
        self.ended_at.append(time.perf_counter())
        if number == self._sums:
            return state, Finished(total)
        return number.to_bytes(4, "big"), self._words


def walk_of(work: str, position: int, members: int, options: dict[str, Any]) -> Walk:
    if work == "vector":
        return VectorWalk(position, options["length"], options["sums"])
    if work == "dictionary":
        estimator, tables = chapter_example()
        terms, records = estimator.training(tables[position], members)
        return DictionaryWalk(lambda: trained(terms), records, members)
    terms, tables = hospitals_example()
    # A seed for each member: noise that repeats itself, so that bits can be compared.
    return LearningWalk(terms, MemberTable(tables[position]), random_state=position)


def chapter_example() -> tuple[PatternDictionary, list[Any]]:
    """The chapter's example: three members, four sensors, 300 records each."""
    from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth

    tables = chapter_truth().records(np.random.default_rng(0), 300)
    bounds = (np.full(4, -20.0), np.full(4, 20.0))
    return PatternDictionary(6, bounds=bounds), list(tables)


def hospitals_example() -> tuple[LearningTerms, list[Any]]:
    """Ten hospitals with twelve patients each; ε = 2.5."""
    from sklearn.datasets import load_breast_cancer

    from sudare.demo.hospitals_scenario import LABEL, MEASUREMENTS, PATIENTS, SCHEMA

    bunch = load_breast_cancer(as_frame=True)
    table = bunch.data[list(MEASUREMENTS)].assign(**{LABEL: (bunch.target == 0).astype(int)})
    shuffled = table.sample(frac=1.0, random_state=0)
    parts = [shuffled.iloc[number * PATIENTS : (number + 1) * PATIENTS] for number in range(10)]
    reading = ModelReading.of_schema(SCHEMA, "centred", fit_intercept=True)
    return LearningTerms("one-sum", reading, 2.5, 0.0, 10, 1), parts


def digest_of(result: object) -> str:
    """The bits of a result."""
    if isinstance(result, np.ndarray):
        return hashlib.sha256(result.tobytes()).hexdigest()
    if isinstance(result, TrainedDictionary):
        arrays = result.dictionary.natural().arrays
        content = b"".join(np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays))
        return hashlib.sha256(content + repr(result.dictionary.history).encode()).hexdigest()
    return hashlib.sha256(result.outcome.parameters.tobytes()).hexdigest()  # type: ignore[attr-defined]


def dictionary_in_process() -> str:
    """The bits of the chapter's example, trained in one process."""
    estimator, tables = chapter_example()
    fitted = estimator.fit(tables)
    arrays = fitted.dictionary_.natural().arrays
    content = b"".join(np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays))
    return hashlib.sha256(content + repr(fitted.history_).encode()).hexdigest()


def hospitals_in_process() -> str:
    """The bits of the ten hospitals' model, learned in one process."""
    walks = [walk_of("hospitals", position, 10, {}) for position in range(10)]
    found, _, _ = walked(walks, plain_adder(10), {})
    return digest_of(found[0])


# One member's process


def take_part(order: Order) -> dict[str, Any]:
    from sudare.consortium.network.transport.flare import FlareTransport

    started_at = time.perf_counter()
    name, identity = order.name, identity_of(order.key or order.name)
    transport = FlareTransport(name, Path(order.folder) / "kits" / name, order.relay)
    pins, keys = pins_of(order.members, order.agreement), identity.member_keys(b"test")
    dispatcher = MessageDispatcher(Session(name, identity, keys.public, pins))
    walk = walk_of(order.work, order.position, order.members, order.options)
    store = CheckpointStore(Path(order.folder) / f"state-{name}")
    timeouts = Timeouts(order.silence_seconds, order.gathering_seconds)
    runner = SumRunner("joint", order.group(pins, keys), walk, store, dispatcher.session.known_publics, timeouts)
    dispatcher.start(runner, time.monotonic())
    drive(
        dispatcher,
        transport,
        lambda: "keys" in os.listdir(Path(order.folder) / f"state-{name}") or bool(runner.failure),
        240.0,
    )
    ready_after = time.perf_counter() - started_at
    drive(dispatcher, transport, lambda: runner.finished or runner.failure is not None, 3000.0)
    settle(dispatcher, transport, 20.0)
    result = None if runner.result is None else digest_of(runner.result.result)
    times = np.diff(walk.ended_at).tolist() if isinstance(walk, VectorWalk) else []
    transport.close()
    error = None if runner.failure is None else f"{type(runner.failure).__name__}: {runner.failure}"
    return {
        "result": result,
        "error": error,
        "ready_after": ready_after,
        "sum_seconds": times,
        "sums": runner.iteration + 1,
    }


# All of them


@dataclass
class Processes:
    """A relay and members on this machine."""

    folder: Path
    members: int
    network: Network | None = None

    def __post_init__(self) -> None:
        host = "localhost" if self.network is None else self.network.address_of(RELAY)
        self.relay_address = f"{host}:{free_port() if self.network is None else PORT}"
        write_kits(self.folder / "kits", host, names_of(self.members))
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start_relay(self) -> None:
        program = [sys.executable, "-c", "from sudare.cli.main import app; app()", "relay"]
        self._start(RELAY, [*program, "--kit", str(self.folder / "kits/relay"), "--listen", self.relay_address])

    def order(self, position: int, work: str, **changes: Any) -> Order:
        return Order(position, self.members, str(self.folder), self.relay_address, work, **changes)

    def start(self, order: Order, **environment: str) -> None:
        program = [sys.executable, "-m", "tests.consortium.processes", json.dumps(asdict(order))]
        self._start(order.name, program, **environment)

    def _start(self, name: str, arguments: list[str], **environment: str) -> None:
        # `ip netns exec` becomes the program that it starts, so that the process has the id of the program.
        place = [] if self.network is None else self.network.within(name)
        with open(self.folder / f"{name}.log", "ab") as log:
            given = {**os.environ, "no_grpc_proxy": self.relay_address.rpartition(":")[0], **environment}
            self.running[name] = subprocess.Popen([*place, *arguments], cwd=ROOT, stdout=log, stderr=log, env=given)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def outcomes(self, seconds: float = 3000.0) -> list[dict[str, Any]]:
        """What every member wrote at its end, in their order."""
        for name in names_of(self.members):
            self.running[name].wait(seconds)
        return [json.loads((self.folder / f"{name}.json").read_text()) for name in names_of(self.members)]

    def end(self) -> None:
        for name in list(self.running):
            if self.running[name].poll() is None:
                self.kill(name)


def free_port() -> int:
    """A port of the loopback address at which nobody listens."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


@contextmanager
def processes(folder: Path, members: int, network: Network | None = None) -> Iterator[Processes]:
    """A relay that runs, and members to be started; all are ended afterwards."""
    together = Processes(folder, members, network)
    try:
        together.start_relay()
        yield together
    finally:
        together.end()


def check_outcomes(together: Processes, expected: str) -> list[dict[str, Any]]:
    """What every member wrote, if all ended without an error and with these bits."""
    outcomes = together.outcomes()
    assert [outcome["error"] for outcome in outcomes] == [None] * together.members
    assert {outcome["result"] for outcome in outcomes} == {expected}
    return outcomes


def wait_for_iteration(folder: Path, number: int, most_seconds: float = 900.0) -> None:
    """Until a member has begun the sum of this number."""
    store, end = CheckpointStore(folder), time.monotonic() + most_seconds
    while time.monotonic() < end:
        contents = [content for content in (store.load("sum-0"), store.load("sum-1")) if content is not None]
        found = [unpacked(content, Checkpoint, IterationStart, Attempt).start.iteration for content in contents]
        if max(found, default=-1) >= number:
            return
        time.sleep(0.05)
    raise TimeoutError(f"{folder.name} has not come to sum {number}")


if __name__ == "__main__":
    given = Order(**json.loads(sys.argv[1]))
    try:
        found = take_part(given)
        (Path(given.folder) / f"{given.name}.json").write_text(json.dumps(found))
    except BaseException:  # noqa: BLE001 - whatever it was, it is printed
        traceback.print_exc()
        sys.stderr.flush()
        # FLARE's threads would keep a process alive whose member is dead.
        os._exit(1)
    os._exit(0)
