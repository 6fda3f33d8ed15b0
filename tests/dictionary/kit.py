"""What the dictionary's tests share: families with random patterns, and small consortia."""

from __future__ import annotations

import numpy as np

from sudare.dictionary.column_families import Categorical, Gamma, Poisson
from sudare.dictionary.em import TrainingTerms
from sudare.dictionary.exponential_families import Patterns
from sudare.dictionary.gaussian_families import DiagonalGaussian, SparseGaussian
from sudare.dictionary.member_tables import Records
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth

FAMILIES = (
    SparseGaussian(),
    DiagonalGaussian(),
    Poisson(),
    Gamma(),
    Categorical(levels=(2, 3, 4)),
)
COLUMNS = 3


def random_precision(random, columns=COLUMNS):
    root = np.tril(random.normal(size=(columns, columns)), -1) + np.diag(random.uniform(0.5, 2, columns))
    return root @ root.T


def random_patterns(family, random, count=2, columns=COLUMNS):
    """Valid parameters of a family."""
    if isinstance(family, SparseGaussian):
        precisions = np.stack([random_precision(random, columns) for _ in range(count)])
        return Patterns({"means": random.normal(size=(count, columns)), "precisions": precisions})
    if isinstance(family, DiagonalGaussian):
        return Patterns(
            {"means": random.normal(size=(count, columns)), "precisions": random.uniform(0.3, 3, (count, columns))}
        )
    if isinstance(family, Poisson):
        return Patterns({"rates": random.uniform(0.2, 9, (count, columns))})
    if isinstance(family, Gamma):
        return Patterns(
            {"shapes": random.uniform(0.4, 6, (count, columns)), "rates": random.uniform(0.2, 5, (count, columns))}
        )
    weights = random.uniform(0.1, 1, (count, sum(family.levels)))
    return Patterns({"probabilities": family._normal(weights)})


def random_records(family, random, rows, columns=COLUMNS):
    """Records of one random pattern."""
    return family.draws(random_patterns(family, random, 1, columns), 0, random.uniform(0.001, 0.999, (rows, columns)))


def chapter_records(seed=0, rows=60, members=3):
    return chapter_truth(members).records(np.random.default_rng(seed), rows)


def chapter_terms(members=3, **changes):
    facts = {
        "columns": ("x0", "x1", "x2", "x3"),
        "low": np.full(4, -15.0),
        "high": np.full(4, 20.0),
        "members": members,
        "family": SparseGaussian(),
        "n_patterns": 6,
    }
    return TrainingTerms(**{**facts, **changes})


def held(tables):
    return [Records.of(table) for table in tables]
