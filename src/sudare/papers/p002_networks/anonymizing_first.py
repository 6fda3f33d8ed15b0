"""AnonymizingFirst: a private table first, ordinary learning after (paper 002). Everything after the table is free.

The encoded rows are read back as cells, the engines of `sudare.synthesis` count them with noise, and new rows are drawn, encoded and
learned from. "marginals" reads one-hot cells (encoding "binned"); "microaggregation" reads numbers (encoding "scaled"): means of groups as in
the paper, but within a class, and rows are drawn anew. The paper's own microaggregation, which is not private, is
`sudare.papers.p002_networks.individual_ranking_microaggregation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Singles
from sudare.errors import InvalidParameter
from sudare.neural.training_method_base import Facts, Layers
from sudare.papers.p002_networks.approaches import DescentName, SgdSettings
from sudare.parameter_checks import Numbers
from sudare.privacy.accounting import Cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import NoiseSource
from sudare.schema import Encoding, Number
from sudare.schema.combinations import cell_count
from sudare.synthesis import marginals, microaggregation
from sudare.synthesis.marginals import MarginalEngine
from sudare.synthesis.microaggregation import MOST_GROUPS, MicroaggregationEngine
from sudare.synthesis.staged_budget import StagedNoise
from sudare.synthesis.synthesizer import EngineName, declared_pairs
from sudare.synthesis.table_cells import SCALED_STEP, CodedRows, Layout

# No column of a schema has this name: names are not empty.
_LABEL: Final = ""
_FEWEST_SYNTHETIC_ROWS: Final = 50_000
_SYNTHETIC_ROWS: Final = Numbers(1, 10**8, whole=True, optional=True)
_GROUPS: Final = Numbers(2, MOST_GROUPS, whole=True)
_BINS_OF_A_NUMBER: Final = 20
_GRID: Final = 2.0**-20
_ENCODINGS: Final[Mapping[EngineName, Encoding]] = {"marginals": "binned", "microaggregation": "scaled"}


@dataclass(frozen=True)
class AnonymizingFirst:
    """ε-DP or (ε, δ)-DP, replace-one or add/remove records: learned from synthetic rows only. Proof: proofs/synthesis.md."""

    facts: Facts
    epsilon: float
    delta: float = 0.0
    engine: EngineName = "marginals"
    tree: Sequence[tuple[str, str]] | None = None
    groups: int = 20
    synthetic_rows: int | None = None
    epochs: int = 10
    batch_size: int = 256
    learning_rate: float = 0.1
    regularization: float = 0.0
    descent: DescentName = "averaged"

    grid: ClassVar[float] = _GRID
    parameter_guarantee: ClassVar[Guarantee | None] = None

    def __post_init__(self) -> None:
        if self.engine not in _ENCODINGS:
            raise InvalidParameter(f"engine must be one of {', '.join(_ENCODINGS)}.", "Use one of these words.")
        if self.facts.encoding != _ENCODINGS[self.engine]:
            raise InvalidParameter(
                f"The engine {self.engine!r} reads rows in the encoding {_ENCODINGS[self.engine]!r}, "
                f"got {self.facts.encoding!r}.",
                f"Give encoding={_ENCODINGS[self.engine]!r}, or another engine.",
            )
        _SYNTHETIC_ROWS.check("synthetic_rows", self.synthetic_rows)
        _GROUPS.check("groups", self.groups)
        _ = self.sgd, self._counting(), self.cost

    @property
    def sgd(self) -> SgdSettings:
        """How the network is learned from the synthetic rows."""
        return SgdSettings(
            self.epochs,
            self.batch_size,
            self.learning_rate,
            regularization=self.regularization,
            descent=self.descent,
        )

    @property
    def noise(self) -> StagedNoise:
        """The budget of the counts."""
        stages = marginals.STAGES if self.engine == "marginals" else microaggregation.STAGES
        return StagedNoise(self.epsilon, self.delta, self.facts.neighbours, 1, stages)

    @property
    def cost(self) -> Cost:
        """That of the counts."""
        return self.noise.cost

    @property
    def noise_scale(self) -> float:
        """Of the counts of one table."""
        return self.noise.noise_scale

    @property
    def layout(self) -> Layout:
        """Names and numbers of cells; the label is the target, a number as one of twenty bins."""
        features = self.facts.declared.features
        classes = len(self.facts.target) if self.facts.loss == "cross_entropy" else _BINS_OF_A_NUMBER
        return Layout(tuple(features), tuple(map(cell_count, features.values())), _LABEL, classes)

    def fitted(self, rows: Singles, targets: Singles, source: NoiseSource) -> Layers:
        """Counted with noise, drawn anew, learned from."""
        from sudare.papers.p002_networks.ordinary_training import trained_without_privacy

        facts, engine = self.facts, self._counting()
        model = engine.model(engine.measured(self._coded(rows, targets), source))
        count = max(facts.rows, _FEWEST_SYNTHETIC_ROWS) if self.synthetic_rows is None else self.synthetic_rows
        drawn = model.drawn(count, np.random.default_rng(source.words(4).tolist()))
        made, wanted = self._encoded(drawn)
        return trained_without_privacy(made, wanted, facts.sizes, facts.loss, self.sgd, source)

    def _counting(self) -> MarginalEngine | MicroaggregationEngine:
        if self.engine == "marginals":
            return MarginalEngine(self.layout, self.noise, declared_pairs(self.tree, self.layout.names))
        return MicroaggregationEngine(self.layout, self.noise, self._numbers(), self.groups)

    def _numbers(self) -> frozenset[str]:
        """Columns that are read as numbers."""
        features = self.facts.declared.features
        scaled = self.engine == "microaggregation"
        return frozenset(name for name, column in features.items() if scaled and isinstance(column, Number))

    # From encoded rows to cells and back

    def _parts(self, matrix: Singles) -> dict[str, Singles]:
        """The encoded columns of every declared one."""
        blocks = self.facts.declared.blocks(self.facts.encoding)
        ends = np.cumsum([block.width for block in blocks])[:-1]
        return dict(zip(self.facts.declared.features, np.split(matrix, ends, axis=1), strict=True))

    def _coded(self, rows: Singles, targets: Singles) -> CodedRows:
        numbers = self._numbers()
        codes, scaled = {_LABEL: self._label_codes(targets)}, {}
        for name, part in self._parts(rows).items():
            if name in numbers:
                scaled[name] = np.rint(part[:, 0].astype(np.float64) / SCALED_STEP) * SCALED_STEP
            else:
                codes[name] = np.argmax(part, axis=1).astype(np.uint32)
        return CodedRows(codes, scaled, len(rows), {})

    def _label_codes(self, targets: Singles) -> NDArray[np.uint32]:
        if self.facts.loss == "cross_entropy":
            return np.asarray(np.argmax(targets, axis=1), dtype=np.uint32)
        places = np.floor((targets[:, 0] + 1) / 2 * _BINS_OF_A_NUMBER)
        return np.asarray(np.clip(places, 0, _BINS_OF_A_NUMBER - 1), dtype=np.uint32)

    def _encoded(self, drawn: Mapping[str, NDArray[Any]]) -> tuple[Singles, Singles]:
        """Drawn cells as encoded rows and targets; a number of a bin stands in its middle."""
        blocks = self.facts.declared.blocks(self.facts.encoding)
        parts = [
            _beside_zeros(drawn[name], block.width) if name in self._numbers() else _one_hot(drawn[name], block.width)
            for name, block in zip(self.facts.declared.features, blocks, strict=True)
        ]
        label = drawn[_LABEL]
        if self.facts.loss == "cross_entropy":
            return np.concatenate(parts, axis=1), _one_hot(label, len(self.facts.target))
        middles = (2 * label.astype(np.float32)[:, np.newaxis] + 1) / _BINS_OF_A_NUMBER - 1
        return np.concatenate(parts, axis=1), middles.astype(np.float32)


def _one_hot(codes: NDArray[Any], width: int) -> Singles:
    return np.asarray(codes[:, np.newaxis] == np.arange(width), dtype=np.float32)


def _beside_zeros(values: NDArray[Any], width: int) -> Singles:
    """Numbers as first columns; the column that marks missing ones stays empty."""
    columns = np.zeros((len(values), width), dtype=np.float32)
    columns[:, 0] = np.clip(values, 0, 1)
    return columns
