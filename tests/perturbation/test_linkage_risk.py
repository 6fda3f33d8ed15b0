"""The k rule and its reverse, and what is said about linking, local and central promise."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import DataError
from sudare.perturbation import LaplacePerturbation, PerturbationPromise, epsilon_of_k, k_of_epsilon
from sudare.perturbation.linkage_risk import central_epsilon
from sudare.privacy.guarantee import Guarantee

rows_and_k = st.integers(2, 10**9).flatmap(lambda k: st.tuples(st.just(k), st.integers(k + 1, 10**12)))


@given(rows_and_k)
def test_epsilon_of_k_keeps_k(case: tuple[int, int]) -> None:
    """The float is at most the real number, and less by less than a billionth; back again it gives at least k."""
    k, rows = case
    if rows - 1 <= (k - 1) * 1.0001:
        return
    epsilon = epsilon_of_k(k, rows)
    assert epsilon == pytest.approx(0.5 * math.log((rows - 1) / (k - 1)), rel=1e-9)
    assert k_of_epsilon(epsilon, rows) >= k * (1 - 1e-15)


def test_persons_with_several_rows_need_less_epsilon() -> None:
    one, three = epsilon_of_k(2, 10_000), epsilon_of_k(2, 10_000, rows_per_person=3)
    assert three == pytest.approx(0.5 * math.log((10_000 - 3) / 3))
    assert three < one
    assert k_of_epsilon(three, 10_000, 3) == pytest.approx(2)


def test_central_epsilon_of_persons_is_at_most_the_local_one() -> None:
    assert central_epsilon(1.0, 10, 1e-6, 3) == 3.0
    three = central_epsilon(1.0, 10**6, 1e-6, 3)
    assert 3 * central_epsilon(1.0, 10**6, 1e-6) < three < 0.2


def test_the_three_promises_are_told_together() -> None:
    perturbation = LaplacePerturbation((17, 90), k=2, n_records=32_561)
    text = str(perturbation.statement())
    assert "probability above 1/2 (k = 2 among 32,561 shuffled rows)" in text
    assert "Local: ε = 5.19542 for every record" in text
    assert "weak on its own" in text
    assert "Central, after shuffling: ε = 0.62" in text
    assert "at δ = 1e-6, replace-one record" in text
    assert perturbation.statement().to_dict()["text"] == text.split("\n")


def test_without_shuffling_the_statement_is_withheld() -> None:
    statement = LaplacePerturbation((17, 90), k=2, n_records=32_561).statement(shuffled=False)
    assert statement.k is None
    assert statement.central_epsilon is None
    assert str(statement).count("no statement; the rows were not shuffled") == 2
    assert "1/2" not in str(statement)
    assert statement.to_dict()["central"] is None


def test_seeded_noise_hides_nobody() -> None:
    statement = PerturbationPromise.of(Guarantee(1.0, notion="local", valid=False), 1000)
    assert statement.k is None
    assert "the noise came from a seed" in str(statement)


def test_weak_linking_is_called_weak() -> None:
    text = str(PerturbationPromise.of(Guarantee(8.0, notion="local"), 100))
    assert "may be linked to a given record with probability up to" in text
    assert "no useful amplification at this size" in text


def test_one_record_has_nobody_to_hide_among() -> None:
    assert "nobody to hide among" in str(PerturbationPromise.of(Guarantee(1.0, notion="local"), 1))


def test_persons_are_named() -> None:
    epsilon = epsilon_of_k(4, 9_000, 3)
    local = Guarantee(3 * epsilon, unit="person", notion="local")
    statement = PerturbationPromise.of(local, 9_000, row_epsilon=epsilon, rows_per_person=3)
    assert "link a row to a given person with probability above 1/4" in str(statement)
    assert statement.k == pytest.approx(4)


def test_a_statement_needs_a_number_of_rows() -> None:
    perturbation = LaplacePerturbation((0, 1), epsilon=1.0)
    with pytest.raises(DataError, match="not known"):
        perturbation.statement()
    assert perturbation.statement(500).rows == 500
