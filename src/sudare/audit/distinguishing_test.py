"""Can outputs on neighbouring data sets be told apart better than the claim allows? Measured, in any dimension.

The events are thresholds of scores: each coordinate, the direction between the sample means, and scores learned by
scikit-learn from coordinates and distances to the two samples' centres (which contain the log-likelihood ratio of
Laplace, Gaussian and gamma-norm noise). `epsilon_lower_bounds` says why the bound is right whatever was learned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sudare.array_types import Floats
from sudare.audit.epsilon_lower_bounds import (
    DEFAULT_CONFIDENCE,
    Audit,
    Parts,
    Score,
    checked_sampling,
    epsilon_bound,
    mu_bound,
    split,
    strongest_evidence,
)
from sudare.errors import InvalidParameter
from sudare.parameter_checks import SEEDS, Numbers
from sudare.privacy.accounting import gaussian_epsilon
from sudare.privacy.guarantee import Guarantee

# One data set in, one output vector out; or, batched, a data set and a count in, that many rows out.
Mechanism = Callable[..., Any]
Learner = Literal["logistic", "boosting"]

_FARTHEST: Final = 50.0
_LARGEST: Final = 1e100


def distinguish(
    mechanism: Mechanism,
    pair: tuple[Any, Any],
    claimed: Guarantee | float,
    samples: int,
    confidence: float = DEFAULT_CONFIDENCE,
    *,
    batched: bool = False,
    learners: Sequence[Learner] = ("logistic",),
    measured_share: float = 0.5,
    random_state: int | None = 0,
) -> Audit:
    """A lower bound on ε from `samples` outputs on each data set of the pair, right with probability `confidence`.

    `claimed` is a guarantee, or a pure ε. With `batched` the mechanism is called once a data set, as
    `mechanism(data, count)`. The seed is for learning scores only; the mechanism's noise is its own.
    """
    guarantee = claimed if isinstance(claimed, Guarantee) else Guarantee(epsilon=claimed)
    SEEDS.check("random_state", random_state)
    first, second = sampled(mechanism, pair, samples, confidence, batched, measured_share)
    scores = _scores(first, second, learners, random_state)
    bound, event, counts = strongest_evidence(scores, first, second, epsilon_bound(guarantee.delta), confidence)
    return Audit(guarantee, bound, event, confidence, counts)


def distinguish_gaussian(
    mechanism: Mechanism,
    pair: tuple[Any, Any],
    claimed: Guarantee,
    mu: float,
    samples: int,
    confidence: float = DEFAULT_CONFIDENCE,
    *,
    batched: bool = False,
    learners: Sequence[Learner] = ("logistic",),
    measured_share: float = 0.5,
    random_state: int | None = 0,
) -> Audit:
    """Like `distinguish`, for a claim that rests on μ-GDP: events of a small δ are too rare to be seen, those of μ are not.

    A lower bound on μ is measured. The ε reported is what that μ costs at the claimed δ, so the audit refutes the claim
    exactly when it refutes μ-GDP.
    """
    Numbers(0, open_low=True).check("mu", mu)
    SEEDS.check("random_state", random_state)
    first, second = sampled(mechanism, pair, samples, confidence, batched, measured_share)
    scores = _scores(first, second, learners, random_state)
    mu_low, event, counts = strongest_evidence(scores, first, second, mu_bound, confidence)
    event = f"μ ≥ {mu_low:.4g} where {mu:.4g} is claimed: {event}"
    return Audit(claimed, _epsilon_of_mu(mu_low, mu, claimed), event, confidence, counts)


def _epsilon_of_mu(mu_low: float, mu: float, claimed: Guarantee) -> float:
    """What a mechanism of `mu_low` costs at the claimed δ, on the same side of the claim as `mu_low` of `mu`."""
    epsilon = gaussian_epsilon(mu_low, claimed.delta)
    return min(epsilon, claimed.epsilon) if mu_low <= mu else max(epsilon, np.nextafter(claimed.epsilon, np.inf))


def outputs_of(mechanism: Mechanism, data: Any, count: int, batched: bool) -> Floats:
    """`count` outputs, one a row; a NaN is kept, because where it appears may itself tell the data sets apart."""
    rows = mechanism(data, count) if batched else [mechanism(data) for _ in range(count)]
    outputs = np.asarray(rows, dtype=np.float64)
    if outputs.ndim == 1 and len(outputs) == count:
        outputs = outputs[:, np.newaxis]
    if outputs.ndim != 2 or len(outputs) != count or outputs.shape[1] == 0:
        raise InvalidParameter(
            f"The mechanism must give {count} vectors of one length, got shape {outputs.shape}.",
            "Return one number or vector a call, or rows when batched=True.",
        )
    return outputs


def sampled(
    mechanism: Mechanism,
    pair: tuple[Any, Any],
    samples: int,
    confidence: float,
    batched: bool,
    measured_share: float,
) -> tuple[Parts, Parts]:
    """Outputs on both data sets of the pair, each split into what is learned, chosen and measured on."""
    checked_sampling(samples, confidence, measured_share)
    first, second = (split(outputs_of(mechanism, data, samples, batched), measured_share) for data in pair)
    if first.measuring.shape[1] != second.measuring.shape[1]:
        raise InvalidParameter(
            "The mechanism's outputs differ in length between the two data sets.",
            "That alone tells them apart: fix the length, then audit the values.",
        )
    return first, second


def _scores(
    first: Parts, second: Parts, learners: Sequence[Learner], random_state: int | None
) -> list[tuple[str, Score]]:
    """The family of scores, from the learning parts alone."""
    spaces = _Space(first.learning, second.learning)
    direction = np.mean(spaces.standard(second.learning), axis=0) - np.mean(spaces.standard(first.learning), axis=0)
    scores: list[tuple[str, Score]] = [
        (
            "number of values that are not finite",
            lambda outputs: np.sum(~np.isfinite(outputs), axis=1, dtype=np.float64),
        ),
        ("direction between means", lambda outputs: np.asarray(spaces.standard(outputs) @ direction)),
    ]
    scores += [(f"coordinate {index}", _coordinate(index)) for index in range(first.learning.shape[1])]
    for learner in learners:
        scores.append((f"{learner} score", _learned(learner, spaces, first.learning, second.learning, random_state)))
    return scores


def _coordinate(index: int) -> Score:
    return lambda outputs: _finite(outputs)[:, index]


def _finite(outputs: Floats) -> Floats:
    """Outputs that sums of cannot overflow; what is not a number is counted by a score of its own."""
    return np.clip(np.nan_to_num(outputs, nan=0.0), -_LARGEST, _LARGEST)


class _Space:
    """Coordinates that a learner can use: centred between the two samples and scaled by their spread."""

    def __init__(self, first: Floats, second: Floats) -> None:
        first, second = _finite(first), _finite(second)
        both = np.concatenate([first, second])
        self._middle = np.median(both, axis=0)
        quartiles = np.quantile(both, [0.25, 0.75], axis=0)
        spread = quartiles[1] - quartiles[0]
        self._spread = np.where(spread > 0, spread, 1.0)
        self._centres = [self.standard(np.median(side, axis=0)) for side in (first, second)]

    def standard(self, outputs: Floats) -> Floats:
        """Coordinates in units of the spread; what is farther than fifty counts as fifty away."""
        distances = (_finite(outputs) - self._middle) / self._spread
        return np.asarray(np.clip(distances, -_FARTHEST, _FARTHEST), dtype=np.float64)

    def features(self, outputs: Floats) -> Floats:
        """Coordinates, and distances to both centres: by coordinate, Euclidean and squared."""
        points = self.standard(outputs)
        columns = [points]
        for centre in self._centres:
            offsets = points - centre
            squares = np.sum(offsets**2, axis=1, keepdims=True)
            columns += [np.abs(offsets), np.sqrt(squares), squares]
        return np.hstack(columns)


def _learned(learner: Learner, space: _Space, first: Floats, second: Floats, random_state: int | None) -> Score:
    """The log-odds that a classifier gives for the second data set."""
    if learner == "logistic":
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500, random_state=random_state))
    else:
        model = HistGradientBoostingClassifier(max_iter=100, random_state=random_state)
    labels = np.repeat([0, 1], [len(first), len(second)])
    model.fit(space.features(np.concatenate([first, second])), labels)
    return lambda outputs: np.asarray(model.decision_function(space.features(outputs)), dtype=np.float64)
