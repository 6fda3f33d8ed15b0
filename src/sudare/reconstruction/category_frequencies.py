"""How often each category occurs, reconstructed from perturbed answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter
from sudare.perturbation.categorical import CategoryPerturbation
from sudare.reconstruction.maximum_likelihood import (
    Fitted,
    maximum_likelihood,
    newton_likelihood,
    projected_on_simplex,
)
from sudare.reconstruction.pooled_releases import paired_with_columns
from sudare.reconstruction.proportion_shrinkage import posterior_mean
from sudare.schema.columns import level_text

Ticks = NDArray[np.bool_]
Method = Literal["shrinkage", "likelihood", "inversion"]
METHODS: Final = get_args(Method)

_ANSWERS_AT_ONCE: Final = 2**15
_MOST_NEWTON_WORK: Final = 4 * 10**8


class CategoricalReconstruction(BaseEstimator):
    """The proportions of a category column from its perturbed values. Post-processing: it costs no budget.

    Parameters
    ----------
    perturbation : the perturbation that the values went through; or a list of those of several releases of the column, whose values are then
        taken together: `fit` takes a list of as many columns.
    method : "shrinkage" (the posterior mean under a prior learned from all categories together), "likelihood" (maximum
        likelihood of whole answers), or "inversion" (unbiased proportions, then the nearest ones that can be).

    Attributes
    ----------
    values_, probabilities_ : categories and their proportions among the records, which add up to one.
    unbiased_, standard_errors_ : unbiased proportions, some perhaps negative, and what the perturbation does to each; of several releases also what the
        choice of records does to those that have fewer of them than the largest.
    gap_ : by how much the log-likelihood may be below the largest; NaN for other methods.
    n_records_ : how many values were given, of all releases together.
    """

    def __init__(
        self, perturbation: CategoryPerturbation | Sequence[CategoryPerturbation], method: Method = "shrinkage"
    ) -> None:
        self.perturbation = perturbation
        self.method = method

    def fit(self, y: Any) -> Self:
        """From perturbed values: categories, or rows of ticks where the perturbation answers with sets; of several perturbations, a column for each."""
        if self.method not in METHODS:
            raise InvalidParameter(
                f"method must be one of {', '.join(METHODS)}, got {self.method!r}.", "Use one of these words."
            )
        every = [_Answers.of(each, values) for each, values in paired_with_columns(self.perturbation, y)]
        self.values_ = every[0].perturbation.values
        if any(list(map(typed, one.perturbation.values)) != list(map(typed, self.values_)) for one in every):
            raise InvalidParameter(
                "The releases do not declare the column alike: their categories differ.",
                "Reconstruct each on its own, and compare.",
            )
        self.n_records_ = sum(one.records for one in every)
        scores = [mean_scores(one.counts, tick_scores(one.perturbation, one.ticks)) for one in every]
        self.unbiased_, self.standard_errors_ = weighted_by_precision(scores, [one.records for one in every])
        self.probabilities_, self.gap_ = proportions(
            self.method, self.unbiased_, self.standard_errors_, lambda: _likeliest(every)
        )
        return self

    def counts(self) -> Floats:
        """Expected numbers among as many records as values were given."""
        return np.asarray(self.probabilities_ * self.n_records_)

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


@dataclass(frozen=True, eq=False)
class _Answers:
    """The distinct answers of a release, and how often each came."""

    perturbation: CategoryPerturbation
    ticks: Ticks
    counts: Floats

    @classmethod
    def of(cls, perturbation: CategoryPerturbation, y: Any) -> _Answers:
        """Perturbed values, counted."""
        (ticks,), counts = distinct_answers(answers_of(perturbation, y))
        return cls(perturbation, ticks, counts)

    @property
    def records(self) -> int:
        """How many values there are."""
        return int(self.counts.sum())


def typed(value: object) -> tuple[type, object]:
    """A value with its type: 1 and True are equal, and different categories."""
    return type(value), value


def _likeliest(every: Sequence[_Answers]) -> Fitted:
    """The proportions of the largest likelihood of the answers of one release, or of several together."""
    if len(every) == 1:
        return likeliest_of(every[0].perturbation, every[0].ticks, every[0].counts)()
    channel = StackedChannel([TickChannel(one.ticks, one.perturbation.odds - 1) for one in every])
    return maximum_likelihood(channel, np.concatenate([one.counts for one in every]))


@dataclass(frozen=True, eq=False)
class TickChannel:
    """P(S | value) for distinct answers S (rows of ticks): 1 + `extra` where the value is in S, 1 elsewhere; K·p = 1 + extra·p(S)."""

    ticks: Ticks
    extra: float

    @property
    def shape(self) -> tuple[int, ...]:
        """How many categories there are."""
        return (self.ticks.shape[1],)

    @cached_property
    def _pieces(self) -> list[NDArray[Any]]:
        pieces = [self.ticks[start : start + _ANSWERS_AT_ONCE] for start in range(0, len(self.ticks), _ANSWERS_AT_ONCE)]
        return [piece.astype(np.float64) for piece in pieces] if len(pieces) <= 8 else pieces

    def forward(self, probabilities: Floats) -> Floats:
        """Likelihoods of the answers."""
        return 1 + self.extra * np.concatenate([piece @ probabilities for piece in self._pieces])

    def backward(self, weights: Floats) -> Floats:
        """The transposed map."""
        parts = np.split(weights, np.cumsum([len(piece) for piece in self._pieces])[:-1])
        ticked = sum(part @ piece for part, piece in zip(parts, self._pieces, strict=True))
        return np.asarray(weights.sum() + self.extra * ticked)


@dataclass(frozen=True, eq=False)
class StackedChannel:
    """Answers of several releases, those of one after those of the other."""

    parts: Sequence[TickChannel]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many categories there are."""
        return self.parts[0].shape

    def forward(self, probabilities: Floats) -> Floats:
        """Likelihoods of the answers."""
        return np.concatenate([part.forward(probabilities) for part in self.parts])

    def backward(self, weights: Floats) -> Floats:
        """The transposed map."""
        pieces = np.split(weights, np.cumsum([len(part.ticks) for part in self.parts])[:-1])
        return np.asarray(sum(part.backward(piece) for part, piece in zip(self.parts, pieces, strict=True)))


def weighted_by_precision(estimates: Sequence[tuple[Floats, Floats]], records: Sequence[int]) -> tuple[Floats, Floats]:
    """Unbiased proportions from several releases of so many records and their standard errors: the mean of all, each by one over its mean squared error.

    What is wanted are the proportions of the largest release. One of fewer records misses them even without noise, as much as a part drawn from its records would:
    by a variance of p(1 − p)(1/n − 1/largest n), for the weights that of the most even proportions. One weight for all categories: they add up to one as before.
    """
    unbiased, squares = np.array([mean for mean, _ in estimates]), np.array([errors**2 for _, errors in estimates])
    fewer = 1 / np.array(records, dtype=np.float64) - 1 / max(records)
    even = 1 / unbiased.shape[1]
    weights = 1 / (squares.mean(axis=1) + fewer * even * (1 - even))
    weights /= weights.sum()
    mean = weights @ unbiased
    likely = projected_on_simplex(mean)
    return mean, np.sqrt(weights**2 @ (squares + np.outer(fewer, likely * (1 - likely))))


def answers_of(perturbation: CategoryPerturbation, y: Any) -> Ticks:
    """Perturbed values as rows of ticks."""
    if not isinstance(perturbation, CategoryPerturbation):
        raise InvalidParameter("The column was not perturbed as a category.", "Use Reconstruction for numbers.")
    outputs = np.asarray(y) if perturbation.answers_with_sets else perturbation.answered(y)
    ticks = perturbation.ticks(outputs)
    if len(ticks) == 0:
        raise DataError("There are no perturbed values.", "Give at least one.")
    return ticks


def distinct_answers(*columns: Ticks) -> tuple[list[Ticks], Floats]:
    """The distinct combinations of the columns' answers, a matrix of ticks for each column; and how often each came."""
    packed = [np.packbits(ticks, axis=1) for ticks in columns]
    distinct, counts = np.unique(np.hstack(packed), axis=0, return_counts=True)
    parts = np.split(distinct, np.cumsum([part.shape[1] for part in packed])[:-1], axis=1)
    unpacked = [
        np.unpackbits(part, axis=1, count=ticks.shape[1]).astype(np.bool_)
        for part, ticks in zip(parts, columns, strict=True)
    ]
    return unpacked, counts.astype(np.float64)


def likeliest_of(perturbation: CategoryPerturbation, ticks: Ticks, counts: Floats) -> Callable[[], Fitted]:
    """A function for the proportions of the largest likelihood: by Newton steps where these are cheap, else by EM."""
    extra = perturbation.odds - 1
    if len(ticks) * ticks.shape[1] ** 2 > _MOST_NEWTON_WORK:
        return lambda: maximum_likelihood(TickChannel(ticks, extra), counts)
    return lambda: newton_likelihood(ticks.astype(np.float64), counts, extra)


def tick_scores(perturbation: CategoryPerturbation, ticks: Ticks) -> Floats:
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


def proportions(
    method: str, unbiased: Floats, standard_errors: Floats, likeliest: Callable[[], Fitted]
) -> tuple[Floats, float]:
    """Proportions by one of `METHODS`, and by how much their log-likelihood may be below the largest, if that is known."""
    if method == "likelihood":
        fitted = likeliest()
        return fitted.proportions, fitted.gap
    if method == "inversion":
        return projected_on_simplex(unbiased), math.nan
    return posterior_mean(unbiased.ravel(), standard_errors.ravel()).reshape(unbiased.shape), math.nan
