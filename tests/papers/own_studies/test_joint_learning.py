"""The study of consortium-wide learning on tiny settings: simulations are the product's classes, and its splits are honest."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.joint import consortium_model
from sudare.papers import load_study
from sudare.papers.own_studies import joint_learning as consortium
from sudare.papers.own_studies.joint_learning import hospitals
from sudare.papers.p000_weak_learners.learning_tasks import synthetic
from sudare.papers.repetitions import Measurements
from sudare.papers.study import Figure, StudyResult, result_values


@pytest.fixture(scope="module")
def task():
    return synthetic(np.random.default_rng(0), nodes=6, rows=240, test=60)


def test_corrections_are_those_of_the_product(task):
    members = [(rows, labels) for rows, labels in zip(task.rows, task.labels, strict=True)]
    together = consortium_model(
        members, classes=[-1, 1], epsilon=3.0, fit_intercept=False, random_state=1, hide="nothing"
    )
    found = hospitals.corrected(task, together)
    for member in (0, 4):
        combined = together.combination(member).fit(*members[member])
        np.testing.assert_allclose(combined.coef_, found[member], rtol=1e-5, atol=1e-6)


def test_patients_are_dealt_out_once_and_none_is_tested_on_that_was_trained_on():
    patients = hospitals.dealt(np.random.default_rng(1))
    assert [len(each) for each in patients.members] == [40] * 10
    assert patients.unseen[hospitals.LABEL].value_counts().to_dict() == {1: 85, 0: 84}
    trained = {index for each in patients.members for index in each.index}
    assert len(trained) == 400
    assert not trained & set(patients.unseen.index)


def test_declared_bounds_are_round_and_hold_nearly_everybody():
    """They are not minima and maxima of the data: some patients may lie outside, and bounds reach beyond what is there."""
    declared = hospitals.schema()
    patients = hospitals.dealt(np.random.default_rng(1))
    for name, column in declared.features.items():
        values = patients.unseen[name].to_numpy()
        assert column.low <= np.quantile(values, 0.05)
        assert column.high >= np.quantile(values, 0.95)
        assert (column.low, column.high) != (values.min(), values.max())


def found_for(names, epsilons, value=0.9):
    found = Measurements()
    for name in names:
        for epsilon in epsilons:
            for offset in (0.0, 0.002):
                found.note(name, value + offset, epsilon)
    for name in ("alone", "pooled"):
        found.note(name, 0.9)
        found.note(name, 0.91)
    return found


def test_tables_and_pictures_are_made():
    joint = found_for((consortium.ONE_SUM, consortium.DESCENT, consortium.CAREFUL), consortium.EPSILONS, 0.996)
    combinations = ("own and others", "averaged means", "averaged as printed")
    single = found_for(combinations, consortium.EPSILONS)
    scaled = found_for(
        [
            f"{name}{more}"
            for name in (hospitals.SCALED, hospitals.BOUNDED)
            for more in ("", ", with own", ", own only")
        ],
        hospitals.EPSILONS,
        0.95,
    )
    public = found_for([hospitals.PUBLIC, f"{hospitals.PUBLIC}, with own", *combinations], hospitals.EPSILONS, 0.94)
    tables = [consortium.synthetic_table(joint, single), consortium.cancer_table(scaled, public)]
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
    figures = [Figure("Both", "", [consortium.synthetic_panel(joint, single), consortium.cancer_panel(scaled, public)])]
    study = load_study("consortium")
    values = result_values("consortium", study, StudyResult(tables, figures), study.settings(2))
    assert [table["title"] for table in values["tables"]] == [table.title for table in tables]
    assert all("eplace-one" in table.says for table in tables)


def test_the_same_seed_gives_the_same_numbers(task, monkeypatch):
    monkeypatch.setattr(consortium, "synthetic", lambda generator: task)
    monkeypatch.setattr(consortium, "EPSILONS", (3.0,))
    one, two = Measurements(), Measurements()
    for found in (one, two):
        found.note("careful", consortium.joint_accuracy(task, 3.0, 1e-6, 2, np.random.default_rng(5)))
        consortium.note_single_models(found, np.random.default_rng(6))
    assert one == two
    assert one.values("careful")[0] > 0.6


@pytest.mark.long
def test_accuracy_of_one_model_of_everybodys_rows():
    """On the synthetic task of paper 000: one pure sum, and descent where 33 shares of the noise may be known."""
    least = {
        consortium.ONE_SUM: {0.1: 0.975, 0.3: 0.996, 0.5: 0.998},
        consortium.CAREFUL: {0.1: 0.96, 0.3: 0.993, 0.5: 0.997},
    }
    found = consortium.repeated(lambda text: None, "", 4, consortium.SYNTHETIC_SEED, consortium.note_joint_models)
    for name, accuracies in least.items():
        for epsilon, accuracy in accuracies.items():
            reached = found.at(name, epsilon)
            assert reached.value > accuracy - 2 * reached.standard_error
