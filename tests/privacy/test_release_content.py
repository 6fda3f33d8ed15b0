"""What would leave: equal by what it holds, sealed against changes, and on public grids."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace

import numpy as np
import pytest

from sudare.privacy import Guarantee
from sudare.privacy.ledger_chain import Receipt
from sudare.privacy.release_content import Content, check_within, on_grid, sealed
from tests.release_kit import unfit


def content(**changes) -> Content:
    values = {
        "parameters": {"a": 1},
        "tensors": {"b": np.array([1.0, 2.0]), "c": np.array([3])},
        "grids": {"b": 0.5, "c": None},
    }
    return Content(**{**values, **changes})


def test_digest_changes_with_everything_that_would_leave():
    others = [
        content(parameters={"a": 2}),
        content(parameters={"b": 1}),
        content(tensors={"b": np.array([1.0, 2.5]), "c": np.array([3])}),
        content(tensors={"b": np.array([[1.0, 2.0]]), "c": np.array([3])}),
        content(tensors={"b": np.array([1.0, 2.0]).view(np.int64), "c": np.array([3])}),
        content(tensors={"b": np.array([1.0, 2.0]), "c": np.array([4])}),
        content(tensors={"b": np.array([1.0, 2.0])}),
        content(tensors={"b": np.array([1.0, 2.0]), "d": np.array([3])}, grids={"b": 0.5, "d": None}),
        content(grids={"b": 0.25, "c": None}),
        content(grids={"b": 0.5, "c": 1.0}),
    ]
    digests = [other.digest() for other in [content(), *others]]
    assert len(set(digests)) == len(digests)
    assert all(len(digest) == 64 for digest in digests)
    assert all(other != content() for other in others)


def test_contents_are_equal_by_what_they_hold():
    reordered = content(tensors={"c": np.array([3]), "b": np.array([1.0, 2.0])}, grids={"c": None, "b": 0.5})
    assert content() == reordered
    assert len({content(), reordered}) == 1
    assert hash(content()) != hash(content(parameters={"a": 2}))
    assert content() != "content"
    described = b'{"a":1}\0b <f8 (2,) 0.5\0' + np.array([1.0, 2.0]).tobytes() + b"\0c <i8 (1,) None\0"
    assert content().digest() == hashlib.sha256(described + np.array([3]).tobytes()).hexdigest()


def test_grid_of_a_tensor():
    assert content().grid("b") == 0.5
    with unfit("tensor 'c' has no grid"):
        content().grid("c")


def test_kept_content_is_a_copy_that_nobody_can_change():
    original = content()
    kept = original.kept()
    original.tensors["b"][0] = 9.0
    assert kept == content()
    assert kept != original
    with pytest.raises(ValueError, match="read-only"):
        kept.tensors["b"][0] = 9.0


def test_seal_covers_content_promise_receipt_and_schema():
    receipt = Receipt("1" * 32, 2, "a" * 64, "patients")
    arguments = content(), Guarantee(0.5), receipt, "0" * 64
    seals = {sealed(*arguments)}
    for position, other in enumerate(
        (content(parameters={}), Guarantee(0.25), replace(receipt, position=1), None),
    ):
        seals.add(sealed(*[other if index == position else kept for index, kept in enumerate(arguments)]))
    seals.add(sealed(*arguments[:2], None, "0" * 64))
    assert len(seals) == 6
    assert sealed(*arguments) in seals
    assert len(sealed(*arguments)) == 64


# Grids


def test_on_grid():
    values = np.array([0.3, 0.25, -0.3, 0.375, 0.625, 1e300, -1e-300, 0.0, 2.0**60 + 2.0**8])
    rounded = on_grid(values, 0.25)
    assert rounded.tolist() == [0.25, 0.25, -0.25, 0.5, 0.5, 1e300, 0.0, 0.0, 2.0**60 + 2.0**8]
    assert not np.signbit(rounded[[6, 7]]).any()


def test_on_grid_where_steps_overflow():
    assert on_grid(np.array([1e308, -1e308, 5e-324]), 2.0**-1074).tolist() == [1e308, -1e308, 5e-324]
    assert on_grid(np.array([1e308, 1e307]), 2.0**1023).tolist() == [2.0**1023, 0.0]
    assert on_grid(np.array([1.5e308]), 2.0**1023).tolist() == [math.inf]


def test_on_grid_at_the_border_of_exact_steps():
    grid = 2.0**-10
    for value in ((2.0**53 - 1) * grid, 2.0**53 * grid, (2.0**53 + 2) * grid):
        assert on_grid(np.array([value]), grid)[0] == value
    assert on_grid(np.array([2.0**52 + 0.5]), 1.0)[0] == 2.0**52


def test_released_values_lie_within():
    check_within(np.array([0.0, 1.0]), 0.0, np.array([1.0, 1.0]))
    for values in ([0.0, 1.1], [-0.1, 1.0], [math.nan]):
        with unfit("its numbers lie outside of what was declared"):
            check_within(np.array(values), 0.0, 1.0)
