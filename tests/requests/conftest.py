"""A house with one table that can be asked about."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sudare.files import write_new
from sudare.requests.request import Request
from sudare.requests.request_actions import ask, decide
from sudare.requests.steward_settings import AskableTable, RequestSettings
from tests.ledgers import quick_folder

SCHEMA = """
[columns.age]
kind = "number"
low = 0
high = 110
unit = "years"
[columns.ward]
kind = "category"
values = ["a", "b"]
"""


def house(folder: Path) -> RequestSettings:
    """Settings, a table, its schema and a key."""
    pd.DataFrame({"age": [20.0 + i % 60 for i in range(200)], "ward": ["a", "b"] * 100}).to_csv(
        folder / "visits.csv", index=False
    )
    (folder / "visits.toml").write_text(SCHEMA)
    key = Ed25519PrivateKey.generate()
    write_new(folder / "key.pem", key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    table = AskableTable("visits", str(folder / "visits.csv"), folder / "visits.toml", "visits", budget=2.0)
    return RequestSettings(
        ledger=str(folder / "ledger.db"),
        requests_folder=folder / "requests",
        releases_folder=folder / "releases",
        tables={"visits": table},
        signing_key=folder / "key.pem",
    )


def asked(settings: RequestSettings, epsilon: str = "0.5", who: str = "aiko") -> Request:
    """A request for means."""
    return ask(settings, "visits", "mean", {"epsilon": [epsilon]}, who=who, purpose="a talk about ages")


def approved(settings: RequestSettings, epsilon: str = "0.5") -> Request:
    """One that a steward approved."""
    request = asked(settings, epsilon)
    return decide(settings, request.identity, 1, "approved", who="mori", reason="fits the purpose")


@pytest.fixture
def settings() -> Iterator[RequestSettings]:
    with quick_folder() as folder:
        yield house(folder)


@pytest.fixture
def with_two_people(settings: RequestSettings) -> RequestSettings:
    return dataclasses.replace(settings, two_people=True)


Changed = Callable[..., RequestSettings]
