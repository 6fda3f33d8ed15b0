"""Which data an account pays for: when two spellings name one source, and whether two sources may hold the same records.

A source is a path (a file, a folder, a pattern), objects in a store, a database or a table in it, or just a name. Paths are one source where
they lead to one file: by their resolved text, by device and inode now, or by a digest of device, inode and time of change when the account was
opened. The size of a file is never kept: it depends on single records. Lists of files (a Dataset, a Delta or Iceberg table) are their common folder and each of their files. Objects are one source by store, bucket
and key, whoever logs in and by which endpoint. Databases are one source by kind, host, port and name, whoever logs in and with which driver. A query may read any table,
so its source is the whole database. What is held in memory has no source that could be looked at.
"""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import itertools
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, cast
from urllib.parse import unquote

from sudare.errors import InvalidParameter, SourceMismatch, SourceTaken
from sudare.frames.databases import SqlSource
from sudare.frames.table_addresses import (
    STORES,
    WILDCARD,
    ObjectAddress,
    TableAddress,
    check_path_text,
    is_text,
    parsed,
    place_of,
    refuse_login,
)
from sudare.privacy.confusable_names import look_alike, same_letters
from sudare.privacy.database_identity import FILE_SCHEME, IN_A_FILE, database_text, parsed_database, sql_text

# No path is longer. Entries of a ledger that are too long to be read again would end it.
LONGEST_SOURCE: Final = 8192
# So many files of a folder are remembered one by one; of further ones only the path is.
MOST_FINGERPRINTS: Final = 256

# The files that sudare.frames.sources reads, which is not loaded where only a ledger is opened.
_FILE_ENDINGS: Final = (".parquet", ".pq", ".csv", ".tsv", ".csv.gz", ".csv.bz2", ".csv.zst")
_DELTA_LOG: Final = "_delta_log"
# Device, inode, size and time of change: so ledgers before format 4 wrote a file.
_PLAIN_FINGERPRINT: Final = re.compile(r"(\d+:\d+):\d+:(\d+)")


@dataclass(frozen=True)
class SliceIdentity:
    """One of the disjoint slices of a partition: the digest of all that decides which slice a row is in, and the values of this one."""

    partition: str
    where: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Source:
    """One source: the one text for it, and its files as they were when it was looked at.

    `listed` are the files that are read, where they are not simply those at the text; `part` is set where only a slice of it is read.
    `is_several` says that it was made of several sources: the text is then that of the folder or database that holds all of them, empty if none does.
    """

    text: str
    files: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    part: SliceIdentity | None = None
    is_several: bool = False

    @property
    def is_path(self) -> bool:
        """Whether it is a file, a folder or a pattern."""
        return self.text.startswith("/")

    @property
    def is_object(self) -> bool:
        """Whether it is in an object store."""
        return self.text.partition("://")[0] in STORES

    @property
    def database(self) -> tuple[str, str] | None:
        """The database and the table in it, which is empty for the whole database; None for what is not in a database."""
        return None if self.is_object else parsed_database(self.text)

    @property
    def is_verifiable(self) -> bool:
        """Whether it says where the data are, rather than what they are called."""
        return self.is_path or self.is_object or self.database is not None


# Sources


def source_text(source: object) -> str:
    """One text for one source: paths are resolved, addresses told without user, password and driver; other text is a name."""
    if isinstance(source, SqlSource):
        return sql_text(source)
    place = _declared_place(source)
    if place is not None:
        return place if isinstance(place, str) else place.text
    text = _checked_text(source)
    database = parsed_database(text)
    if database is None:
        refuse_login(text)
        return text
    return database_text(*database)


def _checked_text(source: object) -> str:
    text = os.fspath(source) if isinstance(source, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip():
        raise InvalidParameter("A source needs a name, as text.", "Give a path, an address or a description.")
    return text if isinstance(source, os.PathLike) else text.strip()


def _declared_place(source: object) -> str | Source | None:
    """The resolved path of a source that somebody declares, or what it is if it is more than a path; None for a database or a name."""
    if not isinstance(source, str | os.PathLike):
        return _opened_source(source)
    text = _checked_text(source)
    scheme = FILE_SCHEME.match(text)
    if scheme is not None:
        return _resolved(unquote(text[scheme.end() :]))
    place = place_of(text) if is_text(source) else text
    if isinstance(place, TableAddress):
        place = place.root
    if isinstance(place, ObjectAddress):
        return Source(str(place))
    if place is None or (place == text and isinstance(source, str) and not _is_path(text)):
        return None
    return _resolved(place)


def _opened_source(source: object) -> Source | None:
    """What a table or reader of some library reads, where that can be told."""
    from sudare.frames.sources import source as opened

    return _source_of(opened(source).origin)


def _source_of(origin: Any) -> Source | None:
    """The source at the origin of records (`sudare.frames.record_source.Origin`)."""
    if origin is None:
        return None
    if isinstance(origin, tuple):
        return together(map(_source_of, origin))
    if isinstance(origin, str):
        return _with_files(_resolved(origin), _files_at(origin))
    if isinstance(origin, ObjectAddress):
        return _with_files(str(origin), [])
    if isinstance(origin, SqlSource):
        found = looked_at(origin)
        return found if found.is_verifiable else None
    if not origin.is_local:
        return Source(origin.root, (), origin.files)
    looked = _with_files(origin.root, list(origin.files))
    return Source(looked.text, looked.files, origin.files)


def together(sources: Iterable[Source | None]) -> Source | None:
    """The one source that holds the records of all these; None where all are in memory."""
    found = list(dict.fromkeys(source for source in sources if source is not None))
    if len(found) < 2:
        return found[0] if found else None
    found = list(dict.fromkeys(replace(source, part=None) for source in found))
    if len(found) == 1:
        return found[0]
    files = tuple(sorted({file for source in found for file in source.files}))[:MOST_FINGERPRINTS]
    listed: tuple[str, ...] = ()
    databases = {source.database[0] for source in found if source.database is not None}
    text = ""
    if all(source.is_path for source in found):
        listed = tuple(sorted({path for source in found for path in _paths(source)}))
        text = os.path.commonpath([source.text for source in found])
    elif all(source.is_object for source in found):
        listed = tuple(sorted({each for source in found for each in _objects(source)}))
        shared = os.path.commonpath([source.text.replace("://", "/", 1) for source in found])
        text = shared.replace("/", "://", 1) if "/" in shared else ""
    elif len(databases) == 1 and all(source.database is not None for source in found):
        text = databases.pop()
    return Source(text, files, listed, is_several=True)


def _resolved(path: str) -> str:
    """A path without links. A pattern that goes up again is refused: where that leads depends on links that match it."""
    found = None if os.path.exists(path) else WILDCARD.search(path)
    if found is not None and ".." in path[found.start() :].split("/"):
        raise InvalidParameter(
            "A pattern of files has '..' after '*', '?' or '['.", "Write the folder before the pattern."
        )
    return os.path.realpath(path)


def _is_path(text: str) -> bool:
    is_spelled_so = text.startswith(("/", "./", "../")) or text.lower().endswith(_FILE_ENDINGS)
    return is_spelled_so or os.path.exists(text)


def looked_at(source: object) -> Source:
    """A source with its files as they are now."""
    place = None if isinstance(source, SqlSource) else _declared_place(source)
    if isinstance(place, Source):
        return place
    text = source_text(source)
    return _with_files(text, _paths(Source(text)) if place is None else _files_at(place))


def _with_files(text: str, paths: list[str]) -> Source:
    check_path_text(text)
    if len(text) > LONGEST_SOURCE:
        raise InvalidParameter(f"A source has at most {LONGEST_SOURCE} letters.", "Give a shorter path or description.")
    return Source(text, tuple(sorted(map(_fingerprint, _statuses(paths).values())))[:MOST_FINGERPRINTS])


def given_source(data: object) -> Source | None:
    """The source of what a fit was given: what it is read from, letter by letter and never by a name. None for what is in memory.

    Raise InvalidParameter for what only derives from a class that is read.
    """
    from sudare.frames.derived_sources import DerivedSource
    from sudare.frames.record_source import checked_kind
    from sudare.frames.table_slices import Slice
    from sudare.schema import Table

    data = checked_kind(data)
    if isinstance(data, DerivedSource):
        return together(map(given_source, data.origins))
    if type(data) is Slice:
        whole = cast("Source", _source_of(data.origin))
        return replace(whole, part=SliceIdentity(data.partition(), tuple(data.where.items())))
    if isinstance(data, Table):
        return _source_of(data.origin)
    if isinstance(data, str | os.PathLike):
        text = os.fspath(data)
        place: Any = parsed(text) if is_text(data) else text
        is_plain = isinstance(place, str) and not os.path.isdir(os.path.join(place, _DELTA_LOG))
        # A table that is a list of files may list any file: only its library can tell.
        return _source_of(place) if is_plain or isinstance(place, ObjectAddress | SqlSource) else _opened_source(data)
    return _source_of(data) if isinstance(data, SqlSource) else _opened_source(data)


def covers(owned: Source, given: Source) -> bool:
    """Whether what is given is the owned source or a part of it."""
    if owned.is_object and given.is_object:
        return all(_object_is_within(str(place_of(owned.text)), each) for each in _objects(given))
    if owned.is_path and given.is_path:
        if owned.text == given.text and not given.listed:
            return True
        own, files = _file_keys(owned), _statuses(_paths(given))
        return bool(files) and all(
            _contains_path(owned.text, path) or not own.isdisjoint(_keys(path, status))
            for path, status in files.items()
        )
    if owned.text == given.text:
        return True
    if not _is_same_database(owned, given):
        return False
    own_table, table = _table(owned), _table(given)
    return own_table in ("", table)


def overlap(one: Source, other: Source) -> bool:
    """Whether two sources may hold the same records, as far as can be told without reading them."""
    if one.is_object and other.is_object:
        return any(itertools.starmap(_objects_overlap, itertools.product(_objects(one), _objects(other))))
    if one.is_path and other.is_path:
        return _contains(one.text, other.text) or not _file_keys(one).isdisjoint(_file_keys(other))
    if one.database is not None and other.database is not None:
        tables = [same_letters(_table(source)) for source in (one, other)]
        return _is_same_database(one, other) and (tables[0] == tables[1] or "" in tables)
    return not one.is_verifiable and not other.is_verifiable and look_alike(one.text, other.text)


def check_free(name: str, sources: tuple[Source, ...], taken: dict[str, tuple[Source, ...]]) -> None:
    """Raise SourceTaken if another account looks like `name`, or pays for what overlaps one of its sources."""
    for owner, owned in taken.items():
        if owner == name:
            continue
        if look_alike(owner, name):
            raise SourceTaken(
                f"An account '{name}' could be mistaken for the account '{owner}' that there is.",
                "Use the account there is, or a name that does not look like it.",
            )
        if any(overlap(one, other) for one in sources for other in owned):
            raise SourceTaken(
                f"The source of account '{name}' is bound to account '{owner}' already.", SourceTaken.help
            )


def check_pays_for(name: str, own: Source, source: Source) -> None:
    """Raise SourceMismatch if the account of that name, whose source is `own`, does not pay for this one."""
    if source.is_several and not (own.is_verifiable and covers(own, source)):
        held = f"'{source.text}' holds all of it" if source.text else "No folder and no database holds all of it"
        raise SourceMismatch(
            f"What is to be read are several sources, and account '{name}' is not for all of them. {held}. Nothing was computed or spent.",
            f"Open an account with source={source.text!r}."
            if source.text
            else "Put the tables into one folder or one database, and open an account with that as its source.",
        )
    if own.is_verifiable and own.text == source.text and not covers(own, source):
        raise SourceMismatch(
            f"What is to be read lists files that do not lie at '{own.text}', for which account '{name}' pays. Nothing was computed or spent.",
            "Write a table whose files lie below it; or let an account pay that is for a folder with all of them.",
        )
    if own.is_verifiable and not covers(own, source):
        raise SourceMismatch(
            f"Account '{name}' pays for '{own.text}', and not for '{source.text}'. Nothing was computed or spent.",
            SourceMismatch.help,
        )


def check_unshared(name: str, source: Source, earlier: dict[str, tuple[Source, ...]]) -> None:
    """Raise SourceTaken if what is to be read now is another account's that was there before: by a link or a file that came later."""
    for owner, owned in earlier.items():
        if any(overlap(source, other) for other in owned):
            raise SourceTaken(
                f"What account '{name}' is to pay for belongs to account '{owner}', which was there before. "
                "Nothing was computed or spent.",
                "Let that account pay; or read files that are not its own.",
            )


# Files


def _paths(source: Source) -> list[str]:
    """The files that a source stands for now."""
    if source.is_path:
        return list(source.listed) or _files_at(source.text)
    database = source.database
    kind, _, file = ("", "", "") if database is None else database[0].partition(":///")
    return [unquote(file)] if kind in IN_A_FILE else []


def _files_at(path: str) -> list[str]:
    """The files at a path or pattern: those in a folder, and all below it where it is a table of several folders."""
    if os.path.isdir(path):
        names = os.listdir(path)
        if _DELTA_LOG in names or not any(name.lower().endswith(_FILE_ENDINGS) for name in names):
            return [os.path.join(folder, name) for folder, _, found in os.walk(path) for name in found]
        return [os.path.join(path, name) for name in names]
    return [path] if os.path.exists(path) else glob.glob(path)


def _statuses(paths: list[str]) -> dict[str, os.stat_result]:
    found: dict[str, os.stat_result] = {}
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            found[os.path.realpath(path)] = status
    return found


def change_times(source: Source | None) -> list[tuple[str, int]]:
    """The files that a source stands for, each with the time in ns at which it or what is noted of it was changed last, which nobody can set back."""
    statuses = {} if source is None else _statuses(_paths(source))
    return sorted((path, status.st_ctime_ns) for path, status in statuses.items())


def _fingerprint(status: os.stat_result) -> str:
    """What stays the same when a file is moved or linked, and is not when its inode is given to another file later. It does not depend on what is in it."""
    return _fingerprint_of(f"{status.st_dev}:{status.st_ino}", str(status.st_mtime_ns))


def _fingerprint_of(place: str, changed: str) -> str:
    return hashlib.sha256(f"file {place} {changed}".encode()).hexdigest()


def _known_files(source: Source) -> set[str]:
    """The files of a source as they were when it was looked at, those from older ledgers as they would be written now."""
    plain = {file: _PLAIN_FINGERPRINT.fullmatch(file) for file in source.files}
    return {file if found is None else _fingerprint_of(found[1], found[2]) for file, found in plain.items()}


def _keys(path: str, status: os.stat_result) -> set[str]:
    return {path, f"{status.st_dev}:{status.st_ino}", _fingerprint(status)}


def _file_keys(source: Source) -> set[str]:
    """All by which a file of the source can be known: its path, what stands there now, and what stood there once."""
    now = _statuses(_paths(source))
    return {source.text, *_known_files(source), *(key for path, status in now.items() for key in _keys(path, status))}


def _contains(one: str, other: str) -> bool:
    """Whether one path is the other or a folder above it."""
    return any(_contains_path(outer, inner) for outer, inner in pairwise((one, other, one)))


def _contains_path(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


# Objects


def _objects(source: Source) -> tuple[str, ...]:
    """The objects that are read, or the one text for them; older ledgers wrote a port into it."""
    return source.listed or (str(place_of(source.text)),)


def _object_is_within(owned: str, given: str) -> bool:
    """Whether an object is the owned one, lies below it, or matches it as a pattern."""
    if _contains_path(owned, given):
        return True
    patterns, names = owned.split("/"), given.split("/")
    is_one = len(patterns) == len(names) and not WILDCARD.search(given)
    return is_one and all(map(fnmatch.fnmatchcase, names, patterns))


def _objects_overlap(one: str, other: str) -> bool:
    """Whether two texts may name one object: where one is a pattern, by what stands before its first sign."""
    if not WILDCARD.search(one) and not WILDCARD.search(other):
        return _contains(one, other)
    begin, begin_other = (WILDCARD.split(text, maxsplit=1)[0] for text in (one, other))
    return begin.startswith(begin_other) or begin_other.startswith(begin)


# Databases


def _is_same_database(one: Source, other: Source) -> bool:
    if one.database is None or other.database is None:
        return False
    files, other_files = _statuses(_paths(one)), _statuses(_paths(other))
    shared = {key for path, status in files.items() for key in _keys(path, status)} | _known_files(one)
    others = {key for path, status in other_files.items() for key in _keys(path, status)} | _known_files(other)
    return one.database[0] == other.database[0] or not shared.isdisjoint(others)


def _table(source: Source) -> str:
    return "" if source.database is None else source.database[1]
