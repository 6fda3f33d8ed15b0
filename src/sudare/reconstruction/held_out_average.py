"""The average of candidates for a column's distribution, weighted by how likely each made records that it had not seen (Geisser 1975; Yao et al. 2018: pseudo-Bayesian averaging).

Candidates are distributions of very different assumptions: smooth densities and mixtures on the column's own scale and on logarithmic
ones, and the Iterative Bayesian Technique. Each is made again without a part of the records, and then predicts the perturbed values of
that part. Weights are e^{L/T} times a preference, for the log-likelihood L of all parts: where the noise hides which candidate is right,
all keep their part, and errors that differ cancel. T and the preferences were chosen on columns of the panel's tuning half;
`python -m benchmarks.panel.reconstruction_rules` compares the choices on some of its cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import softmax

from sudare.array_types import Floats
from sudare.reconstruction.binning import Counts, States, logarithmic_states
from sudare.reconstruction.laplace_approximation import averaged, most_likely
from sudare.reconstruction.model_average import FitFamily, evidence_of, shares_of, smooth_family, wide_mixtures
from sudare.reconstruction.pooled_releases import NumberLaw

TEMPERATURE: Final = 4.0
PREFERENCES: Final[Mapping[str, float]] = {
    "smooth": 1.0,
    "mixture": 1.0,
    "bayes": 0.1,
    "log-smooth, low": 1.0,
    "log-smooth, high": 1.0,
    "log-mixture": 1.0,
}
# Fits of less weight within their family are not made again without a part of the records.
_LEAST_REFITTED: Final = 0.01
_LEAST_PROBABILITY: Final = 1e-300
# Fewer lengths and amplitudes than on the column's own scale: enough to tell whether a logarithmic one suits it.
_LENGTHS: Final = (0.03, 0.07, 0.15, 0.33)
_AMPLITUDES: Final = (0.7, 1.4, 2.8, 5.6)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A distribution over states; `predicted` has P(bin of the perturbed value) as fitted without each part, one row a part.

    `families` are those that it averages, by evidence; none for the Iterative Bayesian Technique.
    """

    name: str
    states: States
    probabilities: Floats
    predicted: Floats
    families: Sequence[FitFamily] = ()


def family_candidate(name: str, families: Sequence[FitFamily], counts: Counts, parts: Sequence[Floats]) -> Candidate:
    """The average of families over the same states by evidence, refitted without each part from where it was."""
    states = families[0].best.states
    without = [Counts(counts.edges, counts.counts - part) for part in parts]
    predicted = np.array(
        [states.channel @ averaged_families([refitted(one, rest) for one in families]) for rest in without]
    )
    return Candidate(name, states, averaged_families(families), predicted, families)


def averaged_families(families: Sequence[FitFamily]) -> Floats:
    """Probabilities of the states: families by tempered evidence, fits within each by evidence."""
    each = [averaged(family.fits, family.log_weights) for family in families]
    return np.asarray(shares_of(families) @ np.array(each))


def refitted(family: FitFamily, counts: Counts) -> FitFamily:
    """The fits that count, fitted to other counts of the same records' bins."""
    kept = [
        fit for fit, weight in zip(family.fits, softmax(family.log_weights), strict=True) if weight >= _LEAST_REFITTED
    ]
    fits = [most_likely(fit.model, fit.states, counts, fit.parameters) for fit in kept]
    return replace(family, fits=fits, log_weights=np.array([evidence_of(fit) for fit in fits]))


def logarithmic_candidates(
    perturbation: NumberLaw, states: States, counts: Counts, parts: Sequence[Floats]
) -> list[Candidate]:
    """Smooth densities on logarithmic scales from either bound, and mixtures on the one with more evidence (log-normal ones)."""
    smooth = {}
    for finest in ("low", "high"):
        cells = logarithmic_states(perturbation, counts.edges, states.cells, states.atoms, finest)
        smooth[f"log-smooth, {finest}"] = smooth_family(cells, counts, _LENGTHS, _AMPLITUDES)
    better = max(smooth.values(), key=lambda family: family.evidence)
    families = {**smooth, "log-mixture": wide_mixtures(better.best.states, counts, better)}
    return [family_candidate(name, [replace(one, name=name)], counts, parts) for name, one in families.items()]


def held_out_weights(
    candidates: Sequence[Candidate],
    parts: Sequence[Floats],
    temperature: float = TEMPERATURE,
    preferences: Mapping[str, float] = PREFERENCES,
) -> Floats:
    """Weights of the candidates, by the likelihood of parts that they had not seen."""
    counts = np.array(parts)
    scores = [float((counts * np.log(np.maximum(one.predicted, _LEAST_PROBABILITY))).sum()) for one in candidates]
    preferred = np.log([preferences[one.name] for one in candidates])
    return np.asarray(softmax(preferred + np.array(scores) / temperature))
