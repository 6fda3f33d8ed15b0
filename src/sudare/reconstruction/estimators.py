"""From perturbed values to the distribution of the original ones: the default, and each method on its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from sudare.errors import InvalidParameter
from sudare.parameter_checks import SEEDS, Numbers
from sudare.perturbation.number_channels import NumberPerturbation
from sudare.reconstruction.atoms import declared_atoms, detected_atoms
from sudare.reconstruction.binning import (
    Counts,
    States,
    cell_count,
    continuous_states,
    counted,
    few_whole_numbers,
    whole_numbers,
    whole_states,
)
from sudare.reconstruction.distribution import Distribution, Layout
from sudare.reconstruction.iterative_bayes import stopped_by_validation
from sudare.reconstruction.model_average import Family, combined, mixture_families, smooth_family, whole_family
from sudare.reconstruction.normal_mixture import MOST_COMPONENTS

Atoms = Sequence[float] | Literal["auto"]

_MOST_WHOLE_NUMBERS: Final = 512


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
        if not (self.whole is None or isinstance(self.whole, bool | np.bool_)):
            raise InvalidParameter(f"whole must be True, False or None, got {self.whole!r}.", "Leave it out if unsure.")
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
        SEEDS.check("random_state", self.random_state)
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
        Numbers(1, MOST_COMPONENTS, whole=True, optional=True).check("components", self.components)
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


def each_method(perturbation: NumberPerturbation, y: ArrayLike) -> dict[str, Distribution]:
    """What `Reconstruction` gives with each of its methods; what they have in common is computed once."""
    model = Reconstruction(perturbation)
    counts, states = model._prepared(y)
    families = model._families(states, counts)
    single = {name: [family for family in families if family.name == name] for name in ("smooth", "mixture")}
    found = {name: combined(own, counts, perturbation) for name, own in {"auto": families, **single}.items()}
    return {**found, "bayes": BayesReconstruction(perturbation).fit(y).distribution_}
