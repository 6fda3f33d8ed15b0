"""Every learner that takes a schema takes dates, parts of dates and whole numbers, and gives them back as such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sudare.errors import DataError, WrongType
from sudare.linear import PrivateLogisticRegression, PrivateRidge
from sudare.perturbation import RecordPerturbation
from sudare.privacy import Ledger, Release
from sudare.reconstruction import Reconstruction
from sudare.schema import Date, DatePart, Label, Number, Schema, encode
from sudare.statistics import GroupedTable, PrivateHistogram, PrivateMean, PrivateStandardScaler
from sudare.synthesis import PrivateSynthesizer
from tests.release_kit import KEY, TRUSTED

ROWS = 400
COLUMNS = {
    "admitted": Date(first="2020-01-01", last="2020-12-31"),
    "arrived": Date(first="2020-01-01", last="2020-12-31", unit="hour", missing="indicator"),
    "weekday": DatePart(part="weekday"),
    "visits": Number(0, 20, whole=True),
    "stay": Number(0, 3, whole=True, bins=(2,)),
}
LABELLED = Schema({**COLUMNS, "outcome": Label((0, 1))}, drop=["id"])
UNLABELLED = Schema(COLUMNS, drop=["id"])


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    generator = np.random.default_rng(5)
    moments = pd.Series(
        np.datetime64("2020-01-01T00:00") + generator.integers(0, 366 * 1440, ROWS).astype("timedelta64[m]")
    )
    visits = generator.integers(0, 21, ROWS)
    return pd.DataFrame(
        {
            "id": np.arange(ROWS),
            "admitted": moments.dt.date,
            "arrived": moments.where(generator.random(ROWS) < 0.9),
            "weekday": moments,
            "visits": visits,
            "stay": generator.integers(0, 4, ROWS),
            "outcome": (visits > 10).astype(int),
        }
    )


LEARNERS: list[Any] = [
    PrivateMean(1.0, schema=UNLABELLED, random_state=0),
    PrivateStandardScaler(1.0, schema=UNLABELLED, random_state=0),
    PrivateHistogram(1.0, schema=UNLABELLED, random_state=0),
    GroupedTable(1.0, schema=UNLABELLED, by=["weekday", "stay"], mean_of=["visits", "admitted"], random_state=0),
    PrivateLogisticRegression(epsilon=1.0, schema=LABELLED, random_state=0),
    PrivateRidge(epsilon=1.0, schema=Schema(COLUMNS, target="admitted"), random_state=0),
    RecordPerturbation(UNLABELLED, epsilon=5.0, random_state=0),
    PrivateSynthesizer(UNLABELLED, epsilon=1.0, random_state=0),
    PrivateSynthesizer(LABELLED, epsilon=1.0, engine="microaggregation", random_state=0),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_every_learner_takes_them_from_frames_and_files(learner: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    own = table if "outcome" in learner.schema.columns else table.drop(columns="outcome")
    y = own["outcome"] if isinstance(learner, PrivateLogisticRegression) else None
    learner.fit(own, y)
    fractions = own.assign(visits=0.5)
    with pytest.raises(WrongType, match="not whole"):
        learner.fit(fractions, y)


@pytest.mark.parametrize("engine", ["marginals", "microaggregation"])
def test_synthetic_rows_are_dates_and_whole_numbers_again(engine: Any, table: pd.DataFrame) -> None:
    drawn = (
        PrivateSynthesizer(UNLABELLED, epsilon=1.0, engine=engine, random_state=0)
        .fit(table)
        .sample(300, random_state=1)
    )
    assert drawn["visits"].dtype == np.int64
    assert drawn["visits"].between(0, 20).all()
    assert drawn["stay"].isin(range(4)).all()
    assert drawn["admitted"].between("2020-01-01", "2020-12-31").all()
    assert (drawn["admitted"].dt.hour == 0).all()
    assert drawn["arrived"].dropna().between("2020-01-01", "2020-12-31T23:00").all()
    # They can be used with the schema they were drawn for, and nothing of them is clipped.
    assert not any(encode(UNLABELLED, drawn).clipped.values())


def test_perturbed_whole_numbers_are_whole_and_can_be_reconstructed() -> None:
    generator = np.random.default_rng(0)
    values = generator.binomial(20, 0.3, 5000)
    schema = Schema({"visits": Number(0, 20, whole=True), "amount": Number(0, 10**6 + 1, whole=True)})
    for method in ("square-wave", "laplace"):
        methods = dict.fromkeys(schema.columns, method)
        data = {"visits": values, "amount": 50_000 * values}
        perturbed = RecordPerturbation(schema, epsilon=6.0, methods=methods, random_state=0).perturb(data)
        for name in schema.columns:
            assert np.all(np.rint(perturbed.column(name)) == perturbed.column(name))
        found = Reconstruction(perturbed.perturbation("visits")).fit(perturbed.column("visits")).distribution_
        assert abs(found.mean() - values.mean()) < 0.3


def test_dropped_columns_are_not_perturbed_and_do_not_leave(table: pd.DataFrame, tmp_path: Path) -> None:
    own = table.drop(columns="outcome")
    with pytest.raises(DataError, match="1 columns that the schema does not declare"):
        RecordPerturbation(Schema(COLUMNS), epsilon=1.0, random_state=0).fit(own)
    account = Ledger(tmp_path / "ledger.db").account("visits", 10.0)
    model = RecordPerturbation(UNLABELLED, epsilon=1.0, account=account).fit(own)
    assert model.table_.names == tuple(COLUMNS)
    Release.of(model).save(tmp_path / "visits.sudare", key=KEY)
    assert Release.load(tmp_path / "visits.sudare", trusted=TRUSTED).model().table_.names == tuple(COLUMNS)


def test_released_histograms_name_dates_and_whole_numbers(table: pd.DataFrame, tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger.db").account("visits", 10.0)
    Release.of(PrivateHistogram(1.0, schema=UNLABELLED, account=account).fit(table)).save(
        tmp_path / "h.sudare", key=KEY
    )
    shown = pd.DataFrame(Release.load(tmp_path / "h.sudare", trusted=TRUSTED).model().table())
    assert shown[shown["column"] == "stay"]["value"].tolist() == ["0 to 1", "2 to 3"]
    assert shown[shown["column"] == "admitted"]["value"].tolist()[0] == "2020-01-01 to 2020-02-06"
