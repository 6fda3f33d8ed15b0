"""A finished English text in another language: the template that it was made from is found, and its translation filled.

Nothing is read or compiled while the language is English.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from typing import Final, Literal, Protocol, get_args

from sudare.languages.text_template import filled, is_exact, literal_text, name_gaps, pattern, quoted_gaps, tokens

Language = Literal["en", "ja"]
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)

# A text is a sentence or a few; longer ones are not ours, and would take long to compare with all templates.
_LONGEST_TEXT: Final = 8_000
_DEEPEST: Final = 4
# Our own texts have some dozens of parts.
_MOST_PARTS: Final = 2000
# Letters of its own with which a template still says little.
_FEW_LETTERS: Final = 10
# Where a text of several parts may be divided, if no template has made the whole. Each part keeps what ends it.
_SEAMS: Final = {"\n": "\n", "  ": "  ", ". ": "", "; ": "; ", ": ": ": "}


class Translator(Protocol):
    """What templates call as `_`."""

    def __call__(self, text: str, /, **values: object) -> str: ...


def language_in_use(option: str | None, environment: Mapping[str, str]) -> Language:
    """The language that is asked for: by `--lang`, else by SUDARE_LANG, else by the locale (LC_ALL, LC_MESSAGES, LANG). English unless it is Japanese.

    A language that there is no translation for counts as English.
    """
    named = option or environment.get("SUDARE_LANG")
    if not named:
        # The first that is set decides, as POSIX has it.
        named = next((environment[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(name)), "")
    return "ja" if re.match(r"ja(?![a-z])", named, re.IGNORECASE) else "en"


def translated(text: str, language: Language) -> str:
    """The text in the language; itself where no template is known that makes it."""
    if language == "en" or not text or len(text) > _LONGEST_TEXT:
        return text
    return _catalogue(language).translated(text, _DEEPEST) or text


def translator(language: Language, put: Callable[[str], str] = str) -> Translator:
    """`_` for templates: `_("…")` is the text in the language, and `_("… {name} …", name=value)` has the values in its gaps.

    Values are filled in as they are; what is itself a text of ours goes through `_` first. `put` says our own texts in other words, and no values.
    """

    def translate(text: str, /, **values: object) -> str:
        if not values:
            return put(translated(text, language))
        template = text if language == "en" else _catalogue(language).templates.get(text, text)
        return filled(put(template), values)

    return translate


def with_translated_comments(text: str, language: Language) -> str:
    """A text in TOML whose lines of comments are in the language; all other lines stay as they are."""
    lines = text.split("\n")
    return "\n".join(f"# {translated(line[2:], language)}" if line.startswith("# ") else line for line in lines)


@functools.cache
def _catalogue(language: Language) -> _Catalogue:
    folder = resources.files("sudare.languages") / language
    return _Catalogue(
        {
            english: other
            for file in sorted(folder.iterdir(), key=lambda file: file.name)
            if file.name.endswith(".toml")
            for english, other in tomllib.loads(file.read_text("utf-8")).items()
        }
    )


class _Template:
    """An English template and what it is in another language, compared with a text when needed."""

    def __init__(self, english: str, other: str) -> None:
        self.other = other
        self.weight = len(literal_text(english))
        is_label = next(tokens(english), ("", ""))[1].endswith(": ")
        self.is_short = not is_label and sum(map(str.isalpha, literal_text(english))) < _FEW_LETTERS
        self._has_plural = any(kind == "choice" for kind, _ in tokens(english))
        self._english = english
        # Looking for the longest piece first is much faster than the pattern.
        self._piece = max((piece for kind, piece in tokens(english) if kind == "text"), key=len, default="")
        self._quoted = quoted_gaps(english)
        self._names = name_gaps(english)

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        return pattern(self._english)

    def values_in(self, text: str) -> dict[str, str] | None:
        """What stands in the gaps, if the template makes the text."""
        found = self._pattern.fullmatch(text) if self._piece in text else None
        if found is None:
            return None
        values = found.groupdict()
        return values if not self.is_short or self._has_short_values(values) else None

    def _has_short_values(self, values: Mapping[str, str]) -> bool:
        """Whether what stands in the gaps are names and numbers, not sentences, lines or lists: a template of hardly any words takes nothing else."""
        if any(value.isspace() for value in values.values()):
            return False
        if self._has_plural and any(" " in values[gap] for gap in list(values)[:1]):
            return False
        return not any(mark in value for value in values.values() for mark in ("; ", ". ", "  "))

    def is_name(self, gap: str, content: str) -> bool:
        """Whether what stands there is a name, which is never translated."""
        return gap in self._quoted or (gap in self._names and _is_value(content))


class _Catalogue:
    """All templates of a language, found by the first word of a text."""

    def __init__(self, templates: Mapping[str, str]) -> None:
        self.templates = templates
        self.exact = {filled(key, {}): filled(value, {}) for key, value in templates.items() if is_exact(key)}
        for text, told in list(self.exact.items()):
            # A part of a text is found with or without the blank that set it off.
            self.exact.setdefault(text.strip(), told.strip())
        self._by_first_word: defaultdict[str, list[_Template]] = defaultdict(list)
        for key, value in templates.items():
            if not is_exact(key):
                self._by_first_word[_first_word(next(tokens(key)))].append(_Template(key, value))

    def translated(self, text: str, depth: int) -> str | None:
        """The text in this language, or None where it is not one of ours."""
        return _Translation(self).translated(text, depth)

    def likely(self, text: str) -> list[_Template]:
        """Templates that may have made the text, those with most words of their own first."""
        words = {"", _first_word(("text", text))}
        found = [template for word in words for template in self._by_first_word.get(word, [])]
        return sorted(found, key=lambda template: -template.weight)


class _Translation:
    """One text on its way: parts that come again are looked up once, and nobody's text can be made of so many different parts that it takes long."""

    def __init__(self, catalogue: _Catalogue) -> None:
        self._catalogue = catalogue
        self._known: dict[tuple[str, int], str | None] = {}

    def translated(self, text: str, depth: int) -> str | None:
        """A part of it in the language, or None where it is not one of ours."""
        if text in self._catalogue.exact:
            return self._catalogue.exact[text]
        if not depth:
            return None
        if (text, depth) not in self._known:
            # Until it is known, and for good where there are too many: left as it is.
            self._known[text, depth] = None
            if len(self._known) <= _MOST_PARTS:
                self._known[text, depth] = self._looked_up(text, depth)
        return self._known[text, depth]

    def _looked_up(self, text: str, depth: int) -> str | None:
        # A template of hardly any words makes many texts: it is asked after sentences that are known one by one.
        likely = self._catalogue.likely(text)
        return (
            self._from_templates([template for template in likely if not template.is_short], text, depth)
            or self._in_parts(text, depth, all)
            or self._from_templates([template for template in likely if template.is_short], text, depth)
            or self._in_parts(text, depth, any)
        )

    def _from_templates(self, templates: Iterable[_Template], text: str, depth: int) -> str | None:
        for template in templates:
            values = template.values_in(text)
            told = None if values is None else self._values(template, values, depth)
            if told is not None:
                return filled(template.other, told)
        return None

    def _values(self, template: _Template, values: Mapping[str, str], depth: int) -> dict[str, str] | None:
        """What stands in the gaps, in this language; None where prose would stay English inside a sentence, which would then say something else or nothing."""
        told = {}
        for gap, content in values.items():
            whole = content if template.is_name(gap, content) else self.translated(content, depth - 1)
            if whole is None and not _is_value(content):
                return None
            told[gap] = content if whole is None else whole
        return told

    def _in_parts(self, text: str, depth: int, enough: Callable[[Iterable[object]], bool]) -> str | None:
        """The text with its parts translated: lines, sentences, what stands before and in brackets; if enough of them are texts of ours."""
        if (aside := re.fullmatch(r"(.*?) \((.+)\)", text, re.DOTALL)) is not None:
            outside, inside = (self.translated(part, depth - 1) if part else part for part in aside.groups())
            if outside is not None and inside is not None:
                return f"{outside}（{inside}）"
        for seam, seam_between in _SEAMS.items():
            if seam in text.strip():
                pieces = text.split(seam)
                ends = seam.rstrip() if seam == ". " else ""
                english = [piece + ends for piece in pieces[:-1]] + pieces[-1:]
                parts = [self._part(piece, depth - 1) for piece in english]
                if enough(parts):
                    return seam_between.join(part or piece for part, piece in zip(parts, english, strict=True))
        return None

    def _part(self, text: str, depth: int) -> str | None:
        """The part in this language, with the blanks around it; as it is where it has no words."""
        if not re.search(r"[A-Za-z]{2}", text):
            return text
        told = self.translated(text.strip(), depth)
        return None if told is None else text.replace(text.strip(), told)


def _is_value(content: str) -> bool:
    """Whether a text is a name, a number, or a list of them, and no prose."""
    if "  " in content or "\n" in content or ". " in content:
        return False
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|“[^”]*”", "", content)
    return all(len(re.findall(r"(?<![\w.-])[a-z]{2,}(?![\w.-])", part)) <= 1 for part in re.split(r", | and ", bare))


def _first_word(token: tuple[str, str]) -> str:
    """The first whole word of a text, or nothing where it may go on in a gap."""
    kind, piece = token
    return piece.split(" ", 1)[0] if kind == "text" and " " in piece else ""
