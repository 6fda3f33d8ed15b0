"""One column a record: what leaves of a record is one answer with the whole ε, and which one does not depend on it.

Planted bugs: the other columns are answered as well, and the column depends on the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sudare.audit import distinguish
from sudare.perturbation.epsilon_split import planned_records
from sudare.perturbation.one_column_per_record import ANSWERED, perturbed_block
from sudare.privacy.noise import SystemNoise
from sudare.schema import Category, Number, Schema

EPSILON = 1.0
SCHEMA = Schema({"age": Number(0, 1), "heating": Category((0, 1, 2)), "owner": Category((0, 1))})
FIRST, SECOND = (0.0, 0, 0), (1.0, 2, 1)


def plan_of(methods: dict[str, str] | None = None) -> Any:
    return planned_records(SCHEMA, epsilon=EPSILON, k=None, n_records=100, split=None, methods=methods, one_column=True)


class Counting:
    """Words that are the same in every run, so that two data sets can be compared draw by draw."""

    valid = False

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)

    def words(self, count: int) -> Any:
        return self.generator.integers(0, 2**64, count, dtype=np.uint64)


def columns(record: tuple[Any, ...], count: int) -> list[Any]:
    return [np.full(count, record[0]), *(np.full(count, value, dtype=np.int64) for value in record[1:])]


@pytest.mark.parametrize("methods", [None, {"age": "laplace", "heating": "subset", "owner": "unary"}])
def test_the_answered_column_and_all_others_are_the_same_for_every_record(methods: dict[str, str] | None) -> None:
    """From the same words: which column, and what the others hold, is equal to the last bit; so only one law enters the ratio."""
    plan = plan_of(methods)
    blocks = [perturbed_block(plan.perturbations, columns(record, 600), Counting()) for record in (FIRST, SECOND)]
    np.testing.assert_array_equal(blocks[0][ANSWERED], blocks[1][ANSWERED])
    assert set(blocks[0][ANSWERED]) == {0, 1, 2}
    for number, name in enumerate(SCHEMA.columns):
        for block in blocks:
            assert not block[name][block[ANSWERED] != number].any()
        assert plan.perturbations[name].epsilon == EPSILON


def outputs(block: dict[str, Any]) -> Any:
    """A row a record: indicators of the column that was answered, and each answer beside zeros."""
    answered = block[ANSWERED][:, np.newaxis] == np.arange(3)
    answers = np.column_stack([block[name].astype(np.float64) for name in SCHEMA.columns])
    return np.hstack([answered, answers])


def sampled_rows(record: tuple[Any, ...], count: int) -> Any:
    return outputs(perturbed_block(plan_of().perturbations, columns(record, count), SystemNoise()))


def test_records_as_far_apart_as_can_be_are_within_epsilon() -> None:
    audit = distinguish(sampled_rows, (FIRST, SECOND), EPSILON, 30_000, batched=True)
    assert audit.holds, str(audit)
    assert audit.tightness > 0.4, str(audit)


def every_column(record: tuple[Any, ...], count: int) -> Any:
    """Planted: the columns that were not drawn are answered too."""
    plan, noise = plan_of(), SystemNoise()
    block = perturbed_block(plan.perturbations, columns(record, count), noise)
    own = zip(SCHEMA.columns, columns(record, count), strict=True)
    return outputs({**block, **{name: plan.perturbations[name].drawn(values, noise) for name, values in own}})


def own_choice(record: tuple[Any, ...], count: int) -> Any:
    """Planted: who owns answers another column than who does not."""
    block = perturbed_block(plan_of().perturbations, columns(record, count), SystemNoise())
    chosen = np.where(np.random.default_rng().random(count) < 0.9, record[2], block[ANSWERED])
    return outputs({**block, ANSWERED: chosen})


@pytest.mark.parametrize("bug", [every_column, own_choice])
def test_planted_bugs_are_found(bug: Callable[[tuple[Any, ...], int], Any]) -> None:
    audit = distinguish(bug, (FIRST, SECOND), EPSILON, 30_000, batched=True)
    assert not audit.holds, str(audit)
