"""A member's sums on a Dask cluster: the same whole numbers, so the same model bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.frames.fixed_order_summation import BLOCK_ROWS
from sudare.joint import (
    LearningTerms,
    MemberTable,
    ModelReading,
    ScalerTerms,
    consortium_model,
    learned_together,
    scaler_of,
)
from sudare.joint.sum_requests import GradientSum, exact_answer
from tests.joint.kit import SCHEMA, tables

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, protocol="inproc://"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def test_two_workers_give_the_same_sums_as_one_process(client):
    table = tables(members=1, rows=2 * BLOCK_ROWS + 1000, seed=2)[0]
    reading = ModelReading.of_schema(SCHEMA, fit_intercept=True)
    plan = LearningTerms("descent", reading, 1.0, 1e-6, 3).plan(len(table))
    request = GradientSum(3, 1e17, reading, plan.sums[0], np.array([0.1, -0.3, 0.2]), plan.recipe.clip, plan.grid)
    here, there = (exact_answer(MemberTable(table, cluster=cluster), request) for cluster in (None, client))
    np.testing.assert_array_equal(here, there)
    assert np.abs(here).max() > 2**30


def test_a_whole_training_on_workers_is_the_same_training(client):
    settings = {"schema": SCHEMA, "epsilon": 2.0, "scaler_share": 0.2, "random_state": 1, "hide": "nothing"}
    members = tables(members=3, rows=50)
    here, there = (consortium_model(members, cluster=cluster, **settings) for cluster in (None, client))
    np.testing.assert_array_equal(here.learned.parameters, there.learned.parameters)


@pytest.mark.parametrize(
    "asked_for",
    [
        {"method": "one-sum"},
        {"method": "descent", "delta": 1e-6},
        {"method": "boosting", "delta": 1e-6},
        {"method": "network", "delta": 1e-6, "hidden_layer_sizes": (3,)},
    ],
    ids=lambda given: given["method"],
)
def test_every_way_of_learning_together_is_the_same_on_workers_that_read_files(asked_for, client, tmp_path):
    paths = [tmp_path / f"{place}.parquet" for place in range(3)]
    for path, table in zip(paths, tables(members=3, rows=50), strict=True):
        table.to_parquet(path, row_group_size=20)
    settings = {"schema": SCHEMA, "epsilon": 2.0, "random_state": 1, "hide": "nothing", **asked_for}
    here, there = (consortium_model(paths, cluster=cluster, **settings).model() for cluster in (None, client))
    np.testing.assert_equal(here.parameters_, there.parameters_)


def test_common_scales_are_the_same_on_workers(client):
    terms, members = ScalerTerms(SCHEMA, 3.0, 0.0, 3), tables(members=3, rows=50)
    found = [
        learned_together(
            terms, [MemberTable(each, cluster=cluster) for each in members], random_state=0, hide="nothing"
        )
        for cluster in (None, client)
    ]
    here, there = (scaler_of(each.found[0]) for each in found)
    np.testing.assert_array_equal(here.scale_, there.scale_)
    np.testing.assert_array_equal(here.mean_, there.mean_)
