"""What a person answers in all collections of a memory is within ε, for one charge, whenever a fit is killed.

Planted bugs: fresh noise in each collection, an answer kept by value, a memory that forgets what was released, a batch that is written after
the ledger's entry, and a ledger that does not know the memory.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.audit import distinguish
from sudare.errors import DataError, NotCharged
from sudare.perturbation import RecordPerturbation
from sudare.perturbation import record_perturbation as fits
from sudare.perturbation.answer_memory import AnswerMemory, MemoryFile
from sudare.privacy import Account, Ledger, Release
from sudare.privacy import ledger as ledger_room
from sudare.privacy import release as release_room
from tests.ledgers import fork, quick_folder
from tests.perturbation.answering import EPSILON, SCHEMA, account_in, collected, people, rows

LOW, HIGH = (0.0, "gas"), (100.0, "other")
PERSONS = 20_000
KEY = Ed25519PrivateKey.generate()


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as found:
        yield found


# What somebody sees of one person in two collections


def history_of_answers(history: tuple[Any, Any], count: int) -> Any:
    """A row for each person: what it answers in two collections, in which everybody has the values of the history."""
    with quick_folder() as folder:
        account, memory = account_in(folder), folder / "answers.memory"
        seen = [rows(collected(account, people(range(count), *values), memory)) for values in history]
        assert account.spent().epsilon == EPSILON
    return np.hstack(seen)


HISTORIES = [((LOW, LOW), (HIGH, HIGH)), ((LOW, HIGH), (HIGH, LOW)), ((LOW, LOW), (LOW, HIGH))]


@pytest.mark.parametrize("pair", HISTORIES)
def test_a_history_of_answers_is_within_epsilon(pair: Any) -> None:
    """20,000 persons a history are as many samples. The alarm is false once in a million runs."""
    audit = distinguish(history_of_answers, pair, EPSILON, PERSONS, batched=True)
    assert audit.holds, str(audit)
    if pair[0][0] != pair[1][0]:
        assert audit.tightness > 0.4, str(audit)


def fresh_noise(patch: pytest.MonkeyPatch) -> None:
    """Planted: nobody is found in the memory, so everybody is drawn anew, at one charge."""
    patch.setattr(AnswerMemory, "places", lambda _, tags: np.full(len(tags), -1))


def kept_by_value(patch: pytest.MonkeyPatch) -> None:
    """Planted: an answer is given again while the value stays, and drawn anew for another one."""
    answered = fits.answered
    before: list[Any] = []

    def by_value(rows: Any, plan: Any, memory: AnswerMemory, noise: Any) -> Any:
        age = rows.together()[0]
        is_as_before = bool(before) and bool((before[-1] == age).all())
        before.append(age)
        unknown = memory if is_as_before else AnswerMemory(memory.identity, memory.key)
        return answered(rows, plan, unknown, noise)

    patch.setattr(fits, "answered", by_value)


@pytest.mark.parametrize(("bug", "pair"), [(fresh_noise, HISTORIES[0]), (kept_by_value, HISTORIES[2])])
def test_planted_bugs_are_found(bug: Callable[[pytest.MonkeyPatch], None], pair: Any, monkeypatch: Any) -> None:
    bug(monkeypatch)
    audit = distinguish(history_of_answers, pair, EPSILON, PERSONS, batched=True)
    assert not audit.holds, str(audit)


# Killed at any point


def released_answers(folder: Path) -> list[Any]:
    """The rows of all releases that were written, in their order."""
    releases = sorted(folder.glob("*.sudare"))
    return [rows(Release.load(release, trusted=[KEY.public_key()]).model()) for release in releases]


def collect_and_release(folder: Path, number: int) -> None:
    """A collection of persons, of whom twenty are new, with values that no other has; and its release."""
    ledger = Ledger(folder / "ledger.db")
    account = ledger.account("people", 5.0, unit="person")
    table = people(range(20 * number), 10.0 * number)
    model: RecordPerturbation = collected(account, table, folder / "answers.memory")
    Release.of(model).save(folder / f"{number}-{os.getpid()}.sudare", key=KEY)


def killed_after(owner: Any, name: str) -> None:
    """From here on this process dies as soon as the method has done what it does."""
    does = getattr(owner, name)

    def does_and_dies(*given: Any, **named: Any) -> Any:
        does(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, does_and_dies)


POINTS = {
    "before the charge": lambda: killed_after(MemoryFile, "check_room"),
    "after the charge": lambda: killed_after(Account, "charge"),
    "after the draw": lambda: killed_after(fits, "answered"),
    "after the batch": lambda: killed_after(MemoryFile, "write"),
    "after the result": lambda: killed_after(ledger_room.Ledger, "_enter_result"),
    "after the entry of the release": lambda: killed_after(ledger_room.Ledger, "enter_release"),
    "after the release": lambda: killed_after(release_room, "write_new"),
}


def run_killed(folder: Path, number: int, prepare: Callable[[], None]) -> None:
    child = fork()
    if child == 0:
        try:
            prepare()
            collect_and_release(folder, number)
        finally:
            os._exit(7)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it was to be killed"


def differences(found: list[Any]) -> int:
    """How many persons have two different answers in released files."""
    pairs = [(one[: len(other)], other[: len(one)]) for one in found for other in found]
    return max(int((one != other).any(axis=1).sum()) for one, other in pairs)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("earlier", [0, 1])
def test_killed_at_any_point_nobody_answers_twice_and_nothing_is_paid_twice(
    folder: Path, point: str, earlier: int
) -> None:
    for number in range(1, earlier + 1):
        collect_and_release(folder, number)
    run_killed(folder, earlier + 1, POINTS[point])
    # Once more the same, and one more collection.
    for number in (earlier + 1, earlier + 2):
        collect_and_release(folder, number)
    found = released_answers(folder)
    assert len(found) == earlier + 2 + (point == "after the release")
    assert differences(found) == 0
    account = Ledger(folder / "ledger.db").account("people")
    account.ledger.verify()
    assert account.spent().epsilon == EPSILON
    kinds = [entry.kind for entry in account.entries()]
    assert kinds.count("release") <= kinds.count("result") <= kinds.count("charge")


def forgotten_memory(patch: pytest.MonkeyPatch) -> None:
    """Planted: the batch is not kept, the ledger is not asked for its digest, and collections are numbered by chance."""
    slice_of, mark_of = fits.first_answers, fits.mark_of
    patch.setattr(MemoryFile, "write", lambda *_: None)
    patch.setattr(Account, "known_answers", lambda *_: "")
    patch.setattr(ledger_room, "step_body", lambda *_: {})
    patch.setattr(fits, "first_answers", lambda memory, _: slice_of(memory, secrets.randbelow(10**9)))
    patch.setattr(fits, "mark_of", lambda memory, *_: mark_of(memory, secrets.randbelow(10**9), []))


def test_a_memory_that_is_lost_at_a_kill_is_found(folder: Path, monkeypatch: Any) -> None:
    forgotten_memory(monkeypatch)
    run_killed(folder, 1, POINTS["after the release"])
    collect_and_release(folder, 1)
    assert differences(released_answers(folder)) > 0, "the check sees what it is for"
    assert Ledger(folder / "ledger.db").account("people").spent().epsilon == EPSILON


def test_a_batch_written_after_the_entry_would_be_missed_by_the_next_fit(folder: Path, monkeypatch: Any) -> None:
    """Planted: killed between the ledger's entry and the file, the ledger knows a memory that nobody has; the fit refuses instead of drawing anew."""

    def late() -> None:
        MemoryFile.write = lambda *_: None  # type: ignore[method-assign]
        killed_after(ledger_room.Ledger, "_enter_result")

    run_killed(folder, 1, late)
    with pytest.raises(DataError, match="older copy, or was changed"):
        collect_and_release(folder, 1)
    assert released_answers(folder) == []


def test_of_two_fits_that_begin_at_one_state_one_is_released(folder: Path, monkeypatch: Any) -> None:
    """Two processes with a copy of the memory each, and one ledger: the second result is refused by the ledger, not by the file."""
    collect_and_release(folder, 1)
    shutil.copy(folder / "answers.memory", folder / "copy.memory")
    account = Ledger(folder / "ledger.db").account("people")
    answered = fits.answered

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr(fits, "answered", answered)
        collect_and_release(folder, 2)
        return answered(*given)

    monkeypatch.setattr(fits, "answered", overtaken)
    rival = RecordPerturbation(SCHEMA, epsilon=EPSILON, memory=folder / "copy.memory", shuffle=False, account=account)
    with pytest.raises(NotCharged, match="has paid for another result already"):
        rival.fit(people(range(40), 90.0))
    with pytest.raises(NotCharged):
        Release.of(rival)
    assert differences(released_answers(folder)) == 0
    with pytest.raises(DataError, match="older copy, or was changed"):
        collected(account, people(range(40)), folder / "copy.memory")
    collect_and_release(folder, 3)
    assert account.spent().epsilon == EPSILON


def test_an_older_memory_would_let_persons_answer_twice(folder: Path, monkeypatch: Any) -> None:
    """Planted: the ledger does not know the memory, so that an older copy is taken; with the ledger it is refused."""
    collect_and_release(folder, 1)
    shutil.copy(folder / "answers.memory", folder / "older")
    collect_and_release(folder, 2)
    shutil.copy(folder / "older", folder / "answers.memory")
    with pytest.raises(DataError, match="older copy, or was changed"):
        collect_and_release(folder, 3)
    older = AnswerMemory.of((folder / "older").read_bytes())
    monkeypatch.setattr(Account, "known_answers", lambda *_: older.digests()[-1])
    monkeypatch.setattr(ledger_room, "step_body", lambda _, step, __: {"answers": dict(vars(step))} if step else {})
    monkeypatch.setattr(Account, "receipt_of", lambda *_: None)
    collect_and_release(folder, 3)
    assert differences(released_answers(folder)) > 0
