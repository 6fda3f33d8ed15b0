"""What a steward configures for requests: which tables can be asked about, who pays, who signs, and how many people approve."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from sudare.consortium.agreement.identity import passphrase_from
from sudare.errors import IdentityError, LedgerMissing, SchemaError, UnknownName
from sudare.files import read_private
from sudare.frames.csv_dialects import described_table
from sudare.frames.table_addresses import is_address
from sudare.privacy.ledger import Account, Ledger
from sudare.privacy.source_identity import given_source
from sudare.requests.request_store import RequestStore
from sudare.schema import Schema

if TYPE_CHECKING:
    from sudare.privacy.guarantee import Neighbours

_PATHS: Final = ("requests_folder", "releases_folder", "signing_key", "passphrase_file")


@dataclass(frozen=True)
class AskableTable:
    """A table that can be asked about by its name. An analyst never gives a path.

    Where `budget` is given, the account is opened with it the first time. A table that `may_change` may be another one when a request is run
    than when it was approved.
    """

    name: str
    source: str = field(repr=False)
    schema_path: Path
    account: str
    has_header: bool | None = None
    encoding: str | None = None
    csv: tuple[str, ...] = ()
    budget: float | None = None
    budget_delta: float = 0.0
    neighbours: Neighbours | None = None
    may_change: bool = False

    def schema(self) -> Schema:
        """The public facts about its columns, as they are declared now. Raise SchemaError where there are none; analysts read it, and need not know the folder."""
        if not self.schema_path.exists():
            raise SchemaError(
                f"The folder of schemas has no '{self.schema_path.name}', which table '{self.name}' needs.",
                'Put it there; or name another folder in the settings (schemas = "…"), or another file (schema = "…" of the table).',
            )
        return Schema.load(self.schema_path)

    @property
    def place(self) -> str | Path:
        """Returns where the table is."""
        return self.source if is_address(self.source) else Path(self.source)

    def data(self) -> str | os.PathLike[str]:
        """What a learner is fitted to."""
        return described_table(self.place, self.has_header, self.encoding, self.csv)


@dataclass(frozen=True)
class RequestSettings:
    """What requests need to know: the tables that can be asked about, the ledger, the folders, the signing key, and how many approve."""

    ledger: str = field(repr=False)
    requests_folder: Path
    releases_folder: Path
    tables: Mapping[str, AskableTable]
    signing_key: Path | None = None
    passphrase_file: Path | None = None
    two_people: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a process that runs a request."""
        tables = {name: {**vars(table), "schema_path": str(table.schema_path)} for name, table in self.tables.items()}
        paths = {name: None if getattr(self, name) is None else str(getattr(self, name)) for name in _PATHS}
        return {**vars(self), **paths, "tables": tables}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RequestSettings:
        """The settings that `to_dict` wrote."""
        tables = {
            name: AskableTable(**{**table, "schema_path": Path(table["schema_path"]), "csv": tuple(table["csv"])})
            for name, table in values["tables"].items()
        }
        paths = {name: None if values[name] is None else Path(values[name]) for name in _PATHS}
        return cls(**{**values, **paths, "tables": tables})

    @property
    def people(self) -> int:
        """How many people approve a request."""
        return 2 if self.two_people else 1

    @property
    def store(self) -> RequestStore:
        """Returns the store of requests."""
        return RequestStore(self.requests_folder, self.people)

    def table(self, name: str) -> AskableTable:
        """The table of that name. Raise UnknownName where none is configured."""
        if name not in self.tables:
            raise UnknownName(
                "No table of that name can be asked about.", "The steward's settings name those that can."
            )
        return self.tables[name]

    def account(self, table: AskableTable) -> Account:
        """The account that pays for a table; opened, bound to the table, where it is new and has a budget."""
        ledger = Ledger(self.ledger, create=table.budget is not None)
        account = _opened(ledger, table) if self._is_new(table) else ledger.account(table.account)
        account.check_source(given_source(table.place))
        return account

    @contextmanager
    def account_to_quote(self, table: AskableTable) -> Iterator[Account]:
        """The account that pays for a table; where it is not open yet, one like it in a ledger that is thrown away: a price opens nothing."""
        if not self._is_new(table):
            yield self.account(table)
            return
        with tempfile.TemporaryDirectory(prefix="sudare-price-") as folder:
            yield _opened(Ledger(Path(folder) / "ledger.db"), table)

    def _is_new(self, table: AskableTable) -> bool:
        """Whether the table's account is opened by its first request."""
        if table.budget is None:
            return False
        try:
            return table.account not in {account.name for account in Ledger(self.ledger, create=False).accounts()}
        except LedgerMissing:
            return True

    def key(self) -> Ed25519PrivateKey:
        """The key that releases are signed with. Raise IdentityError where there is none, or it does not open."""
        if self.signing_key is None:
            raise IdentityError(
                "No key is configured to sign releases with.",
                "Make one with `sudare key new`, and name it in the settings.",
            )
        return signing_key_in(self.signing_key, self.passphrase_file)


def _opened(ledger: Ledger, table: AskableTable) -> Account:
    """A table's account, opened in a ledger that has none of that name."""
    return ledger.account(
        table.account,
        table.budget,
        table.budget_delta,
        neighbours=table.neighbours,
        unit="record" if table.schema().person is None else "person",
        source=table.place,
    )


def signing_key_in(path: Path, passphrase_file: Path | None) -> Ed25519PrivateKey:
    """The key in a private file, under a passphrase or not. Raise IdentityError where it does not open."""
    content = read_private(path, "The signing key")
    try:
        try:
            key = load_pem_private_key(content, password=None)
        except TypeError:
            key = load_pem_private_key(content, password=passphrase_from(passphrase_file))
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise IdentityError(
            f"'{path.name}' does not open: it is not an Ed25519 key, or the passphrase is wrong.",
            "Check the path and the passphrase.",
        )
    return key
