"""diffprivlib's side; runs in the environment of peers.lock, where sudare is not installed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import numpy as np
from diffprivlib import tools
from diffprivlib.accountant import BudgetAccountant
from diffprivlib.mechanisms import Laplace, Snapping, Vector
from diffprivlib.models import LogisticRegression

from benchmarks.workloads import unit_rows

Run = Callable[[], object]


def mean(rows: int, columns: int) -> Run:
    """Private means of columns in [0, 1], ε = 1."""
    table = np.random.default_rng(0).random((rows, columns))
    return lambda: tools.mean(table, epsilon=1.0, bounds=(0.0, 1.0), axis=0)


def histogram(rows: int, bins: int) -> Run:
    """Private counts of numbers in [0, 1], ε = 1."""
    table = np.random.default_rng(0).random(rows)
    return lambda: tools.histogram(table, epsilon=1.0, bins=bins, range=(0.0, 1.0))


def laplace(dimension: int) -> Run:
    """Laplace noise on each number; there is no mechanism for vectors."""
    values, mechanism = np.random.default_rng(0).random(dimension).tolist(), Laplace(epsilon=1.0, sensitivity=1.0)
    return lambda: [mechanism.randomise(value) for value in values]


def snapping(dimension: int) -> Run:
    """The snapping mechanism, which is meant to survive floating point, on each number."""
    values = np.random.default_rng(0).random(dimension).tolist()
    mechanism = Snapping(epsilon=1.0, sensitivity=1.0, lower=0.0, upper=1.0)
    return lambda: [mechanism.randomise(value) for value in values]


def gamma_norm(dimension: int) -> Run:
    """The noise vector of objective perturbation."""
    mechanism = Vector(epsilon=1.0, function_sensitivity=0.25, data_sensitivity=1.0, dimension=dimension, alpha=10.0)
    return lambda: mechanism.randomise(lambda point: 0.0)


def charges(charges: int) -> Run:
    """Charges to a new accountant, in memory."""

    def run() -> None:
        accountant = BudgetAccountant(epsilon=1.0, delta=0.0)
        for _ in range(charges):
            accountant.spend(0.001, 0.0)

    return run


def logistic(rows: int, columns: int) -> Run:
    """One private logistic regression with the norm declared."""
    X, labels = unit_rows(rows, columns)
    model = LogisticRegression(epsilon=1.0, data_norm=1.0, C=1.0, fit_intercept=True)
    return lambda: model.fit(X, labels)


def logistic_nodes(nodes: int, rows: int, columns: int) -> Run:
    """As many fits, one after the other."""
    X, labels = unit_rows(nodes * rows, columns)
    parts = [(X[start : start + rows], labels[start : start + rows]) for start in range(0, nodes * rows, rows)]
    return lambda: [LogisticRegression(epsilon=1.0, data_norm=1.0).fit(*part) for part in parts]


CASES = {
    "mean": mean,
    "histogram": histogram,
    "laplace": laplace,
    "snapping": snapping,
    "gamma_norm": gamma_norm,
    "charges": charges,
    "logistic": logistic,
    "logistic_nodes": logistic_nodes,
}


def quantiles(
    file: str, wanted: list[float], bounds: list[float], epsilon: float, repeats: int
) -> list[list[float]] | None:
    """Quantiles of one column, all from one ε, as often as asked for; None where it cannot: many equal values leave it without a candidate."""
    values, limits = np.load(file), (bounds[0], bounds[1])
    try:
        return [
            np.atleast_1d(tools.quantile(values, wanted, epsilon=epsilon, bounds=limits)).tolist()
            for _ in range(repeats)
        ]
    except RuntimeError:
        return None


if __name__ == "__main__":
    print(json.dumps(quantiles(**json.load(sys.stdin))))
