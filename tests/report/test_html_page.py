"""Pages are one file, escape everything, and say the result before the jargon."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from sudare.report import BudgetBar, Page, PageTable, Part, TerminalLines, compared_bars, page_html, picture
from sudare.report.html_page import anchors_of
from sudare.safe_text import is_printable
from tests.report.test_privacy_card import CARD

PICTURE = picture(
    [compared_bars(["a"], [1], [2], names=("own", "released"), x_label="x", y_label="y")], "one pair of bars"
)
PART = Part(
    title="What others see",
    result="Everybody may know.",
    blocks=[
        PICTURE,
        CARD,
        BudgetBar("patients", 1.5, 3.0, 0.0, 1e-6, 3),
        PageTable(("what", "ε"), [("PrivateMean", "1.0")], "The ledger"),
        TerminalLines([">>> fit", "BudgetExceeded: no."], "What was typed"),
    ],
    how_to_read=["Read it so."],
)
PAGE = Page("A title", "A lead.", [PART], "a test", ["A note."])


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_every_block_is_there() -> None:
    tags = Tags(page_html(PAGE))
    for text in (
        "A title", "A lead.", "What others see", "Everybody may know.", "The guarantee:", "strong", "ε 1.5 of 3.0", "PrivateMean",
        "The ledger", "What was typed", "BudgetExceeded: no.", "How to read this", "Read it so.", "A note.", "a test",
    ):  # fmt: skip
        assert text in tags.text


def test_a_content_policy_comes_before_all_else() -> None:
    tags = Tags(page_html(PAGE)).found
    policies = [
        (place, facts) for place, (_, facts) in enumerate(tags) if facts.get("http-equiv") == "Content-Security-Policy"
    ]
    ((place, policy),) = policies
    rules = dict(rule.strip().split(" ", 1) for rule in str(policy["content"]).split(";"))
    assert rules == {
        "default-src": "'none'", "img-src": "data:", "style-src": "'unsafe-inline'", "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip
    assert [tag for tag, _ in tags[:place]] == ["html", "head", "meta"]


def test_names_that_cannot_be_printed_are_written_out() -> None:
    evil = "a\u202eb\x1b[2J\u200b"
    part = Part(
        title=evil,
        result=evil,
        blocks=[
            PageTable((evil,), [(evil,)], evil),
            TerminalLines([evil], evil),
            replace(CARD, account=evil),
            BudgetBar(evil, 1, 2, 0, 0, 1),
        ],
        how_to_read=[evil],
    )
    page = page_html(Page(evil, evil, [part], evil, [evil]))
    assert all(map(is_printable, page.replace("\n", "")))
    assert "a\\u202eb" in page


def test_a_dollar_sign_in_a_name_begins_no_formula() -> None:
    for name in ("$", "$x$ $", r"$\frac{", "a_b^c"):
        bars = compared_bars([name], [1], [2], names=(name, "released"), x_label=name, y_label=name, title=name)
        assert picture([bars], name).day.startswith(b"<?xml")


def test_the_result_comes_before_the_picture_and_the_picture_before_the_jargon() -> None:
    page = page_html(PAGE)
    places = [page.index(text) for text in ("Everybody may know.", "<img", "The guarantee", "How to read this")]
    assert places == sorted(places)
    assert "ε" not in page[: page.index("<img")].partition("</style>")[2]


def test_nothing_is_fetched_and_nothing_runs() -> None:
    page = page_html(replace(PAGE, parts=[PART] * 3))
    tags = Tags(page)
    assert not {"script", "link", "iframe", "object", "form"} & {tag for tag, _ in tags.found}
    addresses = [values[name] for _, values in tags.found for name in ("src", "href", "srcset") if name in values]
    assert addresses
    assert all(str(address).startswith(("data:image/svg+xml;base64,", "#")) for address in addresses)
    assert "url(" not in page
    assert "@import" not in page


def test_pictures_have_words_and_night_colours() -> None:
    tags = Tags(page_html(PAGE))
    (image,) = [values for tag, values in tags.found if tag == "img"]
    assert image["alt"] == "one pair of bars"
    (night,) = [values for tag, values in tags.found if tag == "source"]
    assert "dark" in str(night["media"])
    assert night["srcset"] != image["src"]


def test_everything_is_escaped() -> None:
    evil = "<script>alert('x')</script>"
    part = replace(
        PART,
        title=evil,
        result=evil,
        blocks=[replace(PICTURE, alt=evil), PageTable((evil,), [(evil,)], evil), TerminalLines([evil], evil), replace(CARD, account=evil)],
        how_to_read=[evil],
    )  # fmt: skip
    page = page_html(Page(evil, evil, [part], evil, [evil]))
    assert "<script" not in page
    assert Tags(page).text.count(evil) == 14


def test_a_weak_guarantee_looks_weak() -> None:
    page = page_html(replace(PAGE, parts=[replace(PART, blocks=[replace(CARD, epsilon=5.0)])]))
    assert 'class="card weak"' in page
    assert 'class="card weak"' not in page_html(PAGE)


def page_of(titles: list[str]) -> Tags:
    return Tags(page_html(replace(PAGE, parts=[replace(PART, title=title, blocks=[]) for title in titles])))


def test_numbers_and_headings_are_broken_in_no_line_and_digests_are() -> None:
    """100000 in two lines reads as 10000; a digest would push the table off the page."""
    page = page_html(
        replace(PAGE, parts=[replace(PART, blocks=[PageTable(("records",), [("100000",), ("ab" * 32,)])])])
    )
    cells = [attributes.get("class") for tag, attributes in Tags(page).found if tag == "td"]
    assert cells == ["short", None]
    on_screen, on_paper = page.split("@media print")
    assert "th, td.short { overflow-wrap: break-word; }" in on_screen
    # Paper cannot be pushed aside.
    assert "th, td.short { overflow-wrap: anywhere; }" in on_paper


def test_a_long_page_begins_with_its_contents() -> None:
    tags = page_of(["Ten hospitals", "Five factories", "One census"])
    links = [str(values["href"]) for tag, values in tags.found if tag == "a"]
    listed, back = links[:3], links[3:]
    assert listed == ["#ten-hospitals", "#five-factories", "#one-census"]
    assert back == ["#contents"] * 3
    # What is jumped to takes the focus, so that the next Tab goes on from there.
    targets = {f"#{values['id']}": values for _, values in tags.found if "id" in values}
    for link in links:
        assert targets[link]["tabindex"] == "-1"
    order = [tag for tag, _ in tags.found]
    assert order.index("h1") < order.index("nav") < order.index("section")


def test_a_short_page_has_none() -> None:
    assert not [tag for tag, _ in page_of(["First", "Second"]).found if tag in ("nav", "a")]


def test_every_part_is_named_by_its_title() -> None:
    tags = page_of(["First", "Second"])
    identities = {values["id"]: tag for tag, values in tags.found if "id" in values}
    for tag, values in tags.found:
        if tag == "section":
            assert identities[values["aria-labelledby"]] == "h2"


def test_on_paper_the_contents_are_a_list_and_the_way_back_is_not_there() -> None:
    page = page_html(PAGE)
    printed = page.partition("@media print")[2].partition("</style>")[0]
    assert ".back { display: none; }" in printed
    assert "nav a { color: inherit; text-decoration: none; }" in printed


@given(st.lists(st.text(alphabet='aB1 -é<"&x title', max_size=8), max_size=12))
def test_no_two_anchors_are_alike(titles: list[str]) -> None:
    anchors = anchors_of(titles)
    everything = [*anchors, *(f"{anchor}-title" for anchor in anchors), "contents"]
    assert len(set(everything)) == len(everything) == 2 * len(titles) + 1
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", anchor) for anchor in anchors)
    tags = page_of(titles)
    links = {str(values["href"])[1:] for tag, values in tags.found if tag == "a"}
    assert links <= {values.get("id") for _, values in tags.found}
