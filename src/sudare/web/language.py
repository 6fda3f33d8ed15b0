"""The language of a page: which one a browser asked for."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from sudare.languages import Language

LANGUAGES: Final[dict[Language, str]] = {"en": "English", "ja": "日本語"}
COOKIE: Final = "sudare_language"


def language_of(request: Request) -> Language:
    """The language that somebody chose on this page, else the first one of the browser's that the page speaks."""
    browser = [each.split(";")[0].strip()[:2].lower() for each in request.headers.get("accept-language", "").split(",")]
    for asked in (request.cookies.get(COOKIE, ""), *browser):
        for language in LANGUAGES:
            if asked == language:
                return language
    return "en"
