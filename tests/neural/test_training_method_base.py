"""Layers as one vector, and when a promise says next to nothing."""

from __future__ import annotations

import numpy as np

from sudare.neural.training_method_base import VACUOUS_EPSILON, flattened, layered


def test_layers_come_back_from_one_vector():
    layers = layered(np.arange(3 * 4 + 4 + 4 * 2 + 2, dtype=float), (3, 4, 2))
    assert [(weights.shape, bias.shape) for weights, bias in layers] == [((3, 4), (4,)), ((4, 2), (2,))]
    np.testing.assert_array_equal(flattened(layers), np.arange(26))


def test_the_refusal_begins_above_what_the_card_calls_very_weak():
    assert VACUOUS_EPSILON == 20
