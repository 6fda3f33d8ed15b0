"""Consortium-wide private learning without a server: one model of everybody's rows, under one guarantee."""

from sudare.joint.in_process import ConsortiumModel, consortium_model, learned_together
from sudare.joint.learning_script import LearnedTogether, LearningWalk
from sudare.joint.member_rows import MemberTable, ModelReading, MomentReading
from sudare.joint.results import combination_of, model_of, scaler_of
from sudare.joint.scaler import ScalerTerms
from sudare.joint.training_terms import LearningTerms

__all__ = [
    "ConsortiumModel",
    "LearnedTogether",
    "LearningTerms",
    "LearningWalk",
    "MemberTable",
    "ModelReading",
    "MomentReading",
    "ScalerTerms",
    "combination_of",
    "consortium_model",
    "learned_together",
    "model_of",
    "scaler_of",
]
