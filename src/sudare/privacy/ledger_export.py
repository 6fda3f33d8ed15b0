"""A ledger's entries as text for other tools; what people wrote in them cannot become markup or formulas there."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Literal

from sudare.errors import InvalidParameter
from sudare.privacy.ledger_chain import Entry, canonical_json
from sudare.safe_text import escaped_in_json, spreadsheet_safe

Kind = Literal["json", "csv"]


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
