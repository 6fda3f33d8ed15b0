"""Messages and states as bytes: one canonical form, read back only into the classes that the reader names. Never pickle.

A value is a tag, a length where there is one, and its content. Reading checks every length against what is there and every
field of a class against its annotation, so that garbage is refused here and not somewhere inside a protocol. Whatever the bytes are,
reading them ends in a value or in `MessageMalformed`, and takes no more memory than a small multiple of their number.
"""

from __future__ import annotations

import struct
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar

import numpy as np

from sudare.errors import MessageMalformed

_LENGTH_BYTES: Final = 8
_MOST_DEPTH: Final = 16
_MOST_TEXT_BYTES: Final = 1 << 16
_MOST_INTEGER_BYTES: Final = 1 << 10
_LONGEST_SIDE: Final = 1 << 32
# So many values in a message of others: a second of work at most. Members of a sum of S send some S² of them.
MOST_VALUES: Final = 1 << 18
# The bytes of arrays are parts themselves, so that they are copied once.
Part = bytes | memoryview
_NONE, _TRUE, _FALSE, _INT, _BYTES, _TEXT, _TUPLE, _SET, _MAP, _WORDS, _OBJECT = b"NTFIBSLEMWO"


def packed(value: object) -> bytes:
    """The bytes of a value made of None, bool, int, bytes, str, tuple, frozenset, mapping, arrays of words and dataclasses."""
    parts: list[Part] = []
    _pack(value, parts)
    return b"".join(parts)


def packed_size(value: object) -> int:
    """How many bytes `packed` gives, without copying arrays."""
    parts: list[Part] = []
    _pack(value, parts)
    return sum(map(len, parts))


def unpacked(content: bytes, *classes: type, most_values: int | None = None) -> Any:
    """The value of these bytes; dataclasses in it are among `classes`.

    Raise MessageMalformed unless the bytes are the packed form of such a value, with at most `most_values` values in it. Own states may
    have any number; what others sent may not.
    """
    reader = _Reader(content, {packed_name(each): each for each in classes}, most_values)
    try:
        value = reader.value(0)
    except MessageMalformed:
        raise
    except (ValueError, TypeError, ArithmeticError, LookupError, RecursionError, MemoryError):
        # A class refused its fields, or numpy its shape.
        raise _malformed("a value is none that its class allows") from None
    if reader.at != len(content):
        raise _malformed("bytes are left over")
    return value


Read = TypeVar("Read")


def unpacked_as(kind: type[Read], content: bytes, *inner: type, most_values: int | None = None) -> Read:
    """The value of this class, with values of `inner` classes in it, as `unpacked`. Raise MessageMalformed unless the bytes are one."""
    found = unpacked(content, kind, *inner, most_values=most_values)
    if not isinstance(found, kind):
        raise _malformed(f"they are not a packed {packed_name(kind).lstrip('_')}")
    return found


def packed_name(kind: type) -> str:
    """The name under which a class is packed: its own, or `PACKED_NAME` where it was renamed since bytes were first written."""
    return str(getattr(kind, "PACKED_NAME", kind.__name__))


def _malformed(reason: str) -> MessageMalformed:
    return MessageMalformed(
        f"These bytes are not a message or state: {reason}.", "Ask for them again; nothing was used."
    )


Writer = Callable[[Any, list[Part]], None]


def _pack(value: object, parts: list[Part]) -> None:
    kind: type = type(value)
    _writer(kind)(value, parts)


@lru_cache(maxsize=256)
def _writer(kind: type) -> Writer:
    """How values of a class are packed. Raise TypeError for one that has no packed form."""
    for each, write in _WRITERS:
        if issubclass(kind, each):
            return write
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} has no packed form")
    name, names = packed_name(kind).encode(), [field.name for field in fields(kind)]
    prefix = _tagged(_OBJECT, len(name)) + name + _length(len(names))

    def write_fields(value: object, parts: list[Part]) -> None:
        parts.append(prefix)
        for each in names:
            _pack(getattr(value, each), parts)

    return write_fields


def _length(count: int) -> bytes:
    return count.to_bytes(_LENGTH_BYTES, "little")


# A tag and the length after it.
_tagged: Final = struct.Struct("<BQ").pack


def _pack_content(tag: int, content: bytes, parts: list[Part]) -> None:
    parts += (_tagged(tag, len(content)), content)


def _pack_int(value: int, parts: list[Part]) -> None:
    _pack_content(_INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True), parts)


def _pack_tuple(value: tuple[object, ...], parts: list[Part]) -> None:
    parts.append(_tagged(_TUPLE, len(value)))
    for entry in value:
        _pack(entry, parts)


def _pack_set(value: frozenset[int], parts: list[Part]) -> None:
    parts.append(_tagged(_SET, len(value)))
    for entry in sorted(value):
        _pack_int(entry, parts)


def _pack_map(value: Mapping[int, object], parts: list[Part]) -> None:
    parts.append(_tagged(_MAP, len(value)))
    for key in sorted(value):
        _pack_int(key, parts)
        _pack(value[key], parts)


def _pack_words(value: np.ndarray[Any, Any], parts: list[Part]) -> None:
    if value.dtype.kind != "u" or value.dtype.itemsize != 8:
        raise TypeError(f"arrays of {value.dtype} have no packed form")
    parts += [_tagged(_WORDS, value.ndim), *map(_length, value.shape)]
    parts += [_length(value.nbytes), np.ascontiguousarray(value, dtype="<u8").reshape(-1).view(np.uint8).data]


_WRITERS: Final[tuple[tuple[type, Writer], ...]] = (
    (type(None), lambda _, parts: parts.append(bytes([_NONE]))),
    (bool, lambda value, parts: parts.append(bytes([_TRUE if value else _FALSE]))),
    (int, _pack_int),
    (bytes, lambda value, parts: _pack_content(_BYTES, value, parts)),
    (str, lambda value, parts: _pack_content(_TEXT, value.encode(), parts)),
    (tuple, _pack_tuple),
    (frozenset, _pack_set),
    (Mapping, _pack_map),
    (np.ndarray, _pack_words),
)


class _Reader:
    """A place in a byte string."""

    def __init__(self, content: bytes, classes: Mapping[str, type], most_values: int | None) -> None:
        self.content, self.classes, self.at = content, classes, 0
        # Every value takes a byte, so that this limit always holds.
        self.values_left = len(content) + 1 if most_values is None else most_values

    def taken(self, count: int) -> bytes:
        if count > len(self.content) - self.at:
            raise _malformed("they end too early")
        self.at += count
        return self.content[self.at - count : self.at]

    def length(self) -> int:
        return int.from_bytes(self.taken(_LENGTH_BYTES), "little")

    def count(self) -> int:
        """A number of entries; each takes a byte at least."""
        count = self.length()
        if count > len(self.content) - self.at:
            raise _malformed("they end too early")
        if count > self.values_left:
            raise _malformed("there are too many values")
        return count

    def short(self, most: int) -> bytes:
        """Content of at most so many bytes."""
        count = self.length()
        if count > most:
            raise _malformed("a number or text is too long")
        return self.taken(count)

    def value(self, depth: int) -> Any:
        if depth > _MOST_DEPTH:
            raise _malformed("values are nested too deep")
        self.values_left -= 1
        if self.values_left < 0:
            raise _malformed("there are too many values")
        tag = self.taken(1)[0]
        simple = {_NONE: None, _TRUE: True, _FALSE: False}
        if tag in simple:
            return simple[tag]
        readers: dict[int, Callable[[int], Any]] = {
            _INT: lambda _: self.integer(),
            _BYTES: lambda _: self.taken(self.length()),
            _TEXT: lambda _: self.text(),
            _TUPLE: lambda deeper: tuple(self.value(deeper) for _ in range(self.count())),
            _SET: self.members,
            _MAP: self.mapping,
            _WORDS: lambda _: self.words(),
            _OBJECT: self.instance,
        }
        if tag not in readers:
            raise _malformed("a tag is unknown")
        return readers[tag](depth + 1)

    def integer(self) -> int:
        content = self.short(_MOST_INTEGER_BYTES)
        value = int.from_bytes(content, "little", signed=True)
        if len(content) != value.bit_length() // 8 + 1:
            raise _malformed("a number is not in its shortest form")
        return value

    def text(self) -> str:
        try:
            return self.short(_MOST_TEXT_BYTES).decode()
        except UnicodeDecodeError:
            raise _malformed("a text is not UTF-8") from None

    def ascending(self, keys: list[Any]) -> None:
        if not all(type(key) is int for key in keys) or keys != sorted(set(keys)):
            raise _malformed("keys are not ascending numbers")

    def members(self, depth: int) -> frozenset[int]:
        entries = [self.value(depth) for _ in range(self.count())]
        self.ascending(entries)
        return frozenset(entries)

    def mapping(self, depth: int) -> dict[int, Any]:
        entries = [(self.value(depth), self.value(depth)) for _ in range(self.count())]
        self.ascending([key for key, _ in entries])
        return dict(entries)

    def words(self) -> np.ndarray[Any, Any]:
        dimensions = self.length()
        if dimensions not in (1, 2):
            raise _malformed("an array has not one or two dimensions")
        shape = [self.length() for _ in range(dimensions)]
        if any(side > _LONGEST_SIDE for side in shape):
            raise _malformed("an array is too long")
        size = self.length()
        if size != 8 * int(np.prod(shape, dtype=object)):
            raise _malformed("an array has another size than its shape")
        return np.frombuffer(self.taken(size), dtype="<u8").reshape(shape)

    def instance(self, depth: int) -> Any:
        name = self.short(_MOST_TEXT_BYTES).decode("ascii", "replace")
        if name not in self.classes:
            raise _malformed("they hold something that does not belong here")
        expected = field_types(self.classes[name])
        if self.length() != len(expected):
            raise _malformed(f"{name} has another number of fields")
        values = {field: self.value(depth) for field in expected}
        for field, annotation in expected.items():
            if not fits(values[field], annotation):
                raise _malformed(f"a field of {name} has another type")
        return self.classes[name](**values)


@lru_cache(maxsize=64)
def field_types(kind: type) -> dict[str, Any]:
    """The types of a dataclass's fields, in their order."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def fits(value: object, annotation: Any) -> bool:
    """Whether a value that was read is of an annotated type; tuples are of any length, with entries of one type."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, each) for each in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(fits(entry, inner[0]) for entry in value)
    if origin is frozenset:
        return isinstance(value, frozenset)
    if origin in (Mapping, dict):
        return isinstance(value, dict) and all(fits(entry, inner[1]) for entry in value.values())
    if origin is np.ndarray:
        return isinstance(value, np.ndarray)
    return type(value) is annotation
