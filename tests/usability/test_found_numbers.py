"""Words, gaps, truths and lists where a number is wanted: every public entrance answers in our words, and none takes them silently."""

from __future__ import annotations

import contextlib
import inspect
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from sudare import (
    audit,
    dictionary,
    experts,
    gibbs,
    joint,
    linear,
    neural,
    perturbation,
    privacy,
    reconstruction,
    schema,
    statistics,
    sums,
    synthesis,
)
from sudare.errors import SudareError
from sudare.frames import sources as frames
from sudare.papers.p003_decentralised import averaging, graphs, other_hidden_sums

PUBLIC = (
    audit, sums, graphs, averaging, other_hidden_sums, dictionary, experts, frames, gibbs, linear, neural, privacy, statistics,
    perturbation, reconstruction, synthesis, schema, joint,
)  # fmt: skip
RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-0.5, 0.5, size=(40, 2))
LABELS = (X[:, 0] > 0).astype(int)
BOUNDS = (-1.0, 1.0)
LAPLACE = perturbation.LaplacePerturbation(BOUNDS, epsilon=2.0)
PERTURBED = LAPLACE.perturb(X[:, 0])
COVARIANCE = np.array([[1.0, 0.3], [0.3, 1.0]])
CLAIM = privacy.Guarantee(1.0)
ADDED = privacy.Guarantee(1.0, 1e-7, neighbours="add-remove")

# Nothing of this is a number that somebody could mean.
SENSELESS: dict[str, Any] = {
    "word": "x",
    "digits as text": "1",
    "NaN": math.nan,
    "infinity": math.inf,
    "list": [1, 2],
    "complex": 1j,
    "object": object(),
    "nothing": None,
}
# These are numbers to Python, and in some places to us: an answer or a refusal, but no stumbling.
DOUBTFUL: dict[str, Any] = {"truth": True, "minus one": -1, "a half": 0.5}


def fitted(*data: Any) -> Callable[[Any], Any]:
    """What is done with an estimator once it was made."""
    return lambda estimator: estimator.fit(*data)


def as_made(made: Any) -> Any:
    return made


def members() -> list[np.ndarray]:
    return [np.random.default_rng(seed).uniform(-0.5, 0.5, size=(20, 2)) for seed in range(3)]


def noisy(records: Any, generator: Any = None) -> float:
    return float(np.random.default_rng().normal())


def experts_of_two() -> list[Any]:
    return [linear.PrivateLogisticRegression(seed + 1.0, random_state=seed).fit(X, LABELS) for seed in range(2)]


def row_scores(model: Any, X: Any, y: Any) -> np.ndarray:
    return np.full(len(X), 0.5)


SEED: dict[str, Any] = {"random_state": 0}
WITHIN: dict[str, Any] = {"bounds": BOUNDS, "random_state": 0}
AUDITED: dict[str, Any] = {"mechanism": noisy, "pair": (0, 1), "samples": 400}
PATTERNS: dict[str, Any] = {"n_patterns": 2, "hide": "nothing", "search": False, "max_iter": 2}
NETWORK: dict[str, Any] = {**WITHIN, "hidden_layer_sizes": (2,), "max_iter": 1, "max_physical_batch_size": 8}
NAMED = schema.Schema({"first": schema.Number(-1, 1), "second": schema.Number(-1, 1)})
TABLE = {"first": X[:, 0], "second": X[:, 1]}
DICTIONARY = dictionary.PatternDictionary(**PATTERNS).fit(members())

Call = tuple[Mapping[str, Any], Callable[[Any], Any]]
# One good call of everything public that takes a number: arguments, and what is done with what comes back.
CALLS: dict[str, Call] = {
    "averaged": ({"values": np.ones((4, 2)), "graph": graphs.complete(4), "method": "constant"}, as_made),
    "averaging_plan": ({"graph": graphs.complete(4), "method": "constant"}, as_made),
    "base_k": ({"members": 4}, as_made),
    "complete": ({"members": 4}, as_made),
    "cycle": ({"members": 5}, as_made),
    "cycle_with_inverse_chords": ({"members": 5}, as_made),
    "digit_edges": ({"radices": (2, 2), "digit": 1}, as_made),
    "exponential": ({"members": 5}, as_made),
    "from_edges": ({"name": "two", "members": 2, "edges": [(0, 1)]}, as_made),
    "graph_named": ({"name": "random-regular", "members": 6, "degree": 4}, as_made),
    "hypercube": ({"members": 4}, as_made),
    "prime_factors": ({"number": 12}, as_made),
    "random_regular": ({"members": 6, "degree": 3}, as_made),
    "secure_sum": ({"vectors": np.ones((3, 2))}, as_made),
    "hidden_sum": ({"vectors": np.ones((3, 2)), "hide": "chunks", "over": "complete"}, as_made),
    "PatternDictionary": ({**PATTERNS, "bounds": (-1, 1), "epsilon": 5.0, "random_state": 0}, fitted(members())),
    "pattern_changes": ({"earlier": DICTIONARY, "later": DICTIONARY}, as_made),
    "graphical_lasso": ({"covariance": COVARIANCE, "penalty": 0.1}, as_made),
    "batches": ({"source": {"a": [1.0]}}, list),
    "GibbsLogisticRegression": (SEED, fitted(X, LABELS)),
    "GibbsMean": (WITHIN, fitted(X)),
    "softmax_posterior": ({"columns": 2, "classes": 2}, as_made),
    "GibbsRidge": ({"target_bounds": BOUNDS, **SEED}, fitted(X, X[:, 1])),
    "PrivateLinearSVC": (SEED, fitted(X, LABELS)),
    "PrivateLogisticRegression": (SEED, fitted(X, LABELS)),
    "PrivateRidge": ({"target_bounds": BOUNDS, **SEED}, fitted(X, X[:, 1])),
    "GroupedTable": ({"schema": NAMED, "by": ["first"], "mean_of": ["second"], **SEED}, fitted(TABLE)),
    "PrivateHistogram": (WITHIN, fitted(X)),
    "PrivateMean": (WITHIN, fitted(X)),
    "PrivateAdditiveClassifier": (WITHIN | {"classes": [0, 1]}, fitted(X, LABELS)),
    "PrivateQuantiles": (WITHIN, fitted(X)),
    "PrivateStandardScaler": (WITHIN, fitted(X)),
    "Guarantee": ({"epsilon": 1.0}, as_made),
    "Person": ({"column": "who", "most_rows": 2}, as_made),
    "LaplacePerturbation": ({"bounds": BOUNDS, "epsilon": 1.0}, as_made),
    "epsilon_of_k": ({"k": 3, "n_records": 100}, as_made),
    "k_of_epsilon": ({"epsilon": 1.0, "n_records": 100}, as_made),
    "RecordPerturbation": ({"schema": NAMED, "epsilon": 1.0, **SEED}, fitted(TABLE)),
    "PrivateSynthesizer": ({"schema": NAMED, **SEED}, fitted(TABLE)),
    "Reconstruction": ({"perturbation": LAPLACE, "method": "bayes"}, fitted(PERTURBED)),
    "JointReconstruction": ({"perturbations": [LAPLACE] * 2, "method": "bayes"}, fitted([PERTURBED] * 2)),
    "CrossTable": ({"first": LAPLACE, "second": LAPLACE, "method": "bayes"}, fitted(PERTURBED, PERTURBED)),
    "canary_audit": ({"scores": np.arange(40.0), "included": LABELS.astype(bool), "claimed": ADDED}, as_made),
    "distinguish": ({**AUDITED, "claimed": CLAIM}, as_made),
    "distinguish_gaussian": ({**AUDITED, "claimed": privacy.Guarantee(1.0, 1e-5), "mu": 1.0}, as_made),
    "distinguish_lowest_bits": ({**AUDITED, "claimed": CLAIM}, as_made),
    "OwnPlusConsensus": ({"experts": experts_of_two()}, fitted(X, LABELS)),
    "StackedExperts": ({"experts": experts_of_two()}, fitted(X, LABELS)),
    "PrivateExponentialWeights": ({"experts": experts_of_two(), **SEED}, fitted(X, LABELS)),
    "PrivateMLPClassifier": ({**NETWORK, "classes": [0, 1]}, fitted(X, LABELS)),
    "PrivateMLPRegressor": ({**NETWORK, "target_bounds": BOUNDS}, fitted(X, X[:, 1])),
    "select_privately": (
        {"candidates": [linear.PrivateLogisticRegression()], "X": X, "y": LABELS, "epsilon": 1.0,
         "row_scores": row_scores, **SEED},
        as_made,
    ),
    "consortium_model": ({"members": [(X, LABELS)] * 3, "classes": [0, 1], "hide": "nothing", **SEED}, as_made),
}  # fmt: skip
# Nobody types a number into these: they take what other calls give, or a function.
NOT_WALKED = {
    "GibbsPosterior",
    "PrivateNetwork",
    "additive_shares",
    "checked_values",
    "chunk_runs",
    "chunked",
    "learned_together",
    "relative_error",
}


def takes_a_number(parameter: inspect.Parameter) -> bool:
    """Whether an argument is one number, perhaps None; sequences and functions of numbers have rules of their own."""
    annotation = str(parameter.annotation)
    return bool(re.search(r"\b(int|float)\b", annotation)) and not re.search(
        r"Callable|Mapping|Sequence\[|tuple\[|ArrayLike|Literal", annotation
    )


def public_callables() -> Iterator[tuple[str, Any]]:
    """Functions and estimators that the documentation lists."""
    for module in PUBLIC:
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        for name in getattr(module, "__all__", own):
            found = getattr(module, name)
            if not name.startswith("_") and (inspect.isfunction(found) or hasattr(found, "fit") or name in CALLS):
                yield name, found


FOUND = dict(public_callables())
ARGUMENTS = [
    (name, parameter)
    for name, found in FOUND.items()
    if name in CALLS
    for parameter in inspect.signature(found).parameters.values()
    if takes_a_number(parameter)
]


def test_no_public_entrance_is_forgotten() -> None:
    with_numbers = {
        name for name, found in FOUND.items() if any(map(takes_a_number, inspect.signature(found).parameters.values()))
    }
    assert with_numbers - set(CALLS) - NOT_WALKED == set()
    assert set(CALLS) <= set(FOUND)


def called(name: str, **changes: Any) -> Any:
    arguments, then = CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return then(FOUND[name](**{**arguments, **changes}))


@pytest.mark.parametrize("name", CALLS)
def test_the_calls_that_are_changed_are_good_ones(name: str) -> None:
    """Else every refusal below would be about something else."""
    called(name)


@pytest.mark.parametrize(("name", "parameter"), ARGUMENTS, ids=lambda value: getattr(value, "name", value))
def test_what_is_no_number_is_refused_in_our_words(name: str, parameter: inspect.Parameter) -> None:
    for kind, value in SENSELESS.items():
        if value is None and ("None" in str(parameter.annotation) or parameter.name == "random_state"):
            continue
        if value == math.inf and name == "Guarantee":
            # Outside of it, there is no promise: Guarantee.none().
            continue
        with pytest.raises(SudareError) as refusal:
            called(name, **{parameter.name: value})
        assert refusal.value.remedy, kind


@pytest.mark.parametrize(("name", "parameter"), ARGUMENTS, ids=lambda value: getattr(value, "name", value))
def test_doubtful_numbers_end_in_an_answer_or_a_refusal(name: str, parameter: inspect.Parameter) -> None:
    for value in DOUBTFUL.values():
        with contextlib.suppress(SudareError):
            called(name, **{parameter.name: value})
