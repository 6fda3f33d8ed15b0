"""Ed25519 keys from PEM files, as `sudare key` and openssl make them, and the passphrases that open them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from sudare.errors import IdentityError, InvalidParameter

_PRIVATE = b"PRIVATE KEY-----"

PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        metavar="FILE",
        help="A file with the key's passphrase. Without it: SUDARE_PASSPHRASE_FILE, SUDARE_PASSPHRASE, or you are asked.",
    ),
]
_MEMBER: Final = typer.Option("--member", envvar="SUDARE_MEMBER", metavar="FILE", help="This member's own file (TOML).")
MemberFile = Annotated[Path, _MEMBER]
# Where a command does without one.
AnyMemberFile = Annotated[Path | None, _MEMBER]


def passphrase(file: Path | None, question: str, *, new: bool = False) -> bytes:
    """The passphrase of a key: from a file, from the environment, or asked for (twice, if it is a new one)."""
    from sudare.consortium.agreement.identity import passphrase_from

    def ask() -> str:
        try:
            return str(typer.prompt(question, hide_input=True, confirmation_prompt=new, err=True))
        except typer.Abort:
            if sys.stdin.isatty():
                raise
        raise IdentityError(
            "The key needs a passphrase, and there is no terminal to ask for it.",
            "Set SUDARE_PASSPHRASE_FILE or SUDARE_PASSPHRASE, or give --passphrase-file where the command has it.",
        )

    return passphrase_from(file, ask=ask)


def private_key(path: Path) -> Ed25519PrivateKey:
    """The signing key in a file that nobody else may read; asks for the passphrase, or warns where there is none."""
    from sudare.files import read_private

    # That a file is no key at all is said before anything about its rights.
    content = read_private(path, "The key", InvalidParameter) if _PRIVATE in _content(path) else b""
    key = None
    try:
        key = load_pem_private_key(content, password=None)
        _warn_of_clear_key(path)
    except TypeError:
        phrase = passphrase(None, f"Passphrase of {path.name}")
        try:
            key = load_pem_private_key(content, password=phrase)
        except ValueError:
            raise InvalidParameter(f"The passphrase does not open '{path.name}'.", "Try again.") from None
    except ValueError:
        pass
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidParameter(
            f"'{path.name}' is not an Ed25519 private key in PEM form.",
            "Make one with: sudare key new key.pem, or: openssl genpkey -algorithm ed25519 -aes256 -out key.pem",
        )
    return key


def _warn_of_clear_key(path: Path) -> None:
    typer.echo(
        f"Warning: '{path.name}' is not encrypted: whoever gets the file can sign in your name. "
        "Make one with a passphrase: sudare key new",
        err=True,
    )


def public_key(path: Path) -> Ed25519PublicKey:
    """The public key in a file."""
    # A file that cannot be read is told as that: its error is a ValueError, too.
    content = _content(path)
    try:
        key = load_pem_public_key(content)
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidParameter(
            f"'{path.name}' is not an Ed25519 public key in PEM form.",
            "The sender makes one with: openssl pkey -in key.pem -pubout -out public.pem",
        )
    return key


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidParameter(f"The key '{path.name}' cannot be read ({error.strerror}).", "Check the path.") from None
