"""Algorithm 1 of Ide (2021), collaborative pattern dictionary learning, as published: EM over totals, γ-pruning, any consensus.

Every member keeps a dictionary of its own (line 6), computed from its own idea of the totals; they are equal where totals are exact. The product's learner, which finds the number of
patterns by BIC and hides addends by masks, is `sudare.dictionary.PatternDictionary`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, get_args

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Booleans, Floats
from sudare.dictionary import MemberModel
from sudare.dictionary.exponential_families import Family, Patterns
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.member_tables import check_family, opened_members
from sudare.dictionary.mixture_weights import updated_weights
from sudare.errors import InvalidParameter
from sudare.papers.p003_decentralised.consensus_methods import Consensus, exact_totals
from sudare.papers.p003_decentralised.printed_gaussian import ExponentialFamily, PrintedGaussian
from sudare.parameter_checks import SEEDS, Numbers

Updates = Literal["printed", "sign", "corrected"]

_NUMBERS: Final[dict[str, Numbers]] = {
    "n_patterns": Numbers(1, 10_000, whole=True),
    "gamma": Numbers(1),
    "rho0": Numbers(0, open_low=True),
    "lambda0": Numbers(0, open_low=True),
    "prune_below": Numbers(0, open_low=True),
    "max_iter": Numbers(1, whole=True),
    "tol": Numbers(0, open_low=True),
    "random_state": SEEDS,
}


@dataclass(frozen=True, eq=False)
class MemberState:
    """What one member holds: which of the K₀ starting patterns are left, its copy of their parameters, its weights π^s over all K₀."""

    alive: Booleans
    patterns: Patterns
    weights: Floats


class CollaborativeDictionary(BaseEstimator):
    """No privacy for a record: members see exact totals of their records. Algorithm 1 of Ide (2021) with the updates of section 1.5.

    Parameters
    ----------
    n_patterns : K₀, from which patterns are pruned.
    gamma : γ of the Dirichlet prior (1.6); "γ − 1 small and positive".
    rho0, lambda0 : ρ₀ and λ₀ of the prior (1.55).
    updates : "printed" is (1.59) to (1.61) with Algorithm 3; "sign" the same with the sign of (1.61) put right; "corrected" the exact pair, for which
        the objective rises in every iteration.
    family : another exponential family (1.14), such as `sudare.dictionary.column_families.Poisson()`; then `updates`, `rho0` and `lambda0` say nothing.
    consensus : how totals are computed (1.16): `exact_totals`, `RandomChunking(graph)`, `PaillierConsensus(graph)`, `ConsensusOverLinks(links)`.
    prune_below : a pattern goes when its N̄_k is below this: "0 or very near 0" (section 1.5.4).
    max_iter, tol : iterations, and the nats a record by which the last one still changed the objective.
    random_state : of the random start and of random consensus.

    Attributes
    ----------
    weights_ : π^s, members × K₀ starting indices; zero where a pattern was pruned (figure 1.8).
    indices_ : the starting indices that member 1 still has; n_patterns_ is how many.
    means_, precisions_ : member 1's dictionary, Gaussian patterns only.
    objective_ : (1.7) after every iteration, from member 1's dictionary.
    n_iter_ : iterations.
    """

    def __init__(
        self,
        n_patterns: int = 6,
        *,
        gamma: float = 1.01,
        rho0: float = 1.0,
        lambda0: float = 0.1,
        updates: Updates = "printed",
        family: ExponentialFamily | None = None,
        consensus: Consensus = exact_totals,
        prune_below: float = 1.0,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: int | None = None,
    ) -> None:
        self.n_patterns = n_patterns
        self.gamma = gamma
        self.rho0 = rho0
        self.lambda0 = lambda0
        self.updates = updates
        self.family = family
        self.consensus = consensus
        self.prune_below = prune_below
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Sequence[object], y: object = None) -> Self:
        """Train on a list with one table of numbers per member."""
        self._check_parameters()
        layout, opened = opened_members(X, None, None, SparseGaussian)
        tables = [records.checked.together()[0] for records in opened]
        generator = np.random.default_rng(self.random_state)
        family: Any = self._family()
        if isinstance(family, Family):
            check_family(family, opened)
        statistics = [family.statistics(table) for table in tables]
        # Line 2: random sample weights.
        shares = [generator.dirichlet(np.ones(self.n_patterns), len(table)) for table in tables]
        rows, objectives = sum(map(len, tables)), []
        alive = [np.ones(self.n_patterns, dtype=np.bool_) for _ in tables]
        for _ in range(self.max_iter):
            addends = np.stack([_addend(*pair) for pair in zip(shares, statistics, strict=True)])
            totals = self.consensus(addends, generator)
            states = self._updated(family, totals, shares, alive)
            alive = [state.alive for state in states]
            densities = [_log_joint(family, *pair) for pair in zip(tables, states, strict=True)]
            shares = [_shares(*pair) for pair in zip(densities, states, strict=True)]
            objectives.append(self._objective(family, densities, states))
            if len(objectives) > 1 and abs(objectives[-1] - objectives[-2]) <= self.tol * rows:
                break
        self._keep(layout.names, family, states, objectives)
        return self

    def member(self, position: int) -> MemberModel:
        """The model of one member (1.88), whose `score_samples` is the anomaly score (1.89); position counts from 0."""
        check_is_fitted(self, "states_")
        state: MemberState = self.states_[position]
        family: Any = self.fitted_family_
        if not isinstance(family, Family):
            family = SparseGaussian()
        return MemberModel(family, state.patterns, state.weights[state.alive], self.columns_)

    def _check_parameters(self) -> None:
        for name, numbers in _NUMBERS.items():
            numbers.check(name, getattr(self, name))
        if self.updates not in get_args(Updates):
            raise InvalidParameter(f"updates is not one of {', '.join(get_args(Updates))}.", "Use one of these words.")
        if self.family is not None and (
            isinstance(self.family, type) or not isinstance(self.family, ExponentialFamily)
        ):
            raise InvalidParameter(
                "family is no exponential family.",
                "Give an object, such as sudare.dictionary.column_families.Poisson().",
            )
        if not callable(self.consensus):
            raise InvalidParameter(
                "consensus is no way to compute totals.", "Give for example RandomChunking(graph), or leave it out."
            )

    def _family(self) -> ExponentialFamily:
        if self.family is not None:
            return self.family
        if self.updates == "corrected":
            return SparseGaussian(shrinkage=self.lambda0, sparsity=self.rho0)
        return PrintedGaussian(self.lambda0, self.rho0, "printed" if self.updates == "printed" else "right")

    def _updated(
        self, family: ExponentialFamily, totals: Floats, shares: Sequence[Floats], alive: Sequence[Booleans]
    ) -> list[MemberState]:
        """Lines 5 and 6: every member prunes and updates by its own idea of the totals. Equal totals are updated once."""
        known: dict[bytes, tuple[Booleans, Patterns]] = {}
        states = []
        for total, own, before in zip(totals, shares, alive, strict=True):
            key = total.tobytes() + before.tobytes()
            if key not in known:
                known[key] = self._pruned_and_updated(family, total.reshape(self.n_patterns, -1), before)
            staying, patterns = known[key]
            weights = np.zeros(self.n_patterns)
            weights[staying] = updated_weights(own.sum(axis=0)[staying], self.gamma)
            states.append(MemberState(staying, patterns, weights))
        return states

    def _pruned_and_updated(
        self, family: ExponentialFamily, total: Floats, alive: Booleans
    ) -> tuple[Booleans, Patterns]:
        counts = np.where(alive, total[:, 0], -np.inf)
        staying = counts >= self.prune_below
        if not staying.any():
            staying[np.argmax(counts)] = True
        return staying, family.updated(counts[staying], total[staying, 1:])

    def _objective(
        self, family: ExponentialFamily, densities: Sequence[Floats], states: Sequence[MemberState]
    ) -> float:
        """L₀ of (1.7) without its constants."""
        likelihood = sum(float(logsumexp(own, axis=1).sum()) for own in densities)
        weights = sum(float(np.log(state.weights[state.alive]).sum()) for state in states)
        return likelihood + (self.gamma - 1) * weights + family.log_prior(states[0].patterns)

    def _keep(
        self, names: tuple[str, ...], family: ExponentialFamily, states: list[MemberState], objectives: list[float]
    ) -> None:
        self.columns_ = names
        self.fitted_family_ = family
        self.states_ = states
        self.weights_ = np.stack([state.weights for state in states])
        self.indices_ = np.flatnonzero(states[0].alive)
        self.n_patterns_ = len(self.indices_)
        self.objective_ = np.array(objectives)
        self.n_iter_ = len(objectives)
        if "precisions" in states[0].patterns.arrays:
            self.means_, self.precisions_ = states[0].patterns["means"], states[0].patterns["precisions"]


def _addend(shares: Floats, statistics: Floats) -> Floats:
    """N_k^s (1.13) and T_k^s for all K₀ patterns in one row."""
    return np.hstack([shares.sum(axis=0)[:, np.newaxis], shares.T @ statistics]).ravel()


def _log_joint(family: ExponentialFamily, table: Floats, state: MemberState) -> Floats:
    """ln π_k f(x | θ_k) over the patterns that are left."""
    return family.log_densities(table, state.patterns) + np.log(state.weights[state.alive])


def _shares(log_joint: Floats, state: MemberState) -> Floats:
    """r (1.11) over all K₀; zero where a pattern was pruned."""
    shares = np.zeros((len(log_joint), len(state.alive)))
    shares[:, state.alive] = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
    return shares
