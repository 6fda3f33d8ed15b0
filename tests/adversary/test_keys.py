"""Attacks on keys and other secrets: to read them, to put others in their place, and to find them in what is left lying about."""

from __future__ import annotations

import base64
import io
import logging
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from sudare.cli.keys import private_key
from sudare.consortium import Identity, Member, ModelsTask, ScalerTask, Task
from sudare.consortium.member import Data
from sudare.consortium.protocols import activity_of
from sudare.consortium.transport import LocalHub
from sudare.consortium.transport.certificates import kit_files, write_kits
from sudare.errors import IdentityError
from sudare.frames import SqlSource
from sudare.privacy import PrivateMean, Release
from tests.consortium.clinics import IDENTITIES, founded, node_of, patients, run_together

PASSPHRASE = "correct horse battery"
CLEAR, LOCKED = NoEncryption(), BestAvailableEncryption(PASSPHRASE.encode())


def written_key(folder: Path, encryption: KeySerializationEncryption, mode: int) -> Path:
    path = folder / "key.pem"
    path.write_bytes(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604, 0o622])
@pytest.mark.parametrize("encryption", [CLEAR, LOCKED], ids=["clear", "locked"])
def test_sign_with_a_key_that_everybody_on_the_machine_can_copy(
    mode: int, encryption: KeySerializationEncryption, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDARE_PASSPHRASE", PASSPHRASE)
    with pytest.raises(IdentityError, match="chmod 600"):
        private_key(written_key(tmp_path, encryption, mode))


def test_sign_with_a_copied_key_behind_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link.pem"
    link.symlink_to(written_key(tmp_path, CLEAR, 0o644))
    with pytest.raises(IdentityError, match="chmod 600"):
        private_key(link)


def test_read_a_members_key_as_one_of_its_group(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    Identity.generated().save(path, PASSPHRASE.encode())
    path.chmod(0o640)
    with pytest.raises(IdentityError, match="chmod 600"):
        Identity.load(path, PASSPHRASE.encode())


def test_put_another_key_in_the_place_of_a_members(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    path = folder / "key.pem"
    Identity.generated().save(path, PASSPHRASE.encode())
    folder.chmod(0o777)
    with pytest.raises(IdentityError, match="replace it"):
        Identity.load(path, PASSPHRASE.encode())


@pytest.mark.parametrize("role", ["client", "server"])
def test_open_a_members_line_with_a_copied_certificate_key(role: str, tmp_path: Path) -> None:
    relay, north = write_kits(tmp_path, "localhost", ["north"])
    kit = north if role == "client" else relay
    (kit / "startup" / f"{role}.key").chmod(0o644)
    with pytest.raises(IdentityError, match="chmod 600"):
        kit_files(kit, role)


# What is left lying about: logs, files of state and results, pickles, texts of objects


SENTINEL = 61.80339887498949


def secrets_of(member: Member) -> dict[str, bytes]:
    """What nobody may find: the member's keys, the passphrase, and what its sums are masked with."""
    identity = IDENTITIES[member.name]
    context = bytes.fromhex(member.agreement().digest)
    purposes = {
        purpose: identity.derived(purpose, context)
        for purpose in (b"exchange key", b"voting key", b"root of own masks")
    }
    key = identity.signing_key.private_bytes_raw()
    return {"key": key, "passphrase": PASSPHRASE.encode(), **{name.decode(): value for name, value in purposes.items()}}


def forms(secret: bytes) -> list[bytes]:
    """The ways in which bytes are written down."""
    return [secret, secret.hex().encode(), base64.b64encode(secret), repr(secret)[2:-1].encode()]


def found_in(content: bytes, secrets: dict[str, bytes]) -> list[str]:
    return [name for name, secret in secrets.items() if any(form in content for form in forms(secret))]


def clinic_with_database(folder: Path, *tasks: Task) -> list[Member]:
    """Three clinics; the first has its records in a database, one of them with a value that is nowhere else."""
    tables = [patients(seed, rows=60) for seed in range(3)]
    tables[0].loc[7, "age"] = SENTINEL
    members = founded(folder, *tasks, tables=tables)
    address = f"sqlite:///{folder / 'clinic.db'}"
    tables[0].to_sql("visits", sqlalchemy.create_engine(address), index=False)
    return [replace(members[0], data=Data(url=address, query="visits")), *members[1:]]


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Everything that any library logs at the lowest level."""
    text, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(text), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.removeHandler(handler)
    root.setLevel(level)


def test_find_a_key_or_a_record_in_what_a_task_leaves(tmp_path: Path, logged: io.StringIO) -> None:
    tasks = (ModelsTask("ages", "PrivateMean", 1.0), ScalerTask("scales", 1.0))
    members = clinic_with_database(tmp_path, *tasks)
    hub, events = LocalHub(), io.StringIO()
    IDENTITIES[members[0].name].save(members[0].key_path, PASSPHRASE.encode())
    run_together([node_of(member, hub, events) for member in members], [task.name for task in tasks])
    for member in members:
        secrets = secrets_of(member)
        for file in member.folder.rglob("*"):
            assert not (file.is_file() and found_in(file.read_bytes(), secrets)), file
            # Checkpoints hold addends and shares; nobody else may look into any of it.
            assert not (file.is_relative_to(member.state_folder) and file.stat().st_mode & 0o077), file
        assert not found_in(logged.getvalue().encode() + events.getvalue().encode(), secrets)
    assert str(SENTINEL)[:12] not in logged.getvalue() + events.getvalue()


def test_find_a_password_or_key_in_a_pickle_or_a_printed_object(tmp_path: Path) -> None:
    task = ModelsTask("ages", "PrivateMean", 1.0)
    member = founded(tmp_path, task)[0]
    password = "hunter2-not-for-eyes"
    address = f"postgresql+psycopg://clinic:{password}@db/clinic"
    open_member = replace(
        member,
        ledger_address=address,
        data=Data(url=address, query="visits"),
        transport=replace(member.transport, proxy=f"http://user:{password}@proxy:3128"),
    )
    node = node_of(member, LocalHub())
    exchange = activity_of(task, node._place)
    secrets = {**secrets_of(member), "password": password.encode()}
    model = PrivateMean(schema=member.agreement().schema, account=member.account(member.agreement()))
    model.fit(patients(0))
    objects = [
        IDENTITIES[member.name],
        node._place.keys,
        node._place,
        node.desk.session,
        node.desk,
        node,
        exchange,
        member,
        open_member,
        open_member.data,
        open_member.transport,
        open_member.source(),
        SqlSource(sqlalchemy.make_url(address), "visits"),
        member.agreement(),
        member.statements(),
        model,
        Release.of(model),
        task,
    ]
    for each in objects:
        for text in (repr(each), str(each)):
            assert not found_in(text.encode(), secrets), type(each)
        try:
            content = pickle.dumps(each)
        except (TypeError, pickle.PicklingError, AttributeError):
            # What holds a secret is not to be pickled.
            continue
        assert not found_in(content, secrets), type(each)
