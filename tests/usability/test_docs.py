"""The documentation runs, is complete, and fetches nothing from anywhere."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click import Context
from mkdocs.commands.build import build
from mkdocs.config import load_config
from typer.main import get_command

from sudare.cli.main import app
from sudare.errors import every_error

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.ja.md", *sorted((ROOT / "docs").rglob("*.md"))]


def python_blocks(page: Path) -> list[tuple[int, str]]:
    """(line before the code, code) of every fenced block marked `python`."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start(1)), match.group(1))
        for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


PAGES_THAT_RUN = [page for page in PAGES if python_blocks(page)]


@pytest.mark.parametrize("page", PAGES_THAT_RUN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_on_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, object] = {"__name__": "__main__"}
    for line, code in python_blocks(page):
        # Blank lines in front make a failure point at the line of the page.
        exec(compile("\n" * line + code, str(page), "exec"), names)


def test_pages_that_must_run_do() -> None:
    must = {"README.md", "README.ja.md", "docs/getting-started.md", "docs/ja/getting-started.md"}
    assert must <= {page.relative_to(ROOT).as_posix() for page in PAGES_THAT_RUN}


def test_code_blocks_say_whether_they_run() -> None:
    """A block without a language, or with one misspelt, would silently not be run."""
    for page in PAGES:
        opened = re.findall(r"^```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)[::2]
        # The commands of these two are typed by tests/e2e/test_walkthrough.py and tests/e2e/test_three_machines.py.
        typed = {"bash"} if page.name in ("walkthrough.md", "three-machines.md") else set()
        assert set(opened) <= {"python", "text", "console", "toml"} | typed, page.name


def test_the_first_example_is_short() -> None:
    ((_, code),) = python_blocks(ROOT / "README.md")
    assert len([line for line in code.splitlines() if line.strip()]) <= 15


def required_names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~\[ ;]", requirement, maxsplit=1)[0] for requirement in requirements}


def test_every_dependency_has_a_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = [
        *project["project"]["dependencies"],
        *(name for extra in project["project"]["optional-dependencies"].values() for name in extra),
        *(name for group in project["dependency-groups"].values() for name in group),
    ]
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    with_reason = {
        name
        for line in page.splitlines()
        if line.startswith("| `") and len(line.rpartition(" | ")[2]) > 2
        for name in re.findall(r"`([a-z0-9-]+)`", line)
    }
    assert required_names(declared) - with_reason == set()


def test_every_dependency_of_the_core_is_used() -> None:
    """A dependency that nothing imports is one more thing to trust, for nothing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    modules = {"python-flint": "flint", "scikit-learn": "sklearn"}
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    unused = {
        name
        for name in required_names(project["project"]["dependencies"])
        if not re.search(rf"^\s*(import|from) {modules.get(name, name).replace('-', '_')}\b", code, re.MULTILINE)
    }
    assert unused == set()


def test_the_lock_holds_every_declared_dependency_and_no_address() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))
    extras = project["project"]["optional-dependencies"]
    # Spark and MLflow are installed by hand, where their tests are to run.
    made = re.search(r"^LOCKED_EXTRAS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert made is not None
    assert set(extras) - set(made[1].split()) == {"mlflow", "spark"}
    declared = required_names(
        [
            *project["project"]["dependencies"],
            *(name for extra in made[1].split() for name in extras[extra]),
            *(name for group in project["dependency-groups"].values() for name in group),
        ]
    )
    assert declared - locked == set()
    assert not re.search(r"https?:|file:|^-", lock, re.MULTILINE)
    assert "--hash=sha256:" in lock


class Fetched(HTMLParser):
    """Addresses that a browser fetches by itself when it opens a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "audio", "video"):
            self.addresses.append(values.get("src") or "")
        if tag == "link" and values.get("rel") in ("stylesheet", "icon", "preconnect", "preload", "prefetch"):
            self.addresses.append(values.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        fetched = Fetched()
        fetched.feed(page.read_text(encoding="utf-8"))
        assert fetched.addresses, page
        outside = [address for address in fetched.addresses if re.match(r"[a-z]*:?//", address)]
        assert outside == [], page.name


def test_every_error_and_proof_has_a_page(site: Path) -> None:
    for error in every_error():
        assert (site / "errors" / f"{error.__name__}.html").exists()
    proofs = list((ROOT / "proofs").glob("*.md"))
    assert proofs
    for proof in proofs:
        assert (site / "proofs" / f"{proof.stem}.html").exists()


def test_promises_name_proofs_that_exist() -> None:
    """`Proof: proofs/NAME.md` in a docstring leads somewhere."""
    named = {
        (path.name, proof)
        for path in (ROOT / "src").rglob("*.py")
        for proof in re.findall(r"proofs/(\w+)\.md", path.read_text(encoding="utf-8"))
    }
    assert named
    assert {(module, proof) for module, proof in named if not (ROOT / "proofs" / f"{proof}.md").exists()} == set()


def test_which_commands_take_json_and_dry_run_is_what_the_shell_page_says() -> None:
    """A command that charges or changes something must not be among those without --dry-run."""
    answering = {
        "audit", "budget backup", "budget export", "budget head", "budget show", "budget verify", "combine", "consortium blame", "consortium compare",
        "consortium history", "consortium report", "crosstab", "demo", "explain", "export", "inspect", "key new", "key show", "node", "page password", "predict",
        "reconstruct", "relay kits", "relay transcripts", "report", "request list", "request show", "risk chunks", "risk sums", "run", "sample", "schema check",
        "show", "status", "study",
    }  # fmt: skip
    options = dict(_options_of(get_command(app), ""))
    assert {name for name, found in options.items() if "--json" not in found} == {"node"}
    assert {name for name, found in options.items() if "--dry-run" not in found} == answering


def _options_of(command: Any, name: str) -> Iterator[tuple[str, set[str]]]:
    if not hasattr(command, "list_commands"):
        yield name, {option for parameter in command.params for option in parameter.opts}
        return
    context = Context(command)
    for each in command.list_commands(context):
        yield from _options_of(command.get_command(context, each), f"{name} {each}".strip())


def test_links_of_a_checkout_lead_to_files_of_it() -> None:
    """The site has pages that are made when it is built; somebody who reads the files has not."""
    dead = [
        f"{page.name}: {link}"
        for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "README.ja.md"]
        for link in re.findall(r"\]\(([^)#\s:]+\.md)(?:#[^)]*)?\)", page.read_text("utf-8"))
        if not (page.parent / link).is_file()
    ]
    assert not dead
