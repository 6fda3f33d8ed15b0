"""Perturbations of number columns: inputs and outputs on a public grid, and the exact channel between them.

`grid` divides the range: a power of two where one does. A value is clipped to the bounds and rounded to low + code·grid; outputs
are low + output·grid as well, and may lie outside of the bounds. `cdf`, `transition` and `transition_at` are those of the law that is drawn from.
"""

from __future__ import annotations

import datetime
import math
from abc import abstractmethod
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudare.array_types import Floats, Integers
from sudare.errors import DataError, InvalidParameter, WrongType
from sudare.perturbation.column_perturbation import Perturbation, unsigned_type
from sudare.perturbation.exact_draws import CHUNK_VALUES, MANY_ROWS
from sudare.privacy.mechanisms import power_of_two_below
from sudare.privacy.noise import NoiseSource

Bounds = tuple[float, float]

# Values of y that were computed as low + n·grid may be a rounding error away from it.
_GRID_TOLERANCE: Final = 2.0**-20
_NO_NUMBERS: Final = (str, bytes, bool, np.bool_, complex, datetime.date, datetime.timedelta)
_MOST_CELLS_AT_ONCE: Final = 2**21


class NumberPerturbation(Perturbation):
    """ε-local DP for one number between public bounds; values outside count as the nearer one.

    Subclasses give the law, and `grid`, the step between possible inputs and outputs.
    """

    column_type = np.float64

    def __init__(
        self,
        bounds: Bounds,
        *,
        epsilon: float | None = None,
        k: int | None = None,
        n_records: int | None = None,
        whole: bool = False,
    ) -> None:
        super().__init__(epsilon=epsilon, k=k, n_records=n_records)
        low, high = checked_bounds(bounds)
        self.whole = whole
        if whole:
            if not (low.is_integer() and high.is_integer()):
                raise InvalidParameter("bounds of whole numbers must be whole.", "Give for example bounds=(17, 90).")
            # Few steps of more than one, where there are very many numbers: the upper bound is then the next whole step.
            self.grid = self.whole_grid(high - low)
            high = low + self.grid * math.ceil((high - low) / self.grid)
        else:
            self.grid = self.fine_grid(high - low)
        self.bounds = low, high

    @abstractmethod
    def fine_grid(self, width: float) -> float:
        """The step for a range of this width where values need not be whole: far below the noise."""

    @abstractmethod
    def whole_grid(self, width: float) -> float:
        """The step between outputs that are whole numbers: 1, or more where a range of this width would have too many."""

    @property
    @abstractmethod
    def overshoot(self) -> int:
        """How many steps an output can lie outside of the bounds."""

    @property
    @abstractmethod
    def noise_scale(self) -> float:
        """How wide the noise is, in the column's unit."""

    @abstractmethod
    def steps_cdf(self, outputs: Integers, codes: Integers) -> Floats:
        """P(output ≤ given | code), elementwise with broadcasting."""

    @abstractmethod
    def draw_many(
        self, steps: NDArray[np.int32], words: NDArray[np.uint64], outputs: NDArray[np.unsignedinteger[Any]]
    ) -> None:
        """Write the packed output of each step, drawn from its word, by a compiled loop."""

    @property
    def steps(self) -> int:
        """The code of the upper bound; that of the lower is 0."""
        low, high = self.bounds
        return round((high - low) / self.grid)

    @property
    def output_count(self) -> int:
        """Outputs from −overshoot to steps + overshoot."""
        return self.steps + 2 * self.overshoot + 1

    @property
    def output_bounds(self) -> Bounds:
        """The least and the greatest perturbed value that is possible."""
        low = self.bounds[0]
        return low - self.overshoot * self.grid, low + (self.steps + self.overshoot) * self.grid

    def column(self, values: Any) -> Floats:
        """Values as floats; raise WrongType or DataError unless they are one column of numbers without gaps."""
        return checked_numbers(values)

    def codes(self, column: NDArray[Any]) -> Integers:
        """Numbers clipped to the bounds, in steps from the lower one."""
        low, high = self.bounds
        steps: Floats = np.clip(column, low, high)
        steps -= low
        steps /= self.grid
        return np.asarray(np.rint(steps)).astype(np.int64)

    def drawn(self, column: NDArray[Any], source: NoiseSource) -> NDArray[Any]:
        """One output for each number, packed; of many numbers by a compiled loop."""
        if len(column) < MANY_ROWS:
            return super().drawn(column, source)
        from sudare.perturbation.compiled_draws import steps_of

        outputs = np.empty(len(column), dtype=unsigned_type(self.output_count))
        for start in range(0, len(column), CHUNK_VALUES):
            part = np.ascontiguousarray(column[start : start + CHUNK_VALUES], dtype=np.float64)
            steps = steps_of(part, *self.bounds, self.grid)
            self.draw_many(steps, source.words(len(part)), outputs[start : start + CHUNK_VALUES])
        return outputs

    def packed(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Steps from the least output, in the smallest unsigned type."""
        return (outputs + self.overshoot).astype(unsigned_type(self.output_count))

    def unpacked(self, stored: NDArray[Any]) -> Integers:
        """Steps from the lower bound."""
        return stored.astype(np.int64) - self.overshoot

    def decoded(self, stored: NDArray[Any]) -> Floats:
        """Perturbed numbers in the column's unit: low + output·grid."""
        values: Floats = stored.astype(np.float64)
        values -= self.overshoot
        values *= self.grid
        values += self.bounds[0]
        return values

    def description(self) -> dict[str, Any]:
        """Kind, bounds, ε, how wide the noise is, and grid; and whether outputs are whole numbers, where they are."""
        whole = {"whole": True} if self.whole else {}
        return {
            "kind": self.kind,
            "bounds": list(self.bounds),
            "epsilon": self.epsilon,
            "noise_scale": self.noise_scale,
            "grid": self.grid,
            **whole,
        }

    def output_steps(self, y: ArrayLike) -> Floats:
        """Perturbed values in steps from the lower bound; whole for values that were drawn."""
        steps: Floats = (np.asarray(y, dtype=np.float64) - self.bounds[0]) / self.grid
        return steps

    def cdf(self, y: ArrayLike, x: ArrayLike) -> Floats:
        """P(Y ≤ y | X = x), with broadcasting."""
        outputs = np.floor(self.output_steps(y) + _GRID_TOLERANCE)
        return self._clipped_cdf(outputs, self.codes(np.asarray(x, dtype=np.float64)))

    def transition_at(self, edges_y: ArrayLike, points_x: ArrayLike) -> Floats:
        """P(Y in bin | X = x), one column an x. Bins are [e₀, e₁), [e₁, e₂), …, the last with its upper edge."""
        below = self._last_below(edges_y)
        return np.diff(
            self._clipped_cdf(below[:, np.newaxis], self.codes(np.asarray(points_x, dtype=np.float64))[np.newaxis]),
            axis=0,
        )

    def transition(self, edges_y: ArrayLike, edges_x: ArrayLike) -> Floats:
        """P(Y in bin | X uniform in a bin of x), one column a bin of x, rounding to the grid included.

        Bins of y as in `transition_at`. A column adds up to 1 if the bins of y cover `output_bounds`.
        """
        below = self._last_below(edges_y)
        edges = checked_edges(edges_x, "edges_x")
        low, high = self.bounds
        if edges[0] < low - self.grid / 2 or edges[-1] > high + self.grid / 2:
            raise InvalidParameter(
                "edges_x lie outside of the bounds.", f"Values lie from {low:g} to {high:g}; so must the bins."
            )
        # Code c stands for the cell (c − ½, c + ½) of x in steps, cut at both bounds; positions run from 0 to `steps`.
        positions = np.clip((edges - low) / self.grid, 0.0, self.steps)
        blocks = max(1, math.ceil(len(below) * (self.steps + 1) / _MOST_CELLS_AT_ONCE))
        masses = [self._mass_below(part, positions) for part in np.array_split(below, blocks)]
        return np.diff(np.concatenate(masses), axis=0) / np.diff(positions)

    def _mass_below(self, below: Floats, positions: Floats) -> Floats:
        """∫ P(output ≤ b | x) dx over each bin of x, in steps; the integrand is constant in each cell of the grid."""
        cells = self._clipped_cdf(below[:, np.newaxis], np.arange(self.steps + 1)[np.newaxis])
        cell = np.floor(positions + 0.5).astype(np.int64)
        sums = np.zeros((len(below), self.steps + 2))
        np.cumsum(cells, axis=1, out=sums[:, 1:])
        # The integral up to a position: whole cells before it, the first of them half, and a part of its own.
        own = cells[:, np.minimum(cell, self.steps)]
        integral = sums[:, cell] - cells[:, :1] / 2 + own * (positions - (cell - 0.5))
        return np.diff(integral, axis=1)

    def _last_below(self, edges_y: ArrayLike) -> Floats:
        """The last output below each edge; at or below the last edge."""
        edges = self.output_steps(checked_edges(edges_y, "edges_y"))
        below = np.ceil(edges - _GRID_TOLERANCE) - 1
        below[-1] = np.floor(edges[-1] + _GRID_TOLERANCE)
        return below

    def _clipped_cdf(self, outputs: Floats, codes: Integers) -> Floats:
        least, most = -self.overshoot, self.steps + self.overshoot
        inside = np.clip(outputs, least, most).astype(np.int64)
        probability = self.steps_cdf(inside, codes)
        return np.where(outputs < least, 0.0, np.where(outputs >= most, 1.0, probability))


def grid_of(width: float, about: float) -> float:
    """A whole part of the width: the largest power of two that is at most `about`, if it is one, or the nearest part to it."""
    return width / round(width / power_of_two_below(about))


def checked_bounds(bounds: object) -> Bounds:
    """(low, high) as floats, if they are two finite numbers with low < high."""
    try:
        low, high = (float(end) for end in bounds)  # type: ignore[attr-defined]
    except (TypeError, ValueError, OverflowError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high and 2.0**-900 <= high - low <= 2.0**900):
        raise InvalidParameter(
            "bounds must be two finite numbers, the lower one first.",
            "Give for example bounds=(17, 90), from knowledge and never from the data.",
        )
    return low, high


def checked_numbers(values: Any) -> Floats:
    """Values as floats; raise WrongType or DataError unless they are one column of numbers without gaps."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        numbers = np.asarray(values, dtype=np.float64) if _holds_numbers(np.asarray(values)) else None
    except (TypeError, ValueError, OverflowError):
        numbers = None
    # Raised here and not above: the original error may quote a value.
    if numbers is None:
        raise WrongType("The values are not numbers.", "Give one column of numbers.")
    if numbers.ndim != 1:
        raise DataError(f"The values are not one column: they have {numbers.ndim} dimensions.", "Give one column.")
    # A sum is quicker than looking at each; infinities of both signs make one that looks like a gap.
    with np.errstate(invalid="ignore", over="ignore"):
        suspicious = len(numbers) > 0 and np.isnan(numbers.sum())
    if suspicious and np.isnan(numbers).any():
        raise DataError("A value is missing (NaN).", "Fill gaps by a public rule first, the same for every record.")
    return numbers


def _holds_numbers(values: NDArray[Any]) -> bool:
    """Whether numpy's floats of these values are what they say: it would also turn dates, truth values and text into floats."""
    if values.dtype.kind == "O":
        return not any(isinstance(value, _NO_NUMBERS) for value in values.ravel())
    return values.dtype.kind in "iuf"


def checked_edges(edges: ArrayLike, name: str) -> Floats:
    """Edges of bins as floats; raise InvalidParameter unless they rise strictly."""
    try:
        checked = np.array(edges, dtype=np.float64)
    except (TypeError, ValueError):
        checked = np.empty(0)
    if checked.ndim != 1 or len(checked) < 2 or not np.all(np.diff(checked) > 0):
        raise InvalidParameter(f"{name} must rise strictly, with two or more edges.", "Use for example numpy.linspace.")
    return checked
