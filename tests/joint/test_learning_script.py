"""A member's walk: charged once and before any noise, the same after a restart, and never with too few members."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.errors import (
    BudgetExceeded,
    ImplausibleTotal,
    InvalidParameter,
    MembersMissing,
    NotCharged,
    NotSolved,
    SeededNoiseRefused,
)
from sudare.joint import LearningWalk, ScalerTerms, learned_together
from sudare.joint import learning_script as walk
from sudare.joint.in_process_simulation import masked_adder, plain_adder, threshold_for, walked
from sudare.joint.sum_script import Finished
from sudare.privacy import Ledger
from sudare.privacy.noise import SystemNoise
from sudare.privacy.release import pass_again
from sudare.sums.canonical_encoding import unpacked
from sudare.sums.context import least_threshold, noise_colluders, usual_dishonest
from tests.joint.kit import SCHEMA, arrays, member_tables, tables, terms

EVERYONE = (0, 1, 2, 3)


def accounts(folder, members=4, epsilon=6.0, delta=1e-5):
    return [
        Ledger(folder / f"{number}.db").account("patients", epsilon=epsilon, delta=delta) for number in range(members)
    ]


@pytest.mark.parametrize("agreed", [terms(), terms("descent", 2.0, 1e-6)])
def test_every_ledger_holds_the_same_charge(agreed, tmp_path):
    paying = accounts(tmp_path)
    together = learned_together(agreed, member_tables(), paying)
    entries = [[entry for entry in account.entries() if entry.kind == "charge"] for account in paying]
    assert [len(each) for each in entries] == [1, 1, 1, 1]
    assert len({str(each[0].body["cost"]) for each in entries}) == 1
    for account, found in zip(paying, together.found, strict=True):
        assert account.spent().epsilon == agreed.epsilon
        assert found.guarantee.valid
        assert account.ledger.contains(found.receipt)


class Listening(SystemNoise):
    """Notes how many charges there were when noise was asked for."""

    def __init__(self, account, heard):
        self._account, self._heard = account, heard

    def words(self, count):
        self._heard.append(len([entry for entry in self._account.entries() if entry.kind == "charge"]))
        return super().words(count)


def test_the_charge_is_entered_before_noise_is_drawn(tmp_path, monkeypatch):
    account, heard = accounts(tmp_path, members=1)[0], []
    monkeypatch.setattr("sudare.privacy.release.SystemNoise", lambda: Listening(account, heard))
    member = LearningWalk(terms(), member_tables()[0], account)
    state, _ = member.begun()
    assert account.entries()[-1].kind != "charge"
    member.step(state, np.array([240], dtype=np.uint64), EVERYONE)
    assert heard
    assert set(heard) == {1}


def test_an_account_that_cannot_pay_stops_its_member_before_anything_left(tmp_path):
    member = LearningWalk(terms(), member_tables()[0], accounts(tmp_path, epsilon=1.0)[0])
    state, _ = member.begun()
    with pytest.raises(BudgetExceeded):
        member.step(state, np.array([240], dtype=np.uint64), EVERYONE)


def test_a_seed_beside_an_account_is_refused(tmp_path):
    member = LearningWalk(terms(), member_tables()[0], accounts(tmp_path)[0], random_state=0)
    state, _ = member.begun()
    with pytest.raises(SeededNoiseRefused):
        member.step(state, np.array([240], dtype=np.uint64), EVERYONE)


def walked_through(make, agreed, totals_of_others):
    """One member's walk among others whose addends are given; with `make` called anew before every step it is restarted each time."""
    state, words = make().begun()
    number = 0
    while True:
        total = words + totals_of_others[number]
        state, answer = make().step(state, total, EVERYONE)
        number += 1
        if isinstance(answer, Finished):
            return number, answer.result
        words = answer


def test_a_member_restarted_at_every_step_pays_once_and_finishes(tmp_path):
    agreed, account, table = terms("descent", 2.0, 1e-6), accounts(tmp_path)[0], member_tables()[0]
    steps = len(agreed.plan(240).sums)
    others = [np.array([180], dtype=np.uint64)] + [np.zeros(2, dtype=np.uint64)] * steps
    sums, found = walked_through(lambda: LearningWalk(agreed, table, account), agreed, others)
    assert sums == steps + 1
    assert account.spent().epsilon == 2.0
    assert account.ledger.contains(found.receipt)


def test_the_same_totals_lead_to_the_same_model_after_a_replay():
    """The script is deterministic: a walk that replays what was heard asks the same and ends with the same bits."""
    agreed, made = terms("descent", 2.0, 1e-6), member_tables()
    one = learned_together(agreed, made, random_state=3, hide="nothing")
    two = learned_together(agreed, made, random_state=3, hide="nothing")
    np.testing.assert_array_equal(one.learned.parameters, two.learned.parameters)
    member = LearningWalk(agreed, made[0], random_state=1)
    state, _ = member.begun()
    states = [state]
    totals = [np.array([240], dtype=np.uint64), np.array([5, 7], dtype=np.uint64), np.array([1, 2], dtype=np.uint64)]
    for total in totals:
        states.append(member.step(states[-1], total, EVERYONE)[0])
    again = LearningWalk(agreed, made[0], random_state=1)
    request = again._script.after(unpacked(states[-1], walk._Saved).heard)
    np.testing.assert_array_equal(request.place, member._script.after(unpacked(states[-1], walk._Saved).heard).place)


def test_a_receipt_that_the_ledger_does_not_have_gets_no_noise(tmp_path):
    first, second = accounts(tmp_path, members=2)
    member = LearningWalk(terms(), member_tables()[0], first)
    state, _ = member.begun()
    state, _ = member.step(state, np.array([240], dtype=np.uint64), EVERYONE)
    for other in (second, None):
        with pytest.raises(NotCharged):
            LearningWalk(terms(), member_tables()[0], other).step(state, np.array([1, 1], dtype=np.uint64), EVERYONE)
    found = unpacked(state, walk._Saved)
    assert found.receipt is not None
    entry = [entry for entry in first.entries() if entry.kind == "charge"]
    assert len(entry) == 1
    with pytest.raises(NotCharged):
        pass_again(
            second, LearningWalk(terms(), member_tables()[0], first)._entered(found).receipt, entry[0].body["what"]
        )


# Who is missing


def test_masks_and_no_masks_give_the_same_totals():
    agreed, made = terms(members=5, colluders=2), member_tables(5)
    hidden = learned_together(agreed, made, random_state=7)
    plain = learned_together(agreed, made, random_state=7, hide="nothing")
    np.testing.assert_array_equal(hidden.learned.parameters, plain.learned.parameters)
    assert hidden.sums == plain.sums == 2


def test_a_member_may_leave_where_that_was_allowed_for():
    agreed = terms(members=5, colluders=3)
    together = learned_together(agreed, member_tables(5), leave_before={3: 1})
    assert [found is None for found in together.found] == [False, False, False, True, False]
    with pytest.raises(MembersMissing):
        together.model(3)
    assert together.model(0).score(*arrays(seed=9)[0]) > 0.8


@pytest.mark.parametrize("hide", ["masks", "nothing"])
def test_too_many_that_leave_stop_a_sum_before_anything_is_opened(hide):
    with pytest.raises(MembersMissing):
        learned_together(
            terms(members=5, colluders=3), member_tables(5), random_state=0, hide=hide, leave_before={3: 1, 4: 1}
        )


def test_a_walk_does_not_use_a_total_of_too_few():
    member = LearningWalk(terms(), member_tables()[0])
    state, _ = member.begun()
    with pytest.raises(MembersMissing, match="1 of 4"):
        member.step(state, np.array([180], dtype=np.uint64), (0, 1, 2))


def test_as_many_may_leave_in_one_process_as_an_agreement_with_that_noise_lets_leave():
    for members in range(2, 12):
        for known in range(1, members):
            threshold = threshold_for(terms(members=members, colluders=known))
            dishonest = usual_dishonest(members)
            assert threshold == members or noise_colluders(members, threshold, dishonest) <= known
            assert threshold == least_threshold(members, dishonest) or (
                noise_colluders(members, threshold - 1, dishonest) > known
            )


def test_an_implausible_total_is_not_used():
    member = LearningWalk(terms(), member_tables()[0], random_state=0)
    state, _ = member.begun()
    for rows in (2**63, 0, 2**64 - 5, 2**41):
        with pytest.raises(ImplausibleTotal):
            member.step(state, np.array([rows], dtype=np.uint64), EVERYONE)
    state, _ = member.step(state, np.array([240], dtype=np.uint64), EVERYONE)
    with pytest.raises(ImplausibleTotal):
        member.step(state, np.array([2**62, 0], dtype=np.uint64), EVERYONE)
    with pytest.raises(ImplausibleTotal):
        member.step(state, np.array([1, 1, 1], dtype=np.uint64), EVERYONE)


def test_nothing_follows_the_end():
    agreed, made = terms(), member_tables()
    member = LearningWalk(agreed, made[0], random_state=0)
    state, _ = member.begun()
    state, _ = member.step(state, np.array([240], dtype=np.uint64), EVERYONE)
    state, answer = member.step(state, np.array([10, 10], dtype=np.uint64), EVERYONE)
    assert isinstance(answer, Finished)
    with pytest.raises(NotSolved):
        member.step(state, np.array([10, 10], dtype=np.uint64), EVERYONE)


def test_a_scaler_is_walked_alike():
    agreed = ScalerTerms(SCHEMA, 3.0, 1e-6, 4)
    made = [walk.MemberTable(table) for table in tables()]
    walks = [LearningWalk(agreed, table, random_state=0) for table in made]
    found, sums, numbers = walked(walks, masked_adder(agreed, 4), {})
    assert (sums, numbers) == (3, 1 + 2 + 4)
    again, _, _ = walked([LearningWalk(agreed, table, random_state=0) for table in made], plain_adder(4), {})
    np.testing.assert_array_equal(found[0].outcome.mean, again[3].outcome.mean)


def test_members_and_tables_must_match():
    with pytest.raises(InvalidParameter):
        learned_together(terms(members=4), member_tables(3))


@pytest.mark.parametrize("is_restarted", [False, True])
def test_fewer_rows_in_all_than_ones_own_are_refused_before_the_charge(is_restarted, tmp_path):
    account, table = accounts(tmp_path, members=1)[0], member_tables()[0]
    member = LearningWalk(terms(colluders=2), table, account)
    state, _ = member.begun()
    if is_restarted:
        member = LearningWalk(terms(colluders=2), member_tables()[0], account)
    with pytest.raises(ImplausibleTotal, match="below this member's own"):
        member.step(state, np.array([59], dtype=np.uint64), EVERYONE)
    assert account.spent().epsilon == 0.0
    # Whoever was left out of the total hears of fewer rows than its own, and goes on.
    member.step(state, np.array([59], dtype=np.uint64), (1, 2, 3))
