"""Passwords of the page's users: kept as scrypt hashes, compared in constant time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Final

from sudare.errors import InvalidParameter
from sudare.web.secret_tokens import new_secret

SHORTEST_PASSWORD: Final = 12
LONGEST_PASSWORD: Final = 256
# 32 MiB and about a tenth of a second for each guess.
_COST, _BLOCK, _PARALLEL = 2**15, 8, 1
_SALT_BYTES, _HASH_BYTES = 16, 32
_MEMORY_BYTES: Final = 2 * 128 * _COST * _BLOCK
_FORM: Final = re.compile(r"scrypt:32768:8:1:([A-Za-z0-9_-]{22}):([A-Za-z0-9_-]{43})")


def hashed_password(password: str) -> str:
    """What the settings keep of a password. Raise InvalidParameter where it is too short to be one."""
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise InvalidParameter(
            f"A password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters.",
            "Use several words, or a password manager.",
        )
    salt = new_secret(_SALT_BYTES)
    return f"scrypt:{_COST}:{_BLOCK}:{_PARALLEL}:{_encoded(salt)}:{_encoded(_scrypt(password, salt))}"


def is_password_hash(text: str) -> bool:
    """Whether a text is what `hashed_password` returns."""
    return _FORM.fullmatch(text) is not None


def is_password(password: str, kept: str | None) -> bool:
    """Whether a password is the one that was hashed; None, for a user who is not there, takes as long and is never right.

    So does one that is too long: guesses that cost nothing would push the counts of others out of memory.
    """
    found = _FORM.fullmatch(kept if kept is not None else _NOBODY)
    if found is None:
        return False
    is_same = hmac.compare_digest(_scrypt(password, _decoded(found[1])), _decoded(found[2]))
    return is_same and kept is not None and len(password) <= LONGEST_PASSWORD


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=_COST,
        r=_BLOCK,
        p=_PARALLEL,
        maxmem=_MEMORY_BYTES,
        dklen=_HASH_BYTES,
    )


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


_NOBODY: Final = f"scrypt:{_COST}:{_BLOCK}:{_PARALLEL}:{_encoded(bytes(_SALT_BYTES))}:{_encoded(bytes(_HASH_BYTES))}"
