"""Algorithm 1 of paper 004: the mixture of normal distributions behind one perturbed column, by EM. The product does not use it.

Everything is computed in units of the noise, so that a learning rate means the same for ages and for dollars.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.papers.p004_reconstruction.normal_laplace import (
    LEAST_SCALE,
    Expectation,
    Parameters,
    closed_form_update,
    expectation,
    gradient_update,
)
from sudare.papers.p004_reconstruction.printed_values import TABLE_2_COMPONENTS, TABLE_2_RATE, TOLERANCE
from sudare.parameter_checks import SEEDS, Numbers
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.perturbation.number_channels import checked_numbers
from sudare.reconstruction.binning import checked_values
from sudare.reconstruction.normal_mixture import Components
from sudare.reconstruction.reconstructed_distribution import Clusters, Distribution, Layout

Update = Literal["closed-form", "gradient"]
UPDATES: Final = get_args(Update)

MOST_COMPONENTS: Final = 50
MOST_STEPS: Final = 100_000
_BINS_IN_SCALE: Final = 16
_CELLS: Final = 512
_PLACES_IN_COMPONENT: Final = np.linspace(-6, 6, 97)
_MOST_HALVINGS: Final = 60

Step = Callable[[Parameters, Expectation], tuple[Parameters, Expectation]]
"""From parameters and what is expected under them to the following ones."""


@dataclass(frozen=True)
class Fit:
    """Where the EM algorithm came to rest, in units of the noise; `converged` is False where its steps ran out before."""

    parameters: Parameters
    log_likelihood: float
    n_iter: int
    converged: bool


class FiniteMixtureReconstruction(BaseEstimator):
    """No privacy of its own: Algorithm 1 of paper 004, from values that were perturbed before; it costs no budget.

    Parameters
    ----------
    perturbation : the Laplace noise that was applied; the paper's formulas hold for no other law.
    components : K; of several the one with the highest L is taken, as section 5.2 does.
    update : the M-step. 'gradient' is the printed one (11); 'closed-form' the one that the paper holds impossible.
    learning_rate : α of the gradient, for values in units of the noise scale φ; the printed α, in the column's own unit, is α/φ² here
        (`perturbation.noise_scale` is φ). The default is Table 2's number, in units of φ.
    backtracking : halve a gradient step that would lower L until it does not, since the paper asks for a rate at which nothing diverges. False takes every
        step as it is, as printed: with many records that diverges.
    in_bins : count values in bins of a 16th of φ, which makes steps quick and changes L by parts of a nat. False takes every value as it is (section 3.1.3).
    tolerance : ε: the algorithm ends when L changes by less.
    max_iter : most steps; a warning says if they ran out.
    n_init : random starts for each K, of which the best is kept. The paper speaks of one.
    random_state : seed of the starts.

    Attributes
    ----------
    components_ : weights ρ, means μ and scales σ in the column's unit, means rising.
    log_likelihood_, log_likelihoods_ : L (13) of the fit, and of the best fit with each K.
    n_iter_, converged_ : steps of the fit, and whether it came to rest.
    distribution_ : the product's `Distribution`: histograms, quantiles, `predict`. What the mixture has outside of the bounds counts on the bounds.
    """

    def __init__(
        self,
        perturbation: LaplacePerturbation,
        components: int | Sequence[int] = TABLE_2_COMPONENTS,
        *,
        update: Update = "closed-form",
        learning_rate: float = TABLE_2_RATE,
        backtracking: bool = True,
        in_bins: bool = True,
        tolerance: float = TOLERANCE,
        max_iter: int = MOST_STEPS,
        n_init: int = 1,
        random_state: int | None = 0,
    ) -> None:
        self.perturbation = perturbation
        self.components = components
        self.update = update
        self.learning_rate = learning_rate
        self.backtracking = backtracking
        self.in_bins = in_bins
        self.tolerance = tolerance
        self.max_iter = max_iter
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, y: ArrayLike) -> Self:
        """`components_` and `distribution_` from perturbed values."""
        counts_of_components = self._checked_components()
        values = checked_values(self.perturbation, y)
        scale = self.perturbation.noise_scale
        low, high = (bound / scale for bound in self.perturbation.bounds)
        places, counts = binned(values / scale) if self.in_bins else (values / scale, np.ones(len(values)))
        generator = np.random.default_rng(self.random_state)
        fits = {
            count: max(
                (
                    self._fitted(places, counts, random_start(places, counts, (low, high), count, generator))
                    for _ in range(self.n_init)
                ),
                key=lambda fit: fit.log_likelihood,
            )
            for count in counts_of_components
        }
        best = max(fits.values(), key=lambda fit: fit.log_likelihood)
        if not best.converged:
            warnings.warn(
                f"Algorithm 1 was not at rest after {self.max_iter} steps: raise max_iter or tolerance.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.components_ = in_column_units(best.parameters, scale)
        # A density of y/φ is φ times that of y.
        self.log_likelihoods_ = {
            count: fit.log_likelihood - len(values) * math.log(scale) for count, fit in fits.items()
        }
        self.log_likelihood_ = max(self.log_likelihoods_.values())
        self.n_iter_, self.converged_ = best.n_iter, best.converged
        self.distribution_ = self._distribution(values)
        return self

    def responsibilities(self, y: ArrayLike) -> Floats:
        """γ(i, l), equation (10): a row for each perturbed value, a column for each component."""
        check_is_fitted(self)
        values, found = checked_numbers(y), self.components_
        parameters = Parameters(found.weights, found.means, found.scales)
        return expectation(values, np.ones(len(values)), parameters, self.perturbation.noise_scale).responsibilities

    def predict(self, y: ArrayLike) -> NDArray[np.intp]:
        """The component with the greatest γ for each perturbed value (section 4.3)."""
        return np.asarray(self.responsibilities(y).argmax(axis=1))

    def _checked_components(self) -> tuple[int, ...]:
        """The numbers of components to try; raise InvalidParameter unless all parameters can be used."""
        if not isinstance(self.perturbation, LaplacePerturbation):
            raise InvalidParameter(
                "Algorithm 1 knows Laplace noise only.", "Use sudare.reconstruction.Reconstruction for other noise."
            )
        given: Any = self.components
        several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
        counts = tuple(given) if several else (given,)
        if not counts:
            raise InvalidParameter("components names no number of components.", "Use for example (1, 2, 3).")
        for count in counts:
            Numbers(1, MOST_COMPONENTS, whole=True).check("components", count)
        check_flags(backtracking=self.backtracking, in_bins=self.in_bins)
        check_iteration(self.update, self.learning_rate, self.tolerance, self.max_iter, self.n_init, self.random_state)
        return counts

    def _fitted(self, places: Floats, counts: Floats, start: Parameters) -> Fit:
        if self.update == "closed-form":
            following = closed_form_step(places, counts)
        else:
            following = gradient_step(places, counts, self.learning_rate, backtracking=self.backtracking)
        return at_rest(places, counts, start, following, self.tolerance, self.max_iter)

    def _distribution(self, values: Floats) -> Distribution:
        layout = layout_of(self.components_, self.perturbation.bounds)
        edges = np.linspace(*self.perturbation.output_bounds, 8 * _CELLS + 1)
        posterior = self.responsibilities((edges[1:] + edges[:-1]) / 2)
        return Distribution(
            layout,
            masses(self.components_, layout),
            len(values),
            {"Algorithm 1": 1.0},
            clusters=Clusters(self.components_, np.empty(0), edges, posterior),
            unresolved="Algorithm 1 comes without a measure of its error; use sudare.reconstruction.Reconstruction.",
        )


def check_iteration(
    update: str, learning_rate: float, tolerance: float, max_iter: int, n_init: int, random_state: int | None
) -> None:
    """Raise InvalidParameter unless these parameters of both algorithms can be used."""
    if update not in UPDATES:
        raise InvalidParameter(f"There is no update '{update}'.", f"Use one of: {', '.join(UPDATES)}.")
    Numbers(0, open_low=True).check("learning_rate", learning_rate)
    Numbers(0, open_low=True).check("tolerance", tolerance)
    Numbers(1, whole=True).check("max_iter", max_iter)
    Numbers(1, whole=True).check("n_init", n_init)
    SEEDS.check("random_state", random_state)


def check_flags(**flags: object) -> None:
    """Raise InvalidParameter unless these are True or False: any other word would count as True."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise InvalidParameter(f"{name} is neither True nor False.", f"Give {name}=True or {name}=False.")


def closed_form_step(places: Floats, counts: Floats) -> Step:
    """Steps of EM with the closed-form M-step, in units of the noise."""

    def following(now: Parameters, found: Expectation) -> tuple[Parameters, Expectation]:
        after = closed_form_update(counts, found)
        return after, expectation(places, counts, after, 1.0)

    return following


def gradient_step(places: Floats, counts: Floats, rate: float, *, backtracking: bool) -> Step:
    """Steps of generalised EM with the printed gradient (11), in units of the noise."""
    step = rate

    def following(now: Parameters, found: Expectation) -> tuple[Parameters, Expectation]:
        nonlocal step
        # The last step that held is a better guess than α where α is too long: most halvings are saved.
        step = min(rate, 2 * step)
        for _ in range(_MOST_HALVINGS):
            after = gradient_update(counts, found, now, step)
            seen = expectation(places, counts, after, 1.0)
            if not backtracking or seen.log_likelihood >= found.log_likelihood:
                break
            step /= 2
        return after, seen

    return following


def at_rest(places: Floats, counts: Floats, start: Parameters, following: Step, tolerance: float, max_iter: int) -> Fit:
    """Steps until |L_old − L_new| < ε (line 5 of Algorithm 1), until they run out, or until a number overflows."""
    now, found = start, expectation(places, counts, start, 1.0)
    for number in range(1, max_iter + 1):
        after, seen = following(now, found)
        if not math.isfinite(seen.log_likelihood):
            return Fit(now, found.log_likelihood, number, converged=False)
        gain = seen.log_likelihood - found.log_likelihood
        now, found = after, seen
        if abs(gain) < tolerance:
            return Fit(now, found.log_likelihood, number, converged=True)
    return Fit(now, found.log_likelihood, max_iter, converged=False)


def random_start(
    places: Floats, counts: Floats, bounds: tuple[float, float], components: int, generator: np.random.Generator
) -> Parameters:
    """Line 1 of Algorithm 1: means among the values, cut to the bounds; random weights; scales that add up to the values' deviation."""
    shares = counts / counts.sum()
    means = np.sort(np.clip(generator.choice(places, components, p=shares), *bounds))
    deviation = math.sqrt(float(shares @ (places - shares @ places) ** 2))
    scales = np.full(components, max(deviation / components, LEAST_SCALE))
    return Parameters(generator.dirichlet(np.ones(components)), means, scales)


def binned(values: Floats) -> tuple[Floats, Floats]:
    """Means and counts of values in bins of a 16th of the noise scale, which is the unit: next to nothing is lost, and steps are quick."""
    place = np.floor((values - values.min()) * _BINS_IN_SCALE).astype(np.intp)
    counts = np.bincount(place).astype(np.float64)
    filled = counts > 0
    return np.bincount(place, values)[filled] / counts[filled], counts[filled]


def in_column_units(parameters: Parameters, noise_scale: float) -> Components:
    """Parameters in the column's unit, means rising."""
    order = np.argsort(parameters.means)
    return Components(
        parameters.weights[order], noise_scale * parameters.means[order], noise_scale * parameters.scales[order]
    )


def layout_of(components: Components, bounds: tuple[float, float]) -> Layout:
    """Cells between the bounds, finer where components are narrow, and the bounds for what lies outside."""
    around = (components.means[:, np.newaxis] + components.scales[:, np.newaxis] * _PLACES_IN_COMPONENT).ravel()
    edges = np.unique(np.clip(np.concatenate((np.linspace(*bounds, _CELLS + 1), around)), *bounds))
    return Layout(edges, np.array(bounds))


def masses(components: Components, layout: Layout) -> Floats:
    """The mixture (5) in the cells of a layout; what lies below and above them is on its atoms."""
    below = ndtr((layout.edges[:, np.newaxis] - components.means) / components.scales) @ components.weights
    return np.concatenate((np.diff(below), [below[0], 1 - below[-1]]))
