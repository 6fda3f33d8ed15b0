"""Pictures: the same bytes for the same numbers, no window, colours that everybody can tell apart."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from datetime import UTC, datetime

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from sudare.report.plots import (
    DAY,
    NIGHT,
    SERIES_COLOURS,
    Panel,
    Series,
    compared_bars,
    curves,
    interval_rows,
    line_look,
    picture,
    rendered,
)

BARS = compared_bars(["a", "b"], [1, 2], [2, 1], names=("own", "released"), x_label="x", y_label="y", title="bars")
CURVES = curves(
    [0.1, 1.0],
    [Series("ours", [2.0, 1.0], [0.1, 0.1]), Series("theory", [2.0, 1.0], dashed=True)],
    x_label="ε",
    y_label="error",
    logarithmic=True,
)


def drawn(panel: Panel) -> Axes:
    axes = Figure().subplots()
    panel(axes, DAY)
    return axes


@pytest.mark.parametrize("panel", [BARS, CURVES])
def test_images_are_whole_and_repeatable(panel: Panel) -> None:
    svg = rendered([panel])
    assert ET.fromstring(svg).tag.endswith("svg")
    assert svg == rendered([panel])
    assert rendered([panel], "png").startswith(b"\x89PNG")
    assert svg != rendered([panel], theme=NIGHT)


def test_panels_share_a_picture() -> None:
    four = rendered([BARS, CURVES, BARS, CURVES], columns=2)
    root = ET.fromstring(four)
    assert len([node for node in root.iter() if (node.get("id") or "").startswith("axes_")]) == 4


def test_a_picture_for_a_page_has_words() -> None:
    made = picture([BARS], "two bars")
    assert made.alt == "two bars"
    assert made.day != made.night


def test_bars_are_as_high_as_the_numbers() -> None:
    heights = [patch.get_height() for patch in drawn(BARS).patches]
    assert heights == [1, 2, 2, 1]


def test_a_label_is_explained_once() -> None:
    twice = [Series("theory", [1, 2], dashed=True), Series("theory", [2, 3], dashed=True), Series("ours", [1, 1])]
    legend = drawn(curves([1, 2], twice, x_label="x", y_label="y")).get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["theory", "ours"]


def seen_without_green_cones(colour: str) -> np.ndarray:
    """Simulated deuteranopia (Viénot, Brettel and Mollon 1999), in linear RGB."""
    linear = np.array(to_rgb(colour)) ** 2.2
    matrix = np.array([[0.29275, 0.70725, -0.02978], [0.29275, 0.70725, -0.02978], [-0.02234, 0.02234, 1.0]])
    return np.clip(matrix @ linear, 0, 1) ** (1 / 2.2)


def test_the_first_colours_differ_for_colour_blind_readers() -> None:
    for first, second in itertools.combinations(SERIES_COLOURS[:4], 2):
        distance = np.linalg.norm(seen_without_green_cones(first) - seen_without_green_cones(second))
        assert distance > 0.1, (first, second)


def test_long_labels_slant() -> None:
    def rotation(labels: list[str]) -> float:
        ones = [1] * len(labels)
        panel = compared_bars(labels, ones, ones, names=("a", "b"), x_label="x", y_label="y")
        return drawn(panel).get_xticklabels()[0].get_rotation()

    assert rotation(["short", "words"]) == 0
    assert rotation(["a rather long label"] * 5) > 0


def test_powers_of_ten_are_labelled_with_numbers() -> None:
    """Labels are not read as formulas, so none may be written as one."""
    axes = Figure().add_subplot()
    curves([1.0, 10.0], [Series("a", [0.001, 100.0])], x_label="x", y_label="y", logarithmic=True)(axes, DAY)
    axes.figure.canvas.draw()
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert "0.01" in labels
    assert not any("$" in label for label in labels)


def test_no_two_of_twelve_lines_look_alike():
    assert len({tuple(line_look(index, DAY).values()) for index in range(12)}) == 12


def dates(first: str, last: str) -> list[str]:
    low, high = (datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() for moment in (first, last))
    panel = interval_rows(["a"], [(low + high) / 2], [low], [high], x_label="mean", are_dates=True)
    axes = drawn(panel)
    Figure.draw_without_rendering(axes.figure)  # type: ignore[arg-type]
    return [label.get_text() for label in axes.get_xticklabels()]


@pytest.mark.parametrize(
    ("first", "last", "told"),
    [
        ("2025-06-22", "2025-06-26", ["2025-06-23", "2025-06-25"]),
        ("2025-06-22", "2025-06-23", ["2025-06-22", "2025-06-23"]),
        ("2025-06-22T05:00", "2025-06-22T17:00", ["2025-06-22 06:00", "2025-06-22 12:00"]),
        ("0001-01-01", "9999-12-31", ["1970-01-01", "4707-11-29", "7445-10-25"]),
    ],
)
def test_a_date_stands_where_it_begins(first: str, last: str, told: list[str]) -> None:
    assert dates(first, last) == told


def test_a_title_stands_above_all_panels_and_takes_nothing_from_them() -> None:
    def height(picture: bytes) -> float:
        return float(ET.fromstring(picture).get("height", "").removesuffix("pt"))

    plain, titled = rendered([BARS, BARS]), rendered([BARS, BARS], title="グループ別の件数\nε = 1")
    assert "グループ別の件数".encode() in titled
    assert height(titled) == pytest.approx(height(plain) + 2 * 0.2 * 72)
