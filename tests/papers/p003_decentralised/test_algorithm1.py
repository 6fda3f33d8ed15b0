"""The chapter's own learner: what it prunes, what its updates give, and that members agree only where totals are exact."""

from __future__ import annotations

import numpy as np
import pytest

from sudare import Release
from sudare.dictionary.column_families import Poisson
from sudare.errors import DataError, InvalidParameter, NotSolved, SudareError
from sudare.papers.p003_decentralised.algorithm1 import CollaborativeDictionary
from sudare.papers.p003_decentralised.consensus_methods import PaillierConsensus, RandomChunking
from sudare.papers.p003_decentralised.graphs import cycle
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth


@pytest.fixture(scope="module")
def records():
    return chapter_truth().records(np.random.default_rng(0), 300)


def held_out_gap(model, seed=9):
    truth = chapter_truth()
    tests = truth.records(np.random.default_rng(seed), 1000)
    return truth.gap([model.member(s).score_samples(rows) for s, rows in enumerate(tests)], tests)


@pytest.mark.parametrize("updates", ["printed", "sign", "corrected"])
def test_a_large_penalty_prunes_six_patterns_to_three(records, updates):
    model = CollaborativeDictionary(6, rho0=30.0, updates=updates, random_state=0).fit(records)
    assert model.n_patterns_ == 3
    assert np.count_nonzero(model.weights_, axis=1).tolist() == [3, 3, 3]
    assert np.flatnonzero(model.weights_[0]).tolist() == model.indices_.tolist()
    np.testing.assert_allclose(model.weights_.sum(axis=1), 1)


def test_the_printed_sign_costs_more_than_a_nat_a_record(records):
    fitted = {
        updates: held_out_gap(CollaborativeDictionary(6, rho0=30.0, updates=updates, random_state=0).fit(records))
        for updates in ("printed", "sign", "corrected")
    }
    assert fitted["printed"] > 1
    assert fitted["sign"] < 0.1
    assert fitted["corrected"] < fitted["sign"]


def test_the_objective_rises_with_the_corrected_updates(records):
    model = CollaborativeDictionary(6, rho0=30.0, updates="corrected", random_state=1).fit(records)
    kept = model.objective_[3:]
    assert np.all(np.diff(kept) > -1e-6 * len(records) * 300)


def test_members_disagree_where_totals_do(records):
    consensus = RandomChunking(cycle(3), tolerance=1e-3)
    rough = CollaborativeDictionary(3, rho0=30.0, updates="corrected", consensus=consensus, random_state=0, max_iter=8)
    first, second, _ = (state.patterns["precisions"] for state in rough.fit(records).states_)
    assert 1e-5 < np.abs(first - second).max() < 0.2
    exact = CollaborativeDictionary(3, rho0=30.0, updates="corrected", random_state=0, max_iter=8).fit(records)
    assert exact.states_[0].patterns is exact.states_[1].patterns
    np.testing.assert_allclose(rough.weights_, exact.weights_, atol=0.05)


def test_another_exponential_family():
    """(1.14) to (1.17) with Poisson patterns."""
    random = np.random.default_rng(0)
    tables = [
        random.poisson(np.where(random.random((200, 1)) < share, [2.0, 9.0], [12.0, 3.0])) for share in (0.3, 0.8)
    ]
    model = CollaborativeDictionary(2, family=Poisson(), random_state=0).fit(tables)
    assert sorted(model.weights_[:, np.argmin(model.states_[0].patterns["rates"][:, 0])].round(1)) == [0.3, 0.8]
    assert np.isfinite(model.member(0).score_samples(tables[0])).all()


def test_parameters_are_checked(records):
    with pytest.raises(InvalidParameter, match="updates"):
        CollaborativeDictionary(updates="other").fit(records)
    with pytest.raises(InvalidParameter, match="gamma"):
        CollaborativeDictionary(gamma=0.5).fit(records)


def test_it_cannot_be_released(records):
    model = CollaborativeDictionary(3, rho0=30.0, random_state=0).fit(records)
    with pytest.raises((SudareError, TypeError)):
        Release.of(model)


def test_where_algorithm_3_fails_the_advice_works():
    """More columns than records that nearly determine each other."""
    random = np.random.default_rng(0)
    tables = [random.normal(size=(10, 2)) @ random.normal(size=(2, 12)) for _ in range(2)]
    tables = [table + 1e-3 * random.normal(size=table.shape) for table in tables]
    settings = {"n_patterns": 1, "rho0": 1e-3, "max_iter": 3, "random_state": 0}
    with pytest.raises(NotSolved) as refused:
        CollaborativeDictionary(**settings, updates="sign").fit(tables)
    assert "rho0" in refused.value.remedy
    assert "updates='corrected'" in refused.value.remedy
    CollaborativeDictionary(**settings, updates="corrected").fit(tables)
    CollaborativeDictionary(**{**settings, "rho0": 1e3}, updates="sign").fit(tables)


def test_records_are_those_of_the_family():
    """The product's families say what they are about; tables of another kind are refused."""
    tables = [np.array([[1.0, 2.5], [0.0, -1.0]])] * 3
    with pytest.raises(DataError, match="Member 1"):
        CollaborativeDictionary(2, family=Poisson()).fit(tables)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"family": "poisson"}, "family is no exponential family"),
        ({"family": Poisson}, "family is no exponential family"),
        ({"consensus": "chunks"}, "consensus is no way"),
        ({"consensus": PaillierConsensus(cycle(5), 256)}, "the graph has 5 members"),
    ],
)
def test_other_families_and_ways_to_sum_are_named(parameters, words):
    with pytest.raises(SudareError, match=words):
        CollaborativeDictionary(2, **parameters).fit([np.ones((4, 2))] * 3)


def test_records_far_from_zero_need_their_means_subtracted_with_the_printed_updates(records):
    """(1.61) as printed adds twice the square of where records lie; what is said then helps."""
    far = [table + 40 for table in records]
    with pytest.raises(NotSolved) as refusal:
        CollaborativeDictionary(6, rho0=30.0, random_state=0).fit(far)
    assert "Subtract the columns' means" in str(refusal.value)
    mean = np.concatenate(far).mean(axis=0)
    assert CollaborativeDictionary(6, rho0=30.0, random_state=0).fit([table - mean for table in far]).n_patterns_ <= 3
