"""What the page's settings may say, and what is refused in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sudare.errors import InvalidParameter
from sudare.requests.users import User
from sudare.web.headers_and_hosts import allowed_hosts
from sudare.web.passwords import hashed_password, is_password, is_password_hash
from sudare.web.settings import PageSettings, read_settings

HASH = hashed_password("correct horse battery")
WHOLE = f"""
ledger = "books/ledger.db"
releases = "out"
schemas = "schemas"
trusted_keys = ["ward.pub.pem"]
two_people = true

[tables.visits]
source = "visits.parquet"

[tables.stays]
source = "stays.csv"
schema = "visits"
account = "visits"
encoding = "cp932"
csv = ["separator=;"]

[users.aiko]
role = "steward"
password = "{HASH}"

[users.ken]
role = "steward"
password = "{HASH}"

[server]
host = "0.0.0.0"
port = 8443
certificate = "page.crt"
key = "page.key"
public_address = "https://page.example.org:8443"
"""


def read(tmp_path: Path, text: str, mode: int = 0o600, **changes: Any) -> PageSettings:
    path = tmp_path / "page.toml"
    path.write_text(text)
    path.chmod(mode)
    return read_settings(path, **changes)


def test_settings_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    assert found.ledger == str(tmp_path / "books/ledger.db")
    assert found.trusted_keys == (tmp_path / "ward.pub.pem",)
    assert found.tables["visits"].source == str(tmp_path / "visits.parquet")
    assert (found.tables["visits"].schema, found.tables["visits"].account) == ("visits", "visits")
    assert found.tables["stays"].csv == ("separator=;",)
    assert found.users["ken"].role == "steward"
    assert found.is_https
    assert found.address() == "https://page.example.org:8443"
    assert HASH not in repr(found)
    assert read(tmp_path, WHOLE, port=9000).port == 9000


def test_hashes_that_others_can_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"page\.toml"):
        read(tmp_path, WHOLE, mode=0o644)
    assert read(tmp_path, 'ledger = "x.db"', mode=0o644).ledger.endswith("x.db")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x", "not valid TOML"),
        ("colour = 1", "unknown key 'colour'"),
        ("ledger = 1", "ledger is not text"),
        ("two_people = 1", "neither true nor false"),
        ("two_people = true", "fewer than two stewards"),
        ('trusted_keys = "x"', "not a list"),
        ("tables = 1", "not a section"),
        ("[tables]\nx = 1", "not a section"),
        ("[tables.x]", "source is not text"),
        ('[server]\nport = "x"', "not a number"),
        ("[server]\nport = 99999", "from 0 to 65535"),
        ('[server]\nhost = "0.0.0.0"', "needs users with passwords, and HTTPS"),
        ('[server]\ncertificate = "x"', "belong together"),
        ('[server]\npublic_address = "http://x"', "not an address of the form https"),
        ('[server]\npublic_address = "https://x.example"', "needs users"),
        ('[server]\npublic_address = "https://x.example:99999"', "not an address of the form https"),
        ('[server]\npublic_address = "https://x.example#a"', "not an address of the form https"),
        ('[server]\npublic_address = "https://"', "not an address of the form https"),
        ('[users.aiko]\nrole = "king"\npassword = "x"', "no known role"),
        ('[users.aiko]\nrole = "viewer"\npassword = "secret"', "no usable password"),
        pytest.param(f'[users.AIKO]\nrole = "viewer"\npassword = "{HASH}"', "small letters", id="capital letters"),
    ],
)
def test_other_settings_are_refused_in_words(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InvalidParameter, match=problem):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("https://Page.Example.org/", "https://page.example.org"),
        ("https://page.example.org:443", "https://page.example.org"),
        ("https://10.0.0.5:8443", "https://10.0.0.5:8443"),
        ("https://[::1]:8443", "https://[::1]:8443"),
        ("https://病院.example", "https://xn--0rys90e.example"),
    ],
)
def test_a_public_address_is_kept_as_browsers_name_it(tmp_path: Path, typed: str, kept: str) -> None:
    text = WHOLE.replace("https://page.example.org:8443", typed)
    assert read(tmp_path, text).public_address == kept


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("https://straße.example", "different ways"),
        ("https://λόγος.example", "different ways"),
        ("https://a\u200cb.example", "different ways"),
        ("https://page example.org", "not an address"),
        ("https://page.example.org,evil.example", "not an address"),
        ("https://p%61ge.example.org", "not an address"),
        ("https://page.example.org:x", "not an address"),
        ("https://[fe80::1%25eth0]:0x", "not an address"),
    ],
)
def test_a_public_address_that_browsers_name_otherwise_is_refused(tmp_path: Path, typed: str, problem: str) -> None:
    """`straße` was kept as `strasse`, which is somebody else's name: the printed address led there."""
    with pytest.raises(InvalidParameter, match=problem):
        read(tmp_path, WHOLE.replace("https://page.example.org:8443", typed))


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_page_that_listens_everywhere_has_a_name(tmp_path: Path, host: str) -> None:
    text = WHOLE.replace("0.0.0.0", host)
    assert {"page.example.org:8443", "127.0.0.1:8443", "localhost:8443"} <= allowed_hosts(read(tmp_path, text))
    assert not {"0.0.0.0:8443", "[::]:8443"} & allowed_hosts(read(tmp_path, text))
    with pytest.raises(InvalidParameter, match="by which name browsers call it"):
        read(tmp_path, text.replace("public_address", "# public_address"))


def test_users_without_https_stay_on_this_computer() -> None:
    users = {"aiko": User("aiko", "steward", HASH)}
    assert PageSettings(users=users).address() == "http://127.0.0.1:8177"
    with pytest.raises(InvalidParameter, match="HTTPS"):
        PageSettings(users=users, host="10.0.0.5")


def test_passwords() -> None:
    assert is_password("correct horse battery", HASH)
    assert not is_password("correct horse batterz", HASH)
    assert not is_password("correct horse battery", None)
    assert not is_password("x" * 10_000, HASH)
    assert not is_password_hash(HASH + "x")
    assert hashed_password("correct horse battery") != HASH
    for password in ("", "short", "x" * 300):
        with pytest.raises(InvalidParameter):
            hashed_password(password)


def test_schemas_do_not_lie_beside_passwords(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="schemas holds"):
        read(tmp_path, WHOLE.replace('schemas = "schemas"', 'schemas = "."'))


def test_what_a_file_leaves_out_lies_in_its_own_folder(tmp_path: Path) -> None:
    found = read(tmp_path, "")
    assert (found.ledger, found.schemas) == (str(tmp_path / "ledger.db"), tmp_path)
    assert (found.releases, found.requests) == (tmp_path, tmp_path / "requests")
