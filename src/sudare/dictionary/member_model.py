"""One member's model: shared patterns and its own, mixed by its own weights (1.88), and what it says about new records.

Scores are −ln p (1.89): the larger, the stranger. The model knows the member's own weights, which are exact functions of its
records: it never leaves the member.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import qmc

from sudare.array_types import Booleans, Floats
from sudare.dictionary.exponential_families import Family, Patterns
from sudare.dictionary.gaussian_families import SparseGaussian, partial_correlations
from sudare.dictionary.member_tables import finite_matrix
from sudare.errors import DataError, InvalidParameter
from sudare.parameter_checks import Numbers
from sudare.schema import Schema

# Points per pattern from which the model's own quantiles are computed: Sobol's sequence, the same for everybody.
_QUANTILE_BITS: Final = 14
FALSE_ALARM_RATES: Final = Numbers(0, 1, open_low=True, open_high=True)
WINDOWS: Final = Numbers(1, 100_000, whole=True)


@dataclass(frozen=True, eq=False, repr=False)
class MemberModel:
    """p(x) = Σ_k π_k f(x | θ_k) of one member, in the units of the columns.

    `false_alarm_rate` sets the threshold of `predict`. It is the model's own quantile until `calibrated` has seen records that
    were not used in training. `window` is of how many records in a row scores are the mean.
    """

    family: Family
    patterns: Patterns
    weights: Floats
    columns: tuple[str, ...]
    false_alarm_rate: float = 0.01
    schema: Schema | None = None
    calibration: Floats | None = None
    window: int = 1

    def __repr__(self) -> str:
        return f"MemberModel({len(self.patterns)} {self.family.name} patterns, {len(self.columns)} columns)"

    def score_samples(self, X: object) -> Floats:
        """−ln p of every record (1.89); with a window the mean of the scores of the last `window` records, or of as many as there are."""
        return trailing_means(self._scores(self._matrix(X)), self.window)

    def smoothed(self, window: int) -> MemberModel:
        """Returns the model for records in the order of time: faults that last stand out from what is strange once. Not calibrated."""
        WINDOWS.check("window", window)
        return replace(self, window=int(window), calibration=None)

    def responsibilities(self, X: object) -> Floats:
        """How much of every record each pattern explains (1.11); rows add up to one."""
        return self.family.responsibilities(self._matrix(X), self.weights, self.patterns)

    def attribution(self, X: object) -> Floats:
        """−ln p(x_i | all other columns), records × columns: how strange each column is, given the others.

        For a mixture p(x_i | x_rest) = p(x)/p(x_rest), and in every pattern f(x_rest) = f(x)/f(x_i | x_rest).
        """
        matrix = self._matrix(X)
        log_joint = self.family.log_joint(matrix, self.weights, self.patterns)
        conditional = self.family.conditional_log_densities(matrix, self.patterns)
        log_rest = logsumexp(log_joint[:, :, np.newaxis] - conditional, axis=1)
        return np.asarray(log_rest - logsumexp(log_joint, axis=1)[:, np.newaxis])

    def predict(self, X: object, false_alarm_rate: float | None = None) -> Booleans:
        """True for records whose score is above the threshold for the stated rate of false alarms."""
        return np.asarray(self.score_samples(X) > self.threshold(false_alarm_rate))

    def calibrated(self, X: object) -> MemberModel:
        """Returns the model with a threshold from records that were not used in training and are as usual (split conformal).

        A new usual record is then above it with probability at most the rate, whatever the model is worth. With a window that is so for
        a whole window of new records: it is compared with windows of these that do not overlap.
        """
        scores = self.score_samples(X)
        return replace(self, calibration=np.sort(scores[self.window - 1 :: self.window]))

    def threshold(self, false_alarm_rate: float | None = None) -> float:
        """The score that usual records exceed at the stated rate. Raise DataError where a window is not calibrated."""
        rate = self.false_alarm_rate if false_alarm_rate is None else false_alarm_rate
        FALSE_ALARM_RATES.check("false_alarm_rate", rate)
        if self.window > 1 and self.calibration is None:
            raise DataError(
                "Scores over a window have no threshold of their own: how neighbouring records depend on each other is not in the model.",
                "Calibrate with usual records in the order of time that were not used in training.",
            )
        return self._model_threshold(rate) if self.calibration is None else self._conformal_threshold(rate)

    def _conformal_threshold(self, rate: float) -> float:
        """The ⌈(n+1)(1−rate)⌉-th smallest score (Vovk et al. 2005)."""
        scores = self.calibration if self.calibration is not None else np.empty(0)
        rank = math.ceil((len(scores) + 1) * (1 - rate) - 1e-9)
        if rank > len(scores):
            needed = (math.ceil(1 / rate) - 1) * self.window
            got = len(scores) * self.window
            raise DataError(
                f"One false alarm in {1 / rate:,.0f} needs {needed:,} calibration records, got {got:,}.",
                "Calibrate with more records, or accept a higher rate.",
            )
        return float(scores[rank - 1])

    def _model_threshold(self, rate: float) -> float:
        """The quantile of −ln p when the model itself is right, over evenly spread points of every pattern."""
        used = np.flatnonzero(self.weights > 0)
        sequence = qmc.Sobol(len(self.columns), scramble=False)
        sequence.fast_forward(1)
        uniforms = sequence.random(2**_QUANTILE_BITS - 1)
        # Draws are codes and numbers already, not records as a schema declares them.
        scores = [self._scores(self.family.draws(self.patterns, int(k), uniforms)) for k in used]
        order = np.argsort(np.concatenate(scores))
        shares = np.repeat(self.weights[used], [len(part) for part in scores])[order]
        above = 1 - np.cumsum(shares) / shares.sum()
        first = int(np.searchsorted(-above, -rate))
        return float(np.concatenate(scores)[order][min(first, len(order) - 1)])

    @property
    def partial_correlations(self) -> Floats:
        """Partial correlations of every pattern, patterns × columns × columns (1.62): which columns depend on each other directly."""
        if not isinstance(self.family, SparseGaussian):
            raise InvalidParameter(
                f"{self.family.name} patterns have independent columns.", "Use family='sparse_gaussian'."
            )
        return partial_correlations(self.patterns["precisions"])

    def _scores(self, matrix: Floats) -> Floats:
        return np.asarray(-logsumexp(self.family.log_joint(matrix, self.weights, self.patterns), axis=1))

    def _matrix(self, X: object) -> Floats:
        matrix = finite_matrix(X, self.columns, self.schema)
        fault = self.family.fault(matrix)
        if fault is not None:
            raise DataError(
                f"The records are not of the dictionary's family: {fault}.", "Prepare them as for training."
            )
        return matrix


def trailing_means(scores: Floats, window: int) -> Floats:
    """Returns for each score the mean of the last `window` scores up to it; for the first ones, of as many as there are."""
    if window == 1:
        return scores
    padded = np.concatenate([np.zeros(window - 1), scores])
    sums = np.lib.stride_tricks.sliding_window_view(padded, window).sum(axis=1)
    return np.asarray(sums / np.minimum(np.arange(1, len(scores) + 1), window))


def worst_columns(attributions: Floats, columns: tuple[str, ...]) -> NDArray[np.str_]:
    """The column with the largest attribution, for every record."""
    return np.asarray(np.array(columns)[np.argmax(attributions, axis=1)])
