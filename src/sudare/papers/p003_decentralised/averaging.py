"""Dynamic consensus: everyone talks to its neighbours until all hold the mean (1.27), with no server.

A plan says what every round does: x⁺ = w·(x − ε·(D − A)x) + (1 − w)·x⁻ with the step ε, the weight w and the graph of that round. It is computed
from public facts before anybody sends anything, so the number of rounds tells nothing about the values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter
from sudare.papers.p003_decentralised.graphs import Graph, digit_edges, from_edges
from sudare.papers.p003_decentralised.spectra import (
    chebyshev_contraction,
    chebyshev_rounds,
    contraction,
    distinct_eigenvalues,
    laplacian_eigenvalues,
    nonzero_range,
    optimal_step,
    rounds_to,
    safe_step,
    sparse_laplacian,
)
from sudare.parameter_checks import Numbers
from sudare.schema.table_from_any_frame import attempt

Method = Literal["constant", "optimal", "chebyshev", "finite_time"]
METHODS: Final[tuple[Method, ...]] = get_args(Method)

_ARGUMENTS: Final = {
    "tolerance": Numbers(0, 1, open_low=True, open_high=True),
    "rounds": Numbers(1, whole=True, optional=True),
    "step": Numbers(optional=True),
}
_MACHINE_EPSILON: Final = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Round:
    """What everyone does in a round: the graph to talk over, the step ε and the weight w (1: forget the value before)."""

    graph: Graph
    step: float
    weight: float = 1.0


@dataclass(frozen=True)
class Plan:
    """All rounds, and the factor by which they shrink disagreement at least (in exact arithmetic; rounding for finite time)."""

    method: Method
    members: int
    rounds: tuple[Round, ...]
    contraction: float

    @property
    def values_per_round(self) -> int:
        """The most values one member sends in a round, for every number that is averaged."""
        return max(graph.largest_degree for graph, _ in self.graphs)

    @property
    def values_sent(self) -> int:
        """The most values one member sends in all rounds, for every number that is averaged."""
        return sum(count * graph.largest_degree for graph, count in self.graphs)

    @property
    def graphs(self) -> list[tuple[Graph, int]]:
        """The graphs that rounds use, and how many rounds use each."""
        # Rounds share graphs, and comparing those one by one would take longer than a round.
        by_identity = {id(round_.graph): round_.graph for round_ in self.rounds}
        counts = Counter(id(round_.graph) for round_ in self.rounds)
        return [(graph, counts[identity]) for identity, graph in by_identity.items()]


@dataclass(frozen=True)
class AveragingResult:
    """What each member ends with (members × numbers), close to the mean."""

    values: Floats
    plan: Plan

    @property
    def rounds(self) -> int:
        """How many rounds it took."""
        return len(self.plan.rounds)

    @property
    def values_per_round(self) -> int:
        """The most numbers one member sent in a round."""
        return self.plan.values_per_round * int(self.values.shape[1])

    @property
    def totals(self) -> Floats:
        """S times the mean: each member's idea of the sum (1.30)."""
        return self.values * len(self.values)


def averaging_plan(
    graph: Graph,
    method: Method = "chebyshev",
    tolerance: float = 1e-3,
    rounds: int | None = None,
    step: float | None = None,
) -> Plan:
    """Rounds until disagreement is at most tolerance times the first one, or as many as asked for.

    "constant" uses `step`, or 1/(2·largest degree) without one. "finite_time" is exact up to rounding: digit by digit where members are digits, else
    one round for each distinct eigenvalue.
    """
    for name, value in (("tolerance", tolerance), ("rounds", rounds), ("step", step)):
        _ARGUMENTS[name].check(name, value)
    if step is not None and method != "constant":
        raise InvalidParameter(f"The method {method!r} chooses its steps itself.", "Leave step away.")
    if method == "constant":
        return _constant_plan(graph, method, safe_step(graph) if step is None else step, tolerance, rounds)
    if method == "optimal":
        return _constant_plan(graph, method, optimal_step(graph), tolerance, rounds)
    if method == "chebyshev":
        return _chebyshev_plan(graph, chebyshev_rounds(graph, tolerance) if rounds is None else rounds)
    if method == "finite_time":
        if rounds is not None:
            raise InvalidParameter("A finite-time plan has as many rounds as it needs.", "Leave rounds away.")
        return digitwise_plan(graph) if graph.radices else polynomial_plan(graph)
    raise InvalidParameter(f"There is no method {method!r}.", f"Use one of: {', '.join(METHODS)}.")


def digitwise_plan(graph: Graph) -> Plan:
    """Exact in one round for each digit: those who differ in that digit alone take their mean."""
    stages = tuple(
        Round(from_edges(f"digit {digit}", graph.members, digit_edges(graph.radices, digit)), 1.0 / radix)
        for digit, radix in enumerate(graph.radices)
    )
    return Plan("finite_time", graph.members, stages, len(stages) * _MACHINE_EPSILON)


def polynomial_plan(graph: Graph) -> Plan:
    """Exact after one round for each distinct non-zero eigenvalue λ, with the step 1/λ, which removes what belongs to λ.

    The order of steps is Leja's, so that what some rounds magnify the next ones shrink; rounding then stays near machine precision.
    """
    roots = _leja_ordered(distinct_eigenvalues(graph))
    error = _rounding_error(roots, laplacian_eigenvalues(graph)[1:])
    return Plan("finite_time", graph.members, tuple(Round(graph, 1.0 / float(root)) for root in roots), error)


def averaged(
    values: ArrayLike,
    graph: Graph,
    method: Method = "chebyshev",
    tolerance: float = 1e-3,
    rounds: int | None = None,
    step: float | None = None,
) -> AveragingResult:
    """Each member's row (members × numbers) after the plan's rounds, in one process."""
    plan = averaging_plan(graph, method, tolerance, rounds, step)
    for last in trajectory(values, plan):
        found = last
    return AveragingResult(found, plan)


def trajectory(values: ArrayLike, plan: Plan) -> Iterator[Floats]:
    """What everyone holds before the first round and after each (members × numbers)."""
    current = checked_values(values, plan.members)
    previous = current
    yield current
    matrices = {id(graph): sparse_laplacian(graph) for graph, _ in plan.graphs}
    for round_ in plan.rounds:
        moved = current - round_.step * (matrices[id(round_.graph)] @ current)
        current, previous = round_.weight * moved + (1 - round_.weight) * previous, current
        yield current


def relative_error(state: ArrayLike, total: float) -> float:
    """(1.47): √(‖√S·ξ(t)‖² − ξ̄²)/|ξ̄| of what members hold when their sum is `total`; infinite where that is zero."""
    held = np.asarray(state, dtype=np.float64).ravel()
    excess = max(len(held) * float(held @ held) - total**2, 0.0)
    return math.inf if total == 0 else math.sqrt(excess) / abs(total)


def checked_values(values: ArrayLike, members: int) -> Floats:
    """Finite numbers, one row a member; a plain list of numbers is one number a member."""
    rows = attempt(lambda: np.array(values, dtype=np.float64))
    if rows is None:
        raise DataError("The values hold other than numbers, or rows of different lengths.", "Give numbers only.")
    rows = rows[:, np.newaxis] if rows.ndim == 1 else rows
    if rows.ndim != 2 or len(rows) != members:
        raise DataError(f"Values have shape {rows.shape}; the graph has {members} members.", "Give one row a member.")
    if not np.isfinite(rows).all():
        raise DataError("Some values are not finite.", "Averages need finite numbers from everyone.")
    return rows


# Plans


def _constant_plan(graph: Graph, method: Method, step: float, tolerance: float, rounds: int | None) -> Plan:
    factor = contraction(graph, step)
    count = rounds_to(tolerance, factor) if rounds is None else rounds
    if count is None:
        raise InvalidParameter(
            f"With the step {step:.4g} this graph never agrees: a round shrinks disagreement by {factor:.4g} at worst.",
            f"Use a step below {2 / nonzero_range(graph)[1]:.4g}, or method='optimal'.",
        )
    return Plan(method, graph.members, (Round(graph, step),) * count, factor**count)


def _chebyshev_plan(graph: Graph, rounds: int) -> Plan:
    """Golub and Varga's semi-iterative method: after every round the polynomial is the best of its degree on [λ₂, λ_S]."""
    step, radius = optimal_step(graph), contraction(graph, optimal_step(graph))
    weights = [1.0]
    while len(weights) < rounds:
        previous = 2.0 if len(weights) == 1 else weights[-1]
        weights.append(1 / (1 - radius**2 * previous / 4))
    stages = tuple(Round(graph, step, weight) for weight in weights)
    return Plan("chebyshev", graph.members, stages, chebyshev_contraction(graph, rounds))


def _leja_ordered(roots: Floats) -> Floats:
    """The largest root first, then always the one farthest from those before (the largest product of distances)."""
    left, ordered = list(roots[:-1]), [roots[-1]]
    while left:
        distances = np.log(np.abs(np.subtract.outer(left, ordered))).sum(axis=1)
        ordered.append(left.pop(int(distances.argmax())))
    return np.array(ordered)


def _rounding_error(roots: Floats, eigenvalues: Floats) -> float:
    """What rounding leaves, to first order: each round's error is of the size of the values then, and the later rounds carry it on."""
    factors = np.abs(1 - np.divide.outer(eigenvalues, roots))
    before = np.cumprod(factors, axis=1).max(axis=0)
    after = np.cumprod(factors[:, ::-1], axis=1).max(axis=0)[::-1]
    each = np.maximum(np.append(1.0, before), 1.0) * np.maximum(np.append(after, 1.0), 1.0)
    return float(before[-1] + _MACHINE_EPSILON * each.sum())
