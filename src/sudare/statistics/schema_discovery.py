"""A schema drafted from the data with noise, charged before anything is computed from them. Proof: proofs/discovery.md."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import tomli_w

from sudare.array_types import Floats
from sudare.errors import ColumnMissing, InvalidParameter, SchemaError
from sudare.frames.person_rows import kept_persons
from sudare.frames.row_reader import checked_rows
from sudare.frames.rows import Arrays
from sudare.frames.sources import column_types, is_read_once
from sudare.privacy.accounting import Cost, approximate_cost, decimal_down, exact, pure_cost
from sudare.privacy.declared_columns import promise, rows_per_unit
from sudare.privacy.guarantee import DEFAULT_DELTA, Guarantee, checked_delta, checked_epsilon, readable_up
from sudare.privacy.ledger import Account, Quote
from sudare.privacy.ledger_chain import Receipt
from sudare.privacy.noise import NoiseSource, row_secret
from sudare.privacy.release import pass_through
from sudare.privacy.source_identity import given_source
from sudare.safe_text import composed, text_fault
from sudare.schema import Category, Column, Date, Number, Person, Schema, as_table
from sudare.schema.column_values import declared_numbers, holds
from sudare.schema.declaration import refuse_values_as_names
from sudare.schema.table_from_any_frame import refuse_missing_columns, unique_names
from sudare.schema.toml_document import (
    DRAFT_QUESTIONS,
    DRAFT_UNKNOWN,
    combination_sections,
    suggestion,
    write_column,
)
from sudare.statistics.found_bounds import HISTOGRAMS, FoundNumber, found_number, least_sum, noise_on_counts

WHAT: Final = "schema draft"
OTHER: Final = "(other)"
MISSING: Final = "(missing)"
WIDEST: Final = 2.0**70
EPOCH: Final = Date(first="1970-01-01", last="9999-12-31")
FIRST_DAY, LAST_DAY = -719_162.0, 2_932_896.0
# Rows that are looked at together.
_BLOCK_ROWS: Final = 2**18
# How the columns of which something is found are read.
_READ_AS: Final[dict[str, Column]] = {
    "fractions": Number(-WIDEST, WIDEST, missing="centre"),
    "whole numbers": Number(-(2.0**52), 2.0**52, whole=True, missing="centre"),
    "dates or times": EPOCH,
    "text": Category(("a", "b"), missing=MISSING),
}
HEADING: Final = """\
# A draft. What is found comes from the data, with noise: it was paid for, and may be passed on with what is learned by it.
# Replace every "?" by what is known without looking at the data, and correct what is known better.
"""
UNPAID: Final = (
    "# NOTHING WAS CHARGED for what was found here: do not pass it on, and do not learn from it what leaves.\n"
)


@dataclass(frozen=True)
class DraftPlan:
    """What a draft will find, and what it costs; from names and types of columns, no data.

    ε is divided equally among the columns of which something is found, δ among those of text. `combinations` are the declared sections
    of maps and impossible combinations.
    """

    declared: Mapping[str, Column]
    held: Mapping[str, str]
    person: Person | None
    drop: tuple[str, ...]
    target: str | None
    epsilon: float
    delta: float
    combinations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def found(self) -> tuple[str, ...]:
        """The columns of which something is found."""
        kinds = [kind for kind in _READ_AS if kind != "text" or self.delta > 0]
        return tuple(name for name, kind in self.held.items() if name not in self.declared and kind in kinds)

    @property
    def texts(self) -> tuple[str, ...]:
        """Those of them that hold text."""
        return tuple(name for name in self.found if self.held[name] == "text")

    @property
    def column_epsilon(self) -> float:
        """The ε of each column."""
        return decimal_down(exact(self.epsilon) / len(self.found))

    @property
    def column_delta(self) -> float:
        """The δ of each column of text."""
        return decimal_down(exact(self.delta) / len(self.texts)) if self.texts else 0.0

    @property
    def reading(self) -> Schema:
        """How the columns are read."""
        return Schema({name: _READ_AS[self.held[name]] for name in self.found}, self.person)

    @property
    def guarantee(self) -> Guarantee:
        """The promise of the whole draft."""
        return promise(self.epsilon, self.delta if self.texts else 0.0, "replace-one", self.reading)

    @property
    def cost(self) -> Cost:
        """What it costs: parts of one ε and one δ add up."""
        return approximate_cost(self.epsilon, self.delta) if self.texts else pure_cost(self.epsilon)


@dataclass(frozen=True, eq=False)
class SchemaDraft:
    """A drafted schema as TOML text, what was found, and the charge that paid for it (None: it may not leave)."""

    text: str
    found: Mapping[str, Mapping[str, Any]]
    guarantee: Guarantee
    receipt: Receipt | None = field(repr=False)


def planned_draft(
    source: object,
    *,
    epsilon: float,
    delta: float | None = None,
    declared: Schema | None = None,
    drop: Collection[str] = (),
    person: Person | None = None,
    has_header: bool | None = None,
) -> DraftPlan:
    """What a draft of this source would find and cost. Raise where that is not possible; nothing but names and types is read.

    `declared` are columns that are known, with `drop`, person and target; `delta` is 1e-6 unless told otherwise, and nothing is
    found about text with 0.
    """
    if is_read_once(source):
        raise InvalidParameter(
            "Rows that can be read only once cannot be planned for and then read.",
            "Give a path, a database or a table, such as sudare.frames.read(…) returns. Nothing was charged.",
        )
    checked_epsilon(epsilon)
    spent_delta = DEFAULT_DELTA if delta is None else checked_delta(delta)
    known = {} if declared is None else dict(declared.columns)
    owner = person or (None if declared is None else declared.person)
    types = column_types(source, [*known, *drop])
    held = dict(zip(unique_names(types.names), map(holds, types.types), strict=True))
    refuse_values_as_names(list(held), has_header)
    left_out = (*drop, *(() if declared is None else declared.drop))
    for name in drop:
        if name not in held:
            raise ColumnMissing(
                f"`drop` names {name[:64]!r}, which the table lacks.{suggestion(name, held)}",
                "Name columns of the table. Nothing was charged.",
            )
    refuse_missing_columns([*known, *left_out, *([] if owner is None else [owner.column])], list(held))
    used = {name: kind for name, kind in held.items() if name not in left_out}
    if owner is not None:
        used.pop(owner.column, None)
    target = None if declared is None else declared.target
    beside = {} if declared is None else combination_sections(declared.maps, declared.impossible)
    plan = DraftPlan(known, used, owner, tuple(dict.fromkeys(left_out)), target, float(epsilon), spent_delta, beside)
    if not plan.found:
        raise InvalidParameter(
            "There is nothing to find: all columns are declared, dropped, or neither numbers, dates nor text.",
            "Use `sudare schema draft` without --epsilon. Nothing was charged.",
        )
    _ = plan.reading, plan.guarantee
    if plan.texts:
        unit = rows_per_unit(plan.reading)
        count_threshold(noise_on_counts(plan.column_epsilon, 1, unit).noise_scale, plan.column_delta, unit)
    return plan


def draft_privately(
    source: object,
    plan: DraftPlan,
    account: Account | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> SchemaDraft:
    """(ε, δ)-DP draft of a schema, replace-one rows or persons; ε-DP without text. Proof: proofs/discovery.md.

    Of persons no more rows are kept than the plan says, as learners do. All rows are read and checked, then the account is charged,
    and then counts are made, with noise.
    """
    reading = plan.reading
    key = None if plan.person is None else row_secret(random_state)
    kept = kept_persons(source, reading, key)
    texts: dict[str, Counter[str | None]] = {name: Counter() for name in plan.texts}
    rows = checked_rows(kept.source, lambda table: _arrays(table, reading, texts), reading, read_once=True)
    numbers = dict(zip((name for name in plan.found if name not in texts), rows.together()[1:], strict=True))
    paid_for = given_source(source)
    passage = pass_through(account, random_state, plan.guarantee, plan.cost, WHAT, source=paid_for)
    unit = rows_per_unit(reading)
    found: dict[str, Column | None] = {}
    for name in plan.found:
        if name in texts:
            found[name] = found_category(texts[name], plan.column_epsilon, plan.column_delta, unit, passage.noise)
        else:
            found[name] = found_column(numbers[name], plan.held[name], plan.column_epsilon, unit, passage.noise)
    facts = {name: write_column(column) for name, column in found.items() if column is not None}
    return SchemaDraft(_text(plan, found, passage.receipt), facts, passage.guarantee, passage.receipt)


def price_of(plan: DraftPlan, account: Account) -> Quote:
    """What the draft would take from an account. Nothing is charged."""
    return account.quote(plan.guarantee, plan.cost)


def _arrays(table: Any, reading: Schema, texts: Mapping[str, Counter[str | None]]) -> Arrays:
    """An entry for every row, and its numbers; how often each text occurs is added to `texts`."""
    named, numbers = as_table(table, list(reading.columns)), []
    for name, column in reading.columns.items():
        if isinstance(column, Number):
            numbers.append(declared_numbers(named.column(name), column, name))
        else:
            texts[name].update(named.column(name).cast(pa.string()).to_pylist())
    return np.zeros(named.rows, dtype=np.bool_), *numbers


def found_column(values: Floats, kind: str, epsilon: float, unit_rows: int, noise: NoiseSource) -> Number | None:
    """ε-DP bounds and bins of numbers, whole numbers or days since 1970; None where noise hides them. Proof: proofs/discovery.md."""
    has_gaps = []

    def noisy(edges: Floats, share: float) -> Floats:
        counts = _counts_between(edges, values)
        mechanism = noise_on_counts(share, len(counts), unit_rows)
        found = mechanism.apply(counts, noise)
        has_gaps.append(found[-1] >= least_sum(1, HISTOGRAMS) * mechanism.noise_scale)
        return found[:-1]

    number = found_number(noisy, epsilon, unit_rows, whole=kind != "fractions")
    if number is None:
        return None
    try:
        return _declared(number, kind, "centre" if any(has_gaps) else None)
    except SchemaError:
        # Bounds that no declaration takes: after the charge nothing may fail.
        return None


def _counts_between(edges: Floats, values: Floats) -> Floats:
    """How many values lie below the first edge, between edges and above the last one, and how many are missing."""
    counts = np.zeros(len(edges) + 2)
    for start in range(0, len(values), _BLOCK_ROWS):
        block = values[start : start + _BLOCK_ROWS]
        cells = np.searchsorted(edges, block, side="right")
        cells[np.isnan(block)] = len(edges) + 1
        counts += np.bincount(cells, minlength=len(counts))
    return counts


def _declared(found: FoundNumber, kind: str, missing: str | None) -> Number:
    """What was found as a declaration of this kind."""
    if kind == "fractions":
        return Number(found.low, found.high, bins=found.bins or None, missing=missing)
    if kind == "whole numbers":
        return Number(found.low, found.high, bins=found.bins or None, missing=missing, whole=True)
    low, high = np.clip([found.low, found.high], FIRST_DAY, LAST_DAY)
    bins = tuple(EPOCH.value_text(edge) for edge in found.bins if low < edge < high)
    return Date(first=EPOCH.value_text(low), last=EPOCH.value_text(high), bins=bins or None, missing=missing)


def found_category(
    values: Mapping[str | None, int], epsilon: float, delta: float, unit_rows: int, noise: NoiseSource
) -> Category | None:
    """(ε, δ)-DP list of frequent values (Korolova et al. 2009) of those with their counts; None where there is none. Proof: proofs/discovery.md."""
    counts: Counter[str] = Counter()
    for value, rows in values.items():
        # In the spelling that declared values have: two spellings of one value could not both be declared.
        counts["" if value is None else composed(value)] += rows
    texts, exact_counts = list(counts), np.array(list(counts.values()), dtype=np.float64)
    # A fixed order that does not depend on that of the rows.
    order = np.array(sorted(range(len(texts)), key=texts.__getitem__), dtype=np.intp)
    mechanism = noise_on_counts(epsilon, len(texts), unit_rows)
    noisy = mechanism.apply(exact_counts[order], noise)
    least = count_threshold(mechanism.noise_scale, delta, unit_rows)
    kept = [(count, texts[place]) for place, count in zip(order, noisy, strict=True) if count >= least]
    frequent = [text for _, text in sorted(kept, key=lambda pair: (-pair[0], pair[1])) if text_fault(text) is None]
    listed = [text for text in frequent if text not in ("", OTHER, MISSING)]
    missing = MISSING if "" in frequent else None
    if not listed:
        return None
    return Category((*listed, OTHER), missing=missing, other=OTHER)


def count_threshold(noise_scale: float, delta: float, unit_rows: int) -> int:
    """The least noisy count that is shown: m + 1 + b·ln(m/δ), rounded up. A value of one unit alone reaches it with probability δ/m at most.

    Raise InvalidParameter where −ln(1 − δ) is more than 1/b, which the proof does not cover.
    """
    if -math.log1p(-delta) * noise_scale > 1:
        raise InvalidParameter(
            "δ is too large beside ε for frequent values to be found.",
            "Use a δ far below 1/rows, such as 1e-6. Nothing was charged.",
        )
    # One more for the rounding of the logarithm.
    return unit_rows + 1 + math.ceil(noise_scale * math.log(unit_rows / delta))


def _text(plan: DraftPlan, found: Mapping[str, Column | None], receipt: Receipt | None) -> str:
    """The TOML text, which says of every column where its facts come from."""
    epsilon, delta = readable_up(plan.column_epsilon), readable_up(plan.column_delta)
    share = f"ε = {epsilon} of the {readable_up(plan.epsilon)} charged"
    parts = [HEADING if receipt is not None else HEADING + UNPAID]
    parts += [tomli_w.dumps({"drop": list(plan.drop)})] if plan.drop else []
    for name, kind in plan.held.items():
        column, unknown = found.get(name), DRAFT_QUESTIONS.get(kind, DRAFT_UNKNOWN)
        if name in plan.declared:
            comment, facts = "declared", write_column(plan.declared[name])
        elif column is None:
            comment, facts = unknown
            comment += "; too few to be found" if name in found else ""
        elif isinstance(column, Category):
            comment = f"values found with {share}, and δ = {delta}; others are rare, or of few"
            facts = write_column(column)
        else:
            comment, facts = f"bounds and bins found with {share}; the kind is that of the column", write_column(column)
        parts.append(f"# {comment}\n{tomli_w.dumps({'columns': {name: facts}})}")
    if plan.target is not None and plan.declared[plan.target].__class__ is Number:
        parts.append(f"# declared\n{tomli_w.dumps({'target': {'column': plan.target}})}")
    if plan.person is not None:
        largest = {} if plan.person.largest is None else {"largest": plan.person.largest}
        person = {"column": plan.person.column, "most_rows": plan.person.most_rows, **largest}
        parts.append(f"# declared\n{tomli_w.dumps({'person': person})}")
    parts += [f"# declared\n{tomli_w.dumps({name: part})}" for name, part in plan.combinations.items()]
    return "\n".join(parts)
