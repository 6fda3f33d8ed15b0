"""What an attacker wants from files: somebody's first record, columns taken for one another, memory, and everybody's model."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import threading
import tracemalloc
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sudare.consortium import Agreement
from sudare.consortium.agreement.member_settings import Member
from sudare.errors import SudareError
from sudare.experts import AverageExperts, ExponentialWeights, MirrorAveraging, OwnPlusConsensus, StackedExperts
from sudare.frames import column_types, read
from sudare.linear import PrivateRidge
from sudare.neural import PrivateMLPClassifier
from sudare.perturbation import RecordPerturbation
from sudare.perturbation import release_format as released
from sudare.privacy import Ledger, Release
from sudare.schema import Category, Number, Schema
from sudare.statistics import PrivateHistogram
from sudare.synthesis import PrivateSynthesizer
from tests.cli.conftest import invoked
from tests.experts.members import Line
from tests.release_kit import KEY, manifest_of, taken_apart, with_manifest

DOTS = 4_000
MOST_PARSING_BYTES = 2_000_000


def sudare(*words: object) -> tuple[int, str]:
    """A command's exit code, and all that it printed."""
    result = invoked(*words)
    return result.exit_code, result.output


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SUDARE_LEDGER", raising=False)
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    Path("key.pem").write_bytes(key)
    os.chmod("key.pem", 0o600)
    return tmp_path


def published(table: str) -> str:
    """Everything that is printed on the way from a table to the card of its means, done as the manual says."""
    code, told = sudare("schema", "draft", table, "-o", "schema.toml")
    if code:
        return told
    answered = re.sub(r'low = "\?"', "low = 0", Path("schema.toml").read_text("utf-8"))
    answered = re.sub(r'high = "\?"', "high = 200", answered)
    Path("schema.toml").write_text(answered.replace('values = "?"', 'values = ["a", "b"]'), "utf-8")
    fit = ("fit", "mean", table, "--schema", "schema.toml", "--epsilon", 1, "--account", "visits", "--budget", 1)
    told += sudare(*fit, "--key", "key.pem", "-o", "mean.sudare")[1]
    return told + sudare("inspect", "mean.sudare")[1] + answered


@pytest.mark.parametrize(
    ("record", "others", "secrets"),
    [
        ("61,178.5", ["42,166", "38,171"], ("61", "178.5")),
        ("Tanaka,61", ["Suzuki,42", "Sato,38"], ("Tanaka", "61")),
        ("Tanaka,1964-02-03", ["Suzuki,1983-05-06", "Sato,1987-08-09"], ("Tanaka", "1964")),
        ("Tanaka,Kyoto", ["Suzuki,Osaka", "Sato,Nara"], ("Tanaka", "Kyoto")),
        ("P0061,", ["P0042,7", "P0038,9"], ("P0061",)),
        ("Tanaka Ichiro,na,Kyoto", ["Suzuki Hana,42,Osaka", "Sato Ken,38,Nara"], ("Tanaka", "Kyoto")),
        ("Tanaka Ichiro,Unknown,Kyoto", ["Suzuki Hana,42,Osaka", "Sato Ken,38,Nara"], ("Tanaka", "Kyoto")),
        ("田中一郎,不明", ["鈴木花,42", "佐藤健,38"], ("田中",)),
        ("Tanaka Ichiro,HIV positive", ["Suzuki Hana,none", "Sato Ken,none"], ("Tanaka", "HIV")),
        ("Tanaka Ichiro,HIV positive", ["Suzuki Hana,-", "Sato Ken,-"], ("Tanaka", "HIV")),
        ("tanaka@clinic.example,low", ["suzuki@clinic.example,42", "sato@clinic.example,38"], ("tanaka",)),
        ("Tanaka Ichiro,HIV positive", [], ("Tanaka", "HIV")),
    ],
)
def test_publish_the_first_record_of_a_table_without_a_header(
    house: Path, record: str, others: list[str], secrets: tuple[str, ...]
) -> None:
    Path("visits.csv").write_text("\n".join([record, *others, ""]), "utf-8")
    told = published("visits.csv")
    assert not [secret for secret in secrets if secret in told]


def test_publish_the_first_record_by_way_of_a_schema_that_has_it_for_names(house: Path) -> None:
    Path("visits.csv").write_text("61,178.5\n42,166\n38,171\n", "utf-8")
    Schema({"61": Number(0, 110), "178.5": Number(0, 250)}).save("schema.toml")
    fit = ("fit", "mean", "visits.csv", "--schema", "schema.toml", "--epsilon", 1, "--account", "visits", "--budget", 1)
    assert sudare(*fit, "--key", "key.pem", "-o", "mean.sudare")[0] != 0
    assert not Path("mean.sudare").exists()


@pytest.mark.parametrize("names", [("age", "age"), ("age", " age"), ("caf\u00e9", "cafe\u0301")])
def test_have_two_columns_taken_for_one(house: Path, names: tuple[str, str]) -> None:
    Path("visits.csv").write_text(f"{names[0]},{names[1]}\n61,1\n42,2\n", "utf-8")
    table = pa.table([pa.array([61, 42]), pa.array([1, 2])], names=list(names))
    pyarrow.parquet.write_table(table, "visits.parquet")
    for source in ("visits.csv", "visits.parquet"):
        assert sudare("schema", "draft", source)[0] != 0
        with pytest.raises(SudareError):
            column_types(source)
        with pytest.raises(SudareError):
            read(source)


def test_take_all_memory_of_whoever_draws_synthetic_rows(house: Path) -> None:
    """A file of some kilobytes, signed and valid, says that it is about 2^53 - 1 rows."""
    account = Ledger("ledger.db").account("visits", epsilon=1.0)
    rows = {"age": np.linspace(0, 110, 200)}
    model = PrivateSynthesizer(Schema({"age": Number(0, 110)}), account=account).fit(rows)
    Release.of(model).save("small.sudare", key=KEY)
    file = Path("small.sudare").read_bytes()
    manifest = manifest_of(file)
    manifest["parameters"]["rows"] = 2**53 - 1
    Path("bomb.sudare").write_bytes(with_manifest(file, manifest))
    assert Path("bomb.sudare").stat().st_size < 4096
    with memory_limit(2**30):
        code, told = sudare("sample", "bomb.sudare", "-o", "rows.parquet")
    assert code == 0, told
    assert pyarrow.parquet.ParquetFile("rows.parquet").metadata.num_rows <= 1_000_000


@contextmanager
def memory_limit(more_bytes: int) -> Iterator[None]:
    """This process may take so much more than it has: who wants all memory gets an error and not the machine's last byte."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + more_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def as_schema(text: str) -> None:
    Schema.from_toml(text)


def as_agreement(text: str) -> None:
    Agreement.from_toml(text, Path())


def as_member(text: str) -> None:
    Member.from_toml(text, Path())


@pytest.mark.parametrize("reader", [as_schema, as_agreement, as_member])
@pytest.mark.parametrize(
    "bomb",
    ["a" + ".a" * DOTS + " = 1", "[a" + ".a" * DOTS + "]", '"a"' + '."a"' * DOTS + " = 1"],
    ids=["key", "header", "quoted key"],
)
def test_keep_a_reader_of_toml_busy_with_dots(reader: Callable[[str], None], bomb: str) -> None:
    """Time and memory grow with the square of the dots: memory is what is looked at."""
    tracemalloc.start()
    try:
        with pytest.raises(SudareError):
            reader(bomb)
        assert tracemalloc.get_traced_memory()[1] < MOST_PARSING_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("learner", [PrivateRidge, PrivateMLPClassifier])
def test_have_a_received_model_answer_with_what_is_no_number(tmp_path: Path, learner: type) -> None:
    """Parameters of 10^308 in a file that is valid in all else: a clear error, and no ValueError of a library or NaN."""
    account = Ledger(tmp_path / "ledger.db").account("visits", epsilon=9.0, delta=1e-3)
    X, y = np.random.default_rng(0).uniform(-0.5, 0.5, size=(60, 2)), np.arange(60) % 2
    network = {
        "delta": 1e-5,
        "hidden_layer_sizes": (),
        "bounds": (-1, 1),
        "encoding": "scaled",
        "max_iter": 1,
        "classes": [0, 1],
    }
    options = {"target_bounds": (0, 1)} if learner is PrivateRidge else network
    Release.of(learner(epsilon=1.0, account=account, **options).fit(X, y)).save(tmp_path / "honest.sudare", KEY)
    file = (tmp_path / "honest.sudare").read_bytes()
    manifest = manifest_of(file)
    manifest["tensors"] = dict.fromkeys(manifest["tensors"], 0)
    numbers = np.full(len(taken_apart(file)[1]) // 8, 1.7e308)
    (tmp_path / "absurd.sudare").write_bytes(with_manifest(file, manifest, numbers.tobytes()))
    model = Release.load(tmp_path / "absurd.sudare", [KEY.public_key()]).model()
    rows = np.full((4, 2), 0.9)
    with np.errstate(all="ignore"), pytest.raises(SudareError, match="not finite"):
        model.score(rows, y[:4])
    if learner is PrivateMLPClassifier:
        for ask in (model.predict, model.predict_proba, model.predict_log_proba):
            with np.errstate(all="ignore"), pytest.raises(SudareError, match="not finite"):
                ask(rows)
    with pytest.raises(SudareError, match="true values"):
        model.score(rows)


def test_keep_whoever_opens_perturbed_rows_waiting_for_a_pipe(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows beside a release come as a pipe that nobody writes to; the test writes to it, so that it ends where the attack works."""
    monkeypatch.setattr(released, "LARGEST_FILE_BYTES", released.LARGEST_HEADER_BYTES + 2**12)
    account = Ledger("ledger.db").account("visits", epsilon=1.0)
    model = RecordPerturbation(Schema({"age": Number(0, 110)}), epsilon=1.0, account=account)
    Release.of(model.fit({"age": np.linspace(0, 110, 5_000)})).save("rows.sudare", key=KEY)
    Path("rows.rows.parquet").unlink()
    os.mkfifo("rows.rows.parquet")
    waited: list[bool] = []

    def write_if_anybody_waits() -> None:
        with contextlib.suppress(OSError):
            os.close(os.open("rows.rows.parquet", os.O_WRONLY | os.O_NONBLOCK))
            waited.append(True)

    timer = threading.Timer(20, write_if_anybody_waits)
    timer.start()
    code = sudare("reconstruct", "rows.sudare", "--column", "age")[0]
    timer.cancel()
    assert code != 0
    assert not waited


@pytest.mark.parametrize("place", ["name", "unit", "category"])
def test_keep_whoever_opens_a_release_busy_with_accents(
    house: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Bringing n marks into their order takes n² steps, hours for the megabyte that a release may have: what is ordered is looked at."""
    account = Ledger("ledger.db").account("visits", epsilon=1.0)
    schema = Schema({"age": Number(0, 110, unit="years"), "smoker": Category(("no", "yes"))})
    rows = {"age": np.linspace(0, 110, 50), "smoker": ["no", "yes"] * 25}
    Release.of(PrivateHistogram(schema=schema, account=account).fit(rows)).save("honest.sudare", key=KEY)
    file, marks = Path("honest.sudare").read_bytes(), "a" + "\u0300\u0316" * 5_000
    manifest = manifest_of(file)
    columns = manifest["parameters"]["columns"]
    if place == "name":
        columns[0][0] = marks
    elif place == "unit":
        columns[0][1]["unit"] = marks
    else:
        columns[1][1]["values"] = ["no", marks]
    Path("slow.sudare").write_bytes(with_manifest(file, manifest))
    normalize, lengths = unicodedata.normalize, [0]
    monkeypatch.setattr(unicodedata, "normalize", lambda form, text: lengths.append(len(text)) or normalize(form, text))
    assert sudare("inspect", "slow.sudare")[0] != 0
    with pytest.raises(SudareError):
        Schema.from_toml(f'[columns."{marks}"]\nkind = "number"\nlow = 0\nhigh = 1\n')
    with pytest.raises(SudareError):
        Ledger("ledger.db").account(marks, epsilon=1.0)
    assert max(lengths) <= 4096


@pytest.mark.parametrize(
    "combination", [AverageExperts, ExponentialWeights, MirrorAveraging, StackedExperts, OwnPlusConsensus]
)
def test_spoil_everybodys_combination_with_one_model(combination: type) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2))
    y = (X[:, 0] > 0).astype(int)
    experts = [Line([1.0, 0.0]), Line([0.9, 0.1]), Line([1e308, -1e308])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            score = combination(experts).fit(X, y).score(X, y)
        except SudareError:
            score = 0.0
    assert score > 0.9
