"""Consortium-wide private learning without a server: one model of everybody's rows, under one guarantee."""

from sudare.joint.additive_boosting import BoostingTerms
from sudare.joint.in_process_simulation import ConsortiumModel, consortium_model, learned_together
from sudare.joint.learning_script import LearnedTogether, LearningWalk
from sudare.joint.member_rows import MemberTable, ModelReading, MomentReading
from sudare.joint.network_training_terms import NetworkTerms
from sudare.joint.resulting_estimators import combination_of, model_of, scaler_of
from sudare.joint.scaler import ScalerTerms
from sudare.joint.training_terms import LearningTerms

__all__ = [
    "BoostingTerms",
    "ConsortiumModel",
    "LearnedTogether",
    "LearningTerms",
    "LearningWalk",
    "MemberTable",
    "ModelReading",
    "MomentReading",
    "NetworkTerms",
    "ScalerTerms",
    "combination_of",
    "consortium_model",
    "learned_together",
    "model_of",
    "scaler_of",
]
