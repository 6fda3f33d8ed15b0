"""`sudare predict`: what released models say of new records."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sudare.privacy.release import audited, read
from tests.cli.conftest import FIT_MEAN, Sudare

MODELS = {
    "logistic": ("--target", "smoker"),
    "svc": ("--target", "smoker"),
    "ridge": ("--target", "age"),
    "gibbs": ("--target", "smoker", "--delta", "1e-7"),
    "network": ("--target", "smoker", "--delta", "1e-7", "--hidden-layer-size", "4", "--max-iter", "2"),
}


def made(sudare: Sudare, kind: str, *options: str) -> None:
    done = sudare("fit", kind, *FIT_MEAN[2:], *(options or MODELS[kind]), "-o", f"{kind}.sudare", "--key", "key.pem")
    assert done.exit_code == 0, done.stderr


@pytest.fixture
def new(house: Path) -> pd.DataFrame:
    frame = pd.DataFrame(
        {"id": ["=1+1", "b", "c", "d"], "age": [20, 40, 60, 200], "smoker": ["no", "yes", "no", "yes"]}
    )
    frame.to_csv(house / "new.csv", index=False)
    frame.to_parquet(house / "new.parquet")
    return frame


@pytest.mark.parametrize("kind", MODELS)
def test_predictions_are_those_of_the_model(house: Path, sudare: Sudare, new: pd.DataFrame, kind: str) -> None:
    made(sudare, kind)
    told = sudare("predict", f"{kind}.sudare", "new.csv", "--trusted", "key-public.pem", "--json")
    assert told.exit_code == 0, told.stdout
    expected = audited(read(house / f"{kind}.sudare")).model().predict(new)
    assert told.values["predictions"]["prediction"] == expected.tolist()
    assert (told.values["signature"], told.values["release"], told.values["rows"]) == ("trusted", False, 4)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_private_file_with_probabilities(house: Path, sudare: Sudare, new: pd.DataFrame, ending: str) -> None:
    made(sudare, "logistic")
    words = ("predict", "logistic.sudare", f"new.{ending}", "--proba", "--keep", "id", "-o", f"scored.{ending}")
    told = sudare(*words)
    assert told.exit_code == 0, told.stderr
    assert "only you can read it" in told.stdout
    assert "no release" in told.stdout
    assert "NOT CHECKED" in told.stdout
    file = house / f"scored.{ending}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    scored = pd.read_csv(file) if ending == "csv" else pd.read_parquet(file)
    assert list(scored) == ["row", "id", "prediction", "probability_no", "probability_yes"]
    assert np.allclose(scored["probability_no"] + scored["probability_yes"], 1)
    # A cell is no formula of a spreadsheet.
    assert scored["id"][0] == ("'=1+1" if ending == "csv" else "=1+1")
    assert sudare(*words).exit_code == 10


REFUSALS = [
    (("mean.sudare", "new.csv"), 10, "predicts nothing"),
    (("svc.sudare", "new.csv", "--proba"), 10, "tells no probabilities"),
    (("svc.sudare", "new.csv", "-o", "scored.txt"), 10, ".parquet"),
    (("svc.sudare", "new.csv", "-o", "nowhere/scored.csv"), 10, "no folder"),
    (("svc.sudare", "none.csv"), 21, "none.csv"),
    (("svc.sudare", "other.csv"), 12, "lacks 'age'. Rename or add columns of the table"),
    (("svc.sudare", "words.csv"), 13, "age"),
    (("none.sudare", "new.csv"), 21, "none.sudare"),
    (("new.csv", "new.csv"), 51, ""),
    (("svc.sudare", "new.csv", "--keep", "nothing"), 12, "'nothing'"),
    (("svc.sudare", "new.csv", "--trusted", "other-public.pem"), 52, ""),
]


def test_what_cannot_be_predicted(house: Path, sudare: Sudare, new: pd.DataFrame) -> None:
    made(sudare, "svc")
    (house / "other.csv").write_text("weight,height\n1,2\n")
    (house / "words.csv").write_text("age,smoker\nold,no\n")
    for words, exit_code, told in REFUSALS:
        refused = sudare("predict", *words)
        assert (refused.exit_code, refused.stdout) == (exit_code, ""), refused.stderr
        assert told in refused.stderr
    assert not (house / "scored.txt").exists()


@pytest.mark.parametrize("name", ["row", "prediction", "probability_yes"])
def test_a_kept_column_is_not_mixed_with_those_of_the_result(house: Path, sudare: Sudare, name: str) -> None:
    told = sudare("predict", "mean.sudare", "people.csv", "--keep", name)
    assert told.exit_code == 10
    assert "of its own" in told.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "pipe.sudare", "new.csv"),
        ("inspect", "pipe.sudare"),
        ("combine", "new.csv", "pipe.sudare", "--schema", "schema.toml", "-o", "own.model"),
        ("fit", "mean", "new.csv", "--schema", "pipe.toml", "--epsilon", "1", "--dry-run"),
        ("fit", "mean", "pipe.csv", "--schema", "schema.toml", "--epsilon", "1", "--dry-run"),
        ("budget", "verify", "--head", "pipe.json"),
    ],
    ids=" ".join,
)
def test_nobody_waits_for_a_pipe(house: Path, sudare: Sudare, new: pd.DataFrame, words: tuple[str, ...]) -> None:
    for name in ("pipe.sudare", "pipe.csv", "pipe.toml", "pipe.json"):
        os.mkfifo(house / name)
    with ended_in(20):
        told = sudare(*words)
    assert told.exit_code not in (0, 1), told.stdout


@contextlib.contextmanager
def ended_in(seconds: int) -> Iterator[None]:
    """Raise TimeoutError where it takes longer."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_yes_and_no_are_written_as_in_the_schema(house: Path, sudare: Sudare) -> None:
    (house / "ill.toml").write_text(
        '[columns.age]\nkind = "number"\nlow = 0\nhigh = 110\n[columns.ill]\nkind = "label"\nclasses = [false, true]\n'
    )
    pd.DataFrame({"age": [20, 80] * 200, "ill": [False, True] * 200}).to_parquet(house / "ill.parquet")
    made = sudare("fit", "logistic", "ill.parquet", "--schema", "ill.toml", "--epsilon", "4", "--budget", "4",
                  "--key", "key.pem", "-o", "ill.sudare")  # fmt: skip
    assert made.exit_code == 0, made.stderr
    told = sudare("predict", "ill.sudare", "ill.parquet", "--proba")
    assert "probability of 'false'" in told.stdout
    assert "True" not in told.stdout
    assert sudare("predict", "ill.sudare", "ill.parquet", "--proba", "-o", "scored.parquet").exit_code == 0
    scored = pd.read_parquet(house / "scored.parquet")
    assert list(scored) == ["row", "prediction", "probability_false", "probability_true"]
    assert scored["prediction"].dtype == bool
    assert set(sudare("show", "ill.sudare", "--json").values["table"]["class"]) == {"true"}
    assert "classes “false”, “true”" in sudare("inspect", "ill.sudare").stdout
