"""Estimators that must not be fitted: by two threads at once, or with a method that somebody replaced."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from sklearn.base import clone

from sudare.errors import DataError, InvalidParameter
from sudare.privacy import Ledger, fit_guards
from sudare.statistics import PrivateMean


def test_a_fit_within_a_fit_of_the_same_thread_goes_on_and_leaves_nothing():
    class Twice(PrivateMean):
        """Calls the fit it is derived from."""

        def fit(self, X, y=None):
            super().fit(X, y)
            return super().fit(X, y)

    model = Twice(bounds=(0, 1)).fit(np.ones((3, 1)))
    with pytest.raises(DataError):
        model.fit(np.full((3, 1), np.nan))
    assert not fit_guards._FITTING
    assert PrivateMean.fit.__doc__.startswith("Charge, then compute the noisy means into `mean_`")


def test_what_one_thread_fits_no_other_does(tmp_path):
    account = Ledger(tmp_path / "threads.db").account("patients", epsilon=1.0)
    model = PrivateMean(bounds=(0, 1), account=account)
    refused = []

    def fitted():
        try:
            model.fit(np.ones((3, 1)))
        except InvalidParameter as error:
            refused.append(str(error))

    other = threading.Thread(target=fitted)
    with fit_guards.no_other_thread_fits(model):
        other.start()
        other.join()
        clone(model).fit(np.ones((3, 1)))
    assert refused == [
        "This PrivateMean is being fitted by another thread; nothing was charged. "
        "Fit a clone of it (sklearn.base.clone) in every thread."
    ]
    assert account.spent() == (1.0, 0.0)
    assert not fit_guards._FITTING


def test_an_account_pays_for_nothing_that_a_replaced_method_computes(tmp_path):
    account = Ledger(tmp_path / "replaced.db").account("replaced", epsilon=1.0)
    model = PrivateMean(0.5, bounds=(0, 1), account=account)
    model.plan = lambda rows, declared: None
    with pytest.raises(InvalidParameter, match="plan was replaced"):
        model.fit(np.full((4, 1), 0.5))
    assert account.spent().epsilon == 0
