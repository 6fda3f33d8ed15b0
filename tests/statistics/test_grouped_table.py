"""Tables by group: what they hold, that margins agree, any source, release and load, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.errors import BudgetExceeded, InvalidParameter, UnknownCategory
from sudare.privacy import Ledger, Release
from sudare.schema import Category, Date, Label, Number, Person, Schema
from sudare.statistics import GroupedTable, PrivateMean, PrivateQuantiles, grouped_table
from sudare.statistics.exact_group_sums import Groups
from sudare.statistics.grouped_noise import InfinityNormCells, grouped_mechanism

SCHEMA = Schema(
    {
        "town": Category(("east", "west"), missing="none"),
        "age": Number(0, 90, bins=(18, 65)),
        "pay": Number(0, 1000),
        "hours": Number(0, 80, missing="centre"),
        "ill": Label((0, 1)),
    }
)
KEY = Ed25519PrivateKey.generate()
# Means of a table from which on Gaussian noise is quieter.
QUIETER_FROM = 49
BIG = {"schema": SCHEMA, "epsilon": 1e5, "random_state": 0}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    generator = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "town": generator.choice(["east", "west", None], 3000, p=[0.6, 0.3, 0.1]),
            "age": generator.uniform(0, 90, 3000),
            "pay": generator.uniform(100, 900, 3000),
            "hours": np.where(generator.random(3000) < 0.1, np.nan, generator.uniform(10, 60, 3000)),
            "ill": generator.integers(0, 2, 3000),
        }
    )


def exact(people: pd.DataFrame) -> pd.DataFrame:
    known = people.assign(
        town=people.town.fillna("none"),
        hours=people.hours.fillna(40),
        age=pd.cut(people.age, [0, 18, 65, 90], right=False),
    )
    return known.groupby(["town", "age"], observed=False).agg(
        count=("pay", "size"), pay=("pay", "mean"), hours=("hours", "mean")
    )


def test_with_next_to_no_noise_it_is_the_table(people: pd.DataFrame) -> None:
    found = pd.DataFrame(GroupedTable(by=["town", "age"], mean_of=["pay", "hours"], **BIG).fit(people).table())
    assert found.columns.tolist()[:5] == ["town", "age", "count", "count_low", "count_high"]
    assert found.town.tolist() == ["east"] * 3 + ["west"] * 3 + ["none"] * 3
    assert found.age.tolist() == ["0 to 18", "18 to 65", "65 to 90"] * 3
    true = exact(people).reindex(["east", "west", "none"], level=0)
    assert found["count"].tolist() == true["count"].tolist()
    np.testing.assert_allclose(found.mean_pay, true.pay, atol=0.1)
    np.testing.assert_allclose(found.mean_hours, true.hours, atol=0.01)
    assert ((found.mean_pay_low <= found.mean_pay) & (found.mean_pay <= found.mean_pay_high)).all()


def test_totals_agree_with_each_other(people: pd.DataFrame) -> None:
    model = GroupedTable(0.5, schema=SCHEMA, by=["town", "age", "ill"], mean_of=["pay"], random_state=1).fit(people)
    cells = pd.DataFrame(model.table())
    for by in (["town"], ["age", "ill"], ["ill", "age"], ["town", "age", "ill"]):
        margin = pd.DataFrame(model.table(by=by))
        summed = cells.groupby(by, sort=False)["count"].sum()
        assert margin.set_index(by)["count"].to_dict() == summed.to_dict()
    whole = model.table(by=[])
    assert whole["count"] == [cells["count"].sum()]
    assert whole["count_high"][0] - whole["count_low"][0] > cells.count_high[0] - cells.count_low[0]


def test_sums_are_counts_times_means_and_add_up(people: pd.DataFrame) -> None:
    model = GroupedTable(1.0, schema=SCHEMA, by=["town", "ill"], mean_of=["pay"], variance_of=["hours"], random_state=1)
    cells = pd.DataFrame(model.fit(people).table())
    inside = (cells["count"] > 0) & (cells.mean_pay > 0) & (cells.mean_pay < 1000)
    assert inside.all()
    np.testing.assert_allclose(cells.sum_pay, cells["count"] * cells.mean_pay)
    assert ((cells.sum_pay_low < cells.sum_pay) & (cells.sum_pay < cells.sum_pay_high)).all()
    assert "sum_hours" not in cells
    np.testing.assert_allclose(model.table(by=["town"])["sum_pay"], cells.groupby("town", sort=False).sum_pay.sum())


@pytest.mark.parametrize(("low", "high"), [(0.0, 100.0), (-100.0, 0.0), (-100.0, 100.0)])
def test_an_interval_of_a_sum_has_no_sign_that_none_of_the_numbers_has(low: float, high: float) -> None:
    data = pd.DataFrame({"town": ["t0"] * 50, "pay": np.linspace(low, high, 50)})
    schema = Schema({"town": Category(tuple(f"t{place}" for place in range(40))), "pay": Number(low, high)})
    model = GroupedTable(0.5, schema=schema, by=["town"], mean_of=["pay"], random_state=0).fit(data)
    table = pd.DataFrame(model.table())
    assert (table.sum_pay_low < 0).any() == (low < 0)
    assert (table.sum_pay_high > 0).any() == (high > 0)
    # The number itself is what was measured, so that totals agree.
    assert (table.sum_pay < 0).any()
    assert (table.sum_pay > 0).any()


@pytest.mark.long
@pytest.mark.parametrize(("delta", "low"), [(0.0, 0.0), (0.0, 90.0), (1e-6, -100.0), (1e-6, 90.0)])
def test_intervals_of_sums_hold_as_often_as_they_say(delta: float, low: float) -> None:
    """Also where the centre is many times half the range, so that the noise of the count is most of that of the sum."""
    generator = np.random.default_rng(0)
    data = pd.DataFrame({"town": generator.choice(["east", "west"], 600), "pay": generator.uniform(low, 100, 600)})
    schema = Schema({"town": Category(("east", "west")), "pay": Number(low, 100)})
    exact_sums, held = data.groupby("town").pay.sum(), []
    for seed in range(100):
        found = GroupedTable(1.0, delta, schema=schema, by=["town"], mean_of=["pay"], random_state=seed).fit(data)
        table = found.table()
        held.append((table["sum_pay_low"] <= exact_sums) & (exact_sums <= table["sum_pay_high"]))
    # 200 intervals: four standard deviations of a share of .95 are .062.
    assert 0.888 <= np.mean(held) < 1.0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_intervals_hold_as_often_as_they_say(people: pd.DataFrame, delta: float, neighbours: str) -> None:
    true = exact(people).reindex(["east", "west", "none"], level=0)
    counts, means, town = [], [], []
    for seed in range(40):
        model = GroupedTable(
            1.0, delta, schema=SCHEMA, by=["town", "age"], mean_of=["pay"], neighbours=neighbours, random_state=seed
        ).fit(people)
        found = model.table()
        counts.append((found["count_low"] <= true["count"]) & (true["count"] <= found["count_high"]))
        means.append((found["mean_pay_low"] <= true.pay) & (true.pay <= found["mean_pay_high"]))
        margin, known = model.table(by=["town"]), true["count"].groupby(level=0, sort=False).sum()
        town.append((margin["count_low"] <= known) & (known <= margin["count_high"]))
    # 360 cells and 120 towns: five standard deviations of a share of .95 are .057 and .1.
    assert 0.893 <= np.mean(counts) <= 1.0
    assert 0.893 <= np.mean(means) <= 1.0
    assert 0.85 <= np.mean(town) <= 1.0


def test_every_source_gives_the_same_bits(people: pd.DataFrame, tmp_path: Path) -> None:
    people.to_parquet(tmp_path / "people.parquet")
    people.to_csv(tmp_path / "people.csv", index=False)
    sources = [
        people,
        pl.from_pandas(people),
        pa.Table.from_pandas(people),
        {name: people[name].to_list() for name in people},
        tmp_path / "people.parquet",
        tmp_path / "people.csv",
        iter([people[:1000], people[1000:]]),
    ]
    tables = [
        GroupedTable(1.0, schema=SCHEMA, by=["town", "ill"], mean_of=["hours"], random_state=4).fit(source).table()
        for source in sources
    ]
    assert all(table == tables[0] for table in tables)


def test_one_charge_release_and_load(people: pd.DataFrame, tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger.db").account("people", 1.0, 1e-6, source="people")
    for delta, mean_of in ((0.0, ["pay", "hours"]), (1e-6, [])):
        model = GroupedTable(0.5, delta, schema=SCHEMA, by=["town", "ill"], mean_of=mean_of, account=account)
        quote = model.price(people)
        model.fit(people)
        assert account.remaining() == quote.left_after
        file = tmp_path / f"table-{delta}.sudare"
        Release.of(model).save(file, KEY)
        loaded = Release.load(file, trusted=[KEY.public_key()]).model()
        assert loaded.table() == model.table()
        assert loaded.noise_scale_ == model.noise_scale_
        np.testing.assert_array_equal(loaded.counts_, model.counts_)
    with pytest.raises(BudgetExceeded):
        GroupedTable(0.5, schema=SCHEMA, by=["town"], account=account).fit(people)


def test_a_release_under_add_remove_does_not_tell_the_number_of_rows(people: pd.DataFrame) -> None:
    model = GroupedTable(0.5, schema=SCHEMA, by=["town"], mean_of=["pay"], neighbours="add-remove", random_state=0)
    assert model.fit(people).release_content().parameters["rows"] is None
    assert model.noise_scale_ == model.fit(people[:7]).noise_scale_


def test_persons_pay_for_all_their_rows(people: pd.DataFrame) -> None:
    schema = Schema(dict(SCHEMA.columns), Person("who", 3))
    owned = people.assign(who=np.arange(3000) // 3)
    one = GroupedTable(1.0, schema=SCHEMA, by=["town"], random_state=0).fit(people)
    three = GroupedTable(1.0, schema=schema, by=["town"], random_state=0).fit(owned)
    assert three.noise_scale_ == pytest.approx(3 * one.noise_scale_)
    assert three.guarantee_.unit == "person"


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"by": []}, "no column to group by"),
        ({"by": "town"}, "not a list"),
        ({"by": ["nowhere"]}, "lacks"),
        ({"by": ["town", "town"]}, "twice in `by`"),
        ({"by": ["town"], "mean_of": ["town"]}, "'town' is named in `by` and in `mean_of`"),
        ({"by": ["town"], "mean_of": ["ill"]}, "no number"),
        ({"by": ["town"], "schema": None}, "needs a schema"),
        ({"by": ["town"], "neighbours": "other"}, "neighbours"),
    ],
)
def test_what_is_refused_before_a_charge(people: pd.DataFrame, tmp_path: Path, parameters: dict, says: str) -> None:
    account = Ledger(tmp_path / "ledger.db").account("people", 1.0, source="people")
    with pytest.raises(InvalidParameter, match=says):
        GroupedTable(**{"schema": SCHEMA, "account": account, **parameters}).fit(people)
    with pytest.raises(UnknownCategory):
        GroupedTable(schema=SCHEMA, by=["town"], account=account).fit(people.assign(town="north"))
    assert account.spent().epsilon == 0


def test_too_many_cells_are_refused() -> None:
    wide = Schema({f"c{place}": Category(tuple(range(200))) for place in range(3)})
    with pytest.raises(InvalidParameter, match="cells"):
        GroupedTable(schema=wide, by=list(wide.columns)).fit({name: [1] for name in wide.columns})


def test_groups_are_all_combinations_in_the_order_of_the_axes() -> None:
    groups = Groups.of({"town": SCHEMA.columns["town"], "ill": Category((0, 1))})
    assert groups.shape == (3, 2)
    assert groups.labels() == {"town": ["east", "east", "west", "west", "none", "none"], "ill": [0, 1] * 3}


def test_gaussian_noise_is_quieter_from_many_means_on() -> None:
    """As docs/statistics.md says, for ε = 1, δ = 1e-6 and replaced records."""

    def deviation(means: int, delta: float) -> float:
        mechanism = grouped_mechanism(means, "replace-one", 1, 10, 1.0, delta)
        return (mechanism.in_a_cell if isinstance(mechanism, InfinityNormCells) else mechanism).variance ** 0.5

    quieter = [deviation(means, 1e-6) < deviation(means, 0.0) for means in range(1, 80)]
    assert quieter.index(True) + 1 == QUIETER_FROM
    assert all(quieter[QUIETER_FROM - 1 :])


def test_the_owner_learns_how_many_values_were_clipped(people: pd.DataFrame, tmp_path: Path) -> None:
    wild = people.assign(pay=np.where(np.arange(3000) < 7, 5000.0, people.pay))
    wild.to_parquet(tmp_path / "wild.parquet")
    for source in (wild, tmp_path / "wild.parquet"):
        model = GroupedTable(schema=SCHEMA, by=["town"], mean_of=["pay", "hours"], random_state=0).fit(source)
        assert model.clipped_ == {"pay": 7, "hours": 0}


def test_a_group_column_that_is_called_like_a_made_one_is_refused() -> None:
    schema = Schema({"count": Category(("a", "b")), "mean_pay_low": Category(("a", "b")), "pay": Number(0, 1)})
    data = {"count": ["a"], "mean_pay_low": ["b"], "pay": [0.5]}
    for by in (["count"], ["mean_pay_low"]):
        with pytest.raises(InvalidParameter, match="called so"):
            GroupedTable(schema=schema, by=by, mean_of=["pay"], random_state=0).fit(data)


EVERYTHING = {
    "by": ["town"],
    "mean_of": ["pay"],
    "variance_of": ["hours", "pay"],
    "quantile_of": ["age", "pay"],
    "quantiles": [0.25, 0.5],
}


def test_variances_and_quantiles_with_next_to_no_noise(people: pd.DataFrame) -> None:
    found = pd.DataFrame(GroupedTable(**EVERYTHING, **BIG).fit(people).table())
    known = people.assign(town=people.town.fillna("none"), hours=people.hours.fillna(40)).groupby("town")
    order = ["east", "west", "none"]
    np.testing.assert_allclose(found.variance_hours, known.hours.var(ddof=0)[order], rtol=0.01)
    np.testing.assert_allclose(found.variance_pay, known.pay.var(ddof=0)[order], rtol=0.01)
    np.testing.assert_allclose(found.mean_hours, known.hours.mean()[order], atol=0.1)
    np.testing.assert_allclose(found.median_pay, known.pay.quantile(0.5, "lower")[order], atol=0.1)
    # Of a column with declared bins: the middle of a bin.
    assert set(found["quantile_0.25_age"]) <= {9.0, 41.5, 77.5}
    for name in ("variance_hours", "median_pay", "quantile_0.25_pay"):
        assert ((found[f"{name}_low"] <= found[name]) & (found[name] <= found[f"{name}_high"])).all()
    assert "median_pay" not in GroupedTable(**EVERYTHING, **BIG).fit(people).table(by=[])


@pytest.mark.parametrize(("delta", "neighbours"), [(0.0, "replace-one"), (1e-6, "add-remove")])
def test_intervals_of_variances_and_quantiles_hold(people: pd.DataFrame, delta: float, neighbours: str) -> None:
    known = people.assign(town=people.town.fillna("none")).groupby("town").pay
    order = ["east", "west", "none"]
    true = {"variance_pay": known.var(ddof=0)[order], "median_pay": known.quantile(0.5, "lower")[order]}
    held: dict[str, list] = {name: [] for name in true}
    for seed in range(25):
        model = GroupedTable(
            2.0, delta, schema=SCHEMA, by=["town"], variance_of=["pay"], quantile_of=["pay"], neighbours=neighbours, random_state=seed
        )  # fmt: skip
        found = model.fit(people).table()
        for name, values in true.items():
            held[name].append((found[f"{name}_low"] <= values) & (values <= found[f"{name}_high"]))
    # 75 intervals each: five standard deviations of a share of .95 are .126.
    assert all(np.mean(each) >= 0.82 for each in held.values())


@pytest.mark.parametrize("high", [60, 2**19])
def test_intervals_of_quantiles_hold_for_tied_whole_numbers(high: int) -> None:
    """With a cell for each whole number, and where there are too many of them for that."""
    generator = np.random.default_rng(2)
    days = generator.poisson(6, 3000)
    data = pd.DataFrame({"town": generator.choice(["east", "west"], 3000), "days": days})
    schema = Schema({"town": Category(("east", "west")), "days": Number(0, high, whole=True)})
    wanted = [0.25, 0.5, 0.75]
    exact_ones, held = data.groupby("town").days.quantile(wanted, interpolation="lower").unstack(), []
    for seed in range(20):
        model = GroupedTable(
            3.0, schema=schema, by=["town"], quantile_of=["days"], quantiles=wanted, random_state=seed
        ).fit(data)
        found = model.table()
        for quantile in wanted:
            name = "median_days" if quantile == 0.5 else f"quantile_{quantile}_days"
            low, value, high_end = (np.array(found[f"{name}{end}"]) for end in ("_low", "", "_high"))
            assert all((each == np.rint(each)).all() for each in (low, value, high_end))
            assert ((low <= value) & (value <= high_end)).all()
            held.append((low <= exact_ones[quantile]) & (exact_ones[quantile] <= high_end))
    # 120 intervals: four standard deviations of a share of .95 are .08.
    assert np.mean(held) >= 0.87


@pytest.mark.parametrize(
    "parameters",
    [
        EVERYTHING,
        {**EVERYTHING, "delta": 1e-6},
        {"keys": ["town"], "delta": 1e-6, "variance_of": ["pay"]},
        {"keys": ["town"], "delta": 1e-6, "quantile_of": ["pay"], "quantiles": [0.25, 0.5]},
    ],
)
def test_everything_is_one_charge_and_survives_release_and_load(
    people: pd.DataFrame, tmp_path: Path, parameters: dict
) -> None:
    schema = SCHEMA if "by" in parameters else Schema({"pay": SCHEMA.columns["pay"]})
    account = Ledger(tmp_path / "ledger.db").account("people", 1.0, 1e-5, source="people")
    model = GroupedTable(0.5, schema=schema, account=account, **parameters)
    quote = model.price(people)
    model.fit(people)
    assert account.remaining() == quote.left_after
    assert len([entry for entry in account.entries() if entry.kind == "charge"]) == 1
    Release.of(model).save(tmp_path / "table.sudare", KEY)
    loaded = Release.load(tmp_path / "table.sudare", trusted=[KEY.public_key()]).model()
    assert loaded.table() == model.table()
    assert loaded.keys_ == model.keys_


def test_groups_that_nobody_declared(people: pd.DataFrame, tmp_path: Path) -> None:
    schema = Schema({"pay": SCHEMA.columns["pay"], "ill": SCHEMA.columns["ill"]})
    rare = people.assign(town=np.where(np.arange(3000) == 5, "nowhere", people.town.fillna("none")))
    rare.to_parquet(tmp_path / "rare.parquet")
    tables = []
    for source in (rare, tmp_path / "rare.parquet", iter([rare[:1000], rare[1000:]])):
        model = GroupedTable(
            2.0, 1e-6, schema=schema, by=["ill"], keys=["town"], mean_of=["pay"], random_state=0
        ).fit(source)  # fmt: skip
        tables.append(model.table())
    assert tables[0] == tables[1] == tables[2]
    found = pd.DataFrame(tables[0])
    # Every declared group of every key is there, and one for all other rows.
    assert tables[0]["town"] == ["east"] * 2 + ["none"] * 2 + ["west"] * 2 + [None] * 2
    assert found.ill.tolist() == [0, 1] * 4
    totals = pd.DataFrame(model.table(by=["town"]))
    assert totals["count"].sum() == found["count"].sum() == model.table(by=[])["count"][0]
    assert not any("nowhere" in str(value) for value in vars(model).values())


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_quantiles_of_groups_that_nobody_declared(people: pd.DataFrame, tmp_path: Path, neighbours: str) -> None:
    """With next to no noise they are those of the rows, in every declared group of every key and of all other rows; from every source."""
    schema = Schema({"pay": SCHEMA.columns["pay"], "ill": SCHEMA.columns["ill"]})
    place = np.arange(3000)
    farms = [f"farm {number}" for number in place]
    rows = people.assign(town=np.where(place % 10 == 5, farms, people.town.fillna("none")))
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    asked_for = {"by": ["ill"], "keys": ["town"], "quantile_of": ["pay"], "quantiles": [0.25, 0.5]}
    tables = [
        GroupedTable(50.0, 1e-9, schema=schema, **asked_for, neighbours=neighbours, random_state=0).fit(source).table()
        for source in (rows, tmp_path / "rows.parquet", iter([rows[:1000], rows[1000:]]))
    ]
    assert tables[0] == tables[1] == tables[2]
    found = pd.DataFrame(tables[0])
    assert tables[0]["town"] == ["east"] * 2 + ["none"] * 2 + ["west"] * 2 + [None] * 2
    by_group = rows.assign(town=rows.town.where(place % 10 != 5, None)).groupby(["town", "ill"], dropna=False)
    for quantile, name in ((0.25, "quantile_0.25_pay"), (0.5, "median_pay")):
        # The rows of the smallest group lie 6 apart.
        np.testing.assert_allclose(found[name], by_group.pay.quantile(quantile), atol=30)
        assert ((found[f"{name}_low"] <= found[name]) & (found[name] <= found[f"{name}_high"])).all()


def test_only_so_many_keys_are_found_as_leave_a_table_its_cells(
    people: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of a million declared groups for each of 1,500 keys was charged, and ended for want of memory."""
    asked_for = {"schema": SCHEMA, "by": ["age"], "keys": ["site"], "mean_of": ["pay"], "random_state": 0}
    frame = people.assign(site=np.random.default_rng(0).choice(["a", "b", "c"], len(people), p=[0.5, 0.3, 0.2]))
    # Counts and sums of three groups are six cells.
    monkeypatch.setattr(grouped_table, "MOST_CELLS", 6 * 3 + 5)
    model = GroupedTable(100.0, 1e-6, **asked_for).fit(frame)
    assert model.keys_.found == (("a",), ("b",))
    assert sum(model.table(by=["site"])["count"]) == pytest.approx(len(people), abs=20)
    monkeypatch.setattr(grouped_table, "MOST_CELLS", 6 * 2 - 1)
    with pytest.raises(InvalidParameter, match="more than 11 cells"):
        GroupedTable(100.0, 1e-6, **asked_for).fit(frame)


@pytest.mark.parametrize(
    "asked_for", [{}, {"mean_of": ["pay"]}, {"variance_of": ["pay"], "quantiles": [0.1, 0.5, 0.9]}]
)
def test_keys_quantiles_and_sums_share_epsilon(asked_for: dict) -> None:
    """A quarter of ε for keys, the rest by numbers of a cell; together no more than ε, and nearly all of it."""
    schema = Schema({"pay": SCHEMA.columns["pay"], "ill": SCHEMA.columns["ill"]})
    model = GroupedTable(
        0.7, 1e-6, schema=schema, by=["ill"], keys=["town"], quantile_of=["pay"], random_state=0, **asked_for
    )
    noise = model.declared_plan(1000)[0].mechanism
    keys, quantiles = Fraction(str(noise.keys.epsilon)), Fraction(str(noise.quantiles.epsilon))
    moments = Fraction(str(float(noise.moments.cost.epsilon)))
    assert float(keys) == 0.7 / 4
    assert 0.7 * (1 - 1e-9) < keys + quantiles + moments <= Fraction("0.7")
    numbers, sums = len(noise.quantiles.quantiles), 2 if "variance_of" in asked_for else len(asked_for)
    assert float(quantiles / moments) == pytest.approx(numbers / (1 + sums))


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"keys": ["street"]}, "delta"),
        ({"keys": ["town"], "delta": 1e-6}, "declares"),
        ({"keys": ["street", "street"], "delta": 1e-6}, "twice"),
        ({"by": (), "keys": ["street"], "delta": 1e-6}, "needs a declared column beside"),
        ({"variance_of": ["pay", "pay"]}, "twice"),
        ({"quantile_of": ["pay"], "quantiles": [3]}, "between 0 and 1"),
        ({"quantile_of": ["ill"]}, "no number"),
        ({"variance_of": ["nothing"]}, "lacks"),
    ],
)
def test_what_else_is_refused_before_a_charge(
    people: pd.DataFrame, tmp_path: Path, parameters: dict, says: str
) -> None:
    account = Ledger(tmp_path / "ledger.db").account("people", 1.0, 1e-3, source="people")
    with pytest.raises(InvalidParameter, match=says):
        GroupedTable(**{"schema": SCHEMA, "by": ["age"], "account": account, **parameters}).fit(people)
    assert account.spent().epsilon == 0


def test_dates_are_shown_as_dates_and_have_no_sums() -> None:
    generator = np.random.default_rng(0)
    seen = pd.Timestamp("2026-01-01") + pd.to_timedelta(generator.integers(100, 103, 3000), unit="D")
    frame = pd.DataFrame({"ward": ["a", "b"] * 1500, "seen": seen})
    for bins in (None, ("2026-04-11", "2026-04-12", "2026-04-13", "2026-04-14")):
        date = Date(first="2026-01-01", last="2026-12-31", bins=bins)
        schema = Schema({"ward": Category(("a", "b")), "seen": date})
        asked_for = {"by": ["ward"], "mean_of": ["seen"], "quantile_of": ["seen"]}
        found = GroupedTable(20.0, schema=schema, **asked_for, random_state=0).fit(frame).table()
        assert found["median_seen"] == ["2026-04-12"] * 2
        assert found["median_seen_low"][0] <= "2026-04-12" <= found["median_seen_high"][0]
        assert set(found["mean_seen"]) <= {"2026-04-11", "2026-04-12"}
        assert "sum_seen" not in found
        alone = PrivateQuantiles(20.0, schema=schema, quantile_of=["seen"], random_state=0).fit(frame).table()
        assert alone["value"] == ["2026-04-12"]
        means = PrivateMean(20.0, schema=Schema({"seen": date}), random_state=0).fit(frame).table()
        assert means["mean_low"][0] <= means["mean"][0] <= means["mean_high"][0] < "2026-04-13"


def test_names_that_are_nearly_right_are_told(people: pd.DataFrame) -> None:
    with pytest.raises(InvalidParameter, match="Did you mean 'town'"):
        GroupedTable(1.0, schema=SCHEMA, by=["twon"]).fit(people)
    fitted = GroupedTable(1.0, schema=SCHEMA, by=["town", "age"], random_state=0).fit(people)
    with pytest.raises(InvalidParameter, match="Did you mean 'town'"):
        fitted.table(by=["twon"])


def test_values_of_a_dropped_column_never_leave(people: pd.DataFrame, tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger.db").account("people", 1.0, 1e-5, source="people")
    dropping = Schema(dict(SCHEMA.columns), drop=("name",))
    frame = people.assign(name="Ann")
    with pytest.raises(InvalidParameter, match="'name', which the schema leaves out"):
        GroupedTable(1.0, 1e-6, schema=dropping, keys=["name"], account=account).fit(frame)
    assert account.spent().epsilon == 0


def test_a_variance_of_which_nothing_is_known_is_none(people: pd.DataFrame) -> None:
    for seed in range(4):
        table = (
            GroupedTable(0.01, schema=SCHEMA, by=["town"], variance_of=["pay"], random_state=seed).fit(people).table()
        )
        for value, low, high in zip(*(table[f"variance_pay{end}"] for end in ("", "_low", "_high")), strict=True):
            assert (value is None) == ((low, high) == (0.0, 250_000.0))
            assert value is None
    known = GroupedTable(50.0, schema=SCHEMA, by=["town"], variance_of=["pay"], random_state=0).fit(people).table()
    assert None not in known["variance_pay"]


def test_the_column_that_says_whose_row_it_is_is_told_as_such():
    schema = Schema(dict(SCHEMA.columns), Person("who", 3))
    with pytest.raises(InvalidParameter, match="`by` names 'who', which says whose row it is"):
        GroupedTable(1.0, schema=schema, by=["who"]).fit({"who": ["a"]})
