"""Methods of the product's linear models side by side."""

from __future__ import annotations

import numpy as np

from sudare.papers.p000_weak_learners import logistic_regression_results

QUIET = lambda text: None  # noqa: E731


def test_every_method_has_its_number_and_descent_needs_delta(tiny_data, monkeypatch):
    monkeypatch.setattr(logistic_regression_results, "EPSILONS", (1.0,))
    found = logistic_regression_results.methods_compared(QUIET, 2)
    table = logistic_regression_results.methods_table(found)
    assert len(table.rows) == 5 * 2
    for row in table.rows:
        assert (row[-1] is None) == (row[1] == 0)
        assert all(0 <= cell.value <= 1 for cell in row[3:-1])


def test_splits_hold_no_row_twice(tiny_data):
    for source in logistic_regression_results.sources()[:2]:
        rows, labels, test_rows, test_labels = source.split(np.random.default_rng(0))
        assert rows.index.is_unique
        assert len(rows) == len(labels)
        assert len(test_rows) == len(test_labels) == 150
        assert "income" not in rows.columns


def test_sampled_descent_has_a_row_for_every_rate(monkeypatch):
    monkeypatch.setattr(logistic_regression_results, "SAMPLING_RATES", (None, 0.5))
    table = logistic_regression_results.sampling_table(logistic_regression_results.sampling_compared(QUIET, 2))
    assert [row[0] for row in table.rows] == ["all", "each with probability 0.5"]
    assert all(row[1].value > 0.8 for row in table.rows)
