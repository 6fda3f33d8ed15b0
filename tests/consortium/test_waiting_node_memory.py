"""A node that waits for a task: what it has loaded, and how much memory it takes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from sudare.consortium import LearningTask
from tests.consortium.clinics import IDENTITIES, founded
from tests.consortium.processes import free_port

pytest.importorskip("nvflare")

PASSPHRASE = "only for these tests"
# What a task needs, or nobody here.
NOT_LOADED = (
    "dask",
    "distributed",
    "jax",
    "matplotlib",
    "numba",
    "pandas",
    "pyarrow",
    "scipy",
    "sklearn",
    "torch",
    "aiohttp",
)
# Measured: 118 MB. The rest is for other versions of the packages and of the system.
MOST_MEGABYTES = 150.0

PROGRAM = """
import json, pathlib, sys, threading, time

def tell():
    # Once it has looked for runs of schedules, requests and versions, and has written how things stand.
    while not pathlib.Path("east/state/node.json").exists():
        time.sleep(0.05)
    time.sleep(1.5)
    open("loaded.json.new", "w").write(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
    __import__("os").rename("loaded.json.new", "loaded.json")

threading.Thread(target=tell, daemon=True).start()
from sudare.cli.main import app
app()
"""


def test_a_node_that_waits_has_loaded_nothing_that_only_tasks_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sudare.consortium.agreement.identity._SCRYPT_COST", 16)
    monkeypatch.setenv("SUDARE_PASSPHRASE", PASSPHRASE)
    members = founded(tmp_path, LearningTask("risk", "one-sum", 1.0))
    own = next(member for member in members if member.name == "east")
    IDENTITIES[own.name].save(own.key_path, PASSPHRASE.encode())
    subprocess.run(
        [
            sys.executable,
            "-c",
            "from sudare.cli.main import app; app()",
            "relay",
            "kits",
            "agreement.toml",
            "-o",
            "kits",
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    words = ["node", "--member", "east/member.toml", "--kit", "kits/east", "--relay", f"localhost:{free_port()}"]
    with (tmp_path / "said.txt").open("w") as said:
        node = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words], cwd=tmp_path, stdout=said, stderr=subprocess.STDOUT
        )
    try:
        while node.poll() is None and not (tmp_path / "loaded.json").exists():
            time.sleep(0.1)
        assert node.poll() is None, (tmp_path / "said.txt").read_text()
        megabytes = psutil.Process(node.pid).memory_info().rss / 1e6
    finally:
        node.kill()
        node.wait()
    loaded = json.loads((tmp_path / "loaded.json").read_text())
    assert "nvflare" in loaded
    assert not set(NOT_LOADED) & set(loaded)
    assert megabytes < MOST_MEGABYTES


def test_a_task_of_sums_loads_no_compilers() -> None:
    """What compiles loops and networks takes 60 MB and seconds: only networks and dictionaries need it."""
    program = """
import sys, tempfile
from pathlib import Path
from sudare.consortium import LearningTask
from tests.consortium.clinics import founded, node_of, run_together
from tests.consortium.local_transport import LocalHub
with tempfile.TemporaryDirectory() as folder:
    hub = LocalHub()
    nodes = [node_of(each, hub) for each in founded(Path(folder), LearningTask("risk", "one-sum", 1.0))]
    run_together(nodes, ["risk"])
    assert [each.task_runs["risk"].state for each in nodes] == ["finished"] * 3
print(sorted({"numba", "jax", "matplotlib", "dask"} & set(sys.modules)))
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_the_root_of_flare_is_loaded_once_it_is_asked_for() -> None:
    """Whoever uses FLARE in the same process finds all of it."""
    program = """
import sys
from sudare.consortium.network.transport.flare_partial_import import use_only_what_is_imported
use_only_what_is_imported()
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
assert "nvflare.private.fed.app.simulator.simulator_runner" not in sys.modules
import nvflare
assert not hasattr(nvflare, "__wrapped__")
assert nvflare.FedJob.__name__ == "FedJob"
use_only_what_is_imported()
assert nvflare.__version__
"""
    subprocess.run([sys.executable, "-c", program], check=True)
