"""From perturbed values to the distribution of the original ones: the default, and each method on its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator

from sudare.errors import InvalidParameter
from sudare.records.atoms import declared_atoms, detected_atoms
from sudare.records.bands import Member
from sudare.records.bayes import stopped_by_validation
from sudare.records.binning import Counts, States, cell_count, continuous_states, counted, whole_states
from sudare.records.mixture import (
    MOST_COMPONENTS,
    TYPICAL_SCALES,
    NormalMixture,
    bayesian_information,
    cell_masses,
    log_evidence,
    mixture_fits,
)
from sudare.records.numbers import NumberPerturbation
from sudare.records.posterior import Fit, averaged, log_sum, normalised
from sudare.records.result import Clusters, Distribution, Layout
from sudare.records.smooth import LENGTHS, LogDensity, smooth_fits

Floats = NDArray[np.float64]
Atoms = Sequence[float] | Literal["auto"]

_MOST_WHOLE_NUMBERS: Final = 512
# With at most so many whole numbers between whole bounds, a column of whole numbers is likelier than a continuous one: codes,
# grades, counts. Noise often hides the difference; where it does not, evidence outweighs this.
_FEW_WHOLE_NUMBERS: Final = 32
_PRIOR_ODDS_OF_WHOLE: Final = 2.5
# Evidences of different families rest on different priors: differences of a few units are not taken at face value.
_TEMPERATURE: Final = 3.0
# At equal evidence a family of mixtures counts this many times as much as smooth densities: that was best over simulated columns.
_PREFERENCE_FOR_MIXTURES: Final = 3.0
_LEAST_WEIGHT: Final = 1e-3
_LONG, _REFUTED, _AS_GOOD, _LENGTHS_IN_RESOLUTION = 0.2, 5.0, 1.0, 2.0
_SHARP_AMPLITUDE: Final = 1.4


@dataclass(frozen=True, eq=False)
class Family:
    """Fits of one kind to the same states, with the logarithms of their weights among each other.

    `share` is the family's part of the average where that is already decided; the others divide the rest by evidence.
    """

    name: str
    fits: Sequence[Fit[Any]]
    log_weights: Floats
    choices: int
    share: float | None = None

    @property
    def evidence(self) -> float:
        """log of the mean evidence over what was to be chosen: lengths and amplitudes, or numbers of components."""
        return log_sum(self.log_weights) - math.log(self.choices)

    @property
    def is_smooth(self) -> bool:
        """Whether these are smooth densities rather than mixtures."""
        return isinstance(self.best.model, LogDensity)

    @property
    def best(self) -> Fit[Any]:
        """The fit for which the data speak most."""
        return self.fits[int(self.log_weights.argmax())]


class _ColumnReconstruction(BaseEstimator):
    """What the methods share: counting, states, atoms."""

    perturbation: NumberPerturbation
    atoms: Atoms
    whole: bool | None

    def _prepared(self, y: ArrayLike) -> tuple[Counts, States]:
        """Counts, and the states that are sought: whole numbers if declared so, else cells and atoms."""
        if not isinstance(self.perturbation, NumberPerturbation):
            raise InvalidParameter(
                "perturbation must be one of a number column.",
                "Use LaplacePerturbation or SquareWave as it was applied.",
            )
        cells = cell_count(self.perturbation)
        counts = counted(self.perturbation, y, cells)
        if self.whole and whole_numbers(self.perturbation) < 2:
            raise InvalidParameter(
                "There are fewer than two whole numbers between the bounds.", "Leave whole=None, or check the bounds."
            )
        if self.whole and whole_numbers(self.perturbation) <= _MOST_WHOLE_NUMBERS:
            return counts, whole_states(self.perturbation, counts.edges, spread=False)
        if isinstance(self.atoms, str):
            if self.atoms != "auto":
                raise InvalidParameter(f"atoms must be 'auto' or numbers, got '{self.atoms}'.", "Use for example (0,).")
            atoms = detected_atoms(self.perturbation, counts, cells)
        else:
            atoms = declared_atoms(self.perturbation, self.atoms)
        return counts, continuous_states(self.perturbation, counts.edges, cells, atoms)


class BayesReconstruction(_ColumnReconstruction):
    """The Iterative Bayesian Technique on fine cells, stopped by cross-validation.

    Parameters
    ----------
    perturbation : the one that was applied.
    atoms : values with a probability of their own; 'auto' finds them on the bounds.
    whole : True if values are whole numbers, False if not, None if that is not known.
    random_state : seed of the parts for cross-validation.
    """

    def __init__(
        self,
        perturbation: NumberPerturbation,
        *,
        atoms: Atoms = "auto",
        whole: bool | None = None,
        random_state: int | None = 0,
    ) -> None:
        self.perturbation = perturbation
        self.atoms = atoms
        self.whole = whole
        self.random_state = random_state

    def fit(self, y: ArrayLike) -> Self:
        """`distribution_` and `steps_` from perturbed values."""
        counts, states = self._prepared(y)
        stopped = stopped_by_validation(states, counts, np.random.default_rng(self.random_state))
        layout = Layout.of([states], self.perturbation.bounds)
        self.steps_ = stopped.steps
        self.distribution_ = Distribution(
            layout,
            layout.carrying(states) @ stopped.probabilities,
            counts.records,
            {"bayes": 1.0},
            unresolved="the iterative technique has no calibrated band; use method='auto'.",
        )
        return self


class SmoothReconstruction(_ColumnReconstruction):
    """A smooth random log-density; its smoothness averaged by evidence. Parameters as in `BayesReconstruction`."""

    def __init__(self, perturbation: NumberPerturbation, *, atoms: Atoms = "auto", whole: bool | None = None) -> None:
        self.perturbation = perturbation
        self.atoms = atoms
        self.whole = whole

    def fit(self, y: ArrayLike) -> Self:
        """`distribution_` from perturbed values."""
        counts, states = self._prepared(y)
        self.distribution_ = combined([smooth_family(states, counts)], counts, self.perturbation)
        return self


class MixtureReconstruction(_ColumnReconstruction):
    """A mixture of normal distributions, cut off at the bounds (paper 004, section 3.1).

    Parameters
    ----------
    components : how many; None averages over 1 … 7 by evidence, and `components_` are those that BIC prefers.

    Others as in `BayesReconstruction`.
    """

    def __init__(
        self,
        perturbation: NumberPerturbation,
        components: int | None = None,
        *,
        atoms: Atoms = "auto",
        whole: bool | None = None,
    ) -> None:
        self.perturbation = perturbation
        self.components = components
        self.atoms = atoms
        self.whole = whole

    def fit(self, y: ArrayLike) -> Self:
        """`distribution_` and `components_` from perturbed values."""
        if self.components is not None and not 1 <= self.components <= MOST_COMPONENTS:
            raise InvalidParameter(
                f"components must lie from 1 to {MOST_COMPONENTS}, got {self.components}.", "Use None to average."
            )
        counts, states = self._prepared(y)
        families = mixture_families(states, counts, smooth_family(states, counts), self.components)
        self.distribution_ = combined(families, counts, self.perturbation)
        self.components_ = self.distribution_.components
        return self


class Reconstruction(_ColumnReconstruction):
    """The distribution of a column from its perturbed values.

    Parameters
    ----------
    perturbation : the one that was applied; its bounds and noise are in the release's manifest.
    method : 'auto' averages smooth densities and mixtures, weighted by how well each predicted the records one after the
        other (their evidence); 'smooth', 'mixture' and 'bayes' are `SmoothReconstruction`, `MixtureReconstruction` and
        `BayesReconstruction`.
    atoms : values with a probability of their own; 'auto' finds them on the bounds.
    whole : True if values are whole numbers, False if not. None: with whole bounds and up to 32 numbers between them, both are
        considered.
    """

    def __init__(
        self,
        perturbation: NumberPerturbation,
        method: Literal["auto", "smooth", "mixture", "bayes"] = "auto",
        *,
        atoms: Atoms = "auto",
        whole: bool | None = None,
    ) -> None:
        self.perturbation = perturbation
        self.method = method
        self.atoms = atoms
        self.whole = whole

    def fit(self, y: ArrayLike) -> Self:
        """`distribution_` from perturbed values."""
        if self.method == "auto":
            counts, states = self._prepared(y)
            self.distribution_ = combined(self._families(states, counts), counts, self.perturbation)
            return self
        single = _METHODS.get(self.method)
        if single is None:
            raise InvalidParameter(
                f"There is no method '{self.method}'.", f"Use 'auto' or one of: {', '.join(_METHODS)}."
            )
        self.distribution_ = single(self.perturbation, atoms=self.atoms, whole=self.whole).fit(y).distribution_
        return self

    def _families(self, states: States, counts: Counts) -> list[Family]:
        smooth = smooth_family(states, counts)
        families = [smooth, *mixture_families(states, counts, smooth)]
        if self.whole is None and not len(states.atoms) and few_whole_numbers(self.perturbation):
            families.append(whole_family(self.perturbation, counts, smooth))
        return families


_METHODS: Final[dict[str, Any]] = {
    "smooth": SmoothReconstruction,
    "mixture": MixtureReconstruction,
    "bayes": BayesReconstruction,
}


def whole_numbers(perturbation: NumberPerturbation) -> int:
    """How many whole numbers lie between the bounds."""
    low, high = perturbation.bounds
    return math.floor(high) - math.ceil(low) + 1


def few_whole_numbers(perturbation: NumberPerturbation) -> bool:
    """Whether both bounds are whole and few whole numbers lie between them."""
    is_whole = all(float(bound).is_integer() for bound in perturbation.bounds)
    return is_whole and 2 < whole_numbers(perturbation) <= _FEW_WHOLE_NUMBERS


def smooth_family(states: States, counts: Counts) -> Family:
    """Smooth log-densities of all lengths and amplitudes."""
    fits = smooth_fits(states, counts)
    return Family("smooth", fits, np.array([fit.log_evidence for fit in fits]), len(fits))


def whole_family(perturbation: NumberPerturbation, counts: Counts, continuous: Family) -> Family:
    """Densities that are constant around each whole number, for a column that may consist of whole numbers.

    Its share follows from the evidence that values are whole numbers against that of a continuous column. The answer is spread
    over cells all the same: it is then good for bins of any kind.
    """
    exactly = smooth_family(whole_states(perturbation, counts.edges, spread=False), counts)
    log_odds = math.log(_PRIOR_ODDS_OF_WHOLE) + exactly.evidence - continuous.evidence
    spread = smooth_family(whole_states(perturbation, counts.edges, spread=True), counts)
    return replace(spread, name="whole numbers", share=float(expit(log_odds)))


def mixture_families(states: States, counts: Counts, smooth: Family, components: int | None = None) -> list[Family]:
    """Mixtures with narrow and with wide components; they start from the smooth average and from its sharpest good member."""
    sharp = (fit for fit in smooth.fits if fit.model.amplitude >= _SHARP_AMPLITUDE)
    best = max(sharp, key=lambda fit: fit.log_evidence)
    shapes = [averaged(smooth.fits, smooth.log_weights), best.probabilities]
    families = []
    for typical_scale in TYPICAL_SCALES:
        fits = mixture_fits(states, counts, typical_scale, shapes, components or MOST_COMPONENTS)
        if components is not None:
            fits = [fit for fit in fits if fit.model.components == components]
        weights = np.array([log_evidence(fit) for fit in fits])
        families.append(Family("mixture", fits, weights, 1 if components else MOST_COMPONENTS))
    return families


def combined(families: Sequence[Family], counts: Counts, perturbation: NumberPerturbation) -> Distribution:
    """The average over families by tempered evidence, within each by evidence."""
    shares = shares_of(families)
    layout = Layout.of([family.best.states for family in families], perturbation.bounds)
    probabilities = np.zeros(layout.size)
    members: list[Member] = []
    by_name: dict[str, float] = {}
    for family, share, band_share in zip(families, shares, band_shares(families, shares), strict=True):
        carrying = layout.carrying(family.best.states)
        by_name[family.name] = by_name.get(family.name, 0.0) + float(share)
        for fit, weight in zip(family.fits, normalised(family.log_weights), strict=True):
            carried = carrying @ fit.probabilities
            probabilities += share * weight * carried
            if band_share * weight >= _LEAST_WEIGHT:
                members.append(Member(float(band_share * weight), carried, carrying @ fit.spread()))
    return Distribution(
        layout,
        probabilities,
        counts.records,
        by_name,
        members,
        clusters_of(families, counts),
        max((resolution_of(family) for family in families), default=0.0),
        ""
        if any(family.is_smooth for family in families)
        else "mixtures alone are too sure of themselves; use 'auto'.",
    )


def shares_of(families: Sequence[Family]) -> Floats:
    """Parts of the average: those that are decided, and the rest by tempered evidence."""
    decided = np.array([family.share or 0.0 for family in families])
    undecided = np.array([family.share is None for family in families])
    evidence = np.array([family.evidence if family.share is None else -np.inf for family in families])
    preference = np.array([1.0 if family.is_smooth else _PREFERENCE_FOR_MIXTURES for family in families])
    weights = preference * normalised(evidence, _TEMPERATURE)
    return np.where(undecided, (1 - decided.sum()) * weights / weights.sum(), decided)


def band_shares(families: Sequence[Family], shares: Floats) -> Floats:
    """Shares in a band: half of it belongs to smooth densities, which claim less than mixtures do."""
    smooth = np.array([family.is_smooth for family in families]) * shares
    return (shares + smooth / smooth.sum()) / 2 if smooth.any() else shares


def resolution_of(family: Family) -> float:
    """The width below which nothing is known of a rough column; zero if the data show how rough it is, or that it is smooth.

    A column is rough without limit if long curves are refuted and the shortest do as well as any.
    """
    if not family.is_smooth or family.name != "smooth":
        return 0.0
    weights = family.log_weights.reshape(len(LENGTHS), -1).max(axis=1)
    shortest, long = weights[0], weights[[length >= _LONG for length in LENGTHS]].max()
    if weights.max() - long < _REFUTED or weights.max() - shortest > _AS_GOOD:
        return 0.0
    edges = family.best.states.edges
    return float(_LENGTHS_IN_RESOLUTION * LENGTHS[0] * (edges[-1] - edges[0]))


def clusters_of(families: Sequence[Family], counts: Counts) -> Clusters | None:
    """Components of the mixture that Schwarz's criterion prefers, and whose perturbed values are whose."""
    mixtures = [fit for family in families for fit in family.fits if isinstance(fit.model, NormalMixture)]
    if not mixtures:
        return None
    fit: Fit[NormalMixture] = min(mixtures, key=lambda fit: bayesian_information(fit, counts.records))
    weights, means, scales = fit.model.unpacked(fit.parameters)
    cells = fit.states.cells
    masses, _, _ = cell_masses(fit.states.unit_edges, means, scales)
    seen = np.hstack([fit.states.channel[:, :cells] @ masses, fit.states.channel[:, cells:]]) * weights
    return Clusters(
        fit.model.described(fit.parameters), fit.states.atoms, counts.edges, seen / seen.sum(axis=1, keepdims=True)
    )
