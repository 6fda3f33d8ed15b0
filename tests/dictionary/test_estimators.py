"""`PatternDictionary` as people use it: tables, frames and files in; patterns, weights and clear errors out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sudare.dictionary import PatternDictionary
from sudare.errors import DataError, InvalidParameter, MissingValue, NotReleasable, SchemaError, SudareError
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth, dictionary_scores, support_f1
from sudare.privacy import Release
from sudare.schema import Category, Number, Schema

TRUTH = chapter_truth()


def matched(found, true):
    """The order of found patterns that fits the true ones best."""
    from scipy.optimize import linear_sum_assignment

    distances = np.sum((found[:, np.newaxis] - true) ** 2, axis=2)
    return linear_sum_assignment(distances.T)[1]


@pytest.mark.parametrize("start", [6, 12])
def test_the_chapters_example_is_found(start):
    """Must show 4 in small, with masks; the study repeats it a hundred times."""
    random = np.random.default_rng(start)
    fitted = PatternDictionary(start).fit(TRUTH.records(random, 300))
    assert fitted.n_patterns_ == 3
    assert str(fitted.guarantee_) == "no guarantee: exact values shown to the 3 members"
    order = matched(fitted.means_, TRUTH.means)
    np.testing.assert_allclose(fitted.means_[order], TRUTH.means, atol=0.7)
    np.testing.assert_allclose(fitted.weights_[:, order], TRUTH.weights, atol=0.1)
    assert np.all(fitted.weights_[:, order][TRUTH.weights == 0] == 0)
    assert support_f1(fitted, TRUTH) > 0.9
    tests = TRUTH.records(random, 500)
    assert TRUTH.gap(dictionary_scores(fitted, tests), tests) < 0.05


@pytest.mark.long
def test_a_hard_case_is_found():
    from sudare.papers.p003_decentralised.made_up_consortia import hard_truth

    truth = hard_truth(np.random.default_rng(0))
    random = np.random.default_rng(1)
    fitted = PatternDictionary(10).fit(truth.records(random, 150))
    assert fitted.n_patterns_ == 5
    tests = truth.records(random, 300)
    assert truth.gap(dictionary_scores(fitted, tests), tests) < 0.15


@pytest.mark.long
def test_a_pattern_of_few_records_is_found():
    """Fifty-six records in ten columns: worth a sparse description, not a dense one."""
    from sudare.papers.p003_decentralised.made_up_consortia import hard_truth

    truth = hard_truth(np.random.default_rng(1089))
    fitted = PatternDictionary(10, hide="nothing").fit(truth.records(np.random.default_rng([1089, 1]), 150))
    assert truth.weights.sum(axis=0).min() * 150 < 57
    assert fitted.n_patterns_ == 5
    assert support_f1(fitted, truth) > 0.9


def test_how_sums_are_hidden_does_not_change_a_bit():
    tables = TRUTH.records(np.random.default_rng(0), 40)
    fits = [PatternDictionary(3, hide=hide).fit(tables) for hide in ("masks", "nothing")]
    assert len({each.precisions_.tobytes() for each in fits}) == 1
    assert len({each.n_numbers_ for each in fits}) == 1


def test_files_frames_and_arrays_give_the_same(tmp_path):
    tables = TRUTH.records(np.random.default_rng(0), 50)
    frames = [pd.DataFrame(table, columns=["a", "b", "c", "d"]) for table in tables]
    paths = []
    for position, frame in enumerate(frames):
        paths.append(tmp_path / f"{position}.parquet")
        frame.to_parquet(paths[-1], row_group_size=7)
    by_array = PatternDictionary(3).fit(tables)
    by_frame = PatternDictionary(3).fit(frames)
    by_path = PatternDictionary(3).fit([frames[0], str(paths[1]), paths[2]])
    assert by_frame.columns_ == by_path.columns_ == ("a", "b", "c", "d")
    for other in (by_frame, by_path):
        assert other.means_.tobytes() == by_array.means_.tobytes()
        assert other.weights_.tobytes() == by_array.weights_.tobytes()
    np.testing.assert_array_equal(
        by_path.member(1).score_samples(frames[1]), by_array.member(1).score_samples(tables[1])
    )


def test_a_schema_selects_clips_and_names(tmp_path):
    tables = TRUTH.records(np.random.default_rng(0), 50)
    schema = Schema(
        {
            "c": Number(-10, 15),
            "a": Number(-10, 15, missing="centre"),
            "site": Category(("north", "south")),
        }
    )
    frames = [pd.DataFrame({"a": table[:, 0], "c": table[:, 2], "site": "north", "note": "x"}) for table in tables]
    frames[0].loc[3, "a"] = np.nan
    frames[1].loc[4, "c"] = 1e9
    fitted = PatternDictionary(3, schema=schema).fit(frames)
    assert fitted.columns_ == ("c", "a")
    assert np.abs(fitted.means_).max() < 15
    scores = fitted.member(0).score_samples(frames[0])
    assert np.isfinite(scores).all()
    # New records are not clipped: what lies far outside scores high.
    assert fitted.member(0).score_samples(frames[1])[4] > 100 * np.abs(scores).max()


def test_counts_amounts_and_codes_have_patterns_too():
    """Two well separated patterns of each family, mixed differently by three members, are found from four."""
    random = np.random.default_rng(0)
    shares = [0.8, 0.5, 0.2]
    labels = [random.random(200) < share for share in shares]
    rates = np.array([[2.0, 12.0], [14.0, 3.0]])
    counts = [random.poisson(rates[label.astype(int)]).astype(float) for label in labels]
    amounts = [random.gamma(6.0, rates[label.astype(int)] / 6.0) for label in labels]
    odds = np.array([[0.9, 0.1, 0.85], [0.1, 0.9, 0.1]])
    codes = [(random.random((200, 3)) < odds[label.astype(int)]).astype(float) for label in labels]
    for family, tables in (("poisson", counts), ("gamma", amounts), ("categorical", codes)):
        fitted = PatternDictionary(4, family=family, hide="nothing").fit(tables)
        assert fitted.n_patterns_ == 2, family
        first = fitted.weights_[:, 0]
        assert np.abs(np.sort(np.abs(first - 0.5)) - [0.0, 0.3, 0.3]).max() < 0.15, family
        assert not hasattr(fitted, "means_")


def test_categories_of_a_schema_are_codes():
    random = np.random.default_rng(0)
    schema = Schema({"colour": Category(("red", "green", "blue")), "size": Category(("s", "l")), "age": Number(0, 1)})
    colours, sizes = np.array(["red", "green", "blue"]), np.array(["s", "l"])
    frames = []
    for share in (0.9, 0.2):
        label = random.random(150) < share
        colour = np.where(label, random.choice(3, 150, p=[0.9, 0.05, 0.05]), random.choice(3, 150, p=[0.05, 0.05, 0.9]))
        size = np.where(label, random.random(150) < 0.05, random.random(150) < 0.95).astype(int)
        frames.append(pd.DataFrame({"colour": colours[colour], "size": sizes[size], "age": 0.5}))
    fitted = PatternDictionary(3, family="categorical", schema=schema).fit(frames)
    assert fitted.columns_ == ("colour", "size")
    assert fitted.n_patterns_ == 2
    assert fitted.member(0).responsibilities(frames[0]).shape == (150, 2)


@pytest.mark.long
def test_float32_finds_the_same_patterns():
    tables = TRUTH.records(np.random.default_rng(0), 200)
    fine, coarse = (PatternDictionary(6, dtype=dtype, hide="nothing").fit(tables) for dtype in ("float64", "float32"))
    assert coarse.n_patterns_ == fine.n_patterns_ == 3
    order = matched(coarse.means_, fine.means_)
    np.testing.assert_allclose(coarse.means_[order], fine.means_, atol=1e-2)


@pytest.mark.parametrize("promise", [{}, {"epsilon": 5.0, "delta": 1e-6}], ids=["exact", "private"])
def test_workers_of_this_process_give_the_same_bits(promise, tmp_path):
    distributed = pytest.importorskip("distributed")
    tables = TRUTH.records(np.random.default_rng(0), 50)
    names = ["x0", "x1", "x2", "x3"]
    members = [tmp_path / f"{place}.parquet" for place in range(len(tables))]
    for path, table in zip(members, tables, strict=True):
        pd.DataFrame(table, columns=names).to_parquet(path, row_group_size=20)
    schema = Schema({name: Number(-10, 10) for name in names})
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as workers, distributed.Client(workers, set_as_default=False) as client:
        here, there = (
            PatternDictionary(3, schema=schema, hide="nothing", random_state=0, cluster=cluster, **promise).fit(members)
            for cluster in (None, client)
        )
    np.testing.assert_array_equal(there.means_, here.means_)
    np.testing.assert_array_equal(there.weights_, here.weights_)


@pytest.mark.long
def test_a_cluster_gives_the_same_bits(tmp_path):
    """Members' passes over their records run on Dask workers of another process."""
    distributed = pytest.importorskip("distributed")
    tables = TRUTH.records(np.random.default_rng(0), 50)
    pd.DataFrame(tables[0], columns=["x0", "x1", "x2", "x3"]).to_parquet(tmp_path / "first.parquet")
    here = PatternDictionary(3, hide="nothing").fit(tables)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        there = PatternDictionary(3, hide="nothing", cluster=cluster.scheduler_address)
        there.fit([tmp_path / "first.parquet", *tables[1:]])
    assert there.means_.tobytes() == here.means_.tobytes()


def test_diagonal_patterns():
    random = np.random.default_rng(0)
    tables = [np.where(random.random((100, 1)) < 0.5, -4.0, 4.0) + random.normal(size=(100, 3)) for _ in range(3)]
    fitted = PatternDictionary(5, family="diagonal_gaussian", hide="nothing").fit(tables)
    assert fitted.n_patterns_ == 2
    assert fitted.precisions_.shape == (2, 3)


def test_estimators_are_cloned_and_refitted():
    tables = TRUTH.records(np.random.default_rng(0), 40)
    fitted = PatternDictionary(3, min_others=2).fit(tables)
    again = clone(fitted).fit(tables)
    assert again.means_.tobytes() == fitted.means_.tobytes()
    fitted.set_params(family="nonsense")
    with pytest.raises(InvalidParameter, match="sparse_gaussian"):
        fitted.fit(tables)
    assert not hasattr(fitted, "means_")


def test_a_dictionary_cannot_walk_out():
    """Own weights are exact functions of the member's records."""
    fitted = PatternDictionary(2, search=False).fit(TRUTH.records(np.random.default_rng(0), 40))
    for each in (fitted, fitted.member(0)):
        with pytest.raises(NotReleasable):
            Release.of(each)


# Must show 8: bad input, with nobody's data in the message

SECRET = 123456.789


def bad_tables():
    random = np.random.default_rng(0)
    good = random.normal(size=(20, 4))
    gap, endless, constant = good.copy(), good.copy(), good.copy()
    gap[3, 1], endless[3, 1], constant[:, 2] = np.nan, np.inf, SECRET
    return {
        "different columns": ([good, good[:, :3]], "Member 2 has 3 columns, member 1 has 4"),
        "different names": (
            [pd.DataFrame(good, columns=list("abcd")), pd.DataFrame(good, columns=list("abce"))],
            "members 1 and 2 differ in name",
        ),
        "empty member": ([good, good[:0]], "Member 2: The table has no rows"),
        "NaN": ([good, gap], "Member 2: Column 'x1' holds gaps"),
        "infinity": ([endless, good], "Member 1: Column 'x1' holds gaps"),
        "constant sensor": ([constant, constant], "Column 'x2' is the same in all records"),
        "fewer records than columns": ([good[:2], good[:2]], "4 records of 4 columns"),
        "one dimension": ([good[0], good], "Member 1: An array is not a two-dimensional"),
        "text": ([np.array([["a"] * 4]), good], "Member 1: An array is not a two-dimensional table of numbers"),
        "no members": ([], "no members"),
        "missing file": ([good, "nowhere.parquet"], "Member 2: There are no data files"),
    }


@pytest.mark.parametrize("case", bad_tables())
def test_bad_tables_are_refused_clearly(case):
    tables, message = bad_tables()[case]
    with pytest.raises(DataError, match=message) as caught:
        PatternDictionary(2).fit(tables)
    assert isinstance(caught.value, SudareError)
    assert "123456" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_sensor_that_is_constant_at_one_member_is_fine():
    tables = TRUTH.records(np.random.default_rng(0), 60)
    tables[0][:, 2] = 1.0
    assert PatternDictionary(3).fit(tables).n_patterns_ >= 2


def test_a_member_with_fewer_records_than_columns_is_fine():
    tables = TRUTH.records(np.random.default_rng(0), 60)
    fitted = PatternDictionary(6).fit([tables[0], tables[1], tables[2][:3]])
    assert np.isfinite(fitted.member(2).score_samples(tables[2])).all()


@pytest.mark.parametrize("table", [np.zeros((5, 2)), "path.parquet", pd.DataFrame({"a": [1.0]})])
def test_a_single_table_is_not_a_list_of_members(table):
    with pytest.raises(InvalidParameter, match="one table or path per member"):
        PatternDictionary().fit(table)


def test_records_of_another_family_are_refused():
    with pytest.raises(DataError, match="Member 1: Poisson patterns need whole numbers"):
        PatternDictionary(2, family="poisson").fit([np.full((9, 2), 0.5), np.ones((9, 2))])


def test_missing_values_without_a_declaration_are_refused():
    schema = Schema({"a": Number(0, 1), "b": Number(0, 1)})
    frame = pd.DataFrame({"a": [0.1, np.nan, 0.3], "b": [0.1, 0.2, 0.9]})
    with pytest.raises(MissingValue, match="Member 2"):
        PatternDictionary(2, schema=schema).fit([frame.dropna(), frame])


def test_a_schema_without_numbers_has_no_gaussian_patterns():
    with pytest.raises(SchemaError, match="no number column"):
        PatternDictionary(schema=Schema({"a": Category(("x", "y"))})).fit([pd.DataFrame({"a": ["x"]})])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_patterns": 0}, "n_patterns"),
        ({"n_patterns": 2.5}, "n_patterns"),
        ({"n_patterns": True}, "n_patterns"),
        ({"concentration": 0.5}, "concentration"),
        ({"min_others": -1}, "min_others"),
        ({"tol": 0.0}, "tol"),
        ({"bounds": (1, 0)}, "low < high"),
        ({"bounds": (0, np.inf)}, "finite"),
        ({"bounds": 3}, "two numbers"),
        ({"bounds": (0, 1), "schema": Schema({"a": Number(0, 1)})}, "Both"),
        ({"dtype": "float16"}, "dtype"),
        ({"hide": "chunks"}, "hiding"),
        ({"sparsity": -1.0}, "sparsity"),
        ({"max_iter": 1}, "max_iter"),
    ],
)
def test_bad_parameters_are_refused(changes, message):
    tables = TRUTH.records(np.random.default_rng(0), 20)
    with pytest.raises(InvalidParameter, match=message):
        PatternDictionary(**{"n_patterns": 2, **changes}).fit(tables)


@pytest.mark.parametrize("position", [-1, 3])
def test_members_are_counted_from_zero(position):
    fitted = PatternDictionary(2, search=False).fit(TRUTH.records(np.random.default_rng(0), 40))
    with pytest.raises(InvalidParameter, match="from 0 to 2"):
        fitted.member(position)
