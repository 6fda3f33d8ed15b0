"""The distributions that a receiver reconstructs from perturbed records."""

from sudare.reconstruction.category_frequencies import CategoricalReconstruction
from sudare.reconstruction.cross_tables import CrossTable
from sudare.reconstruction.distribution import Distribution
from sudare.reconstruction.estimators import Reconstruction
from sudare.reconstruction.joint_distribution import JointDistribution, JointReconstruction

__all__ = [
    "CategoricalReconstruction",
    "CrossTable",
    "Distribution",
    "JointDistribution",
    "JointReconstruction",
    "Reconstruction",
]
