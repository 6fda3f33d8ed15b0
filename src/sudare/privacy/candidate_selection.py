"""Choosing among candidates without showing the data through the choice. Proof: proofs/selection.md.

A search that looks at exact scores is not private, however its fits were counted. Here a random number of tries is
made (Papernot and Steinke 2022); each try fits a random candidate with noise and scores it with noise, and the best
noisy score wins. With a logarithmic number of tries the whole is 2ε-DP when one try is ε-DP, however many tries.

What one try promises a record is read off the plans of the candidates, before anything is charged: a candidate whose
plan promises less than its share of ε allows, or nothing, is refused.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Real
from operator import itemgetter
from typing import Any, Final

import numpy as np
from sklearn.base import clone

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter, NotCharged
from sudare.frames.person_rows import kept_persons
from sudare.frames.sources import in_memory
from sudare.privacy.accounting import Cost, decimal_down, decimal_up, exact, pure_cost
from sudare.privacy.column_sums import exact_sums, fixed_point_step
from sudare.privacy.declared_columns import rows_per_unit
from sudare.privacy.fit_plan import Calibrated, Plan
from sudare.privacy.guarantee import Guarantee, checked_epsilon, readable_up
from sudare.privacy.ledger import Account
from sudare.privacy.mechanisms import Laplace
from sudare.privacy.noise import NoiseSource, row_secret
from sudare.privacy.private_estimator import PrivateEstimator
from sudare.privacy.release import is_learner, pass_through
from sudare.privacy.release_content import sealed
from sudare.privacy.source_identity import given_source
from sudare.schema.table_from_any_frame import no_rows

RowScores = Callable[[Any, Any, Any], Floats]
Scored = Callable[[Any], Floats]

# All tries together cost so many times what one of them costs (proofs/selection.md).
TRIES_FACTOR: Final = 2


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
    epsilon : what a record is promised by everything: choice, fit and score together. One try costs half of it.
    row_scores : (fitted model, X, y) → one number in [0, 1] a row, larger is better; its mean is the score. A row's number
        must depend on the model and that row alone. It is shown a copy of the model; whatever it does to that, to X or to y
        does not reach the fits, and NotCharged is raised where it changed or refitted the model.
    score_share : part of a try's ε that goes into the noisy score; the rest goes into the fit.
    tries_parameter : 1/γ of the logarithmic number of tries; default four times the number of candidates.
    account : who pays, once, before the first try.
    """
    given, schema = given_source(X), getattr(candidates[0], "schema", None) if candidates else None
    if schema is not None:
        kept = kept_persons(in_memory(X, schema), schema, row_secret(random_state), y)
        X, y = kept.source, kept.y
    plan = selection_plan(candidates, X, y, epsilon=epsilon, score_share=score_share, tries_parameter=tries_parameter)
    selection = plan.mechanism
    for candidate in selection.candidates:
        if account is None:
            break
        candidate._check_chargeable()
        if not is_learner(candidate):
            raise InvalidParameter(
                f"{type(candidate).__name__} is not a learner of sudare itself: what a derived class computes has no proof, and "
                "what it does to the table would reach the other tries. Nothing was charged.",
                "Give the listed learners, or leave account out.",
            )
    # Of their own, so that nothing that a scoring function does to its table reaches the fits.
    rows, targets = own_copy(X), own_copy(y)
    passage = pass_through(
        account,
        random_state,
        plan.guarantee,
        selection.cost,
        "select_privately",
        selection.purpose,
        given,
    )
    index, model = selection.best(rows, targets, lambda tried: _shown(tried, row_scores, X, y), passage.noise)
    winner = model._as_the_outcome_of(passage, account)
    return Selected(winner, index, winner.guarantee_)


def selection_plan(
    candidates: Sequence[PrivateEstimator],
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    score_share: float = 0.5,
    tries_parameter: int | None = None,
) -> Plan[Selection]:
    """What a selection among these candidates will do and what it promises, from the plans of its tries; nothing is fitted.

    Raises where one try would cost a record more than its half of ε, and where it is not pure, central, or for replaced rows.
    """
    _check_candidates(candidates)
    if not isinstance(score_share, Real) or not 0 < score_share < 1:
        raise InvalidParameter(f"score_share must lie between 0 and 1, got {score_share!r}.", "Use for example 0.5.")
    tries_parameter = 4 * len(candidates) if tries_parameter is None else tries_parameter
    if isinstance(tries_parameter, bool) or not isinstance(tries_parameter, int) or tries_parameter < 2:
        raise InvalidParameter("tries_parameter must be a whole number, at least 2.", "Use for example 20.")
    per_try = exact(checked_epsilon(epsilon)) / TRIES_FACTOR
    score_epsilon = decimal_down(per_try * exact(score_share))
    fit_epsilon = decimal_down(per_try - exact(score_epsilon))
    scores = ScoreNoise(row_count(X), rows_per_unit(candidates[0].schema), score_epsilon)
    trials = tuple(clone(each).set_params(epsilon=fit_epsilon, account=None, random_state=None) for each in candidates)
    plans = tuple(clone(trial)._plan_of(X, y) for trial in trials)
    selection = Selection(trials, plans, scores, tries_parameter, float(epsilon))
    return Plan(selection, selection.guarantee)


@dataclass(frozen=True, eq=False)
class Selection:
    """ε-DP: the best of a random number of tries, each a fit of one of the candidates with a noisy score of it.

    `plans` says what a fit of each candidate promises a record, `scores` what its score costs.
    """

    candidates: tuple[PrivateEstimator, ...]
    plans: tuple[Plan[Calibrated], ...]
    scores: ScoreNoise
    tries_parameter: int
    epsilon: float

    def __post_init__(self) -> None:
        for candidate, plan in zip(self.candidates, self.plans, strict=True):
            _check_try(type(candidate).__name__, plan)
        if self.composed_epsilon > exact(self.epsilon):
            raise InvalidParameter(
                f"All tries together would promise a record ε = {readable_up(decimal_up(self.composed_epsilon))}, and "
                f"{readable_up(self.epsilon)} was asked for: a candidate's ε is not that of a record.",
                "Leave out candidates whose epsilon protects less than a record. Nothing was charged.",
            )

    @property
    def composed_epsilon(self) -> Fraction:
        """What a record is promised by all tries: twice the ε of the dearest fit with its score."""
        return TRIES_FACTOR * (
            max(plan.mechanism.cost.epsilon for plan in self.plans) + self.scores.mechanism.cost.epsilon
        )

    @property
    def cost(self) -> Cost:
        """Pure ε, no less than what the tries compose to."""
        return pure_cost(self.epsilon)

    @property
    def noise_scale(self) -> float:
        """Scale of the noise on the sum of scores."""
        return self.scores.mechanism.noise_scale

    @property
    def guarantee(self) -> Guarantee:
        """That of all tries together: valid if all of them are."""
        valid = all(plan.guarantee.valid for plan in self.plans)
        return replace(self.plans[0].guarantee, epsilon=self.epsilon, valid=valid)

    @property
    def purpose(self) -> str:
        """What the ledger says that the charge is for."""
        return f"choice among {len(self.candidates)} candidates"

    def best(self, X: Any, y: Any, scored: Scored, noise: NoiseSource) -> tuple[int, PrivateEstimator]:
        """The place of the winner among the candidates, and the winner as it was fitted; `scored` gives a model's row scores."""

        def one_try() -> tuple[float, int, PrivateEstimator]:
            index = noise.integer_below(len(self.candidates))
            model = clone(self.candidates[index])._fit_within(noise, X, y)
            return self.scores.noisy_sum(scored(model), noise), index, model

        tries = (one_try() for _ in range(logarithmic_draw(self.tries_parameter, noise)))
        _, index, model = max(tries, key=itemgetter(0))
        return index, model


class ScoreNoise:
    """ε-DP sum of row scores in [0, 1], exact before the noise. Proof: proofs/selection.md."""

    def __init__(self, rows: int, rows_per_unit: int, epsilon: float) -> None:
        self.rows = rows
        self.step = fixed_point_step(rows)
        self.mechanism = Laplace(float(rows_per_unit), epsilon, integer_grid=self.step)

    def noisy_sum(self, scores: Floats, noise: NoiseSource) -> float:
        """The noisy sum; a score that is not a number counts as zero."""
        column = np.clip(np.nan_to_num(np.asarray(scores, dtype=np.float64), nan=0.0), 0.0, 1.0).reshape(-1, 1)
        if len(column) != self.rows:
            raise DataError(
                f"row_scores must give one number a row ({self.rows}).", "Return an array with one score a row."
            )
        return float(self.mechanism.apply(exact_sums(column, self.step), noise)[0])


def _shown(model: PrivateEstimator, row_scores: RowScores, X: Any, y: Any) -> Floats:
    """The row scores of a copy of a model: what is released is never in the hands of a function that sees the records."""
    shown = copy.deepcopy(model)
    scores = row_scores(shown, X, y)
    if sealed(shown.release_content(), shown.guarantee_, shown.receipt_, shown.schema_digest_) != model.seal_:
        raise NotCharged(
            f"row_scores changed the model: the {type(model).__name__} that it was shown is another one after it.",
            "Look at the model only; fit copies of your own (sklearn.base.clone).",
        )
    return scores


def own_copy(data: Any) -> Any:
    """A copy that shares no memory with what it was made of. Raise InvalidParameter where none can be made."""
    try:
        return copy.deepcopy(data)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        raise InvalidParameter(
            "Choosing among candidates needs a table that can be copied; nothing was charged.",
            "Give an array or a frame.",
        ) from None


def row_count(X: Any) -> int:
    """How many rows a table in memory has."""
    if isinstance(X, str | os.PathLike | Iterator) or not (isinstance(X, Mapping) or hasattr(X, "__len__")):
        raise InvalidParameter("Choosing among candidates needs the rows in memory.", "Give a table.")
    rows = len(next(iter(X.values()), ())) if isinstance(X, Mapping) else len(X)
    if rows == 0:
        raise no_rows()
    return rows


def _check_candidates(candidates: Sequence[PrivateEstimator]) -> None:
    if not candidates:
        raise InvalidParameter("There is no candidate to choose from.", "Give at least one estimator.")
    if not all(isinstance(candidate, PrivateEstimator) for candidate in candidates):
        raise InvalidParameter(
            "A candidate is not a private estimator of sudare.",
            "Give estimators themselves: no pipelines, no searches.",
        )
    if any(candidate.delta != 0 for candidate in candidates):
        raise InvalidParameter("A candidate has delta > 0; selection is for pure guarantees.", "Set delta=0.")
    if any(candidate.neighbours != "replace-one" for candidate in candidates):
        raise InvalidParameter("A candidate is not for replace-one neighbours.", 'Set neighbours="replace-one".')
    if len({None if candidate.schema is None else candidate.schema.digest for candidate in candidates}) > 1:
        raise InvalidParameter("The candidates have different schemas.", "Give all of them the same one.")


def _check_try(name: str, plan: Plan[Calibrated]) -> None:
    """Raise InvalidParameter unless a fit is one that the composition of tries covers: pure and central, for replaced rows."""
    promised, cost = plan.guarantee, plan.mechanism.cost
    if cost.delta != 0 or promised.delta != 0:
        raise InvalidParameter(f"{name} is not pure: its plan has delta > 0.", "Choose among pure guarantees.")
    if (promised.notion, promised.neighbours) != ("central", "replace-one"):
        raise InvalidParameter(
            f"{name} has a {promised.notion} guarantee for {promised.neighbours} neighbours; choosing by scores of the whole "
            "table keeps a central one for replaced rows only.",
            "Leave it out.",
        )
