"""`sudare consortium blame`: members keep what was signed, one of them lies, and the command says who, or that nobody can be named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from sudare.array_types import Words
from sudare.consortium import Agreement, Identity, Member
from sudare.consortium.collector_node import relay_task_folder
from sudare.consortium.network.message_dispatch import Envelope
from sudare.consortium.tasks.checkpoints import CheckpointStore
from sudare.consortium.tasks.relay_sum_collector import RelayedSums
from sudare.consortium.tasks.sum_script_runner import SumGroup, SumRunner
from sudare.errors import StatementsContradict
from sudare.joint.sum_script import Finished
from sudare.sums.context import RELAY_NAME, Participant
from sudare.sums.keys import PublicKeys
from sudare.sums.messages import Message, Opened, Passed, Voted, heard_content, vote_content
from sudare.sums.statements import stated
from tests.cli.conftest import Sudare
from tests.consortium.documents import DOCUMENT, MEMBER

NAMES = ("anna", "east", "north", "south", "west")
IDENTITIES = {name: Identity.generated() for name in (*NAMES, RELAY_NAME)}
KEYS = {name: identity.member_keys(b"test") for name, identity in IDENTITIES.items()}
PUBLICS: Mapping[str, PublicKeys] = {name: keys.public for name, keys in KEYS.items()}
SECRET = 123_456_789


class TwoSums:
    """Two sums of constants."""

    is_exact = False

    def begun(self) -> tuple[bytes, Words]:
        return b"", np.full(3, SECRET, dtype=np.uint64)

    def step(self, state: bytes, total: Words, included: tuple[int, ...]) -> tuple[bytes, Words | Finished]:
        return (state, Finished(None)) if state else (b"second", np.full(3, SECRET, dtype=np.uint64))


Lie = Callable[[SumRunner, Message], Message]


@dataclass
class House:
    """Members with folders of their own, of one agreement, and a relay that may collect. What `liar` sends goes through `lie`."""

    folder: Path
    threshold: int
    liar: str = ""
    lie: Lie = lambda runner, message: message
    is_relayed: bool = False
    runners: dict[str, SumRunner | RelayedSums] = field(default_factory=dict)

    def __post_init__(self) -> None:
        members = {
            name: {"key": IDENTITIES[name].public_key.hex(), "budget": {"epsilon": 4.0, "delta": 1e-5}}
            for name in NAMES
        }
        tasks = {name: task for name, task in DOCUMENT["tasks"].items() if name in ("models", "patterns")}
        sums = {"hidden_by": "masks", "threshold": self.threshold, "dishonest": 1}
        sums |= {"collector": "relay"} if self.is_relayed else {}
        relay = {"relay": {"key": IDENTITIES[RELAY_NAME].public_key.hex()}} if self.is_relayed else {}
        self.agreement = Agreement.from_dict({**DOCUMENT, "members": members, "tasks": tasks, "sums": sums, **relay})
        self.agreement.save(self.folder / "agreement.toml")
        for name in NAMES:
            (self.folder / name).mkdir()
            text = MEMBER.replace('"north"', f'"{name}"').replace('"agreement.toml"', '"../agreement.toml"')
            (self.folder / name / "member.toml").write_text(text)

    def sums_made(self) -> House:
        for name in NAMES:
            own = Member.load(self.folder / name / "member.toml")
            store = CheckpointStore(own.task_folder(self.agreement, "patterns"))
            self.runners[name] = SumRunner("patterns", self.group(name), TwoSums(), store, lambda: PUBLICS)
        if self.is_relayed:
            store = CheckpointStore(relay_task_folder(self.folder / RELAY_NAME, self.agreement, "patterns"))
            self.runners[RELAY_NAME] = RelayedSums("patterns", self.group(RELAY_NAME), store, lambda: PUBLICS)
        for now in range(4):
            for runner in self.runners.values():
                runner.begin(0.0) if now == 0 else runner.tick(float(now), frozenset(NAMES))
            while self._delivered(float(now)):
                pass
        return self

    def group(self, name: str) -> SumGroup:
        signed = {each: KEYS[each].public for each in NAMES}
        return SumGroup(self.agreement.digest, NAMES, name, KEYS[name], self.threshold, 1, self.is_relayed, signed)

    def _delivered(self, now: float) -> bool:
        posts = [(name, *post) for name, runner in self.runners.items() for post in runner.posts()]
        waiting = []
        for sender, receiver, envelope in posts:
            sent = self._lied(sender, envelope) if sender == self.liar else envelope
            if not self.runners[receiver].receive(sender, sent, now):
                waiting.append((sender, receiver, sent))
        for sender, receiver, sent in waiting:
            self.runners[receiver].receive(sender, sent, now)
        return bool(posts)

    def _lied(self, sender: str, envelope: Envelope) -> Envelope:
        if envelope.kind != "sum":
            return envelope
        message = self.lie(self.runners[sender], Message.from_bytes(envelope.body))
        return replace(envelope, body=message.to_bytes())

    def seat_of_liar(self) -> Participant:
        attempts = self.runners[self.liar]._sums[0]
        return attempts._party.participant


def two_totals(house: House) -> Lie:
    """The collector tells 'north' and 'west' another total."""

    def lie(runner: SumRunner, message: Message) -> Message:
        if not isinstance(message.body, Opened) or message.receiver not in (2, 4):
            return message
        participant, words = house.seat_of_liar(), message.body.words + np.uint64(1)
        total = stated(participant, "total", heard_content(participant.context, frozenset(range(5)), words))
        return replace(message, body=Opened(words, total))

    return lie


def false_vote(house: House) -> Lie:
    """A member votes in the first sum for other dealers than it has masked for; who collects does not take it in."""

    def lie(runner: SumRunner, message: Message) -> Message:
        if not isinstance(message.body, Voted) or runner.iteration != 0:
            return message
        participant, some = house.seat_of_liar(), frozenset(range(4))
        return replace(message, body=Voted(stated(participant, "vote", vote_content(participant.context, some, some))))

    return lie


def false_parcel(house: House) -> Lie:
    def lie(runner: SumRunner, message: Message) -> Message:
        if not isinstance(message.body, Passed) or message.body.round != 1 or message.body.window is None:
            return message
        return replace(message, body=replace(message.body, window=message.body.window + np.uint64(1)))

    return lie


def built(
    folder: Path,
    threshold: int,
    liar: str = "",
    lie: Callable[[House], Lie] | None = None,
    *,
    is_relayed: bool = False,
) -> House:
    folder.mkdir()
    house = House(folder, threshold, liar, is_relayed=is_relayed)
    if lie is not None:
        house.lie = lie(house)
    return house.sums_made()


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, House]:
    folder = tmp_path_factory.mktemp("houses")
    return {
        "honest": built(folder / "honest", 4),
        "serverless": built(folder / "serverless", 5),
        "collector lies": built(folder / "collector", 4, "anna", two_totals),
        "parcel lies": built(folder / "parcel", 5, "north", false_parcel),
        "honest relay": built(folder / "relay", 4, is_relayed=True),
        "member lies": built(folder / "member", 4, "east", false_vote, is_relayed=True),
        "relay lies": built(folder / "lies", 4, RELAY_NAME, two_totals, is_relayed=True),
    }


def blame(sudare: Sudare, house: House, name: str, *words: object, task: str = "patterns"):  # type: ignore[no-untyped-def]
    return sudare("consortium", "blame", task, "--member", house.folder / name / "member.toml", *words)


@pytest.mark.parametrize("which", ["honest", "serverless", "honest relay"])
def test_honest_members_contradict_nobody(which: str, houses: dict[str, House], sudare: Sudare) -> None:
    for name in NAMES:
        assert houses[which].runners[name].finished
        told = blame(sudare, houses[which], name)
        assert told.exit_code == 0, told.stderr
        assert "2 sums" in told.stdout
        assert "No signed statements contradict each other." in told.stdout
    assert blame(sudare, houses[which], "anna", "--json").values["contradictions"] == []


def test_a_collector_that_tells_two_totals_is_named(houses: dict[str, House], sudare: Sudare) -> None:
    house = houses["collector lies"]
    failures = [house.runners[name].failure for name in NAMES[1:]]
    assert any(isinstance(each, StatementsContradict) for each in failures)
    told = blame(sudare, house, "east")
    assert told.exit_code == 86
    assert "anna lied (patterns, iteration 0, attempt 0): it signed two different statements of one kind" in told.stdout
    assert told.stdout.count('anna signed "total" ') == 2
    assert "revoke --of anna" in told.stdout
    assert str(SECRET) not in told.stdout
    values = blame(sudare, house, "east", "--json")
    assert values.exit_code == 86
    found = values.values["contradictions"][0]
    assert (found["liar"], found["among"], found["iteration"], found["attempts"]) == ("anna", ["anna"], 0, [0])
    digests = [side[0]["digest"] for side in found["sides"]]
    assert len(set(digests)) == 2
    assert all(len(digest) == 64 for digest in digests)


def test_a_relay_that_tells_two_totals_is_named(houses: dict[str, House], tmp_path: Path, sudare: Sudare) -> None:
    house = houses["relay lies"]
    told = blame(sudare, house, "east")
    assert told.exit_code == 86
    assert (
        "relay lied (patterns, iteration 0, attempt 0): it signed two different statements of one kind" in told.stdout
    )
    assert "revoke --of relay" in told.stdout
    blame(sudare, house, "north", "--output", tmp_path / "north")
    both = blame(sudare, house, "anna", "--with", tmp_path / "north", "--json")
    assert {each["liar"] for each in both.values["contradictions"]} == {"relay"}
    # The same members where they collect themselves: another agreement.
    assert "another agreement" in blame(sudare, houses["honest"], "east", "--with", tmp_path / "north").stderr
    forged = (tmp_path / "north").read_bytes().replace(PUBLICS[RELAY_NAME].signing, bytes([9]) * 32)
    (tmp_path / "forged").write_bytes(forged)
    refused = blame(sudare, house, "east", "--with", tmp_path / "forged")
    assert refused.exit_code == 93
    assert "other keys than this member knows for: relay" in refused.stderr


def test_what_a_relay_kept_shows_a_member_s_lie_that_no_other_member_saw(
    houses: dict[str, House], tmp_path: Path, sudare: Sudare
) -> None:
    house = houses["member lies"]
    assert all(house.runners[name].finished for name in NAMES)
    assert blame(sudare, house, "anna").exit_code == 0
    given = "--agreement", house.folder / "agreement.toml", "--state", house.folder / RELAY_NAME
    written = sudare("relay", "transcripts", "patterns", *given, "--output", tmp_path / "relay", "--json")
    assert written.exit_code == 0, written.stderr
    assert written.values["sums"] == 2
    assert written.values["output"] == str(tmp_path / "relay")
    assert (tmp_path / "relay").stat().st_mode & 0o777 == 0o600
    assert SECRET.to_bytes(8, "little") not in (tmp_path / "relay").read_bytes()
    told = blame(sudare, house, "anna", "--with", tmp_path / "relay", "--json")
    assert told.exit_code == 86
    assert {each["liar"] for each in told.values["contradictions"]} == {"east"}


def test_what_a_relay_kept_of_honest_members_contradicts_nobody(
    houses: dict[str, House], tmp_path: Path, sudare: Sudare
) -> None:
    house = houses["honest relay"]
    given = "--agreement", house.folder / "agreement.toml", "--state", house.folder / RELAY_NAME
    written = sudare("relay", "transcripts", "patterns", *given, "--output", tmp_path / "relay")
    assert written.exit_code == 0, written.stderr
    assert "sudare consortium blame patterns --with" in written.stdout
    for name in NAMES:
        assert blame(sudare, house, name, "--with", tmp_path / "relay").exit_code == 0
    again = sudare("relay", "transcripts", "patterns", *given, "--output", tmp_path / "relay")
    assert again.exit_code == 10
    nothing = sudare("relay", "transcripts", "patterns", *given[:3], tmp_path, "--output", tmp_path / "other")
    assert nothing.exit_code == 90
    assert "No transcript" in nothing.stderr
    assert not (tmp_path / "other").exists()
    assert sudare("relay", "transcripts", "unknown", *given, "--output", tmp_path / "other").exit_code != 0


def test_without_a_collector_it_says_that_nobody_can_be_named(houses: dict[str, House], sudare: Sudare) -> None:
    house = houses["parcel lies"]
    told = blame(sudare, house, "east")
    assert told.exit_code == 86
    assert "Not attributable (patterns, iteration 0, attempt 0)" in told.stdout
    assert "At least one of these lied: anna, east, north, south, west." in told.stdout
    assert "cannot be found out" in told.stdout
    sides = blame(sudare, house, "east", "--json").values["contradictions"][0]["sides"]
    assert sorted(each["signer"] for side in sides for each in side) == list(NAMES)
    assert len(sides) == 2


def test_what_others_kept_can_be_added(houses: dict[str, House], tmp_path: Path, sudare: Sudare) -> None:
    house = houses["collector lies"]
    for name in ("north", "south"):
        written = blame(sudare, house, name, "--output", tmp_path / name)
        assert f"Wrote {tmp_path / name}" in written.stdout
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    told = blame(sudare, house, "east", "--with", tmp_path / "north", "--with", tmp_path / "south", "--json")
    assert told.exit_code == 86
    assert told.values["files"] == 2
    assert {each["liar"] for each in told.values["contradictions"]} == {"anna"}
    assert SECRET.to_bytes(8, "little") not in (tmp_path / "north").read_bytes()
    again = blame(sudare, house, "north", "--output", tmp_path / "north")
    assert again.exit_code == 10
    assert "cannot be written" in again.stderr


def test_files_of_another_agreement_are_refused(houses: dict[str, House], tmp_path: Path, sudare: Sudare) -> None:
    blame(sudare, houses["serverless"], "north", "--output", tmp_path / "north")
    told = blame(sudare, houses["honest"], "east", "--with", tmp_path / "north")
    assert told.exit_code == 10
    assert "another agreement or task" in told.stderr


def test_files_with_other_keys_are_refused(
    houses: dict[str, House], tmp_path: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody writes a file in which another's key is one of its own, to sign statements in its name."""
    blame(sudare, houses["honest"], "north", "--output", tmp_path / "north")
    content = (tmp_path / "north").read_bytes()
    forged = Identity.generated().member_keys(b"test").public
    assert PUBLICS["west"].signing in content
    (tmp_path / "forged").write_bytes(content.replace(PUBLICS["west"].signing, forged.signing))
    told = blame(sudare, houses["honest"], "east", "--with", tmp_path / "forged")
    assert told.exit_code == 93
    assert "other keys than this member knows for: west" in told.stderr


@pytest.mark.parametrize("content", [b"", b"garbage", b"O" * 1000])
def test_files_that_hold_something_else_are_refused(
    content: bytes, houses: dict[str, House], tmp_path: Path, sudare: Sudare
) -> None:
    (tmp_path / "file").write_bytes(content)
    told = blame(sudare, houses["honest"], "east", "--with", tmp_path / "file")
    assert told.exit_code == 85
    assert "holds no transcripts" in told.stderr
    assert blame(sudare, houses["honest"], "east", "--with", tmp_path / "none").exit_code == 10


def test_a_task_without_sums_is_said_to_have_none(houses: dict[str, House], sudare: Sudare) -> None:
    told = blame(sudare, houses["honest"], "east", task="models")
    assert told.exit_code == 90
    assert "No transcript" in told.stderr
    assert blame(sudare, houses["honest"], "east", task="unknown").exit_code != 0
