"""The tables of a ledger: the head of its chain, its entries, and a state for each account. Rows in, entries out.

Everything here works inside a transaction that `storage` began.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sql

from sudare.errors import LedgerCorrupt, LedgerMissing, LedgerVersion
from sudare.parsing import NotParsed, parsed_json
from sudare.privacy.ledger_chain import Entry, Head, canonical_json
from sudare.privacy.ledger_storage import is_reading

FORMAT: Final = 4
# From this format on the tables are the same, and only kinds of entries and the text for a file were changed: read as it is, changed by the next write.
OLDEST_READABLE_FORMAT: Final = 1
LARGEST_BODY_BYTES: Final = 1 << 24

# A number of our own, so that two processes do not create the tables of one PostgreSQL database at once.
_CREATION_LOCK: Final = 0x737564617265

# From a format to the next: each function changes the tables inside one transaction and leaves the entries' bytes alone.
MIGRATIONS: Final[dict[int, Callable[[sql.Connection], None]]] = {
    1: lambda _connection: None,
    2: lambda _connection: None,
    3: lambda _connection: None,
}

_tables = sql.MetaData()
_chain = sql.Table(
    "chain",
    _tables,
    sql.Column("one", sql.Integer, sql.CheckConstraint("one = 1"), primary_key=True),
    sql.Column("format", sql.Integer, nullable=False),
    sql.Column("ledger", sql.Text, nullable=False),
    sql.Column("position", sql.Integer, nullable=False),
    sql.Column("hash", sql.Text, nullable=False),
)
_entries = sql.Table(
    "entries",
    _tables,
    sql.Column("position", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("previous", sql.Text, nullable=False),
    sql.Column("time", sql.Text, nullable=False),
    sql.Column("account", sql.Text, nullable=False, index=True),
    sql.Column("kind", sql.Text, nullable=False),
    sql.Column("body", sql.Text, nullable=False),
    sql.Column("hash", sql.Text, nullable=False, unique=True),
)
_accounts = sql.Table(
    "accounts",
    _tables,
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("source", sql.Text, nullable=False, unique=True),
    sql.Column("state", sql.Text, nullable=False),
)


def create_tables_if_absent(connection: sql.Connection) -> None:
    """The tables of a ledger in a database that has none; one with a ledger of whatever format is left alone."""
    if connection.dialect.name == "postgresql":
        connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_CREATION_LOCK)))
    found = {table for table in _tables.tables if sql.inspect(connection).has_table(table)}
    if not found:
        _tables.create_all(connection, checkfirst=False)
    elif _chain.name not in found:
        raise LedgerCorrupt("The database has a part of a ledger's tables only.", LedgerCorrupt.help)


def head(connection: sql.Connection, *, ledger: str | None = None) -> Head | None:
    """The chain's last point, locked until a write transaction ends; None in a database without a ledger.

    A newer format is refused, an older one migrated; another ledger than the expected one is refused.
    """
    query = sql.select(_chain) if is_reading(connection) else sql.select(_chain).with_for_update()
    rows = connection.execute(query.limit(2)).all()
    if not rows:
        return None
    row = rows[0]
    if len(rows) > 1 or not (_are_integers(row.format, row.position) and _are_texts(row.ledger, row.hash)):
        raise LedgerCorrupt("The head of the ledger cannot be read.", LedgerCorrupt.help)
    if row.format > FORMAT:
        raise LedgerVersion(
            f"The ledger has format {row.format}, this version knows up to {FORMAT}.", LedgerVersion.help
        )
    if row.format < (OLDEST_READABLE_FORMAT if is_reading(connection) else FORMAT):
        _migrate(connection, row.format)
    if ledger is not None and row.ledger != ledger:
        raise LedgerMissing("Another ledger stands where the one in use was.", LedgerMissing.help)
    return Head(row.ledger, row.position, row.hash)


def _migrate(connection: sql.Connection, found: int) -> None:
    if is_reading(connection):
        raise LedgerVersion(
            f"The ledger has format {found}, an older one than {FORMAT}.",
            "Open it anew with Ledger(…), which migrates it.",
        )
    for version in range(found, FORMAT):
        if version not in MIGRATIONS:
            raise LedgerCorrupt(f"The ledger has format {version}, which never was.", LedgerCorrupt.help)
        MIGRATIONS[version](connection)
        connection.execute(sql.update(_chain).values(format=version + 1))


def is_ready(connection: sql.Connection) -> bool:
    """Whether the database holds a ledger that can be read as it is."""
    if not sql.inspect(connection).has_table(_chain.name):
        return False
    found = connection.execute(sql.select(_chain.c.format)).scalars().first()
    return found is not None and OLDEST_READABLE_FORMAT <= found <= FORMAT


def _are_integers(*values: object) -> bool:
    return all(type(value) is int for value in values)


def _are_texts(*values: object) -> bool:
    return all(type(value) is str for value in values)


def start(connection: sql.Connection, ledger: str, entry: Entry) -> None:
    """Write the first entry of a new ledger."""
    connection.execute(sql.insert(_chain).values(one=1, format=FORMAT, ledger=ledger, position=0, hash=entry.hash))
    _insert(connection, entry)


def append(connection: sql.Connection, entry: Entry) -> None:
    """Write an entry and move the head to it."""
    _insert(connection, entry)
    connection.execute(sql.update(_chain).values(position=entry.position, hash=entry.hash))


def _insert(connection: sql.Connection, entry: Entry) -> None:
    connection.execute(
        sql.insert(_entries).values(
            position=entry.position,
            previous=entry.previous,
            time=entry.time,
            account=entry.account,
            kind=entry.kind,
            body=canonical_json(dict(entry.body)),
            hash=entry.hash,
        )
    )


def entries(connection: sql.Connection, account: str | None = None, *, after: int = -1) -> list[Entry]:
    """All entries after a position in order, or those of one account."""
    query = sql.select(_entries).where(_entries.c.position > after).order_by(_entries.c.position)
    if account is not None:
        query = query.where(_entries.c.account == account)
    return [_entry(row) for row in connection.execute(query)]


def entry_at(connection: sql.Connection, position: int) -> Entry | None:
    """One entry by its position."""
    row = connection.execute(sql.select(_entries).where(_entries.c.position == position)).one_or_none()
    return None if row is None else _entry(row)


def has_entries(connection: sql.Connection, account: str) -> bool:
    """Whether anything was ever entered for an account."""
    query = sql.select(_entries.c.position).where(_entries.c.account == account).limit(1)
    return connection.execute(query).one_or_none() is not None


def opened_before(connection: sql.Connection, account: str) -> set[str]:
    """The names of the accounts that were opened before this one."""
    own = sql.select(sql.func.min(_entries.c.position)).where(_entries.c.account == account).scalar_subquery()
    query = sql.select(_entries.c.account).where(_entries.c.kind == "open", _entries.c.position < own)
    return set(connection.execute(query).scalars())


def _entry(row: sql.Row[Any]) -> Entry:
    """An entry, if every cell has its type and the body is the one text for what it says."""
    texts = (row.previous, row.time, row.account, row.kind, row.body, row.hash)
    body = _parsed(row.body) if _are_integers(row.position) and _are_texts(*texts) else None
    if body is None:
        raise LedgerCorrupt("An entry of the ledger cannot be read.", LedgerCorrupt.help)
    return Entry(row.position, row.previous, row.time, row.account, row.kind, body, row.hash)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        body = parsed_json(text, largest_bytes=LARGEST_BODY_BYTES, most_entries=LARGEST_BODY_BYTES)
        return body if isinstance(body, dict) and canonical_json(body) == text else None
    except NotParsed:
        return None


def account_states(connection: sql.Connection) -> dict[str, tuple[str, str]]:
    """Source and state of every account, by name."""
    return {
        row.name: (row.source, row.state)
        for row in connection.execute(sql.select(_accounts).order_by(_accounts.c.name))
    }


def account_state(connection: sql.Connection, name: str) -> str | None:
    """State of one account."""
    return connection.execute(sql.select(_accounts.c.state).where(_accounts.c.name == name)).scalar_one_or_none()


def add_account(connection: sql.Connection, name: str, source: str, state: str) -> None:
    """Write a new account."""
    connection.execute(sql.insert(_accounts).values(name=name, source=source, state=state))


def set_account_state(connection: sql.Connection, name: str, state: str) -> None:
    """Overwrite an account's state."""
    connection.execute(sql.update(_accounts).where(_accounts.c.name == name).values(state=state))
