"""A ledger's entries as text for other tools; what people wrote in them cannot become markup or formulas there."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from sudare.errors import InvalidParameter
from sudare.privacy.ledger_chain import Entry, canonical_json
from sudare.safe_text import escaped_in_json, spreadsheet_safe

Kind = Literal["json", "csv"]


def without_file_states(values: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an entry, or the terms of an account, without what was noted of the files: by that a ledger knows them again, and nobody else needs it.

    Ledgers before format 4 noted their sizes, and what tells one cut into slices from another is a digest of their bytes.
    """
    kept = {name: value for name, value in values.items() if name != "files"}
    if isinstance(kept.get("slice"), Mapping):
        kept["slice"] = {name: value for name, value in kept["slice"].items() if name != "partition"}
    return kept


def to_be_shown(entry: Entry) -> Entry:
    """An entry for others than the ledger's own tools: without what was noted of the files. Its hash is that of the whole entry."""
    return replace(entry, body=without_file_states(entry.body))


def exported(entries: Sequence[Entry], kind: Kind) -> str:
    """The entries as one JSON list, or as a table with their bodies as JSON."""
    if kind not in ("json", "csv"):
        raise InvalidParameter(f"A ledger is exported as json or csv, got {kind!r}.", "Use one of these words.")
    rows = [entry.to_dict() for entry in entries]
    if kind == "json":
        return escaped_in_json(json.dumps(rows, indent=2, ensure_ascii=False))
    text = io.StringIO()
    writer = csv.DictWriter(
        text, ["position", "time", "account", "kind", "body", "previous", "hash"], lineterminator="\n"
    )
    writer.writeheader()
    for row in rows:
        cells = {**row, "body": escaped_in_json(canonical_json(row["body"]))}
        writer.writerow({name: spreadsheet_safe(str(cell)) for name, cell in cells.items()})
    return text.getvalue()
