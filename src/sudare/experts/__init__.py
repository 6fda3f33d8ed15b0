"""Combining other members' models with one's own data, which stay in the house."""

from sudare.experts.estimators import AverageExperts, ExponentialWeights, MirrorAveraging, StackedExperts
from sudare.experts.own_plus_consensus import OwnPlusConsensus

__all__ = ["AverageExperts", "ExponentialWeights", "MirrorAveraging", "OwnPlusConsensus", "StackedExperts"]
