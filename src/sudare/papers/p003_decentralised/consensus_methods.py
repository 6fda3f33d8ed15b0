"""The consensus step of Algorithm 1 (1.16): each member's idea of the total, by the ways the chapter names and by ways that survive lost messages.

No privacy for a record: every member ends with the total itself. A method maps members' addends (members × numbers) to what each takes for their sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sudare.array_types import Floats
from sudare.papers.p003_decentralised.graphs import Graph
from sudare.papers.p003_decentralised.lossy_averaging import Averaging, Links, robust_push_sum
from sudare.papers.p003_decentralised.other_hidden_sums import chunk_runs
from sudare.papers.p003_decentralised.paillier import keypairs, paillier_average

Consensus = Callable[[Floats, np.random.Generator], Floats]


def exact_totals(addends: Floats, generator: np.random.Generator) -> Floats:
    """The sum itself, the same for everybody: what a sum under masks gives (`sudare.sums`)."""
    return np.tile(addends.sum(axis=0), (len(addends), 1))


@dataclass(frozen=True)
class RandomChunking:
    """Algorithm 2: N_c chunks, each averaged by (1.27) over the graph with places shuffled, until disagreement is `tolerance` of the first.

    `spread` is that of the chunks in units of each number's root mean square over the members, so that numbers of all sizes are hidden alike; a router would have to know it.
    """

    graph: Graph
    chunks: int = 5
    tolerance: float = 1e-3
    spread: float = 1.0

    def __call__(self, addends: Floats, generator: np.random.Generator) -> Floats:
        """Each member's idea of the total."""
        units = _units(addends)
        runs = chunk_runs(
            addends / units, self.graph, self.chunks, self.spread, "constant", self.tolerance, generator.bytes(32)
        )
        return np.asarray(sum(run.sums for run in runs) * units)


@dataclass
class PaillierConsensus:
    """(1.27) under Paillier's encryption (Ruan, Ahmad and Wang 2017), until disagreement is `tolerance` of the first; keys are made once."""

    graph: Graph
    key_bits: int = 2048
    tolerance: float = 1e-3
    _pairs: list[tuple[Any, Any]] = field(default_factory=list, repr=False)

    def __call__(self, addends: Floats, generator: np.random.Generator) -> Floats:
        """Each member's idea of the total."""
        if not self._pairs:
            self._pairs.extend(keypairs(self.graph.members, self.key_bits))
        run = paillier_average(addends, self.graph, self.tolerance, self._pairs, generator.bytes(32))
        return np.asarray(len(addends) * run.averages)


@dataclass(frozen=True)
class ConsensusOverLinks:
    """So many rounds of averaging over links that lose and delay messages; by running sums, which are exact in the end, unless another way is given."""

    links: Links
    rounds: int = 100
    averaging: Averaging = robust_push_sum

    def __call__(self, addends: Floats, generator: np.random.Generator) -> Floats:
        """Each member's idea of the total."""
        units = _units(addends)
        *_, last = self.averaging(addends / units, self.links, self.rounds, generator)
        return np.asarray(len(addends) * last * units)


def _units(addends: Floats) -> Floats:
    """The root mean square of each number over the members; one where all are zero."""
    sizes = np.sqrt(np.square(addends).mean(axis=0))
    return np.where(sizes == 0, 1.0, sizes)
