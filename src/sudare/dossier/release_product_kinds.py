"""What each learner's release is in the eyes of somebody who does not know learners: which kind of product, on which proofs and tests it rests.

A learner that may be released adds its line here (`sudare.privacy.learner_registry` lists them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

Kind = Literal["statistics", "model", "perturbed", "synthetic"]

_NOISE_PROOFS: Final = {
    "infinity-norm": "infinity_norm",
    "gamma-norm": "gamma_norm",
    "laplace": "laplace",
    "gaussian": "gaussian",
}
# The page about runs that see a sample of the rows at every step, which no release says. A run that protects persons never does.
SAMPLED_RUNS: Final = "gaussian_domination"
_METHOD_PROOFS: Final = {
    "objective": ("objective", "solver"),
    "output": ("output", "solver"),
    "descent": ("descent", SAMPLED_RUNS),
    "mean": ("mean_message",),
    "statistics": ("sufficient_statistics",),
    "boosting": ("additive_boosting",),
    "gibbs": ("gibbs",),
}


@dataclass(frozen=True)
class Product:
    """A kind of release: its mechanism's proofs (names of pages in proofs/), and the files of tests that try to refute it."""

    kind: Kind
    proofs: tuple[str, ...]
    tests: tuple[str, ...]
    # Names of `sudare audit`; where a method decides, it is part of the name.
    audits: tuple[str, ...] = ()


def _statistics(*audits: str, proofs: tuple[str, ...] = ("statistics",), tests: tuple[str, ...] = ()) -> Product:
    return Product("statistics", proofs, ("test_statistics", "test_every_fit", *tests), audits)


def _linear(*audits: str, proofs: tuple[str, ...] = ("score_calibration",)) -> Product:
    return Product(
        "model",
        proofs,
        (
            "test_objective",
            "test_output",
            "test_descent",
            "test_mean_message",
            "test_score_calibration",
            "test_every_fit",
            "test_planted_bugs",
            "test_refusals",
        ),
        audits,
    )


def _gibbs(*audits: str, proofs: tuple[str, ...] = ("gibbs",)) -> Product:
    return Product("model", proofs, ("test_gibbs", "test_pure_gibbs", "test_custom_gibbs", "test_every_fit"), audits)


_PAPER_NETWORK: Final = Product(
    "model", ("neural_approaches", "discrete_laplace"), ("test_neural_approaches", "test_every_fit")
)
_NETWORK: Final = Product(
    "model",
    ("dp_sgd", "discrete_gaussian", SAMPLED_RUNS),
    ("test_neural_gradient", "test_network_functions", "test_canaries", "test_every_fit"),
)

PRODUCTS: Final[Mapping[str, Product]] = {
    "AnonymizedLearningClassifier": _PAPER_NETWORK,
    "AnonymizedLearningRegressor": _PAPER_NETWORK,
    "AnonymizingFirstClassifier": _PAPER_NETWORK,
    "AnonymizingFirstRegressor": _PAPER_NETWORK,
    "GibbsLogisticRegression": _gibbs("GibbsLogisticRegression", proofs=("gibbs", "proximal")),
    "GibbsMean": Product("statistics", ("gibbs",), ("test_gibbs", "test_pure_gibbs", "test_every_fit"), ("GibbsMean",)),
    "GibbsPosterior": _gibbs(proofs=("gibbs", "smooth_samplers")),
    "GibbsRidge": _gibbs("GibbsRidge"),
    "GroupedTable": _statistics(tests=("test_key_selection", "test_quantiles")),
    "LearningFirstClassifier": _PAPER_NETWORK,
    "LearningFirstRegressor": _PAPER_NETWORK,
    "PrivateAdditiveClassifier": Product(
        "model", (), ("test_additive_boosting", "test_objective", "test_every_fit", "test_planted_bugs")
    ),
    "PrivateExponentialWeights": Product(
        "model", ("aggregation",), ("test_private_weights", "test_every_fit"), ("PrivateExponentialWeights",)
    ),
    "PrivateHistogram": _statistics("PrivateHistogram"),
    "PrivateLinearSVC": _linear("PrivateLinearSVC-objective", "PrivateLinearSVC-output", proofs=()),
    "PrivateLogisticRegression": replace(
        _linear(
            "PrivateLogisticRegression-objective",
            "PrivateLogisticRegression-output",
            "PrivateLogisticRegression-descent",
            "PrivateLogisticRegression-mean",
        ),
        tests=(*_linear().tests, "test_sufficient_statistics"),
    ),
    "PrivateMLPClassifier": _NETWORK,
    "PrivateMLPRegressor": _NETWORK,
    "PrivateMean": _statistics("PrivateMean"),
    "PrivateNetwork": _NETWORK,
    "PrivateQuantiles": Product("statistics", ("quantiles",), ("test_quantiles", "test_every_fit")),
    "PrivateRidge": replace(
        _linear("PrivateRidge-objective", "PrivateRidge-descent"),
        tests=(*_linear().tests, "test_sufficient_statistics"),
    ),
    "PrivateStandardScaler": _statistics("PrivateStandardScaler"),
    "PrivateSynthesizer": Product(
        "synthetic",
        ("synthesis",),
        ("test_synthesis", "test_every_fit"),
        ("PrivateSynthesizer-marginals", "PrivateSynthesizer-microaggregation"),
    ),
    "RecordPerturbation": Product(
        "perturbed",
        ("record_perturbation", "pk_anonymity"),
        ("test_records", "test_every_fit"),
        ("LaplacePerturbation", "SquareWave", "RetainReplace", "UnaryEncoding", "SubsetSelection"),
    ),
}


def proofs_of(learner: str, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The proofs behind a release with these parameters, the mechanism's own first."""
    method = str(parameters.get("method"))
    found = list(_METHOD_PROOFS.get(method, ()))
    # Sufficient statistics and descent of a number find out themselves where it lies.
    if learner != "PrivateRidge" or method not in ("statistics", "descent"):
        found += PRODUCTS[learner].proofs
    elif method == "descent":
        found.append("sufficient_statistics")
    if noise := _NOISE_PROOFS.get(str(parameters.get("noise"))):
        found.append(noise)
    elif "statistics" in found:
        found.append("laplace" if parameters.get("delta") == 0 else "gaussian")
    optional = {
        "quantiles": parameters.get("quantile_of"),
        "key_selection": parameters.get("found"),
        "persons": parameters.get("person"),
        "slices": parameters.get("slice"),
        "repeated_answers": parameters.get("repeated"),
    }
    found += [name for name, is_there in optional.items() if is_there]
    if parameters.get("person") is not None:
        found = [name for name in found if name != SAMPLED_RUNS]
    return tuple(dict.fromkeys([*found, "accounting"]))


def audits_of(learner: str, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The audits of this learner; of several methods those of the one that was used."""
    method = parameters.get("method") or parameters.get("engine")
    listed = PRODUCTS[learner].audits
    return tuple(name for name in listed if "-" not in name or method is None or name.endswith(f"-{method}"))
