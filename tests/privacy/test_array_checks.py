"""Arrays as people give them: plain ones at once, others by scikit-learn, and messages that tell no value."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sudare.errors import DataError, WrongType
from sudare.privacy.array_checks import as_numbers, checked_matrix
from sudare.statistics import PrivateMean
from tests.release_kit import refused

REMEDY = "Give a table of finite numbers, or a schema. Reshape your data: array.reshape(-1, 1) is one column."


@pytest.mark.parametrize(
    ("kind", "reason", "rows"),
    [
        (DataError, "X cannot be read as a table of numbers.", [["four"]]),
        (DataError, "X cannot be read as a table of numbers.", [[10**400]]),
        (WrongType, "float() argument must be a string or a real number, not 'dict'", [[{}]]),
        (DataError, "Input X contains NaN.", [[float("nan")]]),
        (DataError, "Input X contains infinity or a value too large for dtype('float64').", [[float("inf")]]),
        (DataError, "Complex data not supported", np.array([[1j]])),
        (DataError, "Expected 2D array, got 1D array instead:", [1.0]),
        (DataError, "Expected 2D array, got scalar array instead:", 1.0),
        (DataError, "Found array with dim 3, while dim <= 2 is required by PrivateMean.", [[[1.0]]]),
    ],
)
def test_what_scikit_learn_says_without_values_is_kept(kind, reason, rows):
    with refused(kind, reason, REMEDY):
        checked_matrix(PrivateMean(), rows, reset=True)


def test_checked_matrix_is_a_matrix_of_floats():
    model = PrivateMean()
    checked = checked_matrix(model, [[1, 2], [3, 4]], reset=True)
    assert checked.dtype == np.float64
    assert checked.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert model.n_features_in_ == 2
    with pytest.raises(DataError, match="X has 1 features, but PrivateMean is expecting 2"):
        checked_matrix(model, [[1.0]], reset=False)


def test_a_plain_matrix_is_taken_as_it_is_and_known_as_scikit_learn_knows_it():
    plain, model = np.array([[1.0, 2.0], [3.0, 4.0]]), PrivateMean()
    checked_matrix(model, pd.DataFrame(plain, columns=["a", "b"]), reset=True)
    assert list(model.feature_names_in_) == ["a", "b"]
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        checked_matrix(model, plain, reset=False)
    assert checked_matrix(model, plain, reset=True) is plain
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
    assert checked_matrix(model, plain[:1], reset=False).tolist() == [[1.0, 2.0]]
    with pytest.raises(DataError, match="X has 1 features, but PrivateMean is expecting 2"):
        checked_matrix(model, plain[:, :1], reset=False)
    with pytest.raises(DataError, match="X has 3 features, but PrivateMean is expecting 2"):
        checked_matrix(model, np.ones((2, 3)), reset=False)
    single = np.array([[1.0]])
    assert checked_matrix(model, single, reset=True) is single
    assert checked_matrix(PrivateMean(), plain, reset=False).tolist() == plain.tolist()


@pytest.mark.parametrize(
    "rows",
    [
        np.array([[1.0, np.nan]]),
        np.array([[1.0, np.inf]]),
        np.zeros((0, 2)),
        np.zeros((2, 0)),
        np.zeros(3),
        np.zeros((1, 1, 1)),
        np.array([[1j]]),
        np.array([[1.0, "a"]], dtype=object),
    ],
)
def test_arrays_that_are_no_plain_matrix_are_still_refused(rows):
    with pytest.raises(DataError):
        checked_matrix(PrivateMean(), rows, reset=True)


@pytest.mark.parametrize(
    "rows",
    [
        np.array([[1, 2]]),
        np.array([[1.0, 2.0]], dtype=np.float32),
        np.array([[1.0, 2.0]], dtype=">f8"),
        np.array([[1.0, 2.0]]).view(type("Subclass", (np.ndarray,), {})),
    ],
    ids=["whole numbers", "single precision", "other byte order", "a subclass"],
)
def test_other_arrays_are_made_plain(rows):
    checked = checked_matrix(PrivateMean(), rows, reset=True)
    assert type(checked) is np.ndarray
    assert checked.dtype == np.float64
    assert checked.dtype.isnative
    assert checked.tolist() == [[1.0, 2.0]]


def test_large_numbers_of_both_signs_are_finite_numbers():
    with np.errstate(all="raise"):
        checked = checked_matrix(PrivateMean(), [[1.7e308, -1.7e308]] * 20, reset=True)
    assert np.isfinite(checked).all()


def test_what_is_no_number_is_not_quoted():
    assert as_numbers([[1, "2"]], "X").tolist() == [[1.0, 2.0]]
    with pytest.raises(DataError, match="y cannot be read as an array of numbers") as caught:
        as_numbers(["medicine731"], "y")
    assert caught.value.__context__ is None
