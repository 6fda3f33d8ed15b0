"""An additive model boosted by a consortium: as one table would give it, the same at every member, charged once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.errors import InvalidParameter, SchemaError
from sudare.joint import BoostingTerms, MemberTable, combination_of, consortium_model, learned_together
from sudare.linear import PrivateAdditiveClassifier
from sudare.privacy import Ledger
from sudare.privacy.release import Release
from sudare.schema import Category, Label, Number, Person, Schema
from tests.joint.kit import SCHEMA, tables

BINS = Schema(
    {
        "age": Number(0.0, 100.0, bins=(45.0, 55.0, 60.0, 65.0, 75.0)),
        "dose": Number(-2.0, 6.0, bins=(0.5, 1.0, 1.5)),
        "ill": Label((0, 1)),
    }
)


def boosted(**changes):
    options = {"epsilon": 1.0, "delta": 1e-6, "method": "boosting", "schema": BINS, "random_state": 0}
    return consortium_model(tables(rows=1000), **{**options, **changes})


def test_members_learn_what_one_table_teaches():
    held_out = tables(members=1, rows=2000, seed=9)[0]
    together = boosted()
    models = [together.model(place) for place in range(4)]
    assert isinstance(models[0], PrivateAdditiveClassifier)
    assert len({model.parameters_.tobytes() for model in models}) == 1
    # The number of rows, the counts, and forty steps.
    assert together.sums == 42
    alone = PrivateAdditiveClassifier(1.0, 1e-6, schema=BINS, random_state=0)
    pooled = alone.fit(pd.concat(tables(rows=1000), ignore_index=True))
    assert models[0].score(held_out) > pooled.score(held_out) - 0.02
    assert set(models[0].shapes()) == {"age", "dose"}


def test_masks_and_no_masks_give_the_same_model():
    plain, masked = (boosted(hide=hide).model().parameters_ for hide in ("nothing", "masks"))
    np.testing.assert_array_equal(plain, masked)


def test_several_classes_are_told_apart():
    random = np.random.default_rng(0)
    schema = Schema({"kind": Category(("a", "b", "c")), "grade": Label((0, 1, 2))})
    members = []
    for _ in range(3):
        grade = random.integers(3, size=2000)
        members.append({"kind": np.array(["a", "b", "c"])[grade], "grade": grade})
    model = consortium_model(
        members, schema=schema, epsilon=1.0, delta=1e-6, method="boosting", random_state=0, hide="nothing"
    ).model()
    assert model.predict({"kind": ["a", "b", "c"]}).tolist() == [0, 1, 2]


def test_a_charged_model_can_be_released_and_loaded(tmp_path):
    accounts = [Ledger(tmp_path / f"{place}.db").account("patients", epsilon=3.0, delta=1e-5) for place in range(4)]
    together = boosted(accounts=accounts, random_state=None, max_bins=8, hide="nothing")
    assert {account.spent().epsilon for account in accounts} == {1.0}
    key = Ed25519PrivateKey.generate()
    model = together.model(1)
    Release.of(model).save(tmp_path / "model.sudare", key=key)
    loaded = Release.load(tmp_path / "model.sudare", trusted=[key.public_key()])
    held_out = tables(members=1, rows=50, seed=9)[0]
    np.testing.assert_array_equal(loaded.model().predict_proba(held_out), model.predict_proba(held_out))
    assert loaded.guarantee.epsilon == 1.0


def test_what_depends_on_rows_per_person_is_planned_for_persons():
    rows = 10_000
    alone = BoostingTerms(BINS, 1.0, 1e-6, 4).plan(rows)
    persons = BoostingTerms(Schema(dict(BINS.columns), Person("id", 3)), 1.0, 1e-6, 4).plan(rows)
    assert persons.facts.count_deviation == pytest.approx(3 * alone.facts.count_deviation)


def test_plans_are_made_of_public_numbers():
    terms = BoostingTerms(BINS, 1.0, 1e-6, 10, 3)
    plan = terms.plan(1000)
    assert plan is terms.plan(1000)
    # Ten shares are in a total where seven would do.
    more = BoostingTerms(BINS, 1.0, 1e-6, 10, 1).plan(1000)
    assert plan.facts.count_deviation == pytest.approx(more.facts.count_deviation * np.sqrt(9 / 7))


def test_what_cannot_hold_is_refused_before_anything_is_charged():
    with pytest.raises(InvalidParameter, match="delta"):
        boosted(delta=0.0)
    with pytest.raises(InvalidParameter, match="declared columns"):
        boosted(schema=None)
    with pytest.raises(InvalidParameter, match="max_bins"):
        boosted(max_bins=1)
    with pytest.raises(InvalidParameter, match="max_bins"):
        BoostingTerms(BINS, 1.0, 1e-6, 4, max_bins=0)
    with pytest.raises(SchemaError, match="label"):
        boosted(schema=Schema({name: column for name, column in SCHEMA.columns.items() if name != "ill"}))


def test_an_additive_model_has_no_linear_combination():
    found = learned_together(
        BoostingTerms(BINS, 1.0, 1e-6, 4), [MemberTable(each) for each in tables()], random_state=0, hide="nothing"
    )
    with pytest.raises(InvalidParameter, match="linear"):
        combination_of(found.found[0])
    with pytest.raises(InvalidParameter, match="linear"):
        _ = found.learned
