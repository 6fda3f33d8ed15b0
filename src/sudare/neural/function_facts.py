"""What DP-SGD needs to know of a function that it trains: traced from shapes, before a row is seen. Needs JAX."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from sudare.errors import InvalidParameter
from sudare.neural.parameter_trees import Tree
from sudare.neural.per_row_clipping import LARGEST_PARAMETER, LARGEST_VALUE, Blocks, rounding_margin
from sudare.neural.row_gradients import RowGradients, RowsNotSeparable, shape_of
from sudare.neural.seeded_randomness import Places, RunSeed
from sudare.privacy.guarantee import Neighbours
from sudare.schema import Schema

# The most of the clip that may be left for rounding: sums of squares of very large arrays are not exact enough.
_LARGEST_MARGIN: Final = 0.125
_ROWS_STEP: Final = 64
_MOST_ROWS_AT_ONCE: Final = 8192
# Numbers that a physical batch may take, about: 256 MiB.
_NUMBERS_AT_ONCE: Final = 2**26


@dataclass(frozen=True)
class Target:
    """What rows are to be predicted as: one of so many classes, or numbers of a shape."""

    classes: int
    shape: tuple[int, ...] = ()

    def read(self, numbers: jax.Array) -> jax.Array:
        """One row's target as a loss takes it."""
        return numbers[0].astype(jnp.int32) if self.classes else numbers.reshape(self.shape)


def cross_entropy(output: jax.Array, code: jax.Array) -> jax.Array:
    """Returns the cross-entropy of the softmax of one row's outputs, one a class."""
    return -jax.nn.log_softmax(output)[code]


def half_squared_distance(output: jax.Array, target: jax.Array) -> jax.Array:
    """Between one row's outputs and its target."""
    return 0.5 * jnp.sum((output.reshape(target.shape) - target) ** 2)


LOSSES: Final[dict[str, Callable[..., jax.Array]]] = {
    "cross_entropy": cross_entropy,
    "squared": half_squared_distance,
}


@dataclass(frozen=True)
class FunctionFacts:
    """Public facts of a run that trains a function: its rows and relation, its tree, and how gradients of rows are made."""

    rows: int
    neighbours: Neighbours
    declared: Schema
    tree: Tree
    gradients: RowGradients
    told: dict[str, Any]

    @classmethod
    def traced(
        cls,
        apply: Callable[..., Any],
        loss: Callable[..., Any] | str,
        tree: Tree,
        input_shape: tuple[int, ...],
        target: Target,
        **known: Any,
    ) -> FunctionFacts:
        """From shapes alone. Raise InvalidParameter where outputs do not fit the loss, or where rows could meet."""
        row_loss = LOSSES[loss] if isinstance(loss, str) else loss
        places = [place for place, leaf in enumerate(tree.leaves) if leaf.trained]
        others = [place for place, leaf in enumerate(tree.leaves) if not leaf.trained]

        def loss_of_row(trained: Any, frozen: Any, row: jax.Array, wanted: jax.Array) -> jax.Array:
            held = dict(zip([*places, *others], [*trained, *frozen], strict=True))
            params = jax.tree.unflatten(tree.structure, [held[place] for place in range(len(held))])
            output = jax.tree.map(_only_row, apply(params, row.reshape(1, *input_shape)))
            if loss == "cross_entropy":
                _check_outputs(output, (target.classes,))
            elif loss == "squared":
                _check_outputs(output, target.shape)
            value = jnp.asarray(row_loss(output, target.read(wanted)))
            if value.shape != ():
                raise InvalidParameter("loss must give one number for one row.", "Sum over the outputs of a row.")
            return value

        trained, frozen = map(_shapes, (tree.part(trained=True), tree.part(trained=False)))
        row = shape_of((math.prod(input_shape),), np.float32)
        wanted = shape_of((max(1, math.prod(target.shape)),), np.float32)
        try:
            gradients = RowGradients.traced(loss_of_row, trained, frozen, row, wanted)
        except RowsNotSeparable as met:
            raise InvalidParameter(
                f"apply or loss uses {met}: rows may meet in it, or leave by it.",
                "Leave out callbacks, prints and batching rules of your own.",
            ) from None
        told = {"input_shape": list(input_shape), "classes": target.classes, "target_shape": list(target.shape)}
        return cls(tree=tree, gradients=gradients, told=told, **known)

    @property
    def parameters(self) -> int:
        """How many numbers are trained."""
        return sum(leaf.size for leaf in self.tree.leaves if leaf.trained)

    @property
    def margin(self) -> float:
        """The share of the clip that rounding takes, but for whole numbers, which depend on the noise."""
        blocks = self._row_shapes()
        return float(rounding_margin(max(block.widest for block in blocks), len(blocks), self.parameters, 0.0))

    @property
    def largest_physical_batch(self) -> int:
        """Rows that are treated at once: as many as fit into a fixed memory, about, and no more than 8,192."""
        numbers = self.gradients.numbers_a_row + sum(leaf.size for leaf in jax.tree.leaves(self._row_shapes()))
        fit = _ROWS_STEP * (_NUMBERS_AT_ONCE // numbers // _ROWS_STEP)
        return int(max(_ROWS_STEP, min(_MOST_ROWS_AT_ONCE, fit)))

    def check(self) -> None:
        """Raise InvalidParameter unless the start is within the limit of parameters, inputs within theirs, and sums exact enough."""
        if not all(np.all(np.abs(values) <= LARGEST_PARAMETER) for values in self.tree.part(trained=True)):
            raise InvalidParameter(
                "params holds a number beyond ±1024, or one that is undefined.", "Start from finite, smaller numbers."
            )
        if self.margin > _LARGEST_MARGIN:
            raise InvalidParameter(
                "An array of params is too large for exact norms of its gradients in 32-bit floats.",
                "Use it in a product with a vector of each row, cut it into several, or leave it untrained.",
            )

    def described(self) -> dict[str, Any]:
        """What decides what is trained: the tree, its numbers at the start, the function as it was traced, and the columns."""
        # Addresses of functions are other ones in another process.
        text = re.sub(r"0x[0-9a-f]+", "", str(self.gradients.jaxpr))
        constants = hashlib.sha256(b"\0".join(np.asarray(value).tobytes() for value in self.gradients.jaxpr.consts))
        return {
            **self.told,
            "tree": [leaf.written() for leaf in self.tree.leaves],
            "start": self.tree.digest(trained=True),
            "frozen": self.tree.digest(trained=False),
            "function": hashlib.sha256(text.encode()).hexdigest(),
            "constants": constants.hexdigest(),
            "columns": self.declared.digest,
        }

    def trainable(self) -> FunctionTrainable:
        """What DP-SGD trains."""
        return FunctionTrainable(self.gradients, self.tree)

    def _row_shapes(self) -> Blocks:
        """The blocks of one row, as shapes."""
        blocks: Blocks = self.gradients.shapes_of_one()
        return blocks


class FunctionTrainable:
    """A function whose trained arrays start from given ones; the others go into the compiled function as they are."""

    def __init__(self, gradients: RowGradients, tree: Tree) -> None:
        self._start = tuple(jax.device_put(np.asarray(values, np.float32)) for values in tree.part(trained=True))
        self._frozen = tuple(jnp.asarray(values) for values in tree.part(trained=False))

        self._blocks = gradients.compiled()

    def start(self, seed: RunSeed) -> tuple[jax.Array, ...]:
        """The arrays that were given."""
        return self._start

    def row_parts(self, parameters: Any, rows: jax.Array, targets: jax.Array, chosen: Places) -> Blocks:
        """A block for every trained array."""
        return self._blocks(parameters, self._frozen, *_chosen(rows, targets, chosen))


@jax.jit
def _chosen(rows: jax.Array, targets: jax.Array, chosen: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Declared inputs are never beyond 2³⁰; whatever is, and what is undefined, counts as zero."""
    x = rows[chosen]
    return jnp.where(jnp.abs(x) <= LARGEST_VALUE, x, 0.0), targets[chosen]


def _shapes(values: tuple[Any, ...]) -> list[jax.ShapeDtypeStruct]:
    return [shape_of(np.shape(value), jnp.asarray(value).dtype) for value in values]


def _only_row(output: Any) -> Any:
    if np.ndim(output) == 0 or output.shape[0] != 1:
        raise InvalidParameter(
            "apply must give one row of outputs for each row of inputs.", "Return arrays whose first axis is the rows."
        )
    return output[0]


def _check_outputs(output: Any, shape: tuple[int, ...]) -> None:
    if np.shape(output) != shape and not (math.prod(shape) == np.size(output) == 1):
        raise InvalidParameter(
            f"apply gives outputs of shape {np.shape(output)} for a row; the loss needs {shape}.",
            "Let the last layer have one output a class, or one a number of the target.",
        )
