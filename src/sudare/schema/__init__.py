"""Public facts about columns: bounds, categories, classes, units, row norm; and an encoder that never looks at the data."""

from typing import TYPE_CHECKING

from sudare.lazy_exports import opened_on_use

if TYPE_CHECKING:
    from sudare.schema.columns import Category, Column, Label, Level, Number, Person
    from sudare.schema.combinations import Span
    from sudare.schema.dates import Date, DatePart
    from sudare.schema.declaration import Schema
    from sudare.schema.encoder import Counted, Encoded, SchemaEncoder, counted, encode
    from sudare.schema.encodings import ENCODINGS, Encoding
    from sudare.schema.table_from_any_frame import Table, as_table
else:
    __getattr__, __dir__ = opened_on_use(
        __name__,
        {
            "combinations": "Span",
            "columns": "Category Column Label Level Number Person",
            "dates": "Date DatePart",
            "declaration": "Schema",
            "encoder": "Counted Encoded SchemaEncoder counted encode",
            "encodings": "ENCODINGS Encoding",
            "table_from_any_frame": "Table as_table",
        },
    )

__all__ = [
    "ENCODINGS",
    "Category",
    "Column",
    "Counted",
    "Date",
    "DatePart",
    "Encoded",
    "Encoding",
    "Label",
    "Level",
    "Number",
    "Person",
    "Schema",
    "SchemaEncoder",
    "Span",
    "Table",
    "as_table",
    "counted",
    "encode",
]
