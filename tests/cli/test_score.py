"""`sudare score`: the member's own dictionary on new records, and nothing that leaves."""

from __future__ import annotations

import json
import re
import shlex
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sudare.consortium import DictionaryTask
from sudare.dictionary import MemberModel, PatternDictionary
from sudare.dictionary.member_model import worst_columns
from sudare.dictionary.member_model_file import member_model
from sudare.errors import AgreementError, ColumnMissing, DataError, InvalidParameter, SourceUnreadable
from sudare.schema import Category, Number, Schema
from tests.cli.conftest import Sudare
from tests.consortium.clinics import founded, node_of, run_together
from tests.consortium.local_transport import LocalHub

SENSORS = Schema({"flow": Number(-20.0, 20.0), "current": Number(-20.0, 20.0), "heat": Number(-20.0, 20.0)})
TOML = "".join(f'[columns.{name}]\nkind = "number"\nlow = -20\nhigh = 20\n' for name in SENSORS.columns)


def readings(seed: int, rows: int = 200) -> pd.DataFrame:
    """Two states of a machine; the current follows the flow."""
    draw = np.random.default_rng(seed)
    state = draw.random(rows) < 0.5
    flow = np.where(state, 4.0, -4.0) + draw.normal(size=rows)
    return pd.DataFrame({"flow": flow, "current": flow + 0.2 * draw.normal(size=rows), "heat": draw.normal(size=rows)})


def described(model: MemberModel, own_pattern: bool) -> dict[str, Any]:
    """A model as a consortium's training writes it (sudare.consortium.tasks.task_activities)."""
    lists = {name: values.tolist() for name, values in model.patterns.arrays.items()}
    document: dict[str, Any] = {"family": model.family.name, "patterns": lists, "own_weights": model.weights.tolist()}
    if not own_pattern:
        return {**document, "own_patterns": None}
    own = {name: values[1:] for name, values in lists.items()}
    return {
        **document,
        "patterns": {name: values[:1] for name, values in lists.items()},
        "own_weights": model.weights[:1].tolist(),
        "own_patterns": {"weights": model.weights[1:].tolist(), **own},
    }


def described_earlier(model: MemberModel) -> dict[str, Any]:
    """As earlier versions wrote it, which had one pattern of one's own at most."""
    lists = {name: values.tolist() for name, values in model.patterns.arrays.items()}
    own = {"weight": float(model.weights[-1]), **{name: values[-1:] for name, values in lists.items()}}
    return {
        "family": model.family.name,
        "patterns": {name: values[:-1] for name, values in lists.items()},
        "own_weights": model.weights[:-1].tolist(),
        "own_pattern": own,
    }


@pytest.fixture(scope="module")
def detector() -> MemberModel:
    """One member's model, trained in this process."""
    tables = [readings(seed) for seed in range(3)]
    return PatternDictionary(2, schema=SENSORS, hide="nothing", search=False).fit(tables).member(0)


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, detector: MemberModel) -> Path:
    """A folder with the model, the schema, usual records and today's, of which row 50 has a broken current."""
    monkeypatch.chdir(tmp_path)
    today = readings(9, 120)
    today.loc[49, "current"] = today.loc[49, "flow"] + 6.0
    today["time"] = [f"{minute // 60:02}:{minute % 60:02}" for minute in range(len(today))]
    today.to_parquet("today.parquet")
    today.to_csv("today.csv", index=False)
    readings(8, 1200).to_parquet("usual.parquet")
    (tmp_path / "schema.toml").write_text(TOML)
    (tmp_path / "dictionary.json").write_text(json.dumps(described(detector, own_pattern=False)))
    return tmp_path


BY_FILE = ("score", "today.parquet", "--model", "dictionary.json", "--schema", "schema.toml")


def test_scores_are_those_of_the_model(plant: Path, detector: MemberModel, sudare: Sudare) -> None:
    told = sudare(*BY_FILE, "--json").values
    today = pd.read_parquet("today.parquet")
    scores = detector.score_samples(today[list(SENSORS.columns)])
    np.testing.assert_allclose(told["scores"], scores, rtol=1e-12)
    assert told["threshold"]["value"] == pytest.approx(detector.threshold(0.01))
    assert told["threshold"]["calibration_records"] is None
    assert told["above"] == int((scores > detector.threshold(0.01)).sum())
    assert told["release"] is False
    worst = told["strangest"][0]
    assert (worst["row"], worst["columns"][0]["column"], worst["given"]) == (50, "current", "flow")
    assert [each["score"] for each in told["strangest"]] == sorted(told["scores"], reverse=True)[:5]
    attribution = detector.attribution(today[list(SENSORS.columns)])[49]
    assert worst["columns"][0]["score"] == pytest.approx(attribution.max())


def test_a_csv_file_scores_as_its_parquet(plant: Path, sudare: Sudare) -> None:
    parquet = sudare(*BY_FILE, "--json").values
    csv = sudare("score", "today.csv", *BY_FILE[2:], "--json").values
    np.testing.assert_allclose(csv["scores"], parquet["scores"], rtol=1e-9)


def test_people_read_what_stands_out_and_that_it_is_no_release(plant: Path, sudare: Sudare) -> None:
    told = sudare(*BY_FILE, "--label", "time", "--top", 2, "--false-alarm-rate", 0.001).stdout
    assert "120 records; 1 above the threshold" in told
    assert "1 false alarm in 1,000" in told
    assert "Worst: 00:49, score" in told
    assert "mostly 'current' given 'flow'" in told
    assert told.count("Then:") == 1
    assert "not a release" in told


def test_a_calibrated_threshold_is_the_conformal_one(plant: Path, detector: MemberModel, sudare: Sudare) -> None:
    told = sudare(*BY_FILE, "--calibrate", "usual.parquet", "--false-alarm-rate", 0.001, "--json").values
    expected = detector.calibrated(pd.read_parquet("usual.parquet")).threshold(0.001)
    assert told["threshold"] == {"value": expected, "false_alarm_rate": 0.001, "calibration_records": 1200}
    few = sudare(*BY_FILE, "--calibrate", "usual.parquet", "--false-alarm-rate", 0.0001)
    assert few.exit_code == DataError.exit_code
    assert "9,999 calibration records" in few.stderr


def test_kept_scores_begin_no_formula(plant: Path, sudare: Sudare) -> None:
    today = pd.read_parquet("today.parquet").assign(time="=cmd|' /C calc'!A0")
    today.to_parquet("evil.parquet")
    told = sudare("score", "evil.parquet", *BY_FILE[2:], "--label", "time", "-o", "scores.csv")
    assert told.exit_code == 0, told.stderr
    assert set(pd.read_csv("scores.csv")["label"]) == {"'=cmd|' /C calc'!A0"}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_scores_of_all_rows_can_be_kept(plant: Path, detector: MemberModel, sudare: Sudare, ending: str) -> None:
    told = sudare(*BY_FILE, "--label", "time", "-o", f"scores.{ending}", "--plot", "scores.svg", "--json").values
    file = plant / f"scores.{ending}"
    kept = pd.read_csv(file) if ending == "csv" else pd.read_parquet(file)
    np.testing.assert_allclose(kept["score"], told["scores"], rtol=1e-12)
    assert kept["above"].sum() == told["above"]
    assert list(kept["row"]) == list(range(1, 121))
    assert list(kept["label"])[:2] == ["00:00", "00:01"]
    today = pd.read_parquet("today.parquet")[list(SENSORS.columns)]
    assert list(kept["mostly"]) == list(worst_columns(detector.attribution(today), detector.columns))
    # Scores are about single records: nobody else on the machine may read them.
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (plant / "scores.svg").read_bytes().startswith(b"<?xml")
    again = sudare(*BY_FILE, "-o", f"scores.{ending}")
    assert again.exit_code == InvalidParameter.exit_code


def test_a_rehearsal_scores_and_writes_nothing(
    plant: Path, detector: MemberModel, sudare: Sudare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sudare.dictionary.anomaly_scoring.scored_records", lambda *_: pytest.fail("scored"))
    before = sorted(plant.iterdir())
    told = sudare(*BY_FILE, "-o", "scores.csv", "--plot", "p.png", "--dry-run", "--json").values
    assert told["dry_run"] is True
    assert (told["rows"], told["patterns"], told["columns"]) == (120, len(detector.patterns), list(SENSORS.columns))
    assert "nothing was scored or written" in sudare(*BY_FILE, "--dry-run").stdout
    assert sorted(plant.iterdir()) == before
    missing = sudare(*BY_FILE, "--label", "when", "--dry-run")
    assert missing.exit_code == ColumnMissing.exit_code


@pytest.mark.parametrize(
    ("words", "code", "answer"),
    [
        (("score", "today.parquet"), InvalidParameter, "--task NAME"),
        ((*BY_FILE, "--task", "patterns"), InvalidParameter, "or twice"),
        (BY_FILE[:4], InvalidParameter, "belong together"),
        ((*BY_FILE, "--false-alarm-rate", "0"), InvalidParameter, "between 0 and 1"),
        ((*BY_FILE, "--false-alarm-rate", "nan"), InvalidParameter, "between 0 and 1"),
        ((*BY_FILE, "--plot", "p.jpg"), InvalidParameter, ".png"),
        ((*BY_FILE, "-o", "scores.txt"), InvalidParameter, ".csv"),
        ((*BY_FILE, "-o", "none/scores.csv"), InvalidParameter, "cannot be written"),
        ((*BY_FILE, "--label", "when"), ColumnMissing, "'when'"),
        (("score", "none.parquet", *BY_FILE[2:]), SourceUnreadable, "no data files"),
        (("score", "today.parquet", "--model", "none.json", *BY_FILE[4:]), SourceUnreadable, "No such file"),
        (("score", "today.parquet", "--model", "schema.toml", *BY_FILE[4:]), SourceUnreadable, "not JSON"),
        (("score", "today.parquet", "--task", "patterns"), AgreementError, "member file"),
    ],
)
def test_what_cannot_be_done_is_said(
    plant: Path, sudare: Sudare, words: tuple[Any, ...], code: Any, answer: str
) -> None:
    outcome = sudare(*words)
    assert outcome.exit_code == code.exit_code, outcome.stderr
    assert answer in outcome.stderr
    assert outcome.stdout == ""


def test_the_result_of_a_task_is_found_by_its_name(tmp_path: Path, sudare: Sudare) -> None:
    """The file that a real training writes is the file that scores."""
    options = {"search": False, "max_iter": 3, "false_alarm_rate": 0.05}
    task = DictionaryTask("patterns", 2, consent=True, parameters=options)
    tables = [readings(seed, 120) for seed in range(3)]
    members = founded(tmp_path, task, schema=SENSORS, tables=tables)
    member = members[0].folder / "member.toml"
    readings(9, 40).to_parquet(tmp_path / "today.parquet")
    words = ("score", tmp_path / "today.parquet", "--task", "patterns", "--member", member, "--json")
    assert "sudare run patterns" in sudare(*words).values["error"]["remedy"]
    hub = LocalHub()
    run_together([node_of(each, hub) for each in members], ["patterns"])
    told = sudare(*words).values
    assert told["rows"] == 40
    assert told["threshold"]["false_alarm_rate"] == 0.05
    document = json.loads((members[0].folder / "results/patterns/dictionary.json").read_text())
    expected = member_model(document, SENSORS).score_samples(readings(9, 40))
    np.testing.assert_allclose(told["scores"], expected, rtol=1e-12)
    wrong = sudare("score", tmp_path / "today.parquet", "--task", "risk", "--member", member)
    assert wrong.exit_code == AgreementError.exit_code


def test_the_commands_on_the_page_run(tmp_path: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/dictionary.md").read_text(encoding="utf-8")
    typed = re.findall(r"^\$ sudare (score .*)$", page, re.MULTILINE)
    assert len(typed) == 3
    task = DictionaryTask("patterns", 2, consent=True, parameters={"search": False, "max_iter": 3})
    members = founded(tmp_path, task, schema=SENSORS, tables=[readings(seed, 120) for seed in range(3)])
    hub = LocalHub()
    run_together([node_of(each, hub) for each in members], ["patterns"])
    monkeypatch.chdir(members[0].folder)
    readings(9, 40).assign(time=range(40)).to_parquet("today.parquet")
    readings(8, 1200).to_parquet("usual.parquet")
    Path("schema.toml").write_text(TOML)
    for line in typed:
        outcome = sudare(*shlex.split(line))
        assert outcome.exit_code == 0, outcome.stderr
    assert Path("today.png").stat().st_size > 0
    assert len(pd.read_parquet("scores.parquet")) == 40


CODES = Schema({"state": Category(("on", "off", "idle")), "door": Category(("open", "shut"))})


def trained(family: str) -> tuple[MemberModel, Schema, pd.DataFrame]:
    draw = np.random.default_rng(0)
    if family == "categorical":
        table = pd.DataFrame(
            {"state": draw.choice(["on", "off", "idle"], 90), "door": draw.choice(["open", "shut"], 90)}
        )
        schema = CODES
    else:
        schema = Schema({"first": Number(0.0, 50.0), "second": Number(0.0, 50.0)})
        counts = draw.poisson([3.0, 9.0], (90, 2)).astype(float)
        table = pd.DataFrame(counts if family == "poisson" else counts + 0.5, columns=["first", "second"])
    options: dict[str, Any] = {"family": family, "search": False, "hide": "nothing", "max_iter": 5}
    return (
        PatternDictionary(2, schema=schema, **options).fit([table[:30], table[30:60], table[60:]]).member(1),
        schema,
        table,
    )


@pytest.mark.parametrize("family", ["sparse_gaussian", "diagonal_gaussian", "poisson", "gamma", "categorical"])
@pytest.mark.parametrize("own_pattern", [False, True])
def test_every_family_comes_back_from_its_document(family: str, own_pattern: bool) -> None:
    model, schema, table = trained(family)
    back = member_model(json.loads(json.dumps(described(model, own_pattern))), schema)
    earlier = member_model(json.loads(json.dumps(described_earlier(model))), schema)
    np.testing.assert_allclose(back.score_samples(table), model.score_samples(table), rtol=1e-12)
    np.testing.assert_allclose(earlier.score_samples(table), model.score_samples(table), rtol=1e-12)
    np.testing.assert_allclose(back.attribution(table), model.attribution(table), rtol=1e-9, atol=1e-12)
    assert back.threshold(0.05) == pytest.approx(model.threshold(0.05))


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], Any]:
    def apply(document: dict[str, Any]) -> dict[str, Any]:
        change(document)
        return document

    return apply


DAMAGE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a list": lambda document: [document],
    "another family": changed(lambda document: document.update(family="weibull")),
    "no patterns": changed(lambda document: document.pop("patterns")),
    "patterns of nobody": changed(lambda document: document["patterns"].update(means=[], precisions=[])),
    "a mean too few": changed(lambda document: document["patterns"]["means"].pop()),
    "a word": changed(lambda document: document["patterns"]["means"][0].__setitem__(0, "high")),
    "infinity": changed(lambda document: document["patterns"]["means"][0].__setitem__(0, float("inf"))),
    "not positive definite": changed(lambda document: document["patterns"]["precisions"][0][0].__setitem__(0, -1.0)),
    "weights above one": changed(lambda document: document["own_weights"].__setitem__(0, 2.0)),
    "negative weights": changed(lambda document: document.update(own_weights=[-1.0, 2.0])),
    "no weights": changed(lambda document: document.pop("own_weights")),
    "own patterns without weights": changed(lambda document: document.update(own_patterns=document["patterns"])),
    "an own pattern without weight": changed(lambda document: document.update(own_pattern=document["patterns"])),
    "an own pattern that is a number": changed(lambda document: document.update(own_pattern=3)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_document_is_refused(detector: MemberModel, damage: str) -> None:
    document = json.loads(json.dumps(described(detector, own_pattern=False)))
    with pytest.raises(DataError):
        member_model(DAMAGE[damage](document), SENSORS)


@pytest.mark.parametrize(
    ("family", "name", "number"),
    [
        ("poisson", "rates", 1e300),
        ("gamma", "shapes", 1e-300),
        ("gamma", "rates", 1e308),
        ("categorical", "probabilities", 0.9),
    ],
)
def test_numbers_that_no_training_gives_are_refused(family: str, name: str, number: float) -> None:
    """Of some the threshold would be no number, and no record above it."""
    model, schema, _ = trained(family)
    document = json.loads(json.dumps(described(model, own_pattern=False)))
    member_model(document, schema)
    document["patterns"][name][1][0] = number
    with pytest.raises(DataError, match=r"no training gives|not shares of one whole"):
        member_model(document, schema)


def test_a_dictionary_of_another_schema_is_refused(detector: MemberModel) -> None:
    fewer = Schema({"flow": Number(0.0, 1.0)})
    with pytest.raises(DataError, match="does not fit the schema"):
        member_model(described(detector, own_pattern=False), fewer)


def test_a_window_smooths_scores_and_needs_usual_records(plant: Path, detector: MemberModel, sudare: Sudare) -> None:
    assert sudare(*BY_FILE, "--window", "5").exit_code == DataError.exit_code
    told = sudare(*BY_FILE, "--window", "5", "--calibrate", "usual.parquet", "--json").values
    expected = detector.smoothed(5).score_samples(pd.read_parquet("today.parquet"))
    np.testing.assert_allclose(told["scores"], expected, rtol=1e-9)
    assert told["threshold"]["calibration_records"] == 1200


def test_windows_reach_across_blocks(detector: MemberModel) -> None:
    from sudare.dictionary.anomaly_scoring import scored_records
    from sudare.frames import batches

    table, smooth = readings(5, 50), detector.smoothed(7)
    found = scored_records(smooth, batches(table, list(detector.columns), 4, schema=SENSORS), 3)
    np.testing.assert_allclose(found.scores, smooth.score_samples(table), rtol=1e-9)


def test_blocks_do_not_matter(detector: MemberModel) -> None:
    """The strangest of all records, whatever block they stood in."""
    from sudare.dictionary.anomaly_scoring import scored_records
    from sudare.frames import batches

    table = readings(5, 500)
    whole = scored_records(detector, batches(table), 7, each_column=True)
    parts = scored_records(detector, batches(table, batch_rows=33), 7, each_column=True)
    np.testing.assert_allclose(parts.scores, whole.scores, rtol=1e-12)
    assert [each.position for each in parts.strangest] == [each.position for each in whole.strangest]
    assert parts.columns is not None
    assert whole.columns is not None
    assert list(parts.columns) == list(whole.columns)
    with pytest.raises(DataError, match="no records"):
        scored_records(detector, [], 3)
