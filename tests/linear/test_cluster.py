"""Linear models on a cluster: the parameters of one process, bit for bit; charged once, here."""

from __future__ import annotations

import pickle

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sudare.errors import UnknownCategory
from sudare.linear import PrivateAdditiveClassifier, PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge
from sudare.privacy import Ledger
from sudare.schema import Label, Number, Schema

distributed = pytest.importorskip("distributed")

ROWS = 70_000
COLUMNS = {"a": Number(-3, 3), "b": Number(0, 1)}
BINARY = Schema({**COLUMNS, "y": Label(("no", "yes"))})
THREE = Schema({**COLUMNS, "kind": Label(("p", "q", "r"))})
NUMBER = Schema({**COLUMNS, "z": Number(-5, 5)}, target="z")


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, set_as_default=False) as made:
        yield made


@pytest.fixture(scope="module")
def frame():
    generator = np.random.default_rng(3)
    frame = pd.DataFrame({"a": generator.normal(size=ROWS), "b": generator.uniform(size=ROWS)})
    frame["y"] = np.where(frame["a"] + generator.normal(size=ROWS) > 0, "yes", "no")
    frame["kind"] = generator.choice(["p", "q", "r"], ROWS)
    frame["z"] = frame["a"] - frame["b"]
    return frame


@pytest.fixture(scope="module")
def path(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("linear") / "rows.parquet"
    frame.to_parquet(path, row_group_size=9_999)
    return path


@pytest.fixture(scope="module")
def short_path(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("short") / "rows.parquet"
    frame[:2000].to_parquet(path, row_group_size=300)
    return path


def assert_same_parameters(model, path, client):
    here = clone(model).fit(path)
    there = clone(model).set_params(cluster=client).fit(path)
    np.testing.assert_array_equal(here.parameters_, there.parameters_)


@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(1.0, schema=BINARY, method="objective", random_state=0),
        PrivateLogisticRegression(1.0, 1e-6, schema=BINARY, method="output", random_state=0),
        PrivateRidge(1.0, schema=NUMBER, random_state=0),
    ],
    ids=lambda model: f"{type(model).__name__}-{model.method}",
)
def test_a_cluster_gives_the_parameters_of_one_process(model, path, client):
    assert_same_parameters(model, path, client)


@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(0.05, 1e-6, schema=BINARY, method="descent", random_state=0),
        PrivateLinearSVC(1.0, schema=THREE, method="mean", random_state=0),
        PrivateAdditiveClassifier(1.0, 1e-6, schema=BINARY, random_state=0),
        pytest.param(
            PrivateLogisticRegression(1.0, 1e-6, schema=BINARY, method="descent", sampling_rate=0.01, random_state=0),
            marks=pytest.mark.long,
        ),
    ],
    ids=lambda model: "-".join(str(getattr(model, name, "")) for name in ("__class__", "method", "sampling_rate")),
)
def test_so_it_does_in_sums_of_whole_numbers(model, short_path, client):
    assert_same_parameters(model, short_path, client)


def test_what_is_in_memory_is_sent(frame, client):
    X, y = frame[["a", "b"]].to_numpy(), frame["y"].to_numpy()
    model = PrivateLogisticRegression(1.0, classes=["no", "yes"], norm_bound=3.0, random_state=0)
    here = clone(model).fit(X, y)
    model.cluster = client
    np.testing.assert_array_equal(here.parameters_, clone(model).fit(X, y).parameters_)
    pairs = ((X[start : start + 30_000], y[start : start + 30_000]) for start in range(0, ROWS, 30_000))
    np.testing.assert_array_equal(here.parameters_, model.fit(pairs).parameters_)


def test_a_client_is_shared_by_clones_and_stays_out_of_pickles(client):
    model = PrivateLogisticRegression(cluster=client)
    assert clone(model).cluster is client
    assert pickle.loads(pickle.dumps(model)).cluster is None
    assert pickle.loads(pickle.dumps(PrivateRidge(cluster="tcp://127.0.0.1:1"))).cluster == "tcp://127.0.0.1:1"


def test_workers_get_neither_account_nor_ledger(path, client, tmp_path, monkeypatch):
    account = Ledger(tmp_path / "own-ledger.sqlite").account("rows", 5.0, source=path)
    sent = []
    submit, submit_all = client.submit, client.map
    monkeypatch.setattr(
        client, "submit", lambda *arguments, **named: sent.append(arguments) or submit(*arguments, **named)
    )
    monkeypatch.setattr(
        client, "map", lambda *lists, **named: sent.extend(zip(*lists[1:], strict=True)) or submit_all(*lists, **named)
    )
    model = PrivateLogisticRegression(1.0, schema=BINARY, account=account, cluster=client).fit(path)
    assert model.guarantee_.valid
    assert account.spent().epsilon == 1.0
    tasks = [[part for part in arguments if not hasattr(part, "key")] for arguments in sent]
    assert len(tasks) > 2
    assert not any(b"own-ledger" in cloudpickle.dumps(task) for task in tasks)


def test_bad_rows_are_refused_before_the_charge_in_the_same_words(frame, client, tmp_path):
    frame.assign(y=["other"] + ["no"] * (ROWS - 1)).to_parquet(tmp_path / "bad.parquet")
    account = Ledger(tmp_path / "ledger.sqlite").account("bad", 5.0)
    said = []
    for cluster in (None, client):
        with pytest.raises(UnknownCategory) as caught:
            PrivateLogisticRegression(1.0, schema=BINARY, account=account, cluster=cluster).fit(
                tmp_path / "bad.parquet"
            )
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert account.spent().epsilon == 0
