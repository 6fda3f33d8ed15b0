"""Loops over the pairs of a symmetric matrix with few entries: products, sweeps of coordinate descent, conjugate gradients.

Such matrices are kept as values at *pairs* i ≤ j, row by row: `starts[i]` is where row i begins in `columns`, and its first
pair is the diagonal. W is Λ⁻¹, X is where a step leads, and D = X − Λ. Products with W are in the precision of W, double or
single. Expressions over whole arrays are spelled out as loops, which take a tenth of the time to compile.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats, Integers
from sudare.compiled_loops import compiled

# Float64 or float32.
Reals = NDArray[Any]
# Unsigned, because an index that cannot be negative need not be compared with zero.
Places = NDArray[np.uint32]

MOST_CONJUGATE_STEPS: Final = 100
# So many columns are turned to rows together, because their entries lie side by side in memory.
TURNED: Final = 16


class Pairs(NamedTuple):
    """The pairs of a symmetric matrix, and all entries of each row with the pairs at which their values are."""

    starts: Places
    columns: Places
    row_starts: Places
    row_columns: Places
    row_pairs: Places


class Sparse(NamedTuple):
    """Entries of a matrix, row by row."""

    starts: Places
    columns: Places
    values: Reals


class Model(NamedTuple):
    """At the pairs: X, the gradient S − X⁻¹ of the model, penalties, Λ, and which X are not zero (the face)."""

    values: Floats
    gradient: Floats
    penalties: Floats
    old: Floats
    on_face: NDArray[np.bool_]


@compiled()
def free_pairs(
    covariance: Floats, penalty: Floats, precision: Floats, inverse: Floats, share: float
) -> tuple[Integers, Integers]:
    """The pairs that may move: the diagonal, entries that are not zero, and those whose gradient exceeds the penalty.

    Or exceeds a share of the penalty, to be ready for small changes.
    """
    size = len(covariance)
    starts, columns = np.empty(size + 1, np.int64), np.empty(size * (size + 1) // 2, np.int64)
    count = 0
    for i in range(size):
        starts[i] = count
        for j in range(i, size):
            if i == j or precision[i, j] != 0.0 or abs(covariance[i, j] - inverse[i, j]) > share * penalty[i, j]:
                columns[count] = j
                count += 1
    starts[size] = count
    return starts, columns[:count]


@compiled()
def free_model(
    covariance: Floats, penalty: Floats, precision: Floats, inverse: Floats, share: float
) -> tuple[Integers, Integers, Floats, Floats, Floats]:
    """The free pairs with Λ, S − W and the penalties there."""
    starts, columns = free_pairs(covariance, penalty, precision, inverse, share)
    count = len(columns)
    values, gradient, penalties = np.empty(count), np.empty(count), np.empty(count)
    for i in range(len(covariance)):
        for pair in range(starts[i], starts[i + 1]):
            j = columns[pair]
            values[pair], penalties[pair] = precision[i, j], penalty[i, j]
            gradient[pair] = covariance[i, j] - inverse[i, j]
    return starts, columns, values, gradient, penalties


@compiled()
def pairs_and_rows(starts: Integers, columns: Integers) -> Pairs:
    """The pairs i ≤ j of a symmetric matrix with all entries of its rows; the diagonal is the first pair of each row."""
    size, count = len(starts) - 1, len(columns)
    row_starts = np.zeros(size + 1, np.uint32)
    for i in range(size):
        row_starts[i + 1] += starts[i + 1] - starts[i]
        for pair in range(starts[i] + 1, starts[i + 1]):
            row_starts[columns[pair] + 1] += 1
    for i in range(size):
        row_starts[i + 1] += row_starts[i]
    ends = row_starts[:size].copy()
    row_columns, row_pairs = np.empty(row_starts[size], np.uint32), np.empty(row_starts[size], np.uint32)
    for i in range(size):
        for pair in range(starts[i], starts[i + 1]):
            j = columns[pair]
            row_columns[ends[i]], row_pairs[ends[i]] = j, pair
            ends[i] += 1
            if i != j:
                row_columns[ends[j]], row_pairs[ends[j]] = i, pair
                ends[j] += 1
    places, upper_columns = np.empty(size + 1, np.uint32), np.empty(count, np.uint32)
    for i in range(size + 1):
        places[i] = starts[i]
    for pair in range(count):
        upper_columns[pair] = columns[pair]
    return Pairs(places, upper_columns, row_starts, row_columns, row_pairs)


@compiled()
def full_matrix(pairs: Pairs, values: Floats) -> Floats:
    """The symmetric matrix with these values at the pairs, and zeros elsewhere."""
    size = len(pairs.starts) - 1
    full = np.zeros((size, size))
    for i in range(size):
        for pair in range(pairs.starts[i], pairs.starts[i + 1]):
            full[i, pairs.columns[pair]] = full[pairs.columns[pair], i] = values[pair]
    return full


@compiled()
def strong_entries(pairs: Pairs, precision: Floats, weakest: float, inverse: Reals) -> Sparse:
    """Λ's entries at the pairs that are above `weakest` as partial correlations, in the precision of W."""
    size, count = len(precision), 0
    starts = np.zeros(size + 1, np.uint32)
    columns, values = np.empty(len(pairs.row_columns), np.uint32), np.empty(len(pairs.row_columns), inverse.dtype)
    for i in range(size):
        for entry in range(pairs.row_starts[i], pairs.row_starts[i + 1]):
            j = pairs.row_columns[entry]
            value = precision[i, j]
            if value * value > weakest * weakest * precision[i, i] * precision[j, j]:
                columns[count], values[count] = j, value
                count += 1
        starts[i + 1] = count
    return Sparse(starts, columns[:count], values[:count])


@compiled(reorder_sums=True)
def set_product(pairs: Pairs, values: Reals, dense: Reals, product: Reals, add: bool) -> None:
    """product ← A · dense, or that added to it, for the symmetric A with these values at the pairs; four at a time."""
    size = len(dense)
    for i in range(size):
        row = product[i]
        if not add:
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
def set_sandwich(pairs: Pairs, product: Reals, dense: Reals, values: Reals) -> None:
    """values ← the entries of dense · product at the pairs, four at a time.

    Columns of the product are turned to rows some at a time.
    """
    size = len(dense)
    turned, zero = np.empty((TURNED, size), dense.dtype), dense.dtype.type(0)
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
                first, second, third, fourth = zero, zero, zero, zero
                for k in range(size):
                    first += column[k] * one[k]
                    second += column[k] * two[k]
                    third += column[k] * three[k]
                    fourth += column[k] * four[k]
                values[pair], values[pair + 1], values[pair + 2], values[pair + 3] = first, second, third, fourth
                pair += 4
            while pair < end:
                one, first = dense[pairs.columns[pair]], zero
                for k in range(size):
                    first += column[k] * one[k]
                values[pair] = first
                pair += 1


@compiled()
def set_preconditioned(
    pairs: Pairs, strong: Sparse, on_face: NDArray[np.bool_], residual: Reals, better: Reals
) -> None:
    """better ← ΛRΛ on the face, for the strong entries of Λ, and zero elsewhere."""
    size = len(pairs.starts) - 1
    row, entries = np.empty(size, residual.dtype), np.empty(len(pairs.row_pairs), residual.dtype)
    for entry in range(len(entries)):
        entries[entry] = residual[pairs.row_pairs[entry]]
    for i in range(size):
        for k in range(size):
            row[k] = 0.0
        for place in range(strong.starts[i], strong.starts[i + 1]):
            value, k = strong.values[place], strong.columns[place]
            for entry in range(pairs.row_starts[k], pairs.row_starts[k + 1]):
                row[pairs.row_columns[entry]] += value * entries[entry]
        for pair in range(pairs.starts[i], pairs.starts[i + 1]):
            total = residual.dtype.type(0)
            if on_face[pair]:
                j = pairs.columns[pair]
                for place in range(strong.starts[j], strong.starts[j + 1]):
                    total += strong.values[place] * row[strong.columns[place]]
            better[pair] = total


@compiled(reorder_sums=True)
def scalar_product(pairs: Pairs, one: Reals, other: Reals) -> float:
    """⟨A, B⟩ of symmetric matrices: pairs off the diagonal, which is the first of each row, count twice."""
    total = 0.0
    for pair in range(len(one)):
        total += 2.0 * one[pair] * other[pair]
    for i in range(len(pairs.starts) - 1):
        total -= one[pairs.starts[i]] * other[pairs.starts[i]]
    return total


@compiled()
def shrunk(value: float, threshold: float) -> float:
    """The value moved towards zero by the threshold, and not beyond."""
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0


@compiled(reorder_sums=True)
def descent_sweep(
    starts: Integers | Places,
    columns: Integers | Places,
    gradient: Floats,
    penalty: Floats,
    inverse: Reals,
    values: Floats,
    product: Reals,
) -> float:
    """Minimises the model over one pair after the other; returns twice the decrease.

    `values` are X, `gradient` is S − W, both at the pairs; `product` = DW is kept up to date, in W's precision.
    """
    size = len(inverse)
    column, rounded = np.empty(size, inverse.dtype), np.zeros(2, inverse.dtype)
    decrease = 0.0
    for i in range(size):
        for k in range(size):
            column[k] = product[k, i]
        for pair in range(starts[i], starts[i + 1]):
            j, bend = columns[pair], rounded[0]
            for k in range(size):
                bend += column[k] * inverse[j, k]
            curvature = inverse[i, i] * inverse[j, j]
            threshold = 0.0
            if i != j:
                curvature += inverse[i, j] * inverse[i, j]
                threshold = penalty[pair] / curvature
            old = values[pair]
            new = shrunk(old - (gradient[pair] + bend) / curvature, threshold)
            change = new - old
            if change == 0.0:
                continue
            values[pair], rounded[1] = new, change
            move = rounded[1]
            for k in range(size):
                product[j, k] += move * inverse[i, k]
            column[j] += move * inverse[i, i]
            if i == j:
                decrease += curvature * change * change
                continue
            decrease += 2.0 * curvature * change * change
            for k in range(size):
                product[i, k] += move * inverse[j, k]
            column[i] += move * inverse[i, j]
    return decrease


@compiled()
def squares_beyond_zero(model: Model, step: Reals) -> float:
    """The sum of squares of what a step would move beyond zero, where that costs a penalty; each counts twice.

    In units in which variances are one, it bounds what it costs to stop these entries at zero, or is twice too much.
    """
    total = 0.0
    for pair in range(len(step)):
        there = model.values[pair] + step[pair]
        if there * model.values[pair] < 0.0 and model.penalties[pair] > 0.0:
            total += 2.0 * there * there
    return total


@compiled()
def conjugate_step(
    pairs: Pairs,
    strong: Sparse,
    model: Model,
    residual: Reals,
    inverse: Reals,
    product: Reals,
    enough: float,
    share_left: float,
) -> tuple[Reals, float, float]:
    """The D on the face with WDW = R there, and the duality gaps to expect without and with it.

    A gap is half of ⟨R, ΛRΛ⟩, but for terms of higher order: never less than what is left to gain on the face. D is good
    enough when twice the gap is `enough`, a small share of what it was, or less than what it will cost to stop at zero the
    entries that D moves beyond. Where coordinate descent is slow, because variables nearly determine each other, this is
    not: on a full face ΛRΛ is the solution. `residual`, which is zero off the face, and `product` are changed.
    """
    count = len(residual)
    step, direction = np.zeros_like(residual), np.zeros_like(residual)
    bent, better = np.empty_like(residual), np.empty_like(residual)
    set_preconditioned(pairs, strong, model.on_face, residual, better)
    left, before = scalar_product(pairs, residual, better), np.inf
    without, enough = left, max(enough, share_left * left)
    for _ in range(MOST_CONJUGATE_STEPS):
        if not left > enough or (share_left > 0.0 and left <= squares_beyond_zero(model, step)):
            break
        for pair in range(count):
            direction[pair] = better[pair] + left / before * direction[pair]
        set_product(pairs, direction, inverse, product, False)
        set_sandwich(pairs, product, inverse, bent)
        length = left / scalar_product(pairs, direction, bent)
        if not length > 0.0:
            break
        for pair in range(count):
            step[pair] += length * direction[pair]
            if model.on_face[pair]:
                residual[pair] -= length * bent[pair]
        before = left
        set_preconditioned(pairs, strong, model.on_face, residual, better)
        left = scalar_product(pairs, residual, better)
    return step, 0.5 * without, 0.5 * left
