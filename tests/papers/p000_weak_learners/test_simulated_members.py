"""Simulated members send and combine what the product's classes do."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.experts import ExponentialWeights, MirrorAveraging, OwnPlusConsensus, StackedExperts
from sudare.papers.p000_weak_learners import simulated_members
from tests.experts.members import Line


def others(messages, member):
    return [Line(row) for row in np.delete(messages, member, axis=0)]


def test_receivers_are_those_of_the_product(task):
    messages = simulated_members.mean_messages(task, 5.0, np.random.default_rng(1))
    averaged, combined = (
        simulated_members.mirror_averaged(task, messages),
        simulated_members.own_and_others(task, messages),
    )
    for member in (0, 5):
        rows, labels = task.rows[member], task.labels[member] > 0
        mirror = MirrorAveraging(others(messages, member), temperature=3.0).fit(rows, labels)
        np.testing.assert_allclose(mirror.weights_ @ np.delete(messages, member, axis=0), averaged[member], atol=1e-10)
        own = OwnPlusConsensus(others(messages, member), fit_intercept=False).fit(rows, labels)
        np.testing.assert_allclose(own.coef_, combined[member], rtol=1e-5, atol=1e-6)


def test_combinations_of_table_1_are_those_of_the_product(task):
    messages = simulated_members.chaudhuri_messages(task, 5.0, np.random.default_rng(1))
    stacked, gibbs = simulated_members.stacked(task, messages), simulated_members.exponentially_weighted(task, messages)
    for member in (0, 5):
        rows, labels = task.rows[member], task.labels[member] > 0
        received = others(messages, member)
        found = StackedExperts(received).fit(rows, labels)
        assert found.score(task.test_rows, task.test_labels > 0) == pytest.approx(stacked[member], abs=1e-12)
        weighted = ExponentialWeights(received, temperature=3.0).fit(rows, labels)
        np.testing.assert_allclose(weighted.weights_ @ np.delete(messages, member, axis=0), gibbs[member], atol=1e-10)


def test_the_best_single_message_is_one_of_the_others(task):
    messages = simulated_members.chaudhuri_messages(task, 5.0, np.random.default_rng(1))
    for member, chosen in enumerate(simulated_members.best_single(task, messages)):
        losses = np.logaddexp(0, -task.labels[member] * (messages @ task.rows[member].T)).sum(axis=1)
        losses[member] = np.inf
        np.testing.assert_array_equal(chosen, messages[losses.argmin()])


def test_no_convex_combination_fits_own_rows_better(task):
    """Beside the vertices, the middle, and what the other receivers take."""
    messages = simulated_members.chaudhuri_messages(task, 5.0, np.random.default_rng(1))
    found = simulated_members.convex_combination(task, messages)
    tried = [
        simulated_members.best_single(task, messages),
        simulated_members.mirror_averaged(task, messages),
        simulated_members.exponentially_weighted(task, messages),
        (messages.sum(axis=0) - messages) / 7,
    ]

    def losses(parameters):
        return np.logaddexp(0, -task.labels * np.einsum("kti,ki->kt", task.rows, parameters)).mean(axis=1)

    for other in tried:
        assert np.all(losses(found) <= losses(other) + 2e-3)


def test_a_receiver_without_messages_gains_nothing(task):
    alone = simulated_members.own_without_messages(task)
    nothing = np.zeros((8, 10))
    np.testing.assert_allclose(simulated_members.own_and_others(task, nothing), alone, atol=1e-8)


@pytest.mark.parametrize(
    "send",
    [simulated_members.mean_messages, simulated_members.objective_messages, simulated_members.chaudhuri_messages],
)
def test_messages_are_the_same_for_the_same_generator(task, send):
    one, two = (send(task, 0.5, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert one.shape == (8, 10)
