"""Values that many records share: zero incomes, capped amounts, a number everybody gives.

Atoms anywhere can be declared. On the bounds, where clipping puts them, they are also detected: an atom is kept where the evidence
of a smooth density with it is clearly above that without, or where much of the mass is so close to the bound that the data cannot
tell it from the bound. Inside, an atom and a narrow peak look the same through noise, so none is guessed there.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.reconstruction.binning import Counts, continuous_states
from sudare.reconstruction.model_average import FitFamily, smooth_family
from sudare.reconstruction.pooled_releases import NumberLaw

# Rough and smooth curves, small and large ones: enough to tell whether an atom helps.
_LENGTHS: Final = (0.03, 0.1, 0.33)
_AMPLITUDES: Final = (0.7, 2.8)
_LEAST_GAIN: Final = 3.0
_HEAVY: Final = 0.3
_LEAST_GAIN_IF_HEAVY: Final = -3.0


def declared_atoms(perturbation: NumberLaw, atoms: object) -> Floats:
    """Declared values, rising, if they are different numbers between the bounds."""
    try:
        places = np.sort(np.asarray(atoms, dtype=np.float64).reshape(-1))
    except (TypeError, ValueError):
        places = np.array([math.nan])
    low, high = perturbation.bounds
    if not np.all((places >= low) & (places <= high)) or np.any(np.diff(places) <= 0):
        raise InvalidParameter(
            f"atoms must be different numbers from {low:g} to {high:g}.", "Use for example atoms=(0,), or atoms='auto'."
        )
    return places


def detected_atoms(perturbation: NumberLaw, counts: Counts, cells: int) -> Floats:
    """Both bounds if the perturbed values show an atom on one of them, else none.

    A column with an atom on one bound has often one on the other; where there is none it gets next to no weight.
    """
    without = _smooth(perturbation, counts, cells, ()).evidence
    for bound in perturbation.bounds:
        fitted = _smooth(perturbation, counts, cells, (bound,))
        is_heavy = fitted.best.probabilities[-1] >= _HEAVY
        if fitted.evidence - without >= (_LEAST_GAIN_IF_HEAVY if is_heavy else _LEAST_GAIN):
            return np.array(perturbation.bounds)
    return np.empty(0)


def _smooth(perturbation: NumberLaw, counts: Counts, cells: int, atoms: tuple[float, ...]) -> FitFamily:
    states = continuous_states(perturbation, counts.edges, cells, np.array(atoms))
    return smooth_family(states, counts, _LENGTHS, _AMPLITUDES)
