"""Whatever totals dishonest members bring about, what leaves an honest member has the noise that it was charged for; or nothing leaves.

A member's walk is told totals that an adversary has chosen: numbers of rows, centres, gradients, patterns. After each, what it hands out is taken
apart: by how far one of its rows moves the sum (by trying rows, in steps of the grid), the law of the share of noise that is in it, and what
was charged. These three must fit with the shares of S − T members alone, by formulas of the proofs and not by the plan. Twins with planted bugs are
refused by the same checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm

from sudare.consortium.agreement.agreement import Agreement, Budget, MemberEntry, Sums
from sudare.consortium.tasks.definitions import DictionaryTask, LearningTask, ScalerTask
from sudare.consortium.tasks.task_activities import learning_terms as agreed_terms
from sudare.dictionary import private_sum_questions as private_questions
from sudare.dictionary.column_families import Categorical, ColumnFamily, Gamma, Poisson
from sudare.dictionary.distributed_noise import NoisePlan, NoisyTotal, on_grid_towards_zero
from sudare.dictionary.exponential_families import Family, Frame, Patterns, log_weights
from sudare.dictionary.gaussian_families import DiagonalGaussian, SparseGaussian
from sudare.dictionary.held_out_stacking import OwnPart
from sudare.dictionary.in_process_secure_sums import ADDENDS
from sudare.dictionary.member_tables import Records
from sudare.dictionary.private_sum_questions import (
    Clip,
    NoisyMoments,
    NoisyQuestion,
    NoisyStatistics,
)
from sudare.dictionary.private_training import PrivateTerms
from sudare.dictionary.sum_questions import SumQuestion
from sudare.dictionary.training import trained
from sudare.errors import AgreementError, ImplausibleTotal, SudareError
from sudare.joint import (
    BoostingTerms,
    LearningTerms,
    LearningWalk,
    MemberTable,
    ModelReading,
    ScalerTerms,
    additive_boosting,
    noise_shares,
)
from sudare.joint import sum_requests as learning_requests
from sudare.joint.learning_script import script_of
from sudare.joint.noise_shares import GaussianShares
from sudare.joint.private_dictionary_script import PrivateDictionaryWalk
from sudare.joint.sum_requests import GradientSum, NoisySum, RowCount, SumRequest
from sudare.joint.sum_script import Finished, Walk
from sudare.linear.losses import Logistic
from sudare.privacy.accounting import Cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SystemNoise
from sudare.privacy.release import Passage
from sudare.sums.context import noise_colluders
from sudare.sums.neighbour_graph import most_separated, sum_neighbourhood
from sudare.sums.sum_script_replay import ScriptReplay
from tests.joint.kit import PLANE, SCHEMA
from tests.joint.private_training import tables as dictionary_tables
from tests.joint.private_training import terms_of

WORD = 2**64
# What the test itself computes in floats may be off by so much.
ROUNDED = 1 + 1e-12
# Nothing is sent after one of these: the runner of a walk stops the task.
REFUSALS = (SudareError, ArithmeticError, np.linalg.LinAlgError)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_learnt_at_home() -> Iterator[None]:
    """What a member of a dictionary learns from its own records after the last sum takes long, and none of it leaves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sudare.dictionary.training.stacked", lambda records, dictionary, weights: OwnPart(weights))
        yield


# What is seen of a walk


class KnownNoise(SystemNoise):
    """Noise that the test knows, and the laws it was asked for: deviations, or shapes and rates."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self.asked: list[tuple[float | tuple[Fraction, float], list[int]]] = []

    def gaussian(self, values: np.ndarray, scale: float) -> np.ndarray:
        noise = np.rint(self._random.normal(scale=scale, size=values.shape)).astype(np.int64)
        self.asked.append((scale, noise.tolist()))
        return values + noise

    def gamma_norm(self, size: int, shape: Fraction, rate: float) -> list[int]:
        noise = [round(each) for each in self._random.normal(scale=1 / rate, size=size)]
        self.asked.append(((shape, rate), noise))
        return noise


@contextmanager
def gamma_shares_known() -> Iterator[None]:
    """Gamma-norm shares come from the test's own source."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            noise_shares, "gamma_norm_share", lambda size, shape, rate, source: source.gamma_norm(size, shape, rate)
        )
        yield


@dataclass(frozen=True)
class Sent:
    """One noisy sum that left: how many numbers, how far one row was seen to move it in steps, how far it may, and the law of the share in it."""

    size: int
    moved: float
    bound: Fraction
    law: float | tuple[Fraction, float]


@dataclass
class Journey:
    """What left a member in one training, and what it was charged."""

    sent: list[Sent] = field(default_factory=list)
    bills: list[Cost] = field(default_factory=list)


def watched(walk: LearningWalk | PrivateDictionaryWalk, guarantee: Guarantee, seed: int) -> tuple[KnownNoise, Journey]:
    """The walk gets noise that the test knows; what it is charged is noted."""
    source, journey = KnownNoise(seed), Journey()

    def charged(mark: str, cost: Cost) -> Passage:
        assert not source.asked
        journey.bills.append(cost)
        return Passage(source, guarantee, None)

    walk._entrance._charged = charged  # type: ignore[method-assign]
    return source, journey


def walked(walk: Walk, members: int, told: Callable[[], np.ndarray], seen: Callable[[np.ndarray, np.ndarray], None]):
    """The walk from its first addend until it refuses a total or ends; `seen` gets every total that was used and the addend after it."""
    everyone = tuple(range(members))
    state, _ = walk.begun()
    while True:
        total = told()
        try:
            state, answer = walk.step(state, total, everyone)
        except REFUSALS:
            return
        if isinstance(answer, Finished):
            return
        seen(total, answer)


def farthest(contributions: np.ndarray) -> float:
    """The largest distance between two rows' contributions."""
    return float(np.linalg.norm(contributions[:, np.newaxis] - contributions, axis=2).max())


# What the charge needs, by the formulas of proofs/gaussian.md and proofs/noise_shares.md


def delta_of(mu: float, epsilon: float) -> float:
    """δ of a μ-GDP mechanism at ε."""
    return float(norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2))


def is_enough(journey: Journey, unknown_shares: int) -> bool:
    """Whether so many shares of everything that was sent are enough for what was charged; true if nothing was sent."""
    if not journey.sent:
        return True
    if len(journey.bills) != 1 or any(sent.moved > sent.bound * ROUNDED for sent in journey.sent):
        return False
    bill = journey.bills[0]
    if bill.mu is None:
        spent = sum(rate * sent.moved for sent in journey.sent for _, rate in [sent.law])
        whole = all(
            unknown_shares * shape >= Fraction(sent.size + 1, 2) for sent in journey.sent for shape, _ in [sent.law]
        )
        return whole and spent <= float(bill.epsilon) * ROUNDED
    deviations = [(sent, sent.law * math.sqrt(unknown_shares)) for sent in journey.sent]
    mu = math.sqrt(sum((sent.moved / deviation) ** 2 for sent, deviation in deviations))
    rounding = sum(sent.size / (24 * deviation**2) for sent, deviation in deviations)
    epsilon, distance = float(bill.epsilon), float(bill.total_variation)
    return rounding <= distance * ROUNDED and delta_of(mu, epsilon) + (1 + math.exp(epsilon)) * distance <= float(
        bill.delta
    )


# Learning


def corners() -> pd.DataFrame:
    """Rows at the ends of what the schema allows, of both labels, and in the middle."""
    values = [(age, dose, ill) for age in (0.0, 50.0, 100.0) for dose in (-2.0, 1.0, 6.0) for ill in (0, 1)]
    return pd.DataFrame(values, columns=["age", "dose", "ill"])


def circle() -> tuple[np.ndarray, np.ndarray]:
    angles = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    points = np.vstack([np.stack([np.cos(angles), np.sin(angles)], axis=1), np.zeros((1, 2))])
    return np.vstack([points, points]), np.repeat([0, 1], len(points))


def own_rows(terms: LearningTerms | ScalerTerms | BoostingTerms) -> tuple:
    return (corners(),) if terms.reading.schema is not None else circle()


def learning_journey(
    terms: LearningTerms | ScalerTerms | BoostingTerms,
    choose: Callable[[SumRequest], np.ndarray],
    change: Callable[[LearningWalk], None] = lambda walk: None,
) -> Journey:
    """A member's training when the adversary chooses every total, knowing the request that it answers."""
    rows = own_rows(terms)
    walk = LearningWalk(terms, MemberTable(*rows))
    source, journey = watched(walk, terms.guarantee, 0)
    change(walk)
    script, heard, blocks = ScriptReplay(lambda: script_of(terms)), [], {}

    def told() -> np.ndarray:
        return choose(script.after(tuple(heard)))

    def seen(total: np.ndarray, addend: np.ndarray) -> None:
        heard.append(total)
        request = script.after(tuple(heard))
        assert isinstance(request, NoisySum)
        law, noise = source.asked[-1]
        reading = request.reading
        if id(reading) not in blocks:
            blocks[id(reading)] = reading.finished(reading.matrix(rows[0], rows[1] if len(rows) == 2 else None))
        block = blocks[id(reading)]
        each = np.array([request.block_sums(block[place : place + 1]) for place in range(len(block))])
        exact = request.block_sums(block).tolist()
        assert addend.tolist() == [(value + added) % WORD for value, added in zip(exact, noise, strict=True)]
        assert len(source.asked) == len(journey.sent) + 1
        planned = request.noise
        bound = (
            planned.release.steps_moved(planned.plan.grid)
            if isinstance(planned, GaussianShares)
            else planned.sensitivity
        )
        journey.sent.append(Sent(len(addend), farthest(each), bound, law))

    with gamma_shares_known():
        walked(walk, terms.members, told, seen)
    return journey


ROWS_TOLD = [0, 1, 2, 17, 18, 72, 1000, 2**16, 2**22, 2**28, 2**32, 2**40, 2**40 + 1, 2**52, 2**62, 2**63, 2**64 - 1]


def words(values: np.ndarray) -> np.ndarray:
    """Whole numbers as words."""
    return np.array([int(value) % WORD for value in values], dtype=np.uint64)


def learning_liar(random: np.random.Generator, rows: int) -> Callable[[SumRequest], np.ndarray]:
    """Totals of one liar: so many rows; then of one style, within what is plausible or beyond."""
    style = random.integers(5)

    def choose(request: SumRequest) -> np.ndarray:
        if isinstance(request, RowCount):
            return words(np.array([rows], dtype=object))
        most = request.largest_total * (1 - 1e-9)
        chosen = {
            0: random.uniform(-1, 1, request.size) * most,
            1: random.choice([-1, 1], request.size) * most,
            2: np.full(request.size, most),
            3: np.zeros(request.size),
            4: random.choice([-1, 0, 1], request.size) * most * random.choice([1, 2], p=[0.98, 0.02]),
        }
        return words(chosen[int(style)])

    return choose


TABLE = ModelReading.of_schema(SCHEMA, fit_intercept=True)


def learning_terms(random: np.random.Generator) -> LearningTerms | ScalerTerms | BoostingTerms:
    """Terms of every kind: pure and Gaussian, one sum and descent, with a scaler and without, and a scaler alone."""
    members = int(random.integers(2, 7))
    shares = {"members": members, "colluders": int(random.integers(1, members))}
    epsilon, delta = float(random.choice([0.1, 1.0, 8.0])), float(random.choice([0.0, 1e-9, 1e-3]))
    if random.random() < 0.2:
        return ScalerTerms(SCHEMA, epsilon, delta, **shares)
    if delta > 0 and random.random() < 0.3:
        return BoostingTerms(SCHEMA, epsilon, delta, **shares, max_bins=int(random.integers(2, 5)))
    method = "descent" if delta > 0 and random.random() < 0.7 else "one-sum"
    if random.random() < 0.5:
        return LearningTerms(method, PLANE, epsilon, delta, **shares)
    share = float(random.choice([0.0, 0.25, 0.9]))
    return LearningTerms(method, TABLE, epsilon, delta, **shares, scaler_share=share)


@given(st.integers(0, 2**32), st.one_of(st.sampled_from(ROWS_TOLD), st.integers(0, 2**64 - 1), st.integers(1, 2**40)))
@settings(max_examples=40)
def test_learning_has_the_noise_it_was_charged_for_whatever_the_totals(seed, rows):
    random = np.random.default_rng(seed)
    terms = learning_terms(random)
    journey = learning_journey(terms, learning_liar(random, rows))
    assert is_enough(journey, terms.members - terms.colluders)
    if not 1 <= rows <= 2**40:
        assert not journey.bills
        assert not journey.sent


PLAIN = {
    "pure": LearningTerms("one-sum", PLANE, 1.0, 0.0, 3, 1),
    "pure, scaled": LearningTerms("one-sum", TABLE, 1.0, 0.0, 3, 1, scaler_share=0.25),
    "descent": LearningTerms("descent", PLANE, 1.0, 1e-3, 3, 1),
    "descent, scaled": LearningTerms("descent", TABLE, 1.0, 1e-3, 3, 1, scaler_share=0.25),
    "scaler": ScalerTerms(SCHEMA, 1.0, 1e-3, 3, 1),
    "boosting": BoostingTerms(SCHEMA, 1.0, 1e-3, 3, 1, max_bins=4),
}


def harmless(rows: int) -> Callable[[SumRequest], np.ndarray]:
    """So many rows, and zeros."""
    return lambda request: words(np.full(request.size, rows if isinstance(request, RowCount) else 0, dtype=object))


@pytest.mark.parametrize(
    ("kind", "rows"), [*((kind, 18) for kind in PLAIN), ("pure, scaled", 2**28), ("scaler", 2**28)]
)
def test_shares_of_one_sth_are_refused(kind, rows):
    """Twin: noise in S shares where S − T must do."""
    terms = PLAIN[kind]
    journey = learning_journey(terms, harmless(rows))
    assert journey.sent
    assert is_enough(journey, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            NoisePlan, "share_in_steps", lambda plan, release: plan.deviation_in_steps(release) / math.sqrt(3)
        )
        patch.setattr(noise_shares.PureShares, "honest", property(lambda noise: noise.members))
        broken = learning_journey(_fresh(terms), harmless(rows))
    assert not is_enough(broken, 2)


def _fresh(terms: LearningTerms | ScalerTerms | BoostingTerms) -> LearningTerms | ScalerTerms | BoostingTerms:
    """The same terms with a budget that differs in its last bit: plans are remembered by their terms."""
    return replace(terms, epsilon=math.nextafter(terms.epsilon, 2.0))


@pytest.mark.parametrize("kind", ["descent", "scaler"])
def test_a_charge_for_another_number_of_rows_is_refused(kind):
    """Twin: charged for the member's own rows, with the noise of the rows that were told: its grid is coarser, and its law farther from normal."""

    def planned_anew(walk: LearningWalk) -> None:
        walk._entered = lambda saved: walk._entrance.passed(
            saved.mark, saved.receipt, lambda: PLAIN[kind].plan(18).cost
        )  # type: ignore[method-assign]

    assert is_enough(learning_journey(PLAIN[kind], harmless(2**28)), 2)
    assert not is_enough(learning_journey(PLAIN[kind], harmless(2**28), planned_anew), 2)


def test_one_sum_more_than_planned_is_refused():
    """Twin: a script that takes one more step."""
    terms = PLAIN["descent"]
    journey = learning_journey(terms, harmless(18))
    assert len(journey.sent) == len(terms.plan(18).sums)
    journey.sent.append(journey.sent[-1])
    assert not is_enough(journey, 2)


def test_slopes_that_are_not_clipped_are_refused(monkeypatch):
    """Twin: weighted slopes of their own length."""
    whole = learning_requests.weighted_slopes

    def unclipped(positions, targets, shapes, weights, slope_grid, clip):
        return whole(positions, targets, shapes, weights, slope_grid, 4 * clip)

    assert is_enough(learning_journey(PLAIN["boosting"], harmless(18)), 2)
    monkeypatch.setattr(learning_requests, "weighted_slopes", unclipped)
    assert not is_enough(learning_journey(PLAIN["boosting"], harmless(18)), 2)


def test_counts_for_half_their_sensitivity_are_refused(monkeypatch):
    """Twin: noise for a row that leaves its bins and enters none."""
    monkeypatch.setattr(additive_boosting, "rounded_up_root", lambda square: math.sqrt(float(square)) / 2)
    # Plans are remembered by their terms: no other test has these.
    assert not is_enough(learning_journey(replace(PLAIN["boosting"], epsilon=0.75), harmless(18)), 2)


def test_every_training_of_one_walk_is_charged():
    """What was paid under one mark opens for no other."""
    terms = PLAIN["pure"]
    walk = LearningWalk(terms, MemberTable(*circle()))
    source, journey = watched(walk, terms.guarantee, 0)
    with gamma_shares_known():
        for number in (1, 2):
            source.asked.clear()
            state, _ = walk.begun()
            walk.step(state, words(np.array([18])), (0, 1, 2))
            assert len(journey.bills) == number


# At every place


PLACES = [0.0, 1.0, -30.0, 1e10, -1e150, 1e200, 1e300, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan]


def gradient_sum(place: list[float]) -> GradientSum:
    plan = NoisePlan(1.0, 1e-3, 3, 1, (NoisyTotal(2, 2.0, Fraction(1)),), 18)
    reading = replace(PLANE, norm_bound=20.0)
    return GradientSum(2, 1e15, reading, GaussianShares(plan, plan.releases[0]), np.array(place), 5.0, plan.grid)


def moves_too_far(request: GradientSum) -> bool:
    """Whether a row that is replaced by another moves the sum over it and some others by more than the noise is for."""
    rows = np.array(
        [[x, y, label] for x in (-20.0, 0.0, 1e-9, 20.0) for y in (-20.0, 0.0, 20.0) for label in (-1.0, 1.0)]
    )
    others = rows[:5]
    sums = np.array([request.block_sums(np.vstack([others, row])) for row in rows], dtype=object)
    most = request.noise.release.steps_moved(request.grid)
    return any(sum(int(each) ** 2 for each in first - second) > most**2 for first in sums for second in sums)


@given(st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES)))
def test_gradients_are_clipped_at_every_place(place):
    assert not moves_too_far(gradient_sum(list(place)))


def _trusting_gradients(part: np.ndarray, place: np.ndarray, clip: float, grid: float) -> np.ndarray:
    """Bug: a row whose score is no number takes the sum of all others with it."""
    rows, targets = part[:, :-1], part[:, -1]
    with np.errstate(all="ignore"):
        gradients = Logistic().slope(rows @ place, targets)[:, np.newaxis] * rows
        lengths = np.linalg.norm(gradients, axis=1)
        units = gradients / np.maximum(lengths, clip)[:, np.newaxis] * (1 - 2.0**-40)
        return np.trunc(units / grid).sum(axis=0).astype(np.int64)


def _unclipped_gradients(part: np.ndarray, place: np.ndarray, clip: float, grid: float) -> np.ndarray:
    """Bug: no row is shortened."""
    rows, targets = part[:, :-1], part[:, -1]
    gradients = Logistic().slope(rows @ place, targets)[:, np.newaxis] * rows
    return np.trunc(gradients / clip / grid).sum(axis=0).astype(np.int64)


@pytest.mark.parametrize(("bug", "place"), [(_trusting_gradients, [math.inf, 0.0]), (_unclipped_gradients, [1.0, 0.0])])
def test_gradients_that_are_not_clipped_are_refused(bug, place, monkeypatch):
    monkeypatch.setattr(learning_requests, "clipped_gradients", bug)
    assert moves_too_far(gradient_sum(place))


def test_own_sums_that_wrap_stay_sums():
    """However many rows: the addend is the sum plus the noise modulo 2⁶⁴, and no nearest end."""
    plan = NoisePlan(1.0, 1e-3, 3, 1, (NoisyTotal(3, 2.0, Fraction(1)),), 18)
    source = KnownNoise()
    exact = np.array([2**63 - 1, -(2**63), 5])
    addend = GaussianShares(plan, plan.releases[0]).noisy(exact, source)
    noise = source.asked[0][1]
    assert addend.tolist() == [(int(value) + added) % WORD for value, added in zip(exact, noise, strict=True)]


# The dictionary


DICTIONARY_ROWS = [-5, 0, 2, 3, 39, 40, 41, 160, 10_000, 2**28, 2**34, 2**34 + 1]
FAR = np.array([[x, y] for x in (-8.0, 0.0, 8.0) for y in (-8.0, 0.0, 8.0)])


def contributions(table: np.ndarray, question: NoisyQuestion) -> np.ndarray:
    """Each record's, computed with all others beside it: with another number of rows, products of matrices are rounded otherwise."""
    return question.contributions(table)


def dictionary_journey(
    private: PrivateTerms, choose: Callable[[SumQuestion], np.ndarray], table: np.ndarray | None = None
) -> Journey:
    """A member's private dictionary training when the adversary chooses every total, as numbers."""
    table = np.vstack([dictionary_tables(1)[0][:31], FAR]) if table is None else table
    guarantee = Guarantee(private.epsilon, private.delta)
    walk = PrivateDictionaryWalk(private, guarantee, Records.of(table))
    source, journey = watched(walk, guarantee, 0)
    script, heard = ScriptReplay(lambda: trained(private)), []

    def told() -> np.ndarray:
        question = script.after(tuple(heard))
        assert isinstance(question, SumQuestion)
        return words(np.rint(choose(question) / question.limits * 2.0**52))

    def seen(total: np.ndarray, addend: np.ndarray) -> None:
        heard.append(ADDENDS.decode(total))
        question = script.after(tuple(heard))
        assert isinstance(question, NoisyQuestion)
        law, noise = source.asked[-1]
        grid = question.plan.grid
        each = on_grid_towards_zero(contributions(table, question), grid) / grid
        np.testing.assert_array_equal(ADDENDS.decode(addend) * question.limits / grid, each.sum(axis=0) + noise)
        assert len(source.asked) == len(journey.sent) + 1
        journey.sent.append(Sent(len(addend), farthest(each[-12:]), question.release.steps_moved(grid), law))

    walked(walk, private.terms.members, told, seen)
    return journey


def dictionary_liar(random: np.random.Generator, rows: float) -> Callable[[SumQuestion], np.ndarray]:
    """So many records; then counts, sums and products of one style within what is plausible: patterns that grow, shrink or run away."""
    style = random.integers(6)

    def choose(question: SumQuestion) -> np.ndarray:
        if not isinstance(question, NoisyQuestion):
            return np.array([rows])
        most = question.plan.rows + 9.9 * question.plan.total_deviation(question.release)
        total = random.uniform(-1, 1, question.size) * most
        if isinstance(question, NoisyMoments) and style > 0:
            parts = total.reshape(len(question.weights), -1)
            parts[:, 0] = {1: most * 1e-9, 2: 0.02 * most, 3: most, 4: -most, 5: -most}[int(style)]
            parts[:, 1:] = {1: random.choice([-1, 1], parts[:, 1:].shape) * most, 2: 0.0, 3: 0.0}.get(
                int(style), random.choice([-1, 0, 1], parts[:, 1:].shape) * most
            )
            if style == 5:
                parts[:, 3:] = np.array([1, 0, 1]) * most
        return total

    return choose


def dictionary_terms(random: np.random.Generator) -> PrivateTerms:
    members = int(random.integers(2, 6))
    base = terms_of(members)
    family = SparseGaussian() if random.random() < 0.7 else DiagonalGaussian()
    terms = replace(base.terms, family=family, n_patterns=int(random.integers(1, 4)))
    iterations = None if random.random() < 0.3 else int(random.choice([1, 8, 40]))
    budget = float(random.choice([0.5, 2.0, 8.0])), float(random.choice([1e-6, 1e-3]))
    return PrivateTerms(terms, *budget, int(random.integers(1, members)), iterations)


@given(st.integers(0, 2**32), st.sampled_from(DICTIONARY_ROWS))
@settings(max_examples=25)
def test_a_dictionary_has_the_noise_it_was_charged_for_whatever_the_totals(seed, rows):
    random = np.random.default_rng(seed)
    private = dictionary_terms(random)
    journey = dictionary_journey(private, dictionary_liar(random, rows))
    assert is_enough(journey, private.terms.members - private.colluders)
    if not 40 <= rows <= private.terms.members * 2**32:
        assert not journey.bills
        assert not journey.sent


# Families of columns that are not normal, with declared bounds; the last records of a table are as far apart as these allow.
COLUMN_FAMILIES: list[tuple[ColumnFamily, float, float]] = [
    (Poisson(), 0.0, 40.0),
    (Gamma(), 0.01, 100.0),
    (Categorical(levels=(3, 3)), 0.0, 2.0),
]


def column_liar(random: np.random.Generator, rows: float) -> Callable[[SumQuestion], np.ndarray]:
    """So many records; then random totals, or statistics at the ends of what is plausible with counts that vanish, fit or are negative."""
    style = random.integers(4)

    def choose(question: SumQuestion) -> np.ndarray:
        if not isinstance(question, NoisyQuestion):
            return np.array([rows])
        most = question.plan.rows + 9.9 * question.plan.total_deviation(question.release)
        total = random.uniform(-1, 1, question.size) * most
        if isinstance(question, NoisyStatistics) and style > 0:
            parts = total.reshape(len(question.weights), -1)
            parts[:, 0] = {1: most * 1e-9, 2: 0.5 * most, 3: -most}[int(style)]
            parts[:, 1:] = random.choice([-1, 0, 1], parts[:, 1:].shape) * most
        return total

    return choose


@given(st.integers(0, 2**32), st.sampled_from([-5, 2, 39, 40, 160, 10_000, 2**34]), st.sampled_from(COLUMN_FAMILIES))
@settings(max_examples=20)
def test_columns_that_are_not_normal_have_the_noise_they_were_charged_for(seed, rows, declared):
    random = np.random.default_rng(seed)
    family, low, high = declared
    bounds = {"low": np.full(2, low), "high": np.full(2, high)}
    members = int(random.integers(2, 6))
    terms = replace(terms_of(members).terms, family=family, n_patterns=int(random.integers(1, 4)), **bounds)
    private = PrivateTerms(terms, float(random.choice([0.5, 8.0])), 1e-6, 1, int(random.choice([1, 8])))
    ends = np.array([[x, y] for x in (low, high) for y in (low, high)])
    table = np.vstack([np.ceil(random.uniform(low, high, (28, 2))), ends, ends, ends])
    journey = dictionary_journey(private, column_liar(random, rows), table)
    assert is_enough(journey, private.terms.members - private.colluders)
    assert journey.sent or rows < 40 or rows > members * 2**32


def harmless_dictionary(rows: int) -> Callable[[SumQuestion], np.ndarray]:
    """So many records, and patterns that stay as they are."""

    def choose(question: SumQuestion) -> np.ndarray:
        if not isinstance(question, NoisyMoments):
            return np.full(question.size, 0.0 if isinstance(question, NoisyQuestion) else rows)
        return np.tile([rows / 2, 0, 0, rows / 8, 0, rows / 8], len(question.weights)).astype(np.float64)

    return choose


def test_dictionary_shares_of_one_sth_are_refused(monkeypatch):
    private = PrivateTerms(terms_of(2).terms, 2.0, 1e-3, 1, 8)
    journey = dictionary_journey(private, harmless_dictionary(160))
    assert len(journey.sent) == 9
    assert is_enough(journey, 1)
    monkeypatch.setattr(
        NoisePlan, "share_in_steps", lambda plan, release: plan.deviation_in_steps(release) / math.sqrt(2)
    )
    assert not is_enough(dictionary_journey(replace(private, delta=1.001e-3), harmless_dictionary(160)), 1)


def _rounded_responsibilities(family: Family, Z: np.ndarray, patterns: Patterns, weights: np.ndarray) -> np.ndarray:
    """Bug: the logarithm of a sum of tiny densities is rounded to that of one of them, and every pattern gets the whole record."""
    with np.errstate(all="ignore"):
        log_joint = family.log_densities(Z, patterns) + log_weights(weights)
        return np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))


def _shrinking(rows: int) -> Callable[[SumQuestion], np.ndarray]:
    """Patterns that shrink from sum to sum, both in one place: every record is at an immense distance from both."""

    def choose(question: SumQuestion) -> np.ndarray:
        if not isinstance(question, NoisyMoments):
            return np.full(question.size, 0.0 if isinstance(question, NoisyQuestion) else rows)
        return np.tile([rows / 2, 0, 0, 0, 0, 0], len(question.weights)).astype(np.float64)

    return choose


def test_patterns_that_shrink_do_not_give_every_pattern_the_whole_record(monkeypatch):
    private = PrivateTerms(terms_of(2).terms, 2.0, 1e-3, 1, 24)
    assert is_enough(dictionary_journey(private, _shrinking(10**7)), 1)
    monkeypatch.setattr(private_questions, "public_responsibilities", _rounded_responsibilities)
    assert not is_enough(dictionary_journey(private, _shrinking(10**7)), 1)


def run_away(private: PrivateTerms, count: float, squares: float) -> None:
    """A training in which every total says that patterns have this count, and squares that are this large."""
    script = trained(private)
    next(script)
    question = script.send(np.array([1e7]))
    for _ in private.plan(10**7).releases:
        total = np.zeros(question.size)
        if isinstance(question, NoisyMoments):
            parts = total.reshape(len(question.weights), -1)
            parts[:, 0], parts[:, [3, 5]] = count, squares
        question = script.send(total)


@pytest.mark.parametrize(("count", "squares"), [(-1e7, 1e7), (5e6, 0.0)])
def test_patterns_that_grow_or_shrink_without_end_are_refused(count, squares):
    """Before their numbers overflow or vanish."""
    private = PrivateTerms(terms_of(2).terms, 2.0, 1e-3, 1, 300)
    with pytest.raises(ImplausibleTotal):
        run_away(private, count, squares)


EXTREMES = [0.0, 1.0, -3.0, 1e-200, 1e20, -1e155, 1e300, math.inf, -math.inf, math.nan]


@given(
    st.integers(0, 2**32),
    st.sampled_from(EXTREMES),
    st.sampled_from(EXTREMES),
    st.sampled_from([1e-300, 1e-8, 1.0, 1e30, 1e300]),
)
@settings(max_examples=150)
def test_records_are_clipped_whatever_the_patterns(seed, first, second, precision):
    """Means, balls and precisions that no total explains: two records differ by √6 at most, and nothing is lost of the others."""
    random = np.random.default_rng(seed)
    numbers = [first, second, *random.choice(EXTREMES, size=6).tolist()]
    means, centres = np.array(numbers[:4]).reshape(2, 2), np.array(numbers[4:]).reshape(2, 2)
    inverses = np.full((2, 2, 2), random.choice(EXTREMES))
    plan = NoisePlan(1.0, 1e-3, 3, 1, (NoisyTotal(12, math.sqrt(6), Fraction(1)),), 100)
    frame = Frame(np.zeros(2), np.full(2, float(random.choice([1e-100, 1.0]))))
    question = NoisyMoments(
        np.ones(12), plan, plan.releases[0], frame, means, np.repeat(np.eye(2)[np.newaxis] * precision, 2, axis=0),
        random.dirichlet(np.ones(2)), Clip(centres, inverses, 1.5),
    )  # fmt: skip
    sums = [question.exact_sums(np.vstack([FAR, row])) / plan.grid for row in FAR]
    assert farthest(np.array(sums)) <= plan.releases[0].steps_moved(plan.grid)


# Who is there


def consortium(members: int, threshold: int, dishonest: int) -> Agreement:
    """An agreement with a task of every kind whose sums are noisy."""
    entries = tuple(MemberEntry(f"m{number:04d}", f"{number:064x}", Budget(10.0, 0.1)) for number in range(members))
    tasks = LearningTask("risk", "one-sum", 1.0), ScalerTask("scales", 1.0, 1e-6)
    wear = DictionaryTask("wear", 1, False, 2.0, 1e-3)
    return Agreement("clinics", SCHEMA, entries, (*tasks, wear), Sums(threshold=threshold, dishonest=dishonest))


def journeys(agreement: Agreement) -> Iterator[Journey]:
    """What leaves an honest member in each of the tasks, with what it was charged for; a row moves every sum as far as it may."""
    for journey in _seen_journeys(agreement):
        yield replace(journey, sent=[replace(sent, moved=float(sent.bound)) for sent in journey.sent])


def _seen_journeys(agreement: Agreement) -> Iterator[Journey]:
    members = len(agreement.members)
    for name in ("risk", "scales"):
        terms = agreed_terms(agreement.task(name), agreement)
        yield learning_journey(terms, lambda request: words(np.full(request.size, 1000)))
    base = terms_of(members).terms
    private = PrivateTerms(replace(base, n_patterns=1), 2.0, 1e-3, agreement.colluders, 1)
    yield dictionary_journey(private, _shrinking(10**7))


def fits(members: int, threshold: int, dishonest: int) -> bool:
    """Whether an agreement can have these numbers, by proofs/secure_sums.md."""
    return dishonest <= members - 2 and (threshold == members or members + dishonest < 2 * threshold < 2 * members)


def shares_unknown_to(looking: int, members: int, threshold: int, dishonest: int) -> int:
    """The fewest shares in a total that `looking` honest members and the dishonest neither left out nor know, whoever votes for it and lies."""
    return min(
        voted - lying - looking for voted in range(threshold, members + 1) for lying in range(min(dishonest, voted) + 1)
    )


LEGAL = [
    (members, threshold, dishonest)
    for members in range(3, 9)
    for threshold in range(1, members + 1)
    for dishonest in range(members - 1)
    if fits(members, threshold, dishonest)
]


def counted_as_before(members: int, threshold: int, dishonest: int) -> int:
    """Planted: whoever looks is taken to be one of the dishonest."""
    return members - threshold + max(1, dishonest)


@pytest.mark.parametrize("members", range(3, 9))
def test_a_curious_member_beside_dishonest_ones_that_leave_their_noise_out_faces_the_noise_that_was_charged(members):
    """For every agreement that can be signed: the dishonest add no noise, the curious one subtracts its own, and as many as may have left."""
    for numbers in (each for each in LEGAL if each[0] == members):
        agreement = consortium(*numbers)
        agreement.check_complete()
        left = shares_unknown_to(1, *numbers)
        assert left >= 1
        assert shares_unknown_to(0, *numbers) >= left, "the dishonest alone know no more"
        for journey in journeys(agreement):
            assert journey.sent
            assert is_enough(journey, left)


@pytest.mark.parametrize("members", range(3, 9))
def test_counting_whoever_looks_among_the_dishonest_is_refused(members, monkeypatch):
    monkeypatch.setattr("sudare.consortium.agreement.agreement.noise_colluders", counted_as_before)
    for numbers in (each for each in LEGAL if each[0] == members):
        left = shares_unknown_to(1, *numbers)
        for journey in journeys(consortium(*numbers)):
            assert is_enough(journey, left) == (numbers[2] == 0)


def test_of_three_members_one_share_is_enough_where_it_used_to_be_half(monkeypatch):
    """One of three leaves its noise out and another looks: the third's own share is all that is left."""

    def share_of_what_is_needed() -> Fraction:
        (sent,) = next(journeys(consortium(3, 3, 1))).sent
        assert not isinstance(sent.law, float)
        return sent.law[0] / Fraction(sent.size + 1, 2)

    assert share_of_what_is_needed() == 1
    monkeypatch.setattr("sudare.consortium.agreement.agreement.noise_colluders", counted_as_before)
    assert share_of_what_is_needed() == Fraction(1, 2)


def test_agreements_are_refused_exactly_where_their_sums_are():
    for members in range(2, 9):
        for threshold in range(1, members + 1):
            for dishonest in range(members):
                agreement = consortium(members, threshold, dishonest)
                if fits(members, threshold, dishonest):
                    agreement.check_complete()
                    assert 1 <= agreement.colluders < members
                    continue
                with pytest.raises(AgreementError):
                    agreement.check_complete()
                with pytest.raises(AgreementError):
                    _ = agreement.colluders


def test_agreements_of_large_consortia_count_those_whom_a_collector_can_cut_off():
    members, dishonest, threshold = 400, 10, 380
    degree = sum_neighbourhood(members, dishonest, threshold).degree
    assert degree < members - 1
    cut_off = most_separated(members, dishonest, members - threshold, degree)
    assert cut_off > 0
    assert noise_colluders(members, threshold, dishonest) == members - threshold + dishonest + 1 + cut_off


def test_a_members_own_share_is_all_that_is_ever_counted_on(monkeypatch):
    """Where more could be cut off than there are, each share is the whole noise."""
    monkeypatch.setattr("sudare.sums.context.most_separated", lambda *numbers: 400)
    assert noise_colluders(400, 380, 10) == 399
