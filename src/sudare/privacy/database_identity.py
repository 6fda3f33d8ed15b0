"""Which database and table an address names: one text for all spellings, whoever logs in and with which driver."""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import unquote

import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError

from sudare.frames.databases import SqlSource

FILE_SCHEME: Final = re.compile(r"file:(?://(?:localhost)?(?=/))?", re.IGNORECASE)
_DEFAULT_PORTS: Final = {"postgresql": 5432, "mysql": 3306, "mssql": 1433, "oracle": 1521}
_SAME_BACKENDS: Final = {"mariadb": "mysql"}
_DEFAULT_SCHEMAS: Final = {"postgresql": "public", "sqlite": "main", "duckdb": "main", "mssql": "dbo"}
# Databases that are one file of this machine.
IN_A_FILE: Final = ("sqlite", "duckdb")
_THIS_MACHINE: Final = ("", "localhost", "127.0.0.1", "::1")
_QUOTES: Final = str.maketrans("", "", '"`[]')
# Where names of tables that differ in the case of plain letters are one table.
_CASE_IS_IGNORED: Final = ("sqlite", "duckdb", "mssql")
_LOWER: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def sql_text(source: SqlSource) -> str:
    """The text of a database and a table in it, as an opened source names them; "a database" for one in memory."""
    try:
        url = source.url.url if isinstance(source.url, sql.Engine) else sql.make_url(source.url)
        database = _database(url)
    except (ArgumentError, ValueError):
        database = None
    # A database in memory is nowhere else: like a frame it has no source that could be looked at.
    return "a database" if database is None else database_text(database, _table_name(source.query, database))


def database_text(database: str, table: str) -> str:
    """The text that `parsed_database` reads."""
    return f"{database} {table}" if table else database


def parsed_database(text: str) -> tuple[str, str] | None:
    """Database and table of "address table" or "address query"; the table is empty for a query."""
    address, _, query = text.partition(" ")
    if "://" not in address:
        return None
    try:
        url = sql.make_url(address)
        if url.get_backend_name() in IN_A_FILE:
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
    if backend in IN_A_FILE:
        file = _file_of_database(url.database or "")
        # Written without blanks, so that the table's name can follow after one.
        return None if file is None else f"{backend}:///{file.replace('%', '%25').replace(' ', '%20')}"
    # Options are stronger than the address, as they are for the drivers.
    service = _option(url, "service") and f"service={_option(url, 'service')}"
    host = _option(url, "hostaddr") or _option(url, "host") or url.host or service
    host = host.rstrip(".").casefold()
    host = "localhost" if host in _THIS_MACHINE or host.startswith("/") else host
    port = int(_option(url, "port") or 0) or url.port or _DEFAULT_PORTS.get(backend, 0)
    user = _option(url, "user") or url.username or ""
    name = _option(url, "dbname") or url.database or service or user
    return f"{backend}://{host}:{port}/{name}"


def _file_of_database(database: str) -> str | None:
    """The resolved path of a file of SQLite or DuckDB; None for a database in memory."""
    if database in ("", ":memory:"):
        return None
    if database.startswith("file:"):
        database = unquote(FILE_SCHEME.sub("", database.partition("?")[0]))
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
