"""What members take home: the common parameters as the estimators that the rest of the house knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sudare.errors import InvalidParameter
from sudare.experts import OwnPlusConsensus
from sudare.joint.additive_boosting import BoostingTerms, LearnedShapes
from sudare.joint.learning_script import LearnedTogether
from sudare.joint.network_training_terms import LearnedNetwork, NetworkTerms
from sudare.joint.one_sum import Learned
from sudare.joint.scaler import CommonScales, ScalerTerms
from sudare.joint.training_terms import LearningTerms
from sudare.linear import PrivateAdditiveClassifier, PrivateLogisticRegression
from sudare.linear.additive_classifier import BOOSTING
from sudare.linear.rows import array_layout, norm_bounded_columns, table_layout
from sudare.privacy.ledger import Account
from sudare.schema import Schema
from sudare.statistics import PrivateStandardScaler

if TYPE_CHECKING:
    from sudare.neural import PrivateMLPClassifier


def model_of(
    found: LearnedTogether, account: Account | None = None
) -> PrivateLogisticRegression | PrivateAdditiveClassifier | PrivateMLPClassifier:
    """The consortium-wide model as a member holds it: a fitted model like any other, which can be an expert.

    It can be released where the member's account paid for it.
    """
    if isinstance(found.outcome, LearnedShapes):
        return _additive_model(found, account)
    if isinstance(found.outcome, LearnedNetwork):
        return _network_model(found, account)
    return _linear_model(found, account)


def _additive_model(found: LearnedTogether, account: Account | None) -> PrivateAdditiveClassifier:
    learned, terms = found.outcome, found.terms
    if not isinstance(learned, LearnedShapes) or not isinstance(terms, BoostingTerms):
        raise InvalidParameter("The outcome is not an additive model.", "Use model_of for any model.")
    found.check_unchanged()
    options = terms.epsilon, terms.delta
    model = PrivateAdditiveClassifier(*options, schema=terms.schema, max_bins=terms.max_bins, account=account)
    model._keep(Schema(dict(learned.reading.columns.columns), terms.schema.person), terms.schema.digest)
    model._declare_target(None)
    model.method_ = BOOSTING  # type: ignore[assignment]
    model.n_rows_, model.grid_, model.noise_scale_ = learned.rows, learned.grid, learned.noise_scale
    model._set_parameters(learned.parameters.copy())
    model.guarantee_, model.receipt_ = found.guarantee, found.receipt
    model._seal()
    return model


def _network_model(found: LearnedTogether, account: Account | None) -> PrivateMLPClassifier:
    # Networks bring much that other tasks do not need.
    from sudare.neural import PrivateMLPClassifier

    learned, terms = found.outcome, found.terms
    if not isinstance(learned, LearnedNetwork) or not isinstance(terms, NetworkTerms):
        raise InvalidParameter("The outcome is not a network.", "Use model_of for any model.")
    found.check_unchanged()
    model = PrivateMLPClassifier(
        terms.hidden_layer_sizes,
        epsilon=terms.epsilon,
        delta=terms.delta,
        schema=terms.schema,
        encoding=terms.encoding,
        account=account,
    )
    model._keep(learned.reading.features, terms.schema.digest)
    model._declare_target(None)
    plan = terms.plan(learned.rows)
    model.recipe_, model.noise_multiplier_, model.n_iter_ = plan.recipe, plan.noise_multiplier, plan.recipe.max_iter
    model.n_rows_, model.noise_scale_, model.grid_ = learned.rows, learned.noise_scale, learned.grid
    model.exact_noise_, model.parameter_guarantee_ = True, None
    model.record_epsilon_, model.record_delta_ = terms.epsilon, terms.delta
    model.parameters_ = learned.parameters.copy()
    model.guarantee_, model.receipt_ = found.guarantee, found.receipt
    model._seal()
    return model


def _linear_model(found: LearnedTogether, account: Account | None) -> PrivateLogisticRegression:
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
        raise InvalidParameter("The outcome is not a linear model.", "Learn a linear model first.")
    return OwnPlusConsensus(
        [_linear_model(found, None)], doubt=found.outcome.doubt, fit_intercept=bool(found.outcome.reading.bias)
    )
