"""What a task gets where the agreement says nothing: constants of the agreement's format, for every parameter of every learner.

They are written out here because a constructor's default may change with the version of a member's program, and nobody signed that.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from sudare.errors import AgreementError

_DRAWS: Final = {"draws": 1, "fixed_work": False}
_LINEAR: Final = {"norm_bound": 1.0, "regularization": None, "fit_intercept": True, "encoding": "centred"}
_METHOD: Final = {"method": "auto", "sampling_rate": None, "cluster": None}
_NETWORK: Final = {
    "hidden_layer_sizes": (64, 64),
    "bounds": None,
    "neighbours": "replace-one",
    "expected_rows": None,
    "max_iter": None,
    "sampling_rate": None,
    "clip": 1.0,
    "learning_rate": None,
    "momentum": 0.9,
    "max_physical_batch_size": None,
    "encoding": "binned",
    "accept_weak_guarantee": False,
    "checkpoint": None,
    "verbose": False,
}
NETWORKS: Final = ("PrivateMLPClassifier", "PrivateMLPRegressor")
# What agreements called parameters of networks before; an agreement that was signed so means the same.
_FORMER_NAMES: Final = {
    "steps": "max_iter",
    "rate": "learning_rate",
    "physical_batch": "max_physical_batch_size",
    "accept_parameter_guarantee": "accept_weak_guarantee",
}

# What a task that says nothing gets: every parameter but epsilon, delta, schema, account and random_state, which are never left out.
LEARNER_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "GibbsLogisticRegression": {**_LINEAR, **_DRAWS, "classes": None, "sampler": "auto", "radius": None},
        "GibbsMean": {**_DRAWS, "bounds": None, "prior_scale": 1.0, "radius": None},
        "GibbsRidge": {**_LINEAR, **_DRAWS, "target_bounds": None, "radius": None},
        "PrivateAdditiveClassifier": {
            "bounds": None,
            "max_bins": None,
            "monotone": None,
            "classes": None,
            "cluster": None,
        },
        "PrivateHistogram": {"bounds": None, "bins": 10, "neighbours": "replace-one", "cluster": None},
        "PrivateLinearSVC": {**_LINEAR, **_METHOD, "smoothing": 0.5, "classes": None},
        "PrivateLogisticRegression": {**_LINEAR, **_METHOD, "classes": None, "decision": "likeliest"},
        "PrivateMLPClassifier": {**_NETWORK, "classes": None},
        "PrivateMLPRegressor": {**_NETWORK, "target_bounds": None},
        "PrivateMean": {"bounds": None, "cluster": None},
        "PrivateRidge": {**_LINEAR, **_METHOD, "target_bounds": None, "residual_cap": 1.0},
        "PrivateStandardScaler": {"bounds": None, "cluster": None},
        "PrivateSynthesizer": {
            "label": None,
            "engine": "marginals",
            "tree": None,
            "groups": 20,
            "bounds": None,
            "neighbours": "replace-one",
        },
        "RecordPerturbation": {
            "k": None,
            "n_records": None,
            "one_column": False,
            "split": None,
            "methods": None,
            "bounds": None,
            "memory": None,
            "shuffle": True,
        },
    }
)
# A dictionary's: every parameter but n_patterns, epsilon, delta, colluders, schema, account and random_state.
DICTIONARY_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "family": "sparse_gaussian",
        "bounds": None,
        "sparsity": 0.5,
        "shrinkage": 0.1,
        "concentration": 1.01,
        "min_others": 3.0,
        "search": True,
        "max_iter": 300,
        "tol": 1e-6,
        "false_alarm_rate": 0.01,
        "hide": "masks",
        "dtype": "float64",
        "cluster": None,
        "private_iterations": None,
    }
)
DICTIONARY_FAMILIES: Final = ("sparse_gaussian", "diagonal_gaussian", "poisson", "gamma", "categorical")
# What agreements of earlier versions call two of them.
EARLIER_DICTIONARY_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"most_iterations": "max_iter", "tolerance": "tol"}
)
# Of an exact dictionary's sums, over all of them together.
MOST_NUMBERS: Final = 1_000_000
LEARNING_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {"encoding": "centred", "fit_intercept": True, "norm_bound": None, "scaler_share": 0.0}
)

NETWORK_LEARNING_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {"encoding": "binned", "hidden_layer_sizes": (64, 64)}
)


def current_parameters(task: str, learner: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A task's parameters under the names of this version. Raise AgreementError for a way of training that tasks no longer have."""
    if learner not in NETWORKS:
        return dict(parameters)
    if parameters.get("approach", "gradient") != "gradient":
        raise AgreementError(
            f"`tasks.{task}.parameters.approach` asks for an approach of paper 002; tasks of networks have DP-SGD only.",
            "Leave it out; or let members use the estimators of sudare.papers.p002_networks on their own.",
        )
    renamed = {old: new for old, new in _FORMER_NAMES.items() if new not in parameters}
    return {renamed.get(name, name): value for name, value in parameters.items() if name != "approach"}
