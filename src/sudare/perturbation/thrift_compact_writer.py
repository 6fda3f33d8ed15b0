"""The few values of Thrift's compact protocol that the layout of a Parquet file is made of. Only written, never read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

_INT32: Final = 5
_INT64: Final = 6
_BINARY: Final = 8
_LIST: Final = 9
_STRUCT: Final = 12
_LONG_LIST: Final = 15


class Value(NamedTuple):
    """A value in bytes, and the number of its type."""

    kind: int
    content: bytes


def varint(number: int) -> bytes:
    """A whole number from zero, seven bits a byte, the lowest first; all bytes but the last have their highest bit set."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def int32(number: int) -> Value:
    """A whole number below 2³¹; none here is negative."""
    return Value(_INT32, varint(2 * number))


def int64(number: int) -> Value:
    """A whole number below 2⁶³; none here is negative."""
    return Value(_INT64, varint(2 * number))


def text(value: str) -> Value:
    """Text as UTF-8 with its length."""
    content = value.encode()
    return Value(_BINARY, varint(len(content)) + content)


def listed(values: Sequence[Value]) -> Value:
    """One or more values of one type."""
    kind = values[0].kind
    size = bytes([len(values) << 4 | kind]) if len(values) < _LONG_LIST else bytes([0xF0 | kind]) + varint(len(values))
    return Value(_LIST, size + b"".join(value.content for value in values))


def record(fields: Mapping[int, Value]) -> Value:
    """Fields by their numbers, which rise by at most 15 from one to the next."""
    written, before = bytearray(), 0
    for number, value in fields.items():
        written.append((number - before) << 4 | value.kind)
        written += value.content
        before = number
    return Value(_STRUCT, bytes(written) + b"\0")
