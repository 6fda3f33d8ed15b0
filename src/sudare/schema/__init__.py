"""Public facts about columns: bounds, categories, classes, units, row norm; and an encoder that never looks at the data."""

from sudare.schema.columns import Category, Column, Label, Level, Number, Person
from sudare.schema.declaration import Schema
from sudare.schema.encoder import Counted, Encoded, SchemaEncoder, counted, encode
from sudare.schema.layout import ENCODINGS, Encoding
from sudare.schema.table import Table, as_table

__all__ = [
    "ENCODINGS",
    "Category",
    "Column",
    "Counted",
    "Encoded",
    "Encoding",
    "Label",
    "Level",
    "Number",
    "Person",
    "Schema",
    "SchemaEncoder",
    "Table",
    "as_table",
    "counted",
    "encode",
]
