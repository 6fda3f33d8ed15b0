"""The distributions that a receiver reconstructs from perturbed records."""

from sudare.reconstruction.category_frequencies import CategoricalCrossTable, CategoricalReconstruction
from sudare.reconstruction.cross_tables import CrossTable
from sudare.reconstruction.distribution import Distribution
from sudare.reconstruction.estimators import (
    BayesReconstruction,
    MixtureReconstruction,
    Reconstruction,
    SmoothReconstruction,
)
from sudare.reconstruction.joint_distribution import JointDistribution, JointReconstruction

__all__ = [
    "BayesReconstruction",
    "CategoricalCrossTable",
    "CategoricalReconstruction",
    "CrossTable",
    "Distribution",
    "JointDistribution",
    "JointReconstruction",
    "MixtureReconstruction",
    "Reconstruction",
    "SmoothReconstruction",
]
