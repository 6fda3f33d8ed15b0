"""Curve25519 in whole numbers, for attacks with keys: points of small order, and other keys that agree on the same secrets."""

from __future__ import annotations

from typing import Final

PRIME: Final = 2**255 - 19
_A: Final = 486662
Point = tuple[int, int] | None
"""Affine (u, v) on v² = u³ + Au² + u; None is the point at infinity."""

# The u-coordinates of points of order 8, then 1 and −1 (order 4 on the curve and on its twist) and 0 (order 2).
_ORDER_8: Final = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
_SMALL: Final = (0, 1, PRIME - 1, *_ORDER_8)
# Numbers below 19 have a second form of 255 bits, and X25519 ignores the highest bit.
ENCODINGS_OF_SMALL_ORDER: Final = tuple(
    (value + high).to_bytes(32, "little")
    for u in _SMALL
    for value in ((u, u + PRIME) if u + PRIME < 2**255 else (u,))
    for high in (0, 2**255)
)


def translated(public: bytes, kind: str, which: int = 0) -> bytes:
    """A key of other bytes that gives the same X25519 secrets: with the ignored "high bit", or plus a point of "order 2", "order 4" or "order 8"."""
    if kind == "high bit":
        return bytes([*public[:31], public[31] | 0x80])
    order = int(kind.split()[1])
    u = int.from_bytes(public, "little")
    moved = _plus((u, _root(_right_side(u))), _of_order(order)[which])
    assert moved is not None
    return moved[0].to_bytes(32, "little")


def _of_order(order: int) -> list[Point]:
    """All points of order 2, 4 or 8: multiples of one of order 8."""
    generator: Point = (_ORDER_8[0], _root(_right_side(_ORDER_8[0])))
    multiples: list[Point] = [None]
    for _ in range(7):
        multiples.append(_plus(multiples[-1], generator))
    assert _plus(multiples[-1], generator) is None
    step = 8 // order
    return [multiples[step * odd] for odd in range(1, order, 2)]


def _right_side(u: int) -> int:
    return (u**3 + _A * u**2 + u) % PRIME


def _root(square: int) -> int:
    root = pow(square, (PRIME + 3) // 8, PRIME)
    if root * root % PRIME != square:
        root = root * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    assert root * root % PRIME == square
    return root


def _plus(first: Point, second: Point) -> Point:
    if first is None or second is None:
        return second if first is None else first
    (u, v), (other_u, other_v) = first, second
    if u == other_u and (v + other_v) % PRIME == 0:
        return None
    slope = (
        (3 * u * u + 2 * _A * u + 1) * pow(2 * v, -1, PRIME)
        if first == second
        else (other_v - v) * pow(other_u - u, -1, PRIME)
    ) % PRIME
    total = (slope * slope - _A - u - other_u) % PRIME
    return total, (slope * (u - total) - v) % PRIME
