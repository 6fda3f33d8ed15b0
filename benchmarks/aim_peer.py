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
        self.weights = {
            clique: (columns - 1) if len(clique) == 1 else 2 + 2 * (columns - 2) for clique in self.counts
        }
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
        """What the model says of these tables: parts of tables that it holds, or by elimination of variables."""
        held = [clique for clique in cliques if self.model.marginals.supports(clique)]
        others = [clique for clique in cliques if clique not in set(held)]
        found = {clique: self.model.project(clique) for clique in held}
        if others:
            further = mbi.marginal_oracles.bulk_variable_elimination(
                self.model.potentials, others, self.model.total
            )
            found.update({clique: further[clique] for clique in others})
        return {clique: np.asarray(found[clique].datavector()) for clique in cliques}

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


def main() -> None:
    """Read settings and the name of a file of codes; write as many rows of codes beside it, and what it took."""
    settings = json.load(sys.stdin)
    columns = dict(np.load(settings["codes"]))
    np.random.seed(settings["seed"])  # mbi draws rows by it
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
