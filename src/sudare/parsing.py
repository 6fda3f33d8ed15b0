"""JSON and TOML that others wrote, bounded before memory and time are spent on them.

Both parsers of the standard library take memory in proportion to what a text makes, which may be hundreds of times its length, and TOML keys with
many dots take time in proportion to the square of their number. So the text is measured first: bytes, levels of nesting, entries, dots in one key.
Errors never quote the text, which may be data opened by mistake.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import tomllib
from collections.abc import Callable
from typing import Any, Final

LARGEST_BYTES: Final = 1 << 20
LARGEST_NESTING: Final = 16
MOST_ENTRIES: Final = 1 << 17
MOST_DIGITS: Final = 64
MOST_KEY_PARTS: Final = 8

# Possessive, and a closing quote may lack: one pass whatever the text is, with no way back.
_JSON_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
_SPELLED_HALF_CHARACTER: Final = re.compile(r"\\u[dD][89a-fA-F]")
_BRACKETS: Final = str.maketrans("{}", "[]")
_NO_BRACKET: Final = re.compile(r"[^][]+")
# Read from the left as TOML does: what stands in quotes or after # is not a key. Up to two more quotes may follow the closing three.
_TOML_QUOTED: Final = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"{3,5})?'
    r"|'''(?:[^']++|'(?!''))*+(?:'{3,5})?"
    r'|"(?:[^"\\\n]++|\\[^\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
_TOML_KEY_END: Final = re.compile(r"[\n,=\[\]{}]")
# A name that begins a line or a section and has letters that TOML takes in quotation marks only.
_TOML_UNQUOTED: Final = re.compile(r"\s*\[{0,2}[^\]=\[]*[^\x00-\x7f][^\]=]*[\]=]")
_LONGEST_LINE: Final = 300
_TOML_PLACE: Final = re.compile(r"\(at (?:line (\d+), column (\d+)|end of document)\)")


class NotParsed(ValueError):
    """A text is not JSON or TOML, or is larger, deeper or longer than what is read. The message is a reason in words: "it is nested too deeply"."""


def finite_float(text: str) -> float:
    """The number that a text spells; NotParsed if that is not finite (1e400, NaN, Infinity)."""
    number = float(text)
    if not math.isfinite(number):
        raise NotParsed("a number in it is not finite")
    return number


def parsed_json(
    text: str | bytes,
    *,
    largest_bytes: int = LARGEST_BYTES,
    largest_nesting: int = LARGEST_NESTING,
    most_entries: int = MOST_ENTRIES,
    float_of: Callable[[str], float] = finite_float,
) -> Any:
    """The value of a JSON text. Raise NotParsed (a ValueError) unless it is UTF-8, within the bounds, has finite numbers, and names no key twice."""
    readable = _readable(text, largest_bytes)
    _check_entries(readable.count(",") + readable.count("[") + readable.count("{"), most_entries)
    _check_nesting(_JSON_STRING.sub("", readable), largest_nesting)
    try:
        value = json.loads(
            readable,
            object_pairs_hook=_without_duplicates,
            parse_int=_short_integer,
            parse_float=float_of,
            parse_constant=finite_float,
        )
    except NotParsed:
        raise
    except (ValueError, RecursionError):
        raise NotParsed("it is not JSON") from None
    if _SPELLED_HALF_CHARACTER.search(readable) and _has_half_character(value):
        raise NotParsed("a text in it is not Unicode")
    return value


def parsed_toml(
    text: str | bytes,
    *,
    largest_bytes: int = LARGEST_BYTES,
    largest_nesting: int = LARGEST_NESTING,
    most_entries: int = MOST_ENTRIES,
    most_key_parts: int = MOST_KEY_PARTS,
) -> dict[str, Any]:
    """The tables of a TOML text. Raise NotParsed (a ValueError) unless it is UTF-8 and within the bounds; the reason tells the place of a fault."""
    readable = _readable(text, largest_bytes).replace("\r\n", "\n")
    bare = _TOML_QUOTED.sub("_", readable)
    _check_entries(bare.count(",") + bare.count("=") + bare.count("["), most_entries)
    _check_nesting(bare, largest_nesting)
    if max(part.count(".") for part in _TOML_KEY_END.split(bare)) >= most_key_parts:
        raise NotParsed(f"a key has more than {most_key_parts} parts")
    reason = ""
    try:
        return tomllib.loads(readable)
    except RecursionError:
        reason = "it is nested too deeply"
    except (ValueError, OverflowError, ArithmeticError) as error:
        found = _TOML_PLACE.search(str(error))
        if found is None:
            reason = "a number is too long"
        elif found[1] is None:
            reason = "at the end of document"
        else:
            line, place = found.groups()
            reason = f"at line {line}, column {place}"
            if _has_unquoted_name(readable, int(line)):
                reason = f"{reason}; a name with letters other than A to Z stands in quotation marks"
    raise NotParsed(reason)


def _has_unquoted_name(text: str, number: int) -> bool:
    """Whether a line that TOML refused begins with a name that needs quotation marks."""
    line = text.split("\n")[number - 1][:_LONGEST_LINE]
    return _TOML_UNQUOTED.match(_TOML_QUOTED.sub("_", line)) is not None


def bounded_bytes(path: str | os.PathLike[str], largest_bytes: int = LARGEST_BYTES) -> bytes:
    """What a file holds, of a larger one only so much that the parsers here refuse it for its size. Raise OSError where it is no file or cannot be read."""
    return first_bytes(path, largest_bytes + 1)


def first_bytes(path: str | os.PathLike[str], size: int) -> bytes:
    """The beginning of a file, or all of it if it is not longer than `size`. Raise OSError where it is no file or cannot be read."""
    with open(path, "rb", opener=opened_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return file.read(size)


def opened_without_waiting(path: str, flags: int) -> int:
    """Returns a handle for reading at once, as an opener of `open`: opening a pipe that nobody writes to would otherwise wait for ever."""
    return os.open(path, flags & ~os.O_ACCMODE | os.O_RDONLY | os.O_NONBLOCK)


def _readable(text: str | bytes, largest_bytes: int) -> str:
    # A character takes a byte or more: what has more characters than bytes are allowed is not encoded to be measured.
    if len(text) > largest_bytes:
        raise NotParsed(f"it is larger than {largest_bytes:,} bytes")
    try:
        if isinstance(text, bytes):
            return text.decode("utf-8")
        size = len(text.encode("utf-8"))
    except UnicodeError:
        raise NotParsed("it is not UTF-8 text") from None
    if size > largest_bytes:
        raise NotParsed(f"it is larger than {largest_bytes:,} bytes")
    return text


def _check_entries(entries: int, most_entries: int) -> None:
    """Raise NotParsed if there may be more entries than allowed; marks inside of JSON strings count too."""
    if entries > most_entries:
        raise NotParsed(f"it has more than {most_entries:,} entries")


def _check_nesting(bare_text: str, largest_nesting: int) -> None:
    """Raise NotParsed if brackets are nested deeper than allowed in a text without its strings. Each pass takes away the innermost pairs."""
    brackets = _NO_BRACKET.sub("", bare_text.translate(_BRACKETS))
    for _ in range(largest_nesting):
        brackets = brackets.replace("[]", "")
    if brackets:
        raise NotParsed("it is nested too deeply, or its brackets do not match")


def _short_integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise NotParsed(f"a number in it has more than {MOST_DIGITS} digits")
    return int(text)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise NotParsed("a key in it stands twice")
    return values


def _has_half_character(value: object) -> bool:
    if isinstance(value, str):
        return _HALF_CHARACTER.search(value) is not None
    if isinstance(value, dict):
        return any(_has_half_character(key) or _has_half_character(entry) for key, entry in value.items())
    return isinstance(value, list) and any(map(_has_half_character, value))
