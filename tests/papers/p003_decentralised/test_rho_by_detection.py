"""ρ₀ by detection: the candidate with the best scores on labelled records is kept."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.errors import DataError, InvalidParameter
from sudare.papers.p003_decentralised.algorithm1 import CollaborativeDictionary
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth
from sudare.papers.p003_decentralised.rho_by_detection import mean_auc, rho0_by_detection


def labelled_records(generator, rows=200):
    """Usual records of every member, and as many with the first two sensors of other records."""
    usual, others = (chapter_truth().records(generator, rows) for _ in range(2))
    faults = [np.hstack([other[:, :2], own[:, 2:]]) for own, other in zip(usual, others, strict=True)]
    return [(np.concatenate(pair), np.repeat([0, 1], rows)) for pair in zip(usual, faults, strict=True)]


def test_the_best_candidate_is_kept():
    generator = np.random.default_rng(0)
    tables, labelled = chapter_truth().records(generator, 60), labelled_records(generator)
    model = CollaborativeDictionary(3, updates="corrected", random_state=0, max_iter=30)
    choice = rho0_by_detection(model, tables, labelled, (1.0, 300.0, 10.0))
    assert choice.rho0s == (1.0, 10.0, 300.0)
    assert choice.rho0 == choice.rho0s[int(np.argmax(choice.areas))]
    assert mean_auc(choice.best, labelled) == max(choice.areas) > min(choice.areas) + 0.02
    assert model.rho0 == 1.0


def test_every_member_needs_labels_and_there_must_be_a_candidate():
    tables = chapter_truth().records(np.random.default_rng(0), 20)
    with pytest.raises(DataError):
        rho0_by_detection(CollaborativeDictionary(), tables, [])
    with pytest.raises(InvalidParameter):
        rho0_by_detection(CollaborativeDictionary(), tables, [(tables[0], [0] * 20)] * 3, ())
