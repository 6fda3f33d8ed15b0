"""Statistics on a cluster: the bits of one process, from files that the workers read themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sudare.errors import UnknownCategory, WrongType
from sudare.privacy import Ledger
from sudare.schema import Category, Number, Person, Schema
from sudare.statistics import GroupedTable, PrivateHistogram, PrivateMean, PrivateQuantiles, PrivateStandardScaler

distributed = pytest.importorskip("distributed")

ROWS = 5000
SCHEMA = Schema({"age": Number(0, 110, bins=(18, 65)), "days": Number(0, 60, bins=(7,)), "sex": Category(("f", "m"))})
NUMBERS = Schema({"age": Number(0, 110), "days": Number(0, 60)})


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, set_as_default=False) as made:
        yield made


@pytest.fixture(scope="module")
def frame():
    generator = np.random.default_rng(1)
    columns = {"age": generator.uniform(-5, 120, ROWS), "days": generator.gamma(2.0, 3.0, ROWS)}
    return pd.DataFrame({**columns, "sex": generator.choice(["f", "m"], ROWS)})


@pytest.fixture(scope="module")
def path(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("statistics") / "rows.parquet"
    frame.to_parquet(path, row_group_size=700)
    return path


LEARNERS = [
    PrivateStandardScaler(1.0, schema=SCHEMA, random_state=0),
    PrivateMean(1.0, schema=SCHEMA, random_state=0),
    PrivateHistogram(1.0, 1e-6, schema=SCHEMA, random_state=0),
    GroupedTable(
        1.0,
        schema=SCHEMA,
        by=["sex", "age"],
        mean_of=["days"],
        variance_of=["days"],
        quantile_of=["days"],
        random_state=0,
    ),
    PrivateQuantiles(1.0, schema=NUMBERS, random_state=0),
    GroupedTable(1.0, 1e-6, schema=NUMBERS, by=[], keys=["sex"], mean_of=["age", "days"], random_state=0),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_a_cluster_gives_the_numbers_of_one_process(learner, frame, path, client):
    here = clone(learner).fit(frame)
    on_cluster = clone(learner).set_params(cluster=client)
    for source in (path, frame):
        there = clone(on_cluster).fit(source)
        assert there.release_content() == here.release_content()
        assert there.clipped_ == here.clipped_
    assert clone(learner).fit(path).release_content() == here.release_content()


@pytest.mark.parametrize("person", [Person("who", 2), Person("who", 100), Person("who", "auto", largest=20)], ids=str)
def test_persons_are_counted_here_and_cut_before_a_cluster_adds_up(person, frame, client, tmp_path):
    """Two rows of each are kept, nobody has so many that rows are cut, or the number is chosen."""
    frame = frame.assign(who=np.random.default_rng(2).integers(0, 900, ROWS))
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    schema = Schema(SCHEMA.columns, person)
    model = GroupedTable(1.0, schema=schema, by=["sex"], mean_of=["days"], random_state=0)
    here = clone(model).fit(frame)
    there = clone(model).set_params(cluster=client).fit(tmp_path / "rows.parquet")
    assert there.release_content() == here.release_content()
    assert there.cut_rows_ == here.cut_rows_
    assert (here.cut_rows_ > 0) == (person.most_rows != 100)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_bad_rows_are_refused_before_the_charge_in_the_same_words(learner, frame, client, tmp_path):
    path = tmp_path / "bad.parquet"
    frame.astype({"age": "string"}).to_parquet(path)
    account = Ledger(tmp_path / "ledger.sqlite").account("bad", 5.0)
    said = []
    for cluster in (None, client):
        with pytest.raises((UnknownCategory, WrongType)) as caught:
            clone(learner).set_params(cluster=cluster, account=account, random_state=None).fit(path)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert account.spent().epsilon == 0
