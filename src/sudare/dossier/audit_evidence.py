"""What was tried to refute a mechanism, and what was measured, as docs/audits.md prints it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from sudare.dossier.facts import Facts


class Measured(NamedTuple):
    """One audit: the largest privacy loss of the known law as a share of the claim, and the ε that samples showed from below."""

    pair: str
    law_over_claim: str
    sampled: str = ""


_FROM_ONE_END = Measured("one value from one end to the other", "1.00 (exact, from the table that is drawn from)")
_STATISTIC = Measured("a row from all-lowest to all-highest", "≥ 0.8")

# As printed in docs/audits.md at ε = 0.1, 1, 5 (law) and ε = 1, 5 (sampled); a test compares the two.
MEASURED: Final = {
    "PrivateMean": _STATISTIC,
    "PrivateHistogram": _STATISTIC,
    "PrivateStandardScaler": _STATISTIC,
    "PrivateLogisticRegression-objective": Measured(
        "401 rows; one is misclassified far off both ways", "0.89, 0.94, 0.94", "0.18, 1.8"
    ),
    "PrivateLogisticRegression-output": Measured("4,097 rows; the same", "0.81, 0.81, 0.81", "0.34, 2.6"),
    "PrivateLogisticRegression-descent": Measured("6 rows; one changes its label", "not known", "0, 2.6"),
    "PrivateLogisticRegression-mean": Measured("the same", "1.00, 1.00, 1.00", "0.70, 3.8"),
    "PrivateLinearSVC-objective": Measured("the same, large penalty", "0.99, 0.99, 0.99", "0.70, 4.1"),
    "PrivateLinearSVC-output": Measured("the same", "0.999, 0.999, 0.999", "0.73, 3.9"),
    "PrivateRidge-objective": Measured(
        "one target from highest to lowest, large penalty", "0.99, 0.99, 0.99", "0.60, 3.6"
    ),
    "PrivateRidge-descent": Measured("the same, residuals capped low", "0.86, 0.86, 0.85", "0, 2.8"),
    "LaplacePerturbation": _FROM_ONE_END,
    "SquareWave": _FROM_ONE_END,
    "RetainReplace": _FROM_ONE_END,
    "UnaryEncoding": _FROM_ONE_END,
    "SubsetSelection": _FROM_ONE_END,
    "PrivateSynthesizer-marginals": Measured(
        "8 rows; one changes in every column and in its label",
        "1.00 (exact, stage by stage with the same noisy answers)",
        "0, 2.4",
    ),
    "PrivateSynthesizer-microaggregation": Measured(
        "8 rows; the lowest values change their class", "1.00 (the same)", "0, 1.6"
    ),
    "GibbsLogisticRegression": Measured("4,097 rows; one is misclassified both ways", "0.61, 0.71, 0.74", "0, 3.1"),
    "GibbsRidge": Measured(
        "one target from highest to lowest, small ball, large penalty", "0.66, 0.95, 0.95", "0.60, 4.3"
    ),
    "GibbsMean": Measured("one record from corner to corner", "1.00, 1.00, 1.00", "0.70, 4.5"),
    "PrivateExponentialWeights": Measured(
        "20 experts; a label is what one of them alone says, or what all others say", "0.95, 0.95, 0.94", "0, 1.3"
    ),
}


def audit_evidence(facts: Facts) -> dict[str, Any]:
    """The evidence behind one release, as plain values."""
    audits = [{"audit": name, "command": f"sudare audit {name}", "measured": _measured(name)} for name in facts.audits]
    return {
        "about": "What tries to refute this mechanism. The values are those that docs/audits.md of sudare prints: measured with the named commands while sudare was developed, on data chosen to be hard, and copied by hand; no result file is kept, and they were not measured anew for this version. They are not about this file's records. Run the command to measure them yourself.",
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


def _measured(name: str) -> dict[str, str] | None:
    found = MEASURED.get(name)
    if found is None:
        return None
    at = {"law ÷ claim at ε = 0.1, 1, 5": found.law_over_claim, "ε shown by samples at ε = 1, 5": found.sampled}
    return {"pair": found.pair, **{label: text for label, text in at.items() if text}}
