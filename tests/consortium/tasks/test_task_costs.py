"""Learners of tasks: a value for every parameter from the agreement or its constants, and a promise that is what is charged."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from sudare.consortium import Agreement, CensusTask, DictionaryTask, LearningTask, ModelsTask, ScalerTask, Task
from sudare.consortium.tasks.definitions import check_parameters
from sudare.consortium.tasks.task_activities import learning_terms
from sudare.consortium.tasks.task_costs import check_plannable, dictionary_of, learner_of, promise_of
from sudare.consortium.tasks.task_defaults import DICTIONARY_DEFAULTS, LEARNER_DEFAULTS, LEARNING_DEFAULTS
from sudare.dictionary import PatternDictionary
from sudare.errors import AgreementError, InvalidParameter
from sudare.privacy import Ledger
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.learner_registry import LEARNERS, learner_class
from sudare.schema import Number, Person, Schema
from tests.consortium.clinics import SCHEMA, patients

TARGET = Schema({"age": Number(0.0, 100.0), "pressure": Number(80.0, 200.0)}, target="pressure")
# What text cannot describe (a loss, a function, released files), tables and quantiles of one member's own rows, and what is in papers: for own data.
NO_TASK = {"GibbsPosterior", "GroupedTable", "PrivateExponentialWeights", "PrivateNetwork", "PrivateQuantiles"} | {
    name for name, module in LEARNERS.items() if module.startswith("sudare.papers.")
}
NAMED = {"epsilon", "delta", "schema", "account", "random_state"}


def schema_for(learner: str) -> Schema:
    return TARGET if learner.endswith(("Ridge", "Regressor")) else SCHEMA


def task_for(learner: str, **parameters: Any) -> ModelsTask:
    return ModelsTask("task", learner, 0.5, 1e-6 if takes_delta(learner) else 0.0, parameters=parameters)


def takes_delta(learner: str) -> bool:
    return "delta" in inspect.signature(learner_class(learner)).parameters


class Recorded:
    """Stands for a learner's class and keeps what it was built with."""

    def __init__(self, learner: type) -> None:
        self.__signature__ = inspect.signature(learner)

    def __call__(self, **values: Any) -> dict[str, Any]:
        return values


@pytest.mark.parametrize("learner", sorted(set(LEARNERS) - NO_TASK))
def test_every_parameter_is_given_whatever_the_constructors_defaults(
    learner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    signature = inspect.signature(learner_class(learner)).parameters
    assert set(LEARNER_DEFAULTS[learner]) == set(signature) - NAMED
    monkeypatch.setattr("sudare.consortium.tasks.task_costs.learner_class", lambda name: Recorded(learner_class(name)))
    task = task_for(learner)
    values = learner_of(task, schema_for(learner), None)
    assert set(values) == set(signature)
    assert (values["epsilon"], values.get("delta", 0.0)) == task.cost
    assert values.get("neighbours", "replace-one") == "replace-one"
    for name, value in LEARNER_DEFAULTS[learner].items():
        if isinstance(value, int | float | str):
            changed = learner_of(task_for(learner, **{name: value}), schema_for(learner), None)
            assert changed == values


def test_census_and_dictionary_likewise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.consortium.tasks.task_costs.learner_class", lambda name: Recorded(learner_class(name)))
    values = learner_of(CensusTask("census", ("age",), 2.0), SCHEMA, None)
    assert set(values) == set(inspect.signature(learner_class("RecordPerturbation")).parameters)
    assert (values["epsilon"], list(values["schema"].columns)) == (2.0, ["age"])
    signature = inspect.signature(PatternDictionary).parameters
    assert set(DICTIONARY_DEFAULTS) == set(signature) - NAMED - {"n_patterns", "colluders"}
    monkeypatch.setattr("sudare.dictionary.PatternDictionary", Recorded(PatternDictionary))
    for task in (DictionaryTask("wear", 3, epsilon=1.0, delta=1e-6), DictionaryTask("patterns", 3, True)):
        values: Any = dictionary_of(task, SCHEMA)
        assert set(values) == set(signature)
        assert (values["n_patterns"], values["epsilon"], values["delta"]) == (3, None, None)


def test_learning_likewise() -> None:
    agreement = clinics_agreement(LearningTask("risk", "descent", 1.0, 1e-6), ScalerTask("scales", 0.5, 1e-7))
    for task in agreement.tasks:
        terms = learning_terms(task, agreement)
        assert (terms.epsilon, terms.delta, terms.members, terms.colluders) == (*task.cost, 3, 2)
    terms = learning_terms(agreement.task("risk"), agreement)
    told = (terms.reading.encoding, terms.reading.bias != 0, terms.scaler_share)
    assert told == ("centred", False, LEARNING_DEFAULTS["scaler_share"])
    assert set(LEARNING_DEFAULTS) == {"encoding", "fit_intercept", "norm_bound", "scaler_share"}


def clinics_agreement(*tasks: Task) -> Any:
    from sudare.consortium import Agreement, Budget, MemberEntry

    members = tuple(
        MemberEntry(name, f"{number}{number}" * 32, Budget(9.0, 1e-3)) for number, name in enumerate("abc", 1)
    )
    return Agreement("clinics", SCHEMA, members, tasks)


def test_a_parameter_that_the_format_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="`later` is not a parameter"):
        learner_of(ModelsTask("ages", "PrivateMean", 1.0, parameters={"later": 1}), SCHEMA, None)


def test_a_delta_where_there_is_none() -> None:
    with pytest.raises(InvalidParameter, match="pure ε"):
        learner_of(ModelsTask("rows", "RecordPerturbation", 1.0, 1e-6), SCHEMA, None)


@pytest.mark.parametrize(
    "task",
    [
        ModelsTask("means", "GibbsMean", 1.0),
        ModelsTask("draws", "GibbsRidge", 1.0),
        ModelsTask("net", "PrivateMLPClassifier", 1.0),
        ModelsTask("net", "PrivateMLPRegressor", 1.0, parameters={"approach": "gradient"}),
    ],
    ids=lambda task: task.learner,
)
def test_a_task_that_needs_a_delta_cannot_be_signed_without(task: ModelsTask) -> None:
    with pytest.raises(AgreementError, match="delta` is missing or 0"):
        check_parameters(task)


@pytest.mark.parametrize(
    "task",
    [ModelsTask("x", "GibbsPosterior", 1.0, 1e-6), ModelsTask("x", "Nobody", 1.0)],
    ids=lambda task: task.learner,
)
def test_a_learner_that_text_cannot_describe(task: ModelsTask) -> None:
    with pytest.raises(AgreementError, match="learner` is not one of"):
        check_parameters(task)


def test_an_agreement_with_the_former_names_of_parameters_means_the_same() -> None:
    former = {"approach": "gradient", "steps": 7, "rate": 0.5, "physical_batch": 64, "accept_parameter_guarantee": True}
    task = ModelsTask("net", "PrivateMLPClassifier", 1.0, 1e-6, parameters=former)
    check_parameters(task)
    learner = learner_of(task, SCHEMA, None)
    assert (learner.max_iter, learner.learning_rate, learner.max_physical_batch_size) == (7, 0.5, 64)
    assert learner.accept_weak_guarantee
    both = ModelsTask("net", "PrivateMLPClassifier", 1.0, 1e-6, parameters={"steps": 7, "max_iter": 7})
    with pytest.raises(AgreementError, match=r"parameters\.steps` is not a parameter"):
        check_parameters(both)


def test_an_approach_of_a_paper_is_no_task() -> None:
    task = ModelsTask("net", "PrivateMLPClassifier", 0.1, 1e-6, parameters={"approach": "learning_first"})
    for act in (check_parameters, lambda task: learner_of(task, SCHEMA, None)):
        with pytest.raises(AgreementError, match="an approach of paper 002"):
            act(task)


# What is promised is what is charged


PRICED = [
    task_for("GibbsMean"),
    task_for("PrivateMean"),
    task_for("PrivateHistogram"),
    task_for("PrivateHistogram", neighbours="add-remove"),
    task_for("PrivateStandardScaler"),
    task_for("PrivateLogisticRegression"),
    task_for("PrivateLinearSVC"),
    task_for("PrivateSynthesizer"),
    task_for("PrivateSynthesizer", neighbours="add-remove", engine="marginals"),
    task_for("RecordPerturbation"),
    CensusTask("survey", ("age", "smoker"), 1.0),
    pytest.param(task_for("PrivateMLPClassifier", max_iter=2), marks=pytest.mark.long),
]


@pytest.mark.parametrize(
    "task", PRICED, ids=lambda task: f"{getattr(task, 'learner', task.kind)}-{dict(task.parameters)}"
)
def test_a_run_charges_what_was_planned(task: ModelsTask | CensusTask, tmp_path: Path) -> None:
    from sudare.consortium.tasks.task_costs import new_terms, planned_amount

    table = patients(0, rows=80)
    account = Ledger(tmp_path / "ledger.db").account("clinic", epsilon=1e6, delta=0.5)
    learner = learner_of(task, SCHEMA, account)
    learner.fit(table[list(task.columns)] if isinstance(task, CensusTask) else table)
    planned = planned_amount(task, clinics_agreement(task), new_terms(clinics_agreement(task)), lambda: 80)
    spent = account.spent()
    assert planned is not None
    assert spent.epsilon == planned.epsilon
    assert spent.delta <= planned.delta * (1 + 1e-9)


def test_sums_promise_what_stands_in_the_agreement_to_persons_where_there_are_some() -> None:
    def never() -> int:
        raise AssertionError("no promise of a sum depends on the rows of one member")

    persons = Schema(dict(SCHEMA.columns), Person("patient", most_rows=3))
    for task in (
        LearningTask("risk", "one-sum", 1.0),
        ScalerTask("scales", 0.5, 1e-7),
        DictionaryTask("wear", 2, epsilon=1.0, delta=1e-6),
    ):
        assert promise_of(task, SCHEMA, never) == Guarantee(*task.cost)
        assert promise_of(task, persons, never) == Guarantee(*task.cost, unit="person")
    assert promise_of(DictionaryTask("patterns", 2, True), SCHEMA, never) is None
    with pytest.raises(InvalidParameter, match="cannot be priced"):
        promise_of(Unknown("later"), SCHEMA, never)


class Unknown(Task):
    """A kind of task that this version does not know."""

    kind = "later"  # type: ignore[assignment]


def test_a_dictionary_task_of_an_earlier_version_means_the_same() -> None:
    earlier = DictionaryTask("patterns", 2, consent=True, parameters={"most_iterations": 7, "tolerance": 1e-3})
    now = DictionaryTask("patterns", 2, consent=True, parameters={"max_iter": 7, "tol": 1e-3})
    found = [dictionary_of(task, SCHEMA).get_params() for task in (earlier, now)]
    assert found[0]["max_iter"] == 7
    assert {name: repr(value) for name, value in found[0].items()} == {
        name: repr(value) for name, value in found[1].items()
    }


@pytest.mark.parametrize(
    ("family", "low", "high", "message"),
    [
        ("poisson", 0.5, 9.0, "whole numbers"),
        ("gamma", 0.0, 9.0, "above 0"),
        ("poisson", 0, 9, None),
        ("gamma", 1, 9, None),
    ],
)
def test_bounds_that_do_not_suit_a_private_dictionary_are_refused_before_anybody_signs(
    family: str, low: float, high: float, message: str | None
) -> None:
    task = DictionaryTask("wear", 2, epsilon=2.0, delta=1e-6, parameters={"family": family})
    schema = Schema({"calls": Number(low, high)})
    if message is None:
        assert promise_of(task, schema, lambda: 100) == Guarantee(2.0, 1e-6)
    else:
        with pytest.raises(InvalidParameter, match=message):
            promise_of(task, schema, lambda: 100)


@pytest.mark.parametrize(
    ("layers", "fits"),
    [((1000, 1000), True), ((4096, 4096), False), ((2**16, 2**16), False), ((2**16, 200), True), ((2**16, 300), False)],
)
def test_layers_that_are_too_large_together_are_refused_before_anybody_signs(
    layers: tuple[int, ...], fits: bool
) -> None:
    task = LearningTask("risk", "network", 1.0, 1e-6, parameters={"hidden_layer_sizes": layers})
    agreement = Agreement("clinics", SCHEMA, tasks=(task,))
    if fits:
        check_plannable(agreement)
    else:
        with pytest.raises(AgreementError, match=r"tasks\.risk.*more than 2²⁴ weights"):
            check_plannable(agreement)
