"""From perturbed values to the distribution of the original ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.parameter_checks import SEEDS, Numbers
from sudare.perturbation.number_channels import NumberPerturbation
from sudare.reconstruction.binning import (
    Counts,
    States,
    cell_count,
    continuous_states,
    counted,
    few_whole_numbers,
    pooled,
    whole_numbers,
    whole_states,
)
from sudare.reconstruction.channels import ProductChannel
from sudare.reconstruction.held_out_average import (
    Candidate,
    family_candidate,
    held_out_weights,
    logarithmic_candidates,
)
from sudare.reconstruction.iterative_bayes import FOLDS, Stopped, random_parts, stopped_by_validation, uniform_start
from sudare.reconstruction.model_average import (
    FitFamily,
    Iterated,
    combined,
    mixture_families,
    shares_of,
    smooth_family,
    whole_family,
)
from sudare.reconstruction.normal_mixture import MOST_COMPONENTS
from sudare.reconstruction.point_mass_detection import declared_atoms, detected_atoms
from sudare.reconstruction.pooled_releases import NumberLaw, paired_with_columns
from sudare.reconstruction.reconstructed_distribution import Distribution, Layout

Atoms = Sequence[float] | Literal["auto"]
Method = Literal["auto", "evidence", "smooth", "mixture", "bayes"]
METHODS: Final = get_args(Method)

MOST_STEPS: Final = 5623
_MOST_WHOLE_NUMBERS: Final = 512


@dataclass(eq=False, repr=False)
class Reconstruction(BaseEstimator):
    """The distribution of a column from its perturbed values. Post-processing: it costs no budget.

    Parameters
    ----------
    perturbation : the one that was applied; its bounds and noise are in the release's manifest. Or a list of those of several releases of
        the column, whose perturbed values are then fitted together; `fit` takes a list of as many columns.
    method : 'smooth' are random smooth log-densities; 'mixture' mixtures of normal distributions, cut off at the bounds (paper 004,
        section 3.1); 'bayes' is the Iterative Bayesian Technique on fine cells, stopped by cross-validation; 'auto' averages these, and
        smooth densities and mixtures on logarithmic scales, by how likely they made records that they had not seen; 'evidence' averages
        'smooth' and 'mixture' by how well each predicted the records one after the other.
    components : how many normal distributions a mixture has; None averages over 1 … 7 by evidence.
    atoms : values with a probability of their own; 'auto' finds them on the bounds.
    whole : True if values are whole numbers, False if not. None: as the perturbation says; where it does not, with whole bounds and up to
        32 numbers between them, both are considered.
    random_state : seed of the parts for cross-validation.

    Attributes
    ----------
    distribution_ : a `Distribution`; its `components` are those of the mixture that BIC prefers.
    """

    perturbation: NumberPerturbation | Sequence[NumberPerturbation]
    method: Method = "auto"
    _: KW_ONLY
    components: int | None = None
    atoms: Atoms = "auto"
    whole: bool | None = None
    random_state: int | None = 0

    def fit(self, y: ArrayLike | Sequence[ArrayLike]) -> Self:
        """`distribution_` from perturbed values; of several perturbations, from a column for each."""
        law, counts, states = self._prepared(y)
        if self.method == "bayes":
            self.distribution_ = self._iterated(law, states, self._stopped(states, self._parts(counts)), counts)
        elif self.method == "auto":
            parts = self._parts(counts)
            families, stopped = self._families(law, states, counts), self._stopped(states, parts)
            self.distribution_ = self._averaged(law, families, stopped, states, counts, parts)
        else:
            self.distribution_ = combined(self._families(law, states, counts), counts, law)
        return self

    def _prepared(self, y: ArrayLike | Sequence[ArrayLike]) -> tuple[NumberLaw, Counts, States]:
        """The law of the answers, their counts, and the states that are sought: whole numbers if declared so, else cells and atoms."""
        self._check_parameters()
        law, counts = self._counted(y)
        cells = cell_count(law)
        whole = self._is_whole(law)
        if whole and whole_numbers(law) < 2:
            raise InvalidParameter(
                "There are fewer than two whole numbers between the bounds.", "Leave whole=None, or check the bounds."
            )
        if whole and whole_numbers(law) <= _MOST_WHOLE_NUMBERS:
            return law, counts, whole_states(law, counts.edges, spread=False)
        is_sought = isinstance(self.atoms, str)
        atoms = detected_atoms(law, counts, cells) if is_sought else declared_atoms(law, self.atoms)
        return law, counts, continuous_states(law, counts.edges, cells, atoms)

    def _counted(self, y: ArrayLike | Sequence[ArrayLike]) -> tuple[NumberLaw, Counts]:
        """The law of the answers, and how many lie in each bin."""
        pairs = paired_with_columns(self.perturbation, y)
        if not all(isinstance(each, NumberPerturbation) for each, _ in pairs):
            raise InvalidParameter(
                "perturbation must be one of a number column.",
                "Use LaplacePerturbation or SquareWave as it was applied.",
            )
        first, column = pairs[0]
        if len(pairs) == 1:
            return first, counted(first, column, cell_count(first))
        return pooled([each for each, _ in pairs], [values for _, values in pairs])

    def _is_whole(self, law: NumberLaw) -> bool | None:
        """Whether values are whole numbers: as said here, else as the perturbation says; None if nobody does."""
        return (law.whole or None) if self.whole is None else self.whole

    def _check_parameters(self) -> None:
        if self.method not in METHODS:
            raise InvalidParameter(f"There is no method '{self.method}'.", f"Use one of: {', '.join(METHODS)}.")
        Numbers(1, MOST_COMPONENTS, whole=True, optional=True).check("components", self.components)
        SEEDS.check("random_state", self.random_state)
        if isinstance(self.atoms, str) and self.atoms != "auto":
            raise InvalidParameter(f"atoms must be 'auto' or numbers, got '{self.atoms}'.", "Use for example (0,).")
        if not (self.whole is None or isinstance(self.whole, bool | np.bool_)):
            raise InvalidParameter(f"whole must be True, False or None, got {self.whole!r}.", "Leave it out if unsure.")

    def _families(self, law: NumberLaw, states: States, counts: Counts) -> list[FitFamily]:
        smooth = smooth_family(states, counts)
        if self.method == "smooth":
            return [smooth]
        mixtures = mixture_families(states, counts, smooth, self.components)
        if self.method == "mixture":
            return mixtures
        families = [smooth, *mixtures]
        if self._is_whole(law) is None and not len(states.atoms) and few_whole_numbers(law):
            families.append(whole_family(law, counts, smooth))
        return families

    def _parts(self, counts: Counts) -> list[Floats]:
        return random_parts(counts.counts, FOLDS, np.random.default_rng(self.random_state))

    def _stopped(self, states: States, parts: Sequence[Floats]) -> Stopped:
        return stopped_by_validation(ProductChannel([states.channel]), uniform_start(states), parts, MOST_STEPS)

    def _iterated(self, law: NumberLaw, states: States, stopped: Stopped, counts: Counts) -> Distribution:
        layout = Layout.of([states], law.bounds)
        return Distribution(
            layout,
            layout.carrying(states) @ stopped.probabilities,
            counts.records,
            {"bayes": 1.0},
            unresolved="the iterative technique has no calibrated band; use method='auto'.",
        )

    def _candidates(
        self,
        law: NumberLaw,
        families: Sequence[FitFamily],
        stopped: Stopped,
        states: States,
        counts: Counts,
        parts: Sequence[Floats],
    ) -> list[Candidate]:
        """What 'auto' averages; the Iterative Bayesian Technique last."""
        by_name = {name: [one for one in families if one.name == name] for name in ("smooth", "mixture")}
        candidates = [family_candidate(name, own, counts, parts) for name, own in by_name.items()]
        if states.spread:
            candidates += logarithmic_candidates(law, states, counts, parts)
        predicted = (states.channel @ stopped.left_out.T).T
        return [*candidates, Candidate("bayes", states, stopped.probabilities, predicted)]

    def _averaged(
        self,
        law: NumberLaw,
        families: Sequence[FitFamily],
        stopped: Stopped,
        states: States,
        counts: Counts,
        parts: Sequence[Floats],
    ) -> Distribution:
        """Candidates by the likelihood of parts that they had not seen; a family whose share is decided keeps it."""
        candidates = self._candidates(law, families, stopped, states, counts, parts)
        decided = {family: family.share for family in families if family.share is not None}
        weights = (1 - sum(decided.values())) * held_out_weights(candidates, parts)
        shares = [
            weight * share
            for candidate, weight in zip(candidates, weights, strict=True)
            for share in (shares_of(candidate.families) if candidate.families else ())
        ]
        averaged = [family for candidate in candidates for family in candidate.families]
        iterated = Iterated(float(weights[-1]), states, stopped.probabilities)
        every_share = np.array([*shares, *decided.values()])
        return combined([*averaged, *decided], counts, law, every_share, iterated)


def each_method(perturbation: NumberPerturbation, y: ArrayLike, *, with_auto: bool = False) -> dict[str, Distribution]:
    """What `Reconstruction` gives with each of its methods; what they have in common is computed once."""
    model = Reconstruction(perturbation)
    law, counts, states = model._prepared(y)
    families, parts = model._families(law, states, counts), model._parts(counts)
    stopped = model._stopped(states, parts)
    single = {name: [family for family in families if family.name == name] for name in ("smooth", "mixture")}
    found = {name: combined(own, counts, law) for name, own in {"evidence": families, **single}.items()}
    if with_auto:
        found["auto"] = model._averaged(law, families, stopped, states, counts, parts)
    return {**found, "bayes": model._iterated(law, states, stopped, counts)}
