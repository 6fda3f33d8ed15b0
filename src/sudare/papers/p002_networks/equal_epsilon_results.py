"""At one ε for records: noisy descent of a network, a private logistic regression, and learning from synthetic rows.

δ = 1e-5, add/remove, on the official split of the people without missing answers; what that is worth between replaced records stands beside it.
`PrivateLogisticRegression` promises something between replaced records only: it is asked for the same ε there, which is a stronger promise, and for the
converted one, which is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from sudare.linear import PrivateLogisticRegression
from sudare.neural import PrivateMLPClassifier
from sudare.neural.estimators import NetworkClassifier
from sudare.papers.adult_schema import ADULT_SCHEMA, LABEL
from sudare.papers.p002_networks.census import Scores, ScoresByMethod, Split, all_scores, official, scores, scores_of
from sudare.papers.p002_networks.estimators import AnonymizingFirstClassifier
from sudare.papers.repetitions import Measurements, repetitions
from sudare.papers.study import Cell, Figure, ResultTable, Tell
from sudare.privacy.guarantee import Guarantee, readable_up
from sudare.report.number_formatting import rounded_up
from sudare.report.plots import Panel, curves
from sudare.schema import encode
from sudare.synthesis import PrivateSynthesizer

DELTA: Final = 1e-5
EPSILONS: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
QUICK_EPSILONS: Final = (0.5, 5.0)
# Drawn after the rules were frozen, and used for nothing else.
SEED: Final = 20161217
# By public knowledge: about thirty thousand people.
EXPECTED_ROWS: Final = 30_000
SYNTHETIC_ROWS: Final = 60_000

GRADIENT, PLAIN_GRADIENT = "noisy descent, binned", "noisy descent, scaled"
SYNTHETIC, SYNTHETIC_NETWORK = "synthetic rows, then logistic regression", "synthetic rows, then a network"
LOGISTIC_SAME, LOGISTIC_CONVERTED = "logistic, replace-one at this ε", "logistic, replace-one as converted"


def added(epsilon: float) -> Guarantee:
    """What is promised."""
    return Guarantee(epsilon, DELTA, neighbours="add-remove")


def network(
    epsilon: float, seed: int, estimator: type[NetworkClassifier] = PrivateMLPClassifier, **options: Any
) -> NetworkClassifier:
    """A network with nothing set but what is named."""
    return estimator(
        epsilon=epsilon,
        delta=DELTA,
        schema=ADULT_SCHEMA,
        neighbours="add-remove",
        expected_rows=EXPECTED_ROWS,
        random_state=seed,
        **options,
    )


def logistic(promised: Guarantee, seed: int) -> PrivateLogisticRegression:
    """The linear room's classifier as it comes."""
    return PrivateLogisticRegression(
        promised.epsilon, promised.delta, schema=ADULT_SCHEMA, encoding="binned", random_state=seed
    )


MODELS: Final[Mapping[str, Callable[[float, int], Any]]] = {
    GRADIENT: network,
    PLAIN_GRADIENT: lambda epsilon, seed: network(epsilon, seed, encoding="scaled"),
    SYNTHETIC_NETWORK: lambda epsilon, seed: network(epsilon, seed, AnonymizingFirstClassifier),
    LOGISTIC_SAME: lambda epsilon, seed: logistic(Guarantee(epsilon, DELTA), seed),
    LOGISTIC_CONVERTED: lambda epsilon, seed: logistic(added(epsilon).to("replace-one"), seed),
}


def measured(tell: Tell, repeats: int, epsilons: Sequence[float] = EPSILONS) -> ScoresByMethod:
    """Every method at every ε, each fit with noise of its own."""
    split = official()

    def repetition(number: int) -> ScoresByMethod:
        found, generator = ScoresByMethod(), np.random.default_rng((SEED, number))
        for epsilon in epsilons:
            for name, made in MODELS.items():
                model = made(epsilon, int(generator.integers(2**31))).fit(split.train)
                found.note(name, scores(model, split.test), epsilon)
            found.note(SYNTHETIC, synthetic_scores(split, epsilon, int(generator.integers(2**31))), epsilon)
        return found

    found = all_scores(tell, repetitions("record level", repeats, repetition))
    found.note("no privacy", logistic_scores(split.train, split.test, max_iter=1000))
    return found


def synthetic_scores(split: Split, epsilon: float, seed: int) -> Scores:
    """A private table, new rows from it, and scikit-learn on those, as anybody could do with the release."""
    made = PrivateSynthesizer(
        ADULT_SCHEMA, epsilon=epsilon, delta=DELTA, neighbours="add-remove", random_state=seed
    ).fit(split.train)
    return logistic_scores(made.sample(SYNTHETIC_ROWS, random_state=seed), split.test, max_iter=100)


def logistic_scores(train: pd.DataFrame, test: pd.DataFrame, max_iter: int) -> Scores:
    """Of scikit-learn's logistic regression on the same columns."""
    model = LogisticRegression(max_iter=max_iter).fit(encode(ADULT_SCHEMA, train, "binned").matrix, train[LABEL])
    return scores_of(model.predict(encode(ADULT_SCHEMA, test, "binned").matrix), test)


def table(found: ScoresByMethod, epsilons: Sequence[float] = EPSILONS) -> ResultTable:
    """Accuracy and macro-F1 by method and ε, and what ε is between replaced records."""
    rows: list[tuple[Cell, ...]] = []
    for name in (*MODELS, SYNTHETIC):
        for epsilon in epsilons:
            is_replaced = name == LOGISTIC_SAME
            converted = Guarantee(epsilon, DELTA) if is_replaced else added(epsilon).to("replace-one")
            rows.append(
                (
                    name,
                    "–" if is_replaced else f"{epsilon:g}",
                    f"({readable_up(converted.epsilon)}, {rounded_up(converted.delta)})",
                    found.accuracy.at(name, epsilon),
                    found.macro_f1.at(name, epsilon),
                )
            )
    level = found.accuracy.values("no privacy")[0], found.macro_f1.values("no privacy")[0]
    return ResultTable(
        "Adult at one ε for records",
        ("method", "ε, add/remove", "(ε, δ), replace-one", "accuracy", "macro-F1"),
        rows,
        f"Add/remove records at δ = {DELTA:g}, and the same promise between replace-one records; ± one standard error over {found.accuracy.at(GRADIENT, epsilons[0]).repeats} seeds of the noise on the official split "
        f"(30,162 people to fit, 15,060 to test on; another test set of this size would move every accuracy by about 0.003). Logistic regression without privacy: {level[0]:.4f} and {level[1]:.3f}. Nothing is tuned here: steps, rates and clips are "
        f"public rules. {differences_text(found, epsilons)}",
    )


def differences_text(found: ScoresByMethod, epsilons: Sequence[float]) -> str:
    """How much a network gains over logistic regression at the same promise, and bins over scaled numbers, in words."""

    def between(first: str, second: str, numbers: Measurements) -> str:
        differences = [numbers.at(first, each).value - numbers.at(second, each).value for each in epsilons]
        return f"{min(differences):+.3f} to {max(differences):+.3f}".replace("-", "−")

    return (
        f"Noisy descent with bins less logistic regression as converted: {between(GRADIENT, LOGISTIC_CONVERTED, found.accuracy)} in accuracy, {between(GRADIENT, LOGISTIC_CONVERTED, found.macro_f1)} in macro-F1, over all ε; "
        f"less noisy descent with scaled numbers: {between(GRADIENT, PLAIN_GRADIENT, found.accuracy)} and {between(GRADIENT, PLAIN_GRADIENT, found.macro_f1)}."
    )


def drawn(found: ScoresByMethod, epsilons: Sequence[float] = EPSILONS) -> Figure:
    """Accuracy and macro-F1 against ε."""

    def panel(measure: str, numbers: Measurements) -> Panel:
        lines = [numbers.series(name, _short(name), epsilons) for name in (*MODELS, SYNTHETIC)]
        return curves(epsilons, lines, x_label="ε (δ = 1e-5, add/remove; logistic: replace-one)", y_label=measure)

    return Figure(
        "Adult at one ε for records",
        "Accuracy and macro-F1 against a record's ε on the official split, 30,162 people to fit. Bars are one standard error over seeds of the noise.",
        [panel("accuracy", found.accuracy), panel("macro-F1", found.macro_f1)],
    )


def _short(name: str) -> str:
    """A method in words that fit into a legend."""
    return name.replace("synthetic rows, then", "synthetic,").replace("logistic regression", "logistic")
