"""Turns: one of each place at a time."""

from __future__ import annotations

import threading

import anyio

from sudare.web.fair_turns import FairTurns


def test_whoever_comes_from_elsewhere_waits_for_one_of_each_place() -> None:
    done: list[str] = []
    begun, gate = threading.Event(), threading.Event()

    def work(place: str) -> None:
        begun.set()
        gate.wait(60)
        done.append(place)

    async def all_of_them() -> None:
        turns = FairTurns(1)
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(turns.run, "guesser", work, "guesser")
            await anyio.to_thread.run_sync(begun.wait, 60)
            group.start_soon(turns.run, "reader", work, "reader")
            await anyio.sleep(0)
            await anyio.wait_all_tasks_blocked()
            gate.set()

    anyio.run(all_of_them)
    assert done.index("reader") <= 1
    assert len(done) == 21
