"""The additive classifier: shapes, bins by public bounds, releases that load again, and refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from sudare.dossier.released_numbers import released_numbers
from sudare.errors import InvalidParameter, ReleaseMalformed
from sudare.linear import PrivateAdditiveClassifier
from sudare.linear.additive_boosting import BoostingFacts, BoostingRecipe, BoostingState, squared_scales
from sudare.linear.additive_classifier import finer_number, unclipped_log_odds
from sudare.privacy import Ledger, Release
from sudare.privacy.release_content import Content
from sudare.schema import Category, Date, Label, Number, Schema
from tests.release_kit import KEY, TRUSTED

SCHEMA = Schema(
    {"age": Number(0, 100, missing="indicator"), "ward": Category(("a", "b", "c")), "ill": Label(("no", "yes"))}
)


def table(rows=4000):
    random = np.random.default_rng(0)
    age, ward = random.uniform(0, 100, rows), random.choice(["a", "b", "c"], rows)
    odds = 3 * np.sin(age / 30) + (ward == "c")
    ill = random.random(rows) < 1 / (1 + np.exp(-odds))
    return pd.DataFrame({"age": age, "ward": ward, "ill": np.where(ill, "yes", "no")})


@pytest.fixture(scope="module")
def fitted():
    return PrivateAdditiveClassifier(3.0, 1e-6, schema=SCHEMA, random_state=0).fit(table())


def test_shapes_are_found_and_probabilities_mean_something(fitted):
    rows = table()
    chances = fitted.predict_proba(rows)[:, 1]
    truth, odds = rows["ill"] == "yes", 3 * np.sin(rows["age"] / 30) + (rows["ward"] == "c")
    assert roc_auc_score(truth, chances) > roc_auc_score(truth, odds) - 0.02
    assert abs(chances.mean() - np.mean(rows["ill"] == "yes")) < 0.03
    shape = fitted.shapes()["age"]
    assert shape.bins[0] == "0 to 10"
    assert shape.bins[-1] == "missing"
    assert 2 < np.argmax(shape.values) < 7
    assert list(fitted.classes_[(chances > 0.5).astype(int)]) == list(fitted.predict(rows))
    with pytest.raises(InvalidParameter, match="place"):
        fitted.shapes(1)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("way", "sign"), [("increasing", 1), ("decreasing", -1)])
def test_monotone_shapes_go_one_way(delta, way, sign):
    model = PrivateAdditiveClassifier(1.0, delta, schema=SCHEMA, monotone={"age": way}, random_state=0)
    values = model.fit(table(500)).shapes()["age"].values[:-1]
    assert np.all(sign * np.diff(values) >= 0)


def boosting_facts(rows, noise):
    return BoostingFacts(rows, 1, (100, 100), (0, 0), (0, 0), BoostingRecipe(), 1.0, noise)


def test_squared_scales_find_how_large_shapes_are_and_keep_the_usual_size_where_noise_hides_them():
    random, rows = np.random.default_rng(0), np.full(200, 100.0)
    true = np.concatenate([random.normal(3, 1.2, 100), np.full(100, -2.0)])[np.newaxis]
    facts = boosting_facts(10_000, 1.0)
    clear = squared_scales(facts, true + random.normal(0, 0.3, true.shape), np.full(200, 0.09), rows)
    assert np.ptp(clear[:100]) == np.ptp(clear[100:]) == 0
    assert clear[0] == pytest.approx(1.44, rel=0.3)
    assert clear[100] < 0.1
    hidden = squared_scales(facts, true + random.normal(0, 30, true.shape), np.full(200, 900.0), rows)
    assert hidden == pytest.approx(facts.recipe.shape_scale**2, rel=0.01)


def test_penalties_follow_the_shapes_that_were_found_only_where_there_are_enough_rows():
    counts = np.full(200, 100.0)
    slopes = np.concatenate([np.where(np.arange(100) % 2, 30.0, -30.0), np.zeros(100)])[np.newaxis]

    def penalties(noise, steps):
        walk = BoostingState(boosting_facts(10_000, noise), counts)
        before = walk._penalties.copy()
        for _ in range(steps):
            walk.take(slopes * walk.weights / 2.0**10)
        return walk._penalties / before

    assert np.all(penalties(6.0, 11) == 1)
    assert np.all(penalties(6.0, 12)[:100] < 0.5)
    assert np.all(penalties(6.0, 12)[100:] > 1)
    assert np.all(penalties(8.0, 40) == 1)


def test_monotone_is_refused_where_it_cannot_be():
    for monotone in ({"ward": "increasing"}, {"nobody": "increasing"}, {"age": "up"}):
        with pytest.raises(InvalidParameter, match="monotone"):
            PrivateAdditiveClassifier(1.0, 1e-6, schema=SCHEMA, monotone=monotone).fit(table(50))
    with pytest.raises(InvalidParameter, match="two classes"):
        PrivateAdditiveClassifier(1.0, 1e-6, bounds=(0, 1), classes=[0, 1, 2], monotone={"x0": "increasing"}).fit(
            np.ones((6, 1)), [0, 1, 2] * 2
        )


def test_finer_bins_come_from_bounds_alone():
    assert finer_number(Number(0, 8, bins=(3,)), 4).edges == (2, 3, 4, 6)
    assert finer_number(Number(0, 9, whole=True), 4).edges == (3, 5, 7)
    day = Date(first="2020-01-01", last="2020-12-31")
    assert finer_number(day, 40) is day
    model = PrivateAdditiveClassifier(1.0, 1e-6, schema=SCHEMA, max_bins=40, random_state=0).fit(table(300))
    assert len(model.shapes()["age"].bins) == 41


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_release_loads_again_and_is_shown(tmp_path, delta):
    account = Ledger(tmp_path / "ledger.db").account("patients", epsilon=2.0, delta=1e-5)
    options = {"schema": SCHEMA, "max_bins": 20, "monotone": {"age": "increasing"}, "account": account}
    model = PrivateAdditiveClassifier(1.0, delta, **options).fit(table(300))
    Release.of(model).save(tmp_path / "model.sudare", key=KEY)
    release = Release.load(tmp_path / "model.sudare", TRUSTED)
    again, rows = release.model(), table(300)
    assert np.array_equal(again.predict_proba(rows), model.predict_proba(rows))
    shown = released_numbers(release)
    assert shown.table["column"].count("age") == 21
    assert shown.measured == "log_odds"


def test_a_release_whose_shape_goes_elsewhere_is_refused(fitted):
    content = PrivateAdditiveClassifier(
        1.0, 1e-6, schema=SCHEMA, monotone={"age": "increasing"}, random_state=0
    ).fit(table(300)).release_content()  # fmt: skip
    turned = {"parameters": content.tensors["parameters"][::-1].copy()}
    with pytest.raises(ReleaseMalformed, match="go where"):
        PrivateAdditiveClassifier.check_content(Content(content.parameters, turned, content.grids), SCHEMA.digest)


def test_log_odds_undo_the_clip():
    """(1−q)·min(π, ½) = q·min(1−π, ½) at the minimiser."""
    sums = np.linspace(-6, 6, 41)
    odds, p = np.exp(unclipped_log_odds(sums)), 1 / (1 + np.exp(-sums))
    assert odds == pytest.approx(np.minimum(p, 0.5) / np.minimum(1 - p, 0.5))


def test_several_classes_are_told_apart():
    random = np.random.default_rng(0)
    X = random.uniform(0, 3, size=(3000, 2))
    model = PrivateAdditiveClassifier(2.0, 1e-6, bounds=(0, 3), classes=[0, 1, 2], random_state=0)
    assert model.fit(X, X[:, 0].astype(int)).score(X, X[:, 0].astype(int)) > 0.8


@pytest.mark.parametrize("epsilon", [1e-200, 1e-300])
def test_an_epsilon_that_is_almost_nothing_is_refused_in_words(epsilon: float) -> None:
    schema = Schema({"age": Number(0, 110), "ill": Label(("no", "yes"))})
    table = pd.DataFrame({"age": np.arange(200.0) % 110, "ill": ["no", "yes"] * 100})
    with pytest.raises(InvalidParameter, match="too small"):
        PrivateAdditiveClassifier(epsilon=epsilon, schema=schema).planned(table)
