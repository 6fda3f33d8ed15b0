"""A memory of first answers: what it gives again, what it refuses, and that files that lie are not taken."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.base import clone

from sudare.errors import (
    BudgetExceeded,
    DataError,
    IdentityError,
    InvalidParameter,
    RelationMismatch,
    ReleaseMalformed,
    SeededNoiseRefused,
    SudareError,
)
from sudare.frames import PersonJoin
from sudare.frames.databases import SqlSource
from sudare.perturbation import RecordPerturbation, answer_memory, record_perturbation
from sudare.perturbation.answer_memory import AnswerMemory, Batch, MemoryFile, has_repeats
from sudare.perturbation.release_format import Repeated
from sudare.privacy import Account, Ledger, Release
from sudare.privacy.ledger_restore import restored
from sudare.report import card_text
from sudare.schema import Category, Number, Person, Schema
from tests.ledgers import quick_folder
from tests.perturbation.answering import EPSILON, SCHEMA, account_in, collected, people, rows


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as found:
        yield found


@pytest.fixture
def account(folder: Path) -> Account:
    return account_in(folder)


@pytest.fixture
def memory(folder: Path) -> Path:
    return folder / "answers.memory"


# What is given again


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"one_column": True},
        {"methods": {"age": "laplace", "heating": "unary"}},
        {"methods": {"heating": "subset"}, "split": {"age": 3, "heating": 1}},
    ],
)
def test_persons_answer_as_before_whatever_their_values_are_and_pay_once(
    account: Account, memory: Path, changes: dict[str, Any]
) -> None:
    first = collected(account, people(range(300)), memory, **changes)
    second = collected(account, people(range(100, 500), 90.0, "other"), memory, **changes)
    third = collected(account, people(range(500), 0.0, "oil"), memory, **changes)
    assert np.array_equal(rows(first)[100:], rows(second)[:200])
    assert np.array_equal(rows(third)[:300], rows(first))
    assert np.array_equal(rows(third)[100:], rows(second))
    told = [model.repeated_ for model in (first, second, third)]
    assert [(each.collection, each.first) for each in told if each] == [(1, 300), (2, 200), (3, 0)]
    assert len({each.memory for each in told if each}) == 1
    assert account.spent().epsilon == EPSILON
    account.ledger.verify()


def test_who_answers_later_answers_about_what_holds_then(folder: Path, memory: Path) -> None:
    account = account_in(folder, 12.0)
    for ids, age in ((range(100), 10.0), (range(200), 90.0)):
        model = collected(account, people(ids, age), memory, epsilon=12.0)
    ages = model.table_.column("age")
    assert abs(np.median(ages[:100]) - 10) < 10
    assert abs(np.median(ages[100:]) - 90) < 10


def test_rows_in_a_random_order_are_the_same_rows(account: Account, memory: Path) -> None:
    plain = collected(account, people(range(200)), memory)
    shuffled = collected(account, people(range(200)), memory, shuffle=True)
    assert not np.array_equal(rows(plain), rows(shuffled))
    assert sorted(map(tuple, rows(plain))) == sorted(map(tuple, rows(shuffled)))


def test_persons_are_the_same_in_every_kind_of_source(account: Account, folder: Path, memory: Path) -> None:
    """Numbers and their texts, files, databases (whose rows wait under tags), and persons of whom rows are cut."""
    table = people(range(60))
    first = rows(collected(account, table, memory))
    table.to_csv(folder / "people.csv", index=False)
    table.to_parquet(folder / "people.parquet")
    engine = sqlalchemy.create_engine(f"sqlite:///{folder / 'people.db'}")
    table.to_sql("people", engine, index=False)
    twice = pd.concat([table, people(range(5))])
    sources: list[Any] = [
        table.assign(id=table["id"].astype(str)),
        pa.table(table),
        iter([table.iloc[:30], table.iloc[30:]]),
        twice,
        iter([twice]),
    ]
    for source in sources:
        assert np.array_equal(np.sort(rows(collected(account, source, memory)), axis=0), np.sort(first, axis=0))
    for place in ("people.csv", "people.parquet"):
        other = Ledger(folder / "ledger.db").account(place.replace(".", " "), 5.0, unit="person")
        own = folder / f"{place}.memory"
        assert np.array_equal(
            rows(collected(other, str(folder / place), own)), rows(collected(other, str(folder / place), own))
        )
    database = SqlSource(f"sqlite:///{folder / 'people.db'}", "people")
    other = Ledger(folder / "ledger.db").account("database", 5.0, unit="person")
    own = [rows(collected(other, database, folder / "db.memory")) for _ in range(2)]
    assert np.array_equal(np.sort(own[0], axis=0), np.sort(own[1], axis=0))
    assert account.spent().epsilon == EPSILON


def test_a_release_says_who_answered_and_what_is_not_protected(account: Account, folder: Path, memory: Path) -> None:
    key = Ed25519PrivateKey.generate()
    for number, count in ((1, 80), (2, 100)):
        model = collected(account, people(range(count)), memory, shuffle=True)
        Release.of(model).save(folder / f"{number}.sudare", key=key)
    loaded = Release.load(folder / "2.sudare", trusted=[key.public_key()])
    card = card_text(loaded.card())
    assert "20 of 100 persons answered for the first time" in card
    assert "links rows of one person" in card
    told = loaded.model()
    assert told.repeated_ == model.repeated_
    statement = told.statement()
    assert (statement.k, statement.central_epsilon) == (None, None)
    assert "found again" in str(statement)
    assert "not protected" in str(statement)
    assert told.table_.memory == model.table_.memory is not None
    for first, name in (
        (-1, "memory"),
        (101, "first"),
        (1.0, "first"),
        ("x", "memory"),
        (0, "collection"),
        (1, "collection"),
    ):
        parameters = dict(loaded.content.parameters)
        parameters["repeated"] = {**parameters["repeated"], name: first}
        with pytest.raises(ReleaseMalformed):
            RecordPerturbation.check_content(
                type(loaded.content)(parameters, loaded.content.tensors, loaded.content.grids), loaded.schema_digest
            )
    for wrong in (None, {}, "text", {**vars(Repeated("0" * 32, 2, 1)), "more": 1}):
        parameters["repeated"] = wrong
        with pytest.raises(ReleaseMalformed):
            RecordPerturbation.check_content(
                type(loaded.content)(parameters, loaded.content.tensors, loaded.content.grids), loaded.schema_digest
            )


def test_releases_without_a_memory_say_nothing_of_it(account: Account) -> None:
    model = RecordPerturbation(SCHEMA, epsilon=1.0, account=account).fit(people(range(50)))
    assert model.repeated_ is None
    assert "repeated" not in model.release_content().parameters


# What is refused, before the charge


def refused(account: Account, error: type[SudareError], match: str, fit: Callable[[], object]) -> None:
    entries = len(account.entries())
    with pytest.raises(error, match=match):
        fit()
    assert len(account.entries()) == entries


def test_other_questions_are_refused(account: Account, memory: Path) -> None:
    collected(account, people(range(50)), memory)
    columns = SCHEMA.columns
    wider = Schema({**columns, "age": Number(0, 120)}, SCHEMA.person)
    more = Schema({**columns, "heating": Category(("gas", "oil", "other", "wood"))}, SCHEMA.person)
    fewer = Schema({"age": columns["age"]}, SCHEMA.person, drop=("heating",))
    others: tuple[dict[str, Any], ...] = (
        {"schema": wider}, {"schema": more}, {"schema": fewer}, {"epsilon": 2.0}, {"epsilon": 0.5}, {"split": {"age": 2, "heating": 1}},
        {"methods": {"age": "laplace"}}, {"methods": {"heating": "unary"}}, {"one_column": True},
    )  # fmt: skip
    for changes in others:
        refused(
            account,
            InvalidParameter,
            "other questions",
            lambda changes=changes: collected(account, people(range(50)), memory, **changes),
        )  # type: ignore[misc]
    collected(account, people(range(50)), memory)


def test_older_edited_and_foreign_memories_are_refused(account: Account, folder: Path, memory: Path) -> None:
    def again() -> object:
        return collected(account, people(range(70)), memory)

    MemoryFile(memory).begun(b"k" * 32)
    shutil.copy(memory, folder / "empty")
    for number in (1, 2):
        collected(account, people(range(30 * number)), memory)
        shutil.copy(memory, folder / f"after {number}")
    for older in ("empty", "after 1"):
        shutil.copy(folder / older, memory)
        refused(account, DataError, "older copy, or was changed", again)
    content = (folder / "after 2").read_bytes()
    # The last answer, the last tag, and the place of a charge.
    entry = account.entries()[-1]
    edits = [content[:-1] + bytes([content[-1] ^ 1]), content[:-40] + bytes([content[-40] ^ 1]) + content[-39:]]
    edits.append(content.replace(b'"people"', b'"peopla"', 1))
    assert entry.kind == "result"
    for edited in edits:
        memory.write_bytes(edited)
        refused(account, DataError, "older copy, or was changed", again)
    shutil.copy(folder / "after 2", memory)
    neighbour = account_in(folder, name="neighbours")
    refused(
        neighbour,
        DataError,
        "another account or another ledger",
        lambda: collected(neighbour, people(range(9)), memory),
    )
    with quick_folder() as elsewhere:
        other = account_in(elsewhere)
        refused(
            other, DataError, "another account or another ledger", lambda: collected(other, people(range(9)), memory)
        )
    again()
    assert account.spent().epsilon == EPSILON
    # A new memory is charged beside the old one.
    collected(account, people(range(70)), folder / "new.memory")
    assert account.spent().epsilon == 2 * EPSILON


def test_a_memory_that_is_ahead_of_an_older_ledger_is_refused(folder: Path, memory: Path) -> None:
    account = account_in(folder)
    collected(account, people(range(10)), memory)
    account.ledger.backup(folder / "older.db")
    collected(account, people(range(20)), memory)
    older = Ledger(folder / "older.db").account("people")
    refused(older, DataError, "the ledger is an older copy", lambda: collected(older, people(range(30)), memory))


@pytest.mark.parametrize("keeps_batch", [False, True])
def test_a_restored_ledger_lets_nobody_answer_twice_for_one_charge(
    folder: Path, memory: Path, monkeypatch: Any, keeps_batch: bool
) -> None:
    """The backup has the second charge, and not its result, which has left: neither the charge nor the batch counts as those of a killed fit."""
    account = account_in(folder, EPSILON)
    collected(account, people(range(10)), memory)
    older = folder / "older.memory"
    shutil.copy(memory, older)
    answered = record_perturbation.answered

    def backed_up(*given: Any) -> Any:
        account.ledger.backup(folder / "older.db")
        return answered(*given)

    with monkeypatch.context() as patched:
        patched.setattr(record_perturbation, "answered", backed_up)
        collected(account, people(range(20)), memory)
    copy = Ledger(folder / "older.db")
    restored(copy, [], [], "The disk was lost.")
    again = copy.account("people")
    if keeps_batch:
        refused(again, DataError, "the ledger is an older copy", lambda: collected(again, people(range(20)), memory))
    else:
        refused(again, BudgetExceeded, "asks for", lambda: collected(again, people(range(20)), older))
        copy.raise_budget("people", epsilon=2 * EPSILON, reason="Asked anew.")
        collected(again, people(range(20)), older)
        assert again.spent().epsilon == 2 * EPSILON
        copy.verify()


@pytest.mark.parametrize("keeps_batch", [False, True])
def test_a_restored_ledger_goes_on_with_no_charge_whose_result_may_have_left(
    folder: Path, memory: Path, monkeypatch: Any, keeps_batch: bool
) -> None:
    """The receipts of all releases are known, and the backup has their charges; the second result it lacks, and that has left."""
    account = account_in(folder, EPSILON)
    known = [Release.of(collected(account, people(range(10)), memory)).receipt]
    older = folder / "older.memory"
    shutil.copy(memory, older)
    answered = record_perturbation.answered

    def backed_up(*given: Any) -> Any:
        account.ledger.backup(folder / "older.db")
        return answered(*given)

    with monkeypatch.context() as patched:
        patched.setattr(record_perturbation, "answered", backed_up)
        known.append(Release.of(collected(account, people(range(20)), memory)).receipt)
    copy = Ledger(folder / "older.db")
    copy.account("others", 1.0)
    done = restored(copy, [], known, "The disk was lost.")
    assert (done.lost, done.closed) == ((), ("people",))
    again = copy.account("people")
    error, match = (DataError, "the ledger is an older copy") if keeps_batch else (BudgetExceeded, "asks for")
    refused(again, error, match, lambda: collected(again, people(range(20)), memory if keeps_batch else older))
    assert restored(copy, [], known, "Once more.").closed == ()
    copy.verify(known)


def test_a_join_whose_persons_have_other_tags_each_time_is_refused(account: Account, memory: Path) -> None:
    """Everybody would be new in every collection, and answer again for the charge of one."""
    table = people(range(20))

    def joined() -> PersonJoin:
        return PersonJoin(table[["id", "age"]], table[["id", "heating"]], SCHEMA, (1, 1))

    model = RecordPerturbation(SCHEMA, epsilon=EPSILON, memory=memory, account=account)
    for ask in (model.fit, model.price, model.dry_run):
        refused(account, InvalidParameter, "under their own names", lambda ask=ask: ask(joined()))  # type: ignore[misc]
    assert not memory.exists()
    assert RecordPerturbation(SCHEMA, epsilon=EPSILON).fit(joined()).n_rows_ == 20


def test_what_a_memory_cannot_be_used_with_is_refused(account: Account, folder: Path, memory: Path) -> None:
    table = people(range(20))
    without = Schema(dict(SCHEMA.columns), drop=("id",))
    cases: tuple[tuple[type[SudareError], str, dict[str, Any]], ...] = (
        (InvalidParameter, "depends on the number of rows", {"epsilon": None, "k": 2}),
        (InvalidParameter, "depends on the number of rows", {"n_records": 10}),
        (InvalidParameter, "who they are", {"schema": without}),
        (InvalidParameter, "who they are", {"schema": Schema(dict(SCHEMA.columns), Person("id", 2))}),
        (InvalidParameter, "who they are", {"schema": Schema(dict(SCHEMA.columns), Person("id", "auto", 3))}),
        (SeededNoiseRefused, "account and a random_state", {"random_state": 0}),
    )  # fmt: skip
    for error, match, changes in cases:
        refused(account, error, match, lambda changes=changes: collected(account, table, memory, **changes))  # type: ignore[misc]
    with pytest.raises(InvalidParameter, match="path of a file"):
        RecordPerturbation(SCHEMA, epsilon=1.0, memory=7, account=account).fit(table)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="must have been charged"):
        RecordPerturbation(SCHEMA, epsilon=1.0, memory=memory).fit(table)
    records = Ledger(folder / "ledger.db").account("records", 5.0)
    refused(records, RelationMismatch, "protects records", lambda: collected(records, table, memory))
    poor = account_in(folder, 0.5, "poor")
    refused(poor, BudgetExceeded, "asks for", lambda: collected(poor, table, memory))


def test_files_that_cannot_be_used_are_refused(account: Account, folder: Path, memory: Path, monkeypatch: Any) -> None:
    table = people(range(20))
    refused(account, InvalidParameter, "cannot be used", lambda: collected(account, table, folder / "none" / "m"))
    refused(account, InvalidParameter, "cannot be used", lambda: collected(account, table, Path("a" * 300)))
    refused(account, IdentityError, "is not a file", lambda: collected(account, table, folder))
    collected(account, table, memory)
    assert memory.stat().st_mode & 0o777 == 0o600
    memory.chmod(0o640)
    refused(account, IdentityError, "open to others", lambda: collected(account, table, memory))
    memory.chmod(0o600)
    with MemoryFile(memory).alone():
        refused(account, DataError, "in use by another fit", lambda: collected(account, table, memory))

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr(answer_memory, "space_kept", full)
        refused(account, InvalidParameter, "cannot be used", lambda: collected(account, table, memory))
    with monkeypatch.context() as patched:
        patched.setattr(answer_memory, "write_new", full)
        refused(account, InvalidParameter, "cannot be used", lambda: collected(account, table, folder / "other"))
    with monkeypatch.context() as patched:
        patched.setattr(MemoryFile, "read", lambda _: None)
        refused(account, InvalidParameter, "cannot be used", lambda: collected(account, table, memory))
    with monkeypatch.context() as patched:
        read = MemoryFile.read
        answers = iter([None])
        patched.setattr(MemoryFile, "read", lambda file: next(answers) if answers.__length_hint__() else read(file))
        refused(account, DataError, "replaced meanwhile", lambda: collected(account, table, memory))


def test_a_full_disk_after_the_charge_is_gone_on_with(account: Account, memory: Path, monkeypatch: Any) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr(answer_memory, "write_atomically", full)
        with pytest.raises(DataError, match="cannot be written"):
            collected(account, people(range(20)), memory)
    assert account.spent().epsilon == EPSILON
    model = collected(account, people(range(20)), memory)
    assert model.repeated_ is not None
    assert model.repeated_.first == 20
    assert [entry.kind for entry in account.entries()].count("charge") == 1


def test_a_source_with_a_person_twice_at_the_second_reading_is_refused(
    account: Account, memory: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("sudare.perturbation.two_pass_source.has_repeats", lambda _: True)
    with pytest.raises(DataError, match="other rows when it was read again"):
        collected(account, people(range(20)), memory)
    assert has_repeats(np.array([[1, 2], [1, 2]], np.uint64))
    assert not has_repeats(np.array([[1, 2], [2, 1]], np.uint64))


def test_persons_are_found_by_their_whole_tag() -> None:
    """Also where tags begin alike, or are the first or last of all."""
    words = np.array([0, 1, 7, 2**64 - 1], np.uint64)
    known = np.array([(one, other) for one in words[[2, 0, 3]] for other in words[[1, 3, 0]]], np.uint64)
    batches = tuple(
        Batch(1, "", part, np.empty((len(part), 1), np.uint8)) for part in (known[:4], known[4:4], known[4:])
    )
    asked = np.array([(one, other) for one in words for other in words], np.uint64)
    expected = [next((place for place, tag in enumerate(known.tolist()) if tag == each), -1) for each in asked.tolist()]
    assert AnswerMemory("", b"", None, batches).places(asked).tolist() == expected
    assert AnswerMemory("", b"").places(asked).tolist() == [-1] * 16


@pytest.mark.parametrize("seed", range(3))
def test_files_that_lie_are_not_memories(account: Account, memory: Path, seed: int) -> None:
    """Every prefix, bytes that are changed anywhere, and bytes behind the end: refused, or another memory, and never another error."""
    collected(account, people(range(6)), memory)
    content = memory.read_bytes()
    true = AnswerMemory.of(content)
    rng = np.random.default_rng(seed)
    lies = [content[:end] for end in range(0, len(content), 7)] + [content + b"\0"]
    for place in rng.integers(0, len(content), 300):
        lies.append(content[:place] + bytes([rng.integers(256)]) + content[place + 1 :])
    for lie in lies:
        try:
            found = AnswerMemory.of(lie)
        except DataError:
            continue
        assert lie == content or found.identity != true.identity or found.digests() != true.digests()


# What stays with the owner


def test_a_dry_run_and_a_price_write_nothing(account: Account, memory: Path) -> None:
    table = people(range(40))
    model = RecordPerturbation(SCHEMA, epsilon=EPSILON, memory=memory, account=account)
    for _ in range(2):
        _, statement, _ = model.dry_run(table)
        assert statement.is_repeated
        assert statement.k is None
        assert model.price(table).asked.epsilon == EPSILON
    assert not memory.exists()
    model.fit(table)
    before = memory.read_bytes()
    poor = account.spent().epsilon
    assert model.price(table).admitted
    model.dry_run(table)
    assert (memory.read_bytes(), account.spent().epsilon) == (before, poor)


def test_no_copy_of_a_fit_has_the_key(account: Account, memory: Path) -> None:
    model = collected(account, people(range(40)), memory)
    key = AnswerMemory.of(memory.read_bytes()).key
    model.dry_run(people(range(10)))
    for kept in (pickle.dumps(model), repr(vars(model)).encode(), repr(vars(clone(model))).encode()):
        assert key not in kept
        assert key.hex().encode() not in kept
    assert key.hex() not in account.ledger.export()


def test_a_budget_of_one_epsilon_is_enough_for_ever(folder: Path, memory: Path) -> None:
    account = account_in(folder, EPSILON)
    for number in range(1, 8):
        collected(account, people(range(10 * number)), memory)
    assert account.remaining().epsilon == 0
    assert [where for where, _ in account.slices()] == [
        {"first answers": f"collection {number}"} for number in range(1, 8)
    ]
