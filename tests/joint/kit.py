"""Small consortia for tests: members with separable rows in the plane, as arrays and as tables with a schema."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sudare.joint import LearningTerms, MemberTable, ModelReading
from sudare.schema import Label, Number, Schema

SCHEMA = Schema({"age": Number(0.0, 100.0), "dose": Number(-2.0, 6.0), "ill": Label((0, 1))})
PLANE = ModelReading.of_arrays(2, 1.0, [0, 1], fit_intercept=False)


def arrays(members=4, rows=60, seed=0):
    """One pair (X, y) a member; the label is the sign of the first column."""
    random = np.random.default_rng(seed)
    angles = random.uniform(0, 2 * np.pi, size=(members, rows))
    points = np.stack([np.cos(angles), np.sin(angles)], axis=2)
    return [(each, (each[:, 0] > 0).astype(int)) for each in points]


def tables(members=4, rows=60, seed=0):
    """One frame a member; who is ill depends on age and dose."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(members):
        age, dose = random.normal(60, 8, size=rows), random.normal(1, 0.5, size=rows)
        ill = ((age - 60) / 8 + 2 * (dose - 1) > 0).astype(int)
        found.append(pd.DataFrame({"age": age, "dose": dose, "ill": ill}))
    return found


def terms(method="one-sum", epsilon=5.0, delta=0.0, members=4, colluders=1, **more):
    return LearningTerms(method, PLANE, epsilon, delta, members, colluders, **more)


def member_tables(members=4, rows=60, seed=0):
    return [MemberTable(*pair) for pair in arrays(members, rows, seed)]
