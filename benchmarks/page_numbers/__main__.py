"""What is wrong with the numbers of pages: `python -m benchmarks.page_numbers [--write] [PAGE …]`."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.page_numbers.checks import (
    all_told,
    by_page,
    declared,
    line_of,
    literally,
    places,
    problems,
    without_place,
)
from benchmarks.page_numbers.pages import Number, pages
from benchmarks.page_numbers.places import agrees, result, rewritten
from benchmarks.peers import ROOT

MOST_PROPOSED = 3


class Leaf(NamedTuple):
    """A number of a committed result, and the words on the way to it."""

    place: str
    value: float
    words: frozenset[str]


def words_of(text: str) -> set[str]:
    """Words, in small letters."""
    return set(re.findall(r"[^\W\d_]{2,}", text.lower()))


def leaves(place: str, found: Any, words: frozenset[str] = frozenset()) -> Iterator[Leaf]:
    """All numbers of a result. Texts that stand beside a number are on the way to it, as heads of rows are."""
    if isinstance(found, dict):
        beside = words.union(*(words_of(each) for each in found.values() if isinstance(each, str)))
        for key, each in found.items():
            yield from leaves(f"{place}[{key!r}]", each, beside | words_of(key))
    elif isinstance(found, list):
        beside = words.union(*(words_of(each) for each in found if isinstance(each, str)))
        for number, each in enumerate(found):
            yield from leaves(f"{place}[{number}]", each, beside)
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield Leaf(place, float(found), words)


def proposed(number: str, around: str, known: Sequence[Leaf]) -> list[str]:
    """Places whose number rounds to the one on the page, those first that share most words with the line around it."""
    near = words_of(around)
    fitting = [each for each in known if len(number) > 2 and number.count(".") < 2 and agrees(number, abs(each.value))]
    fitting.sort(key=lambda each: (-len(near & each.words), each.place))
    return [f"{each.place} = {each.value:g}" for each in fitting[:MOST_PROPOSED] if len(near & each.words) > 1]


def shortest_piece(text: str, number: Number) -> str:
    """The fewest words around a number, two on each side at least, that stand on the page only once."""
    first = text.rfind("\n", 0, number.start) + 1
    words = [
        (first + word.start(), first + word.end()) for word in re.finditer(r"\S+", text[first:].partition("\n")[0])
    ]
    holding = [place for place, (start, end) in enumerate(words) if start < number.end and number.start < end]
    for beside in range(2, len(words) + 2):
        start, end = words[max(0, holding[0] - beside)][0], words[min(len(words) - 1, holding[-1] + beside)][1]
        if len(literally(text[start:end]).findall(text)) == 1:
            break
    return text[start:end]


def results() -> Iterator[Leaf]:
    """Numbers of all committed results."""
    for folder in ("docs/papers", "benchmarks", "benchmarks/panel"):
        for path in sorted((ROOT / folder).glob("*.json*")):
            name = str(path.relative_to(ROOT))
            yield from leaves(name, result(name), frozenset(words_of(path.stem)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Write or tell; nothing is bound or declared but by hand."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page_numbers", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="put today's results into the sentences that are bound to them"
    )
    parser.add_argument("pages", nargs="*", help="as docs/linear.md; all unless told")
    asked = parser.parse_args(arguments)
    told, known = by_page(all_told()), list(results())
    for path in pages():
        page = str(path.relative_to(ROOT))
        if asked.pages and page not in asked.pages:
            continue
        text, sentences = path.read_text("utf-8"), told.get(page, [])
        if asked.write and (now := rewritten(text, places(text, sentences)[0])) != text:
            path.write_text(now, "utf-8")
            print(f"wrote {page}")
            text = now
        for problem in problems(page, text, sentences, declared(page)):
            print(problem)
        for number in without_place(text, places(text, sentences)[0], declared(page), page.startswith("proofs/"))[0]:
            around = text[text.rfind("\n", 0, number.start) + 1 :].partition("\n")[0]
            for place in proposed(number.text, around, known):
                print(f"  {number.text} on line {line_of(text, number)} may be {place}")
            piece = json.dumps(shortest_piece(text, number), ensure_ascii=False)
            print(f"  or a setting, for settings.toml: {piece},")


if __name__ == "__main__":
    main()
