"""Pages of the documentation that are made, not written: errors, commands, Python names, proofs, the front page.

mkdocs calls `on_config` and `on_files`; everything between is plain functions from the package to Markdown.
"""

from __future__ import annotations

import importlib
import inspect
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from sudare.errors import SudareError, every_error
from sudare.glossary import TERMS

ROOT = Path(__file__).resolve().parent.parent

PUBLIC_MODULES = (
    "sudare.schema",
    "sudare.frames",
    "sudare.privacy",
    "sudare.privacy.candidate_selection",
    "sudare.statistics",
    "sudare.linear",
    "sudare.gibbs",
    "sudare.experts",
    "sudare.neural",
    "sudare.perturbation",
    "sudare.reconstruction",
    "sudare.synthesis",
    "sudare.sums",
    "sudare.dictionary",
    "sudare.joint",
    "sudare.consortium",
    "sudare.audit",
    "sudare.papers",
)

# Files beside docs/ that are pages of the site.
PAGES_ELSEWHERE = {
    "README.md": "index.md",
    "README.ja.md": "ja/index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the made pages below their section of the navigation."""
    below = {
        "errors/index.md": [f"errors/{error.__name__}.md" for error in every_error()],
        "proofs/index.md": [f"proofs/{page.name}" for page in proof_pages()],
    }
    for section in config.nav or []:
        for title, pages in section.items():
            if isinstance(pages, list):
                section[title] = [
                    # A group of pages is a list, and none of those below which pages are made.
                    {name: [page, *below[str(page)]] if str(page) in below else page for name, page in entry.items()}
                    for entry in pages
                ]
    return config


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links that are right in the repository, where proofs/ stands beside docs/, lead to the site's pages."""
    up = "../" * page.file.src_uri.count("/")
    beside, inside = f"]({up}../proofs/", f"]({up}proofs/"
    return markdown.replace(f"{beside})", f"{inside}index.md)").replace(beside, inside)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the made pages to those that were written."""
    for path, text in made_pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def made_pages() -> dict[str, str]:
    """Every made page: path in the site → Markdown."""
    pages = {"errors/index.md": errors_index()}
    pages |= {f"errors/{error.__name__}.md": error_page(error) for error in every_error()}
    pages |= {"proofs/index.md": proofs_index()}
    pages |= {f"proofs/{page.name}": for_site(f"proofs/{page.name}") for page in proof_pages()}
    pages |= {"command-line.md": command_line_page(), "python.md": python_page()}
    pages |= {"glossary.md": glossary_page(), "ja/glossary.md": japanese_glossary_page()}
    return pages | {page: for_site(source) for source, page in PAGES_ELSEWHERE.items()}


# From a file of the repository to a page of the site


def for_site(source: str) -> str:
    """The text of a file of the repository with its links leading to pages of the site; links to code become text."""
    folder, page_folder = posixpath.dirname(source), posixpath.dirname(site_path(source) or "")

    def rewritten(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match.group(0)
        path, mark, anchor = target.partition("#")
        page = site_path(posixpath.normpath(posixpath.join(folder, path)))
        if page is None:
            return label
        return f"{image}[{label}]({posixpath.relpath(page, page_folder or '.')}{mark}{anchor})"

    return re.sub(r"(!?)\[([^\]]+)\]\(([^)\s]+)\)", rewritten, (ROOT / source).read_text("utf-8"))


def site_path(repository_path: str) -> str | None:
    """Where a file of the repository is found in the site; None for files the site does not show."""
    if repository_path in PAGES_ELSEWHERE:
        return PAGES_ELSEWHERE[repository_path]
    if repository_path == "proofs":
        return "proofs/index.md"
    if repository_path.startswith("proofs/"):
        return repository_path
    return repository_path.removeprefix("docs/") if repository_path.startswith("docs/") else None


# Proofs


def proof_pages() -> list[Path]:
    """The pages of proofs/, by name."""
    return sorted((ROOT / "proofs").glob("*.md"))


def title_of(page: Path) -> str:
    """The first heading."""
    return page.read_text("utf-8").partition("\n")[0].lstrip("# ")


def proofs_index() -> str:
    """One line for every proof."""
    lines = [f"- [{title_of(page)}]({page.name})" for page in proof_pages()]
    return "# Proofs\n\nOne page for each mechanism: what it promises, why, and with which constants.\n\n" + "\n".join(
        lines
    )


# Errors


def errors_index() -> str:
    """All errors by exit code."""
    rows = [
        f"| {error.exit_code} | [{error.__name__}]({error.__name__}.md) | {inspect.getdoc(error)} |"
        for error in every_error()
    ]
    return (
        "# Errors\n\n"
        "Every error that sudare raises on purpose is a `SudareError`. Its message says what was wrong, what was got and "
        "what to do; a command ends with its exit code. No message prints a private value, but *that* an error happened may "
        "depend on the data: see [sharp edges](../sharp-edges.md#errors-are-for-the-owner-of-the-data).\n\n"
        "| exit code | error | what it means |\n| --- | --- | --- |\n" + "\n".join(rows)
    )


def error_page(error: type[SudareError]) -> str:
    """Meaning, help, exit code and place in the tree."""
    parents = [parent for parent in error.__mro__[1:] if issubclass(parent, Exception) and parent is not Exception]
    above = ", ".join(
        f"[{parent.__name__}]({parent.__name__}.md)" if issubclass(parent, SudareError) else f"`{parent.__name__}`"
        for parent in parents
        if parent.__name__ not in ("OSError", "LookupError") or parent in error.__bases__
    )
    below = ", ".join(f"[{child.__name__}]({child.__name__}.md)" for child in error.__subclasses__())
    return "\n\n".join(
        part
        for part in (
            f"# {error.__name__}",
            f"{inspect.getdoc(error)}",
            f"**What to do.** {error.help}",
            f"**Exit code** of a command that ends with it: {error.exit_code}.",
            f"**Caught by** `except` of: {above}." if above else "",
            f"**More precise:** {below}." if below else "",
        )
        if part
    )


# Words


def glossary_page() -> str:
    """Every word with its meaning and its Japanese name."""
    rows = [f"| **{each.name}** | {each.meaning} | {each.japanese} |" for each in TERMS]
    return "# Glossary\n\nEnglish · [日本語](ja/glossary.md)\n\n| | | |\n| --- | --- | --- |\n" + "\n".join(rows)


def japanese_glossary_page() -> str:
    """Every word with its meaning, in Japanese, and its English name."""
    rows = [f"| **{each.japanese}** | {each.japanese_meaning} | {each.name} |" for each in TERMS]
    return "# 用語集\n\n[English](../glossary.md) · 日本語\n\n| | | |\n| --- | --- | --- |\n" + "\n".join(rows)


# Command line


def command_line_page() -> str:
    """Every command with its arguments and options, from the application itself."""
    application = importlib.import_module("sudare.cli.main").app
    root = typer.main.get_command(application)
    sections = "\n".join(command_sections(root, "sudare", level=2))
    return f"# Command line\n\n{sections}"


def command_sections(command: Any, path: str, level: int) -> Iterator[str]:
    """Markdown for one command and those below it."""
    yield f"{'#' * min(level, 4)} `{path}`\n\n{inspect.cleandoc(command.help or '')}\n"
    rows = [parameter_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    if rows:
        yield "| | | |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"
    for name, child in sorted(getattr(command, "commands", {}).items()):
        if not child.hidden:
            yield from command_sections(child, f"{path} {name}", level + 1)


def parameter_row(parameter: Any) -> str:
    """How it is written, what it takes, what it does."""
    is_option = parameter.param_type_name == "option"
    written = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts)) if is_option else ""
    takes = "" if is_option and parameter.is_flag else f"`{(parameter.metavar or parameter.name or '').upper()}`"
    explanation = " ".join((getattr(parameter, "help", "") or "").split()).replace("|", "\\|")
    return f"| {written} | {takes} | {explanation} |"


# Python


def python_page() -> str:
    """Public names of the public modules, with signatures and docstrings; the proofs they name are links."""
    modules = [importlib.import_module(name) for name in PUBLIC_MODULES]
    text = "\n\n".join(
        ["# Python", *map(module_section, modules), "Errors have [pages of their own](errors/index.md)."]
    )
    for proof in proof_pages():
        text = re.sub(rf"(?<![(\[])proofs/{re.escape(proof.name)}", f"[{proof.stem}](proofs/{proof.name})", text)
    return text


def module_section(module: ModuleType) -> str:
    """One heading for each public name."""
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    values = [(name, getattr(module, name)) for name in names]
    entries = [
        name_section(name, value) for name, value in values if inspect.isclass(value) or inspect.isroutine(value)
    ]
    return f"## `{module.__name__}`\n\n{inspect.getdoc(module) or ''}\n\n" + "\n\n".join(entries)


def name_section(name: str, value: Any) -> str:
    """A function or class with its public methods."""
    text = f"### `{name}`\n\n```text\n{signature_of(name, value)}\n```\n\n{as_markdown(own_doc(value))}"
    if not inspect.isclass(value):
        return text
    rows = [
        f"- `{signature_of(method, member)}` – {own_doc(member).partition(chr(10))[0]}"
        for method, member in public_members(value)
    ]
    return text + ("\n\n**Methods and properties**\n\n" + "\n".join(rows) if rows else "")


def public_members(owner: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties that the class or its parents in this package define and explain, in order."""
    for name, member in inspect.getmembers(owner):
        defined = next((vars(parent)[name] for parent in owner.__mro__ if name in vars(parent)), None)
        function = getattr(defined, "fget", None) or getattr(defined, "__func__", defined)
        from_here = str(getattr(function, "__module__", "")).startswith("sudare")
        if not name.startswith("_") and from_here and inspect.isroutine(function) and own_doc(member):
            yield name, member


def as_markdown(docstring: str) -> str:
    """A docstring whose underlined sections (Parameters, Attributes) are bold words followed by lists."""
    opening, *sections = re.split(r"^(\w+)\n-{3,}\n", docstring, flags=re.MULTILINE)
    parts = [opening.strip()]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        items = re.sub(r"^(?=\S)([^:\n]+) : ", r"- `\1`: ", body.strip(), flags=re.MULTILINE)
        parts.append(f"**{title}**\n\n{items}")
    return "\n\n".join(parts)


def own_doc(value: Any) -> str:
    """Its own docstring, without what a dataclass would generate."""
    text = inspect.getdoc(value) or ""
    return "" if text.startswith(f"{getattr(value, '__name__', '')}(") else text


def signature_of(name: str, value: Any) -> str:
    """How it is called; a property is only its name."""
    if not callable(value):
        return name
    try:
        signature = inspect.signature(value)
    except ValueError:
        return name
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    return name + str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
