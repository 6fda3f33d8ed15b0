"""What a newcomer mistyped and a hostile caller tried: a clear refusal, and never a value in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sqlalchemy

from sudare.dictionary import PatternDictionary, graphical_lasso
from sudare.errors import (
    ColumnMissing,
    DataError,
    InvalidParameter,
    SchemaError,
    SourceUnreadable,
    SudareError,
    WrongType,
)
from sudare.frames import column_types, read
from sudare.frames.sources import CsvFile, SqlSource
from sudare.gibbs import GibbsLogisticRegression
from sudare.linear import PrivateLogisticRegression
from sudare.papers.p002_networks.estimators import AnonymizedLearningClassifier
from sudare.papers.p003_decentralised import graphs
from sudare.papers.p003_decentralised.averaging import averaged
from sudare.papers.p003_decentralised.other_hidden_sums import hidden_sum
from sudare.perturbation import LaplacePerturbation, RecordPerturbation, RetainReplace, SquareWave, k_of_epsilon
from sudare.reconstruction import CrossTable, Reconstruction
from sudare.schema import Category, Label, Number, Schema
from sudare.statistics import PrivateMean
from sudare.sums import secure_sum

BOUNDS = (17, 90)
ILL = Schema({"age": Number(0, 110), "ill": Label((0, 1))})


def test_words_in_a_secure_sum_are_refused_without_quoting_them() -> None:
    with pytest.raises(DataError, match="other than numbers") as refusal:
        secure_sum([["only-east-knows"], ["x"], ["y"]])
    assert "only-east-knows" not in str(refusal.value)
    assert refusal.value.__context__ is None
    with pytest.raises(DataError, match="other than numbers"):
        hidden_sum([["a"], ["b"], ["c"]], hide="chunks", over="complete")


@pytest.mark.parametrize("threshold", ["three", 2.5, True])
def test_a_threshold_is_a_whole_number(threshold: Any) -> None:
    with pytest.raises(InvalidParameter, match="threshold"):
        secure_sum(np.ones((4, 2)), threshold=threshold)


def test_nobody_leaves_who_is_not_there() -> None:
    with pytest.raises(InvalidParameter, match="leave_after"):
        secure_sum(np.ones((4, 2)), threshold=3, leave_after={9: 1})


def test_no_vectors_are_called_that() -> None:
    with pytest.raises(DataError, match="no vectors"):
        secure_sum([])


NO_NUMBERS = {
    "dates": pd.to_datetime(["2020-01-01", "2021-01-01"]),
    "dates with a zone": pd.Series(pd.date_range("2020-01-01", periods=2, tz="Asia/Tokyo")),
    "durations": pd.to_timedelta(["1 day", "2 days"]),
    "complex numbers": np.array([30 + 1j, 40.0]),
    "numbers as text": ["30", "40"],
    "booleans": [True, False],
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
@pytest.mark.parametrize("perturbation", [LaplacePerturbation, SquareWave])
def test_only_numbers_are_perturbed_as_numbers(perturbation: Callable[..., Any], kind: str) -> None:
    """A date is nanoseconds to numpy, and clipping them to an age would be an answer to nothing."""
    with pytest.raises(WrongType):
        perturbation(BOUNDS, epsilon=1.0).perturb(NO_NUMBERS[kind])


def test_masked_values_are_gaps() -> None:
    with pytest.raises(DataError, match="missing"):
        LaplacePerturbation(BOUNDS, epsilon=1.0).perturb(np.ma.array([30.0, 40.0], mask=[False, True]))


def test_a_word_is_not_a_list_of_categories() -> None:
    with pytest.raises(SchemaError):
        RetainReplace("gas", epsilon=1.0)


def test_bounds_beyond_floats_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="bounds"):
        LaplacePerturbation((0, 10**400), epsilon=1.0)


def test_questions_to_a_distribution_that_make_no_sense() -> None:
    perturbation = LaplacePerturbation(BOUNDS, epsilon=2.0)
    perturbed = perturbation.perturb(np.random.default_rng(0).normal(45, 10, 200))
    found = Reconstruction(perturbation, method="bayes").fit(perturbed).distribution_
    questions: list[Callable[[], Any]] = [
        lambda: found.histogram(["a", "b"]),
        lambda: found.band([17, 90], level="high"),  # type: ignore[arg-type]
        lambda: found.quantile("half"),
        lambda: found.sample(-1),
        lambda: found.sample(2.5),  # type: ignore[arg-type]
        lambda: Reconstruction(perturbation, whole="no").fit(perturbed),  # type: ignore[arg-type]
        lambda: k_of_epsilon(-1.0, 5),
        lambda: k_of_epsilon(float("nan"), 5),
    ]
    for question in questions:
        with pytest.raises(SudareError):
            question()


@pytest.mark.parametrize("rows", [1, 2])
def test_too_few_rows_for_k_are_told_as_such(rows: int) -> None:
    """The answer was "use n_records=2" for one row, and "use k below 2" for two."""
    table = pd.DataFrame({"age": [30.0] * rows})
    with pytest.raises(InvalidParameter, match=f"among {rows} record") as refusal:
        RecordPerturbation(Schema({"age": Number(*BOUNDS)}), k=2).fit(table)
    assert "3 or more records" in refusal.value.remedy


def test_parts_of_a_table_have_the_same_columns(tmp_path: Path) -> None:
    """A column that only the second file had was neither perturbed nor refused."""
    pd.DataFrame({"age": [30.0] * 5}).to_parquet(tmp_path / "1.parquet")
    pd.DataFrame({"age": [30.0] * 5, "name": ["x"] * 5}).to_parquet(tmp_path / "2.parquet")
    with pytest.raises(DataError, match="same columns"):
        RecordPerturbation(Schema({"age": Number(*BOUNDS)}), k=2).fit(tmp_path)


def test_a_file_in_another_encoding_is_told_what_it_must_be(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("heating\ngas\nÖl\n".encode("latin-1"))
    with pytest.raises(SourceUnreadable, match="not UTF-8"):
        RecordPerturbation(Schema({"heating": Category(("gas", "oil"))}), epsilon=1).fit(tmp_path / "t.csv")


def test_a_sensor_beyond_all_measure_is_named_and_its_value_is_not() -> None:
    """It ended in numpy's "Eigenvalues did not converge"."""
    plants = [np.random.default_rng(seed).normal(size=(30, 3)) for seed in range(3)]
    plants[1][4, 2] = 1.2345e300
    with pytest.raises(DataError, match="Member 2: Column 'x2' holds numbers beyond") as refusal:
        PatternDictionary(2).fit(plants)
    assert "2345" not in str(refusal.value)


def test_what_is_not_fitted_says_so() -> None:
    from sklearn.exceptions import NotFittedError

    perturbation = LaplacePerturbation(BOUNDS, epsilon=2.0)
    with pytest.raises(NotFittedError):
        CrossTable(perturbation, perturbation).counts()
    with pytest.raises(NotFittedError):
        RecordPerturbation(Schema({"age": Number(*BOUNDS)}), k=2).statement()


def test_a_delta_without_an_epsilon_promises_nothing() -> None:
    """It was ignored, and the sums were exact."""
    with pytest.raises(InvalidParameter, match="no epsilon") as refusal:
        PatternDictionary(2, delta=1e-6).fit([np.zeros((5, 2))] * 3)
    assert "epsilon" in refusal.value.remedy


def test_members_are_asked_for_by_their_number() -> None:
    plants = [np.random.default_rng(seed).normal(size=(30, 2)) for seed in range(3)]
    found = PatternDictionary(1, search=False, max_iter=2, hide="nothing").fit(plants)
    for position in ("a", 3, -1, 1.0, True, None):
        with pytest.raises(InvalidParameter, match="position must be a whole number from 0 to 2"):
            found.member(position)  # type: ignore[arg-type]
    assert found.member(np.int64(2)).columns == ("x0", "x1")


@pytest.mark.parametrize("tolerance", ["x", None, float("nan"), 0, -1e-8, [1e-8]])
def test_a_lasso_is_asked_for_a_number_of_nats(tolerance: Any) -> None:
    with pytest.raises(InvalidParameter, match="tol must be a number above 0"):
        graphical_lasso(np.eye(2), 0.1, tol=tolerance)


def test_words_are_not_averaged_nor_quoted() -> None:
    with pytest.raises(DataError, match="other than numbers") as refusal:
        averaged([["only-east-knows"], ["x"], ["y"]], graphs.complete(3))
    assert "only-east-knows" not in str(refusal.value)


@pytest.mark.parametrize("edge", [(0, 5), (-1, 2), (0, "1"), (0.5, 1)])
def test_an_edge_joins_two_members(edge: Any) -> None:
    """Minus one was the last member, and five a raw IndexError."""
    with pytest.raises(InvalidParameter, match="leads to nobody"):
        graphs.from_edges("odd", 5, [edge])


@pytest.mark.parametrize("radices", ["22", [], [2, 1], [2, "x"], 4, [2.0, 2]])
def test_radices_are_whole_numbers_from_two(radices: Any) -> None:
    with pytest.raises(InvalidParameter):
        graphs.mixed_radix(radices)


@pytest.mark.parametrize("mark", [";", "\t", "|"])
@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_another_separator_is_read_and_a_decimal_comma_with_it(tmp_path: Path, mark: str, ending: str) -> None:
    """It seemed to lack all columns but one, which nobody had heard of."""
    file = tmp_path / f"people{ending}"
    pd.DataFrame({"age": [31.5, 40.0], "ill": [0, 1]}).to_csv(file, sep=mark, decimal=",", index=False)
    schema = Schema({"age": Number(0, 110)})
    for table in (read(file), read(file, schema=schema), read(file, columns=["age"])):
        assert table.arrow["age"].to_pylist() == [31.5, 40.0]
    assert column_types(file).names == ["age", "ill"]


def test_separators_within_names_and_values_are_no_matter(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("a;b\n1\n")
    assert read(tmp_path / "one.csv", columns=["a;b"]).names == ("a;b",)
    (tmp_path / "quoted.csv").write_text('"a;b"\n1\n')
    assert read(tmp_path / "quoted.csv").names == ("a;b",)
    (tmp_path / "two.csv").write_text("a;b,c\n1,x;y\n")
    with pytest.raises(SourceUnreadable, match="more than one usual mark"):
        read(tmp_path / "two.csv")
    assert read(CsvFile(tmp_path / "two.csv", separator=",")).names == ("a;b", "c")
    assert read(tmp_path / "two.csv", columns=["c"]).names == ("c",)
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(SourceUnreadable):
        read(tmp_path / "empty.csv")


# Sources


def test_a_file_that_has_none_of_the_declared_columns_lacks_them(tmp_path: Path) -> None:
    """It is whole, and of the right format: a headerless file under the schema of one with names, or a renamed column."""
    pd.DataFrame({"age": [37, 41]}).to_csv(tmp_path / "people.csv", index=False)
    pd.DataFrame({"age": [37, 41]}).to_parquet(tmp_path / "people.parquet")
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'people.sqlite'}")
    pd.DataFrame({"age": [37, 41]}).to_sql("people", engine, index=False)
    schema = Schema({"Alter": Number(0, 110)})
    by_number = CsvFile(tmp_path / "people.csv", has_header=False)
    by_query = [SqlSource(engine, "people"), SqlSource(engine, "select * from people")]
    for source in (tmp_path / "people.csv", by_number, tmp_path / "people.parquet", *by_query):
        with pytest.raises(ColumnMissing, match="lacks 'Alter'"):
            read(source, schema=schema)
    engine.dispose()


@pytest.mark.parametrize("address", ["postgresql://user:hidden-word@db.example/clinic", "sqlite:///clinic.db"])
def test_an_address_in_the_place_of_a_file_is_not_quoted(address: str) -> None:
    """A Path has one of its slashes only, and it may hold a password."""
    for source, says in ((address, "names no table"), (Path(address), "address was given as a path")):
        with pytest.raises(SourceUnreadable, match=says) as refusal:
            column_types(source)
        assert "SqlSource" in refusal.value.remedy
        assert "hidden-word" not in str(refusal.value)


@pytest.mark.parametrize(
    ("learner", "word"),
    [
        (PrivateLogisticRegression(method="lbfgs", schema=ILL), "'lbfgs'"),
        (GibbsLogisticRegression(sampler="nuts", schema=ILL), "'nuts'"),
        (AnonymizedLearningClassifier(clipping="rows", schema=ILL), "'rows'"),
    ],
)
def test_a_word_that_is_none_of_the_known_ones_is_told(learner: Any, word: str) -> None:
    with pytest.raises(InvalidParameter, match=f"got {word}"):
        learner.fit(pd.DataFrame({"age": [37.0, 41.0], "ill": [0, 1]}))


def test_a_statistic_reads_a_file_itself(tmp_path: Path) -> None:
    pd.DataFrame({"age": [37.0, 41.0]}).to_parquet(tmp_path / "people.parquet")
    mean = PrivateMean(schema=Schema({"age": Number(0, 110)}), random_state=0)
    of_file = mean.fit(tmp_path / "people.parquet").mean_
    np.testing.assert_array_equal(of_file, mean.fit(read(tmp_path / "people.parquet", schema=mean.schema)).mean_)
