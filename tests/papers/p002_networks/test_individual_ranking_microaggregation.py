"""Microaggregation as the paper takes it: groups of neighbouring values, noise on what a group is given, rows in their places."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sudare.errors import DataError, InvalidParameter, SchemaError
from sudare.papers.p002_networks.individual_ranking_microaggregation import groups_of_rows, individually_ranked
from sudare.schema import Category, Label, Number, Schema

SCHEMA = Schema({"age": Number(0, 100), "smoker": Category(("no", "yes", "was")), "ill": Label((0, 1))})


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    people = pd.DataFrame({"age": generator.uniform(0, 100, 205), "smoker": generator.choice(["no", "yes"], 205)})
    return people.assign(ill=(people["age"] > 50).astype(int)).set_index(np.arange(205) * 2)


def test_groups_are_rows_that_follow_each_other():
    np.testing.assert_array_equal(groups_of_rows(np.array([5.0, 1.0, 4.0, 2.0, 3.0]), 2), [1, 0, 1, 0, 1])
    assert set(groups_of_rows(np.arange(3.0), 10)) == {0}


def test_with_little_noise_rows_get_the_means_and_the_most_frequent_values_of_their_groups(table):
    published = individually_ranked(table, SCHEMA, 1e9, np.random.default_rng(1), group_size=20)
    assert list(published.index) == list(table.index)
    order = np.argsort(table["age"].to_numpy())
    ages, sorted_ages = published["age"].to_numpy()[order], table["age"].to_numpy()[order]
    np.testing.assert_allclose(ages[:20], sorted_ages[:20].mean(), rtol=1e-6)
    np.testing.assert_allclose(ages[180:], sorted_ages[180:].mean(), rtol=1e-6)
    # Sorted categories differ within one group only, where the rarer ones get the value of the others.
    assert np.mean(published["smoker"] == table["smoker"]) > 0.9
    assert np.mean(published["ill"] == table["ill"]) > 0.9


def test_noise_grows_with_columns_and_shrinks_with_groups_and_epsilon(table):
    """Scale 100·3/(20ε) for three columns: that of the ten means over many draws."""
    alike = individually_ranked(table, SCHEMA, 1e9, np.random.default_rng(1), 20)["age"]
    drawn = [individually_ranked(table, SCHEMA, 30.0, np.random.default_rng(seed), 20)["age"] for seed in range(300)]
    moves = np.unique(np.abs(np.array(drawn) - alike.to_numpy()))
    assert np.median(moves) == pytest.approx(0.5 * np.log(2), rel=0.1)


def test_values_stay_within_declared_ones_whatever_the_noise(table):
    published = individually_ranked(table, SCHEMA, 1e-3, np.random.default_rng(2))
    assert published["age"].between(0, 100).all()
    assert set(published["smoker"]) <= {"no", "yes", "was"}
    assert published["age"].nunique() == 205 // 14 or published["age"].isin([0, 100]).any()


def test_what_cannot_be_ranked_is_told(table):
    generator = np.random.default_rng(0)
    for wrong, error, told in (
        (table.assign(smoker="never"), SchemaError, "does not list"),
        (table.assign(age=np.nan), SchemaError, "lacks a value"),
        (table.drop(columns="ill"), SchemaError, "lacks 'ill'"),
        (table.assign(age="medicine731"), SchemaError, "holds text"),
        (table.assign(age=["medicine731", *table["age"][1:]]), SchemaError, "'age'"),
        (table[:0], DataError, "no rows"),
    ):
        with pytest.raises(error, match=told) as raised:
            individually_ranked(wrong, SCHEMA, 1.0, generator)
        assert "never" not in str(raised.value)
        assert "medicine731" not in str(raised.value)
    with pytest.raises(InvalidParameter, match="epsilon must be"):
        individually_ranked(table, SCHEMA, 0.0, generator)
    with pytest.raises(InvalidParameter, match="group_size must be"):
        individually_ranked(table, SCHEMA, 1.0, generator, 0)
