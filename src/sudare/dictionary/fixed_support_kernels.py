"""Loops of the graphical lasso near its solution, where hardly an entry changes its sign: one linear system for all.

Pairs i ≤ j, W = Λ⁻¹, X and D = X − Λ are those of `newton_kernels`. W and its products are in single precision, which
halves what is read from memory: a step needs to be right to some thousandths only, because the next one starts from its
exact gradient, and the line search and the duality gap, in double precision, judge where it leads.

X⁻¹ = W − WDW + WDWDW − …, of which quadratic models have the first two terms. The third is small, so that it need not be
exact: its middle W may be zero off the pairs. With it one inverse does for a step that else would take two.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.compiled_loops import compiled
from sudare.dictionary.newton_kernels import descent_sweep, free_pairs

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]
# Unsigned, because an index that cannot be negative need not be compared with zero.
Places = NDArray[np.uint32]
Flags = NDArray[np.bool_]

SWEEPS: Final = 2
ROUNDS: Final = 2
MOST_CONJUGATE_STEPS: Final = 30
# Conjugate steps end when the duality gap to expect is this share of what it was: then sweeps do more in the same time.
SHARE_LEFT: Final = 1e-3
# Or this share of the tolerance, because the gap is known to some per cent.
ENOUGH: Final = 0.8
# A pair whose gradient is this share of the penalty may come to exceed it.
NEARLY: Final = 0.99
# Weaker partial correlations hardly change the preconditioner, and most are weaker.
STRONG: Final = 0.03
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
    values: Singles


class Model(NamedTuple):
    """At the pairs: X; the gradient S − X⁻¹ where X was when it was looked at; penalties, Λ, W; which X are not zero."""

    values: Floats
    gradient: Floats
    looked_at: Floats
    penalties: Floats
    old: Floats
    inverse: Singles
    on_face: Flags


class Room(NamedTuple):
    """Matrices in single precision: W, DW where the gradient was looked at, and two for other products with W."""

    inverse: Singles
    total: Singles
    product: Singles
    other: Singles


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
def strong_entries(pairs: Pairs, precision: Floats) -> Sparse:
    """Λ's diagonal and the entries at the pairs that are strong as partial correlations."""
    size, count = len(precision), 0
    starts = np.zeros(size + 1, np.uint32)
    columns, values = np.empty(len(pairs.row_columns), np.uint32), np.empty(len(pairs.row_columns), np.float32)
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
def set_product(pairs: Pairs, values: Singles, dense: Singles, product: Singles, add: bool) -> None:
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
def set_preconditioned(pairs: Pairs, strong: Sparse, on_face: Flags, residual: Singles, better: Singles) -> None:
    """better ← ΛRΛ on the face, for the strong entries of Λ, and zero elsewhere."""
    size = len(pairs.starts) - 1
    row, entries = np.empty(size, np.float32), np.empty(len(pairs.row_pairs), np.float32)
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
            total = np.float32(0.0)
            if on_face[pair]:
                j = pairs.columns[pair]
                for place in range(strong.starts[j], strong.starts[j + 1]):
                    total += strong.values[place] * row[strong.columns[place]]
            better[pair] = total


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
def squares_beyond_zero(model: Model, step: Singles) -> float:
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
    pairs: Pairs, strong: Sparse, model: Model, residual: Singles, room: Room, tolerance: float
) -> tuple[Singles, float, float]:
    """The D on the face with WDW = R there, and the duality gaps to expect without and with it.

    A gap is half of ⟨R, ΛRΛ⟩, but for terms of higher order. D is good enough when it is below the tolerance, a small
    share of what it was, or less than what it will cost to stop at zero the entries that D moves beyond. `residual`,
    which is zero off the face, and `room.product` are changed.
    """
    count = len(residual)
    step, direction = np.zeros_like(residual), np.zeros_like(residual)
    bent, better = np.empty_like(residual), np.empty_like(residual)
    set_preconditioned(pairs, strong, model.on_face, residual, better)
    left, before = scalar_product(pairs, residual, better), np.inf
    without, enough = left, max(2.0 * tolerance, SHARE_LEFT * left)
    for _ in range(MOST_CONJUGATE_STEPS):
        if not left > max(enough, squares_beyond_zero(model, step)):
            break
        for pair in range(count):
            direction[pair] = better[pair] + left / before * direction[pair]
        set_product(pairs, direction, room.inverse, room.product, False)
        set_sandwich(pairs, room.product, room.inverse, bent)
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


@compiled()
def swept_model(
    covariance: Floats, penalty: Floats, precision: Floats, inverse: Floats, room: Room
) -> tuple[Pairs, Model, float]:
    """Where sweeps of coordinate descent over the free pairs lead, and twice what they gain; room.product ← DW.

    The pairs are those with an X that is not zero, or was not.
    """
    starts, columns = free_pairs(covariance, penalty, precision, inverse, NEARLY)
    size, count = len(covariance), len(columns)
    values, gradient, penalties = np.empty(count), np.empty(count), np.empty(count)
    for i in range(size):
        for pair in range(starts[i], starts[i + 1]):
            j = columns[pair]
            values[pair], penalties[pair] = precision[i, j], penalty[i, j]
            gradient[pair] = covariance[i, j] - inverse[i, j]
    gained = 0.0
    for _ in range(SWEEPS):
        gained += descent_sweep(starts, columns, gradient, penalties, room.inverse, values, room.product)
    old, middle = np.empty(count), np.empty(count, np.float32)
    kept, pair = 0, 0
    for i in range(size):
        end, starts[i] = starts[i + 1], kept
        while pair < end:
            j = columns[pair]
            if values[pair] != 0.0 or precision[i, j] != 0.0:
                columns[kept], values[kept], penalties[kept] = j, values[pair], penalties[pair]
                old[kept], middle[kept] = precision[i, j], inverse[i, j]
                kept += 1
            pair += 1
    starts[size] = kept
    looked_at, on_face = np.empty(kept), np.empty(kept, np.bool_)
    model = Model(values[:kept], gradient[:kept], looked_at, penalties[:kept], old[:kept], middle[:kept], on_face)
    return pairs_and_rows(starts, columns[:kept]), model, gained


@compiled()
def set_gradient(
    covariance: Floats, inverse: Floats, pairs: Pairs, model: Model, room: Room, residual: Singles
) -> None:
    """gradient ← S − W + WDW − WDWDW, and residual ← what is missing on the face to balance the penalty.

    The W in the middle is taken at the pairs only. room.product holds what was added to DW since the last look.
    """
    for i in range(len(covariance)):
        for j in range(len(covariance)):
            room.total[i, j] += room.product[i, j]
            room.product[i, j] = room.total[i, j]
    change = np.empty(len(residual), np.float32)
    for pair in range(len(residual)):
        change[pair] = model.old[pair] - model.values[pair]
    set_product(pairs, model.inverse, room.total, room.other, False)
    set_product(pairs, change, room.other, room.product, True)
    set_sandwich(pairs, room.product, room.inverse, residual)
    for i in range(len(covariance)):
        for pair in range(pairs.starts[i], pairs.starts[i + 1]):
            j, value = pairs.columns[pair], model.values[pair]
            model.looked_at[pair] = value
            model.gradient[pair] = covariance[i, j] - inverse[i, j] + residual[pair]
            pull = model.penalties[pair] if value > 0.0 else -model.penalties[pair]
            model.on_face[pair] = value != 0.0
            residual[pair] = -(model.gradient[pair] + pull) if value != 0.0 else 0.0


@compiled()
def sweep_again(pairs: Pairs, model: Model, room: Room) -> None:
    """Sweeps from X, which has moved since the gradient was looked at; room.product ← what this adds to DW."""
    change = np.empty(len(model.values), np.float32)
    for pair in range(len(change)):
        change[pair] = model.values[pair] - model.looked_at[pair]
    set_product(pairs, change, room.inverse, room.product, False)
    for _ in range(SWEEPS):
        descent_sweep(
            pairs.starts, pairs.columns, model.gradient, model.penalties, room.inverse, model.values, room.product
        )


@compiled()
def move_to_zero_at_most(model: Model, step: Singles) -> None:
    """Moves X by the step, but no entry with a penalty beyond zero."""
    for pair in range(len(step)):
        there = model.values[pair] + step[pair]
        beyond = there * model.values[pair] < 0.0 and model.penalties[pair] > 0.0
        model.values[pair] = 0.0 if beyond else there


@compiled()
def settled_target(
    covariance: Floats,
    penalty: Floats,
    precision: Floats,
    inverse: Floats,
    room: Room,
    farthest: float,
    tolerance: float,
) -> tuple[Floats, float, float]:
    """Where the model of third order at Λ with the penalty has its minimum, and the duality gaps to expect here and there.

    Sweeps settle the signs; then all entries that are not zero are solved for together. Those that would change their
    sign after all become zero, and sweeps have another look. If more than `farthest` is expected here, nothing is solved.
    """
    size = len(covariance)
    for i in range(size):
        for j in range(size):
            room.inverse[i, j], room.total[i, j], room.product[i, j] = inverse[i, j], 0.0, 0.0
    pairs, model, gained = swept_model(covariance, penalty, precision, inverse, room)
    target = np.zeros((size, size))
    if gained > farthest:
        return target, gained, np.inf
    strong, residual = strong_entries(pairs, precision), np.empty(len(model.values), np.float32)
    here, there, goal = 0.0, 0.0, ENOUGH * tolerance
    for turn in range(ROUNDS):
        if turn > 0:
            sweep_again(pairs, model, room)
        set_gradient(covariance, inverse, pairs, model, room, residual)
        step, without, there = conjugate_step(pairs, strong, model, residual, room, goal)
        there += squares_beyond_zero(model, step)
        move_to_zero_at_most(model, step)
        if turn == 0:
            here = gained + without
        if there <= goal:
            break
    for i in range(size):
        for pair in range(pairs.starts[i], pairs.starts[i + 1]):
            target[i, pairs.columns[pair]] = target[pairs.columns[pair], i] = model.values[pair]
    return target, here, there
