"""Pictures of plain numbers: SVG for pages, PNG for files. No window, no global state of matplotlib.

A panel is a function that draws on one pair of axes; `rendered` turns panels into bytes. Colours are those of Okabe and
Ito (2008), which readers with any kind of colour vision can tell apart; shapes and hatches differ as well.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from sudare.languages import Language, translated
from sudare.report.date_axis import date_ticks
from sudare.report.fonts import drawn_language, font_family, missing_letters
from sudare.safe_text import escaped_for_terminal

BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
SERIES_COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES: Final[tuple[str | tuple[int, tuple[int, ...]], ...]] = (
    "--",
    ":",
    "-.",
    (0, (8, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (1, 4)),
)

PANEL_WIDTH_INCHES = 5.6
PANEL_HEIGHT_INCHES = 3.3
_TITLE_LINE_INCHES = 0.2
FONT_POINTS = 9.5

Format = Literal["svg", "png"]


@dataclass(frozen=True)
class Theme:
    """Colours of lines and text, of what is faint, and of the background; for light and dark pages."""

    ink: str
    faint: str
    paper: str


DAY = Theme(ink="#1b2a2f", faint="#c9d2d4", paper="#ffffff")
NIGHT = Theme(ink="#e4ecee", faint="#48565b", paper="#182125")

Panel = Callable[[Axes, Theme], None]


@dataclass(frozen=True)
class Series:
    """One line of a plot. Standard errors, or deviations where the caption says so, are drawn as bars; a dashed series is a theory or a claim."""

    label: str
    values: Sequence[float]
    standard_errors: Sequence[float] | None = None
    dashed: bool = False


@dataclass(frozen=True)
class Picture:
    """An SVG in the colours of day and of night, and what it shows in words. It is drawn when it is asked for, in the language of the page."""

    panels: Sequence[Panel]
    alt: str
    columns: int = 1
    language: Language = "en"
    panel_inches: float = PANEL_HEIGHT_INCHES

    @cached_property
    def day(self) -> bytes:
        """Returns the colours for a light page."""
        return self._rendered(DAY)

    @cached_property
    def night(self) -> bytes:
        """Returns the colours for a dark page."""
        return self._rendered(NIGHT)

    def _rendered(self, theme: Theme) -> bytes:
        return rendered(
            self.panels, theme=theme, columns=self.columns, language=self.language, panel_inches=self.panel_inches
        )


def picture(
    panels: Sequence[Panel], alt: str, *, columns: int = 1, panel_inches: float = PANEL_HEIGHT_INCHES
) -> Picture:
    """Panels as a picture for a page, each so high."""
    return Picture(panels, alt, columns, panel_inches=panel_inches)


def inches_for_rows(rows: int) -> float:
    """How high a panel of so many rows is."""
    return 0.9 + 0.22 * rows


def rendered(
    panels: Sequence[Panel],
    image_format: Format = "svg",
    theme: Theme = DAY,
    *,
    columns: int = 1,
    language: Language = "en",
    panel_inches: float = PANEL_HEIGHT_INCHES,
    title: str = "",
) -> bytes:
    """Panels in rows of so many columns, each so high, under a title in any language, as the bytes of an image; the same numbers give the same bytes.

    Words are drawn in the language, if there is a font with its letters; else in English (`missing_font_note` says so). Names whose letters no font has are boxes
    in a PNG, and warn with MissingLetters; an SVG keeps its letters as text.
    """
    family = font_family(language)
    rows = -(-len(panels) // columns)
    with mpl.rc_context(
        {
            "svg.hashsalt": "sudare",
            # A reader's own fonts draw the letters of an SVG, whether this machine has them or not.
            "svg.fonttype": "none",
            "font.size": FONT_POINTS,
            "font.family": family,
            "hatch.linewidth": 0.6,
            # Names are names: a dollar sign in one begins no formula.
            "text.parse_math": False,
        }
    ):
        lines = [escaped_for_terminal(line) for line in title.splitlines()]
        height = panel_inches * rows + _TITLE_LINE_INCHES * len(lines)
        figure = Figure(figsize=(PANEL_WIDTH_INCHES * columns, height), layout="constrained")
        figure.set_facecolor(theme.paper)
        for position, panel in enumerate(panels, start=1):
            axes = figure.add_subplot(rows, columns, position)
            _dress(axes, theme)
            panel(axes, theme)
        if lines:
            # Above all panels, and not above the axes of one, which long labels make narrow.
            figure.suptitle("\n".join(lines), x=0.01, ha="left", color=theme.ink, fontsize=FONT_POINTS + 1)
        for text in figure.findobj(Text):
            text.set_text(translated(text.get_text(), drawn_language(language)))
        file = io.BytesIO()
        metadata = {"Date": None} if image_format == "svg" else {"Software": None}
        with warnings.catch_warnings(record=True) as told:
            warnings.filterwarnings("always", message=r"Glyph \d+ .* missing from")
            figure.savefig(file, format=image_format, dpi=160, metadata=metadata)
    # The terminal is for our own words.
    are_missing = [re.match(r"Glyph \d+ .* missing from", str(each.message)) is not None for each in told]
    for each, is_missing in zip(told, are_missing, strict=True):
        if not is_missing:
            warnings.warn(each.message, each.category, stacklevel=2)
    if any(are_missing) and image_format == "png":
        warnings.warn(missing_letters(), stacklevel=2)
    return file.getvalue()


def compared_bars(
    labels: Sequence[str],
    exact: Sequence[float],
    released: Sequence[float],
    *,
    names: tuple[str, str],
    x_label: str,
    y_label: str,
    title: str = "",
) -> Panel:
    """Two bars for each label, side by side."""

    def panel(axes: Axes, theme: Theme) -> None:
        positions = np.arange(len(labels))
        axes.bar(
            positions - 0.2, exact, 0.4, label=names[0], color=theme.faint, hatch="////", edgecolor=theme.ink, lw=0.5
        )
        axes.bar(positions + 0.2, released, 0.4, label=names[1], color=BLUE)
        axes.set_xticks(positions, labels)
        _shorten_ticks(axes, labels)
        finished(axes, theme, x_label, y_label, title)

    return panel


def paired_points(
    labels: Sequence[str],
    before: Sequence[float],
    after: Sequence[float],
    *,
    names: tuple[str, str],
    x_label: str,
    y_label: str,
    title: str = "",
) -> Panel:
    """Two points for each label joined by a line, on an axis that begins where the values do: what changed, not how large it is."""

    def panel(axes: Axes, theme: Theme) -> None:
        positions = np.arange(len(labels))
        axes.vlines(positions, before, after, color=theme.ink, lw=1, zorder=1)
        axes.plot(positions, before, "o", markersize=6, mfc=theme.paper, color=theme.ink, label=names[0], zorder=2)
        axes.plot(positions, after, "s", markersize=6, color=BLUE, label=names[1], zorder=3)
        axes.set_xticks(positions, labels)
        axes.margins(y=0.12)
        _shorten_ticks(axes, labels)
        finished(axes, theme, x_label, y_label, title)

    return panel


def steps(
    values: Sequence[float], limits: Sequence[float], *, names: tuple[str, str], x_label: str, y_label: str
) -> Panel:
    """What has added up after each event, as steps, below what it may add up to."""

    def panel(axes: Axes, theme: Theme) -> None:
        # The last step is as wide as the others.
        positions = np.arange(len(values) + 1)
        reached, allowed = [*values, values[-1]], [*limits, limits[-1]]
        axes.step(positions, reached, where="post", color=BLUE, lw=2, label=names[0])
        axes.fill_between(positions, reached, step="post", color=BLUE, alpha=0.2)
        axes.step(positions, allowed, where="post", color=theme.ink, lw=1.2, linestyle="--", label=names[1])
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        finished(axes, theme, x_label, y_label, "")

    return panel


def interval_rows(
    labels: Sequence[str],
    values: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    *,
    x_label: str,
    title: str = "",
    are_dates: bool = False,
    has_intervals: bool = True,
) -> Panel:
    """One row for each number: a point, and a line for its interval; a bar from zero where there are no intervals. Dates are seconds since 1970."""

    def panel(axes: Axes, theme: Theme) -> None:
        positions = np.arange(len(labels))
        if has_intervals:
            axes.hlines(positions, lows, highs, color=theme.ink, lw=1.2)
            axes.plot(values, positions, "o", markersize=4, color=BLUE)
        else:
            axes.barh(positions, values, height=0.6, color=BLUE)
            axes.axvline(0, color=theme.ink, lw=0.8)
        axes.set_yticks(positions, [escaped_for_terminal(label)[:40] for label in labels])
        axes.margins(y=min(0.5, 0.5 / len(labels)))
        axes.invert_yaxis()
        if are_dates:
            axes.set_xticks(*date_ticks(*axes.get_xlim()))
        finished(axes, theme, x_label, "", title)

    return panel


def line_look(index: int, theme: Theme) -> dict[str, Any]:
    """Colour and markers of the line of that number. The seventh has the first one's colour again: its markers are others, and hollow."""
    colour, marker = SERIES_COLOURS[index % 6], MARKERS[(index + index // 6) % 6]
    return {"color": colour, "marker": marker, "mfc": colour if index < 6 else theme.paper}


def curves(
    x: Sequence[float],
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    logarithmic: bool = False,
    logarithmic_x: bool = False,
) -> Panel:
    """One line for each series over common x; both axes logarithmic, or x alone."""

    def panel(axes: Axes, theme: Theme) -> None:
        labels = list(dict.fromkeys(line.label for line in series if line.dashed))
        for index, line in enumerate(series):
            if line.dashed:
                dash = DASHES[labels.index(line.label) % len(DASHES)]
                axes.plot(
                    x, line.values, linestyle=dash, color=theme.ink, label=line.label, lw=1, zorder=1 + index / 10
                )
            else:
                errors = line.standard_errors
                axes.errorbar(
                    x, line.values, errors, ms=4, lw=1.4, capsize=2, label=line.label, **line_look(index, theme)
                )
        if logarithmic or logarithmic_x:
            axes.set_xscale("log")
            axes.set_xticks(list(x), [f"{value:,.0f}" if value >= 1000 else f"{value:g}" for value in x])
            axes.xaxis.set_minor_formatter(NullFormatter())
        if logarithmic:
            axes.set_yscale("log")
            # matplotlib's own labels of powers are formulas, which are not drawn here.
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
        finished(axes, theme, x_label, y_label, title)

    return panel


def _dress(axes: Axes, theme: Theme) -> None:
    axes.set_facecolor("none")
    axes.tick_params(colors=theme.ink, length=3)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.ink)
    axes.grid(color=theme.faint, lw=0.5, axis="y")
    axes.set_axisbelow(True)


def finished(axes: Axes, theme: Theme, x_label: str, y_label: str, title: str) -> None:
    """Labels, title and legend in the theme's ink: the last step of every panel."""
    axes.set_xlabel(escaped_for_terminal(x_label), color=theme.ink)
    axes.set_ylabel(escaped_for_terminal(y_label), color=theme.ink)
    if title:
        axes.set_title(escaped_for_terminal(title), color=theme.ink, loc="left", fontsize=FONT_POINTS + 1)
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1:
        # Lines with one label are explained once.
        unique = dict(zip(labels, handles, strict=True))
        # Above the axes, where it hides no bar or line; below them where it would run into the title.
        above = len(unique) <= 2
        axes.legend(
            unique.values(),
            unique.keys(),
            loc="lower right" if above else "upper center",
            bbox_to_anchor=(1.0, 1.0) if above else (0.45, -0.2),
            ncols=2,
            frameon=False,
            labelcolor=theme.ink,
            fontsize=FONT_POINTS - 1,
        )


def _shorten_ticks(axes: Axes, labels: Sequence[str]) -> None:
    """Long labels slant, so that they do not run into each other."""
    if sum(len(label) for label in labels) > 60:
        for tick in axes.get_xticklabels():
            tick.set(rotation=40, ha="right", rotation_mode="anchor")
