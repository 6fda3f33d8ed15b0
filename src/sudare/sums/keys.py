"""A member's keys: X25519 to agree on pairwise secrets, Ed25519 to sign votes, and a root for secrets of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from sudare.errors import InvalidParameter
from sudare.sums.pseudorandom_streams import derived, extracted

_KEY_BYTES: Final = 32
_PAIR_SALT: Final = b"sudare pairwise secret"
_FIELD: Final = 2**255 - 19
_LOW_255_BITS: Final = 2**255 - 1
# First coordinates of the points of order 1, 2, 4 and 8 on Curve25519 and its twist.
_SMALL_ORDERS: Final = frozenset(
    {
        0,
        1,
        _FIELD - 1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    }
)
# Second coordinates of the points of order 1, 2, 4 and 8 on Edwards25519.
_SMALL_SIGNING_ORDERS: Final = frozenset(
    {
        0,
        1,
        _FIELD - 1,
        2707385501144840649318225287225658788936804267575313519463743609750303402022,
        55188659117513257062467267217118295137698188065244968500265048394206261417927,
    }
)


@dataclass(frozen=True)
class PublicKeys:
    """What the others need: 32 bytes each, to be pinned in the agreement."""

    exchange: bytes
    signing: bytes


class MemberKeys:
    """Private keys of one member, with the pairwise secrets they gave so far."""

    def __init__(self, exchange: bytes, signing: bytes, root: bytes) -> None:
        if {len(exchange), len(signing), len(root)} != {_KEY_BYTES}:
            raise InvalidParameter("A private key has not 32 bytes.", "Make new keys with MemberKeys.generated().")
        self._exchange = X25519PrivateKey.from_private_bytes(exchange)
        self._signing = Ed25519PrivateKey.from_private_bytes(signing)
        self._root = root
        self._secrets: dict[bytes, bytes] = {}
        self.public = PublicKeys(
            self._exchange.public_key().public_bytes_raw(), self._signing.public_key().public_bytes_raw()
        )

    @classmethod
    def generated(cls) -> MemberKeys:
        """New keys from the operating system's entropy."""
        return cls(*(os.urandom(_KEY_BYTES) for _ in range(3)))

    def secret_with(self, other: PublicKeys) -> bytes:
        """The secret that only these two members know, bound to both public keys; computed once."""
        known = self._secrets.get(other.exchange)
        return self._agreed(other) if known is None else known

    def own_seed(self, purpose: bytes, context: bytes) -> bytes:
        """A secret of this member alone: the same after a restart, another for every purpose and context."""
        return derived(self._root, purpose, context)

    def signature(self, text: bytes) -> bytes:
        """Ed25519 over the text."""
        return self._signing.sign(text)

    def _agreed(self, other: PublicKeys) -> bytes:
        self._secrets[other.exchange] = agreed_secret(self._exchange, self.public.exchange, other.exchange)
        return self._secrets[other.exchange]


def exchange_point(exchange: bytes) -> int:
    """What X25519 makes of a public key: 32 bytes name the same point with and without their last bit."""
    return (int.from_bytes(exchange, "little") & _LOW_255_BITS) % _FIELD


def is_of_small_order(exchange: bytes) -> bool:
    """Whether X25519 with this public key gives the same secret whatever the private key."""
    return exchange_point(exchange) in _SMALL_ORDERS


def is_signed_for_by_anybody(signing: bytes) -> bool:
    """Whether everybody can make Ed25519 signatures that this public key verifies: it is of small order, in any encoding."""
    return (int.from_bytes(signing, "little") & _LOW_255_BITS) % _FIELD in _SMALL_SIGNING_ORDERS


def agreed_secret(own: X25519PrivateKey, own_public: bytes, other_public: bytes) -> bytes:
    """The X25519 secret of two keys, bound to both public keys. Raise InvalidParameter for a key of small order."""
    try:
        secret = own.exchange(X25519PublicKey.from_public_bytes(other_public))
    except ValueError:
        raise InvalidParameter(
            "A member's public key is not a usable X25519 key.", "Ask it for its key again."
        ) from None
    return extracted(_PAIR_SALT, secret + b"".join(sorted((own_public, other_public))))
