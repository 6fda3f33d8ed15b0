"""Options and forms come from the estimators themselves, and cannot drift from them."""

from __future__ import annotations

import contextlib
import inspect

import pytest

from sudare.errors import InvalidParameter, SchemaError, SudareError, UnknownName
from sudare.privacy.learner_registry import LEARNERS, learner_class
from sudare.requests.field_values import values_of_texts
from sudare.requests.parameter_help import LEFT_OUT, WORDS
from sudare.requests.request_kinds import KINDS, kinds_for, make, with_target
from sudare.schema import Category, Date, Label, Number, Person, Schema

SCHEMA = Schema(
    {"age": Number(0, 100, unit="years"), "stay": Number(0, 30), "ward": Category(("a", "b")), "ill": Label((0, 1))}
)
NUMBERS = Schema({"age": Number(0, 100), "stay": Number(0, 30)})
# Learners that no kind makes, and why.
NO_KIND = {
    "GibbsPosterior": "it takes a loss as a function",
    "PrivateNetwork": "it takes the network as a function",
    "PrivateExponentialWeights": "it takes other members' models, not values",
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_parameter_of_a_learner_is_a_field_or_left_out_for_a_reason(kind):
    for learner in kind.names:
        parameters = set(inspect.signature(learner_class(learner)).parameters)
        fields = {field.name for field in kind.fields if learner in field.applies} - {"target"}
        assert fields == parameters - set(LEFT_OUT) - set(kind.fixed)


def test_only_what_has_one_allowed_value_is_fixed():
    assert {kind.name: kind.fixed for kind in KINDS.values() if kind.fixed} == {"quantiles": ("delta",)}
    with pytest.raises(InvalidParameter, match="delta must be 0"):
        learner_class("PrivateQuantiles")(1.0, delta=1e-6, schema=SCHEMA).fit({"age": [1.0, 2.0]})


def test_every_learner_of_the_product_has_a_kind():
    made = {learner for kind in KINDS.values() for learner in kind.names}
    ours = {name for name, module in LEARNERS.items() if not module.startswith("sudare.papers")}
    assert made | set(NO_KIND) == ours


def test_there_are_no_words_about_parameters_that_nobody_has():
    names = {field.name for kind in KINDS.values() for field in kind.fields}
    assert names == set(WORDS)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_options_of_a_kind_differ_and_choices_hold_the_default(kind):
    assert len({field.option for field in kind.fields}) == len(kind.fields)
    for field in kind.fields:
        assert field.default in field.choices or not field.choices


@pytest.mark.parametrize(
    ("kind", "target", "learner"),
    [
        ("logistic", None, "PrivateLogisticRegression"),
        ("gibbs", None, "GibbsLogisticRegression"),
        ("gibbs", "age", "GibbsRidge"),
        ("network", "ward", "PrivateMLPClassifier"),
        ("network", "age", "PrivateMLPRegressor"),
        ("ridge", "stay", "PrivateRidge"),
    ],
)
def test_the_target_chooses_the_learner(kind, target, learner):
    model = make(kind, SCHEMA, {"target": target, "epsilon": 2.0})
    assert type(model).__name__ == learner
    assert model.epsilon == 2.0
    assert model.schema.target == (target or "ill")


def test_without_a_target_a_gibbs_posterior_is_of_means():
    assert type(make("gibbs", NUMBERS, {})).__name__ == "GibbsMean"


def test_a_category_becomes_the_label_and_the_old_label_a_category():
    moved = with_target(SCHEMA, "ward")
    assert moved.label == "ward"
    assert isinstance(moved.columns["ill"], Category)
    with pytest.raises(SchemaError, match="no column"):
        with_target(SCHEMA, "nothing")


def test_a_column_that_becomes_the_label_follows_no_map():
    columns = {
        "a": Category((0, 1)),
        "b": Category((0, 1), determined_by="a"),
        "c": Category((0, 1), determined_by="a"),
    }
    known = Schema(columns, maps={"b": {0: 0, 1: 1}, "c": {0: 1, 1: 0}}, impossible=[{"a": 0, "c": 0}])
    moved = with_target(known, "b")
    assert (moved.label, moved.maps, moved.impossible) == ("b", {"c": known.maps["c"]}, known.impossible)


@pytest.mark.parametrize(("kind", "schema"), [("logistic", NUMBERS), ("ridge", SCHEMA)])
def test_a_target_that_a_kind_cannot_predict_is_refused(kind, schema):
    with pytest.raises(InvalidParameter, match="--target"):
        make(kind, schema, {})


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_targets_are_those_that_are_not_refused_later(kind):
    schema = Schema(
        {
            **SCHEMA.columns,
            "day": Date(first="2026-01-01", last="2026-12-31"),
            "floor": Category((1, 2), other=2),
            "height": Number(0, 2, missing="indicator"),
        }
    )

    def is_taken(name):
        with contextlib.suppress(SudareError):
            return make(kind, schema, {"target": name, "epsilon": 1.0}) is not None
        return False

    taken = [name for name in schema.columns if is_taken(name)] if kind.is_model else []
    assert kind.targets(schema) == taken
    assert "floor" not in taken
    assert "height" not in taken
    assert ("ward" in taken) == ("label" in kind.learners)
    assert ("age" in taken) == ("number" in kind.learners)


def test_values_of_another_kind_are_refused_in_words_of_the_shell():
    with pytest.raises(UnknownName, match="no --by"):
        make("mean", NUMBERS, {"by": ["age"]})
    with pytest.raises(InvalidParameter, match="--prior-scale"):
        make("gibbs", SCHEMA, {"prior_scale": 2.0})


def test_texts_become_values():
    texts = {"by": ["ward,ill"], "mean_of": ["age", "stay"], "quantile": []}
    table = KINDS["table"]
    values = values_of_texts(
        table, SCHEMA, {**{k: v for k, v in texts.items() if k != "quantile"}, "quantiles": ["0.9, 0.1"]}
    )
    assert values == {"by": ["ward", "ill"], "mean_of": ["age", "stay"], "quantiles": [0.9, 0.1]}
    assert make(table, SCHEMA, values).quantiles == [0.1, 0.9]
    assert make("histogram", SCHEMA, values_of_texts(KINDS["histogram"], SCHEMA, {"bins": ["7"]})).bins == 7
    split = values_of_texts(KINDS["perturbation"], NUMBERS, {"split": ["age=2", "stay=1"], "methods": ["age=laplace"]})
    assert split == {"split": {"age": 2.0, "stay": 1.0}, "methods": {"age": "laplace"}}
    pairs = values_of_texts(KINDS["synthesis"], SCHEMA, {"tree": ["age=ward"]})
    assert pairs == {"tree": [("age", "ward")]}
    ridge = values_of_texts(KINDS["ridge"], SCHEMA, {"regularization": ["0.1"], "fit_intercept": ["no"]})
    assert make("ridge", NUMBERS, {**ridge, "target": "age"}).regularization == 0.1


@pytest.mark.parametrize(
    ("kind", "texts", "told"),
    [
        ("mean", {"epsilon": ["much"]}, "--epsilon must be a number"),
        ("mean", {"epsilon": ["1", "2"]}, "--epsilon takes one value"),
        ("network", {"max_iter": ["1.5"]}, "--max-iter must be a whole number"),
        ("logistic", {"method": ["magic"]}, "--method must be one of auto"),
        ("quantiles", {"intervals": ["maybe"]}, "--intervals must be yes or no"),
        ("synthesis", {"tree": ["age"]}, "--pair takes"),
        ("perturbation", {"split": ["age=1", "age=2"]}, "--split names a column twice"),
    ],
)
def test_texts_that_are_no_values_are_refused_in_words_of_the_shell(kind, texts, told):
    with pytest.raises(InvalidParameter, match=told):
        values_of_texts(KINDS[kind], SCHEMA, texts)


def test_networks_are_not_offered_beside_persons() -> None:
    columns = {"age": Number(0, 90), "ill": Label((0, 1))}
    persons = Schema(columns, Person("patient", 3))
    assert set(KINDS) - set(kinds_for(persons)) == {"network"}
    assert set(kinds_for(Schema(columns))) == set(KINDS)
    with pytest.raises(InvalidParameter, match="Networks protect records") as refused:
        make("network", persons, {"epsilon": 1.0})
    assert "sudare fit logistic" in refused.value.remedy


def test_a_kind_that_predicts_numbers_says_so_of_a_category() -> None:
    schema = Schema({"age": Number(0, 90), "ward": Category(("a", "b"), other="elsewhere")})
    with pytest.raises(InvalidParameter, match="predicts a number, and column 'ward' holds categories") as refused:
        make("ridge", schema, {"target": "ward"})
    assert "label" not in refused.value.remedy
