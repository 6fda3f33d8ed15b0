"""A release as a model of MLflow."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.errors import ExtraMissing, NotReleasable
from sudare.exports.mlflow_export import save_mlflow_model
from sudare.privacy import Ledger, Release
from sudare.requests.request_kinds import make
from sudare.schema import Label, Number, Schema

SCHEMA = Schema({"age": Number(0, 100), "ill": Label((0, 1))})
TABLE = pd.DataFrame({"age": np.arange(50) * 2, "ill": np.arange(50) // 25})


@pytest.fixture
def released(tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("records", epsilon=10.0)
    release = Release.of(make("logistic", SCHEMA, {"epsilon": 5.0}, account=account).fit(TABLE))
    release.save(tmp_path / "model.sudare", key=Ed25519PrivateKey.generate())
    return release, tmp_path / "model.sudare"


def test_mlflow_opens_the_folder_and_predicts_the_same(released, tmp_path):
    pyfunc = pytest.importorskip("mlflow.pyfunc", reason="mlflow is not installed")
    release, file = released
    save_mlflow_model(release, file, tmp_path / "exported")
    opened = pyfunc.load_model(str(tmp_path / "exported"))
    assert opened.predict(TABLE[["age"]]).tolist() == release.model().predict(TABLE).tolist()


def test_without_mlflow_the_extra_is_named(released, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mlflow.pyfunc", None)
    with pytest.raises(ExtraMissing, match="mlflow"):
        save_mlflow_model(*released, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_what_predicts_nothing_is_refused(tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("records", epsilon=10.0)
    mean = make("mean", Schema({"age": Number(0, 100)}), {"epsilon": 1.0}, account=account).fit(TABLE[["age"]])
    with pytest.raises(NotReleasable, match="predicts nothing"):
        save_mlflow_model(Release.of(mean), tmp_path / "mean.sudare", tmp_path / "exported")
