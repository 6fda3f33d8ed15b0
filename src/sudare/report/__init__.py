"""Pictures, cards and pages. Everything here takes plain numbers and text; nothing here knows where they come from."""

from sudare.report.budget import BudgetBar
from sudare.report.card import Card, Strength, card_text, strength_of
from sudare.report.page import Page, Part, Table, Transcript, page_html
from sudare.report.patterns import dependency_graph, shaded, stacked_shares, timeline
from sudare.report.plots import Picture, Series, compared_bars, curves, picture, rendered

__all__ = [
    "BudgetBar",
    "Card",
    "Page",
    "Part",
    "Picture",
    "Series",
    "Strength",
    "Table",
    "Transcript",
    "card_text",
    "compared_bars",
    "curves",
    "dependency_graph",
    "page_html",
    "picture",
    "rendered",
    "shaded",
    "stacked_shares",
    "strength_of",
    "timeline",
]
