"""Addresses of tables as text: objects in a store, tables by their format, and tables of a database. Nothing is opened here.

What a text stands for is told by its letters alone, so that the reader and the ledger cannot disagree about it. Secrets stay in
`ObjectAddress.connection` and in a SqlSource; nothing that is shown, compared or kept has them.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, Literal
from urllib.parse import unquote

from sudare.errors import InvalidParameter, SourceUnreadable
from sudare.files import is_in_utf8
from sudare.frames.databases import SqlSource

# Names of one kind of store, by the one that is shown.
NOT_READ: Final = ("http", "https", "ftp", "sftp", "hdfs")
STORES: Final = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "gcs": "gs",
    "abfs": "abfs",
    "abfss": "abfs",
    "az": "abfs",
    "memory": "memory",
}
WILDCARD: Final = re.compile(r"[*?\[]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_FORMAT: Final = re.compile(r"(delta|iceberg):(?=\S)(.*)", re.IGNORECASE | re.DOTALL)
# What a mistyped address has, which would be shown and kept as a path or a name: a scheme's end, a password before a host, or a password's name.
_LOGIN: Final = re.compile(r":[^/\s]*@|@[^/\s]*:|(password|passwd|pwd)\s*(=|%3d)|^\s*[a-z][\w+.: -]*:/", re.IGNORECASE)
_OPTIONS: Final = re.compile(r"\?(?:[\w.-]+=[^&=]*)(?:&[\w.-]+=[^&=]*)*$")


@dataclass(frozen=True, repr=False)
class ObjectAddress:
    """Objects in a store: one, those in a folder, or those that match a pattern. `connection` is how to get in, and may hold secrets."""

    store: str
    place: str
    key: str
    connection: str

    def __str__(self) -> str:
        """One text for one place, whoever logs in, by whatever endpoint."""
        return f"{self.store}://{self.place}/{_normal(unquote(self.key))}".rstrip("/")

    def __repr__(self) -> str:
        return f"ObjectAddress({str(self)!r})"

    @property
    def has_secrets(self) -> bool:
        """Whether it holds more than a place: a name, a password or an option."""
        return "@" in self.connection or "?" in self.connection

    def at(self, key: str) -> ObjectAddress:
        """Another object of the same store."""
        return ObjectAddress(self.store, self.place, key, self.connection)


@dataclass(frozen=True)
class TableAddress:
    """A Delta or Iceberg table: where its folder is."""

    form: Literal["delta", "iceberg"]
    root: str | ObjectAddress


# What a text may stand for; a plain text is a path.
Address = str | ObjectAddress | TableAddress | SqlSource


def parsed(text: str) -> Address:
    """What a text stands for: a path (as text), objects in a store, a table by its format, or a table or query of a database."""
    place = place_of(text)
    return _database(text) if place is None else place


def place_of(text: str) -> str | ObjectAddress | TableAddress | None:
    """What a text stands for, as in `parsed`; None for the address of a database."""
    form = _FORMAT.fullmatch(text)
    if form is not None:
        root = place_of(form[2])
        if isinstance(root, str | ObjectAddress):
            return TableAddress("delta" if form[1].lower() == "delta" else "iceberg", root)
        raise SourceUnreadable(
            "After `delta:` or `iceberg:` stands neither a path nor an object store's address.",
            "Write for example delta:folder, or delta:s3://bucket/folder.",
        )
    scheme = _SCHEME.fullmatch(text)
    if scheme is None:
        refuse_login(text)
        return text
    if scheme[1].lower() == "file":
        raise SourceUnreadable("A path was given as an address.", "Leave file:// out.")
    if scheme[1].lower() in NOT_READ:
        raise SourceUnreadable(
            "Tables are not read from http://, https://, ftp://, sftp:// or hdfs://.",
            "Store the file on this machine or in an object store, and give its place.",
        )
    store = STORES.get(scheme[1].lower())
    return None if store is None else _object(store, scheme[1], scheme[2])


def refuse_login(text: str) -> None:
    """Raise SourceUnreadable where a text that is no address may hold a password. It is not quoted."""
    if _LOGIN.search(text):
        raise SourceUnreadable(
            "A text looks like an address, possibly with a password, and is none that can be read.",
            "Write for example s3://bucket/folder, or postgresql://user:password@host/database and a table after a blank; a path with such signs as Path(…).",
        )


def check_path_text(path: str) -> None:
    """Raise InvalidParameter where a path is not in UTF-8: no reader of tables opens it, and no ledger can name it."""
    if not is_in_utf8(path):
        raise InvalidParameter(
            "The name of a file, or of a folder that it is in, is not written in UTF-8.", "Rename it."
        )


def is_text(data: object) -> bool:
    """Whether what a person gave as a place is text, which may be an address; a Path never is."""
    while not isinstance(data, str | PurePath) and hasattr(data, "path"):
        data = data.path
    return isinstance(data, str)


def is_address(text: str) -> bool:
    """Whether a text is more than a path."""
    return bool(_FORMAT.fullmatch(text) or _SCHEME.fullmatch(text))


def _database(text: str) -> SqlSource:
    address, _, query = text.strip().partition(" ")
    if not query.strip():
        raise SourceUnreadable(
            "The address of a database names no table.",
            'Write the table or query after a blank: "sqlite:///clinic.db visits"; or give sudare.frames.SqlSource(address, query).',
        )
    return SqlSource(address, query.strip())


def _object(store: str, scheme: str, rest: str) -> ObjectAddress:
    options = _OPTIONS.search(rest)
    asked = options[0] if options else ""
    rest = rest.removesuffix(asked).lstrip("/" if store == "memory" else "")
    server, _, key = rest.partition("/")
    login, mark, host = server.rpartition("@")
    # A slash in a password that is not escaped leaves the password's beginning where the bucket should be.
    if not host or (not mark and not re.fullmatch(r"[^:]+(:0)?", host)):
        raise SourceUnreadable(
            "The address names no bucket that can be told from a password.",
            "Write for example s3://bucket/folder/table.parquet, and a slash in a password as %2F.",
        )
    place = host.partition(":")[0]
    if store == "abfs" and "." in host:
        # Some addresses have the container before the account, others as the first part of the path.
        container = login.partition(":")[0] if ".dfs." in host else ""
        place, key = (container, key) if container else (key.partition("/")[0], key.partition("/")[2])
        server = server if container else f"{server}/{place}"
    spelled = scheme.lower() if scheme.lower() == "abfss" else store
    return ObjectAddress(store, place, key, f"{spelled}://{server}{asked}")


def _normal(key: str) -> str:
    return posixpath.normpath(f"/{key}").lstrip("/")
