"""Whole tasks between nodes of which one runs a dishonest program: it learns nothing, and the task finishes without its lie or ends with a clear error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sudare.array_types import Words
from sudare.consortium.network.message_dispatch import Envelope
from sudare.consortium.network.presence_announcements import HEADER, HELLO, KEY_BYTES, SIGNATURE_BYTES, announcement
from sudare.consortium.network.session import Session
from sudare.consortium.network.transport.base import Packet
from sudare.consortium.tasks.relay_sum_collector import RelayedSums
from sudare.consortium.tasks.sum_script_runner import SUM, SumRunner, Total
from sudare.dictionary import PatternDictionary
from sudare.dictionary.in_process_secure_sums import ADDENDS
from sudare.dictionary.sum_questions import Vetoes
from sudare.dictionary.training import trained
from sudare.errors import (
    IdentityError,
    ImplausibleTotal,
    InvalidParameter,
    MembersMissing,
    StatementsContradict,
    SudareError,
    TaskStopped,
)
from sudare.joint import LearningWalk
from sudare.joint.dictionary_script import DictionaryWalk, TrainedDictionary, totals_heard
from sudare.joint.sum_script import Finished
from sudare.privacy import Account, Ledger
from sudare.sums.blame import Transcript, contradictions
from sudare.sums.canonical_encoding import unpacked_as
from sudare.sums.context import RELAY_NAME, Participant
from sudare.sums.keys import MemberKeys, PublicKeys
from sudare.sums.messages import (
    Advertised,
    Body,
    Dealt,
    Directory,
    GivenUp,
    Heard,
    Included,
    Masked,
    Message,
    Opened,
    OpenedShares,
    Passed,
    Revealed,
    Withdrawn,
    heard_content,
)
from sudare.sums.statements import Statement, stated
from tests.consortium import simulated_consortium
from tests.consortium.memory_store import MemoryStore
from tests.consortium.simulated_consortium import IDENTITIES, RELAY, Consortium, SteppingWalk, pins_of
from tests.consortium.tasks.test_task_activities import BOUNDS, dictionary_walk
from tests.joint.kit import member_tables, terms

pytestmark = pytest.mark.usefixtures("nothing_learnt_at_home")

LIAR, VICTIM = 0, 1
VICTIMS_OWN, FEW = 12, 20
# As many rows more as once made members use a coarser clip.
MORE = np.uint64(1 << 28)


class Dishonest(SumRunner):
    """The honest program but for what it sends, and for what it says it never got. It keeps everything that it was sent."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seen: list[tuple[int, int, Message]] = []
        self.lies = 0

    def posts(self) -> list[tuple[str, Envelope]]:
        found = []
        for receiver, envelope in super().posts():
            if envelope.kind == SUM:
                message = Message.from_bytes(envelope.body)
                participant = self._sums[envelope.iteration]._party.participant
                told = replace(message, body=self.told(participant, message.receiver, message.body))
                self.lies += told.body is not message.body
                found.append((receiver, replace(envelope, body=told.to_bytes())))
            else:
                found.append((receiver, envelope))
        return found

    def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
        if envelope.kind == SUM:
            message = Message.from_bytes(envelope.body)
            self.seen.append((envelope.iteration, envelope.attempt, message))
            if self.ignores(message):
                self.lies += 1
                return True
        return super().receive(sender, envelope, now)

    def told(self, participant: Participant, receiver: int, body: Body) -> Body:
        return body

    def ignores(self, message: Message) -> bool:
        return False


class ClaimsThatAllOthersLeft(Dishonest):
    """Asks for a sum of the victim alone."""

    def told(self, participant: Participant, receiver: int, body: Body) -> Body:
        if isinstance(body, Included):
            return Included(stated(participant, "included", participant.context.bitmap(frozenset({VICTIM}))))
        return body


class ClaimsThatOneLeft(Dishonest):
    """Says that it never got the victim's vector, which it keeps."""

    def ignores(self, message: Message) -> bool:
        return isinstance(message.body, Masked) and message.sender == VICTIM


class TellsDifferentTotals(Dishonest):
    """Tells members with odd numbers another total, and supports both."""

    def told(self, participant: Participant, receiver: int, body: Body) -> Body:
        if receiver % 2 == 0:
            return body
        if isinstance(body, Opened):
            return Opened(body.words + MORE, self._total(participant, body.words))
        if (
            isinstance(body, Heard)
            and isinstance(body.total, Statement)
            and participant.context.collector == participant.position
        ):
            words = self._sums[participant.context.iteration]._party.state.member.opened
            total = self._total(participant, words)
            return Heard(stated(participant, "heard", total.content), total)
        if isinstance(body, Passed) and body.window is not None:
            return Passed(body.round, body.window + MORE, body.partial)
        return body

    def _total(self, participant: Participant, words: Any) -> Statement:
        state = self._sums[participant.context.iteration]._party.state
        included = participant.context.members_in(state.member.included)
        return stated(participant, "total", heard_content(participant.context, included, words + MORE))


class ShowsAnothersKey(Session):
    """Shows one member, or all, the victim's key for masks as its own."""

    to: str | None = None

    def due(self, now: float) -> Iterator[Packet]:
        victims = IDENTITIES[VICTIM].member_keys(b"test").public
        shown = PublicKeys(victims.exchange, self.publics.signing)
        yield from with_other_keys(self, super().due(now), shown, lambda name: self.to in (None, name))


class ShowsTwoKeys(Session):
    """Shows the victim other keys than the rest."""

    shown = MemberKeys.generated().public

    def due(self, now: float) -> Iterator[Packet]:
        victim = simulated_consortium.names_of(VICTIM + 1)[VICTIM]
        yield from with_other_keys(self, super().due(now), self.shown, lambda name: name == victim)


def with_other_keys(
    session: Session, packets: Iterator[Packet], shown: PublicKeys, is_shown_to: Callable[[str], bool]
) -> Iterator[Packet]:
    """What a session says, where the hellos to some members hold other keys, signed as well."""
    for name, content in packets:
        shows = content[4] == HELLO and is_shown_to(name)
        yield Packet(name, hello_with_other_keys(session, content, shown) if shows else content)


def hello_with_other_keys(session: Session, content: bytes, shown: PublicKeys) -> bytes:
    start = HEADER.size + 2 * KEY_BYTES
    stated = content[HEADER.size : start] + shown.exchange + shown.signing
    tags = content[start + 2 * KEY_BYTES : -SIGNATURE_BYTES]
    _, kind, life, view, number = HEADER.unpack_from(content)
    return announcement(session._identity, session.name, kind, life, view, number, stated + tags)


class FallsSilent(Dishonest):
    """Stays there and says nothing of sums after the first."""

    def posts(self) -> list[tuple[str, Envelope]]:
        said = [each for each in super().posts() if each[1].kind == SUM and not each[1].iteration]
        self.lies += 1
        return said


def consortium_with(
    monkeypatch: pytest.MonkeyPatch,
    members: int,
    threshold: int | None,
    walk: Callable[[int], Any],
    runs: type[SumRunner] = Dishonest,
    session: type[Session] = Session,
) -> Consortium:
    """Members of which the first runs another program."""
    liar = simulated_consortium.names_of(members)[LIAR]
    monkeypatch.setattr(
        simulated_consortium,
        "SumRunner",
        lambda task, group, *rest: (runs if group.name == liar else SumRunner)(task, group, *rest),
    )
    monkeypatch.setattr(
        simulated_consortium, "Session", lambda name, *rest: (session if name == liar else Session)(name, *rest)
    )
    return Consortium(members, threshold, walk, silence_seconds=5.0)


def honest_names(consortium: Consortium) -> list[str]:
    return [name for position, name in enumerate(consortium.names) if position != LIAR]


def check_nothing_was_opened(consortium: Consortium, threshold: int) -> None:
    """Of no honest member both halves of its secrets, or a self-mask for fewer than t members, can be told from what the liar was sent."""
    liar = consortium.runners[consortium.names[LIAR]]
    assert isinstance(liar, Dishonest)
    assert liar.lies
    given: dict[tuple[int, int], list[OpenedShares]] = defaultdict(list)
    for iteration, attempt, message in liar.seen:
        if isinstance(message.body, Revealed):
            given[iteration, attempt].append(OpenedShares.from_bytes(message.body.shares.content))
    opened: dict[int, set[frozenset[int]]] = defaultdict(set)
    for (iteration, _), shares in given.items():
        for owner in range(consortium.members):
            halves = (
                sum(owner in each.of_self_seeds for each in shares),
                sum(owner in each.of_mask_keys for each in shares),
            )
            # With its own share of each.
            assert min(halves) + 1 < threshold
        opened[iteration] |= {frozenset(each.of_self_seeds) for each in shares}
    for sets in opened.values():
        assert len(sets) == 1
        assert all(len(each) >= threshold for each in sets)


def dictionaries(members: int) -> Callable[[int], Any]:
    return dictionary_walk(members)


def learners(folder: Path, members: int, colluders: int) -> tuple[list[Account], Callable[[int], LearningWalk]]:
    accounts = [Ledger(folder / f"{place}.db").account("rows", 9.0) for place in range(members)]
    agreed, held = terms(members=members, colluders=colluders), member_tables(members)
    return accounts, lambda place: LearningWalk(agreed, held[place], accounts[place], purpose="task 'joint'")


def outcomes(consortium: Consortium) -> set[bytes]:
    """What honest members ended with."""
    found = set()
    for name in honest_names(consortium):
        result = consortium.results().get(name)
        if isinstance(result, TrainedDictionary):
            arrays = result.dictionary.natural().arrays
            found.add(b"".join(arrays[key].tobytes() for key in sorted(arrays)))
        elif result is not None:
            found.add(result.outcome.parameters.tobytes())  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("program", [ClaimsThatAllOthersLeft, ClaimsThatOneLeft])
def test_a_false_claim_about_who_left_opens_nothing_of_a_dictionary(
    program: type[Dishonest], monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium = consortium_with(monkeypatch, 4, 3, dictionaries(4), program)
    assert consortium.run(900.0, *honest_names(consortium))
    check_nothing_was_opened(consortium, 3)
    failures = [each for name, each in consortium.failures().items() if name in honest_names(consortium)]
    # The dictionary is learnt, without the victim where it was left out of the first sum: it looks on.
    assert failures == []
    assert len(outcomes(consortium)) == 1


@pytest.mark.parametrize("program", [ClaimsThatAllOthersLeft, ClaimsThatOneLeft])
def test_a_model_is_learnt_without_a_false_claim_about_who_left(
    program: type[Dishonest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts, walk = learners(tmp_path, 5, 2)
    consortium = consortium_with(monkeypatch, 5, 4, walk, program)
    assert consortium.run(900.0, *honest_names(consortium))
    assert len(outcomes(consortium)) == 1
    check_nothing_was_opened(consortium, 4)
    # Nobody pays more than what was agreed, whatever was claimed.
    assert {account.spent().epsilon for account in accounts} == {5.0}


class LeavesOutLater(Dishonest):
    """Leaves the victim out of a later sum that it collects: the moments of all patterns add up to the same in every iteration."""

    def ignores(self, message: Message) -> bool:
        return isinstance(message.body, Masked) and message.sender == VICTIM and self.iteration == MOMENTS[1]


# Sums of moments in the second and third iteration of the dictionary; the liar collects the latter.
MOMENTS = (5, 8)


def test_what_the_victim_holds_cannot_be_read_by_leaving_it_out_of_a_later_exact_sum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consortium = consortium_with(monkeypatch, 4, 3, dictionaries(4), LeavesOutLater)
    assert consortium.run(900.0, *honest_names(consortium))
    liar = consortium.runners[consortium.names[LIAR]]
    assert isinstance(liar, Dishonest)
    assert liar.lies
    contents = consortium.stores[consortium.names[LIAR]].contents
    totals = [unpacked_as(Total, content) for key, content in contents.items() if key.startswith("total")]
    # One set in all sums that were opened: no difference of two totals is anybody's addend.
    assert {total.included for total in totals} == {frozenset(range(4))}
    assert len(totals) > MOMENTS[1]
    # The sum is made by the next collector, with the victim in it.
    assert len(outcomes(consortium)) == 1
    assert not consortium.failures()


class UndoesVetoes(DictionaryWalk):
    """Takes one veto away from the pattern that few records are behind: the sum looks as if nobody had said anything."""

    def step(self, state: bytes, total: Words, included: tuple[int, ...]) -> tuple[bytes, Words | Finished]:
        state, following = super().step(state, total, included)
        question = self._script.after(totals_heard(state))
        if isinstance(question, Vetoes) and not isinstance(following, Finished):
            following = ADDENDS.encode(-(question.totals < FEW).astype(np.float64)).words
        return state, following


@pytest.mark.parametrize("threshold", [None, 3])
def test_a_pattern_of_the_victim_alone_is_not_shown_because_a_liar_undoes_its_veto(threshold: int | None) -> None:
    draw = np.random.default_rng(0)
    held = [
        np.array([[-3.0, 0.0], [3.0, 1.0]])[draw.integers(2, size=40)] + draw.normal(size=(40, 2)) / 2 for _ in "abcd"
    ]
    held[VICTIM][:VICTIMS_OWN] = np.array([0.0, 7.0]) + draw.normal(size=(VICTIMS_OWN, 2)) / 10
    model = PatternDictionary(3, family="diagonal_gaussian", bounds=BOUNDS, search=False, max_iter=12)

    def walk(position: int) -> DictionaryWalk:
        agreed, records = model.training(held[position], 4)
        kind = UndoesVetoes if position == LIAR else DictionaryWalk
        return kind(lambda: trained(agreed), records, 4, position=position)

    consortium = Consortium(4, threshold, walk, silence_seconds=5.0)
    assert consortium.run(900.0, *honest_names(consortium))
    assert isinstance(consortium.failures()[consortium.names[VICTIM]], ImplausibleTotal)
    assert not consortium.results()


@pytest.mark.parametrize("falls_silent", [1, 3])
def test_nobody_waits_for_ever_for_a_member_that_is_there_and_says_nothing(
    falls_silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FallsSilent(Dishonest):
        def posts(self) -> list[tuple[str, Envelope]]:
            said = super().posts()
            return [] if self.iteration >= falls_silent else said

    consortium = consortium_with(monkeypatch, 4, None, SteppingWalk, FallsSilent)
    assert consortium.run(300.0, *honest_names(consortium))
    failures = consortium.failures()
    assert {type(failures[name]) for name in honest_names(consortium)} <= {MembersMissing, TaskStopped}
    assert not consortium.results()


@pytest.mark.parametrize("shown_to", [None, 2])
def test_another_members_key_shown_as_ones_own_ends_the_task_before_anything_is_sent(
    shown_to: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = simulated_consortium.names_of(4)
    session = type("Shows", (ShowsAnothersKey,), {"to": None if shown_to is None else names[shown_to]})
    consortium = consortium_with(monkeypatch, 4, None, dictionaries(4), Dishonest, session)
    consortium.run(300.0, *honest_names(consortium))
    failures = consortium.failures()
    shown = [names[2]] if shown_to is not None else honest_names(consortium)
    # Whoever has all keys finds it out, and stops those who have not heard from all yet.
    noticed = [name for name in shown if isinstance(failures[name], InvalidParameter)]
    assert noticed
    for name in noticed:
        assert "show the same key" in str(failures[name])
        assert names[LIAR] in str(failures[name])
    for name in set(shown) - set(noticed):
        assert isinstance(failures[name], TaskStopped)
        assert any(other in str(failures[name]) for other in noticed)
    liar = consortium.runners[names[LIAR]]
    assert isinstance(liar, Dishonest)
    spoke = {names[message.sender] for _, _, message in liar.seen if isinstance(message.body, Masked | Passed | Dealt)}
    assert not spoke & set(shown)
    assert not outcomes(consortium)


@pytest.mark.parametrize("shown_to", [None, 2])
def test_another_members_key_shown_as_ones_own_changes_nothing_where_keys_are_signed(
    shown_to: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = simulated_consortium.names_of(4)
    session = type("Shows", (ShowsAnothersKey,), {"to": None if shown_to is None else names[shown_to]})
    consortium = consortium_with(monkeypatch, 4, 3, dictionaries(4), Dishonest, session)
    assert consortium.run(300.0, *honest_names(consortium))
    assert set(honest_names(consortium)) <= set(consortium.results())
    assert len(outcomes(consortium)) == 1


@pytest.mark.parametrize("relay", [RelayedSums, None], ids=["relay", "members"])
def test_keys_that_a_member_did_not_sign_are_not_taken_where_members_may_leave(
    relay: type[RelayedSums] | None,
) -> None:
    """It could show one honest member other keys than the rest, whose sums that one would then be left out of."""
    consortium = Consortium(4, 3, relay=relay)
    _, group = consortium.dispatcher_and_group("member-00", IDENTITIES[0])
    signed = {name: keys for name, keys in group.signed.items() if name != "member-03"}
    store = MemoryStore()
    unsigned = SumRunner("joint", replace(group, signed=signed), SteppingWalk(0), store, lambda: group.signed)
    with pytest.raises(IdentityError, match=r"No keys for sums that member-03 signed .* `sudare consortium sign`"):
        unsigned.begin(0.0)
    assert not unsigned.posts()
    assert not store.contents


@pytest.mark.parametrize(("members", "threshold"), [(4, None), (4, 3), (5, 4)])
def test_different_totals_told_to_different_members_of_a_dictionary_are_not_used(
    members: int, threshold: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium = consortium_with(monkeypatch, members, threshold, dictionaries(members), TellsDifferentTotals)
    consortium.run(900.0, *honest_names(consortium))
    check_equivocation(consortium)


def test_different_totals_told_to_different_learners_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts, walk = learners(tmp_path, 4, 1)
    consortium = consortium_with(monkeypatch, 4, None, walk, TellsDifferentTotals)
    consortium.run(900.0, *honest_names(consortium))
    check_equivocation(consortium)
    assert all(account.spent().epsilon <= 5.0 for account in accounts)


def check_equivocation(consortium: Consortium) -> None:
    """All that honest members end with is one; whoever was told another total says so, and the signatures are kept."""
    liar = consortium.runners[consortium.names[LIAR]]
    assert isinstance(liar, Dishonest)
    assert liar.lies
    assert len(outcomes(consortium)) <= 1
    failures = {name: each for name, each in consortium.failures().items() if name in honest_names(consortium)}
    assert any(isinstance(each, StatementsContradict) for each in failures.values())
    assert all(isinstance(each, SudareError) for each in failures.values())
    assert (
        all(isinstance(each, StatementsContradict | TaskStopped) for each in failures.values()) or consortium.results()
    )
    transcripts = [
        Transcript.from_bytes(content)
        for name in honest_names(consortium)
        for key, content in consortium.stores[name].contents.items()
        if key.startswith("transcript")
    ]
    assert contradictions(transcripts)


@pytest.mark.parametrize(("program", "session"), [(Dishonest, ShowsTwoKeys), (FallsSilent, Session)])
def test_a_sum_that_nobody_may_leave_is_not_held_up_without_end_by_two_keys_or_by_silence(
    program: type[Dishonest], session: type[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium = consortium_with(monkeypatch, 4, None, simulated_consortium.SteppingWalk, program, session)
    # Twenty deadlines of five seconds, and not the day that a task may take.
    assert consortium.run(150.0, *honest_names(consortium))
    failures = [consortium.failures()[name] for name in honest_names(consortium)]
    assert all(isinstance(each, MembersMissing | TaskStopped) for each in failures)
    assert any("they are there" in str(each) for each in failures)
    assert not outcomes(consortium)


# Claims and hellos by which one member would stop the others


class ClaimsEverybodyAndLeaves(Dishonest):
    """It says that it can vote for nobody but everyone, and leaves in the next round; when it collects it gives up."""

    def told(self, participant: Participant, receiver: int, body: Body) -> Body:
        if self._group.position != LIAR:
            return body
        if isinstance(body, Advertised):
            return replace(body, votes_for=participant.context.bitmap_of_everyone)
        if isinstance(body, Dealt):
            return Withdrawn()
        return GivenUp() if isinstance(body, Directory) else body


@pytest.mark.parametrize("relay", [RelayedSums, None], ids=["relay", "members"])
def test_a_claim_that_only_everybody_will_do_stops_every_other_attempt_at_most(
    relay: type[RelayedSums] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated_consortium, "SumRunner", ClaimsEverybodyAndLeaves)
    consortium = Consortium(5, 4, silence_seconds=5.0, dishonest=1, relay=relay)
    honest = consortium.names[1:]
    assert consortium.run(3000.0, *honest)
    assert set(honest) <= set(consortium.results())


@pytest.mark.parametrize("relay", [RelayedSums, None], ids=["relay", "members"])
def test_a_member_with_another_agreement_is_left_out_from_the_start(relay: type[RelayedSums] | None) -> None:
    keys = {} if relay is None else {RELAY_NAME: RELAY.public_key}
    other = {3: pins_of(5, {"name": "test", "tasks.joint.epsilon": "0.7"}, keys=keys)}
    consortium = Consortium(5, 4, silence_seconds=5.0, dishonest=1, relay=relay, pins=other)
    honest = [name for name in consortium.names if name != "member-03"]
    assert consortium.run(500.0, *honest)
    assert set(honest) <= set(consortium.results())
