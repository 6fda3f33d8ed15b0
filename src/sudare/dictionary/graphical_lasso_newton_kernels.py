"""Loops of the graphical lasso: its objective and dual, blocks of variables, and where a Newton step leads.

Pairs i ≤ j, W = Λ⁻¹, X and D = X − Λ are those of `graphical_lasso_pair_kernels`. `newton_target` is for any Λ and in double precision;
`settled_target` for a Λ near the solution, where hardly an entry changes its sign. There W and its products are in single
precision, which halves what is read from memory: a step needs to be right to some thousandths only, because the next one
starts from its exact gradient, and the line search and the duality gap, in double precision, judge where it leads.

X⁻¹ = W − WDW + WDWDW − …, of which quadratic models have the first two terms. `settled_target` takes the third as well. It is
small, so that it need not be exact: its middle W may be zero off the pairs. With it one inverse does for a step that else would
take two.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from sudare.array_types import Floats, Integers, Singles
from sudare.compiled_loops import compiled
from sudare.dictionary.graphical_lasso_pair_kernels import (
    Model,
    Pairs,
    conjugate_step,
    descent_sweep,
    free_model,
    full_matrix,
    pairs_and_rows,
    set_product,
    set_sandwich,
    squares_beyond_zero,
    strong_entries,
)

MOST_FACES: Final = 5
MOST_SWEEPS: Final = 50
SHORTEST: Final = 2.0**-12
SETTLED_SWEEPS: Final = 2
SETTLED_ROUNDS: Final = 2
# Conjugate steps end when the duality gap to expect is this share of what it was: then sweeps do more in the same time.
SHARE_LEFT: Final = 1e-3
# Or this share of the tolerance, because the gap is known to some per cent.
ENOUGH: Final = 0.8
# A pair whose gradient is this share of the penalty may come to exceed it.
NEARLY: Final = 0.99
# Weaker partial correlations hardly change the preconditioner, and most are weaker.
STRONG: Final = 0.03


@compiled()
def mirrored(matrix: Floats) -> Floats:
    """The symmetric matrix whose upper triangle is given; `matrix` is changed."""
    for i in range(len(matrix)):
        for j in range(i):
            matrix[i, j] = matrix[j, i]
    return matrix


@compiled()
def rescale(matrix: Floats, units: Floats, divide: bool) -> None:
    """Aᵢⱼ ← Aᵢⱼ·uᵢuⱼ, or divided by it, without a second matrix."""
    for i in range(len(matrix)):
        for j in range(len(matrix)):
            unit = units[i] * units[j]
            matrix[i, j] = matrix[i, j] / unit if divide else matrix[i, j] * unit


@compiled()
def component_labels(covariance: Floats, penalty: Floats) -> Integers:
    """A label for each variable; variables share one if a chain of pairs with |covariance| > penalty joins them."""
    size = len(covariance)
    labels, waiting = np.empty(size, np.int64), np.empty(size, np.int64)
    for variable in range(size):
        labels[variable] = -1
    label = 0
    for first in range(size):
        if labels[first] >= 0:
            continue
        labels[first], waiting[0], count = label, first, 1
        while count > 0:
            count -= 1
            here = waiting[count]
            for there in range(size):
                if labels[there] < 0 and abs(covariance[here, there]) > penalty[here, there]:
                    labels[there], waiting[count] = label, there
                    count += 1
        label += 1
    return labels


@compiled(reorder_sums=True)
def linear_and_penalty(covariance: Floats, penalty: Floats, precision: Floats) -> float:
    """tr(SΛ) + Σ ρᵢⱼ|Λᵢⱼ|; a zero costs nothing even where the penalty is infinite."""
    size = len(covariance)
    total = 0.0
    for i in range(size):
        for j in range(size):
            value = precision[i, j]
            if value != 0.0:
                total += covariance[i, j] * value + penalty[i, j] * abs(value)
    return total


@compiled(reorder_sums=True)
def slope_towards(covariance: Floats, penalty: Floats, inverse: Floats, precision: Floats, target: Floats) -> float:
    """What the first-order model promises for the whole step: ⟨S − W, X − Λ⟩ + Σ ρᵢⱼ(|Xᵢⱼ| − |Λᵢⱼ|)."""
    size = len(covariance)
    total = 0.0
    for i in range(size):
        for j in range(size):
            old, new = precision[i, j], target[i, j]
            if new != 0.0 or old != 0.0:
                total += (covariance[i, j] - inverse[i, j]) * (new - old)
                total += penalty[i, j] * (abs(new) - abs(old))
    return total


@compiled()
def dual_point(covariance: Floats, penalty: Floats, precision: Floats, inverse: Floats, by_signs: bool) -> Floats:
    """S + U with |Uᵢⱼ| ≤ ρᵢⱼ: U nearest to W − S, or, by signs, ρ·sign(Λ) where Λ is not zero."""
    size = len(covariance)
    dual = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            bound, excess = penalty[i, j], inverse[i, j] - covariance[i, j]
            if excess > bound or (by_signs and precision[i, j] > 0.0):
                excess = bound
            elif excess < -bound or (by_signs and precision[i, j] < 0.0):
                excess = -bound
            dual[i, j] = covariance[i, j] + excess
    return dual


@compiled(reorder_sums=True)
def model_value(pairs: Pairs, model: Model, bent: Floats, values: Floats) -> float:
    """⟨S − W, D⟩ + ½⟨D, WDW⟩ + Σ ρ|X| from the values at the pairs; `bent` is WDW."""
    total = 0.0
    for i in range(len(pairs.starts) - 1):
        for pair in range(pairs.starts[i], pairs.starts[i + 1]):
            part = (model.gradient[pair] + 0.5 * bent[pair]) * (values[pair] - model.old[pair])
            part += model.penalties[pair] * abs(values[pair])
            total += part if pair == pairs.starts[i] else 2.0 * part
    return total


@compiled()
def set_bent(pairs: Pairs, model: Model, values: Floats, inverse: Floats, product: Floats, bent: Floats) -> None:
    """product ← DW and bent ← WDW; `bent` holds D in between."""
    for pair in range(len(values)):
        bent[pair] = values[pair] - model.old[pair]
    set_product(pairs, bent, inverse, product, False)
    set_sandwich(pairs, product, inverse, bent)


@compiled()
def move_on_face(
    pairs: Pairs, model: Model, precision: Floats, inverse: Floats, product: Floats, enough: float
) -> tuple[float, bool]:
    """Moves X towards the minimum over its entries that are not zero; returns twice the gain, and whether it is there.

    Entries that would change their sign become zero; if that is no gain the move is halved, until it is one. `product` is DW.
    """
    values, count = model.values, len(model.values)
    bent, residual, there = np.empty(count), np.zeros(count), np.empty(count)
    set_sandwich(pairs, product, inverse, bent)
    here = model_value(pairs, model, bent, values)
    for pair in range(count):
        model.on_face[pair] = values[pair] != 0.0
        if model.on_face[pair]:
            sign = 1.0 if values[pair] > 0.0 else -1.0
            residual[pair] = -(model.gradient[pair] + bent[pair] + model.penalties[pair] * sign)
    every = strong_entries(pairs, precision, 0.0, inverse)
    step = conjugate_step(pairs, every, model, residual, inverse, product, enough, 0.0)[0]
    length = 1.0
    while length > SHORTEST:
        settled = length == 1.0
        for pair in range(count):
            there[pair] = values[pair] + length * step[pair]
            if there[pair] * values[pair] < 0.0 and model.penalties[pair] > 0.0:
                there[pair] = 0.0
                settled = False
        set_bent(pairs, model, there, inverse, product, bent)
        value = model_value(pairs, model, bent, there)
        if value < here:
            for pair in range(count):
                values[pair] = there[pair]
            return 2.0 * (here - value), settled
        length *= 0.5
    set_bent(pairs, model, values, inverse, product, bent)
    return 0.0, True


@compiled()
def newton_target(
    covariance: Floats, penalty: Floats, precision: Floats, inverse: Floats, accuracy: float, slow: float
) -> Floats:
    """Returns where the quadratic model at Λ with the penalty has its minimum over the free pairs.

    Sweeps of coordinate descent find which entries are zero and the signs of the others. When a sweep gains more than
    `slow` times what the last one did, there is much left, and the others are solved for together. `accuracy` compares
    what is left to gain with all that was gained.
    """
    starts, columns, values, gradient, penalties = free_model(covariance, penalty, precision, inverse, 1.0)
    pairs = pairs_and_rows(starts, columns)
    model = Model(values, gradient, penalties, values.copy(), np.empty(len(values), np.bool_))
    product, total = np.zeros(inverse.shape), 0.0
    for _ in range(MOST_FACES):
        before, rate = np.inf, 0.0
        for _ in range(MOST_SWEEPS):
            decrease = descent_sweep(pairs.starts, pairs.columns, gradient, penalties, inverse, values, product)
            total += decrease
            rate = decrease / before
            if decrease == 0.0 or rate > slow or 0.0 < rate * decrease <= (1.0 - rate) * accuracy * total:
                break
            before = decrease
        if rate <= slow:
            break
        gain, settled = move_on_face(pairs, model, precision, inverse, product, accuracy * total)
        total += gain
        if settled and gain <= accuracy * total:
            break
    return full_matrix(pairs, values)


class Room(NamedTuple):
    """Matrices in single precision: W, DW where the gradient was looked at, and two for other products with W."""

    inverse: Singles
    total: Singles
    product: Singles
    other: Singles


@compiled()
def swept_model(
    covariance: Floats, penalty: Floats, precision: Floats, inverse: Floats, room: Room
) -> tuple[Pairs, Model, float]:
    """Returns where sweeps of coordinate descent over the free pairs lead, and twice what they gain; room.product ← DW.

    The pairs are those with an X that is not zero, or was not.
    """
    starts, columns, values, gradient, penalties = free_model(covariance, penalty, precision, inverse, NEARLY)
    gained = 0.0
    for _ in range(SETTLED_SWEEPS):
        gained += descent_sweep(starts, columns, gradient, penalties, room.inverse, values, room.product)
    old, kept, pair = np.empty(len(values)), 0, 0
    for i in range(len(covariance)):
        end, starts[i] = starts[i + 1], kept
        while pair < end:
            j = columns[pair]
            if values[pair] != 0.0 or precision[i, j] != 0.0:
                columns[kept], values[kept], penalties[kept] = j, values[pair], penalties[pair]
                old[kept] = precision[i, j]
                kept += 1
            pair += 1
    starts[len(covariance)] = kept
    model = Model(values[:kept], gradient[:kept], penalties[:kept], old[:kept], np.empty(kept, np.bool_))
    return pairs_and_rows(starts, columns[:kept]), model, gained


@compiled()
def set_gradient(
    covariance: Floats, inverse: Floats, pairs: Pairs, model: Model, room: Room, middle: Singles, residual: Singles
) -> None:
    """gradient ← S − W + WDW − WDWDW, and residual ← what is missing on the face to balance the penalty.

    `middle` is the W in the middle, at the pairs only. room.product holds what was added to DW since the last look.
    """
    for i in range(len(covariance)):
        for j in range(len(covariance)):
            room.total[i, j] += room.product[i, j]
            room.product[i, j] = room.total[i, j]
    change = np.empty_like(residual)
    for pair in range(len(residual)):
        change[pair] = model.old[pair] - model.values[pair]
    set_product(pairs, middle, room.total, room.other, False)
    set_product(pairs, change, room.other, room.product, True)
    set_sandwich(pairs, room.product, room.inverse, residual)
    for i in range(len(covariance)):
        for pair in range(pairs.starts[i], pairs.starts[i + 1]):
            j, value = pairs.columns[pair], model.values[pair]
            model.gradient[pair] = covariance[i, j] - inverse[i, j] + residual[pair]
            pull = model.penalties[pair] if value > 0.0 else -model.penalties[pair]
            model.on_face[pair] = value != 0.0
            residual[pair] = -(model.gradient[pair] + pull) if value != 0.0 else 0.0


@compiled()
def move_to_zero_at_most(model: Model, step: Singles) -> None:
    """Moves X by the step, but no entry with a penalty beyond zero; the step becomes what X was moved by."""
    for pair in range(len(step)):
        before, there = model.values[pair], model.values[pair] + step[pair]
        if there * before < 0.0 and model.penalties[pair] > 0.0:
            there = 0.0
        model.values[pair], step[pair] = there, there - before


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
    """Returns where the model of third order at Λ with the penalty has its minimum, and the duality gaps to expect here and there.

    Sweeps settle the signs; then all entries that are not zero are solved for together. Those that would change their
    sign after all become zero, and sweeps have another look. If more than `farthest` is expected here, nothing is solved.
    """
    size = len(covariance)
    for i in range(size):
        for j in range(size):
            room.inverse[i, j], room.total[i, j], room.product[i, j] = inverse[i, j], 0.0, 0.0
    pairs, model, gained = swept_model(covariance, penalty, precision, inverse, room)
    if gained > farthest:
        return np.zeros((size, size)), gained, np.inf
    strong, count = strong_entries(pairs, precision, STRONG, room.inverse), len(model.values)
    residual, middle = np.empty(count, np.float32), np.empty(count, np.float32)
    for i in range(size):
        for pair in range(pairs.starts[i], pairs.starts[i + 1]):
            middle[pair] = inverse[i, pairs.columns[pair]]
    here, there, goal = 0.0, 0.0, ENOUGH * tolerance
    for turn in range(SETTLED_ROUNDS):
        set_gradient(covariance, inverse, pairs, model, room, middle, residual)
        step, without, there = conjugate_step(
            pairs, strong, model, residual, room.inverse, room.product, 2.0 * goal, SHARE_LEFT
        )
        there += squares_beyond_zero(model, step)
        move_to_zero_at_most(model, step)
        if turn == 0:
            here = gained + without
        if there <= goal or turn + 1 == SETTLED_ROUNDS:
            break
        set_product(pairs, step, room.inverse, room.product, False)
        for _ in range(SETTLED_SWEEPS):
            descent_sweep(
                pairs.starts, pairs.columns, model.gradient, model.penalties, room.inverse, model.values, room.product
            )
    return full_matrix(pairs, model.values), here, there
