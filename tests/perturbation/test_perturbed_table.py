"""Whole records perturbed, charged and released: what is refused before anything is charged, what leaves, and what comes back."""

from __future__ import annotations

import hashlib
import warnings
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from sudare.errors import (
    BudgetExceeded,
    ColumnMissing,
    DataError,
    InvalidCost,
    InvalidParameter,
    MissingValue,
    NotCharged,
    NotReleasable,
    RelationMismatch,
    ReleaseError,
    ReleaseExists,
    ReleaseMalformed,
    SeededNoiseRefused,
    SourceUnreadable,
    UnknownCategory,
    WrongType,
)
from sudare.frames.row_reader import checked_rows
from sudare.perturbation import (
    LaplacePerturbation,
    PerturbedTable,
    RecordPerturbation,
    RetainReplace,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
)
from sudare.perturbation import (
    record_perturbation as release,
)
from sudare.perturbation import (
    release_format as released,
)
from sudare.perturbation import (
    two_pass_source as source,
)
from sudare.perturbation.epsilon_split import RecordNoise
from sudare.perturbation.parquet_writer import FileLayout
from sudare.perturbation.square_wave import wave_half_width
from sudare.privacy import Account, Ledger, Release
from sudare.privacy.accounting import exact
from sudare.privacy.noise import SeededNoise
from sudare.reconstruction import CategoricalReconstruction
from sudare.schema import Category, Label, Number, Person, Schema
from tests.release_kit import (
    KEY,
    TRUSTED,
    header_of,
    manifest_of,
    padded,
    plain_json,
    signed,
    taken_apart,
    with_manifest,
)

SCHEMA = Schema(
    {
        "age": Number(17, 90, unit="years", missing="centre"),
        "sex": Category(("Female", "Male")),
        "town": Category(tuple(f"town {number}" for number in range(30)), missing="none"),
        "ill": Label((0, 1)),
    }
)
PERSONS = Schema(dict(SCHEMA.columns), Person("who", 2))


def people(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.uniform(10, 95, rows),
            "sex": rng.choice(["Female", "Male"], rows),
            "town": [f"town {number}" for number in rng.integers(0, 30, rows)],
            "ill": rng.integers(0, 2, rows),
        }
    )


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return Ledger(tmp_path / "ledger.db").account("people", epsilon=30.0)


@parametrize_with_checks([RecordPerturbation(bounds=(-10, 10), epsilon=1.0)])
def test_scikit_learn_checks(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with warnings.catch_warnings():
        # One check gives a column vector on purpose to see whether it is warned about; perturbations have no use for y.
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


# The plan


def test_epsilon_is_split_and_never_exceeded(account: Account) -> None:
    model = RecordPerturbation(SCHEMA, epsilon=1.0, split={"age": 7, "sex": 1, "town": 1, "ill": 1}, account=account)
    model.fit(people())
    assert model.split_["age"] == 0.7
    assert sum(exact(share) for share in model.split_.values()) <= 1
    assert {name: type(each) for name, each in model.table_.perturbations.items()} == {
        "age": SquareWave, "sex": RetainReplace, "town": SubsetSelection, "ill": RetainReplace,
    }  # fmt: skip
    thirds = RecordPerturbation(SCHEMA, epsilon=1.0).fit(people()).split_
    assert sum(map(exact, thirds.values())) <= Fraction(1)
    assert min(thirds.values()) > 0.249999


def test_methods_can_be_named() -> None:
    methods = {"age": "laplace", "town": "unary", "sex": "subset", "ill": "auto"}
    table = RecordPerturbation(SCHEMA, epsilon=8.0, methods=methods).perturb(people())
    kinds = [type(table.perturbation(name)) for name in table.names]
    assert kinds == [LaplacePerturbation, SubsetSelection, UnaryEncoding, RetainReplace]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({}, InvalidParameter, "either epsilon or k"),
        ({"epsilon": 1.0, "k": 2}, InvalidParameter, "either epsilon or k"),
        ({"epsilon": 0.0}, InvalidCost, "epsilon"),
        ({"epsilon": 1e-3}, InvalidParameter, "must lie from 0.001 to 16"),
        ({"epsilon": 100.0}, InvalidParameter, "must lie from 0.001 to 16"),
        ({"k": 1}, InvalidParameter, "k must be a whole number from 2"),
        ({"k": 400}, InvalidParameter, "cannot be reached among 400 records"),
        ({"k": 2, "n_records": 401}, DataError, "n_records = 401 is more than the 400 rows"),
        ({"k": 2, "n_records": 1}, InvalidParameter, "n_records must be a whole number from 2"),
        ({"epsilon": 1.0, "split": {"age": 1}}, InvalidParameter, "every declared column a weight"),
        ({"epsilon": 1.0, "split": [1, 1, 1, 1]}, InvalidParameter, "every declared column a weight"),
        ({"epsilon": 1.0, "split": {"age": 0, "sex": 1, "town": 1, "ill": 1}}, InvalidParameter, "positive"),
        ({"epsilon": 1.0, "methods": {"name": "laplace"}}, InvalidParameter, "not declared"),
        ({"epsilon": 1.0, "methods": {"age": "unary"}}, InvalidParameter, "cannot be perturbed by 'unary'"),
        ({"epsilon": 1.0, "methods": {"sex": "laplace"}}, InvalidParameter, "cannot be perturbed by 'laplace'"),
        ({"epsilon": 1.0, "shuffle": "no"}, InvalidParameter, "shuffle must be True or False"),
        ({"epsilon": 1.0, "bounds": (0, 1)}, InvalidParameter, "Both a schema and bounds"),
    ],
)
def test_impossible_plans_are_refused_before_anything_is_charged(
    account: Account, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        RecordPerturbation(SCHEMA, account=account, **options).fit(people())
    assert account.spent().epsilon == 0


def test_wrong_declarations_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="schema must be a Schema"):
        RecordPerturbation("schema.toml", epsilon=1.0).fit(people())  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="account must be an Account"):
        RecordPerturbation(SCHEMA, epsilon=1.0, account="people").fit(people())  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="needs public bounds"):
        RecordPerturbation(epsilon=1.0).fit(np.zeros((3, 2)))


def test_a_record_is_the_sum_of_its_columns(account: Account) -> None:
    """The mechanism as every learner shows it: one record in, its outputs out."""
    plan = RecordPerturbation(SCHEMA, epsilon=2.0, account=account).plan(100, SCHEMA)
    assert plan.mechanism.cost.epsilon == 2
    assert isinstance(plan.mechanism, RecordNoise)
    assert plan.mechanism.apply(np.array([40.0, 1, 5, 0]), SeededNoise(0)).shape == (1 + 1 + 31 + 1,)
    # The wave's half-width at ε = ½ in units of the range (Li et al., eq. (6)); on a grid of a 1024th.
    assert plan.mechanism.noise_scale == pytest.approx(wave_half_width(0.5), abs=1e-3)
    assert RecordNoise(1.0, {"sex": plan.perturbations["sex"]}).noise_scale == 0.0


# The rows


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda table: table.assign(name="secret"), DataError, "1 columns that the schema does not declare"),
        (lambda table: table.drop(columns="town"), ColumnMissing, "town"),
        (lambda table: table.assign(sex="secret"), UnknownCategory, "does not list"),
        (lambda table: table.assign(sex=None), MissingValue, "lacks a value"),
        (lambda table: table.assign(age="secret"), WrongType, "numbers"),
        (lambda table: table.iloc[:0], DataError, "no rows"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_tables_that_do_not_fit_are_refused_before_anything_is_charged(
    account: Account, tmp_path: Path, streamed: bool, change: Any, error: type[Exception], says: str
) -> None:
    table: Any = change(people())
    if streamed:
        table.to_parquet(tmp_path / "table.parquet")
        table = tmp_path / "table.parquet"
    with pytest.raises(error, match=says) as caught:
        RecordPerturbation(SCHEMA, epsilon=1.0, account=account).fit(table)
    assert "secret" not in str(caught.value)
    assert account.spent().epsilon == 0


def test_rows_that_can_be_read_once_are_checked_before_anything_is_charged(account: Account) -> None:
    strange = people().assign(remark="x")
    for tables in ([], [strange], [people(), people().drop(columns="age")]):
        with pytest.raises((ColumnMissing, DataError)):
            RecordPerturbation(SCHEMA, epsilon=1.0, account=account).fit(iter(tables))
    assert account.spent().epsilon == 0


def test_the_promises_on_the_page_are_those_of_its_example() -> None:
    """The text of docs/records.md below its first example, of 5,000 households."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "records.md").read_text("utf-8")
    printed = page.partition("The three promises are always told together:\n\n```text\n")[2].partition("```")[0]
    rows = pd.DataFrame({"age": np.linspace(17, 90, 5_000), "heating": ["gas", "oil", "other", "gas"] * 1_250})
    schema = Schema({"age": Number(17, 90), "heating": Category(("gas", "oil", "other"))})
    assert str(RecordPerturbation(schema, k=2).fit(rows).statement()).strip() == printed.strip()


def test_one_record_can_be_perturbed_but_not_hidden() -> None:
    model = RecordPerturbation(SCHEMA, epsilon=1.0).fit(people(1))
    assert "nobody to hide among" in str(model.statement())
    with pytest.raises(InvalidParameter, match="k = 2 cannot be reached among 1 record"):
        RecordPerturbation(SCHEMA, k=2).fit(people(1))


@pytest.mark.parametrize("form", ["pandas", "polars", "arrow", "dictionary", "parquet", "csv", "folder", "iterator"])
def test_every_form_of_table_gives_the_same_rows(form: str, tmp_path: Path) -> None:
    table = people()
    given: Any = {
        "pandas": lambda: table,
        "polars": lambda: pl.from_pandas(table),
        "arrow": lambda: pl.from_pandas(table).to_arrow(),
        "dictionary": lambda: {name: table[name].to_numpy() for name in table},
        "parquet": lambda: tmp_path / "table.parquet",
        "csv": lambda: tmp_path / "table.csv",
        "folder": lambda: tmp_path,
        "iterator": lambda: (table[start : start + 77] for start in range(0, len(table), 77)),
    }[form]()
    if form == "csv":
        table.to_csv(given, index=False)
    elif form in ("parquet", "folder"):
        table.to_parquet(tmp_path / "table.parquet")
    model = RecordPerturbation(SCHEMA, epsilon=4.0, random_state=3)
    expected = clone(model).fit(people()).table_.arrow()
    assert model.fit(given).table_.arrow().equals(expected)
    assert model.clipped_ == {"age": int(((table.age < 17) | (table.age > 90)).sum()), "sex": 0, "town": 0, "ill": 0}


def test_batches_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches of 64 rows every row is perturbed once: proportions come back as from the whole."""
    monkeypatch.setattr(source, "checked_rows", partial(checked_rows, batch_rows=64))
    people(5_000).to_parquet(tmp_path / "table.parquet", row_group_size=777)
    table = RecordPerturbation(SCHEMA, epsilon=40.0, split={"age": 1, "sex": 1, "town": 1, "ill": 1}).perturb(
        tmp_path / "table.parquet"
    )
    assert table.rows == 5_000
    town = CategoricalReconstruction(table.perturbation("town"), "inversion").fit(table.column("town"))  # type: ignore[arg-type]
    shares = people(5_000).town.value_counts(normalize=True).reindex(town.values_, fill_value=0.0).to_numpy()
    assert town.probabilities_ == pytest.approx(shares, abs=0.01)
    assert table.column("age").mean() == pytest.approx(people(5_000).age.clip(17, 90).mean(), abs=3)


def test_a_source_that_changes_meanwhile_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.parquet"
    for before, after in ((100, 101), (100, 99)):
        people(before).to_parquet(path)

        def look_then_change(*given: Any, rows: int = after) -> Any:
            seen = source.checked_records(*given)
            people(rows).to_parquet(path)
            return seen

        monkeypatch.setattr(release, "checked_records", look_then_change)
        with pytest.raises(DataError, match="was changed while it was read"):
            RecordPerturbation(SCHEMA, epsilon=1.0).fit(path)


def test_rows_lose_their_order_and_index() -> None:
    """At a large ε the perturbed ages follow the true ones; shuffled, they no longer do."""
    table = people(5_000)
    table.index = [f"person {number}" for number in range(5_000)]
    options: dict[str, Any] = {"epsilon": 30.0, "split": {"age": 9, "sex": 1, "town": 1, "ill": 9}}
    kept = RecordPerturbation(SCHEMA, shuffle=False, **options).fit(table)
    mixed = RecordPerturbation(SCHEMA, **options).fit(table)
    assert np.corrcoef(kept.table_.column("age"), table.age)[0, 1] > 0.9
    # A correlation of 5,000 unrelated pairs exceeds 0.08 with a probability below 1e-7.
    assert abs(np.corrcoef(mixed.table_.column("age"), table.age)[0, 1]) < 0.08
    assert mixed.table_.arrow().column_names[:2] == ["age", "sex"]
    assert "not shuffled" in str(kept.statement())
    assert "shuffled rows" in str(mixed.statement())


# Persons


def test_persons_pay_for_all_their_rows(account: Account, tmp_path: Path) -> None:
    table = people().assign(who=np.arange(400) // 2)
    model = RecordPerturbation(PERSONS, epsilon=2.0, account=Ledger(tmp_path / "p.db").account("p", 9.0, unit="person"))
    model.fit(table)
    assert model.guarantee_.unit == "person"
    assert model.guarantee_.epsilon == 2.0
    assert sum(map(exact, model.split_.values())) <= 1
    assert model.table_.row_epsilon == 1.0
    assert "every person" in str(model.statement())
    by_k = RecordPerturbation(PERSONS, k=3).fit(table)
    assert by_k.guarantee_.epsilon == pytest.approx(2 * by_k.table_.row_epsilon)
    assert "link a row to a given person with probability above 1/3" in str(by_k.statement())
    assert "who" not in by_k.table_.names
    assert RecordPerturbation(PERSONS, epsilon=2.0).fit(people().assign(who=1)).n_rows_ == 2
    with pytest.raises(ColumnMissing):
        RecordPerturbation(PERSONS, epsilon=2.0).fit(people())
    with pytest.raises(RelationMismatch):
        RecordPerturbation(SCHEMA, epsilon=1.0, account=model.account).fit(people())


def test_persons_in_files_are_counted_across_batches(tmp_path: Path) -> None:
    people().assign(who=np.arange(400) % 200).to_parquet(tmp_path / "fits.parquet", row_group_size=50)
    people().assign(who=np.arange(400) % 133).to_parquet(tmp_path / "exceeds.parquet", row_group_size=50)
    assert RecordPerturbation(PERSONS, epsilon=2.0).fit(tmp_path / "fits.parquet").n_rows_ == 400
    perturbed = RecordPerturbation(PERSONS, epsilon=2.0)
    assert perturbed.fit(tmp_path / "exceeds.parquet").n_rows_ == 266
    assert perturbed.dry_run(tmp_path / "exceeds.parquet")[2].rows.count == 266


# Through the door


def test_the_charge_is_local_and_comes_first(account: Account) -> None:
    model = RecordPerturbation(SCHEMA, k=2, account=account)
    assert model.price(people()).asked.epsilon == pytest.approx(0.5 * np.log(399))
    assert account.spent().epsilon == 0
    model.fit(people())
    (charge,) = [entry for entry in account.entries() if entry.kind == "charge"]
    assert charge.body["guarantee"]["notion"] == "local"
    assert charge.body["guarantee"]["epsilon"] == model.guarantee_.epsilon
    with pytest.raises(BudgetExceeded):
        RecordPerturbation(SCHEMA, epsilon=29.0, account=account).fit(people())
    with pytest.raises(SeededNoiseRefused):
        RecordPerturbation(SCHEMA, epsilon=1.0, account=account, random_state=0).fit(people())
    with pytest.raises(InvalidParameter, match="A price needs an account"):
        RecordPerturbation(SCHEMA, epsilon=1.0).price(people())


@pytest.mark.parametrize("case", ["auto", "named", "bounds", "person", "unshuffled"])
def test_a_release_comes_back_as_it_was(account: Account, tmp_path: Path, case: str) -> None:
    table: Any = people()
    options: dict[str, Any] = {"schema": SCHEMA}
    if case == "named":
        options["methods"] = {"age": "square-wave", "town": "unary"}
    elif case == "bounds":
        table, options = np.random.default_rng(0).uniform(0, 5, (50, 3)), {"bounds": (0, 5)}
    elif case == "person":
        table, options = people().assign(who=np.arange(400)), {"schema": PERSONS}
    elif case == "unshuffled":
        options["shuffle"] = False
    model = RecordPerturbation(epsilon=6.0, account=account, **options).fit(table)
    path = tmp_path / "rows.sudare"
    Release.of(model).save(path, KEY)
    loaded = Release.load(path, TRUSTED)
    assert loaded.guarantee == model.guarantee_
    again = loaded.model()
    assert again.table_.arrow().equals(model.table_.arrow())
    assert again.statement() == model.statement()
    assert again.split_ == model.split_
    assert again.table_.perturbations == model.table_.perturbations
    assert isinstance(again.table_, PerturbedTable)
    with pytest.raises(NotCharged):
        Release.of(again)


def test_only_what_was_charged_and_is_unchanged_leaves(account: Account) -> None:
    with pytest.raises(NotCharged):
        Release.of(RecordPerturbation(SCHEMA, epsilon=1.0).fit(people()))
    model = RecordPerturbation(SCHEMA, epsilon=1.0, account=account).fit(people())
    model.table_.stored["sex"][0] ^= 1
    with pytest.raises(NotCharged, match="changed after it was fitted"):
        Release.of(model)


def test_what_leaves_is_what_is_listed(account: Account, tmp_path: Path) -> None:
    """Bounds and scales are in the manifest; clip counts, seeds and orders are not."""
    model = RecordPerturbation(SCHEMA, k=2, account=account).fit(people())
    Release.of(model).save(tmp_path / "rows.sudare", KEY)
    manifest = manifest_of((tmp_path / "rows.sudare").read_bytes())
    assert sorted(manifest["parameters"]) == [
        "columns", "delta", "epsilon", "neighbours", "person", "perturbations", "row_epsilon", "rows",
        "rows_digest", "shuffled",
    ]  # fmt: skip
    age = manifest["parameters"]["perturbations"][0]
    assert sorted(age) == ["epsilon", "grid", "kind", "noise_scale"]
    assert manifest["parameters"]["columns"][0] == ["age", {"kind": "number", "low": 17, "high": 90, "unit": "years", "missing": 53.5}]  # fmt: skip
    assert "clipped" not in str(manifest)


def test_columns_too_many_for_a_manifest_are_refused_before_the_charge(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = Schema({f"c{number}": Number(0, 1) for number in range(40)})
    table = {name: [0.0] for name in many.columns}
    monkeypatch.setattr(released, "LARGEST_HEADER_BYTES", 2**16 + 2**12)
    with pytest.raises(InvalidParameter, match="too many to be written"):
        RecordPerturbation(many, epsilon=1.0, account=account).fit(table)
    assert account.spent().epsilon == 0
    assert RecordPerturbation(many, epsilon=1.0).fit(table).n_rows_ == 1


def test_pages_too_large_for_the_format_are_refused_before_the_charge(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(released, "LARGEST_PAGE_BYTES", 3_199)
    with pytest.raises(InvalidParameter, match="400 rows of a column take 0 MiB"):
        RecordPerturbation(SCHEMA, epsilon=1.0, account=account).fit(people())
    assert account.spent().epsilon == 0


def test_columns_that_would_share_a_name_are_refused_before_the_charge(account: Account) -> None:
    schema = Schema({"a": Category(tuple("xyz")), "a=x": Label((0, 1))})
    model = RecordPerturbation(schema, epsilon=1.0, methods={"a": "unary"}, account=account)
    with pytest.raises(InvalidParameter, match="would be called 'a=x'"):
        model.fit({"a": ["x"], "a=x": [0]})
    assert account.spent().epsilon == 0


def changed(path: Path, change: Any) -> None:
    file = path.read_bytes()
    manifest = manifest_of(file)
    change(manifest["parameters"])
    path.write_bytes(with_manifest(file, manifest))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda p: p.update(row_epsilon=99.0), "cost more than it promises"),
        (lambda p: p.update(row_epsilon=0.01), "cost more than it promises"),
        (lambda p: p.update(row_epsilon="1"), "parameters are not those"),
        (lambda p: p.update(shuffled=1), "parameters are not those"),
        (lambda p: p.update(delta=1e-9), "parameters are not those"),
        (lambda p: p.pop("shuffled"), "parameters are not those"),
        (lambda p: p.update(perturbations=[]), "perturbations are not those"),
        (lambda p: p["perturbations"].pop(), "perturbations are not those"),
        (lambda p: p["perturbations"].__setitem__(0, None), "perturbations are not those"),
        (lambda p: p["perturbations"][0].update(kind="unary"), "perturbations are not those"),
        (lambda p: p["perturbations"][0].update(kind="auto"), "perturbations are not those"),
        (lambda p: p["perturbations"][0].update(noise_scale=1.0), "perturbations are not those"),
        (lambda p: p["perturbations"][0].update(epsilon=0.2), "perturbations are not those"),
        (lambda p: p["perturbations"][1].update(own=1), "perturbations are not those"),
        (lambda p: p["perturbations"][2].update(extra=1), "perturbations are not those"),
        (lambda p: p.update(rows=399), "not the Parquet file that its columns give"),
        (lambda p: p.update(rows=2**40), "tensors are not those"),
        (lambda p: p.update(rows_digest="0" * 64), "not those that its manifest names"),
        (lambda p: p.update(rows_digest="0" * 63 + "A"), "parameters are not those"),
        (lambda p: p.update(rows_digest=None), "parameters are not those"),
        (lambda p: p["columns"].pop(), "perturbations are not those"),
    ],
)
def test_forged_manifests_are_refused(account: Account, tmp_path: Path, change: Any, says: str) -> None:
    path = tmp_path / "rows.sudare"
    Release.of(RecordPerturbation(SCHEMA, epsilon=1.0, account=account).fit(people())).save(path, KEY)
    changed(path, change)
    with pytest.raises(ReleaseMalformed, match=says):
        Release.load(path, TRUSTED)


def with_rows(file: bytes, rows: bytes) -> bytes:
    """The release with other bytes as its rows, which its manifest names."""
    manifest = manifest_of(file)
    manifest["parameters"]["rows_digest"] = hashlib.sha256(rows).hexdigest()
    return signed(padded(plain_json(header_of(manifest, {"rows": np.frombuffer(rows, np.uint8)}))), rows)


def test_rows_that_cannot_be_are_refused(account: Account, tmp_path: Path) -> None:
    """A sex of 2; ages off the grid, beyond the last possible one, infinite or missing; and any other byte that is not a value."""
    model = RecordPerturbation(SCHEMA, epsilon=1.0, account=account).fit(people())
    path = tmp_path / "rows.sudare"
    Release.of(model).save(path, KEY)
    file, layout = path.read_bytes(), model.table_.layout
    rows = taken_apart(file)[1]
    assert with_rows(file, rows) == file
    age, sex, town = (layout.places[name][0].values for name in ("age", "sex", "town"))
    last = model.table_.perturbation("age").output_bounds[1]  # type: ignore[attr-defined]
    own = float(np.frombuffer(rows, "<f8", 1, age)[0])
    ages = [np.nextafter(own, np.inf), last + model.table_.perturbation("age").grid, np.inf, -np.inf, np.nan]  # type: ignore[attr-defined]
    forged = [rows[:age] + np.float64(value).tobytes() + rows[age + 8 :] for value in ages]
    forged.append(rows[:sex] + b"\2" + rows[sex + 1 :])
    forged += [
        rows[:place] + bytes([rows[place] ^ 1]) + rows[place + 1 :] for place in (0, age - 1, town - 1, len(rows) - 9)
    ]
    forged += [rows[:-1], rows + b"\0"]
    for each in forged:
        path.write_bytes(with_rows(file, each))
        with pytest.raises(ReleaseMalformed, match="not the Parquet file that its columns give"):
            Release.load(path, TRUSTED)


# Rows beside the release


@pytest.fixture
def small_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases that hold 4 KiB, and rows on disk from 1 KiB on."""
    monkeypatch.setattr(released, "LARGEST_FILE_BYTES", released.LARGEST_HEADER_BYTES + 2**10 + 2**12)
    monkeypatch.setattr(release, "HELD_BYTES", 2**10)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.usefixtures("small_release")
def test_more_rows_than_a_release_holds_leave_beside_it(
    account: Account, tmp_path: Path, streamed: bool, shuffle: bool
) -> None:
    people(1_001).to_parquet(tmp_path / "people.parquet")
    model = RecordPerturbation(SCHEMA, epsilon=6.0, shuffle=shuffle, account=account)
    model.fit(tmp_path / "people.parquet" if streamed else people(1_001))
    Release.of(model).save(tmp_path / "p.sudare", KEY)
    table = Release.load(tmp_path / "p.sudare", TRUSTED).model().table_
    assert table.rows == 1_001
    assert table.statement() == model.statement()
    with pytest.raises(DataError, match="in a Parquet file beside it"):
        table.column("age")
    opened = table.opened(tmp_path / "p.rows.parquet")
    assert opened.arrow().equals(model.table_.arrow())
    assert pl.read_parquet(tmp_path / "p.rows.parquet")["age"].to_list() == opened.column("age").tolist()
    assert (tmp_path / "p.sudare").stat().st_size < 8_192


@pytest.mark.usefixtures("small_release")
def test_other_rows_than_the_release_names_are_refused(account: Account, tmp_path: Path) -> None:
    model = RecordPerturbation(SCHEMA, epsilon=6.0, account=account).fit(people(1_001))
    Release.of(model).save(tmp_path / "p.sudare", KEY)
    table = Release.load(tmp_path / "p.sudare", TRUSTED).model().table_
    rows = (tmp_path / "p.rows.parquet").read_bytes()
    for number, other in enumerate((rows[:-1], rows + b"\0", rows[:500] + bytes([rows[500] ^ 1]) + rows[501:])):
        (tmp_path / f"{number}").write_bytes(other)
        with pytest.raises(ReleaseMalformed, match="not the file of rows"):
            table.opened(tmp_path / f"{number}")
    (tmp_path / "empty").touch()
    for name in ("empty", "nowhere"):
        with pytest.raises(SourceUnreadable, match=name):
            table.opened(tmp_path / name)


@pytest.mark.usefixtures("small_release")
def test_a_release_may_not_leave_out_rows_that_it_could_hold(account: Account, tmp_path: Path) -> None:
    """And not bring rows that it cannot, so there is one form for one table."""
    path = tmp_path / "p.sudare"
    Release.of(RecordPerturbation(SCHEMA, epsilon=6.0, account=account).fit(people(1_001))).save(path, KEY)
    changed(path, lambda parameters: parameters.update(rows=20))
    with pytest.raises(ReleaseMalformed, match="tensors are not those"):
        Release.load(path, TRUSTED)
    changed(path, lambda parameters: parameters.update(rows=2**40))
    with pytest.raises(ReleaseMalformed, match="more than a file of rows holds"):
        Release.load(path, TRUSTED)


@pytest.mark.usefixtures("small_release")
def test_rows_beside_a_release_leave_after_they_are_entered(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before the ledger has them, not over another file, and whole or not at all."""
    model = RecordPerturbation(SCHEMA, epsilon=6.0, account=account).fit(people(1_001))
    leaving = Release.of(model)
    (tmp_path / "p.rows.parquet").write_text("mine")
    with pytest.raises(ReleaseExists, match=r"p\.rows\.parquet"):
        leaving.save(tmp_path / "p.sudare", KEY)
    assert not [entry for entry in account.entries() if entry.kind == "release"]
    assert (tmp_path / "p.rows.parquet").read_text() == "mine"

    model.table_.stored["sex"][0] ^= 1
    with pytest.raises(NotCharged, match="not the one it names"):
        leaving.save(tmp_path / "q.sudare", KEY)
    model.table_.stored["sex"][0] ^= 1
    assert not list(tmp_path.glob("q*")) + list(tmp_path.glob(".sudare*"))

    def broken(self: Any, stored: Any) -> Any:
        yield b"PAR1"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FileLayout, "chunks", broken)
    with pytest.raises(ReleaseError, match="No space left"):
        leaving.save(tmp_path / "q.sudare", KEY)
    assert not list(tmp_path.glob("q*")) + list(tmp_path.glob(".sudare*"))


def test_only_released_rows_are_written(account: Account, tmp_path: Path) -> None:
    model = RecordPerturbation(SCHEMA, epsilon=4.0, account=account).fit(people())
    with pytest.raises(NotReleasable, match="have not been released"):
        model.table_.to_parquet(tmp_path / "rows.parquet")
    assert not (tmp_path / "rows.parquet").exists()
    Release.of(model).save(tmp_path / "p.sudare", KEY)
    table = Release.load(tmp_path / "p.sudare", TRUSTED).model().table_
    table.to_parquet(tmp_path / "rows.parquet")
    assert pd.read_parquet(tmp_path / "rows.parquet").equals(model.table_.arrow().to_pandas())
    assert (tmp_path / "rows.parquet").read_bytes() == taken_apart((tmp_path / "p.sudare").read_bytes())[1]
    with pytest.raises(ReleaseExists, match="exists already"):
        table.to_parquet(tmp_path / "rows.parquet")


def test_columns_by_name() -> None:
    table = RecordPerturbation(SCHEMA, epsilon=4.0, random_state=0).perturb(people())
    with pytest.raises(ColumnMissing, match="nobody"):
        table.column("nobody")
    with pytest.raises(ColumnMissing, match="nobody"):
        table.perturbation("nobody")
    frame = table.arrow().to_pandas()
    assert frame.sex.isin(["Female", "Male"]).all()
    assert frame["town=none"].dtype == bool
    assert repr(table).startswith("<PerturbedTable of 400 rows: age, sex, town, ill; local ε = 4")
    assert "NOT VALID" in repr(table)
    mixed = RecordPerturbation(Schema({"n": Category((1, 2), missing="none")}), epsilon=1.0).perturb({"n": [1, None]})
    assert set(mixed.arrow().column("n").to_pylist()) <= {"1", "2", "none"}
