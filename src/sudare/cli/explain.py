"""`sudare explain`: what an error, an exit code or a word of sudare means."""

from __future__ import annotations

import difflib
import inspect
from typing import Annotated, Final

import typer

from sudare.cli.command_output import AsJson, answer, reported
from sudare.cli.language import spoken_language
from sudare.errors import SudareError, UnknownName, every_error
from sudare.glossary import TERMS, Term
from sudare.languages import translator

# Codes that no error of ours has.
_OTHER_CODES: Final = {
    "0": "The command did what was asked.",
    "1": "The program failed in a way that was not foreseen, which is a fault of sudare. What was charged stays charged; the command says where it failed.",
    "2": "The command was not understood: an option or argument is missing or wrong. Its --help says what it takes.",
}
_SYMBOLS: Final = {"ε": "epsilon", "δ": "delta"}


@reported
def explain(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="WHAT", help="An exit code, the name of an error, or a word; all words without it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What an error, an exit code or a word means, and what to do."""
    asked = " ".join(what or []).strip()
    if not asked:
        errors = {error.__name__: error.exit_code for error in every_error()}
        language = spoken_language()
        listed = ", ".join(term.name if language == "en" else f"{term.japanese} ({term.name})" for term in TERMS)
        told = ", ".join(f"{name} ({code})" for name, code in errors.items())
        # A list of words is no sentence: it is put into the translated one as it is.
        said = translator(language)
        lines = (said("Words: {words}.", words=listed), said("Errors: {told}.", told=told))
        answer({"words": [term.name for term in TERMS], "errors": errors}, as_json, *lines)
    elif asked in _OTHER_CODES:
        answer({"exit_code": int(asked), "meaning": _OTHER_CODES[asked]}, as_json, _OTHER_CODES[asked])
    elif (error := _error(asked)) is not None:
        meaning = inspect.cleandoc(error.__doc__ or "")
        values = {"error": error.__name__, "exit_code": error.exit_code, "meaning": meaning, "remedy": error.help}
        answer(values, as_json, f"{error.__name__} (exit code {error.exit_code})", meaning, f"What to do: {error.help}")
    else:
        term = _term(asked)
        answer({**term._asdict()}, as_json, *_told(term))


def _told(term: Term) -> tuple[str, ...]:
    """The word and what it means: in both languages, or in Japanese alone where that is in use."""
    if spoken_language() == "ja":
        return f"{term.japanese} ({term.name})", term.japanese_meaning
    return f"{term.name} ({term.japanese})", term.meaning, term.japanese_meaning


def _error(what: str) -> type[SudareError] | None:
    """The error with this name or exit code."""
    return next(
        (error for error in every_error() if what.lower() in (str(error.exit_code), error.__name__.lower())), None
    )


def _term(what: str) -> Term:
    """The word with this name, in English or Japanese. Raise UnknownName if there is none."""
    name = _SYMBOLS.get(what, what.lower())
    for term in TERMS:
        if name in (term.name, term.japanese):
            return term
    names = [name for term in TERMS for name in (term.name, term.japanese)] + [e.__name__ for e in every_error()]
    near = difflib.get_close_matches(what, names, n=3, cutoff=0.5)
    near += [term.japanese for term in TERMS if term.japanese in what and term.japanese not in near]
    words = ", ".join(f"'{term.name}' ({term.japanese})" for term in TERMS)
    raise UnknownName(
        "No error, exit code or word of sudare is called that.",
        f"Did you mean {', '.join(map(repr, near))}?" if near else f"Words are: {words}.",
    )
