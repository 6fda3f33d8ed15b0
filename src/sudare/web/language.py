"""The language of a page: which one a browser asked for, and its words."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

LANGUAGES: Final = {"en": "English", "ja": "日本語"}
COOKIE: Final = "sudare_language"


def language_of(request: Request) -> str:
    """The language that somebody chose on this page, else the first one of the browser's that the page speaks."""
    chosen = request.cookies.get(COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    asked = [each.split(";")[0].strip()[:2].lower() for each in request.headers.get("accept-language", "").split(",")]
    return next((each for each in asked if each in LANGUAGES), "en")


def in_language(text: str, language: str) -> str:
    """The text, or the pattern with {names} in braces, in a language; as it is where that language lacks it."""
    try:
        from sudare.languages import translated
    except ImportError:
        return text
    return str(translated(text, language))
