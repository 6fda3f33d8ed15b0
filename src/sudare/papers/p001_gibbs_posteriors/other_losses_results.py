"""What the paper's two assumptions leave out, and its own cases on data that are not tame: heavy tails, bounded losses that are not convex, several classes, numbers as targets."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from sklearn.datasets import load_diabetes, load_wine

from sudare.array_types import Floats
from sudare.gibbs import GibbsLogisticRegression, GibbsMean, GibbsPosterior, GibbsRidge
from sudare.gibbs.softmax import softmax_posterior
from sudare.linear import PrivateRidge
from sudare.papers.repetitions import Measurements, repeated
from sudare.papers.study import ResultTable, Tell
from sudare.statistics import PrivateMean

EPSILON, DELTA = 1.0, 1e-5
BOUND: Final = 50.0
CENTRE: Final = 3.0
RECORDS: Final = 1_000
SEED: Final = 20150612
EPSILONS: Final = (0.5, 1.0, 2.0, 5.0)


def pseudo_huber_loss(theta: Floats, X: Floats) -> Floats:
    """√(1 + (θ − x)²): convex, not strongly, and 1-Lipschitz, however far away a record is (Assumption 6)."""
    return np.asarray(np.sqrt(1 + (theta[0] - X[:, 0]) ** 2))


def pseudo_huber_gradient(theta: Floats, X: Floats) -> Floats:
    """The gradient of its sum."""
    return np.array([np.sum((theta[0] - X[:, 0]) / pseudo_huber_loss(theta, X))])


def cauchy_loss(theta: Floats, X: Floats) -> Floats:
    """log(1 + (θ − x)²), minus the log likelihood of a Cauchy law: bounded for bounded records, and not convex (Theorem 3)."""
    return np.asarray(np.log1p((theta[0] - X[:, 0]) ** 2))


def location_models(seed: int) -> dict[str, Any]:
    """Estimators of a location from records within ±50, by the assumption under which the paper treats them."""
    options: dict[str, Any] = {"epsilon": EPSILON, "random_state": seed}
    grid = np.linspace(-BOUND, BOUND, 4_001)[:, np.newaxis]
    return {
        "squared loss on an interval (Assumption 7, §4.2)": GibbsMean(delta=DELTA, bounds=(-BOUND, BOUND), **options),
        "the same, pure (Theorem 3)": GibbsMean(delta=0.0, bounds=(-BOUND, BOUND), **options),
        "Lipschitz loss, not strongly convex (Assumption 6)": GibbsPosterior(
            pseudo_huber_loss,
            pseudo_huber_gradient,
            delta=DELTA,
            norm_bound=BOUND,
            lipschitz=1.0,
            smoothness=1.0,
            regularization=1e-3,
            **options,
        ),
        "bounded loss, not convex, on a grid (Theorem 3)": GibbsPosterior(
            cauchy_loss,
            delta=0.0,
            norm_bound=BOUND,
            loss_range=(0.0, math.log1p((2 * BOUND) ** 2)),
            candidates=grid,
            **options,
        ),
        "PrivateMean of the product": PrivateMean(bounds=(-BOUND, BOUND), **options),
    }


def location_table(tell: Tell, repeats: int) -> ResultTable:
    """Errors on normal and on heavy-tailed records."""

    def note(found: Measurements, generator: np.random.Generator) -> None:
        noise = {"normal": generator.standard_normal(RECORDS), "Cauchy": generator.standard_cauchy(RECORDS)}
        for law, errors in noise.items():
            records = np.clip(CENTRE + errors, -BOUND, BOUND)[:, np.newaxis]
            for name, model in location_models(int(generator.integers(2**31))).items():
                model.fit(records)
                value = model.mean_ if hasattr(model, "mean_") else model.parameters_
                found.note((name, law), abs(float(value[0]) - CENTRE))

    found = repeated(tell, "heavy tails", repeats, SEED, note)
    return ResultTable(
        "Heavy tails and losses that are not strongly convex",
        ("posterior", "error, normal records", "error, Cauchy records"),
        [(name, found.at((name, "normal")), found.at((name, "Cauchy"))) for name in location_models(0)],
        f"Replace-one records, ε = {EPSILON:g}; δ = {DELTA:g}, or 0 where it says pure or Theorem 3. The location {CENTRE:g} of {RECORDS:,} records within ±{BOUND:g}; mean of |estimate − location| ± one standard error over {repeats} tables. "
        "The paper treats unbounded losses if they are Lipschitz; a squared loss needs the interval, which heavy tails fill. A bounded likelihood needs no convexity, and is pure. The noisy mean of the product is better than a draw of the mean.",
    )


def ridge_table(tell: Tell, repeats: int) -> ResultTable:
    """§4.2's remark on ridge regression, in ten columns."""
    rows, targets = load_diabetes(return_X_y=True)
    scaled = rows / np.linalg.norm(rows, axis=1).max()

    def note(found: Measurements, generator: np.random.Generator) -> None:
        order = generator.permutation(len(rows))
        train, test = order[:342], order[342:]
        bounds: Any = {"target_bounds": (25.0, 346.0), "norm_bound": 1.0}
        for epsilon in EPSILONS:
            seed = int(generator.integers(2**31))
            models: dict[str, Any] = {
                "draw": GibbsRidge(epsilon, DELTA, random_state=seed, **bounds),
                "pure draw": GibbsRidge(epsilon, 0.0, random_state=seed, **bounds),
                "product": PrivateRidge(epsilon, DELTA, random_state=seed, **bounds),
                "pure product": PrivateRidge(epsilon, 0.0, random_state=seed, **bounds),
            }
            for name, model in models.items():
                found.note(
                    name, float(model.fit(scaled[train], targets[train]).score(scaled[test], targets[test])), epsilon
                )

    found = repeated(tell, "ridge regression", repeats, SEED + 1, note)
    names = ["draw", "pure draw", "product", "pure product"]
    return ResultTable(
        "§4.2: ridge regression, diabetes",
        ("ε", "GibbsRidge", "GibbsRidge, pure", "PrivateRidge", "PrivateRidge, pure"),
        found.rows(names, EPSILONS),
        f"Replace-one records, δ = {DELTA:g}, or 0 where pure; R² on 100 of 442 patients, mean ± one standard error over {repeats} splits. Nothing tuned; rows are scaled by the longest of all patients. "
        f"One draw of the squared loss on a ball is ahead of the product's ridge regression {places_ahead(found, 'draw', 'product')} with δ, and {places_ahead(found, 'pure draw', 'pure product')} where both are pure.",
    )


def places_ahead(found: Measurements, one: str, other: str) -> str:
    """At which ε the mean of one is above that of another, in words."""
    ahead = [epsilon for epsilon in EPSILONS if found.at(one, epsilon).value > found.at(other, epsilon).value]
    if len(ahead) == len(EPSILONS):
        return "at every ε"
    return f"at ε = {', '.join(f'{epsilon:g}' for epsilon in ahead)}" if ahead else "at no ε"


def softmax_table(tell: Tell, repeats: int) -> ResultTable:
    """Several classes at once, beside one against the rest."""
    rows, labels = load_wine(return_X_y=True)
    # Public ranges of the columns, about: the same constants for every split.
    middle, half = (
        np.array([13, 2.5, 2.4, 20, 110, 2.2, 2.2, 0.4, 1.6, 6, 1, 2.7, 900]),
        4 * np.array([0.8, 1.1, 0.3, 3.3, 14, 0.6, 1, 0.12, 0.57, 2.3, 0.23, 0.7, 310]),
    )
    scaled = np.clip((rows - middle) / half, -1, 1)

    def note(found: Measurements, generator: np.random.Generator) -> None:
        order = generator.permutation(len(rows))
        train, test = order[:128], order[128:]
        for epsilon in EPSILONS:
            seed = int(generator.integers(2**31))
            softmax = softmax_posterior(13, 3, epsilon=epsilon, delta=DELTA, regularization=0.05, random_state=seed)
            scores = softmax.fit(scaled[train], labels[train]).parameters_.reshape(3, 13) @ scaled[test].T
            found.note("softmax", float(np.mean(np.argmax(scores, axis=0) == labels[test])), epsilon)
            rest = GibbsLogisticRegression(
                epsilon, DELTA, norm_bound=1.0, classes=[0, 1, 2], fit_intercept=False, random_state=seed
            )
            found.note(
                "one against the rest",
                rest.fit(scaled[train], labels[train]).score(scaled[test], labels[test]),
                epsilon,
            )

    found = repeated(tell, "several classes", repeats, SEED + 2, note)
    return ResultTable(
        "Several classes: one softmax posterior, wine",
        ("ε", "softmax posterior, Λ = 0.05", "one posterior a class (GibbsLogisticRegression)"),
        found.rows(["softmax", "one against the rest"], EPSILONS),
        f"Replace-one records, δ = {DELTA:g}; accuracy on 50 of 178 wines, mean ± one standard error over {repeats} splits; 13 columns scaled by round constants, rows longer than 1 shortened to it, no intercept. A softmax posterior spends the budget once, on k·p parameters; one against the rest spends it k times.",
    )
