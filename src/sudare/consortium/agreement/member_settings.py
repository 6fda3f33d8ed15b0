"""A member's own file, which nobody else sees: who I am, where key, data, ledger and state are, and what needs the steward.

Paths are relative to the file. An address that holds a password may be written as "env:NAME" and is then read from the
environment; written out, it makes the file one that others may not read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import sqlalchemy
import tomli_w

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.amendments import kept_path, path_after_adoption
from sudare.consortium.agreement.document_fields import Field, Reader, parsed_toml, whole
from sudare.consortium.agreement.identity import Identity
from sudare.consortium.agreement.signed_statements import Statements, carried, check_is_key_of
from sudare.consortium.event_log import EVENTS
from sudare.consortium.tasks.definitions import KINDS
from sudare.errors import AgreementError, IdentityError
from sudare.files import PRIVATE_MODE, check_unshared, is_open_to_others, read_text, write_new
from sudare.frames.csv_dialects import CsvFile, checked_encoding
from sudare.frames.databases import SqlSource, has_secrets
from sudare.frames.table_addresses import ObjectAddress, TableAddress, is_address, place_of
from sudare.privacy.ledger import Account, Ledger
from sudare.privacy.source_identity import given_source
from sudare.schema.table_from_any_frame import attempt

FORMAT: Final = 1
FROM_ENVIRONMENT: Final = "env:"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True)
class Data:
    """Where the records are: a path of files or an address of a table, or a database's address and a table or query in it.

    `cluster` is the address of a Dask scheduler whose workers read the files and add up their rows; None is here.
    """

    source: str | None = field(default=None, repr=False)
    has_header: bool | None = None
    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    tidy: bool | None = None
    url: str | None = field(default=None, repr=False)
    query: str | None = None
    cluster: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return _without_password(self, self.url, self.source)


@dataclass(frozen=True)
class Policy:
    """What may happen without asking. Kinds in `approval` wait for the steward; what costs more than `most_…` runs never."""

    approval: frozenset[str] = frozenset(KINDS)
    most_epsilon: float | None = None
    most_delta: float | None = None


@dataclass(frozen=True)
class TransportSettings:
    """How this member reaches the others."""

    kind: Literal["local", "flare"] = "flare"
    kit: Path | None = None
    relay: str | None = None
    other_relays: tuple[str, ...] = ()
    proxy: str | None = field(default=None, repr=False)
    health_port: int | None = None

    @property
    def relays(self) -> tuple[str, ...]:
        """All relays in the order in which they are tried."""
        return (() if self.relay is None else (self.relay,)) + self.other_relays

    def __getstate__(self) -> dict[str, Any]:
        return _without_password(self, self.proxy)


# Events of the log that need a person, told where the member file chooses no others.
NOTIFIED: Final = frozenset({"task-waits", "task-failed", "certificate-ends", "budget-low"})


@dataclass(frozen=True)
class NotifySettings:
    """The command that is run for these events of the log, as a list of words, and how long it may take."""

    command: tuple[str, ...] = field(default=(), repr=False)
    events: frozenset[str] = NOTIFIED
    timeout_seconds: float = 30.0


@dataclass(frozen=True)
class Member:
    """Everything that one member's node needs to know about itself."""

    name: str
    folder: Path
    agreement_path: Path
    key_path: Path
    state_folder: Path
    ledger_address: str = field(repr=False)
    account_name: str
    data: Data
    policy: Policy = field(default_factory=Policy)
    transport: TransportSettings = field(default_factory=TransportSettings)
    notify: NotifySettings = field(default_factory=NotifySettings)
    # How long the ledger is waited for while another process holds it.
    ledger_wait_seconds: float = 60.0

    def __getstate__(self) -> dict[str, Any]:
        return _without_password(self, self.ledger_address)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Member:
        """The member that a TOML file describes."""
        file = Path(path)
        if not file.exists():
            raise AgreementError(
                f"There is no member file '{file}'.",
                "Give it with --member FOLDER/member.toml; `sudare consortium join` makes it.",
            )
        check_unshared(file, "The member file")
        member = cls.from_toml(read_text(file, "The member file"), file.absolute().parent)
        addresses = (member.ledger_address, member.data.url, member.data.source, member.transport.proxy)
        if any(_has_password(each) for each in addresses) and is_open_to_others(file):
            raise IdentityError(
                f"'{file.name}' holds a password and is open to others.",
                f"Run: chmod 600 {file.name}; or write the address as env:NAME.",
            )
        return member

    @classmethod
    def from_toml(cls, text: str, folder: Path) -> Member:
        """The member that a TOML text in a folder describes."""
        document = parsed_toml(text, "The member file")
        fields = document.table(
            ("format", "name", "agreement", "key", "ledger", "data"),
            ("state", "account", "policy", "transport", "notify"),
        )
        fields["format"].check_format(FORMAT, "member files")
        name = fields["name"].name()
        return cls(
            name=name,
            folder=folder,
            agreement_path=_path(fields["agreement"], folder),
            key_path=_path(fields["key"], folder),
            state_folder=_path(fields["state"], folder) if "state" in fields else folder / "state",
            ledger_address=_address(fields["ledger"], folder),
            account_name=fields["account"].name() if "account" in fields else name,
            data=_data(fields["data"]),
            policy=_policy(fields["policy"]) if "policy" in fields else Policy(),
            transport=_transport(fields["transport"], folder) if "transport" in fields else TransportSettings(),
            notify=_notify(fields["notify"]) if "notify" in fields else NotifySettings(),
        )

    def agreement(self) -> Agreement:
        """The agreement, in which this member is named: the version that stands in its place, or the one before that this member still finishes tasks of."""
        agreement = Agreement.load(self.agreement_path)
        agreement.member(self.name)
        held = self._held_version()
        is_proposal = path_after_adoption(self.agreement_path) != self.agreement_path
        return agreement if held is None or is_proposal or held.version >= agreement.version else held

    def statements(self, agreement: Agreement | None = None) -> Statements:
        """What members have signed beside the agreement, or about this version of it: what stands there now, and what this member has seen there before.

        Keys that were handed over or revoked under the present version are so under a proposed one, too.
        """
        about = self.agreement() if agreement is None else agreement
        found = Statements.load(self.agreement_path).with_known(self.known_statements(about), about)
        place = path_after_adoption(self.agreement_path)
        return found if place == self.agreement_path else carried(found, Statements.load(place))

    def known_statements(self, agreement: Agreement) -> Statements:
        """The statements about a version that this member's node has seen; none of a version that it has not taken."""
        return Statements.load(kept_path(self.versions_folder, agreement))

    @property
    def versions_folder(self) -> Path:
        """Returns the folder of the versions of the agreement that this member has taken."""
        return self.state_folder / "agreements"

    @property
    def held_mark(self) -> Path:
        """The file that is there while this member finishes tasks of a version that another one has taken the place of; it holds that version's name."""
        return self.state_folder / "agreement.held"

    def _held_version(self) -> Agreement | None:
        try:
            name = self.held_mark.read_text()
            return Agreement.load(self.versions_folder / Path(name).name)
        except (OSError, UnicodeDecodeError, AgreementError):
            return None

    def identity(self, passphrase: bytes) -> Identity:
        """The private key, if it is the one that stands for this member now."""
        identity = Identity.load(self.key_path, passphrase)
        check_is_key_of(self.agreement(), self.statements(), self.name, identity.public_key)
        return identity

    def source(self) -> str | CsvFile | SqlSource:
        """The records, as `sudare.frames.batches` takes them."""
        if self.data.url is not None and self.data.query is not None:
            address = _resolved(self.data.url, "data.url")
            if attempt(lambda: sqlalchemy.make_url(address)) is None:
                raise AgreementError("`data.url` is not a database's address.", "Use dialect://user@host/database.")
            return SqlSource(address, self.data.query)
        found = placed(_resolved(str(self.data.source), "data.source"), self.folder)
        names = ("has_header", "encoding", "separator", "decimal", "thousands", "tidy")
        said = {name: getattr(self.data, name) for name in names if getattr(self.data, name) is not None}
        return CsvFile(found, **said) if said else found

    def task_folder(self, agreement: Agreement, task: str) -> Path:
        """Returns the folder of the state of a task of this agreement."""
        return self.state_folder / "tasks" / agreement.digest[:16] / task

    def results_folder(self, task: str) -> Path:
        """Returns the folder of a task's results."""
        return self.folder / "results" / task

    def own_release(self, task: str) -> Path:
        """The file of this member's own release for a task, once it was made."""
        return self.results_folder(task) / "own.sudare"

    def ledger(self, *, create: bool = True) -> Ledger:
        """The ledger; made the first time, if it may be."""
        address = _resolved(self.ledger_address, "ledger")
        return Ledger(address, create=create, timeout_seconds=self.ledger_wait_seconds)

    def account(self, agreement: Agreement) -> Account:
        """This member's account, opened with the agreed budget the first time. One source has one account."""
        ledger, source = self.ledger(), self.source()
        if self.account_name in {account.name for account in ledger.accounts()}:
            account = ledger.account(self.account_name)
            own = given_source(source)
            if own is not None:
                account.bind(own)
            return account
        budget = agreement.member(self.name).budget
        return ledger.account(
            self.account_name,
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbours="replace-one",
            unit="person" if agreement.schema.person is not None else "record",
            source=source if isinstance(source, SqlSource) or is_address(os.fspath(source)) else Path(source),
        )


def placed(source: str, folder: Path) -> str:
    """A path, or that of a Delta or Iceberg table, from where the member's folder is; other addresses as they are."""
    form = next((form for form in ("delta:", "iceberg:") if source.startswith(form)), "")
    root = source.removeprefix(form)
    return source if is_address(root) else f"{form}{folder / root}"


def new_member_file(path: Path, document: Mapping[str, Any]) -> None:
    """Write a member file that was not there, after reading it as it will be read."""
    text = tomli_w.dumps({"format": FORMAT, **document})
    Member.from_toml(text, path.absolute().parent)
    try:
        write_new(path, text.encode(), PRIVATE_MODE)
    except FileExistsError:
        raise AgreementError(f"'{path.name}' exists already.", "Edit it, or choose another name.") from None
    except OSError as error:
        raise AgreementError(f"'{path.name}' cannot be written ({error.strerror}).", "Check the folder.") from None


def _path(value: Field, folder: Path) -> Path:
    text = value.text()
    if not text:
        raise value.refused("a path")
    return folder / Path(text).expanduser()


def _address(value: Field, folder: Path) -> str:
    text = value.text()
    if not text:
        raise value.refused("a path or an address")
    if "://" in text or text.startswith(FROM_ENVIRONMENT):
        return text
    return os.fspath(folder / Path(text).expanduser())


def _data(section: Field) -> Data:
    marks, truths = ("separator", "decimal", "thousands"), ("has_header", "tidy")
    fields = section.table((), ("source", *truths, "encoding", *marks, "url", "query", "cluster"))
    texts = {name: value.text() for name, value in fields.items() if name in ("source", "url", "query")}
    if set(texts) not in ({"source"}, {"url", "query"}) or not all(texts.values()):
        problem = "names both a file and a database" if {"source", "url"} <= set(texts) else "names no data"
        raise AgreementError(
            f"`{section.path}` {problem}.",
            'Give source = "table.parquet" (or CSV, a folder, s3://…, delta:…), or url = "dialect://…" with query = "table or query".',
        )
    encoding = fields["encoding"].text() if "encoding" in fields else None
    if encoding is not None:
        checked_encoding(encoding)
    said: dict[str, Any] = {name: fields[name].text() for name in marks if name in fields}
    said |= {name: fields[name].truth() for name in truths if name in fields}
    CsvFile("", **said)
    cluster = _cluster(fields["cluster"]) if "cluster" in fields else None
    return Data(**{**texts, **said}, encoding=encoding, cluster=cluster)


def _cluster(field: Field) -> str:
    if not re.fullmatch(r"(tcp|tls|ws|wss|ucx)://[^\s/@]+", field.text()):
        raise field.refused("the address of a Dask scheduler, such as tls://scheduler.example:8786")
    return field.text()


def _policy(section: Field) -> Policy:
    def kinds(field: Field) -> frozenset[str]:
        return frozenset(item.word(KINDS) for item in field.items())

    readers = {"approval": kinds, "most_epsilon": Field.epsilon, "most_delta": Field.delta}
    return section.built(Policy, {}, readers)


def _transport(section: Field, folder: Path) -> TransportSettings:
    readers: dict[str, Reader] = {
        "kind": lambda field: field.word(("local", "flare")),
        "kit": lambda field: _path(field, folder),
        "relay": Field.host_and_port,
        "other_relays": lambda field: tuple(item.host_and_port() for item in field.items()),
        "proxy": _proxy,
        "health_port": whole(1, 65_535),
    }
    settings = section.built(TransportSettings, {}, readers)
    if settings.other_relays and (
        settings.proxy or settings.relay is None or len(set(settings.relays)) < len(settings.relays)
    ):
        raise Field(f"{section.path}.other_relays", list(settings.other_relays)).refused(
            "further relays beside `relay`, each named once, that are reached without a proxy"
        )
    return settings


def _notify(section: Field) -> NotifySettings:
    def command(field: Field) -> tuple[str, ...]:
        words = tuple(item.text() for item in field.items())
        if not words or not os.path.isabs(words[0]):
            raise field.refused(
                'a list of words that begins with a program\'s whole path, such as ["/usr/bin/mail", "-s", "sudare", "steward"]'
            )
        return words

    def events(field: Field) -> frozenset[str]:
        # Whoever was told by the command that the command failed would be told of that again, without an end.
        listed = [event for event in sorted(EVENTS) if not event.startswith("notification-")]
        return frozenset(item.word(listed) for item in field.items())

    readers: dict[str, Reader] = {"events": events, "timeout_seconds": lambda field: field.number(0.1, 600.0)}
    return section.built(NotifySettings, {"command": command}, readers)


def _proxy(field: Field) -> str:
    if not field.text().startswith("http://"):
        raise field.refused("an HTTP proxy's address, such as http://proxy.example:3128")
    return field.text()


def _resolved(address: str, path: str) -> str:
    """The address itself, or what the environment holds for it."""
    if not address.startswith(FROM_ENVIRONMENT):
        return address
    variable = address.removeprefix(FROM_ENVIRONMENT)
    found = os.environ.get(variable) if _VARIABLE.fullmatch(variable) else None
    if not found:
        raise AgreementError(
            f"`{path}` is to come from the environment, which lacks that variable.", "Set it for the node."
        )
    return found


def _without_password(part: object, *addresses: str | None) -> dict[str, Any]:
    """What is pickled or copied of a part of the member file; raises where one of its addresses holds a password."""
    if any(map(_has_password, addresses)):
        raise TypeError("A password is not copied or pickled: load the member file where it is needed.")
    return dict(vars(part))


def _has_password(address: str | None) -> bool:
    """Whether an address holds a password, as its driver reads it; one that cannot be read is taken to, if it could."""
    if address is None or "://" not in address:
        return False
    place = attempt(lambda: place_of(address))
    place = place.root if isinstance(place, TableAddress) else place
    if isinstance(place, ObjectAddress):
        return place.has_secrets
    url = attempt(lambda: sqlalchemy.make_url(address.split(maxsplit=1)[0]))
    if url is None:
        return "@" in address or "=" in address
    return has_secrets(url)
