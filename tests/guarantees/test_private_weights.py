"""proofs/aggregation.md, executed: draws of experts lose no more than was paid for, whatever the experts say of whatever record.

A fit is run on a table and on its neighbour, and the summed losses that its draws see are written down. From them follow, without noise: a rational bound on the
privacy loss, which must not exceed ε, and the loss of the law itself. A correct mechanism is never refused. The planted bugs go through the same gate, on pairs that are bad for them, and the law
alone refutes each.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import hypothesis.extra.numpy as arrays
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.audit import distinguish
from sudare.audit.expert_audits import ConstantExpert, law_epsilon
from sudare.experts import PrivateExponentialWeights, private_weights
from sudare.privacy.accounting import exact
from sudare.privacy.discrete_exponential_mechanism import GibbsDraws
from sudare.privacy.noise import SystemNoise
from sudare.schema import Label, Number, Person, Schema
from tests.experts.members import ColumnValue

SEEN = list[tuple[GibbsDraws, list[Fraction]]]
SCHEMA = Schema({"age": Number(0, 1), "ill": Label((0, 1))}, Person("who", 3))


class Probabilities:
    """An expert for three classes whose probabilities stand in three of the columns, whatever these hold."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.classes_ = np.arange(3)

    def predict_proba(self, X: Any) -> Any:
        return np.asarray(X, dtype=float)[:, 3 * self.place : 3 * self.place + 3]


class SchemaSays(ConstantExpert):
    """A constant expert that was fitted with the schema of persons."""

    schema_digest_ = SCHEMA.digest
    encoding = "centred"


def drawn_from(model: PrivateExponentialWeights, X: Any, y: Any) -> tuple[GibbsDraws, list[Fraction]]:
    """The mechanism of a fit, and the losses that its draws see."""
    seen: SEEN = []
    original = GibbsDraws.counts

    def noted(self: GibbsDraws, losses: Any, source: Any) -> Any:
        seen.append((self, list(losses)))
        return original(self, losses, source)

    with patch.object(GibbsDraws, "counts", noted):
        model.fit(X, y)
    return seen[0]


def spent(
    model: PrivateExponentialWeights, first: tuple[Any, Any], second: tuple[Any, Any]
) -> tuple[Fraction | float, float]:
    """A bound on the privacy loss on a pair, exactly, and the loss of the law.

    log P(j) − log P′(j) = r(L′(j) − L(j)) + log(Z′/Z), and Z′/Z is at most e^(r·max(L − L′)).
    """
    (mechanism, before), (other, after) = drawn_from(model, *first), drawn_from(model, *second)
    if (mechanism, len(before)) != (other, len(after)):
        return math.inf, math.inf
    changes = [b - a for a, b in zip(before, after, strict=True)]
    bound = Fraction(mechanism.rate) * mechanism.draws * (max(changes) - min(changes))
    return bound, law_epsilon(mechanism, *(np.array(losses, dtype=float) for losses in (before, after)))


ANYTHING = st.one_of(st.sampled_from([0.0, 1.0, math.nan, math.inf, -math.inf, 1e300]), st.floats(-2, 2))


@given(data=st.data(), draws=st.integers(1, 5))
def test_no_record_moves_the_law_by_more_than_was_paid(data, draws):
    """Two experts for three classes, and for numbers; the replaced record has them answer anything, and the label is any."""
    rows = data.draw(st.integers(1, 4))
    tables = data.draw(arrays.arrays(np.float64, (2, rows, 6), elements=ANYTHING))
    tables[1, 1:] = tables[0, 1:]
    labels = data.draw(arrays.arrays(np.intp, (2, rows), elements=st.integers(0, 2)))
    labels[1, 1:] = labels[0, 1:]
    numbers = data.draw(arrays.arrays(np.float64, (2, rows), elements=st.floats(-5, 5)))
    numbers[1, 1:] = numbers[0, 1:]
    with checks_of_arrays_off():
        for experts, targets in (
            ([Probabilities(0), Probabilities(1)], labels),
            ([ColumnValue(0), ColumnValue(3)], numbers),
        ):
            model = PrivateExponentialWeights(experts, 0.7, draws=draws, target_bounds=(-1.0, 1.0))
            bound, law = spent(model, (tables[0], targets[0]), (tables[1], targets[1]))
            assert bound <= exact(0.7)
            assert law <= 0.7 + 1e-9


def checks_of_arrays_off() -> Any:
    """Own rows that are not finite are refused; here they stand for what experts say of rows that are."""
    return patch.object(private_weights, "checked_matrix", lambda model, X, reset: np.asarray(X))


def worst_experts(count: int = 2) -> list[Any]:
    return [ConstantExpert(int(place == 0)) for place in range(count)]


def worst_pair(rows: int = 1) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """A label that one expert is right about, against one that all others are right about, among rows that make it improbable."""
    table, labels = np.zeros((rows, 1)), np.zeros((2, rows), dtype=np.intp)
    labels[0, 0] = 1
    return (table, labels[0]), (table, labels[1])


@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_constant_is_tight(epsilon, draws):
    bound, law = spent(PrivateExponentialWeights(worst_experts(300), epsilon, draws=draws), *worst_pair())
    assert 0.999 * epsilon <= bound <= exact(epsilon)
    assert 0.9 * epsilon <= law <= epsilon


def persons_pair() -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Three rows of one person change their label."""
    table = pd.DataFrame({"age": [0.5] * 3, "ill": [1] * 3, "who": [7] * 3})
    return (table, None), (table.assign(ill=0), None)


def person_model(**parameters: Any) -> PrivateExponentialWeights:
    experts = [SchemaSays(int(place == 0)) for place in range(300)]
    return PrivateExponentialWeights(experts, 1.0, schema=SCHEMA, **parameters)


def test_a_person_pays_for_all_rows():
    bound, law = spent(person_model(draws=2), *persons_pair())
    assert 0.999 <= bound <= 1
    assert 0.9 <= law <= 1


# Planted bugs: the same gate refuses each


@pytest.mark.parametrize(
    ("bug", "rate"),
    [
        ("one-sided sensitivity", lambda self: self.epsilon / (self.unit_rows * self.draws)),
        ("ε for every draw", lambda self: self.epsilon / (2 * self.unit_rows)),
    ],
)
def test_twin_with_too_large_a_rate(bug, rate, monkeypatch):
    monkeypatch.setattr(GibbsDraws, "rate", property(rate))
    bound, law = spent(PrivateExponentialWeights(worst_experts(300), 1.0, draws=2), *worst_pair())
    assert law > 1.5, bug
    assert bound > 1


def test_twin_that_forgets_a_persons_rows(monkeypatch):
    monkeypatch.setattr(private_weights, "rows_per_unit", lambda declared: 1)
    _, law = spent(person_model(draws=2), *persons_pair())
    assert law > 2


def test_twin_that_does_not_clip(monkeypatch):
    """A target far outside of its bounds, and predictions that are not cut off."""
    monkeypatch.setattr(private_weights.np, "clip", lambda values, *_: values)
    pair = (np.array([[0.0, 10.0]]), [0.0]), (np.array([[10.0, 0.0]]), [0.0])
    _, law = spent(PrivateExponentialWeights([ColumnValue(0), ColumnValue(1)], 1.0, target_bounds=(0.0, 1.0)), *pair)
    assert law > 2


def test_twin_that_leaves_out_who_cannot_be_scored(monkeypatch):
    """An expert that is left out because of what it says of one record tells that record's presence."""

    class LeftOut(PrivateExponentialWeights):
        def _opened(self, X: Any, y: Any) -> Any:
            experts, rows, targets = super()._opened(X, y)
            answers = np.array([model.predict(X) for model in experts.models])
            return experts.without(np.flatnonzero(~np.isfinite(answers).all(axis=1)).tolist()), rows, targets

        def _set_counts(self, counts: Any) -> None:
            super()._set_counts(np.resize(counts, len(self.experts)))

    pair = (np.array([[0.0, 1.0]]), [0.0]), (np.array([[0.0, math.nan]]), [0.0])
    with checks_of_arrays_off():
        assert (
            spent(PrivateExponentialWeights([ColumnValue(0), ColumnValue(1)], 1.0, target_bounds=(0, 1)), *pair)[0] <= 1
        )
        assert spent(LeftOut([ColumnValue(0), ColumnValue(1)], 1.0, target_bounds=(0, 1)), *pair)[1] == math.inf


def outputs(mechanism: GibbsDraws) -> Any:
    source = SystemNoise()

    def drawn(losses: Any, count: int) -> np.ndarray:
        fractions = [Fraction(loss) for loss in losses]
        return np.array([mechanism.counts(fractions, source) for _ in range(count)], dtype=float)

    return drawn


class OneSided(GibbsDraws):
    """Noise for a sensitivity of one half."""

    @property
    def rate(self) -> float:
        return 2 * super().rate


def test_samples_tell_the_bug_from_the_mechanism():
    """At ε = 2 with one draw among four; false alarms once in a million."""
    losses = np.array([0.0, 1.0, 1.0, 1.0]), np.array([1.0, 0.0, 0.0, 0.0])
    good = distinguish(outputs(GibbsDraws(2.0, 1, 1)), losses, 2.0, 3000, batched=True, measured_share=0.7)
    assert good.holds, str(good)
    assert good.tightness > 0.3, str(good)
    bad = distinguish(outputs(OneSided(2.0, 1, 1)), losses, 2.0, 3000, batched=True, measured_share=0.7)
    assert not bad.holds, str(bad)


def test_the_set_of_experts_is_asked_row_by_row():
    """What is said of a row does not depend on the other rows: the losses of a table are the sums of those of its halves."""
    generator = np.random.default_rng(0)
    table, labels = generator.uniform(size=(40, 6)), generator.integers(0, 3, 40)
    model = PrivateExponentialWeights([Probabilities(0), Probabilities(1)], 1.0)
    whole = drawn_from(model, table, labels)[1]
    parts = [drawn_from(model, table[part], labels[part])[1] for part in (slice(0, 15), slice(15, 40))]
    assert whole == [first + second for first, second in zip(*parts, strict=True)]
