"""What was signed in the sums of a task, for `sudare consortium blame`: kept beside its checkpoints, and given to other members."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sudare.consortium.tasks.checkpoints import CheckpointStore, content_of
from sudare.errors import ConsortiumError, InvalidParameter, MessageMalformed, StateDamaged
from sudare.files import write_new
from sudare.sums.blame import Transcript
from sudare.sums.canonical_encoding import packed, unpacked
from sudare.sums.statements import Statement

FORMAT: Final = 1
TRANSCRIPT: Final = "transcript-"
# A task may have any number of sums, and a dishonest collector can spoil an attempt at many of them.
_MOST_LAST, _MOST_TROUBLED = 8, 64
_MOST_FILE_BYTES: Final = 1 << 28
# Of one sum in another member's file: some seconds of work. Twenty attempts among two hundred members are 150,000.
_MOST_VALUES: Final = 1 << 22
_MOST_SUMS: Final = _MOST_LAST + _MOST_TROUBLED


class Transcripts:
    """Transcripts of the last sums of a task, and of those in which something went wrong: these are written at once, others when the task ends."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._unsaved: dict[int, Transcript] = {}
        # Of how many statements each transcript was made in this life of the process: what was signed is never unsigned.
        self._counts: dict[int, int] = {}
        self._last: list[int] = []
        self._troubled: list[int] = []
        numbers = [name.removeprefix(TRANSCRIPT) for name in store.names() if name.startswith(TRANSCRIPT)]
        for iteration in sorted(int(number) for number in numbers if number.isdecimal()):
            self._place(iteration, self.statements(iteration))

    def add(self, transcript: Transcript) -> None:
        """Remember what was signed in a sum, and forget what is no longer kept."""
        iteration = transcript.iteration
        if self._counts.get(iteration) == len(transcript.statements):
            return
        self._counts[iteration] = len(transcript.statements)
        if self._place(iteration, transcript.statements):
            self._unsaved.pop(iteration, None)
            self._store.save(_name(iteration), transcript.to_bytes())
        else:
            self._unsaved[iteration] = transcript
        for kept, most in ((self._last, _MOST_LAST), (self._troubled, _MOST_TROUBLED)):
            while len(kept) > most:
                gone = kept.pop(0)
                self._counts.pop(gone, None)
                if self._unsaved.pop(gone, None) is None:
                    self._store.discard(_name(gone))

    def save(self) -> None:
        """Write what was not written yet."""
        for iteration, transcript in self._unsaved.items():
            self._store.save(_name(iteration), transcript.to_bytes())
        self._unsaved = {}

    def statements(self, iteration: int) -> tuple[Statement, ...]:
        """What was kept of a sum; nothing where there is none."""
        try:
            content = self._store.load(_name(iteration))
            return () if content is None else Transcript.from_bytes(content).statements
        except (MessageMalformed, StateDamaged):
            return ()

    def _place(self, iteration: int, statements: tuple[Statement, ...]) -> bool:
        """Put a sum where it is kept; whether something went wrong in it."""
        is_troubled = _is_troubled(statements)
        for each in (self._last, self._troubled):
            if iteration in each:
                each.remove(iteration)
        (self._troubled if is_troubled else self._last).append(iteration)
        return is_troubled


def _is_troubled(statements: tuple[Statement, ...]) -> bool:
    """Whether there was more than one attempt, or members heard different totals, or one said two things."""
    said = {(each.kind, each.signer, each.content) for each in statements}
    heard = {content for kind, _, content in said if kind == "heard"}
    signers = {(kind, signer) for kind, signer, _ in said}
    return len({each.context for each in statements}) > 1 or len(heard) > 1 or len(said) > len(signers)


def _name(iteration: int) -> str:
    return f"{TRANSCRIPT}{iteration:08d}"


# For other members


@dataclass(frozen=True)
class TranscriptFile:
    """Transcripts that a member gives to others, each in its packed form."""

    format: int
    transcripts: tuple[bytes, ...]


def own_transcripts(folder: Path) -> list[Transcript]:
    """All transcripts that were kept of a task, in the order of its sums. Raise ConsortiumError if there are none."""
    paths = sorted(folder.glob(f"{TRANSCRIPT}[0-9]*"))
    if not paths:
        raise ConsortiumError(
            "No transcript of a sum of this task is kept here: it makes none, or no sum of it has ended.",
            "Run the task first, and name this member's own file with --member, or the relay's own folder with --state.",
        )
    return [Transcript.from_bytes(content_of(path)) for path in paths]


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
        "Ask its sender for the file that `sudare consortium blame TASK --output FILE`, or at a relay `sudare relay transcripts TASK`, writes.",
    )
