"""`sudare explain`: what an error, an exit code or a word of sudare means."""

from __future__ import annotations

import difflib
import inspect
from typing import Annotated

import typer

from sudare.cli.answers import AsJson, answer, reported
from sudare.errors import SudareError, UnknownName, every_error
from sudare.glossary import TERMS, Term


@reported
def explain(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="An exit code, the name of an error, or a word.")],
    as_json: AsJson = False,
) -> None:
    """What an error, an exit code or a word means, and what to do."""
    error = _error(what)
    if error is not None:
        meaning = inspect.cleandoc(error.__doc__ or "")
        values = {"error": error.__name__, "exit_code": error.exit_code, "meaning": meaning, "remedy": error.help}
        answer(values, as_json, f"{error.__name__} (exit code {error.exit_code})", meaning, f"What to do: {error.help}")
        return
    term = _term(what)
    answer({**term._asdict()}, as_json, f"{term.name} ({term.japanese})", term.meaning, term.japanese_meaning)


def _error(what: str) -> type[SudareError] | None:
    """The error with this name or exit code."""
    return next(
        (error for error in every_error() if what in (str(error.exit_code), error.__name__)),
        next((error for error in every_error() if what.lower() == error.__name__.lower()), None),
    )


def _term(what: str) -> Term:
    """The word with this name. Raise UnknownName if there is none."""
    for term in TERMS:
        if what.strip().lower() in (term.name, term.japanese):
            return term
    names = [term.name for term in TERMS] + [error.__name__ for error in every_error()]
    near = difflib.get_close_matches(what, names, n=3)
    raise UnknownName(
        "No error, exit code or word of sudare is called that.",
        f"Did you mean {', '.join(near)}?" if near else f"Words are: {', '.join(term.name for term in TERMS)}.",
    )
