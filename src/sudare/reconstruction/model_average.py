"""Families of fits and their average: which part each has, and what bands are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from scipy.special import expit, logsumexp, softmax

from sudare.array_types import Floats
from sudare.reconstruction.binning import Counts, States, whole_states
from sudare.reconstruction.confidence_bands import Seen, WeightedDistribution
from sudare.reconstruction.laplace_approximation import PosteriorMode, averaged
from sudare.reconstruction.normal_mixture import (
    MOST_COMPONENTS,
    TYPICAL_SCALES,
    NormalMixture,
    bayesian_information,
    cell_masses,
    log_evidence,
    mixture_fits,
)
from sudare.reconstruction.pooled_releases import NumberLaw, PooledPerturbations
from sudare.reconstruction.reconstructed_distribution import Clusters, Distribution, Layout
from sudare.reconstruction.smooth_density import AMPLITUDES, LENGTHS, LogDensity, smooth_fits

WHOLE_NUMBERS: Final = "whole numbers"
# Odds that a column with few whole numbers between whole bounds consists of them.
_PRIOR_ODDS_OF_WHOLE: Final = 2.5
# Evidences of different families rest on different priors: differences of a few units are not taken at face value.
_TEMPERATURE: Final = 3.0
# At equal evidence a family of mixtures counts this many times as much as smooth densities: that was best over simulated columns.
_PREFERENCE_FOR_MIXTURES: Final = 3.0
_LEAST_WEIGHT: Final = 1e-3
_SHARP_AMPLITUDE: Final = 1.4
_FEW_COMPONENTS: Final = 5
# Long curves are refuted if they are so much worse than the best; the shortest are as good if they are at most so much worse.
_LONG, _REFUTED, _AS_GOOD = 0.2, 5.0, 1.0
# Of the noise's width, how far a spike of a rough column may lie from where it seems to be; chosen by `python -m benchmarks.panel.reconstruction_bands`.
NOISE_IN_RESOLUTION: Final = 0.25


@dataclass(frozen=True, eq=False)
class FitFamily:
    """Fits of one kind to the same states, with the logarithms of their weights among each other.

    `share` is the family's part of the average where that is already decided; the others divide the rest by evidence.
    """

    name: str
    fits: Sequence[PosteriorMode[Any]]
    log_weights: Floats
    choices: int
    share: float | None = None

    @property
    def evidence(self) -> float:
        """log of the mean evidence over what was to be chosen: lengths and amplitudes, or numbers of components."""
        return float(logsumexp(self.log_weights)) - math.log(self.choices)

    @property
    def is_smooth(self) -> bool:
        """Whether these are smooth densities rather than mixtures."""
        return isinstance(self.best.model, LogDensity)

    @property
    def best(self) -> PosteriorMode[Any]:
        """The fit for which the data speak most."""
        return self.fits[int(self.log_weights.argmax())]


def smooth_family(
    states: States, counts: Counts, lengths: Sequence[float] = LENGTHS, amplitudes: Sequence[float] = AMPLITUDES
) -> FitFamily:
    """Smooth log-densities of all these lengths and amplitudes."""
    fits = smooth_fits(states, counts, lengths, amplitudes)
    return FitFamily("smooth", fits, np.array([fit.log_evidence for fit in fits]), len(fits))


def whole_family(perturbation: NumberLaw, counts: Counts, continuous: FitFamily) -> FitFamily:
    """Densities that are constant around each whole number, for a column that may consist of whole numbers.

    Its share follows from the evidence that values are whole numbers against that of a continuous column. The answer is spread
    over cells all the same: it is then good for bins of any kind.
    """
    exactly = smooth_family(whole_states(perturbation, counts.edges, spread=False), counts)
    log_odds = math.log(_PRIOR_ODDS_OF_WHOLE) + exactly.evidence - continuous.evidence
    spread = smooth_family(whole_states(perturbation, counts.edges, spread=True), counts)
    return replace(spread, name=WHOLE_NUMBERS, share=float(expit(log_odds)))


def mixture_families(
    states: States, counts: Counts, smooth: FitFamily, components: int | None = None
) -> list[FitFamily]:
    """Mixtures with narrow and with wide components; they start from the smooth average and from its sharpest good member."""
    shapes = shapes_of(smooth)
    families = []
    for typical_scale in TYPICAL_SCALES:
        fits = mixture_fits(states, counts, typical_scale, shapes, components or MOST_COMPONENTS)
        if components is not None:
            fits = [fit for fit in fits if fit.model.components == components]
        families.append(FitFamily("mixture", fits, evidences(fits), 1 if components else MOST_COMPONENTS))
    return families


def wide_mixtures(states: States, counts: Counts, smooth: FitFamily) -> FitFamily:
    """Mixtures of a few wide components."""
    fits = mixture_fits(states, counts, TYPICAL_SCALES[-1], shapes_of(smooth), _FEW_COMPONENTS)
    return FitFamily("mixture", fits, evidences(fits), _FEW_COMPONENTS)


def shapes_of(smooth: FitFamily) -> list[Floats]:
    """Returns the starting distributions of mixtures: the smooth average, and its sharpest good member."""
    sharp = (fit for fit in smooth.fits if fit.model.amplitude >= _SHARP_AMPLITUDE)
    return [averaged(smooth.fits, smooth.log_weights), max(sharp, key=lambda fit: fit.log_evidence).probabilities]


def evidence_of(fit: PosteriorMode[Any]) -> float:
    """The logarithm of the evidence of a fit of either kind."""
    return log_evidence(fit) if isinstance(fit.model, NormalMixture) else fit.log_evidence


def evidences(fits: Sequence[PosteriorMode[Any]]) -> Floats:
    """Logarithms of the fits' evidence."""
    return np.array([evidence_of(fit) for fit in fits])


@dataclass(frozen=True, eq=False)
class Iterated:
    """What the Iterative Bayesian Technique found, and its share of an average."""

    share: float
    states: States
    probabilities: Floats


def combined(
    families: Sequence[FitFamily],
    counts: Counts,
    perturbation: NumberLaw,
    shares: Floats | None = None,
    iterated: Iterated | None = None,
) -> Distribution:
    """The average over families, by tempered evidence where no shares are given, within each by evidence; and the technique's part."""
    if shares is None:
        shares = shares_of(families)
    every_states = [family.best.states for family in families] + ([iterated.states] if iterated else [])
    layout = Layout.of(every_states, perturbation.bounds)
    probabilities = np.zeros(layout.size)
    members: list[WeightedDistribution] = []
    by_name: dict[str, float] = {}
    if iterated is not None:
        probabilities += iterated.share * (layout.carrying(iterated.states) @ iterated.probabilities)
        by_name["bayes"] = iterated.share
    # Where nothing is left beside the technique, which has no band of its own, bands are those of the families by evidence.
    parts = shares if shares.sum() > 0 else shares_of(families)
    in_bands = band_shares(families, parts / parts.sum())
    for family, share, band_share in zip(families, shares, in_bands, strict=True):
        carrying = layout.carrying(family.best.states)
        by_name[family.name] = by_name.get(family.name, 0.0) + float(share)
        for fit, weight in zip(family.fits, softmax(family.log_weights), strict=True):
            carried = carrying @ fit.probabilities
            probabilities += share * weight * carried
            if band_share * weight >= _LEAST_WEIGHT:
                members.append(WeightedDistribution(float(band_share * weight), carried, carrying @ fit.spread()))
    return Distribution(
        layout,
        probabilities,
        counts.records,
        by_name,
        members,
        clusters_of(families, counts, perturbation),
        resolution_of(families, perturbation),
        has_whole_numbers(families),
        why_without_band(families, perturbation),
        Seen(counts.counts / counts.records, partial(layout.channel, perturbation, counts.edges)),
    )


def why_without_band(families: Sequence[FitFamily], perturbation: NumberLaw) -> str:
    """Why there is no band; nothing where there is one."""
    if isinstance(perturbation, PooledPerturbations):
        return "several releases were taken together, and nobody can tell which of their rows belong to one record."
    if not any(family.is_smooth for family in families):
        return "mixtures alone are too sure of themselves; use 'auto'."
    return ""


def shares_of(families: Sequence[FitFamily]) -> Floats:
    """Parts of the average: those that are decided, and the rest by tempered evidence."""
    decided = np.array([family.share or 0.0 for family in families])
    undecided = np.array([family.share is None for family in families])
    evidence = np.array([family.evidence if family.share is None else -np.inf for family in families])
    preference = np.array([1.0 if family.is_smooth else _PREFERENCE_FOR_MIXTURES for family in families])
    weights = preference * softmax((evidence - evidence.max()) / _TEMPERATURE)
    return np.where(undecided, (1 - decided.sum()) * weights / weights.sum(), decided)


def band_shares(families: Sequence[FitFamily], shares: Floats) -> Floats:
    """Shares in a band: half of it belongs to smooth densities, which claim less than mixtures do."""
    smooth = np.array([family.is_smooth for family in families]) * shares
    return (shares + smooth / smooth.sum()) / 2 if smooth.any() else shares


def resolution_of(families: Sequence[FitFamily], perturbation: NumberLaw) -> float:
    """How far from where it seems to be a part of a rough column may lie; zero if the data show how rough it is, or that it is smooth.

    It is a part of the noise's own width.
    """
    return NOISE_IN_RESOLUTION * perturbation.noise_scale if any(map(is_rough, families)) else 0.0


def has_whole_numbers(families: Sequence[FitFamily]) -> bool:
    """Whether points of the average are whole numbers, of which noise hides which it was, and not atoms."""
    return any(family.name == WHOLE_NUMBERS or not family.best.states.spread for family in families)


def is_rough(family: FitFamily) -> bool:
    """Whether a column is rough without limit: long curves are refuted and the shortest do as well as any."""
    if not family.is_smooth or family.name != "smooth":
        return False
    weights = family.log_weights.reshape(len(LENGTHS), -1).max(axis=1)
    shortest, long = weights[0], weights[[length >= _LONG for length in LENGTHS]].max()
    return bool(weights.max() - long >= _REFUTED and weights.max() - shortest <= _AS_GOOD)


def clusters_of(families: Sequence[FitFamily], counts: Counts, perturbation: NumberLaw) -> Clusters | None:
    """Components of the mixture that Schwarz's criterion prefers, and whose perturbed values are whose."""
    mixtures = [
        fit
        for family in families
        for fit in family.fits
        if isinstance(fit.model, NormalMixture) and not fit.states.logarithmic
    ]
    if not mixtures:
        return None
    fit: PosteriorMode[NormalMixture] = min(mixtures, key=lambda fit: bayesian_information(fit, counts.records))
    weights, means, scales = fit.model.unpacked(fit.parameters)
    cells = fit.states.cells
    masses, _, _ = cell_masses(fit.states.unit_edges, means, scales)
    seen = np.hstack([fit.states.channel[:, :cells] @ masses, fit.states.channel[:, cells:]]) * weights
    posterior = seen / seen.sum(axis=1, keepdims=True)
    sizes = perturbation.sizes if isinstance(perturbation, PooledPerturbations) else ()
    return Clusters(fit.model.described(fit.parameters), fit.states.atoms, counts.edges, posterior, sizes)
