"""`PatternDictionary`: a consortium in one process, for simulation, studies and a single owner of several sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats
from sudare.dictionary.column_families import Categorical, Gamma, Poisson
from sudare.dictionary.em import Dictionary, Initial, TrainingTerms
from sudare.dictionary.exponential_families import Family, Patterns
from sudare.dictionary.gaussian_families import DiagonalGaussian, SparseGaussian
from sudare.dictionary.held_out_stacking import OwnPart
from sudare.dictionary.in_process_secure_sums import adder
from sudare.dictionary.member_model import FALSE_ALARM_RATES, MemberModel
from sudare.dictionary.member_tables import (
    Bounds,
    Layout,
    Records,
    check_family,
    checked_members,
    declared_layout,
    levels_of,
    opened_members,
)
from sudare.dictionary.private_training import PrivateTerms, check_private_bounds
from sudare.dictionary.training import SimulatedTraining, member_part, simulated, trained
from sudare.errors import DataError, InvalidParameter
from sudare.frames.person_rows import kept_persons
from sudare.frames.sources import steadied
from sudare.parameter_checks import Numbers
from sudare.privacy.declared_columns import promise
from sudare.privacy.fit_guards import check_methods
from sudare.privacy.guarantee import DEFAULT_DELTA, Guarantee, checked_delta, checked_epsilon
from sudare.privacy.ledger import Account, Result
from sudare.privacy.ledger_chain import Receipt
from sudare.privacy.noise import row_secret
from sudare.privacy.private_estimator import cloned_beside_cluster
from sudare.privacy.release import Passage, enter_shown, pass_through
from sudare.privacy.release_content import Content, sealed
from sudare.privacy.source_identity import given_source, together
from sudare.schema import Schema
from sudare.sums.in_process import Hide

FAMILIES: Final[dict[str, type[Family]]] = {
    family.name: family for family in (SparseGaussian, DiagonalGaussian, Poisson, Gamma, Categorical)
}

_NUMBERS: Final[dict[str, Numbers]] = {
    "n_patterns": Numbers(1, 10_000, whole=True),
    "sparsity": Numbers(0, open_low=True),
    "shrinkage": Numbers(0, open_low=True),
    # Below 1 the objective has no maximum.
    "concentration": Numbers(1),
    "min_others": Numbers(0),
    "max_iter": Numbers(2, whole=True),
    "tol": Numbers(0, open_low=True),
    "false_alarm_rate": FALSE_ALARM_RATES,
    "colluders": Numbers(1, whole=True),
    "private_iterations": Numbers(1, 1_000_000, whole=True, optional=True),
}


@dataclass(eq=False, repr=False)
class PatternDictionary(BaseEstimator):
    """Patterns that members learn together and mix by weights of their own, without a server (Ide 2021).

    `fit` takes a list with one table or Parquet path per member and runs the whole consortium in this process, every member
    seeing only what it would see: totals. Without `epsilon` the totals are exact, and that is not record privacy. With it,
    everything that members and outsiders see is (ε, δ)-DP, replace-one rows. Proof: proofs/dictionary.md.

    Parameters
    ----------
    n_patterns : how many to begin with, and the most there can be. BIC decides unless `search` is False.
    family : "sparse_gaussian", "diagonal_gaussian", "poisson", "gamma" or "categorical".
    bounds, schema : public facts about the columns. Without them bounds are those of the records, which only a single owner can do.
    sparsity, shrinkage, concentration : ρ₀, λ₀ and γ of the priors.
    max_iter, tol : of the EM iterations for one set of patterns, and the nats a record by which the last one still helped.
    min_others : a pattern goes before its moments are shown if fewer records of others are behind it, for any member.
    false_alarm_rate : for the threshold of the members' models.
    hide : "masks", or "nothing" for the same totals faster, in simulations.
    dtype : of the work on a record, for Gaussian families: float32 is faster and good to five digits.
    cluster : a dask.distributed client, cluster or address, where members' passes over their records are computed; None is here.
    epsilon, delta : the promise of a private training, which needs declared bounds (whole numbers for counts, above 0 for amounts). δ is 10⁻⁶ if only ε is given.
    private_iterations : how many noisy iterations; None is a rule of public numbers.
    colluders : members whose share of the noise is not counted on: whoever looks, those it colludes with, and those who leave.
    account : who pays. One account, because a list is one owner's simulation; real members pay from their own.
    random_state : a seed for the noise, for tests and simulation only; it voids the guarantee.

    Attributes
    ----------
    n_patterns_, means_, precisions_, patterns_ : the dictionary, in the units of the columns.
    weights_ : members × patterns; a real member sees only its own row. A row lacks the weights of patterns that its member learned alone.
    own_parts_ : what each member knows alone, such patterns included, with `epsilon` as well: they cost nothing.
    history_ : the objective after every iteration on the way that was kept.
    n_sums_, n_numbers_ : how many totals and numbers every member saw.
    guarantee_, receipt_ : what is promised (nothing without `epsilon`), and the ledger entry that was written first.
    """

    n_patterns: int = 8
    _: KW_ONLY
    family: str = "sparse_gaussian"
    bounds: Bounds | None = None
    schema: Schema | None = None
    sparsity: float = 0.5
    shrinkage: float = 0.1
    concentration: float = 1.01
    min_others: float = 3.0
    search: bool = True
    max_iter: int = 300
    tol: float = 1e-6
    false_alarm_rate: float = 0.01
    hide: Hide = "masks"
    dtype: Literal["float64", "float32"] = "float64"
    cluster: Any = None
    epsilon: float | None = None
    delta: float | None = None
    colluders: int = 1
    private_iterations: int | None = None
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None

    def fit(self, X: Sequence[object], y: object = None) -> Self:
        """Train on a list with one table or path per member."""
        return self._fitted(X, None)

    def refitted(self, X: Sequence[object], new_patterns: int = 2) -> PatternDictionary:
        """A dictionary of later records that begins from this one, with at most so many patterns more.

        Patterns that no longer have records of several members behind them go, others move, and `pattern_changes` tells which. It is a
        training like any other: exact sums are shown again, and one with ε is charged again, in full. With ε it has fewer sums
        than a first training, so less noise; this dictionary must then have ε as well, because what is computed from it is shown.
        An account pays only if its ledger has the charge of this dictionary; without an account, the guarantee is valid only if this
        dictionary was charged.
        """
        check_is_fitted(self)
        Numbers(0, 10_000, whole=True).check("new_patterns", new_patterns)
        self._check_is_private_enough()
        shares = self.dictionary_.counts / self.dictionary_.counts.sum()
        initial = Initial(self.columns_, self.patterns_, shares, self.dictionary_.overall)
        later = type(self)(**{**self.get_params(deep=False), "n_patterns": self.n_patterns_ + int(new_patterns)})
        later._fitted(X, initial)
        if self.epsilon is not None and not (self.guarantee_.valid and self.receipt_ is not None):
            later.guarantee_ = replace(later.guarantee_, valid=False)
            later.seal_ = sealed(later._content(), later.guarantee_, later.receipt_, None)
        return later

    def __sklearn_clone__(self) -> Self:
        """A clone that uses the same cluster, whose client cannot be copied."""
        return cloned_beside_cluster(self, super().__sklearn_clone__)

    def _check_is_private_enough(self) -> None:
        """Raise InvalidParameter where a promise would rest on patterns for which none holds, or a charge on some that nobody paid for."""
        if self.epsilon is None:
            return
        check_methods(self)
        if self.guarantee_.notion == "none" or (self.account is not None and not self.guarantee_.valid):
            raise InvalidParameter(
                "A dictionary without a valid guarantee cannot begin a private training: its patterns would be shown.",
                "Fit a first dictionary with epsilon, or refit without it.",
            )
        content = self._content()
        seal = sealed(content, self.guarantee_, self.receipt_, None)
        if seal != getattr(self, "seal_", None):
            raise InvalidParameter(
                "This dictionary is not as its training left it: its patterns would be shown, and nothing is promised for them.",
                "Fit it again, and begin from it as it is.",
            )
        if self.account is not None and (
            self.receipt_ is None
            or self.account.ledger.result_of(self.receipt_) != Result(type(self).__name__, content.digest(), seal)
        ):
            raise InvalidParameter(
                "The account's ledger has no charge for this dictionary, from which the later one would begin: its patterns would be shown "
                "and not paid for. Nothing was charged.",
                "Fit the first dictionary with an account of the same ledger.",
            )

    def _fitted(self, X: Sequence[object], initial: Initial | None) -> Self:
        self._forget()
        self._check_parameters()
        self.receipt_: Receipt | None = None
        X = [steadied(table, self.schema) for table in checked_members(X)]
        if self.epsilon is not None:
            check_methods(self)
            secret = row_secret(self.random_state)
            X = [kept_persons(table, self.schema, secret).source for table in X]
        layout, members = opened_members(X, self.schema, self.bounds, FAMILIES[self.family], self.cluster)
        family = self._family(layout)
        check_family(family, members)
        if initial is not None and initial.columns != layout.names:
            raise DataError(
                "The columns are not those of the earlier dictionary.", "Give the same columns in the same order."
            )
        terms = replace(self._terms(layout, family, len(members)), initial=initial)
        add_up = adder(len(members), self.hide)
        if self.epsilon is None:
            self.guarantee_ = Guarantee.none(f"the {len(members)} members")
            self._take(simulated(trained(terms), members, add_up), layout, members)
            return self
        private, passage = self._enter(terms, X, members)
        self._take(simulated(trained(private), members, add_up, passage.noise), layout, members)
        self.seal_ = enter_shown(type(self).__name__, self._content(), passage, self.account)
        return self

    def _content(self) -> Content:
        """What a later training would begin from."""
        overall = self.dictionary_.overall
        opening = {"counts": self.dictionary_.counts, "mean": overall.mean, "covariance": overall.covariance}
        tensors = {f"pattern {name}": array for name, array in self.patterns_.arrays.items()} | opening
        return Content({"columns": list(self.columns_), "rows": int(overall.rows)}, tensors, dict.fromkeys(tensors))

    def _enter(
        self, terms: TrainingTerms, tables: Sequence[object], members: Sequence[Records]
    ) -> tuple[PrivateTerms, Passage]:
        """Through the door: all noise of the training is planned and charged for before any of it is drawn."""
        if self.schema is None and self.bounds is None:
            raise InvalidParameter(
                "A private training needs public bounds, got none.",
                "Give bounds=(low, high) or a schema. Do not take them from the data: that would void the guarantee.",
            )
        person = None if self.schema is None else self.schema.person
        private = PrivateTerms(
            terms,
            checked_epsilon(float("nan") if self.epsilon is None else self.epsilon),
            checked_delta(DEFAULT_DELTA if self.delta is None else self.delta),
            self.colluders,
            self.private_iterations,
            1 if person is None else person.bound,
        )
        source = together(map(given_source, tables))
        if self.account is not None:
            self.account.check_source(source)
        plan = private.plan(sum(records.rows for records in members))
        guarantee = promise(private.epsilon, private.delta, "replace-one", self.schema)
        passage = pass_through(
            self.account, self.random_state, guarantee, plan.cost, what=type(self).__name__, source=source
        )
        self.guarantee_, self.receipt_ = passage.guarantee, passage.receipt
        return private, passage

    def training(self, source: object, members: int) -> tuple[TrainingTerms, Records]:
        """What one real member of a consortium trains by: the terms that all share, and its own records.

        Bounds come from the schema or are given: nobody sees everybody's records.
        """
        self._check_parameters()
        if self.schema is None and self.bounds is None:
            raise InvalidParameter("A consortium's training needs public bounds, got none.", "Give a schema or bounds.")
        layout, (records,) = opened_members([source], self.schema, self.bounds, FAMILIES[self.family], self.cluster)
        family = self._family(layout)
        check_family(family, [records])
        return self._terms(layout, family, members), records

    def check_declared_bounds(self) -> None:
        """Raise InvalidParameter or SchemaError unless a private training of the family suits what the schema declares."""
        self._check_parameters()
        if self.schema is None:
            raise InvalidParameter("There is no schema whose bounds could be checked.", "Give a schema.")
        layout = declared_layout(self.schema, FAMILIES[self.family])
        if layout.low is not None and layout.high is not None:
            check_private_bounds(self._exact_family(layout), layout.low, layout.high)

    def member(self, position: int) -> MemberModel:
        """The model of one member: shared patterns with its own weights, and last the patterns it has learned alone."""
        check_is_fitted(self)
        Numbers(0, len(self.weights_) - 1, whole=True).check("position", position)
        mixture = self.own_parts_[position].model(self.patterns_)
        return MemberModel(
            self.dictionary_.family,
            mixture.patterns,
            mixture.weights,
            self.columns_,
            self.false_alarm_rate,
            self.schema,
        )

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _check_parameters(self) -> None:
        if self.family not in FAMILIES:
            raise InvalidParameter(
                f"family must be one of {', '.join(FAMILIES)}, got {self.family!r}.", "Use one of these words."
            )
        for name, numbers in _NUMBERS.items():
            numbers.check(name, getattr(self, name))
        if self.epsilon is not None:
            checked_epsilon(self.epsilon)
        elif self.delta:
            raise InvalidParameter(
                "A delta was given and no epsilon: the sums would be exact, and nothing private about them.",
                "Give epsilon as well, or leave delta out.",
            )
        if self.epsilon is None and self.account is not None:
            raise InvalidParameter(
                "An account was given and no epsilon.",
                "Give epsilon, or leave the account: exact sums are disclosures.",
            )

    def _family(self, layout: Layout) -> Family:
        """The family. Raise InvalidParameter before any record is looked at where a private one does not suit the declared bounds."""
        family = self._exact_family(layout)
        if self.epsilon is not None and layout.low is not None and layout.high is not None:
            check_private_bounds(family, layout.low, layout.high)
        return family

    def _exact_family(self, layout: Layout) -> Family:
        if self.family == "categorical":
            return Categorical(self.shrinkage, levels_of(layout))
        if self.family in ("poisson", "gamma"):
            return (Poisson if self.family == "poisson" else Gamma)(self.shrinkage)
        return (SparseGaussian if self.family == "sparse_gaussian" else DiagonalGaussian)(
            self.shrinkage, self.sparsity, self.dtype
        )

    def _terms(self, layout: Layout, family: Family, members: int) -> TrainingTerms:
        if layout.low is None or layout.high is None:
            raise InvalidParameter("The columns have no bounds.", "Give bounds or a schema.")
        return TrainingTerms(
            layout.names,
            layout.low,
            layout.high,
            members,
            family,
            int(self.n_patterns),
            concentration=self.concentration,
            min_others=self.min_others,
            search=self.search,
            max_iter=int(self.max_iter),
            tol=self.tol,
        )

    def _take(self, training: SimulatedTraining, layout: Layout, members: Sequence[Records]) -> None:
        dictionary = training.dictionary
        self.dictionary_: Dictionary = dictionary
        self.patterns_: Patterns = dictionary.natural()
        self.columns_: tuple[str, ...] = layout.names
        is_alone = self.epsilon is None and len(members) == 1
        self.own_parts_: tuple[OwnPart, ...] = tuple(
            member_part(records, dictionary, own, is_alone=is_alone)
            for records, own in zip(members, training.own, strict=True)
        )
        self.weights_: Floats = np.array([own_part.weights for own_part in self.own_parts_])
        self.n_patterns_: int = len(self.patterns_)
        for name in ("means", "precisions"):
            if name in self.patterns_.arrays:
                setattr(self, f"{name}_", self.patterns_[name])
        self.history_: tuple[float, ...] = dictionary.history
        self.n_sums_: int = training.sums
        self.n_numbers_: int = training.numbers
