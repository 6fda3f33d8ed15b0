"""Records that are perturbed one by one before they leave, and the distributions that can be reconstructed from them."""

from sudare.records.categorical import RetainReplace, SubsetSelection, UnaryEncoding
from sudare.records.cross_tables import CrossTable
from sudare.records.frequencies import CategoricalCrossTable, CategoricalReconstruction
from sudare.records.laplace import LaplacePerturbation
from sudare.records.linking import Statement, epsilon_of_k, k_of_epsilon
from sudare.records.multivariate import JointDistribution, JointReconstruction
from sudare.records.reconstruct import (
    BayesReconstruction,
    MixtureReconstruction,
    Reconstruction,
    SmoothReconstruction,
)
from sudare.records.release import RecordPerturbation
from sudare.records.result import Distribution
from sudare.records.square_wave import SquareWave
from sudare.records.synthesize import PrivateSynthesizer
from sudare.records.table import PerturbedTable

__all__ = [
    "BayesReconstruction",
    "CategoricalCrossTable",
    "CategoricalReconstruction",
    "CrossTable",
    "Distribution",
    "JointDistribution",
    "JointReconstruction",
    "LaplacePerturbation",
    "MixtureReconstruction",
    "PerturbedTable",
    "PrivateSynthesizer",
    "Reconstruction",
    "RecordPerturbation",
    "RetainReplace",
    "SmoothReconstruction",
    "SquareWave",
    "Statement",
    "SubsetSelection",
    "UnaryEncoding",
    "epsilon_of_k",
    "k_of_epsilon",
]
