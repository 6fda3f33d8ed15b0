"""The approaches of paper 002 as estimators: charged at the record's ε, released with what was promised to whom."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.errors import InvalidParameter
from sudare.papers.p002_networks.estimators import (
    AnonymizedLearningClassifier,
    AnonymizingFirstClassifier,
    LearningFirstClassifier,
)
from sudare.privacy import Ledger, Release
from sudare.schema import Category, Label, Number, Schema

SCHEMA = Schema({"age": Number(0, 100, bins=(25, 50, 75)), "smoker": Category(("no", "yes")), "ill": Label((0, 1))})


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (AnonymizingFirstClassifier, {"synthetic_rows": 500}),
        (LearningFirstClassifier, {}),
        (LearningFirstClassifier, {"neighbours": "add-remove", "expected_rows": 200}),
        (AnonymizedLearningClassifier, {}),
    ],
)
def test_a_release_tells_what_was_promised_to_whom(estimator, options, tmp_path):
    """Charged at the record's ε before anything is learned; the paper's notion only beside it."""
    generator = np.random.default_rng(2)
    people = pd.DataFrame({"age": generator.uniform(0, 100, 200), "smoker": generator.choice(["no", "yes"], 200)})
    people["ill"] = (people["age"] > 50).astype(int)
    relation = options.get("neighbours", "replace-one")
    account = Ledger(tmp_path / "ledger.db").account("people", epsilon=100.0, neighbours=relation)
    model = estimator((4,), epsilon=1.0, delta=0.0, schema=SCHEMA, account=account, epochs=1, **options)
    of_parameters = estimator is not AnonymizingFirstClassifier
    promised = 38.0 if of_parameters else 1.0
    assert model.set_params(accept_weak_guarantee=True).declared_promise(lambda: 200).epsilon == promised
    model.set_params(accept_weak_guarantee=False)
    if of_parameters:
        with pytest.raises(InvalidParameter, match="promises ε = 38"):
            model.fit(people)
        assert account.spent().epsilon == 0
        model.set_params(accept_weak_guarantee=True)
    model.fit(people)
    assert account.spent().epsilon == model.guarantee_.epsilon == promised
    key = Ed25519PrivateKey.generate()
    Release.of(model).save(tmp_path / "network.sudare", key=key)
    received = Release.load(tmp_path / "network.sudare", trusted=[key.public_key()])
    np.testing.assert_array_equal(received.model().predict(people), model.predict(people))
    told = dict(received.card().remarks)
    assert ("accepted" in told) == of_parameters
    assert ("beside it" in told) == (estimator is LearningFirstClassifier)
    assert "arithmetic" not in told
    assert received.model().parameter_guarantee_ == model.parameter_guarantee_


def test_no_epsilon_of_one_parameter_is_told_of_anonymized_learning():
    """Theorem 4 is refuted for several batches (test_theorem_4_does_not_follow), so neither a fit nor a card, repeats it; of files of 0.1.0: tests/neural/test_estimators.py."""
    generator = np.random.default_rng(2)
    X, y = generator.uniform(size=(60, 2)), generator.integers(0, 2, 60)
    given = {"epsilon": 1.0, "delta": 0.0, "bounds": (0, 1), "classes": [0, 1], "accept_weak_guarantee": True}
    during = AnonymizedLearningClassifier((4,), batch_size=15, **given).fit(X, y)
    assert during.parameter_guarantee_ is None
    after = LearningFirstClassifier((4,), epochs=1, **given).fit(X, y)
    assert str(after.parameter_guarantee_) == "parameter ε = 1, δ = 0, replace-one record, towards everyone"
