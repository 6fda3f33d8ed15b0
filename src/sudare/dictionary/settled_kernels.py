"""Loops of the graphical lasso near its solution, where hardly an entry changes its sign: one linear system for all.

Pairs i ≤ j, W = Λ⁻¹ and D are those of `newton_kernels`. W and its products are in single precision, which halves what is
read from memory: a step needs to be right to some thousandths only, because the next one starts from its exact gradient,
and the line search and the duality gap, in double precision, judge where it leads.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.dictionary.compiled import compiled
from sudare.dictionary.newton_kernels import descent_sweep, free_pairs

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]

SWEEPS: Final = 2
SHARE_LEFT: Final = 1e-3
MOST_CONJUGATE_STEPS: Final = 30
# Weaker partial correlations hardly change the preconditioner, and most are weaker.
STRONG: Final = 0.03
# So many columns are turned to rows together, because their entries lie side by side in memory.
TURNED: Final = 16


class Pairs(NamedTuple):
    """The pairs of a symmetric matrix, and all entries of each row with the pairs at which their values are."""

    starts: Integers
    columns: Integers
    row_starts: Integers
    row_columns: Integers
    row_pairs: Integers


class Sparse(NamedTuple):
    """Entries of a matrix, row by row."""

    starts: Integers
    columns: Integers
    values: Singles


@compiled()
def pairs_and_rows(starts: Integers, columns: Integers) -> Pairs:
    """The pairs i ≤ j of a symmetric matrix with all entries of its rows; the diagonal is the first pair of each row."""
    size = len(starts) - 1
    row_starts = np.zeros(size + 1, np.int64)
    for i in range(size):
        row_starts[i + 1] += starts[i + 1] - starts[i]
        for pair in range(starts[i] + 1, starts[i + 1]):
            row_starts[columns[pair] + 1] += 1
    for i in range(size):
        row_starts[i + 1] += row_starts[i]
    ends = row_starts[:size].copy()
    row_columns, row_pairs = np.empty(row_starts[size], np.int64), np.empty(row_starts[size], np.int64)
    for i in range(size):
        for pair in range(starts[i], starts[i + 1]):
            j = columns[pair]
            row_columns[ends[i]], row_pairs[ends[i]] = j, pair
            ends[i] += 1
            if i != j:
                row_columns[ends[j]], row_pairs[ends[j]] = i, pair
                ends[j] += 1
    return Pairs(starts, columns, row_starts, row_columns, row_pairs)


@compiled()
def strong_entries(pairs: Pairs, precision: Floats) -> Sparse:
    """Λ's diagonal and the entries at the pairs that are strong as partial correlations."""
    size, count = len(precision), 0
    starts = np.zeros(size + 1, np.int64)
    columns, values = np.empty(len(pairs.row_columns), np.int64), np.empty(len(pairs.row_columns), np.float32)
    for i in range(size):
        for entry in range(pairs.row_starts[i], pairs.row_starts[i + 1]):
            j = pairs.row_columns[entry]
            value = precision[i, j]
            if value * value > STRONG * STRONG * precision[i, i] * precision[j, j]:
                columns[count], values[count] = j, value
                count += 1
        starts[i + 1] = count
    return Sparse(starts, columns[:count], values[:count])


@compiled(reorder_sums=True)
def set_product(pairs: Pairs, values: Singles, dense: Singles, product: Singles) -> None:
    """product ← A · dense, for the symmetric A with these values at the pairs; four entries of A at a time."""
    size = len(dense)
    for i in range(size):
        row = product[i]
        for k in range(size):
            row[k] = 0.0
        entry, end = pairs.row_starts[i], pairs.row_starts[i + 1]
        while entry + 4 <= end:
            first, second = values[pairs.row_pairs[entry]], values[pairs.row_pairs[entry + 1]]
            third, fourth = values[pairs.row_pairs[entry + 2]], values[pairs.row_pairs[entry + 3]]
            one, two = dense[pairs.row_columns[entry]], dense[pairs.row_columns[entry + 1]]
            three, four = dense[pairs.row_columns[entry + 2]], dense[pairs.row_columns[entry + 3]]
            for k in range(size):
                row[k] += first * one[k] + second * two[k] + third * three[k] + fourth * four[k]
            entry += 4
        while entry < end:
            first, one = values[pairs.row_pairs[entry]], dense[pairs.row_columns[entry]]
            for k in range(size):
                row[k] += first * one[k]
            entry += 1


@compiled(reorder_sums=True)
def set_sandwich(pairs: Pairs, product: Singles, dense: Singles, values: Singles) -> None:
    """values ← the entries of dense · product at the pairs, four at a time.

    Columns of the product are turned to rows some at a time.
    """
    size = len(dense)
    turned = np.empty((TURNED, size), np.float32)
    for start in range(0, size, TURNED):
        beyond = min(size, start + TURNED)
        for k in range(size):
            for i in range(start, beyond):
                turned[i - start, k] = product[k, i]
        for i in range(start, beyond):
            column = turned[i - start]
            pair, end = pairs.starts[i], pairs.starts[i + 1]
            while pair + 4 <= end:
                one, two = dense[pairs.columns[pair]], dense[pairs.columns[pair + 1]]
                three, four = dense[pairs.columns[pair + 2]], dense[pairs.columns[pair + 3]]
                first, second, third, fourth = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
                for k in range(size):
                    first += column[k] * one[k]
                    second += column[k] * two[k]
                    third += column[k] * three[k]
                    fourth += column[k] * four[k]
                values[pair], values[pair + 1], values[pair + 2], values[pair + 3] = first, second, third, fourth
                pair += 4
            while pair < end:
                one, first = dense[pairs.columns[pair]], np.float32(0.0)
                for k in range(size):
                    first += column[k] * one[k]
                values[pair] = first
                pair += 1


@compiled()
def set_preconditioned(pairs: Pairs, strong: Sparse, residual: Singles, product: Singles, better: Singles) -> None:
    """better ← ΛRΛ at the pairs, for the strong entries of Λ; `product` is used on the way."""
    size = len(product)
    for i in range(size):
        row = product[i]
        for k in range(size):
            row[k] = 0.0
        for entry in range(pairs.row_starts[i], pairs.row_starts[i + 1]):
            value, k = residual[pairs.row_pairs[entry]], pairs.row_columns[entry]
            for place in range(strong.starts[k], strong.starts[k + 1]):
                row[strong.columns[place]] += value * strong.values[place]
    for i in range(size):
        for pair in range(pairs.starts[i], pairs.starts[i + 1]):
            better[pair] = 0.0
        for place in range(strong.starts[i], strong.starts[i + 1]):
            value, row = strong.values[place], product[strong.columns[place]]
            for pair in range(pairs.starts[i], pairs.starts[i + 1]):
                better[pair] += value * row[pairs.columns[pair]]


@compiled(reorder_sums=True)
def scalar_product(pairs: Pairs, one: Singles, other: Singles) -> float:
    """⟨A, B⟩ of symmetric matrices: pairs off the diagonal, which is the first of each row, count twice."""
    total = 0.0
    for pair in range(len(one)):
        total += 2.0 * one[pair] * other[pair]
    for i in range(len(pairs.starts) - 1):
        total -= one[pairs.starts[i]] * other[pairs.starts[i]]
    return total


@compiled()
def conjugate_step(
    pairs: Pairs, strong: Sparse, residual: Singles, inverse: Singles, product: Singles, gained: float, tolerance: float
) -> tuple[Singles, float, float]:
    """The D over the pairs with WDW = R there, and the duality gaps to expect without and with it.

    A gap is half of ⟨R, ΛRΛ⟩, but for terms of higher order. D is good enough when it is half of the tolerance, or a
    small share of what it was before the step, of which `gained` is already won. `residual` and `product` are changed.
    """
    count = len(residual)
    step, direction = np.zeros_like(residual), np.zeros_like(residual)
    bent, better = np.empty_like(residual), np.empty_like(residual)
    set_preconditioned(pairs, strong, residual, product, better)
    left, before = scalar_product(pairs, residual, better), np.inf
    without = 0.5 * left
    enough = max(tolerance, 2.0 * SHARE_LEFT * (gained + without))
    for _ in range(MOST_CONJUGATE_STEPS):
        if not left > enough:
            break
        for pair in range(count):
            direction[pair] = better[pair] + left / before * direction[pair]
        set_product(pairs, direction, inverse, product)
        set_sandwich(pairs, product, inverse, bent)
        length = left / scalar_product(pairs, direction, bent)
        if not length > 0.0:
            break
        for pair in range(count):
            step[pair] += length * direction[pair]
            residual[pair] -= length * bent[pair]
        before = left
        set_preconditioned(pairs, strong, residual, product, better)
        left = scalar_product(pairs, residual, better)
    return step, without, 0.5 * left


@compiled()
def swept_values(
    covariance: Floats, penalty: Floats, precision: Floats, inverse: Floats, single: Singles, product: Singles
) -> tuple[Pairs, Floats, float]:
    """Where sweeps of coordinate descent over the free pairs lead, and twice what they gain; product ← DW.

    The pairs are those with a value that is not zero.
    """
    starts, columns = free_pairs(covariance, penalty, precision, inverse)
    size, count = len(covariance), len(columns)
    values, gradient, penalties = np.empty(count), np.empty(count), np.empty(count)
    for i in range(size):
        for pair in range(starts[i], starts[i + 1]):
            j = columns[pair]
            values[pair], penalties[pair] = precision[i, j], penalty[i, j]
            gradient[pair] = covariance[i, j] - inverse[i, j]
    gained = 0.0
    for _ in range(SWEEPS):
        gained += descent_sweep(starts, columns, gradient, penalties, single, values, product)
    kept, pair = 0, 0
    for i in range(size):
        end, starts[i] = starts[i + 1], kept
        while pair < end:
            if values[pair] != 0.0 or columns[pair] == i:
                columns[kept], values[kept] = columns[pair], values[pair]
                kept += 1
            pair += 1
    starts[size] = kept
    return pairs_and_rows(starts, columns[:kept]), values[:kept], gained


@compiled()
def settled_target(
    covariance: Floats,
    penalty: Floats,
    precision: Floats,
    inverse: Floats,
    single: Singles,
    product: Singles,
    tolerance: float,
) -> tuple[Floats, float, float]:
    """Where the quadratic model at Λ with the penalty has its minimum, and the duality gaps to expect here and there.

    Sweeps settle the signs; then all entries that are not zero are solved for together. Those that would change their
    sign after all become zero. `single` and `product` are room for W and DW.
    """
    size = len(covariance)
    for i in range(size):
        for j in range(size):
            single[i, j], product[i, j] = inverse[i, j], 0.0
    pairs, values, gained = swept_values(covariance, penalty, precision, inverse, single, product)
    residual = np.empty(len(values), np.float32)
    set_sandwich(pairs, product, single, residual)
    for i in range(size):
        for pair in range(pairs.starts[i], pairs.starts[i + 1]):
            j = pairs.columns[pair]
            pull = penalty[i, j] if values[pair] > 0.0 else -penalty[i, j]
            residual[pair] = -(covariance[i, j] - inverse[i, j] + residual[pair] + pull)
    strong = strong_entries(pairs, precision)
    step, without, after = conjugate_step(pairs, strong, residual, single, product, gained, tolerance)
    target = np.zeros((size, size))
    for i in range(size):
        for pair in range(pairs.starts[i], pairs.starts[i + 1]):
            j = pairs.columns[pair]
            value = values[pair] + step[pair]
            if value * values[pair] < 0.0 and penalty[i, j] > 0.0:
                value = 0.0
            target[i, j] = target[j, i] = value
    return target, gained + without, after
