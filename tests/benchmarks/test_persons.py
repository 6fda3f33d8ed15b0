"""The study of persons: what is committed is of this rule and on its page."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import persons
from sudare.privacy.contribution_bound_selection import candidate_bounds


def test_the_committed_study_is_of_this_rule_and_on_its_page() -> None:
    results = json.loads(persons.RESULTS.read_text("utf-8"))
    assert persons.page_text(results) in persons.PAGE.read_text("utf-8")
    generator = np.random.default_rng(78)
    counts = np.ceil(6 * generator.weibull(0.6, 30_000)).astype(np.int64)
    committed = results["judged"][0]
    assert (committed["rows"], committed["most rows"]) == (counts.sum(), counts.max())
    histogram = np.bincount(np.minimum(counts, persons.LARGEST + 1), minlength=persons.LARGEST + 2)
    chances = persons.law(persons.choice_of_product(), histogram)
    assert chances.sum() == pytest.approx(1)
    reached = np.searchsorted(np.cumsum(chances), [0.05, 0.5, 0.95])
    assert [candidate_bounds(persons.LARGEST)[place] for place in reached] == committed["chosen bounds"]
