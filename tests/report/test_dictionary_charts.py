"""Pictures of patterns: what is drawn is what was given."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from matplotlib.figure import Figure

from sudare.report.dictionary_charts import dependency_graph, shaded, stacked_shares, timeline
from sudare.report.plots import DAY, NIGHT, Panel, rendered

SHARES = np.array([[0.2, 0.8], [1.0, 0.0]])
STRENGTHS = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 1.0]])
PANELS = [
    stacked_shares(["a", "b"], SHARES, ["first", "second"], y_label="share", title="who"),
    dependency_graph(["x", "y", "z"], STRENGTHS, title="graph"),
    timeline(np.array([1.0, 5.0, 2.0]), 3.0, x_label="hour", y_label="score"),
    shaded(["x", "y"], np.array([[0.0, 1.0], [2.0, -1.0]]), x_label="hour", scale_label="score"),
]


def drawn(panel: Panel):
    axes = Figure().subplots()
    panel(axes, DAY)
    return axes


@pytest.mark.parametrize("panel", PANELS)
def test_images_are_whole_and_repeatable(panel: Panel) -> None:
    assert ET.fromstring(rendered([panel])).tag.endswith("svg")
    assert rendered([panel]) == rendered([panel])
    assert rendered([panel]) != rendered([panel], theme=NIGHT)


def test_shares_are_stacked_to_one() -> None:
    tops = [bar.get_y() + bar.get_height() for bar in drawn(PANELS[0]).patches]
    assert tops == pytest.approx([0.2, 1.0, 1.0, 1.0])


def test_a_line_for_each_dependency_and_no_other() -> None:
    lines = drawn(PANELS[1]).lines
    assert [line.get_linestyle() for line in lines] == ["-", "--"]
    assert lines[0].get_linewidth() > lines[1].get_linewidth()


def test_what_is_above_the_threshold_is_an_alarm() -> None:
    usual, alarms = drawn(PANELS[2]).collections
    assert usual.get_offsets().tolist() == [[0.0, 1.0], [2.0, 2.0]]
    assert alarms.get_offsets().tolist() == [[1.0, 5.0]]


def test_a_row_for_each_name() -> None:
    axes = drawn(PANELS[3])
    assert axes.images[0].get_array().shape == (2, 2)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y"]


def test_what_raised_no_alarm_is_not_called_usual() -> None:
    """A faulty hour below the threshold was drawn as a usual one; and what the dashed line is stood nowhere."""
    axes = Figure().add_subplot()
    timeline(np.array([1.0, 5.0]), 3.0, x_label="hour", y_label="score", marked=(0, 2, "the fault"))(axes, DAY)
    assert set(axes.get_legend_handles_labels()[1]) == {"no alarm", "alarm", "threshold", "the fault"}


def test_colours_have_a_scale() -> None:
    figure = Figure()
    shaded(["x"], np.array([[0.0, 1.0]]), x_label="hour", scale_label="strangeness")(figure.add_subplot(), DAY)
    assert "strangeness" in [axes.get_xlabel() for axes in figure.axes]
