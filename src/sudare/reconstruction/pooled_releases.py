"""Several releases of one column, each perturbed in its own way, seen as one: an answer is a value and which release it is from.

Answers of all releases have one likelihood, Σ_j Σ_y log Σ_x P_j(y | x)·p(x), and so one estimate of p. It is the likelihood of records of their own
in each release. Where releases are of the same records, whose noise was drawn anew, it is a composite likelihood (Lindsay 1988; Varin, Reid and
Firth 2011): rows are shuffled, so that nobody can tell which answers belong together. The estimate stays consistent; how sure it is does not follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter
from sudare.perturbation.column_perturbation import Perturbation
from sudare.perturbation.number_channels import Bounds, NumberPerturbation


class NumberLaw(Protocol):
    """What a reconstruction of numbers asks of the perturbation, or of several."""

    @property
    def bounds(self) -> Bounds:
        """Between which values lie."""

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers."""

    @property
    def noise_scale(self) -> float:
        """How wide the noise is, in the column's unit."""

    @property
    def steps(self) -> int:
        """How many steps of the public grid lie between the bounds."""

    def transition(self, edges_y: ArrayLike, edges_x: ArrayLike) -> Floats:
        """P(Y in bin | X uniform in a bin of x), one column a bin of x."""

    def transition_at(self, edges_y: ArrayLike, points_x: ArrayLike) -> Floats:
        """P(Y in bin | X = x), one column an x."""


@dataclass(frozen=True, eq=False)
class PooledPerturbations:
    """The perturbations of several releases, with the share of all answers that is from each.

    Edges of bins of answers are those of each release, one after the other; `sizes` says how many each has. Rows of a transition come in the same order.
    """

    parts: Sequence[NumberPerturbation]
    shares: Sequence[float]
    sizes: Sequence[int]

    @property
    def bounds(self) -> Bounds:
        """Those of all releases."""
        return self.parts[0].bounds

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers."""
        return self.parts[0].whole

    @cached_property
    def noise_scale(self) -> float:
        """The narrowest noise: how finely the releases together can tell values apart."""
        return min(part.noise_scale for part in self.parts)

    @cached_property
    def steps(self) -> int:
        """Steps of the coarsest grid between the bounds."""
        return min(part.steps for part in self.parts)

    def transition(self, edges_y: ArrayLike, edges_x: ArrayLike) -> Floats:
        """P(release and bin of the answer | X uniform in a bin of x), one column a bin of x."""
        return self._stacked([part.transition(edges, edges_x) for part, edges in self._edges(edges_y)])

    def transition_at(self, edges_y: ArrayLike, points_x: ArrayLike) -> Floats:
        """P(release and bin of the answer | X = x), one column an x."""
        return self._stacked([part.transition_at(edges, points_x) for part, edges in self._edges(edges_y)])

    def _edges(self, edges_y: ArrayLike) -> list[tuple[NumberPerturbation, Floats]]:
        found = np.split(np.asarray(edges_y, dtype=np.float64), np.cumsum(self.sizes)[:-1])
        return list(zip(self.parts, found, strict=True))

    def _stacked(self, transitions: Sequence[Floats]) -> Floats:
        return np.vstack([share * each for share, each in zip(self.shares, transitions, strict=True)])


def paired_with_columns(perturbation: object, y: Any) -> list[tuple[Any, Any]]:
    """Each perturbation with its column of answers. Raise InvalidParameter or DataError unless there are as many of one as of the other.

    One perturbation, not in a list, has one column.
    """
    if isinstance(perturbation, Perturbation) or not isinstance(perturbation, list | tuple):
        return [(perturbation, y)]
    if len(perturbation) == 0:
        raise InvalidParameter("There is no perturbation.", "Give one, or a list of them with a list of columns.")
    if not isinstance(y, list | tuple) or len(y) != len(perturbation):
        raise DataError(
            f"{len(perturbation)} perturbations need a list of as many columns.", "Give one column for each release."
        )
    return list(zip(perturbation, y, strict=True))


def check_alike(perturbations: Sequence[NumberPerturbation]) -> None:
    """Raise InvalidParameter unless all are about one column: the same bounds, and whole numbers in all or in none."""
    first = perturbations[0]
    for other in perturbations[1:]:
        if other.bounds != first.bounds or other.whole != first.whole:
            raise InvalidParameter(
                "The releases do not declare the column alike: bounds, or whether numbers are whole, differ.",
                "Reconstruct each on its own, and compare.",
            )
