"""What is measured against what. A new benchmark adds its line here and a case of the same name on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

OURS: Final = "benchmarks.ours"


@dataclass(frozen=True)
class Peer:
    """Somebody else's library: the module with its cases, and whether it needs an environment of its own."""

    name: str
    module: str
    own_environment: bool


DIFFPRIVLIB: Final = Peer("diffprivlib 0.6.6", "benchmarks.diffprivlib_peer", own_environment=True)
DP_ACCOUNTING: Final = Peer("dp-accounting 0.6.0 (PLD)", "benchmarks.dp_accounting_peer", own_environment=False)
NUMPY: Final = Peer("a loop over rows in numpy", "benchmarks.numpy_peer", own_environment=False)
SCIKIT_LEARN: Final = Peer("scikit-learn (lbfgs)", "benchmarks.sklearn_peer", own_environment=False)


@dataclass(frozen=True)
class Benchmark:
    """One comparison. The name says what is different between the two, where they do not do the same."""

    name: str
    case: str
    peer: Peer
    arguments: Mapping[str, int | float] = field(default_factory=dict)
    peer_case: str = ""

    @property
    def case_of_peer(self) -> str:
        """The peer's case: of the same name, unless there are several."""
        return self.peer_case or self.case


BENCHMARKS: Final[tuple[Benchmark, ...]] = (
    Benchmark(
        "means of 100,000 rows × 10 columns (ours: exact noise; theirs: floating point)",
        "mean",
        DIFFPRIVLIB,
        {"rows": 100_000, "columns": 10},
    ),
    Benchmark(
        "histogram of 100,000 numbers, 10 bins (both: noise on whole counts; ours exact)",
        "histogram",
        DIFFPRIVLIB,
        {"rows": 100_000, "bins": 10},
    ),
    Benchmark(
        "Laplace noise on 1,000 numbers (ours: exact; theirs: floating point)",
        "laplace",
        DIFFPRIVLIB,
        {"dimension": 1_000},
    ),
    Benchmark(
        "Laplace noise on 1,000 numbers (ours: exact; theirs: snapping mechanism)",
        "laplace",
        DIFFPRIVLIB,
        {"dimension": 1_000},
        peer_case="snapping",
    ),
    Benchmark(
        "gamma-norm noise in 10 dimensions (ours: exact; theirs: floating point)",
        "gamma_norm",
        DIFFPRIVLIB,
        {"dimension": 10},
    ),
    Benchmark(
        "100 charges to a new account (ours: durable on disk; theirs: in memory)",
        "charges",
        DIFFPRIVLIB,
        {"charges": 100},
    ),
    Benchmark(
        "composition of 200 different Gaussian charges (ours: exact filter; theirs: privacy loss distributions)",
        "composition",
        DP_ACCOUNTING,
        {"charges": 200},
    ),
    Benchmark(
        "mirror averaging of 1,000 linear experts on 100,000 rows (ours: blocks, with all checks)",
        "mirror_averaging",
        NUMPY,
        {"experts": 1_000, "rows": 100_000},
    ),
    Benchmark(
        "private logistic regression, 50 rows × 10 columns (ours: exact noise, certified solution, all checks)",
        "logistic",
        DIFFPRIVLIB,
        {"rows": 50, "columns": 10},
    ),
    Benchmark(
        "100 members' private logistic regressions, 50 rows × 10 columns each (ours: batched simulation)",
        "logistic_nodes",
        DIFFPRIVLIB,
        {"nodes": 100, "rows": 50, "columns": 10},
    ),
    Benchmark(
        "logistic regression, 40,000 rows × 100 columns (ours: gradient certified to 1e-6; theirs: tol 1e-8)",
        "logistic_large",
        SCIKIT_LEARN,
        {"rows": 40_000, "columns": 100},
    ),
)
