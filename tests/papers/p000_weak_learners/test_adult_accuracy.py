"""One site: the estimator as it comes, on honest splits."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sudare.linear import PrivateLogisticRegression
from sudare.papers.adult_schema import ADULT_SCHEMA, LABEL
from sudare.papers.p000_weak_learners import adult_accuracy
from sudare.papers.repetitions import Measurements

QUIET = lambda text: None  # noqa: E731


def test_one_site_is_the_estimator_as_it_comes(tiny_data):
    """Its numbers are those of a plain fit with the seeds that the study announces; splits hold every row once."""
    train, test = tiny_data["adult-train"], tiny_data["adult-test"]
    found = adult_accuracy.one_site(QUIET, 2)
    assert found.official.repeats == found.fresh.repeats == 2
    generator = np.random.default_rng((adult_accuracy.OFFICIAL_SEED, 1))
    seed = [int(generator.integers(2**31)) for _ in range(4)][3]
    model = PrivateLogisticRegression(0.1, 1e-6, schema=ADULT_SCHEMA, encoding="binned", random_state=seed).fit(train)
    assert model.score(test) == found.official.values("logistic, binned, δ = 1e-06", 0.1)[1]
    for part in (found.official, found.fresh):
        assert set(part.numbers) == {
            (one.name, epsilon) for one in adult_accuracy.SETTINGS for epsilon in adult_accuracy.EPSILONS
        }
    assert set(found.without_privacy) == {"centred", "binned"}


def test_fresh_splits_deal_out_every_row_once(tiny_data, monkeypatch):
    seen = []

    def measured(tell, title, split, base_seed, repeats):
        seen.append([split(np.random.default_rng((base_seed, repeat))) for repeat in range(repeats)])
        return Measurements()

    monkeypatch.setattr(adult_accuracy, "measured", measured)
    adult_accuracy.one_site(QUIET, 3)
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
