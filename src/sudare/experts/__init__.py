"""Combining other members' models with one's own data, which stay in the house."""

from sudare.experts.consensus import OwnPlusConsensus
from sudare.experts.estimators import AverageExperts, ExponentialWeights, MirrorAveraging, StackedExperts

__all__ = ["AverageExperts", "ExponentialWeights", "MirrorAveraging", "OwnPlusConsensus", "StackedExperts"]
