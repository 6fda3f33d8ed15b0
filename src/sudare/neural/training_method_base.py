"""What every way of training a private network has in common: public facts in, a price before any row is seen, layers out."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import numpy as np

from sudare.array_types import Floats, Singles
from sudare.errors import ExtraMissing, InvalidParameter, SchemaError
from sudare.parameter_checks import Numbers
from sudare.privacy.accounting import Cost
from sudare.privacy.guarantee import Guarantee, Neighbours
from sudare.privacy.noise import NoiseSource
from sudare.schema import Encoding, Schema

Layers = tuple[tuple[Floats, Floats], ...]
LossName = Literal["cross_entropy", "squared"]

# Entries of encoded rows are not beyond this: then no norm of a gradient and no interval overflows (proofs/dp_sgd.md).
LARGEST_INPUT: Final = 2.0**30

# Above this ε a guarantee to a record says next to nothing: a reader who was undecided can be sure to nine digits.
VACUOUS_EPSILON: Final = 20.0

_MOST_LAYERS: Final = 20
_WIDTHS: Final = Numbers(1, 2**16, whole=True)


@dataclass(frozen=True)
class Facts:
    """What everybody may know of a fit.

    `rows` is the number of rows where it is public, else the number that was declared. `sizes` are the widths of the layers,
    inputs first. `declared` has the feature columns; `target` the classes, or the bounds of a number.
    """

    rows: int
    sizes: tuple[int, ...]
    loss: LossName
    neighbours: Neighbours
    declared: Schema
    encoding: Encoding
    target: tuple[Any, ...]

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return parameters_in(self.sizes)

    def check(self) -> None:
        """Raise SchemaError unless all that declared columns can be encoded as is within ±2³⁰."""
        check_inputs(self.declared, self.encoding)

    def described(self) -> dict[str, Any]:
        """What decides the network, for the digest of a checkpoint."""
        return {
            "sizes": list(self.sizes),
            "loss": self.loss,
            "columns": self.declared.digest,
            "encoding": self.encoding,
            "target": [str(value) for value in self.target],
        }

    def trainable(self) -> Any:
        """What DP-SGD trains; needs JAX."""
        from sudare.neural.training import FullyConnected

        return FullyConnected(self.sizes, self.loss)


class RunFacts(Protocol):
    """What DP-SGD needs to know of what it trains, before it sees a row; `Facts` are those of a fully connected network."""

    @property
    def rows(self) -> int:
        """The number of rows where it is public, else the number that was declared."""

    @property
    def neighbours(self) -> Neighbours:
        """The relation of the promise."""

    @property
    def parameters(self) -> int:
        """How many numbers are trained."""

    def check(self) -> None:
        """Raise unless a run can be made of this."""

    def described(self) -> dict[str, Any]:
        """What decides what is trained, as plain values."""

    def trainable(self) -> Any:
        """A `sudare.neural.training.Trainable`; needs JAX."""


class TrainingMethod(Protocol):
    """A way of training a private network. ε and δ are those of a record, in the relation of the facts."""

    @property
    def epsilon(self) -> float:
        """ε of a record."""

    @property
    def delta(self) -> float:
        """δ of a record."""

    @property
    def cost(self) -> Cost:
        """What using it costs: these ε and δ, or more that is known."""

    @property
    def noise_scale(self) -> float:
        """How much noise a parameter gets, roughly; public."""

    @property
    def grid(self) -> float:
        """The power of two of which released parameters are multiples."""

    @property
    def parameter_guarantee(self) -> Guarantee | None:
        """What is promised to one parameter; None where there is nothing beside the promise to records."""

    def fitted(self, rows: Singles, targets: Singles, source: NoiseSource) -> Layers:
        """Layers of weights [inputs, outputs] and biases, from encoded rows and targets (one-hot, or scaled to [−1, 1])."""


def flattened(arrays: Any) -> Floats:
    """All parameters of arrays in a tuple, or tuples of such, in one vector: of layers each one's weights, row by row, and then its biases."""
    if isinstance(arrays, tuple | list):
        return np.concatenate([flattened(part) for part in arrays])
    return np.ravel(arrays).astype(np.float64)


def layered(flat: Floats, sizes: Sequence[int]) -> Layers:
    """The layers that `flattened` made into one vector."""
    layers, start = [], 0
    for inputs, width in itertools.pairwise(sizes):
        middle, end = start + inputs * width, start + (inputs + 1) * width
        layers.append((flat[start:middle].reshape(inputs, width), flat[middle:end]))
        start = end
    return tuple(layers)


def layer_outputs(layers: Layers, rows: Floats) -> Floats:
    """The last layer's values: a release is used with numpy alone."""
    for weights, bias in layers[:-1]:
        rows = np.maximum(rows @ weights + bias, 0.0)
    weights, bias = layers[-1]
    return np.asarray(rows @ weights + bias)


def parameters_in(sizes: Sequence[int]) -> int:
    """d: weights and biases of layers of these widths, inputs first."""
    return sum((inputs + 1) * width for inputs, width in itertools.pairwise(sizes))


def check_inputs(declared: Schema, encoding: Encoding) -> None:
    """Raise SchemaError unless all that declared columns can be encoded as is within ±2³⁰."""
    for name, block in zip(declared.features, declared.blocks(encoding), strict=True):
        if not all(abs(end) <= LARGEST_INPUT for end in (*block.low, *block.high)):
            raise SchemaError(
                f"Column {name!r} is encoded as numbers beyond 2³⁰, too large for a network.",
                'Declare a scale of the order of its range, or use encoding="scaled" or "binned".',
            )


def check_widths(sizes: Sequence[int]) -> None:
    """Raise InvalidParameter unless these are widths of hidden layers: a list of whole numbers, not too many."""
    is_list = isinstance(sizes, Sequence) and not isinstance(sizes, str) and len(sizes) <= _MOST_LAYERS
    if not is_list or not all(map(_WIDTHS.holds, sizes)):
        raise InvalidParameter(
            "hidden_layer_sizes must list the widths of the hidden layers.", "Use for example (64, 64)."
        )


def require_jax() -> None:
    """Raise ExtraMissing unless networks can be trained here."""
    if importlib.util.find_spec("jax") is None:
        raise ExtraMissing("Training a network needs the package jax.", "Install it: pip install 'sudare[neural]'")
