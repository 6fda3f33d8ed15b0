"""What members agree on before they train a network together, and the network that comes of it. What trains it (`network_training`) is imported only when it is planned or trained."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sudare.array_types import Floats
from sudare.dictionary.distributed_noise import check_colluders
from sudare.errors import InvalidParameter, SchemaError
from sudare.neural.training_method_base import VACUOUS_EPSILON, check_inputs, check_widths, parameters_in
from sudare.privacy.declared_columns import promise, rows_per_unit
from sudare.privacy.guarantee import Guarantee, checked_delta, checked_epsilon, readable_up
from sudare.schema import Encoding, Schema, encode

if TYPE_CHECKING:
    from sudare.joint.network_training import SharedDpSgd

# Every member sends as many numbers in each step.
MOST_PARAMETERS: Final = 2**24


@dataclass(frozen=True)
class NetworkReading:
    """Encoded rows, and last one column a class: 1 for the row's own, else 0."""

    schema: Schema
    encoding: Encoding

    @functools.cached_property
    def features(self) -> Schema:
        """The columns that the network sees."""
        return Schema(dict(self.schema.features))

    def matrix(self, part: Any, labels: Any) -> Floats:
        """Rows with their targets."""
        places = np.asarray(self.schema.encode_target(part))
        targets = (places[:, np.newaxis] == np.arange(len(self.schema.classes))).astype(np.float64)
        return np.column_stack([encode(self.features, part, self.encoding).matrix, targets])

    def finished(self, matrix: Floats) -> Floats:
        """Returns the rows as they are: gradients are bounded, whatever the rows."""
        return matrix


@dataclass(frozen=True)
class NetworkTerms:
    """What members agree on before they train a network together. All of it is public.

    `colluders` is t, the members whose share of the noise is not counted on. Other parameters are those of `PrivateMLPClassifier`.
    """

    schema: Schema
    epsilon: float
    delta: float
    members: int
    colluders: int = 1
    hidden_layer_sizes: tuple[int, ...] = (64, 64)
    encoding: Encoding = "binned"

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        check_colluders(self.members, self.colluders)
        check_widths(self.hidden_layer_sizes)
        if checked_delta(self.delta) == 0:
            raise InvalidParameter("Training a network together needs delta > 0.", "Use for example delta=1e-6.")
        if self.schema.label is None:
            raise SchemaError("The schema declares no label to learn.", "Declare one.")
        if rows_per_unit(self.schema) > 1:
            raise InvalidParameter(
                "Networks protect records, and the schema declares persons with several rows.",
                "Use an additive or a linear model.",
            )
        if self.epsilon > VACUOUS_EPSILON:
            raise InvalidParameter(
                f"To a record this promises ε = {readable_up(self.epsilon)}, which is next to nothing.",
                "Use a smaller epsilon.",
            )
        check_inputs(self.reading.features, self.encoding)
        if parameters_in(self.sizes) > MOST_PARAMETERS:
            raise InvalidParameter("The network has more than 2²⁴ weights and biases.", "Use fewer or narrower layers.")

    @functools.cached_property
    def reading(self) -> NetworkReading:
        """Encoded rows with targets."""
        return NetworkReading(self.schema, self.encoding)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths of the layers, inputs first."""
        inputs = len(self.reading.features.names(self.encoding))
        return (inputs, *self.hidden_layer_sizes, len(self.schema.classes))

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to a record."""
        return promise(self.epsilon, self.delta, "replace-one", self.schema)

    def plan(self, rows: int) -> SharedDpSgd:
        """The noise of all sums over so many rows, and what it costs."""
        from sudare.joint.network_training import planned

        return planned(self, rows)


@dataclass(frozen=True, eq=False)
class LearnedNetwork:
    """A network of everybody's rows, the same at every member: weights and biases layer by layer, on `grid`."""

    reading: NetworkReading
    parameters: Floats
    rows: int
    noise_scale: float
    grid: float
