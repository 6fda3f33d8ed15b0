"""Pairs chosen one after another: what they find, what they tell of their errors, and which releases they take."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sudare.errors import InvalidParameter
from sudare.privacy.noise import SeededNoise
from sudare.schema import Category, Label, Number, Schema
from sudare.synthesis import PrivateSynthesizer, adaptive_marginals
from sudare.synthesis.adaptive_marginals import UNITS, AdaptiveEngine, most_stages, released_rounds
from sudare.synthesis.staged_budget import StagedNoise
from sudare.synthesis.table_cells import CodedRows, Layout

SCHEMA = Schema(
    {"a": Category(tuple(range(5))), "b": Category(tuple(range(5))), "c": Category((0, 1)), "x": Number(0, 10)}
)


def rows(count: int, seed: int = 0) -> pd.DataFrame:
    """b is a, c is whether x is large, and both halves have nothing to do with each other."""
    random = np.random.default_rng(seed)
    a, x = random.integers(0, 5, count), random.uniform(0, 10, count)
    return pd.DataFrame({"a": a, "b": a, "c": (x > 5).astype(int), "x": x})


def fitted(count: int = 3000, seed: int = 0, **parameters: Any) -> PrivateSynthesizer:
    return PrivateSynthesizer(
        SCHEMA, engine="adaptive", random_state=seed, **{"epsilon": 1.0, "delta": 1e-6, **parameters}
    ).fit(rows(count))


def test_what_is_wrong_most_is_counted_first():
    for parameters in ({}, {"delta": 0.0, "epsilon": 3.0}):
        model = fitted(**parameters)
        assert {frozenset(pair) for pair in model.pairs_[:2]} == {frozenset("ab"), frozenset("cx")}
        sample = model.sample(3000, 0)
        assert (sample["a"] == sample["b"]).mean() > 0.9
        assert ((sample["x"] > 5) == (sample["c"] == 1)).mean() > 0.9


def test_every_column_is_counted_with_the_label():
    """Also where pairs are declared, and none of them has the label: models learn from it."""
    labelled = Schema({**SCHEMA.columns, "c": Label((0, 1))})
    model = PrivateSynthesizer(
        labelled, engine="adaptive", tree=[("a", "b")], epsilon=3.0, delta=1e-6, random_state=0
    ).fit(rows(3000))
    assert model.pairs_ == [("a", "b")]
    assert len(model.released_["counts"]) == 2 * (5 + 5 + 10) + 25
    sample = model.sample(3000, 0)
    assert ((sample["x"] > 5) == (sample["c"] == 1)).mean() > 0.95


def test_bounds_hold_for_all_pairs_together(monkeypatch):
    """Forty fits at confidence .9: fewer than 28 that hold would have a chance below 1e-4 if each held with .9."""
    monkeypatch.setattr(adaptive_marginals, "_SWEEPS_AT_THE_END", 1)
    layout, exact = Layout.of(SCHEMA, None), rows(400)
    codes = {name: exact[name].to_numpy().astype(np.uint8) for name in "abc"}
    table = CodedRows({**codes, "x": np.minimum(exact["x"] // 1, 9).astype(np.uint8)}, {}, 400, {})
    counter = adaptive_marginals._ExactCounts([table.codes[name].astype(np.intp) for name in "abcx"], layout.sizes)
    for delta in (0.0, 1e-6):
        noise = StagedNoise(2.0, delta, "replace-one", 1, most_stages(4, "laplace" if delta == 0 else "gaussian"))
        engine, held, tight = AdaptiveEngine(layout, noise, ((0, 1),)), 0, 0
        for seed in range(40):
            tensors = engine.measured(table, SeededNoise(seed))
            model = engine.model(tensors)
            shares = dict(model.distribution.pair_shares())
            true = [
                np.abs(counter.of(pair) - model.total * shares[pair].ravel()).sum() / (2 * model.total)
                for pair in engine.pairs
            ]
            distances, bounds = engine.error_bounds(tensors, model.total, 0.9)
            held += bool(np.all(true <= bounds))
            tight += bool(np.all(true <= bounds - 0.5 * (bounds - distances)))
        assert held >= 28
        # Bounds that always held with room to spare would say nothing.
        assert tight < 40


def test_given_values_are_drawn():
    model = fitted(epsilon=5.0)
    sample = model.sample(400, 0, given={"a": 3, "x": 7})
    assert {*sample["a"]} == {3}
    assert {*sample["x"]} == {7.0}
    assert (sample["b"] == 3).mean() > 0.9
    assert (sample["c"] == 1).mean() > 0.9
    for wrong in ({}, {"nothing": 1}, {"a": 9}, {"a": True}, {"x": 11}, {"x": "7"}, 3):
        with pytest.raises(InvalidParameter):
            model.sample(5, given=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="adaptive"):
        PrivateSynthesizer(SCHEMA, random_state=0).fit(rows(50)).sample(5, given={"a": 3})


def test_errors_are_told_worst_first_and_by_this_engine_only():
    table = fitted().pair_errors()
    assert list(table) == ["first", "second", "counted", "distance", "bound"]
    assert len(table) == 6
    assert (table["bound"] >= table["distance"]).all()
    assert table["distance"].is_monotonic_decreasing
    with pytest.raises(InvalidParameter, match="adaptive"):
        PrivateSynthesizer(SCHEMA, random_state=0).fit(rows(50)).pair_errors()
    with pytest.raises(InvalidParameter):
        fitted(50).pair_errors(confidence=1.0)
    alone = PrivateSynthesizer(Schema({"a": SCHEMA.columns["a"]}), engine="adaptive", random_state=0).fit(rows(50))
    assert len(alone.pair_errors()) == 0


def test_the_budget_is_spent_and_no_more():
    for delta, law in ((0.0, "laplace"), (1e-6, "gaussian")):
        model = fitted(delta=delta)
        engine = model._engine()
        rounds = released_rounds(model.released_)
        of_pairs = sum(units for _, units in rounds)
        assert len(rounds) + 2 <= most_stages(4, law)
        assert engine._pair_units * 0.89 <= of_pairs <= engine._pair_units * 0.91
        assert engine._column_units + engine._pair_units + engine._error_units == UNITS


def test_other_tensors_are_refused():
    model = fitted()
    engine, tensors = model._engine(), dict(model.released_)
    assert engine.fits(tensors)
    changed = {
        "counts": [tensors["counts"][:-1], tensors["counts"].astype(float), tensors["counts"] + 2**50],
        "errors": [tensors["errors"][1:], tensors["errors"] - 2**50],
        "rounds": [
            tensors["rounds"][:-1],
            np.where(np.arange(len(tensors["rounds"])) == 2, UNITS, tensors["rounds"]),
            np.where(np.arange(len(tensors["rounds"])) == 0, 3, tensors["rounds"]),
            np.where(np.arange(len(tensors["rounds"])) == 2, 0, tensors["rounds"]),
        ],
    }
    for name, versions in changed.items():
        for version in versions:
            assert not engine.fits({**tensors, name: version})
    assert not engine.fits({"counts": tensors["counts"]})


def test_what_cannot_be_held_is_refused_before_a_charge():
    wide = Schema({name: Category(tuple(range(40))) for name in "abcde"})
    ring = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("a", "c"), ("a", "d"), ("b", "d")]
    with pytest.raises(InvalidParameter, match="cells"):
        PrivateSynthesizer(wide, engine="adaptive", tree=ring).fit(pd.DataFrame({name: [1, 2] for name in "abcde"}))
    many = Schema({f"c{place}": Category((0, 1)) for place in range(101)})
    with pytest.raises(InvalidParameter, match="100 columns"):
        PrivateSynthesizer(many, engine="adaptive").fit(pd.DataFrame({name: [0, 1] for name in many.columns}))


def test_a_tree_stays_within_its_limit(monkeypatch):
    monkeypatch.setattr(adaptive_marginals, "MOST_TREE_CELLS", 60)
    model = fitted(epsilon=10.0)
    assert model._model.distribution.tree.cells <= 60 + model._engine()._first_tree.cells


DEGREES = Schema(
    {
        "degree": Category(("none", "school", "bachelor", "master", "doctor")),
        "years": Number(0, 21, whole=True, bins=tuple(range(1, 22)), determined_by="degree"),
        "is academic": Category((False, True), determined_by="degree"),
        "age": Number(18, 90, whole=True),
    }
)


def graduates(count: int) -> pd.DataFrame:
    random = np.random.default_rng(0)
    place = random.integers(0, 5, count)
    age = np.clip(30 + 8 * place + random.integers(-10, 11, count), 18, 90)
    levels = np.array(["none", "school", "bachelor", "master", "doctor"])
    return pd.DataFrame(
        {"degree": levels[place], "years": np.array([0, 12, 16, 20, 21])[place], "is academic": place >= 2, "age": age}
    )


@pytest.mark.parametrize("epsilon", [0.01, 2.0])
def test_determined_columns_are_never_contradicted(epsilon):
    table = graduates(2000)
    model = PrivateSynthesizer(DEGREES, engine="adaptive", epsilon=epsilon, random_state=0).fit(table)
    sample = pd.concat(model.sample_batches(4000, 1), ignore_index=True)
    assert list(sample) == list(DEGREES.columns)
    assert (sample.groupby("degree")[["years", "is academic"]].nunique() == 1).all(axis=None)
    assert not {"years", "is academic"} & {name for pair in model.pairs_ for name in pair}
    if epsilon > 1:
        both = [set(map(tuple, frame[["degree", "years", "is academic"]].to_numpy())) for frame in (table, sample)]
        assert both[0] == both[1]
        assert {*model.sample(200, 0, given={"years": 20})["degree"]} == {"master"}
        with pytest.raises(InvalidParameter, match="No row"):
            model.sample(5, given={"years": 20, "degree": "none"})


def test_whether_a_record_contradicts_what_is_said_to_be_determined_decides_no_release():
    """A refusal would tell of one record for certain: whoever sees a release would know that nobody's contradicts."""
    table = graduates(50)
    table.loc[0, "years"] = (table.loc[0, "years"] + 5) % 22
    model = PrivateSynthesizer(DEGREES, engine="adaptive", random_state=0).fit(table)
    assert model.contradicting_rows_["years"] == 1
    assert not hasattr(copy.copy(pickle.loads(pickle.dumps(model))), "contradicting_rows_")
    sample = model.sample(200, 0)
    assert len(sample[["degree", "years"]].drop_duplicates()) == sample["degree"].nunique()


def test_columns_that_others_determine_are_for_one_engine_and_known_columns():
    for engine in ("marginals", "microaggregation"):
        with pytest.raises(InvalidParameter, match="others determine"):
            PrivateSynthesizer(DEGREES, engine=engine).fit(graduates(50))
    for by in ("nothing", "is academic"):
        columns = {**DEGREES.columns, "years": Number(0, 21, determined_by=by)}
        with pytest.raises(InvalidParameter, match="determined by"):
            PrivateSynthesizer(Schema(columns), engine="adaptive").fit(graduates(50))
