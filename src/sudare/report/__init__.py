"""Pictures, cards and pages. Everything here takes plain numbers and text; nothing here knows where they come from."""

from typing import TYPE_CHECKING

from sudare.lazy_exports import opened_on_use

if TYPE_CHECKING:
    from sudare.report.budget_bar import BudgetBar
    from sudare.report.dictionary_charts import dependency_graph, shaded, stacked_shares, timeline
    from sudare.report.html_page import FoldedPicture, Page, PageTable, Part, TerminalLines, page_html
    from sudare.report.plots import Picture, Series, compared_bars, curves, paired_points, picture, rendered
    from sudare.report.privacy_card import Card, Strength, card_text, strength_of
else:
    __getattr__, __dir__ = opened_on_use(
        __name__,
        {
            "budget_bar": "BudgetBar",
            "privacy_card": "Card Strength card_text strength_of",
            "html_page": "FoldedPicture Page PageTable Part TerminalLines page_html",
            "dictionary_charts": "dependency_graph shaded stacked_shares timeline",
            "plots": "Picture Series compared_bars curves paired_points picture rendered",
        },
    )

__all__ = [
    "BudgetBar",
    "Card",
    "FoldedPicture",
    "Page",
    "PageTable",
    "Part",
    "Picture",
    "Series",
    "Strength",
    "TerminalLines",
    "card_text",
    "compared_bars",
    "curves",
    "dependency_graph",
    "page_html",
    "paired_points",
    "picture",
    "rendered",
    "shaded",
    "stacked_shares",
    "strength_of",
    "timeline",
]
