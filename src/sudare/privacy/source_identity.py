"""Which data an account pays for: when two spellings name one source, and whether two sources may hold the same records.

A source is a path (a file, a folder, a pattern), a database or a table in it, or just a name. Paths are one source where they
lead to one file: by their resolved text, by device and inode now, or by device, inode, size and time of change when the account was
opened. Databases are one source by kind, host, port and name, whoever logs in and with which driver. A query may read any table,
so its source is the whole database. What is held in memory has no source that could be looked at.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from dataclasses import dataclass
from itertools import pairwise
from typing import Final
from urllib.parse import unquote

import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError

from sudare.errors import InvalidParameter, SourceTaken
from sudare.frames.databases import SqlSource
from sudare.privacy.name_similarity import look_alike, same_letters

# No path is longer. Entries of a ledger that are too long to be read again would end it.
LONGEST_SOURCE: Final = 8192
# So many files of a folder are remembered one by one; of further ones only the path is.
MOST_FINGERPRINTS: Final = 256

# The files that sudare.frames.sources reads, which is not loaded where only a ledger is opened.
_FILE_ENDINGS: Final = (".parquet", ".pq", ".csv", ".tsv", ".csv.gz", ".csv.bz2", ".csv.zst")
_FILE_SCHEME: Final = re.compile(r"file:(?://(?:localhost)?(?=/))?", re.IGNORECASE)
_DEFAULT_PORTS: Final = {"postgresql": 5432, "mysql": 3306, "mssql": 1433, "oracle": 1521}
_SAME_BACKENDS: Final = {"mariadb": "mysql"}
_DEFAULT_SCHEMAS: Final = {"postgresql": "public", "sqlite": "main", "mssql": "dbo"}
_THIS_MACHINE: Final = ("", "localhost", "127.0.0.1", "::1")
_QUOTES: Final = str.maketrans("", "", '"`[]')
# Where names of tables that differ in the case of plain letters are one table.
_CASE_IS_IGNORED: Final = ("sqlite", "mssql")
_LOWER: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_PATTERN: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Source:
    """One source: the one text for it, and its files as they were when it was looked at."""

    text: str
    files: tuple[str, ...] = ()

    @property
    def is_path(self) -> bool:
        """Whether it is a file, a folder or a pattern."""
        return self.text.startswith("/")

    @property
    def database(self) -> tuple[str, str] | None:
        """The database and the table in it, which is empty for the whole database; None for what is not in a database."""
        return _parsed_database(self.text)

    @property
    def is_verifiable(self) -> bool:
        """Whether it says where the data are, rather than what they are called."""
        return self.is_path or self.database is not None


# Sources


def source_text(source: object) -> str:
    """One text for one source: paths are resolved, databases told without user, password and driver; other text is a name."""
    if isinstance(source, SqlSource):
        return _sql_text(source)
    text = _checked_text(source)
    path = _path(source, text)
    if path is not None:
        return _resolved(path)
    database = _parsed_database(text)
    return text if database is None else _database_text(*database)


def _checked_text(source: object) -> str:
    text = os.fspath(source) if isinstance(source, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip():
        raise InvalidParameter("A source needs a name, as text.", "Give a path, an address or a description.")
    return text if isinstance(source, os.PathLike) else text.strip()


def _path(source: object, text: str) -> str | None:
    """The path that a declared source names; None for what is not one."""
    scheme = _FILE_SCHEME.match(text)
    if scheme is not None:
        return unquote(text[scheme.end() :])
    return text if isinstance(source, os.PathLike) or _is_path(text) else None


def _resolved(path: str) -> str:
    """A path without links. A pattern that goes up again is refused: where that leads depends on links that match it."""
    found = None if os.path.exists(path) else _PATTERN.search(path)
    if found is not None and ".." in path[found.start() :].split("/"):
        raise InvalidParameter(
            "A pattern of files has '..' after '*', '?' or '['.", "Write the folder before the pattern."
        )
    return os.path.realpath(path)


def _is_path(text: str) -> bool:
    if "://" in text:
        return False
    is_spelled_so = text.startswith(("/", "./", "../")) or text.lower().endswith(_FILE_ENDINGS)
    return is_spelled_so or os.path.exists(text)


def looked_at(source: object) -> Source:
    """A source with its files as they are now."""
    text = source_text(source)
    path = None if isinstance(source, SqlSource) else _path(source, _checked_text(source))
    return _with_files(text, _paths(Source(text)) if path is None else _files_at(path))


def _with_files(text: str, paths: list[str]) -> Source:
    if len(text) > LONGEST_SOURCE:
        raise InvalidParameter(f"A source has at most {LONGEST_SOURCE} letters.", "Give a shorter path or description.")
    return Source(text, tuple(sorted(map(_fingerprint, _statuses(paths).values())))[:MOST_FINGERPRINTS])


def given_source(data: object) -> Source | None:
    """The source of what a fit was given: a path, a SqlSource, or a table that was read from one. None for what is in memory."""
    from sudare.schema import Table

    origin = data.origin if isinstance(data, Table) else data
    if isinstance(origin, str | os.PathLike):
        # Whatever it looks like, it is read as a path, letter by letter: never as a name or an address.
        path = os.fspath(origin)
        return _with_files(_resolved(path), _files_at(path))
    if not isinstance(origin, SqlSource):
        return None
    found = looked_at(origin)
    return found if found.is_verifiable else None


def covers(owned: Source, given: Source) -> bool:
    """Whether what is given is the owned source or a part of it."""
    if owned.text == given.text:
        return True
    if owned.is_path and given.is_path:
        own, files = _file_keys(owned), _statuses(_paths(given))
        return bool(files) and all(not own.isdisjoint(_keys(path, status)) for path, status in files.items())
    if not _is_same_database(owned, given):
        return False
    own_table, table = _table(owned), _table(given)
    return own_table in ("", table)


def overlap(one: Source, other: Source) -> bool:
    """Whether two sources may hold the same records, as far as can be told without reading them."""
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
        return _files_at(source.text)
    database = source.database
    if database is None or not database[0].startswith("sqlite:///"):
        return []
    return [unquote(database[0].removeprefix("sqlite:///"))]


def _files_at(path: str) -> list[str]:
    if os.path.isdir(path):
        return [entry.path for entry in os.scandir(path)]
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


def _fingerprint(status: os.stat_result) -> str:
    """What stays the same when a file is moved or linked, and is not when its inode is given to another file later."""
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def _keys(path: str, status: os.stat_result) -> set[str]:
    return {path, f"{status.st_dev}:{status.st_ino}", _fingerprint(status)}


def _file_keys(source: Source) -> set[str]:
    """All by which a file of the source can be known: its path, what stands there now, and what stood there once."""
    now = _statuses(_paths(source))
    return {source.text, *source.files, *(key for path, status in now.items() for key in _keys(path, status))}


def _contains(one: str, other: str) -> bool:
    """Whether one path is the other or a folder above it."""
    return any(
        inner == outer or inner.startswith(outer.rstrip("/") + "/") for outer, inner in pairwise((one, other, one))
    )


# Databases


def _is_same_database(one: Source, other: Source) -> bool:
    if one.database is None or other.database is None:
        return False
    files, other_files = _statuses(_paths(one)), _statuses(_paths(other))
    shared = {key for path, status in files.items() for key in _keys(path, status)} | set(one.files)
    others = {key for path, status in other_files.items() for key in _keys(path, status)} | set(other.files)
    return one.database[0] == other.database[0] or not shared.isdisjoint(others)


def _table(source: Source) -> str:
    return "" if source.database is None else source.database[1]


def _sql_text(source: SqlSource) -> str:
    try:
        url = source.url.url if isinstance(source.url, sql.Engine) else sql.make_url(source.url)
        database = _database(url)
    except (ArgumentError, ValueError):
        database = None
    # A database in memory is nowhere else: like a frame it has no source that could be looked at.
    return "a database" if database is None else _database_text(database, _table_name(source.query, database))


def _database_text(database: str, table: str) -> str:
    return f"{database} {table}" if table else database


def _parsed_database(text: str) -> tuple[str, str] | None:
    """Database and table of "address table" or "address query"; the table is empty for a query."""
    address, _, query = text.partition(" ")
    if "://" not in address:
        return None
    try:
        url = sql.make_url(address)
        if url.get_backend_name() == "sqlite":
            # Versions of SQLAlchemy differ in whether they take the escapes out.
            url = url.set(database=unquote(address.partition("://")[2].partition("?")[0].removeprefix("/")))
        database = _database(url)
    except (ArgumentError, ValueError):
        return None
    return None if database is None else (database, _table_name(query, database))


def _database(url: sql.URL) -> str | None:
    """One text for a database, whoever logs in and with which driver; None for one in memory. A ValueError if a port is no number."""
    backend = url.get_backend_name().lower()
    backend = _SAME_BACKENDS.get(backend, backend)
    if backend == "sqlite":
        file = _sqlite_file(url.database or "")
        # Written without blanks, so that the table's name can follow after one.
        return None if file is None else f"sqlite:///{file.replace('%', '%25').replace(' ', '%20')}"
    # Options are stronger than the address, as they are for the drivers.
    service = _option(url, "service") and f"service={_option(url, 'service')}"
    host = _option(url, "hostaddr") or _option(url, "host") or url.host or service
    host = host.rstrip(".").casefold()
    host = "localhost" if host in _THIS_MACHINE or host.startswith("/") else host
    port = int(_option(url, "port") or 0) or url.port or _DEFAULT_PORTS.get(backend, 0)
    user = _option(url, "user") or url.username or ""
    name = _option(url, "dbname") or url.database or service or user
    return f"{backend}://{host}:{port}/{name}"


def _sqlite_file(database: str) -> str | None:
    """The resolved path of an SQLite file; None for a database in memory."""
    if database in ("", ":memory:"):
        return None
    if database.startswith("file:"):
        database = unquote(_FILE_SCHEME.sub("", database.partition("?")[0]))
        return None if database in ("", ":memory:") else os.path.realpath(database)
    # Drivers take a/.. out of a path before anybody looks whether a is a link.
    return os.path.realpath(os.path.abspath(database))


def _option(url: sql.URL, name: str) -> str:
    """An option of an address, all of its values if there are several; empty where there is none."""
    value = url.query.get(name, "")
    return value if isinstance(value, str) else ",".join(value)


def _table_name(query: str, database: str) -> str:
    """A table's name without quotes and default schema, in plain letters where case is ignored; nothing for a query."""
    text, backend = query.strip(), database.partition(":")[0]
    if re.search(r"\s", text):
        return ""
    text = text.translate(_QUOTES)
    place, _, name = (text.translate(_LOWER) if backend in _CASE_IS_IGNORED else text).rpartition(".")
    return name if place in ("", _DEFAULT_SCHEMAS.get(backend)) else f"{place}.{name}"
