"""Attacks on keys and other secrets: to read them, to put others in their place, and to find them in what is left lying about."""

from __future__ import annotations

import base64
import io
import logging
import pickle
import random
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

from sudare.cli.key_files import private_key
from sudare.consortium import Budget, Identity, Member, MemberEntry, ModelsTask, ScalerTask, Task
from sudare.consortium.agreement.amendments import Amendment, amended, following_version, proposal_path
from sudare.consortium.agreement.consortium_setup_steps import added, signed
from sudare.consortium.agreement.member_settings import Data
from sudare.consortium.agreement.signed_statements import (
    Revocation,
    Rotation,
    Statements,
    signature_status,
    statements_path,
)
from sudare.consortium.agreement.taken_versions import known_of
from sudare.consortium.event_log import EventLog
from sudare.consortium.network.transport.certificates import kit_files, write_kits
from sudare.consortium.node import Node
from sudare.consortium.node_restart_on_change import NodeReload, adopt_by_hand
from sudare.consortium.tasks.task_activities import activity_of
from sudare.errors import AgreementError, IdentityError, KeyRevoked
from sudare.frames.sources import SqlSource
from sudare.privacy import Release
from sudare.statistics import PrivateMean
from tests.consortium.clinics import IDENTITIES, founded, node_of, patients, run_together
from tests.consortium.documents import agreement_of, signed_by_all, three_identities
from tests.consortium.local_transport import LocalHub

PASSPHRASE = "correct horse battery"
SCALE = ScalerTask("scale", 0.5, 0.0)
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
    exchange = activity_of(task, node._environment)
    secrets = {**secrets_of(member), "password": password.encode()}
    model = PrivateMean(schema=member.agreement().schema, account=member.account(member.agreement()))
    model.fit(patients(0))
    objects = [
        IDENTITIES[member.name],
        node._environment.keys,
        node._environment,
        node.dispatcher.session,
        node.dispatcher,
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


PASSWORD = "hunter2"
ADDRESSES = {
    "user with @": f"postgresql://clerk@clinic:{PASSWORD}@db/clinic",
    "slash": f"postgresql://clerk:{PASSWORD}/x@db/clinic",
    "passwd": f"mysql://db/clinic?passwd={PASSWORD}",
    "key of a certificate": f"postgresql://db/clinic?sslpassword={PASSWORD}",
    "capitals": f"postgresql://db/clinic?PASSWORD={PASSWORD}",
    "ODBC": f"mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BUID%3Dclerk%3BPWD%3D{PASSWORD}%3BSERVER%3Ddb",
    "ODBC in braces": f"mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3Bpwd%20%3D%7B%3B{PASSWORD}%7D",
}


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES.keys())
def test_read_a_databases_password_however_its_address_is_written(address: str, tmp_path: Path) -> None:
    member = founded(tmp_path, ScalerTask("scales", 1.0))[0]
    file = member.folder / "member.toml"
    text = file.read_text().replace('source = "patients.csv"', f'url = "{address}"\nquery = "visits"')
    file.write_text(text)
    file.chmod(0o644)
    with pytest.raises(IdentityError, match="holds a password"):
        Member.load(file)
    file.chmod(0o600)
    with pytest.raises(TypeError, match="password"):
        pickle.dumps(Member.load(file).data)
    source = Member.load(file).source()
    assert PASSWORD.encode() not in pickle.dumps(source)
    assert sqlalchemy.make_url(pickle.loads(pickle.dumps(source)).url) == sqlalchemy.make_url(address)


def test_go_on_with_a_revoked_key_at_a_node_that_is_running(tmp_path: Path) -> None:
    """A node may run for months: what is added to the statements counts at once."""
    task = ModelsTask("ages", "PrivateMean", 1.0)
    members = founded(tmp_path, task, tables=[patients(seed, rows=60) for seed in range(3)])
    nodes = [node_of(member, LocalHub()) for member in members]
    revocation = Revocation(IDENTITIES["west"].public_key.hex(), "2026-11-16", "stolen").signed_by(IDENTITIES["west"])
    statements = members[0].statements()
    Statements(statements.signatures, (), (revocation,)).save(members[0].agreement_path)
    with pytest.raises(KeyRevoked, match="west"):
        nodes[0].run([task.name], most_seconds=30.0)
    assert nodes[0].task_runs[task.name].activity is None


def test_bring_a_revoked_key_back_by_an_older_file_of_statements(tmp_path: Path) -> None:
    """The file was genuine, and whoever may write beside the agreement has kept it: nodes that are started again know better."""
    member, west = founded(tmp_path, ScalerTask("scales", 1.0))[0], IDENTITIES["west"]
    path, node = member.agreement_path, node_of(member, LocalHub())
    older, revocation = statements_path(path).read_bytes(), Revocation(west.public_key.hex(), "2026", "stolen")
    replace(member.statements(), revocations=(revocation.signed_by(west),)).save(path)
    with pytest.raises(KeyRevoked, match="west"):
        node._check_statements()
    statements_path(path).write_bytes(older)
    assert node._keys.lost() == {"west"}
    assert signature_status(member.agreement(), member.statements()).revoked == ("west",)
    with pytest.raises(KeyRevoked, match="west"):
        node_of(member, LocalHub())
    # A version that names the key is taken by nobody, and by no command of this member.
    second = replace(member.agreement(), version=2, previous=member.agreement().digest)
    second.save(proposal_path(path))
    signed_by_all(second, IDENTITIES).save(proposal_path(path))
    with pytest.raises(KeyRevoked, match="west"):
        adopt_by_hand(member)


def test_bring_a_key_back_that_was_handed_over_by_an_older_file_of_statements(tmp_path: Path) -> None:
    # Where members may leave, keys for sums are signed anew with the key, and the older file has the old ones.
    member, new = founded(tmp_path, ScalerTask("scales", 1.0), relay=Identity.generated())[0], Identity.generated()
    path, agreement, node = member.agreement_path, member.agreement(), node_of(member, LocalHub())
    older, rotation = statements_path(path).read_bytes(), Rotation.made(IDENTITIES["west"], new)
    replace(member.statements(), rotations=(rotation,)).with_sum_keys(agreement, "west", new).save(path)
    node._check_statements()
    assert node._keys_have_changed
    statements_path(path).write_bytes(older)
    again = node_of(member, LocalHub())
    assert again._keys.keys["west"] == new.public_key
    again._check_statements()
    assert not again._keys_have_changed


def test_bar_a_newcomer_with_a_revocation_that_one_member_signed_alone(tmp_path: Path) -> None:
    """West is to be taken out, signs nothing, and says of the newcomer's key that it no longer counts."""
    member, south = founded(tmp_path, ScalerTask("scales", 1.0))[0], Identity.generated()
    first, path, file = member.agreement(), member.agreement_path, tmp_path / "from-west.statements"
    entry = MemberEntry("south", south.public_key.hex(), Budget(10.0, 1e-5))
    second = amended(first, member.statements(), Amendment(frozenset({"west"}))).with_member(entry)
    keys = {"east": IDENTITIES["east"], "north": IDENTITIES["north"], "south": south}
    second.save(proposal_path(path))
    signed_by_all(second, keys).save(proposal_path(path))
    said = Revocation(south.public_key.hex(), "2026", "").signed_by(IDENTITIES["west"])
    file.write_text(Statements(revocations=(said,)).to_toml())
    for place, agreement in ((path, first), (proposal_path(path), second)):
        added(agreement, place, [file])
        assert signature_status(agreement, Statements.load(place)).is_in_force
    assert Statements.load(path).revocations == ()
    # Also where somebody wrote it into the file itself.
    replace(member.statements(), revocations=(said,)).save(path)
    assert following_version(first, path, known_of(member, first)) == second
    assert adopt_by_hand(member) == second


@pytest.mark.parametrize("key", ["one of the liar's", "one that was handed over"])
def test_sign_a_version_in_a_members_name_with_a_key_that_does_not_stand_for_it(key: str, tmp_path: Path) -> None:
    """West alone, with a key of its own in east's name, or with whoever knows east's old key and with north: east's node goes on, and its budget stays."""
    old, told = IDENTITIES["east"], list[str]()
    identity, east = Identity.generated(), founded(tmp_path, SCALE)[0]
    first, path = east.agreement(), proposal_path(east.agreement_path)
    statements = replace(Statements.load(east.agreement_path), rotations=(Rotation.made(old, identity),))
    statements.save(east.agreement_path)
    east.account(first)
    node = Node(
        east,
        identity,
        LocalHub().join("east"),
        EventLog(io.StringIO(), "east"),
        told.append,
        reload=NodeReload(east, east.folder / "member.toml", lambda: east),
    )
    node._poll(stay=True)
    liars, out = (Identity.generated(), {"north"}) if key == "one of the liar's" else (old, set())
    budgets = {"east": Budget(100.0, 1e-3)}
    second = amended(first, statements, Amendment(without_members=frozenset(out), budgets=budgets))
    named = (replace(each, key=liars.public_key.hex()) if each.name == "east" else each for each in second.members)
    second = replace(second, members=tuple(named))
    forged = signed_by_all(second, {name: {**IDENTITIES, "east": liars}[name] for name in second.member_names})
    second.save(path)
    forged.save(path)
    assert signature_status(second, forged).is_in_force
    node._looked_at = node._weighed_at = float("-inf")
    assert not node._poll(stay=True)
    assert [text for text in told if "is not signed by this member" in text]
    for in_place in (False, True):
        if in_place:
            second.save(east.agreement_path)
            forged.save(east.agreement_path)
            path.unlink()
        with pytest.raises(AgreementError, match="is not signed by this member"):
            adopt_by_hand(east)
    assert east.account(first).terms.budget.epsilon == 10


def test_a_version_that_was_signed_before_the_key_was_handed_over_is_taken(tmp_path: Path) -> None:
    """By the state folder, which remembers what this member has signed."""
    old, identity, east = IDENTITIES["east"], Identity.generated(), founded(tmp_path, SCALE)[0]
    first, path = east.agreement(), proposal_path(east.agreement_path)
    node_of(east, LocalHub())
    second = amended(first, east.statements(), Amendment())
    second.save(path)
    signed_by_all(second, {name: IDENTITIES[name] for name in ("north", "west")}).save(path)
    signed(replace(east, agreement_path=path), old)
    statements = Statements.load(east.agreement_path)
    replace(statements, rotations=(Rotation.made(old, identity),)).save(east.agreement_path)
    assert adopt_by_hand(east) == second
    assert signature_status(second, east.statements()).keys["east"] == identity.public_key


def test_tell_a_running_node_nothing_new_or_nothing_that_can_be_read(tmp_path: Path) -> None:
    """Rotations and damaged files end no node; its owner is told."""
    member = founded(tmp_path, ScalerTask("scales", 1.0))[0]
    told: list[str] = []
    node = node_of(member, LocalHub())
    node.tell = told.append
    statements, path = member.statements(), member.agreement_path
    statements.save(path)
    node._check_statements()
    assert told == []
    Statements(statements.signatures, (Rotation.made(IDENTITIES["west"], Identity.generated()),)).save(path)
    node._check_statements()
    statements_path(path).write_text("?")
    node._check_statements()
    # What was seen counts on without the file.
    statements_path(path).unlink()
    node._check_statements()
    assert ["rotated" in told[0], "cannot be used" in told[1]] == [True] * 2
    assert len(told) == 2
    assert len(member.statements().rotations) == 1


def test_bring_a_revoked_key_back_by_handing_it_over_to_a_member_that_revoked_it() -> None:
    """Whose signature it was could no longer be told: north's key, revoked by east and west, handed over to east's."""
    identities = three_identities()
    agreement = agreement_of(identities)
    east, north, west = (identities[name] for name in ("east", "north", "west"))
    signatures = signed_by_all(agreement, identities).signatures
    revocation = Revocation(north.public_key.hex(), "2026", "stolen").signed_by(east).signed_by(west)
    assert signature_status(agreement, Statements(signatures, (), (revocation,))).revoked == ("north",)
    again = Statements(signatures, (Rotation.made(north, east),), (revocation,))
    assert "north" in signature_status(agreement, again).revoked


def test_bring_a_revoked_key_back_with_any_further_statements() -> None:
    """Random statements by everybody, the thief and strangers: whoever is out stays out, and no key stands for two members."""
    draw = random.Random(4)
    identities = three_identities()
    agreement = agreement_of(identities)
    signatures = signed_by_all(agreement, identities).signatures
    everybody = [*identities.values(), *(Identity.generated() for _ in range(3))]
    pairs = [Rotation.made(old, new) for old in everybody for new in everybody if old is not new]
    for _ in range(60):
        rotations: tuple[Rotation, ...] = ()
        revocations: tuple[Revocation, ...] = ()
        out: set[str] = set()
        for _ in range(6):
            if draw.random() < 0.5:
                rotations = (*rotations, draw.choice(pairs))
            else:
                statement = Revocation(draw.choice(everybody).public_key.hex(), "2026", "")
                for signer in draw.sample(everybody, 2):
                    statement = statement.signed_by(signer)
                revocations = (*revocations, statement)
            found = signature_status(agreement, Statements(signatures, rotations, revocations))
            assert out <= set(found.revoked)
            assert len(set(found.keys.values())) == len(found.keys)
            out = set(found.revoked)


def test_make_a_members_own_statements_unreadable_by_sending_it_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files from anywhere may be added: what nobody signed is left out, and what would be too much is not written."""
    identities = three_identities()
    agreement, path = agreement_of(identities), tmp_path / "agreement.toml"
    agreement.save(path)
    signed_by_all(agreement, identities).save(path)
    before = statements_path(path).read_bytes()
    junk = tuple(Rotation(f"{n:064x}", f"{n + 1:064x}", "2026", "0" * 128, "1" * 128) for n in range(300))
    false = Revocation(identities["east"].public_key.hex(), "2026", "", {f"{n:064x}": "0" * 128 for n in range(50)})
    file = tmp_path / "junk.statements"
    file.write_text(Statements({}, junk, (false,)).to_toml())
    added(agreement, path, [file])
    assert statements_path(path).read_bytes() == before
    # Nor what verifies and is nobody's: strangers have keys, too, and names are free.
    strangers = [Identity.generated() for _ in range(3)]
    own = tuple(Rotation.made(old, new) for old in strangers for new in strangers if old is not new)
    given_up = tuple(Revocation(key.public_key.hex(), "2026", "").signed_by(key) for key in strangers)
    names = {f"x{number}": "00" * 64 for number in range(300)}
    file.write_text(Statements(names, own, given_up, dict.fromkeys(names, "00" * 128)).to_toml())
    added(agreement, path, [file])
    assert statements_path(path).read_bytes() == before
    monkeypatch.setattr("sudare.consortium.agreement.signed_statements.MOST_STATEMENTS", 200)
    with pytest.raises(AgreementError, match="nothing was written"):
        Statements({}, junk).save(path)
    assert statements_path(path).read_bytes() == before
