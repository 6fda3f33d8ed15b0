"""What range proofs would cost, as it is told; with costs made up."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

import pytest

from benchmarks import addend_proofs as measured
from benchmarks.peers import PeerMissing
from benchmarks.range_proofs import Cost

COST = Cost(
    numbers=100,
    bits=16,
    members=10,
    commit_seconds=0.001,
    prove_seconds=0.009,
    library_share=0.97,
    verify_alone_seconds=0.0005,
    verify_seconds=0.00018,
    total_seconds=0.00002,
    bytes=70.0,
)


def test_a_member_proves_its_own_numbers_and_checks_those_of_the_others() -> None:
    found = measured.sum_with_proofs(COST, members=11, numbers=1000, without_seconds=0.001)
    assert found.prove_seconds == pytest.approx(10)
    assert found.verify_seconds == pytest.approx(2)
    assert found.sent_bytes == pytest.approx(70_000)
    assert found.received_bytes == pytest.approx(700_000)
    text = measured.told([COST], [found])
    assert "| 16 | 100 | 1 ms | 9 ms | 0.5 ms | 0.18 ms | 0.02 ms | 70 B |" in text
    assert "97% of proving" in text
    assert "| 11 members × 1,000 numbers | 1 ms | 10 s | 2 s | 0.07 MB | 0.7 MB |" in text


def test_sums_without_proofs_are_run() -> None:
    assert measured.small_sum_seconds(3, 5) > 0
    assert measured.masks_seconds(4, 5) > 0


def test_costs_are_what_the_peer_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    line = json.dumps(asdict(COST))
    asked: list[str] = []

    def finished(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command[-1])
        return subprocess.CompletedProcess(command, 0, f"{line}\n{line}\n")

    monkeypatch.setattr(measured, "peer_python", lambda: sys.executable)
    monkeypatch.setattr(subprocess, "run", finished)
    assert measured.costs([100, 100], 16, 10) == [COST, COST]
    assert asked == ['{"numbers": [100, 100], "bits": 16, "members": 10}']


def test_a_peer_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> str:
        raise PeerMissing("no index")

    monkeypatch.setattr(measured, "peer_python", absent)
    monkeypatch.setattr(sys, "argv", ["addend_proofs"])
    with pytest.raises(SystemExit, match="arkworks is not there: no index"):
        measured.main()
