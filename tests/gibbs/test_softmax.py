"""The softmax posterior: the constants hold, and three classes are learned."""

from __future__ import annotations

import numpy as np

from sudare.gibbs.softmax import SoftmaxLoss, softmax_posterior
from tests.gibbs.tables import separable


def test_gradients_and_curvatures_stay_within_the_declared_constants():
    random = np.random.default_rng(0)
    loss, model = SoftmaxLoss(4), softmax_posterior(3, 4)
    for _ in range(60):
        x = random.normal(size=(1, 3))
        x /= np.linalg.norm(x)
        theta, label = random.normal(scale=random.choice([0.0, 1.0, 20.0]), size=12), np.array([random.integers(4)])
        slope = loss.gradient(theta, x, label)
        assert np.linalg.norm(slope) <= model.lipschitz
        step = 1e-5
        columns = [(loss.gradient(theta + step * axis, x, label) - slope) / step for axis in np.eye(12)]
        numeric = [(loss(theta + step * axis, x, label)[0] - loss(theta, x, label)[0]) / step for axis in np.eye(12)]
        np.testing.assert_allclose(numeric, slope, atol=1e-4)
        stiffness = np.linalg.eigvalsh((np.array(columns) + np.array(columns).T) / 2)
        assert -1e-4 < stiffness[0] <= stiffness[-1] <= model.smoothness + 1e-4
        assert stiffness.sum() <= model.laplacian + 1e-4


def test_three_classes_are_learned_and_charged_once(account):
    X, y = separable(600, classes=3)
    model = softmax_posterior(3, 3, epsilon=2.0, delta=1e-6, regularization=0.03, account=account).fit(X, y)
    assert account.spent().epsilon == 2.0
    assert np.mean(np.argmax(X @ model.parameters_.reshape(3, 3).T, axis=1) == y) > 0.7
