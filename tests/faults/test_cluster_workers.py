"""Workers that die in the middle of a training: another one reads their rows again, and the model is the same."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sudare.linear import PrivateLogisticRegression
from sudare.schema import Label, Number, Schema

distributed = pytest.importorskip("distributed")

ROWS = 400_000
SCHEMA = Schema({"a": Number(-3, 3), "b": Number(0, 1), "y": Label(("no", "yes"))})
MODEL = PrivateLogisticRegression(1.0, 1e-6, schema=SCHEMA, method="descent", random_state=0)


@pytest.fixture(scope="module")
def frame():
    generator = np.random.default_rng(5)
    frame = pd.DataFrame({"a": generator.normal(size=ROWS), "b": generator.uniform(size=ROWS)})
    frame["y"] = np.where(frame["a"] + generator.normal(size=ROWS) > 0, "yes", "no")
    return frame


@pytest.fixture(scope="module")
def expected(frame):
    return clone(MODEL).fit(frame).parameters_


def kill_a_worker_after(client, seconds):
    """End a worker's process once, without a word to anybody."""

    def kill():
        time.sleep(seconds)
        worker = next(iter(client.scheduler_info()["workers"].values()))
        os.kill(worker_pid(client, worker["nanny"]), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def worker_pid(client, nanny):
    pids = client.run(os.getpid)
    return next(iter(pids.values()))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["file", "table"])
@pytest.mark.parametrize("workers", [2, 4])
def test_a_training_survives_a_killed_worker(workers, kind, frame, expected, tmp_path):
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path, row_group_size=70_000)
    options = {"n_workers": workers, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        before = set(client.run(os.getpid).values())
        killing = kill_a_worker_after(client, 1.0)
        model = clone(MODEL).set_params(cluster=client).fit(path if kind == "file" else frame)
        killing.join()
        assert set(client.run(os.getpid).values()) != before, "no worker was killed"
    np.testing.assert_array_equal(model.parameters_, expected)
