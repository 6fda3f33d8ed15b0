"""What a secure sum cost, as both sides tell it; and how the peer is asked. The peer itself needs its own environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import secure_sums_cost
from benchmarks.peers import FLOWER, ROOT, Environment
from benchmarks.secure_sums_cost import Cost, flower_cost, markdown, told

OURS = Cost("sudare", 100, 1_000, 98, 66, 5, 0.1, 20_000, 30_000, 2.0, 3_000_000, "everybody runs it.")
PEER = Cost("flower", 100, 1_000, 98, 66, 5, 1.5, 78_000, 117_000, 79.0, 11_700_000, "a sample runs it.")


def test_a_cost_is_a_line_of_json() -> None:
    assert "\n" not in PEER.to_json()
    assert Cost.from_json(PEER.to_json()) == PEER
    with pytest.raises(TypeError):
        Cost.from_json('{"who": "flower"}')


def test_the_peer_is_asked_in_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def python(environment: Environment) -> Path:
        assert environment is FLOWER
        return Path("peers-python")

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert options["cwd"] == ROOT
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, f"a peer that talks\n{PEER.to_json()}\n")

    monkeypatch.setattr(secure_sums_cost, "peer_python", python)
    monkeypatch.setattr(subprocess, "run", run)
    assert flower_cost(members=100, degree=98, threshold=66, leaving=5, numbers=1_000, sample=2) == PEER
    options = ["--members=100", "--degree=98", "--threshold=66", "--leaving=5", "--numbers=1000", "--sample=2"]
    assert asked == [["peers-python", "-m", "benchmarks.flower_peer", "--json", *options]]


def test_both_stand_in_the_table_with_the_ratio() -> None:
    *_, ours, peer, ratio = markdown([(OURS, PEER)]).splitlines()
    assert ours == "| 100 | 5 | 98 | sudare | 0.1 | 20 | 30 | 2 | 3.0 |"
    assert peer == "| 100 | 5 | 98 | flower | 1.5 | 78 | 117 | 79 | 11.7 |"
    assert ratio == "| | | | flower ÷ sudare | 15 | | | 40 | |"
    assert told(PEER).endswith("a sample runs it.")


def test_the_results_need_the_standard_library_only() -> None:
    script = "import sys, benchmarks.secure_sums_cost; print({'numpy', 'sudare', 'flwr'} & set(sys.modules))"
    finished = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "set()"
