"""Loops of the graphical lasso: penalised sums, and where a Newton step leads.

Symmetric matrices over few entries are kept as values at *pairs* i ≤ j, row by row: `starts[i]` is where row i begins in
`columns`, and its first pair is the diagonal. W is Λ⁻¹, X is where the step leads, and D = X − Λ. Expressions over whole
arrays are spelled out as loops, which take a tenth of the time to compile.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.compiled_loops import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Places = NDArray[np.int64] | NDArray[np.uint32]
Reals = NDArray[np.float64] | NDArray[np.float32]

MOST_FACES: Final = 5
MOST_SWEEPS: Final = 50
MOST_CONJUGATE_STEPS: Final = 100
SHORTEST: Final = 2.0**-12


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


@compiled(reorder_sums=True)
def set_product(starts: Integers, columns: Integers, values: Floats, dense: Floats, product: Floats) -> None:
    """product ← A · dense, for the symmetric A with these values at the pairs."""
    size = len(dense)
    for i in range(size):
        for k in range(size):
            product[i, k] = 0.0
    for i in range(size):
        for pair in range(starts[i], starts[i + 1]):
            j, value = columns[pair], values[pair]
            if value == 0.0:
                continue
            for k in range(size):
                product[i, k] += value * dense[j, k]
            if i != j:
                for k in range(size):
                    product[j, k] += value * dense[i, k]


@compiled(reorder_sums=True)
def set_sandwich(starts: Integers, columns: Integers, product: Floats, dense: Floats, values: Floats) -> None:
    """values ← the entries of dense · product at the pairs."""
    size = len(dense)
    column = np.empty(size)
    for i in range(size):
        for k in range(size):
            column[k] = product[k, i]
        for pair in range(starts[i], starts[i + 1]):
            j, total = columns[pair], 0.0
            for k in range(size):
                total += column[k] * dense[j, k]
            values[pair] = total


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
    starts: Places,
    columns: Places,
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


@compiled(reorder_sums=True)
def preconditioned(
    starts: Integers,
    columns: Integers,
    weights: Floats,
    on_face: NDArray[np.bool_],
    residual: Floats,
    precision: Floats,
    product: Floats,
    better: Floats,
) -> float:
    """better ← ΛRΛ on the face, and ⟨R, ΛRΛ⟩: never less than twice what is left to gain on the face."""
    set_product(starts, columns, residual, precision, product)
    set_sandwich(starts, columns, product, precision, better)
    total = 0.0
    for pair in range(len(better)):
        if on_face[pair]:
            total += weights[pair] * residual[pair] * better[pair]
        else:
            better[pair] = 0.0
    return total


@compiled(reorder_sums=True)
def face_step(
    starts: Integers,
    columns: Integers,
    weights: Floats,
    on_face: NDArray[np.bool_],
    residual: Floats,
    precision: Floats,
    inverse: Floats,
    enough: float,
) -> Floats:
    """The D on the face with WDW = residual there, by conjugate gradients that ΛRΛ preconditions; `residual` is changed.

    Where coordinate descent is slow, because variables nearly determine each other, this is not: on a full face ΛRΛ is
    the solution.
    """
    count = len(residual)
    product = np.empty(inverse.shape)
    step, bent, better, direction = np.zeros(count), np.empty(count), np.empty(count), np.zeros(count)
    left = preconditioned(starts, columns, weights, on_face, residual, precision, product, better)
    before = np.inf
    for _ in range(MOST_CONJUGATE_STEPS):
        if not left > enough:
            break
        for pair in range(count):
            direction[pair] = better[pair] + left / before * direction[pair]
        set_product(starts, columns, direction, inverse, product)
        set_sandwich(starts, columns, product, inverse, bent)
        curvature = 0.0
        for pair in range(count):
            curvature += weights[pair] * direction[pair] * bent[pair]
        for pair in range(count):
            step[pair] += left / curvature * direction[pair]
            if on_face[pair]:
                residual[pair] -= left / curvature * bent[pair]
        before = left
        left = preconditioned(starts, columns, weights, on_face, residual, precision, product, better)
    return step


@compiled(reorder_sums=True)
def model_value(weights: Floats, gradient: Floats, penalty: Floats, old: Floats, bent: Floats, values: Floats) -> float:
    """⟨S − W, D⟩ + ½⟨D, WDW⟩ + Σ ρ|X| from the values at the pairs; `bent` is WDW."""
    total = 0.0
    for pair in range(len(values)):
        part = (gradient[pair] + 0.5 * bent[pair]) * (values[pair] - old[pair])
        total += weights[pair] * (part + penalty[pair] * abs(values[pair]))
    return total


@compiled()
def set_bent(
    starts: Integers, columns: Integers, old: Floats, values: Floats, inverse: Floats, product: Floats, bent: Floats
) -> None:
    """product ← DW and bent ← WDW; `bent` holds D in between."""
    for pair in range(len(values)):
        bent[pair] = values[pair] - old[pair]
    set_product(starts, columns, bent, inverse, product)
    set_sandwich(starts, columns, product, inverse, bent)


@compiled()
def move_on_face(
    starts: Integers,
    columns: Integers,
    weights: Floats,
    gradient: Floats,
    penalty: Floats,
    precision: Floats,
    inverse: Floats,
    old: Floats,
    values: Floats,
    product: Floats,
    enough: float,
) -> tuple[float, bool]:
    """Moves X towards the minimum over its entries that are not zero; returns twice the gain, and whether it is there.

    Entries that would change their sign become zero; if that is no gain the move is halved, until it is one.
    """
    count = len(values)
    bent, residual, there, on_face = np.empty(count), np.zeros(count), np.empty(count), np.empty(count, np.bool_)
    set_sandwich(starts, columns, product, inverse, bent)
    here = model_value(weights, gradient, penalty, old, bent, values)
    for pair in range(count):
        on_face[pair] = values[pair] != 0.0
        if on_face[pair]:
            sign = 1.0 if values[pair] > 0.0 else -1.0
            residual[pair] = -(gradient[pair] + bent[pair] + penalty[pair] * sign)
    step = face_step(starts, columns, weights, on_face, residual, precision, inverse, enough)
    length = 1.0
    while length > SHORTEST:
        settled = length == 1.0
        for pair in range(count):
            there[pair] = values[pair] + length * step[pair]
            if there[pair] * values[pair] < 0.0 and penalty[pair] > 0.0:
                there[pair] = 0.0
                settled = False
        set_bent(starts, columns, old, there, inverse, product, bent)
        value = model_value(weights, gradient, penalty, old, bent, there)
        if value < here:
            for pair in range(count):
                values[pair] = there[pair]
            return 2.0 * (here - value), settled
        length *= 0.5
    set_bent(starts, columns, old, values, inverse, product, bent)
    return 0.0, True


@compiled()
def newton_target(
    covariance: Floats, penalty: Floats, precision: Floats, inverse: Floats, accuracy: float, slow: float
) -> Floats:
    """Where the quadratic model at Λ with the penalty has its minimum over the free pairs.

    Sweeps of coordinate descent find which entries are zero and the signs of the others. When a sweep gains more than
    `slow` times what the last one did, there is much left, and the others are solved for together. `accuracy` compares
    what is left to gain with all that was gained.
    """
    starts, columns = free_pairs(covariance, penalty, precision, inverse, 1.0)
    count, size = len(columns), len(covariance)
    old, values, gradient = np.empty(count), np.empty(count), np.empty(count)
    penalties, weights = np.empty(count), np.empty(count)
    for i in range(size):
        for pair in range(starts[i], starts[i + 1]):
            j = columns[pair]
            old[pair], values[pair], penalties[pair] = precision[i, j], precision[i, j], penalty[i, j]
            gradient[pair], weights[pair] = covariance[i, j] - inverse[i, j], 1.0 if i == j else 2.0
    product, total = np.zeros((size, size)), 0.0
    for _ in range(MOST_FACES):
        before, rate = np.inf, 0.0
        for _ in range(MOST_SWEEPS):
            decrease = descent_sweep(starts, columns, gradient, penalties, inverse, values, product)
            total += decrease
            rate = decrease / before
            if decrease == 0.0 or rate > slow or 0.0 < rate * decrease <= (1.0 - rate) * accuracy * total:
                break
            before = decrease
        if rate <= slow:
            break
        gain, settled = move_on_face(
            starts, columns, weights, gradient, penalties, precision, inverse, old, values, product, accuracy * total
        )
        total += gain
        if settled and gain <= accuracy * total:
            break
    target = np.zeros((size, size))
    for i in range(size):
        for pair in range(starts[i], starts[i + 1]):
            target[i, columns[pair]] = target[columns[pair], i] = values[pair]
    return target
