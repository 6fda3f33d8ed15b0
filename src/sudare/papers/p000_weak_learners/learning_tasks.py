"""The three tasks of paper 000, dealt out to members: its synthetic data, breast cancer, and diabetes (Pima).

Rows lie in the unit ball. Centres and scales of the medical features are means and deviations of the whole data set, rounded to
two digits; in the study they stand for public knowledge, which members of a real consortium would have to bring. Both classes are equally frequent in the test rows by the paper's design, and features are
centred, so models of these tasks need no intercept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

from sudare.array_types import Floats
from sudare.papers.datasets import data

SYNTHETIC_NODES: Final = 100
SYNTHETIC_MARGIN: Final = 0.03
REAL_NODES: Final = 10
LARGEST_DEVIATION: Final = 3.0

_CANCER_CENTRES: Final = (
    14, 19, 92, 650, 0.096, 0.1, 0.089, 0.049, 0.18, 0.063, 0.41, 1.2, 2.9, 40, 0.007, 0.025, 0.032, 0.012, 0.021, 0.0038,
    16, 26, 110, 880, 0.13, 0.25, 0.27, 0.11, 0.29, 0.084,
)  # fmt: skip
_CANCER_SCALES: Final = (
    3.5, 4.3, 24, 350, 0.014, 0.053, 0.08, 0.039, 0.027, 0.0071, 0.28, 0.55, 2, 45, 0.003, 0.018, 0.03, 0.0062, 0.0083,
    0.0026, 4.8, 6.1, 34, 570, 0.023, 0.16, 0.21, 0.066, 0.062, 0.018,
)  # fmt: skip
_PIMA_CENTRES: Final = (3.8, 120, 69, 21, 80, 32, 0.47, 33)
_PIMA_SCALES: Final = (3.4, 32, 19, 16, 120, 7.9, 0.33, 12)


@dataclass(frozen=True)
class Task:
    """Training rows of every member (members × rows × features) with labels −1 and +1, and common test rows."""

    rows: Floats
    labels: Floats
    test_rows: Floats
    test_labels: Floats

    def accuracy(self, parameters: Floats) -> Floats:
        """Share of test rows told right, for each row of parameters."""
        scores = self.test_rows @ np.atleast_2d(parameters).T
        return np.asarray((scores * self.test_labels[:, np.newaxis] > 0).mean(axis=0))


def synthetic(
    generator: np.random.Generator, nodes: int = SYNTHETIC_NODES, rows: int = 5_000, test: int = 1_000
) -> Task:
    """Uniform on the sphere in ten dimensions, told apart by a plane with a margin; balanced test rows (section 5.1)."""
    normal = generator.standard_normal(10)
    normal /= np.linalg.norm(normal)
    points = generator.standard_normal((2 * (rows + test), 10))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    distances = points @ normal
    points, distances = (found[np.abs(distances) > SYNTHETIC_MARGIN] for found in (points, distances))
    return dealt(points, np.sign(distances), (test // 2, test // 2), nodes, generator, rows)


def breast_cancer(generator: np.random.Generator) -> Task:
    """400 patients of 10 members, 169 to test on; malignant is +1 (section 5.2)."""
    bunch = load_breast_cancer()
    labels = np.where(bunch.target == 0, 1.0, -1.0)
    return dealt(in_unit_ball(bunch.data, _CANCER_CENTRES, _CANCER_SCALES), labels, (85, 84), REAL_NODES, generator)


def diabetes(generator: np.random.Generator) -> Task:
    """600 patients of 10 members, 168 to test on; diabetes is +1 (section 5.2)."""
    table = data("pima")
    labels = np.where(table["diabetes"].to_numpy() == 1, 1.0, -1.0)
    features = table.drop(columns="diabetes").to_numpy(dtype=np.float64)
    return dealt(in_unit_ball(features, _PIMA_CENTRES, _PIMA_SCALES), labels, (84, 84), REAL_NODES, generator)


def in_unit_ball(features: Floats, centres: tuple[float, ...], scales: tuple[float, ...]) -> Floats:
    """Features centred and scaled by public constants, cut off at three scales, rows scaled down to norm one."""
    deviations = (features - np.asarray(centres)) / np.asarray(scales)
    rows = np.clip(deviations, -LARGEST_DEVIATION, LARGEST_DEVIATION) / np.sqrt(features.shape[1])
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0))


def dealt(
    features: Floats,
    labels: Floats,
    tested: tuple[int, int],
    nodes: int,
    generator: np.random.Generator,
    most_rows: int | None = None,
) -> Task:
    """Test rows with so many of each class (+1, −1), and the rest in equal parts to the members, at random."""
    kept_out, members = dealt_places(labels, tested, nodes, generator, most_rows)
    return Task(features[members], labels[members], features[kept_out], labels[kept_out])


def dealt_places(
    labels: Floats, tested: tuple[int, int], nodes: int, generator: np.random.Generator, most_rows: int | None = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Places of test rows, so many of each class (+1, −1), and of each member's rows (members × rows), at random."""
    kept_out = np.concatenate(
        [
            generator.permutation(np.flatnonzero(labels == sign))[:count]
            for sign, count in zip((1, -1), tested, strict=True)
        ]
    )
    rest = generator.permutation(np.setdiff1d(np.arange(len(labels)), kept_out))[:most_rows]
    return kept_out, rest[: len(rest) // nodes * nodes].reshape(nodes, -1)
