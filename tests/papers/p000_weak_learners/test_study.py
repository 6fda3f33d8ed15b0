"""The study of paper 000 on tiny settings: its simulations are the product's classes, and its splits are honest."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from sudare.experts import MirrorAveraging, OwnPlusConsensus
from sudare.linear import PrivateLogisticRegression
from sudare.papers import load_study
from sudare.papers import p000_weak_learners as aggregation
from sudare.papers.adult import ADULT_SCHEMA, LABEL
from sudare.papers.p000_weak_learners import adult_accuracy as census
from sudare.papers.p000_weak_learners import learning_tasks as tasks
from sudare.papers.p000_weak_learners import simulated_members
from sudare.papers.repetitions import Measurements
from sudare.papers.study import result_values
from sudare.schema import Number
from tests.experts.members import Line

QUIET = lambda text: None  # noqa: E731


@pytest.fixture
def task():
    return tasks.synthetic(np.random.default_rng(0), nodes=8, rows=160, test=60)


def others(messages, member):
    return [Line(row) for row in np.delete(messages, member, axis=0)]


def test_receivers_are_those_of_the_product(task):
    messages = simulated_members.mean_messages(task, 5.0, np.random.default_rng(1))
    averaged, combined = (
        simulated_members.mirror_averaged(task, messages),
        simulated_members.own_and_others(task, messages),
    )
    for member in (0, 5):
        rows, labels = task.rows[member], task.labels[member] > 0
        mirror = MirrorAveraging(others(messages, member), temperature=3.0).fit(rows, labels)
        np.testing.assert_allclose(mirror.weights_ @ np.delete(messages, member, axis=0), averaged[member], atol=1e-10)
        own = OwnPlusConsensus(others(messages, member), fit_intercept=False).fit(rows, labels)
        np.testing.assert_allclose(own.coef_, combined[member], rtol=1e-5, atol=1e-6)


def test_synthetic_rows_are_as_printed():
    task = tasks.synthetic(np.random.default_rng(2))
    assert task.rows.shape == (100, 50, 10)
    np.testing.assert_allclose(np.linalg.norm(task.rows, axis=2), 1)
    assert (task.test_labels == 1).sum() == (task.test_labels == -1).sum() == 500


def test_patients_are_dealt_out_as_printed_and_none_is_tested_on_that_was_trained_on():
    task = tasks.breast_cancer(np.random.default_rng(3))
    assert task.rows.shape == (10, 40, 30)
    assert ((task.test_labels == 1).sum(), (task.test_labels == -1).sum()) == (85, 84)
    assert np.linalg.norm(task.rows, axis=2).max() <= 1 + 1e-12
    trained = {row.tobytes() for row in task.rows.reshape(-1, 30)}
    distinct = len(np.unique(load_breast_cancer().data, axis=0))
    assert distinct == 569
    assert not trained & {row.tobytes() for row in task.test_rows}


def test_public_centres_and_scales_are_near_what_they_stand_for():
    found = load_breast_cancer().data
    np.testing.assert_allclose(found.mean(axis=0), tasks._CANCER_CENTRES, rtol=0.06)
    np.testing.assert_allclose(found.std(axis=0), tasks._CANCER_SCALES, rtol=0.06)


def test_a_receiver_without_messages_gains_nothing(task):
    alone = simulated_members.own_without_messages(task)
    nothing = np.zeros((8, 10))
    np.testing.assert_allclose(simulated_members.own_and_others(task, nothing), alone, atol=1e-8)


def test_the_same_seed_gives_the_same_numbers(task):
    one, two = Measurements(), Measurements()
    for found in (one, two):
        aggregation.note_winning_recipe(found, task, (1.0,), np.random.default_rng(5))
    assert one == two


@pytest.fixture
def tiny_data(monkeypatch):
    """Made-up tables in place of Pima and Adult: the columns and sizes that the study expects, or fewer rows."""
    generator = np.random.default_rng(6)
    pima = pd.DataFrame(np.abs(generator.normal(size=(768, 8))) * tasks._PIMA_CENTRES, columns=list("abcdefgh"))
    pima["diabetes"] = (np.arange(768) < 268).astype(int)
    monkeypatch.setattr(tasks, "data", lambda name: pima)
    tables = {"adult-train": made_up_adult(300, generator), "adult-test": made_up_adult(150, generator)}
    monkeypatch.setattr(census, "data", tables.get)
    return tables


def made_up_adult(rows, generator):
    """Any values that the schema allows; those who work long earn more."""
    columns = {}
    for name, column in ADULT_SCHEMA.features.items():
        if isinstance(column, Number):
            columns[name] = generator.uniform(column.low, column.high, rows)
        else:
            columns[name] = generator.choice(column.values, rows)
    table = pd.DataFrame(columns)
    table["income"] = np.where(table["hours-per-week"] > 50, ">50K", "<=50K")
    return table.assign(fnlwgt=1)


def test_a_whole_run(monkeypatch, tiny_data):
    monkeypatch.setattr(aggregation, "EPSILONS", (0.5, 1.1))
    monkeypatch.setattr(aggregation, "REAL_EPSILONS", (1.0,))
    monkeypatch.setattr(aggregation, "CHEAP_FACTOR", 1)
    monkeypatch.setattr(aggregation, "ADULT_FACTOR", 1)
    monkeypatch.setattr(aggregation, "synthetic", functools.partial(tasks.synthetic, nodes=6, rows=120, test=40))
    study = load_study("000")
    result = study.run(QUIET, 2)
    assert len(result.tables) == 8
    assert len(result.panels) == 4
    for table in result.tables:
        assert "replace-one" in table.says.lower() or "no privacy" in table.says
        assert all(len(row) == len(table.columns) for row in table.rows)
    values = result_values("000", study, result)
    assert values["tables"][3]["rows"][0][1]["repeats"] == 2


def test_one_site_is_the_estimator_as_it_comes(tiny_data):
    """Its numbers are those of a plain fit with the seeds that the study announces; splits hold every row once."""
    train, test = tiny_data["adult-train"], tiny_data["adult-test"]
    found = census.one_site(QUIET, 2)
    assert found.official.repeats == found.fresh.repeats == 2
    generator = np.random.default_rng((census.OFFICIAL_SEED, 1))
    seed = [int(generator.integers(2**31)) for _ in range(4)][3]
    model = PrivateLogisticRegression(0.1, 1e-6, schema=ADULT_SCHEMA, encoding="binned", random_state=seed).fit(train)
    assert model.score(test) == found.official.values("logistic, binned, δ = 1e-06", 0.1)[1]
    for part in (found.official, found.fresh):
        assert set(part.numbers) == {(one.name, epsilon) for one in census.SETTINGS for epsilon in census.EPSILONS}
    assert set(found.without_privacy) == {"centred", "binned"}


def test_fresh_splits_deal_out_every_row_once(tiny_data, monkeypatch):
    seen = []

    def measured(tell, title, split, base_seed, repeats):
        seen.append([split(np.random.default_rng((base_seed, repeat))) for repeat in range(repeats)])
        return Measurements()

    monkeypatch.setattr(census, "measured", measured)
    census.one_site(QUIET, 3)
    official, fresh = seen
    for train, test in official:
        assert train.index.equals(pd.RangeIndex(300))
        assert len(test) == 150
    for train, test in fresh:
        assert (len(train), len(test)) == (300, 150)
        assert sorted([*train.index, *test.index]) == list(range(450))
        assert LABEL in train.columns
        assert "fnlwgt" not in train.columns
    assert len({tuple(train.index) for train, _ in fresh}) == 3


@pytest.mark.parametrize(
    "send",
    [simulated_members.mean_messages, simulated_members.objective_messages, simulated_members.chaudhuri_messages],
)
def test_messages_are_the_same_for_the_same_generator(task, send):
    one, two = (send(task, 0.5, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert one.shape == (8, 10)


@pytest.mark.long
def test_accuracy_of_own_plus_consensus(monkeypatch):
    """On the paper's synthetic task at these ε: accuracy, and a gain over the same receiver without messages."""
    least = {0.1: 0.95, 0.5: 0.96, 1.1: 0.985, 1.9: 0.99}
    monkeypatch.setattr(aggregation, "EPSILONS", tuple(least))
    found = aggregation.winning(QUIET, 4)
    for epsilon, accuracy in least.items():
        assert found.at("combined", epsilon).value >= accuracy
        assert found.at("gain", epsilon).value >= 0
    assert found.at("better", 1.9).value >= 95


def test_ten_repetitions_unless_told_otherwise():
    assert load_study("000").repeats >= 10
