"""Section 4.3 of paper 004: which component a perturbed record came from, by the paper's algorithms, by the product, and at best."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from sudare.array_types import Positions
from sudare.papers.p004_reconstruction import figure2
from sudare.papers.p004_reconstruction.algorithm1 import FiniteMixtureReconstruction
from sudare.papers.p004_reconstruction.algorithm2 import FiniteMixtureJointReconstruction, joint_distribution
from sudare.papers.p004_reconstruction.normal_laplace import expectation
from sudare.papers.p004_reconstruction.printed_values import FIGURE_1
from sudare.papers.p004_reconstruction.several_columns import MIXTURES, MOST_STEPS, Mixture
from sudare.papers.repetitions import Measurements, measurements, noted, repetitions
from sudare.papers.study import Cell, ResultTable, Tell
from sudare.reconstruction.joint_distribution import JointReconstruction
from sudare.reconstruction.multivariate_normal_mixture import JointComponents
from sudare.reconstruction.number_reconstruction import Reconstruction

SEED: Final = 20240406
RECORDS: Final = 100_000
WAYS: Final = ("proposed", "product", "known")
ONE_COLUMN: Final = "mixture of Figure 1, K = 4"
SEVERAL: Final = tuple(one for one in MIXTURES if one.is_papers and not one.split)


def measured(tell: Tell, repeats: int, several: Sequence[Mixture] = SEVERAL, records: int = RECORDS) -> Measurements:
    """Adjusted Rand indices: 1 if the clusters are the true ones, 0 if they are no better than chance."""

    def note(found: Measurements, repetition: int) -> None:
        truth, assigned = one_column(records, SEED + repetition)
        for way, clusters in assigned.items():
            found.note((ONE_COLUMN, way), adjusted_rand_score(truth, clusters))
        for mixture in several:
            truth, assigned = several_columns(mixture, records, SEED + repetition)
            for way, clusters in assigned.items():
                found.note((_name(mixture), way), adjusted_rand_score(truth, clusters))

    return measurements(tell, repetitions("clusters", repeats, partial(noted, note)))


def one_column(records: int, seed: int) -> tuple[Positions, dict[str, Positions]]:
    """The component of each record, and what each way says."""
    generator = np.random.default_rng(seed)
    truth = generator.choice(len(FIGURE_1.weights), records, p=FIGURE_1.weights)
    x = FIGURE_1.means[truth] + FIGURE_1.scales[truth] * generator.standard_normal(records)
    perturbation = figure2.perturbation_of(RECORDS)
    y = perturbation.perturb(x, shuffle=False, random_state=seed)
    count = len(FIGURE_1.weights)
    proposed = FiniteMixtureReconstruction(perturbation, count, random_state=seed).fit(y)
    product = Reconstruction(perturbation, "mixture", components=count, atoms=()).fit(y).distribution_
    known = expectation(y, np.ones(records), FIGURE_1, perturbation.noise_scale).responsibilities
    return truth, {"proposed": proposed.predict(y), "product": product.predict(y), "known": known.argmax(axis=1)}


def several_columns(mixture: Mixture, records: int, seed: int) -> tuple[Positions, dict[str, Positions]]:
    """The component of each row, and what each way says."""
    generator = np.random.default_rng(seed)
    truth = generator.choice(len(mixture.weights), records, p=mixture.weights)
    rows = mixture.rows_of(truth, generator)
    channels = [mixture.laplace(records)] * mixture.columns
    columns = [
        channel.perturb(column, shuffle=False, random_state=seed + number)
        for number, (channel, column) in enumerate(zip(channels, rows.T, strict=True))
    ]
    count = len(mixture.weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        proposed = FiniteMixtureJointReconstruction(channels, count, max_iter=MOST_STEPS, random_state=seed).fit(
            columns
        )
    product = JointReconstruction(channels, "mixture", components=count).fit(columns).distribution_
    true_components = JointComponents(mixture.weights, mixture.means, mixture.covariances)
    known = joint_distribution(true_components, channels, records)
    return truth, {
        "proposed": proposed.predict(columns),
        "product": product.predict(columns),
        "known": known.predict(columns),
    }


def _name(mixture: Mixture) -> str:
    return f"{mixture.columns} columns, {mixture.name}"


def table(found: Measurements, several: Sequence[Mixture] = SEVERAL, records: int = RECORDS) -> ResultTable:
    """The three ways beside each other."""
    names = [ONE_COLUMN, *map(_name, several)]
    rows: list[Sequence[Cell]] = [(name, *(found.at((name, way)) for way in WAYS)) for name in names]
    return ResultTable(
        "Clusters: adjusted Rand index of predicted components (section 4.3)",
        ("mixture", "proposed method (Algorithm 1 or 2)", "product, mixture", "true parameters"),
        rows,
        f"1 if every record is assigned to the component that it came from, 0 if by chance. {records:,} records, Laplace noise as in Figure 2 or with k = 2 for each column; the number of "
        f"components is told; ± one standard error over {found.repeats} samples. The last column assigns records by the true parameters; the index can be a little higher where small clusters are given up.",
    )
