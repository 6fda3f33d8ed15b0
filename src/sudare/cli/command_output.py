"""What every command shares: options, one answer as text or JSON, errors as exit codes.

An answer goes to standard output and nothing else does; progress and errors go to standard error, except that with
`--json` an error is the one JSON object on standard output.
"""

from __future__ import annotations

import functools
import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sudare.cli.language import json_language, spoken, spoken_language, spoken_table
from sudare.cli.option_names_in_errors import options_by_parameter, with_option_names
from sudare.errors import SudareError
from sudare.languages import translated
from sudare.safe_text import escaped_for_terminal, escaped_in_json

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would happen and what it would cost. Nothing changes.")
]
LedgerAddress = Annotated[
    str,
    typer.Option(
        "--ledger", envvar="SUDARE_LEDGER", metavar="FILE", help="The ledger: a file, or the address of a database."
    ),
]
DEFAULT_LEDGER = "ledger.db"

Parameters = ParamSpec("Parameters")
Tell = Callable[[str], None]


def reported(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """The command, with errors told in words of the shell and ended with their exit code. Values of variables are never printed."""
    by_parameter = functools.cache(lambda: options_by_parameter(command))

    @functools.wraps(command)
    def wrapped(*arguments: Parameters.args, **options: Parameters.kwargs) -> None:
        as_json = bool(options.get("as_json"))
        try:
            command(*arguments, **options)
        except SudareError as error:
            language = json_language() if as_json else spoken_language()
            told = [translated(text, language) for text in (error.problem, error.remedy)]
            problem, remedy = (with_option_names(text, by_parameter()) for text in told)
            tell_error(type(error).__name__, problem, remedy, error.exit_code, as_json)
            raise typer.Exit(error.exit_code) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:  # noqa: BLE001 - the text of foreign errors may hold private values
            tell_error(type(error).__name__, _place_of(error), SudareError.help, SudareError.exit_code, as_json)
            raise typer.Exit(SudareError.exit_code) from None

    return wrapped


def answer(values: Mapping[str, Any], as_json: bool, *texts: RenderableType) -> None:
    """One answer: the values as a JSON object, or the texts for people."""
    if as_json:
        sys.stdout.write(escaped_in_json(json.dumps(_plain(values), ensure_ascii=False, allow_nan=False)) + "\n")
        return
    console = _console()
    for text in texts:
        if isinstance(text, str):
            console.print(escaped_for_terminal(spoken(text), keep="\n"), soft_wrap=True)
        else:
            console.print(Escaped(spoken_table(text) if isinstance(text, Table) else text))


def clear_screen() -> None:
    """Empty the terminal; nothing where the answer goes elsewhere."""
    _console().clear()


def _console(stderr: bool = False) -> Console:
    """A console on which text is text: no markup, no links, no pictures in place of words between colons."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


@dataclass(frozen=True)
class Escaped:
    """A table or the like, of which only what can be printed reaches the terminal; rich's own styles stay."""

    content: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.content, options):
            if not segment.is_control:
                yield Segment(escaped_for_terminal(segment.text, keep="\n"), segment.style)


@contextmanager
def progress(as_json: bool) -> Iterator[Tell]:
    """A line on the terminal that says what is going on; silent where nobody watches."""
    console = _console(stderr=True)
    if as_json or not console.is_terminal:
        yield lambda text: None
        return
    with console.status("…") as status:
        yield lambda text: status.update(Text(escaped_for_terminal(spoken(text))))


def note(text: str) -> None:
    """Something to know beside the answer, on standard error; nothing where the text is empty."""
    if text:
        _console(stderr=True).print(escaped_for_terminal(spoken(text)), soft_wrap=True)


def write_new_text(path: Path, text: str) -> None:
    """Write a file that was not there. Raise InvalidParameter where there is one, or it cannot be written."""
    with _refusing_unwritable(path), path.open("x", encoding="utf-8") as file:
        file.write(text)


def write_new_private(path: Path, content: bytes) -> None:
    """Writes a new file that only its owner may read, whole or not at all."""
    from sudare.files import write_new

    with _refusing_unwritable(path):
        write_new(path, content)


def write_all_new_private(contents: Mapping[Path, bytes]) -> None:
    """Write such files all, or none of them."""
    written: list[Path] = []
    try:
        for path, content in contents.items():
            write_new_private(path, content)
            written.append(path)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


@contextmanager
def _refusing_unwritable(path: Path) -> Iterator[None]:
    from sudare.errors import InvalidParameter

    try:
        yield
    except OSError as error:
        raise InvalidParameter(
            f"'{path}' cannot be written ({error.strerror}).", "Choose a new file in a folder that exists."
        ) from None


def _plain(value: Any) -> Any:
    """The value in types that JSON has: infinity becomes text, tuples become lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else "nan"
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def tell_error(name: str, problem: str, remedy: str, exit_code: int, as_json: bool) -> None:
    """Say what was wrong and what to do: to standard error, or as the one JSON object."""
    page = f"sudare explain {name if exit_code != SudareError.exit_code else exit_code}"
    if as_json:
        problem, remedy = (translated(text, json_language()) for text in (problem, remedy))
        error = {"name": name, "problem": problem, "remedy": remedy, "exit_code": exit_code, "see": page}
        answer({"error": error}, as_json)
        return
    console = _console(stderr=True)
    console.print(escaped_for_terminal(f"{name}: {spoken(problem)} {spoken(remedy)}"), soft_wrap=True)
    console.print(spoken(f"see `{page}`"), style="dim")


def _place_of(error: Exception) -> str:
    """Where a foreign error came from. Its text is not shown: libraries quote what they were given."""
    if os.environ.get("SUDARE_TRACEBACK"):
        traceback.print_exception(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"unexpected, in {Path(frame.filename).name} line {frame.lineno}."
