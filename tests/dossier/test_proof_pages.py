"""All proofs become HTML, escaped, with what they say in it."""

import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sudare.dossier.proof_pages import proof_html, proof_text
from sudare.errors import UnknownName

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "proofs").glob("*.md"))


class Read(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.open, self.tags = "", [], set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def letters(text: str) -> str:
    return re.sub(r"[^\w]|_", "", text)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_a_proof_is_lost(name: str) -> None:
    page = Read(proof_html(name))
    assert not page.open
    assert page.tags <= {
        "h2",
        "h3",
        "h4",
        "h5",
        "p",
        "ul",
        "ol",
        "li",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "div",
        "code",
        "strong",
        "em",
        "pre",
    }
    read = re.sub(r"^<!--.*-->$", "", proof_text(name), flags=re.MULTILINE)
    words = re.sub(r"\]\([^)\s]+\)", "]", read)
    words = re.sub(r"^\d+\. ", "", words, flags=re.MULTILINE)
    fences = re.sub(r"^```\w*$", "", words, flags=re.MULTILINE)
    assert letters(page.text) == letters(fences)


def test_names_that_are_no_proof_are_refused() -> None:
    for name in ("unheard_of", "../README", "STATISTICS"):
        with pytest.raises(UnknownName):
            proof_text(name)


@pytest.mark.long
def test_a_wheel_holds_the_proofs(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=ROOT, check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    held = zipfile.ZipFile(wheel).namelist()
    assert {f"sudare/dossier/proofs/{name}.md" for name in NAMES} <= set(held)


def test_comments_are_not_shown() -> None:
    assert "<!--" in proof_text("quantiles")
    assert "--&gt;" not in proof_html("quantiles")
    assert "quantile margins: written by" not in proof_html("quantiles")
