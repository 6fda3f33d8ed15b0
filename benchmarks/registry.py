"""What is measured against what. A new benchmark adds its line here and a case of the same name on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from benchmarks.peers import OPACUS, SMALL, Environment

OURS: Final = "benchmarks.ours"


@dataclass(frozen=True)
class Peer:
    """Somebody else's library: the module with its cases, and the environment it needs where ours does not have it."""

    name: str
    module: str
    environment: Environment | None = None


DIFFPRIVLIB: Final = Peer("diffprivlib 0.6.6", "benchmarks.diffprivlib_peer", SMALL)
DP_ACCOUNTING: Final = Peer("dp-accounting 0.6.0 (PLD)", "benchmarks.dp_accounting_peer")
PAILLIER: Final = Peer("python-paillier 1.5 with gmpy2", "benchmarks.paillier_peer")
MULTI_FREQ_LDPY: Final = Peer("multi-freq-ldpy 0.2.5", "benchmarks.multi_freq_ldpy_peer", SMALL)
NUMPY: Final = Peer("a loop over rows in numpy", "benchmarks.numpy_peer")
SCIKIT_LEARN: Final = Peer("scikit-learn (lbfgs)", "benchmarks.sklearn_peer")
SCIKIT_LEARN_LASSO: Final = Peer("scikit-learn (graphical_lasso)", "benchmarks.sklearn_peer")
SCIKIT_LEARN_MIXTURE: Final = Peer("scikit-learn (GaussianMixture)", "benchmarks.sklearn_peer")
OURSELVES: Final = Peer("ourselves without a start", "benchmarks.ourselves_peer")
OURSELVES_PLAIN: Final = Peer("ourselves without clipping and noise", "benchmarks.ourselves_peer")
OPACUS_HOOKS: Final = Peer("Opacus 1.6.0, hooks (PyTorch 2.13)", "benchmarks.opacus_peer", OPACUS)
OPACUS_GHOST: Final = Peer("Opacus 1.6.0, ghost clipping (PyTorch 2.13)", "benchmarks.opacus_peer", OPACUS)
STEP: Final = {"batch": 1_024, "inputs": 100, "width": 64}
IMAGES: Final = {"batch": 256, "side": 8, "channels": 16, "width": 32}
LARGER_IMAGES: Final = {"batch": 256, "side": 28, "channels": 16, "width": 32}
# With a tolerance of 0.05 scikit-learn stops at a gap of 2.7e-3 by the bound that ours uses.
LASSO_500: Final = {"variables": 500, "rows": 1_000, "penalty": 0.0577, "tolerance_of_peer": 0.05}


@dataclass(frozen=True)
class Benchmark:
    """One comparison. The name says what is different between the two, where they do not do the same."""

    name: str
    case: str
    peer: Peer
    arguments: Mapping[str, int | float] = field(default_factory=dict)
    peer_case: str = ""
    # What a run is multiplied by before sides are compared, where one is too slow to do the whole; the name says so.
    ours_scale: float = 1.0
    peer_scale: float = 1.0

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
    Benchmark(
        "graphical lasso, 500 variables, 7% of pairs (ours: gap 1e-8; theirs: about 2e-3)",
        "graphical_lasso",
        SCIKIT_LEARN_LASSO,
        LASSO_500,
    ),
    Benchmark(
        "graphical lasso after an EM iteration, warm start, 500 variables (ours: gap 1e-8; theirs: 2e-3, no start)",
        "graphical_lasso_warm",
        SCIKIT_LEARN_LASSO,
        LASSO_500,
    ),
    Benchmark(
        "graphical lasso after an EM iteration, warm start, 500 variables (both: ours, gap 1e-8)",
        "graphical_lasso_warm",
        OURSELVES,
        LASSO_500,
    ),
    Benchmark(
        "graphical lasso, 10 blocks of 50 variables, 9% of pairs in each (ours: gap 1e-8; theirs: the default)",
        "graphical_lasso",
        SCIKIT_LEARN_LASSO,
        {"variables": 500, "rows": 1_000, "penalty": 0.2, "tolerance_of_peer": 1e-4, "blocks": 10},
    ),
    *(
        Benchmark(
            f"5 EM iterations, 300,000 rows × 10 columns, 6 patterns (ours: float{bits}; theirs: float64)",
            "expectation_maximisation",
            SCIKIT_LEARN_MIXTURE,
            {"rows": 300_000, "columns": 10, "patterns": 6, "iterations": 5, "bits": bits},
        )
        for bits in (64, 32)
    ),
    Benchmark(
        "sum over 10 members of 10,000 numbers, for one member (ours: masks, exact; theirs: 2048 bits, from 100 numbers times 100)",
        "masked_sum",
        PAILLIER,
        {"members": 10, "numbers": 10_000, "encrypted": 100},
        ours_scale=1 / 10,
        peer_scale=100,
    ),
    Benchmark(
        "retain-replace of 1,000,000 categories, 16 values (ours: exact, the system's entropy; theirs: a call a record)",
        "retain_replace",
        MULTI_FREQ_LDPY,
        {"rows": 1_000_000, "values": 16, "epsilon": 0.65},
    ),
    Benchmark(
        "retain-replace of 1,000,000 categories, 16 values, and shuffled (ours: exact; theirs: not shuffled)",
        "retain_replace_shuffled",
        MULTI_FREQ_LDPY,
        {"rows": 1_000_000, "values": 16, "epsilon": 0.65},
        peer_case="retain_replace",
    ),
    Benchmark(
        "Laplace noise on 1,000,000 numbers, and shuffled (ours: exact; theirs: retain-replace of 16 values, as it has nothing for numbers)",
        "record_laplace",
        MULTI_FREQ_LDPY,
        {"rows": 1_000_000, "values": 16, "epsilon": 0.65},
        peer_case="retain_replace",
    ),
    Benchmark(
        "unary encoding of 100,000 categories, 42 values (ours: exact, packed; theirs: a call a record)",
        "unary",
        MULTI_FREQ_LDPY,
        {"rows": 100_000, "values": 42, "epsilon": 0.65},
    ),
    Benchmark(
        "subset selection of 100,000 categories, 42 values (ours: exact, packed; theirs: a call a record)",
        "subset",
        MULTI_FREQ_LDPY,
        {"rows": 100_000, "values": 42, "epsilon": 0.65},
    ),
    Benchmark(
        "a private step of a network, 1,024 rows × 100 columns, 64×64 (both: ours; the peer is the same step without privacy)",
        "network_step",
        OURSELVES_PLAIN,
        STEP,
    ),
    Benchmark(
        "a private step of a network, 1,024 rows × 100 columns, 64×64 (ours: ghost norms; theirs: every row's gradient)",
        "network_step",
        OPACUS_HOOKS,
        STEP,
        peer_case="network_step_hooks",
    ),
    Benchmark(
        "a private step of a network, 1,024 rows × 100 columns, 64×64 (ours and theirs: ghost norms)",
        "network_step",
        OPACUS_GHOST,
        STEP,
        peer_case="network_step_ghost",
    ),
    Benchmark(
        "an epoch of private training as users run it, 32,561 rows, 64×64, Poisson samples of 1,024 (ours: ghost norms; theirs: every row's gradient)",
        "network_epoch",
        OPACUS_HOOKS,
        {"rows": 32_561, **STEP},
        peer_case="network_epoch_hooks",
    ),
    Benchmark(
        "an epoch of private training as users run it, 32,561 rows, 64×64, Poisson samples of 1,024 (ours and theirs: ghost norms)",
        "network_epoch",
        OPACUS_GHOST,
        {"rows": 32_561, **STEP},
        peer_case="network_epoch_ghost",
    ),
)
# Steps of networks with convolutions: measured by benchmarks.network_images, beside what such networks learn.
IMAGE_BENCHMARKS: Final[tuple[Benchmark, ...]] = tuple(
    Benchmark(
        f"a private step of a small CNN in plain JAX, 256 images of {sides} ({what})",
        "convolution_step",
        peer,
        arguments,
        peer_case=case,
    )
    for sides, arguments in (("8×8", IMAGES), ("28×28", LARGER_IMAGES))
    for what, peer, case in (
        ("the peer is the same step without privacy", OURSELVES_PLAIN, ""),
        ("both: every image's gradient is formed in convolutions", OPACUS_HOOKS, "convolution_step_hooks"),
        ("theirs: ghost norms", OPACUS_GHOST, "convolution_step_ghost"),
    )
)
