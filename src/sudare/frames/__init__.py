"""Sources of records: files, folders, databases and frames, read in batches with bounded memory."""

from typing import TYPE_CHECKING

from sudare.lazy_exports import opened_on_use

if TYPE_CHECKING:
    from sudare.frames.sources import batches, column_types, read, row_count
else:
    __getattr__, __dir__ = opened_on_use(__name__, {"sources": "batches column_types read row_count"})

__all__ = ["batches", "column_types", "read", "row_count"]
