"""Choosing among candidates without showing the data through the choice. Proof: proofs/selection.md.

A search that looks at exact scores is not private, however its fits were counted. Here a random number of tries is
made (Papernot and Steinke 2022); each try fits a random candidate with noise and scores it with noise, and the best
noisy score wins. With a logarithmic number of tries the whole is 2ε-DP when one try is ε-DP, however many tries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sudare.errors import DataError, InvalidParameter, NotCharged
from sudare.privacy.accounting import decimal_down, exact, pure_cost
from sudare.privacy.base import PrivateEstimator
from sudare.privacy.declared import rows_per_unit
from sudare.privacy.guarantee import Guarantee, Unit, checked_epsilon
from sudare.privacy.ledger import Account
from sudare.privacy.mechanisms import Laplace
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release import Passage, pass_through, result_of
from sudare.privacy.sources import given_source
from sudare.privacy.sums import exact_sums, fixed_point_step

Floats = NDArray[np.float64]
RowScores = Callable[[Any, Any, Any], Floats]


@dataclass(frozen=True)
class Selected:
    """The winner, fitted and releasable, and its place in the list of candidates."""

    model: Any
    candidate: int
    guarantee: Guarantee


def logarithmic_draw(tries_parameter: int, noise: NoiseSource) -> int:
    """A draw K with P(K = k) ∝ (1 − 1/tries_parameter)^k / k, exact: a geometric draw k kept with probability 1/k."""
    while True:
        tries = 1
        while noise.integer_below(tries_parameter) != 0:
            tries += 1
        if noise.integer_below(tries) == 0:
            return tries


def select_privately(
    candidates: Sequence[PrivateEstimator],
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    row_scores: RowScores,
    score_share: float = 0.5,
    tries_parameter: int | None = None,
    account: Account | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> Selected:
    """ε-DP choice and fit, replace-one rows. Proof: proofs/selection.md.

    Parameters
    ----------
    candidates : unfitted estimators with pure guarantees; their own epsilon, account and seed are replaced.
    epsilon : for everything: choice, fit and score together. One try costs half of it.
    row_scores : (fitted model, X, y) → one number in [0, 1] a row, larger is better; its mean is the score.
    score_share : part of a try's ε that goes into the noisy score; the rest goes into the fit.
    tries_parameter : 1/γ of the logarithmic number of tries; default four times the number of candidates.
    account : who pays, once, before the first try.
    """
    _check_candidates(candidates)
    if not isinstance(score_share, Real) or not 0 < score_share < 1:
        raise InvalidParameter(f"score_share must lie between 0 and 1, got {score_share!r}.", "Use for example 0.5.")
    tries_parameter = 4 * len(candidates) if tries_parameter is None else tries_parameter
    if isinstance(tries_parameter, bool) or not isinstance(tries_parameter, int) or tries_parameter < 2:
        raise InvalidParameter("tries_parameter must be a whole number, at least 2.", "Use for example 20.")
    per_try = exact(checked_epsilon(epsilon)) / 2
    score_epsilon = decimal_down(per_try * exact(score_share))
    fit_epsilon = decimal_down(per_try - exact(score_epsilon))
    schema = candidates[0].schema
    unit: Unit = "record" if schema is None or schema.person is None else "person"
    guarantee = Guarantee(float(epsilon), unit=unit)
    purpose = f"choice among {len(candidates)} candidates"
    passage = pass_through(
        account, random_state, guarantee, pure_cost(epsilon), "select_privately", purpose, given_source(X)
    )
    noise = passage.noise
    score_noise = _ScoreNoise(len(X), 1 if schema is None else rows_per_unit(schema), score_epsilon)

    def one_try() -> tuple[float, int, PrivateEstimator]:
        index = noise.integer_below(len(candidates))
        seed = None if random_state is None else noise.integer_below(2**31)
        fit = clone(candidates[index]).set_params(epsilon=fit_epsilon, account=None, random_state=seed)
        model = fit.fit(X, y)
        fitted = result_of(model)
        score = score_noise.of(row_scores(model, X, y), noise)
        if result_of(model) != fitted:
            raise NotCharged(
                "row_scores changed the model that it was to score.", "Only look at the model; return scores."
            )
        return score, index, model

    tries = (one_try() for _ in range(logarithmic_draw(tries_parameter, noise)))
    _, index, model = max(tries, key=itemgetter(0))
    return Selected(_as_winner(model, passage, float(epsilon), account), index, passage.guarantee)


def _check_candidates(candidates: Sequence[PrivateEstimator]) -> None:
    if not candidates:
        raise InvalidParameter("There is no candidate to choose from.", "Give at least one estimator.")
    if any(candidate.delta != 0 for candidate in candidates):
        raise InvalidParameter("A candidate has delta > 0; selection is for pure guarantees.", "Set delta=0.")
    if any(candidate.neighbours != "replace-one" for candidate in candidates):
        raise InvalidParameter("A candidate is not for replace-one neighbours.", 'Set neighbours="replace-one".')
    if len({None if candidate.schema is None else candidate.schema.digest for candidate in candidates}) > 1:
        raise InvalidParameter("The candidates have different schemas.", "Give all of them the same one.")


class _ScoreNoise:
    """ε-DP sum of row scores in [0, 1], exact before the noise. Proof: proofs/selection.md."""

    def __init__(self, rows: int, rows_per_unit: int, epsilon: float) -> None:
        self.rows = rows
        self.step = fixed_point_step(rows)
        self.mechanism = Laplace(float(rows_per_unit), epsilon, integer_grid=self.step)

    def of(self, scores: Floats, noise: NoiseSource) -> float:
        """The noisy sum; a score that is not a number counts as zero."""
        column = np.clip(np.nan_to_num(np.asarray(scores, dtype=np.float64), nan=0.0), 0.0, 1.0).reshape(-1, 1)
        if len(column) != self.rows:
            raise DataError(
                f"row_scores must give one number a row ({self.rows}).", "Return an array with one score a row."
            )
        return float(self.mechanism.apply(exact_sums(column, self.step), noise)[0])


def _as_winner(model: PrivateEstimator, passage: Passage, epsilon: float, account: Account | None) -> PrivateEstimator:
    """The winner under the guarantee and receipt of the whole selection."""
    model.set_params(epsilon=epsilon, account=account, random_state=None)
    model.guarantee_, model.receipt_ = passage.guarantee, passage.receipt
    model._seal()
    return model
