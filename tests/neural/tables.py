"""Small tables for fits of networks; without JAX."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sudare.schema import Category, Label, Number, Schema

SCHEMA = Schema(
    {
        "age": Number(0, 100, bins=(30, 60)),
        "smoker": Category(("no", "yes")),
        "ill": Label(("no", "yes")),
    }
)
NUMBER_SCHEMA = Schema(
    {"age": Number(0, 100), "smoker": Category(("no", "yes")), "cost": Number(0, 1000)}, target="cost"
)


def crossed(rows=400, seed=0):
    """Two columns in [−1, 1], and a class that no line separates."""
    X = np.random.default_rng(seed).uniform(-1, 1, size=(rows, 2))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def patients(rows=300, seed=0):
    """A table for both schemas."""
    random = np.random.default_rng(seed)
    age, smoker = random.uniform(0, 100, rows), random.choice(["no", "yes"], rows)
    ill = np.where((age > 60) | (smoker == "yes"), "yes", "no")
    return pd.DataFrame({"age": age, "smoker": smoker, "ill": ill, "cost": 10 * age})
