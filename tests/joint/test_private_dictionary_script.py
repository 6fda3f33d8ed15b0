"""A private dictionary between members: the bits of one process, charged once and before any noise, and one noise a sum."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from sudare.dictionary.in_process_secure_sums import ADDENDS
from sudare.dictionary.member_tables import Records
from sudare.dictionary.private_training import PrivateTerms
from sudare.errors import (
    BudgetExceeded,
    DataError,
    ImplausibleTotal,
    InvalidParameter,
    MembersMissing,
    NotCharged,
    NotSolved,
    SeededNoiseRefused,
    TaskStopped,
)
from sudare.joint.dictionary_script import TrainedDictionary
from sudare.joint.private_dictionary_script import PrivateDictionaryWalk
from sudare.joint.sum_script import Finished
from sudare.privacy import Account, Guarantee
from sudare.privacy.accounting import pure_cost
from sudare.privacy.noise import SystemNoise
from tests.consortium.simulated_consortium import Consortium, CrashingStore, Killed, RoughNetwork
from tests.faults.test_consortium import KillingNetwork
from tests.joint.private_training import (
    DELTA,
    EPSILON,
    SUMS,
    Listening,
    NoiseOfItsValues,
    RememberingStore,
    account_in,
    charges_of,
    estimator,
    tables,
    terms_of,
    walks,
)

EVERYONE = (0, 1, 2)
ROWS = 40


def found_by(consortium: Consortium) -> list[TrainedDictionary]:
    assert consortium.failures() == {}
    results = [consortium.results()[name] for name in consortium.names]
    assert all(isinstance(each, TrainedDictionary) for each in results)
    return results


def patterns_of(found: TrainedDictionary) -> bytes:
    return b"".join(values.tobytes() for _, values in sorted(found.dictionary.natural().arrays.items()))


# What comes out


@pytest.mark.parametrize("family", ["sparse_gaussian", "diagonal_gaussian"])
def test_the_same_noise_gives_the_bits_of_one_process(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sudare.privacy.release.SystemNoise", NoiseOfItsValues)
    monkeypatch.setattr("tests.joint.private_training.estimator", lambda: estimator(family=family))
    accounts = {place: account_in(tmp_path, f"member-{place}") for place in range(3)}
    consortium = Consortium(3, None, walks(3, accounts))
    assert consortium.run()
    in_process = estimator(family=family, account=account_in(tmp_path, "owner")).fit(tables(3))
    for place, found in enumerate(found_by(consortium)):
        natural = found.dictionary.natural()
        for name, expected in in_process.patterns_.arrays.items():
            np.testing.assert_array_equal(natural.arrays[name], expected)
        np.testing.assert_array_equal(found.own_part.weights, in_process.weights_[place])
        assert (found.sums, found.numbers) == (in_process.n_sums_, in_process.n_numbers_) == (SUMS, found.numbers)
        assert found.guarantee == in_process.guarantee_ == Guarantee(EPSILON, DELTA)
        np.testing.assert_array_equal(found.own_part.pattern_weights, in_process.own_parts_[place].pattern_weights)


@pytest.mark.usefixtures("nothing_learnt_at_home")
def test_real_noise_is_everybodys_own(tmp_path: Path) -> None:
    """Two runs over the same records differ, and members of one run agree."""
    seen = set()
    for _ in range(2):
        consortium = Consortium(3, None, walks(3))
        assert consortium.run()
        assert len({patterns_of(found) for found in found_by(consortium)}) == 1
        seen.add(patterns_of(found_by(consortium)[0]))
    assert len(seen) == 2


# The ledger


@pytest.mark.usefixtures("nothing_learnt_at_home")
def test_every_member_is_charged_once_the_same_and_discloses_nothing(tmp_path: Path) -> None:
    accounts = {place: account_in(tmp_path, f"member-{place}") for place in range(3)}
    consortium = Consortium(3, None, walks(3, accounts))
    assert consortium.run()
    cost = terms_of(3).plan(3 * ROWS).cost.to_dict()
    for account, found in zip(accounts.values(), found_by(consortium), strict=True):
        assert [entry.kind for entry in account.entries()] == ["open", "charge"]
        (charge,) = charges_of(account)
        assert charge["cost"] == cost
        assert charge["what"] == "pattern dictionary of 3 members"
        assert str(charge["purpose"]).startswith("task 'joint', run ")
        assert account.ledger.contains(found.receipt)
        assert account.spent().epsilon == EPSILON
    assert len({str(charges_of(account)[0]["purpose"]) for account in accounts.values()}) == 3


class CountsCharges(SystemNoise):
    """Notes how many charges there were when noise was asked for."""

    def __init__(self, account, heard):
        self._account, self._heard = account, heard

    def gaussian(self, values, scale):
        self._heard.append(len(charges_of(self._account)))
        return super().gaussian(values, scale)


def first_total(rows: int = 3 * ROWS) -> np.ndarray:
    return ADDENDS.encode(np.array([rows / 2.0**32])).words


def test_the_charge_is_entered_before_noise_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account, heard = account_in(tmp_path), []
    monkeypatch.setattr("sudare.privacy.release.SystemNoise", lambda: CountsCharges(account, heard))
    member = walks(3, {0: account})(0)
    state, _ = member.begun()
    assert charges_of(account) == []
    member.step(state, first_total(), EVERYONE)
    assert set(heard) == {1}


def test_who_cannot_pay_sends_nothing_and_the_others_pay_nothing(tmp_path: Path) -> None:
    accounts = {
        0: account_in(tmp_path, "rich"),
        1: account_in(tmp_path, "poor", epsilon=1.0),
        2: account_in(tmp_path, "without-delta", delta=1e-9),
    }
    for poor in (1, 2):
        consortium = Consortium(3, None, walks(3, {0: accounts[0], 1: accounts[poor]}))
        assert consortium.run()
        failures = [consortium.failures()[name] for name in consortium.names]
        assert isinstance(failures[1], BudgetExceeded)
        assert "Nothing was sent or spent" in str(failures[1])
        assert {type(failures[place]) for place in (0, 2)} == {TaskStopped}
        # No addend was ever made, so none can have been sent.
        assert "sum-0" not in consortium.stores[consortium.names[1]].contents
        assert charges_of(accounts[0]) == charges_of(accounts[poor]) == []


def test_what_was_spent_elsewhere_meanwhile_stops_it_before_any_noise(tmp_path: Path) -> None:
    account = account_in(tmp_path)
    member = walks(3, {0: account})(0)
    state, _ = member.begun()
    account.charge(Guarantee(3.0), pure_cost(3.0), "something else")
    with pytest.raises(BudgetExceeded):
        member.step(state, first_total(), EVERYONE)
    assert len(charges_of(account)) == 1


def test_a_seed_beside_an_account_is_refused(tmp_path: Path) -> None:
    member = walks(3, {0: account_in(tmp_path)})(0)
    member._entrance._random_state = 0
    state, _ = member.begun()
    with pytest.raises(SeededNoiseRefused):
        member.step(state, first_total(), EVERYONE)


def test_seeded_noise_voids_the_guarantee() -> None:
    """For simulations: nothing is charged, and the promise says that it is none."""
    private, (table, *_) = terms_of(3), tables(3)
    member = PrivateDictionaryWalk(private, Guarantee(EPSILON, DELTA), Records.of(table), random_state=0)
    state, _ = member.begun()
    state, answer = member.step(state, first_total(), EVERYONE)
    while not isinstance(answer, Finished):
        state, answer = member.step(state, answer, EVERYONE)
    assert isinstance(answer.result, TrainedDictionary)
    assert answer.result.guarantee == Guarantee(EPSILON, DELTA, valid=False)
    assert answer.result.receipt is None


def test_a_charge_whose_addend_was_never_safe_is_found_again_and_a_lost_state_pays_again(tmp_path: Path) -> None:
    account = account_in(tmp_path, epsilon=12.0)
    walk = walks(3, {0: account})
    state, _ = walk(0).begun()
    first, one = walk(0).step(state, first_total(), EVERYONE)
    again, two = walk(0).step(state, first_total(), EVERYONE)
    assert len(charges_of(account)) == 1
    assert first == again
    assert not np.array_equal(one, two)
    lost, _ = walk(0).begun()
    walk(0).step(lost, first_total(), EVERYONE)
    assert len(charges_of(account)) == 2


def test_a_receipt_that_the_ledger_does_not_have_gets_no_noise(tmp_path: Path) -> None:
    walk = walks(3, {0: account_in(tmp_path)})
    state, _ = walk(0).begun()
    state, addend = walk(0).step(state, first_total(), EVERYONE)
    for other in ({0: account_in(tmp_path, "other")}, {}):
        with pytest.raises(NotCharged):
            walks(3, other)(0).step(state, np.zeros_like(addend), EVERYONE)


# Killed and restarted


@dataclass
class Training(Consortium):
    """A private training whose second member pays, and whose stores remember every addend that may have been sent."""

    heard: list = field(default_factory=list)
    account: Account | None = None

    def __post_init__(self) -> None:
        made = walks(self.members, {1: self.account}, 1 if self.threshold is None else 2)
        self.walks = lambda place: Listening(made(place), self.heard) if place == 0 else made(place)
        super().__post_init__()
        self.stores = {name: RememberingStore() for name in self.names}

    def check(self) -> None:
        """Members agree, the one that was killed paid once, and every total is the sum of addends of which there was one only."""
        assert len({patterns_of(found) for found in found_by(self)}) == 1
        assert len(charges_of(self.account)) == 1
        assert len(self.heard) == SUMS
        for number, total in enumerate(self.heard):
            addends = [self.stores[name].addends[number] for name in self.names]
            assert [len(each) for each in addends] == [1] * self.members
            words = [np.frombuffer(each, dtype=np.uint64) for (each,) in addends]
            np.testing.assert_array_equal(np.sum(words, axis=0, dtype=np.uint64), total)


@pytest.mark.usefixtures("nothing_learnt_at_home")
@pytest.mark.parametrize(
    ("threshold", "stride"),
    [
        pytest.param(None, 1, id="all must stay"),
        pytest.param(2, 19, id="one may leave, some saves"),
        pytest.param(2, 1, id="one may leave", marks=pytest.mark.long),
    ],
)
def test_a_member_killed_at_every_save_pays_once_and_never_has_two_noises_for_a_sum(
    threshold: int | None, stride: int, tmp_path: Path
) -> None:
    undisturbed = Training(3, threshold, account=account_in(tmp_path, "undisturbed"))
    assert undisturbed.run()
    undisturbed.check()
    saves = undisturbed.stores[undisturbed.names[1]].saves
    assert saves > 2 * SUMS
    for step, after in itertools.islice(itertools.product(range(1, saves + 1), (False, True)), 0, None, stride):
        training = Training(3, threshold, account=account_in(tmp_path, f"{step}-{after}"))
        training.stores[training.names[1]] = RememberingStore(die_at=frozenset({step}), after=after)
        assert training.run(), step
        assert training.simulation.lives(training.names[1]) == 2
        training.check()


@pytest.mark.usefixtures("nothing_learnt_at_home")
@pytest.mark.parametrize(
    "threshold", [None, pytest.param(2, marks=pytest.mark.long)], ids=["all must stay", "one may leave"]
)
def test_a_member_killed_at_every_packet_pays_once_and_never_has_two_noises_for_a_sum(
    threshold: int | None, tmp_path: Path
) -> None:
    for number in range(1, 400):
        network = KillingNetwork("member-01", number)
        training = Training(3, threshold, network=network, account=account_in(tmp_path, f"{number}"))
        assert training.run()
        training.check()
        if network.sent < number:
            assert number > 3 * SUMS
            return
        assert training.simulation.lives("member-01") == 2
    pytest.fail("It never came to an end.")


class DiesAfterTheCharge:
    """A walk whose process ends once, between its charge and the checkpoint that follows."""

    is_exact = False

    def __init__(self, walk, deaths: list[int]) -> None:
        self._walk, self._deaths = walk, deaths

    def begun(self):
        return self._walk.begun()

    def step(self, state, total, included):
        following = self._walk.step(state, total, included)
        if not self._deaths:
            self._deaths.append(1)
            raise Killed
        return following


@pytest.mark.usefixtures("nothing_learnt_at_home")
def test_between_the_charge_and_the_checkpoint_too(tmp_path: Path) -> None:
    training, deaths = Training(3, account=account_in(tmp_path)), []
    usual = training.walks
    training.walks = lambda place: DiesAfterTheCharge(usual(place), deaths) if place == 1 else usual(place)
    assert training.run()
    assert deaths
    assert training.simulation.lives(training.names[1]) == 2
    training.check()


@pytest.mark.usefixtures("nothing_learnt_at_home")
def test_all_killed_again_and_again_over_a_rough_network(tmp_path: Path) -> None:
    accounts = {place: account_in(tmp_path, f"member-{place}") for place in range(3)}
    consortium = Consortium(3, None, walks(3, accounts), RoughNetwork(1, lost=0.1, repeated=0.2, replayed=0.1))
    for position, name in enumerate(consortium.names):
        consortium.stores[name] = RememberingStore(die_at=frozenset(range(4 + position, 60, 7)))
    assert consortium.run()
    assert all(consortium.simulation.lives(name) >= 3 for name in consortium.names)
    assert len({patterns_of(found) for found in found_by(consortium)}) == 1
    for account, store in zip(accounts.values(), consortium.stores.values(), strict=True):
        assert len(charges_of(account)) == 1
        assert all(len(addends) == 1 for addends in store.addends.values())


# Members that leave


@pytest.mark.usefixtures("nothing_learnt_at_home")
@pytest.mark.parametrize("dies_at", [2, 8, 13])
def test_where_shares_allow_for_it_the_others_finish_without_one_that_left(dies_at: int) -> None:
    consortium = Consortium(4, 3, walks(4, colluders=2), silence_seconds=10.0)
    consortium.stores[consortium.names[2]] = CrashingStore(die_at=frozenset({dies_at}))
    consortium.simulation._restart_seconds = float("inf")
    staying = [name for place, name in enumerate(consortium.names) if place != 2]
    assert consortium.run(600.0, *staying)
    assert consortium.failures() == {}
    assert len({patterns_of(consortium.results()[name]) for name in staying}) == 1


def test_where_they_do_not_all_stop_with_the_same_error(tmp_path: Path) -> None:
    """A threshold that lets one leave and noise that does not allow for it: an agreement refuses that, and so does every walk."""
    accounts = {place: account_in(tmp_path, f"member-{place}") for place in range(4)}
    consortium = Consortium(4, 3, walks(4, accounts, colluders=1), silence_seconds=10.0)
    consortium.stores[consortium.names[2]] = CrashingStore(die_at=frozenset({2}))
    consortium.simulation._restart_seconds = float("inf")
    staying = [name for place, name in enumerate(consortium.names) if place != 2]
    assert consortium.run(600.0, *staying)
    failures = [consortium.failures()[name] for name in staying]
    assert {type(failure) for failure in failures} <= {MembersMissing, TaskStopped}
    assert any(isinstance(failure, MembersMissing) for failure in failures)
    assert not consortium.results()
    assert all(charges_of(account) == [] for account in accounts.values())


def test_more_missing_than_agreed_is_an_error_for_all_who_stay() -> None:
    consortium = Consortium(4, 3, walks(4, colluders=2), silence_seconds=10.0)
    for place in (1, 2):
        consortium.stores[consortium.names[place]] = CrashingStore(die_at=frozenset({9}))
    consortium.simulation._restart_seconds = float("inf")
    staying = [consortium.names[0], consortium.names[3]]
    assert consortium.run(600.0, *staying)
    assert not consortium.results()
    assert {type(consortium.failures()[name]) for name in staying} == {MembersMissing}


def test_a_total_of_too_few_is_not_used() -> None:
    member = walks(3)(0)
    state, _ = member.begun()
    with pytest.raises(MembersMissing, match="1 of 3"):
        member.step(state, first_total(), (0, 1))


# Totals that cannot be


def test_implausible_totals_stop_it_and_cost_nothing_before_the_first_noise(tmp_path: Path) -> None:
    account = account_in(tmp_path)
    member = walks(3, {0: account})(0)
    state, _ = member.begun()
    # Fewer records than this member holds alone, and more than three members can have.
    for words in (first_total(ROWS - 1), np.array([2**62], dtype=np.uint64)):
        with pytest.raises(ImplausibleTotal):
            member.step(state, words, EVERYONE)
    assert charges_of(account) == []
    state, addend = member.step(state, first_total(), EVERYONE)
    for size in (2**62, 2**53):
        with pytest.raises(ImplausibleTotal):
            member.step(state, np.full_like(addend, size), EVERYONE)


def test_too_few_records_are_an_error_before_the_charge(tmp_path: Path) -> None:
    account = account_in(tmp_path)
    member = walks(3, {0: account})(0)
    state, _ = member.begun()
    with pytest.raises(DataError, match="more records than columns"):
        member.step(state, first_total(2), EVERYONE)
    assert charges_of(account) == []


def test_noise_too_large_for_exact_words_is_refused_before_anything_is_told() -> None:
    loud = PrivateTerms(terms_of(3).terms, 0.01, DELTA, rows_per_unit=1000)
    member = PrivateDictionaryWalk(loud, Guarantee(0.01, DELTA), Records.of(tables(1)[0]))
    with pytest.raises(InvalidParameter, match="too large to be added exactly"):
        member.begun()


def test_nothing_follows_the_end() -> None:
    member = walks(3)(0)
    state, addend = member.begun()
    total = first_total()
    while not isinstance(addend, Finished):
        state, addend = member.step(state, total, EVERYONE)
        if not isinstance(addend, Finished):
            total = np.zeros_like(addend)
    assert isinstance(addend.result, TrainedDictionary)
    assert addend.result.receipt is None
    with pytest.raises(NotSolved):
        member.step(state, total, EVERYONE)
