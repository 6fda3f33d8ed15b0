"""The command that runs the registry's own checker tells where ours are refused, and where spoiled ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dossier import registry_checker

ROOT = Path(__file__).resolve().parents[2]
CHECKERS = {
    "as ours": ("from sudare.dossier.registry_fields import problems_of\nimport yaml\n"
    "def check(path):\n    found = problems_of(yaml.safe_load(path.open()), path.name)\n    return {'found': found} if found else {}\n", 0),
    "accepts all": ("def check(path):\n    return {}\n", 1),
    "refuses all": ("def check(path):\n    return {'no': ['x']}\n", 1),
}  # fmt: skip


@pytest.mark.parametrize("page", ["docs/dossier.md", "docs/ja/dossier.md"])
def test_the_pages_tell_how_many_entries_there_are(page: str) -> None:
    good, bad = (len(list(entries())) for entries in (registry_checker.good_entries, registry_checker.bad_entries))
    assert f"\n{good} of {good} entries pass; {bad} of {bad} spoiled ones are refused.\n" in (ROOT / page).read_text(
        "utf-8"
    )


@pytest.mark.parametrize(("text", "expected"), CHECKERS.values(), ids=CHECKERS)
def test_the_command_ends_with_what_the_checker_found(
    text: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = list(registry_checker.good_entries())[::40]
    monkeypatch.setattr(registry_checker, "good_entries", lambda: iter(some))
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "check.py").write_text(text)
    assert registry_checker.main(str(tmp_path)) == expected
