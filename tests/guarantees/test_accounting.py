"""Accounting as proved in proofs/accounting.md, checked by exact computation against the strongest analyst there is.

The analyst chooses every charge after seeing all earlier answers. Randomised response is the worst ε-DP mechanism, and
a mechanism that gives everything away with probability δ and else answers so is the worst (ε, δ)-DP one (Kairouz, Oh and
Viswanath 2015). So the largest δ(ε) that any analyst can reach with charges from a list is found by dynamic programming
over the privacy loss so far and the charges so far: no sampling, no tolerance but rounding in the last digits.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_distribution import from_privacy_parameters
from flint import arb
from flint import ctx as ball_context
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from sudare.papers.own_studies.batch_composition import declared_batch
from sudare.privacy.accounting import (
    Budget,
    Cost,
    Spent,
    exact,
    gaussian_cost,
    gaussian_delta,
    mu_of_pure,
    pure_cost,
    rounded_down,
)
from sudare.privacy.guarantee import Guarantee, group_delta

STEP = Fraction(1, 20)
Counts = tuple[int, ...]
Filter = Callable[[Spent], bool]
ROUNDING = 1e-12


@dataclasses.dataclass(frozen=True)
class Charge:
    """(ε, δ)-DP with ε a whole number of steps, so that equal losses are found equal."""

    steps: int
    delta: Fraction = Fraction(0)

    @property
    def cost(self) -> Cost:
        return Cost(self.steps * STEP, self.delta)


def hockey_stick(loss: float, epsilon: float) -> float:
    """What an outcome of this privacy loss adds to δ(ε), per probability."""
    return max(0.0, -math.expm1(epsilon - loss))


def strongest_analyst(admits: Filter, charges: Sequence[Charge], epsilon: float, most_charges: int = 40) -> float:
    """The largest δ(ε) that an adaptive analyst reaches while the filter admits the charges, and the analyst may stop."""
    step = float(STEP)
    rises = [1 / (1 + math.exp(-charge.steps * step)) for charge in charges]
    leaks = [float(charge.delta) for charge in charges]

    @functools.cache
    def admitted(counts: Counts) -> bool:
        made = itertools.chain.from_iterable(
            [charge.cost] * count for charge, count in zip(charges, counts, strict=True)
        )
        return admits(Spent.of(made))

    @functools.cache
    def value(loss: int, counts: Counts) -> float:
        best = hockey_stick(loss * step, epsilon)
        if sum(counts) == most_charges:
            return best
        for index, charge in enumerate(charges):
            after = (*counts[:index], counts[index] + 1, *counts[index + 1 :])
            if admitted(after):
                answered = rises[index] * value(loss + charge.steps, after)
                answered += (1 - rises[index]) * value(loss - charge.steps, after)
                best = max(best, leaks[index] + (1 - leaks[index]) * answered)
        return best

    return value(0, (0,) * len(charges))


def delta_without_adapting(spent_on: Mapping[Fraction, int], epsilon: float) -> float:
    """δ(ε) of a list of pure charges that was fixed beforehand: the exact privacy loss distribution."""
    distribution = {Fraction(0): 1.0}
    for loss, count in spent_on.items():
        rise = 1 / (1 + math.exp(-loss))
        for _ in range(count):
            moved: dict[Fraction, float] = {}
            for total, mass in distribution.items():
                moved[total + loss] = moved.get(total + loss, 0.0) + mass * rise
                moved[total - loss] = moved.get(total - loss, 0.0) + mass * (1 - rise)
            distribution = moved
    return sum(mass * hockey_stick(float(loss), epsilon) for loss, mass in distribution.items())


SMALL_AND_BIG = (Charge(2), Charge(10))
LISTS = [
    SMALL_AND_BIG,
    (Charge(1), Charge(4), Charge(12)),
    (Charge(3), Charge(20)),
    (Charge(2, Fraction(1, 1000)), Charge(10), Charge(4)),
    (Charge(5, Fraction(1, 500)), Charge(2, Fraction(1, 5000))),
]


class TestAdaptiveAnalyst:
    @pytest.mark.parametrize("charges", LISTS)
    @pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-2), (0.5, 1e-3), (1.2, 0.03)])
    def test_basic_cannot_be_exceeded(self, charges: Sequence[Charge], epsilon: float, delta: float) -> None:
        reached = strongest_analyst(Budget.of(epsilon, delta).admits, charges, epsilon)
        assert reached <= delta * (1 + ROUNDING)

    @pytest.mark.parametrize("charges", LISTS)
    @pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-2), (0.5, 1e-3), (1.2, 0.03)])
    @pytest.mark.parametrize("reserved_share", [0.0, 0.5, 0.9])
    def test_gaussian_cannot_be_exceeded(
        self, charges: Sequence[Charge], epsilon: float, delta: float, reserved_share: float
    ) -> None:
        budget = Budget.of(epsilon, delta, "gaussian", reserved_share * delta)
        assert strongest_analyst(budget.admits, charges, epsilon) <= delta * (1 + ROUNDING)

    def test_the_analyst_is_strong(self) -> None:
        """Basic is reached but for second order; and adapting gains where a filter allows it."""
        leaky = (Charge(2, Fraction(1, 1000)), Charge(4))
        assert strongest_analyst(Budget.of(1.0, 1e-2).admits, leaky, 1.0) > 0.995e-2
        assert strongest_analyst(Budget.of(1.0, 1e-2, "gaussian", 0.0).admits, SMALL_AND_BIG, 1.0) > 1e-3

    def test_a_filter_by_numerical_composition_is_exceeded(self) -> None:
        """Planted bug: admit whatever fits by plain sum or by the exact distribution of the charges made so far."""
        budget = Budget.of(1.0, 1e-2)

        def by_distribution(spent: Spent) -> bool:
            # The charges are of 1/10 and 1/2; their number follows from ε and μ².
            squares = [Fraction(mu_of_pure(charge.cost.epsilon)) ** 2 for charge in SMALL_AND_BIG]
            losses = [charge.cost.epsilon for charge in SMALL_AND_BIG]
            determinant = losses[0] * squares[1] - losses[1] * squares[0]
            small = (spent.epsilon * squares[1] - losses[1] * spent.mu_squared) / determinant
            big = (losses[0] * spent.mu_squared - spent.epsilon * squares[0]) / determinant
            made = {losses[0]: int(small), losses[1]: int(big)}
            return budget.admits(spent) or delta_without_adapting(made, 1.0) <= 1e-2

        assert strongest_analyst(by_distribution, SMALL_AND_BIG, 1.0) > 1.3e-2

    def test_a_filter_with_too_small_a_mu_is_exceeded(self) -> None:
        """Planted bug: a pure charge counted with seven tenths of its μ."""
        budget = Budget.of(1.0, 1e-2, "gaussian", 0.0)
        shrunk = Fraction(49, 100)
        reached = strongest_analyst(
            lambda spent: budget.admits(dataclasses.replace(spent, mu_squared=spent.mu_squared * shrunk)),
            SMALL_AND_BIG,
            1.0,
        )
        assert reached > 1.8e-2

    def test_a_filter_that_forgets_the_reserve_is_exceeded(self) -> None:
        """Planted bug: δ of charges that are not Gaussian is not taken from the reserve."""
        budget = Budget.of(1.0, 1e-2, "gaussian", 5e-3)
        charges = (Charge(2, Fraction(1, 1000)), Charge(10), Charge(4))
        reached = strongest_analyst(
            lambda spent: budget.admits(dataclasses.replace(spent, leaked_delta=Fraction(0))), charges, 1.0
        )
        assert reached > 1.4e-2

    def test_a_filter_that_forgets_delta_is_exceeded(self) -> None:
        """Planted bug: basic composition that looks at ε only."""
        charges = (Charge(2, Fraction(1, 500)),)
        assert strongest_analyst(lambda spent: spent.epsilon <= 1, charges, 1.0) > 1.9e-2

    def test_a_filter_that_takes_add_remove_for_replace_one_is_exceeded(self) -> None:
        """Planted bug: a mechanism that is ε-DP for add/remove loses 2ε when a record is replaced, but is charged ε."""
        actual, claimed = (Charge(4),), Budget.of(1.0)
        halved = strongest_analyst(
            lambda spent: claimed.admits(Spent(epsilon=spent.epsilon / 2, delta=spent.delta)), actual, 1.0
        )
        assert halved > 0.02
        converted = pure_cost(0.1).to("replace-one", "add-remove")
        assert converted == Charge(4).cost
        assert strongest_analyst(claimed.admits, actual, 1.0) == 0.0


class TestAdaptiveGaussianAnalyst:
    """Two steps: Gaussian noise of parameter μ₁, then, by the answer, the rest of μ² in one kind of noise or another."""

    @staticmethod
    def reached(first: float, budget: Budget, epsilon: float, pure: Sequence[Fraction], share: float = 1.0) -> float:
        rest = share * math.sqrt(max(0.0, budget.mu**2 - first**2))
        affordable = [loss for loss in pure if mu_of_pure(loss) <= rest]

        def best(loss: float) -> float:
            values = [hockey_stick(loss, epsilon), gaussian_delta(rest, epsilon - loss)]
            for size in map(float, affordable):
                rise = 1 / (1 + math.exp(-size))
                up, down = hockey_stick(loss + size, epsilon), hockey_stick(loss - size, epsilon)
                values.append(rise * up + (1 - rise) * down)
            return max(values)

        # The loss of the first step is N(μ²/2, μ²) under the first law.
        law = norm(first**2 / 2, first)
        ends = law.mean() - 9 * first, law.mean() + 9 * first
        found, _ = quad(lambda loss: law.pdf(loss) * best(loss), *ends, limit=400, points=[min(ends[1], epsilon)])
        return float(found)

    @pytest.mark.parametrize("share", [0.2, 0.7, 0.95])
    @pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-2), (0.5, 1e-3)])
    def test_switching_gains_nothing(self, share: float, epsilon: float, delta: float) -> None:
        budget = Budget.of(epsilon, delta, "gaussian", 0.0)
        pure = [Fraction(steps, 20) for steps in range(1, 20)]
        reached = self.reached(share * budget.mu, budget, epsilon, pure)
        # The quadrature's own error is far below this; all-Gaussian is one of the strategies and reaches δ.
        assert reached == pytest.approx(delta, rel=1e-6)

    def test_a_filter_that_forgets_the_first_step_is_exceeded(self) -> None:
        budget = Budget.of(1.0, 1e-2, "gaussian", 0.0)
        fresh = 1 / math.sqrt(1 - 0.7**2)
        assert self.reached(0.7 * budget.mu, budget, 1.0, [], share=fresh) > 2.5e-2


def distances(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    """The larger of δ(ε) of two laws either way."""
    growth = math.exp(epsilon)
    return float(max(np.maximum(first - growth * second, 0).sum(), np.maximum(second - growth * first, 0).sum()))


LAWS = st.lists(st.floats(0.001, 1.0), min_size=4, max_size=4).map(lambda masses: np.array(masses) / sum(masses))


class TestGroups:
    @given(st.lists(LAWS, min_size=3, max_size=5), st.floats(0.05, 1.0))
    def test_a_chain_of_neighbours(self, laws: list[np.ndarray], epsilon: float) -> None:
        """Any laws at most (ε, δ) apart from one to the next are, end to end, what `for_group` says."""
        size = len(laws) - 1
        delta = max(distances(first, second, epsilon) for first, second in itertools.pairwise(laws))
        ends = distances(laws[0], laws[-1], size * epsilon)
        assert ends <= group_delta(epsilon, delta, size) + 1e-15

    def test_two_steps_are_reached(self) -> None:
        """(2ε, (1+e^ε)δ) cannot be improved: three laws for which it is equality."""
        epsilon, delta = 0.5, 0.01
        growth = math.exp(epsilon)
        # Each law gives its predecessor δ more than e^ε times its own share of the outcomes that tell.
        last = 0.1
        middle = growth * last + delta
        first = growth * middle + delta
        laws = [np.array([mass, 1 - mass]) for mass in (first, middle, last)]
        assert distances(laws[0], laws[1], epsilon) == pytest.approx(delta)
        assert distances(laws[1], laws[2], epsilon) == pytest.approx(delta)
        ends = distances(laws[0], laws[2], 2 * epsilon)
        assert ends == pytest.approx((1 + growth) * delta)
        converted = Guarantee(epsilon, delta, neighbours="add-remove").to("replace-one")
        assert ends <= converted.delta
        assert ends > 2 * delta

    @pytest.mark.parametrize("size", [2, 3, 7])
    def test_gaussian_groups(self, size: int) -> None:
        cost = gaussian_cost(0.4, 1e-6)
        grouped = cost.for_group(size)
        assert cost.mu is not None
        # N(0,1) and N(kμ,1) are the ends of the chain.
        assert gaussian_delta(size * cost.mu, rounded_down(grouped.epsilon)) <= grouped.delta


def exact_batch_delta(epsilon: Fraction, times: int, composed: Fraction) -> Fraction:
    """δ(ε′) of ε-randomised response `times` over, by binomial sums in ball arithmetic, rounded up."""
    with ball_context.workprec(600):
        loss, limit = (arb(number.numerator) / arb(number.denominator) for number in (epsilon, composed))
        rise = 1 / (1 + (-loss).exp())
        total = arb(0)
        for rises in range(times + 1):
            lost = (2 * rises - times) * loss
            if lost > limit:
                mass = arb(math.comb(times, rises)) * rise**rises * (1 - rise) ** (times - rises)
                total += mass * (1 - (limit - lost).exp())
        return Fraction(str(total.upper().str(40, radius=False)))


BATCHES = [(0.1, 100), (0.01, 300), (0.5, 20), (1.0, 5)]


class TestDeclaredBatch:
    @pytest.mark.parametrize(("epsilon", "times"), BATCHES)
    @pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9, 1e-11])
    def test_never_below_the_exact_composition_nor_above_the_sum(
        self, epsilon: float, times: int, delta: float
    ) -> None:
        cost = declared_batch([pure_cost(epsilon)] * times, delta)
        assert exact_batch_delta(exact(epsilon), times, cost.epsilon) <= exact(delta)
        assert cost.epsilon <= times * exact(epsilon)
        assert cost.delta <= exact(delta)

    @pytest.mark.parametrize(("epsilon", "times"), BATCHES)
    def test_close_to_the_exact_composition(self, epsilon: float, times: int) -> None:
        cost = declared_batch([pure_cost(epsilon)] * times, 1e-4)
        assert exact_batch_delta(exact(epsilon), times, cost.epsilon) > Fraction(98, 100) * exact(1e-4)

    @pytest.mark.parametrize(("epsilon", "times"), [(0.1, 100), (0.01, 300), (0.01, 1000)])
    def test_the_rounding_that_is_set_aside_is_far_more_than_is_seen(self, epsilon: float, times: int) -> None:
        """ε is a whole number of steps here, so whatever differs from the exact sum is the transform's rounding."""
        worst = DifferentialPrivacyParameters(epsilon, 0.0)
        distribution = from_privacy_parameters(worst, value_discretization_interval=1e-4).self_compose(times)
        for composed in (0.5, 1.5, 2.0, 4.0):
            truth = float(exact_batch_delta(exact(epsilon), times, exact(composed)))
            assert abs(float(distribution.get_delta_for_epsilon(composed)) - truth) < times * 2.0**-50

    def test_gaussian_batches(self) -> None:
        single = gaussian_cost(0.5, 1e-6)
        assert single.mu is not None
        for times, delta in ((10, 1e-6), (50, 1e-5)):
            cost = declared_batch([single] * times, delta)
            assert gaussian_delta(single.mu * math.sqrt(times), rounded_down(cost.epsilon)) <= delta
            assert cost.epsilon < times * exact(0.5)


class TestSums:
    @given(st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.05, 0.7]), max_size=40))
    def test_a_budget_is_full_exactly_when_the_decimals_say_so(self, epsilons: list[float]) -> None:
        budget, spent = Budget.of(1.0), Spent()
        tenths = Fraction(0)
        for epsilon in epsilons:
            tenths += Fraction(repr(epsilon))
            spent = spent.plus(pure_cost(epsilon))
            assert budget.admits(spent) == (tenths <= 1)

    @given(st.lists(st.floats(0.001, 0.2), min_size=1, max_size=30))
    def test_gaussian_admits_only_what_its_mu_allows(self, epsilons: list[float]) -> None:
        budget = Budget.of(1.0, 1e-3, "gaussian", 0.0)
        spent = Spent.of(map(pure_cost, epsilons))
        mu = math.sqrt(math.fsum(mu_of_pure(exact(epsilon)) ** 2 for epsilon in epsilons))
        if budget.admits(spent) and spent.epsilon > 1:
            assert gaussian_delta(mu * (1 - 1e-12), 1.0) <= 1e-3
        if not budget.admits(spent):
            assert gaussian_delta(mu * (1 + 1e-12), 1.0) > 1e-3
            assert spent.epsilon > 1
