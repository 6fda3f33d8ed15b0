"""What a batch of mechanisms costs that was fixed before any of them runs."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from sudare.errors import InvalidCost
from sudare.papers.own_studies import batch_composition
from sudare.papers.own_studies.batch_composition import declared_batch
from sudare.privacy.accounting import (
    TOTAL_VARIATION_SHARE,
    Cost,
    approximate_cost,
    exact,
    gaussian_cost,
    gaussian_delta,
    gaussian_epsilon,
    pure_cost,
    rounded_down,
    total_variation_delta,
)


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
        assert batch_composition._composed_epsilon([pure_cost(700.0)], Fraction(1, 10)) < 701
        assert batch_composition._composed_epsilon([pure_cost(1.0), pure_cost(700.1)], Fraction(1, 10)) == math.inf
        with pytest.raises(InvalidCost, match="too small for this batch"):
            declared_batch([gaussian_cost(701.0, 1e-3)], 1e-6)

    def test_steps_grow_with_the_losses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        steps: list[float] = []
        original = batch_composition._loss_distribution

        def noted(cost: Cost, step: float) -> Any:
            steps.append(step)
            return original(cost, step)

        monkeypatch.setattr(batch_composition, "_loss_distribution", noted)
        declared_batch([pure_cost(20.0)], 1e-6)
        declared_batch([pure_cost(20.1)], 1e-6)
        for pure in (38.0, 37.0):
            declared_batch([pure_cost(pure), Cost(Fraction(1, 2), Fraction(9, 10), 1.5)], 1e-6)
        assert steps == [1e-4, 2e-4, 3 * 1e-4, 3 * 1e-4, 2e-4, 2e-4]
