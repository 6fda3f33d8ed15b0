"""Tables and models that the tests of Gibbs estimators share."""

from __future__ import annotations

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.gibbs import GibbsLogisticRegression, GibbsMean, GibbsPosterior, GibbsRidge
from sudare.schema import Category, Label, Number, Schema
from tests.gibbs.test_sklearn_checks import distance_from_rows, pull_of_rows

SCHEMA = Schema({"age": Number(0, 100), "smoker": Category(("no", "yes")), "ill": Label(("no", "yes"))})
NUMBER_SCHEMA = Schema({"age": Number(0, 100), "dose": Number(0, 10), "weight": Number(0, 200)}, target="weight")
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def separable(rows=400, width=3, classes=2, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, width))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.argmax(X @ random.normal(size=(classes, width)).T, axis=1)


def patients(rows=400, seed=0):
    random = np.random.default_rng(seed)
    age = random.uniform(0, 100, rows)
    smoker = random.random(rows) < 0.4
    ill = age + 40 * smoker + 10 * random.normal(size=rows) > 70
    return pd.DataFrame({"age": age, "smoker": np.where(smoker, "yes", "no"), "ill": np.where(ill, "yes", "no")})


def fitted_of_each(account):
    """One of every estimator, charged."""
    X, y = separable()
    return [
        GibbsLogisticRegression(1.0, 1e-6, classes=[0, 1], account=account).fit(X, y),
        GibbsLogisticRegression(2.0, 1e-6, classes=[0, 1, 2], draws=2, sampler="exact", account=account).fit(X, y),
        GibbsRidge(1.0, 1e-6, target_bounds=(0, 1), account=account).fit(X, y),
        GibbsMean(1.0, 1e-6, bounds=(-1, 1), account=account).fit(X),
        GibbsPosterior(distance_from_rows, pull_of_rows, smoothness=1.0, account=account).fit(X),
    ]
