"""Tables become matrices by the schema alone: within its bounds and norm, whatever frame they come in, telling no value."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

from sudare.errors import (
    ColumnMissing,
    DataError,
    InvalidParameter,
    SchemaError,
)
from sudare.schema import Category, Label, Number, Schema, SchemaEncoder, counted, encode
from sudare.schema.encoder import bin_positions, one_positions
from tests.schema_strategies import SCHEMAS_WITH_TABLES


@given(SCHEMAS_WITH_TABLES)
def test_counts_are_the_sums_of_the_binned_columns(drawn: tuple[Schema, dict[str, list[Any]]]) -> None:
    schema, table = drawn
    encoded, found = encode(schema, table, "binned"), counted(schema, table)
    assert found.cells.tolist() == encoded.matrix.sum(axis=0).tolist()
    assert (found.rows, found.clipped) == (len(encoded.matrix), encoded.clipped)
    ones = np.argwhere(encoded.matrix)[:, 1].reshape(len(encoded.matrix), len(schema.features))
    np.testing.assert_array_equal(one_positions(schema, table), ones)


@pytest.mark.parametrize("edges", [1, 2, 64, 65, 300])
def test_bins_are_found_by_comparing_or_by_searching(edges: int) -> None:
    number = Number(0, 1, bins=tuple(np.linspace(0, 1, edges + 2)[1:-1].tolist()), missing="indicator")
    values = np.concatenate([np.random.default_rng(0).random(500), number.edges, [0.0, 1.0]])
    gaps = np.arange(len(values)) % 7 == 0
    expected = np.where(gaps, edges + 1, np.searchsorted(number.edges, values, side="right"))
    np.testing.assert_array_equal(bin_positions(values, gaps, number), expected)


def test_how_much_was_clipped_is_told_to_the_owner_only() -> None:
    schema = Schema({"x": Number(0, 1), "y": Number(0, 1, missing="centre"), "c": Category(("a", "b"))})
    encoder = SchemaEncoder(schema)
    assert encoder.clipped_ == {}
    encoder.fit_transform({"x": [-1, 2, 0.5, math.inf], "y": [None, None, 0, 1], "c": ["a"] * 4})
    assert encoder.clipped_ == {"x": 3, "y": 0}
    encoder.clipped_["x"] = 0
    assert encoder.clipped_ == {"x": 3, "y": 0}
    assert "clipped" not in repr(encoder)
    assert list(encoder.get_params()) == ["encoding", "schema"]
    for traveller in (clone(encoder), pickle.loads(pickle.dumps(encoder)), copy.deepcopy(encoder)):
        assert traveller.clipped_ == {}
        assert traveller.schema == schema
    assert b"clipped" not in pickle.dumps(encoder)


def test_fit_reads_names_and_nothing_else() -> None:
    schema = Schema({"x": Number(0, 1), "c": Category(("a", "b"))})
    unfit = {"x": ["text"], "c": [3.5], "other": [1]}
    encoder = SchemaEncoder(schema, "centred").fit(unfit)
    assert encoder.n_features_in_ == 2
    assert encoder.feature_names_in_.tolist() == ["x", "c"]
    assert encoder.norm_bound_ == schema.norm_bound("centred")
    fitted_elsewhere = SchemaEncoder(schema, "centred").fit(pd.DataFrame({"x": [1e9], "c": ["b"]}))
    table = {"x": [0.25], "c": ["a"]}
    assert encoder.transform(table).tolist() == fitted_elsewhere.transform(table).tolist()
    assert SchemaEncoder(schema, "centred").transform(table).tolist() == encoder.transform(table).tolist()
    with pytest.raises(ColumnMissing, match="lacks 'x', 'c'"):
        encoder.fit({"y": [1]})
    with pytest.raises(ColumnMissing, match="lacks 'c'"):
        encoder.transform(pd.DataFrame({"x": [1]}))
    with pytest.raises(DataError, match="0 sample"):
        encoder.transform(pd.DataFrame({"x": [], "c": []}))


def test_wrong_parameters_are_refused_in_fit() -> None:
    schema = Schema({"x": Number(0, 1)})
    with pytest.raises(InvalidParameter, match="'scaled', 'centred', 'binned'"):
        SchemaEncoder(schema, "onehot").fit({"x": [1]})  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="not a Schema"):
        SchemaEncoder("patients.toml").fit({"x": [1]})  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="no features"):
        SchemaEncoder(Schema({"y": Label((0, 1))})).fit({"y": [1]})
    with pytest.raises(InvalidParameter, match="input_features"):
        SchemaEncoder(schema).get_feature_names_out(["z"])
    assert SchemaEncoder(schema).get_feature_names_out(["x"]).tolist() == ["x"]


def test_frames_come_out_with_names_and_index() -> None:
    schema = Schema({"x": Number(0, 1), "c": Category(("a", "b"))})
    table = pd.DataFrame({"c": ["a", "b"], "x": [0.5, 1]}, index=[7, 9])
    out = SchemaEncoder(schema).set_output(transform="pandas").fit_transform(table)
    assert list(out.columns) == ["x", "c=a", "c=b"]
    assert out.index.tolist() == [7, 9]
    polars = SchemaEncoder(schema).set_output(transform="polars").fit_transform(table)
    assert polars.columns == ["x", "c=a", "c=b"]


def test_the_encoder_works_in_a_pipeline() -> None:
    schema = Schema({"x": Number(0, 10), "c": Category(("a", "b")), "y": Label(("no", "yes"))})
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 200)
    table = pd.DataFrame({"x": x, "c": rng.choice(["a", "b"], 200), "y": np.where(x > 5, "yes", "no")})
    pipeline = make_pipeline(SchemaEncoder(schema), LogisticRegression())
    codes = schema.encode_target(table)
    assert cross_val_score(pipeline, table, codes, cv=3).min() > 0.9
    assert pipeline.fit(table, codes)[:-1].get_feature_names_out().tolist() == ["x", "c=a", "c=b"]


# The number of columns of the data that a scikit-learn check makes; those not named take any number.
WIDTHS = {
    "check_fit2d_1feature": 1,
    **dict.fromkeys(
        [
            "check_estimators_overwrite_params",
            "check_estimators_fit_returns_self",
            "check_readonly_memmap_input",
            "check_fit_idempotent",
            "check_fit_check_is_fitted",
            "check_n_features_in",
        ],
        2,
    ),
    "check_n_features_in_after_fitting": 4,
    "check_positive_only_tag_during_fit": 4,
    "check_estimators_dtypes": 5,
    "check_transformers_unfitted_stateless": 5,
    "check_dtype_object": 10,
    "check_fit2d_1sample": 10,
}


# It skips itself unless scipy was started in a special mode.
NOT_RUN = {"check_array_api_input"}


def encoder_of_width(width: int) -> SchemaEncoder:
    return SchemaEncoder(Schema({f"x{index}": Number(-100, 100, missing="centre") for index in range(width)}))


CHECKS = sorted({check.func.__name__ for _, check in estimator_checks_generator(encoder_of_width(3))} - NOT_RUN)


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_accepts_the_encoder(name: str) -> None:
    encoder = encoder_of_width(WIDTHS.get(name, 3))
    found = [check for _, check in estimator_checks_generator(encoder) if check.func.__name__ == name]
    assert found
    for check in found:
        check(encoder)


def test_the_list_of_scikit_learn_checks_is_not_empty() -> None:
    assert len(CHECKS) > 30
    assert set(WIDTHS) <= set(CHECKS)
