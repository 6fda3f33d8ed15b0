"""What the gradients of single rows are made of, for any loss of one row that is written in JAX.

The loss is traced for one row and mapped over rows by JAX: so no row can see another one, whatever the function does with a batch.
Each array of trained parameters becomes a block (`per_row_clipping.py`). Where the trace shows that an array is used once,

- in a product with a vector of the row, the block is `OuterProductBlock`: inputs of the product and slopes at its result, and no gradient is formed;
- as the kernel of a convolution, it is `FormedBlock` as one product of patches and slopes a row, which is far faster than what a mapped gradient
  is compiled to (a convolution with as many groups as rows).

On a processor a few rows are treated at a time, in one compiled function that is called again and again.

All other arrays (biases, scales, kernels of attention, whatever is used twice) have their gradients formed by JAX. That the blocks are those of
the true gradient is needed for learning, not for privacy: norms and sums are of the same numbers (proofs/dp_sgd.md).
Needs JAX and numpy only.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from sudare.neural.per_row_clipping import LARGEST_VALUE, Array, Block, Blocks, FormedBlock, Layout, OuterProductBlock

# (trained arrays, other arrays, one row, its target): the row's loss.
RowLoss = Callable[[Sequence[Array], Sequence[Array], Array, Array], Array]

# Calls whose inside is looked at as if it stood in the place of the call.
_CALLS: Final = ("pjit", "jit", "closed_call", "core_call")
# What could tell one row of another, or something to somebody, though it is mapped over rows.
_REFUSED: Final = ("custom_vmap_call", "pure_callback", "io_callback", "debug_callback", "debug_print", "outside_call")
_LARGEST_WINDOW: Final = 16
# Windows beside so many channels: their slopes are compared channel by channel at once.
_FEWEST_CHANNELS: Final = 16
# Kernels of so few inputs are multiplied with patches: convolutions of few channels are slow.
_FEW_INPUTS: Final = 64
# Numbers of a forward pass that stay in a processor's caches, about (8 MiB); more are fresh memory at every step, which takes longer than the arithmetic.
_NUMBERS_IN_CACHES: Final = 2**21
_FEWEST_ROWS_AT_ONCE: Final = 8
_VIEWS: Final = ("reshape", "squeeze", "expand_dims", "transpose", "copy", "copy_p")


def shape_of(shape: Sequence[int], dtype: Any) -> jax.ShapeDtypeStruct:
    """A shape with a type, for tracing."""
    made: jax.ShapeDtypeStruct = jax.ShapeDtypeStruct(tuple(shape), dtype)  # type: ignore[no-untyped-call]
    return made


class RowsNotSeparable(Exception):
    """A function does what mapping over rows does not keep apart."""


@dataclass(frozen=True)
class _View:
    """A trained array, perhaps in another shape; `undo` leads from the shape back to the array's."""

    leaf: int
    value: Any
    undo: Layout = ()


@dataclass(frozen=True)
class Use:
    """The one use of a trained array that a block is made of: the product's result is `tapped`, and `block` is of operand and slope of one row.

    `operand` and `slope` say how both are arranged for the block. Where `product` is given, it makes the result from the operand and the array.
    """

    tapped: jax.ShapeDtypeStruct
    operand: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    block: Callable[[Array, Array], Block]
    product: Callable[[Array, Array], Array] | None = None


@dataclass
class _Walk:
    """One evaluation of a trace. Without `uses` it finds them; with them it adds `taps` to the results of these products and keeps their operands."""

    uses: dict[int, Use] | None = None
    taps: dict[int, Array] = field(default_factory=dict)
    found: dict[int, list[Use | None]] = field(default_factory=dict)
    operands: dict[int, Array] = field(default_factory=dict)

    def evaluated(self, jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        """The outputs of a trace."""
        held: dict[Any, Any] = {}
        held.update(zip(jaxpr.constvars, constants, strict=True))
        held.update(zip(jaxpr.invars, arguments, strict=True))
        for equation in jaxpr.eqns:
            values = [var.val if isinstance(var, core.Literal) else held[var] for var in equation.invars]
            if equation.primitive.name in _CALLS:
                inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
                results = self.evaluated(inner.jaxpr, inner.consts, values)
            else:
                results = self._result(equation, values)
            held.update(zip(equation.outvars, results, strict=True))
        return [var.val if isinstance(var, core.Literal) else held[var] for var in jaxpr.outvars]

    def _result(self, equation: Any, values: list[Any]) -> list[Any]:
        views = [value for value in values if isinstance(value, _View)]
        use = self.uses.get(views[0].leaf) if len(views) == 1 and self.uses is not None else None
        if use is not None and equation.primitive.name not in _VIEWS:
            return [self._tapped(use, views[0], equation, values)]
        results = _applied(equation, [_plain(value) for value in values])
        if not views:
            return results
        view = views[0]
        if len(views) == 1 and equation.primitive.name in _VIEWS:
            return [_View(view.leaf, results[0], (*_undone(equation, view.value), *view.undo))]
        if self.uses is None:
            found = _use(equation, values, results[0]) if len(views) == 1 else None
            for each in views:
                self.found.setdefault(each.leaf, []).append(found)
        return results

    def _tapped(self, use: Use, view: _View, equation: Any, values: list[Any]) -> Any:
        """The result of the product that a block is made of, with its tap; keeps the operand."""
        operand = use.operand(values[1] if values[0] is view else values[0])
        self.operands[view.leaf] = operand
        if use.product is not None:
            return use.product(operand, view.value) + self.taps[view.leaf]
        return _applied(equation, [_plain(value) for value in values])[0] + self.taps[view.leaf]


@dataclass(frozen=True)
class RowGradients:
    """The blocks of a loss: how they are made was found when the loss was traced."""

    jaxpr: Any
    uses: dict[int, Use]
    arrays: int

    @classmethod
    def traced(
        cls, loss: RowLoss, trained: Sequence[Any], frozen: Sequence[Any], row: Any, target: Any
    ) -> RowGradients:
        """From the shapes of everything. Raise RowsNotSeparable where the function does what mapping over rows does not keep apart."""
        closed = jax.make_jaxpr(loss)(list(trained), list(frozen), row, target)
        if met := sorted(_names(closed.jaxpr).intersection(_REFUSED)):
            raise RowsNotSeparable(", ".join(met))
        walk = _Walk()

        def seen(*given: Array) -> Any:
            leaves = [_View(place, value) for place, value in enumerate(given[: len(trained)])]
            return _plain(walk.evaluated(closed.jaxpr, closed.consts, [*leaves, *given[len(trained) :]])[0])

        jax.eval_shape(seen, *trained, *frozen, row, target)
        uses = {leaf: found[0] for leaf, found in walk.found.items() if len(found) == 1 and found[0] is not None}
        return cls(closed, uses, len(trained))

    @property
    def numbers_a_row(self) -> int:
        """The numbers that one row's forward pass makes, about."""
        return sum(math.prod(var.aval.shape) for equation in self.jaxpr.jaxpr.eqns for var in equation.outvars)

    def shapes_of_one(self) -> Blocks:
        """The blocks of one row, as shapes."""
        given = [shape_of(aval.shape, aval.dtype) for aval in self.jaxpr.in_avals]
        trained, frozen = given[: self.arrays], given[self.arrays : -2]
        parts = jax.eval_shape(self._parts_of_one, trained, frozen, *given[-2:])
        blocks: Blocks = jax.eval_shape(self._blocks_of_one, parts)
        return blocks

    def rows_at_once(self, rows: int) -> int:
        """Of so many rows, those that a processor treats together: all, or with convolutions as many as fit into the caches, in turns that are alike."""
        if "conv_general_dilated" not in _names(self.jaxpr.jaxpr):
            return rows
        weights = sum(math.prod(aval.shape) for aval in self.jaxpr.in_avals[:-2])
        # Every turn reads all arrays, so it makes no less than they are.
        fit: int = max(_NUMBERS_IN_CACHES, weights) // max(1, self.numbers_a_row)
        turns = -(-rows // max(_FEWEST_ROWS_AT_ONCE, fit))
        return -(-rows // max(1, turns))

    def compiled(self) -> Callable[..., Blocks]:
        """A function of (trained arrays, other arrays, rows, targets): what the gradients of all rows are made of, a block for every trained array.

        It forms products after all patches, because a compiler that sees both together arranges the patches for the product, slowly.
        """
        parts, formed = jax.vmap(self._parts_of_one, (None, None, 0, 0)), jax.vmap(self._blocks_of_one)
        if jax.default_backend() != "cpu":
            first, second = jax.jit(parts), jax.jit(formed)
            return lambda trained, frozen, rows, targets: second(first(list(trained), list(frozen), rows, targets))

        @jax.jit
        def blocks_of_turn(*given: Any) -> Any:
            return formed(lax.optimization_barrier(parts(*given)))  # type: ignore[no-untyped-call]

        def blocks(trained: Sequence[Array], frozen: Sequence[Array], rows: Array, targets: Array) -> Blocks:
            size = self.rows_at_once(len(rows))
            pieces = [(rows, targets)] if size == len(rows) else _turns((rows, targets), size)
            made: list[Blocks] = [blocks_of_turn(list(trained), list(frozen), *piece) for piece in pieces]
            return made[0] if len(made) == 1 else _joined(made, len(rows))

        return blocks

    def _parts_of_one(self, trained: list[Array], frozen: list[Array], row: Array, target: Array) -> dict[int, Any]:
        """Of every trained array of one row: the operand and slope of its product, or its gradient."""
        formed = {leaf: trained[leaf] for leaf in range(self.arrays) if leaf not in self.uses}
        taps = {leaf: jnp.zeros(use.tapped.shape, use.tapped.dtype) for leaf, use in self.uses.items()}

        def loss(formed: dict[int, Array], taps: dict[int, Array]) -> tuple[Array, dict[int, Array]]:
            walk = _Walk(self.uses, taps)
            leaves = [_View(leaf, formed.get(leaf, trained[leaf])) for leaf in range(self.arrays)]
            outputs = walk.evaluated(self.jaxpr.jaxpr, self.jaxpr.consts, [*leaves, *frozen, row, target])
            return _plain(outputs[0]), walk.operands

        (gradients, slopes), operands = jax.grad(loss, (0, 1), has_aux=True)(formed, taps)
        products = {leaf: (operands[leaf], use.slope(slopes[leaf])) for leaf, use in self.uses.items()}
        return {**gradients, **products}

    def _blocks_of_one(self, parts: dict[int, Any]) -> Blocks:
        def block(leaf: int) -> Block:
            if leaf in self.uses:
                return self.uses[leaf].block(*parts[leaf])
            return FormedBlock(_finite(parts[leaf]).ravel(), (("reshape", tuple(parts[leaf].shape)),))

        return tuple(map(block, range(self.arrays)))


@functools.partial(jax.jit, static_argnames="size")
def _turns(given: Any, size: int) -> list[Any]:
    """Arrays of rows as pieces of so many rows, the last one with rows of zeros after it."""
    rows = len(jax.tree.leaves(given)[0])

    def piece(values: Array, start: int) -> Array:
        part = values[start : start + size]
        return jnp.pad(part, ((0, size - len(part)), *[(0, 0)] * (part.ndim - 1)))

    return [jax.tree.map(functools.partial(piece, start=start), given) for start in range(0, rows, size)]


@functools.partial(jax.jit, static_argnames="rows")
def _joined(made: list[Blocks], rows: int) -> Blocks:
    """The blocks of all turns as one, as they are, without the rows of zeros."""
    joined: Blocks = jax.tree.map(lambda *parts: jnp.concatenate(parts)[:rows], *made)
    return joined


def _finite(values: Array) -> Array:
    """In 32-bit floats; what is undefined, or larger than a pass over a network should make it, counts as zero."""
    return jnp.where(jnp.abs(values) <= LARGEST_VALUE, values, 0.0).astype(jnp.float32)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, _View) else value


def _names(jaxpr: Any) -> set[str]:
    """The names of all primitives of a trace, inner ones included."""
    inner = [_names(part) for equation in jaxpr.eqns for part in core.jaxprs_in_params(equation.params)]
    return {equation.primitive.name for equation in jaxpr.eqns}.union(*inner)


def _applied(equation: Any, values: list[Any]) -> list[Any]:
    """The results of one primitive."""
    if equation.primitive.name == "reduce_window_max" and _is_pooling(equation.params, values[0].shape):
        return [_pooled(values[0], tuple(equation.params["window_dimensions"]))]
    parameters, functions = equation.primitive.get_bind_params(equation.params), ()
    if isinstance(parameters, tuple):
        # Before JAX 0.9 functions came beside the parameters.
        functions, parameters = parameters
    with equation.ctx.manager:
        results = equation.primitive.bind(*functions, *values, **parameters)
    return list(results) if equation.primitive.multiple_results else [results]


def _is_pooling(given: Any, shape: Sequence[int]) -> bool:
    """Whether the windows of a maximum are small and within the shape, beside each other and without padding."""
    window = given["window_dimensions"]
    return (
        all(side <= size for side, size in zip(window, shape, strict=True))
        and tuple(window) == tuple(given["window_strides"])
        and math.prod(window) <= _LARGEST_WINDOW
        and all(ends == (0, 0) for ends in map(tuple, given["padding"]))
        and all(step == 1 for step in (*given["base_dilation"], *given["window_dilation"]))
    )


def _pooled(values: Any, window: tuple[int, ...]) -> Any:
    """The largest of each window, as a maximum of slices: its gradient is compiled to far faster code than that of a window on a processor."""
    channels = values.shape[-1] if window[-1] == 1 else 1
    if channels >= _FEWEST_CHANNELS and jnp.issubdtype(values.dtype, jnp.floating) and jax.default_backend() == "cpu":
        return _largest(values, window)
    return functools.reduce(lambda first, second: jnp.where(first >= second, first, second), _slices(values, window))


def _slices(values: Any, window: Sequence[int]) -> list[Any]:
    """For every place in a window, what stands there in all windows."""
    ends = _whole_windows(values.shape, window)
    return [lax.slice(values, corner, ends, window) for corner in itertools.product(*map(range, window))]


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _largest(values: Any, window: tuple[int, ...]) -> Any:
    """The same, with a gradient that is faster for many channels: the place of the largest is kept."""
    return _largest_and_kept(values, window)[0]


def _largest_and_kept(values: Any, window: tuple[int, ...]) -> tuple[Any, Any]:
    """The largest of each window, and for its slope which of the window's places is the first to hold it."""
    slices = _slices(values, window)
    largest, place = slices[0], jnp.zeros(slices[0].shape, jnp.int32)
    for number, value in enumerate(slices[1:], start=1):
        stays = largest >= value
        largest, place = jnp.where(stays, largest, value), jnp.where(stays, place, number)
    return largest, (place, values.shape)


def _whole_windows(shape: Sequence[int], window: Sequence[int]) -> list[int]:
    """Where the last whole window ends."""
    return [size // side * side for size, side in zip(shape, window, strict=True)]


def _slope_of_largest(window: tuple[int, ...], kept: Any, slope: Any) -> tuple[Any]:
    """The slope of each window at its largest value, and zero at all others: a comparison for each value, and nothing is scattered."""
    place, shape = kept
    ends = _whole_windows(shape, window)
    # Each axis as two: the window, and the place in it.
    apart = [part for end, side in zip(ends, window, strict=True) for part in (end // side, side)]
    number = jnp.zeros(apart, jnp.int32)
    for axis, side in enumerate(window):
        number = number * side + lax.broadcasted_iota(jnp.int32, apart, 2 * axis + 1)
    spread = functools.partial(lax.broadcast_in_dim, shape=apart, broadcast_dimensions=range(0, len(apart), 2))
    slopes = jnp.where(spread(place) == number, spread(slope), 0).reshape(ends)
    return (jnp.pad(slopes, [(0, size - end) for size, end in zip(shape, ends, strict=True)]),)


_largest.defvjp(_largest_and_kept, _slope_of_largest)


def _undone(equation: Any, before: Any) -> Layout:
    if equation.primitive.name == "transpose":
        return (("transpose", tuple(int(place) for place in np.argsort(equation.params["permutation"]))),)
    return (("reshape", tuple(before.shape)),)


def _use(equation: Any, values: list[Any], result: Any) -> Use | None:
    """What a product with a trained array is for its block; None where the gradient is to be formed by JAX."""
    place = 0 if isinstance(values[0], _View) else 1
    if equation.primitive.name == "dot_general":
        return _vector_product(equation, place, values, result)
    if equation.primitive.name == "conv_general_dilated" and place == 1:
        return _convolution(equation, values, result)
    return None


def _vector_product(equation: Any, place: int, values: list[Any], result: Any) -> Use | None:
    contracted, batched = equation.params["dimension_numbers"]
    view, other = values[place], values[1 - place]
    of_view, of_other = contracted[place], contracted[1 - place]
    shape = view.value.shape
    inputs = math.prod(shape[axis] for axis in of_view)
    if any(map(len, batched)) or math.prod(other.shape) != inputs:
        return None
    free = [axis for axis in range(len(shape)) if axis not in of_view]
    order = [*of_view, *free]
    layout: Layout = (
        ("reshape", tuple(shape[axis] for axis in order)),
        ("transpose", tuple(int(axis) for axis in np.argsort(order))),
        *view.undo,
    )
    rest = [axis for axis in range(other.ndim) if axis not in of_other]

    return Use(
        shape_of(result.shape, result.dtype),
        lambda operand: operand.transpose(*of_other, *rest).ravel(),
        jnp.ravel,
        lambda operand, slope: OuterProductBlock(_finite(operand), _finite(slope), layout),
    )


def _convolution(equation: Any, values: list[Any], result: Any) -> Use | None:
    given, view = equation.params, values[1]
    if given["feature_group_count"] != 1 or given["batch_group_count"] != 1 or 0 in result.shape:
        return None
    of_image, of_kernel, of_result = given["dimension_numbers"]
    if values[0].shape[of_image[0]] != 1:
        return None
    outputs, channels, *sides = (view.value.shape[axis] for axis in of_kernel)
    # The axes (sides of the kernel, channels, outputs): these are their places in the kernel.
    order = [*of_kernel[2:], of_kernel[1], of_kernel[0]]
    inputs = channels * math.prod(sides)
    # Products are faster with the much longer one of inputs and outputs last.
    outputs_first = 2 * outputs <= inputs
    axes = [of_kernel[0], *order[:-1]] if outputs_first else order
    layout: Layout = (
        ("reshape", tuple(view.value.shape[axis] for axis in axes)),
        ("transpose", tuple(int(axis) for axis in np.argsort(axes))),
        *view.undo,
    )
    sizes = [result.shape[axis] for axis in of_result[2:]]

    def patches(image: Array) -> Array:
        last = image.transpose(of_image[0], *of_image[2:], of_image[1])[0]
        spread = [
            (low, high, step - 1) for (low, high), step in zip(given["padding"], given["lhs_dilation"], strict=True)
        ]
        padded = lax.pad(last, jnp.zeros((), last.dtype), [*spread, (0, 0, 0)])
        steps = (range(0, side * step, step) for side, step in zip(sides, given["rhs_dilation"], strict=True))
        corners = itertools.product(*steps)
        return jnp.concatenate(
            [_strided(padded, corner, sizes, given["window_strides"], channels) for corner in corners], axis=1
        )

    def product(seen: Array, kernel: Array) -> Array:
        values = seen @ kernel.transpose(order).reshape(-1, outputs)
        places = [of_result[0], *of_result[2:], of_result[1]]
        return values.reshape(1, *sizes, outputs).transpose(tuple(int(axis) for axis in np.argsort(places)))

    def block(seen: Array, slope: Array) -> Block:
        # What is undefined in either is so in the gradient.
        seen, slope = seen.astype(jnp.float32), slope.astype(jnp.float32)
        return FormedBlock(
            _finite(jnp.einsum("pi,po->oi" if outputs_first else "pi,po->io", seen, slope)).ravel(), layout
        )

    return Use(
        shape_of(result.shape, result.dtype),
        patches,
        lambda slope: slope.transpose(of_result[0], *of_result[2:], of_result[1])[0].reshape(-1, outputs),
        block,
        product if inputs <= _FEW_INPUTS else None,
    )


def _strided(
    padded: Array, corner: Sequence[int], sizes: Sequence[int], strides: Sequence[int], channels: int
) -> Array:
    """What one place of the kernel sees, [places of the result, channels]."""
    ends = [first + (size - 1) * step + 1 for first, size, step in zip(corner, sizes, strides, strict=True)]
    return lax.slice(padded, (*corner, 0), (*ends, channels), (*strides, 1)).reshape(-1, channels)
