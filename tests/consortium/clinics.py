"""Three clinics with made-up patients in folders of their own, an agreement that all have signed, and nodes for them."""

from __future__ import annotations

import io
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from sudare.consortium import (
    Agreement,
    Budget,
    Deadlines,
    Identity,
    Member,
    MemberEntry,
    Relay,
    Statements,
    Sums,
    Task,
)
from sudare.consortium.agreement.member_settings import new_member_file
from sudare.consortium.event_log import EventLog
from sudare.consortium.node import Node
from sudare.schema import Category, Label, Number, Schema
from tests.consortium.local_transport import LocalHub

NAMES = ("east", "north", "west")
# Made once and never written: opening an encrypted key takes a second, on purpose.
IDENTITIES = {name: Identity.generated() for name in NAMES}
SCHEMA = Schema(
    {
        "age": Number(0.0, 100.0),
        "pressure": Number(80.0, 200.0),
        "smoker": Category(("no", "yes")),
        "ill": Label((0, 1)),
    }
)


def patients(seed: int, rows: int = 400) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    age, pressure = draw.uniform(20, 90, rows), draw.normal(130, 18, rows).clip(80, 200)
    smoker = draw.random(rows) < 0.3
    score = 0.08 * (age - 55) + 0.04 * (pressure - 130) + 1.0 * smoker
    ill = (score + draw.logistic(size=rows) > 0.3).astype(int)
    smokers = np.where(smoker, "yes", "no")
    return pd.DataFrame({"age": age, "pressure": pressure, "smoker": smokers, "ill": ill})


def founded(
    folder: Path,
    *tasks: Task,
    threshold: int | None = None,
    deadlines: Deadlines | None = None,
    names: tuple[str, ...] = NAMES,
    approval: frozenset[str] = frozenset(),
    schema: Schema = SCHEMA,
    tables: list[pd.DataFrame] | None = None,
    relay: Identity | None = None,
) -> list[Member]:
    """Members whose files stand in folder/NAME, under one agreement that is in force. With a `relay` it collects, and one of three may leave."""
    path = folder / "agreement.toml"
    given = Deadlines(30.0, 300.0) if deadlines is None else deadlines
    sums = Sums(threshold=threshold) if relay is None else Sums(threshold=2, dishonest=0, collector="relay")
    collector = None if relay is None else Relay(relay.public_key.hex())
    agreement = Agreement("clinics", schema, tasks=tasks, sums=sums, deadlines=given, relay=collector)
    for number, name in enumerate(names):
        home = folder / name
        home.mkdir()
        (patients(number) if tables is None else tables[number]).to_csv(home / "patients.csv", index=False)
        files = {"agreement": "../agreement.toml", "key": "key.pem", "ledger": "ledger.db"}
        new_member_file(home / "member.toml", {"name": name, **files, "data": {"source": "patients.csv"}})
        agreement = agreement.with_member(MemberEntry(name, IDENTITIES[name].public_key.hex(), Budget(10.0, 1e-5)))
    agreement.save(path)
    statements = Statements()
    for name in names:
        statements = statements.signed(agreement, name, IDENTITIES[name])
    statements.save(path)
    members = [Member.load(folder / name / "member.toml") for name in names]
    return [replace(member, policy=replace(member.policy, approval=approval)) for member in members]


def node_of(member: Member, hub: LocalHub, log: io.StringIO | None = None) -> Node:
    lines = EventLog(io.StringIO() if log is None else log, member.name)
    return Node(member, IDENTITIES[member.name], hub.join(member.name), lines)


def run_together(nodes: list[Node], tasks: list[str], most_seconds: float = 120.0) -> None:
    """Every node in a thread of its own, until the tasks are over."""
    errors: list[BaseException] = []

    def work(node: Node) -> None:
        try:
            assert node.run(tasks, most_seconds=most_seconds)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)
        finally:
            node.transport.close()

    threads = [threading.Thread(target=work, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
