"""The benchmark machinery with a fake peer on tiny sizes. No timing decides anything here."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from benchmarks import __main__ as main_module
from benchmarks import measure, ours, table, worker
from benchmarks.measure import PeerFailed, Result, Worker, compared, interleaved, missing, without_peer
from benchmarks.peers import FLOWER, OPACUS, SMALL, Environment, PeerMissing, peer_python
from benchmarks.registry import BENCHMARKS, DIFFPRIVLIB, IMAGE_BENCHMARKS, Benchmark, Peer

TINY: dict[str, dict[str, int | float]] = {
    "mean": {"rows": 20, "columns": 2},
    "histogram": {"rows": 20, "bins": 3},
    "laplace": {"dimension": 3},
    "gamma_norm": {"dimension": 3},
    "charges": {"charges": 2},
    "composition": {"charges": 2},
    "logistic": {"rows": 20, "columns": 2},
    "logistic_nodes": {"nodes": 2, "rows": 20, "columns": 2},
    "logistic_large": {"rows": 20, "columns": 2},
    "mirror_averaging": {"experts": 3, "rows": 50},
    "masked_sum": {"members": 3, "numbers": 5, "encrypted": 2},
    "graphical_lasso": {"variables": 8, "rows": 50, "penalty": 0.1, "tolerance_of_peer": 0.05, "blocks": 2},
    "graphical_lasso_warm": {"variables": 8, "rows": 50, "penalty": 0.1, "tolerance_of_peer": 0.05},
    "network_step": {"batch": 8, "inputs": 3, "width": 4},
    "convolution_step": {"batch": 4, "side": 4, "channels": 2, "width": 3},
    "network_epoch": {"rows": 30, "batch": 8, "inputs": 3, "width": 4},
    "expectation_maximisation": {"rows": 50, "columns": 2, "patterns": 2, "iterations": 1, "bits": 32},
    **{
        case: {"rows": 20, "values": 5, "epsilon": 1.0}
        for case in ("retain_replace", "retain_replace_shuffled", "record_laplace", "unary", "subset")
    },
}


class Clock:
    """A side that takes exactly as long as it says."""

    def __init__(self, name: str, seconds: float, log: list[str]) -> None:
        self.name, self._seconds, self._log = name, seconds, log

    def prepare(self, case: str, arguments: Mapping[str, int | float]) -> None:
        self._log.append(f"{self.name} prepares {case}")

    def seconds(self, repeat: int) -> float:
        self._log.append(self.name)
        return self._seconds * repeat


def test_both_sides_take_turns() -> None:
    log: list[str] = []
    medians = interleaved(Clock("A", 0.1, log), Clock("B", 0.2, log), rounds=3)
    assert medians == pytest.approx((0.1, 0.2))
    assert "".join(log) == "AB" + "ABABAB"


def test_samples_are_long_enough_to_be_timed() -> None:
    repeat = measure.enough_repeats(Clock("A", 0.0007, []))
    assert repeat * 0.0007 >= measure.SHORTEST_SAMPLE_SECONDS
    assert measure.enough_repeats(Clock("A", 1.0, [])) == 1
    assert measure.enough_repeats(Clock("A", 0.0, [])) == measure.MOST_REPEATS


def test_the_ratio_is_above_one_when_ours_is_faster() -> None:
    log: list[str] = []
    benchmark = Benchmark("a name", "laplace", DIFFPRIVLIB, peer_case="snapping")
    result = compared(benchmark, Clock("A", 0.1, log), Clock("B", 0.2, log), rounds=1)
    assert result.ratio == pytest.approx(2.0)
    assert log[:2] == ["A prepares laplace", "B prepares snapping"]
    assert list(result.to_dict()) == ["name", "ours_seconds", "peer", "peer_seconds", "ratio"]


def test_a_side_that_does_a_part_is_scaled_up() -> None:
    benchmark = Benchmark("a name", "laplace", DIFFPRIVLIB, ours_scale=0.1, peer_scale=100)
    result = compared(benchmark, Clock("A", 0.1, []), Clock("B", 0.2, []), rounds=1)
    assert (result.ours_seconds, result.peer_seconds) == pytest.approx((0.01, 20.0))
    assert result.ratio == pytest.approx(2000.0)


def test_paillier_sums_what_we_sum() -> None:
    from benchmarks import paillier_peer

    found: Any = paillier_peer.CASES["masked_sum"](members=3, numbers=2, encrypted=2)()
    values = np.random.default_rng(0).normal(size=(3, 2))
    # One other member's ciphertexts stand for all of them: encrypting is what takes time.
    assert found == pytest.approx((values[0] + 2 * values[1]).tolist())


def test_our_side_has_every_case() -> None:
    cases = {benchmark.case for benchmark in (*BENCHMARKS, *IMAGE_BENCHMARKS)}
    assert cases == set(ours.CASES) == set(TINY)


@pytest.mark.long
def test_every_case_of_our_side_runs() -> None:
    for name, arguments in TINY.items():
        ours.CASES[name](**arguments)()


def test_the_peer_of_our_own_environment_runs() -> None:
    from benchmarks import dp_accounting_peer

    ((name, case),) = dp_accounting_peer.CASES.items()
    total = case(**TINY[name])()
    assert isinstance(total, float)
    assert total > 0


def test_the_loop_in_numpy_computes_what_we_do() -> None:
    from benchmarks import numpy_peer

    arguments = {"experts": 7, "rows": 300}
    found: Any = ours.CASES["mirror_averaging"](**arguments)()
    np.testing.assert_allclose(found.weights_, numpy_peer.CASES["mirror_averaging"](**arguments)(), atol=1e-12)


def test_an_ordinary_step_is_a_private_one_without_clipping_and_noise() -> None:
    from benchmarks import ourselves_peer

    arguments = TINY["network_step"]
    state: Any = ourselves_peer.CASES["network_step"](**arguments)()
    private: Any = ours.CASES["network_step"](**arguments)()
    assert int(state.step) == int(private.step) == 1
    assert not np.array_equal(state.parameters[0][0], private.parameters[0][0])


def test_a_warm_start_computes_what_we_do_without_one() -> None:
    from benchmarks import ourselves_peer

    arguments = {**TINY["graphical_lasso_warm"], "variables": 12}
    warm, cold = (side.CASES["graphical_lasso_warm"](**arguments)() for side in (ours, ourselves_peer))
    np.testing.assert_allclose(warm.precision, cold.precision, atol=1e-3)
    assert warm.n_iter <= cold.n_iter


def test_scikit_learn_starts_where_we_do() -> None:
    from benchmarks import sklearn_peer

    arguments = {**TINY["expectation_maximisation"], "iterations": 20, "rows": 500, "bits": 64}
    found: Any = ours.CASES["expectation_maximisation"](**arguments)()
    with pytest.warns(ConvergenceWarning):
        peer: Any = sklearn_peer.CASES["expectation_maximisation"](**arguments)()
    assert found / 500 == pytest.approx(peer.lower_bound_, rel=0.01)


def test_names_are_unique_and_say_what_differs() -> None:
    names = [benchmark.name for benchmark in BENCHMARKS]
    assert len(set(names)) == len(names)
    assert all("ours" in name for name in names)


FAKE_PEER = """
def case(**arguments):
    print("a peer that talks")
    return lambda: None

def broken(**arguments):
    raise ValueError("no such thing")

CASES = {"case": case, "broken": broken}
"""


@pytest.fixture
def fake_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "fake_peer_module.py").write_text(FAKE_PEER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "fake_peer_module"


def test_a_worker_lasts_talks_and_fails_politely(fake_module: str) -> None:
    with Worker(sys.executable, fake_module) as side:
        side.prepare("case", {"size": 1})
        assert side.seconds(3) >= 0
        with pytest.raises(PeerFailed, match="no such thing"):
            side.prepare("broken", {})
        side.prepare("case", {})
    with Worker(sys.executable, "no_such_module") as side, pytest.raises(PeerFailed, match="No module named"):
        side.prepare("case", {})


def test_a_side_is_timed_by_the_clock_it_is_given(fake_module: str) -> None:
    ticks = iter([1.0, 4.5])
    assert worker.seconds_of(lambda: None, 5, lambda: next(ticks)) == 3.5
    with Worker(sys.executable, fake_module, "process_time") as side:
        side.prepare("case", {"size": 1})
        assert side.seconds(1) >= 0
    with Worker(sys.executable, fake_module, "no_such_clock") as side, pytest.raises(PeerFailed, match="no_such_clock"):
        side.prepare("case", {"size": 1})


def test_a_worker_that_died_is_noticed() -> None:
    with Worker("/bin/false", "anything") as side, pytest.raises(PeerFailed, match="ended"):
        side.prepare("case", {})


def test_requests_are_answered_in_order() -> None:
    calls: list[int] = []

    def case(size: int) -> worker.Run:
        return lambda: calls.append(size)

    prepared: list[worker.Run] = []
    assert worker.answered({"case": "c", "arguments": {"size": 7}}, {"c": case}, prepared) == {"ready": True}
    answer = worker.answered({"repeat": 3}, {"c": case}, prepared)
    assert isinstance(answer, dict)
    assert answer["seconds"] >= 0
    assert calls == [7] * 4


def test_the_peer_environment_is_remade_only_when_the_lock_changes(tmp_path: Path) -> None:
    import hashlib

    lock, folder = tmp_path / "peers.lock", tmp_path / "environment"
    lock.write_text("nothing==1\n")
    folder.mkdir()
    (folder / ".locked").write_text(hashlib.sha256(lock.read_bytes()).hexdigest())
    assert peer_python(Environment(folder, lock)) == folder / "bin" / "python"


def test_an_environment_that_cannot_be_made_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*arguments: object, **options: object) -> None:
        raise OSError("no index within reach")

    monkeypatch.setattr("benchmarks.peers.venv.create", offline)
    with pytest.raises(PeerMissing, match="no index within reach"):
        peer_python(Environment(tmp_path / "environment", SMALL.requirements))


def test_gigabytes_are_fetched_only_when_asked_for(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment", OPACUS.requirements, unasked=False)
    with pytest.raises(PeerMissing, match=r"python -m benchmarks\.peers opacus"):
        peer_python(environment)
    assert not environment.folder.exists()


@pytest.mark.parametrize(("environment", "pinned"), [(SMALL, "diffprivlib==0.6"), (FLOWER, "flwr==1.41.0")])
def test_the_lock_is_pinned_hashed_and_names_no_address(environment: Environment, pinned: str) -> None:
    text = environment.requirements.read_text("utf-8")
    assert pinned in text
    assert "--hash=sha256:" in text
    assert not any(line.startswith("-") for line in text.splitlines())
    assert "://" not in text


def test_a_missing_peer_is_named_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fake_module: str
) -> None:
    def unreachable(environment: Environment) -> Path:
        raise PeerMissing("no index within reach")

    here = Peer("a peer that is here", fake_module)
    away = Peer("a peer far away", "benchmarks.diffprivlib_peer", SMALL)
    chosen = (
        Benchmark("present", "case", here),
        Benchmark("absent", "case", away),
        Benchmark("absent too", "case", away),
        Benchmark("unknown to the peer", "case", here, peer_case="nothing"),
    )
    monkeypatch.setattr(main_module, "OURS", fake_module)
    monkeypatch.setattr(main_module, "peer_python", unreachable)
    monkeypatch.setattr(main_module, "BENCHMARKS", chosen)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--rounds", "1"])
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    page.write_text("# Benchmarks\n")
    monkeypatch.setattr(main_module, "write_results", lambda lines: table.write_results(lines, results))
    monkeypatch.setattr(main_module, "write_page", lambda lines: table.write_page(lines, page))
    main_module.main()
    told = capsys.readouterr().out
    assert "a peer far away is not there: no index within reach" in told
    assert "3 of 4 benchmarks have no peer" in told
    written = json.loads(results.read_text("utf-8"))
    assert [line["name"] for line in written] == ["present", "absent", "absent too", "unknown to the peer"]
    assert [line["ratio"] is None for line in written] == [False, True, True, True]
    assert "| absent | a peer far away | peer not there |" in page.read_text("utf-8")


def test_a_part_of_the_benchmarks_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError

    for name in ("write_results", "write_page"):
        monkeypatch.setattr(main_module, name, refuse)
    monkeypatch.setattr(main_module, "measured", lambda chosen, rounds: [without_peer(each) for each in chosen])
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "histogram"])
    main_module.main()


def test_the_page_keeps_what_is_written_around_the_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Benchmarks\n\nBefore.\n")
    first, second = Result("one", 1.0, "peer", 2.0, 2.0), Result("two", 1.0, "peer", 250.0, 250.0)
    table.write_page([first], page)
    page.write_text(page.read_text("utf-8") + "\nAfter.\n", "utf-8")
    table.write_page([second], page)
    text = page.read_text("utf-8")
    assert "Before." in text
    assert "After." in text
    assert "| two | peer | 250 |" in text
    assert "| one |" not in text


def test_committed_results_are_of_these_benchmarks() -> None:
    lines = json.loads(table.RESULTS.read_text("utf-8"))
    assert [line["name"] for line in lines] == [benchmark.name for benchmark in BENCHMARKS]
    for line in lines:
        assert list(line) == ["name", "ours_seconds", "peer", "peer_seconds", "ratio"]
        assert line["ratio"] == pytest.approx(line["peer_seconds"] / line["ours_seconds"])
        assert line["name"] in table.PAGE.read_text("utf-8")
    assert missing([Result(**line) for line in lines]) == []


def test_modules_are_what_the_registry_says() -> None:
    assert isinstance(ours, types.ModuleType)
    for benchmark in BENCHMARKS:
        path = Path(benchmark.peer.module.replace(".", "/") + ".py")
        source = (table.ROOT / path).read_text("utf-8")
        assert f'"{benchmark.case_of_peer}":' in source
