"""In which fields two agreements differ, found from digests of their fields: what the fields hold is not sent."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sudare.consortium.agreement.document_fields import Field
from sudare.errors import AgreementError, AgreementMismatch
from sudare.privacy.ledger_chain import canonical_json
from sudare.safe_text import is_printable

MOST_FIELDS: Final = 200_000
_LONGEST_PATH: Final = 300
_MOST_FIELDS_SHOWN: Final = 8
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def field_digests(document: Mapping[str, Any], nonce: bytes) -> dict[str, str]:
    """A digest of every field of a document by its path."""
    return {path: _field_digest(nonce, path, value) for path, value in _leaves("", document)}


def differing_fields(mine: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    """Paths whose digests differ, or that only one side has."""
    return tuple(sorted(path for path in {*mine, *theirs} if mine.get(path) != theirs.get(path)))


def parsed_field_digests(value: object) -> dict[str, str]:
    """Field digests as another member sent them, if they have the form they must have."""
    if not isinstance(value, Mapping) or not 0 < len(value) <= MOST_FIELDS:
        raise AgreementError("Field digests are not a table.", "The other member runs another version or is not one.")
    found: dict[str, str] = {}
    for path, digest in value.items():
        if not isinstance(path, str) or len(path) > _LONGEST_PATH or not all(map(is_printable, path)):
            raise AgreementError("A field digest has no printable path.", "The other member is not to be trusted.")
        found[path] = Field("digest", digest).hexadecimal(64)
    return found


def shown_fields(fields: tuple[str, ...]) -> str:
    """The first of these fields, and how many more there are."""
    more = f" and {len(fields) - _MOST_FIELDS_SHOWN} more" if len(fields) > _MOST_FIELDS_SHOWN else ""
    return ", ".join(fields[:_MOST_FIELDS_SHOWN]) + more


def mismatch(fields: tuple[str, ...]) -> AgreementMismatch:
    """The error for two agreements that differ in these fields."""
    return AgreementMismatch(
        f"The other member holds another agreement: {shown_fields(fields) or 'its hash'} differs.",
        "Settle which one is right, sign it, and start again.",
    )


def _field_digest(nonce: bytes, path: str, value: object) -> str:
    return hashlib.sha256(
        b"sudare field\n" + len(nonce).to_bytes(8, "big") + nonce + canonical_json([path, value]).encode()
    ).hexdigest()


def _leaves(path: str, value: object) -> Iterator[tuple[str, object]]:
    """Every value that is no table, with its path; an empty table is a value, too."""
    if not isinstance(value, Mapping) or not value:
        yield path if len(path) <= _LONGEST_PATH else hashlib.sha256(path.encode()).hexdigest(), value
        return
    for key, inner in value.items():
        # Quoted as in TOML where needed, so that no two fields have one path and all can be shown on a terminal.
        word = key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=not key.isprintable())
        yield from _leaves(f"{path}.{word}" if path else word, inner)
