"""A member's model from the document that a training leaves in its folder (`results/TASK/dictionary.json`).

The document tells patterns and weights; which columns they are about tells the schema. Nothing in it is used before it is checked: a
file may be cut off, edited, or belong to another schema.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from sudare.array_types import Floats
from sudare.dictionary.column_families import Categorical
from sudare.dictionary.estimators import FAMILIES
from sudare.dictionary.exponential_families import Family, Patterns
from sudare.dictionary.member_model import MemberModel
from sudare.dictionary.member_tables import Layout, declared_layout, levels_of
from sudare.errors import DataError
from sudare.parsing import bounded_bytes, parsed_json
from sudare.schema import Schema
from sudare.schema.table_from_any_frame import attempt

# What the arrays of a family are called, and whether all their entries are above zero. Precisions are checked as matrices.
_ARRAYS: Final[Mapping[str, Mapping[str, bool]]] = {
    "sparse_gaussian": {"means": False, "precisions": False},
    "diagonal_gaussian": {"means": False, "precisions": True},
    "poisson": {"rates": True},
    "gamma": {"shapes": True, "rates": True},
    "categorical": {"probabilities": True},
}
_ROUNDING: Final = 1e-6
# Scores of larger numbers, or of such near 0, would not be numbers, and no record above their threshold.
_LARGEST: Final = 1e100
LARGEST_FILE_BYTES: Final = 1 << 26


def read_document(path: str | os.PathLike[str]) -> Any:
    """The JSON value in a file. Raise OSError where it cannot be read, and ValueError where it is not JSON or too large."""
    content = bounded_bytes(path, LARGEST_FILE_BYTES)
    return parsed_json(content, largest_bytes=LARGEST_FILE_BYTES, most_entries=LARGEST_FILE_BYTES)


def member_model(document: object, schema: Schema, false_alarm_rate: float = 0.01) -> MemberModel:
    """The model that a training's document describes: shared patterns, own weights, and last patterns of its own if there are any."""
    fields = _mapping(document, "It")
    name = fields.get("family")
    if not isinstance(name, str) or name not in FAMILIES:
        raise _unusable("its family is not a known one")
    layout = declared_layout(schema, FAMILIES[name])
    family = _family(name, layout)
    patterns = _patterns(fields.get("patterns"), name, layout)
    weights = _numbers(fields.get("own_weights"), (len(patterns),), "own_weights")
    # Earlier versions learned one pattern at home at most, with one weight.
    for field, count in (("own_patterns", None), ("own_pattern", 1)):
        if fields.get(field) is not None:
            own = _mapping(fields[field], field)
            found = _patterns(own, name, layout, count)
            own_weights = own.get("weights") if count is None else [own.get("weight")]
            patterns = patterns.joined(found)
            weights = np.append(weights, _numbers(own_weights, (len(found),), f"{field}.weights"))
    if (weights < 0).any() or abs(weights.sum() - 1) > _ROUNDING:
        raise _unusable("its weights are not shares of one whole")
    return MemberModel(family, patterns, weights, layout.names, false_alarm_rate, schema)


def _family(name: str, layout: Layout) -> Family:
    return Categorical(levels=levels_of(layout)) if name == "categorical" else FAMILIES[name]()


def _patterns(values: object, family: str, layout: Layout, count: int | None = None) -> Patterns:
    """The arrays of a family, whose first axis is the pattern: so many, or as many as there are."""
    fields = _mapping(values, "patterns")
    size = sum(levels_of(layout)) if family == "categorical" else len(layout.names)
    arrays: dict[str, Floats] = {}
    for name, above_zero in _ARRAYS[family].items():
        has_matrices = family == "sparse_gaussian" and name == "precisions"
        shape = (size, size) if has_matrices else (size,)
        found = _numbers(fields.get(name), (count, *shape), name)
        if above_zero and not (found > 0).all():
            raise _unusable(f"`{name}` are not all above 0")
        sizes = np.abs(found)
        if (sizes > _LARGEST).any() or (above_zero and (found < 1 / _LARGEST).any()):
            raise _unusable(f"`{name}` holds numbers that no training gives")
        if has_matrices and attempt(partial(np.linalg.cholesky, found)) is None:
            raise _unusable(f"`{name}` are not positive definite")
        arrays[name], count = found, len(found)
    if family == "categorical":
        starts = np.cumsum([0, *levels_of(layout)[:-1]])
        if (np.abs(np.add.reduceat(arrays["probabilities"], starts, axis=1) - 1) > _ROUNDING).any():
            raise _unusable("its probabilities are not shares of one whole")
    return Patterns(arrays)


def _numbers(values: object, shape: tuple[int | None, ...], name: str) -> Floats:
    """Finite numbers of this shape; None is any length from one."""
    found = attempt(lambda: np.asarray(values, dtype=np.float64))
    if found is None or not np.isfinite(found).all():
        raise _unusable(f"`{name}` is missing or holds other than finite numbers")
    fits = len(found.shape) == len(shape) and all(
        there == wanted or (wanted is None and there > 0) for there, wanted in zip(found.shape, shape, strict=True)
    )
    if not fits:
        wanted = " × ".join("patterns" if length is None else str(length) for length in shape) or "one number"
        raise DataError(
            f"The dictionary does not fit the schema: `{name}` has the shape {found.shape}, not {wanted}.",
            "Give the schema that it was trained with.",
        )
    return found


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _unusable(f"{name} is not a table of fields")
    return value


def _unusable(reason: str) -> DataError:
    return DataError(
        f"The file is no dictionary of patterns: {reason}.",
        "Give the dictionary.json that a task of kind dictionary wrote at this member.",
    )
