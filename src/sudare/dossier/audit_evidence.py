"""What was tried to refute a mechanism, and what was measured, as docs/audits.md prints it."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, Final

from sudare.dossier.statement_facts import Facts
from sudare.parsing import parsed_json

_FAR_APART: Final = "vectors as far apart as the sensitivity"
_LOWEST_TO_HIGHEST: Final = "a row from all-lowest to all-highest"
_END_TO_END: Final = "one value from one end to the other"
# What differs between the two data sets of each audit.
PAIRS: Final = {
    "laplace": _FAR_APART,
    "laplace-vector": _FAR_APART,
    "gaussian": _FAR_APART,
    "gamma-norm": _FAR_APART,
    "infinity-norm": _FAR_APART,
    "schema-draft": "a row from one cell into another, in the counts from which a draft finds bounds",
    "PrivateMean": _LOWEST_TO_HIGHEST,
    "PrivateHistogram": _LOWEST_TO_HIGHEST,
    "PrivateStandardScaler": _LOWEST_TO_HIGHEST,
    "PrivateLogisticRegression-objective": "401 rows; one is misclassified far off both ways",
    "PrivateLogisticRegression-output": "4,097 rows; one is misclassified far off both ways",
    "PrivateLogisticRegression-descent": "6 rows; one changes its label",
    "PrivateLogisticRegression-mean": "6 rows; one changes its label",
    "PrivateLinearSVC-objective": "6 rows; one changes its label; large penalty",
    "PrivateLinearSVC-output": "6 rows; one changes its label",
    "PrivateRidge-objective": "one target from highest to lowest; large penalty",
    "PrivateRidge-descent": "one target from highest to lowest; residuals capped low",
    "LaplacePerturbation": _END_TO_END,
    "SquareWave": _END_TO_END,
    "RetainReplace": _END_TO_END,
    "UnaryEncoding": _END_TO_END,
    "SubsetSelection": _END_TO_END,
    "PrivateSynthesizer-marginals": "8 rows; one changes in every column and in its label",
    "PrivateSynthesizer-microaggregation": "8 rows; the lowest values change their class",
    "GibbsLogisticRegression": "4,097 rows; one is misclassified both ways",
    "GibbsRidge": "one target from highest to lowest; small ball, large penalty",
    "GibbsMean": "one record from corner to corner",
    "PrivateExponentialWeights": "20 experts; a label is what one of them alone says, or what all others say",
}


@cache
def audit_results() -> dict[str, Any]:
    """What `python -m benchmarks.audits` found: for each audit its number of outputs, and by claimed ε the law's ε (None if unknown) and the sampled one."""
    found: dict[str, Any] = parsed_json(
        resources.files("sudare.dossier").joinpath("audit_results.json").read_text("utf-8")
    )
    return found


def measured_texts(name: str) -> tuple[str, str]:
    """Returns texts about one audit: the law's ε over the claim at each ε, or 'not known', and the ε that samples showed from below at each ε."""
    comparisons = audit_results()[name]["comparisons"]
    laws = [each["computed"] for each in comparisons]
    shares = (
        "not known"
        if None in laws
        else ", ".join(f"{law / each['epsilon']:.3g}" for law, each in zip(laws, comparisons, strict=True))
    )
    return shares, ", ".join(f"{each['sampled']:.2g}" for each in comparisons)


def audit_evidence(facts: Facts) -> dict[str, Any]:
    """The evidence behind one release, as plain values."""
    audits = [{"audit": name, "command": f"sudare audit {name}", "measured": _measured(name)} for name in facts.audits]
    return {
        "about": "What tries to refute this mechanism. The values are those that docs/audits.md of sudare prints: measured while sudare was developed, by the audits of these names on data chosen to be hard, with as many outputs as said; they were not measured anew for this version. They are not about this file's records. Run the command to measure them yourself.",
        "learner": facts.learner,
        "method": facts.method,
        "versions": dict(facts.card.versions),
        "claimed": {
            "epsilon": facts.card.epsilon,
            "delta": facts.card.delta,
            "neighbours": facts.card.neighbours,
            "unit": facts.card.unit,
            "notion": facts.card.notion,
        },
        "audits": audits,
        "audits_missing": None
        if audits
        else "No audit by name measures this learner; the tests below are what guards it.",
        "tests": [f"tests/guarantees/{name}.py" for name in facts.tests],
        "proofs": [f"proofs/{name}.md" for name in facts.proofs],
        "source": "docs/audits.md",
    }


def _measured(name: str) -> dict[str, Any]:
    law, sampled = measured_texts(name)
    at = ", ".join(f"{each['epsilon']:g}" for each in audit_results()[name]["comparisons"])
    return {
        "pair": PAIRS[name],
        f"law ÷ claim at ε = {at}": law,
        f"ε shown by samples at ε = {at}": sampled,
        "outputs on each data set": audit_results()[name]["samples"],
    }
