"""Any frame as one plain table: pandas, polars, pyarrow, numpy, dictionaries of columns.

Columns are kept as Arrow arrays, in which a missing value is null whatever the frame called it (None, NaN in an
object or pandas column, pandas NA, polars null, a masked entry). Libraries quote values in their errors, so theirs
are replaced by ours outside of the `except` block: nothing of theirs stays in the chain of causes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sudare.errors import ColumnMissing, DataError, WrongType
from sudare.safe_text import normal_name
from sudare.schema.lazy_pyarrow import pa

ONE_TYPE_KINDS = ("string", "integer", "floating", "mixed-integer-float", "boolean", "decimal", "empty")

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Named columns of equal length. `table[name]` is a numpy array; `table.arrow` is the whole as a pyarrow table.

    `origin` is the path or SqlSource it was read from, where it was: whoever pays for its rows must be for that source.
    """

    arrow: pa.Table
    origin: object = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.arrow.column_names)

    @property
    def rows(self) -> int:
        return int(self.arrow.num_rows)

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """One column; missing numbers are NaN, other missing values None."""
        return np.asarray(self.column(name).to_numpy())

    def column(self, name: str) -> pa.ChunkedArray:
        """One column as Arrow array."""
        if self.arrow.schema.get_field_index(name) < 0:
            refuse_missing_columns([name], self.names)
        return self.arrow.column(name)

    def select(self, names: Sequence[str]) -> Table:
        """The table with these columns only, in this order."""
        if list(names) == self.arrow.column_names:
            return self
        refuse_missing_columns(names, self.names)
        return Table(self.arrow.select(list(names)), self.origin)

    def slice(self, start: int, rows: int) -> Table:
        """At most `rows` rows from row `start`, without copying."""
        return Table(self.arrow.slice(start, rows), self.origin)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.arrow.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"Table({self.rows} rows, {len(self.names)} columns)"


def as_table(data: object, columns: Sequence[str] | None = None, *, names_arrays: bool = True) -> Table:
    """`data` as a table.

    `columns` selects from data with named columns, and names the columns of data without names (a two-dimensional
    array, a list of rows), which must then have exactly as many; without `names_arrays` DataError is raised for these.
    """
    if isinstance(data, Table):
        return data if columns is None else data.select(columns)
    names, column_at = opened(data, columns, names_arrays=names_arrays)
    wanted = list(range(len(names)))
    if columns is not None:
        refuse_missing_columns(columns, names)
        position = {name: index for index, name in enumerate(names)}
        wanted = [position[name] for name in columns]
    arrays: list[pa.ChunkedArray] = []
    for index in wanted:
        # Names that the caller did not give may be values: a file without a header has its first row there.
        shown = repr(names[index]) if columns is not None else f"number {index + 1}"
        arrays.append(as_column(column_at(index), shown))
    if len({len(array) for array in arrays}) > 1:
        raise DataError("The columns of the table have different lengths.", "Give columns of equal length.")
    return Table(pa.table(arrays, names=[names[index] for index in wanted]))


def column_names(data: object, columns: Sequence[str] | None = None) -> tuple[str, ...]:
    """The names of the columns of a table; `columns` are those of data without names."""
    return tuple(opened(data, columns)[0])


def no_rows() -> DataError:
    """What is raised where there is nothing to learn from."""
    return DataError("The table has no rows.", "Give at least one row.")


def refuse_missing_columns(wanted: Sequence[str], present: Sequence[str]) -> None:
    """Raise ColumnMissing where wanted columns are not there, naming all of those."""
    there = set(present)
    absent = [name for name in wanted if name not in there]
    if absent:
        raise ColumnMissing(
            f"The table lacks {', '.join(map(repr, absent))}.", "Rename the columns of the table, or change the schema."
        )


def opened(
    data: object, columns: Sequence[str] | None, *, names_arrays: bool = True
) -> tuple[list[str], Callable[[int], object]]:
    """The names of the columns of `data`, and a function that gives a column by position."""
    from scipy.sparse import issparse

    names_of_arrays = columns if names_arrays else None
    if issparse(data):
        raise WrongType(
            "The table is a sparse matrix.", "Give a dense array (`.toarray()`), or a frame with named columns."
        )
    if isinstance(data, Table):
        return list(data.names), data.arrow.column
    if isinstance(data, np.ndarray) and data.dtype.names is not None:
        structured, fields = data, data.dtype.names
        return unique_names(fields), lambda index: structured[fields[index]]
    if isinstance(data, Mapping):
        mapped = list(data.values())
        return unique_names(list(data)), mapped.__getitem__
    if isinstance(data, np.ndarray | list | tuple):
        return opened_matrix(data, names_of_arrays)
    import narwhals as nw

    frame = attempt(lambda: nw.from_native(data, pass_through=True))
    if frame is None and data is not None:
        raise DataError(
            "The frame cannot be read, or two of its columns have the same name.", "Give every column its own name."
        )
    if isinstance(frame, nw.DataFrame | nw.LazyFrame):
        return opened_frame(frame, columns)
    if hasattr(data, "__arrow_c_stream__") or isinstance(data, pa.RecordBatch):
        stream: Any = data
        arrow = attempt(lambda: pa.table(stream))
        if isinstance(arrow, pa.Table):
            return unique_names(arrow.column_names), arrow.column
    return opened_matrix(data, names_of_arrays)


def opened_frame(frame: Any, columns: Sequence[str] | None) -> tuple[list[str], Callable[[int], object]]:
    """The columns of a frame of some frame library; of a lazy one only those wanted are collected."""
    import narwhals as nw

    if isinstance(frame, nw.LazyFrame):
        lazy: nw.LazyFrame[Any] = frame
        written = attempt(lambda: lazy.collect_schema().names()) or []
        names = dict(zip(unique_names(written), written, strict=True))
        refuse_missing_columns(columns or [], list(names))
        # Polars takes "*" and "^…$" for patterns, also where columns are called so.
        if columns is not None and not any(name == "*" or name.startswith("^") for name in columns):
            lazy = lazy.select([names[name] for name in columns])
        frame = attempt(lazy.collect)
        if frame is None:
            raise DataError("The lazy frame cannot be collected.", "Collect it first, and see what is wrong.")
    eager: Any = frame
    return unique_names(attempt(lambda: list(eager.columns))), lambda index: eager[:, index].to_native()


def opened_matrix(data: Any, columns: Sequence[str] | None) -> tuple[list[str], Callable[[int], object]]:
    """The columns of an array or a list of rows, under the names the caller gave."""
    matrix = attempt(lambda: as_matrix(data))
    if matrix is None or matrix.ndim != 2:
        raise DataError(
            "The data are not a table: not a frame, a mapping of columns, or an array with two dimensions.",
            "Give a frame, a dictionary of columns, or a two-dimensional array. A file or database is read first: "
            "read(source, schema=…) from sudare.frames. Reshape your data: array.reshape(-1, 1) is one column.",
        )
    if columns is None:
        raise DataError(
            "An array has no column names.", "Name them with columns=[…], or give a frame or a dictionary of columns."
        )
    if len(columns) != matrix.shape[1]:
        raise DataError(
            f"The array has {matrix.shape[1]} columns where {len(columns)} are expected.",
            "Give the expected columns in their order, or a frame with named columns.",
        )
    return list(columns), lambda index: matrix[:, index]


def as_matrix(data: Any) -> npt.NDArray[Any] | None:
    """An array-like as an array; the entries of lists keep their types."""
    if isinstance(data, list | tuple):
        return np.array(data, dtype=object)
    if isinstance(data, np.ndarray):
        return data
    return np.asarray(data) if hasattr(data, "__array__") else None


def unique_names(names: Sequence[object] | None) -> list[str]:
    """`names` as text in their one spelling. Raise DataError if two are the same, blanks around them and the spelling of accents apart."""
    texts = None if names is None else [normal_name(str(name)) for name in names]
    if texts is None or len(set(texts)) < len(texts):
        raise DataError("Two columns of the table have the same name.", "Give every column a name of its own.")
    return texts


def mixed_types(shown: str) -> WrongType:
    """What is raised where a column holds no plain values of one type."""
    return WrongType(
        f"Column {shown} holds values of several types, or of a type that is not supported.",
        "Convert it to numbers, text or booleans throughout.",
    )


def as_column(values: Any, shown: str) -> pa.ChunkedArray:
    """One column as Arrow array; `shown` is how errors call it."""
    array = attempt(lambda: arrow_array(values))
    if array is None:
        raise mixed_types(shown)
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def arrow_array(values: Any) -> pa.Array | pa.ChunkedArray | None:
    """Values of one type as Arrow array; None if they are not."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    import narwhals as nw

    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        if series.dtype != nw.Object:
            return series.to_arrow()
        values = series.to_numpy()
    if isinstance(values, list | tuple):
        entries = np.empty(len(values), dtype=object)
        entries[:] = values
        values = entries
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    entries = np.ma.getdata(values)
    if entries.ndim != 1:
        return None
    if entries.dtype == object:
        return array_of_objects(entries if mask is None else without(entries, mask))
    if entries.dtype == np.longdouble:
        entries = entries.astype(np.float64)
    entries = entries.astype(entries.dtype.newbyteorder("="), copy=False)
    return pa.array(entries, mask=mask, from_pandas=True)


def without(entries: npt.NDArray[np.object_], mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.object_]:
    """A copy with None where the mask is set."""
    kept = entries.copy()
    kept[mask] = None
    return kept


def array_of_objects(entries: npt.NDArray[np.object_]) -> pa.Array | None:
    """Python objects of one type as Arrow array; None if the types are mixed (True among numbers, text among dates)."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(entries, skipna=True)
    if kind not in ONE_TYPE_KINDS:
        return None if kind.startswith("mixed") else pa.array(entries, from_pandas=True)
    if kind == "integer":
        try:
            return pa.array(entries, from_pandas=True)
        except OverflowError:
            # As floats, different long numbers would become one.
            return pa.array([None if pd.isna(entry) else Decimal(int(entry)) for entry in entries])
    return pa.array(entries, from_pandas=True)


def attempt(call: Callable[[], Result]) -> Result | None:
    """What `call` returns, or None if it fails: the error is dropped because it may quote values."""
    try:
        return call()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - any library may fail in its own way on what it is given
        return None
