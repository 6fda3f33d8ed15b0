"""Drafts that are paid for: bounds and values are about right, costs are what was said, and bad input charges nothing."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sudare.errors import (
    ColumnMissing,
    InvalidCost,
    InvalidParameter,
    MissingValue,
    SchemaError,
    SudareError,
    WrongType,
)
from sudare.privacy import Ledger
from sudare.privacy.noise import SeededNoise
from sudare.schema import Category, Date, Label, Number, Person, Schema
from sudare.statistics import schema_discovery
from sudare.statistics.found_bounds import RULE, FoundNumber, stage_epsilons, whole_bounds, whole_number
from sudare.statistics.schema_discovery import draft_privately, found_column, planned_draft

ROWS = 30_000


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    g = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "id": [f"p{row}" for row in range(ROWS)],
            "age": g.integers(18, 95, ROWS),
            "income": np.where(g.random(ROWS) < 0.2, np.nan, g.lognormal(8, 1, ROWS)),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(g.integers(0, 700, ROWS), unit="D"),
            "ward": np.where(g.random(ROWS) < 0.1, None, g.choice(["surgery", "medicine"], ROWS)),
            "smoker": g.random(ROWS) < 0.3,
            "empty": np.full(ROWS, np.nan),
        }
    )


def test_what_is_found_is_about_right_and_said_to_be_found(table: pd.DataFrame) -> None:
    table = table.assign(ward=table["ward"].where(np.arange(ROWS) != 5, "only once"))
    plan = planned_draft(table, epsilon=5.0, drop=["id"])
    assert plan.found == ("age", "income", "day", "ward", "empty")
    assert (plan.column_epsilon, plan.column_delta) == (1.0, 1e-6)
    draft = draft_privately(table, plan, random_state=0)
    assert not draft.guarantee.valid
    assert "NOTHING WAS CHARGED" in draft.text
    assert draft.text.count("found with ε = 1 of the 5 charged") == 4
    found = Schema.from_toml(draft.text.replace('low = "?"', "low = 0").replace('high = "?"', "high = 1"))
    age, income, day, ward = (found.columns[name] for name in ("age", "income", "day", "ward"))
    assert isinstance(age, Number)
    assert age.whole
    assert 14 <= age.low <= 18
    assert 94 <= age.high <= 100
    assert age.bins is not None
    assert np.allclose(age.bins, np.quantile(table["age"], np.arange(1, 10) / 10), atol=4)
    assert isinstance(income, Number)
    assert income.missing == "centre"
    assert np.nanquantile(table["income"], 0.999) < income.high < 10 * table["income"].max()
    assert isinstance(day, Date)
    assert "2019-11-01" < day.first <= "2020-01-05"
    assert "2021-11-20" < day.last < "2022-02-01"
    assert ward == Category(
        (*sorted({"surgery", "medicine"}, key=draft.text.find), "(other)"), missing="(missing)", other="(other)"
    )
    assert "only once" not in draft.text
    assert found.columns["smoker"] == Category((False, True))
    assert "too few to be found" in draft.text
    assert found.drop == ("id",)


def test_a_charged_draft_costs_what_its_plan_says_before_it_looks(table: pd.DataFrame, tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger.db").account("visits", 2.0, 1e-5)
    plan = planned_draft(table, epsilon=0.5, delta=2e-6, drop=["id", "empty"])
    draft = draft_privately(table, plan, account)
    assert draft.receipt is not None
    assert draft.guarantee == plan.guarantee
    assert account.remaining() == pytest.approx((1.5, 8e-6))
    assert "NOTHING WAS CHARGED" not in draft.text
    only_numbers = planned_draft(table, epsilon=0.5, delta=0.0, drop=["id"])
    assert only_numbers.found == ("age", "income", "day", "empty")
    assert only_numbers.guarantee.delta == 0
    draft_privately(table, only_numbers, account)
    assert account.remaining() == pytest.approx((1.0, 8e-6))


def test_nothing_is_spent_on_what_is_declared(table: pd.DataFrame) -> None:
    known = Schema({"age": Number(0, 110), "smoker": Label((False, True))}, Person("id", 1), drop=["empty"])
    plan = planned_draft(table, epsilon=3.0, declared=known)
    assert plan.found == ("income", "day", "ward")
    draft = draft_privately(table, plan, random_state=1)
    found = Schema.from_toml(draft.text)
    assert (found.columns["age"], found.label, found.person) == (Number(0, 110), "smoker", Person("id", 1))
    assert draft.text.count("# declared\n") == 3
    target = Schema({"age": Number(0, 110)}, target="age", drop=["id", "empty"])
    again = draft_privately(table, planned_draft(table, epsilon=3.0, declared=target), random_state=1)
    assert Schema.from_toml(again.text).target == "age"


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (InvalidCost, {"epsilon": 0.0}),
        (InvalidCost, {"epsilon": 1.0, "delta": 2.0}),
        (InvalidParameter, {"epsilon": 0.01, "delta": 0.5}),
        (ColumnMissing, {"epsilon": 1.0, "drop": ["nothing"]}),
        (ColumnMissing, {"epsilon": 1.0, "person": Person("nobody", 2)}),
        (InvalidParameter, {"epsilon": 1.0, "drop": ["id", "age", "income", "day", "ward", "empty"]}),
    ],
)
def test_what_cannot_be_planned_is_refused(table: pd.DataFrame, error: type[SudareError], asked: Any) -> None:
    with pytest.raises(error):
        planned_draft(table, **asked)


def test_bad_rows_are_told_before_a_charge(table: pd.DataFrame, tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger.db").account("visits", 2.0, 1e-5)
    nobody = pd.DataFrame({"id": ["1", None, "2"], "x": [1.0, 2.0, 3.0]})
    with pytest.raises(MissingValue):
        draft_privately(nobody, planned_draft(nobody, epsilon=1.0, person=Person("id", 1)), account)
    (tmp_path / "late.csv").write_text("x,y\n" + "1,2\n" * 2_000_000 + "1,2.5\n")
    plan = planned_draft(tmp_path / "late.csv", epsilon=1.0)
    with pytest.raises(WrongType, match="not whole"):
        draft_privately(tmp_path / "late.csv", plan, account)
    with pytest.raises(InvalidParameter, match="read only once"):
        planned_draft(iter([nobody]), epsilon=1.0)
    with pytest.raises(SchemaError, match="looks like a value"):
        planned_draft({"3.5": [1.0]}, epsilon=1.0)
    assert account.remaining() == (2.0, 1e-5)


@pytest.mark.parametrize("kind", ["fractions", "whole numbers", "dates or times"])
@pytest.mark.parametrize(
    "values", [[0.0], [5.0], [np.nan], [np.inf], [-np.inf, np.inf], [1e300, -1e300], [2.0**60], [1e-300], [0.0, 1.0], [1e15, 1e15 + 1]]
)  # fmt: skip
def test_no_column_makes_a_draft_fail(values: list[float], kind: str) -> None:
    for repeats in (1, 5000):
        for epsilon in (0.01, 10.0):
            found_column(np.repeat(values, repeats), kind, epsilon, 3, SeededNoise(2))


def test_spellings_of_one_value_are_found_as_one() -> None:
    values = pd.DataFrame({"c": ["\u00c5", "A\u030a", "b"] * 500})
    draft = draft_privately(values, planned_draft(values, epsilon=5.0), random_state=0)
    assert draft.found["c"]["values"] == ["\u00c5", "b", "(other)"]


def test_shares_never_add_up_to_more() -> None:
    assert sum(RULE.shares) == pytest.approx(1)
    for epsilon in (0.1, 0.3, 1 / 3, 7.0):
        assert sum(stage_epsilons(epsilon)) <= epsilon


def test_bounds_of_whole_numbers_are_those_in_whose_cells_they_lie() -> None:
    assert whole_bounds(-0.5, 1.6) == (0, 1)
    assert whole_bounds(-0.8, 1.8) == (-1, 2)
    assert whole_bounds(2.5, 3.4) == (3, 4)
    assert whole_number(FoundNumber(-0.5, 1.1, (0.2, 0.3, 0.7))) == FoundNumber(0, 1, ())


def test_of_a_person_no_more_rows_are_counted_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As learners do: a person with many rows is cut, not refused."""
    seen: list[int] = []
    counted = schema_discovery.found_column
    monkeypatch.setattr(
        schema_discovery, "found_column", lambda values, *rest: (seen.append(len(values)), counted(values, *rest))[1]
    )
    many = pd.DataFrame({"id": [1] * 9 + [2, 3], "x": np.arange(11.0)})
    for person in (Person("id", 2), Person("id", "auto", 2)):
        draft = draft_privately(many, planned_draft(many, epsilon=1.0, person=person), random_state=1)
        assert tomllib.loads(draft.text)["person"]["most_rows"] == person.most_rows
    assert seen == [4, 4]


def test_a_column_to_drop_that_is_nearly_right_is_told(table: pd.DataFrame) -> None:
    with pytest.raises(ColumnMissing, match="Did you mean 'income'"):
        planned_draft(table, epsilon=1.0, drop=["imcome"])


def test_declared_facts_about_several_columns_stay_in_the_draft(table: pd.DataFrame) -> None:
    known = Schema(
        {"age": Number(0, 110, bins=(18,)), "smoker": Category((False, True))},
        drop=["id", "empty"],
        impossible=[{"age": {"below": 18}, "smoker": True}],
    )
    found = Schema.from_toml(
        draft_privately(table, planned_draft(table, epsilon=3.0, declared=known), random_state=1).text
    )
    assert found.impossible == known.impossible
