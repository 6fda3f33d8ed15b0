"""The schema: the facts about a table that everybody may know, and that no computation takes from the data."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import tomli_w

from sudare.array_types import Floats
from sudare.errors import InvalidParameter, PersonRowsExceeded, SchemaError
from sudare.files import write_atomically
from sudare.parsing import first_bytes
from sudare.safe_text import looks_like_a_value
from sudare.schema.canonical_value_texts import canonical_texts
from sudare.schema.column_values import Codes, clipped_numbers, codes, holds, nobody_named
from sudare.schema.columns import Category, Column, Label, Level, Number, Person, column_name, listed
from sudare.schema.combinations import (
    Combination,
    KnownCells,
    Map,
    checked_combinations,
    checked_maps,
)
from sudare.schema.encodings import (
    ENCODINGS,
    Block,
    Encoding,
    block_of,
    checked_encoding,
    norm_rounded_up,
    sum_rounded_up,
)
from sudare.schema.lazy_pyarrow import pa, pc
from sudare.schema.table_from_any_frame import Table, as_table, attempt, column_names, unique_names
from sudare.schema.toml_document import KINDS, LARGEST_FILE_BYTES, draft_text, parse_toml, read_document, write_document


@dataclass(frozen=True, eq=False, repr=False)
class Schema:
    """Columns with their declared facts, in the order in which they are encoded.

    The target is the label, or the number that `target` names; all other columns are features. With a person
    declared, guarantees are about persons; the person column is not among the columns. `drop` names columns that tables
    have and that are left out, so that nobody needs to make a table without them, which would be another source.
    `maps` has, for a column that another one determines, its value for each value of that one; `impossible` values of columns that
    no row has together. Synthetic tables keep both in every row.
    """

    columns: Mapping[str, Column]
    person: Person | None = None
    target: str | None = None
    drop: tuple[str, ...] = ()
    maps: Mapping[str, Map] = field(default_factory=dict)
    impossible: tuple[Combination, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise SchemaError(
                "The schema declares no columns.", "Declare at least one, as a mapping from its name to its facts."
            )
        for name, column in self.columns.items():
            column_name(name)
            if type(column) not in KINDS.values():
                raise SchemaError(f"Column {name!r} is not a declaration.", "Declare it as Number, Category or Label.")
        named = {column_name(name): column for name, column in self.columns.items()}
        if len(named) < len(self.columns):
            raise SchemaError("Two columns have the same name.", "Give every column a name of its own.")
        object.__setattr__(self, "columns", MappingProxyType(named))
        self._check_person()
        object.__setattr__(self, "target", self._checked_target())
        object.__setattr__(self, "drop", self._checked_drop())
        self._check_combinations()
        # Encoded names begin with a column's own name and "=": only where that sign is in a name can two be the same.
        if any("=" in name for name in self.features):
            for encoding in ENCODINGS:
                self._check_names(encoding)

    def _check_person(self) -> None:
        if self.person is None:
            return
        if type(self.person) is not Person:
            raise SchemaError("`person` is not a Person.", "Give Person(column=…, most_rows=…).")
        if self.person.column in self.columns:
            raise SchemaError(
                f"The person column {self.person.column!r} is also declared as a column.",
                "Remove it from the columns: who a row is about is not a feature.",
            )

    def _checked_drop(self) -> tuple[str, ...]:
        dropped = tuple(map(column_name, listed(self.drop, "drop")))
        used = [name for name in dropped if name in self.source_columns]
        if used:
            raise SchemaError(
                f"Columns are dropped and declared: {', '.join(map(repr, used))}.",
                "Remove their declarations, or take them out of `drop`.",
            )
        return tuple(dict.fromkeys(dropped))

    def _check_combinations(self) -> None:
        object.__setattr__(self, "maps", checked_maps(self.columns, self.maps))
        object.__setattr__(self, "impossible", checked_combinations(self.columns, self.maps, self.impossible))
        self.known_cells.check()

    @cached_property
    def known_cells(self) -> KnownCells:
        """Maps and impossible combinations in cells of the columns."""
        return KnownCells.of(self.columns, self.maps, self.impossible)

    @property
    def without_combinations(self) -> Schema:
        """The same facts about single columns, and none about several."""
        return replace(self, maps={}, impossible=()) if self.maps or self.impossible else self

    def _checked_target(self) -> str | None:
        labels = [name for name, column in self.columns.items() if isinstance(column, Label)]
        if len(labels) > 1:
            raise SchemaError(
                f"There are several labels: {', '.join(map(repr, labels))}.", "Declare one; make the others categories."
            )
        if self.target is None:
            return labels[0] if labels else None
        target = column_name(self.target)
        column = self.columns.get(target)
        if labels and target != labels[0]:
            raise SchemaError(
                f"The target is {target!r}, but {labels[0]!r} is declared a label.",
                "Remove the target, or make the label a category.",
            )
        if column is None or isinstance(column, Category):
            raise SchemaError(
                f"The target {target!r} is not declared as a label or a number.",
                'Declare it with kind = "label" or kind = "number".',
            )
        if isinstance(column, Number) and column.has_indicator:
            raise SchemaError(
                f'The target {target!r} has missing = "indicator", which is for features.',
                "Give a number or leave `missing` out.",
            )
        return target

    def _check_names(self, encoding: Encoding) -> None:
        origin: dict[str, str] = {}
        for column, block in zip(self.features, self.blocks(encoding), strict=True):
            for name in block.names:
                if name in origin:
                    raise SchemaError(
                        f"Columns {origin[name]!r} and {column!r} both become {name!r} when encoded.",
                        "Rename one of the columns.",
                    )
                origin[name] = column

    @cached_property
    def features(self) -> Mapping[str, Column]:
        """All columns but the target."""
        return MappingProxyType({name: column for name, column in self.columns.items() if name != self.target})

    @property
    def label(self) -> str | None:
        """The name of the label column; None if there is none (the target may be a number)."""
        return self.target if self.target is not None and isinstance(self.columns[self.target], Label) else None

    @property
    def classes(self) -> tuple[Level, ...]:
        """The classes of the label in the order of their codes."""
        return self._label_facts().levels

    @property
    def source_columns(self) -> tuple[str, ...]:
        """Every column that the schema knows of a data source: those declared, and the person column."""
        return (*self.columns, *([self.person.column] if self.person else []))

    def blocks(self, encoding: Encoding) -> tuple[Block, ...]:
        """The layout of every feature."""
        checked = checked_encoding(encoding)
        if checked not in self._layouts:
            self._layouts[checked] = tuple(block_of(name, column, checked) for name, column in self.features.items())
        return self._layouts[checked]

    @cached_property
    def _layouts(self) -> dict[Encoding, tuple[Block, ...]]:
        """What `blocks` returned, by encoding: a fit asks many times."""
        return {}

    def names(self, encoding: Encoding = "scaled") -> tuple[str, ...]:
        """The names of the encoded columns."""
        return tuple(name for block in self.blocks(encoding) for name in block.names)

    def bounds(self, encoding: Encoding = "scaled") -> tuple[Floats, Floats]:
        """The least and greatest value of every encoded column."""
        blocks = self.blocks(encoding)
        low = np.array([value for block in blocks for value in block.low], dtype=np.float64)
        return low, np.array([value for block in blocks for value in block.high], dtype=np.float64)

    def norm_bound(self, encoding: Encoding = "scaled") -> float:
        """The largest Euclidean norm that an encoded row can have, exact up to one rounding upwards."""
        return norm_rounded_up(self.blocks(encoding))

    def sum_bound(self, encoding: Encoding = "scaled") -> float:
        """The largest sum of absolute values that an encoded row can have, exact up to one rounding upwards."""
        return sum_rounded_up(self.blocks(encoding))

    def decode_label(self, label_codes: npt.ArrayLike) -> npt.NDArray[Any]:
        """The classes that codes stand for."""
        classes = self._label_facts().levels
        positions = np.asarray(label_codes)
        if positions.dtype.kind not in "iu" or (
            positions.size and not 0 <= positions.min() <= positions.max() < len(classes)
        ):
            raise InvalidParameter(
                "Label codes are not whole numbers within the classes.", f"Give codes from 0 to {len(classes) - 1}."
            )
        mixed = len({type(level) for level in classes}) > 1
        decoded: npt.NDArray[Any] = np.array(classes, dtype=object if mixed else None)[positions]
        return decoded

    def encode_target(self, table: object) -> Codes | Floats:
        """The target column of a table: codes of a label, or a number in its own unit, clipped to its bounds."""
        if self.target is None:
            raise SchemaError(
                "The schema declares no target.", 'Declare a column with kind = "label", or a section [target].'
            )
        column = as_table(table, [self.target]).column(self.target)
        facts = self.columns[self.target]
        if isinstance(facts, Number):
            return clipped_numbers(column, facts, self.target)[0]
        return codes(column, facts, self.target)

    def check_person(self, table: object) -> None:
        """Raise PersonRowsExceeded where a person has more rows than declared; `table` may also be an iterator of tables (batches).

        Raise DataError for an array without column names: nothing in it says whose a row is.
        """
        if self.person is None:
            return
        name = self.person.column
        parts = table if isinstance(table, Iterator) else iter([table])
        persons = (as_table(part, [name], names_arrays=False).column(name) for part in parts)
        if most_rows_of_one(persons, name) > self.person.bound:
            raise PersonRowsExceeded(
                f"Some person has more rows than the {self.person.bound} declared.",
                "Keep fewer first, with sudare.frames.kept_persons; learners do so by themselves.",
            )

    def _label_facts(self) -> Label:
        facts = self.columns[self.label] if self.label is not None else None
        if not isinstance(facts, Label):
            raise SchemaError("The schema declares no label.", 'Declare a column with kind = "label" and its classes.')
        return facts

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Schema:
        """The schema that nested dictionaries describe, as TOML or JSON give them."""
        return cls(**read_document(document))

    def to_dict(self) -> dict[str, Any]:
        """Nested dictionaries of plain types; `Schema.from_dict` gives the same schema back."""
        return write_document(self.columns, self.target, self.person, self.drop, self.maps, self.impossible)

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """The schema that a TOML text describes."""
        return cls.from_dict(parse_toml(text))

    def to_toml(self) -> str:
        """A TOML text; `Schema.from_toml` gives the same schema back."""
        return tomli_w.dumps(self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schema:
        """The schema in a TOML file."""
        content = attempt(lambda: first_bytes(path, LARGEST_FILE_BYTES + 1))
        if content is None:
            raise SchemaError(
                f"The schema file {os.fspath(path)!r} cannot be read.", "Check the path and the permissions."
            )
        text = attempt(lambda: content.decode("utf-8-sig"))
        if text is None or len(content) > LARGEST_FILE_BYTES:
            raise SchemaError(
                f"{os.fspath(path)!r} is not a schema: not UTF-8 text, or too large.", "Give a TOML file."
            )
        return cls.from_toml(text)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the TOML file; whoever reads meanwhile sees the old file or the new one, never a part."""
        write_atomically(Path(path), self.to_toml().encode())

    @staticmethod
    def draft(table: object, has_header: bool | None = None) -> str:
        """A first TOML text from column names and types (a table, or a pyarrow schema), every bound left as a question.

        Nothing but names and types is taken from the table. `Schema.from_toml` refuses the text until it is filled in.
        Names that look like values are refused, as they may be the first record of a file without a header; `has_header=True`
        says that they are names.
        """
        if isinstance(table, pa.Schema):
            held = dict(zip(unique_names(table.names), map(holds, table.types), strict=True))
        else:
            held = {name: held_by(table, name) for name in column_names(table)}
        refuse_values_as_names(list(held), has_header)
        return draft_text({column_name(name): what for name, what in held.items()})

    @property
    def digest(self) -> str:
        """SHA-256 of the facts in canonical JSON; the order of the columns is one of them."""
        document = self.to_dict()
        document["columns"] = list(document["columns"].items())
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        same_columns = list(self.columns.items()) == list(other.columns.items())
        return same_columns and self._beside_columns == other._beside_columns

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Computed once: what a schema allows is looked up by it, and its columns may be many."""
        return hash((tuple(self.columns.items()), self._beside_columns))

    @cached_property
    def _beside_columns(self) -> tuple[Any, ...]:
        """All other facts, of which two schemas are equal that have the same; text tells 1 from true."""
        maps = repr(sorted((name, [*values.items()]) for name, values in self.maps.items()))
        return self.person, self.target, self.drop, maps, repr([[*each.items()] for each in self.impossible])

    def __reduce__(self) -> tuple[type[Schema], tuple[Any, ...]]:
        maps = {name: dict(values) for name, values in self.maps.items()}
        return Schema, (
            dict(self.columns),
            self.person,
            self.target,
            self.drop,
            maps,
            tuple(map(dict, self.impossible)),
        )

    def __repr__(self) -> str:
        target = f", target {self.target!r}" if self.target else ""
        return f"<Schema of {len(self.columns)} columns{target}, digest {self.digest[:12]}>"


def most_rows_of_one(columns: Iterable[pa.ChunkedArray], name: str) -> int:
    """The number of rows of the person with most rows; persons may be spread over the columns given, whose types may differ."""
    counts: list[pa.Table] = []
    for column in columns:
        identifiers = pc.dictionary_decode(column) if pa.types.is_dictionary(column.type) else column
        if pa.types.is_floating(identifiers.type):
            identifiers = pc.if_else(pc.is_nan(identifiers), pa.scalar(None, identifiers.type), identifiers)
        if identifiers.null_count:
            raise nobody_named(name)
        counted = identifiers.value_counts()
        persons = canonical_texts(counted.field("values"))
        counts.append(pa.table([persons, counted.field("counts")], names=["person", "rows"]))
    if not counts:
        return 0
    together = pa.concat_tables(counts).group_by("person").aggregate([("rows", "sum")])
    return int(pc.max(together["rows_sum"]).as_py() or 0)


def refuse_values_as_names(names: Sequence[str], has_header: bool | None) -> None:
    """Raise SchemaError where a column's name looks like a value, and nobody said that it is a name. Positions from 0 or 1 tell nothing."""
    positions = [list(map(str, range(start, start + len(names)))) for start in (0, 1)]
    if has_header is True or list(names) in positions:
        return
    place = next((place for place, name in enumerate(names, 1) if looks_like_a_value(name)), None)
    if place is not None:
        raise SchemaError(
            f"The name of column {place} looks like a value: it may come from the first record of a table without a header.",
            "Read the table without a header, or name its columns. If these are names, say so: has_header=True, or --header.",
        )


def held_by(table: object, name: str) -> str:
    """What a column holds, in words; also for columns that no schema could declare as they are."""
    found = attempt(lambda: as_table(table, [name]))
    return holds(found.column(name).type) if isinstance(found, Table) else "values of several types"
