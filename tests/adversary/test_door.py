"""Attacks on the one door: exact values, or the best of many draws, that want to leave as what one charge has paid for."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.errors import InvalidParameter, NotCharged, SudareError
from sudare.privacy import Ledger, Release
from sudare.privacy.accounting import pure_cost
from sudare.privacy.candidate_selection import select_privately
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account, Charged
from sudare.privacy.release_content import Beside
from sudare.schema import Category, Number, Schema
from sudare.statistics import PrivateMean
from sudare.synthesis import PrivateSynthesizer

AGES = np.linspace(20.0, 83.0, 64).reshape(-1, 1)
EXACT = float(AGES.mean())


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return Ledger(tmp_path / "ledger.db").account("patients", epsilon=8.0)


@pytest.fixture
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def mean(account: Account | None, **changes: Any) -> PrivateMean:
    return PrivateMean(epsilon=1.0, bounds=(0, 128), account=account, **changes)


def with_exact_mean(release: Release) -> Release:
    """The release with the exact mean in place of the noisy one, on the same grid."""
    content = release.content
    (name,) = content.tensors
    grid = content.grid(name)
    exact = np.round(np.full_like(content.tensors[name], EXACT) / grid) * grid
    return dataclasses.replace(release, content=dataclasses.replace(content, tensors={name: exact}))


def test_write_an_exact_mean_under_the_receipt_of_a_disclosure(account, key, tmp_path):
    forged = with_exact_mean(Release.of(mean(account).fit(AGES)))
    forged = dataclasses.replace(forged, receipt=account.disclose("a mean", "everybody", 1))
    with pytest.raises(NotCharged):
        forged.save(tmp_path / "exact.sudare", key=key)
    assert not (tmp_path / "exact.sudare").exists()


def test_write_an_exact_mean_under_the_receipt_of_the_noisy_one(account, key, tmp_path):
    forged = with_exact_mean(Release.of(mean(account).fit(AGES)))
    with pytest.raises(NotCharged):
        forged.save(tmp_path / "exact.sudare", key=key)
    assert not (tmp_path / "exact.sudare").exists()


def test_write_an_exact_mean_under_a_charge_that_no_fit_has_used(account, key, tmp_path):
    charged = account.charge(Guarantee(1.0), pure_cost(1.0), "PrivateMean")
    forged = dataclasses.replace(with_exact_mean(Release.of(mean(account).fit(AGES))), receipt=charged.receipt)
    with pytest.raises(NotCharged):
        forged.save(tmp_path / "exact.sudare", key=key)
    assert not (tmp_path / "exact.sudare").exists()


def test_write_an_exact_mean_into_the_names_of_versions(account, key, tmp_path):
    release = Release.of(mean(account).fit(AGES))
    forged = dataclasses.replace(release, versions={**release.versions, "sudare": repr(EXACT)})
    with pytest.raises(NotCharged):
        forged.save(tmp_path / "exact.sudare", key=key)
    assert not (tmp_path / "exact.sudare").exists()


def test_write_the_exact_records_beside_a_release(account, key, tmp_path):
    release = Release.of(mean(account).fit(AGES))
    beside = Beside(".parquet", lambda: [AGES.tobytes()])
    forged = dataclasses.replace(release, content=dataclasses.replace(release.content, beside=beside))
    with pytest.raises(NotCharged):
        forged.save(tmp_path / "mean.sudare", key=key)
    assert list(tmp_path.glob("mean.*")) == []


def test_write_the_exact_records_beside_a_release_that_has_their_digest_for_the_name_of_a_column(tmp_path, key):
    """A synthesizer's release says which column is the label, and a column can be called like anything."""
    named = hashlib.sha256(AGES.tobytes()).hexdigest()
    schema = Schema({"age": Number(0, 110), named: Category(("a", "b"))})
    account = Ledger(tmp_path / "other.db").account("patients", epsilon=3.0, delta=1e-5)
    table = {"age": AGES[:, 0], named: np.resize(["a", "b"], len(AGES))}
    model = PrivateSynthesizer(schema, label=named, epsilon=1.0, delta=1e-6, account=account).fit(table)
    release = Release.of(model)
    beside = Beside(".parquet", lambda: [AGES.tobytes()])
    forged = dataclasses.replace(release, content=dataclasses.replace(release.content, beside=beside))
    with pytest.raises(NotCharged):
        forged.save(tmp_path / "rows.sudare", key=key)
    assert list(tmp_path.glob("rows.*")) == []


def test_enter_a_disclosure_in_the_ledger_as_a_release(account):
    receipt = account.disclose("a mean", "everybody", 1)
    with pytest.raises(NotCharged):
        account.ledger.enter_release(receipt, "c" * 64)


def test_enter_an_unused_charge_in_the_ledger_as_a_release(account):
    receipt = account.charge(Guarantee(1.0), pure_cost(1.0), "PrivateMean").receipt
    with pytest.raises(NotCharged):
        account.ledger.enter_release(receipt, "c" * 64)


class Thrifty(Account):
    """An account that pays with a receipt it has already."""

    def __init__(self, account: Account, paid: Charged) -> None:
        super().__init__(account.ledger, account.name)
        self.paid = paid

    def charge(self, *_arguments: Any, **_options: Any) -> Charged:
        return self.paid


def leaves(model: Any, path: Path, key: Ed25519PrivateKey) -> bool:
    """Whether a release of the model could be written."""
    try:
        Release.of(model).save(path, key=key)
    except SudareError:
        return False
    return True


def test_fit_again_and_again_for_one_charge_and_publish_the_draw_nearest_to_the_truth(account, key, tmp_path):
    first = mean(account).fit(AGES)
    paying_once = Thrifty(account, Charged(first.receipt_, first.guarantee_))
    left = []
    for number in range(8):
        try:
            model = mean(paying_once).fit(AGES)
        except NotCharged:
            continue
        left.append(leaves(model, tmp_path / f"{number}.sudare", key))
    assert not any(left)


def test_pay_for_a_learner_with_the_charge_of_something_else(account, key, tmp_path):
    other = Thrifty(account, account.charge(Guarantee(1.0), pure_cost(1.0), "PatternDictionary"))
    try:
        model = mean(other).fit(AGES)
    except NotCharged:
        return
    assert not leaves(model, tmp_path / "mean.sudare", key)


def test_change_the_winner_of_a_selection_while_it_is_scored(account, key, tmp_path):
    def scores(model: Any, rows: Any, _targets: Any) -> Any:
        model.mean_ = np.array([64.0])
        return np.ones(len(rows))

    candidates = [mean(None), mean(None)]
    try:
        chosen = select_privately(candidates, AGES, epsilon=1.0, row_scores=scores, account=account)
    except NotCharged:
        return
    assert not leaves(chosen.model, tmp_path / "mean.sudare", key)


@pytest.mark.parametrize("name", ["plan", "_seal", "release_content", "_guarantee"])
def test_release_a_learner_with_a_method_replaced_in_the_object(account, key, tmp_path, name):
    model: Any = mean(account)
    setattr(model, name, getattr(model, name))
    with pytest.raises(InvalidParameter, match=f"{name} was replaced.*Nothing was charged"):
        model.fit(AGES)
    assert [entry.kind for entry in account.entries()] == ["open"]

    later: Any = mean(account).fit(AGES)
    setattr(later, name, getattr(later, name))
    assert not leaves(later, tmp_path / "later.sudare", key)
    delattr(later, name)
    assert leaves(later, tmp_path / "later.sudare", key)


def test_release_a_derived_learner_that_forgets_its_noise(account, key, tmp_path):
    class Exact(PrivateMean):
        def fit(self, X: Any, y: Any = None) -> Any:
            super().fit(X, y)
            self.mean_ = np.array([64.0])
            self._seal()
            return self

    model: Any = Exact(epsilon=1.0, bounds=(0, 128), account=account).fit(AGES)
    model.__class__ = PrivateMean
    assert not leaves(model, tmp_path / "mean.sudare", key)
