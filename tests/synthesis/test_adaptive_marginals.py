"""Pairs chosen one after another: what they find, what they tell of their errors, and which releases they take."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sudare.errors import InvalidParameter, SchemaError
from sudare.privacy import Ledger, Release
from sudare.privacy.noise import SeededNoise
from sudare.schema import Category, Label, Number, Schema, Span
from sudare.schema.columns import level_text
from sudare.synthesis import PrivateSynthesizer, adaptive_marginals
from sudare.synthesis.adaptive_marginals import UNITS, AdaptiveEngine, most_stages, released_rounds
from sudare.synthesis.staged_budget import StagedNoise
from sudare.synthesis.table_cells import CodedRows, Layout
from tests.release_kit import KEY, TRUSTED

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


KNOWN_DEGREES = Schema(
    {**DEGREES.columns, "years": Number(0, 21, determined_by="degree"), "wed": Category(("no", "yes"), missing="yes")},
    maps={"years": {"none": 0, "school": 12.5, "bachelor": 16, "master": 20, "doctor": 21}},
    impossible=[{"wed": "yes", "years": [0, 20]}, {"degree": "doctor", "age": {"below": 26}}],
)


def known_graduates(count: int, schema: Schema = KNOWN_DEGREES) -> pd.DataFrame:
    """Half of the rows contradict the map, and many have what cannot be."""
    frame = graduates(count).assign(wed=np.where(np.arange(count) % 3 == 0, "yes", None))
    frame.loc[::2, "years"] = 3.0
    return frame[[*schema.columns]]


def violations(schema: Schema, frame: pd.DataFrame) -> int:
    """Rows that contradict a schema, found in the table itself."""

    def are(name: str, told: Any) -> pd.Series:
        if isinstance(told, Span):
            low, below = (-np.inf if told.low is None else told.low), (np.inf if told.below is None else told.below)
            return (frame[name] >= low) & (frame[name] < below)
        if told == "missing" and isinstance(schema.columns[name], Number):
            return frame[name].isna()
        return frame[name] == told

    wrong = [pd.Series(False, index=frame.index)]
    for name, values in schema.maps.items():
        by = schema.columns[name].determined_by
        keys = [level_text(value) for value in frame[by].tolist()]
        wrong.append(frame[name] != pd.Series([values[key] for key in keys], index=frame.index))
    for combination in schema.impossible:
        each = [np.logical_or.reduce([are(name, told) for told in values]) for name, values in combination.items()]
        wrong.append(pd.Series(np.logical_and.reduce(each), index=frame.index))
    return int(np.logical_or.reduce(wrong).sum())


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_what_is_declared_is_never_violated_also_where_rows_contradict_it(epsilon, delta):
    table = known_graduates(900)
    assert violations(KNOWN_DEGREES, table) > 300
    model = PrivateSynthesizer(
        KNOWN_DEGREES, engine="adaptive", epsilon=epsilon, delta=delta, random_state=0, neighbours="add-remove"
    ).fit(table)
    assert violations(KNOWN_DEGREES, pd.concat(model.sample_batches(5000, 1), ignore_index=True)) == 0
    for given_values in ({"years": 12.5}, {"wed": "yes"}, {"age": 20}, {"degree": "doctor", "age": 80}):
        assert violations(KNOWN_DEGREES, model.sample(300, 2, given=given_values)) == 0
    for impossible in ({"years": 12.0}, {"years": 20, "wed": "yes"}, {"degree": "doctor", "age": 25}):
        with pytest.raises(InvalidParameter, match="No row"):
            model.sample(5, given=impossible)


def test_rows_that_contradict_are_counted_for_the_owner_alone():
    table = known_graduates(900)
    model = PrivateSynthesizer(KNOWN_DEGREES, engine="adaptive", random_state=0).fit(table)
    numbers = table["degree"].map(dict(KNOWN_DEGREES.maps["years"]))
    cells = [np.floor(np.minimum(each, 20.99) / 2.1) for each in (numbers, table["years"])]
    assert model.contradicting_rows_["years"] == int((cells[0] != cells[1]).sum()) > 300
    # Gaps count as "yes".
    assert model.impossible_rows_ == [
        int(table["degree"].isin(["none", "master"]).sum()),
        int(((table["degree"] == "doctor") & (table["age"] < 26)).sum()),
    ]
    kept = copy.copy(pickle.loads(pickle.dumps(model)))
    assert not hasattr(kept, "contradicting_rows_")
    assert not hasattr(kept, "impossible_rows_")
    assert violations(KNOWN_DEGREES, kept.sample(500, 0)) == 0


def test_a_declared_map_costs_nothing():
    """What is released is the same to the last digit as without the column."""
    table = known_graduates(900)
    without = Schema({name: column for name, column in KNOWN_DEGREES.columns.items() if name != "years"})
    declared = Schema(dict(KNOWN_DEGREES.columns), maps=KNOWN_DEGREES.maps)
    counted = Schema(dict(KNOWN_DEGREES.columns))
    fits = [
        PrivateSynthesizer(schema, engine="adaptive", epsilon=1.0, delta=1e-6, random_state=0).fit(table)
        for schema in (without, declared, counted)
    ]
    engines = [model._engine() for model in fits]
    assert {*fits[0].released_} == {*fits[1].released_}
    assert all(np.array_equal(fits[0].released_[name], fits[1].released_[name]) for name in fits[0].released_)
    assert engines[0].columns_noise() == engines[1].columns_noise()
    assert engines[2].columns_noise().noise_scale > engines[1].columns_noise().noise_scale
    assert fits[0].guarantee_ == fits[1].guarantee_


def test_a_release_keeps_what_is_declared(tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("graduates", 2.0)
    model = PrivateSynthesizer(KNOWN_DEGREES, engine="adaptive", account=account).fit(known_graduates(600))
    Release.of(model).save(tmp_path / "rows.sudare", key=KEY)
    received = Release.load(tmp_path / "rows.sudare", trusted=TRUSTED).model()
    assert received.declared_.maps == KNOWN_DEGREES.maps
    assert received.declared_.impossible == KNOWN_DEGREES.impossible
    assert violations(KNOWN_DEGREES, received.sample(3000, 3)) == 0
    assert received.sample(100, 3).equals(model.sample(100, 3))


@pytest.mark.parametrize("engine", ["marginals", "microaggregation"])
def test_other_engines_refuse_what_they_do_not_keep(engine):
    known = Schema({"a": Category((0, 1)), "b": Category((0, 1))}, impossible=[{"a": 0, "b": 0}])
    with pytest.raises(InvalidParameter, match="does not keep impossible combinations"):
        PrivateSynthesizer(known, engine=engine).fit(pd.DataFrame({"a": [0, 1], "b": [1, 0]}))


def test_a_distribution_that_forgets_what_is_impossible_is_caught(monkeypatch):
    """The check of these tests sees one that does."""
    monkeypatch.setattr(AdaptiveEngine, "_possible", {})
    model = PrivateSynthesizer(KNOWN_DEGREES, engine="adaptive", random_state=0).fit(known_graduates(900))
    assert violations(KNOWN_DEGREES, model.sample(2000, 1)) > 0


def test_a_map_that_is_counted_though_it_is_declared_is_caught():
    counted = Schema(dict(KNOWN_DEGREES.columns))
    model = PrivateSynthesizer(counted, engine="adaptive", random_state=0).fit(known_graduates(900))
    assert violations(KNOWN_DEGREES, model.sample(2000, 1)) > 0


@st.composite
def small_schemas(draw: st.DrawFn) -> Schema:
    """Three or four columns, one of which another may determine, and combinations of two or three of them that cannot be."""
    kinds = {
        "category": Category(("a", "b", "c"), missing="d"),
        "truth": Category((False, True)),
        "whole": Number(0, 9, whole=True, bins=(1, 4, 7), atoms=(5,), missing="indicator"),
        "number": Number(-1, 1, bins=(0.0, 0.5), atoms=(0.25,)),
    }
    chosen = draw(st.lists(st.sampled_from(list(kinds)), min_size=2, max_size=4))
    columns: dict[str, Any] = {f"x{place}": kinds[kind] for place, kind in enumerate(chosen)}
    maps: dict[str, Any] = {}
    by = next((name for name, column in columns.items() if isinstance(column, Category)), None)
    if by is not None and draw(st.booleans()):
        columns["mapped"] = Number(0, 3, determined_by=by)
        maps["mapped"] = {level_text(level): draw(st.floats(0, 3)) for level in columns[by].levels}
    told = {
        "category": st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=3),
        "truth": st.booleans(),
        "whole": st.sampled_from([0, "missing", Span(below=4), Span(1, 7), Span(low=7)]),
        "number": st.sampled_from([Span(below=0), Span(0, 0.5), Span(low=0.5)]),
    }
    values = {f"x{place}": told[kind] for place, kind in enumerate(chosen)}
    if maps:
        values["mapped"] = st.just(Span(below=draw(st.floats(0.5, 3))))
    names = st.lists(st.sampled_from(list(values)), min_size=2, max_size=3, unique=True)
    impossible = [{name: draw(values[name]) for name in draw(names)} for _ in range(draw(st.integers(1, 4)))]
    try:
        return Schema(columns, maps=maps, impossible=impossible)
    except SchemaError as error:
        assume("leaves no row" not in error.problem)
        raise


@given(small_schemas(), st.integers(0, 2**32 - 1), st.sampled_from([0.01, 1.0, 20.0]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_row_violates_any_small_schema(schema, seed, epsilon, is_labelled):
    random, rows = np.random.default_rng(seed), 60
    table = {}
    for name, column in schema.columns.items():
        if isinstance(column, Number):
            values = random.uniform(column.low, column.high, rows)
            table[name] = np.rint(values) if column.whole else values
        else:
            table[name] = random.choice(np.array(column.values, dtype=object), rows)
    label = next(iter(schema.columns)) if is_labelled else None
    model = PrivateSynthesizer(
        schema, label=label, engine="adaptive", epsilon=epsilon, delta=1e-6, random_state=seed % 1000
    ).fit(pd.DataFrame(table))
    assert violations(schema, model.sample(400, seed)) == 0
