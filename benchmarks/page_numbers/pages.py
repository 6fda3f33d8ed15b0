"""Numbers on pages: which are looked at, and which are no results by their form."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.peers import ROOT

# A number as pages write it: 12, 1,024, .98, 1e-6. Not a part of a name (SHA-256), of a version (1.2.3) or of a power (10⁻⁶, e^…).
NUMBER: Final = re.compile(
    r"(?<![A-Za-zα-ωΑ-Ω_.\d])(?<![A-Za-z]-)(?:\d+(?:\.\d+){2,}|\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\d+|\.\d+)(?:e-?\d+)?"
    r"(?![\d_^⁰¹²³⁴⁵⁶⁷⁸⁹⁻]|\.\d|[A-Za-z]*\^|[A-Za-zα-ωΑ-Ω√](?<![skxhMG])(?![A-Za-z]))"
)
# What commands write, code, addresses of links, and numbers of paragraphs.
_NOT_TEXT: Final = re.compile(
    r"<!-- (?!end of )[^\n]*? -->\n.*?<!-- end of [^\n]*? -->|```.*?```|<!--.*?-->|`[^`\n]*`|\]\([^)\n]*\)|\{ width=[^\n]*?\}|https?://\S+|^ {4}\S[^\n]*$|^#+ \d+\.|^ *\d+\. ",
    re.DOTALL | re.MULTILINE,
)
_LABELS: Final = "figure|table|section|theorem|lemma|algorithm|corollary|definition|proposition|assumption|clause|eq"
_FORMS: Final = {
    "the number of a figure, a section, a standard …": rf"(?i:\b(?:{_LABELS}|version|python|paper|study|footnote|PKCS|ISO|IEC|IEEE|SP|recital|article|CC BY)\b\.?|§|第|前文)"
    r" ?[#(]*(?!\d{1,3},\d{3})[A\d][\w.-]*\)?(?:[–:]\d[\d.]*)?(?: ?\(\d+\))*",
    "a step of a list": r"\(?step \d(?![\d.,]*\d| times)",
    "numbers of several": rf"(?i:\b(?:(?:{_LABELS})s|corollaries)\b\.?) ?\(?[A\d][\w.]*\)?(?:(?:, | to |–| and )+\(?[A\d][\w.]*\)?)*",
    "an equation or a work, in brackets": r"(?<![\w)])\((?:1\.)?\d{1,2}\)|\[\d{1,2}\]",
    "a year": r"(?<![\d.,])(?:19[5-9]|20[0-3])\d(?![\d.,]*\d)",
    "a δ that things are run at": r"δ (?:=|>|≥|at) (?:0|1e-0?[56])(?![\d.,]*\d)",
    "a term of a formula": r"[A-Za-zε] [−+] \d(?=[)\],])|\[−?\d, \d\]|±[01](?![\d.])|\b[12]/[A-Za-zεn]\b|\(\d (?:[−+] |/)|[βΛτρ]/\d|(?<=[\s(])\d(?=[A-Za-z√]\b(?!-))|≥ \d(?= classes)",
}
_LEFT_OUT: Final = re.compile("|".join(f"(?:{form})" for form in _FORMS.values()))
# A proof is mathematics: only what it tells of time, memory or accuracy is a result.
_MEASURED: Final = re.compile(
    r"(?i)accurac|\bAUC\b|macro-F1|\d ± ?[\d.]|\bmeasured\b|\btook\b|`?python -m|benchmarks/|tests? finds?"
)
_UNIT: Final = re.compile(r"\s?(?:ms|µs|s|seconds|minutes|hours|kB|MB|GB|%)(?![\w(])")


class Number(NamedTuple):
    """Where a number stands in the text of a page."""

    start: int
    end: int
    text: str


def pages() -> list[Path]:
    """Every page that tells what somebody can rely on today; the changelog tells what was true when it was written."""
    names = ("README.md", "README.ja.md", "CONTRIBUTING.md")
    return [
        *(ROOT / name for name in names),
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "proofs").glob("*.md")),
    ]


def numbers(text: str, is_proof: bool = False) -> list[Number]:
    """The numbers of a page that must have a place or be declared."""
    blanked = _LEFT_OUT.sub(_spaces, _NOT_TEXT.sub(_spaces, text))
    found = [Number(each.start(), each.end(), each[0]) for each in NUMBER.finditer(blanked)]
    return [each for each in found if not is_proof or _is_measured(text, blanked, each)]


def _spaces(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _is_measured(text: str, blanked: str, number: Number) -> bool:
    line = text[text.rfind("\n", 0, number.start) + 1 : text.find("\n", number.end)]
    return bool(_UNIT.match(blanked, number.end) or _MEASURED.search(line))
