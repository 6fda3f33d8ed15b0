"""What an attacker tries against the noise of private networks."""

from __future__ import annotations

import hmac
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sudare.errors import InvalidParameter, SudareError
from sudare.neural import PrivateMLPClassifier
from sudare.neural import per_row_clipping as network
from sudare.neural import seeded_randomness as sampling
from sudare.neural.dp_sgd import DpSgd, Recipe, check_recipe
from sudare.neural.seeded_randomness import RunSeed
from sudare.neural.training_method_base import Facts
from sudare.privacy import Ledger
from sudare.schema import Label, Number, Schema


def test_make_parameters_undefined_by_one_record(tmp_path):
    """A column whose declared values are beyond all floats of the network: refused before the charge, or every parameter is a number."""
    schema = Schema({"x": Number(0, 1e39, centre=0, scale=1), "y": Label((0, 1))})
    rows = {"x": [1.0] * 49 + [1e39], "y": [0, 1] * 25}
    account = Ledger(tmp_path / "ledger.db").account("rows", epsilon=3.0, delta=1e-3)
    model = PrivateMLPClassifier(
        hidden_layer_sizes=(8,),
        epsilon=1.0,
        delta=1e-4,
        schema=schema,
        encoding="centred",
        max_iter=3,
        sampling_rate=1.0,
        account=account,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            learned = model.fit(rows).parameters_
        except SudareError:
            learned = None
    assert learned is None or np.all(np.isfinite(learned))
    if learned is None:
        assert account.spent().epsilon == 0


def sum_in_clips(parameters, x, targets, clip):
    """What one row adds to the sum of clipped gradients, over the clip."""
    kept = jnp.ones(1, jnp.float32)
    if hasattr(network, "clipped_gradient_sum"):
        total, unit = network.clipped_gradient_sum(parameters, x, targets, kept, clip, "squared"), clip
    else:
        settings = network.StepSettings(1.0, 1.0, 0.0, clip, 1.0, 1.0)
        with jax.enable_x64(True):
            total = network.accumulated(
                None, network.row_parts(parameters, x, targets, None, "squared"), kept, settings
            )
        unit = network.NOISE_DEVIATION
    return np.linalg.norm(np.concatenate([np.ravel(part) for part in jax.tree.leaves(total)]).astype(np.float64)) / unit


@pytest.mark.parametrize("clip", [1e-12, 1e-10])
def test_count_one_row_many_times_by_a_tiny_clip(clip):
    """Slopes so small that their squares vanish, beside the largest inputs: the clip is refused, or the row counts once at most."""
    try:
        check_recipe(Recipe(1, 1.0, clip, 1.0, 0.0, 64))
    except InvalidParameter:
        return
    counted = []
    for exponent in range(-30, 0):
        parameters = ((jnp.zeros((4, 1)), jnp.zeros(1)),)
        x, targets = jnp.full((1, 4), 2.0**30, jnp.float32), jnp.full((1, 1), 10.0**exponent, jnp.float32)
        counted.append(sum_in_clips(parameters, x, targets, clip))
    assert max(counted) <= 1


def test_find_the_noise_among_the_keys_of_64_bits(monkeypatch):
    """Half of what keys are made of, known or searched through, tells nothing of a run's noise: runs whose keys agree in it differ."""

    def known_in_part(key, purpose, context):
        honest = hmac.digest(key, purpose + b"\x00" + context + b"\x01", "sha256")
        return bytes(8) + honest[8:] if len(purpose) else honest

    monkeypatch.setattr(sampling, "derived", known_in_part)
    schema = Schema({"x0": Number(-1, 1), "x1": Number(-1, 1)})
    facts = Facts(40, (2, 3, 2), "cross_entropy", "replace-one", schema, "scaled", (0, 1))
    method = DpSgd(facts, 1.0, 1e-4, Recipe(1, 1.0, 1.0, 0.1, 0.0, 64))
    rows, targets = np.zeros((40, 2), dtype=np.float32), np.eye(2, dtype=np.float32)[np.arange(40) % 2]
    first, second = (method.run(rows, targets, RunSeed(bytes([seed]) * 32)) for seed in (1, 2))
    assert not np.array_equal(first[-1][1], second[-1][1])


def test_have_noise_of_a_known_seed_pass_for_private(tmp_path):
    """A run that was begun with a seed, and goes on from its checkpoint without one: the noise is still the seed's."""
    X = np.random.default_rng(0).uniform(size=(30, 2))
    parameters = {
        "hidden_layer_sizes": (),
        "max_iter": 2,
        "bounds": (0, 1),
        "classes": [0, 1],
        "encoding": "scaled",
        "delta": 1e-3,
    }
    model = PrivateMLPClassifier(checkpoint=tmp_path / "run", **parameters)
    seeded = model.set_params(random_state=3).fit(X, np.arange(30) % 2).parameters_
    try:
        model.set_params(random_state=None).fit(X, np.arange(30) % 2)
    except SudareError:
        return
    assert not model.guarantee_.valid or not np.array_equal(model.parameters_, seeded)
