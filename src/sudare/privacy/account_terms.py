"""What an account is opened with: its budget, its relation of neighbours, and the source whose records it pays for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sudare.errors import AccountMismatch, InvalidParameter, UnknownAccount
from sudare.frames.databases import SqlSource
from sudare.privacy.accounting import Budget, Composition, decimal_up, exact, rational
from sudare.privacy.confusable_names import same_letters
from sudare.privacy.guarantee import NEIGHBOURS, UNITS, Neighbours, Unit, checked_delta, checked_epsilon, readable_up
from sudare.privacy.source_identity import Source, covers, looked_at


@dataclass(frozen=True)
class Terms:
    """What an account was opened with.

    `source` is what was declared. Where that is a name only, `bound` is the path or database that was first charged for.
    `files` are the files of either as they were then.
    """

    budget: Budget
    neighbours: Neighbours
    unit: Unit
    source: str
    bound: str = ""
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.neighbours not in NEIGHBOURS or self.unit not in UNITS:
            raise InvalidParameter(
                f"neighbours must be one of {', '.join(NEIGHBOURS)} and unit one of {', '.join(UNITS)}.",
                "Use these words.",
            )

    @property
    def pays_for(self) -> Source:
        """The source whose records are charged for."""
        return Source(self.bound or self.source, self.files)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Everything that no other account may be for."""
        return (self.pays_for, *([Source(self.source)] if self.bound else []))

    def to_dict(self) -> dict[str, Any]:
        """Exact values as text."""
        where = {"bound": self.bound, "files": list(self.files)}
        return {
            **{name: value for name, value in where.items() if value},
            "epsilon": str(self.budget.epsilon),
            "delta": str(self.budget.delta),
            "composition": self.budget.composition,
            "reserved_delta": str(self.budget.reserved_delta),
            "neighbours": self.neighbours,
            "unit": self.unit,
            "source": self.source,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Terms:
        """The terms that `to_dict` wrote."""
        budget = Budget(
            rational(values["epsilon"]),
            rational(values["delta"]),
            values["composition"],
            rational(values["reserved_delta"]),
        )
        bound, files = values.get("bound", ""), values.get("files", [])
        if (
            not isinstance(bound, str)
            or not isinstance(files, list)
            or not all(isinstance(file, str) for file in files)
        ):
            raise ValueError("not a source")
        return cls(budget, values["neighbours"], values["unit"], values["source"], bound, tuple(files))


@dataclass(frozen=True)
class AskedTerms:
    """The terms a caller names when opening an account; None stands for the default, or for whatever it has."""

    epsilon: float | None
    delta: float | None
    neighbours: Neighbours | None
    unit: Unit | None
    composition: Composition | None
    reserved_delta: float | None
    source: str | os.PathLike[str] | SqlSource | None

    def for_new(self, name: str) -> Terms:
        """The terms of an account that does not exist yet: what was asked for, else the defaults. Raise UnknownAccount where no ε was asked for."""
        if self.epsilon is None:
            raise UnknownAccount(
                f"The ledger has no account '{name}', and no budget was given to open it with.", UnknownAccount.help
            )
        neighbours = "replace-one" if self.neighbours is None else self.neighbours
        unit = "record" if self.unit is None else self.unit
        delta = 0.0 if self.delta is None else self.delta
        composition = "basic" if self.composition is None else self.composition
        budget = Budget.of(self.epsilon, delta, composition, self.reserved_delta)
        source = looked_at(name if self.source is None else self.source)
        return Terms(budget, neighbours, unit, source.text, files=source.files)

    def check_same(self, name: str, terms: Terms) -> None:
        """Raise AccountMismatch unless every term that was given is the account's own; an ε alone means δ = 0."""
        budget = terms.budget
        delta = 0.0 if self.delta is None and self.epsilon is not None else self.delta
        asked: list[tuple[str, object, object]] = [
            ("epsilon", None if self.epsilon is None else exact(checked_epsilon(self.epsilon)), budget.epsilon),
            ("delta", None if delta is None else exact(checked_delta(delta)), budget.delta),
            ("neighbours", self.neighbours, terms.neighbours),
            ("unit", self.unit, terms.unit),
            ("composition", self.composition, budget.composition),
            (
                "reserved_delta",
                None if self.reserved_delta is None else exact(checked_delta(self.reserved_delta, "reserved_delta")),
                budget.reserved_delta,
            ),
            ("source", None if self.source is None else is_source_of(terms, looked_at(self.source)), True),
        ]
        different = [term for term, value, kept in asked if value is not None and value != kept]
        if different:
            raise AccountMismatch(
                f"Account '{name}' was opened with another {' and '.join(different)}: it has "
                f"ε = {readable_up(decimal_up(budget.epsilon))}, δ = {readable_up(decimal_up(budget.delta))}, "
                f"{terms.neighbours} {terms.unit}, {budget.composition} composition.",
                "Open it by its name alone, without a budget or terms. A larger budget is the steward's to give (`sudare budget raise`).",
            )


def is_source_of(terms: Terms, source: Source) -> bool:
    """Whether a source is the declared one or the bound one, no more and no less."""
    own = terms.pays_for
    is_own = covers(own, source) and covers(source, own)
    return is_own or same_letters(source.text) == same_letters(terms.source)


def is_raise(old: Budget, new: Budget) -> bool:
    """Whether `new` is more than `old` and otherwise the same."""
    same_filter = (new.composition, new.reserved_delta) == (old.composition, old.reserved_delta)
    return new != old and same_filter and new.epsilon >= old.epsilon and new.delta >= old.delta
