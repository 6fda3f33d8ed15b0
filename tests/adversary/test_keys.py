"""Attacks on keys and other secrets: to read them, to put others in their place, and to find them in what is left lying about."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from sudare.cli.keys import private_key
from sudare.consortium import Identity
from sudare.consortium.transport.certificates import kit_files, write_kits
from sudare.errors import IdentityError

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
