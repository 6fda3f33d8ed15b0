"""The allow-list of learners whose releases can be made and loaded: name to module, so that loading imports only ours.

A learner that may be released adds its line here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from sudare.errors import UnknownName

LEARNERS: Final[dict[str, str]] = {
    "AnonymizedLearningClassifier": "sudare.papers.p002_networks.estimators",
    "AnonymizedLearningRegressor": "sudare.papers.p002_networks.estimators",
    "AnonymizingFirstClassifier": "sudare.papers.p002_networks.estimators",
    "AnonymizingFirstRegressor": "sudare.papers.p002_networks.estimators",
    "GibbsLogisticRegression": "sudare.gibbs.linear_models",
    "GibbsMean": "sudare.gibbs.mean",
    "GibbsPosterior": "sudare.gibbs.custom_losses",
    "GibbsRidge": "sudare.gibbs.linear_models",
    "GroupedTable": "sudare.statistics.grouped_table",
    "LearningFirstClassifier": "sudare.papers.p002_networks.estimators",
    "LearningFirstRegressor": "sudare.papers.p002_networks.estimators",
    "PrivateAdditiveClassifier": "sudare.linear.additive_classifier",
    "PrivateExponentialWeights": "sudare.experts.private_weights",
    "PrivateHistogram": "sudare.statistics.histogram",
    "PrivateLinearSVC": "sudare.linear.estimators",
    "PrivateLogisticRegression": "sudare.linear.estimators",
    "PrivateMLPClassifier": "sudare.neural.estimators",
    "PrivateMLPRegressor": "sudare.neural.estimators",
    "PrivateMean": "sudare.statistics.mean",
    "PrivateNetwork": "sudare.neural.private_network",
    "PrivateQuantiles": "sudare.statistics.quantiles",
    "PrivateRidge": "sudare.linear.estimators",
    "PrivateStandardScaler": "sudare.statistics.standard_scaler",
    "PrivateSynthesizer": "sudare.synthesis.synthesizer",
    "RecordPerturbation": "sudare.perturbation.record_perturbation",
}

# What a charge is entered as, where it is not the learner's name, and the learners whose results it may pay for.
_CHARGED_AS: Final[dict[str, tuple[str, ...]]] = {
    "select_privately": tuple(LEARNERS),
    "consortium-wide model of ": ("PrivateLogisticRegression",),
    "consortium-wide additive model of ": ("PrivateAdditiveClassifier",),
    "consortium-wide network of ": ("PrivateMLPClassifier",),
    "consortium-wide scaler of ": ("PrivateStandardScaler",),
}


def pays_for(what: str, learner: str) -> bool:
    """Whether a charge that was entered as `what` may pay for the result of a learner."""
    return what == learner or any(learner in paid and what.startswith(words) for words, paid in _CHARGED_AS.items())


def learner_class(name: str) -> Any:
    """The class of a listed learner."""
    if name not in LEARNERS:
        raise UnknownName(f"No learner of this version is called {name[:64]!r}.", f"There are: {', '.join(LEARNERS)}.")
    return getattr(import_module(LEARNERS[name]), name)
