"""ONNX files predict what the releases they were made of predict."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sudare.errors import NotReleasable
from sudare.exports.onnx_models import onnx_model
from sudare.privacy import Ledger, Release
from sudare.requests.request_kinds import make
from sudare.schema import Category, Label, Number, Schema

runtime = pytest.importorskip("onnxruntime")

SCHEMA = Schema(
    {
        "age": Number(0, 100, missing="indicator"),
        "stay": Number(0, 30, bins=(1, 7, 14), missing="centre"),
        "ward": Category(("a", "b", "c"), other="c"),
        "ill": Category((True, False)),
        "floor": Category((1, 2, 3)),
        "outcome": Label(("bad", "fair", "good")),
    }
)
TWO = Schema({**SCHEMA.columns, "outcome": Label((0, 1))})
GENERATOR = np.random.default_rng(0)
ROWS = 200


def records(classes) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": np.where(GENERATOR.random(ROWS) < 0.1, np.nan, GENERATOR.uniform(-10, 120, ROWS)),
            "stay": np.where(GENERATOR.random(ROWS) < 0.1, np.nan, GENERATOR.choice([0, 1, 6.9, 7, 14, 40], ROWS)),
            "ward": GENERATOR.choice(["a", "b", "c", "other"], ROWS),
            "ill": GENERATOR.random(ROWS) < 0.5,
            "floor": GENERATOR.integers(1, 4, ROWS),
            "outcome": GENERATOR.choice(classes, ROWS),
        }
    )


def answers(content: bytes, table: pd.DataFrame) -> list[np.ndarray]:
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    kinds = {"tensor(double)": np.float64, "tensor(string)": object, "tensor(int64)": np.int64}
    given = {each.name: table[[each.name]].to_numpy().astype(kinds[each.type]) for each in session.get_inputs()}
    return session.run(None, given)


CASES = [
    (kind, schema, {"encoding": encoding})
    for kind in ("logistic", "svc", "network")
    for schema in (TWO, SCHEMA)
    for encoding in ("scaled", "centred", "binned")
] + [("logistic", schema, {"decision": "balanced"}) for schema in (TWO, SCHEMA)] + [("additive", schema, {"delta": delta}) for schema in (TWO, SCHEMA) for delta in (0.0, 1e-6)] + [
    (kind, schema, {"target": "age" if kind == "never" else "stay", "encoding": "centred"})
    for kind in ("ridge", "network")
    for schema in (TWO,)
]  # fmt: skip


@pytest.fixture(scope="module")
def account(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("onnx") / "ledger.db").account("records", epsilon=1000.0, delta=0.1)


@pytest.mark.parametrize(("kind", "schema", "values"), CASES, ids=lambda value: str(getattr(value, "classes", value)))
def test_an_export_predicts_as_the_release_does(account, kind, schema, values):
    more = {"hidden_layer_sizes": [5], "max_iter": 2} if kind == "network" else {}
    table = records(list(schema.classes)).fillna({"stay": 3.0} if "target" in values else {})
    model = make(kind, schema, {"epsilon": 5.0, **more, **values}, account=account).fit(table)
    release = Release.of(model)
    loaded = release.model()
    found = answers(onnx_model(release), table)
    if "target" in values:
        assert np.allclose(found[0][:, 0], loaded.predict(table), rtol=0, atol=1e-9)
    else:
        assert found[0].tolist() == loaded.predict(table).tolist()
    if hasattr(loaded, "predict_proba"):
        assert np.allclose(found[1], loaded.predict_proba(table), rtol=0, atol=1e-9)


def test_what_predicts_nothing_cannot_be_exported(account):
    numbers = Schema({"stay": Number(0, 30)})
    mean = make("mean", numbers, {"epsilon": 1.0}, account=account).fit(pd.DataFrame({"stay": [1.0, 2.0]}))
    with pytest.raises(NotReleasable, match="cannot be exported"):
        onnx_model(Release.of(mean))
