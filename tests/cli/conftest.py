"""A small house to run commands in: table, schema, keys, a ledger with one account, one release."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
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
    """What a command left: exit code, standard output, standard error, and both as a terminal shows them."""

    exit_code: int
    stdout: str
    stderr: str
    output: str

    @property
    def values(self) -> dict[str, Any]:
        """Standard output, which must be one JSON object and nothing else."""
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        assert self.stdout.count("\n") == 1
        return found


Sudare = Callable[..., Outcome]
# `CliRunner.invoke` makes the tree of all commands from their signatures anew each time, which takes longer than most commands do.
command_tree = functools.cache(typer.main.get_command)


def invoked(*words: object, typed: str | None = None) -> Outcome:
    """What a command leaves when it is run in this process; an exception that it lets through is raised."""
    with CliRunner().isolation(input=typed) as streams:
        exit_code: object = 0
        try:
            command_tree(app).main(args=[str(word) for word in words], prog_name="sudare")
        except SystemExit as end:
            exit_code = end.code
        sys.stdout.flush()
        sys.stderr.flush()
        stdout, stderr, output = (stream.getvalue().decode() for stream in streams)
    assert isinstance(exit_code, int), f"A command ends with a number, not with {exit_code!r}."
    return Outcome(exit_code, stdout, stderr, output)


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


@dataclass(frozen=True)
class BuiltHouse:
    """A house as it was built, and where it stood: accounts know their tables by this place."""

    kept: Path
    place: Path


@pytest.fixture(scope="session")
def built_house(tmp_path_factory: pytest.TempPathFactory) -> BuiltHouse:
    built = BuiltHouse(tmp_path_factory.mktemp("kept") / "house", tmp_path_factory.mktemp("house") / "house")
    folder = built.place
    folder.mkdir()
    random = np.random.default_rng(0)
    ages = random.normal(50, 15, 300)
    ages[:2] = 200.0
    pd.DataFrame({"age": ages, "smoker": random.choice(["no", "yes"], 300)}).to_parquet(folder / "table.parquet")
    (folder / "schema.toml").write_text(SCHEMA)
    write_keys(folder, "key")
    write_keys(folder, "other")
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as environment:
        environment.delenv("SUDARE_LEDGER", raising=False)
        opened = invoked(*FIT_MEAN, "--budget", 2, "--budget-delta", 1e-6, "-o", "mean.sudare", "--key", "key.pem")
    assert opened.exit_code == 0, opened.stderr
    shutil.copytree(folder, built.kept)
    return built


@pytest.fixture
def house(built_house: BuiltHouse, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A house as it was built, with one account of ε = 2 of which a mean has spent 0.5; commands run inside it."""
    monkeypatch.delenv("SUDARE_LEDGER", raising=False)
    shutil.rmtree(built_house.place.parent)
    shutil.copytree(built_house.kept, built_house.place)
    monkeypatch.chdir(built_house.place)
    return built_house.place


FIT_MEAN = ("fit", "mean", "table.parquet", "--schema", "schema.toml", "--epsilon", 0.5, "--account", "patients")
