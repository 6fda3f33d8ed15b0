"""Reading documents that others wrote: every field by its path, its type and its range; what is not known is refused.

Errors give the path of the field and what it takes; they never quote a value, which may be data opened by mistake.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sudare import parsing
from sudare.errors import AgreementError
from sudare.files import LARGEST_DOCUMENT_BYTES
from sudare.safe_text import is_printable, text_fault

Scalar = bool | int | float | str
ParameterValue = Scalar | tuple[Scalar, ...]
Made = TypeVar("Made")

NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_HEXADECIMAL: Final = re.compile(r"[0-9a-f]*")
_HOST_AND_PORT: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_LARGEST_PORT: Final = 65_535
_LEAST_NORMAL: Final = 2.0**-1022
_LONGEST_TEXT: Final = 1024
_LARGEST_WHOLE: Final = 2**53
_MOST_LISTED: Final = 64


@dataclass(frozen=True)
class Field:
    """A value somewhere in a document, with the path by which errors name it."""

    path: str
    value: object

    def refused(self, what_it_takes: str) -> AgreementError:
        """The error for a value that does not fit."""
        return AgreementError(f"`{self.path}` is not {what_it_takes}.", "Correct this field.")

    def table(self, required: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Field]:
        """Its fields, if all required ones are there and no unknown one is."""
        required, known = tuple(required), (*required, *optional)
        values = self._mapping()
        for key in values:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f" Did you mean `{near[0]}`?" if near else ""
                raise AgreementError(
                    f"{self._place()} has the unknown field `{shown(key)}`.{hint}", f"Known are: {', '.join(known)}."
                )
        for key in required:
            if key not in values:
                raise AgreementError(f"{self._place()} lacks the field `{key}`.", f"Add `{self._below(key)}`.")
        return {key: Field(self._below(key), value) for key, value in values.items()}

    def built(
        self, make: Callable[..., Made], required: Mapping[str, Reader], optional: Mapping[str, Reader] | None = None
    ) -> Made:
        """What `make` makes of its fields, each read by its reader; optional ones are handed over where they are there."""
        readers = {**required, **(optional or {})}
        return make(**{name: readers[name](value) for name, value in self.table(required, optional or ()).items()})

    def named(self) -> dict[str, Field]:
        """Its fields, if their keys are names of members or tasks."""
        for key in self._mapping():
            if not NAME.fullmatch(key):
                raise AgreementError(
                    f"{self._place()} has the name `{shown(key)}`.",
                    "Names have 1 to 63 small letters, figures and hyphens, and begin with a letter or figure.",
                )
        return {key: Field(self._below(key), value) for key, value in self._mapping().items()}

    def items(self) -> list[Field]:
        """Its entries, if it is a list."""
        if not isinstance(self.value, list | tuple):
            raise self.refused('a list, such as ["first", "second"]')
        return [Field(f"{self.path}[{position}]", value) for position, value in enumerate(self.value)]

    def parameters(self, listed: Collection[str] = ()) -> dict[str, ParameterValue]:
        """Parameters of a learner by name: plain values, and short lists of them for those that are `listed`."""
        found: dict[str, ParameterValue] = {}
        for key, value in self._mapping().items():
            inner = Field(self._below(shown(key)), value)
            if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", key):
                raise inner.refused("a parameter's name")
            found[key] = inner._list_of_scalars() if key in listed else inner._scalar()
        return found

    def _list_of_scalars(self) -> tuple[Scalar, ...]:
        entries = self.items()
        if not 1 <= len(entries) <= _MOST_LISTED:
            raise self.refused(f"a list of 1 to {_MOST_LISTED} values")
        return tuple(entry._scalar() for entry in entries)

    def _scalar(self) -> Scalar:
        if isinstance(self.value, bool | str):
            return self.text() if isinstance(self.value, str) else self.value
        if isinstance(self.value, int):
            return self.whole(-_LARGEST_WHOLE, _LARGEST_WHOLE)
        return self.number(-math.inf)

    def check_format(self, known: int, documents: str) -> None:
        """Raise AgreementError unless it is the one format of these documents that this version reads."""
        if self.whole(0) != known:
            raise AgreementError(f"`{self.path}` is not {known}.", f"Upgrade sudare to read newer {documents}.")

    def name(self) -> str:
        """A name of a member, task or agreement."""
        if not isinstance(self.value, str) or not NAME.fullmatch(self.value):
            raise self.refused("a name: 1 to 63 small letters, figures and hyphens")
        return self.value

    def word(self, known: Iterable[str]) -> str:
        """One of several words."""
        words = tuple(known)
        if not isinstance(self.value, str) or self.value not in words:
            raise self.refused(f"one of {', '.join(words)}")
        return self.value

    def truth(self) -> bool:
        """Yes or no."""
        if not isinstance(self.value, bool):
            raise self.refused("true or false")
        return self.value

    def text(self) -> str:
        """Text in one line, without controls and invisible marks."""
        if not isinstance(self.value, str) or text_fault(self.value, _LONGEST_TEXT) is not None:
            raise self.refused(f"printable text of at most {_LONGEST_TEXT} letters")
        return self.value

    def host_and_port(self) -> str:
        """The text HOST:PORT of an address that something listens at. Raise AgreementError where it is none."""
        text = self.text()
        if host_and_port(text) is None:
            raise self.refused("host:port, such as relay.example:8002")
        return text

    def hexadecimal(self, digits: int) -> str:
        """Returns the value: `digits` hexadecimal digits."""
        if not isinstance(self.value, str) or len(self.value) != digits or not _HEXADECIMAL.fullmatch(self.value):
            raise self.refused(f"{digits} hexadecimal digits")
        return self.value

    def whole(self, least: int, most: int = _LARGEST_WHOLE) -> int:
        """A whole number in a range."""
        if type(self.value) is not int or not least <= self.value <= most:
            raise self.refused(f"a whole number from {least} to {most}")
        return self.value

    def number(self, above: float, most: float = math.inf) -> float:
        """A finite number above 0, or above the least normal number, which is 0 to people; any with -inf."""
        value = self.value
        is_number = type(value) is float or (type(value) is int and abs(value) <= _LARGEST_WHOLE)
        if not is_number or not math.isfinite(float(value)) or not above < float(value) <= most:  # type: ignore[arg-type]
            if math.isfinite(most):
                raise self.refused(f"a number above 0 and at most {most:,.10g}")
            raise self.refused("a number above 0" if math.isfinite(above) else "a finite number")
        return float(value)  # type: ignore[arg-type]

    def epsilon(self) -> float:
        """A usable ε: a normal positive number."""
        return self.number(_LEAST_NORMAL)

    def delta(self) -> float:
        """A usable δ: in [0, 1)."""
        value = self.value
        return 0.0 if type(value) in (int, float) and value == 0 else self.number(0.0, 1.0 - 2.0**-53)

    def _mapping(self) -> Mapping[str, Any]:
        if not isinstance(self.value, Mapping) or not all(isinstance(key, str) for key in self.value):
            raise AgreementError(f"{self._place()} is not a table of fields.", "Write it as a TOML section.")
        return self.value

    def _place(self) -> str:
        return f"`{self.path}`" if self.path else "The file"

    def _below(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key


# Readers for `Field.built`

Reader = Callable[[Field], object]


def hexadecimal(digits: int) -> Callable[[Field], str]:
    """The reader of so many hexadecimal digits."""
    return lambda field: field.hexadecimal(digits)


def whole(least: int, most: int = _LARGEST_WHOLE) -> Callable[[Field], int]:
    """The reader of whole numbers in a range."""
    return lambda field: field.whole(least, most)


def host_and_port(text: str) -> tuple[str, int] | None:
    """The two parts of HOST:PORT, or nothing if it is not one."""
    found = _HOST_AND_PORT.fullmatch(text)
    port = int(found[2]) if found else 0
    return (found[1].strip("[]"), port) if found and 1 <= port <= _LARGEST_PORT else None


def shown(key: str) -> str:
    """A key that somebody else wrote, fit for a terminal."""
    return key if len(key) <= 64 and all(map(is_printable, key)) else "…"


def parsed_toml(text: str, what: str) -> Field:
    """The document of a TOML text. Errors tell the place and not the text."""
    try:
        return Field("", parsing.parsed_toml(text, largest_bytes=LARGEST_DOCUMENT_BYTES))
    except parsing.NotParsed as error:
        reason = str(error)
    raise AgreementError(f"{what} is not valid TOML ({reason}).", "Correct the text there.")


def parsed_json(text: str, what: str) -> Field:
    """The document of a JSON text from the state folder. Raise AgreementError unless it is one."""
    try:
        return Field("", parsing.parsed_json(text))
    except parsing.NotParsed:
        raise AgreementError(f"{what} is not JSON.", "Restore the state folder.") from None
