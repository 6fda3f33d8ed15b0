"""Crowds and kills, in a process of their own: it imports sudare once and forks workers that race or are killed.

Run as `python -m tests.faults.harness JSON` with a list of tasks, it prints what was seen in each and a list of problems,
which must be empty. The tests in this folder run it and look at the answers.
"""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.errors import BudgetExceeded, SudareError
from sudare.privacy.accounting import pure_cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account, Ledger
from sudare.privacy.ledger_chain import Receipt
from sudare.privacy.release import Release
from sudare.statistics import PrivateMean

ROOT = Path(__file__).parents[2]
Acknowledge = Callable[..., None]
# Kills before a new ledger is begun: checking stays quick, and the budget runs out on the way.
KILLS_PER_LEDGER = {"create": 1, "charge": 20, "release": 20}
# Workers are killed within so many times what one act takes.
ACTS_BEFORE_KILL = {"create": 1.5, "charge": 4.0, "release": 3.0}


def harness(*tasks: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers of a harness process, which is a fresh one: forking is safe where there are no threads."""
    command = [sys.executable, "-m", "tests.faults.harness", json.dumps(tasks)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    answers: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answers


def forked(work: Callable[[Acknowledge], None], answers: Path) -> int:
    """The process id of a child that works; every acknowledgement is on file before `acknowledge` returns."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        file = os.open(answers, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

        def acknowledge(kind: str, **values: Any) -> None:
            os.write(file, (json.dumps({"kind": kind, **values}) + "\n").encode())

        try:
            work(acknowledge)
            status = 0
        except BaseException as error:  # noqa: BLE001 (whatever it is, the parent must hear of it)
            acknowledge("error", text=repr(error))
    finally:
        os._exit(status)


def answered(answers: Path) -> list[dict[str, Any]]:
    """All whole lines; a worker that was killed while it wrote acknowledged nothing."""
    if not answers.exists():
        return []
    return [json.loads(line) for line in answers.read_text().splitlines(keepends=True) if line.endswith("\n")]


def charged(account: Account, epsilon: float) -> Receipt:
    return account.charge(Guarantee(epsilon), pure_cost(epsilon), "a worker").receipt


# Racing


def race(address: str, processes: int, charges: int, budget: float, epsilon: float) -> dict[str, Any]:
    """Everybody creates the ledger, opens the account and charges, all at once, until the budget is gone."""
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers"
        start = Path(folder) / "start"

        def work(acknowledge: Acknowledge) -> None:
            while not start.exists():
                time.sleep(0.001)
            account = Ledger(address).account("crowd", epsilon=budget)
            longest = 0.0
            for _ in range(charges):
                began = time.monotonic()
                try:
                    acknowledge("charge", **charged(account, epsilon).to_dict())
                except BudgetExceeded:
                    acknowledge("refused")
                longest = max(longest, time.monotonic() - began)
            acknowledge("done", longest=longest)

        children = [forked(work, answers) for _ in range(processes)]
        began = time.monotonic()
        start.touch()
        for child in children:
            os.waitpid(child, 0)
        seconds = time.monotonic() - began
        found = answered(answers)
    ledger = Ledger(address, create=False)
    account = ledger.account("crowd")
    receipts = receipts_in(found)
    kinds = collections.Counter(answer["kind"] for answer in found)
    return {
        "acknowledged": len(receipts),
        "refused": kinds["refused"],
        "done": kinds["done"],
        "entries": len([entry for entry in account.entries() if entry.kind == "charge"]),
        "verified": ledger.verify(receipts).position,
        "positions": len({receipt.position for receipt in receipts}),
        "spent": account.spent().epsilon,
        "problems": [answer["text"] for answer in found if answer["kind"] == "error"],
        "seconds": round(seconds, 3),
        "longest_wait_seconds": round(max((answer.get("longest", 0.0) for answer in found), default=0.0), 3),
    }


def receipts_in(found: list[dict[str, Any]]) -> list[Receipt]:
    return [
        Receipt(answer["ledger"], answer["position"], answer["hash"], answer["account"])
        for answer in found
        if answer["kind"] == "charge"
    ]


# Killing

TABLE = np.linspace(0.0, 1.0, 20).reshape(10, 2)
BUDGET, EPSILON = 0.2, 0.01


def act(kind: str, address: str, account: Account | None, releases: Path, key: Ed25519PrivateKey) -> dict[str, Any]:
    """One act of a worker, and what it acknowledges when the act is done."""
    if account is None:
        created = Ledger(address).account("killed", epsilon=BUDGET)
        return {"kind": "opened", "ledger": created.ledger.identity}
    if kind == "charge":
        return {"kind": "charge", **charged(account, EPSILON).to_dict()}
    model = PrivateMean(epsilon=EPSILON, bounds=(0.0, 1.0), account=account).fit(TABLE)
    name = f"{uuid.uuid4().hex}.sudare"
    Release.of(model).save(releases / name, key)
    assert model.receipt_ is not None
    return {"kind": "charge", **model.receipt_.to_dict(), "name": name}


class Killing:
    """One ledger after the other, and workers on them that are killed at random moments."""

    def __init__(self, kind: str, folder: Path, server: str | None, seed: int) -> None:
        self.kind = kind
        self.folder = folder
        self.server = server
        self.random = random.Random(seed)
        self.key = Ed25519PrivateKey.generate()
        self.seen: collections.Counter[str] = collections.Counter()
        self.problems: list[str] = []
        self.act_seconds = self.measured()

    def place(self) -> tuple[str, Path]:
        place = self.folder / uuid.uuid4().hex
        place.mkdir()
        return self.server or str(place / "ledger.db"), place

    def account(self, address: str) -> Account | None:
        return None if self.kind == "create" else Ledger(address).account("killed", epsilon=BUDGET)

    def measured(self) -> float:
        """Seconds that one act takes here and now."""
        seconds = []
        for _ in range(3):
            address, place = self.place()
            address = address if self.server is None else str(place / "ledger.db")
            account = self.account(address)
            began = time.monotonic()
            act(self.kind, address, account, place, self.key)
            seconds.append(time.monotonic() - began)
        return sorted(seconds)[1]

    def run(self, kills: int) -> dict[str, Any]:
        done = 0
        while done < kills:
            address, place = self.place()
            account = self.account(address)
            for _ in range(min(KILLS_PER_LEDGER[self.kind], kills - done)):
                self.kill_one(address, account, place)
                done += 1
                self.check(address, place)
        return {"kills": done, **self.seen, "act_seconds": self.act_seconds, "problems": self.problems}

    def kill_one(self, address: str, account: Account | None, place: Path) -> None:
        started, start = os.pipe()

        def work(acknowledge: Acknowledge) -> None:
            os.write(start, b"!")
            while True:
                try:
                    acknowledge(**act(self.kind, address, account, place, self.key))
                except BudgetExceeded:
                    acknowledge("refused")
                    time.sleep(0.001)

        child = forked(work, place / "answers")
        os.read(started, 1)
        time.sleep(self.random.uniform(0, ACTS_BEFORE_KILL[self.kind] * self.act_seconds))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        self.seen["killed"] += os.WIFSIGNALED(status)
        os.close(started)
        os.close(start)

    def check(self, address: str, place: Path) -> None:
        """Everything that must hold whenever a worker may have been killed."""
        found = answered(place / "answers")
        self.problems += [answer["text"] for answer in found if answer["kind"] == "error"]
        try:
            self.check_file(place)
            self.check_ledger(address, found)
            if self.kind == "release":
                self.check_releases(address, place, found)
        except SudareError as error:
            self.problems.append(repr(error))

    def check_file(self, place: Path) -> None:
        if self.server is not None or not (place / "ledger.db").exists():
            return
        self.seen["journals left behind"] += (place / "ledger.db-journal").exists()
        connection = sqlite3.connect(place / "ledger.db")
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            self.problems.append("integrity_check failed")
        connection.close()

    def check_ledger(self, address: str, found: list[dict[str, Any]]) -> None:
        ledger = Ledger(address)
        identities = {answer["ledger"] for answer in found if "ledger" in answer}
        if identities - {ledger.identity}:
            self.problems.append("a ledger that was in use was replaced by another")
        receipts = receipts_in(found)
        ledger.verify(receipts)
        account = ledger.account("killed", epsilon=BUDGET)
        entries = [entry for entry in account.entries() if entry.kind == "charge"]
        if account.spent().epsilon > BUDGET or len(entries) > round(BUDGET / EPSILON):
            self.problems.append(f"spent {account.spent()} of {BUDGET}")
        if not {receipt.position for receipt in receipts} <= {entry.position for entry in entries}:
            self.problems.append("an acknowledged charge is not in the ledger")
        kinds = collections.Counter(answer["kind"] for answer in found)
        self.most("charges in a ledger", len(entries))
        self.most("charges that were not acknowledged", len(entries) - kinds["charge"])
        self.most("refusals", kinds["refused"])

    def most(self, name: str, count: int) -> None:
        self.seen[name] = max(self.seen[name], count)

    def check_releases(self, address: str, place: Path, found: list[dict[str, Any]]) -> None:
        ledger = Ledger(address, create=False)
        released = {
            (entry.body["charge"], entry.body["content"]) for entry in ledger.entries() if entry.kind == "release"
        }
        files = sorted(place.glob("*.sudare"))
        for file in files:
            release = Release.load(file, trusted=[self.key.public_key()])
            if not ledger.contains(release.receipt):
                self.problems.append("a release whose charge is not in the ledger")
            if (release.receipt.position, release.content.digest()) not in released:
                self.problems.append("a release that is not in the ledger")
        names = {answer["name"] for answer in found if "name" in answer}
        if not names <= {file.name for file in files}:
            self.problems.append("an acknowledged release is not there")
        self.most("releases in a folder", len(files))
        known = {"ledger.db", "ledger.db-journal", "answers"}
        strays = [path.name for path in place.iterdir() if path.name not in known and path.suffix != ".sudare"]
        self.most("parts of files left behind", len(strays))
        self.problems += [f"a stray file {name}" for name in strays if not name.startswith(".sudare-")]


def kill(kind: str, kills: int, folder: str, server: str | None = None, seed: int | None = None) -> dict[str, Any]:
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    return {"seed": seed, **Killing(kind, Path(folder), server, seed).run(kills)}


if __name__ == "__main__":
    actions: dict[str, Callable[..., dict[str, Any]]] = {"race": race, "kill": kill}
    print(json.dumps([actions[task.pop("task")](**task) for task in json.loads(sys.argv[1])]))
