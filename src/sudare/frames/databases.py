"""Databases with records: what to read from one, opened for reading only, and addresses whose passwords are not pickled."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import sqlalchemy
from sqlalchemy.exc import ArgumentError

from sudare.errors import SourceUnreadable

READING_WORDS = ("SELECT", "WITH", "VALUES", "TABLE")
WRITING_WORDS = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "INTO"})
# Options of an address that are no secret. Drivers have many names for those that are (pwd, token, odbc_connect, …).
PUBLIC_OPTIONS = frozenset(
    ("host", "hostaddr", "port", "dbname", "user", "service", "passfile", "mode", "uri", "cache", "charset", "driver")
    + ("sslmode", "sslrootcert", "sslcert", "channel_binding", "connect_timeout", "application_name", "client_encoding")
    + ("target_session_attrs", "gssencmode", "krbsrvname", "keepalives", "options")
)

# Addresses by what is left of them without passwords. Never pickled; a forked process has it, a spawned one has not.
_WHOLE_ADDRESSES: dict[sqlalchemy.URL, sqlalchemy.URL] = {}


@dataclass(frozen=True, repr=False)
class SqlSource:
    """Rows of a database: its SQLAlchemy address (or engine), and a query or the name of a table or view.

    What contains no space is a name, with or without its schema: "visits", "clinic.visits". Names are looked up in
    the database, so that declared types such as booleans are known; a query gives what the driver gives. The database is
    opened for reading only where its driver can, what is read is never committed, and a query that could write is refused. A
    pickle holds no password: it is found again in the process that made it and its forks, elsewhere in what the driver reads
    (libpq: PGPASSWORD, PGPASSFILE).
    """

    url: str | sqlalchemy.URL | sqlalchemy.Engine
    query: str

    def __getstate__(self) -> dict[str, Any]:
        url = self.url.url if isinstance(self.url, sqlalchemy.Engine) else sqlalchemy.make_url(self.url)
        return {"url": without_secrets(url), "is_text": isinstance(self.url, str), "query": self.query}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        url = with_secrets(state["url"])
        object.__setattr__(self, "url", url.render_as_string(hide_password=False) if state["is_text"] else url)
        object.__setattr__(self, "query", state["query"])

    def __repr__(self) -> str:
        try:
            kind = "database" if isinstance(self.url, sqlalchemy.Engine) else sqlalchemy.make_url(self.url).drivername
        except (ArgumentError, ValueError):
            kind = "database"
        return f"SqlSource(<{kind}>)"


def opened_for_reading(address: str | sqlalchemy.URL) -> sqlalchemy.Engine:
    """An engine that cannot write where the driver can say so when it connects (SQLite)."""
    url = sqlalchemy.make_url(address)
    if url.drivername not in ("sqlite", "sqlite+pysqlite") or url.database in (None, "", ":memory:"):
        return sqlalchemy.create_engine(url)
    path = str(url.database)
    file = path if path.startswith("file:") else f"file:{quote(os.path.abspath(path))}"
    # A file that is not there is not made either.
    for_reading = url.set(database=file).update_query_dict({"mode": "ro", "uri": "true"})
    return sqlalchemy.create_engine(for_reading.difference_update_query(["immutable"]), poolclass=sqlalchemy.NullPool)


@contextlib.contextmanager
def reading(engine: sqlalchemy.Engine) -> Iterator[sqlalchemy.Connection]:
    """A connection for reading, by the database's own rule where it has one; nothing done with it is ever committed."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            # The isolation is said, too: an engine that commits every statement by itself has no transaction to be read-only.
            connection.execution_options(isolation_level="READ COMMITTED", postgresql_readonly=True)
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA query_only = ON")
        try:
            yield connection
        finally:
            connection.rollback()
            if engine.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA query_only = OFF")
                connection.rollback()


def refuse_writing(query: str, dialect: str) -> None:
    """Raise SourceUnreadable unless the text is a name, or one statement that reads as far as its words tell.

    Where databases read a text differently (comments, backslashes before quotes, quoting by $$), it is refused rather than guessed.
    """
    if not re.search(r"\s", query):
        if re.search(r"[\"`\[\]]", query):
            raise SourceUnreadable("The name of a table has quotes or brackets.", "Give it without, or give a query.")
        return
    statement = query.strip().rstrip(";").rstrip()
    ambiguous = [r"--", r"/\*", r";", r"\\['\"`]", r"\$\w*\$", *([r"#"] if dialect in ("mysql", "mariadb") else [])]
    if any(re.search(mark, statement) for mark in ambiguous):
        raise SourceUnreadable(
            "The query has a comment, a semicolon, a backslash before a quote, or $…$.",
            "Take it out, or make a view of the query in the database and give its name.",
        )
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", " '' ", statement)
    # A name after a point, as in t.update, is a column.
    words = [word.upper() for word in re.findall(r"(?<![\w.])[^\W\d]\w*", bare)]
    if not words or words[0] not in READING_WORDS or WRITING_WORDS & set(words):
        raise SourceUnreadable(
            "The query is not one that only reads.",
            f'Begin it with {", ".join(READING_WORDS)}, and write names such as "update" in double quotes.',
        )


def without_secrets(url: sqlalchemy.URL) -> sqlalchemy.URL:
    """The address without passwords, by which `with_secrets` finds the whole one again in this process and its forks."""
    # `URL.set` takes None for "leave it as it is".
    plain = url._replace(password=None).difference_update_query(secret_options(url))
    if plain != url:
        _WHOLE_ADDRESSES[plain] = url
    return plain


def has_secrets(url: sqlalchemy.URL) -> bool:
    """Whether an address holds a password, by itself or in an option that is not known to be public."""
    return bool(url.password) or bool(secret_options(url))


def secret_options(url: sqlalchemy.URL) -> list[str]:
    """The names of an address's options that may be secret."""
    return [name for name in url.query if name.lower() not in PUBLIC_OPTIONS]


def with_secrets(url: sqlalchemy.URL) -> sqlalchemy.URL:
    """The whole address, where this process or the one it was forked from has seen it; else the address as it is."""
    return _WHOLE_ADDRESSES.get(url, url)
