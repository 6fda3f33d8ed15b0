"""The allow-list of learners: what is listed can be loaded, and nothing else is ever imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sudare.errors import UnknownName
from sudare.privacy.learner_registry import LEARNERS, learner_class, pays_for
from sudare.privacy.private_estimator import PrivateEstimator
from sudare.statistics import PrivateHistogram, PrivateMean, PrivateStandardScaler
from tests.release_kit import refused


def test_listed_learners_are_the_classes_of_that_name():
    assert learner_class("PrivateMean") is PrivateMean
    assert learner_class("PrivateHistogram") is PrivateHistogram
    assert learner_class("PrivateStandardScaler") is PrivateStandardScaler
    assert list(LEARNERS) == sorted(LEARNERS)


def test_a_charge_pays_for_its_own_learner():
    assert pays_for("PrivateMean", "PrivateMean")
    assert not pays_for("PrivateMean", "PrivateHistogram")
    assert not pays_for("", "PrivateMean")
    assert all(pays_for("select_privately", name) for name in LEARNERS)
    assert not pays_for("select_privately", "PatternDictionary")
    assert pays_for("consortium-wide model of 3 members", "PrivateLogisticRegression")
    assert not pays_for("consortium-wide model of 3 members", "PrivateStandardScaler")
    assert pays_for("consortium-wide scaler of 3 members", "PrivateStandardScaler")
    assert not pays_for("pattern dictionary of 3 members", "PrivateLogisticRegression")


@pytest.mark.parametrize("name", LEARNERS)
def test_every_listed_learner_can_be_released_and_loaded(name):
    learner = learner_class(name)
    assert (learner.__name__, learner.__module__) == (name, LEARNERS[name])
    assert issubclass(learner, PrivateEstimator)


@pytest.mark.parametrize("name", ["", "Ledger", "PrivateEstimator", "os", "sudare.statistics.mean", "privatemean"])
def test_others_are_refused(name):
    with refused(
        UnknownName,
        f"No learner of this version is called {name!r}.",
        f"There are: {', '.join(LEARNERS)}.",
    ):
        learner_class(name)


def test_long_or_odd_names_are_not_printed_as_they_are():
    with refused(
        UnknownName,
        f"No learner of this version is called {'x' * 64!r}.",
        f"There are: {', '.join(LEARNERS)}.",
    ):
        learner_class("x" * 65)
    with pytest.raises(UnknownName) as caught:
        learner_class("\x1b[2J")
    assert "\x1b" not in caught.value.problem


def test_looking_a_name_up_imports_nothing():
    """The list names modules as text, so that a file can be refused without importing any learner."""
    program = (
        "import sys, types\n"
        "import importlib.util as util\n"
        "package = types.ModuleType('sudare.privacy'); package.__path__ = []\n"
        "sys.modules['sudare.privacy'] = package\n"
        "spec = util.spec_from_file_location('learners', sys.argv[1]); room = util.module_from_spec(spec)\n"
        "spec.loader.exec_module(room)\n"
        "try:\n    room.learner_class('os')\nexcept LookupError:\n    pass\n"
        "assert 'sudare.statistics.mean' not in sys.modules\n"
    )
    location = sys.modules[learner_class.__module__].__file__
    subprocess.run([sys.executable, "-c", program, location], check=True)
