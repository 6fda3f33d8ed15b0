"""Every learner takes every source, and learns the same bits from all of them: how a table is stored and cut is nobody's business."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from sudare.dictionary import PatternDictionary
from sudare.errors import DataError, SudareError
from sudare.experts import OwnPlusConsensus, PrivateExponentialWeights
from sudare.frames import column_types, read, row_spool
from sudare.frames.sources import is_read_once
from sudare.gibbs import GibbsLogisticRegression, GibbsMean, GibbsPosterior, GibbsRidge
from sudare.joint import MemberTable, ScalerTerms, consortium_model, learned_together, scaler_of
from sudare.linear import PrivateAdditiveClassifier, PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge
from sudare.neural import PrivateMLPClassifier, PrivateMLPRegressor, training
from sudare.perturbation import RecordPerturbation
from sudare.privacy import Ledger, select_privately
from sudare.privacy.learner_registry import LEARNERS
from sudare.schema import Label, Number, Schema
from sudare.statistics import GroupedTable, PrivateHistogram, PrivateMean, PrivateQuantiles, PrivateStandardScaler
from sudare.statistics.schema_discovery import draft_privately, planned_draft
from sudare.synthesis import PrivateSynthesizer, table_cells
from tests.source_kinds import SOURCES

LABELLED = Schema({"age": Number(0, 100, bins=(30, 60)), "height": Number(0, 2, centre=1), "ill": Label(("no", "yes"))})
PLAIN = Schema({"age": Number(0, 100, bins=(30, 60)), "height": Number(0, 2, centre=1)})
NUMBER = Schema({"age": Number(0, 100), "height": Number(0, 2, centre=1)}, target="age")
SEED = 3


def patients(rows: int = 250) -> pa.Table:
    random = np.random.default_rng(1)
    age, height = random.uniform(-3, 103, rows).round(3), random.uniform(0, 2, rows).round(3)
    return pa.table(
        {"age": age, "height": height, "ill": pa.array(np.where(age > 50, "yes", "no").tolist(), pa.string())}
    )


def expert() -> Any:
    return PrivateLogisticRegression(5.0, schema=LABELLED, random_state=1).fit(patients())


def joint(given: object, **asked_for: Any) -> Any:
    return consortium_model(
        [given, patients()], schema=LABELLED, epsilon=4.0, random_state=SEED, hide="nothing", **asked_for
    )


def joint_scales(given: object) -> Any:
    terms = ScalerTerms(PLAIN, 3.0, 0.0, 2)
    members = [MemberTable(given), MemberTable(patients())]
    return scaler_of(learned_together(terms, members, random_state=SEED, hide="nothing").found[0]).scale_


def selected(given: object) -> Any:
    tried = [PrivateLogisticRegression(1.0, schema=LABELLED, regularization=value) for value in (0.01, 1.0)]
    return select_privately(
        tried, given, epsilon=9.0, row_scores=lambda model, X, y: np.full(250, 0.5), random_state=SEED
    ).model


def drafted(given: object) -> str:
    """A draft reads names and types first: what comes once is kept by who drafts."""
    table = read(given) if is_read_once(given) else given
    # Names of folders are a column as well.
    more = sorted(set(column_types(table).names) - set(LABELLED.columns))
    plan = planned_draft(table, epsilon=5.0, delta=1e-6, has_header=True, drop=more)
    return str(draft_privately(table, plan, random_state=SEED).found)


def as_columns(found: Any) -> dict[str, Any]:
    return {name: np.asarray(found[name]) for name in found}


# What each learner learns from a source, as arrays.
Learn = Callable[[Any], Any]
LEARNED: dict[str, Learn] = {
    "GroupedTable": lambda given: GroupedTable(schema=LABELLED, by=["ill"], mean_of=["age"], random_state=SEED).fit(given).table(),
    "PrivateMean": lambda given: PrivateMean(schema=PLAIN, random_state=SEED).fit(given).mean_,
    "PrivateHistogram": lambda given: PrivateHistogram(schema=PLAIN, random_state=SEED).fit(given).counts_,
    "PrivateQuantiles": lambda given: PrivateQuantiles(schema=PLAIN, random_state=SEED).fit(given).table(),
    "PrivateStandardScaler": lambda given: PrivateStandardScaler(schema=PLAIN, random_state=SEED).fit(given).scale_,
    "GibbsMean": lambda given: GibbsMean(schema=PLAIN, random_state=SEED).fit(given).mean_,
    "PrivateLogisticRegression": lambda given: PrivateLogisticRegression(schema=LABELLED, random_state=SEED).fit(given).parameters_,
    "PrivateLogisticRegression, descent": lambda given: PrivateLogisticRegression(
        schema=LABELLED, method="descent", delta=1e-6, random_state=SEED
    ).fit(given).parameters_,
    "PrivateLogisticRegression, chosen": lambda given: PrivateLogisticRegression(
        schema=LABELLED, regularization=[0.01, 1.0], random_state=SEED
    ).fit(given).parameters_,
    "PrivateLinearSVC": lambda given: PrivateLinearSVC(schema=LABELLED, random_state=SEED).fit(given).parameters_,
    "PrivateAdditiveClassifier": lambda given: PrivateAdditiveClassifier(
        schema=LABELLED, delta=1e-6, random_state=SEED
    ).fit(given).parameters_,
    "PrivateRidge": lambda given: PrivateRidge(schema=NUMBER, random_state=SEED).fit(given).parameters_,
    "GibbsLogisticRegression": lambda given: GibbsLogisticRegression(schema=LABELLED, random_state=SEED).fit(given).parameters_,
    "GibbsRidge": lambda given: GibbsRidge(schema=NUMBER, random_state=SEED).fit(given).parameters_,
    "PrivateMLPClassifier": lambda given: PrivateMLPClassifier(
        schema=LABELLED, delta=1e-6, hidden_layer_sizes=(3,), random_state=SEED
    ).fit(given).parameters_,
    "PrivateMLPRegressor": lambda given: PrivateMLPRegressor(
        schema=NUMBER, delta=1e-6, hidden_layer_sizes=(3,), random_state=SEED
    ).fit(given).parameters_,
    "PrivateSynthesizer": lambda given: as_columns(
        PrivateSynthesizer(schema=LABELLED, random_state=SEED).fit(given).sample(20, random_state=1)
    ),
    "RecordPerturbation": lambda given: RecordPerturbation(LABELLED, epsilon=2.0, random_state=SEED).fit(given).table_.arrow().to_pydict(),
    "PrivateExponentialWeights": lambda given: PrivateExponentialWeights(
        [expert(), expert()], schema=LABELLED, random_state=SEED
    ).fit(given).counts_,
    "PatternDictionary": lambda given: PatternDictionary(2, schema=PLAIN, random_state=SEED).fit([given]).weights_,
    "select_privately": lambda given: selected(given).parameters_,
    "draft_privately": drafted,
    "PrivateSynthesizer, adaptive": lambda given: as_columns(
        PrivateSynthesizer(schema=LABELLED, engine="adaptive", random_state=SEED).fit(given).sample(20, random_state=1)
    ),
    "PatternDictionary, private": lambda given: PatternDictionary(
        2, schema=PLAIN, epsilon=5.0, delta=1e-6, random_state=SEED
    ).fit([given, patients()]).weights_,
    "OwnPlusConsensus": lambda given: OwnPlusConsensus([expert(), expert()]).fit(given, patients()["ill"]).coef_,
    "consortium_model": lambda given: joint(given).model().parameters_,
    "consortium_model, descent": lambda given: joint(given, method="descent", delta=1e-6).model().parameters_,
    "consortium_model, boosting": lambda given: joint(given, method="boosting", delta=1e-6).model().parameters_,
    "consortium_model, network": lambda given: joint(given, method="network", delta=1e-6, hidden_layer_sizes=(3,)).model().parameters_,
    "consortium_model, scales": joint_scales,
    "predict": lambda given: expert().predict(given),
    "transform": lambda given: PrivateStandardScaler(schema=PLAIN, random_state=SEED).fit(patients()).transform(given),
    "score_samples": lambda given: PatternDictionary(2, schema=PLAIN, random_state=SEED).fit([patients()]).member(0).score_samples(given),
}  # fmt: skip
# Learners that are one of those above with another way of training, or take arrays and no schema.
ALIKE = {
    "AnonymizedLearningClassifier", "AnonymizedLearningRegressor", "AnonymizingFirstClassifier", "AnonymizingFirstRegressor",
    "LearningFirstClassifier", "LearningFirstRegressor", "GibbsPosterior", "PrivateNetwork",
}  # fmt: skip
QUICK = [("PrivateLogisticRegression", kind) for kind in SOURCES] + [
    (learner, kind)
    for learner in LEARNED
    for kind in ("folder", "iterator")
    if learner not in ("PrivateMLPClassifier", "PrivateMLPRegressor", "PrivateLogisticRegression")
]


def test_every_learner_is_here() -> None:
    assert {name.partition(",")[0] for name in LEARNED} >= set(LEARNERS) - ALIKE


def assert_same_bits(learner: str, kind: str, folder: Path) -> None:
    table = patients()
    expected, found = LEARNED[learner](table), LEARNED[learner](SOURCES[kind](table, folder))
    np.testing.assert_equal(found, expected)


@pytest.mark.parametrize(("learner", "kind"), QUICK)
def test_a_sample_of_learners_and_sources(learner: str, kind: str, tmp_path: Path) -> None:
    assert_same_bits(learner, kind, tmp_path)


@pytest.mark.parametrize(
    "learner", ["PrivateSynthesizer", "PrivateMLPClassifier", "PrivateLogisticRegression, descent"]
)
def test_rows_that_wait_in_a_file_and_come_in_small_blocks(
    learner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = patients()
    expected = LEARNED[learner](table)
    monkeypatch.setattr(row_spool, "SPOOL_ABOVE_BYTES", 0)
    monkeypatch.setattr(table_cells, "BLOCK_ROWS", 64)
    monkeypatch.setattr(training, "MOST_HELD_BYTES", 0)
    np.testing.assert_equal(LEARNED[learner](SOURCES["folder"](table, tmp_path)), expected)


@pytest.mark.parametrize("kind", ["folder", "polars lazy", "iterator"])
def test_a_loss_of_ones_own_takes_the_columns_as_they_are(kind: str, tmp_path: Path) -> None:
    """It has no schema: rows are shortened to a norm."""

    def distance(point: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.sqrt(1 + np.sum((rows - point) ** 2, axis=1))

    def drawn(given: object) -> np.ndarray:
        candidates = [[0.1, 0.2], [0.5, 0.1], [0.9, 0.0]]
        model = GibbsPosterior(distance, candidates=candidates, loss_range=(1, 3), delta=0, random_state=SEED)
        return np.asarray(model.fit(given).parameters_)

    table = patients().select(["age", "height"])
    np.testing.assert_array_equal(drawn(SOURCES[kind](table, tmp_path)), drawn(table.to_pandas()))


@pytest.mark.parametrize(
    "kind",
    [
        "csv",
        "dataset",
        "object store",
        "sql table",
        "polars lazy",
        "duckdb address",
        "delta folder",
        "iceberg table",
        "iterator",
    ],
)
def test_a_source_without_rows_charges_nothing(kind: str, tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger.db").account("patients", epsilon=9.0)
    empty = SOURCES[kind](patients(0), tmp_path)
    with pytest.raises(SudareError, match=r"no rows|has no batches|first line"):
        PrivateLogisticRegression(1.0, schema=LABELLED, account=account).fit(empty)
    assert account.spent().epsilon == 0


@pytest.mark.long
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("learner", LEARNED)
def test_every_learner_and_every_source(learner: str, kind: str, tmp_path: Path) -> None:
    if (learner, kind) == ("RecordPerturbation", "hive folder"):
        with pytest.raises(DataError, match="does not declare"):
            LEARNED[learner](SOURCES[kind](patients(), tmp_path))
        return
    assert_same_bits(learner, kind, tmp_path)


MEASURED = """
import pathlib, sys, threading, time
from sudare.frames import row_spool
from sudare.neural import training
from tests.guarantees.test_every_source_and_learner import LEARNED
row_spool.SPOOL_ABOVE_BYTES = training.MOST_HELD_BYTES = 2**22
own = lambda: next(int(line.split()[1]) for line in pathlib.Path("/proc/self/status").open() if line.startswith("RssAnon"))
LEARNED[sys.argv[1]](sys.argv[2] + "/few.parquet")
before, most, done = own(), [0], threading.Event()
def watch():
    while not done.wait(0.005):
        most.append(own())
thread = threading.Thread(target=watch)
thread.start()
LEARNED[sys.argv[1]](sys.argv[2] + "/many.parquet")
done.set()
print(max(most) - before)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is told by Linux")
@pytest.mark.parametrize("learner", ["PrivateSynthesizer", "PrivateMLPClassifier", "predict", "GibbsMean"])
def test_memory_does_not_grow_with_the_table(learner: str, tmp_path: Path) -> None:
    """Four million rows, of which encoded ones take from 12 to 96 bytes each; only predictions, of a word each, are held, and of networks the random words of a step."""
    rows = 4_000_000
    pyarrow.parquet.write_table(patients(50_000), tmp_path / "few.parquet")
    pyarrow.parquet.write_table(patients(rows), tmp_path / "many.parquet", row_group_size=50_000)
    command = [sys.executable, "-c", MEASURED, learner, str(tmp_path)]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) * 1024
    allowed = {"predict": 40 * rows, "PrivateMLPClassifier": 24 * rows}.get(learner, 0)
    assert grown < 48 * 2**20 + allowed
