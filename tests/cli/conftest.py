"""A small house to run commands in: table, schema, keys, a ledger with one account, one release."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from typer.testing import CliRunner

from sudare.cli.main import app

SCHEMA = """
[columns.age]
kind = "number"
low = 0
high = 110

[columns.smoker]
kind = "category"
values = ["no", "yes"]
"""
PASSPHRASE = "correct horse"


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit code, standard output, standard error."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def values(self) -> dict[str, Any]:
        """Standard output, which must be one JSON object and nothing else."""
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        assert self.stdout.count("\n") == 1
        return found


Sudare = Callable[..., Outcome]


def invoked(*words: object, typed: str | None = None) -> Outcome:
    result = CliRunner().invoke(app, [str(word) for word in words], input=typed)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def sudare() -> Sudare:
    return invoked


def write_keys(folder: Path, name: str) -> None:
    key = Ed25519PrivateKey.generate()
    private = (Encoding.PEM, PrivateFormat.PKCS8)
    (folder / f"{name}.pem").write_bytes(key.private_bytes(*private, NoEncryption()))
    (folder / f"{name}-locked.pem").write_bytes(
        key.private_bytes(*private, BestAvailableEncryption(PASSPHRASE.encode()))
    )
    for path in (folder / f"{name}.pem", folder / f"{name}-locked.pem"):
        path.chmod(0o600)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}-public.pem").write_bytes(public)


@pytest.fixture(scope="session")
def built_house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("house")
    random = np.random.default_rng(0)
    ages = random.normal(50, 15, 300)
    ages[:2] = 200.0
    pd.DataFrame({"age": ages, "smoker": random.choice(["no", "yes"], 300)}).to_parquet(folder / "table.parquet")
    (folder / "schema.toml").write_text(SCHEMA)
    write_keys(folder, "key")
    write_keys(folder, "other")
    return folder


@pytest.fixture
def house(built_house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh copy, with one account of ε = 2 of which a mean has spent 0.5; commands run inside it."""
    monkeypatch.delenv("SUDARE_LEDGER", raising=False)
    folder = tmp_path / "house"
    shutil.copytree(built_house, folder)
    monkeypatch.chdir(folder)
    opened = invoked(*FIT_MEAN, "--budget", 2, "--budget-delta", 1e-6, "-o", "mean.sudare", "--key", "key.pem")
    assert opened.exit_code == 0, opened.stderr
    return folder


FIT_MEAN = ("fit", "mean", "table.parquet", "--schema", "schema.toml", "--epsilon", 0.5, "--account", "patients")
