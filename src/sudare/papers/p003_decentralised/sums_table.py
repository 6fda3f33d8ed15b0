"""What one sum takes by each way of hiding addends: rounds, values, bits and error, beside chunking at a relative error of 1e-3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.papers.p003_decentralised.graphs import cycle
from sudare.papers.p003_decentralised.hidden_sums import hidden_sum
from sudare.papers.p003_decentralised.paillier import paillier_cost
from sudare.papers.study import Cell, ResultTable
from sudare.sums import SecureSum, secure_sum

Floats = NDArray[np.float64]

MEMBERS: Final = 10
TOLERANCE: Final = 1e-3
CHUNKS: Final = 5
WIDEST_VALUE: Final = 10.0
KEY_BITS: Final = 2048


def sums_table(generator: np.random.Generator, numbers: int = 1_000) -> ResultTable:
    """Ten members, values uniform between −10 and 10 as in figure 1.9, and for each way what was sent, counted message by message."""
    vectors = list(generator.uniform(-WIDEST_VALUE, WIDEST_VALUE, (MEMBERS, numbers)))
    masks = secure_sum(vectors)
    rows = [
        _row("masks, dissemination", masks, vectors, masks),
        _row("masks, one may leave (t = 9)", secure_sum(vectors, threshold=MEMBERS - 1), vectors, masks),
        _row("additive shares", hidden_sum(vectors, hide="shares"), vectors, masks),
        _row("Shamir shares (t = 6)", hidden_sum(vectors, hide="shamir"), vectors, masks),
    ]
    for reach in (1, 2, 3):
        chunked = hidden_sum(
            vectors, "chunks", cycle(MEMBERS, reach), chunks=CHUNKS, chunk_spread=WIDEST_VALUE, tolerance=TOLERANCE
        )
        rows.append(_row(f"{CHUNKS} chunks, cycle of reach {reach}", chunked, vectors, masks))
    cost = paillier_cost(cycle(MEMBERS, 2), TOLERANCE, KEY_BITS)
    encrypted = cost.bits_per_number / MEMBERS
    ratio = encrypted / _bits_each(masks, numbers)
    rows.append(["Paillier 2048, cycle of reach 2", cost.rounds, cost.ciphertexts_per_round, encrypted, None, ratio])
    return ResultTable(
        f"One sum over {MEMBERS} members of {numbers:,} numbers",
        ["way", "rounds", "values a round", "bits a member and number", "relative error", "bits ÷ masks"],
        rows,
        "No differential privacy: every member sees the sum. Averaging stops when disagreement is 1/1000 of the first; the relative "
        "error of the sum, the worst member's, is then larger, so that chunks would need still more bits for 1e-3. Values a round are the most that one member sends for each number. "
        "Paillier's line is counted, not run: each value is two numbers of 4096 bits on every edge.",
    )


def _row(name: str, found: SecureSum, vectors: Sequence[Floats], masks: SecureSum) -> list[Cell]:
    exact = np.sum(vectors, axis=0)
    error = max(float(np.linalg.norm(total - exact)) for total in found.totals if total is not None)
    relative = error / float(np.linalg.norm(exact))
    numbers = len(exact)
    ratio = _bits_each(found, numbers) / _bits_each(masks, numbers)
    return [name, found.rounds, found.values_per_round, _bits_each(found, numbers), relative, ratio]


def _bits_each(found: SecureSum, numbers: int) -> float:
    """Bits that a member sends for each number, on average."""
    return found.bits_sent / len(found.totals) / numbers
