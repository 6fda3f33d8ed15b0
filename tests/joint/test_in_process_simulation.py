"""What members take home: models and scalers that the rest of the house knows, from arrays, tables and files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.errors import DataError, InvalidParameter, NotCharged, SchemaError, SourceMismatch
from sudare.experts import MirrorAveraging, OwnPlusConsensus
from sudare.joint import (
    LearningTerms,
    MemberTable,
    ModelReading,
    MomentReading,
    ScalerTerms,
    consortium_model,
    learned_together,
    model_of,
    scaler_of,
)
from sudare.joint.noise_shares import PureShares
from sudare.joint.scaler import spread_reach
from sudare.joint.training_terms import with_common_scales
from sudare.linear import PrivateLogisticRegression
from sudare.privacy import Ledger, Release
from sudare.schema import Category, Label, Number, Person, Schema
from sudare.statistics import PrivateStandardScaler
from tests.joint.kit import PLANE, SCHEMA, arrays, tables, terms


@pytest.mark.parametrize(
    "settings",
    [{"epsilon": 5.0}, {"epsilon": 2.0, "delta": 1e-6}, {"epsilon": 3.0, "delta": 1e-6, "method": "one-sum"}],
)
def test_a_model_of_everybody_is_good_and_the_same_at_every_member(settings):
    members = arrays(members=6, rows=80)
    together = consortium_model(members, classes=[0, 1], fit_intercept=False, **settings)
    X, y = arrays(seed=5, rows=400)[0]
    assert together.model(0).score(X, y) > 0.9
    np.testing.assert_array_equal(together.model(0).coef_, together.model(5).coef_)
    assert type(together.model()) is PrivateLogisticRegression
    assert together.model().guarantee_.epsilon == settings["epsilon"]
    assert together.model().guarantee_.valid


def test_a_charged_model_can_be_released_and_loaded(tmp_path):
    accounts = [Ledger(tmp_path / f"{number}.db").account("a", epsilon=6.0) for number in range(4)]
    together = consortium_model(arrays(), classes=[0, 1], epsilon=5.0, accounts=accounts)
    key, path = Ed25519PrivateKey.generate(), tmp_path / "joint.sudare"
    Release.of(together.model(2)).save(path, key=key)
    loaded = Release.load(path, trusted=[key.public_key()]).model()
    np.testing.assert_array_equal(loaded.coef_, together.model(0).coef_)
    np.testing.assert_array_equal(loaded.intercept_, together.model(0).intercept_)
    uncharged = consortium_model(arrays(), classes=[0, 1], epsilon=5.0).model()
    with pytest.raises(NotCharged):
        Release.of(uncharged)


def test_the_model_is_an_expert_and_can_be_corrected_by_own_data():
    members = tables(members=5, rows=100)
    together = consortium_model(members, schema=SCHEMA, epsilon=4.0, delta=1e-6, scaler_share=0.2)
    unseen = tables(seed=8, rows=400)[0]
    own = members[0]
    combined = together.combination(0).fit(own, own["ill"])
    assert isinstance(combined, OwnPlusConsensus)
    assert combined.doubt == together.learned.doubt
    assert combined.score(unseen, unseen["ill"]) > 0.9
    mirror = MirrorAveraging([together.model(0)]).fit(own, own["ill"])
    np.testing.assert_array_equal(mirror.predict(unseen), together.model(0).predict(unseen))


def test_the_less_noise_the_less_doubt():
    doubts = [
        consortium_model(arrays(), classes=[0, 1], epsilon=epsilon, random_state=0, hide="nothing").learned.doubt
        for epsilon in (0.2, 2.0, 20.0)
    ]
    assert doubts[0] > doubts[1] > doubts[2] > 0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_common_scales_are_near_the_exact_ones_where_noise_is_small(delta):
    found = tables(members=4, rows=5000)
    together = learned_together(
        ScalerTerms(SCHEMA, 8.0, delta, 4), [MemberTable(each) for each in found], random_state=0, hide="nothing"
    )
    scaler = scaler_of(together.found[1])
    assert type(scaler) is PrivateStandardScaler
    np.testing.assert_allclose(scaler.mean_, [60, 1], atol=0.15)
    # Deviations are drawn together by a public part, in units of the declared ranges.
    np.testing.assert_allclose(scaler.scale_, [8, 0.5], rtol=0.15)
    transformed = scaler.transform(found[0][["age", "dose"]].assign(ill=0))
    assert abs(transformed.mean()) < 0.1


def test_common_scales_become_centres_and_scales_of_the_schema():
    changed = with_common_scales(SCHEMA, {"age": 60.0, "dose": 1.0}, {"age": 8.0, "dose": 1.0})
    age, dose = changed.columns["age"], changed.columns["dose"]
    assert (age.low, age.high, age.centre, age.scale) == (36.0, 84.0, 60.0, 8.0)
    assert (dose.low, dose.high) == (-2.0, 4.0)
    assert changed.target == "ill"
    filled = Schema({"age": Number(0.0, 100.0, missing=1.0), "ill": Label((0, 1))})
    assert with_common_scales(filled, {"age": 60.0}, {"age": 8.0}).columns["age"].missing == 36.0
    mixed = Schema({"kind": Category(("a", "b")), "ill": Label((0, 1))})
    with pytest.raises(InvalidParameter):
        with_common_scales(mixed, {"kind": 0.0}, {"kind": 1.0})


def test_a_pure_model_with_scales_splits_epsilon():
    reading = ModelReading.of_schema(SCHEMA, fit_intercept=False)
    plan = LearningTerms("one-sum", reading, 1.0, 0.0, 4, scaler_share=0.25).plan(240)
    parts = [*plan.scaler, *plan.sums]
    assert all(isinstance(part, PureShares) for part in parts)
    assert sum(part.epsilon for part in parts) == pytest.approx(1.0)
    assert float(plan.cost.epsilon) == 1.0


def test_a_file_gives_the_same_model_as_a_table(tmp_path):
    found = tables(members=3)
    paths = []
    for number, table in enumerate(found):
        paths.append(tmp_path / f"{number}.parquet")
        table.to_parquet(paths[-1])
    settings = {
        "schema": SCHEMA,
        "epsilon": 2.0,
        "delta": 1e-6,
        "scaler_share": 0.2,
        "random_state": 4,
        "hide": "nothing",
    }
    held, read = (consortium_model(members, **settings) for members in (found, paths))
    np.testing.assert_array_equal(held.learned.parameters, read.learned.parameters)


def test_intercepts_survive_the_way_into_the_model():
    """The constant column of the training is that of shortened rows; the model's is that of its schema."""
    found = tables(members=4, rows=400)
    together = consortium_model(found, schema=SCHEMA, epsilon=8.0, delta=1e-6, scaler_share=0.2, random_state=0)
    learned, model = together.learned, together.model()
    assert learned.reading.bias > 0
    rows = learned.reading.finished(learned.reading.matrix(found[0], None))[:, :-1]
    scores, lengths = rows @ learned.parameters, np.linalg.norm(rows[:, :2], axis=1)
    short = lengths < learned.reading.norm_bound * 0.999
    np.testing.assert_allclose(model.decision_function(found[0])[short], scores[short], atol=1e-6)


def test_persons_are_counted_and_protected():
    table = tables(members=3, rows=30)
    by_person = Schema(dict(SCHEMA.columns), Person("who", 2))
    members = [each.assign(who=np.arange(30) // 2) for each in table]
    together = consortium_model(members, schema=by_person, epsilon=5.0, random_state=0, hide="nothing")
    assert together.model().guarantee_.unit == "person"
    one = LearningTerms("one-sum", ModelReading.of_schema(SCHEMA, fit_intercept=True), 5.0, 0.0, 3).plan(90)
    two = LearningTerms("one-sum", ModelReading.of_schema(by_person, fit_intercept=True), 5.0, 0.0, 3).plan(90)
    assert two.sums[0].sensitivity == 2 * one.sums[0].sensitivity
    crowded = [each.assign(who=0) for each in table]
    assert consortium_model(crowded, schema=by_person, epsilon=5.0, random_state=0, hide="nothing").model().n_rows_ == 6


def test_what_is_wrong_is_said_before_anything_is_charged(tmp_path):
    account = Ledger(tmp_path / "l.db").account("a", epsilon=9.0)
    good = arrays(members=1)[0]
    for bad in [
        (np.array([[np.nan, 0.0]]), [1]),
        (np.array([[0.5, 0.0]]), [7]),
        (np.array([[0.5, 0.0]]), [1, 0]),
        (np.empty((0, 2)), []),
        (np.ones((1, 3)), [1]),
    ]:
        with pytest.raises(DataError):
            consortium_model([good, bad], classes=[0, 1], epsilon=1.0, accounts=[account, account])
    assert account.spent().epsilon == 0


@pytest.mark.parametrize(
    "change",
    [
        {"method": "magic"},
        {"method": "descent"},
        {"scaler_share": 0.95, "delta": 1e-6},
        {"scaler_share": 0.2},
        {"colluders": 0},
        {"colluders": 4},
    ],
)
def test_terms_that_cannot_hold_are_refused(change):
    with pytest.raises(InvalidParameter):
        terms(**change)


def test_two_classes_and_a_label_are_needed():
    with pytest.raises(SchemaError):
        ModelReading.of_schema(Schema({"a": Number(0.0, 1.0)}), fit_intercept=True)
    with pytest.raises(InvalidParameter):
        ModelReading.of_schema(Schema({"a": Number(0.0, 1.0), "l": Label(("x", "y", "z"))}), fit_intercept=True)
    with pytest.raises(InvalidParameter):
        ModelReading.of_arrays(2, 1.0, [1, 1], fit_intercept=True)
    with pytest.raises(InvalidParameter):
        consortium_model(arrays(), epsilon=1.0)
    with pytest.raises(SchemaError):
        _ = MomentReading(Schema({"k": Category(("a", "b"))})).numbers


def test_a_scaler_is_not_a_model_and_a_model_no_scaler():
    made = [MemberTable(each) for each in tables()]
    scales = learned_together(ScalerTerms(SCHEMA, 3.0, 0.0, 4), made, random_state=0, hide="nothing")
    model = learned_together(terms(), [MemberTable(*pair) for pair in arrays()], random_state=0, hide="nothing")
    with pytest.raises(InvalidParameter):
        model_of(scales.found[0])
    with pytest.raises(InvalidParameter):
        scaler_of(model.found[0])
    with pytest.raises(InvalidParameter):
        _ = scales.learned


def test_recipes_come_from_public_numbers_alone():
    """More noise, fewer steps; more known shares count as fewer rows; the scaler's part is taken off."""
    few = terms("descent", 0.1, 1e-6).plan(500).recipe
    many = terms("descent", 1.0, 1e-6).plan(50_000).recipe
    assert (few.steps, few.averaged) == (3, 1)
    assert many.steps > few.steps
    assert terms("descent", 0.5, 1e-6, members=10, colluders=9).plan(5000).recipe.learning_rate <= (
        terms("descent", 0.5, 1e-6, members=10, colluders=1).plan(5000).recipe.learning_rate
    )
    assert terms("descent", 1.0, 1e-6).plan(777) == terms("descent", 1.0, 1e-6).plan(777)
    assert spread_reach(1) == 1.0
    assert PLANE.joint_norm == 1.0


def test_nothing_private_is_shown_by_representations():
    table = MemberTable(np.array([[12345.678, 0.0]]), [1])
    assert "12345" not in repr(table)


def test_a_hundred_members_in_one_process_under_masks():
    members = arrays(members=100, rows=8)
    together = consortium_model(members, classes=[0, 1], epsilon=2.0, fit_intercept=False, colluders=34)
    assert together.sums == 2
    assert len({together.model(number).coef_.tobytes() for number in (0, 57, 99)}) == 1
    X, y = arrays(seed=6, rows=300)[0]
    assert together.model().score(X, y) > 0.8


def test_models_and_scalers_of_tables_can_be_released_and_loaded(tmp_path):
    """With common scales the model's schema is the declared one with public centres and scales."""
    accounts = [Ledger(tmp_path / f"{number}.db").account("a", epsilon=9.0, delta=1e-5) for number in range(4)]
    members, key = tables(rows=200), Ed25519PrivateKey.generate()
    together = consortium_model(members, schema=SCHEMA, epsilon=4.0, delta=1e-6, scaler_share=0.2, accounts=accounts)
    scales = learned_together(ScalerTerms(SCHEMA, 4.0, 0.0, 4), [MemberTable(each) for each in members], accounts)
    model, scaler = together.model(1), scaler_of(scales.found[2], accounts[2])
    for learner, path in ((model, tmp_path / "model.sudare"), (scaler, tmp_path / "scaler.sudare")):
        Release.of(learner).save(path, key=key)
    loaded = Release.load(tmp_path / "model.sudare", trusted=[key.public_key()]).model()
    np.testing.assert_array_equal(loaded.predict(members[3]), model.predict(members[3]))
    again = Release.load(tmp_path / "scaler.sudare", trusted=[key.public_key()]).model()
    np.testing.assert_array_equal(again.transform(members[3]), scaler.transform(members[3]))


def test_every_account_pays_for_its_own_members_file(tmp_path):
    places = [tmp_path / f"{name}.parquet" for name in "ab"]
    for place in places:
        pd.DataFrame({"x": [-1.0, 1.0], "y": ["no", "yes"]}).to_parquet(place)
    schema, ledger = Schema({"x": Number(-4, 4), "y": Label(("no", "yes"))}), Ledger(tmp_path / "ledger.db")
    accounts = [ledger.account(name, epsilon=9.0, source=tmp_path / name) for name in ("meadow", "harp")]
    with pytest.raises(SourceMismatch):
        consortium_model(places, schema=schema, epsilon=1.0, accounts=accounts, hide="nothing", colluders=1)
    named = [ledger.account(name, epsilon=9.0) for name in ("quince", "violin")]
    consortium_model(places, schema=schema, epsilon=1.0, accounts=named, hide="nothing", colluders=1)
    assert [ledger.account(each.name).terms.bound for each in named] == [str(place.resolve()) for place in places]
