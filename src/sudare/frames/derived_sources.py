"""Sources that are made of other ones: the kept rows of persons, two tables joined."""

from __future__ import annotations

from abc import abstractmethod

from sudare.frames.record_source import Origin, RecordSource
from sudare.frames.sources import source


class DerivedSource(RecordSource):
    """Rows that are computed from other sources, the same ones at every pass.

    `origins` are what it is made of: the sources that an account pays for. `most_rows` is how many rows a person has at most, where that is known.
    """

    is_steady = True
    most_rows: int | None = None

    @property
    @abstractmethod
    def origins(self) -> tuple[object, ...]:
        """The paths, SqlSources or tables that were given."""

    @property
    def origin(self) -> Origin | None:
        """Where the records of all that was given are: whoever has read them into memory pays for all of it."""
        found = [source(each).origin for each in self.origins]
        return tuple(each for each in found if each is not None) or None


def origins_of(*given: object) -> tuple[object, ...]:
    """What these sources are made of, or themselves where they were given."""
    return tuple(each for one in given for each in (one.origins if isinstance(one, DerivedSource) else (one,)))
