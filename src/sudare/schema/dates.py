"""Columns of dates and times: as whole units since a declared first date, or as a part such as the month or the weekday.

Moments are read as the clock on the wall shows them: with a declared `timezone` moments of other zones are converted to it, and without one they are refused.
"""

from __future__ import annotations

import datetime
import unicodedata
import zoneinfo
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from sudare.errors import SchemaError, WrongType
from sudare.schema.columns import (
    MISSING_AT_CENTRE,
    MISSING_INDICATOR,
    Category,
    Level,
    Number,
    listed,
    printable_text,
)
from sudare.schema.lazy_pyarrow import pa, pc
from sudare.schema.table_from_any_frame import attempt

Unit = Literal["week", "day", "hour", "minute", "second"]
Part = Literal["quarter", "month", "day", "weekday", "hour"]
Moments = npt.NDArray[np.datetime64]

_DAY: Final = 86_400
UNIT_SECONDS: Final[dict[str, int]] = {"week": 7 * _DAY, "day": _DAY, "hour": 3600, "minute": 60, "second": 1}
PART_VALUES: Final[dict[str, tuple[Level, ...]]] = {
    "quarter": tuple(range(1, 5)),
    "month": tuple(range(1, 13)),
    "day": tuple(range(1, 32)),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "hour": tuple(range(24)),
}
_UNIT_MICROSECONDS: Final[dict[str, int]] = {"s": 1_000_000, "ms": 1000, "us": 1}
# Some 73,000 years from 1970, in microseconds: no schema declares a moment beyond, and what is computed with one within it fits 64 bits.
_FURTHEST: Final = 2**61
# What is longer is no moment.
LONGEST_MOMENT: Final = 100
_MONDAY: Final = np.datetime64("1970-01-05", "D")


@dataclass(frozen=True, kw_only=True)
class Date(Number):
    """A column of dates or times, as the number of whole units that have passed since `first`; moments outside `first` to `last` are clipped.

    `first` and `last` are dates or times ("2020-01-01", "2020-01-01T06:00"), a last date to its end; `unit` is week, day, hour, minute or second; parts of a unit
    are dropped. `timezone` (such as "Asia/Tokyo") is the zone of moments that name none, and the one to which others are converted; without
    it moments that name a zone are refused. `format` says how text is written ("%d.%m.%Y"); without it text is ISO 8601 ("2020-01-31 17:05").
    `bins` are moments between `first` and `last`, each the beginning of a bin; `missing` is a moment, "centre" or "indicator", as in a Number.
    """

    low: float = field(init=False, default=0.0, repr=False)
    high: float = field(init=False, default=0.0, repr=False)
    centre: float | None = field(init=False, default=None, repr=False)
    scale: float | None = field(init=False, default=None, repr=False)
    whole: bool = field(init=False, default=True, repr=False)
    atoms: tuple[float, ...] | None = field(init=False, default=None, repr=False)
    determined_by: str | None = field(init=False, default=None, repr=False)
    first: str
    last: str
    unit: str | None = "day"
    timezone: str | None = None
    format: str | None = None
    bins: tuple[str, ...] | None = None  # type: ignore[assignment]
    missing: str | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        # Compared one by one: what a TOML text has here may be a list, which has no hash.
        if self.unit not in tuple(UNIT_SECONDS):
            raise SchemaError("`unit` is not a unit of time.", f"Give one of {', '.join(map(repr, UNIT_SECONDS))}.")
        set_field(self, "timezone", checked_timezone(self.timezone))
        set_field(self, "format", checked_format(self.format))
        for fact in ("first", "last"):
            set_field(self, fact, declared_moment(getattr(self, fact), fact))
        # A last date is a whole day.
        set_field(self, "high", self.units_of(self.last if "T" in self.last else f"{self.last}T23:59:59"))
        if not self.high > 0:
            raise SchemaError(
                f"`last` = {self.last} is not a {self.unit} or more after `first` = {self.first}.", "Give first < last."
            )
        if self.bins is not None:
            edges = tuple(declared_moment(edge, "bins") for edge in listed(self.bins, "bins"))
            set_field(self, "bins", edges)
        if self.missing not in (None, MISSING_AT_CENTRE, MISSING_INDICATOR):
            set_field(self, "missing", declared_moment(self.missing, "missing"))
        _ = self.as_number

    @cached_property
    def as_number(self) -> Number:
        """Returns the column as a whole number of units since `first`. Raise SchemaError where bins or stand-in lie outside."""
        bins = None if self.bins is None else tuple(map(self.units_of, self.bins))
        is_moment = self.missing not in (None, MISSING_AT_CENTRE, MISSING_INDICATOR)
        missing = self.units_of(str(self.missing)) if is_moment else self.missing
        return Number(0.0, self.high, bins=bins, missing=missing, whole=True)

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """The inner bin edges in units since `first`."""
        return self.as_number.edges

    @property
    def stand_in(self) -> float | None:
        """The units that stand in for a missing moment; None if that is an error."""
        return self.as_number.stand_in

    def with_plain_stand_in(self) -> Date:
        """Returns the column with the moment that stands in for missing ones in place of the word for it."""
        is_word = self.missing in (MISSING_AT_CENTRE, MISSING_INDICATOR)
        return replace(self, missing=self.value_text(self.stand_in)) if is_word and self.stand_in is not None else self

    def units_of(self, moment: str) -> float:
        """Whole units from `first` to a declared moment."""
        return float(self.units_since_first(np.array([moment], dtype="datetime64[us]"))[0])

    def units_since_first(self, moments: Moments) -> npt.NDArray[np.float64]:
        """Whole units from `first` to each moment, rounded down; NaN where there is none."""
        passed = (moments - np.datetime64(self.first, "us")).astype(np.int64)
        units = (passed // (UNIT_SECONDS[str(self.unit)] * 1_000_000)).astype(np.float64)
        return np.where(np.isnat(moments), np.nan, units)

    def values_array(self, found: npt.NDArray[np.float64]) -> Moments:
        """The moments so many whole units after `first`; NaT where there is no number. Days and weeks are dates."""
        seconds = np.where(np.isnan(found), 0, np.rint(found)).astype(np.int64) * UNIT_SECONDS[str(self.unit)]
        moments = np.datetime64(self.first, "s") + seconds.astype("timedelta64[s]")
        return np.where(np.isnan(found), np.datetime64("NaT", "s"), moments)

    def value_text(self, value: float) -> str:
        """The moment so many units after `first`, rounded down to a whole one, as ISO 8601 writes it."""
        text = str(self.values_array(np.array([np.floor(value)]))[0])
        return text.removesuffix("T00:00:00") if self.unit in ("week", "day") else text


@dataclass(frozen=True, kw_only=True)
class DatePart(Category):
    """A column of dates or times of which one part is used, as a category: quarter, month, day (of the month), weekday or hour.

    `timezone`, `format` and `missing` are as in a Date and a Category. A column that holds the part already is taken as it is.
    """

    values: tuple[Level, ...] = field(init=False, default=(), repr=False)
    other: Level | None = field(init=False, default=None, repr=False)
    determined_by: str | None = field(init=False, default=None, repr=False)
    part: Part
    timezone: str | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        if self.part not in tuple(PART_VALUES):
            raise SchemaError(
                "`part` is not a part of a date or time.", f"Give one of {', '.join(map(repr, PART_VALUES))}."
            )
        set_field = object.__setattr__
        set_field(self, "values", PART_VALUES[self.part])
        set_field(self, "timezone", checked_timezone(self.timezone))
        set_field(self, "format", checked_format(self.format))
        super().__post_init__()

    def positions(self, moments: Moments) -> npt.NDArray[np.int64]:
        """The position of each moment's part among the values; any where there is no moment."""
        days, months = moments.astype("datetime64[D]"), moments.astype("datetime64[M]")
        if self.part == "weekday":
            found = (days - _MONDAY).astype(np.int64) % 7
        elif self.part == "hour":
            found = (moments.astype("datetime64[h]") - days).astype(np.int64)
        elif self.part == "day":
            found = (days - months).astype(np.int64)
        else:
            month = months.astype(np.int64) % 12
            found = month // 3 if self.part == "quarter" else month
        return np.asarray(found, dtype=np.int64)


def checked_timezone(name: object) -> str | None:
    """The name of a time zone. Raise SchemaError unless it is one, or None."""
    if name is None:
        return None
    if not isinstance(name, str) or attempt(lambda: zoneinfo.ZoneInfo(name)) is None:
        raise SchemaError("`timezone` is not the name of a time zone.", 'Give for example "Asia/Tokyo" or "UTC".')
    return name


def checked_format(text: object) -> str | None:
    """How moments are written. Raise SchemaError unless it names year, month and day, or is None."""
    if text is None:
        return None
    shown = printable_text(text, "format")
    if not all(
        any(mark in shown for mark in marks)
        for marks in (("%Y", "%y", "%F", "%D"), ("%m", "%b", "%B", "%F", "%D"), ("%d", "%F", "%D"))
    ):
        raise SchemaError(
            "`format` does not say where year, month and day stand.", 'Give for example "%d.%m.%Y" or "%Y/%m/%d %H:%M".'
        )
    return shown


def declared_moment(value: object, fact: str) -> str:
    """A declared date or time as ISO 8601 text. Raise SchemaError unless it is one, without a zone and in whole seconds."""
    if isinstance(value, str):
        text = value
        value = attempt(lambda: datetime.date.fromisoformat(text)) or attempt(
            lambda: datetime.datetime.fromisoformat(text)
        )
    if not isinstance(value, datetime.date) or (
        isinstance(value, datetime.datetime) and (value.tzinfo is not None or value.microsecond)
    ):
        raise SchemaError(
            f"`{fact}` has a value that is not a date or time without a zone.",
            f'Give `{fact}` as a date such as "2020-01-31", or as "2020-01-31T17:05:00"; the zone is declared in `timezone`.',
        )
    return value.isoformat()


def read_moments(values: pa.ChunkedArray, facts: Date | DatePart, name: str) -> tuple[Moments, int]:
    """The moments of a column by the wall's clock, NaT where missing or unreadable; and how many cannot be read, for the owner only.

    Raise WrongType where the column holds something other than dates, times or text, or a moment names a zone and no timezone is declared.
    """
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    types = pa.types
    if types.is_null(values.type) or len(values) == 0:
        return np.full(len(values), "NaT", dtype="datetime64[us]"), 0
    if types.is_string(values.type) or types.is_large_string(values.type) or types.is_string_view(values.type):
        return moments_of_text(values, facts, name)
    if types.is_timestamp(values.type) or types.is_date(values.type):
        values = _within_reach(values)
        if types.is_timestamp(values.type) and values.type.tz is not None:
            values = in_zone(values, facts, name)
        same_unit = attempt(lambda: values.cast(pa.timestamp("us"), safe=False))
        if same_unit is not None:
            return as_moments(same_unit), 0
    raise no_dates(name)


def _within_reach(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The dates or timestamps, those too far away for 64 bits of microseconds (as programs write for "never") moved to the furthest that fit: they would come out as any year."""
    kind = values.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return values
    if pa.types.is_date32(kind):
        stored, most = values.cast(pa.int32()), _FURTHEST // (_DAY * 1_000_000)
    else:
        stored, most = values.cast(pa.int64()), _FURTHEST // _UNIT_MICROSECONDS[getattr(kind, "unit", "ms")]
    found = pc.min_max(stored)
    if not found["min"].is_valid or (found["min"].as_py() >= -most and found["max"].as_py() <= most):
        return values
    ends = [pa.scalar(end, stored.type) for end in (-most, most)]
    stored = pc.max_element_wise(stored, ends[0], skip_nulls=False)
    return pc.min_element_wise(stored, ends[1], skip_nulls=False).cast(kind)


def moments_of_text(values: pa.ChunkedArray, facts: Date | DatePart, name: str) -> tuple[Moments, int]:
    """Moments that are written as text: ISO 8601, or as declared."""
    bare = pc.utf8_trim_whitespace(values.cast(pa.large_string()))
    bare = pc.if_else(pc.equal(bare, ""), pa.scalar(None, bare.type), bare)
    if facts.format is None:
        plain = attempt(lambda: bare.cast(pa.timestamp("us")))
        if plain is not None:
            return as_moments(plain), 0
        aware = attempt(lambda: bare.cast(pa.timestamp("us", "UTC")))
        if aware is not None:
            return as_moments(in_zone(aware, facts, name)), 0
    distinct = pc.dictionary_encode(bare.combine_chunks())
    found = [one_moment(text[:LONGEST_MOMENT], facts) for text in distinct.dictionary.to_pylist()]
    if facts.timezone is None and any(one is not None and one.tzinfo is not None for one in found):
        raise names_a_zone(name)
    zone = None if facts.timezone is None else zoneinfo.ZoneInfo(facts.timezone)
    local = [one if one is None or one.tzinfo is None else _on_the_wall(one, zone) for one in found]
    moments = np.array([*local, None], dtype="datetime64[us]")
    places = distinct.indices.fill_null(len(local)).to_numpy(zero_copy_only=False)
    unreadable = np.array([*(one is None for one in local), False])
    return moments[places], int(np.count_nonzero(unreadable[places]))


def one_moment(text: str, facts: Date | DatePart) -> datetime.datetime | None:
    """One moment that is written as text, in figures of any width; None if it cannot be read."""
    declared, bare = facts.format, unicodedata.normalize("NFKC", text)
    if declared is None:
        return attempt(lambda: datetime.datetime.fromisoformat(bare))
    return attempt(lambda: datetime.datetime.strptime(bare, declared))  # noqa: DTZ007 - a zone is in the format, or the declared one


def _on_the_wall(moment: datetime.datetime, zone: datetime.tzinfo | None) -> datetime.datetime:
    """A moment by the clock on the wall of a zone; one that is there before the year 1 or after 9999 stays as it is written."""
    local = attempt(lambda: moment.astimezone(zone))
    return (moment if local is None else local).replace(tzinfo=None)


def in_zone(values: pa.ChunkedArray, facts: Date | DatePart, name: str) -> pa.ChunkedArray:
    """Moments with a zone by the clock on the wall of the declared one."""
    if facts.timezone is None:
        raise names_a_zone(name)
    return pc.local_timestamp(values.cast(pa.timestamp("us", facts.timezone), safe=False))


def as_moments(values: pa.ChunkedArray) -> Moments:
    return np.asarray(values.to_numpy(), dtype="datetime64[us]")


def checked_moments(values: pa.ChunkedArray, facts: Date | DatePart, name: str) -> Moments:
    """The moments of a column, NaT where missing. Raise WrongType where one cannot be read."""
    moments, unreadable = read_moments(values, facts, name)
    if unreadable:
        raise unreadable_dates(name, facts)
    return moments


def unreadable_dates(name: str, facts: Date | DatePart, how_many: str | None = None) -> WrongType:
    written = "ISO 8601 (2020-01-31, 2020-01-31 17:05)" if facts.format is None else repr(facts.format)
    found = (
        f"Column {name!r} is declared to hold dates or times, and holds some that cannot be read as {written}."
        if how_many is None
        else f"Column {name!r} is declared to hold dates or times, and holds {how_many} that cannot be read as {written}."
    )
    return WrongType(
        found,
        'Declare how they are written, for example format = "%d.%m.%Y" or "%Y年%m月%d日", or correct them.',
    )


def names_a_zone(name: str) -> WrongType:
    return WrongType(
        f"Column {name!r} holds moments that name a time zone, and the schema declares none.",
        'Declare the zone by whose clock they count, for example timezone = "Asia/Tokyo".',
    )


def no_dates(name: str) -> WrongType:
    return WrongType(
        f"Column {name!r} is declared to hold dates or times, and holds neither those nor text.",
        "Convert the column, or change its declaration in the schema.",
    )
