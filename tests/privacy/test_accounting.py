"""Costs, totals and budgets: exact sums, rounding towards more privacy, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from sudare.errors import InvalidCost, RelationMismatch
from sudare.privacy import accounting
from sudare.privacy.accounting import (
    COMPOSITIONS,
    TOTAL_VARIATION_SHARE,
    Budget,
    Cost,
    Spent,
    approximate_cost,
    decimal_down,
    decimal_up,
    exact,
    gaussian_cost,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_mu_within,
    mu_of_pure,
    pure_cost,
    rational,
    rounded_down,
    rounded_up,
    rounded_up_root,
    total_variation_delta,
)

LARGEST = 1.7976931348623157e308
BEYOND_FLOATS = Fraction(10) ** 400
TINY = Fraction(1, 10**400)
FRACTIONS = st.fractions(min_value=0, max_value=1000, max_denominator=10**30)
EPSILONS = st.floats(1e-3, 20)
DELTAS = st.floats(1e-12, 0.1)


def test_the_words_there_are() -> None:
    assert COMPOSITIONS == ("basic", "gaussian")
    assert Fraction(1, 1048576) == TOTAL_VARIATION_SHARE


class TestRationals:
    def test_a_float_is_the_decimal_a_person_typed(self) -> None:
        assert exact(0.1) == Fraction(1, 10)
        assert exact(1e-6) == Fraction(1, 10**6)
        assert exact(3) == 3

    def test_ten_tenths_are_one_and_a_tenth_and_two_tenths_are_three(self) -> None:
        assert 10 * exact(0.1) == exact(1.0)
        assert exact(0.1) + exact(0.2) == exact(0.3)
        assert 0.1 + 0.2 != 0.3

    @given(FRACTIONS)
    def test_rounding_to_the_nearest_floats_around(self, number: Fraction) -> None:
        up, down = rounded_up(number), rounded_down(number)
        assert Fraction(down) <= number <= Fraction(up)
        assert up in (down, math.nextafter(down, math.inf))

    @given(st.floats(0, 1e300))
    def test_floats_are_not_rounded(self, number: float) -> None:
        assert rounded_up(Fraction(number)) == rounded_down(Fraction(number)) == number

    @given(FRACTIONS)
    def test_decimals_around(self, number: Fraction) -> None:
        up, down = decimal_up(number), decimal_down(number)
        assert exact(down) <= number <= exact(up)
        assert up in (down, math.nextafter(down, math.inf))

    @given(st.floats(0, 1e300))
    def test_decimals_that_a_person_can_type_are_kept(self, number: float) -> None:
        assert decimal_up(exact(number)) == decimal_down(exact(number)) == number

    def test_beyond_all_floats(self) -> None:
        assert rounded_up(BEYOND_FLOATS) == math.inf
        assert rounded_down(BEYOND_FLOATS) == LARGEST
        assert rounded_up(-BEYOND_FLOATS) == -LARGEST
        assert rounded_down(-BEYOND_FLOATS) == -math.inf
        assert decimal_up(BEYOND_FLOATS) == math.inf

    def test_below_all_floats(self) -> None:
        assert rounded_up(TINY) == 5e-324
        assert rounded_down(TINY) == 0.0
        assert decimal_up(TINY) == 5e-324
        assert decimal_down(TINY) == 0.0

    @given(FRACTIONS)
    def test_text_is_read_back(self, number: Fraction) -> None:
        assert rational(str(number)) == number

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "-1",
            "1/0",
            "1/02",
            "01",
            "0.5",
            "1e9",
            "1e999999999",
            " 1",
            "1/",
            "1/2/3",
            "1_0",
            "nan",
            "٣",
            "1\n",
            1,
            0.5,
            None,
        ],
    )
    def test_other_text_is_refused(self, text: object) -> None:
        with pytest.raises(ValueError, match=r"^not a rational$"):
            rational(text)

    @given(FRACTIONS)
    def test_roots_are_not_too_small(self, number: Fraction) -> None:
        root = rounded_up_root(number)
        assert Fraction(root) ** 2 >= number
        assert root <= math.sqrt(number) * (1 + 1e-15) + 5e-324


class TestGaussian:
    @given(st.floats(0.01, 10), st.floats(0, 20))
    def test_delta_is_the_formula_rounded_up(self, mu: float, epsilon: float) -> None:
        first = norm.cdf(mu / 2 - epsilon / mu)
        second = math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
        assert gaussian_delta(mu, epsilon) == pytest.approx(first - second, rel=1e-9, abs=1e-14)

    def test_delta_has_all_its_digits(self) -> None:
        # Φ(1/2 − 1) − e·Φ(−1/2 − 1) and Φ(1/2 − 40) − e⁴⁰·Φ(−1/2 − 40), from 60 digits of mpmath.
        assert gaussian_delta(1.0, 1.0) == pytest.approx(0.126936737506643945, rel=3e-16)
        assert gaussian_delta(1.0, 40.0) == pytest.approx(3.8977037943e-343 * 1e0, abs=5e-324)

    @given(st.floats(0.01, 5), st.floats(0, 5))
    def test_delta_is_never_below_twice_the_precision(self, mu: float, epsilon: float) -> None:
        from flint import arb
        from flint import ctx as ball_context

        with ball_context.workprec(400):
            scale, loss = arb(mu), arb(epsilon)
            left = (-(scale / 2 - loss / scale) / arb(2).sqrt()).erfc() / 2
            right = ((scale / 2 + loss / scale) / arb(2).sqrt()).erfc() / 2
            truth = left - loss.exp() * right
            found = gaussian_delta(mu, epsilon)
            assert arb(found) > truth
            assert arb(math.nextafter(math.nextafter(found, 0), 0)) < truth

    def test_delta_at_its_ends(self) -> None:
        assert gaussian_delta(0.0, 1.0) == 0.0
        assert gaussian_delta(0.0, 0.0) == 0.0
        assert gaussian_delta(1e-200, 1.0) == 5e-324
        assert gaussian_delta(100.0, 0.0) == 1.0
        assert gaussian_delta(1e300, 1.0) == 1.0
        assert 0.3829 < gaussian_delta(1.0, 0.0) < 0.38293

    @pytest.mark.parametrize(("mu", "epsilon"), [(math.inf, 1.0), (math.nan, 1.0), (1.0, math.inf), (1.0, 1e300)])
    def test_what_cannot_be_computed_promises_nothing(self, mu: float, epsilon: float) -> None:
        assert gaussian_delta(mu, epsilon) == 1.0

    @given(EPSILONS, DELTAS)
    def test_mu_is_the_last_float_that_keeps_the_promise(self, epsilon: float, delta: float) -> None:
        mu = gaussian_mu(epsilon, delta)
        assert gaussian_delta(mu, epsilon) <= delta
        assert gaussian_delta(math.nextafter(mu, math.inf), epsilon) > delta

    @pytest.mark.parametrize(("epsilon", "delta"), [(1e-12, 1e-18), (1e-20, 1e-20), (100.0, 0.9), (1e4, 1e-300)])
    def test_mu_far_from_one_has_all_its_digits(self, epsilon: float, delta: float) -> None:
        mu = gaussian_mu(epsilon, delta)
        assert gaussian_delta(mu, epsilon) <= delta < gaussian_delta(mu * (1 + 1e-15), epsilon)

    @given(st.floats(0.01, 5), DELTAS)
    def test_epsilon_is_the_first_float_that_keeps_the_promise(self, mu: float, delta: float) -> None:
        epsilon = gaussian_epsilon(mu, delta)
        assert gaussian_delta(mu, epsilon) <= delta
        assert epsilon == 0 or gaussian_delta(mu, math.nextafter(epsilon, 0)) > delta

    @given(EPSILONS, DELTAS)
    def test_there_and_back_never_claims_more(self, epsilon: float, delta: float) -> None:
        assert gaussian_epsilon(gaussian_mu(epsilon, delta), delta) <= epsilon

    def test_epsilon_at_its_ends(self) -> None:
        assert gaussian_epsilon(0.0, 0.0) == 0.0
        assert gaussian_epsilon(0.0, 0.1) == 0.0
        assert gaussian_epsilon(1.0, 0.0) == math.inf
        assert gaussian_epsilon(1e200, 1e-6) == math.inf
        assert gaussian_epsilon(0.1, gaussian_delta(0.1, 0.0)) == 0.0
        assert gaussian_epsilon(0.1, math.nextafter(gaussian_delta(0.1, 0.0), 0)) > 0.0
        assert gaussian_epsilon(50.0, 1e-6) > 1250

    def test_too_small_to_compute(self) -> None:
        assert gaussian_mu(3e-308, 3e-308) == 0.0
        with pytest.raises(InvalidCost) as caught:
            gaussian_mu_within(3e-308, 3e-308)
        assert caught.value.problem == "epsilon = 3e-308 and delta = 3e-308 are too small for Gaussian noise."
        assert caught.value.remedy == "Use larger ones."

    @given(EPSILONS, DELTAS)
    def test_a_share_of_delta_is_kept_for_the_sampler(self, epsilon: float, delta: float) -> None:
        mu = gaussian_mu_within(epsilon, delta)
        kept = exact(delta) * (1 - TOTAL_VARIATION_SHARE)
        assert gaussian_delta(mu, epsilon) <= kept < gaussian_delta(mu * (1 + 1e-14), epsilon)

    def test_gaussian_noise_needs_a_delta(self) -> None:
        with pytest.raises(InvalidCost) as caught:
            gaussian_mu_within(1.0, 0.0)
        assert caught.value.problem == "Gaussian noise needs delta > 0, got 0."
        assert caught.value.remedy == "Use for example delta=1e-6, or a pure mechanism."
        with pytest.raises(InvalidCost, match="delta must be"):
            gaussian_mu_within(1.0, 2.0)
        with pytest.raises(InvalidCost, match="epsilon must be"):
            gaussian_mu_within(-1.0, 1e-6)


class TestPureAsGaussian:
    def test_known_values(self) -> None:
        assert mu_of_pure(Fraction(1)) == pytest.approx(2 * norm.ppf(math.e / (1 + math.e)), rel=1e-14)
        assert mu_of_pure(Fraction(1, 1000)) == pytest.approx(2 * norm.ppf(1 / (1 + math.exp(-0.001))), rel=1e-10)

    @given(st.fractions(Fraction(1, 10**6), 20, max_denominator=10**6))
    def test_both_trade_offs_meet_at_the_kink(self, epsilon: Fraction) -> None:
        mu, kink = mu_of_pure(epsilon), 1 / (1 + math.exp(epsilon))
        assert norm.sf(mu / 2) == pytest.approx(kink, rel=1e-11)

    @given(st.fractions(Fraction(1, 1000), 15, max_denominator=1000), st.floats(0, 1))
    def test_the_gaussian_trade_off_is_nowhere_above(self, epsilon: Fraction, alpha: float) -> None:
        mu, growth = mu_of_pure(epsilon), math.exp(epsilon)
        gaussian = norm.cdf(norm.isf(alpha) - mu)
        pure = max(0.0, 1 - growth * alpha, (1 - alpha) / growth)
        assert gaussian <= pure + 1e-9

    @given(st.fractions(Fraction(1, 1000), 99, max_denominator=1000))
    def test_rounded_up_by_little(self, epsilon: Fraction) -> None:
        from flint import arb
        from flint import ctx as ball_context

        with ball_context.workprec(1000):
            ratio = arb(epsilon.numerator) / arb(epsilon.denominator)
            truth = 2 * arb(2).sqrt() * (ratio / 2).tanh().erfinv()
            assert arb(mu_of_pure(epsilon)) > truth
            assert arb(mu_of_pure(epsilon)) < truth * (1 + arb(2) ** -51)

    def test_large_epsilons_have_a_bound_and_never_fail(self) -> None:
        assert mu_of_pure(Fraction(100)) == pytest.approx(27.77695206600778, rel=1e-12)
        assert mu_of_pure(Fraction(101)) == pytest.approx(2 * math.sqrt(202), rel=1e-15)
        assert Fraction(mu_of_pure(Fraction(101))) ** 2 >= 8 * 101
        assert mu_of_pure(exact(1e308)) == pytest.approx(2 * math.sqrt(2) * 1e154, rel=1e-15)
        for epsilon in (101.0, 150.0, 700.0):
            # The kink 1/(1+e^ε) must not be below the Gaussian trade-off there.
            assert norm.logsf(mu_of_pure(exact(epsilon)) / 2) <= -math.log1p(math.exp(-epsilon)) - epsilon


class TestCost:
    def test_pure_and_approximate(self) -> None:
        assert pure_cost(0.1) == Cost(Fraction(1, 10))
        assert pure_cost(0.1) == Cost(Fraction(1, 10), Fraction(0), None, Fraction(0))
        assert approximate_cost(0.1, 1e-6) == Cost(Fraction(1, 10), Fraction(1, 10**6))
        with pytest.raises(InvalidCost, match="epsilon must be"):
            pure_cost(0.0)
        with pytest.raises(InvalidCost, match="epsilon must be"):
            approximate_cost(math.nan, 0.1)
        with pytest.raises(InvalidCost, match="delta must be"):
            approximate_cost(0.1, 1.0)

    def test_gaussian(self) -> None:
        cost = gaussian_cost(0.5, 1e-6, Fraction(1, 3 * 10**20))
        assert (cost.epsilon, cost.delta) == (Fraction(1, 2), Fraction(1, 10**6))
        assert cost.mu == gaussian_mu_within(0.5, 1e-6)
        assert cost.total_variation == Fraction(rounded_up(Fraction(1, 3 * 10**20)))
        assert gaussian_cost(0.5, 1e-6).total_variation == 0

    def test_a_distance_that_epsilon_makes_larger_than_delta_is_refused_in_words(self) -> None:
        assert gaussian_cost(50.0, 1e-6).mu is not None
        with pytest.raises(InvalidCost, match="smaller epsilon"):
            gaussian_cost(50.0, 1e-6, Fraction(1, 2**60))

    @pytest.mark.parametrize(
        ("numbers", "problem"),
        [
            ({"epsilon": 0.1}, "epsilon must be a Fraction, at least 0; got 0.1."),
            ({"epsilon": 1}, "epsilon must be a Fraction, at least 0; got 1."),
            ({"epsilon": -TINY}, f"epsilon must be a Fraction, at least 0; got {-TINY!r}."),
            ({"delta": 0.1}, "delta must be a Fraction, at least 0; got 0.1."),
            ({"delta": -TINY}, f"delta must be a Fraction, at least 0; got {-TINY!r}."),
            ({"total_variation": -TINY}, f"total_variation must be a Fraction, at least 0; got {-TINY!r}."),
            ({"epsilon": Fraction(0)}, "epsilon must be a positive, finite, normal number, got 0.0."),
            ({"epsilon": TINY}, "epsilon must be a positive, finite, normal number, got 5e-324."),
            ({"epsilon": BEYOND_FLOATS}, "epsilon must be a positive, finite, normal number, got inf."),
            ({"delta": TINY}, "delta must be 0 or a normal number below 1, got 5e-324."),
            ({"delta": Fraction(1)}, "delta must be 0 or a normal number below 1, got 1.0."),
            ({"total_variation": Fraction(1)}, "total_variation must be 0 or a normal number below 1, got 1.0."),
            ({"epsilon": Fraction(2**4096 + 1, 2**4096)}, "epsilon has too long a denominator."),
            ({"total_variation": Fraction(1, 8)}, "A distance to Gaussian noise was given without a mu."),
            ({"mu": 0.0}, "mu must be a positive, finite, normal number, got 0.0."),
            ({"mu": math.inf}, "mu must be a positive, finite, normal number, got inf."),
            ({"mu": 1.0}, "The delta of a Gaussian cost does not cover its mu."),
        ],
    )
    def test_numbers_that_are_refused(self, numbers: dict[str, Any], problem: str) -> None:
        with pytest.raises(InvalidCost) as caught:
            Cost(**{"epsilon": Fraction(1), **numbers})
        assert caught.value.problem == problem

    def test_what_to_do_about_it(self) -> None:
        for numbers, remedy in (
            ({"epsilon": 0.1}, "Use exact(0.1) for one tenth."),
            ({"epsilon": Fraction(2**4096 + 1, 2**4096)}, "Use exact(0.1) for one tenth."),
            ({"total_variation": Fraction(1, 8)}, "Use gaussian_cost."),
            ({"mu": 1.0}, "Use gaussian_cost(epsilon, delta)."),
        ):
            with pytest.raises(InvalidCost) as caught:
                Cost(**{"epsilon": Fraction(1), **numbers})  # type: ignore[arg-type]
            assert caught.value.remedy == remedy

    def test_denominators_may_be_long_but_not_endless(self) -> None:
        assert Cost(Fraction(2**4095 + 1, 2**4095)).epsilon > 1

    def test_delta_covers_mu_and_distance_to_the_last_digit(self) -> None:
        covered = exact(gaussian_delta(0.5, 1.0))
        assert Cost(Fraction(1), covered, 0.5).delta == covered
        with pytest.raises(InvalidCost, match="does not cover"):
            Cost(Fraction(1), covered - TINY * 10**60, 0.5)
        distance = Fraction(1, 2**40)
        enough = covered + total_variation_delta(Fraction(1), distance)
        assert Cost(Fraction(1), enough, 0.5, distance).delta == enough
        with pytest.raises(InvalidCost, match="does not cover"):
            Cost(Fraction(1), enough - TINY * 10**60, 0.5, distance)

    def test_groups_of_pure_costs(self) -> None:
        cost = pure_cost(0.1)
        assert cost.for_group(1) is cost
        assert cost.for_group(3) == pure_cost(0.3)

    def test_groups_of_approximate_costs(self) -> None:
        grouped = approximate_cost(0.3, 1e-6).for_group(2)
        assert grouped.epsilon == Fraction(6, 10)
        assert float(grouped.delta) == pytest.approx((1 + math.exp(0.3)) * 1e-6, rel=1e-11)
        assert grouped.delta > Fraction(1 + math.exp(0.3)) / 10**6
        assert grouped.mu is None

    def test_groups_of_gaussian_costs(self) -> None:
        cost = gaussian_cost(0.5, 1e-6, Fraction(1, 2**60))
        grouped = cost.for_group(3)
        assert cost.mu is not None
        assert grouped.mu == math.nextafter(3 * cost.mu, math.inf)
        assert grouped.epsilon == Fraction(3, 2)
        assert grouped.total_variation == Fraction(1, 2**60)
        assert grouped.delta == exact(gaussian_delta(grouped.mu, 1.5)) + total_variation_delta(
            Fraction(3, 2), Fraction(1, 2**60)
        )

    @pytest.mark.parametrize("size", [0, -1, 2.0, True, None])
    def test_a_group_has_members(self, size: Any) -> None:
        with pytest.raises(InvalidCost) as caught:
            pure_cost(1.0).for_group(size)
        assert caught.value.problem == f"A group has a whole number of members, at least 1; got {size!r}."
        assert caught.value.remedy == "Use for example 3."

    def test_relations(self) -> None:
        cost = approximate_cost(0.3, 1e-6)
        assert cost.to("replace-one", "replace-one") is cost
        assert cost.to("add-remove", "add-remove") is cost
        assert cost.to("replace-one", "add-remove") == cost.for_group(2)
        with pytest.raises(RelationMismatch) as caught:
            cost.to("add-remove", "replace-one")
        assert caught.value.problem == "A replace-one cost says nothing about add/remove neighbours."
        assert caught.value.remedy == "Calibrate the mechanism for add/remove, or use a replace-one account."

    @pytest.mark.parametrize(
        "cost", [pure_cost(0.1), approximate_cost(0.3, 1e-6), gaussian_cost(0.5, 1e-6, Fraction(1, 2**60))]
    )
    def test_written_and_read_back(self, cost: Cost) -> None:
        assert Cost.from_dict(cost.to_dict()) == cost
        assert set(cost.to_dict()) == {"epsilon", "delta", "mu", "total_variation"}

    def test_how_it_is_written(self) -> None:
        assert pure_cost(0.1).to_dict() == {"epsilon": "1/10", "delta": "0", "mu": None, "total_variation": "0"}
        assert gaussian_cost(0.5, 1e-6).to_dict()["mu"] == gaussian_mu_within(0.5, 1e-6).hex()

    @pytest.mark.parametrize("name", ["epsilon", "delta", "total_variation"])
    def test_a_float_is_not_an_exact_number(self, name: str) -> None:
        with pytest.raises(ValueError, match="not a rational"):
            Cost.from_dict({**pure_cost(0.1).to_dict(), name: 0.1})


class TestTotalVariation:
    def test_known_values(self) -> None:
        distance = Fraction(1, 2**40)
        found = total_variation_delta(Fraction(2), distance)
        assert float(found / distance) == pytest.approx(1 + math.exp(2), rel=1e-15)
        assert found / distance > Fraction(1 + math.exp(2)) * (1 - Fraction(1, 2**52))
        assert total_variation_delta(Fraction(2), Fraction(0)) == 0
        assert total_variation_delta(BEYOND_FLOATS, Fraction(0)) == 0

    def test_rounded_up(self) -> None:
        from flint import arb
        from flint import ctx as ball_context

        for epsilon in (Fraction(1, 10), Fraction(1), Fraction(77, 10)):
            with ball_context.workprec(400):
                truth = 1 + (arb(epsilon.numerator) / arb(epsilon.denominator)).exp()
                found = float(total_variation_delta(epsilon, Fraction(1)))
                assert arb(found) > truth
                assert arb(math.nextafter(math.nextafter(found, 0), 0)) < truth

    def test_beyond_all_floats_nothing_is_left(self) -> None:
        assert total_variation_delta(Fraction(700), Fraction(1, 10**320)) < 1
        assert total_variation_delta(Fraction(710), Fraction(1, 10**320)) == 1


class TestSpent:
    def test_nothing_is_spent_at_first(self) -> None:
        assert Spent() == Spent(Fraction(0), Fraction(0), Fraction(0), Fraction(0), Fraction(0), 0)
        assert Spent.of([]) == Spent()

    def test_a_pure_charge(self) -> None:
        mu = mu_of_pure(Fraction(1, 10))
        assert Spent().plus(pure_cost(0.1)) == Spent(epsilon=Fraction(1, 10), mu_squared=Fraction(mu) ** 2)

    def test_an_approximate_charge_leaks_its_delta(self) -> None:
        spent = Spent().plus(approximate_cost(0.1, 1e-6))
        assert spent.delta == spent.leaked_delta == Fraction(1, 10**6)
        assert spent.gaussian_charges == 0

    def test_a_gaussian_charge(self) -> None:
        cost = gaussian_cost(0.5, 1e-6, Fraction(1, 2**60))
        assert cost.mu is not None
        assert Spent().plus(cost) == Spent(
            epsilon=Fraction(1, 2),
            delta=Fraction(1, 10**6),
            mu_squared=Fraction(cost.mu) ** 2,
            total_variation=Fraction(1, 2**60),
            leaked_delta=Fraction(0),
            gaussian_charges=1,
        )

    def test_charges_add_up(self) -> None:
        costs = [pure_cost(0.1), approximate_cost(0.2, 1e-6), gaussian_cost(0.5, 1e-6, Fraction(1, 2**60))] * 2
        spent = Spent.of(costs)
        assert spent.epsilon == Fraction(16, 10)
        assert spent.delta == Fraction(4, 10**6)
        assert spent.leaked_delta == Fraction(2, 10**6)
        assert spent.total_variation == Fraction(1, 2**59)
        assert spent.gaussian_charges == 2
        assert spent.mu_squared == sum(
            (Fraction(mu_of_pure(cost.epsilon) if cost.mu is None else cost.mu) ** 2 for cost in costs), Fraction(0)
        )

    def test_totals_stay_short_enough_to_be_written(self) -> None:
        odd = [Fraction(1, 3**1000 * (2 * index + 1)) + 1 for index in range(400)]
        spent = Spent.of(Cost(epsilon) for epsilon in odd)
        total = sum(odd, Fraction(0))
        assert total <= spent.epsilon < total + Fraction(400, 2**2200)
        assert spent.epsilon.denominator.bit_length() <= 4096
        assert len(str(spent.epsilon)) < 4000

    def test_gaussian_distances_with_denominators_of_their_own_can_be_written(self) -> None:
        costs = [gaussian_cost(0.01, 1e-6, Fraction(1, 24 * (2**60 + 2 * index + 1))) for index in range(300)]
        spent = Spent.of(costs)
        assert rational(str(spent.total_variation)) == spent.total_variation
        assert spent.total_variation.denominator <= 2**1074

    def test_a_total_is_rounded_only_when_it_must_be(self) -> None:
        short, long = Fraction(1, 3**2584), Fraction(1, 3**2585)
        assert short.denominator.bit_length() == 4096
        assert accounting._writable(short) == short
        assert accounting._writable(long) == Fraction(1, 2**2200)
        assert accounting._writable(2 + long) == 2 + Fraction(1, 2**2200)


class TestBudget:
    def test_from_floats(self) -> None:
        assert Budget.of(3.0) == Budget(Fraction(3), Fraction(0), "basic", Fraction(0))
        assert Budget.of(0.1, 1e-6) == Budget(Fraction(1, 10), Fraction(1, 10**6))
        assert Budget.of(1.0, 1e-6, "gaussian").reserved_delta == Fraction(1, 10**6 * 2**20)
        assert Budget.of(1.0, 1e-6, "gaussian", 1e-7).reserved_delta == Fraction(1, 10**7)
        assert Budget.of(1.0, 1e-6, "gaussian", 0.0).reserved_delta == 0

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ((0.0,), "epsilon must be a positive"),
            ((True,), "epsilon must be a positive"),
            ((1.0, 1.0), "delta must be 0 or"),
            ((1.0, math.nan), "delta must be 0 or"),
            ((1.0, 1e-6, "gaussian", -1.0), "reserved_delta must be 0 or"),
            ((1.0, 1e-6, "banana"), "composition must be one of basic, gaussian, got 'banana'."),
            ((1.0, 0.0, "gaussian"), "Gaussian composition needs delta > reserved_delta"),
            ((1.0, 1e-6, "gaussian", 1e-6), "Gaussian composition needs delta > reserved_delta"),
            ((1.0, 1e-6, "basic", 1e-7), "Basic composition reserves no delta."),
        ],
    )
    def test_what_is_refused(self, arguments: tuple[Any, ...], problem: str) -> None:
        with pytest.raises(InvalidCost, match=problem):
            Budget.of(*arguments)

    @pytest.mark.parametrize(
        ("arguments", "remedy"),
        [
            ((1.0, 1e-6, "banana"), "Use one of these words."),
            ((1.0, 0.0, "gaussian"), "Give a delta such as 1e-6, or use basic composition."),
            ((1.0, 1e-6, "basic", 1e-7), "Leave reserved_delta out."),
        ],
    )
    def test_what_to_do_about_it(self, arguments: tuple[Any, ...], remedy: str) -> None:
        with pytest.raises(InvalidCost) as caught:
            Budget.of(*arguments)
        assert caught.value.remedy == remedy

    def test_rationals_are_checked_too(self) -> None:
        for name in ("epsilon", "delta", "reserved_delta"):
            with pytest.raises(InvalidCost, match=f"^{name} must be a Fraction"):
                Budget(**{"epsilon": Fraction(1), name: 0.5})  # type: ignore[arg-type]
        assert Budget(Fraction(1), Fraction(1, 10), "basic", Fraction(0)).delta == Fraction(1, 10)
        with pytest.raises(InvalidCost, match=r"^reserved_delta must be 0 or"):
            Budget(Fraction(1), Fraction(1, 2), "gaussian", TINY)

    def test_basic_is_full_when_it_is_exactly_full(self) -> None:
        budget = Budget.of(1.0, 1e-6)
        ten_tenths = Spent.of([pure_cost(0.1)] * 10)
        assert budget.admits(ten_tenths)
        assert not budget.admits(ten_tenths.plus(pure_cost(1e-300)))
        ten_deltas = Spent.of([approximate_cost(0.1, 1e-7)] * 10)
        assert budget.admits(ten_deltas)
        assert not budget.admits(Spent(epsilon=Fraction(1, 2), delta=Fraction(1, 10**6) + TINY))
        assert not budget.admits(Spent(epsilon=Fraction(1) + TINY))

    def test_a_tenth_and_two_tenths_fit_three(self) -> None:
        assert Budget.of(0.3).admits(Spent.of([pure_cost(0.1), pure_cost(0.2)]))

    def test_basic_takes_epsilons_that_gaussian_accounting_could_not(self) -> None:
        assert Budget.of(1000.0).admits(Spent.of([pure_cost(500.0)] * 2))

    def test_mu_is_the_largest_that_fits(self) -> None:
        budget = Budget.of(1.0, 1e-6, "gaussian", 5e-7)
        assert budget.mu == gaussian_mu(1.0, 5e-7)
        assert Budget.of(1.0, 1e-6, "gaussian", 0.0).mu == gaussian_mu(1.0, 1e-6)

    def test_gaussian_is_full_when_mu_is_used_up(self) -> None:
        budget = Budget.of(1.0, 1e-6, "gaussian")
        assert budget.admits(Spent(mu_squared=Fraction(budget.mu) ** 2, gaussian_charges=1))
        assert not budget.admits(Spent(mu_squared=Fraction(budget.mu) ** 2 + TINY, gaussian_charges=1))

    def test_gaussian_takes_pure_charges_whose_plain_sum_fits(self) -> None:
        budget = Budget.of(1.0, 1e-6, "gaussian")
        full = Spent.of([pure_cost(0.1)] * 10)
        assert full.mu_squared > Fraction(budget.mu) ** 2
        assert budget.admits(full)
        assert not budget.admits(full.plus(pure_cost(1e-9)))
        assert not budget.admits(full.plus(gaussian_cost(1e-3, 1e-6)))

    def test_gaussian_takes_more_small_pure_charges_than_their_sum(self) -> None:
        budget = Budget.of(1.0, 1e-6, "gaussian")
        many = Spent.of([pure_cost(0.001)] * 5000)
        assert many.epsilon > 1
        assert budget.admits(many)

    def test_the_reserve_pays_for_leaks_and_distances(self) -> None:
        budget = Budget.of(1.0, 1e-6, "gaussian", 1e-7)
        assert budget.admits(Spent(leaked_delta=Fraction(1, 10**7)))
        assert not budget.admits(Spent(leaked_delta=Fraction(1, 10**7) + TINY))
        distance = Fraction(1, 2**40)
        paid = total_variation_delta(Fraction(1), distance)
        left = Fraction(1, 10**7) - paid
        assert budget.admits(Spent(leaked_delta=left, total_variation=distance))
        assert not budget.admits(Spent(leaked_delta=left + TINY, total_variation=distance))

    def test_basic_does_not_look_at_the_gaussian_totals(self) -> None:
        assert Budget.of(1.0).admits(Spent(mu_squared=Fraction(10**6), leaked_delta=Fraction(1), gaussian_charges=1))

    def test_an_epsilon_beyond_exp_admits_no_distance(self) -> None:
        budget = Budget.of(1000.0, 1e-6, "gaussian")
        assert not budget.admits(Spent(total_variation=Fraction(1, 10**300)))


class TestShown:
    def test_basic_is_the_plain_sum(self) -> None:
        budget = Budget.of(3.0, 1e-6)
        assert budget.shown(Spent.of([pure_cost(0.1)] * 3)) == (0.3, 0.0)
        assert budget.shown(Spent.of([approximate_cost(0.1, 1e-7)] * 3)) == (0.3, 3e-7)
        assert budget.shown(Spent()) == (0.0, 0.0)
        assert budget.shown(Spent(epsilon=Fraction(1, 3))) == (0.33333333333333337, 0.0)

    def test_gaussian_shows_nothing_before_the_first_charge(self) -> None:
        assert Budget.of(3.0, 1e-6, "gaussian").shown(Spent()) == (0.0, 0.0)

    def test_pure_charges_are_shown_as_their_sum_while_that_is_less(self) -> None:
        budget = Budget.of(3.0, 1e-6, "gaussian", 1e-7)
        assert budget.shown(Spent.of([pure_cost(0.1)])) == (0.1, 0.0)
        assert budget.shown(Spent.of([approximate_cost(0.1, 1e-8)])) == (0.1, 1e-8)
        epsilon, delta = budget.shown(Spent.of([pure_cost(0.01)] * 500))
        assert epsilon < 2
        assert delta == 9e-7

    def test_gaussian_charges_are_shown_at_the_budgets_delta(self) -> None:
        budget = Budget.of(3.0, 1e-6, "gaussian", 1e-7)
        cost = gaussian_cost(0.5, 1e-6)
        assert cost.mu is not None
        epsilon, delta = budget.shown(Spent.of([cost] * 4))
        assert epsilon == pytest.approx(gaussian_epsilon(2 * cost.mu, 9e-7), rel=1e-12)
        assert epsilon >= gaussian_epsilon(2 * cost.mu, 9e-7)
        assert delta == 9e-7

    def test_leaks_and_distances_are_shown(self) -> None:
        budget = Budget.of(3.0, 1e-6, "gaussian", 1e-7)
        distance = Fraction(1, 2**50)
        spent = Spent.of([gaussian_cost(0.5, 1e-6, distance), approximate_cost(0.1, 1e-8)])
        paid = total_variation_delta(Fraction(3), distance)
        assert budget.shown(spent)[1] == decimal_up(Fraction(91, 10**8) + paid)

    def test_a_full_account_is_not_shown_as_more_than_full(self) -> None:
        budget = Budget.of(1.0, 1e-6, "gaussian")
        full = Spent(mu_squared=Fraction(budget.mu) ** 2, gaussian_charges=1)
        assert budget.admits(full)
        assert budget.shown(full)[0] == pytest.approx(1.0, rel=1e-12)
        assert budget.shown(full)[0] <= 1.0

    def test_what_was_refused_is_shown_as_more_than_full(self) -> None:
        budget = Budget.of(1.0, 1e-6, "gaussian")
        assert budget.shown(Spent(mu_squared=4 * Fraction(budget.mu) ** 2, gaussian_charges=1))[0] > 1.5
        assert budget.shown(Spent(mu_squared=Fraction(10) ** 400, gaussian_charges=1))[0] == math.inf

    @given(st.lists(st.floats(0.01, 0.5), min_size=1, max_size=8))
    def test_never_less_than_the_exact_sum_in_basic(self, epsilons: Sequence[float]) -> None:
        spent = Spent.of(map(pure_cost, epsilons))
        shown, _ = Budget.of(100.0).shown(spent)
        assert exact(shown) >= spent.epsilon
        assert shown == pytest.approx(math.fsum(epsilons))
