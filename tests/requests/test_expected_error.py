"""Typical errors that are told before a fit, beside those that seeded fits then have."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from sudare.requests.expected_error import TYPICAL_LEVEL, ExpectedError, expected_errors
from sudare.requests.request_kinds import KINDS, make
from sudare.schema import Category, Date, Label, Number, Schema

ROWS = 2000
SCHEMA = Schema({"stay": Number(0, 30, unit="days"), "age": Number(20, 90), "ward": Category(("a", "b", "c", "d"))})
NUMBERS = Schema({name: SCHEMA.columns[name] for name in ("stay", "age")})
# Values that lie evenly in groups of equal size, as the errors are told for.
RECORDS = pd.DataFrame(
    {
        "stay": np.linspace(0, 30, ROWS),
        "age": np.random.default_rng(0).permutation(np.linspace(20, 90, ROWS)),
        "ward": np.tile(["a", "b", "c", "d"], ROWS // 4),
    }
)
SEEDS = range(40)


def columns(schema: Schema) -> pd.DataFrame:
    return RECORDS[list(schema.columns)]


def measured(kind, schema, values, errors_of):
    """The error that one in three seeded fits exceeds, for each number that has a typical one."""
    found = [errors_of(make(kind, schema, values, random_state=seed).fit(columns(schema))) for seed in SEEDS]
    return np.quantile(np.abs(np.array(found, dtype=float)), TYPICAL_LEVEL, axis=0)


CASES = {
    "mean": ("mean", NUMBERS, {"epsilon": 0.5}, lambda model: model.mean_ - RECORDS[["stay", "age"]].mean().to_numpy()),
    "mean, Gaussian": (
        "mean", NUMBERS, {"epsilon": 0.5, "delta": 1e-6},
        lambda model: model.mean_ - RECORDS[["stay", "age"]].mean().to_numpy(),
    ),
    "means drawn from a posterior": (
        "gibbs", NUMBERS, {"epsilon": 0.5}, lambda model: model.mean_ - RECORDS[["stay", "age"]].mean().to_numpy(),
    ),
    "scaler": (
        "scaler", NUMBERS, {"epsilon": 0.5},
        lambda model: np.column_stack(
            [model.mean_ - RECORDS[["stay", "age"]].mean(), model.scale_ - RECORDS[["stay", "age"]].std(ddof=0)]
        ).ravel(),
    ),
    "histogram": (
        "histogram", Schema({"ward": SCHEMA.columns["ward"]}), {"epsilon": 0.5},
        lambda model: [np.abs(model.counts_["ward"] - ROWS / 4).mean()],
    ),
    "quantiles": (
        "quantiles", NUMBERS, {"epsilon": 0.5},
        lambda model: np.array(model.table()["value"], dtype=float) - RECORDS[["stay", "age"]].median().to_numpy(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_typical_errors_are_within_a_factor_of_those_of_fits(case):
    kind, schema, values, errors_of = case
    errors = expected_errors(kind, make(kind, schema, values), ROWS)
    seen = measured(kind, schema, values, errors_of)
    told = [error.size for error in errors if error.size is not None and "intervals" not in error.what]
    assert len(told) == len(seen)
    assert np.all(seen <= 1.6 * np.array(told))
    assert np.all(seen >= np.array(told) / 1.6)


def test_errors_of_a_table_are_within_a_factor_of_those_of_fits():
    values = {"by": ["ward"], "mean_of": ["stay"], "quantile_of": ["age"], "epsilon": 1.0}
    table = make("table", SCHEMA, values)
    told = {error.said(): error for error in expected_errors("table", table, ROWS)}
    ends = "ends of 95 % intervals of medians of age"
    assert {what for what, error in told.items() if error.size} == {"counts", "means of stay", "medians of age", ends}
    assert told["means of stay"].unit == "days"
    counts, means, medians, distances = [], [], [], []
    exact = RECORDS.groupby("ward")
    for seed in SEEDS:
        found = pd.DataFrame(make("table", SCHEMA, values, random_state=seed).fit(RECORDS).table()).set_index("ward")
        counts += list(found["count"] - exact.size())
        means += list(found["mean_stay"] - exact["stay"].mean())
        medians += list(found["median_age"] - exact["age"].median())
        distances += [
            *(found["median_age_high"] - found["median_age"]),
            *(found["median_age"] - found["median_age_low"]),
        ]
    sizes = {"counts": counts, "means of stay": means, "medians of age": medians, ends: distances}
    for what, seen in sizes.items():
        size = np.quantile(np.abs(np.array(seen, dtype=float)), TYPICAL_LEVEL)
        assert told[what].size / 1.6 <= size <= 1.6 * told[what].size, what


def test_how_many_records_a_value_that_nobody_declared_needs_is_told_before():
    """Values with a quarter more records than told are found, and such with half as many are not."""
    values = {"by": ["ward"], "keys": ["town"], "quantile_of": ["age"], "epsilon": 1.0, "delta": 1e-6}
    table = make("table", SCHEMA, values, random_state=0)
    (needed,) = [error for error in expected_errors("table", table, ROWS) if error.what.startswith("Values of")]
    assert needed.said().startswith("Values of town that fewer than about 108 records")
    records = int(needed.values["needed"])
    sizes = [records * 5 // 4] * 5 + [records // 2] * 5
    towns = np.repeat([f"town {number}" for number in range(10)], sizes)
    found = table.fit(RECORDS[: len(towns)].assign(town=towns)).keys_.found
    assert [town for (town,) in found] == [f"town {number}" for number in range(5)]


@pytest.mark.parametrize("epsilon", [0.1, 0.4, 1.0, 3.0])
def test_whether_intervals_of_medians_by_group_will_say_something_is_told_before(epsilon):
    values = {"by": ["ward"], "quantile_of": ["age"], "epsilon": epsilon}
    told = [error.said() for error in expected_errors("table", make("table", SCHEMA, values), ROWS)]
    found = pd.DataFrame(make("table", SCHEMA, values, random_state=0).fit(RECORDS).table())
    widths = found["median_age_high"] - found["median_age_low"]
    says_nothing = any("will reach from one declared bound to the other" in what for what in told)
    assert says_nothing == (not any(what.startswith("ends of 95 % intervals") for what in told))
    # Groups are of equal size, and a noisy count moves little.
    assert says_nothing == bool((widths == 70).all())
    assert (
        "All but counts is told for 4 groups of 500 records each; in a group half as large it is off by twice as much."
        in told
    )


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.6, 2.0])
def test_how_many_ends_of_intervals_lie_at_bounds_is_told_before(epsilon):
    values = {"by": ["ward"], "quantile_of": ["age"], "quantiles": [0.25, 0.5, 0.75], "epsilon": epsilon}
    errors = expected_errors("table", make("table", SCHEMA, values), ROWS)
    said = [error.said() for error in errors]
    found = pd.DataFrame(make("table", SCHEMA, values, random_state=0).fit(RECORDS).table())
    ends = found[[name for name in found if name.endswith(("_age_low", "_age_high"))]].to_numpy(dtype=float)
    within = ((ends != 20) & (ends != 90)).sum(axis=1)
    (some,) = [what for what in said if "intervals of quantiles" in what.lower() and "declared bound" in what]
    if some.startswith("Intervals of quantiles will reach from one declared bound to the other."):
        assert (within == 0).all()
        assert not any(error.size for error in errors if "intervals" in error.what)
    elif some.startswith("Of 6 ends"):
        # An end that is drawn may fall on the bound all the same.
        assert 1 <= within.max() <= int(some.split("in a group ")[1].split()[0]) < 6
    else:
        assert some.startswith("In a group of fewer than ")
        assert within.max() == 6


def test_the_sentences_about_intervals_are_all_made_by_some_budget():
    """That the test above sees each of them."""
    begun = set()
    for epsilon in (0.05, 0.3, 0.6, 2.0):
        values = {"by": ["ward"], "quantile_of": ["age"], "quantiles": [0.25, 0.5, 0.75], "epsilon": epsilon}
        said = [error.said() for error in expected_errors("table", make("table", SCHEMA, values), ROWS)]
        begun |= {what.split()[0] for what in said if "intervals of quantiles" in what.lower() and "bound" in what}
    assert begun == {"Intervals", "Of", "In"}


@pytest.mark.parametrize("epsilon", [0.001, 0.02, 1.0])
def test_without_groups_nothing_is_said_of_groups(epsilon):
    values = {"epsilon": epsilon, "quantiles": [0.1, 0.5, 0.9]}
    said = [error.said() for error in expected_errors("quantiles", make("quantiles", NUMBERS, values), ROWS)]
    assert not any("group" in what for what in said)
    assert any("intervals" in what.lower() for what in said)


def test_names_of_columns_and_their_units_are_nobodys_to_translate():
    schema = Schema(
        {
            "days kept": Number(0, 30, unit="days"),
            "arrived on": Date(first="2026-01-01", last="2026-12-31"),
            "binned age": Number(0, 90, unit="years", bins=(30, 60)),
            "ward of it": Category(("a", "b")),
        }
    )
    values = {
        "by": ["ward of it"], "mean_of": ["days kept", "arrived on"], "variance_of": ["days kept", "arrived on"],
        "quantile_of": ["binned age"], "epsilon": 10.0,
    }  # fmt: skip
    errors = expected_errors("table", make("table", schema, values), ROWS)
    told = [error.told("ja") for error in errors]
    assert any(each.startswith("days kept の各平均 ±") and each.endswith(" days") for each in told)
    assert any(each.startswith("arrived on の各平均 ±") and each.endswith(" 日") for each in told)
    assert any(each.startswith("days kept の各分散 ±") and each.endswith(" days²") for each in told)
    assert any(each.startswith("arrived on の各分散 ±") and each.endswith(" 日²") for each in told)
    assert any(each.startswith("件数 ±") and each.endswith(" レコード") for each in told)
    assert any("'binned age'" in each and "宣言された区間の中央" in each for each in told)
    named = re.compile("days kept|arrived on|binned age|years|days|%|ε")
    assert not [each for each in told if re.search("[A-Za-z]", named.sub("", each))]
    few = expected_errors("table", make("table", schema, {**values, "epsilon": 0.01}), ROWS)
    assert any(error.told("ja").startswith("days kept の分散は") for error in few)


def test_what_cannot_be_said_is_said_in_words():
    schema = Schema({"stay": Number(0, 30), "ill": Label((0, 1))})
    for kind in ("logistic", "svc", "network", "perturbation", "synthesis"):
        (error,) = expected_errors(kind, make(kind, schema, {"epsilon": 1.0}), ROWS)
        assert error.size is None
        assert str(error) == error.what
    (error,) = expected_errors("mean", make("mean", NUMBERS, {}), 0)
    assert "number of rows" in str(error)


def test_every_kind_says_something():
    schema = Schema({"stay": Number(0, 30), "ward": Category(("a", "b")), "ill": Label((0, 1))})
    for name in KINDS:
        target = {"target": "stay"} if name == "ridge" else {}
        by = {"by": ["ward"]} if name == "table" else {}
        of = NUMBERS if name in ("mean", "quantiles", "scaler") else schema
        assert expected_errors(name, make(name, of, {"epsilon": 1.0, **target, **by}), ROWS)


@pytest.mark.parametrize(
    ("size", "shown"),
    [(6.91, "7"), (0.2912, "0.3"), (1234.0, "1,300"), (0.000012, "1.2e-05"), (0.0, "0"), (11.0, "11")],
)
def test_sizes_are_shown_in_two_digits_rounded_up(size, shown):
    assert str(ExpectedError("counts", size, "days")) == f"counts ±{shown} days"


def test_quantiles_of_declared_bins_are_off_by_half_a_bin():
    schema = Schema({"stay": Number(0, 100, bins=(25, 50, 75))})
    size, ends, _, note = expected_errors("quantiles", make("quantiles", schema, {"epsilon": 5.0}), 100_000)
    assert size.size == ends.size == 12.5
    assert note.what == "Quantiles of 'stay' are the middles of declared bins, wherever in a bin they lie."


@pytest.mark.parametrize("epsilon", [0.05, 0.2, 1.0, 5.0])
def test_whether_variances_will_be_known_is_told_before(epsilon):
    values = {"by": ["ward"], "variance_of": ["age"], "epsilon": epsilon}
    told = [str(error) for error in expected_errors("table", make("table", SCHEMA, values), ROWS)]
    are_unknown = any(what.startswith("Variances of age will be unknown") for what in told)
    assert are_unknown == (not any(what.startswith("variances of age ±") for what in told))
    found = make("table", SCHEMA, values, random_state=0).fit(RECORDS).table()["variance_age"]
    # Groups are of equal size, and none is near the number that is needed.
    assert found.count(None) == (4 if are_unknown else 0)


def test_deviations_of_values_that_lie_together_stay_below_what_is_told():
    close = pd.DataFrame({"stay": np.full(ROWS, 29.0), "age": np.full(ROWS, 21.0)})
    told = {error.said(): error for error in expected_errors("scaler", make("scaler", NUMBERS, {"epsilon": 0.5}), ROWS)}
    (sentence,) = (what for what in told if what.startswith("Standard deviations are told for values that lie evenly"))
    most = float(sentence.split("up to ")[1].split(" %")[0]) / 100 * np.array([30, 70])
    fits = [make("scaler", NUMBERS, {"epsilon": 0.5}, random_state=seed).fit(close).scale_ for seed in SEEDS]
    seen = np.quantile(np.array(fits), TYPICAL_LEVEL, axis=0)
    assert (seen <= most).all()
    assert (seen > [told[f"standard deviation of {name}"].size for name in ("stay", "age")]).all()
