"""Records that are perturbed one by one before they leave."""

from sudare.perturbation.categorical import RetainReplace, SubsetSelection, UnaryEncoding
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.perturbation.linkage_risk import PerturbationPromise, epsilon_of_k, k_of_epsilon
from sudare.perturbation.perturbed_table import PerturbedTable
from sudare.perturbation.record_perturbation import RecordPerturbation
from sudare.perturbation.square_wave import SquareWave

__all__ = [
    "LaplacePerturbation",
    "PerturbationPromise",
    "PerturbedTable",
    "RecordPerturbation",
    "RetainReplace",
    "SquareWave",
    "SubsetSelection",
    "UnaryEncoding",
    "epsilon_of_k",
    "k_of_epsilon",
]
