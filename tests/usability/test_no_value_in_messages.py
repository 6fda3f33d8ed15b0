"""No estimator, of the product or of a paper, quotes a value of the data in what it raises: at fitting, predicting and scoring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import sudare.experts
from sudare.dictionary import PatternDictionary
from sudare.perturbation import LaplacePerturbation
from sudare.privacy.learner_registry import LEARNERS
from sudare.schema import Category, Label, Number, Schema, SchemaEncoder
from tests.experts.members import ColumnScore
from tests.papers.test_published_estimators import ESTIMATORS

TEXT = "medicine731"
ROWS = 30
SCHEMA = Schema({"a": Number(0, 1), "b": Category(("x", "y")), "c": Label((0, 1))})
NOISE = LaplacePerturbation(bounds=(0, 1), epsilon=1.0, n_records=ROWS)
EXPERTS = (ColumnScore(0), ColumnScore(1))


def distances(point: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.sqrt(1 + np.sum((rows - point) ** 2, axis=1))


def pull(point: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return ((point - rows) / distances(point, rows)[:, np.newaxis]).sum(axis=0)


generator = np.random.default_rng(0)
PLAIN = generator.uniform(0, 1, size=(ROWS, 2))
TARGETS = (PLAIN[:, 0] > 0.5).astype(int)
WORDS = np.array([TEXT if row == 7 else "x" for row in range(ROWS)], dtype=object)
MIXED = np.array([TEXT if row == 7 else 0.5 for row in range(ROWS)], dtype=object)
LINEAR_EXPERTS = tuple(LogisticRegression(C=strength).fit(PLAIN, TARGETS) for strength in (0.1, 1.0))

DECLARED = {"bounds": (0, 1)}
CLASSES = {"classes": [0, 1]}
NETWORK = {"epsilon": 1.0, **DECLARED, "accept_weak_guarantee": True}
BRIEF = {**NETWORK, "epochs": 1, "hidden_layer_sizes": (2,)}
NUMBERS = {"target_bounds": (0, 1)}
# What an estimator is made with, by its name.
GIVEN: dict[str, dict[str, Any]] = {
    "AnonymizedLearningClassifier": {**BRIEF, **CLASSES},
    "AnonymizedLearningRegressor": {**BRIEF, **NUMBERS},
    "AnonymizingFirstClassifier": {**BRIEF, **CLASSES, "synthetic_rows": 50},
    "AnonymizingFirstRegressor": {**BRIEF, **NUMBERS, "synthetic_rows": 50},
    "AverageExperts": {"experts": EXPERTS},
    "ChaudhuriClassifier": CLASSES,
    "CollaborativeDictionary": {"n_patterns": 2},
    "ExponentialWeights": {"experts": EXPERTS},
    "FiniteMixtureJointReconstruction": {"perturbations": (NOISE, NOISE), "components": 1},
    "FiniteMixtureReconstruction": {"perturbation": NOISE, "components": 1},
    "GibbsLogisticRegression": CLASSES,
    "GibbsMean": DECLARED,
    "GibbsPosterior": {"loss": distances, "gradient": pull, "lipschitz": 1.0, "smoothness": 1.0, "regularization": 1.0},
    "GibbsPosteriorClassifier": CLASSES,
    "GibbsRidge": NUMBERS,
    "GradientDescentClassifier": CLASSES,
    "GroupedTable": {"schema": SCHEMA, "by": ["b"]},
    "LearningFirstClassifier": {**BRIEF, **CLASSES},
    "LearningFirstRegressor": {**BRIEF, **NUMBERS},
    "MirrorAveraging": {"experts": EXPERTS},
    "ObjectivePerturbationClassifier": CLASSES,
    "OwnPlusConsensus": {"experts": LINEAR_EXPERTS},
    "PatternDictionary": {"n_patterns": 2, "search": False, "max_iter": 5, "hide": "nothing"},
    "PrivateAdditiveClassifier": {**DECLARED, **CLASSES},
    "PrivateExponentialWeights": {"experts": EXPERTS},
    "PrivateHistogram": DECLARED,
    "PrivateLinearSVC": CLASSES,
    "PrivateLogisticRegression": CLASSES,
    "PrivateMLPClassifier": {**NETWORK, **CLASSES, "max_iter": 2, "hidden_layer_sizes": (2,)},
    "PrivateMLPRegressor": {**NETWORK, **NUMBERS, "max_iter": 2, "hidden_layer_sizes": (2,)},
    "PrivateMean": DECLARED,
    "PrivateNetwork": {
        **NETWORK,
        **CLASSES,
        "apply": lambda params, x: x @ params,
        "params": jnp.zeros((2, 2)),
        "max_iter": 2,
    },
    "PrivateQuantiles": DECLARED,
    "PrivateRidge": NUMBERS,
    "PrivateStandardScaler": DECLARED,
    "PrivateSynthesizer": DECLARED,
    "RecordPerturbation": {"epsilon": 1.0, **DECLARED},
    "SchemaEncoder": {"schema": SCHEMA},
    "StackedExperts": {"experts": EXPERTS},
}
MODULES = {
    **LEARNERS,
    **ESTIMATORS,
    **dict.fromkeys(sudare.experts.__all__, "sudare.experts"),
    "PatternDictionary": PatternDictionary.__module__,
    "SchemaEncoder": SchemaEncoder.__module__,
}


def frame(column: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": PLAIN[:, 0], "b": column})


TABLES = {
    "words in a frame": frame(WORDS),
    "a word in a frame": frame(MIXED),
    "categories": frame(pd.Categorical(WORDS)),
    "objects": frame(MIXED).to_numpy(),
    "texts": frame(WORDS).to_numpy().astype(str),
    "bytes": np.array([[TEXT.encode(), b"1"]] * ROWS),
    "lists": frame(MIXED).to_numpy().tolist(),
    "lists of two lengths": [[0.1, TEXT], *[[0.1, 0.2, TEXT]] * (ROWS - 1)],
    "one column": MIXED,
    "a series": pd.Series(MIXED),
}
ANSWERS = {
    "words": WORDS,
    "a word": MIXED,
    "a list": MIXED.tolist(),
    "a series": pd.Series(MIXED),
    "a matrix": [[TEXT]] * ROWS,
    "a frame": pd.DataFrame({"y": MIXED}),
    "too few": [TEXT] * 3,
}
ASKED = ("predict", "predict_proba", "decision_function", "transform", "perturb", "score_samples")


def texts_of(error: BaseException | None) -> Iterator[str]:
    """What an error and everything in its chain would print."""
    if error is not None:
        yield from (str(error), repr(error))
        yield from texts_of(error.__cause__)
        yield from texts_of(error.__context__)


def told(call: Callable[[], Any]) -> list[str]:
    """Messages that quote the text; nothing where the call succeeds."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 (whatever it is, it is read)
        return [text for text in texts_of(error) if TEXT in text]
    return []


def made(name: str) -> Any:
    return getattr(import_module(MODULES[name]), name)(**GIVEN[name])


def fitted(name: str) -> Any:
    """The estimator, fitted to rows without a fault."""
    whole = frame(np.where(TARGETS == 1, "x", "y")).assign(c=TARGETS)
    attempts: tuple[Callable[[], Any], ...] = (
        lambda: made(name).fit(PLAIN, TARGETS),
        lambda: made(name).fit(PLAIN),
        lambda: made(name).fit(PLAIN[:, 0]),
        lambda: made(name).fit([PLAIN, PLAIN[::-1]]),
        lambda: made(name).fit(whole),
    )
    for attempt in attempts:
        try:
            return attempt()
        except Exception:  # noqa: BLE001 (which of them an estimator takes is not asked here)
            continue
    raise AssertionError(f"{name} could not be fitted")


def test_every_estimator_is_tried():
    assert GIVEN.keys() == MODULES.keys()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(GIVEN))
def test_no_value_is_quoted(name):
    quoted: dict[str, list[str]] = {}
    for kind, X in TABLES.items():
        quoted[f"fit {kind}"] = told(lambda X=X: made(name).fit(X, TARGETS))
        quoted[f"fit {kind} without y"] = told(lambda X=X: made(name).fit(X))
        quoted[f"fit {kind} of two members"] = told(lambda X=X: made(name).fit([X, X]))
    for kind, y in ANSWERS.items():
        quoted[f"fit to {kind}"] = told(lambda y=y: made(name).fit(PLAIN, y))
    model = fitted(name)
    for kind, X in TABLES.items():
        for method in ASKED:
            quoted[f"{method} {kind}"] = told(lambda X=X, method=method: getattr(model, method)(X))
        quoted[f"score {kind}"] = told(lambda X=X: model.score(X, TARGETS))
    for kind, y in ANSWERS.items():
        quoted[f"score against {kind}"] = told(lambda y=y: model.score(PLAIN, y))
    assert {place: texts for place, texts in quoted.items() if texts} == {}
