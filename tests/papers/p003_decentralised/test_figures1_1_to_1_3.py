"""The chapter's drawings are drawn."""

from __future__ import annotations

from sudare.papers.p003_decentralised.figures1_1_to_1_3 import figure_1_1, figure_1_2, figure_1_3
from sudare.report.plots import rendered


def test_drawings():
    panels = [figure_1_1(), *figure_1_2(), *figure_1_3()]
    assert len(panels) == 7
    assert rendered(panels).startswith(b"<?xml")
