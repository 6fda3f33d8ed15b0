"""A dictionary of patterns that members learn together, and anomaly scores from it."""

from sudare.dictionary.anomaly import MemberModel
from sudare.dictionary.estimators import PatternDictionary
from sudare.dictionary.graphical_lasso import GraphicalLassoResult, graphical_lasso

__all__ = ["GraphicalLassoResult", "MemberModel", "PatternDictionary", "graphical_lasso"]
