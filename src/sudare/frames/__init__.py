"""Sources of records: files, folders, object stores, table formats, databases and frames, read in batches with bounded memory."""

from typing import TYPE_CHECKING

from sudare.lazy_exports import opened_on_use

if TYPE_CHECKING:
    from sudare.frames.csv_dialects import CsvFile
    from sudare.frames.databases import SqlSource
    from sudare.frames.person_joins import PersonJoin
    from sudare.frames.person_rows import kept_persons
    from sudare.frames.row_reader import checked_rows
    from sudare.frames.rows import Rows
    from sudare.frames.sources import batches, column_types, read, row_count, source
    from sudare.frames.table_slices import Slice
else:
    __getattr__, __dir__ = opened_on_use(
        __name__,
        {
            "csv_dialects": "CsvFile",
            "databases": "SqlSource",
            "person_joins": "PersonJoin",
            "person_rows": "kept_persons",
            "row_reader": "checked_rows",
            "rows": "Rows",
            "table_slices": "Slice",
            "sources": "batches column_types read row_count source",
        },
    )

__all__ = [
    "CsvFile",
    "PersonJoin",
    "Rows",
    "Slice",
    "SqlSource",
    "batches",
    "checked_rows",
    "column_types",
    "kept_persons",
    "read",
    "row_count",
    "source",
]
