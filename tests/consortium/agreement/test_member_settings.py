"""A member's own file: clear errors, paths of its own, and passwords that others must not read."""

from __future__ import annotations

import pickle
from pathlib import Path

import pandas as pd
import pytest

from sudare.consortium import Identity, Member, Policy, Rotation, Statements
from sudare.consortium.agreement.member_settings import new_member_file
from sudare.errors import AgreementError, IdentityError, InvalidParameter, KeyRevoked, LedgerMissing, SourceTaken
from sudare.frames import read
from sudare.frames.sources import CsvFile, SqlSource
from tests.consortium.documents import MEMBER, PASSPHRASE, agreement_of, member_in, signed_by_all, three_identities


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    member = member_in(tmp_path)
    assert member.name == member.account_name == "north"
    assert member.agreement_path == tmp_path / "agreement.toml"
    assert member.key_path == tmp_path / "key.pem"
    assert member.state_folder == tmp_path / "state"
    assert member.ledger_address == str(tmp_path / "ledger.db")
    assert member.policy == Policy()
    monkeypatch.chdir(tmp_path)
    assert Member.load("member.toml") == member


FULL = (
    MEMBER.replace('ledger = "ledger.db"', 'ledger = "env:NORTH_LEDGER"\nstate = "var"\naccount = "patients"').replace(
        'source = "table.parquet"', 'url = "env:NORTH_DATA"\nquery = "visits"'
    )
    + """
[policy]
approval = ["learning", "models"]
most_epsilon = 0.5

[transport]
kind = "flare"
kit = "kit"
relay = "relay.example:8002"
proxy = "http://proxy.example:3128"
health_port = 8080
"""
)


def test_everything_that_can_be_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    member = member_in(tmp_path, FULL)
    assert (member.account_name, member.state_folder) == ("patients", tmp_path / "var")
    assert member.policy == Policy(frozenset({"learning", "models"}), 0.5)
    assert (member.transport.kit, member.transport.relay) == (tmp_path / "kit", "relay.example:8002")
    assert (member.transport.kind, member.transport.health_port) == ("flare", 8080)
    with pytest.raises(AgreementError, match=r"`data\.url` is to come from the environment"):
        member.source()
    monkeypatch.setenv("NORTH_DATA", "sqlite:///clinic.db")
    source = member.source()
    assert isinstance(source, SqlSource)
    assert (source.url, source.query) == ("sqlite:///clinic.db", "visits")
    monkeypatch.setenv("NORTH_LEDGER", str(tmp_path / "elsewhere.db"))
    member.ledger()
    assert (tmp_path / "elsewhere.db").exists()


def test_a_csv_file_with_what_a_person_says_about_it(tmp_path: Path) -> None:
    said = 'source = "table.csv"\nhas_header = true\nencoding = "cp1252"'
    member = member_in(tmp_path, MEMBER.replace('source = "table.parquet"', said))
    assert member.source() == CsvFile(str(tmp_path / "table.csv"), has_header=True, encoding="cp1252")
    with pytest.raises(InvalidParameter, match="encoding"):
        member_in(tmp_path, MEMBER.replace('source = "table.parquet"', said.replace("cp1252", "zip")))
    marks = 'source = "table.csv"\nthousands = ","\ntidy = true'
    member = member_in(tmp_path, MEMBER.replace('source = "table.parquet"', marks))
    assert member.source() == CsvFile(str(tmp_path / "table.csv"), thousands=",", tidy=True)
    with pytest.raises(InvalidParameter, match="thousands"):
        member_in(tmp_path, MEMBER.replace('source = "table.parquet"', marks.replace(",", "x")))


BAD = [
    ("format = 1", "format = 2", "`format`"),
    ('name = "north"', 'name = "North"', "`name`"),
    ('key = "key.pem"', "", "lacks the field `key`"),
    ('key = "key.pem"', 'key = ""', "`key` is not a path"),
    ('ledger = "ledger.db"', "ledger = 3", "`ledger`"),
    ('ledger = "ledger.db"', 'leger = "ledger.db"', "Did you mean `ledger`"),
    ('source = "table.parquet"', "", "`data` names no data"),
    ('source = "table.parquet"', 'source = "a"\nquery = "b"', "`data` names no data"),
    ('source = "table.parquet"', 'url = "sqlite://"', "`data` names no data"),
    ('approval = ["learning", "models"]', 'approval = ["magic"]', r"`policy\.approval\[0\]` is not one of"),
    ('approval = ["learning", "models"]', 'approval = "all"', r"`policy\.approval` is not a list"),
    ("most_epsilon = 0.5", "most_epsilon = 0", r"`policy\.most_epsilon`"),
    ('kind = "flare"', 'kind = "pigeon"', r"`transport\.kind`"),
    ('relay = "relay.example:8002"', 'relay = "relay.example"', r"`transport\.relay` is not host:port"),
    ("health_port = 8080", "health_port = 0", r"`transport\.health_port`"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD, ids=[each[1] or each[0] for each in BAD])
def test_bad_fields_are_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = MEMBER if old in MEMBER else FULL
    assert old in text
    with pytest.raises(AgreementError, match=message) as refused:
        member_in(tmp_path, text.replace(old, new))
    assert refused.value.remedy


SECRETS = ["clinic:hunter2@db/clinic", "clinic@db/clinic?sslpassword=hunter2", "db/clinic?a=1&Access_Token=hunter2"]


@pytest.mark.parametrize("address", SECRETS)
@pytest.mark.parametrize("line", ["ledger", "url"])
def test_a_password_in_a_file_that_others_may_read_is_refused(line: str, address: str, tmp_path: Path) -> None:
    secret = f"postgresql+psycopg://{address}"
    text = MEMBER.replace('ledger = "ledger.db"', f'ledger = "{secret}"')
    if line == "url":
        text = MEMBER.replace('source = "table.parquet"', f'url = "{secret}"\nquery = "visits"')
    (tmp_path / "member.toml").write_text(text)
    (tmp_path / "member.toml").chmod(0o644)
    with pytest.raises(IdentityError, match="holds a password") as refused:
        Member.load(tmp_path / "member.toml")
    assert "hunter2" not in str(refused.value)
    (tmp_path / "member.toml").chmod(0o600)
    member = Member.load(tmp_path / "member.toml")
    assert "hunter2" not in repr(member)


def test_data_account_and_ledger(tmp_path: Path) -> None:
    pd.DataFrame({"age": [1.0, 2.0], "smoker": ["no", "yes"], "ill": [0, 1]}).to_parquet(tmp_path / "table.parquet")
    agreement = agreement_of(three_identities())
    member = member_in(tmp_path)
    assert read(member.source()).rows == 2
    with pytest.raises(LedgerMissing):
        member.ledger(create=False)
    account = member.account(agreement)
    terms = account.terms
    assert (float(terms.budget.epsilon), float(terms.budget.delta)) == (4.0, 1e-5)
    assert (terms.neighbours, terms.unit) == ("replace-one", "record")
    assert terms.source == str(tmp_path / "table.parquet")
    # A budget that the steward raised since is not put back.
    account.ledger.raise_budget("north", epsilon=9.0, reason="agreed by telephone")
    assert float(member.account(agreement).terms.budget.epsilon) == 9.0
    # The same data under another name would double the budget.
    other = member_in(tmp_path, MEMBER.replace("[data]", 'account = "again"\n[data]'))
    with pytest.raises(SourceTaken):
        other.account(agreement)


def test_the_account_of_a_database_keeps_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORTH_DATA", "postgresql://clinic:hunter2@db/clinic")
    text = MEMBER.replace('source = "table.parquet"', 'url = "env:NORTH_DATA"\nquery = "visits"')
    source = member_in(tmp_path, text).account(agreement_of(three_identities())).terms.source
    assert "hunter2" not in source
    assert source == "postgresql://db:5432/clinic visits"
    monkeypatch.setenv("NORTH_DATA", "no address")
    with pytest.raises(AgreementError, match=r"`data\.url`"):
        member_in(tmp_path, text.replace("[data]", 'account = "b"\n[data]')).account(agreement_of(three_identities()))


def test_persons_are_protected_where_the_schema_names_them(tmp_path: Path) -> None:
    agreement = agreement_of(
        three_identities(),
        schema={
            "columns": {"age": {"kind": "number", "low": 0, "high": 9}},
            "person": {"column": "id", "most_rows": 2},
        },
        tasks={"patterns": {"kind": "dictionary", "patterns": 2}},
    )
    assert member_in(tmp_path).account(agreement).terms.unit == "person"


def test_the_key_must_be_the_one_that_stands_for_the_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.consortium.agreement.identity._SCRYPT_COST", 16)
    identities = three_identities()
    agreement = agreement_of(identities)
    agreement.save(tmp_path / "agreement.toml")
    signed = signed_by_all(agreement, identities)
    signed.save(tmp_path / "agreement.toml")
    identities["north"].save(tmp_path / "key.pem", PASSPHRASE)
    member = member_in(tmp_path)
    assert member.agreement() == agreement
    assert member.identity(PASSPHRASE).public_key == identities["north"].public_key
    follower = Identity.generated()
    Statements(signed.signatures, (Rotation.made(identities["north"], follower),)).save(tmp_path / "agreement.toml")
    with pytest.raises(IdentityError, match="not the one that stands for north") as refused:
        member.identity(PASSPHRASE)
    assert not isinstance(refused.value, KeyRevoked)
    with pytest.raises(AgreementError, match="no member of that name"):
        member_in(tmp_path, MEMBER.replace("north", "south")).agreement()


def test_a_member_file_is_written_once_and_privately(tmp_path: Path) -> None:
    document = {"name": "north", "agreement": "a.toml", "key": "k.pem", "ledger": "l.db", "data": {"source": "t.csv"}}
    file = tmp_path / "member.toml"
    new_member_file(file, document)
    assert file.stat().st_mode & 0o777 == 0o600
    assert Member.load(file).name == "north"
    with pytest.raises(AgreementError, match="exists already"):
        new_member_file(file, document)
    with pytest.raises(AgreementError, match="`name`"):
        new_member_file(tmp_path / "other.toml", {**document, "name": "?"})
    with pytest.raises(AgreementError, match="cannot be written"):
        new_member_file(tmp_path / "none" / "member.toml", document)
    assert [path.name for path in tmp_path.iterdir()] == ["member.toml"]


@pytest.mark.parametrize(
    ("source", "opened"),
    [
        ("s3://bucket/visits", "s3://bucket/visits"),
        ("delta:visits", "delta:{folder}/visits"),
        ("iceberg:s3://bucket/visits", "iceberg:s3://bucket/visits"),
        ("sqlite:///clinic.db visits", "sqlite:///clinic.db visits"),
        ("env:VISITS", "gs://bucket/visits/*.parquet"),
        ("visits/*.parquet", "{folder}/visits/*.parquet"),
    ],
)
def test_records_at_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, opened: str) -> None:
    monkeypatch.setenv("VISITS", "gs://bucket/visits/*.parquet")
    member = member_in(tmp_path, MEMBER.replace('source = "table.parquet"', f'source = "{source}"'))
    assert member.source() == opened.format(folder=tmp_path)


@pytest.mark.parametrize(
    "source",
    [
        "s3://key:hidden@bucket/a",
        "delta:s3://key:hidden@bucket/a",
        "mysql://ann:hidden@h/d visits",
        "s3://b/a?x=hidden",
    ],
)
def test_credentials_of_records_are_for_the_owner_alone(tmp_path: Path, source: str) -> None:
    text = MEMBER.replace('source = "table.parquet"', f'source = "{source}"')
    member = Member.from_toml(text, tmp_path)
    assert "hidden" not in repr(member)
    with pytest.raises(TypeError, match="not copied or pickled"):
        pickle.dumps(member.data)
    with pytest.raises(IdentityError, match="holds a password and is open to others") as refusal:
        member_in(tmp_path, text)
    assert "hidden" not in str(refusal.value)
    (tmp_path / "member.toml").chmod(0o600)
    assert Member.load(tmp_path / "member.toml") == member


def test_an_account_knows_the_address_of_its_records(tmp_path: Path) -> None:
    member = member_in(tmp_path, MEMBER.replace('source = "table.parquet"', 'source = "s3://bucket/visits"'))
    assert member.account(agreement_of(three_identities())).terms.source == "s3://bucket/visits"


def test_a_cluster_is_named_by_the_address_of_its_scheduler(tmp_path: Path) -> None:
    named = MEMBER.replace("[data]", '[data]\ncluster = "tls://scheduler.example:8786"')
    assert member_in(tmp_path, named).data.cluster == "tls://scheduler.example:8786"
    assert member_in(tmp_path, MEMBER).data.cluster is None
    for wrong in ("scheduler.example:8786", "tls://user:secret@scheduler:8786", "http://scheduler", ""):
        with pytest.raises(AgreementError, match=r"data\.cluster"):
            member_in(tmp_path, named.replace("tls://scheduler.example:8786", wrong))
