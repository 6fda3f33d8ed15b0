"""What a release of perturbed records may say: which perturbations, how many rows, and where they are."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sudare.errors import InvalidParameter, SudareError
from sudare.perturbation.column_perturbation import Perturbation
from sudare.perturbation.epsilon_split import RecordPlan, perturbation_of
from sudare.perturbation.one_column_per_record import ANSWERED, AnsweredColumn
from sudare.perturbation.parquet_writer import LARGEST_PAGE_BYTES, FileLayout
from sudare.perturbation.perturbed_table import described
from sudare.privacy.declared_columns import read_columns
from sudare.privacy.ledger_chain import canonical_json
from sudare.privacy.release_content import Content, unfit
from sudare.privacy.release_file import LARGEST_FILE_BYTES, LARGEST_HEADER_BYTES
from sudare.report.number_formatting import whole
from sudare.schema import Schema

ROWS_TENSOR: Final = "rows"
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_MEMORY: Final = re.compile("[0-9a-f]{32}")
# Machines may differ in the last digits of a noise scale.
_SAME: Final = 1e-6


@dataclass(frozen=True)
class Repeated:
    """Which collection of a memory of first answers a release is, and how many persons answered for the first time."""

    memory: str
    collection: int
    first: int

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Repeated | None:
        """What checked parameters of a release say; None where no answers are given again."""
        written = parameters.get("repeated")
        return None if written is None else cls(**written)


def check_repeated(parameters: Mapping[str, Any], declared: Schema) -> None:
    """Raise ReleaseMalformed unless what a release says of repeated answers can be."""
    if "repeated" not in parameters:
        return
    repeated, rows = Repeated.of(parameters), parameters["rows"]
    is_one = (
        repeated is not None
        and [type(each) for each in vars(repeated).values()] == [str, int, int]
        and _MEMORY.fullmatch(repeated.memory)
        and 1 <= repeated.collection < 2**31
        and 0 <= repeated.first <= rows
        and (repeated.collection > 1 or repeated.first == rows)
    )
    if not is_one or declared.person is None or declared.person.most_rows != 1:
        raise unfit("what it says of repeated answers cannot be")


def fits_inside(layout: FileLayout) -> bool:
    """Whether a release holds so many rows; if not, they leave in a file of their own that it names."""
    return layout.size <= LARGEST_FILE_BYTES - LARGEST_HEADER_BYTES - 2**10


def check_rows(content: Content, perturbations: Mapping[str, Perturbation]) -> None:
    """Raise ReleaseMalformed unless the rows are the Parquet file that the columns give, or are too many for a release and elsewhere."""
    parameters, tensors = content.parameters, content.tensors
    layout, digest = FileLayout.of(perturbations, parameters["rows"]), parameters.get("rows_digest")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise unfit("its parameters are not those of its learner")
    if list(tensors) != ([ROWS_TENSOR] if fits_inside(layout) else []) or layout.repeated_names:
        raise unfit("its tensors are not those of its columns")
    if layout.largest_page > LARGEST_PAGE_BYTES:
        raise unfit("its rows are more than a file of rows holds")
    for file in tensors.values():
        if file.dtype != np.uint8 or file.ndim != 1 or not layout.holds(file):
            raise unfit("its rows are not the Parquet file that its columns give")
        if hashlib.sha256(file.tobytes()).hexdigest() != digest:
            raise unfit("its rows are not those that its manifest names")


def written_perturbations(parameters: Mapping[str, Any]) -> dict[str, Perturbation]:
    """The perturbations that a release names, if they are just what its columns, kinds and ε give."""
    written, columns = parameters.get("perturbations"), read_columns(parameters).columns
    if not isinstance(written, list) or not len(columns) <= len(written) <= len(columns) + 1:
        raise unfit("its perturbations are not those of its columns")
    made: dict[str, Perturbation] = {}
    for (name, column), facts in zip(columns.items(), written, strict=False):
        try:
            made[name] = perturbation_of(column, facts["kind"], facts["epsilon"])
            same = is_same(described(made[name]), facts)
        except (SudareError, TypeError, KeyError, AttributeError):
            same = False
        if not same:
            raise unfit("its perturbations are not those of its columns")
    if len(written) > len(columns):
        answered = AnsweredColumn(list(columns))
        if ANSWERED in made or len(made) < 2 or described(answered) != written[-1]:
            raise unfit("its perturbations are not those of its columns")
        made[ANSWERED] = answered
    return made


def is_same(facts: Mapping[str, Any], written: Mapping[str, Any]) -> bool:
    """Whether a written description is that of a perturbation, up to last digits that machines may compute differently."""
    return set(facts) == set(written) and all(
        math.isclose(fact, written[name], rel_tol=_SAME)
        if type(fact) is float and type(written[name]) is float and name != "epsilon"
        else type(fact) is type(written[name]) and fact == written[name]
        for name, fact in facts.items()
    )


def check_size(layout: FileLayout) -> None:
    """Raise InvalidParameter unless the perturbed rows can be written; called before anything is charged."""
    if layout.repeated_names:
        raise InvalidParameter(
            f"Two columns of the released rows would be called {layout.repeated_names[0]!r}.",
            "Rename one of the declared columns: sets of categories have a column named COLUMN=CATEGORY for each.",
        )
    if layout.largest_page > LARGEST_PAGE_BYTES:
        raise InvalidParameter(
            f"{whole(layout.rows)} rows of a column take {layout.largest_page >> 20} MiB, and a file of rows holds "
            f"{LARGEST_PAGE_BYTES >> 20} of each.",
            "Perturb fewer rows at a time. Nothing was charged.",
        )


def check_manifest(plan: RecordPlan, declared: Schema) -> None:
    """Raise InvalidParameter unless a release has room for the declared columns; called before anything is charged."""
    facts = [described(each) for each in plan.perturbations.values()]
    if len(canonical_json(canonical_json([declared.to_dict(), facts]))) > LARGEST_HEADER_BYTES - 2**16:
        raise InvalidParameter(
            "The declared columns are too many to be written into a release.",
            "Declare fewer columns or categories, or perturb in parts. Nothing was charged.",
        )
