"""A member that runs a script of sums: what it takes up from its store, and when it refuses to."""

from __future__ import annotations

from pathlib import Path

import pytest

from sudare.consortium.network.message_dispatch import Envelope
from sudare.consortium.tasks.checkpoints import CheckpointStore
from sudare.consortium.tasks.sum_runner import ASK, SUM, SumRunner, Timeouts
from sudare.errors import InvalidParameter, MaskReused
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
