"""What one member's part of consortium-wide learning costs, piece by piece: the numbers that docs/scale.md multiplies.

python -m benchmarks.scale
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

from sudare.dictionary.distributed_noise import NoisePlan, Release
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


def least_seconds(action: Callable[[], object], times: int = 5) -> float:
    """The least processor time of several tries."""
    best = float("inf")
    for _ in range(times):
        begun = time.process_time()
        action()
        best = min(best, time.process_time() - begun)
    return best


def rows_costs() -> dict[str, float]:
    """Nanoseconds a row: reading from Parquet, bounding, one gradient, one mean message."""
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
        "reading and checking from Parquet": read,
        "bounding": least_seconds(lambda: reading.finished(raw), 2),
        "one gradient": least_seconds(lambda: gradient.block_sums(finished), 3),
        "one mean message": least_seconds(lambda: mean.block_sums(finished), 3),
    }
    return {f"{name}, ns a row of {COLUMNS} columns": 1e9 * cost / ROWS for name, cost in costs.items()}


def noise_costs() -> dict[str, float]:
    """Milliseconds for one share of 31 numbers, at ten thousand members."""
    source, nothing = SystemNoise(), np.zeros(WIDTH, dtype=np.int64)
    pure = PureShares(Fraction(2**27), 1.0, WIDTH, MEMBERS, MEMBERS // 3)
    plan = NoisePlan(1.0, 1e-6, MEMBERS, MEMBERS // 3, (Release(WIDTH, 2.0, Fraction(1)),), ALL_ROWS)
    gaussian = GaussianShares(plan, plan.releases[0])
    return {
        "a pure share, ms": 1e3 * least_seconds(lambda: pure.noisy(nothing, source), 20),
        "a Gaussian share, ms": 1e3 * least_seconds(lambda: gaussian.noisy(nothing, source), 20),
    }


def mask_costs(peers: int = 400) -> dict[str, float]:
    """Microseconds a peer for masking a vector of 31 words in a sum that nobody may leave: with a new key agreement, and with a known one."""
    keys = [MemberKeys.generated() for _ in range(peers)]
    roster = Roster(tuple(map(str, range(peers))), tuple(key.public for key in keys))
    words = np.zeros(WIDTH, np.uint64)

    def seconds(iteration: int) -> float:
        participant = Participant(SumContext("scale", "learning", iteration, 0, roster, peers, 0), 0, keys[0])
        return least_seconds(lambda: serverless.begun(participant, words), 1)

    first = seconds(0)
    return {
        "masking with a new key, µs a peer": 1e6 * first / peers,
        "masking, µs a peer": 1e6 * min(map(seconds, range(1, 4))) / peers,
    }


def rehearsal_costs() -> dict[str, float]:
    """Processor seconds of a hundred members in one process, under masks, for one pure sum and for a descent."""
    random = np.random.default_rng(1)
    members = []
    for _ in range(100):
        rows = random.normal(size=(50, 10)) / 4
        members.append((rows, (rows[:, 0] > 0).astype(int)))
    return {
        "100 members in one process, one pure sum, s": least_seconds(
            lambda: consortium_model(members, classes=[0, 1], epsilon=0.5), 1
        ),
        "100 members in one process, descent, s": least_seconds(
            lambda: consortium_model(members, classes=[0, 1], epsilon=0.5, delta=1e-6), 1
        ),
    }


def main() -> None:
    """Print all costs."""
    for part in (rows_costs, noise_costs, mask_costs, rehearsal_costs):
        for name, cost in part().items():
            print(f"{name}: {cost:.3g}")


if __name__ == "__main__":
    main()
