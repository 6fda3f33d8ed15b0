"""What a newcomer met on the command line: sayings that were not true, budget lost for nothing, errors without a remedy."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy

from sudare.consortium import Member
from sudare.consortium.network.transport.certificates import write_kits
from sudare.errors import (
    AgreementError,
    ConsortiumError,
    IdentityError,
    InvalidParameter,
    NotConnected,
    SourceTaken,
    SourceUnreadable,
    WrongType,
)
from sudare.frames import read
from sudare.privacy import Ledger
from tests.cli.conftest import invoked, write_keys

SCHEMA = '[columns.age]\nkind = "number"\nlow = 0\nhigh = 110\n[columns.ill]\nkind = "label"\nclasses = [0, 1]\n'
TASK = "risk learning method=one-sum epsilon=1.0"
JOIN = ("consortium", "join", "c.toml", "--name", "east", "--folder", "east", "--epsilon", 2)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table, its schema and a key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sudare.consortium.agreement.identity._SCRYPT_COST", 16)
    monkeypatch.setenv("SUDARE_PASSPHRASE", "only for these tests")
    (tmp_path / "people.toml").write_text(SCHEMA)
    ages = [20.0 + row % 60 for row in range(300)]
    pd.DataFrame({"age": ages, "ill": [0, 1, 0] * 100}).to_parquet(tmp_path / "people.parquet")
    write_keys(tmp_path, "key")
    return tmp_path


def perturbed(*options: object) -> Any:
    return invoked("perturb", "people.parquet", "--schema", "people.toml", "--k", 2, "--key", "key.pem", *options)


# Perturb, reconstruct


def test_an_output_that_cannot_be_written_costs_nothing(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    outcome = perturbed("--budget", 20, "-o", "people.sudare")
    assert outcome.exit_code == InvalidParameter.exit_code
    assert "No space left on device" in outcome.stderr
    assert "Nothing was charged" in outcome.stderr
    assert not (desk / "ledger.db").exists()


def test_a_mistyped_table_opens_no_account(desk: Path) -> None:
    ledger = Ledger("ledger.db")
    outcome = invoked(
        *("perturb", "poeple.parquet", "--schema", "people.toml", "--k", 2, "--budget", 20),
        *("--key", "key.pem", "-o", "people.sudare"),
    )
    assert outcome.exit_code == SourceUnreadable.exit_code
    assert ledger.accounts() == []


def test_the_picture_shows_how_sure_the_numbers_are(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a bold line through wide bands that only the text told of."""
    from matplotlib.figure import Figure

    from sudare.reconstruction import plots as pictures

    drawn: list[list[str]] = []
    original = pictures.histogram_panel

    def watched(*arguments: Any, **options: Any) -> Any:
        panel = original(*arguments, **options)
        axes = Figure().add_subplot()
        from sudare.report.plots import DAY

        panel(axes, DAY)
        drawn.append(axes.get_legend_handles_labels()[1])
        return panel

    monkeypatch.setattr(pictures, "histogram_panel", watched)
    assert perturbed("--budget", 20, "-o", "people.sudare").exit_code == 0
    outcome = invoked("reconstruct", "people.sudare", "--column", "age", "--plot", "age.png", "--bins", 5)
    assert outcome.exit_code == 0, outcome.stderr
    assert (desk / "age.png").stat().st_size > 0
    assert "90% band" in drawn[0] or "no bands" in outcome.stdout


def test_a_cross_table_tells_that_nobody_checked_the_signature(desk: Path) -> None:
    assert perturbed("--budget", 20, "-o", "people.sudare").exit_code == 0
    words = ("crosstab", "people.sudare", "age", "ill", "--bins", 2)
    assert "NOT CHECKED" in invoked(*words).stdout
    assert "NOT CHECKED" not in invoked(*words, "--trusted", "key-public.pem").stdout


def test_a_card_counts_rows_and_not_the_bytes_they_are_packed_in(desk: Path) -> None:
    assert perturbed("--budget", 20, "-o", "people.sudare").exit_code == 0
    assert "300 numbers (“age”); 300 numbers (“ill”)" in invoked("inspect", "people.sudare").stdout


def test_a_first_ledger_is_explained(desk: Path) -> None:
    assert "--budget" in perturbed("-o", "people.sudare").stderr


# Relay


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kits")
    write_kits(folder, "localhost", ["east"])
    return folder


@pytest.mark.parametrize("address", ["nonsense", "localhost", "localhost:99999", "localhost:x", ":8102"])
def test_a_relay_wants_an_address(kits: Path, address: str) -> None:
    outcome = invoked("relay", "--kit", kits / "relay", "--listen", address)
    assert outcome.exit_code == InvalidParameter.exit_code
    assert "HOST:PORT" in outcome.stderr
    assert "listens" not in outcome.stderr


def test_a_relay_does_not_say_that_it_listens_where_another_does(kits: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        outcome = invoked("relay", "--kit", kits / "relay", "--listen", f"127.0.0.1:{port}")
    assert outcome.exit_code == NotConnected.exit_code
    assert "Address already in use" in outcome.stderr
    assert "listens" not in outcome.stderr


def test_a_relay_does_not_say_that_it_listens_on_another_machine(kits: Path) -> None:
    # TEST-NET-1 (RFC 5737) is nobody's address.
    outcome = invoked("relay", "--kit", kits / "relay", "--listen", "192.0.2.1:8102")
    assert outcome.exit_code == NotConnected.exit_code
    assert "cannot listen" in outcome.stderr


@pytest.mark.parametrize("host", ["", "bad host!", "x" * 65])
def test_kits_are_for_a_host(desk: Path, host: str) -> None:
    assert (
        invoked("consortium", "new", "a.toml", "--name", "c", "--schema", "people.toml", "--task", TASK).exit_code == 0
    )
    outcome = invoked("relay", "kits", "a.toml", "--host", host)
    assert outcome.exit_code == InvalidParameter.exit_code
    assert not (desk / "kits").exists()


# Agreement and member file


def test_a_model_without_anything_to_learn_is_not_agreed_on(desk: Path) -> None:
    """It was found out when the others were waiting."""
    unlabelled = ("consortium", "new", "a.toml", "--name", "c", "--schema", "unlabelled.toml", "--task")
    (desk / "unlabelled.toml").write_text(SCHEMA.replace('"label"\nclasses = [0, 1]', '"category"\nvalues = [0, 1]'))
    outcome = invoked(*unlabelled, TASK)
    assert outcome.exit_code == AgreementError.exit_code
    assert "`tasks.risk` has no label to learn" in outcome.stderr
    assert invoked(*unlabelled, 'ages census columns=["age"] epsilon=1').exit_code == 0


def founded(desk: Path, *names: str) -> None:
    assert (
        invoked("consortium", "new", "a.toml", "--name", "c", "--schema", "people.toml", "--task", TASK).exit_code == 0
    )
    for name in names:
        (desk / name).mkdir()
        outcome = invoked(
            *("consortium", "join", "a.toml", "--name", name, "--folder", name),
            *("--data", "people.parquet", "--epsilon", 2),
        )
        assert outcome.exit_code == 0, outcome.stderr


def test_an_agreement_in_a_folder_that_is_not_there(desk: Path) -> None:
    outcome = invoked("consortium", "new", "none/a.toml", "--name", "c", "--schema", "people.toml", "--task", TASK)
    assert outcome.exit_code == AgreementError.exit_code
    assert "none/a.toml" in outcome.stderr


def test_joining_looks_at_the_data(desk: Path) -> None:
    """A mistyped path was noticed when the others were waiting."""
    assert (
        invoked("consortium", "new", "a.toml", "--name", "c", "--schema", "people.toml", "--task", TASK).exit_code == 0
    )
    pd.DataFrame({"age": ["old"], "ill": [0]}).to_csv(desk / "odd.csv", index=False)
    words = ("consortium", "join", "a.toml", "--name", "east", "--folder", "east", "--epsilon", 2, "--data")
    missing = invoked(*words, "none.parquet", "--dry-run")
    assert "There are no data files at 'none.parquet'" in missing.stdout
    assert WrongType.__name__ not in missing.stdout
    odd = invoked(*words, "odd.csv", "--dry-run")
    assert "cannot be used as they are" in odd.stdout
    joined = invoked(*words, "people.parquet")
    assert "Your data: people.parquet, which has the agreed columns." in joined.stdout
    assert "1 member: east" in joined.stdout
    assert "sudare consortium sign --member east/member.toml" in joined.stdout


@pytest.mark.parametrize(
    ("names", "consent", "signed"), [(2, True, False), (3, False, False), (3, True, True), (5, False, True)]
)
def test_exact_sums_of_few_are_not_signed_without_consent(desk: Path, names: int, consent: bool, signed: bool) -> None:
    """The documentation said so; between machines nobody looked."""
    task = f"patterns dictionary patterns=2{' consent=true' if consent else ''}"
    assert (
        invoked("consortium", "new", "a.toml", "--name", "c", "--schema", "people.toml", "--task", task).exit_code == 0
    )
    for name in ("east", "north", "south", "west", "centre")[:names]:
        words = (
            "consortium",
            "join",
            "a.toml",
            "--name",
            name,
            "--folder",
            name,
            "--data",
            "people.parquet",
            "--epsilon",
            2,
        )
        assert invoked(*words).exit_code == 0
    outcome = invoked("consortium", "sign", "--member", "east/member.toml")
    assert outcome.exit_code == (0 if signed else AgreementError.exit_code)
    assert signed or "`tasks.patterns`" in outcome.stderr
    assert "entered as disclosures" in invoked("approve", "patterns", "--member", "east/member.toml").stdout


def test_status_tells_how_much_exact_sums_have_shown(desk: Path) -> None:
    founded(desk, "east", "north")
    own = Member.load("east/member.toml")
    agreement = own.agreement()
    assert "exact totals" not in invoked("status", "--member", "east/member.toml").stdout
    mark = f"task 'risk' of agreement {agreement.digest[:16]}"
    own.account(agreement).disclose("exact sums", "all members", 5_000, mark)
    told = "risk shows the others up to 5,000 exact totals; 300 records × 1 columns = 300 numbers are held here."
    assert told in invoked("status", "--member", "east/member.toml").stdout
    (desk / "east/results/risk").mkdir(parents=True)
    (desk / "east/results/risk/dictionary.json").write_text('{"numbers": 1234}')
    assert "1,234 exact totals (up to 5,000 were agreed)" in invoked("status", "--member", "east/member.toml").stdout


def test_a_steward_sees_what_waits_and_what_the_policy_forbids(desk: Path) -> None:
    founded(desk, "east", "north", "west")
    shown = invoked("status", "--member", "east/member.toml").stdout
    assert "not decided" in shown
    assert "no signature that counts by east, north, west" in shown
    file = desk / "east/member.toml"
    file.write_text(file.read_text() + "\n[policy]\nmost_epsilon = 0.5\n")
    approved = invoked("approve", "risk", "--member", "east/member.toml").stdout
    assert "not decided → approved" in approved
    assert "It will not run" in approved
    assert "above most_epsilon" in invoked("status", "--member", "east/member.toml").stdout
    assert "It will not run" not in invoked("approve", "risk", "--member", "west/member.toml").stdout


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ("[data]", '[transport]\nrelay = "relay.example:99999"\n[data]', "host:port"),
        ("[data]", '[transport]\nproxy = "proxy.example"\n[data]', "http://"),
        ("[data]\n", '[data]\nurl = "sqlite://"\nquery = "t"\n', "both a file and a database"),
    ],
)
def test_typing_errors_in_the_member_file(desk: Path, old: str, new: str, answer: str) -> None:
    founded(desk, "east")
    file = desk / "east/member.toml"
    file.write_text(file.read_text().replace(old, new))
    outcome = invoked("status", "--member", file)
    assert outcome.exit_code == AgreementError.exit_code
    assert answer in outcome.stderr


def test_without_a_member_file_the_answer_says_how_to_name_it(desk: Path) -> None:
    outcome = invoked("consortium", "sign")
    assert outcome.exit_code == AgreementError.exit_code
    assert "--member" in outcome.stderr


def test_a_lost_key_is_a_matter_of_keys(desk: Path) -> None:
    founded(desk, "east", "north")
    (desk / "east/key.pem").unlink()
    assert invoked("consortium", "sign", "--member", "east/member.toml").exit_code == IdentityError.exit_code


def test_how_many_must_say_that_a_key_is_lost(desk: Path) -> None:
    """It asked for one more than there are others."""
    founded(desk, "east", "north", "west")
    told = invoked("key", "revoke", "--member", "east/member.toml", "--reason", "lost", "--of", "west").stdout
    assert "Said by 1; it counts once 2 other members have said so." in told
    told = invoked("key", "revoke", "--member", "north/member.toml", "--reason", "lost", "--of", "west").stdout
    assert "The key of west no longer counts." in told


def test_an_absent_relay_is_told_from_absent_members(desk: Path) -> None:
    pytest.importorskip("nvflare")
    founded(desk, "east", "north", "west")
    for name in ("east", "north", "west"):
        assert invoked("consortium", "sign", "--member", f"{name}/member.toml").exit_code == 0
    assert invoked("approve", "risk", "--member", "east/member.toml").exit_code == 0
    write_kits(desk / "kits", "localhost", ["east"])
    outcome = invoked(
        *("run", "risk", "--member", "east/member.toml", "--kit", "kits/east"),
        *("--relay", "localhost:1", "--wait-seconds", 1),
    )
    assert outcome.exit_code == NotConnected.exit_code
    assert "The relay could not be reached" in outcome.stderr


@pytest.mark.parametrize(
    "data",
    [
        'source = "none.parquet"',
        'url = "sqlite:///none/none.db"\nquery = "visits"',
        'url = "postgresql://u:not-for-eyes@localhost:1/x"\nquery = "visits"',
    ],
)
def test_records_that_are_not_there_are_noticed_before_the_others_wait(desk: Path, data: str) -> None:
    founded(desk, "east", "north")
    file = desk / "east/member.toml"
    file.write_text(file.read_text().replace('source = "../people.parquet"', data))
    outcome = invoked("run", "risk", "--member", file, "--kit", "kit", "--relay", "localhost:1")
    assert outcome.exit_code == SourceUnreadable.exit_code, outcome.stderr
    assert "not-for-eyes" not in outcome.stderr
    assert "connecting" not in outcome.stderr


def test_a_state_folder_that_cannot_be_made(desk: Path) -> None:
    founded(desk, "east", "north")
    (desk / "east/state").write_text("a file stands here")
    outcome = invoked("run", "risk", "--member", "east/member.toml", "--kit", "kit", "--relay", "localhost:1")
    assert outcome.exit_code == ConsortiumError.exit_code
    assert "cannot be written" in outcome.stderr


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        ("risk learning method=one-sum epsilon=-1", "a number above 0."),
        ("ages census columns=age epsilon=1", 'a list, such as ["first", "second"]'),
    ],
)
def test_fields_of_tasks_are_explained(desk: Path, task: str, answer: str) -> None:
    outcome = invoked("consortium", "new", "a.toml", "--name", "c", "--schema", "people.toml", "--task", task)
    assert outcome.exit_code == AgreementError.exit_code
    assert answer in outcome.stderr


# Accounts


REFUSED: dict[str, tuple[object, ...]] = {
    "more than its budget": ("fit", "mean", "people.parquet", "--epsilon", 5, "--budget", 1, "--account", "people"),
    "an ε that is none": ("fit", "mean", "people.parquet", "--epsilon", -1, "--budget", 1, "--account", "people"),
    "a budget that is none": (
        "fit",
        "mean",
        "people.parquet",
        "--epsilon",
        1,
        "--budget",
        "nan",
        "--account",
        "people",
    ),
    "a table that does not fit": ("fit", "mean", "odd.csv", "--epsilon", 1, "--budget", 2, "--account", "people"),
    "more than its budget, perturbed": ("perturb", "people.parquet", "--epsilon", 5, "--budget", 1),
    "a column that is not there": ("perturb", "people.parquet", "--epsilon", 1, "--budget", 2, "--method", "x=laplace"),
    "more than its budget, synthetic": ("synthesize", "people.parquet", "--epsilon", 5, "--budget", 1),
}


@pytest.mark.parametrize("has_ledger", [False, True])
@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_what_is_refused_opens_no_account(desk: Path, words: tuple[object, ...], has_ledger: bool) -> None:
    """An account is for ever, and bound to its table: a mistyped ε left one behind."""
    (desk / "odd.csv").write_text("age,ill\nold,0\n")
    if has_ledger:
        Ledger("ledger.db").account("others", epsilon=1.0)
    outcome = invoked(*words, "--schema", "people.toml", "--key", "key.pem", "-o", "new.sudare")
    assert outcome.exit_code not in (0, 1, 2), outcome.stderr
    assert not (desk / "new.sudare").exists()
    if has_ledger:
        assert [account.name for account in Ledger("ledger.db").accounts()] == ["others"]
    else:
        assert not (desk / "ledger.db").exists()


def test_what_is_granted_opens_the_account_and_charges_it(desk: Path) -> None:
    words = ("fit", "mean", "people.parquet", "--schema", "people.toml", "--epsilon", 1, "--key", "key.pem")
    first = invoked(*words, "--account", "people", "--budget", 3, "-o", "first.sudare", "--json")
    assert first.values["remaining"]["epsilon"] == 2.0
    again = invoked(*words, "--account", "people", "--budget", 3, "-o", "second.sudare", "--json")
    assert again.values["remaining"]["epsilon"] == 1.0
    (account,) = Ledger("ledger.db").accounts()
    assert [entry.kind for entry in account.entries()] == ["open", *["charge", "result", "release"] * 2]
    refused = invoked(*words, "--account", "second", "--budget", 3, "-o", "third.sudare")
    assert refused.exit_code == SourceTaken.exit_code
    assert [each.name for each in Ledger("ledger.db").accounts()] == ["people"]


# Joining with data as people have them


def joined_with(*options: object) -> Any:
    made = invoked("consortium", "new", "c.toml", "--name", "c", "--schema", "people.toml", "--task", TASK)
    assert made.exit_code == 0, made.stderr
    return invoked(*JOIN, *options)


def test_a_member_says_of_its_csv_file_what_the_first_line_is(desk: Path) -> None:
    (desk / "years.csv").write_text("age,ill,2026\n30,1,4\n40,0,5\n")
    doubted = joined_with("--data", "years.csv", "--dry-run")
    assert "[data] in member.toml" in doubted.stdout
    outcome = invoked(*JOIN, "--data", "years.csv", "--header")
    assert outcome.exit_code == 0, outcome.stderr
    assert "years.csv, which has the agreed columns" in outcome.stdout
    assert Member.load(desk / "east" / "member.toml").data.has_header is True


def test_data_that_lack_one_agreed_column_are_not_said_to_have_all(desk: Path) -> None:
    pd.DataFrame({"age": [30.0, 40.0]}).to_parquet(desk / "half.parquet")
    outcome = joined_with("--data", "half.parquet", "--dry-run")
    assert "lacks 'ill'" in outcome.stdout
    assert "has the agreed columns" not in outcome.stdout


def test_an_sqlite_file_is_found_from_every_folder(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = sqlalchemy.create_engine("sqlite:///people.sqlite")
    pd.read_parquet("people.parquet").to_sql("people", engine, index=False)
    engine.dispose()
    outcome = joined_with("--data", "sqlite:///people.sqlite", "--query", "people")
    assert outcome.exit_code == 0, outcome.stderr
    monkeypatch.chdir(desk / "east")
    assert read(Member.load("member.toml").source()).rows == 300


def test_a_key_without_its_passphrase_or_a_terminal_says_what_to_set(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUDARE_PASSPHRASE")
    outcome = invoked("key", "new", "new.pem")
    assert outcome.exit_code == IdentityError.exit_code
    assert "SUDARE_PASSPHRASE_FILE" in outcome.stderr
    assert not (desk / "new.pem").exists()
