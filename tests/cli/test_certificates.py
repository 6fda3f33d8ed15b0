"""Certificates end: members are told before, by the commands that they use anyway."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from sudare.consortium.certificate_expiry import WARNING_DAYS, expiry_lines, kit_days_left
from sudare.consortium.network.transport import certificates
from sudare.consortium.network.transport.certificates import days_left, write_kits
from sudare.errors import NotConnected
from tests.cli.conftest import Sudare

SCHEMA = '[columns.age]\nkind = "number"\nlow = 0\nhigh = 110\n[columns.ill]\nkind = "label"\nclasses = [0, 1]\n'


def kit_for(folder: Path, days: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A member's kit that ends in so many whole days."""
    monkeypatch.setattr(certificates, "_VALID_DAYS", days + 0.5)
    return write_kits(folder / f"kits{days}", "localhost", ["east"])[1]


@pytest.fixture
def consortium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sudare: Sudare) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sudare.consortium.agreement.identity._SCRYPT_COST", 16)
    monkeypatch.setenv("SUDARE_PASSPHRASE", "only for these tests")
    (tmp_path / "people.toml").write_text(SCHEMA)
    (tmp_path / "people.csv").write_text("age,ill\n30,0\n")
    task = "risk learning method=one-sum epsilon=1.0"
    words = ("consortium", "new", "a.toml", "--name", "c", "--schema", "people.toml", "--task", task)
    assert sudare(*words).exit_code == 0
    for name in ("east", "north"):
        joined = sudare(
            *("consortium", "join", "a.toml", "--name", name, "--folder", name, "--data", "people.csv"),
            *("--epsilon", 2),
        )
        assert joined.exit_code == 0, joined.stderr
    return tmp_path


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (-3, "has expired (3 days ago), and nobody will be reached"),
        (-1, "has expired (1 day ago)"),
        (0, "expires in 0 days"),
        (1, "expires in 1 day:"),
        (WARNING_DAYS - 1, "expires in 29 days"),
        (WARNING_DAYS, None),
        (360, None),
    ],
)
def test_a_warning_comes_a_month_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, words: str | None
) -> None:
    kit = kit_for(tmp_path, 360, monkeypatch)
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=360 - days)
    assert days_left(kit, "client", now) == days
    monkeypatch.setattr("sudare.consortium.network.transport.certificates.days_left", lambda *_: days)
    lines = expiry_lines(kit, "client")
    assert (words is None) == (lines == [])
    if words is not None:
        assert words in lines[0]
        assert "sudare relay kits" in lines[0]


def test_the_key_is_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = kit_for(tmp_path, 10, monkeypatch)
    (kit / "startup" / "client.key").write_text("not a key at all")
    assert days_left(kit, "client") == 10


def test_a_kit_that_is_not_there_is_not_warned_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused, with its name, where it is needed."""
    assert kit_days_left(None, "client") is None
    assert expiry_lines(tmp_path / "none", "client") == []
    kit = kit_for(tmp_path, 10, monkeypatch)
    (kit / "startup" / "client.crt").write_text("damaged")
    with pytest.raises(NotConnected, match="cannot be read"):
        days_left(kit, "client")
    assert kit_days_left(kit, "client") is None


def test_commands_tell_it(consortium: Path, monkeypatch: pytest.MonkeyPatch, sudare: Sudare) -> None:
    kit = kit_for(consortium, 12, monkeypatch)
    late, fresh = (kit_for(consortium, days, monkeypatch) for days in (5, 200))
    checked = ("consortium", "check", "a.toml", "--kit")
    assert "expires in 12 days" in sudare(*checked, kit).stdout
    assert "expires" not in sudare(*checked, fresh).stdout
    assert sudare(*checked, kit, "--json").values["certificate_days_left"] == 12
    status = ("status", "--member", "east/member.toml")
    assert sudare(*status, "--json").values["certificate_days_left"] is None
    member = consortium / "east/member.toml"
    member.write_text(f'{member.read_text()}\n[transport]\nkit = "{late}"\nrelay = "localhost:1"\n')
    assert "expires in 5 days" in sudare(*status).stdout
    assert sudare(*status, "--json").values["certificate_days_left"] == 5
    for name in ("east", "north"):
        assert sudare("consortium", "sign", "--member", f"{name}/member.toml").exit_code == 0
    assert sudare("approve", "risk", "--member", "east/member.toml").exit_code == 0
    pytest.importorskip("nvflare")
    begun = sudare("run", "risk", "--member", "east/member.toml", "--wait-seconds", 1)
    assert "expires in 5 days" in begun.stderr
