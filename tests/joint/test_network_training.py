"""A network trained by a consortium: the same at every member, charged once, its steps the same bits everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.errors import ImplausibleTotal, InvalidParameter, NotSolved
from sudare.joint import NetworkTerms, consortium_model
from sudare.joint.learning_script import LearningWalk
from sudare.joint.member_rows import MemberTable
from sudare.joint.network_training import NetworkReplay, Progress, start_parameters
from sudare.neural import PrivateMLPClassifier
from sudare.privacy import Ledger
from sudare.privacy.release import Release
from sudare.schema import Person, Schema
from tests.joint.kit import tables
from tests.joint.test_additive_boosting import BINS

pytest.importorskip("jax")


def trained(rows=1000, **changes):
    options = {"epsilon": 2.0, "delta": 1e-5, "method": "network", "schema": BINS, "encoding": "binned"}
    options |= {"hidden_layer_sizes": (8,), "random_state": 0, "hide": "nothing"}
    return consortium_model(tables(members=3, rows=rows), **{**options, **changes})


def test_members_train_one_network_and_it_is_good():
    together = trained()
    models = [together.model(place) for place in range(3)]
    assert isinstance(models[0], PrivateMLPClassifier)
    assert len({model.parameters_.tobytes() for model in models}) == 1
    held_out = tables(members=1, rows=1000, seed=9)[0]
    assert models[0].score(held_out) > 0.8
    # The number of rows, and a sum for every step.
    assert together.sums == models[0].n_iter_ + 1


def test_a_charged_network_can_be_released_and_loaded(tmp_path):
    accounts = [Ledger(tmp_path / f"{place}.db").account("patients", epsilon=3.0, delta=1e-4) for place in range(3)]
    model = trained(rows=30, accounts=accounts, random_state=None).model(2)
    assert {account.spent().epsilon for account in accounts} == {2.0}
    key = Ed25519PrivateKey.generate()
    Release.of(model).save(tmp_path / "model.sudare", key=key)
    loaded = Release.load(tmp_path / "model.sudare", trusted=[key.public_key()])
    held_out = tables(members=1, rows=20, seed=9)[0]
    np.testing.assert_array_equal(loaded.model().predict_proba(held_out), model.predict_proba(held_out))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"delta": 0.0}, "delta"),
        ({"epsilon": 50.0}, "next to nothing"),
        ({"schema": None}, "declared columns"),
        ({"schema": Schema(dict(BINS.columns), Person("id", 2))}, "persons"),
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes"),
        ({"hidden_layer_sizes": "64"}, "hidden_layer_sizes"),
        ({"hidden_layer_sizes": (True,)}, "hidden_layer_sizes"),
        ({"hidden_layer_sizes": (2**16, 2**16)}, "weights and biases"),
    ],
)
def test_what_cannot_hold_is_refused_before_anything_is_charged(change, told):
    with pytest.raises(InvalidParameter, match=told):
        trained(**change)


def test_all_start_from_the_same_public_weights():
    sizes = (5, 4, 3, 2)
    flat = start_parameters(sizes)
    np.testing.assert_array_equal(flat, start_parameters(sizes))
    assert len(flat) == 5 * 4 + 4 + 4 * 3 + 3 + 3 * 2 + 2
    # Biases and the last layer.
    assert not flat[20:24].any()
    assert not flat[36:].any()
    assert 0.05 < np.abs(flat[:20]).mean() * np.sqrt(5) < 1


def test_plans_are_made_of_public_numbers_and_more_members_to_distrust_mean_more_noise():
    few, many = (NetworkTerms(BINS, 1.0, 1e-6, 10, each).plan(10_000) for each in (1, 7))
    assert few.share_multiplier * np.sqrt(9) == pytest.approx(few.noise_multiplier)
    assert many.share_multiplier * np.sqrt(3) == pytest.approx(many.noise_multiplier)
    assert many.noise_scale > few.noise_scale


def heard_in_all(terms, rows, seed=0):
    """The number of rows, and a total for every step."""
    random, size = np.random.default_rng(seed), len(start_parameters(terms.sizes))
    steps = terms.plan(rows).recipe.max_iter
    totals = (random.integers(-(2**36), 2**36, size).view(np.uint64) for _ in range(steps))
    return (np.array([rows], dtype=np.uint64), *totals)


def test_what_is_kept_of_used_totals_leads_to_the_same_network():
    terms = NetworkTerms(BINS, 2.0, 1e-5, 3, 1, (4,))
    heard = heard_in_all(terms, 500)
    at_once, kept = NetworkReplay(terms).after(heard), heard[:1]
    for number, total in enumerate(heard[1:], 2):
        # Started again before every step.
        replay, kept = NetworkReplay(terms), (*kept, total)
        following = replay.after(kept)
        kept = replay.kept(kept)
        if number % 40 == 0:
            same = NetworkReplay(terms).after(heard[:number])
            assert following.parameters.tobytes() == same.parameters.tobytes()
    assert [len(each) for each in kept] == [1, 3 * len(heard[1]) + 1]
    assert following.parameters.tobytes() == at_once.parameters.tobytes()
    with pytest.raises(NotSolved, match="after the training had ended"):
        NetworkReplay(terms).after((*kept, heard[1]))
    with pytest.raises(ImplausibleTotal):
        NetworkReplay(terms).after((heard[0], np.full(len(heard[1]), 2**62, dtype=np.uint64)))
    progress = NetworkReplay(terms)._progress(heard[:9])
    again = Progress.of_words(progress.words)
    assert (again.step, again.velocity.tobytes()) == (8, progress.velocity.tobytes())


def test_the_state_of_a_task_does_not_grow_with_its_steps():
    terms = NetworkTerms(BINS, 2.0, 1e-5, 3, 1, (4,))
    heard, everyone = heard_in_all(terms, 60), (0, 1, 2)
    walk = LearningWalk(terms, MemberTable(tables(members=1, rows=20)[0]), random_state=0)
    state, _ = walk.begun()
    sizes = []
    for total in heard[:4]:
        state, _ = walk.step(state, total, everyone)
        sizes.append(len(state))
    assert len(set(sizes)) == 1
    assert sizes[0] < 25 * len(heard[1]) + 1000
