"""Descent on everybody's clipped gradients: (ε, δ)-DP, replace-one rows. Proof: proofs/noise_shares.md, proofs/descent.md.

Every step is one secure sum, whose noise is discrete Gaussian in shares. How many steps, how far, and where gradients are clipped is decided
by public numbers before the first.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.joint.member_rows import ModelReading, MomentReading
from sudare.joint.one_sum import Learned, one_sum
from sudare.joint.scaler import Script, common_scales
from sudare.joint.sum_requests import GradientSum, row_count
from sudare.joint.training_terms import LearningPlan, LearningTerms
from sudare.linear.descent import Recipe
from sudare.linear.mechanism import public_grid
from sudare.privacy.release_content import on_grid


def learned(terms: LearningTerms) -> Script[Learned]:
    """The script of a training: rows, common scales where they were agreed on, then the model."""
    rows = int((yield row_count(terms.reading))[0])
    plan, reading = terms.plan(rows), terms.scaled_reading
    if plan.scaler is not None and reading.schema is not None:
        scales = yield from common_scales(MomentReading(reading.schema), rows, plan.scaler)
        reading = replace(reading, schema=scales.schema(reading.schema))
    return (yield from (one_sum if plan.recipe is None else descended)(reading, plan))


def descended(reading: ModelReading, plan: LearningPlan) -> Script[Learned]:
    """Noisy gradient steps from zero, with Nesterov's momentum and an average over the last iterates."""
    recipe = plan.recipe
    if recipe is None:
        raise InvalidParameter("A descent needs a recipe.", "Plan it with delta > 0.")
    place = np.zeros(reading.width)
    velocity, average = np.zeros_like(place), np.zeros_like(place)
    unit = recipe.clip * plan.grid / plan.rows
    most = plan.rows / plan.grid
    for number, noise in enumerate(plan.sums):
        ahead = place + recipe.momentum * velocity
        total = yield GradientSum(reading.width, most, reading, noise, ahead, recipe.clip, plan.grid)
        velocity = recipe.momentum * velocity - recipe.learning_rate * unit * total.astype(np.float64)
        place = place + velocity
        if number >= recipe.steps - recipe.averaged:
            average += place / recipe.averaged
    noise_scale = plan.sums[0].total_deviation * unit * recipe.learning_rate * _spread(recipe)
    grid = public_grid(noise_scale)
    return Learned(reading, on_grid(average, grid), plan.rows, noise_scale, grid)


def _spread(recipe: Recipe) -> float:
    """√Σw², w the weight with which each step's noise reaches the average where the loss is flat."""
    weights: Floats = np.zeros(recipe.steps)
    for first in range(recipe.steps):
        velocity = place = 0.0
        for number in range(first, recipe.steps):
            velocity = recipe.momentum * velocity + (number == first)
            place += velocity
            if number >= recipe.steps - recipe.averaged:
                weights[first] += place / recipe.averaged
    return math.sqrt(float(weights @ weights))
