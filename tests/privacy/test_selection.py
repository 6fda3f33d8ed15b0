"""Private selection as users meet it: one charge, a releasable winner, clear refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.errors import BudgetExceeded, DataError, InvalidParameter, NotCharged, SeededNoiseRefused
from sudare.privacy import Guarantee, Ledger, PrivateHistogram, PrivateMean, Release
from sudare.privacy import selection as room
from sudare.privacy.noise import SeededNoise
from sudare.privacy.selection import select_privately
from sudare.schema import Number, Person, Schema


@pytest.fixture
def account(tmp_path):
    return Ledger(tmp_path / "ledger.db").account("table", epsilon=3.0)


def table(rows: int = 200) -> np.ndarray:
    return np.random.default_rng(0).uniform(0, 100, size=(rows, 1))


def candidates(*bins: int) -> list[PrivateHistogram]:
    return [PrivateHistogram(bounds=(0, 100), bins=count) for count in bins]


def more_bins_are_better(model, X, y):
    return np.full(len(X), len(model.counts_["x0"]) / 10)


def test_charged_once_and_releasable(account, tmp_path):
    selected = select_privately(
        candidates(2, 4, 8), table(), epsilon=1.5, row_scores=more_bins_are_better, account=account
    )
    assert account.spent() == (1.5, 0.0)
    charges = [entry for entry in account.entries() if entry.kind == "charge"]
    assert len(charges) == 1
    assert charges[0].body["what"] == "select_privately"
    assert charges[0].body["purpose"] == "choice among 3 candidates"
    assert selected.guarantee == selected.model.guarantee_ == Guarantee(1.5)
    assert len(selected.model.counts_["x0"]) == (2, 4, 8)[selected.candidate]
    assert selected.model.epsilon == 1.5
    assert selected.model.account is account
    key = Ed25519PrivateKey.generate()
    Release.of(selected.model).save(tmp_path / "winner.sudare", key=key)
    assert Release.load(tmp_path / "winner.sudare", trusted=[key.public_key()]).guarantee == Guarantee(1.5)


def test_clear_winner_wins():
    """With scores 0 and 1 on 2,000 rows noise does not turn the order; only all tries on the worse one do: 15 in 100."""
    wins = [
        select_privately(
            candidates(2, 10),
            table(2000),
            epsilon=4.0,
            row_scores=lambda model, X, y: np.full(len(X), float(len(model.counts_["x0"]) == 10)),
            tries_parameter=100,
            random_state=seed,
        ).candidate
        for seed in range(20)
    ]
    assert sum(wins) >= 12


def test_each_try_gets_its_share(monkeypatch):
    seen = []
    original = PrivateHistogram.fit

    def recorded(self, X, y=None):
        seen.append((self.epsilon, self.account))
        return original(self, X, y)

    monkeypatch.setattr(PrivateHistogram, "fit", recorded)
    made = []
    monkeypatch.setattr(
        room, "Laplace", lambda *arguments, **named: made.append(arguments) or Laplace(*arguments, **named)
    )
    from sudare.privacy.mechanisms import Laplace

    select_privately(
        candidates(2), table(), epsilon=1.0, row_scores=more_bins_are_better, score_share=0.2, random_state=1
    )
    assert set(seen) == {(0.4, None)}
    assert made == [(1.0, 0.1)]


def test_without_account_it_works_but_does_not_leave():
    selected = select_privately(candidates(2, 4), table(), epsilon=1.0, row_scores=more_bins_are_better)
    assert selected.guarantee.valid
    with pytest.raises(NotCharged):
        Release.of(selected.model)


def test_seeded_is_reproducible_and_not_valid():
    first, second = (
        select_privately(candidates(2, 4, 8), table(), epsilon=1.0, row_scores=more_bins_are_better, random_state=7)
        for _ in range(2)
    )
    assert first.candidate == second.candidate
    np.testing.assert_array_equal(first.model.counts_["x0"], second.model.counts_["x0"])
    assert not first.guarantee.valid


def test_person_level():
    schema = Schema({"age": Number(0, 100)}, person=Person("who", 3))
    frame = pd.DataFrame({"age": table()[:, 0], "who": np.arange(200) // 3})
    selected = select_privately(
        [PrivateMean(schema=schema)], frame, epsilon=1.0, row_scores=lambda model, X, y: np.ones(len(X)), random_state=0
    )
    assert selected.guarantee.unit == "person"
    assert room._ScoreNoise(200, 3, 0.5).mechanism.noise_scale == pytest.approx(6.0)


def test_scores_are_clipped_and_nan_is_zero():
    noise = room._ScoreNoise(4, 1, 1e12)
    assert noise.of(np.array([2.0, -1.0, np.nan, 0.5]), SeededNoise(0)) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"candidates": []}, "no candidate"),
        ({"candidates": [PrivateHistogram(delta=1e-6, bounds=(0, 1))]}, "delta > 0"),
        ({"candidates": [PrivateHistogram(neighbours="add-remove", bounds=(0, 1))]}, "replace-one"),
        ({"candidates": [PrivateMean(bounds=(0, 1)), PrivateMean(schema=Schema({"x": Number(0, 1)}))]}, "schemas"),
        ({"score_share": 0.0}, "score_share"),
        ({"score_share": 1.0}, "score_share"),
        ({"tries_parameter": 1}, "tries_parameter"),
        ({"tries_parameter": 2.5}, "tries_parameter"),
        ({"tries_parameter": True}, "tries_parameter"),
    ],
)
def test_refusals_charge_nothing(account, change, words):
    arguments = {"candidates": candidates(2), "epsilon": 1.0, "row_scores": more_bins_are_better, **change}
    with pytest.raises(InvalidParameter, match=words):
        select_privately(X=table(), account=account, **arguments)
    assert account.spent() == (0.0, 0.0)


def test_smallest_tries_parameter_is_taken():
    select_privately(
        candidates(2), table(), epsilon=1.0, row_scores=more_bins_are_better, tries_parameter=2, random_state=0
    )


def test_wrong_number_of_scores():
    with pytest.raises(DataError, match=r"one number a row \(200\)"):
        select_privately(candidates(2), table(), epsilon=1.0, row_scores=lambda *_: np.ones(3), random_state=0)


def test_over_budget_and_seed_with_account(account):
    with pytest.raises(BudgetExceeded):
        select_privately(candidates(2), table(), epsilon=4.0, row_scores=more_bins_are_better, account=account)
    with pytest.raises(SeededNoiseRefused):
        select_privately(
            candidates(2), table(), epsilon=1.0, row_scores=more_bins_are_better, account=account, random_state=0
        )
    assert account.spent() == (0.0, 0.0)


def test_default_number_of_tries(monkeypatch):
    seen = []
    monkeypatch.setattr(room, "logarithmic_draw", lambda parameter, noise: seen.append(parameter) or 1)
    select_privately(candidates(2, 3, 4), table(), epsilon=1.0, row_scores=more_bins_are_better, random_state=0)
    assert seen == [12]
