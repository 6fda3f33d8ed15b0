"""What all Gibbs estimators have in common: charges, releases, seeds, experts, bad input."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sudare.errors import (
    ReleaseMalformed,
)
from sudare.gibbs import GibbsLogisticRegression, GibbsMean, GibbsPosterior, GibbsRidge
from sudare.privacy import Release
from tests.gibbs.tables import KEY, NUMBER_SCHEMA, fitted_of_each, separable
from tests.gibbs.test_sklearn_checks import distance_from_rows, pull_of_rows


def test_a_table_with_a_number_as_target():
    random = np.random.default_rng(0)
    table = pd.DataFrame({"age": random.uniform(0, 100, 800), "dose": random.uniform(0, 10, 800)})
    table["weight"] = 60 + 0.3 * table["age"] + 2 * table["dose"]
    fitted = GibbsRidge(20.0, schema=NUMBER_SCHEMA, random_state=0).fit(table)
    assert fitted.target_bounds_ == (0.0, 200.0)
    assert GibbsMean(1.0, schema=NUMBER_SCHEMA, random_state=0).fit(table).mean_.shape == (2,)


def test_every_estimator_is_charged_released_and_loaded(account, tmp_path):
    for number, model in enumerate(fitted_of_each(account)):
        release = Release.of(model)
        path = tmp_path / f"{number}.sudare"
        release.save(path, KEY)
        loaded = Release.load(path, [KEY.public_key()]).model()
        assert type(loaded) is type(model)
        for name in ("parameters_", "mean_", "coef_"):
            if hasattr(model, name):
                np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
        if hasattr(model, "predict"):
            X, _ = separable()
            np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        for secret in ("acceptance_", "pac_bayes_bound_"):
            assert not hasattr(loaded, secret)
            assert secret not in str(release.manifest())
    assert len([entry for entry in account.entries() if entry.kind == "charge"]) == 5


def test_what_is_for_the_owner_is_not_pickled(account):
    for model in fitted_of_each(account):
        assert hasattr(model, "acceptance_")
        copied = pickle.loads(pickle.dumps(model))
        assert not hasattr(copied, "acceptance_")
        assert not hasattr(copied, "pac_bayes_bound_")
        assert copied.guarantee_ == model.guarantee_


def test_a_release_that_lies_is_refused(account, tmp_path):
    X, y = separable()
    model = GibbsLogisticRegression(1.0, 1e-6, classes=[0, 1], account=account).fit(X, y)
    content = model.release_content()
    GibbsLogisticRegression.check_content(content, None)
    for change in ({"method": "output"}, {"penalty": -1.0}, {"target": [0]}, {"rows": 0}):
        with pytest.raises(ReleaseMalformed):
            GibbsLogisticRegression.check_content(replace(content, parameters={**content.parameters, **change}), None)
    with pytest.raises(ReleaseMalformed):
        GibbsLogisticRegression.check_content(replace(content, tensors={"parameters": np.zeros(7)}), None)
    custom = GibbsPosterior(distance_from_rows, pull_of_rows, smoothness=1.0, account=account).fit(X).release_content()
    with pytest.raises(ReleaseMalformed):
        GibbsPosterior.check_content(replace(custom, tensors={"other": np.zeros(3)}), None)


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("sampler", ["exact", "proximal"])
def test_one_row(width, sampler):
    model = GibbsLogisticRegression(1.0, classes=[0, 1], sampler=sampler, random_state=0).fit(np.ones((1, width)), [1])
    assert np.all(np.isfinite(model.parameters_))
    assert GibbsRidge(target_bounds=(0, 1), random_state=0).fit(np.ones((1, width)), [1]).coef_.shape == (width,)
    assert GibbsMean(bounds=(0, 1), random_state=0).fit(np.ones((1, width))).mean_.shape == (width,)
