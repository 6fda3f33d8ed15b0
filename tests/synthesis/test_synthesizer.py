"""Synthetic tables: inside the schema, true to what was counted, refused where they must be, the same after a release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from sudare.errors import (
    BudgetExceeded,
    ColumnMissing,
    DataError,
    InvalidParameter,
    MissingValue,
    NotCharged,
    ReleaseMalformed,
    SeededNoiseRefused,
    SourceUnreadable,
    SudareError,
    UnknownCategory,
    WrongType,
)
from sudare.privacy import Ledger, Release
from sudare.privacy.release import audited
from sudare.privacy.release_content import Content
from sudare.privacy.release_file import parsed, written
from sudare.schema import Category, Label, Number, Person, Schema, encode
from sudare.synthesis import PrivateSynthesizer
from sudare.synthesis.table_cells import coded_rows, decoded, levels_array
from tests.release_kit import KEY, TRUSTED

SCHEMA = Schema(
    {
        "age": Number(0, 100, bins=(20, 40, 60), missing="indicator"),
        "income": Number(-1, 3),
        "town": Category(("a", "b", "c"), missing="unknown"),
        "children": Category((0, 1, 2), missing="no answer"),
        "ill": Label((False, True)),
    }
)
ENGINES: list[dict[str, Any]] = [
    {},
    {"delta": 1e-5},
    {"engine": "microaggregation"},
    {"tree": [("age", "town")]},
    {"engine": "adaptive"},
    {"engine": "adaptive", "delta": 1e-5},
]


def people(rows: int = 2000, seed: int = 0) -> pd.DataFrame:
    """The old are ill and live in town c; children go with the town."""
    random = np.random.default_rng(seed)
    age = random.uniform(0, 100, rows)
    town = np.where(random.random(rows) < age / 100, "c", random.choice(["a", "b"], rows))
    children = np.where(town == "c", 2, random.integers(0, 2, rows))
    ill = random.random(rows) < 1 / (1 + np.exp(-(age - 50) / 10))
    frame = pd.DataFrame({"age": age, "income": random.normal(1, 1, rows), "town": town, "children": children})
    frame = frame.astype({"children": "Int64"}).assign(ill=ill)
    frame.loc[random.random(rows) < 0.05, "age"] = np.nan
    frame.loc[random.random(rows) < 0.05, "town"] = None
    frame.loc[random.random(rows) < 0.05, "children"] = pd.NA
    return frame


def codes_of(table: pd.DataFrame, schema: Schema = SCHEMA) -> dict[str, np.ndarray]:
    rows = coded_rows(table, None, schema, schema.target)
    return {name: np.asarray(codes, dtype=int) for name, codes in rows.codes.items()}


# What comes out


@pytest.mark.parametrize("parameters", ENGINES, ids=str)
@pytest.mark.parametrize("rows", [1, 7, 3000])
def test_samples_lie_inside_the_schema(parameters, rows):
    table = PrivateSynthesizer(SCHEMA, **parameters).fit(people()).sample(rows)
    assert list(table) == list(SCHEMA.columns)
    assert len(table) == rows
    assert np.isfinite(encode(SCHEMA, table, "binned").matrix).all()
    assert set(table["ill"]) <= {False, True}
    assert set(table["town"]) <= {"a", "b", "c", "unknown"}
    assert set(table["children"].dropna()) <= {0, 1, 2}
    assert table["income"].between(-1, 3).all()
    assert table["age"].dropna().between(0, 100).all()


def test_much_budget_gives_the_truth_back():
    """With hardly any noise every counted table of the sample is that of the data, up to the sampling of 60,000 rows."""
    data = people(5000)
    model = PrivateSynthesizer(SCHEMA, epsilon=1e6).fit(data)
    sample = model.sample(60_000, random_state=0)
    true, drawn = codes_of(data), codes_of(sample)
    assert len(model.pairs_) == 6
    for first, second in model.pairs_:
        cells = (8, 12)
        both = [
            np.histogram2d(codes[first], codes[second], bins=cells, range=((0, 8), (0, 12)))[0] / len(codes[first])
            for codes in (true, drawn)
        ]
        # A share p of 60,000 rows has a deviation of at most 0.002 (twice that, as rows of the pool come in pairs): six of it.
        assert np.abs(both[0] - both[1]).max() < 0.025
    assert abs(data["ill"].mean() - sample["ill"].mean()) < 0.02


def test_a_model_learns_from_the_sample_what_it_would_have_learned_from_the_data():
    data, fresh = people(20_000), people(5_000, seed=1)
    sample = PrivateSynthesizer(SCHEMA, epsilon=1.0, delta=1e-5, random_state=0).fit(data).sample(20_000, 0)

    def accuracy(table: pd.DataFrame) -> float:
        model = LogisticRegression(max_iter=1000).fit(encode(SCHEMA, table, "binned").matrix, table["ill"])
        return float(model.score(encode(SCHEMA, fresh, "binned").matrix, fresh["ill"]))

    assert accuracy(sample) > accuracy(data) - 0.02


def test_strong_pairs_are_chosen_privately():
    columns = {name: Category(tuple(range(4))) for name in "abcd"}
    random = np.random.default_rng(0)
    a, c = random.integers(0, 4, 20_000), random.integers(0, 4, 20_000)
    table = pd.DataFrame({"a": a, "b": a, "c": c, "d": c})
    for parameters in ({"delta": 1e-5}, {"epsilon": 3.0}):
        model = PrivateSynthesizer(Schema(columns), random_state=0, **parameters).fit(table)
        assert {("a", "b"), ("c", "d")} <= set(model.pairs_[:3])
        sample = model.sample(2000, 0)
        assert (sample["a"] == sample["b"]).mean() > 0.95
        assert (sample["a"] == sample["c"]).mean() < 0.35


def test_microaggregation_keeps_quantiles_within_classes():
    random = np.random.default_rng(0)
    ill = random.random(20_000) < 0.3
    table = pd.DataFrame(
        {"x": np.where(ill, random.uniform(0.5, 1, 20_000), random.uniform(0, 0.4, 20_000)), "ill": ill}
    )
    schema = Schema({"x": Number(0, 1), "ill": Label((False, True))})
    sample = (
        PrivateSynthesizer(schema, engine="microaggregation", epsilon=5.0, random_state=0).fit(table).sample(9000, 0)
    )
    for each in (False, True):
        true, drawn = table["x"][table["ill"] == each], sample["x"][sample["ill"] == each]
        # Twenty groups: a twentieth of the class between two means. The last of each is filled up with the bound.
        levels = [0.1, 0.3, 0.5, 0.7, 0.9]
        assert np.abs(true.quantile(levels).to_numpy() - drawn.quantile(levels).to_numpy()).max() < 0.05


@pytest.mark.parametrize("engine", ["marginals", "adaptive"])
def test_spikes_come_out_where_they_are_declared(engine):
    """Of 5,000 rows 82 % have no gain and a third of the others the greatest; hours are whole, often 40, and sometimes missing."""
    random = np.random.default_rng(0)
    kind = random.choice(3, 5000, p=[0.82, 0.12, 0.06])
    gain = np.choose(kind, [np.zeros(5000), random.uniform(0, 1e5, 5000), np.full(5000, 1e5)])
    hours = np.where(random.random(5000) < 0.5, 40.0, random.integers(1, 100, 5000))
    hours[random.random(5000) < 0.1] = np.nan
    schema = Schema(
        {
            "gain": Number(0, 1e5, atoms=(0, 1e5)),
            "hours": Number(1, 99, whole=True, atoms=(40,), missing="indicator"),
            "rich": Category((False, True)),
        }
    )
    table = pd.DataFrame({"gain": gain, "hours": hours, "rich": kind == 2})
    sample = PrivateSynthesizer(schema, engine=engine, delta=1e-6, random_state=0).fit(table).sample(5000, 0)
    assert abs((sample["gain"] == 0).mean() - 0.82) < 0.03
    assert abs((sample["gain"] == 1e5).mean() - 0.06) < 0.02
    assert abs((sample["hours"] == 40).mean() - (hours == 40).mean()) < 0.03
    assert abs(sample["hours"].isna().mean() - 0.1) < 0.03
    assert (sample["hours"].dropna() % 1 == 0).all()
    assert sample["hours"].dropna().between(1, 99).all()
    assert ((sample["gain"] == 1e5) == sample["rich"]).mean() > 0.95
    # The other numbers are not at the atoms.
    assert ((sample["gain"] > 0) & (sample["gain"] < 1e5)).mean() == pytest.approx(0.12, abs=0.03)


def test_batches_are_the_sample(monkeypatch):
    model = PrivateSynthesizer(SCHEMA, random_state=0).fit(people(500))
    monkeypatch.setattr("sudare.synthesis.synthesizer._BATCH_ROWS", 128)
    batches = list(model.sample_batches(500, 3))
    assert [len(batch) for batch in batches] == [128, 128, 128, 116]
    assert pd.concat(batches, ignore_index=True).equals(model.sample(500, 3))


def test_a_table_of_many_rows_gives_a_million_by_default():
    model = PrivateSynthesizer(SCHEMA, random_state=0).fit(people(500))
    assert model.rows_by_default == 500
    model.n_rows_ = 2**53 - 1
    assert model.rows_by_default == 1_000_000


def test_rows_and_seeds_of_samples():
    model = PrivateSynthesizer(SCHEMA, epsilon=50.0).fit(people(500))
    assert model.sample(random_state=3).equals(model.sample(random_state=3))
    assert not model.sample(50, random_state=3).equals(model.sample(50, random_state=4))
    assert len(model.sample()) == 500
    # The counts of five columns speak of the number of rows; each has a Laplace scale of 2·5/(0.4·50) on 4 to 10 cells.
    unknown = PrivateSynthesizer(SCHEMA, epsilon=50.0, neighbours="add-remove").fit(people(500))
    assert abs(len(unknown.sample()) - 500) < 60
    wild = PrivateSynthesizer(SCHEMA, epsilon=1e-9, neighbours="add-remove", random_state=1).fit(people(50))
    assert len(wild.sample()) in range(1, 1_000_001)
    generator = np.random.default_rng(0)
    assert not model.sample(50, generator).equals(model.sample(50, generator))
    for wrong in (0, -1, 1.5, True, "many"):
        with pytest.raises(InvalidParameter, match="whole number"):
            model.sample(wrong)


@pytest.mark.parametrize("engine", ["marginals", "adaptive", "microaggregation"])
def test_hardly_any_budget_gives_rows_all_the_same(engine, tmp_path):
    """Noise far beyond all counts makes a useless table, and no error that would tell of the data after a charge."""
    for seed in range(5):
        model = PrivateSynthesizer(SCHEMA, epsilon=1e-80, engine=engine, random_state=seed).fit(people(30))
        assert len(model.sample(40)) == 40
    account = Ledger(tmp_path / "ledger.db").account("a", epsilon=5.0, delta=1e-4)
    for parameters in ({"epsilon": 1e-91}, {"epsilon": 600.0, "delta": 1e-300}):
        with pytest.raises(SudareError):
            PrivateSynthesizer(SCHEMA, engine=engine, account=account, **parameters).fit(people(30))
    assert len(account.entries()) == 1


def test_large_samples_are_made_in_parts(monkeypatch):
    monkeypatch.setattr("sudare.synthesis.marginals._POOL_ROWS", 100)
    model = PrivateSynthesizer(SCHEMA, epsilon=50.0).fit(people(500))
    assert len(model.sample(250)) == 250
    assert len(model.sample(300)) == 300


# What goes in


def test_a_file_a_frame_and_a_separate_label_are_one(tmp_path: Path):
    data = people(300)
    data.to_parquet(tmp_path / "people.parquet")
    data.to_csv(tmp_path / "people.csv", index=False)
    model = PrivateSynthesizer(SCHEMA, random_state=0)
    counts = model.fit(data).released_["counts"]
    features = data.drop(columns="ill")
    for source in (tmp_path / "people.parquet", str(tmp_path / "people.csv"), data.assign(other=1)):
        assert np.array_equal(PrivateSynthesizer(SCHEMA, random_state=0).fit(source).released_["counts"], counts)
    assert np.array_equal(
        PrivateSynthesizer(SCHEMA, random_state=0).fit(features, data["ill"]).released_["counts"], counts
    )


def test_arrays_with_bounds():
    matrix = np.random.default_rng(0).uniform(0, 1, (400, 2))
    model = PrivateSynthesizer(bounds=(0, 1), epsilon=20.0).fit(matrix, y=np.ones(400))
    sample = model.sample(500)
    assert list(sample) == ["x0", "x1"]
    assert sample.to_numpy().min() >= 0
    assert sample.to_numpy().max() <= 1
    assert model.pairs_ == [("x0", "x1")]


@pytest.mark.parametrize("label", ["town", "age", "ill"])
def test_any_column_can_be_the_label(label):
    for engine in ("marginals", "adaptive", "microaggregation"):
        model = PrivateSynthesizer(SCHEMA, label=label, engine=engine).fit(people(300))
        assert label not in model.feature_names_in_
        assert list(model.sample(5)) == list(SCHEMA.columns)


def test_a_schema_without_label_and_one_with_a_number_as_target():
    columns = {"a": Number(0, 1), "b": Number(0, 1)}
    table = pd.DataFrame(np.random.default_rng(0).uniform(0, 1, (50, 2)), columns=["a", "b"])
    assert PrivateSynthesizer(Schema(columns)).fit(table).label_ is None
    model = PrivateSynthesizer(Schema(columns, target="b")).fit(table)
    assert model.label_ == "b"
    assert list(model.feature_names_in_) == ["a"]
    assert list(model.sample(3)) == ["a", "b"]


SECRET = "Rumpelstiltskin"


@pytest.mark.parametrize(
    ("parameters", "table", "kind"),
    [
        ({"engine": "magic"}, people(9), InvalidParameter),
        ({"neighbours": "cousins"}, people(9), InvalidParameter),
        ({"groups": 1}, people(9), InvalidParameter),
        ({"groups": 2.0}, people(9), InvalidParameter),
        ({"label": "name"}, people(9), InvalidParameter),
        ({"label": 3}, people(9), InvalidParameter),
        ({"tree": "ab"}, people(9), InvalidParameter),
        ({"tree": [("age",)]}, people(9), InvalidParameter),
        ({"tree": [("age", "age")]}, people(9), InvalidParameter),
        ({"tree": [("age", "ill")]}, people(9), InvalidParameter),
        ({"tree": [("age", "town"), ("town", "age")]}, people(9), InvalidParameter),
        ({"tree": [("age", "name")]}, people(9), InvalidParameter),
        ({"tree": [], "engine": "microaggregation"}, people(9), InvalidParameter),
        ({"epsilon": 0.0}, people(9), SudareError),
        ({"delta": 1.0}, people(9), SudareError),
        ({}, people(9).drop(columns="town"), ColumnMissing),
        ({}, people(9).drop(columns="ill"), DataError),
        ({}, people(9).iloc[:0], DataError),
        ({}, people(9).assign(town=SECRET), UnknownCategory),
        ({}, people(9).assign(income=np.nan), MissingValue),
        ({}, people(9).assign(income=SECRET), WrongType),
        ({}, people(9).assign(ill=SECRET), WrongType),
        ({}, iter([]), DataError),
        ({}, "nowhere.parquet", SourceUnreadable),
    ],
)
def test_what_is_wrong_is_told_before_a_charge_and_without_a_value(parameters, table, kind, tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("a", epsilon=5.0)
    with pytest.raises(kind) as caught:
        PrivateSynthesizer(SCHEMA, account=account, **parameters).fit(table)
    assert SECRET not in str(caught.value)
    assert caught.value.remedy
    assert len(account.entries()) == 1


def test_y_of_another_length():
    with pytest.raises(DataError, match="8 labels for 9 rows"):
        PrivateSynthesizer(SCHEMA).fit(people(9).drop(columns="ill"), people(8)["ill"])


def test_labels_need_a_schema_and_something_beside_them():
    with pytest.raises(InvalidParameter, match="needs a schema"):
        PrivateSynthesizer(bounds=(0, 1), label="x0").fit(np.zeros((3, 2)))
    with pytest.raises(InvalidParameter, match="only column"):
        PrivateSynthesizer(Schema({"ill": Label((0, 1))})).fit(pd.DataFrame({"ill": [0, 1]}))


def test_too_many_columns_or_cells():
    wide = Schema({f"x{index}": Category((0, 1)) for index in range(101)})
    table = pd.DataFrame(np.zeros((2, 101), dtype=int), columns=list(wide.columns))
    with pytest.raises(InvalidParameter, match="more than 100 columns"):
        PrivateSynthesizer(wide).fit(table)
    assert PrivateSynthesizer(wide, tree=[("x0", "x1")]).fit(table).pairs_ == [("x0", "x1")]
    fine = Number(0, 1, bins=tuple(np.linspace(0, 1, 402)[1:-1]))
    many = Schema({"a": fine, "b": fine})
    rows = pd.DataFrame({"a": [0.5], "b": [0.5]})
    with pytest.raises(InvalidParameter, match="160,801"):
        PrivateSynthesizer(many, tree=[("a", "b")]).fit(rows)
    # Where pairs are chosen, one that is too large is no candidate.
    assert PrivateSynthesizer(many).fit(rows).pairs_ == []
    with pytest.raises(InvalidParameter, match="groups and categories"):
        PrivateSynthesizer(
            Schema({f"x{index}": Number(0, 1) for index in range(1100)}), engine="microaggregation", groups=1000
        ).fit(np.zeros((2, 1100)))


def test_persons():
    schema = Schema(dict(SCHEMA.columns), Person("person", 2))
    table = people(20).assign(person=np.arange(20) // 2)
    model = PrivateSynthesizer(schema).fit(table)
    assert model.guarantee_.unit == "person"
    alone = PrivateSynthesizer(SCHEMA).fit(people(20))
    assert model.noise_scale_ == pytest.approx(2 * alone.noise_scale_)
    assert "person" not in model.sample(3)
    assert PrivateSynthesizer(schema).fit(table.assign(person=np.arange(20) // 4)).n_rows_ == 10


# Promises and releases


@pytest.fixture
def account(tmp_path):
    return Ledger(tmp_path / "ledger.db").account("people", epsilon=10.0, delta=1e-4)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("parameters", [*ENGINES, {"tree": []}, {"label": "town"}], ids=str)
def test_a_release_gives_the_same_rows(parameters, neighbours, account, tmp_path):
    model = PrivateSynthesizer(SCHEMA, neighbours=neighbours, account=account, **parameters).fit(people(200))
    Release.of(model).save(tmp_path / "people.sudare", key=KEY)
    loaded = Release.load(tmp_path / "people.sudare", trusted=TRUSTED)
    again = loaded.model()
    assert again.sample(300, random_state=1).equals(model.sample(300, random_state=1))
    assert again.guarantee_ == model.guarantee_
    assert again.pairs_ == model.pairs_
    assert loaded.content.parameters["rows"] == (200 if neighbours == "replace-one" else None)
    assert len([entry for entry in account.entries() if entry.kind == "charge"]) == 1
    assert account.spent().epsilon == pytest.approx(model.guarantee_.epsilon, rel=1e-6)


def test_arrays_and_persons_are_released_too(account, tmp_path):
    schema = Schema(dict(SCHEMA.columns), Person("person", 2))
    persons = Ledger(tmp_path / "persons.db").account("persons", epsilon=5.0, unit="person")
    first = PrivateSynthesizer(schema, account=persons).fit(people(20).assign(person=np.arange(20)))
    second = PrivateSynthesizer(bounds=(0, 1), account=account).fit(np.random.default_rng(0).uniform(0, 1, (30, 3)))
    for name, model in (("first", first), ("second", second)):
        Release.of(model).save(tmp_path / f"{name}.sudare", key=KEY)
        again = Release.load(tmp_path / f"{name}.sudare", trusted=TRUSTED).model()
        assert again.sample(30, random_state=1).equals(model.sample(30, random_state=1))


def test_nothing_leaves_without_a_charge_or_with_a_seed(account):
    with pytest.raises(NotCharged):
        Release.of(PrivateSynthesizer(SCHEMA).fit(people(20)))
    with pytest.raises(SeededNoiseRefused):
        PrivateSynthesizer(SCHEMA, account=account, random_state=0).fit(people(20))
    with pytest.raises(BudgetExceeded):
        PrivateSynthesizer(SCHEMA, epsilon=11.0, account=account).fit(people(20))
    model = PrivateSynthesizer(SCHEMA, account=account).fit(people(20))
    model.released_ = {**model.released_, "counts": model.released_["counts"] + 1}
    with pytest.raises(NotCharged, match="changed after"):
        Release.of(model)


def test_the_price_is_what_is_charged(account):
    model = PrivateSynthesizer(SCHEMA, epsilon=0.5, delta=1e-6, account=account)
    quote = model.price(people(20))
    assert account.spent().epsilon == 0
    model.fit(people(20))
    assert quote.asked.epsilon == account.spent().epsilon == 0.5
    with pytest.raises(InvalidParameter, match="needs an account"):
        PrivateSynthesizer(SCHEMA).price(people(20))


def forged(model: PrivateSynthesizer, **changes: Any) -> Content:
    content = model.release_content()
    tensors, parameters = dict(content.tensors), dict(content.parameters)
    for name, value in changes.items():
        (tensors if name in ("counts", "pairs", "cells", "classes") else parameters)[name] = value
    grids = {name: content.grids.get(name) for name in tensors}
    return Content(parameters, tensors, grids)


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": "magic"},
        {"engine": "microaggregation"},
        {"engine": ["marginals"]},
        {"groups": 3},
        {"label": None},
        {"label": "name"},
        {"label": 3},
        {"tree": [["age", "town"]]},
        {"tree": 3},
        {"tree": [3]},
        {"counts": np.zeros(3, dtype=np.int64)},
        {"counts": np.zeros((2, 2), dtype=np.int64)},
        {"pairs": np.array([0, 1, 0], dtype=np.int64)},
        {"pairs": np.array([1, 0], dtype=np.int64)},
        {"pairs": np.array([0, 9], dtype=np.int64)},
        {"pairs": np.array([0, 1, 0, 1], dtype=np.int64)},
        {"pairs": np.array([0.0, 1.0])},
        {"cells": np.zeros(3)},
        {"rows": None},
        {"neighbours": "cousins"},
    ],
    ids=str,
)
def test_forged_contents_are_refused(changes):
    model = PrivateSynthesizer(SCHEMA).fit(people(20))
    genuine = model.release_content()
    PrivateSynthesizer.check_content(genuine, SCHEMA.digest)
    with pytest.raises(ReleaseMalformed):
        PrivateSynthesizer.check_content(forged(model, **changes), SCHEMA.digest)


@pytest.mark.parametrize(
    "engine",
    [{}, {"engine": "microaggregation"}, {"engine": "adaptive", "delta": 1e-6}],
    ids=["marginals", "microaggregation", "adaptive"],
)
def test_counts_without_a_magnitude_are_refused(engine):
    """Of the smallest whole number of 64 bits the magnitude is itself: below every bound, it would be a count."""
    model = PrivateSynthesizer(SCHEMA, **engine).fit(people(20))
    name = "classes" if "classes" in model.released_ else "counts"
    for count in (-(2**63), 2**63 - 1, 2**50):
        counts = np.full_like(model.released_[name], count)
        with pytest.raises(ReleaseMalformed):
            PrivateSynthesizer.check_content(forged(model, **{name: counts}), SCHEMA.digest)


def test_a_forest_comes_first_in_a_release():
    """Which tables have the label depends on the order: a release that lists a further pair too early is refused."""
    columns = Schema({name: Category((0, 1)) for name in "abc"})
    model = PrivateSynthesizer(columns, tree=[("a", "b"), ("b", "c"), ("a", "c")]).fit(
        pd.DataFrame({"a": [0, 1], "b": [0, 1], "c": [0, 1]})
    )
    assert model.pairs_ == [("a", "b"), ("b", "c"), ("a", "c")]
    turned = forged(model, pairs=np.array([0, 2, 0, 1, 1, 2], dtype=np.int64))
    with pytest.raises(ReleaseMalformed):
        PrivateSynthesizer.check_content(turned, columns.digest)


def test_forged_microaggregations_are_refused():
    model = PrivateSynthesizer(SCHEMA, engine="microaggregation").fit(people(20))
    PrivateSynthesizer.check_content(model.release_content(), SCHEMA.digest)
    cells = model.released_["cells"]
    for changes in ({"cells": cells[1:]}, {"cells": cells * 1e300}, {"groups": None}, {"groups": 21}, {"groups": True}):
        with pytest.raises(ReleaseMalformed):
            PrivateSynthesizer.check_content(forged(model, **changes), SCHEMA.digest)
    content = model.release_content()
    with pytest.raises(ReleaseMalformed, match="grid"):
        PrivateSynthesizer.check_content(
            Content(content.parameters, content.tensors, {**content.grids, "cells": 2.0**-30}), SCHEMA.digest
        )


def test_the_number_of_rows_does_not_leave_under_add_remove(account, tmp_path):
    model = PrivateSynthesizer(SCHEMA, neighbours="add-remove", account=account).fit(people(123))
    Release.of(model).save(tmp_path / "a.sudare", key=KEY)
    release = audited(parsed((tmp_path / "a.sudare").read_bytes()))
    assert release.content.parameters["rows"] is None
    assert not hasattr(release.model(), "clipped_")
    # Two add/remove steps are one replaced row: the account is for those.
    assert (model.guarantee_.neighbours, model.guarantee_.epsilon) == ("replace-one", 2.0)


def test_files_with_a_tensor_too_many_are_refused(account):
    release = Release.of(PrivateSynthesizer(SCHEMA, account=account).fit(people(20)))
    manifest = release.manifest()
    manifest["tensors"]["spare"] = None
    file = written(manifest, {**release.content.tensors, "spare": np.zeros(2, dtype=np.int64)}, KEY)
    with pytest.raises(ReleaseMalformed):
        audited(parsed(file))


@parametrize_with_checks(
    [
        PrivateSynthesizer(bounds=(-10, 10)),
        PrivateSynthesizer(bounds=(-10, 10), delta=1e-5),
        PrivateSynthesizer(bounds=(-10, 10), engine="microaggregation"),
    ]
)
def test_scikit_learn_checks(estimator, check, monkeypatch):
    """None is expected to fail, and none to be skipped: one looks for this variable."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    check(estimator)


# Back to values


@given(number=st.tuples(st.floats(-1e6, 1e6), st.floats(0.001, 1e6)), bins=st.integers(1, 30), seed=st.integers(0, 99))
@settings(max_examples=50)
def test_numbers_are_drawn_into_their_own_bins(number, bins, seed):
    low, width = number
    inner = np.unique(np.linspace(low, low + width, bins + 2)[1:-1])
    column = Number(low, low + width, bins=tuple(inner[(inner > low) & (inner < low + width)]), missing="indicator")
    positions = np.random.default_rng(seed).integers(0, len(column.edges) + 2, 60)
    values = decoded(column, positions, np.random.default_rng(seed))
    schema = Schema({"x": column})
    assert np.array_equal(codes_of(pd.DataFrame({"x": values}), schema)["x"], positions)


def test_levels_of_another_kind_are_missing():
    assert levels_array(Category((0, 1), missing="unknown")).tolist() == [0, 1, None]
    assert levels_array(Category(("a", "b"), missing="unknown")).tolist() == ["a", "b", "unknown"]
    assert levels_array(Category((False, True))).dtype == bool
    assert levels_array(Category((1, 2), missing=2)).tolist() == [1, 2]
