"""What every private learner shares: declared columns, a plan, a charge before the noise, and what is released.

A learner plans first (`plan`: shape and parameters in, mechanism and guarantee out; no data), so that its price is
known before anything is spent; then it charges the account, and only then draws the noise.
"""

from __future__ import annotations

import copy
import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats
from sudare.errors import InvalidParameter, ReleaseMalformed, SchemaError, SourceUnreadable, SudareError
from sudare.frames.person_rows import Kept, PersonRows, kept_persons
from sudare.frames.row_reader import checked_rows
from sudare.frames.rows import Rows, Tallied
from sudare.frames.source_checks import changed_files
from sudare.frames.sources import in_memory, is_in_memory
from sudare.frames.table_slices import Slice
from sudare.privacy.accounting import decimal_down, exact
from sudare.privacy.array_checks import checked_matrix
from sudare.privacy.contribution_bound_selection import BoundChoice, BoundedFit, bound_epsilon
from sudare.privacy.declared_columns import (
    given_bounds,
    is_from_bounds,
    natural_bounds,
    number_within,
    promise,
    read_columns,
    unnamed_columns,
    written_text,
)
from sudare.privacy.first_answers import AnswerStep
from sudare.privacy.fit_guards import check_methods, no_other_thread_fits
from sudare.privacy.fit_plan import Calibrated, Plan
from sudare.privacy.guarantee import Guarantee, Neighbours, checked_delta, checked_epsilon
from sudare.privacy.ledger import Account, Quote
from sudare.privacy.ledger_chain import Receipt, canonical_json
from sudare.privacy.noise import NoiseSource, row_secret
from sudare.privacy.release import (
    Passage,
    check_unchanged,
    enter_result,
    pass_again,
    pass_through,
    void_if_seeded,
)
from sudare.privacy.release_content import Content, sealed, unfit
from sudare.privacy.release_file import LARGEST_HEADER_BYTES
from sudare.privacy.release_parameters import read_declarations, read_slice, written_parameters
from sudare.privacy.source_identity import SliceIdentity, Source, given_source
from sudare.schema import ENCODINGS, Encoding, Number, Person, Schema, encode
from sudare.schema.table_from_any_frame import no_rows

Bounds = tuple[float, float] | tuple[Sequence[float], Sequence[float]]

# Within this, half of a range and the grid below it are far from the smallest floats.
SMALLEST_RANGE: Final = 2.0**-900
# What a manifest holds besides the declared columns is far shorter than this.
LARGEST_DECLARATION_BYTES: Final = LARGEST_HEADER_BYTES - 2**16


def one_at_a_time(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A `fit` that no second thread enters for the same estimator, and no account pays for with a method replaced.

    It is given no more rows of a person than the schema allows.
    """

    @functools.wraps(fit)
    def fitted(self: PrivateEstimator, X: Any, y: Any = None, **named: Any) -> Any:
        if self.account is not None:
            check_methods(self)
        with no_other_thread_fits(self):
            person = self._person()
            if person is None:
                return fit(self, X, y, **named)
            if person.is_auto and self.chooses_bound:
                return self._fit_with_chosen_bound(X, y, person)
            kept = self._kept(X, y)
            fit(self, kept.source, kept.y, **named)
            self.cut_rows_ = kept.cut
            return self

    return fitted


class PrivateEstimator(BaseEstimator):
    """A learner whose `fit` charges an account before it draws noise, and whose result can be released.

    Subclasses name their encoding, relations and tensors, plan a mechanism, and compute. `schema` declares the columns;
    without one, `bounds` does, for arrays of numbers. A learner is fitted when it is sealed, which `fit` does last: a
    fit that fails leaves nothing of itself or of an earlier one that could be released.
    """

    encoding: Encoding = "scaled"
    numbers_only: ClassVar[bool] = True
    # Whether a number of rows of a person that is left open is chosen privately; else the largest one is kept.
    chooses_bound: ClassVar[bool] = True
    # Whether noise on sums over rows is all that is drawn: then some of a person's rows tell less of it than all.
    releases_sums: ClassVar[bool] = False
    relations: ClassVar[tuple[Neighbours, ...]] = ("replace-one",)
    # What a release of this learner says beside what the releases of all learners say.
    extra_parameters: ClassVar[tuple[str, ...]] = ()
    # Those of them that releases of older versions lack.
    later_parameters: ClassVar[tuple[str, ...]] = ()
    # Which of them is the SHA-256 of the file that leaves beside a release, where one may.
    beside_digest: ClassVar[str | None] = None
    # Exact facts about the records: they stay in the process that looked at the data.
    for_the_owner: ClassVar[tuple[str, ...]] = (
        "clipped_",
        "cut_rows_",
        "contradicting_rows_",
        "impossible_rows_",
        "_source",
        "_given_slice",
    )
    neighbours: Neighbours = "replace-one"
    # Whose workers read the rows and add them up; None is here.
    cluster: Any = None
    # The noise of a larger computation, for as long as a fit is a part of it (`_fit_within`).
    _lent_noise: NoiseSource | None = None
    # The collection of a memory whose first answers a fit pays for, and what it made of the memory, where it has one.
    _collection: SliceIdentity | None = None
    _answer_step: AnswerStep | None = None

    epsilon: float
    delta: float
    bounds: Bounds | None
    schema: Schema | None
    account: Account | None
    random_state: int | np.random.RandomState | None

    guarantee_: Guarantee
    receipt_: Receipt | None
    seal_: str | None
    clipped_: Mapping[str, int]
    cut_rows_: int
    # The values of the columns by which the slice that was read is cut; none where all rows were.
    _slice: Mapping[str, str] = MappingProxyType({})
    _source: Source | None
    _given_slice: Slice | None
    declared_: Schema
    schema_digest_: str | None
    n_rows_: int | None
    n_features_in_: int

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "fit" in vars(cls):
            cls.fit = one_at_a_time(vars(cls)["fit"])

    # Checks

    def _check_parameters(self) -> None:
        checked_epsilon(self.epsilon)
        checked_delta(self.delta)
        if self.neighbours not in self.relations:
            raise InvalidParameter(f"neighbours must be one of {', '.join(self.relations)}.", "Use one of these words.")
        if self.encoding not in self._known_encodings():
            raise InvalidParameter(
                f"encoding must be one of {', '.join(self._known_encodings())}.", "Use one of these words."
            )
        self._check_declarations()

    def _known_encodings(self) -> tuple[str, ...]:
        return ENCODINGS

    def _check_declarations(self) -> None:
        if self.account is not None and not isinstance(self.account, Account):
            raise InvalidParameter("account must be an Account.", "Get one from Ledger(…).account(…).")
        if self.schema is not None and type(self.schema) is not Schema:
            raise InvalidParameter("schema must be a Schema.", "Load one with Schema.load(…).")
        if self.schema is not None and self.bounds is not None:
            raise InvalidParameter("Both a schema and bounds were given.", "Give one of them: the schema has bounds.")
        if self.account is not None:
            self._check_chargeable()

    def _check_chargeable(self) -> None:
        """Raise unless an account may be charged for a fit with these parameters: its own one, or that of a selection that it is a try of."""
        if self._undeclared():
            raise undeclared(self)

    def _undeclared(self) -> str:
        """The parameter that was left out, so that the records have to tell what it declares; empty if there is none."""
        return ""

    # Declared columns, and tables read by them

    def _read(self, X: object, *, reset: bool) -> Floats:
        """The encoded matrix of a table, by declared facts only. With `reset` this is a fit: declarations are kept."""
        table = self._open(X, reset=reset)
        if not is_in_memory(table):
            table = in_memory(table, self.declared_)
            if reset:
                self.declared_.check_person(table)
        encoded = encode(self.declared_, table, self.encoding)
        if len(encoded.matrix) == 0:
            raise no_rows()
        if reset:
            self.clipped_ = encoded.clipped
        return encoded.matrix

    def _open(self, X: object, *, reset: bool) -> object:
        """The table, or the checked matrix where no schema declares its columns; with `reset` declarations are kept."""
        if reset:
            self._forget()
            self._check_parameters()
            self._keep_source(X)
            by_schema = self.schema is not None
        else:
            check_is_fitted(self)
            by_schema = self.schema_digest_ is not None
        if type(X) is Slice:
            # Read here and by nobody else: what somebody has read is charged for all records.
            X = in_memory(X)
        if not by_schema and not is_in_memory(X):
            raise InvalidParameter("A data source needs a schema.", "Give schema=Schema.load(…).")
        table = X if by_schema else checked_matrix(self, X, reset=reset)
        if reset:
            self._declare(X, table)
        return table

    def _encoded_rows(self, table: Any) -> Rows:
        """The encoded rows of an opened table or source, all checked, here or kept by the workers of a cluster."""
        declared = self.declared_
        # Persons of a table in memory were counted when it was opened.
        schema = None if is_in_memory(table) else declared
        arrays_of = functools.partial(_encoded_arrays, declared, self.encoding)
        rows = checked_rows(table, arrays_of, schema, cluster=self.cluster)
        numbers = [name for name, column in declared.features.items() if isinstance(column, Number)]
        self.clipped_ = dict(zip(numbers, [] if rows.tally is None else rows.tally.tolist(), strict=True))
        return rows

    @property
    def slice_(self) -> Mapping[str, str]:
        """The columns and values of the slice that was read; empty where all rows were."""
        return self._slice

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _keep_source(self, X: object) -> None:
        """Keep which source is read, for the charge. Raise SourceMismatch if the account is for another one."""
        self._source, self._given_slice = given_source(X), X if type(X) is Slice else None
        part = None if self._source is None else self._source.part
        self._slice = {} if part is None else dict(part.where)
        if self.account is not None:
            self.account.check_source(self._source)

    def _declare(self, X: object, table: Any) -> None:
        """Keep what is declared about the columns of this table."""
        if self.schema is None:
            declared = self._suited(self._bounded_columns(table.shape[1]))
        else:
            declared = self._suited(self.schema)
            self._check_persons_in_memory(X, declared)
        if self.account is not None and len(canonical_json(written_text(declared))) > LARGEST_DECLARATION_BYTES:
            raise InvalidParameter(
                "The declared columns are too many to be written into a release.",
                "Declare fewer columns, bins or categories, or fit in parts.",
            )
        self._keep(declared, None if self.schema is None else self.schema.digest)

    @staticmethod
    def _check_persons_in_memory(X: object, declared: Schema) -> None:
        """Raise PersonRowsExceeded where a person has too many rows in a table in memory; in a source they are counted as it is read."""
        if is_in_memory(X):
            declared.check_person(X)

    def _keep(self, declared: Schema, schema_digest: str | None) -> None:
        self.declared_, self.schema_digest_ = declared, schema_digest
        if schema_digest is not None:
            self.n_features_in_ = len(declared.features)
            self.feature_names_in_ = np.array(list(declared.features), dtype=object)

    @classmethod
    def _suited(cls, schema: Schema) -> Schema:
        """The schema's features, or its number columns; a missing number stands at its centre where one was declared."""
        schema = schema.without_combinations
        if not cls.numbers_only:
            return schema if schema.target is None else Schema(dict(schema.features), schema.person)
        numbers = {
            name: column.with_plain_stand_in() for name, column in schema.features.items() if isinstance(column, Number)
        }
        if not numbers:
            raise SchemaError(f"{cls.__name__} needs a number column; the schema declares none.", "Declare one.")
        for name, number in numbers.items():
            if number.high - number.low < SMALLEST_RANGE:
                raise SchemaError(f"The range of column {name!r} is below 2⁻⁹⁰⁰.", "Use another unit.")
        return schema if schema.columns == numbers else Schema(numbers, schema.person)

    def _bounded_columns(self, count: int) -> Schema:
        """A schema of number columns from `bounds`."""
        if self.bounds is None:
            raise InvalidParameter(
                f"{type(self).__name__} needs public bounds, got none.",
                "Give bounds=(low, high) or a schema. Do not take them from the data: that would void the guarantee.",
            )
        low, high = given_bounds(self.bounds, count)
        return unnamed_columns(tuple(map(self._bounded_column, low.tolist(), high.tolist())))

    def _bounded_column(self, low: float, high: float) -> Number:
        return number_within(low, high)

    # Persons: no more rows of one than are declared

    def _person(self) -> Person | None:
        """Whose rows are cut to a bound in a fit."""
        return self.schema.person if isinstance(self.schema, Schema) else None

    def _kept(self, X: Any, y: Any) -> Kept:
        """The rows that are kept of persons. The secret that chooses them is one of this fit.

        Raise DataError for an array: nothing in it says whose a row is.
        """
        self._check_parameters()
        try:
            return kept_persons(X, self.schema, self._row_secret(), y, self._columns_beside())
        except SourceUnreadable:
            # What cannot be read is refused by the learner, which knows what it reads; it counts persons again.
            return Kept(X, y, 0)

    def _columns_beside(self) -> tuple[str, ...]:
        """The columns that are read and not declared."""
        return ()

    def _row_secret(self) -> bytes:
        return row_secret(self.random_state, self._lent_noise)

    def _values_epsilon(self, declared: Schema) -> float:
        """What of ε is left for the values, after the bound of a person's rows was chosen."""
        epsilon, spent = checked_epsilon(self.epsilon), 0.0 if declared.person is None else declared.person.spent
        return decimal_down(exact(epsilon) - exact(spent)) if spent else epsilon

    def _released_sums(self, declared: Schema) -> int:
        """How many sums over rows are released, about: noise on each grows with the bound."""
        return len(declared.names(self.encoding))

    def _with_bound(self, person: Person, bound: int, spent: float) -> Self:
        """This estimator for a bound that was chosen; it has neither account nor seed."""
        schema = cast(Schema, self.schema)
        chosen = replace(schema, person=Person(person.column, bound, person.bound, spent))
        model: Self = clone(self).set_params(schema=chosen, account=None, random_state=None)
        return model

    def _bound_plan(self, X: Any, y: Any, person: Person) -> tuple[PersonRows, BoundChoice, Plan[Calibrated]]:
        """The rows by person, how the bound will be chosen, and what the choice and the fit cost together: from public facts."""
        self._check_parameters()
        spent = bound_epsilon(checked_epsilon(self.epsilon))
        largest = self._with_bound(person, person.bound, spent)
        rows = PersonRows.of(X, cast(Schema, largest.schema), self._row_secret(), y, self._columns_beside())
        # Before the charge, also where nobody has more rows than the largest number.
        rows.look_through()
        kept = rows.at_most(person.bound)
        plan = largest._plan_for(kept.source, kept.y)
        epsilon, delta = checked_epsilon(self.epsilon), checked_delta(self.delta)
        fit = BoundedFit.of(plan.mechanism.cost, plan.mechanism.noise_scale, spent, epsilon, delta)
        if fit is None or not plan.guarantee.valid:
            raise InvalidParameter(
                f"{type(self).__name__} does not choose the number of rows by itself. Nothing was charged.",
                'Declare a number instead of most_rows = "auto".',
            )
        declared = getattr(largest, "declared_", cast(Schema, largest.schema))
        values_epsilon, sums = largest._values_epsilon(declared), largest._released_sums(declared)
        is_proportional = self.releases_sums and getattr(plan.mechanism, "loss_is_proportional", False)
        choice = BoundChoice.of(spent, values_epsilon, sums, person.bound, self.neighbours, is_proportional)
        return rows, choice, Plan(fit, plan.guarantee)

    def _fit_with_chosen_bound(self, X: Any, y: Any, person: Person) -> Self:
        """Charge, choose the bound, and fit with it, all from one ε."""
        self._forget()
        self._keep_source(X)
        rows, choice, plan = self._bound_plan(X, y, person)
        passage = self._passage(plan, "", "with the number of rows of a person")
        bound = choice.drawn(rows.counts.histogram(person.bound), passage.noise)
        limits, spent = choice.limits(bound, self.epsilon)
        kept = rows.within(limits)
        inner = self._with_bound(person, limits.many, spent)._fit_within(passage.noise, kept.source, kept.y)
        parameters = self.get_params(deep=False)
        self.__dict__.update({name: value for name, value in vars(inner).items() if name not in parameters})
        self.guarantee_ = replace(passage.guarantee, valid=passage.guarantee.valid and inner.guarantee_.valid)
        self.receipt_, self.schema_digest_, self.cut_rows_ = passage.receipt, cast(Schema, self.schema).digest, kept.cut
        self._seal()
        return self

    def _plan_of(self, X: Any, y: Any) -> Plan[Calibrated]:
        """The plan of a fit to this table, the rows of persons cut to their bound; keeps what is declared."""
        person = self._person()
        if person is None:
            return self._plan_for(X, y)
        if person.is_auto and self.chooses_bound:
            return self._bound_plan(X, y, person)[2]
        kept = self._kept(X, y)
        return self._plan_for(kept.source, kept.y)

    # Plan: mechanism, guarantee and price, from public facts

    @abstractmethod
    def plan(self, rows: int, declared: Schema) -> Plan[Calibrated]:
        """Mechanism and guarantee for so many rows of these columns."""

    @abstractmethod
    def _plan_for(self, X: Any, y: Any) -> Plan[Calibrated]:
        """The plan of a fit to this table; keeps what is declared about it."""

    def _guarantee(self, declared: Schema, epsilon: float | None = None, delta: float | None = None) -> Guarantee:
        """What a fit with these parameters promises; void where the records tell what nobody declared."""
        return promise(
            checked_epsilon(self.epsilon if epsilon is None else epsilon),
            checked_delta(self.delta if delta is None else delta),
            self.neighbours,
            declared,
            is_declared=not self._undeclared(),
        )

    def price(self, X: object, y: object = None) -> Quote:
        """What fitting to this table would take from the account. Nothing is computed, charged or stored."""
        if self.account is None:
            raise InvalidParameter("A price needs an account.", "Give account=….")
        plan = self.planned(X, y)
        return self.account.quote(plan.guarantee, plan.mechanism.cost, given_source(X), self._first_answers())

    def planned(self, X: object, y: object = None) -> Plan[Calibrated]:
        """Mechanism, guarantee and cost of a fit to this table. Nothing is computed, charged or stored."""
        return cast(Self, clone(self))._plan_of(X, y)

    def declared_promise(self, rows: Callable[[], int]) -> Guarantee:
        """What a fit to a table of the schema's columns promises and is charged for: from declared facts, without records.

        `rows` is asked for the number of rows only where the promise depends on it.
        """
        if self.schema is None:
            raise InvalidParameter("A promise without records needs a schema.", "Give schema=Schema.load(…).")
        self._check_parameters()
        return self._guarantee(self._columns_of(self.schema))

    def declared_plan(self, rows: int) -> tuple[Plan[Calibrated], Schema]:
        """Mechanism and guarantee for so many rows of the schema's columns, and the columns that are used: without records."""
        if self.schema is None:
            raise InvalidParameter("A plan without records needs a schema.", "Give schema=Schema.load(…).")
        self._check_parameters()
        declared = self._columns_of(self.schema)
        return self.plan(rows, declared), declared

    def _columns_of(self, schema: Schema) -> Schema:
        """The columns of a schema that a fit uses."""
        return self._suited(schema)

    # Charge, then noise; the result is sealed last

    def _enter(self, plan: Plan[Calibrated], mark: str = "", purpose: str = "") -> Passage:
        """Charge the account for the plan, then return the noise. A mark's charge is entered once only.

        This is the only place where a fit gets its guarantee: that of its plan, as it was charged.
        """
        passage = self._passage(plan, mark, purpose)
        self.guarantee_, self.receipt_ = passage.guarantee, passage.receipt
        return passage

    def _passage(self, plan: Plan[Calibrated], mark: str, purpose: str) -> Passage:
        account, cost, what = self.account, plan.mechanism.cost, type(self).__name__
        if self._lent_noise is not None:
            return Passage(self._lent_noise, void_if_seeded(plan.guarantee, self._lent_noise), None)
        if mark and account is not None and self.random_state is None:
            paid = account.receipt_of(plan.guarantee, cost, what, mark)
            if paid is not None:
                return pass_again(account, paid, what)
        source, given = getattr(self, "_source", None), getattr(self, "_given_slice", None)
        # What was written while a slice was read may have moved a record out of another slice, which was charged apart.
        if given is not None and given_source(given) != source:
            raise changed_files()
        answers = self._first_answers()
        return pass_through(account, self.random_state, plan.guarantee, cost, what, mark or purpose, source, answers)

    def _first_answers(self) -> SliceIdentity | None:
        """The collection of a memory whose first answers this pays for; None where no answers are given again."""
        return self._collection

    def _fit_within(self, noise: NoiseSource, X: Any, y: Any) -> Self:
        """A fit that is a part of a larger computation, with the noise of that: not charged, so not to be released."""
        if self.account is not None or self.random_state is not None:
            raise InvalidParameter("A fit within another has an account or a seed of its own.", "Give neither.")
        self._lent_noise = noise
        try:
            fitted: Self = self.fit(X, y)
        finally:
            del self._lent_noise
        return fitted

    def _as_the_outcome_of(self, passage: Passage, account: Account | None) -> Self:
        """This model, fitted within a larger computation, under the guarantee of all of it; raises if it was changed since.

        The guarantee is that of the larger charge, and valid only if that of the fit itself is.
        """
        check_unchanged(self, self.release_content())
        whole = passage.guarantee
        self._restate(whole.epsilon)
        self.account = account
        self.guarantee_ = replace(whole, valid=whole.valid and self.guarantee_.valid)
        self.receipt_ = passage.receipt
        self._seal()
        return self

    def _restate(self, epsilon: float) -> None:
        """Let a release say this ε: that of the larger computation whose outcome this is."""
        self.epsilon = epsilon

    def _seal(self) -> None:
        self.seal_ = sealed(self.release_content(), self.guarantee_, self.receipt_, self.schema_digest_)
        enter_result(self)

    # What is released, and how it is read back

    @classmethod
    def released_sizes(cls, content: Content) -> dict[str, int]:
        """How many numbers leave under each name, for the privacy card."""
        return {name: int(tensor.size) for name, tensor in content.tensors.items()}

    @classmethod
    def card_remarks(cls, parameters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        """Further rows of the privacy card, (label, text): what has to be said of this release and not of most."""
        return ()

    @abstractmethod
    def release_content(self) -> Content:
        """Everything that would leave."""

    @abstractmethod
    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless released tensors are such as a learner with these declarations makes."""

    @abstractmethod
    def _take(self, content: Content) -> None:
        """Set the learned attributes from released content."""

    def _content(
        self,
        tensors: Mapping[str, NDArray[Any]],
        grids: Mapping[str, float | None],
        extra: Mapping[str, Any] | None = None,
    ) -> Content:
        """Public parameters beside the tensors: the declarations, the price, and the number of rows where it is public."""
        parameters = written_parameters(
            checked_epsilon(self.epsilon),
            checked_delta(self.delta),
            self.neighbours,
            self.n_rows_,
            self.declared_,
            self.slice_,
            extra or {},
        )
        return Content(parameters, tensors, grids)

    @classmethod
    def check_content(cls, content: Content, schema_digest: str | None) -> Guarantee:
        """What a released content promises, if it is one that `from_release` can take."""
        parameters = content.parameters
        declared = read_declarations(parameters, cls.extra_parameters, cls.later_parameters, cls.relations)
        if cls._suited(declared) != declared or (schema_digest is None and not is_from_bounds(declared)):
            raise unfit("its columns are not those of its learner")
        guarantee = promise(parameters["epsilon"], parameters["delta"], parameters["neighbours"], declared)
        try:
            cls._shell(parameters, schema_digest).check_numbers(content)
        except ReleaseMalformed:
            raise
        except (SudareError, TypeError, ValueError, KeyError, AttributeError):
            raise unfit("its parameters are not those of its learner") from None
        return guarantee

    @classmethod
    def from_release(cls, content: Content, schema_digest: str | None) -> Self:
        """A fitted learner from content that `check_content` accepted."""
        model = cls._shell(content.parameters, schema_digest)
        model._take(content)
        return model

    @classmethod
    def _shell(cls, parameters: Mapping[str, Any], schema_digest: str | None) -> Self:
        """A learner with the declarations of a release, and without its numbers."""
        declared = read_columns(parameters)
        model = cls(**cls._arguments(parameters))
        if schema_digest is None:
            model._take_bounds(declared)
        else:
            model.schema = declared
        model._take_extra(parameters)
        model._keep(declared, schema_digest)
        model.n_rows_, model._slice = parameters["rows"], read_slice(parameters)
        return model

    @classmethod
    def _arguments(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the constructor that a release tells."""
        return {"epsilon": parameters["epsilon"], "delta": parameters["delta"]}

    def _take_bounds(self, declared: Schema) -> None:
        """Keep what a release declares about the columns of arrays."""
        low, high = natural_bounds(declared)
        self.bounds, self.n_features_in_ = (tuple(low.tolist()), tuple(high.tolist())), len(low)

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        """Keep what this learner writes beside the others; raises where it would not have written that."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "seal_")

    def __sklearn_clone__(self) -> Self:
        """A clone that uses the same cluster, whose client cannot be copied."""
        return cloned_beside_cluster(self, super().__sklearn_clone__)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the client of a cluster is of this process, its address is not."""
        left_out = self.for_the_owner if isinstance(self.cluster, str) else (*self.for_the_owner, "cluster")
        return {name: value for name, value in super().__getstate__().items() if name not in left_out}


Estimator = TypeVar("Estimator", bound=Any)


def cloned_beside_cluster(model: Estimator, clone_of: Callable[[], Estimator]) -> Estimator:
    """A clone of an estimator that has the same cluster as it."""
    cluster = model.cluster
    if cluster is None or isinstance(cluster, str):
        return clone_of()
    shell = copy.copy(model)
    shell.cluster = None
    made = clone(shell)
    made.cluster = cluster
    return cast(Estimator, made)


def _encoded_arrays(declared: Schema, encoding: Encoding, table: Any) -> Tallied:
    """Encoded rows, and how many values of each number column were clipped."""
    encoded = encode(declared, table, encoding)
    return Tallied((encoded.matrix,), np.array(list(encoded.clipped.values()), dtype=np.int64))


def undeclared(model: PrivateEstimator) -> InvalidParameter:
    """What is raised, before any charge, where an account is to pay for what could never leave."""
    name = model._undeclared()
    return InvalidParameter(
        f"{type(model).__name__} is to be charged to an account, and {name} was not given: read off the records, it would "
        "void the guarantee, and nothing could leave. Nothing was charged.",
        f"Give {name}=… by public knowledge, or a schema that declares the target.",
    )
