"""Whatever dishonest members and a dishonest collector send, in any order: what was promised holds. And the fuzzer finds what is broken on purpose."""

from __future__ import annotations

import inspect
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sudare.errors import InvalidParameter
from sudare.sums import collector, heard_totals, input_records, member, party, serverless
from sudare.sums.canonical_encoding import packed_size
from sudare.sums.context import Participant
from sudare.sums.keys import PublicKeys, is_of_small_order
from sudare.sums.member import begun
from sudare.sums.messages import Advertised, Dealt, Heard, Message, OpenedShares, Revealed, SumKeys, heard_content
from sudare.sums.party import Party
from sudare.sums.simulation import simulate
from sudare.sums.statements import stated
from tests.sums.byzantine import Violated, World
from tests.sums.byzantine_settings import LEAVABLE, RELAYED, SERVERLESS, SMALL_ORDER, SPARSE, Setting
from tests.sums.parties import keys_of

IN_DEFAULT_RUN = 300
IN_LONG_RUN = 20_000
CHUNK = 1_000


def run_all(seeds: Iterable[int], settings: Sequence[Setting] | None = None, plan: str | None = None) -> Counter[str]:
    """Run so many sums; how many of them reached what. A failing run says its seed."""
    reached: Counter[str] = Counter()
    for seed in seeds:
        world = World(seed, settings, plan)
        try:
            world.run()
        except Violated as error:
            raise Violated(f"seed {seed}, {world.setting}, plan {world.adversary.plan}: {error}") from error
        reached.update(world.reached)
        reached.update(
            {"runs": 1, "serverless": int(world.setting in SERVERLESS), "sparse": int(world.setting in SPARSE)}
        )
        reached["dishonest collector"] += world.collects_dishonestly
        reached["planned"] += world.adversary.plan is not None
    return reached


def check_coverage(reached: Counter[str]) -> None:
    """Raise AssertionError unless enough runs went deep."""
    runs, leavable = reached["runs"], reached["runs"] - reached["serverless"]
    assert 0.15 * runs <= reached["serverless"] <= 0.35 * runs
    assert reached["sparse"] >= 0.15 * runs
    assert 0.4 * runs <= reached["dishonest collector"] <= 0.6 * runs
    assert reached["planned"] >= 0.1 * runs
    assert reached["Voted"] >= 0.7 * leavable
    assert reached["Revealed"] >= 0.55 * leavable
    assert reached["Heard"] >= 0.6 * runs
    assert reached["used"] >= 0.5 * runs
    assert reached["learnt"] >= 0.6 * runs
    assert reached["Withdrawn"] >= 0.1 * runs


def test_nothing_that_dishonest_members_send_opens_two_sums_or_an_addend() -> None:
    check_coverage(run_all(range(IN_DEFAULT_RUN)))


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(IN_LONG_RUN // CHUNK))
def test_nothing_that_dishonest_members_send_opens_two_sums_or_an_addend_in_many_runs(chunk: int) -> None:
    first = 1_000_000 + chunk * CHUNK
    check_coverage(run_all(range(first, first + CHUNK)))


def check_relayed(reached: Counter[str]) -> None:
    """Raise AssertionError unless enough runs with a lying relay went deep."""
    runs = reached["runs"]
    assert reached["dishonest collector"] == runs
    assert reached["planned"] >= 0.4 * runs
    assert reached["Voted"] >= 0.6 * runs
    assert reached["Revealed"] >= 0.4 * runs
    assert reached["used"] >= 0.2 * runs
    assert reached["learnt"] >= 0.4 * runs


def test_nothing_that_a_relay_that_collects_and_dishonest_members_send_opens_two_sums_or_an_addend() -> None:
    check_relayed(run_all(range(100), RELAYED))


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(IN_LONG_RUN // CHUNK // 4))
def test_nothing_that_a_relay_and_dishonest_members_send_opens_two_sums_in_many_runs(chunk: int) -> None:
    first = 2_000_000 + chunk * CHUNK
    check_relayed(run_all(range(first, first + CHUNK), RELAYED))


# The fuzzer finds what is broken on purpose


@dataclass(frozen=True)
class Fault:
    """A line of an honest member's program, the line in its place, and what the fuzzer must say."""

    place: ModuleType | type
    function: str
    line: str
    instead: str
    found: str
    plan: str | None = None
    settings: Sequence[Setting] = LEAVABLE
    runs: int = IN_DEFAULT_RUN


FAULTS = {
    "t - 1 votes are enough": Fault(
        member, "quorum_holds", "named < context.threshold", "named < context.threshold - 1", "two sets", "sets"
    ),
    "votes for any set in another attempt": Fault(
        input_records.InputRecord, "with_vote", "if is_other or", "if False and", "two sets", "difference"
    ),
    "votes again in a sparse sum": Fault(
        input_records.InputRecord,
        "with_vote",
        "context.is_sparse and self.voted_in",
        "False and self.voted_in",
        "determined|two different sums",
        "phantom",
        SPARSE,
    ),
    "does not look for its neighbours in a set": Fault(
        member,
        "_vote",
        "_are_enough(me, included)",
        "(me.position in included and len(included) >= context.threshold)",
        "determined|two different sums",
        "isolate",
        (Setting(8, 6, 2, 3, 3),),
    ),
    "opens self-masks of members that masked for other dealers": Fault(
        member,
        "_reveal",
        '_require(all_hold(me, "dealers", state.dealers, owners, signatures))',
        "pass",
        "determined|two different sums",
        "apart",
        (Setting(8, 6, 2, 4, 3),),
    ),
    "gives out both halves": Fault(
        member,
        "_reveal",
        "for owner, held in state.shares.items() if owner not in included",
        "for owner, held in state.shares.items()",
        "both halves",
    ),
    "does not compare totals": Fault(
        member, "_settled", "heard_by >= me.context.threshold", "heard_by >= 1", "totals were used", "totals"
    ),
    "does not compare totals in a sparse sum": Fault(
        member, "quorum_holds", "named < context.threshold", "named < 1", "totals were used", "totals", SPARSE
    ),
    "keeps statements of any size": Fault(
        party, "with_refused", "is_of_sum and is_small and", "is_of_sum and", "keeps", None, LEAVABLE
    ),
    "does not compare totals without a collector": Fault(
        serverless,
        "_settled",
        "if other.heard.content != own.heard.content",
        "if False",
        "totals were used",
        None,
        SERVERLESS,
    ),
    "ends with an exception": Fault(
        member,
        "step",
        "(SumError, InvalidParameter)",
        "InvalidParameter",
        "ended with ",
    ),
    "keeps whatever is signed": Fault(
        heard_totals.HeardTotals,
        "with_other",
        "len(body.heard.content) == HEARD_BYTES and ",
        "",
        "keeps",
        None,
        SERVERLESS,
        3 * IN_DEFAULT_RUN,
    ),
}


def broken(fault: Fault) -> Any:
    """The function with another line in it."""
    found = getattr(fault.place, fault.function)
    source = textwrap.dedent(inspect.getsource(found))
    assert source.count(fault.line) == 1, f"{fault.function} no longer has the line to break"
    namespace: dict[str, Any] = {}
    code = "from __future__ import annotations\n" + source.replace(fault.line, fault.instead)
    exec(compile(code, f"<broken {fault.function}>", "exec"), found.__globals__, namespace)
    return namespace[fault.function]


@pytest.mark.parametrize("name", FAULTS)
def test_the_fuzzer_finds_a_member_that(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    monkeypatch.setattr(fault.place, fault.function, broken(fault))
    with pytest.raises(Violated, match=fault.found):
        run_all(range(fault.runs), fault.settings, fault.plan)


# What was found, once more by itself


def leavable(setting: Setting, agreement: str = "found") -> list[Party]:
    """Members of a sum whose collector is the first of them."""
    context = setting.context(agreement, 0, 0)
    words = np.arange(3, dtype=np.uint64)
    return [
        Party(Participant(context, each, keys_of(each)), words + np.uint64(each)) for each in range(setting.members)
    ]


@pytest.mark.parametrize("key", SMALL_ORDER)
def test_a_member_with_a_key_of_small_order_is_left_out_and_the_others_finish(key: bytes) -> None:
    parties = leavable(Setting(4, 3, 1))
    participant = parties[3].participant
    lie = Message(3, 0, Advertised(stated(participant, "keys", SumKeys(key, bytes(32), ()).to_bytes())))
    parties[0].receive(lie)
    simulate(parties)
    assert [each.included for each in parties[:3]] == 3 * [frozenset({0, 1, 2})]


def test_every_key_of_small_order_is_known_as_one() -> None:
    eighth = 39382357235489614581723060781553021112529911719440698176882885853963445705823
    for value in (0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18, eighth, 2**255 + 1):
        key = value.to_bytes(32, "little")
        assert is_of_small_order(key)
        with pytest.raises(InvalidParameter):
            keys_of(0).secret_with(PublicKeys(key, bytes(32)))
    assert not any(is_of_small_order(each.public.exchange) for each in map(keys_of, range(20)))


def test_a_collector_keeps_no_box_of_another_size_and_no_share_of_somebody_who_dealt_none() -> None:
    setting = Setting(4, 3, 1)
    context = setting.context("found", 0, 0)
    participants = [Participant(context, each, keys_of(each)) for each in range(4)]
    state = collector.begun(4, 3)
    for participant in participants:
        collector.step(participants[0], state, begun(participant, np.zeros(3, dtype=np.uint64))[1][0])
    collector.step(participants[0], state, Message(3, 0, Dealt({0: bytes(1 << 20), 1: bytes(96), 2: bytes(96)})))
    assert 3 in state.gone
    assert not state.boxes
    state.stage, state.votes, state.boxes = "shares", {1: b"", 2: b""}, {1: {}, 2: {}}
    share = np.zeros(5, dtype=np.uint64)
    for sender, given in ((1, {1: share, 3: share}), (2, dict.fromkeys(range(1000), share))):
        content = OpenedShares(given, {}).to_bytes()
        collector.step(
            participants[0], state, Message(sender, 0, Revealed(stated(participants[sender], "shares", content)))
        )
    assert not state.shares


@pytest.mark.parametrize("setting", [Setting(3, 3, 1), Setting(4, 3, 1)])
def test_what_is_kept_of_a_heard_total_has_the_size_of_a_digest(setting: Setting) -> None:
    party = leavable(setting)[0]
    context, participant = party.participant.context, Participant(party.participant.context, 1, keys_of(1))
    collected = Participant(context, 0, keys_of(0))
    size = packed_size(party.state)
    content = heard_content(context, setting.everyone, np.zeros(3, dtype=np.uint64)) + bytes(1 << 20)
    total = stated(collected, "total", content) if context.may_leave else None
    party.receive(Message(1, 0, Heard(stated(participant, "heard", content), total)))
    assert packed_size(party.state) == size
    if total is None:
        # Where nobody collects, no collector's statement is passed on.
        word = stated(participant, "total", bytes(1 << 20))
        party.receive(Message(1, 0, Heard(stated(participant, "heard", content[: -(1 << 20)]), word)))
        # The small statement is kept as evidence of what was said, the large one beside it is not.
        assert packed_size(party.state) < size + 1000
        assert not party.state.member.heard_totals.others
