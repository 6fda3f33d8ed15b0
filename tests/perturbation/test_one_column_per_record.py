"""Tables whose records answer one column each: charged, released, read and reconstructed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sudare.errors import InvalidParameter, ReleaseMalformed
from sudare.perturbation import RecordPerturbation
from sudare.perturbation.one_column_per_record import ANSWERED, AnsweredColumn, is_sampled, row_cost
from sudare.privacy import Ledger, Release
from sudare.reconstruction import CategoricalReconstruction
from sudare.schema import Category, Number, Schema
from tests.release_kit import KEY, manifest_of, with_manifest

ROWS = 3_000
SCHEMA = Schema({"age": Number(0, 100), "heating": Category(("gas", "oil", "other")), "owner": Category((False, True))})


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.normal(45, 15, ROWS),
            "heating": rng.choice(["gas", "oil", "other"], ROWS, p=[0.6, 0.3, 0.1]),
            "owner": rng.random(ROWS) < 0.4,
        }
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    account = Ledger(tmp_path_factory.mktemp("ledger") / "ledger.db").account("households", epsilon=10.0)
    return RecordPerturbation(SCHEMA, epsilon=2.0, one_column=True, account=account).fit(frame())


def test_every_column_has_the_whole_epsilon_and_a_part_of_the_rows(model):
    assert model.split_ == dict.fromkeys(SCHEMA.columns, 2.0)
    assert model.guarantee_.epsilon == 2.0
    assert model.account.spent().epsilon == pytest.approx(2.0)
    table = model.table_
    assert table.is_sampled
    lengths = [len(table.column(name)) for name in SCHEMA.columns]
    assert sum(lengths) == ROWS
    assert min(lengths) > 0.8 * ROWS / 3
    assert len(table.column(ANSWERED)) == ROWS
    assert table.arrow().num_rows == ROWS
    assert "one of 3 columns" in str(model.statement())
    found = CategoricalReconstruction(table.perturbation("heating")).fit(table.column("heating"))
    np.testing.assert_allclose(found.probabilities_, [0.6, 0.3, 0.1], atol=0.1)


def test_a_release_says_which_column_each_row_answers(model, tmp_path):
    Release.of(model).save(tmp_path / "rows.sudare", key=KEY)
    received = Release.load(tmp_path / "rows.sudare", trusted=[KEY.public_key()]).model()
    assert received.one_column
    np.testing.assert_array_equal(received.table_.column("age"), model.table_.column("age"))
    received.table_.to_parquet(tmp_path / "rows.parquet")
    read = pd.read_parquet(tmp_path / "rows.parquet")
    assert list(read) == [*SCHEMA.columns, ANSWERED]
    assert set(read[ANSWERED]) == set(SCHEMA.columns)
    assert str(received.statement()) == str(model.statement())


def test_sampling_is_far_more_exact_for_many_columns():
    """Variance of a share with ten columns and ε = 2: with a tenth of ε each, or a tenth of the records with all of it."""
    columns = Schema({f"c{number}": Category((0, 1)) for number in range(10)})
    variances = {}
    for one_column in (True, False):
        plan = RecordPerturbation(columns, epsilon=2.0, one_column=one_column).plan(10_000, columns)
        own, other = plan.perturbations["c0"].tick_probabilities
        records = 1_000 if one_column else 10_000
        variances[one_column] = other * (1 - other) / (own - other) ** 2 / records
    assert 13.7 < variances[False] / variances[True] < 13.8


def test_what_cannot_be_sampled_is_refused_before_a_charge():
    for schema, parameters, message in (
        (SCHEMA, {"split": {"age": 1, "heating": 1, "owner": 1}}, "not split"),
        (Schema({"age": Number(0, 100)}), {}, "only one column"),
        (Schema({"answered": Category((0, 1)), "b": Category((0, 1))}), {}, "called 'answered'"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            RecordPerturbation(schema, epsilon=1.0, one_column=True, **parameters).plan(100, schema)
    with pytest.raises(InvalidParameter, match="True or False"):
        RecordPerturbation(SCHEMA, epsilon=1.0, one_column=1).fit(frame())


def test_a_row_costs_its_one_answer():
    sampled = RecordPerturbation(SCHEMA, epsilon=3.0, one_column=True).plan(100, SCHEMA).perturbations
    assert is_sampled(sampled)
    assert row_cost(sampled) == [3.0]
    whole = {name: one for name, one in sampled.items() if not isinstance(one, AnsweredColumn)}
    assert not is_sampled(whole)
    assert sum(row_cost(whole)) == 9.0


def test_a_release_that_drops_the_sampling_is_refused(model, tmp_path):
    """Columns of the whole ε each would cost three times what is promised."""
    Release.of(model).save(tmp_path / "rows.sudare", key=KEY)
    file = (tmp_path / "rows.sudare").read_bytes()
    manifest = manifest_of(file)
    manifest["parameters"]["perturbations"].pop()
    (tmp_path / "rows.sudare").write_bytes(with_manifest(file, manifest))
    with pytest.raises(ReleaseMalformed):
        Release.load(tmp_path / "rows.sudare", trusted=[KEY.public_key()]).model()
