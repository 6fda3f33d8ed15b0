"""Records perturbed one by one, charged and released: the way of paper 004 through the door."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sudare.errors import DataError, InvalidParameter
from sudare.frames.person_joins import PersonJoin
from sudare.frames.person_rows import Kept, new_key
from sudare.frames.sources import is_in_memory
from sudare.perturbation.answer_memory import MemoryFile, Terms
from sudare.perturbation.column_perturbation import Perturbation
from sudare.perturbation.epsilon_split import RecordPlan, planned_records
from sudare.perturbation.linkage_risk import PerturbationPromise, checked_count
from sudare.perturbation.one_column_per_record import row_cost
from sudare.perturbation.parquet_writer import Columns, FileLayout
from sudare.perturbation.perturbed_table import ROWS_SUFFIX, FileColumns, PerturbedTable, described
from sudare.perturbation.release_format import (
    ROWS_TENSOR,
    Repeated,
    check_manifest,
    check_repeated,
    check_rows,
    check_size,
    fits_inside,
    written_perturbations,
)
from sudare.perturbation.shuffle_on_disk import HELD_BYTES, check_room, shuffled_on_disk
from sudare.perturbation.two_pass_source import (
    CheckedRecords,
    answer_bytes,
    answered,
    checked_records,
    perturbed,
    perturbed_parts,
)
from sudare.perturbation.uniform_shuffle import shuffled_together
from sudare.privacy.accounting import exact
from sudare.privacy.array_checks import checked_matrix
from sudare.privacy.declared_columns import promise, rows_per_unit, written_columns
from sudare.privacy.first_answers import first_answers, mark_of
from sudare.privacy.guarantee import Guarantee, checked_epsilon
from sudare.privacy.ledger import Account
from sudare.privacy.ledger_chain import Receipt
from sudare.privacy.private_estimator import Bounds, PrivateEstimator
from sudare.privacy.release_content import Beside, Content, unfit
from sudare.privacy.source_identity import SliceIdentity
from sudare.report.number_formatting import whole
from sudare.schema import Number, Schema


@dataclass(eq=False, repr=False)
class RecordPerturbation(PrivateEstimator):
    """ε-local DP for every record; with k, a shuffled row is linked to its record with probability at most 1/k.

    Proofs: proofs/record_perturbation.md, proofs/pk_anonymity.md. Every declared column is perturbed, and nothing else
    leaves: no index, no order, no column without a declaration.

    Parameters
    ----------
    schema : the public facts about all columns; or `bounds` for arrays of numbers.
    epsilon : the local ε of a record, or of a person with all rows where the schema names persons; or instead
    k : the most that a shuffled row can be linked with is 1/k, among `n_records` (default: all rows).
    one_column : whether every record answers one column, drawn at random, with the whole ε instead of all columns with a part of it each: far
        more exact distributions of many columns, and nothing about how columns go together.
    split : weights by which ε is divided among the columns; equal shares without it.
    methods : kinds of perturbation by column: "square-wave" (which is "auto") or "laplace" for numbers, "retain-replace",
        "unary" or "subset" for categories.
    memory : a file in which the member keeps the first answer of each person, to give it again in every later collection. What a person answers in
        all of them together costs ε once; who takes part is not protected, and there is no statement about linking. Needs a schema with
        `[person]`, most_rows = 1, and an account. The file is made where there is none. Proof: proofs/repeated_answers.md.
    shuffle : whether rows get a random order. Without it there is no statement about linking.
    account : who pays. Without one the result may be looked at by its owner but not released.
    random_state : a seed, for tests and simulation only; it voids the guarantee.

    Attributes
    ----------
    table_ : the perturbed table.
    guarantee_ : the local promise that was charged; `statement()` says what follows from it.
    split_ : the ε of each column.
    repeated_ : which collection of the memory this is, and how many persons answered for the first time; None without a memory.
    clipped_ : how many values lay outside the bounds, per column; for the owner only.
    """

    extra_parameters = ("perturbations", "repeated", "row_epsilon", "rows_digest", "shuffled")
    later_parameters = ("repeated",)
    for_the_owner = (*PrivateEstimator.for_the_owner, "_secret")
    beside_digest = "rows_digest"
    chooses_bound = False
    delta = 0.0

    schema: Schema | None = None
    _: KW_ONLY
    epsilon: float | None = None  # type: ignore[assignment]
    k: int | None = None
    n_records: int | None = None
    one_column: bool = False
    split: Mapping[str, float] | None = None
    methods: Mapping[str, str] | None = None
    bounds: Bounds | None = None
    memory: str | os.PathLike[str] | None = None
    shuffle: bool = True
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None

    # The key of the memory that persons are told apart by.
    _secret = b""

    def fit(self, X: object, y: object = None) -> Self:
        """Look through the rows, charge, and perturb them. X is whatever `sudare.frames.source` takes."""
        self._answer_step = None
        if self.memory is not None:
            try:
                return self._fit_with_memory(X, MemoryFile(self.memory))
            finally:
                self._secret = b""
        records = self._opened(X)
        rows = records.rows
        plan = self.plan(rows.count, self.declared_)
        layout = FileLayout.of(plan.perturbations, rows.count)
        on_disk = self.shuffle and layout.size > HELD_BYTES and not is_in_memory(X)
        if on_disk:
            check_room(layout)
        noise = self._enter(plan).noise
        stored: Columns
        if on_disk:
            stored = shuffled_on_disk(plan.perturbations, rows.count, perturbed_parts(rows, plan, noise), noise)
        else:
            stored = perturbed(rows, plan, noise)
            if self.shuffle:
                stored = dict(zip(stored, shuffled_together(list(stored.values()), noise), strict=True))
        self.n_rows_, self.clipped_ = rows.count, records.clipped
        self._keep_table(plan.perturbations, plan.row_epsilon, stored)
        self._seal()
        return self

    def _fit_with_memory(self, X: object, file: MemoryFile) -> Self:
        """Charge for those who answer for the first time, keep their answers, and only then let anything be released."""
        records = self._opened(X)
        rows, account = records.rows, self.account
        if account is None:
            raise InvalidParameter(
                "Answers that are kept must have been charged, and no account was given.", "Give account=…."
            )
        plan = self.plan(rows.count, self.declared_)
        with file.alone():
            memory = file.begun(self._secret).ready(account, self._answer_terms(plan, account.ledger.identity))
            file.check_room(memory, rows.count, answer_bytes(plan))
            account.check_relation(self.neighbours, plan.guarantee.unit, self._source)
            number = len(memory.batches) + 1
            self._collection = first_answers(memory.identity, number)
            try:
                passage = self._enter(plan, mark_of(memory.identity, number, account.entries()))
            finally:
                self._collection = None
            found = answered(rows, plan, memory, passage.noise)
            receipt = cast(Receipt, passage.receipt)
            extended = memory.extended(self._answer_terms(plan, receipt.ledger), receipt, found.tags, found.answers)
            # Before the ledger knows of it: what is released is never missing from the memory.
            file.write(extended)
            stored = found.stored
            if self.shuffle:
                stored = dict(zip(stored, shuffled_together(list(stored.values()), passage.noise), strict=True))
            self.n_rows_, self.clipped_ = rows.count, records.clipped
            repeated = Repeated(memory.identity, number, len(found.tags))
            self._keep_table(plan.perturbations, plan.row_epsilon, stored, repeated=repeated)
            self._answer_step = memory.step_to(extended)
            self._seal()
        return self

    def _answer_terms(self, plan: RecordPlan, ledger: str) -> Terms:
        account = cast(Account, self.account)
        return Terms.of(ledger, account.name, self.declared_, plan.perturbations, answer_bytes(plan))

    def _kept(self, X: Any, y: Any) -> Kept:
        """As everywhere. Raise InvalidParameter, with a memory, for a join: its persons have other tags in each, so nobody would be known again."""
        if self.memory is not None and isinstance(X, PersonJoin):
            raise InvalidParameter(
                "Answers are kept for persons under their own names, and a PersonJoin has other tags for them each time.",
                "Join the tables yourself, and give the joined one. Nothing was charged.",
            )
        return super()._kept(X, y)

    def _row_secret(self) -> bytes:
        """Of a memory its key, so that persons have the same tags in all collections; a new one where it is still to be made."""
        if self.memory is None:
            return super()._row_secret()
        memory = MemoryFile(self.memory).read()
        self._secret = new_key() if memory is None else memory.key
        return self._secret

    def perturb(self, X: object) -> PerturbedTable:
        """The perturbed table: `fit(X).table_`."""
        return self.fit(X).table_

    def statement(self) -> PerturbationPromise:
        """Linking, local and central promise of the perturbed table."""
        check_is_fitted(self)
        return replace(self.table_, guarantee=self.guarantee_).statement()

    def _first_answers(self) -> SliceIdentity | None:
        """The collection that is being fitted, or would be."""
        if self.memory is None or self._collection is not None:
            return super()._first_answers()
        memory = MemoryFile(self.memory).read()
        # A memory that is still to be made has no name yet: for a price any will do.
        return first_answers("", 1) if memory is None else first_answers(memory.identity, len(memory.batches) + 1)

    def plan(self, rows: int, declared: Schema) -> RecordPlan:
        """Perturbations and price for so many rows of these columns; no data."""
        if self.n_records is not None and self.n_records > rows:
            raise DataError(
                f"n_records = {whole(self.n_records)} is more than the {whole(rows)} rows there are.",
                "Give the number of rows there are, or less: k would not hold among fewer.",
            )
        plan = planned_records(
            declared,
            epsilon=self.epsilon,
            k=self.k,
            n_records=rows if self.n_records is None else self.n_records,
            split=self.split,
            methods=self.methods,
            one_column=self.one_column,
        )
        check_size(FileLayout.of(plan.perturbations, rows))
        if self.account is not None:
            check_manifest(plan, declared)
        return plan

    def declared_promise(self, rows: Callable[[], int]) -> Guarantee:
        """The local promise of the perturbed records; of `k` it depends on the number of rows."""
        if self.schema is None or self.k is None:
            return replace(super().declared_promise(rows), notion="local")
        self._check_parameters()
        return self.plan(rows(), self._suited(self.schema)).guarantee

    def _plan_for(self, X: Any, y: Any) -> RecordPlan:
        return self.dry_run(X)[0]

    def dry_run(self, X: object) -> tuple[RecordPlan, PerturbationPromise, CheckedRecords]:
        """Plan, statement and what looking through the rows tells the owner. Nothing is perturbed, charged or stored."""
        twin = clone(self)
        source = X if self._person() is None else self._kept(X, None).source
        twin._secret, self._secret = self._secret, b""
        records = twin._opened(source)
        plan = twin.plan(records.rows.count, twin.declared_)
        statement = PerturbationPromise.of(
            plan.guarantee,
            records.rows.count,
            shuffled=self.shuffle,
            row_epsilon=plan.row_epsilon,
            rows_per_person=rows_per_unit(twin.declared_),
            answered_of=len(twin.declared_.columns) if self.one_column else None,
            is_repeated=self.memory is not None,
        )
        return plan, statement, records

    def _opened(self, X: object) -> CheckedRecords:
        """The rows, all checked, with what is declared about them kept."""
        self._forget()
        self._check_parameters()
        self._keep_source(X)
        if self.schema is None:
            matrix = checked_matrix(self, X, reset=True)
            self._declare(X, matrix)
            return checked_records(dict(zip(self.declared_.columns, matrix.T, strict=True)), self.declared_)
        self._keep(self._suited(self.schema), self.schema.digest)
        return checked_records(X, self.declared_, self._secret if self.memory is not None else b"")

    def _check_parameters(self) -> None:
        if (self.epsilon is None) == (self.k is None):
            raise InvalidParameter("Records need either epsilon or k.", "Give epsilon=… or k=….")
        if self.k is not None:
            checked_count("k", self.k, 2)
        elif self.epsilon is not None:
            checked_epsilon(self.epsilon)
        if self.n_records is not None:
            checked_count("n_records", self.n_records, 2)
        if not isinstance(self.one_column, bool):
            raise InvalidParameter("one_column must be True or False.", "Leave it out to perturb every column.")
        if not isinstance(self.shuffle, bool):
            raise InvalidParameter(
                "shuffle must be True or False.", "Leave it out: only shuffled rows hide each other."
            )
        self._check_memory()
        self._check_declarations()

    def _check_memory(self) -> None:
        if self.memory is None:
            return
        if not isinstance(self.memory, str | os.PathLike):
            raise InvalidParameter("memory must be the path of a file.", "Give for example memory='answers.memory'.")
        if self.k is not None or self.n_records is not None:
            raise InvalidParameter(
                "Answers that are kept have the same ε in every collection, and that of k depends on the number of rows.",
                "Give epsilon=… instead of k and n_records.",
            )
        person = self._person()
        if person is None or person.most_rows != 1:
            raise InvalidParameter(
                "Answers are kept for persons with one row each, and the schema does not say who they are.",
                "Declare in the schema a section [person] with column and most_rows = 1.",
            )

    @classmethod
    def _suited(cls, schema: Schema) -> Schema:
        """All declared columns, the target too; a missing number is the declared stand-in."""
        columns = {
            name: column.with_plain_stand_in() if isinstance(column, Number) else column
            for name, column in schema.columns.items()
        }
        return Schema(columns, schema.person, drop=schema.drop)

    def _keep_table(
        self,
        perturbations: Mapping[str, Perturbation],
        row_epsilon: float,
        stored: Columns,
        digest: str | None = None,
        repeated: Repeated | None = None,
    ) -> None:
        rows = self.n_rows_
        if rows is None:
            raise ValueError("a perturbed table has a number of rows")
        self.repeated_ = repeated
        self.split_ = {name: each.epsilon for name, each in perturbations.items() if name in self.declared_.columns}
        self.table_ = PerturbedTable(
            perturbations,
            stored,
            self.guarantee_,
            row_epsilon,
            rows_per_person=rows_per_unit(self.declared_),
            shuffled=self.shuffle,
            rows=rows,
            expected_digest=digest,
            memory=None if repeated is None else repeated.memory,
        )

    # What leaves

    def release_content(self) -> Content:
        """What is promised, and the rows as a Parquet file; of more rows than a release holds only the file's digest."""
        table = self.table_
        file = b"".join(table.parquet()) if fits_inside(table.layout) else None
        digest = table.digest() if file is None else hashlib.sha256(file).hexdigest()
        parameters = {
            "epsilon": self.guarantee_.epsilon,
            "delta": 0.0,
            "neighbours": self.neighbours,
            "rows": self.n_rows_,
            **written_columns(self.declared_),
            "perturbations": [described(each) for each in table.perturbations.values()],
            **({} if self.repeated_ is None else {"repeated": vars(self.repeated_)}),
            "row_epsilon": table.row_epsilon,
            "rows_digest": digest,
            "shuffled": table.shuffled,
        }
        if file is None:
            return Content(parameters, {}, {}, Beside(ROWS_SUFFIX, table.parquet))
        return Content(parameters, {ROWS_TENSOR: np.frombuffer(file, dtype=np.uint8)}, {ROWS_TENSOR: None})

    @classmethod
    def released_sizes(cls, content: Content) -> dict[str, int]:
        """A perturbed value a row of each column: the tensor is a Parquet file."""
        return {name: content.parameters["rows"] for name, _ in content.parameters["columns"]}

    @classmethod
    def check_content(cls, content: Content, schema_digest: str | None) -> Guarantee:
        """What a released content promises, if it is one that `from_release` can take."""
        return replace(super().check_content(content, schema_digest), notion="local")

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless the columns cost no more than is promised, and the rows are those that they give."""
        parameters = content.parameters
        perturbations, row_epsilon = written_perturbations(parameters), exact(parameters["row_epsilon"])
        spent = sum(exact(epsilon) for epsilon in row_cost(perturbations))
        unit_epsilon = row_epsilon * rows_per_unit(self.declared_)
        if not spent <= row_epsilon or unit_epsilon > exact(parameters["epsilon"]):
            raise unfit("its columns cost more than it promises")
        check_rows(content, perturbations)
        check_repeated(parameters, self.declared_)

    @classmethod
    def card_remarks(cls, parameters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        """Whose answers these are where they are given again, and what that does not protect."""
        repeated = Repeated.of(parameters)
        if repeated is None:
            return ()
        first, rows = whole(repeated.first), whole(parameters["rows"])
        answers = (
            f"collection {repeated.collection} of memory {repeated.memory[:8]}: {first} of {rows} persons answered for the first time. All others give "
            "their first answer again, whatever their values are by now"
        )
        taking_part = "not protected: who has a row in which release of this memory shows, and links rows of one person, also to that person"
        return ("answers given again", answers), ("who takes part", taking_part)

    @classmethod
    def _arguments(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        is_sampled = len(parameters["perturbations"]) > len(parameters["columns"])
        return {"epsilon": parameters["epsilon"], "one_column": is_sampled, "shuffle": parameters["shuffled"]}

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        row_epsilon, shuffled = parameters["row_epsilon"], parameters["shuffled"]
        if parameters["delta"] != 0 or type(row_epsilon) is not float or type(shuffled) is not bool:
            raise unfit("its parameters are not those of its learner")
        checked_epsilon(row_epsilon)

    def _take(self, content: Content) -> None:
        parameters = content.parameters
        perturbations = written_perturbations(parameters)
        stored = FileColumns(FileLayout.of(perturbations, parameters["rows"]), content.tensors.get(ROWS_TENSOR))
        self.guarantee_ = promise(parameters["epsilon"], 0.0, self.neighbours, self.declared_, notion="local")
        digest = parameters["rows_digest"]
        self._keep_table(perturbations, parameters["row_epsilon"], stored, digest, Repeated.of(parameters))
