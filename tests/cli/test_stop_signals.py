"""Signals that end a command that stays: none is lost, wherever the main thread is when it comes."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from sudare.cli.stop_signals import StopSignals

NUMBERS = [signal.SIGINT, signal.SIGTERM]


class _Kept:
    """Something that can be watched with a weak reference."""


def told_to_stop_in_a_callback() -> None:
    """The signal comes while Python calls back about an object that has gone: an exception is dropped there."""
    kept = _Kept()
    watch = weakref.ref(kept, lambda _: signal.raise_signal(signal.SIGTERM))
    del kept
    assert watch() is None


@pytest.mark.parametrize("number", NUMBERS)
def test_the_first_signal_is_a_flag_and_the_second_an_interrupt(number: signal.Signals) -> None:
    with StopSignals() as stop:
        stop.check()
        signal.raise_signal(number)
        assert stop.is_requested
        with pytest.raises(KeyboardInterrupt):
            stop.check()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_in_a_callback_of_the_garbage_collector_is_not_lost() -> None:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # What Ctrl-C does by itself: the exception is dropped, and nothing of it is left.
        told_to_stop_in_a_callback()
    finally:
        signal.signal(signal.SIGTERM, before)
    with StopSignals() as stop:
        told_to_stop_in_a_callback()
        with pytest.raises(KeyboardInterrupt):
            stop.check()


def test_a_person_who_is_asked_for_a_passphrase_can_stop_at_once() -> None:
    asked = list[str]()
    with StopSignals() as stop, contextlib.suppress(KeyboardInterrupt), stop.prompting():
        signal.raise_signal(signal.SIGINT)
        asked.append("went on")
    assert (asked, stop.is_requested) == ([], True)
    # An interrupt that a prompt swallows is raised after it.
    with StopSignals() as stop, pytest.raises(KeyboardInterrupt), stop.prompting():
        interrupt_swallowed()


def interrupt_swallowed() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_waiting_ends_with_the_signal_and_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    with StopSignals() as stop:
        sender = threading.Thread(target=lambda: (time.sleep(0.1), signal.raise_signal(signal.SIGTERM)))
        sender.start()
        stop.wait()
        sender.join()
    assert [signal.getsignal(number) for number in NUMBERS] == before


def test_outside_of_the_main_thread_nothing_is_changed() -> None:
    before, seen = signal.getsignal(signal.SIGTERM), list[object]()

    def look() -> None:
        with StopSignals() as stop:
            seen.extend((signal.getsignal(signal.SIGTERM), stop.is_requested))

    run_in_thread(look)
    assert seen == [before, False]


def run_in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
