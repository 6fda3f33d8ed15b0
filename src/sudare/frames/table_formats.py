"""Tables that are lists of files: Datasets of pyarrow, Delta tables and Iceberg tables, each as it was when it was opened."""

from __future__ import annotations

import functools
import os
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlparse, urlsplit

import pyarrow as pa
import pyarrow.fs

from sudare.errors import SourceUnreadable, WrongType
from sudare.frames.csv_files import declared_types
from sudare.frames.file_discovery import PARQUET_ENDINGS, StoredObject, asked_of_store, opened_store, state_of
from sudare.frames.record_source import (
    FileList,
    Origin,
    RecordSource,
    arrow_batches,
    cannot_read,
    known_source,
    named_types,
    quietly,
)
from sudare.frames.table_addresses import STORES, ObjectAddress, TableAddress, parsed
from sudare.optional_packages import optional_package
from sudare.schema import Schema
from sudare.schema.table_from_any_frame import Table, attempt


@known_source
class DatasetSource(RecordSource):
    """A Dataset of pyarrow: its fragments in their order. One that is not made of files may come in another order every time."""

    def __init__(
        self,
        dataset: Any,
        origin: Origin | None = None,
        what: str = "The dataset",
        texts: Collection[str] = (),
    ) -> None:
        self._dataset, self._what, self._texts = dataset, what, texts
        self.is_steady = hasattr(dataset, "files")
        self._origin = _files_of(dataset) if origin is None else origin

    @property
    def origin(self) -> Origin | None:
        return self._origin

    def files(self) -> list[str]:
        """The paths of its files, where it is made of files."""
        return list(self._dataset.files)

    def types(self, expected: Collection[str]) -> pa.Schema:
        return named_types(self._dataset.schema)

    def batches(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        def parts(stored: list[str]) -> Iterator[Any]:
            return iter(self._dataset.to_batches(columns=stored, batch_size=batch_rows, **self._little_ahead()))

        rows = arrow_batches(parts, self._dataset.schema.names, columns, batch_rows, schema)
        kinds = {name: kind for name, kind in declared_types(schema).items() if name in self._texts}
        return quietly((_with_types(table, kinds) for table in rows), cannot_read(self._what))

    def _little_ahead(self) -> dict[str, Any]:
        """How to scan without holding more than is looked at: fragments and row groups may be large."""
        asked: dict[str, Any] = {"batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
        if getattr(getattr(self._dataset, "format", None), "default_extname", "") == "parquet":
            from pyarrow.dataset import ParquetFragmentScanOptions

            options = {"pre_buffer": False, "use_buffered_stream": True, "buffer_size": 2**16}
            asked["fragment_scan_options"] = ParquetFragmentScanOptions(**options)
        return asked

    def row_count(self) -> int | None:
        return attempt(lambda: int(self._dataset.count_rows()))

    def state(self) -> Any:
        if not self.is_steady:
            return None
        return state_of([StoredObject(path, self._dataset.filesystem, path) for path in self._dataset.files])


def _with_types(table: Table, kinds: Mapping[str, Any]) -> Table:
    """The table with text columns read as these types. Raise WrongType where a folder has a name that cannot be read so."""
    arrow = table.arrow
    for name in [name for name in kinds if name in arrow.column_names]:
        read = attempt(functools.partial(arrow.column(name).cast, kinds[name]))
        if read is None:
            raise WrongType(
                f"Names of folders are the values of column {name!r}, and one of them cannot be read as the schema declares it.",
                "Rename that folder (figures without blanks, and a point in decimals), or declare the column as a category of text.",
            )
        arrow = arrow.set_column(arrow.column_names.index(name), name, read)
    return Table(arrow, table.origin)


def _files_of(dataset: Any) -> Origin | None:
    """The files of a dataset, or of all that it is made of; None where it is in memory, or in a file system that is not known."""
    if not hasattr(dataset, "files"):
        found = [_files_of(child) for child in getattr(dataset, "children", ())]
        return tuple(each for each in found if each is not None) or None
    filesystem, files = dataset.filesystem, list(dataset.files)
    while isinstance(filesystem, pyarrow.fs.SubTreeFileSystem):
        files = [posixpath.join(filesystem.base_path, path.lstrip("/")) for path in files]
        filesystem = filesystem.base_fs
    store = store_of(filesystem)
    if store == "file":
        return file_list(files, is_local=True)
    if not store:
        return None
    return file_list([f"{store}://{path.lstrip('/')}" for path in files], is_local=False)


def file_list(files: Sequence[str], *, is_local: bool, root: str | None = None) -> FileList:
    """Files with their common folder; a single file is its own."""
    if is_local:
        paths = [os.path.realpath(path) for path in files]
        common = paths[0] if len(paths) == 1 else os.path.commonpath([os.path.dirname(path) for path in paths] or ["/"])
    else:
        paths = [str(parsed(path)) for path in files]
        common = (
            paths[0] if len(paths) == 1 else posixpath.commonprefix([f"{posixpath.dirname(path)}/" for path in paths])
        )
        common = common if len(paths) == 1 else common.rpartition("/")[0]
    return FileList(common if root is None else root, tuple(paths), is_local)


def store_of(filesystem: Any) -> str:
    """The kind of store that a file system of pyarrow reads, as an address calls it; "file" for this machine."""
    # Of one of fsspec it is text such as py::fsspec+('s3', 's3a').
    kinds = re.findall(r"[a-z0-9]+", str(filesystem.type_name).rpartition("+")[2])
    if "file" in kinds or "local" in kinds:
        return "file"
    return next((STORES[kind] for kind in kinds if kind in STORES), "")


def hive_folder(folder: Path) -> DatasetSource:
    """A folder of folders such as month=3/, each with Parquet files; what stands in their names are columns of text, read as a schema declares them.

    A type that was guessed from all names would let one record change how the others are read.
    """
    found = sorted(
        os.path.join(place, name)
        for place, _, names in os.walk(folder)
        for name in names
        if name.lower().endswith(PARQUET_ENDINGS)
    )
    if not found:
        raise SourceUnreadable(
            f"There are no data files at {os.fspath(folder)!r}.", "Check the path; a folder must hold Parquet files."
        )
    # It loads pandas, which not everybody who opens a ledger needs.
    from pyarrow.dataset import dataset as dataset_of
    from pyarrow.dataset import partitioning

    steps = {step for path in found for step in Path(os.path.relpath(path, folder)).parent.parts}
    texts = sorted({name for name, mark, _ in (step.partition("=") for step in steps) if mark})
    by_folder = partitioning(pa.schema([(name, pa.string()) for name in texts]), flavor="hive")
    dataset = attempt(
        lambda: dataset_of(found, format="parquet", partitioning=by_folder, partition_base_dir=os.fspath(folder))
    )
    if dataset is None:
        raise SourceUnreadable(
            f"The files below {os.fspath(folder)!r} cannot be read as one table.",
            "Keep those together that are parts of one.",
        )
    return DatasetSource(dataset, os.path.join(os.getcwd(), folder), repr(os.fspath(folder)), texts)


# Delta


def delta_table(address: TableAddress) -> RecordSource:
    """A Delta table at a path or in an object store, in its newest version."""
    deltalake = optional_package(
        "deltalake",
        "Delta tables are read by a package that is not installed.",
        "Run: pip install 'sudare[delta]'. Nothing was charged.",
    )
    root = address.root
    place = _uri(root) if isinstance(root, ObjectAddress) else os.path.realpath(root)
    options = _delta_options(root) if isinstance(root, ObjectAddress) else {}
    opened = asked_of_store(f"delta:{root}", lambda: deltalake.DeltaTable(place, storage_options=options or None))
    return delta_source(opened, opened_store(root) if isinstance(root, ObjectAddress) else None, root)


def delta_source(
    table: Any, store: tuple[Any, str] | None = None, root: str | ObjectAddress | None = None
) -> RecordSource:
    """The files that a Delta table has in the version it was opened in. Raise SourceUnreadable where some of their rows are deleted."""
    place: Any = _place(table.table_uri.rstrip("/")) if root is None else root
    filesystem = None
    if store is not None and isinstance(place, ObjectAddress):
        filesystem = pyarrow.fs.SubTreeFileSystem(f"{store[1]}/{place.key.strip('/')}", store[0])
    elif isinstance(place, str):
        place = os.path.realpath(place)
        filesystem = pyarrow.fs.SubTreeFileSystem(place, pyarrow.fs.LocalFileSystem())
    try:
        dataset = table.to_pyarrow_dataset(filesystem=filesystem)
    except Exception as error:  # noqa: BLE001 - told by its class: texts of libraries may hold addresses
        failed = type(error).__name__
        dataset = None
    if dataset is None:
        raise SourceUnreadable(
            f"The Delta table cannot be read as a list of files ({failed}): its protocol has features such as deletion vectors or column mapping.",
            "Write it without them (REORG TABLE … APPLY (PURGE)), or give a frame that its own library made.",
        )
    if not dataset.files:
        return DatasetSource(dataset, None, "The Delta table")
    listed = [posixpath.join(str(place), path.lstrip("/")) for path in dataset.files]
    origin = file_list(listed, is_local=isinstance(place, str), root=str(place))
    return DatasetSource(dataset, origin, "The Delta table")


def _place(uri: str) -> Any:
    """Where a library says that a file is: a path, or an address in an object store."""
    return unquote(uri.removeprefix("file://")) if uri.startswith("file://") else parsed(uri)


def _uri(address: ObjectAddress) -> str:
    return f"{address.store}://{address.place}/{address.key.strip('/')}"


def _delta_options(address: ObjectAddress) -> dict[str, str]:
    """How to get in, in the words of deltalake; what is not in the address is taken from the environment."""
    parts = urlsplit(address.connection)
    asked = dict(parse_qsl(parts.query))
    if address.store != "s3":
        if address.has_secrets:
            raise SourceUnreadable(
                "A Delta table in this store cannot be opened with what its address holds.",
                "Set the store's credentials in the environment, or give a DeltaTable.",
            )
        return {}
    known = {
        "AWS_ACCESS_KEY_ID": unquote(parts.username or ""),
        "AWS_SECRET_ACCESS_KEY": unquote(parts.password or ""),
        "AWS_REGION": asked.get("region", ""),
        "AWS_ENDPOINT_URL": f"{asked.get('scheme', 'https')}://{asked['endpoint_override']}"
        if "endpoint_override" in asked
        else "",
        "AWS_ALLOW_HTTP": "true" if asked.get("scheme") == "http" else "",
    }
    return {name: value for name, value in known.items() if value}


# Iceberg


@known_source
class IcebergSource(RecordSource):
    """An Iceberg table as it is in the snapshot it was opened in: its files one after another, in the order of their names."""

    is_steady = True

    def __init__(self, table: Any) -> None:
        self._table = table
        self._snapshot = getattr(table.current_snapshot(), "snapshot_id", None)
        self._files = asked_of_store("iceberg:…", lambda: tuple(sorted(self._tasks())))
        self._origin = _files_of_iceberg(table.location(), self._files)

    def _tasks(self) -> dict[str, Any]:
        return {task.file.file_path: task for task in self._table.scan(snapshot_id=self._snapshot).plan_files()}

    @property
    def origin(self) -> Origin | None:
        return self._origin

    def types(self, expected: Collection[str]) -> pa.Schema:
        return named_types(self._table.schema().as_arrow())

    def batches(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        written = [field.name for field in self._table.schema().fields]
        rows = arrow_batches(self._parts, written, columns, batch_rows, schema)
        return quietly(rows, cannot_read("The Iceberg table"))

    def _parts(self, stored: list[str]) -> Iterator[Any]:
        from pyiceberg.io.pyarrow import ArrowScan

        scan = self._table.scan(selected_fields=tuple(stored), snapshot_id=self._snapshot)
        reader = ArrowScan(self._table.metadata, self._table.io, scan.projection(), scan.row_filter)
        tasks = self._tasks()
        for path in self._files:
            yield from reader.to_record_batches([tasks[path]])


def _files_of_iceberg(location: str, files: Sequence[str]) -> FileList:
    """The files of a table, below its location. Raise SourceUnreadable where nobody could tell which account pays for them."""
    root, found = attempt(lambda: _read_by_pyiceberg(location)), attempt(lambda: list(map(_read_by_pyiceberg, files)))
    if root is None or found is None or not all(isinstance(file, type(root)) for file in found):
        raise SourceUnreadable(
            "The Iceberg table has files at places of several kinds, or where tables are not read from.",
            "Keep all of them in one folder of this machine, or in one object store (s3://, gs://, abfs://).",
        )
    is_local = isinstance(root, str)
    place = os.path.realpath(root) if isinstance(root, str) else str(root)
    listed = [str(file) for file in found]
    return file_list(listed, is_local=is_local, root=place) if listed else FileList(place, (), is_local)


def _read_by_pyiceberg(location: str) -> str | ObjectAddress:
    """Where pyiceberg looks for a file: of a URI such as file:/visits it takes the path as it is written, per cent signs and all."""
    parts = urlparse(location)
    if parts.scheme in ("", "file"):
        return f"{parts.netloc}{parts.path}" if parts.scheme else os.path.abspath(location)
    place = parsed(location)
    if isinstance(place, ObjectAddress):
        return place
    raise ValueError


def iceberg_table(address: TableAddress) -> RecordSource:
    """An Iceberg table by the folder that holds its metadata, or by a metadata file."""
    tables = optional_package(
        "pyiceberg.table",
        "Iceberg tables are read by a package that is not installed.",
        "Run: pip install 'sudare[iceberg]'. Nothing was charged.",
    )
    location, options = _newest_metadata(address.root), {}
    if isinstance(address.root, ObjectAddress):
        options = _iceberg_options(address.root)
    opened = asked_of_store(f"iceberg:{address.root}", lambda: tables.StaticTable.from_metadata(location, options))
    return IcebergSource(opened)


def _newest_metadata(root: str | ObjectAddress) -> str:
    """The metadata file with the highest number."""
    if isinstance(root, ObjectAddress):
        if root.key.endswith(".metadata.json"):
            return _uri(root)
        store, place = opened_store(root)
        folder = f"{place}/{root.key.strip('/')}/metadata"
        chosen = pyarrow.fs.FileSelector(folder, allow_not_found=True)
        names = [info.base_name for info in asked_of_store(root, lambda: store.get_file_info(chosen))]
        return f"{_uri(root)}/metadata/{_newest(names, str(root))}"
    if root.endswith(".metadata.json"):
        return os.path.realpath(root)
    folder = os.path.join(os.path.realpath(root), "metadata")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return os.path.join(folder, _newest(names, root))


def _newest(names: Collection[str], shown: str) -> str:
    numbered = [(int(found[1]), name) for name in names if (found := re.match(r"v?(\d+)\b.*\.metadata\.json$", name))]
    if not numbered:
        raise SourceUnreadable(
            f"There is no Iceberg table at {shown!r}.", "Give the folder above `metadata`, or a metadata file."
        )
    return max(numbered)[1]


def _iceberg_options(address: ObjectAddress) -> dict[str, str]:
    """How to get in, in the words of pyiceberg."""
    found = _delta_options(address)
    words = {
        "AWS_ACCESS_KEY_ID": "s3.access-key-id",
        "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
        "AWS_REGION": "s3.region",
        "AWS_ENDPOINT_URL": "s3.endpoint",
    }
    return {words[name]: value for name, value in found.items() if name in words}
