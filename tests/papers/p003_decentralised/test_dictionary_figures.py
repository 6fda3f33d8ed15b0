"""The dictionary's studies in small: every table and panel is made, and says what it should."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.dictionary import PatternDictionary
from sudare.papers.p003_decentralised import dictionary_figures as examples
from sudare.papers.p003_decentralised import private_dictionary as private
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth, hard_truth, support_f1
from sudare.papers.study import cell_text
from sudare.report.plots import rendered


def quiet(_):
    """Tell nobody."""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, value in {
        "CHAPTER_ROWS": 60,
        "STARTS": (4,),
        "HARD_ROWS": 60,
        "HARD_START": 5,
        "RECORD_COUNTS": (40,),
        "TEST_ROWS": 100,
    }.items():
        monkeypatch.setattr(examples, name, value)
    for name, value in {"EPSILONS": (2.0, 10.0), "ROWS": 300, "START": 4}.items():
        monkeypatch.setattr(private, name, value)


def texts(table):
    assert all(len(row) == len(table.columns) for row in table.rows)
    return [[cell_text(cell) for cell in row] for row in table.rows]


def test_recovery_counts_the_runs_that_found_three():
    (start, found, *_), (told, *_) = texts(examples.recovery_table(2, quiet))
    assert (start, found) == ("4", "2 of 2")
    assert told.startswith("labels and supports told")


def test_who_knows_labels_and_supports_loses_half_a_nat_a_parameter():
    """Ten means and precisions of each of three patterns and one free weight a member: 33 parameters, each of which costs 1/2N to first order."""
    truth, rows = chapter_truth(), 400
    gaps = [examples.informed_gap(truth, rows, seed, test_rows=4_000) for seed in range(12)]
    assert np.mean(gaps) == pytest.approx(33 / (2 * 3 * rows), rel=0.25)
    fitted = truth.fitted_with_labels(truth.labelled_records(np.random.default_rng(0), 100_000))
    np.testing.assert_allclose(fitted.precisions, truth.precisions, atol=0.03)
    np.testing.assert_array_equal(fitted.precisions == 0, truth.precisions == 0)
    np.testing.assert_allclose(fitted.weights, truth.weights, atol=0.01)


def test_labelled_records_are_those_without_labels():
    truth = chapter_truth()
    first, second = (make(np.random.default_rng(3), 20) for make in (truth.records, truth.labelled_records))
    for plain, (labels, records) in zip(first, second, strict=True):
        np.testing.assert_array_equal(plain, records)
        assert len(labels) == 20


@pytest.mark.long
def test_the_dictionary_is_compared_with_what_members_could_do_otherwise():
    table, panel = examples.few_records_results(2, quiet)
    assert [row[0] for row in texts(table)] == ["40"]
    assert rendered([panel]).startswith(b"<?xml")
    for _, dictionary, own, pooled, _ in table.rows:
        assert dictionary.value < own.value
        assert dictionary.value < pooled.value


@pytest.mark.long
def test_the_hard_case_has_a_table():
    assert len(texts(examples.hard_table(2, quiet))) == 4


@pytest.mark.long
def test_anomalies_have_a_table():
    found = {row[0]: row[1].value for row in examples.anomaly_table(2, quiet, rows=40).rows}
    assert found["dictionary"] > 0.95
    assert 0.3 < found["pooled mixture"] < 0.7


def test_the_private_dictionary_has_a_table_and_pictures(monkeypatch):
    monkeypatch.setattr(private, "private_run", lambda epsilon, seed: private.PrivateRun(3, 0.1 + seed / 10))
    monkeypatch.setattr(private, "own_gap", lambda seed: 0.2)
    table, panels = private.private_results(2, quiet)
    assert [row[0] for row in texts(table)] == ["2.0", "10.0", "none", "own mixture, nothing shared"]
    assert rendered(panels).startswith(b"<?xml")


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "rows"), [(10.0, 400), (None, 60)])
def test_private_runs_are_trainings_with_and_without_epsilon(epsilon, rows):
    run = private.private_run(epsilon, 0, rows=rows)
    assert run.patterns == 3
    assert run.gap < 0.2


def test_members_alone_are_a_baseline():
    assert private.own_gap(0, rows=200) > 0


def test_truths_are_what_the_chapter_prints():
    truth = chapter_truth()
    np.testing.assert_array_equal(truth.precisions[0], [[1.2, 0, 0, 1], [0, 1.2, 1, 0], [0, 1, 1.2, 0], [1, 0, 0, 1.2]])
    np.testing.assert_array_equal(truth.weights @ np.ones(3), np.ones(3))
    hard = hard_truth(np.random.default_rng(0))
    np.testing.assert_allclose(np.diagonal(np.linalg.inv(hard.precisions), axis1=1, axis2=2), 1.0)
    assert np.count_nonzero(hard.weights) == 30


def test_dependencies_of_too_few_patterns_count_as_none():
    fitted = PatternDictionary(1).fit(chapter_truth().records(np.random.default_rng(0), 40))
    assert support_f1(fitted, chapter_truth()) == 0.0
