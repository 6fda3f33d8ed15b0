"""Releases on the page: listed, shown, downloaded; received files verified, and hostile ones answered in words."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sudare import PrivateHistogram, PrivateMean, PrivateRidge, Release
from sudare.privacy.release_file import LARGEST_FILE_BYTES
from sudare.schema import Category, Number, Schema
from tests.web.kit import Client, TestPage

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
HOSTILE = "<img src=x onerror=alert(1)>"
SCHEMA = Schema({"stay": Number(0, 60, unit="days"), HOSTILE: Category(("no", HOSTILE))})


def table() -> pd.DataFrame:
    random = np.random.default_rng(1)
    return pd.DataFrame({"stay": random.uniform(0, 60, 500), HOSTILE: random.choice(["no", HOSTILE], 500)})


@pytest.fixture
def page(tmp_path: Path) -> TestPage:
    trusted = tmp_path / "ward.pub.pem"
    trusted.write_bytes(KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    found = TestPage(tmp_path, trusted_keys=(trusted,))
    account = found.ledger().account("visits", epsilon=2.0)
    mean = PrivateMean(epsilon=0.5, schema=Schema({"stay": Number(0, 60)}), account=account).fit(table())
    Release.of(mean).save(found.folder / "releases" / "mean.sudare", key=KEY)
    counts = PrivateHistogram(epsilon=0.5, schema=SCHEMA, account=account).fit(table())
    Release.of(counts).save(found.folder / "releases" / f"{HOSTILE}.sudare".replace("/", ""), key=KEY)
    return found


def verified(client: Client, content: bytes, name: str = "file.sudare") -> httpx.Response:
    token: Mapping[str, str] = {"form_token": client.form_token()}
    return client.post("/verify", data=token, files={"file": (name, content)})


def test_releases_are_listed_and_shown(page: TestPage) -> None:
    client = page.client("viewer")
    text = client.get("/releases").text
    assert "mean.sudare" in text
    assert HOSTILE not in text
    shown = client.get("/releases/mean.sudare").text
    assert "any two tables that differ in the content of one record" in shown
    assert "a key that this page trusts" in shown
    assert "<circle" in shown


def test_coefficients_of_a_model_are_shown_as_the_shell_shows_them(page: TestPage) -> None:
    schema = Schema({"stay": Number(0, 60), "age": Number(0, 100)}, target="age")
    ages = table().assign(age=lambda rows: rows["stay"] + 20)[["stay", "age"]]
    account = page.ledger().account("ages", epsilon=2.0)
    model = PrivateRidge(epsilon=1.0, schema=schema, account=account).fit(ages)
    Release.of(model).save(page.folder / "releases" / "model.sudare", key=KEY)
    shown = page.client("viewer").get("/releases/model.sudare").text
    assert f"{float(np.ravel(model.coef_)[0]):.6g}" in shown
    assert "(intercept)" in shown
    assert "A coefficient is what a column adds to the score" in shown


def test_hostile_names_in_a_release_are_text(page: TestPage) -> None:
    client = page.client("viewer")
    listing = client.get("/releases").text
    (path,) = [part.split('"')[0] for part in listing.split('href="')[1:] if part.startswith("/releases/%3C")]
    shown = client.get(path)
    assert shown.status_code == 200
    assert HOSTILE not in shown.text
    assert "&lt;img" in shown.text
    content = (page.folder / "releases" / f"{HOSTILE}.sudare").read_bytes()
    assert HOSTILE not in verified(client, content, f"{HOSTILE}.sudare").text


def test_a_release_is_downloaded_as_it_is(page: TestPage) -> None:
    answer = page.client("viewer").get("/releases/mean.sudare/file")
    assert answer.content == (page.folder / "releases" / "mean.sudare").read_bytes()
    assert answer.headers["content-disposition"].startswith("attachment")
    assert page.client("viewer").get("/releases/mean.sudare/file?beside=.parquet").status_code == 404


@pytest.mark.parametrize(
    "name", ["nothing.sudare", "..%2Fledger.db", "%2E%2E", "..%2F..%2Fetc%2Fpasswd", "mean.sudare%00", "ward.pub.pem"]
)
def test_other_files_are_not_there(page: TestPage, name: str) -> None:
    for path in (f"/releases/{name}", f"/releases/{name}/file"):
        assert page.client().get(path).status_code == 404


def test_damaged_files_and_links_are_told(page: TestPage) -> None:
    folder = page.folder / "releases"
    (folder / "damaged.sudare").write_bytes(b"no release")
    os.symlink(page.folder / "gone", folder / "link.sudare")
    (folder / "folder.sudare").mkdir()
    client = page.client("viewer")
    text = client.get("/releases").text
    assert "unreadable" in text
    assert "folder.sudare" not in text
    assert client.get("/releases/damaged.sudare").status_code == 200


def test_a_blank_stands_between_a_file_and_what_it_is(page: TestPage) -> None:
    text = " ".join(re.sub(r"<[^>]+>", "", page.client("viewer").get("/").text).split())
    assert "mean.sudare Means of all declared number columns" in text


def test_a_received_file_is_verified(page: TestPage) -> None:
    client = page.client("viewer")
    before = sorted(page.folder.rglob("*"))
    text = verified(client, (page.folder / "releases" / "mean.sudare").read_bytes()).text
    assert "signed by a key that this page trusts" in text
    assert "Your own ledger let exactly this out" in text
    assert sorted(page.folder.rglob("*")) == before


def test_the_key_that_the_page_signs_with_is_its_own(page: TestPage, tmp_path: Path) -> None:
    signing = tmp_path / "house.pem"
    signing.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    signing.chmod(0o600)
    client = TestPage(tmp_path, signing_key=signing).client("viewer")
    assert "this house&#39;s own key" in client.get("/releases/mean.sudare").text
    content = (tmp_path / "releases" / "mean.sudare").read_bytes()
    assert "signed by this house&#39;s own key" in verified(client, content).text
    signing.unlink()
    assert "not among the keys that this page trusts" in client.get("/releases/mean.sudare").text


def test_a_file_of_an_unknown_key_or_ledger(page: TestPage, tmp_path: Path) -> None:
    other = TestPage(tmp_path / "other" if (tmp_path / "other").mkdir() is None else tmp_path)
    account = other.ledger().account("wards", epsilon=2.0)
    mean = PrivateMean(epsilon=0.5, schema=Schema({"stay": Number(0, 60)}), account=account).fit(table())
    Release.of(mean).save(tmp_path / "foreign.sudare", key=Ed25519PrivateKey.generate())
    text = verified(page.client("viewer"), (tmp_path / "foreign.sudare").read_bytes()).text
    assert "not among those that this page trusts" in text
    assert "Your own ledger" not in text
    assert "The ledger of this page did not let it out: it names another one.</p>" in text


@pytest.fixture
def own_key_page(page: TestPage, tmp_path: Path) -> TestPage:
    """The page, with the key that its releases are signed with as its own."""
    signing = tmp_path / "house.pem"
    signing.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    signing.chmod(0o600)
    return TestPage(tmp_path, signing_key=signing)


def test_a_file_of_the_own_key_that_the_ledger_did_not_let_out_is_a_warning(
    own_key_page: TestPage, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    account = TestPage(tmp_path / "other").ledger().account("wards", epsilon=2.0)
    mean = PrivateMean(epsilon=0.5, schema=Schema({"stay": Number(0, 60)}), account=account).fit(table())
    Release.of(mean).save(tmp_path / "elsewhere.sudare", key=KEY)
    client = own_key_page.client("viewer")
    elsewhere = verified(client, (tmp_path / "elsewhere.sudare").read_bytes()).text
    assert "signed by this house&#39;s own key" in elsewhere
    warning = re.search(r'<p class="problem" role="alert">([^<]*)</p>', elsewhere)
    assert warning is not None
    assert warning[1].startswith("The ledger of this page did not let it out: it names another one. Find out who")
    own = verified(client, (tmp_path / "releases" / "mean.sudare").read_bytes()).text
    assert "Your own ledger let exactly this out" in own
    assert "did not let it out" not in own


def test_a_ledger_that_cannot_be_read_is_told_and_nothing_claimed_of_it(own_key_page: TestPage, tmp_path: Path) -> None:
    content = (tmp_path / "releases" / "mean.sudare").read_bytes()
    (tmp_path / "ledger.db").write_bytes(b"no ledger" * 1000)
    text = verified(own_key_page.client("viewer"), content).text
    assert "whether it let the file out is not known" in text
    assert "let exactly this out" not in text
    assert "did not let it out" not in text


@pytest.mark.parametrize("content", [b"x", b"\0" * 5000, b"PK\x03\x04", b'{"a": ' * 5000])
def test_hostile_files_are_answered_in_words(page: TestPage, content: bytes) -> None:
    answer = verified(page.client("viewer"), content)
    assert answer.status_code == 400
    assert "This was refused" in answer.text


def test_a_changed_byte_is_noticed(page: TestPage) -> None:
    content = bytearray((page.folder / "releases" / "mean.sudare").read_bytes())
    for place in (10, len(content) // 2, len(content) - 1):
        changed = bytes(content[:place]) + bytes([content[place] ^ 1]) + bytes(content[place + 1 :])
        assert verified(page.client("viewer"), changed).status_code == 400


def test_files_that_are_too_large_or_missing(page: TestPage) -> None:
    client = page.client("viewer")
    headers = {"content-length": str(LARGEST_FILE_BYTES * 2), "content-type": "multipart/form-data; boundary=x"}
    assert client.post("/verify", content=b"", headers=headers).status_code == 413
    assert verified(client, b"").status_code == 400
    two = [("file", ("a", b"a")), ("file", ("b", b"b"))]
    assert client.post("/verify", data={"form_token": client.form_token()}, files=two).status_code == 400


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    page = TestPage(tmp_path, releases=tmp_path / "gone")
    answer = page.client().get("/releases")
    assert answer.status_code == 400
    assert "cannot be read" in answer.text
