"""For every learner that can be released: an account pays for its own source only, and what was computed is bound to the charge."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.errors import NotCharged, SourceMismatch
from sudare.frames import read
from sudare.privacy import Ledger, Release
from sudare.privacy.learner_registry import LEARNERS, learner_class
from sudare.privacy.ledger import Account
from sudare.privacy.release import result_of
from sudare.schema import Label, Number, Schema

NUMBERS = Schema({"age": Number(0, 110), "dose": Number(0, 10)})
CLASSES = Schema({"age": Number(0, 110), "dose": Number(0, 10), "sick": Label(("no", "yes"))})
VALUES = Schema({"age": Number(0, 110), "dose": Number(0, 10)}, target="dose")
# Of arrays only, which are in memory and have no source that could be looked at.
OF_ARRAYS = ("GibbsPosterior",)
NETWORKS = tuple(name for name, module in LEARNERS.items() if "network" in module or "neural" in module)


@functools.cache
def released_expert() -> Release:
    """Somebody else's model of the classes, loaded from its file."""
    key, random = Ed25519PrivateKey.generate(), np.random.default_rng(6)
    ages = random.uniform(20, 90, 200)
    rows = pd.DataFrame({"age": ages, "dose": ages / 10, "sick": np.where(ages > 50, "yes", "no")})
    with tempfile.TemporaryDirectory() as place:
        account = Ledger(Path(place) / "ledger.db").account("others", epsilon=1.0)
        model = learner_class("PrivateLogisticRegression")(0.5, schema=CLASSES, account=account).fit(rows)
        Release.of(model).save(Path(place) / "model.sudare", key)
        return Release.load(Path(place) / "model.sudare", trusted=[key.public_key()])


def learner(name: str, account: Account) -> Any:
    """A learner of that name for the table below, with a charge of at most one."""
    options: dict[str, Any] = {"epsilon": 0.5, "account": account}
    if _has_classes(name):
        options["schema"] = CLASSES
    elif name in ("PrivateRidge", "GibbsRidge") or name.endswith("Regressor"):
        options["schema"] = VALUES
    else:
        options["schema"] = NUMBERS
    if name in (*NETWORKS, "GibbsLogisticRegression", "GibbsRidge"):
        options["delta"] = 1e-6
    if name == "GroupedTable":
        options["by"] = ["age"]
    if name == "PrivateExponentialWeights":
        options["experts"] = [released_expert()]
    if name == "PrivateNetwork":
        options |= {
            "apply": lambda params, x: x @ params,
            "params": np.zeros((2, 2), np.float32),
            "classes": ("no", "yes"),
        }
    return learner_class(name)(**options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(5)
    for name in ("patients", "staff"):
        ages, doses = random.uniform(20, 90, 200), random.uniform(0, 10, 200)
        sick = np.where(ages > 50, "yes", "no")
        pd.DataFrame({"age": ages, "dose": doses}).to_parquet(tmp_path / f"{name}.parquet")
        pd.DataFrame({"age": ages, "dose": doses, "sick": sick}).to_parquet(tmp_path / f"{name}-classes.parquet")
    return tmp_path


def table_of(name: str, folder: Path, whose: str) -> Path:
    return folder / f"{whose}{'-classes' if _has_classes(name) else ''}.parquet"


def _has_classes(name: str) -> bool:
    return name.endswith(("LogisticRegression", "SVC", "Classifier", "ExponentialWeights"))


@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in OF_ARRAYS])
def test_no_learner_charges_an_account_for_another_source(name: str, folder: Path) -> None:
    account = Ledger(folder / "ledger.db").account(
        "patients", epsilon=9.0, delta=1e-3, source=folder / "patients.parquet"
    )
    model = learner(name, account)
    for act in (model.fit, model.price):
        with pytest.raises(SourceMismatch):
            act(read(table_of(name, folder, "staff")))
    assert [entry.kind for entry in account.entries()] == ["open"]


@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in (*NETWORKS, *OF_ARRAYS)])
def test_what_a_learner_computed_is_bound_to_its_charge_and_source(name: str, folder: Path) -> None:
    account = Ledger(folder / "ledger.db").account("patients", epsilon=9.0, delta=1e-3)
    file = table_of(name, folder, "patients")
    model = learner(name, account).fit(read(file))
    assert [entry.kind for entry in account.entries()] == ["open", "bind", "charge", "result"]
    assert account.terms.bound == str(file.resolve())
    assert account.ledger.result_of(model.receipt_) == result_of(model)
    assert Release.of(model).learner == name
    account.ledger.verify()
    model.schema_digest_ = "a" * 64
    with pytest.raises(NotCharged):
        Release.of(model)
