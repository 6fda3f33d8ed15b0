"""What one member's part of consortium-wide learning costs, piece by piece, and what that is for ten thousand members.

    python -m benchmarks.scale

writes benchmarks/scale.json and both tables of docs/scale.md.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from benchmarks.page_parts import write_part
from benchmarks.peers import ROOT
from sudare.dictionary.distributed_noise import NoisePlan, NoisyTotal
from sudare.joint import LearningTerms, MemberTable, ModelReading, consortium_model
from sudare.joint.noise_shares import GaussianShares, PureShares
from sudare.joint.sum_requests import GradientSum, MeanSum
from sudare.privacy.noise import SystemNoise
from sudare.schema import Label, Number, Schema
from sudare.sums import serverless
from sudare.sums.context import Participant, Roster, SumContext
from sudare.sums.keys import MemberKeys

COLUMNS, ROWS, MEMBERS, ALL_ROWS = 30, 4 * 65_536, 10_000, 10**9
WIDTH = COLUMNS + 1
# A member's own rows, and what a round between machines may take.
OWN_ROWS, ROUND_SECONDS, STEPS = 100_000, 0.06, 200
RESULTS: Final = Path(__file__).with_name("scale.json")
_UNITS: Final = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))
PAGE: Final = ROOT / "docs" / "scale.md"

READING, BOUNDING = "reading and checking rows from Parquet", "bounding rows"
GRADIENT, MEAN = "one gradient over rows in memory", "one mean message over rows in memory"
PURE_SHARE, GAUSSIAN_SHARE = "a share of pure noise", "a share of Gaussian noise"
FIRST_MASK, LATER_MASK = "masking, a peer, first sum (key agreement)", "masking, a peer, later sums"
STATEMENT = "verifying a statement"
ONE_SUM, DESCENT = (
    "100 members in one process under masks: one pure sum",
    "100 members in one process under masks: a descent",
)


def least_seconds(action: Callable[[], object], times: int = 5) -> float:
    """The least processor time of several tries."""
    best = float("inf")
    for _ in range(times):
        begun = time.process_time()
        action()
        best = min(best, time.process_time() - begun)
    return best


def rows_costs() -> dict[str, float]:
    """Seconds a row: reading from Parquet, bounding, one gradient, one mean message."""
    random = np.random.default_rng(0)
    names = [f"c{number}" for number in range(COLUMNS)]
    schema = Schema({**{name: Number(-4.0, 4.0) for name in names}, "label": Label((0, 1))})
    table = pd.DataFrame(random.normal(size=(ROWS, COLUMNS)), columns=names)
    table["label"] = (table["c0"] > 0).astype(int)
    reading = ModelReading.of_schema(schema, fit_intercept=True)
    descent = LearningTerms("descent", reading, 1.0, 1e-6, MEMBERS, MEMBERS // 3).plan(ALL_ROWS)
    pure = LearningTerms("one-sum", reading, 1.0, 0.0, MEMBERS, MEMBERS // 3).plan(ALL_ROWS)
    if descent.recipe is None:
        raise RuntimeError("Descent has no recipe.")
    gradient = GradientSum(
        WIDTH, 1e17, reading, descent.sums[0], np.full(WIDTH, 0.1), descent.recipe.clip, descent.grid
    )
    mean = MeanSum(WIDTH, 1e17, reading, pure.sums[0], reading.step)
    raw = reading.matrix(table, None)
    finished = reading.finished(raw)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        table.to_parquet(path)
        read = least_seconds(lambda: MemberTable(path).counted(reading), 2)
    costs = {
        READING: read,
        BOUNDING: least_seconds(lambda: reading.finished(raw), 2),
        GRADIENT: least_seconds(lambda: gradient.block_sums(finished), 3),
        MEAN: least_seconds(lambda: mean.block_sums(finished), 3),
    }
    return {name: cost / ROWS for name, cost in costs.items()}


def noise_costs() -> dict[str, float]:
    """Seconds for one share of 31 numbers, at ten thousand members."""
    source, nothing = SystemNoise(), np.zeros(WIDTH, dtype=np.int64)
    pure = PureShares(Fraction(2**27), 1.0, WIDTH, MEMBERS, MEMBERS // 3)
    plan = NoisePlan(1.0, 1e-6, MEMBERS, MEMBERS // 3, (NoisyTotal(WIDTH, 2.0, Fraction(1)),), ALL_ROWS)
    gaussian = GaussianShares(plan, plan.releases[0])
    return {
        PURE_SHARE: least_seconds(lambda: pure.noisy(nothing, source), 20),
        GAUSSIAN_SHARE: least_seconds(lambda: gaussian.noisy(nothing, source), 20),
    }


def mask_costs(peers: int = 400) -> dict[str, float]:
    """Seconds a peer for masking a vector of 31 words in a sum that nobody may leave, with a new key agreement and with a known one; and for one signature."""
    keys = [MemberKeys.generated() for _ in range(peers)]
    roster = Roster(tuple(map(str, range(peers))), tuple(key.public for key in keys))
    words = np.zeros(WIDTH, np.uint64)

    def seconds(iteration: int) -> float:
        participant = Participant(SumContext("scale", "learning", iteration, 0, roster, peers, 0), 0, keys[0])
        return least_seconds(lambda: serverless.begun(participant, words), 1)

    first = seconds(0)
    signer, text = (
        Ed25519PublicKey.from_public_bytes(keys[0].public.signing),
        b"a statement of some sixty-four bytes, which is what is signed...",
    )
    signature = keys[0].signature(text)
    return {
        FIRST_MASK: first / peers,
        LATER_MASK: min(map(seconds, range(1, 4))) / peers,
        STATEMENT: least_seconds(lambda: [signer.verify(signature, text) for _ in range(peers)]) / peers,
    }


def rehearsal_costs() -> dict[str, float]:
    """Processor seconds of a hundred members in one process, under masks, for one pure sum and for a descent."""
    random = np.random.default_rng(1)
    members = []
    for _ in range(100):
        rows = random.normal(size=(50, 10)) / 4
        members.append((rows, (rows[:, 0] > 0).astype(int)))
    return {
        ONE_SUM: least_seconds(lambda: consortium_model(members, classes=[0, 1], epsilon=0.5), 1),
        DESCENT: least_seconds(lambda: consortium_model(members, classes=[0, 1], epsilon=0.5, delta=1e-6), 1),
    }


def pieces_table(costs: Mapping[str, float]) -> str:
    """Every piece with its seconds."""
    units = dict.fromkeys((READING, BOUNDING, GRADIENT, MEAN), " a row")
    lines = [f"| {name} | {duration(cost)}{units.get(name, '')} |" for name, cost in costs.items()]
    return "\n".join(["| piece | cost |", "| --- | ---: |", *lines])


def together_table(costs: Mapping[str, float]) -> str:
    """What a member of ten thousand does for one pure sum and for a descent of 200 steps: pieces times how often."""
    peers, rounds = MEMBERS - 1, math.ceil(math.log2(MEMBERS))
    sums = 2, STEPS + 1
    rows = OWN_ROWS * (costs[READING] + costs[BOUNDING])
    agreement = peers * (costs[FIRST_MASK] - costs[LATER_MASK])
    work = {
        "reading and bounding 10⁵ rows, once (then in memory)": (rows, rows),
        "sums over own rows": (OWN_ROWS * costs[MEAN], STEPS * OWN_ROWS * costs[GRADIENT]),
        "shares of noise": (costs[PURE_SHARE], STEPS * costs[GAUSSIAN_SHARE]),
        f"key agreement with {peers:,} peers, once": (agreement, agreement),
        f"masks, {peers:,} peers a sum; {sums[0]} and {sums[1]} sums": tuple(
            each * peers * costs[LATER_MASK] for each in sums
        ),
        f"{peers:,} statements on the total, a sum": tuple(each * peers * costs[STATEMENT] for each in sums),
        f"⌈log₂ {MEMBERS:,}⌉ = {rounds} rounds a sum at {1000 * ROUND_SECONDS:.0f} ms": tuple(
            each * rounds * ROUND_SECONDS for each in sums
        ),
    }
    totals = [sum(column) for column in zip(*work.values(), strict=True)]
    lines = [f"| {name} | {duration(one)} | {duration(descent)} |" for name, (one, descent) in work.items()]
    return "\n".join(
        [
            f"| work | for one pure sum | for descent, {STEPS} steps |",
            "| --- | ---: | ---: |",
            *lines,
            f"| **together** | **{duration(totals[0])}** | **{duration(totals[1])}** |",
        ]
    )


def duration(seconds: float) -> str:
    """Seconds to two digits, in a unit that suits them."""
    if seconds >= 100:
        return f"{seconds / 60:.2g} minutes"
    # Rounded first: what is told as 0.1 of a unit is told in it.
    unit, factor = next(each for each in _UNITS if float(f"{seconds * each[1]:.2g}") >= 0.1 or each == _UNITS[-1])
    return f"{seconds * factor:.2g} {unit}"


def write_page(costs: Mapping[str, float], page: Path = PAGE) -> None:
    """Both tables."""
    write_part(page, "pieces", pieces_table(costs))
    write_part(page, "ten thousand members", together_table(costs))


def main() -> None:
    """Measure, print and write."""
    costs = {}
    for part in (rows_costs, noise_costs, mask_costs, rehearsal_costs):
        costs.update(part())
    print(pieces_table(costs), together_table(costs), sep="\n\n")
    RESULTS.write_text(json.dumps(costs, indent=2, ensure_ascii=False) + "\n", "utf-8")
    write_page(costs)


if __name__ == "__main__":
    main()
