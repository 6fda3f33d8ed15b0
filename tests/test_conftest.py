"""The suite's own habits: a skip that nobody expected fails the session, with and without workers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hypothesis
import pytest

from tests.conftest import ExpectedSkip, circumstance_holds, folder_in_memory, read_expected_skips

HERE = Path(__file__).parent

SUITE = """
    import pytest

    def test_that_runs():
        pass

    def test_that_needs_data():
        pytest.skip("needs SUDARE_DATA")

    @pytest.mark.xfail(reason="a known defect")
    def test_that_fails():
        assert False
"""

LISTED_DATA = """
[[skip]]
test = "*::test_that_needs_data"
reason = "needs SUDARE_DATA"
when = "unset:SUDARE_NEVER_SET"
why = "no data folder"
"""

LISTED_FAILURE = """
[[skip]]
test = "*::test_that_fails"
reason = "a known defect"
when = "unset:SUDARE_NEVER_SET"
why = "the defect is known"
"""

RUNS = pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "workers"])


def run_suite(
    pytester: pytest.Pytester, listed: str, *arguments: str, suite: str = SUITE, subprocess: bool = False
) -> pytest.RunResult:
    pytester.makeconftest((HERE / "conftest.py").read_text(encoding="utf-8"))
    pytester.path.joinpath("expected_skips.toml").write_text(listed, encoding="utf-8")
    pytester.makepyfile(suite)
    run = pytester.runpytest_subprocess if subprocess or "-n" in arguments else pytester.runpytest_inprocess
    return run("-p", "no:cacheprovider", *arguments)


@RUNS
def test_listed_skips_are_counted_and_pass(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    result = run_suite(pytester, LISTED_DATA + LISTED_FAILURE, *workers)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*expected skips: 2*", "1 × *test_that_needs_data (unset:*): no data folder"])


@RUNS
def test_an_unlisted_skip_fails_the_session_and_is_named(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    result = run_suite(pytester, LISTED_FAILURE, *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*expected skips: 1*", "*1 UNEXPECTED SKIPS*", "*::test_that_needs_data: needs SUDARE_DATA"]
    )


def test_an_unlisted_expected_failure_fails_the_session(pytester: pytest.Pytester) -> None:
    result = run_suite(pytester, LISTED_DATA)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*1 UNEXPECTED SKIPS*", "*::test_that_fails: a known defect"])


@RUNS
def test_a_module_that_skips_itself_is_unexpected(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    suite = "import pytest\npytest.importorskip('no_such_module_anywhere')\ndef test_x(): pass"
    result = run_suite(pytester, "", *workers, suite=suite)
    assert result.ret not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    result.stdout.fnmatch_lines(["*1 UNEXPECTED SKIPS*", "*.py: *no_such_module_anywhere*"])


def test_a_skip_in_other_circumstances_is_unexpected(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDARE_NEVER_SET", "but it is")
    result = run_suite(pytester, LISTED_DATA + LISTED_FAILURE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*2 UNEXPECTED SKIPS*"])


def test_a_suite_without_skips_says_so(pytester: pytest.Pytester) -> None:
    result = run_suite(pytester, "", suite="def test_x(): pass")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*expected skips: 0*"])


def test_circumstances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDARE_SOMETHING", raising=False)
    assert circumstance_holds("unset:SUDARE_SOMETHING")
    monkeypatch.setenv("SUDARE_SOMETHING", "1")
    assert not circumstance_holds("unset:SUDARE_SOMETHING")
    assert circumstance_holds("missing:no_such_module_anywhere")
    assert not circumstance_holds("missing:numpy")
    assert circumstance_holds("absent:no-such-folder/anywhere")
    assert not circumstance_holds("absent:pyproject.toml")
    assert circumstance_holds("program:no-such-program-anywhere")
    assert not circumstance_holds("program:make")
    assert circumstance_holds(f"platform:{sys.platform}")
    assert not circumstance_holds("platform:amiga")
    assert circumstance_holds("fails:no-such-program-anywhere --at-all")
    assert circumstance_holds(f"fails:{sys.executable} -c 'raise SystemExit(1)'")
    assert not circumstance_holds(f"fails:{sys.executable} -c pass")
    with pytest.raises(pytest.UsageError, match="unset:, missing:, absent:, program:, platform: or fails:"):
        circumstance_holds("sometimes")


def test_the_list_is_well_formed() -> None:
    for entry in read_expected_skips(HERE / "expected_skips.toml"):
        assert isinstance(entry, ExpectedSkip)
        assert entry.why
        assert entry.test.startswith("tests/")
        circumstance_holds(entry.when)


ROOM = """
    def answer():
        return 42

    def question():
        return 6 * 7
"""

OTHER_TEST = """
    import room

    def test_another():
        assert room.question() == 42
"""


@pytest.mark.parametrize(
    ("arguments", "percent"),
    [(("--cov", "-n", "1"), 75), (("--cov=room",), 100)],
    ids=["as in pyproject.toml", "of a named room"],
)
def test_what_other_tests_happen_to_run_is_not_covered(
    pytester: pytest.Pytester, arguments: tuple[str, ...], percent: int
) -> None:
    """Two functions: the own test calls one, and another test the other."""
    pytester.makepyfile(room=ROOM)
    pytester.path.joinpath(".coveragerc").write_text("[run]\nsource_pkgs = room\n", encoding="utf-8")
    own_tests = pytester.mkdir("privacy")
    own_tests.joinpath("test_own.py").write_text(
        "import room\n\ndef test_own():\n    assert room.answer() == 42\n", encoding="utf-8"
    )
    result = run_suite(pytester, "", *arguments, suite=OTHER_TEST, subprocess=True)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines([f"TOTAL*{percent}%"])


def test_long_texts_make_short_names(pytester: pytest.Pytester) -> None:
    suite = """
        import pytest

        @pytest.mark.parametrize("text", ["(" * 300, "(" * 301, "(" * 301, b"x" * 10**6, "short"])
        def test_text(text):
            assert text
    """
    result = run_suite(pytester, "", "-v", suite=suite)
    assert result.ret == pytest.ExitCode.OK
    assert max(map(len, result.outlines)) < 200
    result.stdout.fnmatch_lines(["*of 300]*", "*of 301*0]*", "*of 301*1]*", "*of 1000000]*", "*[[]short]*"])


def test_properties_are_searched_the_same_way_every_time() -> None:
    settings = hypothesis.settings()
    assert settings.derandomize
    assert settings.deadline is None


@pytest.mark.parametrize(
    ("free_bytes", "flags", "is_used"),
    [(8 << 30, 0, True), (64 << 20, 0, False), (8 << 30, os.ST_NOEXEC, False)],
    ids=["room", "as small as in containers", "nothing runs there"],
)
def test_folders_lie_in_memory_only_where_there_is_room_and_programs_may_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int, flags: int, is_used: bool
) -> None:
    facts = os.statvfs_result((4096, 4096, free_bytes // 4096, 0, free_bytes // 4096, 9, 9, 9, flags, 255))
    monkeypatch.setattr("tests.conftest._MEMORY", tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda folder: facts)
    assert folder_in_memory() == (tmp_path if is_used else None)
    monkeypatch.setattr("tests.conftest._MEMORY", tmp_path / "absent")
    assert folder_in_memory() is None
