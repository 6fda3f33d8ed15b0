"""Audits of synthetic tables: released counts, drawn again and again for two tables that differ in one row.

Their law is noise on known vectors in stages, each of which depends on the noisy results of those before. With these
given, the privacy loss of a stage is at most the distance of its two vectors in units of the noise: `Replay` reads both off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Literal, cast

import numpy as np
import pandas as pd

from sudare.array_types import Floats, Integers
from sudare.audit.claimed_and_measured_epsilon import AuditedMechanism, NamedAudit
from sudare.privacy.discrete_exponential_mechanism import drawn
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import NoiseSource, SystemNoise, WholeNoise
from sudare.schema import Category, Label, Number, Schema
from sudare.synthesis.marginals import STAGES as MARGINAL_STAGES
from sudare.synthesis.marginals import MarginalEngine
from sudare.synthesis.microaggregation import STAGES as MICROAGGREGATION_STAGES
from sudare.synthesis.microaggregation import MicroaggregationEngine
from sudare.synthesis.staged_budget import StagedNoise
from sudare.synthesis.table_cells import CodedRows, Layout, coded_rows

Engine = MarginalEngine | MicroaggregationEngine

_SAMPLES: Final = 2_000


@dataclass(frozen=True)
class NoisyQuestion:
    """What one stage asked of the noise: whole numbers, the scale, and the answer it was given.

    A choice asks with losses, and its scale is 1/rate.
    """

    law: Literal["laplace", "gaussian", "choice"]
    values: Integers
    scale: float | Fraction
    answer: Integers


@dataclass
class Replay:
    """Noise that writes down what it is asked; with the answers of another table it gives those again."""

    source: WholeNoise
    answers: list[Integers] | None = None
    asked: list[NoisyQuestion] = field(default_factory=list)

    def laplace(self, values: Integers, scale: float) -> Integers:
        """Noted, and answered."""
        return self._answer("laplace", values, scale)

    def gaussian(self, values: Integers, scale: float) -> Integers:
        """Noted, and answered."""
        return self._answer("gaussian", values, scale)

    def choice(self, losses: Sequence[int], rate: Fraction) -> int:
        """Noted, and answered."""
        if self.answers is None:
            least = min(losses)
            answer = np.array([drawn([rate * (loss - least) for loss in losses], cast("NoiseSource", self.source))])
        else:
            answer = self._replayed(1)
        self.asked.append(NoisyQuestion("choice", np.array(losses), 1 / rate, answer.copy()))
        return int(answer[0])

    def _answer(self, law: Literal["laplace", "gaussian"], values: Integers, scale: float) -> Integers:
        if self.answers is None:
            answer = self.source.laplace(values, scale) if law == "laplace" else self.source.gaussian(values, scale)
        else:
            answer = self._replayed(len(values))
        self.asked.append(NoisyQuestion(law, values.copy(), scale, answer.copy()))
        return answer

    def _replayed(self, size: int) -> Integers:
        """The answer of the other table at this place; zeros where that was to another question, which `are_comparable` then tells."""
        given = self.answers or []
        place = len(self.asked)
        fits = place < len(given) and len(given[place]) == size
        return given[place] if fits else np.zeros(size, dtype=np.int64)


def pure_loss(first: list[NoisyQuestion], second: list[NoisyQuestion]) -> Fraction | float:
    """The largest privacy loss of Laplace stages and choices with the same answers, exactly; infinite where the questions differ in kind."""
    if not are_comparable(first, second):
        return math.inf
    return sum((_loss(a, b) for a, b in zip(first, second, strict=True)), Fraction(0))


def _loss(first: NoisyQuestion, second: NoisyQuestion) -> Fraction:
    moved = first.values - second.values
    if first.law == "choice":
        return choice_range(first, second)
    return int(np.abs(moved).sum()) / Fraction(first.scale)


def choice_range(first: NoisyQuestion, second: NoisyQuestion) -> Fraction:
    """Between which values, so far apart at most, the privacy loss of a choice lies (proofs/synthesis.md)."""
    moved = first.values - second.values
    return (int(moved.max()) - int(moved.min())) / Fraction(first.scale)


def are_comparable(first: list[NoisyQuestion], second: list[NoisyQuestion]) -> bool:
    """Whether two tables were asked about as many numbers, with the same noise: nothing but the numbers may differ."""
    return len(first) == len(second) and all(
        (a.law, a.scale, a.values.shape) == (b.law, b.scale, b.values.shape) for a, b in zip(first, second, strict=True)
    )


def _audit(
    subject: str, made: Callable[[float], Engine], schema: Schema, pair: tuple[pd.DataFrame, pd.DataFrame]
) -> NamedAudit:
    """An engine for every ε (pure, replace-one), and two tables of which one row differs in everything."""
    numbers = [name for name, column in schema.columns.items() if isinstance(column, Number)]
    first, second = (coded_rows(table, None, schema, schema.target, numbers) for table in pair)

    def at(epsilon: float) -> AuditedMechanism:
        engine, source = made(epsilon), SystemNoise()

        def draws(rows: CodedRows, count: int) -> Floats:
            """Independent releases of one table, a row each."""
            return np.array([_flat(engine, rows, source) for _ in range(count)])

        return AuditedMechanism(Guarantee(epsilon), draws, (first, second), _loss_on(engine, first, second))

    return NamedAudit(subject, _SAMPLES, at)


def _loss_on(engine: Engine, first: CodedRows, second: CodedRows) -> float:
    """The largest privacy loss on two tables, given one answer of every stage."""
    asked = Replay(SystemNoise())
    engine.measured(first, asked)
    again = Replay(asked.source, [question.answer for question in asked.asked])
    engine.measured(second, again)
    return float(pure_loss(asked.asked, again.asked))


def _flat(engine: Engine, rows: CodedRows, source: WholeNoise) -> Floats:
    tensors = engine.measured(rows, source)
    return np.concatenate([tensors[name].astype(np.float64) for name in sorted(tensors)])


def _noise(epsilon: float, stages: int) -> StagedNoise:
    return StagedNoise(epsilon, 0.0, "replace-one", 1, stages)


_CELLS: Final = Schema({"a": Category((0, 1)), "b": Category((0, 1)), "ill": Label((0, 1))})
_NUMBERS: Final = Schema({"a": Number(0, 1), "b": Number(0, 1), "ill": Label((0, 1))})


def _tables(before: tuple[float, float, int], after: tuple[float, float, int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Eight rows, of which the last is replaced."""
    kept = [(1, 1, 1)] * 7
    first, second = (pd.DataFrame([*kept, row], columns=["a", "b", "ill"]) for row in (before, after))
    return first, second


AUDITS: Final[dict[str, NamedAudit]] = {
    "PrivateSynthesizer-marginals": _audit(
        "two columns with a label, counted alone and as a declared pair",
        lambda epsilon: MarginalEngine(Layout.of(_CELLS, "ill"), _noise(epsilon, MARGINAL_STAGES), ((0, 1),)),
        _CELLS,
        _tables((1, 1, 1), (0, 0, 0)),
    ),
    "PrivateSynthesizer-microaggregation": _audit(
        "two columns of numbers with a label, in groups of neighbouring values",
        lambda epsilon: MicroaggregationEngine(
            Layout.of(_NUMBERS, "ill"), _noise(epsilon, MICROAGGREGATION_STAGES), frozenset({"a", "b"}), 2
        ),
        _NUMBERS,
        # The lowest value changes its class: all groups of both classes move.
        _tables((0, 0, 1), (0, 0, 0)),
    ),
}
