"""What the guarantee tests share: real draws, and gates that raise a false alarm with probability at most 1e-6."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from sudare.array_types import Floats, Integers
from sudare.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from sudare.privacy.noise import SystemNoise

# Kolmogorov–Smirnov p-values are exact or conservative here. Chi-square p-values are approximate in the far tail even
# with a hundred expected in every cell, so that gate is a thousand times stricter than the false-alarm rate it promises.
SMALLEST_KS_P = 1e-6
SMALLEST_CHI_SQUARE_P = 1e-9

EPSILONS = (0.1, 1.0, 5.0)


def real_draws(mechanism: Laplace | Gaussian | GammaNorm) -> Callable[[Floats, int], Floats]:
    """Outputs as in production: the operating system's noise."""
    source = SystemNoise()
    return lambda values, count: mechanism.draws(np.asarray(values, dtype=np.float64), count, source)


def follows(sample: Floats, law: Any) -> bool:
    """Kolmogorov–Smirnov against a continuous law."""
    return bool(stats.kstest(sample, law.cdf).pvalue > SMALLEST_KS_P)


def has_mass_function(sample: Integers, mass: Callable[[Integers], Floats], most: int) -> bool:
    """Chi-square against a mass function on the integers, tails pooled so that a hundred are expected in every cell."""
    support = np.arange(-most, most + 1)
    probabilities = mass(support)
    expected = len(sample) * probabilities
    inner = np.flatnonzero(expected >= 100)
    low, high = support[inner[0]], support[inner[-1]]
    counts = np.bincount(np.clip(sample, low - 1, high + 1) - (low - 1), minlength=high - low + 3)
    tails = probabilities[support < low].sum(), probabilities[support > high].sum()
    cells = len(sample) * np.concatenate([[tails[0]], probabilities[inner], [tails[1]]])
    if cells[0] < 100:
        # Both tails hold the same few: pool them with their neighbours.
        counts = np.concatenate([[counts[:2].sum()], counts[2:-2], [counts[-2:].sum()]])
        cells = np.concatenate([[cells[:2].sum()], cells[2:-2], [cells[-2:].sum()]])
    return bool(stats.chisquare(counts, cells * (counts.sum() / cells.sum())).pvalue > SMALLEST_CHI_SQUARE_P)
