"""The study of paper 002 on tiny settings; the census is made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sudare.papers import load_study
from sudare.papers.p002_networks import (
    canaries,
    census,
    corrected_results,
    diffprivlib_results,
    equal_epsilon_results,
    figure5,
    theorem_4_audit,
)
from sudare.papers.study import StudyResult, StudySettings, result_values
from sudare.privacy.guarantee import Guarantee
from sudare.report.plots import rendered
from tests.papers.made_up_tables import made_up_adult

QUIET = lambda text: None  # noqa: E731


@pytest.fixture
def tiny(monkeypatch):
    """A made-up census, small networks, and few of everything."""
    generator = np.random.default_rng(6)
    tables = {"adult-train": made_up_adult(400, generator), "adult-test": made_up_adult(200, generator)}
    for name, table in tables.items():
        tables[name] = table.assign(**{"education-num": 9, "native-country": "Japan"})
    tables["adult-train"].loc[0, "workclass"] = None
    monkeypatch.setattr(census, "data", tables.get)
    monkeypatch.setattr(corrected_results, "HIDDEN", (8,))
    monkeypatch.setattr(equal_epsilon_results, "EXPECTED_ROWS", 400)
    monkeypatch.setattr(equal_epsilon_results, "SYNTHETIC_ROWS", 1000)
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


TINY = replace(
    figure5.PRINTED_SETTING,
    sgd=replace(figure5.PRINTED_SETTING.sgd, epochs=2),
    hidden=(4,),
    epsilons=(0.3, 100.0),
)


def test_figure_5_is_in_the_printed_setting():
    setting = figure5.PRINTED_SETTING
    assert (setting.sgd.epochs, setting.sgd.batch_size, setting.sgd.learning_rate) == (500, 50, 0.01)
    assert (setting.sgd.regularization, setting.sgd.descent, len(setting.hidden)) == (0.001, "printed", 4)
    assert len(census.PAPER_SCHEMA.features) == 14
    assert setting.sizes[0] == 105
    low, high = census.PAPER_SCHEMA.bounds("scaled")
    assert (set(low), set(high)) == ({0.0}, {1.0})


def test_figure_5_tells_both_guarantees_and_both_measures(tiny):
    found = figure5.measured(QUIET, 2, TINY)
    table = figure5.table(found, TINY)
    assert all(len(row) == len(table.columns) for row in table.rows)
    rows = {row[:2]: row for row in table.rows}
    assert rows["raw data", None][5] == "0.85 and 0.79"
    assert rows["AnonymizingFirst", 0.3][2] == "none holds"
    parameters = 106 * 4 + 5 * 2
    assert found.record_epsilon["LearningFirst", 0.3] == pytest.approx(0.3 * parameters)
    assert rows["LearningFirst", 0.3][2] == rows["AnonymizedLearning", 0.3][2] == "130.2"
    assert rows["LearningFirst", 100.0][2] == "43,400"
    shares = [
        np.mean(split.test["income"] == split.train["income"].mode()[0]) for split in census.folds(2, census.SEED)
    ]
    assert rows["majority", None][3].value == pytest.approx(np.mean(shares))
    assert "replace-one" in table.says.lower()
    values = result_values("002", load_study("002"), StudyResult([table], []), load_study("002").settings(2))
    assert values["tables"][0]["rows"][1][3]["repeats"] == 2
    figure = figure5.drawn(found, TINY)
    assert figure.label == "Figure 5"
    rendered(figure.panels)


def test_only_the_printed_setting_is_called_that():
    titles = {}
    for setting in (figure5.PRINTED_SETTING, figure5.QUICK_SETTING):
        titles[setting] = figure5.table(noted(figure_lines(setting), 2), setting).title
    assert titles[figure5.PRINTED_SETTING] == "Figure 5: the three approaches in the printed setting"
    assert titles[figure5.QUICK_SETTING] == "Figure 5: the three approaches"


def test_what_a_record_is_promised_is_rounded_up():
    assert census.promised_text(1856.2) == "1,857"
    assert census.promised_text(0.1) == "0.1"
    assert census.promised_text(254.60001) == "254.601"


@pytest.mark.long
def test_corrected_approaches_tell_both_guarantees(tiny):
    lines = [replace(line, epsilons=(0.1, 10.0)) for line in corrected_results.LINES if "1 epoch, rows" in line.name]
    found = corrected_results.measured(QUIET, 2, lines)
    table = corrected_results.table(found, lines)
    parameters = 93 * 8 + 9 * 2
    assert [row[1:3] for row in table.rows[1:]] == [(0.1, "76.2"), (10.0, "7,620")]
    assert found.record_epsilon[lines[0].name, 0.1] == pytest.approx(0.1 * parameters)
    printed = figure5.measured(QUIET, 2, TINY)
    figure = figure5.by_record(printed, found, TINY, lines)
    rendered(figure.panels)
    assert {line.name for line in corrected_results.shown(corrected_results.LINES)} == {
        corrected_results.NOISY_DESCENT,
        corrected_results.LOGISTIC,
        corrected_results.MARGINALS,
    }


def test_record_level_asks_every_method_for_the_same_promise(tiny, monkeypatch):
    monkeypatch.setattr(equal_epsilon_results, "MODELS", dict(list(equal_epsilon_results.MODELS.items())[-2:]))
    for name in ("GRADIENT", "PLAIN_GRADIENT"):
        monkeypatch.setattr(equal_epsilon_results, name, equal_epsilon_results.LOGISTIC_SAME)
    found = equal_epsilon_results.measured(QUIET, 2, (1.0,))
    table = equal_epsilon_results.table(found, (1.0,))
    assert [row[0] for row in table.rows] == [*equal_epsilon_results.MODELS, equal_epsilon_results.SYNTHETIC]
    assert table.rows[0][1:3] == ("–", "(1, 1e-5)")
    assert table.rows[1][1:3] == ("1", "(2, 3.719e-5)")
    assert found.accuracy.at(equal_epsilon_results.SYNTHETIC, 1.0).value > 0.5
    network = equal_epsilon_results.network(0.5, 3)
    assert (network.neighbours, network.delta, network.epsilon) == ("add-remove", 1e-5, 0.5)


def test_what_is_concluded_at_the_record_level_is_read_off_the_numbers():
    found = census.ScoresByMethod()
    for epsilon, network in ((0.1, 0.78), (1.0, 0.83)):
        for name, accuracy in (
            (equal_epsilon_results.GRADIENT, network),
            (equal_epsilon_results.PLAIN_GRADIENT, 0.7),
            (equal_epsilon_results.LOGISTIC_CONVERTED, 0.8),
        ):
            for _ in range(2):
                found.note(name, census.Scores(accuracy, 0.5), epsilon)
    text = equal_epsilon_results.differences_text(found, (0.1, 1.0))
    assert "as converted: −0.020 to +0.030 in accuracy, +0.000 to +0.000 in macro-F1" in text
    assert "scaled numbers: +0.080 to +0.130 and +0.000 to +0.000." in text


def test_canaries_are_told_with_what_is_claimed():
    table = canaries.table([audit_of(0.5), audit_of(3.0)])
    assert [row[:2] for row in table.rows] == [(1.0, 0.5), (1.0, 3.0)]
    assert [row[2] for row in table.rows] == ["holds", "refuted"]
    assert canaries.CANARIES >= 1000


def audit_of(bound):
    from sudare.audit import Audit
    from sudare.audit.epsilon_lower_bounds import Counts

    return Audit(Guarantee(1.0, 1e-5, neighbours="add-remove"), bound, "", 0.99, Counts(1, 2, 1, 2))


@pytest.mark.parametrize("quick", [False, True])
def test_a_run_has_every_section(monkeypatch, quick):
    monkeypatch.setattr(figure5, "measured", lambda tell, repeats, setting: noted(figure_lines(setting), 2))
    monkeypatch.setattr(corrected_results, "measured", lambda tell, repeats, lines: noted(corrected_lines(lines), 2))
    monkeypatch.setattr(
        equal_epsilon_results, "measured", lambda tell, repeats, epsilons: noted(record_lines(epsilons), 2)
    )
    monkeypatch.setattr(
        diffprivlib_results,
        "measured",
        lambda tell, repeats, epsilons: noted([(diffprivlib_results.OURS, epsilon) for epsilon in epsilons], 2),
    )
    monkeypatch.setattr(canaries, "measured", lambda tell: [audit_of(0.5)])
    monkeypatch.setattr(theorem_4_audit, "measured", lambda tell: audit_of(1.5))
    settings = StudySettings(2, quick)
    result = load_study("002").run(QUIET, settings)
    assert [figure.label for figure in result.figures] == [
        "Figure 5",
        "Figure 5, by a record's ε",
        "Adult at one ε for records",
    ]
    assert all(("Quick run" in figure.differs) == quick for figure in result.figures)
    assert len(result.tables) == 6
    assert [("Quick run" in table.says) for table in result.tables] == [*[quick] * 4, False, False]
    for table in result.tables:
        assert "replace-one" in table.says.lower() or "add/remove" in table.says.lower()
        assert all(len(row) == len(table.columns) for row in table.rows)
    result_values("002", load_study("002"), result, settings)


def figure_lines(setting):
    return [
        ("raw data", None),
        ("majority", None),
        *((name, e) for name in figure5.APPROACHES for e in setting.epsilons),
    ]


def corrected_lines(lines):
    return [(corrected_results.NO_PRIVACY, None), *((line.name, e) for line in lines for e in line.epsilons)]


def record_lines(epsilons):
    names = (*equal_epsilon_results.MODELS, equal_epsilon_results.SYNTHETIC)
    return [("no privacy", None), *((name, e) for name in names for e in epsilons)]


def noted(lines, repeats):
    """Made-up scores of every line."""
    found = census.ScoresByMethod()
    for name, epsilon in lines:
        for number in range(repeats):
            found.note(name, census.Scores(0.8 + number / 100, 0.7), epsilon)
        if epsilon is not None and name != figure5.ANONYMIZING_FIRST:
            found.record_epsilon[name, epsilon] = epsilon
    return found
