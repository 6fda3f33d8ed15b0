"""Small pictures as coordinates; templates draw them as SVG in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sudare.dossier.number_table import MeasuredRows
from sudare.report.budget_bar import time_text
from sudare.report.date_axis import DAY, moment_text
from sudare.report.number_formatting import nearest, rounded_up

_Scale = Callable[[float], float]

WIDTH, HEIGHT = 480.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 34.0, 8.0, 14.0, 30.0


@dataclass(frozen=True)
class Tick:
    """A place on an axis, and its text."""

    place: float
    text: str


@dataclass(frozen=True)
class StepPicture:
    """A line of steps below a limit: points for SVG, and the texts of the axes."""

    line: str
    area: str
    limit: str
    ticks: Sequence[Tick]
    first: str
    last: str
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    bottom: float = HEIGHT - BOTTOM


def step_picture(values: Sequence[float], limits: Sequence[float], times: Sequence[str]) -> StepPicture:
    """Values as steps, one for each entry, below the limit that held then. There is at least one."""
    top = max(limits) * 1.08
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(place: float) -> float:
        return LEFT + width * place / len(values)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - height * value / top

    line, limit = _steps(values, x, y), _steps(limits, x, y)
    area = f"{x(0):.1f},{y(0):.1f} {line} {x(len(values)):.1f},{y(0):.1f}"
    ticks = [Tick(y(value), rounded_up(value) if value else "0") for value in (0.0, max(limits) / 2, max(limits))]
    return StepPicture(line, area, limit, ticks, time_text(times[0])[:10], time_text(times[-1])[:10])


def _steps(values: Sequence[float], x: _Scale, y: _Scale) -> str:
    return " ".join(f"{x(place + end):.1f},{y(value):.1f}" for place, value in enumerate(values) for end in (0, 1))


@dataclass(frozen=True)
class Interval:
    """One row of an interval picture, in the coordinates of the picture; a number that is unknown has its interval only."""

    label: str
    y: float
    value: float | None
    low: float
    high: float


@dataclass(frozen=True)
class IntervalPicture:
    """Numbers as dots, with the intervals around them, one below the other; `title` says what they are."""

    title: str
    intervals: Sequence[Interval]
    ticks: Sequence[Tick]
    height: float
    width: float = WIDTH
    left: float = 168.0
    right: float = WIDTH - 22.0


ROW = 26.0
LONGEST_LABEL = 24


def interval_picture(drawn: MeasuredRows) -> IntervalPicture:
    """Dots and intervals on one scale, which begins at zero where all numbers are near to it."""
    known = [value for value in drawn.values if not math.isnan(value)]
    least, most = min([*drawn.lows, *known]), max([*drawn.highs, *known])
    if 0 <= least <= most / 2 and not drawn.are_dates:
        least = 0.0
    span = (most - least) or 1.0
    left, right = IntervalPicture.left, IntervalPicture.right

    def x(value: float) -> float:
        return left + (right - left) * (value - least) / span

    rows = [
        Interval(_short(label), TOP + ROW * place + ROW / 2, None if math.isnan(value) else x(value), x(low), x(high))
        for place, (label, value, low, high) in enumerate(
            zip(drawn.labels, drawn.values, drawn.lows, drawn.highs, strict=True)
        )
    ]
    text = moment_text if drawn.are_dates else _tick_text
    middle = least + span / 2
    between = [middle]
    if drawn.are_dates:
        # A date stands where that day begins, and nowhere else.
        between = [round(middle / DAY) * DAY] if span >= 2 * DAY else []
    ticks = [Tick(x(value), text(value)) for value in (least, *between, least + span)]
    return IntervalPicture(drawn.axis, rows, ticks, TOP + ROW * len(rows) + BOTTOM)


def _tick_text(value: float) -> str:
    text = nearest(value, 3).removesuffix(".0")
    return f"{int(text):,}" if text.lstrip("-").isdigit() else text


def _short(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"
