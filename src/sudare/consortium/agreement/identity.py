"""Who a member is: one Ed25519 key, encrypted at rest under a passphrase, that signs everything the member stands for.

The file is PKCS #8 in PEM form (RFC 5958), encrypted with PBES2: scrypt (RFC 7914) and AES-256-CBC. OpenSSL reads it.
"""

from __future__ import annotations

import base64
import os
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from sudare.errors import IdentityError, InvalidParameter
from sudare.files import PRIVATE_MODE, read_private, write_new
from sudare.privacy.release_file import fingerprint
from sudare.sums.keys import MemberKeys, is_signed_for_by_anybody
from sudare.sums.pseudorandom_streams import derived, extracted

PHRASE_VARIABLE: Final = "SUDARE_PASSPHRASE"
PHRASE_FILE_VARIABLE: Final = "SUDARE_PASSPHRASE_FILE"
SHORTEST_PASSPHRASE: Final = 8

# OpenSSL refuses to read a key whose scrypt needs more than 32 MiB; five passes make up for the memory (OWASP's table).
_SCRYPT_COST, _SCRYPT_BLOCK, _SCRYPT_PASSES = 2**14, 8, 5
_PURPOSE: Final = re.compile(r"[a-z][a-z ]{0,40}")
_ROOT_SALT: Final = b"sudare identity root"

Ask = Callable[[], str]


class Identity:
    """A member's private key in use. It never leaves the process, and no message shows it."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = key.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return f"Identity({self.fingerprint})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("A private key is not copied or pickled.")

    @classmethod
    def generated(cls) -> Identity:
        """A new key from the operating system's entropy."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: str | os.PathLike[str], passphrase: bytes) -> Identity:
        """The key in a file that only its owner can read and only the passphrase opens."""
        file = Path(path)
        content = read_private(file, "The key")
        try:
            key = load_pem_private_key(content, password=passphrase)
        except TypeError:
            raise IdentityError(
                f"'{file.name}' is not encrypted.", "Make a key with `sudare key new`, or encrypt it with openssl."
            ) from None
        except ValueError:
            raise IdentityError(
                f"'{file.name}' does not open: it is not a key, or the passphrase is wrong.",
                "Check the path and the passphrase.",
            ) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise IdentityError(f"'{file.name}' is not an Ed25519 key.", "Make one with `sudare key new`.")
        return cls(key)

    def save(self, path: str | os.PathLike[str], passphrase: bytes) -> None:
        """Write the encrypted key into a new file, for its owner only."""
        file = Path(path)
        try:
            write_new(file, self.encrypted(passphrase), PRIVATE_MODE)
        except FileExistsError:
            raise IdentityError(
                f"'{file.name}' exists already.", "A key is never overwritten: choose another name."
            ) from None
        except OSError as error:
            raise IdentityError(f"'{file.name}' cannot be written ({error.strerror}).", "Check the folder.") from None

    def encrypted(self, passphrase: bytes) -> bytes:
        """The PEM text of the key under a passphrase."""
        if len(passphrase) < SHORTEST_PASSPHRASE:
            raise InvalidParameter(
                f"The passphrase has fewer than {SHORTEST_PASSPHRASE} bytes.",
                "Use several words that nobody would guess.",
            )
        clear = self._key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        text = base64.b64encode(_encrypted_pkcs8(clear, passphrase)).decode()
        lines = "\n".join(textwrap.wrap(text, 64))
        return f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{lines}\n-----END ENCRYPTED PRIVATE KEY-----\n".encode()

    @property
    def signing_key(self) -> Ed25519PrivateKey:
        """The key itself, for `Release.save`."""
        return self._key

    @property
    def fingerprint(self) -> str:
        """Eight groups of four hexadecimal digits, to be read out on the telephone."""
        return fingerprint(self.public_key)

    def public_pem(self) -> bytes:
        """The public key as `sudare inspect --trust` and openssl read it."""
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def sign(self, purpose: str, text: bytes) -> bytes:
        """Ed25519 over the text for one purpose: a signature for one never counts for another."""
        return self._key.sign(_signed(purpose, text))

    def derived(self, purpose: bytes, context: bytes) -> bytes:
        """32 secret bytes for a purpose and context: the same after a restart, and none tells anything about another."""
        root = extracted(_ROOT_SALT, self._key.private_bytes_raw())
        return derived(root, purpose, context)

    def member_keys(self, context: bytes) -> MemberKeys:
        """Keys for sums: the same after a restart, others for every context (agreement and task)."""
        purposes = (b"exchange key", b"voting key", b"root of own masks")
        return MemberKeys(*(self.derived(purpose, context) for purpose in purposes))


def is_usable(public_key: bytes) -> bool:
    """Whether only the owner of a private key can sign for this public key."""
    return len(public_key) == 32 and not is_signed_for_by_anybody(public_key)


def verifies(public_key: bytes, purpose: str, text: bytes, signature: bytes) -> bool:
    """Whether the owner of a public key signed the text for that purpose."""
    if not is_usable(public_key):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, _signed(purpose, text))
    except (InvalidSignature, ValueError):
        return False
    return True


def passphrase_from(
    file: str | os.PathLike[str] | None = None, environment: Mapping[str, str] | None = None, ask: Ask | None = None
) -> bytes:
    """The passphrase: from a file, from the file or text that the environment names, or by asking."""
    variables = os.environ if environment is None else environment
    source = file or variables.get(PHRASE_FILE_VARIABLE)
    if source:
        content = read_private(Path(source), "The passphrase file").rstrip(b"\r\n")
    elif variables.get(PHRASE_VARIABLE):
        content = variables[PHRASE_VARIABLE].encode()
    elif ask is not None:
        content = ask().encode()
    else:
        raise IdentityError(
            "There is no passphrase for the key.",
            f"Give a passphrase file, or set {PHRASE_FILE_VARIABLE} or {PHRASE_VARIABLE}.",
        )
    if not content:
        raise IdentityError("The passphrase is empty.", "Keys are encrypted at rest: give the passphrase.")
    return content


def _signed(purpose: str, text: bytes) -> bytes:
    """What is signed: the purpose ends with the line, so that no text can be taken for another purpose."""
    if not _PURPOSE.fullmatch(purpose):
        raise InvalidParameter("A purpose is a few small letters.", "Name what the signature is for.")
    return b"sudare " + purpose.encode() + b"\n" + text


def _encrypted_pkcs8(clear: bytes, passphrase: bytes) -> bytes:
    """EncryptedPrivateKeyInfo. `BestAvailableEncryption` of `cryptography` would use 2048 rounds of PBKDF2, which a thief tries fast."""
    salt, start = os.urandom(16), os.urandom(16)
    key = Scrypt(salt=salt, length=32, n=_SCRYPT_COST, r=_SCRYPT_BLOCK, p=_SCRYPT_PASSES).derive(passphrase)
    padder = padding.PKCS7(128).padder()
    encryptor = Cipher(algorithms.AES(key), modes.CBC(start)).encryptor()
    secret = encryptor.update(padder.update(clear) + padder.finalize()) + encryptor.finalize()
    scrypt = _sequence(
        _OBJECT_SCRYPT,
        _sequence(_octets(salt), _integer(_SCRYPT_COST), _integer(_SCRYPT_BLOCK), _integer(_SCRYPT_PASSES)),
    )
    cipher = _sequence(_OBJECT_AES_256_CBC, _octets(start))
    return _sequence(_sequence(_OBJECT_PBES2, _sequence(scrypt, cipher)), _octets(secret))


# DER: tag, length, content (ITU-T X.690). All lengths here are below 2^16.
_OBJECT_PBES2: Final = bytes.fromhex("06092a864886f70d01050d")
_OBJECT_SCRYPT: Final = bytes.fromhex("06092b06010401da47040b")
_OBJECT_AES_256_CBC: Final = bytes.fromhex("060960864801650304012a")


def _tagged(tag: int, content: bytes) -> bytes:
    length = len(content)
    size = bytes([length]) if length < 0x80 else bytes([0x82]) + length.to_bytes(2, "big")
    if 0x80 <= length < 0x100:
        size = bytes([0x81, length])
    return bytes([tag]) + size + content


def _sequence(*parts: bytes) -> bytes:
    return _tagged(0x30, b"".join(parts))


def _octets(content: bytes) -> bytes:
    return _tagged(0x04, content)


def _integer(value: int) -> bytes:
    return _tagged(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))
