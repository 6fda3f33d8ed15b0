"""The language a command speaks: `--lang` anywhere on its line, else the environment.

People are told in that language: answers, progress, errors, help. With `--json` the texts of errors are translated only where `--lang` is on
the line: a program that reads them does not depend on whose terminal it runs in. Keys and values of JSON never change.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple
from weakref import WeakSet

import typer
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from sudare.languages import Language, language_in_use, translated, translator

# What typer itself says; a text with a gap is made by it.
_TYPER_TEMPLATES: Final = (
    "Show this message and exit.",
    "Install completion for the current shell.",
    "Show completion for the current shell, to copy it or customize the installation.",
    "Missing option '{name}'.",
    "Missing argument '{name}'.",
    "Missing argument '{name}'. Choose from:{choices}",
    "Missing command.",
    "No such option: {name}",
    "No such option: {name} Did you mean {near}?",
    "No such option: {name} (Possible options: {near})",
    "No such command '{name}'.",
    "No such command '{name}'. Did you mean {near}?",
    "Option '{name}' requires an argument.",
    "Option '{name}' requires {count} arguments.",
    "Got unexpected extra argument ({name})",
    "Got unexpected extra arguments ({name})",
    "Invalid value for '{name}': {problem}",
    "Invalid value: {problem}",
    "Value error, {problem}",
    "Input should be a valid integer, unable to parse string as an integer",
    "Input should be a valid number, unable to parse string as a number",
    "Input should be greater than or equal to {number}",
    "Input should be less than or equal to {number}",
    "{value} is not a valid float.",
    "{value} is not a valid integer.",
    "{value} is not in the range {range}.",
    "{value} is not one of {choices}.",
    "File '{name}' does not exist.",
)
_HEADINGS: Final = {"Options": "オプション", "Arguments": "引数", "Commands": "コマンド"}
# What typer writes in brackets after the help of an option.
_FACTS: Final = {"default: ": "既定: ", "env var: ": "環境変数: ", "required": "必須"}
_NO_LINE_BEGINS_WITH: Final = "、。，．）」』】！？…ーぁぃぅぇぉゃゅょっァィゥェォャュョッ)],.;:"


# Commands that have learned to write their help in the language in use.
_TRANSLATED: Final[WeakSet[Any]] = WeakSet()


class Speech(NamedTuple):
    """The language, and whether `--lang` asked for it."""

    language: Language = "en"
    asked: bool = False


_SPEECH: ContextVar[Speech] = ContextVar("_SPEECH", default=Speech())  # noqa: B039 - a tuple


def spoken_language() -> Language:
    """The language that people are told in."""
    return _SPEECH.get().language


def json_language() -> Language:
    """The language of error texts in JSON: English unless `--lang` was given."""
    speech = _SPEECH.get()
    return speech.language if speech.asked else "en"


def spoken(text: str) -> str:
    """The text in the language that people are told in."""
    return text if isinstance(text, Told) else translated(text, spoken_language())


class Told(str):
    """A text that is in that language already; names in it may be words of any language."""

    __slots__ = ()


def told(template: str, **values: object) -> Told:
    """The template in the language that people are told in, with the values in its gaps as they are."""
    return Told(translator(spoken_language())(template, **values))


class ToldTable(Table):
    """A table whose texts are in that language already; its headings and cells may be names."""


def spoken_table(table: Table) -> Table:
    """The table with its headings, title and sentences in that language; single words in cells may be names and stay."""
    if spoken_language() != "en" and not isinstance(table, ToldTable):
        for column in table.columns:
            column.header = _spoken_cell(column.header, words=True)
            column._cells = [_spoken_cell(cell, words=False) for cell in column._cells]
        table.title, table.caption = _spoken_cell(table.title, words=True), _spoken_cell(table.caption, words=True)
    return table


def _spoken_cell(cell: Any, words: bool) -> Any:
    plain = cell.plain if isinstance(cell, Text) else cell
    if not isinstance(plain, str) or not (words or " " in plain):
        return cell
    return Text(spoken(plain), style=cell.style) if isinstance(cell, Text) else spoken(plain)


class TranslatedGroup(TyperGroup):
    """The root command: takes `--lang` wherever it stands before `--`, and says help and misunderstandings in that language."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with `--lang` first."""
        given, others = lang_option(args)
        language = language_in_use(given[-1] if given else None, os.environ)
        _SPEECH.set(Speech(language, asked=bool(given)))
        if language == "en":
            return super().parse_args(ctx, [*given, *others])
        _translate_help(self)
        ctx.formatter_class = _formatter(ctx.formatter_class)
        with _TranslatedMisunderstandings():
            return super().parse_args(ctx, [*given, *others])

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _TranslatedMisunderstandings():
            return super().invoke(ctx)


def lang_option(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """`--lang` with its value, as many times as it is given before `--`; and all other arguments."""
    given: list[str] = []
    others: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        if argument == "--":
            return given, [*others, argument, *waiting]
        if argument == "--lang":
            given += [argument, *(value for value in [next(waiting, None)] if value is not None)]
        elif argument.startswith("--lang="):
            given += ["--lang", argument.removeprefix("--lang=")]
        else:
            others.append(argument)
    return given, others


class _TranslatedMisunderstandings:
    """What typer says of a line that it does not understand, in the language in use."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: Any, trace: object) -> None:
        if spoken_language() == "en" or not hasattr(error, "format_message"):
            return
        message, context = spoken(error.format_message()), getattr(error, "ctx", None)
        lines = [] if context is None else [context.get_usage(), _hint(context), ""]
        error.format_message = lambda: message
        error.show = lambda file=None: typer.echo("\n".join([*lines, f"エラー: {message}"]), err=True)


def _hint(context: Any) -> str:
    return f"'{context.command_path} --help' で使い方が見られます。"


def _translate_help(command: Any) -> None:
    """Let a command and those below it write their help in the language in use; once for each, as a tree of commands may be used again."""
    if command in _TRANSLATED:
        return
    _TRANSLATED.add(command)
    original, short_help = command.context_class, command.get_short_help_str
    command.context_class = type(
        original.__name__, (original,), {"formatter_class": _formatter(original.formatter_class)}
    )
    command.get_short_help_str = lambda limit=45: _short_help(command) or short_help(limit)
    if hasattr(command, "get_command"):
        # Not all at once: some commands are made, and what they need imported, when they are asked for.
        get_command = command.get_command
        command.get_command = lambda context, name: _translating(get_command(context, name))


def _translating(command: Any) -> Any:
    """The command, if there is one, with its help in the language in use."""
    if command is not None:
        _translate_help(command)
    return command


def _short_help(command: Any) -> str:
    """The first sentence of what a command says about itself; nothing in English, which typer cuts itself."""
    if spoken_language() == "en":
        return ""
    told = spoken(command.short_help or " ".join((command.help or "").split("\n\n")[0].split()))
    return told[: told.find("。") + 1] or told


def _formatter(original: Any) -> Any:
    """A writer of help that translates what it is given, and counts the columns that wide letters take; in English, the original."""

    class Formatter(original):
        def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
            super().write_usage(prog, args, prefix if spoken_language() == "en" else "使い方: ")

        def write_heading(self, heading: str) -> None:
            super().write_heading(heading if spoken_language() == "en" else _HEADINGS.get(heading, heading))

        def write_text(self, text: str) -> None:
            if spoken_language() == "en":
                super().write_text(text)
                return
            indent = " " * self.current_indent
            for number, paragraph in enumerate(text.split("\n\n")):
                told = spoken(" ".join(paragraph.split()))
                lines = wrapped(told, max(self.width - self.current_indent, 20))
                self.write(("\n" if number else "") + "".join(f"{indent}{line}\n" for line in lines))

        def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
            if spoken_language() == "en":
                super().write_dl(rows, col_max, col_spacing)
                return
            indent = " " * self.current_indent
            first = min(max((cell_len(name) for name, _ in rows), default=0), col_max) + col_spacing
            for name, text in rows:
                lines = wrapped(_spoken_help(text), max(self.width - first - self.current_indent - 2, 20))
                gap = first - cell_len(name)
                if gap < col_spacing or not lines:
                    self.write(f"{indent}{name}\n")
                else:
                    self.write(f"{indent}{name}{' ' * gap}{lines.pop(0)}\n")
                self.write("".join(f"{indent}{' ' * first}{line}\n" for line in lines))

    return Formatter


def _spoken_help(text: str) -> str:
    """The help of an option, with the facts in brackets that typer puts behind it."""
    said, bracket = re.fullmatch(r"(.*?)((?:\s*\[[^\[\]]*\])?)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    for fact, japanese in _FACTS.items():
        bracket = bracket.replace(fact, japanese)
    return (spoken(said.strip()) + "  " + bracket.strip()).strip()


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most so many columns of a terminal; between wide letters a line may end anywhere but before a closing mark."""
    lines, line = [], ""
    for piece in _unbroken(text):
        if line and cell_len(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = piece.lstrip()
        else:
            line += piece
    return [*lines, line.rstrip()] if line.strip() else lines


def padded(text: str, width: int) -> str:
    """The text with blanks after it, so that it takes so many columns of a terminal; wide letters take two."""
    return text + " " * (width - cell_len(text))


def padded_before(text: str, width: int) -> str:
    """The same, with the blanks before it."""
    return " " * (width - cell_len(text)) + text


def _unbroken(text: str) -> Iterator[str]:
    """Pieces that stay on one line: a word with the blank after it, or a wide letter with the marks that follow it."""
    piece = ""
    for letter in text:
        wide = unicodedata.east_asian_width(letter) in "WF"
        was_wide = bool(piece) and unicodedata.east_asian_width(piece[-1]) in "WF"
        if piece and (piece[-1] == " " or wide or was_wide) and letter not in _NO_LINE_BEGINS_WITH and letter != " ":
            yield piece
            piece = ""
        piece += letter
    if piece:
        yield piece
