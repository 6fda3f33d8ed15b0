"""What was signed in the sums of a task, kept for `sudare consortium blame`: of the last sums, and of those that needed more than one attempt."""

from __future__ import annotations

from typing import Final

from sudare.consortium.checkpoints import Store
from sudare.errors import MessageMalformed
from sudare.sums.blame import Transcript
from sudare.sums.keys import PublicKeys
from sudare.sums.statements import Statement

_PREFIX: Final = "transcript-"
# A task may have any number of sums, and a dishonest collector can spoil an attempt at many of them.
_MOST_LAST, _MOST_TROUBLED = 8, 64


class Transcripts:
    """Files `transcript-IIIIIIII` in a task's store. They are written when something went wrong or the task ends."""

    def __init__(self, store: Store, task: str, members: tuple[str, ...], publics: tuple[PublicKeys, ...]) -> None:
        self._store, self._task, self._members = store, task, members
        self._keys = tuple(each.signing for each in publics)
        self._unsaved: dict[int, tuple[Statement, ...]] = {}
        self._last: list[int] = []
        self._troubled: list[int] = []
        numbers = [name.removeprefix(_PREFIX) for name in store.names() if name.startswith(_PREFIX)]
        for iteration in sorted(int(number) for number in numbers if number.isdecimal()):
            self._place(iteration, self.statements(iteration))

    def add(self, iteration: int, statements: tuple[Statement, ...]) -> None:
        """Remember what was signed in a sum, and forget what is no longer kept."""
        self._unsaved[iteration] = statements
        self._place(iteration, statements)
        for kept, most in ((self._last, _MOST_LAST), (self._troubled, _MOST_TROUBLED)):
            while len(kept) > most:
                gone = kept.pop(0)
                if self._unsaved.pop(gone, None) is None:
                    self._store.discard(_name(gone))

    def save(self) -> None:
        """Write what was not written yet."""
        for iteration, statements in self._unsaved.items():
            transcript = Transcript(self._members, self._keys, self._task, iteration, statements)
            self._store.save(_name(iteration), transcript.to_bytes())
        self._unsaved = {}

    def statements(self, iteration: int) -> tuple[Statement, ...]:
        """What was kept of a sum; nothing where there is none."""
        content = self._store.load(_name(iteration))
        if content is None:
            return ()
        try:
            return Transcript.from_bytes(content).statements
        except MessageMalformed:
            return ()

    def _place(self, iteration: int, statements: tuple[Statement, ...]) -> None:
        kept = self._last if len({each.context for each in statements}) <= 1 else self._troubled
        for each in (self._last, self._troubled):
            if iteration in each:
                each.remove(iteration)
        kept.append(iteration)


def _name(iteration: int) -> str:
    return f"{_PREFIX}{iteration:08d}"
