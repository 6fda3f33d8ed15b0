"""There is one door, and the source has no way around it: who may draw noise, who may write files, and what nobody may do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sudare
from sudare.privacy import Account, Ledger, Release
from sudare.privacy import private_estimator as base_room
from sudare.privacy import release as door
from tests.release_kit import DECLARATIONS, KEY, LEARNERS, fitted

SOURCE = Path(sudare.__file__).parent

# Where noise is made and handed out; and where it is measured or played with, and protects nobody.
NOISE_ROOMS = (
    "sudare.privacy.noise",
    "sudare.privacy.release",
    "sudare.audit",
    "sudare.demo",
    "sudare.papers",
    "sudare.cli.demo",
    "sudare.cli.risk",
    # What a receiver does with perturbed records: parts for cross-validation, samples of a reconstructed distribution.
    "sudare.reconstruction.number_reconstruction",
    "sudare.reconstruction.reconstructed_distribution",
    "sudare.reconstruction.joint_distribution",
    "sudare.reconstruction.cross_tables",
    # Which rows of a person are kept where nobody says a secret; nothing of it is released.
    "sudare.frames.person_rows",
    # Rows drawn from released counts.
    "sudare.synthesis.row_sampling",
    "sudare.papers.p002_networks.anonymizing_first",
    # Of sessions, forms and one-time addresses.
    "sudare.web.secret_tokens",
)
NOISE_NAMES = {"SystemNoise", "SeededNoise", "noise_source"}
RANDOM_MODULES = {"opendp", "secrets", "numpy.random"}
# JAX draws from keys that are made of bits from behind the door: in the rooms of networks only.
JAX_ROOMS = ("sudare.neural",)
# Waiting times between tries to reach a locked database.
ORDINARY_RANDOM_ROOMS = ("sudare.privacy.ledger_storage", *NOISE_ROOMS)

# The ledger; the one writer of files; and pages, pictures and answers, which are made of public numbers.
WRITING_ROOMS = (
    # Opens files by flags, for reading.
    "sudare.parsing",
    "sudare.privacy.ledger",
    "sudare.privacy.ledger_storage",
    # Rows that do not fit into memory, into a temporary file without a name.
    "sudare.frames.row_spool",
    # Releases, schemas, keys, agreements, decisions and checkpoints, all through this one.
    "sudare.files",
    "sudare.report",
    "sudare.cli",
    "sudare.demo",
    "sudare.papers",
    "sudare.audit",
)
WRITING_METHODS = {
    *("write_text", "write_bytes", "savefig", "tofile", "save_file", "serialize_file", "mkstemp", "NamedTemporaryFile"),
    *("to_csv", "to_parquet", "to_pickle", "to_json", "to_feather", "write_parquet", "write_csv", "write_table"),
    *("fdopen", "link", "rename", "symlink", "copyfile", "savez", "savetxt", "dump"),
}

FORBIDDEN_IMPORTS = {"pickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "imp", "runpy", "code", "ctypes"}
# Answers of Spark executors, by a reader that makes numbers, arrays and classes of sudare and nothing else.
UNPICKLING_ROOMS = ("sudare.frames.spark_sums",)
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_METHODS = {("joblib", "load"), ("joblib", "dump"), ("np", "load"), ("numpy", "load"), ("os", "system")}
# Modules by name: only from lists that are written in the source.
IMPORTING_ROOMS = (
    "sudare.privacy.learner_registry",
    "sudare.lazy_exports",
    "sudare.optional_packages",
    "sudare.demo",
    "sudare.papers",
)


def modules() -> dict[str, Path]:
    """The file of every module."""
    return {
        ".".join(("sudare", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in sorted(SOURCE.rglob("*.py"))
    }


def is_in(module: str, rooms: tuple[str, ...]) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def without_annotations(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node that does something: a type that is only named draws nothing."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child
                yield from without_annotations(child)


def dotted(node: ast.AST) -> str:
    """np.random.normal as text; empty for what is no plain name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def imported(node: ast.AST) -> list[str]:
    """Full names that an import brings in."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def begins_with(name: str, prefixes: set[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def writes(node: ast.AST) -> bool:
    """Whether a call can create or change a file."""
    if not isinstance(node, ast.Call):
        return False
    name = dotted(node.func)
    last = name.rpartition(".")[2] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    if last == "open":
        place = 1 if name == "open" else 0
        modes = [*node.args[place : place + 1], *(word.value for word in node.keywords if word.arg == "mode")]
        return name == "os.open" or any(
            not isinstance(mode, ast.Constant) or set(str(mode.value)) & set("wax+") for mode in modes
        )
    return last in WRITING_METHODS or name in ("os.replace", "sqlite3.connect") or name.startswith("shutil.")


def is_written_out(node: ast.AST) -> bool:
    """Whether a call names a package's own modules, and these as text in the source."""
    if not (isinstance(node, ast.Call) and len(node.args) == 2 and isinstance(node.args[1], ast.Dict)):
        return False
    texts = [*node.args[1].keys, *node.args[1].values]
    return dotted(node.args[0]) == "__name__" and all(isinstance(each, ast.Constant) for each in texts)


def faults(module: str, tree: ast.Module) -> list[str]:
    """Everything in a module that walks around the door."""
    found = []
    for node in without_annotations(tree):
        names = imported(node)
        last_names = {name.rpartition(".")[2] for name in names}
        attribute = dotted(node) if isinstance(node, ast.Attribute) else ""
        called = dotted(node.func) if isinstance(node, ast.Call) else ""
        draws = (
            last_names & NOISE_NAMES
            or (isinstance(node, ast.Attribute) and node.attr in NOISE_NAMES)
            or any(begins_with(name, RANDOM_MODULES) for name in names)
            or begins_with(attribute, {"np.random", "numpy.random"})
        )
        if draws and not is_in(module, NOISE_ROOMS):
            found.append("noise")
        if any(begins_with(name, {"random"}) for name in names) and not is_in(module, ORDINARY_RANDOM_ROOMS):
            found.append("random")
        draws_by_jax = any(begins_with(name, {"jax.random"}) for name in names) or begins_with(
            attribute, {"jax.random"}
        )
        if draws_by_jax and not is_in(module, (*JAX_ROOMS, *NOISE_ROOMS)):
            found.append("noise")
        if writes(node) and not is_in(module, WRITING_ROOMS):
            found.append("writing")
        if any(name == "sudare.privacy.release_file.written" for name in names) and module != "sudare.privacy.release":
            found.append("making release files")
        loads_code = any(begins_with(name, FORBIDDEN_IMPORTS) for name in names)
        if (loads_code and not is_in(module, UNPICKLING_ROOMS)) or called in FORBIDDEN_CALLS:
            found.append("executing")
        if tuple(called.rsplit(".", 1)) in FORBIDDEN_METHODS:
            found.append("executing")
        if called.endswith("import_module") and not is_in(module, IMPORTING_ROOMS):
            found.append("importing by name")
        if called.endswith(("optional_package", "loaded_on_use")) and not isinstance(node.args[0], ast.Constant):
            found.append("importing by name")
        if called.endswith("opened_on_use") and not is_written_out(node):
            found.append("importing by name")
    return found


@pytest.mark.parametrize(("module", "path"), modules().items(), ids=modules())
def test_no_way_around_the_door(module, path):
    assert faults(module, ast.parse(path.read_text("utf-8"))) == []


PLANTED = {
    "from sudare.privacy.noise import SystemNoise": "noise",
    "from sudare.privacy.noise import SeededNoise as Quiet": "noise",
    "from sudare.privacy import noise\nnoise.noise_source(0)": "noise",
    "import opendp.prelude as dp": "noise",
    "from secrets import randbits": "noise",
    "import numpy as np\nnp.random.default_rng().normal()": "noise",
    "from numpy.random import default_rng": "noise",
    "import jax\njax.random.normal(key)": "noise",
    "from jax import random": "noise",
    "import random": "random",
    "open('model', 'wb').write(b'')": "writing",
    "open('model', mode='x')": "writing",
    "path.open('w')": "writing",
    "open('model', mode)": "writing",
    "Path('a').write_bytes(b'')": "writing",
    "import os\nos.open('a', 1)": "writing",
    "import os\nos.replace('a', 'b')": "writing",
    "import shutil\nshutil.move('a', 'b')": "writing",
    "import safetensors.numpy\nsafetensors.numpy.save_file({}, 'a')": "writing",
    "frame.to_parquet('a')": "writing",
    "import sqlite3\nsqlite3.connect('a')": "writing",
    "from sudare.privacy.release_file import written": "making release files",
    "import pickle": "executing",
    "from pickle import loads": "executing",
    "eval('1')": "executing",
    "exec('1')": "executing",
    "import joblib\njoblib.load('a')": "executing",
    "import numpy as np\nnp.load('a', allow_pickle=True)": "executing",
    "from importlib import import_module\nimport_module('os')": "importing by name",
    "optional_package(name, problem, remedy)": "importing by name",
    "loaded_on_use(name)": "importing by name",
    "opened_on_use(__name__, names)": "importing by name",
    "opened_on_use(name, {'os': 'system'})": "importing by name",
    "import importlib\nimportlib.import_module('os')": "importing by name",
}


@pytest.mark.parametrize(("text", "fault"), PLANTED.items())
def test_planted_faults_are_found(text, fault):
    assert fault in faults("sudare.somewhere.else", ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "def fit(random_state: np.random.RandomState | None = None) -> np.random.Generator: ...",
        "seed: np.random.RandomState",
        "open('a').read()",
        "open('a', 'rb')",
        "path.open()",
        "random = 1",
        "import re\nre.compile('a')",
        "from sudare.privacy.noise import NoiseSource",
        "text.replace('a', 'b')",
    ],
)
def test_what_is_harmless_is_not_found(text):
    assert faults("sudare.somewhere.else", ast.parse(text)) == []


def test_the_rooms_that_are_named_exist():
    """A room that was renamed must not leave an open door behind."""
    present = set(modules())
    for room in {*NOISE_ROOMS, *WRITING_ROOMS, *ORDINARY_RANDOM_ROOMS, *IMPORTING_ROOMS}:
        assert any(is_in(module, (room,)) for module in present), room


# The same, while it runs


class Stopped(Exception):
    """Raised at the door."""


def stop(*_, **__):
    raise Stopped


@pytest.mark.parametrize("declared", DECLARATIONS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_fit_goes_through_the_door(learner, declared, monkeypatch):
    monkeypatch.setattr(base_room, "pass_through", stop)
    with pytest.raises(Stopped):
        fitted(learner, declared, None)


@pytest.mark.parametrize("learner", LEARNERS)
def test_no_noise_is_drawn_before_the_charge(learner, monkeypatch, tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("a", epsilon=5.0)
    monkeypatch.setattr(Account, "charge", stop)
    monkeypatch.setattr(door, "SystemNoise", lambda: pytest.fail("noise before the charge"))
    monkeypatch.setattr(door, "noise_source", lambda seed: pytest.fail("noise before the charge"))
    with pytest.raises(Stopped):
        fitted(learner, "bounds", account)


@pytest.mark.parametrize("learner", LEARNERS)
def test_nothing_is_written_before_it_is_entered(learner, monkeypatch, tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("a", epsilon=5.0)
    release = Release.of(fitted(learner, "bounds", account))
    monkeypatch.setattr(Ledger, "enter_release", stop)
    with pytest.raises(Stopped):
        release.save(tmp_path / "a.sudare", KEY)
    assert not (tmp_path / "a.sudare").exists()


def test_learners_know_no_other_way_out():
    """No method of a learner takes a path or writes: what leaves goes through Release."""
    words = ("save", "dump", "export", "write", "to_")
    for learner in LEARNERS:
        assert [name for name in dir(learner) if name.startswith(words)] == []
