"""Plans of fits: a mechanism and what it promises, known before there are records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from sudare.array_types import Floats
from sudare.privacy.accounting import Cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import NoiseSource


class Calibrated(Protocol):
    """A way of computing that keeps a promise, known before there are records."""

    @property
    def cost(self) -> Cost:
        """What using it costs."""

    @property
    def noise_scale(self) -> float:
        """How much noise it adds, in the units of the values."""


class Mechanism(Calibrated, Protocol):
    """Noise on values, calibrated to a promise (sudare.privacy.mechanisms)."""

    def apply(self, values: Floats, source: NoiseSource) -> Floats:
        """Values with noise."""


Way_co = TypeVar("Way_co", bound=Calibrated, covariant=True)


@dataclass(frozen=True)
class Plan(Generic[Way_co]):
    """What a fit will do, known from shape and parameters alone."""

    mechanism: Way_co
    guarantee: Guarantee
