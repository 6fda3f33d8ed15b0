"""What mechanisms cost together that are chosen before any of them runs: on disjoint parts, and in a batch."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from sudare.errors import InvalidCost
from sudare.privacy import composition
from sudare.privacy.accounting import (
    TOTAL_VARIATION_SHARE,
    Cost,
    approximate_cost,
    exact,
    gaussian_cost,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu_within,
    pure_cost,
    rounded_down,
    total_variation_delta,
)
from sudare.privacy.composition import PARTS, Parts, declared_batch, parallel_cost


def test_parts_are_typed() -> None:
    words: tuple[Parts, ...] = PARTS
    assert words == ("public", "by-value")


class TestParallel:
    COSTS = (pure_cost(1.0), approximate_cost(2.0, 1e-6), pure_cost(0.5), approximate_cost(0.25, 1e-5))

    def test_public_parts_cost_the_largest(self) -> None:
        assert parallel_cost(self.COSTS, "public") == approximate_cost(2.0, 1e-5)
        assert parallel_cost(self.COSTS, "public", "add-remove") == approximate_cost(2.0, 1e-5)

    def test_parts_by_value_cost_the_two_largest_when_a_record_is_replaced(self) -> None:
        assert parallel_cost(self.COSTS, "by-value") == Cost(Fraction(3), Fraction(11, 10**6))
        assert parallel_cost(self.COSTS, "by-value", "add-remove") == approximate_cost(2.0, 1e-5)

    def test_one_part_costs_what_it_costs(self) -> None:
        cost = gaussian_cost(0.5, 1e-6, Fraction(1, 2**60))
        assert parallel_cost([cost], "public") is cost
        assert parallel_cost([cost], "by-value") is cost
        assert parallel_cost([cost, cost], "public") is cost
        assert parallel_cost([cost, cost], "by-value", "add-remove") is cost

    def test_equal_parts_by_value_cost_twice(self) -> None:
        assert parallel_cost([pure_cost(0.1)] * 5, "by-value") == pure_cost(0.2)

    def test_gaussian_parts_stay_gaussian(self) -> None:
        costs = [gaussian_cost(0.5, 1e-6, Fraction(1, 2**60)), gaussian_cost(1.0, 1e-6), gaussian_cost(0.1, 1e-6)]
        public, by_value = parallel_cost(costs, "public"), parallel_cost(costs, "by-value")
        first, second = gaussian_mu_within(1.0, 1e-6), gaussian_mu_within(0.5, 1e-6)
        assert public.mu == math.nextafter(first, math.inf)
        assert public.epsilon == 1
        assert by_value.mu == pytest.approx(math.hypot(first, second), rel=1e-15)
        assert Fraction(by_value.mu or 0) ** 2 >= Fraction(first) ** 2 + Fraction(second) ** 2
        assert by_value.epsilon == Fraction(3, 2)
        for cost in (public, by_value):
            assert cost.total_variation == Fraction(1, 2**60)
            assert cost.delta == exact(gaussian_delta(cost.mu or 0, float(cost.epsilon))) + total_variation_delta(
                cost.epsilon, cost.total_variation
            )

    def test_distances_of_two_parts_add_up(self) -> None:
        costs = [gaussian_cost(0.5, 1e-6, Fraction(1, 2**60)), gaussian_cost(1.0, 1e-6, Fraction(1, 2**61))]
        assert parallel_cost(costs, "by-value").total_variation == Fraction(3, 2**61)
        assert parallel_cost(costs, "public").total_variation == Fraction(1, 2**60)

    def test_mixed_parts_are_summed_as_epsilon_and_delta(self) -> None:
        mixed = parallel_cost([gaussian_cost(0.5, 1e-6), pure_cost(1.0)], "by-value")
        assert mixed == approximate_cost(1.5, 1e-6)

    def test_nothing_has_no_cost(self) -> None:
        with pytest.raises(InvalidCost) as caught:
            parallel_cost([], "public")
        assert caught.value.problem == "Parallel composition of nothing has no cost."
        assert caught.value.remedy == "Give at least one cost."

    @pytest.mark.parametrize(("parts", "neighbours"), [("by_value", "replace-one"), ("by-value", "replace")])
    def test_a_slip_of_the_pen_is_not_the_cheaper_rule(self, parts: Any, neighbours: Any) -> None:
        with pytest.raises(InvalidCost) as caught:
            parallel_cost([pure_cost(1.0)], parts, neighbours)
        assert (
            caught.value.problem
            == "parts must be one of public, by-value and neighbours one of replace-one, add-remove."
        )
        assert caught.value.remedy == "Use these words."


class TestDeclaredBatch:
    def test_nothing_has_no_cost(self) -> None:
        with pytest.raises(InvalidCost) as caught:
            declared_batch([], 1e-6)
        assert caught.value.problem == "A batch of nothing has no cost."
        assert caught.value.remedy == "Give at least one cost."

    @pytest.mark.parametrize("delta", [-1.0, 1.0, math.nan, True])
    def test_delta_is_checked(self, delta: Any) -> None:
        with pytest.raises(InvalidCost, match="delta must be"):
            declared_batch([pure_cost(1.0)], delta)

    def test_many_small_costs_are_less_than_their_sum(self) -> None:
        cost = declared_batch([pure_cost(0.1)] * 100, 1e-6)
        assert 4.7745 < cost.epsilon < 4.7747
        assert cost.delta == Fraction(1, 10**6)
        assert cost.mu is None

    def test_where_the_plain_sum_is_less_it_is_the_plain_sum(self) -> None:
        assert declared_batch([pure_cost(0.1)], 1e-13) == pure_cost(0.1)
        assert declared_batch([pure_cost(0.1)] * 3, 0.0) == pure_cost(0.3)
        assert declared_batch([approximate_cost(0.1, 1e-7)] * 3, 3e-7) == approximate_cost(0.3, 3e-7)
        assert declared_batch([pure_cost(1e-6)] * 3, 1e-9) == pure_cost(3e-6)

    def test_where_delta_does_not_allow_the_plain_sum_it_is_not(self) -> None:
        cost = declared_batch([approximate_cost(0.1, 1e-7)] * 3, 3.1e-7)
        assert Fraction(2999, 10**4) < cost.epsilon < Fraction(3, 10)
        assert cost.delta == exact(3.1e-7)
        with pytest.raises(InvalidCost) as caught:
            declared_batch([approximate_cost(0.1, 1e-7)] * 3, 2.9e-7)
        assert caught.value.problem == "delta = 2.9e-07 is too small for this batch."
        assert caught.value.remedy == "Use for example delta=1e-6."

    def test_gaussian_costs_compose_by_mu(self) -> None:
        single = gaussian_cost(0.5, 1e-6)
        assert single.mu is not None
        cost = declared_batch([single] * 30, 1e-6)
        assert float(cost.epsilon) == pytest.approx(gaussian_epsilon(single.mu * math.sqrt(30), 1e-6), rel=1e-4)
        assert gaussian_delta(single.mu * math.sqrt(30), rounded_down(cost.epsilon)) < 1e-6

    def test_costs_of_different_kinds_compose(self) -> None:
        costs = [gaussian_cost(0.5, 1e-6), pure_cost(0.1), pure_cost(0.1), gaussian_cost(0.25, 1e-6)]
        cost = declared_batch(costs, 1e-5)
        alone = declared_batch(costs[:1], 1e-5)
        assert alone.epsilon < cost.epsilon < Fraction(95, 100)

    def test_distances_are_paid_from_the_share_that_was_kept(self) -> None:
        near = gaussian_cost(0.5, 1e-6, Fraction(1, 2**70))
        cost = declared_batch([near] * 30, 1e-6)
        assert cost.delta == Fraction(1, 10**6)
        assert cost.epsilon == declared_batch([gaussian_cost(0.5, 1e-6)] * 30, 1e-6).epsilon

    def test_distances_beyond_the_share_are_added(self) -> None:
        far = gaussian_cost(0.5, 1e-5, Fraction(1, 2**40))
        cost = declared_batch([far] * 30, 1e-6)
        paid = total_variation_delta(cost.epsilon, 30 * Fraction(1, 2**40))
        assert cost.delta == exact(1e-6) * (1 - TOTAL_VARIATION_SHARE) + paid
        assert cost.delta > exact(1e-6)

    def test_a_delta_so_large_that_epsilon_vanishes(self) -> None:
        cost = declared_batch([gaussian_cost(0.01, 1e-3)] * 2, 0.5)
        assert cost.epsilon == exact(2.0**-1022)
        assert cost.delta == Fraction(1, 2)

    def test_large_losses_stay_small_in_memory(self) -> None:
        cost = declared_batch([pure_cost(600.0), gaussian_cost(600.0, 1e-6)], 1e-5)
        assert 600 < cost.epsilon <= 1200

    def test_losses_too_large_for_floats_have_the_plain_sum_or_nothing(self) -> None:
        assert declared_batch([pure_cost(700.1)] * 2, 1e-6) == Cost(Fraction(14002, 10))
        assert composition._composed_epsilon([pure_cost(700.0)], Fraction(1, 10)) < 701
        assert composition._composed_epsilon([pure_cost(1.0), pure_cost(700.1)], Fraction(1, 10)) == math.inf
        with pytest.raises(InvalidCost, match="too small for this batch"):
            declared_batch([gaussian_cost(701.0, 1e-3)], 1e-6)

    def test_steps_grow_with_the_losses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        steps: list[float] = []
        original = composition._loss_distribution

        def noted(cost: Cost, step: float) -> Any:
            steps.append(step)
            return original(cost, step)

        monkeypatch.setattr(composition, "_loss_distribution", noted)
        declared_batch([pure_cost(20.0)], 1e-6)
        declared_batch([pure_cost(20.1)], 1e-6)
        for pure in (38.0, 37.0):
            declared_batch([pure_cost(pure), Cost(Fraction(1, 2), Fraction(9, 10), 1.5)], 1e-6)
        assert steps == [1e-4, 2e-4, 3 * 1e-4, 3 * 1e-4, 2e-4, 2e-4]
