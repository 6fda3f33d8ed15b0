"""What whoever reads a network by AnonymizedLearning wants to know about one record of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sudare.audit.epsilon_lower_bounds import lower_limit, upper_limit
from sudare.neural.training_method_base import Facts
from sudare.papers.p002_networks.anonymized_learning import update_intervals
from sudare.papers.p002_networks.approaches import AnonymizedLearning
from sudare.papers.p002_networks.estimators import AnonymizedLearningRegressor
from sudare.papers.p002_networks.parameter_intervals import Interval
from sudare.privacy.noise import SystemNoise
from sudare.schema import Number, Schema

LIMIT = 8.0
# Error of a bound on either side; together one in a million.
ERROR = 5e-7


def regression(high: float, rows: int, outputs: int) -> Facts:
    schema = Schema({"x": Number(0, high, centre=0, scale=1)})
    return Facts(rows, (1, outputs), "squared", "replace-one", schema, "centred", (-1.0, 1.0))


@pytest.mark.long
def test_tell_a_record_of_zero_from_one_of_five_quarters_by_the_bias_of_a_regression():
    """Once predictions are beyond every target, slopes of whole rows are between 7 and 7.04 (the threshold), and the noise
    covered just that; a shortened row is far outside. The last update then ends at one side of its interval or at the other.

    A mechanism with ε = 0.5 is accused once in a million runs.
    """
    epochs, runs = 3, 1200
    method = AnonymizedLearning(
        regression(1.25, 2, 1), 0.25, epochs=epochs, batch_size=2, learning_rate=40.0, momentum=0.0, threshold=7.04
    )
    assert method.epsilon == 0.5
    source, targets = SystemNoise(), np.zeros((2, 1), dtype=np.float32)

    def hits(rows):
        """Runs in which weight and bias stood at 8 (or both at −8) before the last update, and that was as large as can be."""
        table, found = np.array(rows, dtype=np.float32)[:, None], 0
        for _ in range(runs):
            ((weights, bias),) = method.fitted(table, targets, source)
            for side in (1, -1):
                # The last rate is a quarter of the first: a step of 10 from 8. The average remembers places by weights 1/4·2/11, 1/4·9/11, 3/4.
                ends = [side * (LIMIT * 9 / 44 + (LIMIT - 10) * 3 / 4) + first * 9 / 220 for first in (LIMIT, -LIMIT)]
                near = min(abs(bias[0] - end) for end in ends) < 0.005
                found += bool(near and side * weights[0, 0] > -1.5)
        return found

    likelier, rarer = hits([0.0, 0.0]), hits([0.0, 1.25])
    loss = np.log(lower_limit(np.array([likelier]), runs, ERROR) / upper_limit(np.array([rarer]), runs, ERROR))
    assert float(loss[0]) <= method.epsilon


@pytest.mark.long
def test_learn_whether_a_record_is_zero_from_a_regression_that_promises_one():
    """From the released weight and bias of whole fits, ε = 1 promised. Where the first of two steps throws the bias to 8 and the
    weight above 0 (or to −8 and below), the second moves the bias of [0, 0] by 10, as far as can be, in two of five such fits;
    that of [0, 1.25], whose second row is shortened to 5.6 where the noise covers 7.01 to 7.04 only, in one of a million.

    A mechanism with ε = 1 is accused once in a million runs.
    """
    schema = Schema({"x": Number(0, 1.25, centre=0, scale=1)})
    options = {"epochs": 2, "batch_size": 2, "learning_rate": 20.0, "momentum": 0.0, "threshold": 7.04}
    model = AnonymizedLearningRegressor(
        (),
        epsilon=0.5,
        delta=0.0,
        schema=schema,
        encoding="centred",
        target_bounds=(-1.0, 1.0),
        **options,
    )
    # The average remembers start, first and second place by weights 1/10·2/11, 9/10·2/11 and 9/11; biases start at 0.
    end = LIMIT * 9 / 55 + (LIMIT - 10) * 9 / 11
    # What the weight comes to at least, if it stood at the limit or did not fall; it starts within four deviations of 0.
    least_weight = end - 4 * np.sqrt(2) / 55

    def hits(rows, runs):
        """Fits whose bias ends where the largest second step from the limit leads, and whose weight stood on the same side."""
        table, targets = np.array(rows)[:, None], np.zeros(2)
        found = 0
        for _ in range(runs):
            weight, bias = model.fit(table, targets).parameters_
            found += bool(abs(abs(bias) + end) < 5e-5 and -np.sign(bias) * weight > least_weight)
        return found

    runs, more_runs = 5000, 10000
    likelier, rarer = hits([0.0, 0.0], runs), hits([0.0, 1.25], more_runs)
    assert model.guarantee_.epsilon == 1.0
    assert model.guarantee_.delta == 0.0

    def measured(error):
        low, high = lower_limit(np.array([likelier]), runs, error), upper_limit(np.array([rarer]), more_runs, error)
        return float(np.log(np.maximum(low / high, 1.0))[0])

    counts = f"{likelier} of {runs} against {rarer} of {more_runs}"
    told = f"measured ε ≥ {measured(ERROR):.2f} ({measured(0.005):.2f} with 99 % confidence): {counts}"
    assert measured(ERROR) <= 1.0, told


def test_find_a_record_whose_shortened_gradient_no_noise_covers():
    """The same, exactly: after such an update the gradient of a record, shortened to the threshold, must be where the noise reaches."""
    threshold, weight, bias = 7.04, 8.0, 8.0
    parameters = ((jnp.full((1, 1), weight), jnp.full(1, bias)),)
    low, high = update_intervals(parameters, Interval(jnp.zeros(1), jnp.full(1, 1.25)), 1.0, threshold, "squared")
    ends = [np.concatenate([np.ravel(part) for part in jax.tree.leaves(end)]) for end in (low, high)]
    for x in (0.0, 0.1, 0.5, 1.25):
        for target in (-1.0, 0.0, 1.0):
            slope = weight * x + bias - target
            gradient = np.array([x * slope, slope])
            shortened = gradient * min(1.0, threshold / np.abs(gradient).max())
            assert np.all(ends[0] <= shortened * (1 + 1e-6))
            assert np.all(shortened * (1 - 1e-6) <= ends[1])


def test_tell_two_tables_apart_by_the_values_that_float_noise_can_take():
    """Noise made of 23 fair bits is −log of a multiple of 2⁻²² (a quarter more or less), so large noise has few values.

    Who subtracts the right sum from a noisy one finds such values, who subtracts another does not. One update of 64 records
    with sum 0, or −threshold had one of them another target. Exact noise makes both look alike: of the 200 or so noise values
    looked at, 8 % are near by chance, and more than 40 % with probability below 1e-20.
    """
    outputs, rows, threshold, rate = 2000, 64, 0.25, 1.0
    facts = regression(1.0, rows, outputs)
    method = AnonymizedLearning(facts, 1.0, batch_size=rows, learning_rate=rate, momentum=0.0, threshold=threshold)
    table, targets = np.zeros((rows, 1), np.float32), np.zeros((rows, outputs), np.float32)
    source, seen = SystemNoise(), []
    for _ in range(60):
        ((_, bias),) = method.fitted(table, targets, source)
        # The average holds nine tenths of the first step, which is the update over rows·threshold.
        seen.append(-bias / (0.9 * rate) * rows * threshold)
    updates = np.concatenate(seen)

    def share_of_possible_values(total):
        noise = np.abs(updates - total) / (2 * threshold)
        multiples = 2.0**22 * np.exp(-noise[(noise > 6.5) & (noise < 12)])
        distance = np.abs(multiples % 1 - 0.5)
        return float(np.mean(np.abs(distance - 0.25) < 0.02)), len(multiples)

    (right, count), (wrong, _) = share_of_possible_values(0.0), share_of_possible_values(-threshold)
    assert count > 50
    assert right < 0.4
    assert wrong < 0.4


def test_search_all_keys_that_one_update_could_have_had():
    """All noise of an update came from one key of 64 bits. Now every noise number has more fresh bits than that to itself."""

    class Counted(SystemNoise):
        drawn = 0

        def words(self, count):
            self.drawn += count
            return super().words(count)

    outputs, rows = 200, 10
    source = Counted()
    method = AnonymizedLearning(regression(1.0, rows, outputs), 1.0, epochs=2, batch_size=5)
    method.fitted(np.zeros((rows, 1), np.float32), np.zeros((rows, outputs), np.float32), source)
    updates, parameters = 4, 2 * outputs
    assert source.drawn - rows - 1 >= updates * parameters


@pytest.mark.parametrize("clipping", ["example", "batch"])
def test_make_a_network_undefined_with_one_record(clipping):
    """A declared value too large for 32-bit floats made every parameter undefined: seen in the release, with probability 1 or 0."""
    facts = regression(1e39, 8, 1)
    method = AnonymizedLearning(facts, 1.0, epochs=2, batch_size=3, clipping=clipping)
    table, targets = np.zeros((8, 1), np.float32), np.zeros((8, 1), np.float32)
    table[0] = np.inf
    for weights, bias in method.fitted(table, targets, SystemNoise()):
        assert np.all(np.isfinite(weights))
        assert np.all(np.isfinite(bias))
