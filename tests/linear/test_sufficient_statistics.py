"""Ridge regression from sufficient statistics: how good it is, that storage makes no difference, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sudare.errors import InvalidParameter
from sudare.frames.rows import Rows
from sudare.linear import PrivateLinearSVC, PrivateRidge
from sudare.linear.losses import CappedSquares
from sudare.linear.mechanism import Facts
from sudare.linear.rows import table_layout
from sudare.linear.sufficient_statistics import MOST_COLUMNS, SufficientStatistics
from sudare.schema import Category, Number, Schema, encode
from sudare.schema.encoder import one_positions

SCHEMA = Schema(
    {"age": Number(0, 100, bins=(25, 50, 75)), "dose": Number(0, 10), "kind": Category(("a", "b", "c")), "y": Number(0, 200)},
    target="y",
)  # fmt: skip


def table(rows=3000) -> pd.DataFrame:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"age": random.uniform(0, 100, rows), "dose": random.uniform(0, 10, rows)})
    frame["kind"] = random.choice(["a", "b", "c"], rows)
    frame["y"] = 50 + 0.5 * frame["age"] + 2 * frame["dose"] + 10 * (frame["kind"] == "c") + random.normal(0, 3, rows)
    return frame


@pytest.mark.parametrize(("delta", "encoding", "least"), [
    (0.0, "centred", 0.9), (1e-6, "centred", 0.9), (0.0, "binned", 0.6), (1e-6, "binned", 0.6), (1e-6, "scaled", 0.8),
])  # fmt: skip
def test_auto_takes_it_and_it_is_good(delta, encoding, least):
    model = PrivateRidge(2.0, delta, schema=SCHEMA, encoding=encoding, random_state=0).fit(table())
    assert model.method_ == "statistics"
    assert model.score(table()) > least


@pytest.mark.parametrize(("delta", "encoding"), [(0.0, "centred"), (1e-6, "binned")])
def test_files_and_batches_give_the_same_model_as_memory(tmp_path, delta, encoding):
    frame, path = table(2500), tmp_path / "rows.parquet"
    frame.to_parquet(path, row_group_size=700)
    lean = PrivateRidge(8.0, delta, schema=SCHEMA, encoding=encoding, random_state=3)
    from_memory = clone(lean).fit(frame)
    for source in (path, (frame.iloc[start : start + 333] for start in range(0, 2500, 333))):
        np.testing.assert_array_equal(from_memory.parameters_, clone(lean).fit(source).parameters_)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_positions_of_ones_give_the_same_sums_as_rows(delta):
    declared = Schema(dict(SCHEMA.features))
    frame, layout = table(50), table_layout(declared, "binned", True)
    facts = Facts(50, layout.width, layout.joint_norm, CappedSquares(), 0.0, entry_bounds=layout.entry_bounds)
    mechanism = SufficientStatistics(facts, layout, 30.0, delta)
    targets = (frame[["y"]].to_numpy() - 100) / 100
    held = [one_positions(declared, frame), encode(declared, frame, "binned").matrix]
    positions, dense = (np.concatenate(mechanism.sums(Rows.held(rows, targets), -0.2, 0.3)) for rows in held)
    np.testing.assert_array_equal(positions, dense)
    assert dense[: layout.width].sum() > 0


def test_where_noise_hides_everything_it_is_the_private_mean():
    answers = PrivateRidge(0.05, 1e-6, schema=SCHEMA, random_state=0).fit(table(400)).predict(table(400))
    assert np.ptp(answers) == 0


def test_one_row_is_enough_to_fit():
    for delta in (0.0, 1e-6):
        model = PrivateRidge(1.0, delta, schema=SCHEMA, random_state=0).fit(table(1))
        assert np.isfinite(model.predict(table(5))).all()


def test_correlated_columns_are_told_apart():
    random = np.random.default_rng(0)
    X = random.uniform(-0.4, 0.4, (20_000, 2))
    X[:, 1] = 0.9 * X[:, 0] + 0.1 * X[:, 1]
    for delta in (0.0, 1e-6):
        options = {"norm_bound": 0.6, "target_bounds": (-1, 1), "method": "statistics", "random_state": 0}
        model = PrivateRidge(20.0, delta, **options)
        model.fit(X, 2 * X[:, 0] - 1.5 * X[:, 1])
        np.testing.assert_allclose(model.coef_, [2.0, -1.5], atol=0.4)


def test_without_an_intercept_the_line_goes_through_the_middle_of_the_bounds():
    X = np.random.default_rng(0).uniform(0, 0.7, (5000, 2))
    model = PrivateRidge(20.0, norm_bound=1.0, target_bounds=(-1, 1), fit_intercept=False, random_state=0)
    model.fit(X, X[:, 0] * 0.5 + 0.2 * X[:, 1])
    assert model.intercept_ == 0
    np.testing.assert_allclose(model.coef_, [0.5, 0.2], atol=0.05)


def test_a_regularization_that_is_asked_for_shrinks():
    weak, strong = (
        PrivateRidge(20.0, schema=SCHEMA, regularization=size, random_state=0).fit(table()) for size in (1e-4, 10.0)
    )
    assert np.linalg.norm(strong.coef_[:2]) < 0.1 * np.linalg.norm(weak.coef_[:2])
    assert strong.penalty_ == 10.0 * 3000


def test_what_is_refused():
    X, y = np.zeros((3, 2)), [0.0, 1.0, 0.5]
    with pytest.raises(InvalidParameter, match="method must be auto or one of"):
        PrivateLinearSVC(1.0, method="statistics", classes=[0, 1]).fit(X, [0, 1, 1])
    wide = np.zeros((3, MOST_COLUMNS + 1))
    with pytest.raises(InvalidParameter, match="1024 encoded columns at most"):
        PrivateRidge(1.0, method="statistics", target_bounds=(0, 1)).fit(wide, y)
    assert PrivateRidge(1.0, target_bounds=(0, 1), random_state=0).fit(wide, y).method_ != "statistics"
