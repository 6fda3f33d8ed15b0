"""Any JAX function as a private network: digits and generated images, frozen parts, resumed runs, releases without code, refusals."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.base import clone

from benchmarks.network_images import bars
from sudare.errors import DataError, InvalidParameter, ReleaseMalformed
from sudare.neural import PrivateNetwork, checkpoint
from sudare.neural.parameter_trees import nested, read_leaves, tree_of
from sudare.privacy import Ledger, Release
from sudare.schema import Label, Number, Schema
from tests.neural.images import convolutional, convolutional_start, digits

FEW = {"epsilon": 1.0, "delta": 1e-4, "max_iter": 3, "sampling_rate": 0.5}


def line(params, x):
    return x @ params["weights"] + params["bias"]


def start(inputs=3, outputs=2):
    return {"weights": np.zeros((inputs, outputs), np.float32), "bias": np.zeros(outputs, np.float32)}


def rows(count=64, inputs=3):
    X = np.random.default_rng(0).uniform(-1, 1, (count, inputs))
    return X, (X[:, 0] > 0).astype(int)


def of_rows(apply=line, params=None, **options):
    params = start() if params is None else params
    return PrivateNetwork(apply, params, **{**FEW, "bounds": (-1, 1), "classes": [0, 1], **options})


def account_in(folder):
    return Ledger(folder / "ledger.db").account("rows", epsilon=9.0, delta=1e-2)


# What is learned


def test_a_network_with_convolutions_learns_digits():
    """ε = 8 and half of the steps of the rule, for time: .6 of ten classes, where guessing has .1."""
    images, labels = digits()
    model = PrivateNetwork(
        lambda params, x: convolutional(params, x / 16),
        convolutional_start(),
        epsilon=8.0,
        delta=1e-5,
        bounds=(0, 16),
        classes=range(10),
        max_iter=60,
        learning_rate=0.4,
        random_state=0,
    )
    assert model.fit(images[:1400], labels[:1400]).score(images[1400:], labels[1400:]) > 0.6
    chances = model.predict_proba(images[1400:])
    assert chances.shape == (397, 10)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)


@pytest.mark.long
def test_a_network_with_convolutions_learns_generated_images_that_no_line_tells_apart():
    images, labels = bars(6000)
    model = PrivateNetwork(
        convolutional, convolutional_start(classes=4), epsilon=4.0, delta=1e-5, bounds=(0, 1), classes=range(4), random_state=0
    )  # fmt: skip
    assert model.fit(images[:5000], labels[:5000]).score(images[5000:], labels[5000:]) > 0.7


def test_numbers_of_any_shape_and_losses_of_ones_own():
    X, _ = rows(400)
    y = np.stack([X[:, 0], -X[:, 1]], axis=1)
    options = {"classes": None, "target_bounds": (-1, 1), "epsilon": 8.0, "max_iter": 60, "random_state": 0}
    squared = of_rows(**options).fit(X, y)
    assert squared.predict(X).shape == (400, 2)
    assert squared.score(X, y) > 0.5
    own = of_rows(loss=lambda output, target: jnp.sum(jnp.abs(output - target)), **options).fit(X, y)
    assert own.score(X, y) > 0.5


def test_tables_with_a_schema():
    X, labels = rows(200, 2)
    table = pd.DataFrame({"age": 50 + 50 * X[:, 0], "dose": 5 + 5 * X[:, 1], "ill": labels})
    schema = Schema({"age": Number(0, 100), "dose": Number(0, 10), "ill": Label((0, 1))})
    model = PrivateNetwork(
        line, start(2), schema=schema, **{**FEW, "max_iter": 30, "epsilon": 8.0}, random_state=0
    ).fit(table)
    assert model.score(table) > 0.8
    assert clone(model).schema == schema


# What is frozen


def adapted(params, x):
    return jnp.tanh(x @ params["base"]) @ params["adapter"][0] @ params["adapter"][1]


def adapters():
    random = np.random.default_rng(1)
    return {
        "base": random.normal(size=(3, 8)).astype(np.float32),
        "adapter": [random.normal(size=(8, 2)).astype(np.float32), np.zeros((2, 2), np.float32)],
        "version": np.array([3]),
    }


def test_a_public_part_stays_and_does_not_travel(tmp_path):
    """Only what is trained gets noise and leaves; the rest is compared by its digest."""
    params, key = adapters(), Ed25519PrivateKey.generate()
    model = of_rows(adapted, params, trainable=lambda name: name.startswith("adapter"), account=account_in(tmp_path))
    model.fit(*rows())
    assert len(model.parameters_) == 20
    np.testing.assert_array_equal(model.params_["base"], params["base"])
    assert np.any(model.params_["adapter"][1] != 0)
    Release.of(model).save(tmp_path / "adapter.sudare", key)
    received = Release.load(tmp_path / "adapter.sudare", trusted=[key.public_key()]).model().set_params(apply=adapted)
    with pytest.raises(InvalidParameter, match="not with its public part"):
        received.predict(rows()[0])
    with pytest.raises(InvalidParameter, match="not with its public part"):
        received.set_params(params={**params, "base": params["base"] + 1}).predict(rows()[0])
    received.set_params(params=params)
    np.testing.assert_array_equal(received.predict_proba(rows()[0]), model.predict_proba(rows()[0]))


# What leaves


def test_a_release_is_numbers_and_a_declared_tree(tmp_path):
    key = Ed25519PrivateKey.generate()
    images, labels = bars(64)
    model = PrivateNetwork(
        convolutional, convolutional_start(classes=4), bounds=(0, 1), classes=range(4), **FEW, account=account_in(tmp_path)
    )  # fmt: skip
    Release.of(model.fit(images, labels)).save(tmp_path / "model.sudare", key)
    received = Release.load(tmp_path / "model.sudare", trusted=[key.public_key()]).model()
    assert received.apply is None
    with pytest.raises(InvalidParameter, match="did not travel"):
        received.predict(images)
    assert [leaf.name for leaf in received.leaves_][:2] == ["convolutions/0/bias", "convolutions/0/kernel"]
    received.set_params(apply=convolutional)
    assert jax.tree.structure(received.params_) == jax.tree.structure(model.params)
    np.testing.assert_array_equal(received.predict(images), model.predict(images))
    with pytest.raises(DataError, match="the network takes"):
        received.predict(images[:, :4])


@pytest.mark.parametrize(
    "changed",
    [
        {"tree": []},
        {"tree": [{"path": ["weights"], "shape": [3, 2], "dtype": "float32", "trained": True}]},
        {"tree": [{"path": ["a"], "shape": [8], "dtype": "object", "trained": True}]},
        {"tree": [{"path": ["a\x1b"], "shape": [8], "dtype": "float32", "trained": True}]},
        {"tree": [{"path": ["a"], "shape": [4], "dtype": "float32", "trained": True}, {"path": ["a", 0], "shape": [4], "dtype": "float32", "trained": True}]},
        {"input_shape": [4]},
        {"loss": "squared"},
        {"predicts": "number"},
        {"frozen": "0" * 64},
        {"target": [0, "a"]},
    ],
)  # fmt: skip
def test_releases_that_no_network_could_have_written_are_refused(changed):
    content = of_rows(random_state=0).fit(*rows()).release_content()
    PrivateNetwork.check_content(content, None)
    with pytest.raises(ReleaseMalformed):
        PrivateNetwork.check_content(replace(content, parameters={**content.parameters, **changed}), None)


def test_trees_are_declared_by_paths():
    leaves = tree_of({"a": [np.zeros(2, np.float32), np.zeros((), np.float64)], "b": np.arange(3)}, None).leaves
    assert [(leaf.name, leaf.shape, leaf.dtype, leaf.trained) for leaf in leaves] == [
        ("a/0", (2,), "float32", True),
        ("a/1", (), "float32", True),
        ("b", (3,), "int64", False),
    ]
    assert read_leaves([leaf.written() for leaf in leaves]) == leaves
    assert nested(leaves, [1, 2, 3]) == {"a": [1, 2], "b": 3}


# Charges


def test_a_run_that_was_stopped_goes_on_and_is_charged_once(tmp_path):
    account, path = account_in(tmp_path), tmp_path / "run"
    first = of_rows(account=account, checkpoint=path).fit(*rows())
    finished = checkpoint.load(path)
    checkpoint.save(path, replace(finished, state=None))
    again = of_rows(account=account, checkpoint=path).fit(*rows())
    np.testing.assert_array_equal(first.parameters_, again.parameters_)
    for other in ({"apply": lambda params, x: 2 * line(params, x)}, {"params": jax.tree.map(lambda a: a + 1, start())}):
        with pytest.raises(DataError, match="other data or other parameters; nothing was charged"):
            of_rows(account=account, checkpoint=path, **other).fit(*rows())
    assert [entry.kind for entry in account.entries()].count("charge") == 1


def meeting(params, x):
    jax.debug.print("{}", x[0, 0])
    return line(params, x)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"apply": None}, "needs apply and params"),
        ({"apply": 3}, "apply must be a function"),
        ({"loss": "hinge"}, "loss must be"),
        ({"classes": None}, "either classes or target_bounds"),
        ({"classes": [0, 1, 2]}, "the loss needs"),
        ({"apply": lambda params, x: jnp.sum(line(params, x))}, "one row of outputs"),
        ({"loss": lambda output, target: output}, "one number for one row"),
        ({"apply": meeting}, "rows may meet"),
        ({"params": {"weights": "text"}}, "no array"),
        ({"params": {3.5: np.zeros(2, np.float32)}}, "neither text nor a place"),
        ({"trainable": lambda name: False}, "No array of params"),
        ({"params": jax.tree.map(lambda a: a + 2000, start())}, "beyond"),
        ({"bounds": (0, 2.0**31)}, "too large for a network"),
        ({"apply": lambda p, x: (x + p["all"].sum())[:, :2], "params": {"all": np.zeros(3_000_000, np.float32)}}, "too large for exact norms"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_refused_and_costs_nothing(changed, words, tmp_path):
    account = account_in(tmp_path)
    with pytest.raises(InvalidParameter, match=words):
        of_rows(account=account, **changed).fit(*rows())
    assert account.spent().epsilon == 0
