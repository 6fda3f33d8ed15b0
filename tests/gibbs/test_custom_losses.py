"""Losses of a user: what cannot be certified from public facts is refused before the charge."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.errors import DataError, InvalidParameter, NotSolved
from sudare.gibbs import GibbsPosterior
from sudare.privacy import Ledger
from tests.gibbs.sharp_loss import sharp, sharp_slope

PAIR = np.full((3, 1), -0.5), np.array([[-0.5], [-0.5], [0.5]])


@pytest.fixture
def account(tmp_path):
    return Ledger(tmp_path / "ledger.db").account("patients", epsilon=1000.0, delta=0.01)


def distance(theta, X):
    return np.sqrt(1 + ((theta - X) ** 2).sum(axis=1))


def pull(theta, X):
    return ((theta - X) / distance(theta, X)[:, np.newaxis]).sum(axis=0)


def test_with_an_account_smoothness_must_be_declared(account):
    with pytest.raises(InvalidParameter, match="smoothness"):
        GibbsPosterior(sharp, sharp_slope, dimension=2, account=account).fit(PAIR[0])
    assert account.spent().epsilon == 0
    # Its owner may look at it.
    assert GibbsPosterior(sharp, sharp_slope, dimension=2, random_state=0).fit(PAIR[0]).parameters_.shape == (2,)


def test_what_could_take_for_ever_is_refused_whatever_the_records(account):
    model = GibbsPosterior(sharp, sharp_slope, dimension=30, smoothness=1e6, regularization=0.1, account=account)
    for X in PAIR:
        with pytest.raises(InvalidParameter, match="too many proposals"):
            model.fit(X)
    assert account.spent().epsilon == 0
    model.set_params(dimension=2, smoothness=100.0)
    for X in PAIR:
        assert model.fit(X).parameters_.shape == (2,)


@pytest.mark.parametrize("smoothness", [-1.0, np.nan, True, "1"])
def test_smoothness_is_a_number(smoothness):
    with pytest.raises(InvalidParameter, match="smoothness"):
        GibbsPosterior(distance, pull, smoothness=smoothness).fit(np.zeros((3, 2)))


def test_fixed_work_goes_on_where_it_is_not_enough(monkeypatch):
    X = np.random.default_rng(0).normal(size=(50, 2))
    monkeypatch.setattr("sudare.gibbs.custom_losses.FIXED_PROPOSALS", 1)
    few = GibbsPosterior(distance, pull, smoothness=1.0, fixed_work=True, draws=3, random_state=0).fit(X)
    assert few.draws_.shape == (3, 2)
    monkeypatch.setattr("sudare.gibbs.custom_losses.FIXED_PROPOSALS", 100)
    many = GibbsPosterior(distance, pull, smoothness=1.0, fixed_work=True, draws=3, random_state=0).fit(X)
    assert many.acceptance_ * 300 == pytest.approx(round(many.acceptance_ * 300))


def test_where_the_first_search_for_the_mode_fails_accelerated_steps_find_it(account, monkeypatch):
    class Lost:
        x = np.full(2, 5.0)

    X = np.random.default_rng(0).normal(size=(50, 2))
    found = GibbsPosterior(distance, pull, smoothness=1.0, norm_bound=10.0, random_state=0).fit(X).parameters_
    monkeypatch.setattr("sudare.gibbs.custom_losses.minimize", lambda *_, **__: Lost())
    again = GibbsPosterior(distance, pull, smoothness=1.0, norm_bound=10.0, random_state=0).fit(X).parameters_
    np.testing.assert_allclose(again, found, atol=1e-5)
    GibbsPosterior(distance, pull, smoothness=1.0, account=account).fit(X)
    assert account.spent().epsilon == 1.0
    with pytest.raises(NotSolved):
        GibbsPosterior(distance, pull, random_state=0).fit(X)


def test_functions_that_give_no_numbers_are_refused_before_the_charge(account):
    def nothing(theta, X):
        return np.full(len(X), np.nan)

    def one_number(theta, X):
        return 1.0

    for loss, gradient in ((nothing, pull), (one_number, pull), (distance, one_number)):
        with pytest.raises((InvalidParameter, DataError)):
            GibbsPosterior(loss, gradient, smoothness=1.0, account=account).fit(np.zeros((3, 2)))
    assert account.spent().epsilon == 0
