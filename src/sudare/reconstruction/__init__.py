"""The distributions that a receiver reconstructs from perturbed records."""

from sudare.reconstruction.category_frequencies import CategoricalReconstruction
from sudare.reconstruction.cross_tables import CrossTable
from sudare.reconstruction.joint_distribution import JointDistribution, JointReconstruction
from sudare.reconstruction.number_reconstruction import Reconstruction
from sudare.reconstruction.reconstructed_distribution import Distribution

__all__ = [
    "CategoricalReconstruction",
    "CrossTable",
    "Distribution",
    "JointDistribution",
    "JointReconstruction",
    "Reconstruction",
]
