"""Keys: encrypted at rest so that others can read them with openssl and nobody can without the passphrase; signatures."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_public_key,
)

from sudare.consortium import Identity, passphrase_from, verifies
from sudare.consortium.agreement.identity import is_usable
from sudare.errors import IdentityError, InvalidParameter
from tests.consortium.documents import PASSPHRASE


@pytest.fixture(scope="module")
def identity() -> Identity:
    return Identity.generated()


@pytest.fixture(scope="module")
def written(identity: Identity, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "key.pem"
    identity.save(path, PASSPHRASE)
    return path


@pytest.fixture
def file(written: Path, tmp_path: Path) -> Path:
    """A copy of the saved key with its rights: making one takes its time on purpose."""
    return shutil.copy2(written, tmp_path / "key.pem")


def test_a_saved_key_opens_with_its_passphrase_only(identity: Identity, file: Path) -> None:
    assert Identity.load(file, PASSPHRASE).public_key == identity.public_key
    with pytest.raises(IdentityError, match="passphrase is wrong"):
        Identity.load(file, b"incorrect horse")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_key_itself_is_not_in_the_file(identity: Identity) -> None:
    secret = identity.signing_key.private_bytes_raw()
    written = identity.encrypted(PASSPHRASE)
    assert written != identity.encrypted(PASSPHRASE), "salt and start must be new each time"
    assert b"ENCRYPTED PRIVATE KEY" in written
    import base64

    der = base64.b64decode(b"".join(written.splitlines()[1:-1]))
    assert secret not in der
    # id-scrypt of RFC 7914 with N = 2^14: an easier derivation would be a weaker lock.
    assert bytes.fromhex("06092b06010401da47040b") in der
    assert bytes.fromhex("02024000020108020105") in der


def test_openssl_reads_the_file(identity: Identity, file: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    command = ["openssl", "pkey", "-in", str(file), "-passin", f"pass:{PASSPHRASE.decode()}", "-pubout"]
    told = subprocess.run(command, check=True, capture_output=True)
    assert told.stdout == identity.public_pem()


def test_a_key_is_never_overwritten(identity: Identity, file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(IdentityError, match="exists already"):
        Identity.generated().save(file, PASSPHRASE)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    with pytest.raises(IdentityError, match="cannot be written"):
        identity.save(file.parent / "no" / "key.pem", PASSPHRASE)


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o644, 0o620, 0o640, 0o440, 0o610, 0o666])
def test_a_key_that_others_may_read_or_change_is_refused(mode: int, file: Path) -> None:
    file.chmod(mode)
    with pytest.raises(IdentityError, match="open to others") as refused:
        Identity.load(file, PASSPHRASE)
    assert "chmod 600" in refused.value.remedy


def status_with(monkeypatch: pytest.MonkeyPatch, owner: int, user: int) -> None:
    """Files seem to belong to one user, and this process to another."""
    looked_at = os.fstat

    def seeming(handle: int) -> os.stat_result:
        found = looked_at(handle)
        return os.stat_result([*found[:4], owner, *found[5:]])

    monkeypatch.setattr(os, "fstat", seeming)
    monkeypatch.setattr(os, "geteuid", lambda: user)


def test_a_secret_that_root_mounted_for_a_group_is_taken(
    identity: Identity, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status_with(monkeypatch, owner=0, user=1000)
    for mode in (0o440, 0o640, 0o400):
        file.chmod(mode)
        assert Identity.load(file, PASSPHRASE).public_key == identity.public_key
    for mode in (0o460, 0o444, 0o450):
        file.chmod(mode)
        with pytest.raises(IdentityError, match="open to others"):
            Identity.load(file, PASSPHRASE)


def test_a_key_of_another_user_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status_with(monkeypatch, owner=1001, user=1000)
    with pytest.raises(IdentityError, match="belongs to another user"):
        Identity.load(file, PASSPHRASE)


def test_a_key_where_everybody_can_replace_it_is_refused(identity: Identity, file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.pem"
    link.symlink_to(file)
    assert Identity.load(link, PASSPHRASE).public_key == identity.public_key
    for folder, loaded in ((file.parent, file), (file.parent, link)):
        folder.chmod(0o777)
        try:
            with pytest.raises(IdentityError, match="everybody can replace it") as refused:
                Identity.load(loaded, PASSPHRASE)
            assert "chmod o-w" in refused.value.remedy
            folder.chmod(0o1777)
            Identity.load(loaded, PASSPHRASE)
        finally:
            folder.chmod(0o700)
    file.chmod(0o644)
    with pytest.raises(IdentityError, match="open to others"):
        Identity.load(link, PASSPHRASE)


def test_other_files_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    private = (Encoding.PEM, PrivateFormat.PKCS8)

    def load(content: bytes) -> None:
        other.write_bytes(content)
        other.chmod(0o600)
        Identity.load(other, PASSPHRASE)

    with pytest.raises(IdentityError, match="not encrypted"):
        load(Ed25519PrivateKey.generate().private_bytes(*private, NoEncryption()))
    with pytest.raises(IdentityError, match="not an Ed25519 key"):
        load(X25519PrivateKey.generate().private_bytes(*private, BestAvailableEncryption(PASSPHRASE)))
    with pytest.raises(IdentityError, match="not a key"):
        load(b"nothing of the kind")
    with pytest.raises(IdentityError, match="cannot be read"):
        Identity.load(tmp_path / "none.pem", PASSPHRASE)


def test_a_short_passphrase_is_refused(identity: Identity) -> None:
    with pytest.raises(InvalidParameter, match="fewer than 8"):
        identity.encrypted(b"1234567")


def test_a_private_key_is_not_copied_and_not_shown(identity: Identity) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(identity)
    with pytest.raises(TypeError):
        copy.deepcopy(identity)
    assert identity.signing_key.private_bytes_raw().hex() not in repr(identity)
    assert identity.fingerprint in repr(identity)


def test_signatures_count_for_one_purpose_text_and_key(identity: Identity) -> None:
    signature = identity.sign("agreement", b"text")
    assert verifies(identity.public_key, "agreement", b"text", signature)
    assert not verifies(identity.public_key, "key rotation", b"text", signature)
    assert not verifies(identity.public_key, "agreement", b"texts", signature)
    assert not verifies(Identity.generated().public_key, "agreement", b"text", signature)
    assert not verifies(identity.public_key, "agreement", b"text", bytes(64))
    assert not verifies(identity.public_key, "agreement", b"text", b"")
    assert not verifies(b"short", "agreement", b"text", signature)


SMALL_ORDER = [
    "00" * 32,
    "01" + "00" * 31,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ec" + "ff" * 30 + "7f",
]


@pytest.mark.parametrize("text", SMALL_ORDER)
@pytest.mark.parametrize("sign", [0x00, 0x80])
def test_keys_by_which_anybody_can_sign_are_refused(text: str, sign: int) -> None:
    """0·B = 1 + k·A holds for a point A of order 8 or less whenever its order divides k: every few texts, without any secret."""
    key = bytes.fromhex(text)
    key = key[:31] + bytes([key[31] ^ sign])
    forged = b"\x01" + bytes(63)
    texts = [number.to_bytes(2, "big") for number in range(256)]
    if sign == 0:
        # The library itself takes the forgery, so that the refusal below is not an empty one.
        assert any(takes(key, forged, each) for each in texts)
    assert not is_usable(key)
    assert not any(verifies(key, "agreement", each, forged) for each in texts)


def takes(key: bytes, signature: bytes, text: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, b"sudare agreement\n" + text)
    except InvalidSignature:
        return False
    return True


def test_ordinary_keys_are_usable() -> None:
    assert all(is_usable(Identity.generated().public_key) for _ in range(20))
    assert not is_usable(b"")


@pytest.mark.parametrize("purpose", ["", "agreement\nagreement", "Agreement", "a" * 42, "1"])
def test_a_purpose_is_a_few_plain_words(purpose: str, identity: Identity) -> None:
    with pytest.raises(InvalidParameter):
        identity.sign(purpose, b"")


def test_keys_for_sums_survive_a_restart_and_differ_by_context(identity: Identity, file: Path) -> None:
    again = Identity.load(file, PASSPHRASE)
    assert identity.member_keys(b"a").public == again.member_keys(b"a").public
    assert identity.member_keys(b"a").own_seed(b"x", b"y") == again.member_keys(b"a").own_seed(b"x", b"y")
    assert identity.member_keys(b"a").public != identity.member_keys(b"b").public
    assert identity.member_keys(b"a").public.signing != identity.public_key
    assert identity.derived(b"one", b"") != identity.derived(b"two", b"")
    other = Identity.generated().member_keys(b"a")
    assert identity.member_keys(b"a").secret_with(other.public) == other.secret_with(identity.member_keys(b"a").public)


def test_the_public_key_in_pem(identity: Identity) -> None:
    assert load_pem_public_key(identity.public_pem()).public_bytes_raw() == identity.public_key  # type: ignore[union-attr]


def test_where_a_passphrase_comes_from(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for file, text in ((one, "from the option\n"), (two, "from the file\r\n")):
        file.write_text(text, newline="")
        file.chmod(0o600)
    environment = {"SUDARE_PASSPHRASE_FILE": str(two), "SUDARE_PASSPHRASE": "from the text"}
    assert passphrase_from(one, environment, lambda: "asked") == b"from the option"
    assert passphrase_from(None, environment, lambda: "asked") == b"from the file"
    del environment["SUDARE_PASSPHRASE_FILE"]
    assert passphrase_from(None, environment, lambda: "asked") == b"from the text"
    assert passphrase_from(None, {}, lambda: "asked") == b"asked"
    with pytest.raises(IdentityError, match="no passphrase"):
        passphrase_from(None, {})
    with pytest.raises(IdentityError, match="empty"):
        passphrase_from(None, {}, lambda: "")
    one.chmod(0o644)
    with pytest.raises(IdentityError, match="open to others"):
        passphrase_from(one, {})
