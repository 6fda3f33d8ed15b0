"""A reconstructed distribution: what can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.perturbation.number_channels import checked_edges, checked_numbers
from sudare.reconstruction.binning import States
from sudare.reconstruction.confidence_bands import Band, Seen, WeightedDistribution, mixture_quantiles
from sudare.reconstruction.normal_mixture import Components
from sudare.reconstruction.pooled_releases import NumberLaw
from sudare.report.number_formatting import nearest, whole

_LEVELS: Final = (0.5, 0.99)
_HEAVY: Final = 0.2
# At so many values the limits of quantiles are looked for.
_MOST_PLACES: Final = 160


@dataclass(frozen=True, eq=False)
class Layout:
    """Cells and atoms on which distributions over different states can be added up without loss."""

    edges: Floats
    atoms: Floats

    @classmethod
    def of(cls, every: Sequence[States], bounds: tuple[float, float]) -> Layout:
        """All edges between which values are spread, and all points on which they sit."""
        edges = [states.edges for states in every if states.spread]
        points = [states.atoms for states in every] + [states.centres for states in every if not states.spread]
        return cls(np.unique(np.concatenate([np.array(bounds), *edges])), np.unique(np.concatenate(points)))

    @property
    def size(self) -> int:
        """How many cells and atoms there are."""
        return len(self.edges) - 1 + len(self.atoms)

    @property
    def starts(self) -> Floats:
        """The lower ends of the cells, and the atoms."""
        return np.concatenate((self.edges[:-1], self.atoms))

    @property
    def widths(self) -> Floats:
        """The widths of the cells, and zero for the atoms."""
        return np.concatenate((np.diff(self.edges), np.zeros(len(self.atoms))))

    @property
    def middles(self) -> Floats:
        """The middles of the cells, and the atoms."""
        return np.concatenate(((self.edges[1:] + self.edges[:-1]) / 2, self.atoms))

    def carrying(self, states: States) -> Floats:
        """The matrix that turns probabilities of states into those of this layout."""
        cells = len(self.edges) - 1
        carried = np.zeros((self.size, states.cells + len(states.atoms)))
        if states.spread:
            carried[:cells, : states.cells] = shares_of_cells(states.edges, self.edges)
        else:
            carried[cells + np.searchsorted(self.atoms, states.centres), np.arange(states.cells)] = 1.0
        carried[cells + np.searchsorted(self.atoms, states.atoms), states.cells + np.arange(len(states.atoms))] = 1.0
        return carried

    def channel(self, perturbation: NumberLaw, edges_y: Floats) -> Floats:
        """P(perturbed value in a bin | cell or atom), one row a bin."""
        spread = perturbation.transition(edges_y, self.edges)
        return np.hstack([spread, perturbation.transition_at(edges_y, self.atoms)]) if len(self.atoms) else spread

    def binning(self, edges: Floats) -> Floats:
        """The matrix that turns probabilities of this layout into those of bins [e₀, e₁), …, the last with its upper edge."""
        bins = np.zeros((len(edges) - 1, self.size))
        bins[:, : len(self.edges) - 1] = shares_of_cells(self.edges, edges)
        place = np.searchsorted(edges, self.atoms, side="right") - 1
        place[self.atoms == edges[-1]] = len(edges) - 2
        inside = np.flatnonzero((place >= 0) & (place < len(edges) - 1))
        bins[place[inside], len(self.edges) - 1 + inside] = 1.0
        return bins

    def within(self, lows: Floats, highs: Floats, margin: float = 0.0, *, points_too: bool = False) -> Floats:
        """How much of each cell or atom lies in each interval from its low to below its high, both moved outwards by a margin, inwards if it is negative.

        Ends on the bounds or beyond them stay, and atoms are where they are, unless `points_too`.
        """
        moved_lows = np.where(lows <= self.edges[0], lows, lows - margin)[:, np.newaxis]
        moved_highs = np.where(highs >= self.edges[-1], highs, highs + margin)[:, np.newaxis]
        low, high = np.maximum(moved_lows, self.edges[:-1]), np.minimum(moved_highs, self.edges[1:])
        spread = np.clip(high - low, 0.0, None) / np.diff(self.edges)
        ends = (moved_lows, moved_highs) if points_too else (lows[:, np.newaxis], highs[:, np.newaxis])
        return np.hstack([spread, ((ends[0] <= self.atoms) & (self.atoms < ends[1])).astype(np.float64)])


@dataclass(frozen=True, eq=False)
class Clusters:
    """Components (then atoms), and P(component | perturbed value in bin), a row for each bin between `edges`.

    Of several releases both are those of each, one after the other; `sizes` then says how many edges each has.
    """

    components: Components
    atoms: Floats
    edges: Floats
    posterior: Floats
    sizes: Sequence[int] = ()

    def of_values(self, y: Floats, release: int) -> Floats:
        """P(component | y) for perturbed values of the release with that number, from 0. Raise InvalidParameter where there is no such release."""
        sizes = self.sizes or (len(self.edges),)
        if isinstance(release, bool) or not isinstance(release, int) or not 0 <= release < len(sizes):
            raise InvalidParameter(
                f"release must be a whole number from 0 to {len(sizes) - 1}, got {release!r}.",
                "Count the releases in the order in which they were given.",
            )
        ends = np.cumsum(sizes)
        edges = np.split(self.edges, ends[:-1])[release]
        posterior = np.split(self.posterior, (ends - np.arange(1, len(sizes) + 1))[:-1])[release]
        return np.asarray(posterior[np.searchsorted(edges[1:-1], y)])


@dataclass(frozen=True, eq=False, repr=False)
class Distribution:
    """What the original column looked like: evenly spread cells, atoms, and how sure that is.

    `method_weights` says how much each method has in the average; `members` and the perturbed values that were `seen` are what bands are
    made of. Of a rough column bands take the ends of bins to be known up to `resolution` only (whole numbers too, where `points_move`). There are none if `unresolved` gives a reason.
    """

    layout: Layout
    probabilities: Floats
    records: int
    method_weights: Mapping[str, float]
    members: Sequence[WeightedDistribution] = ()
    clusters: Clusters | None = None
    resolution: float = 0.0
    points_move: bool = False
    unresolved: str = ""
    seen: Seen | None = None

    def __repr__(self) -> str:
        quartiles = " / ".join(nearest(float(place), 4) for place in self.quantile([0.25, 0.5, 0.75]))
        heavy = [f"{nearest(at, 6)} ({share:.1%})" for at, share in self.atoms.items() if share >= _HEAVY]
        atoms = f", most on {', '.join(heavy)}" if heavy else ""
        return f"Distribution(mean {nearest(self.mean(), 4)}, quartiles {quartiles}{atoms}, from {whole(self.records)} records)"

    @property
    def atoms(self) -> dict[float, float]:
        """Values with a probability of their own."""
        return dict(zip(self.layout.atoms.tolist(), self._points.tolist(), strict=True))

    @property
    def components(self) -> Components | None:
        """Components of the mixture that Schwarz's criterion (BIC) prefers; None if no mixture was fitted."""
        return self.clusters.components if self.clusters else None

    @property
    def _cells(self) -> Floats:
        return self.probabilities[: len(self.layout.edges) - 1]

    @property
    def _points(self) -> Floats:
        return self.probabilities[len(self.layout.edges) - 1 :]

    def density(self, x: ArrayLike) -> Floats:
        """Density of what is not in atoms; zero outside of the bounds."""
        places = np.asarray(x, dtype=np.float64)
        edges = self.layout.edges
        cell = np.minimum(np.searchsorted(edges, places, side="right") - 1, len(edges) - 2)
        heights = self._cells / np.diff(edges)
        return np.where((places >= edges[0]) & (places <= edges[-1]), heights[np.maximum(cell, 0)], 0.0)

    def cdf(self, x: ArrayLike) -> Floats:
        """P(X ≤ x)."""
        places = np.asarray(x, dtype=np.float64)
        spread = np.interp(places, self.layout.edges, np.concatenate(([0.0], np.cumsum(self._cells))))
        steps = np.concatenate(([0.0], np.cumsum(self._points)))
        return np.asarray(spread + steps[np.searchsorted(self.layout.atoms, places, side="right")])

    def quantile(self, probability: ArrayLike) -> Floats:
        """The least x with P(X ≤ x) ≥ probability."""
        try:
            wanted = np.asarray(probability, dtype=np.float64)
        except (TypeError, ValueError):
            wanted = np.asarray(np.nan)
        if not np.all((wanted >= 0) & (wanted <= 1)):
            raise InvalidParameter("A probability for a quantile must lie from 0 to 1.", "Use for example 0.5.")
        places = np.union1d(self.layout.edges, self.layout.atoms)
        up_to = self.cdf(places)
        jumps = np.zeros(len(places))
        jumps[np.searchsorted(places, self.layout.atoms)] = self._points
        before = up_to - jumps
        # Rounding may leave the last value a little below one.
        at = np.minimum(np.searchsorted(up_to, wanted * up_to[-1]), len(places) - 1)
        start, end = np.maximum(at - 1, 0), at
        rise = before[end] - up_to[start]
        part = np.clip((wanted * up_to[-1] - up_to[start]) / np.where(rise > 0, rise, 1.0), 0.0, 1.0)
        return np.asarray(np.where(rise > 0, places[start] + part * (places[end] - places[start]), places[end]))

    def histogram(self, edges: ArrayLike) -> Floats:
        """Probabilities of the bins [e₀, e₁), …, the last with its upper edge, as numpy counts. What lies outside is left out."""
        return np.asarray(self.layout.binning(checked_edges(edges, "edges")) @ self.probabilities)

    def mean(self) -> float:
        """The mean."""
        return float(self.layout.middles @ self.probabilities)

    def variance(self) -> float:
        """The variance."""
        squares = (self.layout.middles - self.mean()) ** 2 + self.layout.widths**2 / 12
        return float(squares @ self.probabilities)

    def sample(self, size: int, random_state: int | np.random.Generator | None = None) -> Floats:
        """New values with this distribution; none belongs to anybody."""
        return drawn_rows([self.layout], self.probabilities, size, random_state)[:, 0]

    def responsibilities(self, y: ArrayLike, release: int = 0) -> Floats:
        """P(component | y) for perturbed values y, a column for each component, then for each atom (eq. (10), section 4.3).

        Where several releases were taken together, `release` says of which of them, from 0.
        """
        if self.clusters is None:
            raise InvalidParameter(
                "This distribution has no components to assign records to.", "Use method='mixture' or 'auto'."
            )
        return self.clusters.of_values(checked_numbers(y), release)

    def predict(self, y: ArrayLike, release: int = 0) -> NDArray[np.intp]:
        """The likeliest component (or atom, counted after them) of each perturbed value."""
        return np.asarray(self.responsibilities(y, release).argmax(axis=1))

    def band(self, edges: ArrayLike, level: float = 0.9, *, cumulative: bool = False) -> Band:
        """Limits for the histogram over these edges, or for its running sums: shares of the original records."""
        places = checked_edges(edges, "edges")
        # The last bin has its upper edge.
        lows, highs = places[:-1], np.append(places[1:-1], np.nextafter(places[-1], np.inf))
        if cumulative:
            lows = np.full(len(highs), places[0])
        estimate = self.layout.within(lows, highs) @ self.probabilities
        reason = self._reason()
        if reason:
            return Band(places, estimate, _checked_level(level), calibrated=False, reason=reason)
        low, high = self._limits(lows, highs, level)
        return Band(
            places, estimate, level, calibrated=True, low=np.minimum(low, estimate), high=np.maximum(high, estimate)
        )

    def quantile_band(self, probability: ArrayLike, level: float = 0.9) -> Band:
        """Limits for quantiles of the original records; `edges` of the band are the probabilities. They follow from those of P(X ≤ x)."""
        wanted = np.atleast_1d(np.asarray(probability, dtype=np.float64))
        estimate = self.quantile(wanted)
        reason = self._reason()
        if reason:
            return Band(wanted, estimate, _checked_level(level), calibrated=False, reason=reason)
        edges = self.layout.edges
        kept = edges[np.unique(np.linspace(0, len(edges) - 1, _MOST_PLACES).astype(np.intp))]
        # Below an atom and at it.
        places = np.unique(np.concatenate([kept, np.nextafter(self.layout.atoms, -np.inf), self.layout.atoms]))
        low, high = self._limits(np.full(len(places), edges[0]), np.nextafter(places, np.inf), level)
        first, last = (_first_reached(np.maximum.accumulate(end), places, wanted) for end in (high, low))
        return Band(
            wanted, estimate, level, calibrated=True, low=np.minimum(first, estimate), high=np.maximum(last, estimate)
        )

    def _limits(self, lows: Floats, highs: Floats, level: float) -> tuple[Floats, Floats]:
        """Within which the share of the original records in each interval lies; of a rough column, in narrower and in wider ones."""
        sides = (1 - _checked_level(level)) / 2, (1 + level) / 2
        found = [
            mixture_quantiles(
                self.members,
                self.layout.within(lows, highs, margin, points_too=self.points_move),
                self.records,
                sides,
                self.seen,
            )
            for margin in dict.fromkeys((-self.resolution, self.resolution))
        ]
        return found[0][0], found[-1][1]

    def _reason(self) -> str:
        if self.unresolved or not self.members:
            return self.unresolved or "this method comes without a measure of its error."
        return ""


def _first_reached(rising: Floats, places: Floats, wanted: Floats) -> Floats:
    """Where a rising line through these places first takes each wanted value; the last place where it never does."""
    at = np.minimum(np.searchsorted(rising, wanted), len(places) - 1)
    before = np.maximum(at - 1, 0)
    rise = rising[at] - rising[before]
    part = np.clip((wanted - rising[before]) / np.where(rise > 0, rise, 1.0), 0.0, 1.0)
    return np.where(rise > 0, places[before] + part * (places[at] - places[before]), places[at])


def _checked_level(level: float) -> float:
    if not (isinstance(level, int | float) and _LEVELS[0] <= level <= _LEVELS[1]):
        raise InvalidParameter(f"level must lie from {_LEVELS[0]} to {_LEVELS[1]}, got {level}.", "Use 0.9.")
    return level


def shares_of_cells(cells: Floats, bins: Floats) -> Floats:
    """How much of each cell (column) lies in each bin (row)."""
    low = np.maximum(bins[:-1, np.newaxis], cells[:-1])
    high = np.minimum(bins[1:, np.newaxis], cells[1:])
    return np.asarray(np.clip(high - low, 0.0, None) / np.diff(cells))


def drawn_rows(
    layouts: Sequence[Layout], probabilities: Floats, size: int, random_state: int | np.random.Generator | None
) -> Floats:
    """New rows, one column a layout, from probabilities with one axis a layout: evenly spread within a cell."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise InvalidParameter("size must be a whole number from 0.", "Use for example size=1_000.")
    generator = np.random.default_rng(random_state)
    shares = np.clip(probabilities.ravel(), 0.0, None)
    chosen = generator.choice(len(shares), size=size, p=shares / shares.sum())
    places = np.unravel_index(chosen, probabilities.shape)
    return np.column_stack(
        [
            layout.starts[place] + layout.widths[place] * generator.random(size)
            for layout, place in zip(layouts, places, strict=True)
        ]
    )
