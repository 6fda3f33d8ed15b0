"""What leaves a member of a private dictionary training carries the noise that was planned and charged for: every question of it.

Everything is measured on the words that the member's walk hands out, not on the functions inside. Each audit has a twin with a
planted bug, which the same gate refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy import stats

from sudare.audit import distinguish_gaussian
from sudare.dictionary.distributed_noise import NoisePlan
from sudare.dictionary.in_process_secure_sums import ADDENDS
from sudare.dictionary.member_tables import Records
from sudare.dictionary.private_sum_questions import NoisyQuestion
from sudare.dictionary.private_training import PrivateTerms
from sudare.dictionary.sum_questions import SumQuestion
from sudare.dictionary.training import trained
from sudare.joint.private_dictionary_script import PrivateDictionaryWalk
from sudare.joint.sum_script import Finished
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import NoiseSource, SystemNoise
from sudare.sums.sum_script_replay import ScriptReplay
from tests.dictionary.kit import chapter_terms
from tests.joint.private_training import tables, terms_of

EPSILON, DELTA = 5.0, 1e-3
# Two sides of one number for each question: a correct walk is refused with probability below 1e-6 in all.
FALSE_ALARM = 1e-7


class ForgetsOneQuestion(SystemNoise):
    """Bug: no noise on one question of a training."""

    def __init__(self, forgotten: int) -> None:
        self._asked, self._forgotten = 0, forgotten

    def gaussian(self, values: np.ndarray, scale: float) -> np.ndarray:
        self._asked += 1
        return values.copy() if self._asked == self._forgotten else super().gaussian(values, scale)


class TooLittle(SystemNoise):
    """Bug: shares of a part of the deviation that was planned."""

    def __init__(self, part: float) -> None:
        self._part = part

    def gaussian(self, values: np.ndarray, scale: float) -> np.ndarray:
        return super().gaussian(values, scale * self._part)


def walk_with(private: PrivateTerms, table: np.ndarray, noise: Callable[[], NoiseSource]) -> PrivateDictionaryWalk:
    """A member's walk that gets this noise at the door."""
    walk = PrivateDictionaryWalk(private, Guarantee(private.epsilon, private.delta), Records.of(table))
    charged = walk._entrance._charged
    walk._entrance._charged = lambda mark, cost: _with_noise(charged(mark, cost), noise())  # type: ignore[method-assign]
    return walk


def _with_noise(passage, noise):
    return type(passage)(noise, passage.guarantee, passage.receipt)


def handed_out(walks: list[PrivateDictionaryWalk], count: int) -> list[list[np.ndarray]]:
    """The words that each walk hands out in the first `count` sums: one list for each sum."""
    everyone = tuple(range(len(walks)))
    begun = [walk.begun() for walk in walks]
    sums = [[addend for _, addend in begun]]
    while len(sums) < count:
        total = np.sum(sums[-1], axis=0, dtype=np.uint64)
        begun = [walk.step(state, total, everyone) for walk, (state, _) in zip(walks, begun, strict=True)]
        assert not any(isinstance(addend, Finished) for _, addend in begun)
        sums.append([addend for _, addend in begun])
    return sums


def asked(private: PrivateTerms, sums: list[list[np.ndarray]]) -> list[SumQuestion]:
    """The questions of a training whose words these are, found out from totals alone as anybody can."""
    conversation, heard, questions = ScriptReplay(lambda: trained(private)), (), []
    for words in sums:
        question = conversation.after(heard)
        assert isinstance(question, SumQuestion)
        questions.append(question)
        heard = (*heard, ADDENDS.decode(np.sum(words, axis=0, dtype=np.uint64)))
    return questions


# Question by question: what left, less what the records say, is noise of the planned variance


def squares_beside_plan(
    private: PrivateTerms, held: list[np.ndarray], noise: Callable[[], NoiseSource], runs: int
) -> tuple[NoisePlan, np.ndarray, np.ndarray]:
    """Σ(noise/σ₁)² of the first member's addends, one number for each noisy question, and how many noises are in each."""
    plan = private.plan(sum(map(len, held)))
    squares, counts = np.zeros(len(plan.releases)), np.zeros(len(plan.releases))
    for _ in range(runs):
        # After the last sum a member learns at home, which takes most of a training's time and hands nothing out.
        sums = handed_out([walk_with(private, table, noise) for table in held], 1 + len(plan.releases))
        questions = asked(private, sums)
        noisy = [(q, words[0]) for q, words in zip(questions, sums, strict=True) if isinstance(q, NoisyQuestion)]
        assert len(noisy) == len(plan.releases) == len(questions) - 1
        for number, (question, words) in enumerate(noisy):
            steps = ADDENDS.decode(words) * question.limits / plan.grid
            np.testing.assert_array_equal(steps, np.rint(steps))
            added = steps - question.exact_sums(held[0]) / plan.grid
            squares[number] += np.sum((added / plan.share_in_steps(question.release)) ** 2)
            counts[number] += len(added)
    return plan, squares, counts


def carries_the_noise(
    private: PrivateTerms, held: list[np.ndarray], noise: Callable[[], NoiseSource], runs: int
) -> bool:
    """Whether every question's noise has the variance of the plan, by a χ² test of both sides."""
    _, squares, counts = squares_beside_plan(private, held, noise, runs)
    lowest, highest = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], counts[:, np.newaxis]).T
    return bool(np.all((lowest <= squares) & (squares <= highest)))


def test_nothing_leaves_after_the_planned_sums() -> None:
    private, held = terms_of(2), tables(2, rows=20)
    walks = [walk_with(private, table, SystemNoise) for table in held]
    begun = [walk.begun() for walk in walks]
    for _ in range(1 + len(private.plan(sum(map(len, held))).releases)):
        total = np.sum([addend for _, addend in begun], axis=0, dtype=np.uint64)
        begun = [walk.step(state, total, (0, 1)) for walk, (state, _) in zip(walks, begun, strict=True)]
    assert all(isinstance(addend, Finished) for _, addend in begun)


def test_every_question_leaves_with_the_planned_noise() -> None:
    assert carries_the_noise(terms_of(2), tables(2, rows=20), SystemNoise, runs=25)


@pytest.mark.parametrize("forgotten", [1, 2, 3])
def test_a_question_without_noise_is_refused(forgotten: int) -> None:
    assert not carries_the_noise(terms_of(2), tables(2, rows=20), partial(ForgetsOneQuestion, forgotten), runs=2)


def test_shares_as_if_nobody_knew_one_are_refused() -> None:
    """Bug: σ²/S where σ²/(S−t) was planned. With two members that is half: nine deviations below what the gate lets pass."""
    assert not carries_the_noise(terms_of(2), tables(2, rows=20), partial(TooLittle, np.sqrt(0.5)), runs=60)


# Whole trainings, from the seat of a curious member of two


def seen_by_a_curious_member(private: PrivateTerms, own_rows: int, noise: Callable[[], NoiseSource], sums: int):
    """What the honest member hands out in so many sums after the count. The curious one adds nothing that it would subtract."""

    def outputs(table: np.ndarray) -> np.ndarray:
        walk = walk_with(private, table, noise)
        plan = private.plan(len(table) + own_rows)
        state, words = walk.begun()
        total = words + ADDENDS.encode(np.array([own_rows / private.terms.most_rows])).words
        seen = []
        for release in plan.releases[:sums]:
            state, words = walk.step(state, total, (0, 1))
            total = words
            seen.append(ADDENDS.decode(words) * plan.limit(release))
        return np.concatenate(seen)

    return outputs


def test_a_curious_member_cannot_tell_trainings_apart_better_than_was_charged_for() -> None:
    """Opening and two iterations, adaptive; one column, one pattern; rows beside the one that changes are the same."""
    base = chapter_terms(columns=("a",), low=np.array([-1.0]), high=np.array([1.0]), members=2, n_patterns=1)
    private = PrivateTerms(base, EPSILON, DELTA, iterations=2)
    rest = np.zeros((3, 1))
    pair = np.concatenate([rest, [[-1.0]]]), np.concatenate([rest, [[1.0]]])
    claimed, mu = Guarantee(EPSILON, DELTA), private.plan(7).cost.mu
    assert mu is not None
    whole = seen_by_a_curious_member(private, 3, SystemNoise, sums=3)
    audit = distinguish_gaussian(whole, pair, claimed, mu, 120)
    assert audit.holds, str(audit)
    # Whoever suspects a question looks at that one: 70 of 70 against 0 of 70 is more than μ allows for.
    quiet = seen_by_a_curious_member(private, 3, partial(ForgetsOneQuestion, 1), sums=1)
    caught = distinguish_gaussian(quiet, pair, claimed, mu, 140)
    assert not caught.holds, str(caught)
    usual = seen_by_a_curious_member(private, 3, SystemNoise, sums=1)
    audit = distinguish_gaussian(usual, pair, claimed, mu, 140)
    assert audit.holds, str(audit)
