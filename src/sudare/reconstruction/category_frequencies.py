"""How often each category occurs, reconstructed from perturbed answers; and pairs of categories."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sudare.errors import DataError, InvalidParameter
from sudare.perturbation.categorical import CategoryPerturbation
from sudare.reconstruction.maximum_likelihood import (
    Channel,
    Fitted,
    maximum_likelihood,
    newton_likelihood,
    projected_on_simplex,
)
from sudare.reconstruction.shrinkage import posterior_mean
from sudare.schema.columns import level_text

Floats = NDArray[np.float64]
Method = Literal["shrinkage", "likelihood", "inversion"]
METHODS: Final = get_args(Method)

_ANSWERS_AT_ONCE: Final = 2**15
_MOST_NEWTON_WORK: Final = 4 * 10**8
_PAIR_STEPS: Final = 600


class _Proportions(BaseEstimator):
    """What both reconstructions learn, and how it follows from unbiased proportions or from a likelihood."""

    method: Method
    n_records_: int
    probabilities_: Floats
    gap_: float

    def _keep(self, unbiased: Floats, standard_errors: Floats, likeliest: Callable[[], Fitted]) -> None:
        """Keep proportions by the method that was asked for; `likeliest` looks for them only if that is needed."""
        self.unbiased_, self.standard_errors_ = unbiased, standard_errors
        if self.method == "likelihood":
            fitted = likeliest()
            self.probabilities_, self.gap_ = fitted.proportions, fitted.gap
        else:
            self.probabilities_, self.gap_ = from_unbiased(self.method, unbiased, standard_errors), math.nan

    def counts(self) -> Floats:
        """Expected numbers of records, shaped like the proportions."""
        expected: Floats = self.probabilities_ * self.n_records_
        return expected


class CategoricalReconstruction(_Proportions):
    """The proportions of a category column from its perturbed values. Post-processing: it costs no budget.

    Parameters
    ----------
    perturbation : the perturbation that the values went through.
    method : "shrinkage" (the posterior mean under a prior learned from all categories together), "likelihood" (maximum
        likelihood of whole answers), or "inversion" (unbiased proportions, then the nearest ones that can be).

    Attributes
    ----------
    values_, probabilities_ : categories and their proportions among the records, which add up to one.
    unbiased_, standard_errors_ : unbiased proportions, some perhaps negative, and what the perturbation does to each.
    gap_ : by how much the log-likelihood may be below the largest; NaN for other methods.
    n_records_ : how many values were given.
    """

    def __init__(self, perturbation: CategoryPerturbation, method: Method = "shrinkage") -> None:
        self.perturbation = perturbation
        self.method = method

    def fit(self, y: Any) -> Self:
        """From perturbed values: categories, or rows of ticks where the perturbation answers with sets."""
        checked_method(self.method)
        answers = Answers.of(self.perturbation, y)
        self.n_records_ = answers.records
        self.values_ = self.perturbation.values
        scores = tick_scores(self.perturbation, answers.ticks)
        self._keep(*mean_scores(answers.counts, scores), lambda: answers.maximum_likelihood(self.perturbation))
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "values": list(self.values_),
            "probabilities": self.probabilities_.tolist(),
            "standard_errors": self.standard_errors_.tolist(),
            "records": self.n_records_,
            "method": self.method,
        }

    def __str__(self) -> str:
        width = max(len(level_text(value)) for value in self.values_)
        return "\n".join(
            f"{level_text(value):<{width}}  {probability:7.4f} ± {error:.4f}"
            for value, probability, error in zip(self.values_, self.probabilities_, self.standard_errors_, strict=True)
        )


class CategoricalCrossTable(_Proportions):
    """Proportions of all pairs of categories of two columns that were perturbed independently of each other.

    Maximum likelihood is the default here: the errors of pairs go together, which shrinkage does not know.

    Attributes are those of `CategoricalReconstruction`; arrays have one row a category of the first column, and `values_`
    has both lists.
    """

    def __init__(
        self, first: CategoryPerturbation, second: CategoryPerturbation, method: Method = "likelihood"
    ) -> None:
        self.first = first
        self.second = second
        self.method = method

    def fit(self, y: Any, z: Any) -> Self:
        """From the perturbed values of both columns, row by row."""
        checked_method(self.method)
        rows, columns = answers_of(self.first, y), answers_of(self.second, z)
        if len(rows) != len(columns):
            raise DataError("The two columns have different lengths.", "Give two columns of the same rows.")
        self.n_records_ = len(rows)
        self.values_ = self.first.values, self.second.values
        pair = pair_counts(rows, columns)
        left, right = tick_scores(self.first, pair[0]), tick_scores(self.second, pair[1])

        def likeliest() -> Fitted:
            return maximum_likelihood(pair_channel(self.first, self.second, *pair), most_steps=_PAIR_STEPS)

        self._keep(*mean_scores(pair[2], left, right), likeliest)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "rows": list(self.values_[0]),
            "columns": list(self.values_[1]),
            "probabilities": self.probabilities_.tolist(),
            "standard_errors": self.standard_errors_.tolist(),
            "records": self.n_records_,
            "method": self.method,
        }


def checked_method(method: object) -> None:
    """Refuse a method that there is not."""
    if method not in METHODS:
        raise InvalidParameter(
            f"method must be one of {', '.join(METHODS)}, got {method!r}.", "Use one of these words."
        )


def answers_of(perturbation: CategoryPerturbation, y: Any) -> NDArray[np.bool_]:
    """Perturbed values as rows of ticks."""
    if not isinstance(perturbation, CategoryPerturbation):
        raise InvalidParameter("The column was not perturbed as a category.", "Use Reconstruction for numbers.")
    outputs = np.asarray(y) if perturbation.answers_with_sets else perturbation.answered(y)
    ticks = perturbation.ticks(outputs)
    if len(ticks) == 0:
        raise DataError("There are no perturbed values.", "Give at least one.")
    return ticks


class Answers:
    """Distinct answers (rows of ticks) and how often each came."""

    def __init__(self, ticks: NDArray[np.bool_], counts: Floats) -> None:
        self.ticks, self.counts = ticks, counts
        self.records = int(counts.sum())

    @classmethod
    def of(cls, perturbation: CategoryPerturbation, y: Any) -> Answers:
        """The distinct ones among perturbed values."""
        ticks = answers_of(perturbation, y)
        distinct, counts = np.unique(np.packbits(ticks, axis=1), axis=0, return_counts=True)
        unpacked = np.unpackbits(distinct, axis=1, count=ticks.shape[1]).astype(np.bool_)
        return cls(unpacked, counts.astype(np.float64))

    def maximum_likelihood(self, perturbation: CategoryPerturbation) -> Fitted:
        """By Newton steps where these are cheap, else by EM."""
        answers, categories = self.ticks.shape
        if answers * categories**2 > _MOST_NEWTON_WORK:
            return maximum_likelihood(self.channel(perturbation))
        return newton_likelihood(self.ticks.astype(np.float64), self.counts, perturbation.odds - 1)

    def channel(self, perturbation: CategoryPerturbation) -> Channel:
        """P(S | value) is `odds` where the value is in S and 1 elsewhere, so K·p = 1 + (odds − 1)·p(S)."""
        extra = perturbation.odds - 1
        pieces = [self.ticks[start : start + _ANSWERS_AT_ONCE] for start in range(0, len(self.ticks), _ANSWERS_AT_ONCE)]
        held: list[NDArray[Any]] = [piece.astype(np.float64) for piece in pieces] if len(pieces) <= 8 else pieces

        def forward(proportions: Floats) -> Floats:
            return 1 + extra * np.concatenate([piece @ proportions for piece in held])

        def backward(weights: Floats) -> Floats:
            parts = np.split(weights, np.cumsum([len(piece) for piece in held])[:-1])
            ticked = sum(part @ piece for part, piece in zip(parts, held, strict=True))
            total: Floats = weights.sum() + extra * ticked
            return total

        return Channel(forward, backward, self.counts, (self.ticks.shape[1],))


def tick_scores(perturbation: CategoryPerturbation, ticks: NDArray[np.bool_]) -> Floats:
    """(tick − q)/(p − q) for own and other probability p and q of a tick: on average 1 for the own category and 0 for others."""
    own, other = perturbation.tick_probabilities
    return np.where(ticks, 1 - other, -other) / (own - other)


def mean_scores(counts: Floats, left: Floats, right: Floats | None = None) -> tuple[Floats, Floats]:
    """Unbiased proportions of categories, or of pairs where scores multiply; and their standard errors.

    Given the records a score has mean 0 or 1, so the mean square less the proportion is what the perturbation adds.
    """
    records = counts.sum()
    other = np.ones((len(left), 1)) if right is None else right
    weighed = left * (counts / records)[:, np.newaxis]
    mean, square = weighed.T @ other, (weighed * left).T @ other**2
    error = np.sqrt(np.maximum(square - np.clip(mean, 0, 1), 1e-3 / records) / records)
    return (mean[:, 0], error[:, 0]) if right is None else (mean, error)


def from_unbiased(method: Method, unbiased: Floats, standard_errors: Floats) -> Floats:
    """Proportions that can be, from unbiased ones."""
    if method == "inversion":
        return projected_on_simplex(unbiased)
    return posterior_mean(unbiased.ravel(), standard_errors.ravel()).reshape(unbiased.shape)


PairCounts = tuple[NDArray[np.bool_], NDArray[np.bool_], Floats]


def pair_counts(rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> PairCounts:
    """Distinct pairs of answers, and how often each came."""
    packed = np.hstack([np.packbits(rows, axis=1), np.packbits(columns, axis=1)])
    distinct, counts = np.unique(packed, axis=0, return_counts=True)
    width = (rows.shape[1] + 7) // 8
    first = np.unpackbits(distinct[:, :width], axis=1, count=rows.shape[1]).astype(np.bool_)
    second = np.unpackbits(distinct[:, width:], axis=1, count=columns.shape[1]).astype(np.bool_)
    return first, second, counts.astype(np.float64)


def pair_channel(
    first: CategoryPerturbation,
    second: CategoryPerturbation,
    rows: NDArray[np.bool_],
    columns: NDArray[np.bool_],
    counts: Floats,
) -> Channel:
    """Σ_uv K_u·p_uv·L_v for each pair of answers, with K and L as for one column."""
    left, right = np.where(rows, first.odds, 1.0), np.where(columns, second.odds, 1.0)

    def forward(proportions: Floats) -> Floats:
        mixed: Floats = np.einsum("iv,iv->i", left @ proportions, right)
        return mixed

    def backward(weights: Floats) -> Floats:
        return (left * weights[:, np.newaxis]).T @ right

    return Channel(forward, backward, counts, (rows.shape[1], columns.shape[1]))
