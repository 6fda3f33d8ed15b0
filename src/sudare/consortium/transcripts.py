"""The transcripts of a task's sums as files: kept beside its checkpoints, and given to other members."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sudare.consortium.files import write_new
from sudare.errors import ConsortiumError, InvalidParameter, MessageMalformed
from sudare.sums.blame import Transcript
from sudare.sums.wire import packed, unpacked

FORMAT: Final = 1
_PREFIX: Final = "transcript-"
_MOST_FILE_BYTES: Final = 1 << 28
# Of one sum in another member's file: some seconds of work. Twenty attempts among two hundred members are 150,000.
_MOST_VALUES: Final = 1 << 22
_MOST_SUMS: Final = 1 << 10


@dataclass(frozen=True)
class TranscriptFile:
    """Transcripts that a member gives to others, each in its packed form."""

    format: int
    transcripts: tuple[bytes, ...]


def transcript_name(iteration: int) -> str:
    """The name of a sum's transcript among the checkpoints of its task."""
    return f"{_PREFIX}{iteration:08d}"


def own_transcripts(folder: Path) -> list[Transcript]:
    """All transcripts that were kept of a task, in the order of its sums. Raise ConsortiumError if there are none."""
    paths = sorted(folder.glob(f"{_PREFIX}[0-9]*"))
    if not paths:
        raise ConsortiumError(
            "No transcript of a sum of this task is kept here: it makes none, or no sum of it has ended.",
            "Run the task first, and give this member's own file with --member.",
        )
    return [Transcript.from_bytes(path.read_bytes()) for path in paths]


def write_transcripts(path: Path, transcripts: list[Transcript]) -> None:
    """Write a file for other members. Raise InvalidParameter where there is one already."""
    content = packed(TranscriptFile(FORMAT, tuple(each.to_bytes() for each in transcripts)))
    try:
        write_new(path, content)
    except OSError as error:
        raise InvalidParameter(
            f"'{path}' cannot be written ({error.strerror}).", "Choose a new file in a folder that exists."
        ) from None


def received_transcripts(path: Path) -> list[Transcript]:
    """The transcripts in another member's file. Raise InvalidParameter if it cannot be read, MessageMalformed if it is something else."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidParameter(f"'{path}' cannot be read ({error.strerror}).", "Check the path.") from None
    try:
        found = (
            unpacked(content, TranscriptFile, most_values=_MOST_VALUES) if len(content) <= _MOST_FILE_BYTES else None
        )
        if isinstance(found, TranscriptFile) and found.format == FORMAT and len(found.transcripts) <= _MOST_SUMS:
            return [Transcript.from_bytes(each, _MOST_VALUES) for each in found.transcripts]
    except MessageMalformed:
        pass
    raise MessageMalformed(
        f"'{path}' holds no transcripts that this version can read.",
        "Ask its sender for the file that `sudare consortium blame TASK --output FILE` writes.",
    )
