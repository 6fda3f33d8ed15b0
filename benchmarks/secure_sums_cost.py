"""What one secure sum cost, whoever computed it, and Flower's SecAgg+ asked for its cost. Standard library only.

Both sides print one `Cost` as a line of JSON; `flower_cost` runs the peer's side in the peer's environment.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, dataclass
from typing import Self

from benchmarks.peers import FLOWER, ROOT, peer_python
from benchmarks.resources import ONE_THREAD

_PEER = "benchmarks.flower_peer"


@dataclass(frozen=True)
class Cost:
    """Processor seconds and bytes of one sum: for a member that stays to its end, the mean, and for the collector.

    `degree` counts the other members to whom a member deals shares, `threshold` the shares that open a secret, `leaving` the members that leave, most of
    them after dealing shares. `how` says what was measured and what was worked out from a sample. Of a member's seconds and bytes received, those for
    certificates with the signatures of most members are told apart, where there are any.
    """

    who: str
    members: int
    numbers: int
    degree: int
    threshold: int
    leaving: int
    member_seconds: float
    member_bytes_sent: float
    member_bytes_received: float
    collector_seconds: float
    collector_bytes_sent: int
    how: str
    certificate_seconds: float = 0.0
    certificate_bytes: float = 0.0

    @classmethod
    def from_json(cls, line: str) -> Self:
        """The cost that a line of JSON tells."""
        return cls(**json.loads(line))

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


def flower_cost(*, members: int, degree: int, threshold: int, leaving: int, numbers: int, sample: int) -> Cost:
    """What Flower's SecAgg+ takes, in a process of its own; raises PeerMissing where its environment cannot be made."""
    sizes = {"members": members, "degree": degree, "threshold": threshold, "leaving": leaving}
    options = {**sizes, "numbers": numbers, "sample": sample}
    finished = subprocess.run(
        [str(peer_python(FLOWER)), "-m", _PEER, "--json", *(f"--{name}={value}" for name, value in options.items())],
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Cost.from_json(finished.stdout.splitlines()[-1])


def told(cost: Cost) -> str:
    """One line for the terminal."""
    return (
        f"{cost.who}: {cost.members:,} members, {cost.leaving:,} leave, {cost.numbers:,} numbers,"
        f" degree {cost.degree}, threshold {cost.threshold}."
        f" A member: {cost.member_seconds:.3g} s, {cost.member_bytes_sent / 1e3:.0f} kB sent,"
        f" {cost.member_bytes_received / 1e3:.0f} kB received."
        f" The collector: {cost.collector_seconds:.4g} s, {cost.collector_bytes_sent / 1e6:.1f} MB sent. {cost.how}"
    )


def markdown(pairs: list[tuple[Cost, Cost]]) -> str:
    """A table of pairs (ours, the peer's): seconds and bytes of both, and the peer's seconds divided by ours."""
    head = (
        "| members | leaving | degree | | a member, s | sent, kB | received, kB | collector, s | sent, MB |\n"
        "| ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |"
    )
    rows = []
    for ours, peer in pairs:
        rows += [_row(ours), _row(peer)]
        member, collector = peer.member_seconds / ours.member_seconds, peer.collector_seconds / ours.collector_seconds
        rows.append(f"| | | | {peer.who} ÷ {ours.who} | {_ratio(member)} | | | {_ratio(collector)} | |")
    return "\n".join([head, *rows])


def _ratio(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def _row(cost: Cost) -> str:
    sent, received = cost.member_bytes_sent / 1e3, cost.member_bytes_received / 1e3
    return (
        f"| {cost.members:,} | {cost.leaving:,} | {cost.degree} | {cost.who} | {cost.member_seconds:.3g}"
        f" | {sent:.0f} | {received:.0f} | {cost.collector_seconds:.4g} | {cost.collector_bytes_sent / 1e6:.1f} |"
    )
