"""No method as published leaves as private: every estimator of the papers is refused, or promises a record what was computed for a record."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import sudare.papers
from sudare import Release
from sudare.errors import NotReleasable
from sudare.papers.p000_weak_learners.estimators import ChaudhuriClassifier
from sudare.privacy.learner_registry import LEARNERS

ROOT = Path(sudare.papers.__file__).parent
OUTSIDE = {"BaseEstimator", "NetworkClassifier", "NetworkRegressor"}
# The approaches of paper 002: charged and released at the record's ε, which tests/guarantees/test_every_fit.py compares with its formula.
RECORD_LEVEL = {
    f"{approach}{kind}"
    for approach in ("AnonymizingFirst", "LearningFirst", "AnonymizedLearning")
    for kind in ("Classifier", "Regressor")
}


def published_estimators() -> dict[str, str]:
    """Name to module of every estimator class of the papers that no other one is made from."""
    modules, bases = {}, {}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                modules[node.name] = ".".join(("sudare.papers", *path.relative_to(ROOT).with_suffix("").parts))
                bases[node.name] = {base.id for base in node.bases if isinstance(base, ast.Name)}

    def is_estimator(name: str) -> bool:
        return name in OUTSIDE or any(map(is_estimator, bases.get(name, ())))

    used = set().union(*bases.values())
    return {name: module for name, module in modules.items() if is_estimator(name) and name not in used}


ESTIMATORS = published_estimators()


def test_estimators_of_all_papers_are_found():
    assert {module.split(".")[2][:4] for module in ESTIMATORS.values()} == {"p000", "p001", "p002", "p003", "p004"}


def test_those_that_may_leave_are_those_with_a_promise_to_records():
    assert {name for name, module in LEARNERS.items() if module.startswith("sudare.papers.")} == RECORD_LEVEL
    assert set(ESTIMATORS) > RECORD_LEVEL


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - RECORD_LEVEL))
def test_the_others_can_never_be_released(name):
    published = getattr(import_module(ESTIMATORS[name]), name)
    with pytest.raises(NotReleasable, match="can never be released"):
        Release.of(published.__new__(published))
    assert not hasattr(published, "guarantee_")


def test_neither_can_a_fitted_one_that_carries_a_promise_of_its_own():
    model = ChaudhuriClassifier(1.0).fit([[0.5, 0.0], [0.0, 0.5]], [0, 1])
    model.guarantee_, model.receipt_, model.account = "ε = 1", None, None
    with pytest.raises(NotReleasable, match="can never be released"):
        Release.of(model)
