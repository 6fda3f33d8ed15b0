"""Keys: both ends agree, keys of small order give nothing, and a key that is merely written otherwise gives an unrelated secret."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from sudare.errors import InvalidParameter
from sudare.sums.keys import MemberKeys, PublicKeys, agreed_secret
from tests.sums.montgomery import ENCODINGS_OF_SMALL_ORDER, translated


def exchange(secret: bytes) -> tuple[X25519PrivateKey, bytes]:
    private = X25519PrivateKey.from_private_bytes(secret)
    return private, private.public_key().public_bytes_raw()


def test_both_ends_agree_on_a_secret_that_others_do_not_have():
    first, second, third = (MemberKeys.generated() for _ in range(3))
    assert first.secret_with(second.public) == second.secret_with(first.public)
    assert first.secret_with(second.public) == first.secret_with(second.public)
    assert (
        len({first.secret_with(second.public), first.secret_with(third.public), second.secret_with(third.public)}) == 3
    )


def test_private_keys_have_32_bytes():
    for short in range(3):
        with pytest.raises(InvalidParameter, match="32 bytes"):
            MemberKeys(*(b"short" if place == short else bytes([place]) * 32 for place in range(3)))


def test_own_seeds_come_again_and_differ_by_purpose_context_and_member():
    keys = MemberKeys(*(bytes([place]) * 32 for place in (1, 2, 3)))
    again = MemberKeys(*(bytes([place]) * 32 for place in (1, 2, 3)))
    other = MemberKeys(*(bytes([place]) * 32 for place in (1, 2, 4)))
    assert keys.own_seed(b"p", b"c") == again.own_seed(b"p", b"c")
    assert (
        len(
            {
                keys.own_seed(b"p", b"c"),
                keys.own_seed(b"q", b"c"),
                keys.own_seed(b"p", b"d"),
                other.own_seed(b"p", b"c"),
            }
        )
        == 4
    )
    assert keys.public == other.public == again.public


@pytest.mark.parametrize("encoding", ENCODINGS_OF_SMALL_ORDER, ids=lambda each: each.hex()[:8] + each.hex()[-4:])
def test_every_key_of_small_order_is_refused(encoding):
    """All points of order 1, 2, 4 and 8 on the curve and its twist, in every way that 32 bytes can name them."""
    with pytest.raises(InvalidParameter, match="X25519"):
        MemberKeys.generated().secret_with(PublicKeys(encoding, bytes(32)))


def test_keys_of_another_length_are_refused():
    for length in (0, 31, 33):
        with pytest.raises(InvalidParameter, match="X25519"):
            MemberKeys.generated().secret_with(PublicKeys(bytes(length), bytes(32)))


@pytest.mark.parametrize("kind", ["high bit", "order 2", "order 4", "order 8"])
def test_a_key_that_gives_the_same_x25519_secret_gives_an_unrelated_agreed_secret(kind):
    """Adding a point of small order, or the bit that X25519 ignores, changes the bytes of a key and not the Diffie–Hellman secret.

    Who shows another's key so as its own would make masks cancel, were secrets not bound to the keys' bytes.
    """
    (own, own_public), (victim, victim_public) = exchange(b"a" * 32), exchange(b"v" * 32)
    others = {translated(victim_public, kind)} if kind == "high bit" else translated_all(victim_public, kind)
    assert victim_public not in others
    for other in others:
        raw = own.exchange(X25519PublicKey.from_public_bytes(other))
        assert raw == own.exchange(X25519PublicKey.from_public_bytes(victim_public))
        assert agreed_secret(own, own_public, other) != agreed_secret(own, own_public, victim_public)
        assert agreed_secret(own, own_public, victim_public) == agreed_secret(victim, victim_public, own_public)


def translated_all(public: bytes, kind: str) -> set[bytes]:
    order = int(kind.split()[1])
    return {translated(public, kind, which) for which in range({2: 1, 4: 2, 8: 4}[order])}
