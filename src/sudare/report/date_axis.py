"""Places on an axis of dates, and what stands there: whole days, or whole hours or minutes where the axis is short."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Final

DAY: Final = 86_400.0
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST: Final = (datetime.min.replace(tzinfo=UTC) - _BEGINNING).total_seconds()
_LATEST: Final = (datetime.max.replace(microsecond=0, tzinfo=UTC) - _BEGINNING).total_seconds()
# Each is at most twice as long as the one before: where one has too many places, the next still has several.
_STEPS: Final = (
    *(60.0 * minutes for minutes in (1, 2, 3, 5, 10, 20, 30)),
    *(3600.0 * hours for hours in (1, 2, 3, 6, 12)),
    *(DAY * days * 10**power for power in range(7) for days in (1, 2, 3, 5)),
)
# Texts with a time of day are longer.
_MOST_DATES: Final = 4
_MOST_TIMES: Final = 2


def date_ticks(first: float, last: float) -> tuple[list[float], list[str]]:
    """A few places between two moments, in seconds since 1970, evenly apart, and their texts; none where both lie in one minute."""
    first, last = max(first, _EARLIEST), min(last, _LATEST)
    for step in _STEPS:
        low, high = math.ceil(first / step), math.floor(last / step)
        if high - low < (_MOST_TIMES if step < DAY else _MOST_DATES):
            break
    places = [step * place for place in range(low, high + 1)]
    return places, [moment_text(place) for place in places]


def moment_text(seconds: float) -> str:
    """The date so many seconds after the beginning of 1970, and the time of day where it is not midnight."""
    moment = _BEGINNING + timedelta(seconds=seconds)
    return f"{moment.date()} {moment:%H:%M}" if seconds % DAY else moment.date().isoformat()
