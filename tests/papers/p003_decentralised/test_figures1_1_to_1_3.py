"""The chapter's drawings are drawn."""

from __future__ import annotations

from matplotlib.figure import Figure

from sudare.papers.p003_decentralised.figures1_1_to_1_3 import figure_1_1, figure_1_2, figure_1_3
from sudare.report.plots import DAY, rendered


def test_drawings():
    panels = [figure_1_1(), *figure_1_2(), *figure_1_3()]
    assert len(panels) == 7
    assert rendered(panels).startswith(b"<?xml")


def test_every_path_of_figure_1_2_is_seen_and_named():
    axes = Figure().subplots()
    figure_1_2()[0](axes, DAY)
    drawn = [tuple(line.get_ydata()) for line in axes.get_lines() if len(line.get_ydata()) > 2]
    named = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(set(drawn)) == len(drawn) == len(named) == len(set(named))
    assert sorted(number for text in named for number in text if number.isdigit()) == list("123456")
