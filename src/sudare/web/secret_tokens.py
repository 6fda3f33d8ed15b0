"""Secrets of the page from the operating system's entropy: of sessions, forms and one-time addresses, and salts of passwords."""

from __future__ import annotations

import secrets


def new_token() -> str:
    """A text of 256 random bits that can stand in an address or a cookie."""
    return secrets.token_urlsafe(32)


def new_secret(size: int = 32) -> bytes:
    """Random bytes."""
    return secrets.token_bytes(size)
