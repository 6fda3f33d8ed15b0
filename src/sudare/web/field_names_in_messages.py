"""Messages in the words of the page: where an error names an option of the shell, the page names the field of its form."""

from __future__ import annotations

import re
from typing import Final

from sudare.languages import translator
from sudare.languages.translation import Language, Translator
from sudare.requests.field_words import WORDS

_OPTIONS: Final = frozenset(words.option for words in WORDS.values())
# Commands in backticks stay what they are.
_OPTION_OR_COMMAND: Final = re.compile(r"`[^`]*`|(?<![\w-])--[a-z][a-z-]*")


def field_names_in_messages(text: str) -> str:
    """The text with “epsilon” in place of --epsilon, and so on for every field of a request."""
    return _OPTION_OR_COMMAND.sub(lambda found: f"“{found[0][2:]}”" if found[0] in _OPTIONS else found[0], text)


def page_translator(language: Language) -> Translator:
    """`_` for templates of the page."""
    translate = translator(language)

    def said(text: str, /, **values: object) -> str:
        return field_names_in_messages(translate(text, **values))

    return said
