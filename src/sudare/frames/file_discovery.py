"""Files with records, on this machine or in an object store: which ones a path, folder or pattern stands for, and how they are opened.

Messages name a file as its owner did, without what logs in.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

from sudare.errors import SourceUnreadable
from sudare.frames.table_addresses import WILDCARD, ObjectAddress, is_address
from sudare.optional_packages import optional_package
from sudare.schema.lazy_pyarrow import pa
from sudare.schema.table_from_any_frame import attempt

PARQUET_ENDINGS: Final = (".parquet", ".pq")
CSV_ENDINGS: Final = (".csv", ".tsv", ".csv.gz", ".csv.bz2", ".csv.zst")
DELTA_LOG: Final = "_delta_log"

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False, repr=False)
class StoredObject(os.PathLike[str]):
    """A file of a file system of pyarrow; as text it is what messages call it."""

    path: str
    filesystem: Any
    shown: str

    def __fspath__(self) -> str:
        return self.shown

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


DataFile = Path | StoredObject


def is_parquet(file: DataFile) -> bool:
    return file.name.lower().endswith(PARQUET_ENDINGS)


def opened_bytes(file: DataFile) -> Any:
    """What pyarrow's readers take for the file: read at any place."""
    return file if isinstance(file, Path) else file.filesystem.open_input_file(file.path)


def opened_stream(file: DataFile) -> Any:
    """The bytes of a file from its beginning, unpacked where they are compressed."""
    if isinstance(file, Path):
        return pa.input_stream(file, compression="detect")
    return file.filesystem.open_input_stream(file.path, compression="detect")


def is_read_by_python(file: DataFile) -> bool:
    """Whether the bytes of a file come from a file system that is written in Python."""
    import pyarrow.fs

    filesystem = None if isinstance(file, Path) else file.filesystem
    while isinstance(filesystem, pyarrow.fs.SubTreeFileSystem):
        filesystem = filesystem.base_fs
    return isinstance(filesystem, pyarrow.fs.PyFileSystem)


def files_at(path: str | os.PathLike[str]) -> list[DataFile]:
    """The files of this machine that a path or pattern stands for, in the order of their names."""
    place = Path(path)
    if place.is_dir():
        found = sorted(file for file in place.iterdir() if is_parquet(file))
    elif place.exists():
        found = [place]
    else:
        found = sorted(Path(name) for name in glob.glob(os.fspath(path)))
    if not found and is_address(str(place).replace(":/", "://", 1)):
        raise SourceUnreadable(
            "An address was given as a path.",
            "Give it as text; or a database as sudare.frames.SqlSource(address, query).",
        )
    # Opening a pipe would wait until somebody writes to it, and what it gave could not be read again.
    if any(file.exists() and not file.is_file() for file in found):
        raise SourceUnreadable(
            f"What is at {os.fspath(path)!r} is not a file.",
            "Give the path of a table; write what a pipe gives to one.",
        )
    return _known(list(found), os.fspath(path))


def objects_at(address: ObjectAddress, filesystem: Any = None) -> list[DataFile]:
    """The objects that an address stands for, in the order of their keys."""
    store, root = (filesystem, address.place) if filesystem is not None else opened_store(address)
    key = address.key.strip("/")
    found = asked_of_store(address, lambda: _listed(store, f"{root}/{key}" if key else root))
    shown = {path: str(address.at(path.removeprefix(f"{root}/"))) for path in found}
    return _known([StoredObject(path, store, shown[path]) for path in sorted(found)], str(address))


def _listed(store: Any, path: str) -> list[str]:
    """The paths of the files that a path or pattern in a store stands for."""
    import pyarrow.fs

    info = store.get_file_info(path)
    if info.type == pyarrow.fs.FileType.File:
        return [path]
    if info.type == pyarrow.fs.FileType.Directory:
        inside = store.get_file_info(pyarrow.fs.FileSelector(path))
        return [each.path for each in inside if each.is_file and each.path.lower().endswith(PARQUET_ENDINGS)]
    wildcard = WILDCARD.search(path)
    if wildcard is None:
        return []
    folder, parts = path[: wildcard.start()].rpartition("/")[0], path.split("/")
    below = store.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True, recursive=True))
    return [each.path for each in below if each.is_file and _matches(each.path.split("/"), parts)]


def _matches(names: list[str], patterns: list[str]) -> bool:
    return len(names) == len(patterns) and all(map(fnmatch.fnmatchcase, names, patterns))


def _known(found: list[DataFile], shown: str) -> list[DataFile]:
    if not found:
        raise SourceUnreadable(
            f"There are no data files at {shown!r}.", "Check the path; a folder must hold Parquet files."
        )
    if not all(file.name.lower().endswith(PARQUET_ENDINGS + CSV_ENDINGS) for file in found):
        raise SourceUnreadable(
            f"{shown!r} is not a Parquet or CSV file by its name.",
            f"Known are {', '.join(PARQUET_ENDINGS + CSV_ENDINGS)}; databases are read with sudare.frames.SqlSource(address, query).",
        )
    return found


def state_of(files: list[DataFile]) -> tuple[Any, ...]:
    """What changes when one of the files is written again: sizes, times, inodes."""
    return tuple(map(_state, files))


def _state(file: DataFile) -> Any:
    if isinstance(file, Path):
        status = attempt(file.stat)
        return None if status is None else (str(file), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    info = attempt(lambda: file.filesystem.get_file_info(file.path))
    return None if info is None else (info.path, info.size, info.mtime_ns)


# Object stores


def opened_store(address: ObjectAddress) -> tuple[Any, str]:
    """A file system that reads the store, and where the place of the address is in it."""
    import pyarrow.fs

    if address.store == "memory":
        fsspec = optional_package(
            "fsspec",
            "This kind of address is read by fsspec, which is not installed.",
            "Install it: pip install fsspec",
        )
        return file_system(asked_of_store(address, lambda: fsspec.filesystem("memory"))), f"/{address.place}"
    opened: tuple[Any, str] = asked_of_store(address, lambda: pyarrow.fs.FileSystem.from_uri(address.connection))
    return opened


def file_system(given: Any) -> Any:
    """A file system of pyarrow, from one of its own or one of fsspec."""
    import pyarrow.fs

    if isinstance(given, pyarrow.fs.FileSystem):
        return given
    made = attempt(lambda: pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(given)))
    if made is None or not hasattr(given, "protocol"):
        raise SourceUnreadable("`filesystem` is not one of pyarrow.fs or fsspec.", "Leave it out, or give such a one.")
    return made


def asked_of_store(address: ObjectAddress | str, call: Callable[[], Found]) -> Found:
    """What a store answers. Its errors quote requests and secrets, so that only their class is told."""
    try:
        return call()
    except (MemoryError, SourceUnreadable):
        raise
    except Exception as error:  # noqa: BLE001 - stores fail in their own ways
        failed = type(error).__name__
    raise SourceUnreadable(
        f"{str(address)!r} cannot be reached ({failed}).",
        "Check address, network and credentials; those of the environment are used where the address has none.",
    )
