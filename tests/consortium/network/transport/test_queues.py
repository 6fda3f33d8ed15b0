"""Queues for several senders: limits for each and for all, turns, and who loses what."""

from __future__ import annotations

import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.consortium.network.transport.queues import FairQueue, Limits, SenderQuotas

SMALL = Limits(most_items=4, most_bytes=4_000, most_total_bytes=8_000, most_senders=3)


def test_a_sender_loses_its_own_oldest() -> None:
    quotas: SenderQuotas[int] = SenderQuotas(SMALL)
    assert [quotas.add("a", number, 0) for number in range(6)] == [[], [], [], [], [("a", 0)], [("a", 1)]]
    assert quotas.add("b", 9, 2_000) == []
    assert quotas.add("b", 10, 2_000) == [("b", 9)]


def test_what_is_larger_than_a_share_is_not_kept_and_costs_nobody_anything() -> None:
    quotas: SenderQuotas[int] = SenderQuotas(SMALL)
    assert quotas.add("a", 1, 10) == []
    assert quotas.add("a", 2, 4_000) == [("a", 2)]
    assert quotas.total_bytes == 522


def test_senders_beyond_the_limit_are_not_served() -> None:
    quotas: SenderQuotas[int] = SenderQuotas(SMALL)
    assert [quotas.add(name, 1, 0) for name in "abcd"] == [[], [], [], [("d", 1)]]
    quotas.remove("a", 1)
    quotas.remove("a", 1)
    assert quotas.add("d", 1, 0) == []


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3_500)), max_size=60))
def test_nobody_with_less_than_its_share_loses_anything_to_others(puts: list[tuple[str, int]]) -> None:
    quotas: SenderQuotas[int] = SenderQuotas(SMALL)
    kept: dict[str, dict[int, int]] = {name: {} for name in "abc"}
    for number, (sender, size) in enumerate(puts):
        kept[sender][number] = size + 512
        for name, key in quotas.add(sender, number, size):
            held = sum(kept[name].values())
            assert name == sender or held > SMALL.most_total_bytes / 3
            assert key == min(kept[name]) or key == number
            del kept[name][key]
        total = sum(sum(each.values()) for each in kept.values())
        assert quotas.total_bytes == total <= SMALL.most_total_bytes
        assert all(sum(each.values()) <= SMALL.most_bytes and len(each) <= SMALL.most_items for each in kept.values())


def test_senders_take_turns_and_each_keeps_its_order() -> None:
    queue: FairQueue[str] = FairQueue(SMALL)
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.put(item[0], item, 10)
    assert len(queue) == 6
    assert [queue.get(0.0) for _ in range(7)] == ["a1", "b1", "c1", "a2", "b2", "a3", None]


def test_a_flood_drops_only_its_own() -> None:
    queue: FairQueue[int] = FairQueue(SMALL)
    queue.put("quiet", -1, 1_000)
    dropped = [name for number in range(100) for name in queue.put("loud", number, 500)]
    assert set(dropped) == {"loud"}
    found = []
    while (item := queue.get(0.0)) is not None:
        found.append(item)
    assert found[0] == -1
    assert found[1:] == sorted(found[1:])
    assert found[-1] == 99


def test_whoever_waits_is_woken() -> None:
    queue: FairQueue[int] = FairQueue(SMALL)
    threading.Timer(0.02, lambda: queue.put("a", 7, 1)).start()
    assert queue.get(30.0) == 7
