"""Perturbations of one column: the k rule, what is refused, and the channel that reconstruction relies on."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

from sudare.errors import DataError, InvalidParameter
from sudare.perturbation import (
    LaplacePerturbation,
    RetainReplace,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
)

NUMBERS = (LaplacePerturbation, SquareWave)
CATEGORIES = (RetainReplace, UnaryEncoding, SubsetSelection)
# Chi-square p-values are approximate far out; a thousand times stricter than the false-alarm rate of 1e-6.
SMALLEST_P = 1e-9


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({}, InvalidParameter, "either epsilon or k"),
        ({"epsilon": 1.0, "k": 2, "n_records": 10}, InvalidParameter, "either epsilon or k"),
        ({"k": 2}, InvalidParameter, "among how many records"),
        ({"k": 1, "n_records": 10}, InvalidParameter, "k must be a whole number from 2"),
        ({"k": 2.5, "n_records": 10}, InvalidParameter, "k must be a whole number from 2"),
        ({"k": 10, "n_records": 10}, InvalidParameter, "cannot be reached among 10 records"),
        ({"k": 11, "n_records": 10}, InvalidParameter, "cannot be reached among 10 records"),
        ({"k": 2, "n_records": 1}, InvalidParameter, "k = 2 cannot be reached among 1 record"),
        ({"k": 2, "n_records": True}, InvalidParameter, "n_records must be a whole number"),
        ({"epsilon": 0.0}, InvalidParameter, "must lie from"),
        ({"epsilon": -1.0}, InvalidParameter, "must lie from"),
        ({"epsilon": math.nan}, InvalidParameter, "must lie from"),
        ({"epsilon": math.inf}, InvalidParameter, "must lie from"),
        ({"epsilon": 10**5000}, InvalidParameter, "must lie from"),
        ({"epsilon": 17.0}, InvalidParameter, "must lie from"),
        ({"epsilon": "1"}, InvalidParameter, "must lie from"),
    ],
)
@pytest.mark.parametrize("made", [lambda **options: LaplacePerturbation((0, 1), **options),
                                  lambda **options: RetainReplace(["a", "b"], **options)])  # fmt: skip
def test_impossible_promises_are_refused(made: Any, options: dict[str, Any], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        made(**options)


def test_fewer_values_than_promised_are_refused() -> None:
    perturbation = LaplacePerturbation((0, 10), k=2, n_records=100)
    with pytest.raises(DataError, match="n_records = 100 is more than the 99 values"):
        perturbation.perturb(np.zeros(99))
    assert len(perturbation.perturb(np.zeros(100))) == 100


@pytest.mark.parametrize("kind", [*NUMBERS, *CATEGORIES])
def test_seeds_repeat_and_entropy_does_not(kind: Any) -> None:
    made = kind((0, 10), epsilon=1.0) if kind in NUMBERS else kind(list(range(11)), epsilon=1.0)
    values = np.arange(11).repeat(20)
    first, again = (made.perturb(values, random_state=3) for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, made.perturb(values, random_state=4))
    assert not np.array_equal(made.perturb(values), made.perturb(values))
    assert made.guarantee.notion == "local"
    assert made.guarantee.epsilon == 1.0


def test_descriptions_make_equality() -> None:
    assert LaplacePerturbation((0, 1), epsilon=1.0) == LaplacePerturbation((0.0, 1.0), epsilon=1.0)
    assert LaplacePerturbation((0, 1), epsilon=1.0) != SquareWave((0, 1), epsilon=1.0)
    assert len({RetainReplace(["a", "b"], epsilon=1.0), RetainReplace(["a", "b"], epsilon=1.0)}) == 1
    assert "noise_scale" in repr(LaplacePerturbation((0, 1), epsilon=1.0))


@pytest.mark.parametrize("kind", [*NUMBERS, *CATEGORIES])
def test_noise_and_promise_stay_together(kind: Any) -> None:
    made = kind((0, 10), epsilon=1.0)
    for name in ("epsilon", "k", "bounds" if kind in NUMBERS else "n_records"):
        with pytest.raises(AttributeError, match="make another one"):
            setattr(made, name, 0.5)
    assert copy.deepcopy(made) == pickle.loads(pickle.dumps(made)) == made
