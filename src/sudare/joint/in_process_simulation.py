"""A whole consortium learning in one process: the same walks as over a network, and sums as members would see them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from sudare.array_types import Words
from sudare.errors import InvalidParameter, MembersMissing
from sudare.experts import OwnPlusConsensus
from sudare.joint.additive_boosting import BoostingTerms
from sudare.joint.learning_script import LearnedTogether, LearningWalk, Terms
from sudare.joint.member_rows import MemberTable, ModelReading
from sudare.joint.network_training_terms import NetworkTerms
from sudare.joint.one_sum import Learned
from sudare.joint.resulting_estimators import combination_of, model_of
from sudare.joint.sum_script import Finished, Walk
from sudare.joint.training_terms import LearningMethod, LearningTerms
from sudare.linear import PrivateAdditiveClassifier, PrivateLogisticRegression
from sudare.linear.additive_classifier import MAX_BINS
from sudare.neural.training_method_base import check_widths
from sudare.parameter_checks import Numbers
from sudare.privacy.guarantee import checked_delta, checked_epsilon
from sudare.privacy.ledger import Account
from sudare.privacy.noise import seeded_generator
from sudare.schema import Encoding, Schema
from sudare.sums.context import (
    NO_HISTORY,
    Participant,
    Roster,
    SumContext,
    least_threshold,
    noise_colluders,
    usual_dishonest,
)
from sudare.sums.in_process import Hide
from sudare.sums.keys import MemberKeys
from sudare.sums.messages import history_after
from sudare.sums.neighbour_graph import sum_neighbourhood
from sudare.sums.party import Party
from sudare.sums.simulation import failure_of, simulate

if TYPE_CHECKING:
    from sudare.neural import PrivateMLPClassifier

Present = tuple[int, ...]
_ARGUMENTS: Final = {
    "colluders": Numbers(whole=True),
    "norm_bound": Numbers(0, open_low=True),
    "scaler_share": Numbers(),
    "max_bins": MAX_BINS,
}
AddUp = Callable[[Mapping[int, Words], frozenset[int]], tuple[Words, Present]]


@dataclass(frozen=True, eq=False)
class ConsortiumModel:
    """What all members hold after learning together. `found` has one entry a member, None for one that left."""

    found: tuple[LearnedTogether | None, ...]
    sums: int
    numbers: int
    accounts: tuple[Account | None, ...]

    @property
    def learned(self) -> Learned:
        """The common outcome."""
        outcome = next(each.outcome for each in self.found if each is not None)
        if not isinstance(outcome, Learned):
            raise InvalidParameter("The outcome is not a linear model.", "Learn a linear model.")
        return outcome

    def model(self, position: int = 0) -> PrivateLogisticRegression | PrivateAdditiveClassifier | PrivateMLPClassifier:
        """The model as one member holds it, with its own receipt."""
        return model_of(self._of(position), self.accounts[position])

    def combination(self, position: int = 0) -> OwnPlusConsensus:
        """To be fitted on a member's own data: the common model, corrected by them."""
        return combination_of(self._of(position))

    def _of(self, position: int) -> LearnedTogether:
        found = self.found[position]
        if found is None:
            raise MembersMissing(f"Member {position} left before the end.", "Ask another member.")
        return found


def consortium_model(
    members: Sequence[Any],
    *,
    epsilon: float = 1.0,
    delta: float = 0.0,
    method: LearningMethod | Literal["boosting", "network"] | None = None,
    colluders: int = 1,
    schema: Schema | None = None,
    encoding: Encoding = "centred",
    norm_bound: float = 1.0,
    classes: Sequence[Any] | None = None,
    fit_intercept: bool = True,
    scaler_share: float = 0.0,
    max_bins: int | None = None,
    hidden_layer_sizes: Sequence[int] = (64, 64),
    accounts: Sequence[Account] | None = None,
    random_state: int | np.random.RandomState | None = None,
    hide: Hide = "masks",
    cluster: Any = None,
) -> ConsortiumModel:
    """ε-DP or (ε, δ)-DP logistic or additive model, or network, of everybody's rows, replace-one rows, in one process. Proof: proofs/noise_shares.md.

    Parameters
    ----------
    members : one table or data source a member with a schema; else one pair (X, y) of arrays a member.
    epsilon, delta : the promise to every record, towards everyone and any t members together. With delta = 0 it is pure.
    method : "one-sum" or "descent" for a logistic model, "boosting" for an additive one, "network" for a network; None is descent where delta > 0.
    colluders : t, members whose share of the noise is not counted on: whoever looks, those it colludes with, and those who leave.
    schema, encoding : declared columns with a label of two classes; or `norm_bound` and `classes` for arrays.
    fit_intercept : whether there is a constant column.
    scaler_share : part of the budget for common scales of the number columns, found first.
    hidden_layer_sizes : of a network, the widths of its hidden layers.
    max_bins : of an additive model, into how many equal bins the range of a number is cut, beside the declared ones.
    accounts : who pays, one a member; each is charged the whole before its first noise is drawn.
    random_state : a seed, for tests and simulation only; it voids the guarantee.
    hide : "masks", or "nothing" for the same totals faster, in simulations.
    cluster : where members' sums are computed; None is here.
    """
    given = {"colluders": colluders, "norm_bound": norm_bound, "scaler_share": scaler_share, "max_bins": max_bins}
    for name, value in given.items():
        _ARGUMENTS[name].check(name, value)
    epsilon, delta = checked_epsilon(epsilon), checked_delta(delta)
    if method == "boosting" or method == "network":  # noqa: PLR1714 - mypy narrows the method by it
        if schema is None:
            raise InvalidParameter("Additive models and networks need declared columns.", "Give a schema.")
        agreed = schema, epsilon, delta, len(members), colluders
        shaped: Terms
        if method == "boosting":
            shaped = BoostingTerms(*agreed, max_bins)
        else:
            check_widths(hidden_layer_sizes)
            shaped = NetworkTerms(*agreed, tuple(map(int, hidden_layer_sizes)), encoding)
        tables = [_table(member, schema, cluster) for member in members]
        return learned_together(shaped, tables, accounts, random_state, hide)
    chosen: LearningMethod = method if method is not None else "descent" if delta > 0 else "one-sum"
    reading = _reading(members, schema, encoding, norm_bound, classes, fit_intercept=fit_intercept)
    terms = LearningTerms(chosen, reading, epsilon, delta, len(members), colluders, scaler_share)
    tables = [_table(member, schema, cluster) for member in members]
    return learned_together(terms, tables, accounts, random_state, hide)


def learned_together(
    terms: Terms,
    tables: Sequence[MemberTable],
    accounts: Sequence[Account] | None = None,
    random_state: int | np.random.RandomState | None = None,
    hide: Hide = "masks",
    leave_before: Mapping[int, int] | None = None,
) -> ConsortiumModel:
    """All members' walks to the end. `leave_before` names members that fall silent, and before which sum.

    Where nobody is to leave, masks are such as nobody may, which takes far fewer messages.
    """
    if len(tables) != terms.members or (accounts is not None and len(accounts) != terms.members):
        raise InvalidParameter(f"There are {terms.members} members.", "Give a table, and an account or none, for each.")
    paying: list[Account | None] = [None] * terms.members if accounts is None else list(accounts)
    random = None if random_state is None else seeded_generator(random_state)
    walks = [LearningWalk(terms, table, account, random) for table, account in zip(tables, paying, strict=True)]
    threshold = threshold_for(terms) if leave_before else terms.members
    add_up = masked_adder(terms, threshold) if hide == "masks" else plain_adder(threshold)
    found, sums, numbers = walked(walks, add_up, leave_before or {})
    return ConsortiumModel(found, sums, numbers, tuple(paying))


def walked(
    walks: Sequence[Walk], add_up: AddUp, leave_before: Mapping[int, int]
) -> tuple[tuple[LearnedTogether | None, ...], int, int]:
    """Every walk from its first addend to what it ends with; how many sums and numbers that took."""
    begun = {position: walk.begun() for position, walk in enumerate(walks)}
    found: list[LearnedTogether | None] = [None] * len(walks)
    sums = numbers = 0
    while begun:
        leaving = frozenset(each for each in begun if leave_before.get(each) == sums)
        total, present = add_up({position: words for position, (_, words) in begun.items()}, leaving)
        sums, numbers = sums + 1, numbers + len(total)
        following: dict[int, tuple[bytes, Words]] = {}
        for position in present:
            state, answer = walks[position].step(begun[position][0], total, present)
            if not isinstance(answer, Finished):
                following[position] = state, answer
            elif isinstance(answer.result, LearnedTogether):
                found[position] = answer.result
        begun = following
    return tuple(found), sums, numbers


def threshold_for(terms: Terms) -> int:
    """So many must stay to the end of a sum: the fewest with which an agreement's `colluders` would be no more than those of the terms.

    All members, if no fewer fit.
    """
    members, dishonest = terms.members, usual_dishonest(terms.members)
    least = least_threshold(members, dishonest)
    if terms.colluders < members - 1:
        # With a lower one those who may leave are too many already.
        least = max(least, members + dishonest + 1 - terms.colluders)
    fitting = (each for each in range(least, members) if noise_colluders(members, each, dishonest) <= terms.colluders)
    return next(fitting, members)


def masked_adder(terms: Terms, threshold: int) -> AddUp:
    """Sums under masks. If more have left than the threshold allows, nobody sends anything."""
    keys = [MemberKeys.generated() for _ in range(terms.members)]
    roster = Roster(tuple(map(str, range(terms.members))), tuple(each.public for each in keys))
    session, iterations = os.urandom(16).hex(), itertools.count()
    history = NO_HISTORY

    def add_up(words: Mapping[int, Words], leaving: frozenset[int]) -> tuple[Words, Present]:
        nonlocal history
        present = sorted(set(words) - leaving)
        _check_enough(present, threshold)
        number, dishonest = next(iterations), usual_dishonest(terms.members)
        # The first attempt whose collector is there.
        attempt = next(each for each in range(terms.members) if (number + each) % terms.members in present)
        hood = sum_neighbourhood(terms.members, dishonest, threshold)
        context = SumContext(session, "learning", number, attempt, roster, threshold, dishonest, history, hood)
        parties = [
            Party(Participant(context, each, keys[each]), words.get(each, np.zeros_like(words[present[0]])))
            for each in range(terms.members)
        ]
        simulate(parties, {each: 0 for each in range(terms.members) if each not in present})
        total, included = parties[present[0]].total, parties[present[0]].included
        if total is None or included is None:
            raise failure_of(parties) or MembersMissing("A sum was not finished.", "Begin again.")
        history = history_after(history, context, included, total)
        return total, tuple(sorted(included))

    return add_up


def plain_adder(threshold: int) -> AddUp:
    """Returns totals without masks: for simulations, where one process sees everything anyway."""

    def add_up(words: Mapping[int, Words], leaving: frozenset[int]) -> tuple[Words, Present]:
        present = tuple(sorted(set(words) - leaving))
        _check_enough(present, threshold)
        return np.sum([words[each] for each in present], axis=0, dtype=np.uint64), present

    return add_up


def _check_enough(present: Sequence[int], threshold: int) -> None:
    if len(present) < threshold:
        raise MembersMissing(
            f"A sum needs {threshold} members to the end, and {len(present)} are left.",
            "Nothing was opened. Begin again when they are back.",
        )


def _reading(
    members: Sequence[Any],
    schema: Schema | None,
    encoding: Encoding,
    norm_bound: float,
    classes: Sequence[Any] | None,
    *,
    fit_intercept: bool,
) -> ModelReading:
    if schema is not None:
        return ModelReading.of_schema(schema, encoding, fit_intercept=fit_intercept)
    if classes is None:
        raise InvalidParameter("Arrays need declared classes.", "Give classes=[0, 1], or a schema.")
    if not members or not all(isinstance(member, tuple) and len(member) == 2 for member in members):
        raise InvalidParameter("Without a schema every member is a pair (X, y).", "Give pairs of arrays.")
    return ModelReading.of_arrays(np.shape(members[0][0])[1], norm_bound, classes, fit_intercept=fit_intercept)


def _table(member: Any, schema: Schema | None, cluster: Any) -> MemberTable:
    return MemberTable(member, cluster=cluster) if schema is not None else MemberTable(*member, cluster=cluster)
