"""Messages in the words of the page: where an error names an option of the shell, the page names the field of its form."""

from __future__ import annotations

import re
from typing import Final

from sudare.languages import translator
from sudare.languages.translation import Language, Translator
from sudare.requests.parameter_help import WORDS

_OPTIONS: Final = frozenset(words.option for words in WORDS.values())
# Commands in backticks stay what they are; what stands in a list of Python is named alone.
_OPTION_OR_COMMAND: Final = re.compile(
    r"`(?P<backticks>[^`]*)`|(?<![\w-])(?P<option>--[a-z][a-z-]*)|\b(?P<list>\w+)=\[\"?(?P<entry>[^\]\",]*)[^\]]*\]"
)
# Japanese has no blanks between words.
_BLANK: Final = re.compile(r"(?<=」) (?=[ぁ-ん])|(?<=」 は) (?=[ぁ-んァ-ヶ一-龠])| (?=でなければ)")

# Between the quotation marks in which messages name files; one that a letter follows is an apostrophe of a name.
_FOLDERS_OF_A_FILE: Final = re.compile(r"(?<=')/(?:[^'/\n]+/)*(?=[^'/\n]+'(?![A-Za-z0-9]))")


def field_names_in_messages(text: str, language: Language = "en") -> str:
    """The text with “epsilon” in place of --epsilon, and so on for every field of a request."""

    def said(found: re.Match[str]) -> str:
        option = found["option"]
        name = option[2:] if option in _OPTIONS else found["list"] or found["backticks"]
        if name is None or (option is None and name not in WORDS):
            return found[0]
        entry = f" {found['entry']}" if found["list"] else ""
        return f"「{name}」{entry}" if language == "ja" else f"“{name}”{entry}"

    named = _OPTION_OR_COMMAND.sub(said, text)
    return _BLANK.sub("", named) if language == "ja" and named != text else named


def page_translator(language: Language, *, shows_folders: bool = True) -> Translator:
    """`_` for templates of the page. What people wrote, which templates hand over as values, stays as it is written.

    Without `shows_folders` files that messages quote are told without the folders that they are in.
    """

    def put(text: str) -> str:
        named = field_names_in_messages(text, language)
        return named if shows_folders else _FOLDERS_OF_A_FILE.sub("", named)

    return translator(language, put)
