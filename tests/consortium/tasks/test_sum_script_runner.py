"""A member that runs a script of sums: what it takes up from its store, and when it refuses to."""

from __future__ import annotations

from pathlib import Path

import pytest

from sudare.consortium.network.message_dispatch import Envelope
from sudare.consortium.tasks.checkpoints import CheckpointStore
from sudare.consortium.tasks.sum_script_runner import _REST_SECONDS, ASK, SUM, SumRunner, Timeouts
from sudare.errors import InvalidParameter, MaskReused
from sudare.sums.blame import Transcript
from sudare.sums.party import PartyState
from tests.consortium.simulated_consortium import IDENTITIES, Consortium, SteppingWalk


@pytest.mark.parametrize("threshold", [3, 4], ids=["some may leave", "nobody may leave"])
@pytest.mark.parametrize("lost", [("sum-0",), ("sum-1",), ("sum-0", "sum-1")], ids=" and ".join)
def test_a_sum_whose_state_is_gone_is_not_begun_again(lost: tuple[str, ...], threshold: int) -> None:
    """Begun again it would hide another vector, or the same one for others, behind the same masks."""
    consortium = Consortium(4, threshold, silence_seconds=5.0)
    store = consortium.stores["member-01"]
    assert consortium.simulation.run(lambda: int.from_bytes(store.contents.get("begun", b""), "big") >= 1, 60.0)
    begun = int.from_bytes(store.contents["begun"], "big")
    consortium.simulation.kill("member-01", 1.0)
    for name in lost:
        store.contents.pop(name, None)
    consortium.run(300.0)
    failure = consortium.failures().get("member-01")
    if f"sum-{begun % 2}" in lost:
        assert isinstance(failure, MaskReused)
        assert "is gone from its folder" in str(failure)
    else:
        assert not isinstance(failure, MaskReused)


@pytest.mark.parametrize("threshold", [3, 4], ids=["some may leave", "nobody may leave"])
@pytest.mark.parametrize("kept", [("total-",), ("transcript-",), ("sum-", "total-")], ids=" and ".join)
def test_a_folder_of_which_only_parts_are_left_is_not_gone_on_with(kept: tuple[str, ...], threshold: int) -> None:
    """What is left shows that sums were begun; which was the last is not known any more."""
    consortium = Consortium(4, threshold, silence_seconds=5.0)
    store = consortium.stores["member-01"]
    assert consortium.simulation.run(lambda: int.from_bytes(store.contents.get("begun", b""), "big") >= 2, 60.0)
    consortium.runners["member-01"]._keep_transcripts()
    last = f"sum-{store.contents['begun'][-1] % 2}"
    consortium.simulation.kill("member-01", 1.0)
    for name in store.names():
        if not name.startswith(kept) or name == last:
            store.discard(name)
    is_anything_left = bool(store.contents)
    consortium.run(300.0)
    failure = consortium.failures().get("member-01")
    assert isinstance(failure, MaskReused) or not is_anything_left


def test_two_runners_on_one_folder_do_not_both_go_on(tmp_path: Path) -> None:
    """Both would begin the same sums, with the same secrets: what one of them had not saved the other would say otherwise."""
    consortium = Consortium(4, 3)
    _, group = consortium.dispatcher_and_group("member-01", IDENTITIES[1])
    store = CheckpointStore(tmp_path)

    def runner() -> SumRunner:
        return SumRunner("joint", group, SteppingWalk(1), store, lambda: group.signed, Timeouts(1.0, 60.0))

    first, second = runner(), runner()
    for each in (first, second):
        each.begin(0.0)
    for name in consortium.names:
        if name != "member-01":
            first.receive(name, Envelope("joint", ASK), 0.0)
    assert isinstance(first.failure, InvalidParameter)
    assert SUM not in {envelope.kind for _, envelope in first.posts()}
    for name in consortium.names:
        if name != "member-01":
            second.receive(name, Envelope("joint", ASK), 0.0)
    assert second.failure is None
    assert SUM in {envelope.kind for _, envelope in second.posts()}


@pytest.mark.parametrize("threshold", [3, 4], ids=["some may leave", "nobody may leave"])
def test_a_finished_task_that_nobody_speaks_of_rests_and_takes_late_messages_without_an_answer(threshold: int) -> None:
    consortium = Consortium(4, threshold, silence_seconds=5.0)
    assert consortium.run(300.0)
    runner, store = consortium.runners["member-00"], consortium.stores["member-00"]
    runner.rest(runner._heard_at + _REST_SECONDS - 1.0)
    assert runner.result is not None
    runner.posts()
    now = runner._heard_at + _REST_SECONDS + 1.0
    runner.rest(now)
    assert runner.finished
    assert (runner.result, runner._sums, runner._starts, runner._script) == (None, {}, {}, None)
    # A message of the last sum, once more: what is signed in it is kept, and nothing is said or changed.
    last = f"transcript-{runner.iteration:08d}"
    before, signed = dict(store.contents), Transcript.from_bytes(store.contents.pop(last)).statements
    saved = consortium.runners["member-01"]._checkpoints()[-1].attempt
    assert saved is not None
    message = next(each for each in PartyState.from_bytes(saved.sum_state).sent if each.receiver == 0)
    envelope = Envelope("joint", SUM, runner.iteration, saved.number, message.to_bytes())
    assert runner.receive("member-01", envelope, now)
    runner.tick(now, frozenset(consortium.names))
    assert runner.posts() == []
    assert set(Transcript.from_bytes(store.contents[last]).statements) == set(signed)
    assert {name: each for name, each in store.contents.items() if name != last} == {
        name: each for name, each in before.items() if name != last
    }
    runner.rest(now + 1.0)
    assert runner._sums != {}
    runner.rest(now + _REST_SECONDS + 1.0)
    assert runner._sums == {}


def test_members_that_rest_tell_totals_to_one_that_was_away() -> None:
    consortium = Consortium(4, 3, silence_seconds=5.0)
    assert consortium.simulation.run(lambda: "begun" in consortium.stores["member-03"].contents, 60.0)
    consortium.simulation.kill("member-03", 10_000.0)
    others = consortium.names[:3]
    assert consortium.run(600.0, *others)
    expected = consortium.results()["member-00"]
    for name in others:
        consortium.runners[name].rest(float("inf"))
        assert consortium.runners[name].result is None
    consortium.simulation.bring_up("member-03")
    assert consortium.run(600.0, "member-03")
    assert consortium.results() == {"member-03": expected}
