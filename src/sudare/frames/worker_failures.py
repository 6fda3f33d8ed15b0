"""What the workers of a cluster do with a part of a source, and how they answer: with a value, never with an error.

A task that failed would be logged with its arguments, and its traceback shows records. So what went wrong comes back as a value, in the words
of the local reader, and is raised by the caller.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, NamedTuple, TypeVar

from sudare.errors import ClusterFailed, InvalidParameter, SourceUnreadable, SudareError
from sudare.frames.source_shards import Shard
from sudare.frames.sources import batches
from sudare.schema import Schema, Table

Result = TypeVar("Result")

_VERSION: Final = version("sudare")


class Failure(NamedTuple):
    """What went wrong at a worker."""

    kind: type[SudareError]
    problem: str
    remedy: str


def guarded(function: Callable[..., Result], *arguments: Any) -> Result | Failure:
    """What a function returns, or why it did not; a failure among its arguments is the answer."""
    failed = next((argument for argument in arguments if isinstance(argument, Failure)), None)
    if failed is not None:
        return failed
    try:
        return function(*arguments)
    except SudareError as error:
        return Failure(type(error), error.problem, error.remedy)
    except Exception as error:  # noqa: BLE001 - libraries quote values in their messages, so only the kind is told
        return Failure(ClusterFailed, f"A worker failed ({type(error).__name__}).", ClusterFailed.help)


def checked_answer(answer: Result | Failure) -> Result:
    """The answer of a worker. Raise what went wrong there."""
    if isinstance(answer, Failure):
        raise answer.kind(answer.problem, answer.remedy)
    return answer


@dataclass(frozen=True, eq=False, repr=False)
class WorkerReader:
    """How a worker reads a shard: what it makes of each table, and which columns that needs."""

    function: Callable[[Any], Any]
    schema: Schema | None
    columns: Sequence[str] | None
    batch_rows: int
    # The folder that the caller's path begins in, where it is not a whole path: errors tell it as it was given.
    folder: str = ""
    caller_version: str = _VERSION

    def made_of(self, shard: Any) -> Iterator[Any]:
        """What the function makes of each table."""
        try:
            yield from map(self.function, self._tables(shard))
        except SudareError as error:
            found = error
        else:
            return
        raise type(found)(found.problem.replace(self.folder, "") if self.folder else found.problem, found.remedy)

    def _tables(self, shard: Any) -> Iterator[Table]:
        if self.caller_version != _VERSION:
            raise InvalidParameter(
                f"A worker of the cluster runs sudare {_VERSION}, the caller {self.caller_version}.",
                "Install the same version everywhere: another one may give other bits.",
            )
        if not isinstance(shard, Shard):
            return batches(shard, self.columns, self.batch_rows, self.schema)
        for file in shard.files:
            if not os.path.exists(file):
                raise SourceUnreadable(
                    f"A worker of the cluster does not find {os.fspath(file)!r}.",
                    "Workers read the files themselves: put them where all see them under the same path.",
                )
        return shard.tables(self.columns, self.batch_rows, self.schema)

    def __repr__(self) -> str:
        return "<a reader of rows>"
