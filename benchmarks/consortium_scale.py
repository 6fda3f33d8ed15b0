"""A relay and S members in processes of their own on this machine: how long until all are present, and what that and waiting cost.

    python -m benchmarks.consortium_scale [--members 4 8 16 24 32 64] [--idle-seconds 60] [--most-seconds 600] [--label NAME]

Each member is a `sudare node`, started as an operator would: its own folder, encrypted key, ledger and certificates. All are started at
once, and the clock runs from the last start until every member has logged that every other is there. Then nobody does anything for a while,
which is measured too, and then one task with a sum is run. What is found is kept in `consortium_scale.json` under the label, by the number
of members, and written as a table into docs/scale.md. Processor seconds are the measure to compare; seconds by the clock depend on what else runs, so the load stands beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

from benchmarks.page_parts import write_part
from sudare.consortium import Agreement, Budget, Deadlines, Identity, LearningTask, Member, MemberEntry, Statements
from sudare.consortium.agreement.member_settings import new_member_file
from sudare.consortium.network.transport.certificates import write_kits
from sudare.consortium.node_control_files import ask_running_node, states_of
from sudare.schema import Label, Number, Schema

FILE = Path(__file__).with_suffix(".json")
PAGE = FILE.parent.parent / "docs" / "scale.md"
SCHEMA = Schema({"age": Number(0.0, 100.0), "pressure": Number(80.0, 200.0), "ill": Label((0, 1))})
PASSPHRASE = "only for this benchmark"
TASK = LearningTask("risk", "one-sum", 1.0)
BUDGET = Budget(10.0, 1e-5)
SETTLE_SECONDS = 20.0
LOOK_SECONDS = 0.25


def names_of(members: int) -> list[str]:
    """The members' names."""
    return [f"site-{position:02d}" for position in range(members)]


def write_consortium(
    folder: Path,
    members: int,
    tasks: tuple[LearningTask, ...] = (TASK,),
    budget: Budget = BUDGET,
    deadlines: Deadlines | None = None,
) -> None:
    """An agreement that all have signed, a folder for every member, and certificates."""
    waits = Deadlines() if deadlines is None else deadlines
    agreement, identities = Agreement("scale", SCHEMA, tasks=tasks, deadlines=waits), {}
    for number, name in enumerate(names_of(members)):
        home = folder / name
        home.mkdir()
        draw = np.random.default_rng(number)
        rows = zip(draw.integers(20, 90, 200), draw.integers(90, 190, 200), draw.integers(0, 2, 200), strict=True)
        text = "\n".join(",".join(map(str, row)) for row in rows)
        (home / "patients.csv").write_text(f"age,pressure,ill\n{text}\n")
        identities[name] = Identity.generated()
        identities[name].save(home / "key.pem", PASSPHRASE.encode())
        files = {"agreement": "../agreement.toml", "key": "key.pem", "ledger": "ledger.db"}
        given = {"name": name, **files, "data": {"source": "patients.csv"}, "policy": {"approval": []}}
        new_member_file(home / "member.toml", given)
        agreement = agreement.with_member(MemberEntry(name, identities[name].public_key.hex(), budget))
    agreement.save(folder / "agreement.toml")
    statements = Statements()
    for name, identity in identities.items():
        statements = statements.signed(agreement, name, identity)
    statements.save(folder / "agreement.toml")
    write_kits(folder / "kits", "localhost", names_of(members))


def free_port() -> int:
    """A port of the loopback address at which nobody listens."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


class Consortium:
    """The processes, by name; the relay's is `relay`."""

    def __init__(self, folder: Path, members: int) -> None:
        self.folder, self.names = folder, names_of(members)
        self.processes: dict[str, psutil.Popen] = {}
        self._relay = f"localhost:{free_port()}"

    def start_relay(self) -> None:
        """Start the relay, and wait until it listens."""
        self._start("relay", "relay", "--kit", "kits/relay", "--listen", self._relay)
        host, _, port = self._relay.partition(":")
        while True:
            try:
                socket.create_connection((host, int(port)), 1.0).close()
                return
            except OSError:
                self.check_alive()
                time.sleep(LOOK_SECONDS)

    def start_members(self) -> None:
        """Start all members, one right after the other."""
        for name in self.names:
            self.start_member(name)

    def start_member(self, name: str) -> None:
        """Start one member, the first time or again."""
        own = ("--member", f"{name}/member.toml", "--kit", f"kits/{name}", "--relay", self._relay)
        self._start(name, "node", *own, "--log", f"{name}.events")

    def kill(self, name: str) -> None:
        """End one process without a word to it, and wait until it is gone."""
        self.processes[name].kill()
        self.processes[name].wait()

    def _start(self, name: str, *words: str) -> None:
        program = [sys.executable, "-c", "from sudare.cli.main import app; app()", *words]
        surroundings = {**os.environ, "SUDARE_PASSPHRASE": PASSPHRASE, "no_grpc_proxy": "localhost"}
        surroundings |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = psutil.Popen(program, cwd=self.folder, stdout=log, stderr=log, env=surroundings)

    def present_since(self) -> float | None:
        """When the last member came to see all others, as seconds since 1970; None if one does not see them yet."""
        times = [present_since(self.folder / f"{name}.events", len(self.names) - 1) for name in self.names]
        found = [at for at in times if at is not None]
        return max(found) if len(found) == len(times) else None

    def processor_seconds(self) -> dict[str, float]:
        """What each process has used so far."""
        return {name: sum(process.cpu_times()[:2]) for name, process in self.processes.items()}

    def check_alive(self) -> None:
        """Raise RuntimeError with what a process said last, if one has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"{name} has ended: {(self.folder / f'{name}.log').read_text()[-2000:]}")

    def end(self) -> None:
        """End all that was started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self.processes.values():
                if process.poll() is None:
                    process.send_signal(number)
            psutil.wait_procs(list(self.processes.values()), timeout=20.0)


def present_since(events: Path, others: int) -> float | None:
    """Since when a member's log says that so many others are there; None if it does not."""
    present: set[str] = set()
    since = None
    for line in events.read_text().splitlines() if events.exists() else []:
        event = json.loads(line)
        if event["event"] == "connected":
            present.add(event["peer"])
        elif event["event"] == "disconnected":
            present.discard(event["peer"])
        else:
            continue
        since = datetime.fromisoformat(event["time"]).timestamp() if len(present) == others else None
    return since


def loopback_bytes() -> int:
    """All that has gone over the loopback device, headers of TCP and IP included."""
    return psutil.net_io_counters(pernic=True)["lo"].bytes_sent


def memory(process: psutil.Popen) -> dict[str, float]:
    """Resident megabytes of a process: now, and at the most."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    found = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith(("VmRSS", "VmHWM"))}
    return {"resident_mb": found["VmRSS"] / 1e3, "peak_mb": found["VmHWM"] / 1e3}


def measured(members: int, idle_seconds: float, most_seconds: float) -> dict[str, Any]:
    """Everything about one number of members."""
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)
        write_consortium(folder, members)
        consortium = Consortium(folder, members)
        stack.callback(consortium.end)
        consortium.start_relay()
        load_before = os.getloadavg()[0]
        consortium.start_members()
        found: dict[str, Any] = {"load_before": load_before, **present_after(consortium, time.time(), most_seconds)}
        found |= resources(consortium)
        if found["present_seconds"] is not None:
            time.sleep(SETTLE_SECONDS)
            found |= idle(consortium, idle_seconds)
            found |= first_task(consortium, most_seconds)
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()}


def present_after(consortium: Consortium, started_at: float, most_seconds: float) -> dict[str, Any]:
    """Seconds from the last start until all see all, or None."""
    while (since := consortium.present_since()) is None and time.time() < started_at + most_seconds:
        consortium.check_alive()
        time.sleep(LOOK_SECONDS)
    return {"present_seconds": None if since is None else since - started_at, "load_then": os.getloadavg()[0]}


def resources(consortium: Consortium) -> dict[str, Any]:
    """What start-up took at members and relay."""
    used = consortium.processor_seconds()
    of_members = [used[name] for name in consortium.names]
    memories = [memory(consortium.processes[name]) for name in consortium.names]
    return {
        "member_processor_seconds": median(of_members),
        "most_member_processor_seconds": max(of_members),
        "relay_processor_seconds_a_member": used["relay"] / len(consortium.names),
        "member_resident_mb": median(each["resident_mb"] for each in memories),
        "member_peak_mb": max(each["peak_mb"] for each in memories),
        "relay_peak_mb": memory(consortium.processes["relay"])["peak_mb"],
    }


def idle(consortium: Consortium, seconds: float) -> dict[str, Any]:
    """What waiting costs a member: its processor, and its traffic in both directions."""
    used, sent, began = consortium.processor_seconds(), loopback_bytes(), time.monotonic()
    time.sleep(seconds)
    later, passed = consortium.processor_seconds(), time.monotonic() - began
    of_members = [100.0 * (later[name] - used[name]) / passed for name in consortium.names]
    return {
        "idle_member_percent": median(of_members),
        "idle_relay_percent": 100.0 * (later["relay"] - used["relay"]) / passed,
        "idle_bytes_a_second": (loopback_bytes() - sent) / passed / len(consortium.names),
    }


def first_task(consortium: Consortium, most_seconds: float) -> dict[str, Any]:
    """Seconds until the first task has ended at every member, asked for at one of them, and what it took."""
    members = [Member.load(consortium.folder / name / "member.toml") for name in consortium.names]
    used, began = consortium.processor_seconds(), time.monotonic()
    ask_running_node(members[0], TASK.name, withdraw=False)
    states: set[str] = set()
    while states != {"finished"} and time.monotonic() < began + most_seconds:
        consortium.check_alive()
        time.sleep(LOOK_SECONDS)
        states = {states_of(member).get(TASK.name, {"state": "asked for"})["state"] for member in members}
        if "failed" in states:
            break
    later, passed = consortium.processor_seconds(), time.monotonic() - began
    return {
        "task_seconds": passed if states == {"finished"} else None,
        "task_member_processor_seconds": median(later[name] - used[name] for name in consortium.names),
        "task_relay_processor_seconds_a_member": (later["relay"] - used["relay"]) / len(consortium.names),
    }


def table(kept: dict[str, dict[str, dict[str, Any]]]) -> str:
    """All that was measured, a row for each label and number of members."""
    head = "members | code | all present after | load | processor, a member | processor at the relay, a member | memory, a member | waiting: processor | waiting: traffic | first task"
    lines = [f"| {head} |", "| ---: | --- |" + " ---: |" * 8]
    rows = ((int(members), label, found) for label, by_members in kept.items() for members, found in by_members.items())
    for members, label, found in sorted(rows, key=lambda row: (row[0], row[1])):
        seconds = found["present_seconds"]
        cells = [
            str(members),
            label,
            "not in time" if seconds is None else f"{seconds:.0f} s",
            f"{found['load_then']:.0f}",
            f"{found['member_processor_seconds']:.1f} s",
            f"{found['relay_processor_seconds_a_member']:.2f} s",
            f"{found['member_resident_mb']:.0f} MB",
            f"{found['idle_member_percent']:.1f} %" if seconds is not None else "",
            f"{found['idle_bytes_a_second'] / 1e3:.1f} kB/s" if seconds is not None else "",
            f"{found['task_seconds']:.0f} s" if found.get("task_seconds") is not None else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print a line for each number of members, and keep what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.consortium_scale")
    parser.add_argument("--members", type=int, nargs="+", default=[4, 8, 16, 24, 32, 64])
    parser.add_argument("--idle-seconds", type=float, default=60.0)
    parser.add_argument("--most-seconds", type=float, default=600.0)
    parser.add_argument("--label", default="now")
    asked = parser.parse_args()
    for members in asked.members:
        found = measured(members, asked.idle_seconds, asked.most_seconds)
        print(json.dumps({"members": members, **found}), flush=True)
        kept = json.loads(FILE.read_text()) if FILE.exists() else {}
        kept.setdefault(asked.label, {})[str(members)] = found
        FILE.write_text(json.dumps(kept, indent=1) + "\n")
        write_part(PAGE, "members that start and wait", table(kept))


if __name__ == "__main__":
    main()
