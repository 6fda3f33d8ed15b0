"""One precision at a time: threads that compute with balls do not change each other's."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from flint import arb, ctx

import sudare
from sudare.ball_precision import ball_precision


@pytest.fixture
def frequent_switches():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("frequent_switches")
def test_threads_keep_the_precision_they_asked_for():
    wrong = []

    def computed(bits):
        for _ in range(400):
            with ball_precision(bits):
                third = arb(1) / 3
                if ctx.prec != bits or not third.rad() < arb(2) ** (2 - bits) or third.rad() < arb(2) ** (-4 - bits):
                    wrong.append(bits)

    threads = [threading.Thread(target=computed, args=(bits,)) for bits in (64, 128, 256, 512)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_precision_is_put_back_and_can_be_nested():
    before = ctx.prec
    with ball_precision(100):
        with ball_precision(200):
            assert ctx.prec == 200
        assert ctx.prec == 100
    assert ctx.prec == before


FORKED = """
import os, threading
from flint import ctx
from sudare.ball_precision import ball_precision

entered, go_on = threading.Event(), threading.Event()

def held():
    with ball_precision(90):
        entered.set()
        go_on.wait(60)

threading.Thread(target=held, daemon=True).start()
entered.wait(60)
child = os.fork()
if child == 0:
    with ball_precision(77):
        os._exit(ctx.prec)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
go_on.set()
"""


def test_a_process_forked_while_another_thread_computes_is_not_stuck():
    """In an interpreter of its own, which has no other threads."""
    run = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.strip() == "77"


def test_nothing_else_sets_the_precision():
    package = Path(sudare.__file__).parent
    setting = {
        path.name
        for path in package.rglob("*.py")
        if re.search(r"flint import .*\bctx\b|workprec|ctx\.(prec|dps)", path.read_text("utf-8"))
    }
    assert setting == {"ball_precision.py"}
