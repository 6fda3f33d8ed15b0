"""The three approaches of paper 002 as they were meant: noise before learning, after it, or in every update.

Noise on every parameter of its own ("parameter-based ε") is what `LearningFirst` and `AnonymizedLearning` are built on. A record
moves all d parameters at once, so what it gets is d times as much. Both numbers are given; the promise is the record's.
Proof: proofs/neural_approaches.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np

from sudare.errors import InvalidParameter
from sudare.neural.training_methods import Facts, Layers, Route, Singles, flattened, layered, parameters_in
from sudare.neural.training_settings import Clipping, Course
from sudare.papers.p002_networks.anonymizing_first import AnonymizingFirst
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

Approach = Literal["anonymizing_first", "learning_first", "anonymized_learning"]
APPROACHES: Final[tuple[Approach, ...]] = ("anonymizing_first", "learning_first", "anonymized_learning")

# Parameters averaged over noisy updates are rounded to this share of their limit.
_GRID_BITS: Final = 20
# Beyond this μ the Gaussian composition is no better than the plain sum, and slow to compute.
_LARGEST_MU: Final = 100.0
ANONYMIZED_LIMIT: Final = 8.0
# Far within what 32-bit floats hold, so that no interval of an update overflows or vanishes.
_LARGEST_THRESHOLD: Final = 2.0**60


@dataclass(frozen=True)
class _Habit:
    """What is used where nothing else is said: found on a part of Adult's training rows (docs/neural.md)."""

    batch_rows: int
    threshold: float
    rate: float


_HABITS: Final[dict[Clipping, _Habit]] = {"example": _Habit(512, 0.05, 0.3), "batch": _Habit(50, 0.3, 0.001)}


def planned(approach: str, facts: Facts, epsilon: float, delta: float, **options: Any) -> Route:
    """The route of that name. `epsilon` is a record's for "anonymizing_first", and one parameter's for the other two."""
    if approach not in APPROACHES:
        raise InvalidParameter(
            f"approach must be one of {', '.join(APPROACHES)}, got {approach!r}.", "Use one of these words."
        )
    routes: dict[str, Any] = {
        "anonymizing_first": AnonymizingFirst,
        "learning_first": LearningFirst,
        "anonymized_learning": AnonymizedLearning,
    }
    chosen = routes[approach]
    known = set(chosen.__dataclass_fields__) - {"facts", "epsilon", "delta", "parameter_epsilon", "record_delta"}
    if unknown := set(options) - known:
        raise InvalidParameter(
            f"{approach} has no option {', '.join(sorted(unknown))}.", f"There are: {', '.join(sorted(known))}."
        )
    route: Route = chosen(facts, epsilon, delta, **options)
    return route


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

    @property
    def parameter_guarantee(self) -> Guarantee:
        """The paper's notion: what is said of one parameter, where all others are given."""
        return Guarantee(self.parameter_epsilon, neighbours=self.facts.neighbours, notion="parameter")


@dataclass(frozen=True)
class LearningFirst(_OnParameters):
    """dε-DP for d parameters within ±limit, any two tables: Laplace noise once, after learning. Proof: proofs/neural_approaches.md.

    Each parameter gets noise for its whole range, 2·limit, and is clipped to it again.
    """

    limit: float = 0.125
    epochs: int = 10
    batch_rows: int = 256
    rate: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.course
        limit: Any = self.limit
        if not (
            isinstance(limit, int | float) and 0 < limit <= 2.0**10 and power_of_two_below(self.limit) == self.limit
        ):
            raise InvalidParameter(
                f"limit must be a power of two of at most 1024, got {self.limit!r}.", "Use for example 0.125."
            )

    @property
    def course(self) -> Course:
        """How the network is learned before the noise."""
        return Course(self.epochs, self.batch_rows, self.rate)

    @property
    def mechanism(self) -> Laplace:
        """The noise: the parameters of any two tables differ by 2·limit each at most, so by 2·limit·d in all."""
        d = self.parameters
        total = rounded_up(2 * Fraction(self.limit) * d)
        return Laplace(total, decimal_up(exact(self.parameter_epsilon) * d), dimension=d)

    @property
    def noise_scale(self) -> float:
        """Scale of the Laplace law of every parameter: 2·limit/ε and a grid step."""
        return self.mechanism.noise_scale

    @property
    def grid(self) -> float:
        """That of the noise."""
        return self.mechanism.grid

    @property
    def exact_noise(self) -> bool:
        """OpenDP's discrete Laplace law."""
        return True

    def fitted(self, rows: Singles, targets: Singles, source: NoiseSource) -> Layers:
        """Learned within the limit, then noised, then clipped."""
        from sudare.papers.p002_networks.ordinary_training import ordinarily_learned

        sizes = self.facts.sizes
        layers = ordinarily_learned(rows, targets, sizes, self.facts.loss, self.course, source, self.limit)
        # Whatever learning did: the noise rests on the limit, and no error may tell that something went wrong.
        within = np.clip(np.nan_to_num(flattened(layers), nan=0.0), -self.limit, self.limit)
        noisy = self.mechanism.apply(within, source)
        return layered(np.clip(noisy, -self.limit, self.limit), sizes)


@dataclass(frozen=True)
class AnonymizedLearning(_OnParameters):
    """dε-DP for d parameters, replace-one: Laplace noise on every parameter's part of every update. Proof: proofs/neural_approaches.md.

    Rows are dealt out to batches once; each of the E epochs reads every row in one batch, at ε/E a parameter. The noise
    covers the width of an interval for each parameter: the threshold, or less where eqs 18–26 leave less room. `clipping` is
    "example" (each row's gradient) or "batch" (their sum, as printed).
    """

    epochs: int = 1
    batch_rows: int | None = None
    threshold: float | None = None
    rate: float | None = None
    momentum: float = 0.9
    clipping: Clipping = "example"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.facts.neighbours != "replace-one":
            raise InvalidParameter(
                "anonymized_learning promises something to replaced records only: its batches have a public size.",
                "Use neighbours='replace-one', or approach='gradient'.",
            )
        if self.clipping not in _HABITS:
            raise InvalidParameter(f"clipping must be 'example' or 'batch', got {self.clipping!r}.", "Use 'example'.")
        threshold: Any = self.entry_threshold
        if not isinstance(threshold, int | float) or not 1 / _LARGEST_THRESHOLD <= threshold <= _LARGEST_THRESHOLD:
            raise InvalidParameter(
                f"threshold must be positive and from 2⁻⁶⁰ to 2⁶⁰, got {self.threshold!r}.", "Use for example 0.05."
            )
        _ = self.course

    @property
    def course(self) -> Course:
        """Epochs, batches and rate, by a public rule where they are not given."""
        habit = _HABITS[self.clipping]
        rows = habit.batch_rows if self.batch_rows is None else self.batch_rows
        course = Course(self.epochs, rows, habit.rate if self.rate is None else self.rate, self.momentum)
        if self.rate is None and self.clipping == "example":
            return replace(course, rate=habit.rate * min(1.0, math.sqrt(self.parameter_epsilon / self.epochs)))
        return course

    @property
    def entry_threshold(self) -> float:
        """What an entry of a row's gradient, or of a batch's, is clipped to."""
        return _HABITS[self.clipping].threshold if self.threshold is None else self.threshold

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

    @property
    def grid(self) -> float:
        """A fine share of the limit."""
        return ANONYMIZED_LIMIT * 2.0**-_GRID_BITS

    @property
    def exact_noise(self) -> bool:
        """The discrete Laplace law on whole numbers of levels."""
        return True

    def fitted(self, rows: Singles, targets: Singles, source: NoiseSource) -> Layers:
        """The running average of the parameters after all updates."""
        from sudare.papers.p002_networks.anonymized_learning import descended_with_noise

        facts = self.facts
        return descended_with_noise(
            rows,
            targets,
            facts.sizes,
            facts.loss,
            self.course,
            self.entry_threshold,
            self.noise_factor,
            self.clipping,
            facts.declared.bounds(facts.encoding),
            ANONYMIZED_LIMIT,
            source,
        )
