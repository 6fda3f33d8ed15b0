"""What the chapter draws of its own example, how long one sum takes, and what exact sums give away (figures 1.8 and 1.9)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from sudare.dictionary import PatternDictionary
from sudare.dictionary.em import Terms
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.member_records import Records
from sudare.dictionary.private_sum_questions import NoisyMoments
from sudare.dictionary.private_training import PrivateTerms
from sudare.dictionary.sum_questions import Counts
from sudare.dictionary.training import trained
from sudare.papers.p003_decentralised.graphs import cycle
from sudare.papers.p003_decentralised.hidden_sums import hidden_sum
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth
from sudare.papers.p003_decentralised.record_reconstruction import (
    exact_equations,
    largest_error,
    noisy_equations,
    solved,
    watched,
)
from sudare.papers.study import Cell, Estimate, ResultTable, Tell
from sudare.privacy.noise import SeededNoise
from sudare.report.pattern_plots import stacked_shares
from sudare.report.plots import Panel, Series, curves
from sudare.sums import MemberKeys, secure_sum

Floats = NDArray[np.float64]

CHAPTER_SEED: Final = 2021
CHAPTER_ROWS: Final = 300
START: Final = 6
TIMED_MEMBERS: Final = (5, 10, 20, 40)
TIMED_CHUNKS: Final = 5
# The chapter stops at a root mean squared error of 0.01 with first values in ±10.
TIMED_TOLERANCE: Final = 1e-3
# One encrypted sum over five members takes about half a minute, over ten several; more tell nothing new.
MOST_ENCRYPTED_MEMBERS: Final = 5
ATTACKED_ROWS: Final = 10
ATTACK_EPSILON: Final = 10.0


def figure_1_8() -> tuple[ResultTable, Panel]:
    """Weights found from six patterns, beside the true ones."""
    truth = chapter_truth()
    records = truth.records(np.random.default_rng(CHAPTER_SEED), CHAPTER_ROWS)
    fitted = PatternDictionary(START).fit(records)
    distances = np.sum((fitted.means_[:, np.newaxis] - truth.means) ** 2, axis=2)
    found, true = linear_sum_assignment(distances)
    names = [f"pattern {'ABC'[index]}" for index in true]
    weights = fitted.weights_[:, found]
    rows: list[Sequence[Cell]] = []
    for member in range(len(weights)):
        pairs = zip(truth.weights[member, true].tolist(), weights[member].tolist(), strict=True)
        rows.append((f"member {member + 1}", *(f"{right:.3f} / {got:.3f}" for right, got in pairs)))
    table = ResultTable(
        f"Figure 1.8: weights, true / found, from K₀ = {START} (K = {fitted.n_patterns_} kept)",
        ("", *names),
        rows,
        "No ε: exact sums under masks. One seed, as in the chapter, whose bars show the same three patterns.",
    )
    labels = [f"member {member + 1}" for member in range(len(weights))]
    return table, stacked_shares(labels, weights, names, y_label="weight", title="Figure 1.8: weights found")


def figure_1_9(generator: np.random.Generator, repeats: int, tell: Tell) -> tuple[ResultTable, Panel]:
    """Seconds for one agreed number: chunks as in the chapter, masks, and Paillier's encryption where it can be waited for."""
    rows: list[Sequence[Cell]] = []
    chunked, masked = [], []
    for members in TIMED_MEMBERS:
        tell(f"one sum over {members} members by each way")
        vectors = [np.array([value]) for value in generator.uniform(-10, 10, members)]
        keys = [MemberKeys.generated() for _ in range(members)]
        chunked.append(Estimate.of([_seconds_in_chunks(vectors) for _ in range(repeats)]))
        masked.append(Estimate.of([_seconds_under_masks(vectors, keys) for _ in range(repeats)]))
        encrypted = _seconds_encrypted(vectors) if members <= MOST_ENCRYPTED_MEMBERS else None
        rows.append((members, encrypted, chunked[-1], masked[-1]))
    table = ResultTable(
        "Figure 1.9: seconds for one sum of one number, all members in one process",
        ("S", "Paillier 2048, new keys", f"{TIMED_CHUNKS} chunks", "masks, keys kept"),
        rows,
        f"Cycle with b = 2 for chunks and Paillier, disagreement to {TIMED_TOLERANCE:g} of the first; masks are exact. ± one standard error over {repeats} runs on this "
        "machine; Paillier once. As the chapter finds, encryption is slower by orders of magnitude. Chunks and masks take milliseconds alike for one number; masks are exact, send less and hide more.",
    )
    series = [
        Series(name, [each.value for each in line], [each.standard_error for each in line])
        for name, line in ((f"{TIMED_CHUNKS} chunks", chunked), ("masks", masked))
    ]
    panel = curves(
        TIMED_MEMBERS, series, x_label="members", y_label="seconds", title="Figure 1.9: one sum", logarithmic=True
    )
    return table, panel


def _seconds_in_chunks(vectors: Sequence[Floats]) -> float:
    start = time.perf_counter()
    hidden_sum(vectors, "chunks", cycle(len(vectors), 2), chunks=TIMED_CHUNKS, tolerance=TIMED_TOLERANCE)
    return time.perf_counter() - start


def _seconds_under_masks(vectors: Sequence[Floats], keys: Sequence[MemberKeys]) -> float:
    start = time.perf_counter()
    secure_sum(vectors, keys=keys)
    return time.perf_counter() - start


def _seconds_encrypted(vectors: Sequence[Floats]) -> float:
    start = time.perf_counter()
    hidden_sum(vectors, "paillier", cycle(len(vectors), 2), tolerance=TIMED_TOLERANCE)
    return time.perf_counter() - start


def records_attack_table(repeats: int, tell: Tell) -> ResultTable:
    """How far a curious member of two comes with exact sums, and with noisy ones."""
    exact, noisy = [], []
    for seed in range(repeats):
        tell(f"a curious member computes the other's records, {seed + 1} of {repeats}")
        generator = np.random.default_rng([seed, 4])
        means = 3 * generator.normal(size=(2, 2))
        curious, other = (
            Records.of(means[generator.integers(2, size=rows)] + generator.normal(size=(rows, 2)))
            for rows in (40, ATTACKED_ROWS)
        )
        exact.append(_exact_attack_error(curious, other))
        noisy.append(_noisy_attack_error(curious, other, seed))
    rows = [
        (name, f"{sum(error < 1e-6 for error in errors)} of {repeats}", float(np.median(errors)), max(errors))
        for name, errors in (("exact sums", exact), (f"ε = {ATTACK_EPSILON:g}, δ = 1e-6", noisy))
    ]
    return ResultTable(
        f"The records of the other member ({ATTACKED_ROWS} records × 2 sensors), computed from ten iterations at S = 2",
        ("what was shown", "all found to 1e-6", "median of the largest error", "worst"),
        rows,
        "Errors are distances in the units of the sensors, whose spread is about 3. The attack is Gauss–Newton from twenty random starts on the sums a member of two can subtract itself from.",
    )


def _attack_terms() -> Terms:
    return Terms(
        ("a", "b"),
        np.full(2, -15.0),
        np.full(2, 15.0),
        2,
        SparseGaussian(),
        2,
        min_others=0.0,
        search=False,
        max_iter=10,
        tol=1e-12,
    )


def _exact_attack_error(curious: Records, other: Records) -> float:
    shown = watched(trained(_attack_terms()), curious, other)
    frame = next(each.question.frame for each in shown if isinstance(each.question, Counts))
    found = solved(exact_equations(shown)[:10], other.rows, np.random.default_rng(0), starts=20)
    return largest_error(frame.undone(found), other.checked.together()[0])


def _noisy_attack_error(curious: Records, other: Records, seed: int) -> float:
    private = trained(PrivateTerms(_attack_terms(), ATTACK_EPSILON, 1e-6))
    shown = watched(private, curious, other, SeededNoise(seed))
    frame = next(each.question.frame for each in shown if isinstance(each.question, NoisyMoments))
    found = solved(noisy_equations(shown, 2), other.rows, np.random.default_rng(0), starts=3)
    return largest_error(frame.undone(found), other.checked.together()[0])
