"""What it would cost to prove that every number of every member's addend lies in a range, beside the sum itself.

    python -m benchmarks.addend_proofs

writes benchmarks/addend_proofs.json and the tables of docs/benchmarks.md; with --numbers, --bits or --members it measures those and writes nothing.

Commitments and range proofs (benchmarks/range_proofs.py) are made and checked by arkworks in the peers' environment, on one thread; a verifier
decodes what it was sent and checks all members in one batch. Processor time. What is said of larger sums is that of the largest one measured,
times how many more numbers they have.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.ours import masked_sum
from benchmarks.page_parts import write_part
from benchmarks.peers import ROOT, PeerMissing, peer_python
from benchmarks.range_proofs import Cost
from benchmarks.resources import ONE_THREAD
from sudare.sums.keys import agreed_secret
from sudare.sums.masks import MaskKey, add_pair_masks

NUMBERS, BITS, MEMBERS = (10, 64, 100, 1000), 16, 10
# Measured beside: one proof's worth of wider numbers.
WIDE_NUMBERS, WIDE_BITS = (64,), 64
RESULTS: Final = Path(__file__).with_name("addend_proofs.json")
PAGE: Final = ROOT / "docs" / "benchmarks.md"
# At 10,000 members of whom 5 % may be dishonest and 5 % may leave (docs/scale.md).
NEIGHBOURS = 110


@dataclass(frozen=True)
class Sum:
    """A sum with proofs beside the same sum without: what one member computes, and what it is sent."""

    members: int
    numbers: int
    without_seconds: float
    prove_seconds: float
    verify_seconds: float
    sent_bytes: float
    received_bytes: float


def costs(numbers: Sequence[int], bits: int, members: int) -> list[Cost]:
    """Measured in the peers' environment, a line for each number of numbers. Raise PeerMissing if it cannot be made."""
    asked = json.dumps({"numbers": list(numbers), "bits": bits, "members": members})
    finished = subprocess.run(
        [str(peer_python()), "-m", "benchmarks.arkworks_peer", asked],
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD, "RAYON_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [Cost(**json.loads(line)) for line in finished.stdout.splitlines()]


def sum_with_proofs(cost: Cost, members: int, numbers: int, without_seconds: float) -> Sum:
    """A member proves its own numbers and checks everybody's, and the total."""
    others = (members - 1) * numbers
    return Sum(
        members,
        numbers,
        without_seconds,
        numbers * (cost.commit_seconds + cost.prove_seconds),
        others * (cost.verify_seconds + cost.total_seconds),
        numbers * cost.bytes,
        others * cost.bytes,
    )


def small_sum_seconds(members: int, numbers: int) -> float:
    """Processor seconds of one of all members in a sum that nobody may leave; the least of three."""
    run = masked_sum(members, numbers, 0)
    return min(_processor_seconds(run) for _ in range(3)) / members


def masks_seconds(neighbours: int, numbers: int) -> float:
    """Processor seconds for the masks of one member: key agreement with its neighbours for this sum, and their words."""
    own, *others = (MaskKey.of(secrets.token_bytes(32)) for _ in range(neighbours + 1))
    words = np.zeros(numbers, dtype=np.uint64)

    def run() -> None:
        seeds = {place: agreed_secret(own.private, own.public, key.public) for place, key in enumerate(others, 1)}
        add_pair_masks(words, 0, seeds)

    return min(_processor_seconds(run) for _ in range(3))


def _processor_seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def told(measured: Sequence[Cost], sums: Sequence[Sum]) -> str:
    """Two tables: for each number, and for whole sums."""
    lines = [
        f"For each number, {measured[0].members} members in a batch:",
        "",
        "| bits | numbers | commit | prove | check one member | check a batch | check the total | sent |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {one.bits} | {one.numbers:,} | {_ms(one.commit_seconds)} | {_ms(one.prove_seconds)} | {_ms(one.verify_alone_seconds)}"
            f" | {_ms(one.verify_seconds)} | {_ms(one.total_seconds)} | {one.bytes:.0f} B |"
            for one in measured
        ),
        "",
        f"Multi-exponentiation in the library: {max(measured, key=lambda one: one.numbers).library_share:.0%} of proving. Multiplied, for one member that proves its own numbers of {max(measured, key=lambda one: one.numbers).bits} bits and checks all others':",
        "",
        "| one sum, for one member | without proofs | proving | checking all others | sent | received |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {one.members:,} members × {one.numbers:,} numbers | {_ms(one.without_seconds)} | {one.prove_seconds:,.0f} s"
            f" | {one.verify_seconds:,.0f} s | {_mb(one.sent_bytes)} | {_mb(one.received_bytes)} |"
            for one in sums
        ),
    ]
    return "\n".join(lines)


def _mb(size: float) -> str:
    return f"{size / 1e6:.2g} MB" if size < 1e8 else f"{size / 1e6:,.0f} MB"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2g} ms"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.addend_proofs", description=__doc__)
    parser.add_argument("--numbers", type=int, nargs="+", help="how many numbers a member adds")
    parser.add_argument("--bits", type=int, help="of each number: a power of two")
    parser.add_argument("--members", type=int, help="how many members are checked in one batch")
    options = parser.parse_args()
    is_usual = not any(vars(options).values())
    members = options.members or MEMBERS
    try:
        measured = costs(options.numbers or NUMBERS, options.bits or BITS, members)
        if is_usual:
            measured += costs(WIDE_NUMBERS, WIDE_BITS, members)
    except PeerMissing as reason:
        sys.exit(f"arkworks is not there: {reason}")
    largest = max(measured, key=lambda cost: cost.numbers)
    sums = [
        sum_with_proofs(largest, 10, 10_000, small_sum_seconds(10, 10_000)),
        sum_with_proofs(largest, 10_000, 1000, masks_seconds(NEIGHBOURS, 1000)),
    ]
    print(told(measured, sums))
    if is_usual:
        values = {"costs": list(map(asdict, measured)), "sums": list(map(asdict, sums))}
        RESULTS.write_text(json.dumps(values, indent=2) + "\n", "utf-8")
        write_page(values)


def write_page(values: dict[str, list[dict[str, Any]]], page: Path = PAGE) -> None:
    """The tables, from what was measured."""
    costs_read, sums_read = [Cost(**each) for each in values["costs"]], [Sum(**each) for each in values["sums"]]
    write_part(page, "proofs", told(costs_read, sums_read))


if __name__ == "__main__":
    main()
