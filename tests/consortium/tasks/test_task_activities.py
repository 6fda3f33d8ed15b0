"""Protocols between members: a dictionary training bit for bit as in one process, and releases exchanged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from sudare.consortium.network.message_dispatch import Activity, MessageDispatcher, drive, settle
from sudare.consortium.network.session import Session
from sudare.consortium.tasks.checkpoints import CheckpointStore
from sudare.consortium.tasks.sum_script_runner import SumGroup, SumRunner, Timeouts
from sudare.dictionary import PatternDictionary
from sudare.dictionary.training import trained
from sudare.errors import InvalidParameter
from sudare.joint.dictionary_script import DictionaryWalk, TrainedDictionary
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth
from tests.consortium.local_transport import LocalHub
from tests.consortium.memory_store import MemoryStore
from tests.consortium.simulated_consortium import (
    IDENTITIES,
    Consortium,
    CrashingStore,
    RoughNetwork,
    names_of,
    pins_of,
)

BOUNDS = (np.full(2, -8.0), np.full(2, 8.0))


def tables(members: int) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    centres = np.array([[-3.0, 0.0], [3.0, 1.0]])
    return [centres[draw.integers(2, size=40)] + draw.normal(size=(40, 2)) for _ in range(members)]


def estimator() -> PatternDictionary:
    return PatternDictionary(2, family="diagonal_gaussian", bounds=BOUNDS, search=False, max_iter=4, tol=1e-3)


def dictionary_walk(members: int) -> Callable[[int], DictionaryWalk]:
    held = tables(members)

    def walk(position: int) -> DictionaryWalk:
        terms, records = estimator().training(held[position], members)
        return DictionaryWalk(lambda: trained(terms), records, members, position=position)

    return walk


def check_same_bits(results: dict[str, object], members: int) -> None:
    in_process = estimator().fit(tables(members))
    assert len(results) == members
    for position, name in enumerate(sorted(results)):
        found = results[name]
        assert isinstance(found, TrainedDictionary)
        assert found.sums == in_process.n_sums_
        assert found.numbers == in_process.n_numbers_
        natural = found.dictionary.natural()
        for key, expected in in_process.patterns_.arrays.items():
            np.testing.assert_array_equal(natural.arrays[key], expected)
        np.testing.assert_array_equal(found.own_part.weights, in_process.weights_[position])


@pytest.mark.long
def test_what_a_member_learns_at_home_is_the_same_as_in_one_process() -> None:
    usual = chapter_truth().records(np.random.default_rng(4), 120)
    strange = np.random.default_rng(9).normal(9.0, 0.5, (60, 4))
    own = [np.vstack([usual[0], strange]), *usual[1:]]
    model = PatternDictionary(4, bounds=(np.full(4, -20.0), np.full(4, 20.0)))

    def walk(position: int) -> DictionaryWalk:
        terms, records = model.training(own[position], 3)
        return DictionaryWalk(lambda: trained(terms), records, 3)

    consortium = Consortium(3, None, walk)
    assert consortium.run()
    expected = clone(model).fit(own).own_parts_
    assert any(home.patterns is not None for home in expected)
    for (_, found), home in zip(sorted(consortium.results().items()), expected, strict=True):
        np.testing.assert_array_equal(found.own_part.pattern_weights, home.pattern_weights)
        assert (found.own_part.patterns is None) == (home.patterns is None)
        if home.patterns is not None:
            for name, values in home.patterns.arrays.items():
                np.testing.assert_array_equal(found.own_part.patterns.arrays[name], values)


def test_a_training_between_members_gives_the_bits_of_one_process() -> None:
    consortium = Consortium(3, None, dictionary_walk(3))
    assert consortium.run()
    check_same_bits(consortium.results(), 3)


def test_the_same_bits_over_a_rough_network_with_members_killed_and_restarted() -> None:
    consortium = Consortium(3, None, dictionary_walk(3), RoughNetwork(1, lost=0.1, repeated=0.2, replayed=0.1))
    for position, name in enumerate(consortium.names):
        consortium.stores[name] = CrashingStore(die_at=frozenset(range(5 + position, 100, 17)))
    assert consortium.run()
    assert sum(consortium.simulation.lives(name) for name in consortium.names) > 6
    check_same_bits(consortium.results(), 3)


@pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "on disk"])
def test_the_same_bits_between_threads(on_disk: bool, tmp_path: Path) -> None:
    members, hub, results, walk = 3, LocalHub(), {}, dictionary_walk(3)

    def member(position: int) -> None:
        identity, name = IDENTITIES[position], names_of(members)[position]
        keys, pins = identity.member_keys(b"test"), pins_of(members)
        dispatcher, transport = MessageDispatcher(Session(name, identity, keys.public, pins)), hub.join(name)
        group = SumGroup(pins.agreement_digest.hex(), names_of(members), name, keys, members, 1)
        store = CheckpointStore(tmp_path / name) if on_disk else MemoryStore()
        runner = SumRunner("joint", group, walk(position), store, dispatcher.session.known_publics, Timeouts())
        dispatcher.start(runner, time.monotonic())
        assert drive(dispatcher, transport, lambda: runner.finished or runner.failure is not None, 120.0)
        assert settle(dispatcher, transport, 30.0)
        assert runner.failure is None
        assert runner.result is not None
        results[name] = runner.result.result
        transport.close()

    threads = [threading.Thread(target=member, args=(position,)) for position in range(members)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_same_bits(results, members)


def test_a_training_needs_public_bounds() -> None:
    with pytest.raises(InvalidParameter, match="public bounds"):
        PatternDictionary(2).training(tables(1)[0], 3)


def test_activities_have_the_form_that_desks_expect() -> None:
    def takes(activity: Activity) -> str:
        return activity.task

    consortium = Consortium(2, None)
    consortium.started(0, 0.0)
    assert takes(consortium.runners[consortium.names[0]]) == "joint"
