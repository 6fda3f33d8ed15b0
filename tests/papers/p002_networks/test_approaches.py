"""The three approaches: prices that follow from public facts, parameters within their bounds, and errors before any charge."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sudare.errors import InvalidParameter
from sudare.neural.training_method_base import Facts, flattened, layer_outputs
from sudare.papers.p002_networks.anonymizing_first import AnonymizingFirst
from sudare.papers.p002_networks.approaches import (
    PRINTED,
    AnonymizedLearning,
    LearningFirst,
    SgdSettings,
    parameters_in,
    record_cost,
)
from sudare.privacy.accounting import exact, gaussian_delta, mu_of_pure
from sudare.privacy.noise import SeededNoise, SystemNoise
from sudare.schema import Category, Number, Schema

SCHEMA = Schema({"age": Number(0, 100, bins=(25, 50, 75)), "smoker": Category(("no", "yes"))})
SIZES = (6, 4, 2)


def facts(**changes) -> Facts:
    given = {
        "rows": 600,
        "sizes": SIZES,
        "loss": "cross_entropy",
        "neighbours": "replace-one",
        "declared": SCHEMA,
        "encoding": "binned",
        "target": (0, 1),
    }
    return Facts(**{**given, **changes})


@pytest.fixture(scope="module")
def table():
    """Older smokers are ill: bins of age, and smoking."""
    generator = np.random.default_rng(0)
    ages, smokers = generator.integers(4, size=600), generator.integers(2, size=600)
    rows = np.concatenate([np.eye(4)[ages], np.eye(2)[smokers]], axis=1).astype(np.float32)
    ill = ((ages >= 2) & (smokers == 1)).astype(int)
    return rows, np.eye(2, dtype=np.float32)[ill], ill


def accuracy(layers, rows, ill):
    return np.mean(np.argmax(layer_outputs(layers, rows.astype(float)), axis=1) == ill)


def test_parameters_are_counted_with_biases():
    assert parameters_in((92, 64, 64, 64, 64, 2)) == 93 * 64 + 3 * 65 * 64 + 65 * 2 == 18_562
    assert parameters_in(SIZES) == 7 * 4 + 5 * 2


def test_a_record_pays_for_every_parameter():
    cost = record_cost(0.1, 19_330, 1, 0.0)
    assert cost.epsilon == 1933
    assert cost.delta == 0
    assert record_cost(0.3, 3, 5, 0.0).epsilon == exact(0.9)


def test_with_a_delta_the_smaller_of_both_sums_counts():
    """Many small parameters compose as Gaussian ones; few large ones do not."""
    many = record_cost(0.001, 20_000, 1, 1e-5)
    assert many.epsilon < 1
    assert many.mu == pytest.approx(math.sqrt(20_000) * mu_of_pure(Fraction(1, 1000)), rel=1e-9)
    assert gaussian_delta(many.mu, float(many.epsilon)) <= 1e-5
    few = record_cost(1.0, 2, 1, 1e-5)
    assert (few.epsilon, few.delta, few.mu) == (2, 0, None)
    # So large that only the plain sum is looked at.
    assert record_cost(100.0, 20_000, 1, 1e-5).epsilon == 2_000_000


@pytest.mark.parametrize("approach", [LearningFirst, AnonymizedLearning])
def test_the_promise_is_to_a_record(approach):
    method = approach(facts(), 0.25, 0.0)
    assert method.epsilon == 0.25 * parameters_in(SIZES)
    assert method.cost.epsilon == exact(method.epsilon)
    assert method.delta == 0


def test_a_parameter_is_promised_its_epsilon_only_where_that_follows():
    """Theorem 4 does not: every step reads all parameters before it."""
    promise = LearningFirst(facts(), 0.25, 0.0).parameter_guarantee
    assert promise.epsilon == 0.25
    assert promise.notion == "parameter"
    assert str(promise).startswith("parameter ε = 0.25")
    assert AnonymizedLearning(facts(), 0.25, 0.0).parameter_guarantee is None


def test_more_epochs_do_not_change_the_price_but_the_noise():
    once, often = AnonymizedLearning(facts(), 1.0), AnonymizedLearning(facts(), 1.0, epochs=4)
    assert once.epsilon == often.epsilon
    assert often.noise_scale == 4 * once.noise_scale == 4 * 2 * once.entry_threshold


def test_noise_of_learning_first_is_that_of_the_whole_range():
    method = LearningFirst(facts(), 0.5)
    assert method.mechanism.dimension == parameters_in(SIZES)
    assert method.noise_scale == pytest.approx(2 * method.limit / 0.5, rel=1e-6)
    assert method.noise_scale >= 2 * method.limit / 0.5


def test_learning_first_releases_parameters_within_the_limit_on_the_grid(table):
    rows, targets, ill = table
    method = LearningFirst(facts(), 0.05, limit=0.5, epochs=2, batch_size=64)
    noisy = flattened(method.fitted(rows, targets, SystemNoise()))
    assert len(noisy) == method.parameters
    assert np.abs(noisy).max() <= 0.5
    np.testing.assert_array_equal(noisy / method.grid, np.rint(noisy / method.grid))
    # Laplace noise of forty times the limit leaves a parameter unclipped with probability 1/40 at most, and half of these 38
    # with less than 2³⁸·40⁻¹⁹ < 1e-18.
    assert method.parameters == 38
    assert np.mean(np.abs(noisy) == 0.5) > 0.5
    quiet = LearningFirst(facts(), 1e6, limit=2.0, epochs=40, batch_size=64).fitted(rows, targets, SeededNoise(0))
    assert accuracy(quiet, rows, ill) > 0.95


@pytest.mark.parametrize("clipping", ["example", "batch"])
def test_anonymized_learning_learns_where_noise_is_small(table, clipping):
    rows, targets, ill = table
    options = {"batch_size": 60, "epochs": 20, "learning_rate": 0.5 if clipping == "example" else 0.02}
    method = AnonymizedLearning(facts(), 1e6, clipping=clipping, **options)
    first, second = (method.fitted(rows, targets, SeededNoise(3)) for _ in range(2))
    np.testing.assert_array_equal(flattened(first), flattened(second))
    assert accuracy(first, rows, ill) > 0.9
    noisy = AnonymizedLearning(facts(), 0.01, clipping=clipping, **options).fitted(rows, targets, SystemNoise())
    assert np.abs(flattened(noisy)).max() <= 8
    assert accuracy(noisy, rows, ill) < 0.9 or np.abs(flattened(noisy) - flattened(first)).max() > 0.1


@pytest.mark.parametrize(
    ("approach", "options"),
    [
        (LearningFirst, {"limit": 2.0}),
        (AnonymizedLearning, {"clipping": "batch", "threshold": 20.0}),
        (AnonymizedLearning, {"clipping": "example", "threshold": 4.0}),
    ],
)
def test_the_printed_descent_is_an_option_of_every_approach(table, approach, options):
    rows, targets, ill = table
    printed = {**PRINTED, "epochs": 60, "learning_rate": 0.3}
    method = approach(facts(), 1e7, **options, **printed)
    assert (method.sgd.batch_size, method.sgd.regularization, method.sgd.descent) == (50, 0.001, "printed")
    assert method.epsilon == 1e7 * parameters_in(SIZES)
    assert accuracy(method.fitted(rows, targets, SeededNoise(2)), rows, ill) > 0.9


def test_printed_rates_and_batches_are_the_defaults_of_the_printed_descent():
    sgd = AnonymizedLearning(facts(), 1.0, descent="printed").sgd
    assert (sgd.batch_size, sgd.learning_rate) == (50, 0.01)
    first = AnonymizingFirst(facts(), 1.0, **PRINTED).sgd
    assert first == LearningFirst(facts(), 1.0, **PRINTED).sgd == SgdSettings(**PRINTED)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_anonymizing_first_learns_from_synthetic_rows_alone(table, delta):
    rows, targets, ill = table
    method = AnonymizingFirst(facts(), 5.0, delta, synthetic_rows=3000, epochs=20)
    assert (method.epsilon, method.delta) == (5.0, delta)
    assert method.cost.epsilon == 5
    assert method.parameter_guarantee is None
    assert accuracy(method.fitted(rows, targets, SeededNoise(1)), rows, ill) > 0.9


def test_microaggregation_reads_numbers(table):
    _, targets, ill = table
    generator = np.random.default_rng(1)
    ages = np.where(ill == 1, generator.uniform(0.6, 1.0, 600), generator.uniform(0.0, 0.4, 600))
    rows = np.concatenate([ages[:, None], np.eye(2)[generator.integers(2, size=600)]], axis=1).astype(np.float32)
    scaled = facts(encoding="scaled", sizes=(3, 4, 2))
    method = AnonymizingFirst(scaled, 20.0, engine="microaggregation", groups=5, synthetic_rows=3000, epochs=20)
    assert accuracy(method.fitted(rows, targets, SeededNoise(1)), rows, ill) > 0.9


@pytest.mark.long
def test_a_number_can_be_the_target(table):
    rows, targets, _ = table
    goal = (2 * targets[:, 1:] - 1) * 0.5
    regression = facts(loss="squared", sizes=(6, 16, 1), target=(0.0, 1.0))
    method = AnonymizingFirst(regression, 50.0, synthetic_rows=3000, epochs=20)
    predicted = layer_outputs(method.fitted(rows, goal, SeededNoise(2)), rows.astype(float))
    assert np.corrcoef(predicted[:, 0], goal[:, 0])[0, 1] > 0.8
    anonymized = AnonymizedLearning(regression, 1e6, epochs=5, batch_size=60)
    assert np.all(np.isfinite(flattened(anonymized.fitted(rows, goal, SeededNoise(2)))))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: LearningFirst(facts(), 1.0, limit=0.3), "power of two"),
        (lambda: LearningFirst(facts(), 1.0, epochs=0), "epochs must be"),
        (lambda: AnonymizedLearning(facts(neighbours="add-remove"), 1.0), "replaced records only"),
        (lambda: AnonymizedLearning(facts(), 1.0, clipping="sum"), "clipping must be"),
        (lambda: AnonymizedLearning(facts(), 1.0, threshold=0.0), "threshold must be a number from"),
        (lambda: AnonymizedLearning(facts(), 1.0, threshold=1e39), "threshold must be a number from"),
        (lambda: AnonymizingFirst(facts(), 1.0, engine="dreams"), "engine must be one of"),
        (lambda: AnonymizingFirst(facts(), 1.0, engine="microaggregation"), "reads rows in the encoding 'scaled'"),
        (lambda: SgdSettings(1, 1, 1.0, regularization=0.1), "of the printed descent"),
        (lambda: SgdSettings(1, 1, 1.0, descent="steep"), "descent must be"),
        (lambda: SgdSettings(1, 1, 1.0, regularization=-1.0, descent="printed"), "regularization must be"),
        (lambda: SgdSettings(1, 1, -1.0), "learning_rate must be a number above 0"),
        (lambda: SgdSettings(1, True, 1.0), "batch_size must be"),
    ],
)
def test_what_cannot_be_done_is_told(wrong, words):
    with pytest.raises(InvalidParameter, match=words):
        wrong()
