"""The three approaches: prices that follow from public facts, parameters within their bounds, and errors before any charge."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.errors import InvalidParameter
from sudare.neural import PrivateMLPClassifier
from sudare.neural.training_methods import Facts, flattened, layer_outputs
from sudare.neural.training_settings import Course
from sudare.papers.p002_networks.anonymizing_first import AnonymizingFirst
from sudare.papers.p002_networks.approaches import (
    APPROACHES,
    AnonymizedLearning,
    LearningFirst,
    parameters_in,
    planned,
    record_cost,
)
from sudare.privacy import Ledger, Release
from sudare.privacy.accounting import exact, gaussian_delta, mu_of_pure
from sudare.privacy.noise import SeededNoise, SystemNoise
from sudare.schema import Category, Label, Number, Schema

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


@pytest.mark.parametrize("approach", ["learning_first", "anonymized_learning"])
def test_both_guarantees_are_given_and_the_record_is_the_promise(approach):
    route = planned(approach, facts(), 0.25, 0.0)
    assert route.epsilon == 0.25 * parameters_in(SIZES)
    assert route.cost.epsilon == exact(route.epsilon)
    assert route.delta == 0
    assert route.parameter_guarantee.epsilon == 0.25
    assert route.parameter_guarantee.notion == "parameter"
    assert str(route.parameter_guarantee).startswith("parameter ε = 0.25")
    assert route.exact_noise


def test_more_epochs_do_not_change_the_price_but_the_noise():
    once, often = AnonymizedLearning(facts(), 1.0), AnonymizedLearning(facts(), 1.0, epochs=4)
    assert once.epsilon == often.epsilon
    assert often.noise_scale == 4 * once.noise_scale == 4 * 2 * once.entry_threshold


def test_noise_of_learning_first_is_that_of_the_whole_range():
    route = LearningFirst(facts(), 0.5)
    assert route.mechanism.dimension == parameters_in(SIZES)
    assert route.noise_scale == pytest.approx(2 * route.limit / 0.5, rel=1e-6)
    assert route.noise_scale >= 2 * route.limit / 0.5


def test_learning_first_releases_parameters_within_the_limit_on_the_grid(table):
    rows, targets, ill = table
    route = LearningFirst(facts(), 0.05, limit=0.5, epochs=2, batch_rows=64)
    noisy = flattened(route.fitted(rows, targets, SystemNoise()))
    assert len(noisy) == route.parameters
    assert np.abs(noisy).max() <= 0.5
    np.testing.assert_array_equal(noisy / route.grid, np.rint(noisy / route.grid))
    # Laplace noise of forty times the limit leaves a parameter unclipped with probability 1/40 at most, and half of these 38
    # with less than 2³⁸·40⁻¹⁹ < 1e-18.
    assert route.parameters == 38
    assert np.mean(np.abs(noisy) == 0.5) > 0.5
    quiet = LearningFirst(facts(), 1e6, limit=2.0, epochs=40, batch_rows=64).fitted(rows, targets, SeededNoise(0))
    assert accuracy(quiet, rows, ill) > 0.95


@pytest.mark.parametrize("clipping", ["example", "batch"])
def test_anonymized_learning_learns_where_noise_is_small(table, clipping):
    rows, targets, ill = table
    options = {"batch_rows": 60, "epochs": 20, "rate": 0.5 if clipping == "example" else 0.02}
    route = AnonymizedLearning(facts(), 1e6, clipping=clipping, **options)
    first, second = (route.fitted(rows, targets, SeededNoise(3)) for _ in range(2))
    np.testing.assert_array_equal(flattened(first), flattened(second))
    assert accuracy(first, rows, ill) > 0.9
    noisy = AnonymizedLearning(facts(), 0.01, clipping=clipping, **options).fitted(rows, targets, SystemNoise())
    assert np.abs(flattened(noisy)).max() <= 8
    assert accuracy(noisy, rows, ill) < 0.9 or np.abs(flattened(noisy) - flattened(first)).max() > 0.1


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_anonymizing_first_learns_from_synthetic_rows_alone(table, delta):
    rows, targets, ill = table
    route = planned("anonymizing_first", facts(), 5.0, delta, synthetic_rows=3000, epochs=20)
    assert isinstance(route, AnonymizingFirst)
    assert (route.epsilon, route.delta, route.exact_noise) == (5.0, delta, True)
    assert route.cost.epsilon == 5
    assert route.parameter_guarantee is None
    assert accuracy(route.fitted(rows, targets, SeededNoise(1)), rows, ill) > 0.9


def test_microaggregation_reads_numbers(table):
    _, targets, ill = table
    generator = np.random.default_rng(1)
    ages = np.where(ill == 1, generator.uniform(0.6, 1.0, 600), generator.uniform(0.0, 0.4, 600))
    rows = np.concatenate([ages[:, None], np.eye(2)[generator.integers(2, size=600)]], axis=1).astype(np.float32)
    scaled = facts(encoding="scaled", sizes=(3, 4, 2))
    route = AnonymizingFirst(scaled, 20.0, engine="microaggregation", groups=5, synthetic_rows=3000, epochs=20)
    assert accuracy(route.fitted(rows, targets, SeededNoise(1)), rows, ill) > 0.9


def test_a_number_can_be_the_target(table):
    rows, targets, _ = table
    goal = (2 * targets[:, 1:] - 1) * 0.5
    regression = facts(loss="squared", sizes=(6, 16, 1), target=(0.0, 1.0))
    route = AnonymizingFirst(regression, 50.0, synthetic_rows=3000, epochs=20)
    predicted = layer_outputs(route.fitted(rows, goal, SeededNoise(2)), rows.astype(float))
    assert np.corrcoef(predicted[:, 0], goal[:, 0])[0, 1] > 0.8
    anonymized = AnonymizedLearning(regression, 1e6, epochs=5, batch_rows=60)
    assert np.all(np.isfinite(flattened(anonymized.fitted(rows, goal, SeededNoise(2)))))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: planned("hope", facts(), 1.0, 0.0), "approach must be one of"),
        (lambda: planned("learning_first", facts(), 1.0, 0.0, tree=[]), "has no option tree"),
        (lambda: LearningFirst(facts(), 1.0, limit=0.3), "power of two"),
        (lambda: LearningFirst(facts(), 1.0, epochs=0), "epochs must be"),
        (lambda: AnonymizedLearning(facts(neighbours="add-remove"), 1.0), "replaced records only"),
        (lambda: AnonymizedLearning(facts(), 1.0, clipping="sum"), "clipping must be"),
        (lambda: AnonymizedLearning(facts(), 1.0, threshold=0.0), "threshold must be positive"),
        (lambda: AnonymizedLearning(facts(), 1.0, threshold=1e39), "from 2⁻⁶⁰ to 2⁶⁰"),
        (lambda: AnonymizingFirst(facts(), 1.0, engine="dreams"), "engine must be one of"),
        (lambda: AnonymizingFirst(facts(), 1.0, engine="microaggregation"), "reads rows in the encoding 'scaled'"),
        (lambda: Course(1, 1, -1.0), "rate must be positive"),
        (lambda: Course(1, True, 1.0), "batch_rows must be"),
    ],
)
def test_what_cannot_be_done_is_told(wrong, words):
    with pytest.raises(InvalidParameter, match=words):
        wrong()


@pytest.mark.parametrize("approach", APPROACHES)
def test_a_release_tells_what_was_promised_to_whom(approach, tmp_path):
    """Charged at the record's ε before anything is learned; the paper's notion only beside it."""
    generator = np.random.default_rng(2)
    people = pd.DataFrame({"age": generator.uniform(0, 100, 200), "smoker": generator.choice(["no", "yes"], 200)})
    people["ill"] = (people["age"] > 50).astype(int)
    schema = Schema({**SCHEMA.columns, "ill": Label((0, 1))})
    account = Ledger(tmp_path / "ledger.db").account("people", epsilon=100.0)
    options = {"epochs": 1, **({"synthetic_rows": 500} if approach == "anonymizing_first" else {})}
    model = PrivateMLPClassifier(
        approach, (4,), epsilon=1.0, delta=0.0, schema=schema, account=account, approach_options=options
    )
    if approach != "anonymizing_first":
        with pytest.raises(InvalidParameter, match="promises ε = 38"):
            model.fit(people)
        assert account.spent().epsilon == 0
        model.set_params(accept_parameter_guarantee=True)
    model.fit(people)
    promised = 1.0 if approach == "anonymizing_first" else 38.0
    assert account.spent().epsilon == model.guarantee_.epsilon == promised
    key = Ed25519PrivateKey.generate()
    Release.of(model).save(tmp_path / "network.sudare", key=key)
    received = Release.load(tmp_path / "network.sudare", trusted=[key.public_key()])
    np.testing.assert_array_equal(received.model().predict(people), model.predict(people))
    told = dict(received.card().remarks)
    assert ("beside it" in told) == ("accepted" in told) == (approach != "anonymizing_first")
    assert "arithmetic" not in told


def test_there_are_three():
    assert APPROACHES == ("anonymizing_first", "learning_first", "anonymized_learning")
