"""What a page serves, to whom, and where it listens: `page.toml`, or the options of `sudare page`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from sudare.errors import InvalidParameter
from sudare.files import read_private, read_text
from sudare.parsing import NotParsed, parsed_toml
from sudare.privacy.guarantee import checked_delta, checked_epsilon
from sudare.requests.users import ROLES, User
from sudare.safe_text import name_fault
from sudare.web.passwords import is_password_hash

DEFAULT_PORT: Final = 8177
USER_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_HOST_NAME: Final = re.compile(r"[a-z0-9_.-]+")
# IDNA 2003 replaces or drops them, as Python does (ß becomes ss), and IDNA 2008 keeps them, as browsers do.
_SENT_IN_TWO_WAYS: Final = frozenset("ßẞς\u200c\u200d")
_TOP_KEYS: Final = (
    "ledger",
    "releases",
    "schemas",
    "requests",
    "trusted_keys",
    "signing_key",
    "passphrase_file",
    "member",
    "two_people",
    "metrics_token",
    "tables",
    "users",
    "server",
)
_TABLE_KEYS: Final = (
    "source",
    "schema",
    "account",
    "has_header",
    "encoding",
    "csv",
    "budget",
    "budget_delta",
    "may_change",
)
_SERVER_KEYS: Final = ("host", "port", "certificate", "key", "public_address")
_USER_KEYS: Final = ("role", "password")


@dataclass(frozen=True)
class TableSettings:
    """A table that can be asked about: where it is, which schema describes it, and which account pays for it."""

    name: str
    source: str
    schema: str
    account: str
    has_header: bool | None = None
    encoding: str | None = None
    # As after --csv: "separator=;", "thousands=,".
    csv: tuple[str, ...] = ()
    # What the account is opened with where it is new; without it, it must be there.
    budget: float | None = None
    budget_delta: float = 0.0
    # Whether a request may be run when the table is another one than when it was priced.
    may_change: bool = False


@dataclass(frozen=True)
class PageSettings:
    """What a page serves. Without users one person signs in by the address that is printed when the page starts."""

    ledger: str = "ledger.db"
    releases: Path = Path()
    schemas: Path = Path()
    requests: Path = Path("requests")
    trusted_keys: tuple[Path, ...] = ()
    signing_key: Path | None = None
    passphrase_file: Path | None = None
    member: Path | None = None
    two_people: bool = False
    metrics_token: str | None = field(default=None, repr=False)
    tables: Mapping[str, TableSettings] = field(default_factory=dict)
    users: Mapping[str, User] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    certificate: Path | None = None
    key: Path | None = None
    public_address: str | None = None
    # Who signs in by the printed address, where there are no users.
    owner: str = "steward"

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65_536:
            raise InvalidParameter(
                f"A port is a number from 0 to 65535, got {self.port}.", f"Use for example {DEFAULT_PORT}."
            )
        if (self.certificate is None) != (self.key is None):
            raise InvalidParameter("A certificate and its key belong together.", "Give both, or neither.")
        if not is_loopback(self.host) and not (self.users and self.certificate):
            raise InvalidParameter(
                "A page that other computers can reach needs users with passwords, and HTTPS.",
                "Add [users.NAME] and, under [server], certificate and key; or listen on 127.0.0.1.",
            )
        if is_everywhere(self.host) and self.public_address is None:
            raise InvalidParameter(
                "A page that listens everywhere does not know by which name browsers call it, and answers under no other.",
                'Give that name under [server]: public_address = "https://page.example.org:8443".',
            )
        if self.public_address is not None and not self.users:
            raise InvalidParameter(
                "A page with a public address needs users with passwords.",
                "Add [users.NAME], or leave the address out.",
            )
        if self.two_people and len([user for user in self.users.values() if user.role == "steward"]) < 2:
            raise InvalidParameter(
                "Two people must approve, and there are fewer than two stewards among the users.",
                'Add a second [users.NAME] with role = "steward", or leave two_people out.',
            )

    @property
    def is_https(self) -> bool:
        """Whether browsers reach this page by HTTPS: from here, or from a proxy on this machine."""
        return self.certificate is not None or self.public_address is not None

    def address(self, port: int | None = None) -> str:
        """Where browsers find the page, without a path; `port` is the one taken where the settings say 0."""
        if self.public_address is not None:
            return self.public_address
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{port or self.port}"


def plain_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address, one of IPv4 also where a socket for both writes it as one of IPv6 (::ffff:10.0.0.1). Raise ValueError where it is none."""
    found = ipaddress.ip_address(text)
    return (found.ipv4_mapped if found.version == 6 else None) or found


def is_loopback(host: str) -> bool:
    """Whether only this computer reaches a server that listens there."""
    try:
        return plain_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_everywhere(host: str) -> bool:
    """Whether a server that listens there listens at all addresses of this computer: none of them is its name."""
    try:
        return plain_address(host).is_unspecified
    except ValueError:
        return False


def read_settings(path: Path, **changes: Any) -> PageSettings:
    """The settings in a file, with some of them changed. Paths in the file, and those it leaves out, begin at its own folder."""
    text = read_text(path, "The page's settings", InvalidParameter)
    try:
        document = parsed_toml(text)
    except NotParsed as error:
        raise InvalidParameter(f"'{path.name}' is not valid TOML ({error}).", "Correct the text there.") from None
    if document.get("users"):
        # Hashes of passwords can be guessed from by whoever reads them.
        read_private(path, "The page's settings", InvalidParameter)
    found = PageSettings(**{**settings_values(document, path.absolute().parent), **changes})
    if (found.users or found.metrics_token) and found.schemas.resolve() == path.resolve().parent:
        raise InvalidParameter(
            f"The folder of schemas holds '{path.name}' itself, which has secrets.",
            'Move the schemas into a folder of their own, and name it: schemas = "schemas".',
        )
    return found


def settings_values(document: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The fields of `PageSettings` that a document names. Raise InvalidParameter where it says something unknown."""
    _check_keys(document, _TOP_KEYS, "The settings")
    ledger = _text(document.get("ledger", PageSettings.ledger), "ledger")
    values: dict[str, Any] = {
        "ledger": ledger if "://" in ledger else str(folder / ledger),
        **{name: folder / getattr(PageSettings, name) for name in ("releases", "schemas", "requests")},
    }
    for name in ("releases", "schemas", "requests", "signing_key", "passphrase_file", "member"):
        if name in document:
            values[name] = folder / _text(document[name], name)
    if "trusted_keys" in document:
        values["trusted_keys"] = tuple(
            folder / _text(each, "trusted_keys") for each in _list(document["trusted_keys"], "trusted_keys")
        )
    if "two_people" in document:
        values["two_people"] = _boolean(document["two_people"], "two_people")
    if "metrics_token" in document:
        values["metrics_token"] = _text(document["metrics_token"], "metrics_token")
    tables, users = _section(document, "tables"), _section(document, "users")
    values["tables"] = {name: _table(name, facts, folder) for name, facts in tables.items()}
    values["users"] = {name: _user(name, facts) for name, facts in users.items()}
    return {**values, **_server(_section(document, "server"), folder)}


def table_named(name: str, source: str) -> TableSettings:
    """A table whose schema and account have its own name."""
    fault = name_fault(name)
    if fault is not None:
        raise InvalidParameter(f"The name of a table {fault}.", "Use plain text, such as 'visits'.")
    return TableSettings(name, source, name, name)


def _table(name: str, facts: object, folder: Path) -> TableSettings:
    place = f"[tables.{name}]"
    section = _check_keys(facts, _TABLE_KEYS, place)
    source = _text(section.get("source"), f"{place} source")
    plain = table_named(name, source if "://" in source else str(folder / source))
    has_header, encoding = section.get("has_header"), section.get("encoding")
    return TableSettings(
        name,
        plain.source,
        _text(section.get("schema", name), f"{place} schema"),
        _text(section.get("account", name), f"{place} account"),
        None if has_header is None else _boolean(has_header, f"{place} has_header"),
        None if encoding is None else _text(encoding, f"{place} encoding"),
        tuple(_text(each, f"{place} csv") for each in _list(section.get("csv", []), f"{place} csv")),
        checked_epsilon(section["budget"], f"{place} budget") if "budget" in section else None,
        checked_delta(section.get("budget_delta", 0.0), f"{place} budget_delta"),
        _boolean(section.get("may_change", False), f"{place} may_change"),
    )


def _user(name: str, facts: object) -> User:
    place = f"[users.{name}]"
    section = _check_keys(facts, _USER_KEYS, place)
    if not USER_NAME.fullmatch(name):
        raise InvalidParameter(
            f"{place}: a user's name has small letters, figures and hyphens.", "Use for example [users.aiko]."
        )
    role, password = section.get("role"), section.get("password")
    if role not in ROLES:
        raise InvalidParameter(f"{place} has no known role.", f"Give role = one of {', '.join(ROLES)}.")
    if not isinstance(password, str) or not is_password_hash(password):
        raise InvalidParameter(
            f"{place} has no usable password.", "Give password = the text that `sudare page password` prints."
        )
    return User(name, role, password)


def _server(section: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    _check_keys(section, _SERVER_KEYS, "[server]")
    values: dict[str, Any] = {
        name: folder / _text(section[name], f"[server] {name}") for name in ("certificate", "key") if name in section
    }
    if "host" in section:
        values["host"] = _text(section["host"], "[server] host")
    if "port" in section:
        if type(section["port"]) is not int:
            raise InvalidParameter("[server] port is not a number.", f"Use for example port = {DEFAULT_PORT}.")
        values["port"] = section["port"]
    if "public_address" in section:
        values["public_address"] = _public_address(_text(section["public_address"], "[server] public_address"))
    return values


def _public_address(text: str) -> str:
    """The address as browsers have it in their Host header: small letters, no port where it is the usual one, letters of other scripts as they are sent."""
    try:
        parts = urlsplit(text)
        typed = parts.hostname or ""
        name = typed.encode("idna").decode("ascii")
        port = "" if parts.port in (None, 443) else f":{parts.port}"
    except ValueError:
        typed = name = ""
    if (
        not (_HOST_NAME.fullmatch(name) or _is_ipv6(name))
        or parts.scheme != "https"
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
        or "@" in text
    ):
        raise InvalidParameter(
            "[server] public_address is not an address of the form https://NAME.",
            "Use for example https://page.example.org.",
        )
    if not _SENT_IN_TWO_WAYS.isdisjoint(typed):
        raise InvalidParameter(
            "[server] public_address has a letter that browsers and older programs send in different ways: it may be another's name.",
            "Write the name as browsers send it, with xn--.",
        )
    return f"https://{f'[{name}]' if ':' in name else name}{port}"


def _is_ipv6(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).version == 6
    except ValueError:
        return False


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = document.get(name, {})
    if not isinstance(section, Mapping):
        raise InvalidParameter(f"`{name}` is not a section of the settings.", f"Write it as [{name}] or [{name}.NAME].")
    return section


def _check_keys(section: object, known: tuple[str, ...], place: str) -> Mapping[str, Any]:
    if not isinstance(section, Mapping):
        raise InvalidParameter(f"{place} is not a section.", "Write it as a TOML section.")
    unknown = [key for key in section if key not in known]
    if unknown:
        raise InvalidParameter(f"{place} has an unknown key {unknown[0]!r}.", f"Known are: {', '.join(known)}.")
    return section


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidParameter(f"{place} is not text.", "Write it in quotation marks.")
    return value


def _boolean(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidParameter(f"{place} is neither true nor false.", "Write true or false.")
    return value


def _list(value: object, place: str) -> list[object]:
    if not isinstance(value, list):
        raise InvalidParameter(f"{place} is not a list.", 'Write it as ["…", "…"].')
    return value
