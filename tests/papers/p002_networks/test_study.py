"""The study of paper 002 on tiny settings; the census is made up."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers import load_study
from sudare.papers.p002_networks import canaries, census, errata, figure5, record_level
from sudare.papers.study import StudyResult, StudySettings, result_values
from sudare.privacy.guarantee import Guarantee
from tests.papers.made_up_tables import made_up_adult

QUIET = lambda text: None  # noqa: E731


@pytest.fixture
def tiny(monkeypatch):
    """A made-up census, small networks, and few of everything."""
    generator = np.random.default_rng(6)
    tables = {"adult-train": made_up_adult(400, generator), "adult-test": made_up_adult(200, generator)}
    tables["adult-train"].loc[0, "workclass"] = None
    monkeypatch.setattr(census, "data", tables.get)
    monkeypatch.setattr(figure5, "HIDDEN", (8,))
    monkeypatch.setattr(record_level, "EXPECTED_ROWS", 400)
    monkeypatch.setattr(record_level, "SYNTHETIC_ROWS", 1000)
    return tables


def test_the_study_is_registered():
    study = load_study("002")
    assert study.paper.startswith("002")
    assert study.repeats >= 5


def test_rows_with_gaps_are_left_out_and_folds_share_no_tested_row(tiny):
    official = census.official()
    assert (len(official.train), len(official.test)) == (399, 200)
    assert set(official.train.columns) == set(official.test.columns)
    dealt = list(census.folds(10, 1))
    tested = np.concatenate([split.test.index for split in dealt])
    assert sorted(tested) == list(range(599))
    assert all(len(split.train) + len(split.test) == 599 for split in dealt)
    assert not set(dealt[0].train.index) & set(dealt[0].test.index)


def test_scores_are_accuracy_and_the_mean_f_measure(tiny):
    test = census.official().test
    right = test["income"].to_numpy()
    assert census.scores_of(right, test) == (1.0, 1.0)
    always = census.scores_of(np.full(len(test), "<=50K"), test)
    share = np.mean(right == "<=50K")
    assert always.accuracy == pytest.approx(share)
    assert always.macro_f1 == pytest.approx(share / (1 + share))


def test_figure_5_tells_both_guarantees(tiny):
    lines = [line for line in figure5.LINES if line.name in ("LearningFirst", "AnonymizedLearning, 1 epoch")]
    found = figure5.measured(QUIET, 2, lines, (0.1, 100.0))
    table = figure5.table(found, lines, (0.1, 100.0))
    assert all(len(row) == len(table.columns) for row in table.rows)
    parameters = 93 * 8 + 9 * 2
    assert found.record_epsilon["LearningFirst", 0.1] == pytest.approx(0.1 * parameters)
    assert table.rows[1][:3] == ("LearningFirst", 0.1, pytest.approx(0.1 * parameters))
    assert "replace-one" in table.says.lower()
    values = result_values("002", load_study("002"), StudyResult([table], []), load_study("002").settings(2))
    assert values["tables"][0]["rows"][1][3]["repeats"] == 2


def test_record_level_asks_every_method_for_the_same_promise(tiny, monkeypatch):
    monkeypatch.setattr(record_level, "MODELS", dict(list(record_level.MODELS.items())[-2:]))
    monkeypatch.setattr(record_level, "GRADIENT", record_level.LOGISTIC_SAME)
    found = record_level.measured(QUIET, 2, (1.0,))
    table = record_level.table(found, (1.0,))
    assert [row[0] for row in table.rows] == [*record_level.MODELS, record_level.SYNTHETIC]
    assert table.rows[0][1:3] == ("–", "(1, 1e-05)")
    assert table.rows[1][1:3] == ("1", "(2, 3.7e-05)")
    assert found.accuracy.at(record_level.SYNTHETIC, 1.0).value > 0.5
    network = record_level.network(0.5, 3)
    assert (network.neighbours, network.delta, network.epsilon) == ("add-remove", 1e-5, 0.5)


def test_canaries_are_told_with_what_is_claimed():
    table = canaries.table([audit_of(0.5), audit_of(3.0)])
    assert [row[:2] for row in table.rows] == [(1.0, 0.5), (1.0, 3.0)]
    assert [row[2] for row in table.rows] == ["holds", "refuted"]
    assert canaries.CANARIES >= 1000


def audit_of(bound):
    from sudare.audit import Audit
    from sudare.audit.epsilon_lower_bounds import Counts

    return Audit(Guarantee(1.0, 1e-5, neighbours="add-remove"), bound, "", 0.99, Counts(1, 2, 1, 2))


def test_a_run_has_every_section(monkeypatch, tiny):
    figure = census.ScoresByMethod()
    for part in (figure.accuracy, figure.macro_f1):
        for value in (0.8, 0.81):
            part.note("no privacy", value)
            for line in figure5.LINES:
                for epsilon in figure5.EPSILONS:
                    part.note(line.name, value, epsilon)
                    figure.record_epsilon[line.name, epsilon] = epsilon
    records = census.ScoresByMethod()
    records.note("no privacy", census.Scores(0.85, 0.79))
    for value in (0.84, 0.85):
        for epsilon in record_level.EPSILONS:
            for name in (*record_level.MODELS, record_level.SYNTHETIC):
                records.note(name, census.Scores(value, 0.78), epsilon)
    monkeypatch.setattr(figure5, "measured", lambda tell, repeats: figure)
    monkeypatch.setattr(record_level, "measured", lambda tell, repeats: records)
    monkeypatch.setattr(canaries, "measured", lambda tell: [audit_of(0.5)])
    monkeypatch.setattr(errata, "theorem_4_audit", lambda batches, runs: audit_of(1.5))
    result = load_study("002").run(QUIET, StudySettings(2))
    assert len(result.tables) == 4
    assert len(result.figures) == 3
    for table in result.tables:
        assert "replace-one" in table.says.lower() or "add/remove" in table.says.lower()
        assert all(len(row) == len(table.columns) for row in table.rows)
    result_values("002", load_study("002"), result, StudySettings(2))
