"""Perturbed values counted in bins, and the states in which the true values may have been.

A state is a cell of the column, within which values are spread evenly, or an atom: one value with a probability of its own. The
channel from states to bins is that of the perturbation, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from sudare.array_types import Floats
from sudare.errors import DataError
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.perturbation.number_channels import NumberPerturbation, checked_numbers
from sudare.reconstruction.pooled_releases import NumberLaw, PooledPerturbations, check_alike
from sudare.report.number_formatting import whole

CELLS: Final = 240
_MOST_CELLS: Final = 480
_CELLS_IN_SCALE: Final = 12
LEAST_RECORDS: Final = 10
# With at most so many whole numbers between whole bounds, a column of whole numbers is likelier than a continuous one: codes,
# grades, counts. Noise often hides the difference; where it does not, evidence decides.
_FEW_WHOLE_NUMBERS: Final = 32
# The part of the range, next to a bound, in which a logarithmic scale is about linear.
_LINEAR_PART: Final = 0.02


@dataclass(frozen=True, eq=False)
class Counts:
    """How many perturbed values lie in each bin. Edges lie between the points of the public grid, so that no value is on one.

    Of several releases `edges` and `counts` are those of each, one after the other.
    """

    edges: Floats
    counts: Floats

    @property
    def records(self) -> int:
        """How many values were counted."""
        return int(self.counts.sum())


@dataclass(frozen=True, eq=False)
class States:
    """The states in which values may have been: cells between rising edges, then atoms.

    `spread` says that values lie evenly within a cell; otherwise they sit on the middle of it. A column of `channel` is the
    distribution of the perturbed value over the bins of `Counts`, given the state. `logarithmic` says that cells are equal on
    a logarithmic scale and not on that of the column.
    """

    edges: Floats
    atoms: Floats
    spread: bool
    channel: Floats
    logarithmic: bool = False

    @property
    def cells(self) -> int:
        """How many cells there are; atoms follow after them."""
        return len(self.edges) - 1

    @property
    def unit_edges(self) -> Floats:
        """Edges from 0 to 1 on the scale on which densities are smooth."""
        if self.logarithmic:
            return np.linspace(0.0, 1.0, self.cells + 1)
        scaled: Floats = (self.edges - self.edges[0]) / (self.edges[-1] - self.edges[0])
        return scaled

    @property
    def centres(self) -> Floats:
        """The middles of the cells."""
        return (self.edges[1:] + self.edges[:-1]) / 2


def cell_count(perturbation: NumberLaw) -> int:
    """How finely a column is cut: into 240 cells, or more where the noise is narrower than 20 of them."""
    low, high = perturbation.bounds
    wanted = math.ceil(_CELLS_IN_SCALE * (high - low) / perturbation.noise_scale)
    return min(perturbation.steps, max(CELLS, min(_MOST_CELLS, wanted)))


def bin_edges(perturbation: NumberPerturbation, cells: int) -> Floats:
    """Edges of the bins of perturbed values: as wide as the cells.

    What lies outside of the bounds goes into one bin on each side for Laplace noise: the density of such a y is a product of a
    function of y and one of x, so that the side is all it says about its record. Other laws are cut finely there too.
    """
    steps, overshoot = perturbation.steps, perturbation.overshoot
    inner = np.unique(np.rint(np.linspace(0, steps + 1, cells + 1)))
    if isinstance(perturbation, LaplacePerturbation):
        places = np.concatenate(([-overshoot], inner, [steps + overshoot + 1.0]))
    else:
        beyond = np.unique(np.rint(np.arange(0, overshoot, (steps + 1) / cells)))[1:]
        outside = np.append(beyond, float(overshoot)) if overshoot else np.empty(0)
        places = np.concatenate((-outside[::-1], inner, steps + 1 + outside))
    return np.asarray(perturbation.bounds[0] + (np.unique(places) - 0.5) * perturbation.grid)


def counted(perturbation: NumberPerturbation, y: ArrayLike, cells: int) -> Counts:
    """Perturbed values in bins."""
    return _in_bins(perturbation, checked_values(perturbation, y), cells)


def _in_bins(perturbation: NumberPerturbation, values: Floats, cells: int) -> Counts:
    edges = bin_edges(perturbation, cells)
    inside = edges[1:-1]
    return Counts(edges, np.bincount(np.searchsorted(inside, values), minlength=len(edges) - 1).astype(np.float64))


def pooled(
    perturbations: Sequence[NumberPerturbation], columns: Sequence[ArrayLike]
) -> tuple[PooledPerturbations, Counts]:
    """Several releases of one column as one perturbation, and their perturbed values in bins.

    Raise InvalidParameter where they do not declare the column alike, DataError where one has no values or all together too few.
    """
    check_alike(perturbations)
    cells = max(cell_count(each) for each in perturbations)
    values = list(map(checked_numbers, columns))
    if not all(map(len, values)):
        raise DataError("There are no perturbed values.", "Give at least one.")
    _check_enough(sum(map(len, values)))
    every = [_in_bins(each, _possible(each, column), cells) for each, column in zip(perturbations, values, strict=True)]
    counts = Counts(np.concatenate([one.edges for one in every]), np.concatenate([one.counts for one in every]))
    shares = [one.records / counts.records for one in every]
    return PooledPerturbations(perturbations, shares, [len(one.edges) for one in every]), counts


def checked_values(perturbation: NumberPerturbation, y: ArrayLike) -> Floats:
    """Perturbed values, if they are enough and this perturbation can have drawn them."""
    values = checked_numbers(y)
    _check_enough(len(values))
    return _possible(perturbation, values)


def _check_enough(records: int) -> None:
    if records < LEAST_RECORDS:
        raise DataError(
            f"A distribution cannot be reconstructed from {whole(records)} records.",
            f"Give {LEAST_RECORDS} or more; a useful answer takes hundreds.",
        )


def _possible(perturbation: NumberPerturbation, values: Floats) -> Floats:
    """The values. Raise DataError where one lies outside of all possible outputs."""
    low, high = perturbation.output_bounds
    slack = perturbation.grid / 2
    if not (np.min(values) >= low - slack and np.max(values) <= high + slack):
        raise DataError(
            "Some values cannot come from this perturbation: they lie outside of all possible outputs.",
            "Give the perturbed column, and the perturbation with the bounds and ε (or k) of its manifest.",
        )
    return values


def continuous_states(perturbation: NumberLaw, edges_y: Floats, cells: int, atoms: Floats) -> States:
    """Equal cells between the bounds, and atoms."""
    return spread_states(perturbation, edges_y, np.linspace(*perturbation.bounds, cells + 1), atoms)


def logarithmic_states(
    perturbation: NumberLaw, edges_y: Floats, cells: int, atoms: Floats, finest: Literal["low", "high"]
) -> States:
    """Cells that grow from one of the bounds on, equal in log(1 + 50·distance/range); and atoms."""
    low, high = perturbation.bounds
    distances = (high - low) * _LINEAR_PART * np.expm1(np.linspace(0.0, math.log1p(1 / _LINEAR_PART), cells + 1))
    edges = low + distances if finest == "low" else high - distances[::-1]
    edges[[0, -1]] = low, high
    return replace(spread_states(perturbation, edges_y, edges, atoms), logarithmic=True)


def spread_states(perturbation: NumberLaw, edges_y: Floats, edges: Floats, atoms: Floats) -> States:
    """Cells between given edges, with values spread evenly in each, and atoms."""
    channel = perturbation.transition(edges_y, edges)
    if len(atoms):
        channel = np.hstack([channel, perturbation.transition_at(edges_y, atoms)])
    return States(edges, atoms, True, channel)


def whole_states(perturbation: NumberLaw, edges_y: Floats, *, spread: bool) -> States:
    """A cell around each whole number between the bounds; not spread, the numbers themselves."""
    low, high = perturbation.bounds
    first, last = math.ceil(low), math.floor(high)
    edges = np.arange(first - 0.5, last + 1.0)
    if spread:
        edges = np.clip(edges, low, high)
        return States(edges, np.empty(0), True, perturbation.transition(edges_y, edges))
    return States(edges, np.empty(0), False, perturbation.transition_at(edges_y, np.arange(first, last + 0.5)))


def whole_numbers(perturbation: NumberLaw) -> int:
    """How many whole numbers lie between the bounds."""
    low, high = perturbation.bounds
    return math.floor(high) - math.ceil(low) + 1


def few_whole_numbers(perturbation: NumberLaw) -> bool:
    """Whether both bounds are whole and few whole numbers lie between them."""
    is_whole = all(float(bound).is_integer() for bound in perturbation.bounds)
    return is_whole and 2 < whole_numbers(perturbation) <= _FEW_WHOLE_NUMBERS
