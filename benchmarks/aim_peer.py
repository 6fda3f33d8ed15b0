"""AIM's side of synthetic tables; runs in the environment of aim.in, where sudare is not installed.

The algorithm of McKenna, Mullins, Sheldon and Miklau (2022), written after the paper, with its authors' settings: all pairs of columns as workload, noise of the first round for 16 rounds a column, a
tenth of a round for the choice, and a model of 80 MB that grows with what is spent. Distributions are estimated by private-PGM (`mbi`), theirs too. Noise comes from an ordinary generator: this protects nobody.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from typing import Any

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_enable_compilation_cache", False)

import mbi  # noqa: E402  (it looks at these settings)

ROUNDS_PER_COLUMN = 16
SHARE_OF_CHOICE = 0.1
Clique = tuple[str, ...]


def concentrated_budget(epsilon: float, delta: float) -> float:
    """The largest ρ for which ρ-zCDP is (ε, δ)-DP by proposition 12 of Canonne, Kamath and Steinke (2020)."""
    orders = 1 + np.logspace(-3, 5, 4_000)

    def reached(rho: float) -> float:
        logs = (orders - 1) * (orders * rho - epsilon) - np.log(orders - 1) + orders * np.log1p(-1 / orders)
        return float(np.exp(logs.min()))

    low, high = 0.0, epsilon + 1
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) <= delta else (low, middle)
    return low


class TooLong(Exception):
    """The time allowed has passed."""


class Aim:
    """One run of AIM on coded columns."""

    def __init__(self, data: mbi.Dataset, settings: dict[str, Any]) -> None:
        self.data, self.settings = data, settings
        self.generator = np.random.default_rng(settings["seed"])
        self.counts = {
            clique: np.asarray(data.project(clique).datavector(), dtype=np.float64)
            for size in (1, 2)
            for clique in itertools.combinations(data.domain.attributes, size)
        }
        columns = len(data.domain.attributes)
        # Of every table of the workload how many columns it shares with it.
        self.weights = {clique: (columns - 1) if len(clique) == 1 else 2 + 2 * (columns - 2) for clique in self.counts}
        self.measurements: list[mbi.LinearMeasurement] = []
        self.model: Any = None

    def run(self) -> mbi.MarkovRandomField:
        """The distribution found."""
        budget = concentrated_budget(self.settings["epsilon"], self.settings["delta"])
        columns = self.data.domain.attributes
        sigma = math.sqrt(ROUNDS_PER_COLUMN * len(columns) / (2 * (1 - SHARE_OF_CHOICE) * budget))
        rate = math.sqrt(8 * SHARE_OF_CHOICE * budget / (ROUNDS_PER_COLUMN * len(columns)))
        for column in columns:
            self.measure((column,), sigma)
        spent = len(columns) / (2 * sigma**2)
        self.estimate()
        last = False
        while not last:
            if budget - spent < 2 * (1 / (2 * sigma**2) + rate**2 / 8):
                left, last = budget - spent, True
                sigma = 1 / math.sqrt(2 * (1 - SHARE_OF_CHOICE) * left)
                rate = math.sqrt(8 * SHARE_OF_CHOICE * left)
            spent += 1 / (2 * sigma**2) + rate**2 / 8
            estimates = self.estimates(self.possible(self.settings["megabytes"] * spent / budget))
            clique = self.worst(estimates, sigma, rate)
            self.measure(clique, sigma)
            self.estimate()
            moved = np.abs(np.asarray(self.model.project(clique).datavector()) - estimates[clique]).sum()
            if moved <= sigma * math.sqrt(2 / math.pi) * len(estimates[clique]):
                sigma, rate = sigma / 2, 2 * rate
            jax.clear_caches()
        return self.model

    def measure(self, clique: Clique, sigma: float) -> None:
        noisy = self.counts[clique] + self.generator.normal(0, sigma, len(self.counts[clique]))
        self.measurements.append(mbi.LinearMeasurement(noisy, clique, stddev=sigma))

    def estimate(self) -> None:
        if time.process_time() > self.settings["seconds"]:
            raise TooLong
        self.model = mbi.estimation.MirrorDescent().estimate(
            self.data.domain, self.measurements, iters=self.settings["iterations"], warm_start=self.model
        )

    def possible(self, megabytes: float) -> list[Clique]:
        """The tables that a model of this size can hold, or holds already."""
        domain, held = self.data.domain, list(self.model.cliques)
        free = {frozenset(part) for clique in held for size in (1, 2) for part in itertools.combinations(clique, size)}
        return [
            clique
            for clique in self.counts
            if frozenset(clique) in free
            or mbi.junction_tree.hypothetical_model_size(domain, [*held, clique]) <= megabytes
        ]

    def estimates(self, cliques: list[Clique]) -> dict[Clique, np.ndarray]:
        """What the model says of these tables, by conditional tables along the junction tree: compiling a program for each takes most of the time otherwise."""
        domain, model = self.data.domain, self.model
        tree, _ = mbi.junction_tree.make_junction_tree(domain, [tuple(clique) for clique in model.cliques])
        nodes = list(tree.nodes)
        beliefs = mbi.marginal_oracles.message_passing_stable(model.potentials.expand(nodes), model.total)
        tables = {node: np.asarray(beliefs.project(node).datavector(flatten=False)) for node in nodes}
        found: dict[Clique, np.ndarray] = {}
        for first in domain.attributes:
            holding = [node for node in nodes if first in node]
            found[(first,)] = _summed(tables[holding[0]], holding[0], (first,))
            # With every clique what is known of `first` and the columns that it shares with the one before; cliques that hold `first` know all.
            waiting: list[tuple[Clique, np.ndarray | None, Clique]] = [(holding[0], None, ())]
            reached = {holding[0]}
            for node, message, shared in waiting:
                for second in node:
                    if second != first and (first, second) not in found:
                        found[(first, second)] = _carried(message, shared, tables[node], node, first, (second,)).ravel()
                for near in tree.neighbors(node):
                    if near not in reached:
                        reached.add(near)
                        common = tuple(column for column in near if column in node)
                        known = None if first in near else _carried(message, shared, tables[node], node, first, common)
                        waiting.append((near, known, common))
            for second in domain.attributes:
                # In another part of the tree: independent.
                if second != first and (first, second) not in found:
                    node = next(node for node in nodes if second in node)
                    other = _summed(tables[node], node, (second,))
                    found[(first, second)] = np.outer(found[(first,)], other).ravel() / float(model.total)
        return {clique: found[clique] for clique in cliques}

    def worst(self, estimates: dict[Clique, np.ndarray], sigma: float, rate: float) -> Clique:
        """A table whose estimate is far off, less what its noise will be: the exponential mechanism."""
        noise = sigma * math.sqrt(2 / math.pi)
        cliques = list(estimates)
        scores = np.array([
            self.weights[each] * (np.abs(self.counts[each] - estimates[each]).sum() - noise * len(estimates[each]))
            for each in cliques
        ])  # fmt: skip
        logs = rate * scores / (2 * max(self.weights[each] for each in cliques))
        return cliques[int(np.argmax(logs + self.generator.gumbel(size=len(logs))))]


def _summed(table: np.ndarray, names: Clique, kept: Clique) -> np.ndarray:
    """A table of the kept columns, in their order."""
    return np.einsum(table, [*range(len(names))], [names.index(name) for name in kept])


def _carried(
    message: np.ndarray | None, shared: Clique, table: np.ndarray, names: Clique, first: str, wanted: Clique
) -> np.ndarray:
    """The table of `first` and wanted columns of a clique, by P(wanted | shared) where the clique does not hold `first`."""
    if message is None:
        return _summed(table, names, (first, *wanted))
    both = (*shared, *(name for name in wanted if name not in shared))
    total = _summed(table, names, shared)
    ratio = np.divide(message, total, out=np.zeros_like(message), where=total > 0)
    axes = {name: place + 1 for place, name in enumerate(both)}
    of_shared, of_wanted = ([axes[name] for name in each] for each in (shared, wanted))
    return np.einsum(ratio, [0, *of_shared], _summed(table, names, both), [*axes.values()], [0, *of_wanted])


def main() -> None:
    """Read settings and the name of a file of codes; write as many rows of codes beside it, and what it took."""
    settings = json.load(sys.stdin)
    columns = dict(np.load(settings["codes"]))
    np.random.seed(settings["seed"])  # noqa: NPY002  (mbi draws rows by it)
    data = mbi.Dataset(columns, mbi.Domain.fromdict(settings["sizes"]))
    try:
        aim = Aim(data, settings)
        rows = aim.run().synthetic_data(rows=len(next(iter(columns.values()))))
    except TooLong:
        print(json.dumps({"finished": False, "seconds": time.process_time()}))
        return
    np.savez(settings["rows"], **rows.to_dict())
    print(json.dumps({"finished": True, "seconds": time.process_time(), "tables": len(aim.measurements)}))


if __name__ == "__main__":
    main()
