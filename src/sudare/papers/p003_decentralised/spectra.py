"""How fast a graph agrees: its Laplacian, eigenvalues, the best step, predicted rounds.

One round of dynamic consensus is ξ ← Wξ with W = I − ε(D − A) (1.28). Disagreement is the distance from the vector whose entries are all
the mean; its contraction in a round is the largest |1 − ελ| over the non-zero eigenvalues λ of D − A. Equations are those of Ide (2021).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np
from scipy import sparse

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.papers.p003_decentralised.graphs import Graph

# Eigenvalues come with an error of about S machine epsilons of the largest one.
SAME_EIGENVALUE: Final = 1e-9
_ROUNDING: Final = 1e-9


def adjacency(graph: Graph) -> Floats:
    """A: one where two members talk."""
    matrix = np.zeros((graph.members, graph.members))
    rows, columns = np.transpose(graph.edges)
    matrix[rows, columns] = matrix[columns, rows] = 1.0
    return matrix


def laplacian(graph: Graph) -> Floats:
    """D − A."""
    return np.diag(np.asarray(graph.degrees, dtype=np.float64)) - adjacency(graph)


@lru_cache(maxsize=64)
def sparse_laplacian(graph: Graph) -> Any:
    """D − A in compressed rows, for products with many values."""
    return sparse.csr_matrix(laplacian(graph))


@lru_cache(maxsize=64)
def laplacian_eigenvalues(graph: Graph) -> Floats:
    """All eigenvalues of D − A, ascending; the first is zero, the second as well if the graph is not connected."""
    eigenvalues: Floats = np.linalg.eigvalsh(laplacian(graph)).astype(np.float64)
    eigenvalues.setflags(write=False)
    return eigenvalues


def nonzero_range(graph: Graph) -> tuple[float, float]:
    """The least and the largest non-zero eigenvalue of D − A."""
    if not graph.connected:
        raise InvalidParameter("The graph is not connected: its parts never agree.", "Add edges between the parts.")
    eigenvalues = laplacian_eigenvalues(graph)
    return float(eigenvalues[1]), float(eigenvalues[-1])


def distinct_eigenvalues(graph: Graph) -> Floats:
    """The non-zero eigenvalues of D − A without repetition, ascending."""
    nonzero_range(graph)
    eigenvalues = laplacian_eigenvalues(graph)[1:]
    starts = np.diff(eigenvalues, prepend=0.0) > SAME_EIGENVALUE * eigenvalues[-1]
    groups = np.split(eigenvalues, np.flatnonzero(starts)[1:])
    return np.array([group.mean() for group in groups])


def safe_step(graph: Graph) -> float:
    """ε = 1/(2·largest degree), 1/4b on a cycle: all eigenvalues of W are within [0, 1]."""
    return 1.0 / (2 * graph.largest_degree)


def optimal_step(graph: Graph) -> float:
    """ε = 2/(λ₂ + λ_S): no constant step contracts more (Xiao and Boyd 2004)."""
    least, largest = nonzero_range(graph)
    return 2.0 / (least + largest)


def contraction(graph: Graph, step: float) -> float:
    """The factor by which a round with this step is sure to shrink disagreement; 1 or more: it never converges."""
    least, largest = nonzero_range(graph)
    return max(abs(1 - step * least), abs(1 - step * largest))


def chebyshev_contraction(graph: Graph, rounds: int) -> float:
    """1/T_t(κ): what t rounds can do at best with any fixed polynomial on [λ₂, λ_S]."""
    least, largest = nonzero_range(graph)
    spread = largest - least
    if spread <= SAME_EIGENVALUE * largest:
        return 1.0 if rounds == 0 else 0.0
    exponent = rounds * math.acosh((largest + least) / spread)
    return 2 * math.exp(-exponent) / (1 + math.exp(-2 * exponent))


def rounds_to(tolerance: float, factor: float) -> int | None:
    """The least t with factor^t ≤ tolerance; None where there is none."""
    _within_unit("tolerance", tolerance)
    if factor >= 1 - _ROUNDING:
        return None
    if factor <= _ROUNDING:
        return 1
    return max(1, math.ceil(math.log(tolerance) / math.log(factor) - _ROUNDING))


def constant_rounds(graph: Graph, tolerance: float, step: float | None = None) -> int | None:
    """Rounds of (1.27) with a constant step (the safe one if none is given) until disagreement is below tolerance times the first."""
    return rounds_to(tolerance, contraction(graph, safe_step(graph) if step is None else step))


def chebyshev_rounds(graph: Graph, tolerance: float) -> int:
    """The same with Chebyshev's acceleration."""
    _within_unit("tolerance", tolerance)
    least, largest = nonzero_range(graph)
    spread = largest - least
    if spread <= SAME_EIGENVALUE * largest:
        return 1
    return max(1, math.ceil(math.acosh(1 / tolerance) / math.acosh((largest + least) / spread) - _ROUNDING))


def cycle_second_eigenvalue(members: int, reach: int, step: float | None = None) -> float:
    """ν₂ = 1 − 4ε Σ_j sin²(πj/S) (1.46), at l = 2 and l = S (printed: l = 1 and S − 1); ε = 1/4b if none is given."""
    used = 1 / (4 * reach) if step is None else step
    return 1 - 4 * used * sum(math.sin(math.pi * j / members) ** 2 for j in range(1, reach + 1))


def _within_unit(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise InvalidParameter(f"{name} = {value} is not between 0 and 1.", f"Use for example {name}=1e-3.")
