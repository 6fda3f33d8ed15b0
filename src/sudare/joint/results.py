"""What members take home: the common parameters as the estimators that the rest of the house knows."""

from __future__ import annotations

import numpy as np

from sudare.errors import InvalidParameter
from sudare.experts import OwnPlusConsensus
from sudare.joint.learning_script import LearnedTogether
from sudare.joint.one_sum import Learned
from sudare.joint.scaler import CommonScales, ScalerTerms
from sudare.joint.training_terms import LearningTerms
from sudare.linear import PrivateLogisticRegression
from sudare.linear.rows import array_layout, norm_bounded_columns, table_layout
from sudare.privacy.ledger import Account
from sudare.schema import Schema
from sudare.statistics import PrivateStandardScaler


def model_of(found: LearnedTogether, account: Account | None = None) -> PrivateLogisticRegression:
    """The consortium-wide model as a member holds it: a fitted model like any other, which can be an expert.

    It can be released where the member's account paid for it.
    """
    learned, terms = found.outcome, found.terms
    if not isinstance(learned, Learned) or not isinstance(terms, LearningTerms):
        raise InvalidParameter("The outcome is not a model.", "Use scaler_of for common scales.")
    found.check_unchanged()
    reading = learned.reading
    model = PrivateLogisticRegression(
        terms.epsilon,
        terms.delta,
        norm_bound=reading.norm_bound,
        fit_intercept=bool(reading.bias),
        classes=None if reading.classes is None else list(reading.classes),
        schema=reading.schema,
        encoding=reading.encoding,
        account=account,
    )
    if reading.schema is None:
        declared = norm_bounded_columns(reading.features, reading.norm_bound)
        layout, digest = array_layout(reading.features, reading.norm_bound, bool(reading.bias)), None
        model.n_features_in_ = reading.features
    else:
        declared = Schema(dict(reading.schema.features), reading.schema.person)
        layout, digest = table_layout(declared, reading.encoding, bool(reading.bias)), reading.schema.digest
    parameters, grid = learned.parameters.copy(), learned.grid
    if reading.bias:
        # The constant column of the model's own layout may be another power of two.
        ratio = reading.bias / layout.bias
        parameters[-1] *= ratio
        grid *= min(1.0, ratio)
    model._keep(declared, digest)
    model._declare_target(None)
    model.method_ = "mean" if terms.delta == 0 else "descent"
    model.penalty_, model.n_rows_ = 0.0, learned.rows
    model.grid_, model.noise_scale_ = grid, learned.noise_scale
    model._set_parameters(parameters[np.newaxis])
    model.guarantee_, model.receipt_ = found.guarantee, found.receipt
    model._seal()
    return model


def scaler_of(found: LearnedTogether, account: Account | None = None) -> PrivateStandardScaler:
    """Common means and scales as a member holds them."""
    scales, terms = found.outcome, found.terms
    if not isinstance(scales, CommonScales) or not isinstance(terms, ScalerTerms):
        raise InvalidParameter("The outcome is not a scaler.", "Use model_of for a model.")
    found.check_unchanged()
    scaler = PrivateStandardScaler(terms.epsilon, terms.delta, schema=terms.schema, account=account)
    scaler._keep(Schema(dict(terms.reading.numbers.columns), terms.schema.person), terms.schema.digest)
    scaler.n_rows_, scaler.noise_scale_, scaler.grid_ = scales.rows, scales.noise_scale, scales.grid
    scaler.mean_, scaler.scale_ = scales.mean, scales.scale
    scaler._set_bounds()
    scaler.guarantee_, scaler.receipt_ = found.guarantee, found.receipt
    scaler._seal()
    return scaler


def combination_of(found: LearnedTogether) -> OwnPlusConsensus:
    """An unfitted `OwnPlusConsensus` of the consortium-wide model, with the doubt that its public noise leaves; fit it on own data."""
    if not isinstance(found.outcome, Learned):
        raise InvalidParameter("The outcome is not a model.", "Learn a model first.")
    return OwnPlusConsensus(
        [model_of(found)], doubt=found.outcome.doubt, fit_intercept=bool(found.outcome.reading.bias)
    )
