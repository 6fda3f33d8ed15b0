"""Equivocation about rows: members that were told different numbers of rows plan different noise, and must never be in one opened sum.

Of four members the last is dishonest. It tells some that there are 2²⁸ rows more than it tells the others. Those plan coarser grids, on which their
noise is a hundredth as many steps: in a sum with them the first member's row would be hidden by its own share alone, .58 of the noise that three
shares make. Honest members run the code as it is; only the last one's messages differ.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import chi2, norm

from sudare.errors import MembersMissing, StatementsContradict
from sudare.joint import LearningTerms, LearningWalk, MemberTable, ModelReading
from sudare.joint.learning_script import script_of
from sudare.joint.sum_requests import NoisySum, exact_answer
from sudare.sums.blame import Contradiction, Transcript, contradictions
from sudare.sums.context import NO_HISTORY, Participant, Roster, SumContext
from sudare.sums.keys import MemberKeys
from sudare.sums.masks import add_pair_masks, lasting_pair_seed
from sudare.sums.messages import Heard, Masked, Message, Opened, Passed, heard_content, history_after
from sudare.sums.party import Party
from sudare.sums.simulation import simulate
from sudare.sums.statements import stated
from sudare.sums.sum_script_replay import ScriptReplay

MEMBERS, LIAR = 4, 3
NAMES = tuple("ABCD")
FEATURES, ROWS = 40, 6
EPSILON, DELTA = 1.0, 1e-3
TRUE_ROWS, FALSE_ROWS = MEMBERS * ROWS, MEMBERS * ROWS + 2**28
READING = ModelReading.of_arrays(FEATURES, 1.0, [0, 1], fit_intercept=False)
KEYS = [MemberKeys.generated() for _ in NAMES]
ROSTER = Roster(NAMES, tuple(each.public for each in KEYS))
# A correct sum is refused with this probability.
FALSE_ALARM = 1e-7


def terms(colluders: int) -> LearningTerms:
    return LearningTerms("one-sum", READING, EPSILON, DELTA, MEMBERS, colluders)


def table(position: int) -> MemberTable:
    random = np.random.default_rng(position)
    points = random.normal(size=(ROWS, FEATURES))
    return MemberTable(points / np.linalg.norm(points, axis=1, keepdims=True), random.integers(2, size=ROWS))


def words(rows: int) -> np.ndarray:
    return np.array([rows], dtype=np.uint64)


def request_after(rows: int, colluders: int) -> NoisySum:
    """The sum that members ask for who were told so many rows."""
    request = ScriptReplay(lambda: script_of(terms(colluders))).after((words(rows),))
    assert isinstance(request, NoisySum)
    return request


def addend_after(rows: int, position: int, colluders: int) -> np.ndarray:
    """What a member's walk hands out after it was told so many rows, with real noise."""
    walk = LearningWalk(terms(colluders), table(position))
    state, own = walk.begun()
    assert own.tolist() == [ROWS]
    _, addend = walk.step(state, words(rows), tuple(range(MEMBERS)))
    assert isinstance(addend, np.ndarray)
    return addend


def exact_sum(rows: int, positions: Sequence[int], colluders: int) -> np.ndarray:
    request = request_after(rows, colluders)
    return np.sum([exact_answer(table(each), request) for each in positions], axis=0)


def needed_deviation(rows: int) -> float:
    """σ in steps for one sum of unit vectors by (ε, δ), from the formula of proofs/gaussian.md."""

    def excess(mu: float) -> float:
        return norm.cdf(-EPSILON / mu + mu / 2) - math.exp(EPSILON) * norm.cdf(-EPSILON / mu - mu / 2) - DELTA

    grid = 2.0 ** -min(30, 52 - rows.bit_length())
    return 2 / grid / float(brentq(excess, 1e-3, 10))


def has_the_noise(noises: np.ndarray, rows: int) -> bool:
    """Whether measured noise is not below what (ε, δ) needs, by a χ² test of the lower side."""
    squares = np.sum((noises / needed_deviation(rows)) ** 2)
    return bool(squares >= chi2.ppf(FALSE_ALARM, noises.size))


# What the liar would gain


@pytest.mark.parametrize("told", [(TRUE_ROWS,) * 3, (TRUE_ROWS, FALSE_ROWS, FALSE_ROWS)])
def test_the_noise_of_members_told_different_rows_would_be_too_little(told):
    """Plain sums without masks: equal plans have the noise, different ones .58 of it, on the first member's grid. The gate tells them apart."""
    noises = []
    for _ in range(12):
        addends = [addend_after(rows, position, 1) for position, rows in enumerate(told)]
        exact = np.sum([exact_sum(rows, [position], 1) for position, rows in enumerate(told)], axis=0)
        noises.append(np.sum(addends, axis=0, dtype=np.uint64).view(np.int64) - exact)
    measured = np.std(noises) / needed_deviation(TRUE_ROWS)
    assert has_the_noise(np.array(noises), TRUE_ROWS) == (told[1] == TRUE_ROWS)
    assert (measured > 0.9) == (told[1] == TRUE_ROWS)


# The sum of rows: no two members use different totals of it


def participants(threshold: int, iteration: int, attempt: int, histories: Sequence[bytes]) -> list[Participant]:
    contexts = [
        SumContext("agreement", "learning", iteration, attempt, ROSTER, threshold, 1, history) for history in histories
    ]
    return [Participant(context, position, KEYS[position]) for position, context in enumerate(contexts)]


def carried_on(parties: Sequence[Party], tampered: Callable[[Message], Message]) -> None:
    """Deliver everything until nobody has more to say, the liar's messages as it likes."""
    queue = deque(message for party in parties for message in party.begin())
    while queue:
        message = queue.popleft()
        message = tampered(message) if message.sender == LIAR else message
        queue.extend(parties[message.receiver].receive(message))


def evidence(parties: Sequence[Party]) -> list[Contradiction]:
    """What the transcripts of the honest members prove together."""
    return contradictions([Transcript(party.participant.context, party.statements) for party in parties[:LIAR]])


@pytest.mark.parametrize("number", [0, 1])
def test_where_nobody_may_leave_a_false_parcel_stops_all_and_no_number_of_rows_is_used(number):
    parties = [Party(participant, words(ROWS)) for participant in participants(MEMBERS, 0, 0, [NO_HISTORY] * MEMBERS)]

    def tampered(message: Message) -> Message:
        body = message.body
        if not isinstance(body, Passed) or body.round != number or body.window is None:
            return message
        return replace(message, body=replace(body, window=body.window + words(2**28)))

    carried_on(parties, tampered)
    assert [party.total for party in parties[:LIAR]] == [None] * 3
    assert all(isinstance(party.failure, StatementsContradict) for party in parties[:LIAR])
    assert {(each.reason, each.liar) for each in evidence(parties)} == {("totals differ without a collector", None)}


def two_faced(participant: Participant, deceived: frozenset[int]) -> Callable[[Message], Message]:
    """A collector that signs another total for some, and says that it heard what each of them did."""

    def tampered(message: Message) -> Message:
        if message.receiver not in deceived or not isinstance(message.body, Opened | Heard):
            return message
        included = frozenset(range(MEMBERS))
        total = words(FALSE_ROWS)
        content = heard_content(participant.context, included, total)
        signed = stated(participant, "total", content)
        if isinstance(message.body, Opened):
            return replace(message, body=Opened(total, signed))
        return replace(message, body=Heard(stated(participant, "heard", content), signed))

    return tampered


@pytest.mark.parametrize("deceived", [frozenset({1}), frozenset({1, 2}), frozenset({0, 1, 2})])
def test_of_a_two_faced_collector_at_most_one_number_of_rows_is_used_and_it_is_named(deceived):
    collecting = participants(3, 0, LIAR, [NO_HISTORY] * MEMBERS)
    parties = [Party(participant, words(ROWS)) for participant in collecting]
    carried_on(parties, two_faced(collecting[LIAR], deceived))
    used = {party.total.tobytes() for party in parties[:LIAR] if party.total is not None}
    assert len(used) <= 1
    if len(deceived) < 3:
        stopped = [party.failure for party in parties[:LIAR] if party.total is None]
        assert any(isinstance(failure, StatementsContradict) for failure in stopped)
        assert {each.liar for each in evidence(parties)} == {NAMES[LIAR]}
    else:
        # All honest members were told one and the same false number: that is a lie about rows, and its noise is planned for.
        assert used == {words(FALSE_ROWS).tobytes()}


# The noisy sum after it: members with different histories open nothing together


def history_with(rows: int, threshold: int) -> bytes:
    context = participants(threshold, 0, 0, [NO_HISTORY] * MEMBERS)[0].context
    return history_after(NO_HISTORY, context, frozenset(range(MEMBERS)), words(rows))


def unmasked(participant: Participant, liar: Participant, vector: np.ndarray) -> np.ndarray:
    """A member's masked vector without its mask with the liar, who knows that one in every context."""
    taken = vector.copy()
    add_pair_masks(taken, LIAR, {participant.position: lasting_pair_seed(liar, participant.position)})
    return taken


def view_of_liar(told: Sequence[int], iteration: int, addends: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of all that honest members send in a sum that nobody may leave, less every mask that the liar knows."""
    histories = [history_with(rows, MEMBERS) for rows in told]
    views = []
    for position, history in enumerate(histories):
        everyone = participants(MEMBERS, iteration, 0, [history] * MEMBERS)
        (message,) = Party(everyone[position], addends[position]).begin()
        assert isinstance(message.body, Passed)
        assert message.body.window is not None
        views.append(unmasked(everyone[position], everyone[LIAR], message.body.window))
    return np.sum(views, axis=0, dtype=np.uint64)


def test_where_nobody_may_leave_vectors_of_different_histories_add_up_to_uniform_words():
    addends = [addend_after(rows, position, 1) for position, rows in enumerate((TRUE_ROWS, FALSE_ROWS, FALSE_ROWS))]
    total = np.sum(addends, axis=0, dtype=np.uint64)
    # One history: the liar has the sum of the others, as it may.
    np.testing.assert_array_equal(view_of_liar((TRUE_ROWS,) * 3, 1, addends), total)
    for told in ((TRUE_ROWS, FALSE_ROWS, FALSE_ROWS), (FALSE_ROWS, TRUE_ROWS, FALSE_ROWS)):
        views = np.array([view_of_liar(told, 1 + number, addends) for number in range(50)])
        # Masks are new in every iteration: 2,000 words, whose first bytes are uniform, and so is what is left without the true sum.
        for seen in (views, views - total):
            counts = np.bincount((seen >> np.uint64(56)).astype(np.int64).ravel(), minlength=256)
            squares = np.sum((counts - seen.size / 256) ** 2) / (seen.size / 256)
            assert chi2.ppf(FALSE_ALARM, 255) < squares < chi2.isf(FALSE_ALARM, 255)


def test_where_one_may_leave_what_is_opened_is_of_one_history_and_has_the_noise():
    """The first member is told the true rows, the others 2²⁸ more. The liar collects: it opens a sum without the first, with all the noise charged for."""
    known, threshold = 2, 3
    told = (TRUE_ROWS, FALSE_ROWS, FALSE_ROWS, FALSE_ROWS)
    histories = [history_with(rows, threshold) for rows in told]
    exact = exact_sum(FALSE_ROWS, [1, 2], known)
    noises = []
    for number in range(10):
        addends = [addend_after(rows, position, known) for position, rows in enumerate(told[:LIAR])]
        addends.append(np.zeros(FEATURES, dtype=np.uint64))
        iteration = 1 + number
        collecting = participants(threshold, iteration, (LIAR - iteration) % MEMBERS, histories)
        parties = [Party(participant, addend) for participant, addend in zip(collecting, addends, strict=True)]
        sent: list[Message] = []
        simulate(parties, watch=sent.append)
        assert not any(isinstance(message.body, Masked) and message.sender == 0 for message in sent)
        assert parties[0].total is None
        assert parties[1].included == frozenset({1, 2, 3})
        assert parties[LIAR].total is not None
        np.testing.assert_array_equal(parties[1].total, parties[LIAR].total)
        noises.append(parties[LIAR].total.view(np.int64) - exact)
    assert has_the_noise(np.array(noises), FALSE_ROWS)


def test_where_too_few_share_a_history_nothing_is_opened():
    """Two and two: the liar cannot make a sum of three that share one history."""
    for told in ((TRUE_ROWS, TRUE_ROWS, FALSE_ROWS, FALSE_ROWS), (TRUE_ROWS, FALSE_ROWS, FALSE_ROWS + 1, FALSE_ROWS)):
        histories = [history_with(rows, 3) for rows in told]
        parties = [
            Party(participant, addend_after(rows, min(participant.position, 2), 2))
            for participant, rows in zip(participants(3, 1, 2, histories), told, strict=True)
        ]
        sent: list[Message] = []
        simulate(parties, watch=sent.append)
        assert not any(isinstance(message.body, Masked | Opened) for message in sent)
        assert [party.total for party in parties] == [None] * 4
        assert isinstance(parties[LIAR].failure, MembersMissing)
