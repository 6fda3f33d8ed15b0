"""The page about audits counts the attacks that there are, and the messages that the fuzzers send."""

from __future__ import annotations

import re

import pytest

from benchmarks import attack_tests
from benchmarks.page_parts import with_part

PAGE = attack_tests.PAGE.read_text("utf-8")


def test_the_page_has_the_attacks_that_there_are() -> None:
    assert with_part(PAGE, attack_tests.PART, attack_tests.table()) == PAGE, "Run python -m benchmarks.attack_tests"


def test_a_row_counts_test_functions_only(tmp_path, monkeypatch) -> None:
    path = tmp_path / "test_some.py"
    path.write_text('"""What is wanted.\n\nMore."""\ndef test_a(): ...\ndef helper(): ...\n', "utf-8")
    monkeypatch.setattr(attack_tests, "ROOT", tmp_path)
    assert attack_tests.attack_row(path) == ["`test_some.py`", "What is wanted.", "1"]


@pytest.mark.parametrize(("fuzzer", "what"), [("fuzz/test_node_messages", "messages"), ("sums/test_byzantine", "runs")])
def test_the_page_tells_how_many_messages_and_runs_the_fuzzers_have(fuzzer: str, what: str) -> None:
    source = (attack_tests.ROOT / "tests" / f"{fuzzer}.py").read_text("utf-8")
    default, long = (
        int(re.search(rf"^IN_{run}_RUN = ([\d_]+)$", source, re.MULTILINE)[1]) for run in ("DEFAULT", "LONG")
    )
    assert f"{default:,} {what}" in PAGE
    assert f"{long:,}" in PAGE
