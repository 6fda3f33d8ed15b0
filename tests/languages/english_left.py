"""What is still English in a text that is told to a Japanese reader: two words in a row that are no name, command, option or file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_NO_PROSE: Final = re.compile(
    r"(?:\b[0-9a-f]{4}\b ?){4,}|`[^`]*`|'[^']*'|\"[^\"]*\"|https?://\S+|\S*[/.]\S+|--[\w-]+|\bsudare( [a-z]+)+"
)
_WORDS: Final = re.compile(r"(?<![\w-])[A-Za-z][a-z]+(?: [a-z]{2,})+")


def english_left(text: str, names: Iterable[str] = ()) -> list[str]:
    """Runs of English words in each line of the text, but for those that hold one of the `names`, which somebody gave."""
    found = _WORDS.findall(_NO_PROSE.sub("", text))
    return [each for each in found if not any(name in each for name in names)]
