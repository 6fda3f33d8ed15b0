"""All English texts of the source that somebody is told, as templates, with the room that says them. Read from the syntax tree: nothing is run.

In rooms that speak (shell, report, demo, page) every literal that reads as prose counts; elsewhere what errors are made of: the arguments of error
classes, with the names and functions of the same module that they come from, and every literal of three words or more, which some error, card or log says.
Gaps are named after the last word of their expression.
"""

from __future__ import annotations

import ast
import builtins
import errno
import functools
import itertools
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from sudare.errors import every_error
from sudare.languages.text_template import literal_text

SOURCE: Final = Path(__file__).parents[2] / "src" / "sudare"
SPEAKING_ROOMS: Final = ("cli", "report", "demo", "requests", "web")
# The glossary says its words in both languages itself.
NOT_TRANSLATED: Final = ("languages", "glossary")
_ERRORS: Final = {error.__name__ for error in every_error()}
_MOST_VARIANTS: Final = 64
_PLURALS: Final = (
    {"is", "are"},
    {"was", "were"},
    {"has", "have"},
    {"it", "they"},
    {"does", "do"},
    {"its", "their"},
    {"it", "them"},
    {"", "s"},
    {"this", "these"},
    {"person", "people"},
    {"that", "those"},
)
# Of this room only the report of an account and released numbers are translated: all else there is written in both languages.
_DOSSIER_IN_ENGLISH: Final = ("account_report.py", "number_table.py", "released_numbers.py")
# Of the papers what the shell shows: `sudare risk chunks`, an unknown study, and titles of studies.
_PAPERS_IN_THE_SHELL: Final = (
    "papers/__init__.py",
    "papers/p003_decentralised/chunked_sum_assessment.py",
    "papers/p003_decentralised/chunked_sum_report.py",
    "papers/p003_decentralised/graphs.py",
)
# Words of guarantees and audits, states of requests, kinds of entries and headings of released numbers: texts have them in their gaps, tables in their cells. Their catalogue is words.toml.
# What texts have in their gap `strerror`; the catalogue is operating_system.toml.
SYSTEM_ERRORS: Final = (
    errno.EPERM,
    errno.ENOENT,
    errno.EINTR,
    errno.EIO,
    errno.ENXIO,
    errno.E2BIG,
    errno.EBADF,
    errno.EAGAIN,
    errno.ENOMEM,
    errno.EACCES,
    errno.EBUSY,
    errno.EEXIST,
    errno.EXDEV,
    errno.ENODEV,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EINVAL,
    errno.ENFILE,
    errno.EMFILE,
    errno.ETXTBSY,
    errno.EFBIG,
    errno.ENOSPC,
    errno.ESPIPE,
    errno.EROFS,
    errno.EMLINK,
    errno.EPIPE,
    errno.ENAMETOOLONG,
    errno.ENOLCK,
    errno.ENOTEMPTY,
    errno.ELOOP,
    errno.EILSEQ,
    errno.EOPNOTSUPP,
    errno.EADDRINUSE,
    errno.EADDRNOTAVAIL,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ECONNABORTED,
    errno.ECONNRESET,
    errno.ENOBUFS,
    errno.ETIMEDOUT,
    errno.ECONNREFUSED,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ESTALE,
    errno.EDQUOT,
    errno.ENOTCONN,
    errno.EOVERFLOW,
)
WORDS_IN_GAPS: Final = (
    "counts",
    "record",
    "person",
    "everyone",
    "replace-one",
    "add-remove",
    "REFUTED",
    "asked",
    "running",
    "approved",
    "denied",
    "noise scale",
    "grid",
    "own",
    "other",
    "present",
    "absent",
    "finished",
    "preparing",
    "failed",
    "interrupted",
    "open",
    "bind",
    "charge",
    "result",
    "release",
    "raise",
    "close",
    "disclosure",
    "refused",
    "noticed",
    "published",
    "column",
    "unit",
    "mean",
    "count",
    "coefficient",
    "class",
    "term",
    "standard deviation",
    "Averages",
    "log odds",
    "quantile",
    "cells",
    "answers",
    "analyst",
    "viewer",
    "basic",
    "gaussian",
    "category",
    "date",
    "date part",
    "replace-one person",
    "add-remove record",
    "add-remove person",
    "(missing)",
    "(unknown)",
    "(intercept)",
    "weeks",
    "days",
    "hours",
    "minutes",
    "seconds",
    "sums",
    "parameters",
    "value",
    "layer",
    "output",
    "noise",
    "inputs",
    "neurons",
    "counted",
    "distance",
    "bound",
    "yes",
    "epsilon",
    "shape",
    "array",
    "tensor",
    "type",
)
# Keyword arguments that programs read, not people.
_FOR_PROGRAMS: Final = {
    "metavar",
    "envvar",
    "choices",
    "key",
    "unit",
    "box",
    "style",
    "encoding",
    "mode",
    "name",
    "pattern",
    "sep",
    "end",
    "overflow",
    "loc",
    "linestyle",
}
_NAMES: Final = {"localhost", "csv", "json", "threshold", "dishonest", "auto", "main", "Classifier", "Regressor"}
# Methods of texts, which are asked about and not told.
_TEXT_METHODS: Final = {"removeprefix", "removesuffix", "startswith", "endswith", "split", "replace", "index", "find"}
# Calls whose words are shown, however short.
_CALLS_WITH_WORDS: Final = {"Table", "add_column", "add_row", "Strength", "Text", "tell"}
# Regular expressions, headers, content policies, types of content and fonts.
_CODE: Final = re.compile(
    r"\\[dws]|\(\?|\[a-z|-----|filename\*|<[a-z]+|[a-z]-src |^(SELECT|PRAGMA|INSERT|CREATE|Bearer|sudare) |^text/|^DejaVu|^kind = |\[columns\.|\)\.fit\("
)
_QUERY: Final = re.compile(
    r"typeof|lower\(|= 1$|\b(AS|CASE|CAST|COLLATE|GROUP BY|GROUPING SETS|NOT BETWEEN|SET LOCAL|SET TRANSACTION|THEN|UPDATE)\b"
)
_MARKED: Final = re.compile(r"""\b_\(\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")


class SourceText(NamedTuple):
    """A template, and where it is said."""

    room: str
    file: str
    line: int
    template: str


@functools.cache
def source_texts() -> list[SourceText]:
    """Every text, once for each place."""
    words = [SourceText("words", "privacy/guarantee.py", 1, word) for word in WORDS_IN_GAPS]
    words += [SourceText("operating_system", "files.py", 1, os.strerror(number)) for number in SYSTEM_ERRORS]
    found: list[SourceText] = []
    for file in sorted(SOURCE.rglob("*.py")):
        room = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room not in NOT_TRANSLATED:
            module = Module(ast.parse(file.read_text("utf-8")))
            if room == "papers" and file.relative_to(SOURCE).as_posix() not in _PAPERS_IN_THE_SHELL:
                titles = module.study_titles()
                found.extend(SourceText(room, str(file.relative_to(SOURCE)), line, text) for line, text in titles)
                continue
            speaks = room in (*SPEAKING_ROOMS, "papers") or file.name in _DOSSIER_IN_ENGLISH
            texts = itertools.chain(
                module.error_texts(),
                ()
                if file.name == "__init__.py" or (room == "dossier" and file.name not in _DOSSIER_IN_ENGLISH)
                else module.spoken_texts()
                if speaks
                else module.sentences(),
            )
            found.extend(SourceText(room, str(file.relative_to(SOURCE)), line, text) for line, text in texts)
    for file in sorted(SOURCE.rglob("*.html")):
        room = file.relative_to(SOURCE).parts[0]
        content = file.read_text("utf-8")
        for mark in _MARKED.finditer(content):
            line = content.count("\n", 0, mark.start()) + 1
            found.append(SourceText(room, str(file.relative_to(SOURCE)), line, ast.literal_eval(mark.group(1))))
    marked = [text for text in found if text.file.endswith(".html") and re.search("[A-Za-z]{2}", text.template)]
    return words + marked + [text for text in found if _has_words(text.template)]


def _has_words(template: str) -> bool:
    """Whether it says something outside gaps. Alone, a word in small letters does; names of modules, files and encodings do not."""
    text = literal_text(template)
    if _QUERY.search(text):
        return False
    if " " not in text or re.match(r"--\S+ \S*$|sudare ", text):
        return re.fullmatch(r"[A-Z]?[a-z]{2,}[.:]?", text) is not None and text not in _NAMES
    return re.search(r"[A-Za-z]{2}", text) is not None


def _is_prose(template: str) -> bool:
    """Whether a literal reads as something said to people: words with spaces between, not a path, a query or a regular expression."""
    text = literal_text(template)
    words = re.search(r"[A-Za-z]+[,;:.)'’]* \(?[A-Za-z]+|^[A-Z][a-z]+[.:!]|[a-z]{2,} |^ [a-z]{2,}", text)
    return words is not None and not _CODE.search(text)


@dataclass
class Module:
    """One module: its tree, and what its names and functions stand for."""

    tree: ast.Module

    def __post_init__(self) -> None:
        # In the order of `ast.walk`, which would take most of the time if it were called for every question.
        self.nodes: list[ast.AST] = [self.tree]
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in self.nodes:
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                self.nodes.append(child)
        self.functions = {
            node.name: node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        self.errors = _ERRORS | {
            node.name
            for node in self.nodes
            if isinstance(node, ast.ClassDef)
            and any(ast.unparse(base).split(".")[-1] in _ERRORS for base in node.bases)
        }
        self.assignments: dict[ast.AST, dict[str, list[ast.expr]]] = {}
        self.following: set[ast.AST] = set()
        self.fragments: list[tuple[int, str]] = []

    def error_texts(self) -> Iterator[tuple[int, str]]:
        """(line, template) of all that error classes are called with, and of help texts of error classes."""
        for node in self.nodes:
            if isinstance(node, ast.Call) and _name_of(node.func) in self.errors:
                for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                    yield from ((node.lineno, text) for text in self.templates(argument))
            elif isinstance(node, ast.ClassDef) and node.name in self.errors:
                if documentation := ast.get_docstring(node):
                    yield node.lineno, _escaped(documentation)
                for statement in node.body:
                    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
                    if "help" in [getattr(target, "id", "") for target in targets] and statement.value is not None:  # type: ignore[attr-defined]
                        yield from ((node.lineno, text) for text in self.templates(statement.value))  # type: ignore[attr-defined]
        yield from self.fragments

    def spoken_texts(self) -> Iterator[tuple[int, str]]:
        """(line, template) of every literal that reads as prose, of documentation that `--help` shows, and of words in tables and labels."""
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef) and self._is_command(node):
                if documentation := ast.get_docstring(node):
                    yield from ((node.lineno, _escaped(part)) for part in _paragraphs(documentation))
            elif isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp | ast.IfExp) and not self._is_inner(node):
                texts = self.templates(node)
                if self._is_template(node):
                    texts = [_unescaped(text) for text in texts]
                if any(map(_is_prose, texts)) or self._is_label(node):
                    yield from ((node.lineno, text) for text in texts)
        yield from self.fragments

    def study_titles(self) -> Iterator[tuple[int, str]]:
        """(line, template) of the titles that studies are listed by."""
        for node in self.nodes:
            if isinstance(node, ast.Call) and _name_of(node.func) == "Study":
                titles = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "title")]
                yield from ((node.lineno, text) for title in titles for text in self.templates(title))

    def sentences(self) -> Iterator[tuple[int, str]]:
        """(line, template) of every literal of three words or more that is neither documentation nor about a fault of the program itself."""
        for node in self.nodes:
            is_text = isinstance(node, ast.Constant | ast.JoinedStr | ast.IfExp)
            if is_text and not self._is_inner(node) and not self._is_for_authors(node):
                yield from (
                    (node.lineno, text)
                    for text in self.templates(node)
                    if _is_prose(text) and len(literal_text(text).split()) > 2
                )
        yield from self.fragments

    def templates(self, node: ast.expr) -> list[str]:
        """The templates that the expression makes; none where it is not text of this module."""
        if node in self.following:
            return []
        self.following.add(node)
        try:
            return self._templates(node)
        finally:
            self.following.discard(node)

    def _templates(self, node: ast.expr) -> list[str]:
        match node:
            case ast.Constant(value=str(text)):
                return [_escaped(text)]
            case ast.JoinedStr(values=values):
                names = _gap_names(values)
                return _products([self._piece(value, names) for value in values])
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                sides = [self.templates(side) for side in (left, right)]
                if not all(sides):
                    self.fragments.extend((node.lineno, text) for side in sides for text in side)
                    return []
                return _products(sides)
            case ast.IfExp(body=body, orelse=orelse):
                return [*self.templates(body), *self.templates(orelse)]
            case ast.BoolOp(values=values):
                return [text for value in values for text in self.templates(value)]
            case ast.Name() | ast.Call() | ast.Attribute() | ast.Subscript():
                return self._followed(node)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return [text for element in elements for text in self.templates(element)]
            case ast.Starred(value=value):
                return self.templates(value)
            case ast.Dict(values=values):
                return [text for value in values for text in self.templates(value)]
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.DictComp(value=element):
                return self.templates(element)
            case ast.NamedExpr(value=value):
                return self.templates(value)
        return []

    def _piece(self, value: ast.expr, names: dict[str, str]) -> list[str]:
        """What one piece of an f-string makes: its text, its words, or a gap."""
        if isinstance(value, ast.Constant):
            return [_escaped(str(value.value))]
        assert isinstance(value, ast.FormattedValue)
        if isinstance(value.value, ast.IfExp):
            branches = [value.value.body, value.value.orelse]
            if all(isinstance(branch, ast.Constant | ast.JoinedStr) for branch in branches):
                texts = [self.templates(branch) for branch in branches]
                if all(texts):
                    flat = [text for each in texts for text in each]
                    return [f"{{{'|'.join(flat)}}}"] if _is_plural(flat) else flat
        self.fragments.extend(
            (value.lineno, text)
            for text in self.templates(value.value)
            if re.search(r"[A-Za-z]{2}", literal_text(text))
        )
        return [f"{{{names[ast.unparse(value.value)]}}}"]

    def _followed(self, node: ast.expr) -> list[str]:
        """The texts behind a name that is assigned here, or that a function of this module returns, or that are joined."""
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr == "join" and node.args:
                return self.templates(node.args[0])
            function = self.functions.get(_name_of(node.func))
            if function is None:
                return []
            returns = [inner.value for inner in ast.walk(function) if isinstance(inner, ast.Return | ast.Yield)]
            return [text for value in returns if value is not None for text in self.templates(value)]
        if isinstance(node, ast.Subscript):
            return self.templates(node.value)
        name = _name_of(node)
        if isinstance(node, ast.Attribute):
            function = self.functions.get(name)
            if function is not None and "property" in [_name_of(each) for each in function.decorator_list]:
                returns = [inner.value for inner in ast.walk(function) if isinstance(inner, ast.Return)]
                return [text for value in returns if value is not None for text in self.templates(value)]
            return []
        return [text for value in self._assigned(node, name) for text in self.templates(value)]

    def _assigned(self, node: ast.AST, name: str) -> Iterator[ast.expr]:
        """What is assigned to the name in the function around the node, else in the module."""
        around: ast.AST | None = node
        while around is not None:
            around = self.parents.get(around)
            if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
                if around not in self.assignments:
                    self.assignments[around] = _assignments(around)
                values = self.assignments[around].get(name)
                if values:
                    yield from values
                    return

    def _is_inner(self, node: ast.AST) -> bool:
        """Whether the literal is a part of a text, documentation, or something that programs read."""
        above = self.parents.get(node)
        match above:
            case ast.JoinedStr() | ast.FormattedValue() | ast.BinOp() | ast.IfExp():
                return True
            case ast.Expr() | ast.Compare() | ast.Subscript() | ast.MatchValue() | ast.AnnAssign():
                return not (isinstance(above, ast.AnnAssign) and above.value is node)
            case ast.keyword(arg=name):
                return name in _FOR_PROGRAMS
            case ast.Call(func=ast.Attribute(attr=name)):
                return name in _TEXT_METHODS
            case ast.Tuple():
                return self._listed_as(node).endswith("_FONTS")
            case ast.Dict(keys=keys):
                return node in keys
        return False

    def _is_for_authors(self, node: ast.AST) -> bool:
        """Whether only somebody who changes the program would read it: in an assertion, an error of Python, or what `repr` shows."""
        above = self.parents.get(node)
        while above is not None and not isinstance(above, ast.FunctionDef):
            if isinstance(above, ast.Assert) or (
                isinstance(above, ast.Call) and isinstance(getattr(builtins, _name_of(above.func), None), type)
            ):
                return True
            above = self.parents.get(above)
        return above is not None and above.name == "__repr__"

    def _is_label(self, node: ast.AST) -> bool:
        """Whether a single word is shown as such: in a table, as the first of a pair, or as a word of a card."""
        above = self.parents.get(node)
        if isinstance(above, ast.Tuple) and isinstance(self.parents.get(above), ast.List | ast.Call):
            return len(above.elts) == 2 and above.elts[0] is node and isinstance(node, ast.Constant)
        return isinstance(above, ast.Call) and _name_of(above.func) in _CALLS_WITH_WORDS and node in above.args

    def _is_template(self, node: ast.AST) -> bool:
        """Whether the literal is a template as it stands: in a list that is named so."""
        return self._listed_as(node).endswith("_TEMPLATES")

    def _listed_as(self, node: ast.AST) -> str:
        """The name of the list that the literal stands in."""
        listed = self.parents.get(self.parents.get(node, node))
        return ast.unparse(listed.target) if isinstance(listed, ast.AnnAssign) else ""

    def _is_command(self, node: ast.FunctionDef) -> bool:
        return any(
            _name_of(each.func if isinstance(each, ast.Call) else each)
            in {"reported", "command", "callback", "charging"}
            for each in node.decorator_list
        )


def _assignments(scope: ast.AST) -> dict[str, list[ast.expr]]:
    """What is assigned to each name within a function or a module, or appended to it."""
    found: dict[str, list[ast.expr]] = defaultdict(list)
    for node in ast.walk(scope):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        found[target.id].append(value)
                    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                        for each, what in zip(target.elts, value.elts, strict=False):
                            if isinstance(each, ast.Name):
                                found[each.id].append(what)
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.AugAssign(target=ast.Name(id=name), value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
                | ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value])
            ):
                found[name].append(value)
    return found


def _name_of(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _escaped(text: str) -> str:
    """The text of a literal as a template. A word in braces is a gap that a translator fills."""
    pieces = re.split(r"(\{[a-z_]+\})", text)
    return "".join(
        piece if place % 2 else piece.replace("{", "{{").replace("}", "}}") for place, piece in enumerate(pieces)
    )


def _unescaped(text: str) -> str:
    return text.replace("{{", "{").replace("}}", "}")


def _paragraphs(text: str) -> list[str]:
    """Paragraphs as help shows them, each on one line."""
    return [" ".join(part.split()) for part in text.split("\n\n")]


def _is_plural(words: Sequence[str]) -> bool:
    pair = set(words)
    short, long = sorted(words, key=len)[0], sorted(words, key=len)[-1]
    return pair in _PLURALS or (
        short != "" and " " not in long and long in (short + "s", short + "es", short.removesuffix("y") + "ies")
    )


def _products(pieces: Iterable[list[str]]) -> list[str]:
    made = list(itertools.islice(itertools.product(*pieces), _MOST_VARIANTS + 1))
    assert len(made) <= _MOST_VARIANTS, "A text with so many variants is several texts: write them one by one."
    return ["".join(parts) for parts in made]


def _gap_names(values: Sequence[ast.expr]) -> dict[str, str]:
    """A name for each expression in an f-string: the last word in it, with a number where two would have the same."""
    names: dict[str, str] = {}
    for value in values:
        if isinstance(value, ast.FormattedValue):
            expression = ast.unparse(value.value)
            words = [_name_of(node) for node in ast.walk(value.value) if _name_of(node) not in ("", "join", "format")]
            last = _last_word(value.value) or (words[-1] if words else "value")
            if expression not in names:
                taken = {*names.values()}
                candidates = [last, *(f"{last}{number}" for number in range(2, 99))]
                names[expression] = next(name for name in candidates if name not in taken)
    return names


def _last_word(node: ast.AST) -> str:
    """The name that says most about what stands there."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_")
        case ast.Call(func=function, args=arguments):
            return next(
                (word for argument in reversed(arguments) if (word := _last_word(argument))), _last_word(function)
            )
        case ast.Subscript(value=value, slice=ast.Constant(value=str(key))):
            return re.sub(r"\W+", "_", key) or _last_word(value)
        case ast.Subscript(value=value) | ast.Starred(value=value):
            return _last_word(value)
        case ast.GeneratorExp(generators=[first, *_]) | ast.ListComp(generators=[first, *_]):
            return _last_word(first.iter)
        case ast.BinOp(left=left, right=right):
            return _last_word(left) or _last_word(right)
        case ast.IfExp(body=body, orelse=orelse):
            return _last_word(body) or _last_word(orelse)
    return ""
