"""dp-accounting's side. It is a dependency of ours, so it runs in our own environment."""

from __future__ import annotations

import functools
from collections.abc import Callable

from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from sudare.privacy.accounting import gaussian_mu_within

Run = Callable[[], object]


def composition(charges: int) -> Run:
    """Total ε of the same Gaussian charges at δ = 1e-6."""
    deviations = [1 / gaussian_mu_within(0.01 + 0.0001 * index, 1e-9) for index in range(charges)]

    def run() -> float:
        distributions = map(from_gaussian_mechanism, deviations)
        composed = functools.reduce(lambda left, right: left.compose(right), distributions)
        return float(composed.get_epsilon_for_delta(1e-6))

    return run


CASES = {"composition": composition}
