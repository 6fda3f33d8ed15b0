"""Two approaches of paper 002 as they were meant: noise on every parameter after learning, or in every update.

Noise on every parameter of its own ("parameter-based ε") is what both are built on. A record moves all d parameters at once, so what
it gets is d times as much, and that is the promise. LearningFirst also says what holds for one parameter. Proof: proofs/neural_approaches.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal

import numpy as np

from sudare.array_types import Singles
from sudare.errors import InvalidParameter
from sudare.neural.training_method_base import Facts, Layers, flattened, layered, parameters_in
from sudare.parameter_checks import Numbers
from sudare.privacy.accounting import (
    Cost,
    decimal_up,
    exact,
    gaussian_epsilon,
    mu_of_pure,
    pure_cost,
    rounded_up,
    rounded_up_root,
)
from sudare.privacy.guarantee import Guarantee, checked_delta, checked_epsilon
from sudare.privacy.mechanisms import Laplace, power_of_two_below
from sudare.privacy.noise import NoiseSource

Clipping = Literal["example", "batch"]
DescentName = Literal["averaged", "printed"]

# Beyond this μ the Gaussian composition is no better than the plain sum, and slow to compute.
_LARGEST_MU: Final = 100.0
# Far within what 32-bit floats hold, so that no interval of an update overflows or vanishes.
_THRESHOLDS: Final = Numbers(2.0**-60, 2.0**60)
_SGD_RANGES: Final = {
    "epochs": Numbers(1, 2**31, whole=True),
    "batch_size": Numbers(1, 2**31, whole=True),
    # Far within what 32-bit floats hold.
    "learning_rate": Numbers(0, 1e30, open_low=True),
    "momentum": Numbers(0, 1, open_high=True),
    "regularization": Numbers(0, 1e30),
}


@dataclass(frozen=True)
class SgdSettings:
    """Public numbers of learning in batches: passes over the rows, rows a batch, learning rate, momentum, λ, and how it descends.

    "averaged": momentum, a rate that falls to zero, a running average of the parameters. "printed": eqs 5 and 6 of the paper, with a constant
    rate and λ, without momentum, in batches that stay the same; the last parameters are the result.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    momentum: float = 0.9
    regularization: float = 0.0
    descent: DescentName = "averaged"

    def __post_init__(self) -> None:
        for name, numbers in _SGD_RANGES.items():
            numbers.check(name, getattr(self, name))
        if self.descent not in ("averaged", "printed"):
            raise InvalidParameter(f"descent must be 'averaged' or 'printed', got {self.descent!r}.", "Use 'averaged'.")
        if self.regularization and self.descent != "printed":
            raise InvalidParameter(
                "regularization is λ of the printed descent.", "Give descent='printed', or leave regularization out."
            )
        # Whole numbers beyond 64 bits are numbers too, but not to JAX.
        object.__setattr__(self, "learning_rate", float(self.learning_rate))


# Section 5-1 of the paper, as options of the approaches and of their estimators. Beside it: four hidden layers, of widths that are not given.
PRINTED: Final[Mapping[str, Any]] = {
    "epochs": 500,
    "batch_size": 50,
    "learning_rate": 0.01,
    "regularization": 0.001,
    "descent": "printed",
}

# What AnonymizedLearning takes where nothing else is said: found on a part of Adult's training rows (docs/neural.md).
_BATCH_SIZES: Final[dict[Clipping, int]] = {"example": 512, "batch": 50}
_LEARNING_RATES: Final[dict[Clipping, float]] = {"example": 0.3, "batch": 0.001}
_ENTRY_THRESHOLDS: Final[dict[Clipping, float]] = {"example": 0.05, "batch": 0.3}


def record_cost(parameter_epsilon: float, parameters: int, updates: int, delta: float) -> Cost:
    """What a record pays where each of d parameters gets noise worth ε in all, in so many updates that read the record.

    dε without a δ. With one, d·updates mechanisms of ε/updates compose as Gaussian ones, and the smaller of both counts.
    """
    epsilon = decimal_up(exact(checked_epsilon(parameter_epsilon)) * parameters)
    if checked_delta(delta) == 0:
        return pure_cost(epsilon)
    single = mu_of_pure(exact(parameter_epsilon) / updates)
    mu = rounded_up_root(Fraction(single) ** 2 * parameters * updates)
    if mu > _LARGEST_MU:
        return pure_cost(epsilon)
    # A little less than δ, so that the rounding of ε's decimal text is covered.
    composed = math.nextafter(gaussian_epsilon(mu, delta * (1 - 1e-9)), math.inf)
    return pure_cost(epsilon) if composed >= epsilon else Cost(exact(composed), exact(delta), mu)


@dataclass(frozen=True)
class _OnParameters:
    """What approaches with noise on parameters have in common."""

    facts: Facts
    parameter_epsilon: float
    record_delta: float = 0.0

    def __post_init__(self) -> None:
        checked_epsilon(self.parameter_epsilon)
        checked_delta(self.record_delta)

    @property
    def parameters(self) -> int:
        """d."""
        return parameters_in(self.facts.sizes)

    @property
    def updates(self) -> int:
        """How often the noise of a parameter is drawn for what one record had a part in."""
        return 1

    @property
    def cost(self) -> Cost:
        """A record's: any record, any relation, because the noise of a parameter covers all that it could be."""
        return record_cost(self.parameter_epsilon, self.parameters, self.updates, self.record_delta)

    @property
    def epsilon(self) -> float:
        """ε of a record."""
        return decimal_up(self.cost.epsilon)

    @property
    def delta(self) -> float:
        """δ of a record: zero where the plain sum is the better bound."""
        return decimal_up(self.cost.delta)


@dataclass(frozen=True)
class LearningFirst(_OnParameters):
    """dε-DP for d parameters within ±limit, any two tables: Laplace noise once, after learning. Proof: proofs/neural_approaches.md.

    Each parameter gets noise for its whole range, 2·limit, and is clipped to it again.
    """

    limit: float = 0.125
    epochs: int = 10
    batch_size: int = 256
    learning_rate: float = 0.1
    regularization: float = 0.0
    descent: DescentName = "averaged"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.sgd
        limit: Any = self.limit
        if not (
            isinstance(limit, int | float) and 0 < limit <= 2.0**10 and power_of_two_below(self.limit) == self.limit
        ):
            raise InvalidParameter(
                f"limit must be a power of two of at most 1024, got {self.limit!r}.", "Use for example 0.125."
            )

    @property
    def sgd(self) -> SgdSettings:
        """How the network is learned before the noise."""
        return SgdSettings(
            self.epochs,
            self.batch_size,
            self.learning_rate,
            regularization=self.regularization,
            descent=self.descent,
        )

    @property
    def mechanism(self) -> Laplace:
        """The noise: the parameters of any two tables differ by 2·limit each at most, so by 2·limit·d in all."""
        d = self.parameters
        total = rounded_up(2 * Fraction(self.limit) * d)
        return Laplace(total, decimal_up(exact(self.parameter_epsilon) * d), dimension=d)

    @property
    def parameter_guarantee(self) -> Guarantee:
        """The paper's notion: what is said of one parameter, where all others are given (Theorem 3)."""
        return Guarantee(self.parameter_epsilon, neighbours=self.facts.neighbours, notion="parameter")

    @property
    def noise_scale(self) -> float:
        """Scale of the Laplace law of every parameter: 2·limit/ε and a grid step."""
        return self.mechanism.noise_scale

    @property
    def grid(self) -> float:
        """That of the noise."""
        return self.mechanism.grid

    def fitted(self, rows: Singles, targets: Singles, source: NoiseSource) -> Layers:
        """Learned within the limit, then noised, then clipped."""
        from sudare.papers.p002_networks.ordinary_training import trained_without_privacy

        facts = self.facts
        layers = trained_without_privacy(rows, targets, facts.sizes, facts.loss, self.sgd, source, self.limit)
        return self.noised(layers, source)

    def noised(self, layers: Layers, source: NoiseSource) -> Layers:
        """min(w_max, max(w_min, w + noise)) for every parameter (section 4-2 (2)), whatever learning made of them."""
        # The noise rests on the limit, and no error may tell that something went wrong.
        within = np.clip(np.nan_to_num(flattened(layers), nan=0.0), -self.limit, self.limit)
        noisy = self.mechanism.apply(within, source)
        return layered(np.clip(noisy, -self.limit, self.limit), self.facts.sizes)


@dataclass(frozen=True)
class AnonymizedLearning(_OnParameters):
    """dε-DP for d parameters, replace-one: Laplace noise on every parameter's part of every update. Proof: proofs/neural_approaches.md.

    Rows are dealt out to batches once; each of the E epochs reads every row in one batch, at ε/E a parameter. The noise
    covers the width of an interval for each parameter: the threshold, or less where eqs 18–26 leave less room. `clipping` is
    "example" (each row's gradient) or "batch" (their sum, as printed).
    """

    epochs: int = 1
    batch_size: int | None = None
    threshold: float | None = None
    learning_rate: float | None = None
    momentum: float = 0.9
    clipping: Clipping = "example"
    regularization: float = 0.0
    descent: DescentName = "averaged"

    # Theorem 4 does not follow: a parameter's updates are ε-DP given all parameters before each, its value after them is not.
    parameter_guarantee: ClassVar[Guarantee | None] = None
    # No parameter leaves ±limit.
    limit: ClassVar[float] = 8.0
    # A fine share of the limit.
    grid: ClassVar[float] = limit * 2.0**-20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.facts.neighbours != "replace-one":
            raise InvalidParameter(
                "AnonymizedLearning promises something to replaced records only: its batches have a public size.",
                "Use neighbours='replace-one', or sudare.neural.",
            )
        if self.clipping not in _ENTRY_THRESHOLDS:
            raise InvalidParameter(f"clipping must be 'example' or 'batch', got {self.clipping!r}.", "Use 'example'.")
        _THRESHOLDS.check("threshold", self.entry_threshold)
        _ = self.sgd

    @property
    def sgd(self) -> SgdSettings:
        """Epochs, batches and learning rate, by a public rule where they are not given."""
        is_printed = self.descent == "printed"
        usual_rows = PRINTED["batch_size"] if is_printed else _BATCH_SIZES[self.clipping]
        usual_rate = PRINTED["learning_rate"] if is_printed else _LEARNING_RATES[self.clipping]
        rows = usual_rows if self.batch_size is None else self.batch_size
        rate = usual_rate if self.learning_rate is None else self.learning_rate
        given = SgdSettings(self.epochs, rows, rate, self.momentum, self.regularization, self.descent)
        if self.learning_rate is None and self.clipping == "example" and not is_printed:
            return replace(given, learning_rate=rate * min(1.0, math.sqrt(self.parameter_epsilon / self.epochs)))
        return given

    @property
    def entry_threshold(self) -> float:
        """What an entry of a row's gradient, or of a batch's, is clipped to."""
        return _ENTRY_THRESHOLDS[self.clipping] if self.threshold is None else self.threshold

    @property
    def updates(self) -> int:
        """A record is read once an epoch."""
        return self.epochs

    @property
    def noise_factor(self) -> Fraction:
        """Noise scale over the width of an interval: E/ε, as printed."""
        return self.epochs / exact(self.parameter_epsilon)

    @property
    def noise_scale(self) -> float:
        """Of an entry of an update, where only the threshold bounds it."""
        return rounded_up(2 * Fraction(self.entry_threshold) * self.noise_factor)

    def fitted(self, rows: Singles, targets: Singles, source: NoiseSource) -> Layers:
        """The running average of the parameters after all updates."""
        from sudare.papers.p002_networks.anonymized_learning import trained_with_noisy_updates

        return trained_with_noisy_updates(self, rows, targets, source)
