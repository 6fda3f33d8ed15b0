"""The one door: what goes in is charged first, what comes out is signed, and nothing gets past it."""

from __future__ import annotations

import copy
import errno
import json
import math
import os
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sudare import files as file_room
from sudare.errors import (
    NotCharged,
    NotReleasable,
    ReleaseError,
    ReleaseExists,
    ReleaseMalformed,
    ReleaseUntrusted,
    ReleaseVersion,
    SeededNoiseRefused,
    SourceUnreadable,
)
from sudare.privacy import Account, Guarantee, Ledger, Release, release_parameters
from sudare.privacy import ledger as ledger_room
from sudare.privacy import release as room
from sudare.privacy.accounting import pure_cost
from sudare.privacy.noise import SeededNoise, SystemNoise
from sudare.privacy.release import audited, enter_shown, is_loaded, pass_again, pass_through, read
from sudare.privacy.release_content import Beside, Content, sealed
from sudare.privacy.release_file import LARGEST_FILE_BYTES, fingerprint, parsed
from sudare.statistics import PrivateHistogram, PrivateMean, PrivateStandardScaler
from tests.release_kit import (
    DECLARATIONS,
    KEY,
    LEARNERS,
    OTHER_KEY,
    SCHEMA,
    TRUSTED,
    fitted,
    manifest_of,
    matrix,
    padded,
    plain_json,
    refused,
    signed,
    table,
    taken_apart,
    unfit,
    with_manifest,
)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger") / "ledger.db")


@pytest.fixture(scope="module")
def account(ledger):
    return ledger.account("patients", epsilon=1000.0, delta=0.5)


@pytest.fixture(scope="module")
def files(account, tmp_path_factory):
    """One saved release of every learner, by learner and kind of declaration: the model and the file's bytes."""
    folder = tmp_path_factory.mktemp("releases")
    made = {}
    for learner in LEARNERS:
        for declared in DECLARATIONS:
            model = fitted(learner, declared, account)
            path = folder / f"{learner.__name__}-{declared}.sudare"
            Release.of(model).save(path, KEY)
            made[learner, declared] = model, path
    return made


@pytest.fixture(scope="module")
def mean_file(files):
    return files[PrivateMean, "schema"][1].read_bytes()


def charges(account) -> int:
    return sum(entry.kind == "charge" for entry in account.entries())


# Going in


def shown(account, value=1.0):
    """A charged passage, and what a training that cannot be released has shown for it."""
    content = Content({"rows": 3}, {"means": np.array([value])}, {"means": None})
    return pass_through(account, None, Guarantee(1.0), pure_cost(1.0), "a training"), content


def test_what_a_training_has_shown_is_the_result_of_its_charge(account):
    passage, content = shown(account)
    seal = enter_shown("Training", content, passage, account)
    assert seal == sealed(content, passage.guarantee, passage.receipt, None)
    entered = account.ledger.result_of(passage.receipt)
    assert (entered.learner, entered.content, entered.seal) == ("Training", content.digest(), seal)
    # Of one charge there is one result.
    with pytest.raises(NotCharged):
        enter_shown("Training", shown(account, 2.0)[1], passage, account)
    with pytest.raises(NotReleasable, match="can be released"):
        enter_shown("PrivateMean", content, passage, account)


def test_without_an_account_what_was_shown_is_sealed_and_not_entered(account):
    passage, content = shown(None)
    before = len(account.entries())
    assert enter_shown("Training", content, passage, None) == sealed(content, passage.guarantee, None, None)
    assert len(account.entries()) == before


def test_without_an_account_nothing_is_charged():
    passage = pass_through(None, None, Guarantee(1.0), pure_cost(1.0), "a fit")
    assert isinstance(passage.noise, SystemNoise)
    assert passage.guarantee == Guarantee(1.0)
    assert passage.receipt is None


def test_seeded_noise_voids_the_guarantee():
    passage = pass_through(None, 7, Guarantee(1.0, 1e-6), pure_cost(1.0), "a fit")
    assert isinstance(passage.noise, SeededNoise)
    assert passage.guarantee == Guarantee(1.0, 1e-6, valid=False)
    same = pass_through(None, 7, Guarantee(1.0), pure_cost(1.0), "a fit").noise
    assert same.integer_below(10**9) == passage.noise.integer_below(10**9)


def test_a_void_guarantee_stays_void():
    passage = pass_through(None, None, Guarantee(1.0, valid=False), pure_cost(1.0), "a fit")
    assert passage.guarantee == Guarantee(1.0, valid=False)


def test_with_an_account_the_charge_is_entered_first(account):
    before = charges(account)
    passage = pass_through(account, None, Guarantee(0.5), pure_cost(0.5), "a fit", "for a test")
    assert charges(account) == before + 1
    assert isinstance(passage.noise, SystemNoise)
    assert passage.guarantee == Guarantee(0.5)
    entry = account.entries()[-1]
    assert (entry.position, entry.hash) == (passage.receipt.position, passage.receipt.hash)
    assert (entry.body["what"], entry.body["purpose"]) == ("a fit", "for a test")
    assert pass_through(account, None, Guarantee(0.5), pure_cost(0.5), "a fit").receipt is not None
    assert account.entries()[-1].body["purpose"] == ""


@pytest.mark.parametrize("seed", [0, 7, np.random.RandomState(1)])
def test_account_and_seed_exclude_each_other(account, seed):
    before = account.entries()
    with refused(SeededNoiseRefused, "A fit was given both an account and a random_state."):
        pass_through(account, seed, Guarantee(1.0), pure_cost(1.0), "a fit")
    assert account.entries() == before


def test_what_a_receipt_has_paid_for_is_not_paid_for_again(account):
    first = pass_through(account, None, Guarantee(0.25, neighbours="add-remove"), pure_cost(0.25), "a fit")
    entries = account.entries()
    again = pass_again(account, first.receipt, "a fit")
    assert (again.receipt, again.guarantee) == (first.receipt, first.guarantee)
    assert again.guarantee == Guarantee(0.5)
    assert isinstance(again.noise, SystemNoise)
    assert account.entries() == entries


def test_a_receipt_without_a_charge_gets_no_noise(account, tmp_path):
    """Nor one of another account, or for another purpose."""
    disclosed = account.disclose("sums", towards="the members", numbers=1)
    charged = pass_through(account, None, Guarantee(0.25), pure_cost(0.25), "a fit").receipt
    other = Ledger(tmp_path / "second.db").account("other", epsilon=1.0)
    another = Account(account.ledger, "other")
    for payer, receipt, what in (
        (account, disclosed, "a fit"),
        (account, charged, "another fit"),
        (other, charged, "a fit"),
        (another, charged, "a fit"),
    ):
        with refused(
            NotCharged, "The ledger does not have the charge that this training was begun with.", "Begin a new one."
        ):
            pass_again(payer, receipt, what)


# Coming out: what is refused


def test_unfitted(account):
    with pytest.raises(NotFittedError):
        Release.of(PrivateMean(bounds=(0, 1), account=account))


def uncharged() -> refused:
    return refused(
        NotCharged, "this model was fitted without an account, so it may not leave.", "Refit with account=…."
    )


@pytest.mark.parametrize("learner", LEARNERS)
def test_uncharged(learner, account):
    model = fitted(learner, "bounds", None)
    with uncharged():
        Release.of(model)
    with uncharged():
        Release.of(model.set_params(account=account))
    with uncharged():
        Release.of(fitted(learner, "bounds", None, random_state=0))


@pytest.mark.parametrize("instead", [None, "patients"])
def test_account_removed(account, instead):
    model = fitted(PrivateMean, "bounds", account).set_params(account=instead)
    with uncharged():
        Release.of(model)


CHANGES = {
    "mean": lambda model: setattr(model, "mean_", model.mean_ + model.grid_),
    "one number of the mean": lambda model: model.mean_.__setitem__(0, model.mean_[0] + model.grid_),
    "grid": lambda model: setattr(model, "grid_", model.grid_ / 2),
    "rows": lambda model: setattr(model, "n_rows_", 41),
    "epsilon": lambda model: model.set_params(epsilon=0.1),
    "delta": lambda model: model.set_params(delta=1e-9),
    "declared": lambda model: setattr(model, "declared_", SCHEMA),
    "guarantee": lambda model: setattr(model, "guarantee_", Guarantee(0.01)),
    "receipt": lambda model: setattr(model, "receipt_", replace(model.receipt_, position=1)),
    "schema digest": lambda model: setattr(model, "schema_digest_", "0" * 64),
    "seal": lambda model: setattr(model, "seal_", None),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_after_fit(account, change):
    model = fitted(PrivateMean, "bounds", account)
    Release.of(model)
    change(model)
    with refused(
        NotCharged,
        "This PrivateMean was changed after it was fitted.",
        "Refit it with account=…; release it as it is.",
    ):
        Release.of(model)


def test_other_parameters_do_not_reach_the_release(account, tmp_path):
    """What is not part of the content may be set; it changes nothing of what leaves."""
    model = fitted(PrivateMean, "schema", account)
    before = Release.of(model).manifest()
    assert Release.of(model.set_params(schema=None, bounds=(0, 1))).manifest() == before


def test_changes_after_release_of_do_not_leave(account, tmp_path):
    model = fitted(PrivateMean, "bounds", account)
    release = Release.of(model)
    honest = model.mean_.copy()
    model.mean_[:] = 0.123
    release.save(tmp_path / "a", KEY)
    assert np.array_equal(Release.load(tmp_path / "a", TRUSTED).content.tensors["mean"], honest)


def test_searches_and_pipelines(account):
    search = GridSearchCV(PrivateMean(bounds=(-1, 3), account=account), {"epsilon": [0.1, 0.2]}, cv=2).fit(matrix())
    with refused(NotReleasable, "A GridSearchCV can never be released."):
        Release.of(search)
    with refused(NotReleasable, "A Pipeline can never be released."):
        Release.of(make_pipeline(PrivateStandardScaler(bounds=(-1, 3), account=account)).fit(matrix()))
    with refused(NotReleasable, "A ndarray can never be released."):
        Release.of(matrix())


def test_subclasses_and_namesakes(account):
    class Child(PrivateMean):
        pass

    namesake = type("PrivateMean", (PrivateMean,), {})
    disguised = type("PrivateMean", (PrivateMean,), {"__module__": PrivateMean.__module__})
    for learner, name in ((Child, "Child"), (namesake, "PrivateMean"), (disguised, "PrivateMean")):
        with refused(NotReleasable, f"A {name} can never be released."):
            Release.of(fitted(learner, "bounds", account))


def test_void_guarantee(account):
    model = fitted(PrivateMean, "bounds", account)
    model.guarantee_ = replace(model.guarantee_, valid=False)
    model.seal_ = sealed(model.release_content(), model.guarantee_, model.receipt_, model.schema_digest_)
    with refused(
        NotReleasable,
        "The model's guarantee is not valid: something in it came from the data.",
        "Declare bounds and classes, then refit.",
    ):
        Release.of(model)


def not_entered() -> refused:
    return refused(
        NotCharged, "The ledger does not have the charge that this model's receipt names.", "Refit with account=…."
    )


def test_receipt_of_another_ledger(account, tmp_path):
    elsewhere = Ledger(tmp_path / "other.db").account("patients", epsilon=10.0)
    model = fitted(PrivateMean, "bounds", account).set_params(account=elsewhere)
    with not_entered():
        Release.of(model)


def test_ledger_that_was_rolled_back(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    account = ledger.account("a", epsilon=2.0)
    shutil.copy(tmp_path / "ledger.db", tmp_path / "older.db")
    model = fitted(PrivateMean, "bounds", account)
    shutil.copy(tmp_path / "older.db", tmp_path / "ledger.db")
    with not_entered():
        Release.of(model)


def test_promise_that_was_not_charged(account):
    """Even a learner that seals itself again cannot promise more than the ledger says, or leave on another entry."""
    model = fitted(PrivateMean, "bounds", account)
    model.guarantee_ = Guarantee(0.001)
    with refused(NotCharged, "The ledger does not have the charge that this fit's receipt names."):
        model._seal()
    with not_entered():
        Release.of(model)
    disclosed = fitted(PrivateMean, "bounds", account)
    disclosed.receipt_ = account.disclose("sums", "everyone", 3)
    with refused(NotCharged, "The charge behind this fit is not one for a PrivateMean.", "Refit with account=…."):
        disclosed._seal()
    with not_entered():
        Release.of(disclosed)
    other = fitted(PrivateMean, "bounds", account)
    other.receipt_ = fitted(PrivateHistogram, "bounds", account).receipt_
    with refused(NotCharged, "The charge behind this fit is not one for a PrivateMean.", "Refit with account=…."):
        other._seal()


def not_a_result() -> refused:
    return refused(
        NotCharged,
        "The ledger knows no charge whose result this is.",
        "Release a model as it was fitted. One of an earlier version of sudare must be fitted again.",
    )


def test_a_charge_without_a_result_releases_nothing(account, monkeypatch, tmp_path):
    """As those have that an earlier version entered."""
    with monkeypatch.context() as earlier:
        earlier.setattr("sudare.privacy.private_estimator.enter_result", lambda _model: None)
        model = fitted(PrivateMean, "bounds", account)
    with not_a_result():
        Release.of(model)


@pytest.mark.parametrize(
    "changes",
    [
        {"learner": "PrivateHistogram"},
        {"schema_digest": "a" * 64},
        {"guarantee": Guarantee(0.001)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_changed_release_is_not_saved(release, account, tmp_path, changes):
    before = account.entries()
    with pytest.raises((NotCharged, ReleaseMalformed)):
        replace(release, **changes).save(tmp_path / "a", KEY)
    with pytest.raises(NotCharged):
        replace(release, **changes)._check_is_result(account.ledger)
    assert account.entries() == before
    assert leftovers(tmp_path) == []


def test_only_a_ledger_itself_enters_a_release(release, tmp_path):
    class Lenient(Ledger):
        def enter_release(self, *_arguments):
            pass

    lenient = Lenient(tmp_path / "lenient.db")
    for ledger in (lenient, None):
        with refused(
            NotReleasable,
            "This release was loaded from a file.",
            "Pass the file itself on; its signature goes with it.",
        ):
            replace(release, _ledger=ledger).save(tmp_path / "a", KEY)


def test_versions_are_those_installed(release, account, tmp_path):
    before = account.entries()
    with refused(
        NotCharged, "This release names other versions than those installed.", "Make it with Release.of(model)."
    ):
        replace(release, versions={"opendp": "1", "sudare": "1"}).save(tmp_path / "a", KEY)
    assert account.entries() == before


def test_what_was_changed_after_it_was_loaded_is_not_as_loaded(release, tmp_path):
    release.save(tmp_path / "a", KEY)

    def changed(change):
        loaded = Release.load(tmp_path / "a", TRUSTED)
        assert is_loaded(loaded)
        assert is_loaded(copy.deepcopy(loaded))
        change(loaded)
        return loaded

    class DerivedContent(Content):
        """May answer anything."""

    def with_other_numbers(loaded):
        name, tensor = next(iter(loaded.content.tensors.items()))
        loaded.content.tensors[name] = -tensor

    changes = (
        with_other_numbers,
        lambda loaded: loaded.content.parameters.update(epsilon=0.25),
        lambda loaded: loaded.content.grids.update({next(iter(loaded.content.grids)): 0.5}),
        lambda loaded: object.__setattr__(loaded, "guarantee", Guarantee(0.001)),
        lambda loaded: object.__setattr__(loaded, "digest", "0" * 64),
        lambda loaded: object.__setattr__(loaded, "schema_digest", "0" * 64),
        lambda loaded: object.__setattr__(loaded, "model", lambda: None),
        lambda loaded: object.__setattr__(loaded.content, "digest", release.content.digest),
        lambda loaded: object.__setattr__(loaded, "content", DerivedContent(**vars(loaded.content))),
        lambda loaded: object.__setattr__(loaded, "_loaded", None),
    )
    for change in changes:
        assert not is_loaded(changed(change))
    assert not is_loaded(release)
    assert not is_loaded("a")
    # The arrays themselves are read-only.
    with pytest.raises(ValueError, match="read-only"):
        next(iter(changed(id).content.tensors.values()))[...] = 0


def test_an_owner_can_check_what_left(release, account, tmp_path):
    release.save(tmp_path / "a", KEY)
    loaded = Release.load(tmp_path / "a", [KEY.public_key()])
    loaded.check_entered(account.ledger)
    other = Release.of(fitted(PrivateMean, "bounds", account))
    for wrong in (
        replace(loaded, content=other.content),
        replace(loaded, guarantee=Guarantee(0.001)),
        other,
    ):
        with refused(
            NotCharged,
            "The ledger did not enter this content as the release of a charge for this guarantee.",
            "Find out who made the file: the ledger's owner did not, or not in this way.",
        ):
            wrong.check_entered(account.ledger)


def test_other_account_of_the_same_ledger(account, ledger):
    """The receipt says who paid; which account the parameter names by now does not matter."""
    other = ledger.account("other", epsilon=1.0)
    model = fitted(PrivateMean, "bounds", account).set_params(account=other)
    assert Release.of(model).receipt.account == "patients"


# Coming out: what leaves


@pytest.mark.parametrize("declared", DECLARATIONS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_round_trip(files, learner, declared, account):
    model, path = files[learner, declared]
    made, loaded = Release.of(model), Release.load(path, TRUSTED)
    assert loaded == replace(made, digest=loaded.digest, signed_by=loaded.signed_by)
    assert loaded.digest == taken_apart(path.read_bytes())[0]["__metadata__"]["digest"]
    assert loaded.signed_by == fingerprint(KEY.public_key().public_bytes_raw())
    assert (made.digest, made.signed_by) == (None, None)
    assert loaded.manifest() == made.manifest() == manifest_of(path.read_bytes())
    assert loaded.learner == learner.__name__
    assert loaded.guarantee == model.guarantee_
    assert loaded.receipt == model.receipt_
    assert account.ledger.contains(loaded.receipt)
    account.ledger.verify([loaded.receipt])


@pytest.mark.parametrize("declared", DECLARATIONS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_safetensors_and_json_read_the_same(files, learner, declared):
    _, path = files[learner, declared]
    loaded, tensors = Release.load(path, TRUSTED), safetensors.numpy.load_file(path)
    assert tensors.keys() == loaded.content.tensors.keys()
    for name, tensor in tensors.items():
        assert tensor.dtype == loaded.content.tensors[name].dtype
        assert np.array_equal(tensor, loaded.content.tensors[name])


def test_the_whole_manifest(files):
    model, path = files[PrivateMean, "person"]
    from importlib.metadata import version

    grid = math.log2(model.grid_)
    assert grid.is_integer()
    assert manifest_of(path.read_bytes()) == {
        "format": 1,
        "learner": "PrivateMean",
        "parameters": {
            "epsilon": 1.0,
            "delta": 0.0,
            "neighbours": "replace-one",
            "rows": 40,
            "columns": [
                ["age", {"kind": "number", "low": 0, "high": 110, "unit": "years", "missing": 55}],
                ["bmi", {"kind": "number", "low": 10, "high": 60, "bins": [18.5, 25, 30]}],
            ],
            "person": {"column": "patient", "most_rows": 2},
            "noise": "infinity-norm",
        },
        "schema": model.schema.digest,
        "guarantee": {
            "epsilon": 1.0,
            "delta": 0.0,
            "neighbours": "replace-one",
            "unit": "person",
            "notion": "central",
            "towards": "everyone",
            "valid": True,
        },
        "receipt": {
            "ledger": model.receipt_.ledger,
            "position": model.receipt_.position,
            "hash": model.receipt_.hash,
            "account": "patients",
        },
        "versions": {"opendp": version("opendp"), "sudare": version("sudare")},
        "tensors": {"mean": int(grid)},
    }
    assert manifest_of(files[PrivateHistogram, "bounds"][1].read_bytes())["tensors"] == {"counts": None}
    assert manifest_of(files[PrivateHistogram, "bounds"][1].read_bytes())["schema"] is None


@pytest.mark.parametrize("declared", DECLARATIONS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_loaded_model_does_what_the_original_does(files, learner, declared, account):
    original, path = files[learner, declared]
    model = Release.load(path, TRUSTED).model()
    rows = matrix(seed=1) if declared == "bounds" else table(seed=1)
    assert type(model) is learner
    assert model.score(rows) == original.score(rows)
    if learner is PrivateStandardScaler:
        assert np.array_equal(model.transform(rows), original.transform(rows))
        assert model.get_feature_names_out().tolist() == original.get_feature_names_out().tolist()
        assert np.array_equal(model.bounds_, original.bounds_)
    assert (model.guarantee_, model.receipt_) == (original.guarantee_, original.receipt_)
    assert (model.n_rows_, model.n_features_in_) == (original.n_rows_, original.n_features_in_)
    assert model.account is None
    assert model.seal_ is None
    assert not hasattr(model, "clipped_")


@pytest.mark.parametrize("learner", LEARNERS)
def test_loaded_model_cannot_be_released_without_a_charge(files, learner, account):
    model = Release.load(files[learner, "bounds"][1], TRUSTED).model()
    with uncharged():
        Release.of(model)
    model.set_params(account=account)
    with refused(
        NotCharged,
        f"This {learner.__name__} was changed after it was fitted.",
        "Refit it with account=…; release it as it is.",
    ):
        Release.of(model)
    before = charges(account)
    assert Release.of(model.fit(matrix())).receipt.position == account.entries()[-2].position
    assert charges(account) == before + 1


def test_loaded_model_takes_frames_by_position_as_the_original_did(account, tmp_path):
    frame = pd.DataFrame(matrix(), columns=["a", "b", "c"])
    original = PrivateStandardScaler(bounds=(-1, 3), account=account).fit(frame)
    Release.of(original).save(tmp_path / "a", KEY)
    model = Release.load(tmp_path / "a", TRUSTED).model()
    with pytest.warns(UserWarning, match="X has feature names"):
        assert np.array_equal(model.transform(frame), original.transform(frame))


def test_loaded_release_is_not_saved_again(files, tmp_path):
    loaded = Release.load(files[PrivateMean, "bounds"][1], TRUSTED)
    with refused(
        NotReleasable, "This release was loaded from a file.", "Pass the file itself on; its signature goes with it."
    ):
        loaded.save(tmp_path / "again", KEY)
    assert list(tmp_path.iterdir()) == []


def test_release_does_not_show_its_ledger(files):
    assert "ledger.db" not in repr(Release.of(files[PrivateMean, "bounds"][0]))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_add_remove_on_a_replace_one_account(delta, account, tmp_path):
    model = PrivateHistogram(0.5, delta, bounds=(-1, 3), neighbours="add-remove", account=account).fit(matrix())
    Release.of(model).save(tmp_path / "a", KEY)
    loaded = Release.load(tmp_path / "a", TRUSTED)
    assert loaded.guarantee == model.guarantee_
    assert loaded.guarantee.neighbours == "replace-one"
    assert loaded.guarantee.epsilon == pytest.approx(1.0)
    assert delta <= loaded.guarantee.delta <= (1 + math.exp(0.5)) * delta * (1 + 1e-9)
    assert loaded.manifest()["parameters"]["rows"] is None
    assert loaded.model().neighbours == "add-remove"
    assert loaded.model().score(matrix()) == model.score(matrix())


# Entering what leaves


def test_release_is_entered_by_its_content(account, tmp_path):
    release = Release.of(fitted(PrivateMean, "bounds", account))
    before = len(account.entries())
    release.save(tmp_path / "a", KEY)
    release.save(tmp_path / "b", KEY)
    entries = account.entries()[before:]
    assert [entry.kind for entry in entries] == ["release"]
    assert entries[0].body == {"charge": release.receipt.position, "content": release.content.digest()}
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_one_charge_pays_for_one_content(account, tmp_path):
    model = fitted(PrivateMean, "bounds", account)
    Release.of(model).save(tmp_path / "a", KEY)
    model.mean_ = np.where(model.mean_ > 1, model.mean_ - model.grid_, model.mean_ + model.grid_)
    with refused(
        NotCharged,
        "The charge behind this fit has paid for another result already.",
        "Release that one, or refit: every fit is charged.",
    ):
        model._seal()
    with not_a_result():
        Release.of(model).save(tmp_path / "b", KEY)
    assert not (tmp_path / "b").exists()


def test_what_nobody_could_read_is_neither_entered_nor_written(account, tmp_path, monkeypatch):
    release = Release.of(fitted(PrivateMean, "bounds", account))
    before = account.entries()
    monkeypatch.setattr(Release, "manifest", lambda self: {"format": 1})
    with unfit("its manifest has other fields than it should"):
        release.save(tmp_path / "a", KEY)
    assert account.entries() == before
    assert list(tmp_path.iterdir()) == []


def test_wrong_key_enters_nothing(account, tmp_path):
    release = Release.of(fitted(PrivateMean, "bounds", account))
    before = account.entries()
    with pytest.raises(ValueError, match="key is not an Ed25519 private key"):
        release.save(tmp_path / "a", KEY.public_key())
    assert account.entries() == before


# Writing


def leftovers(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def release(account):
    return Release.of(fitted(PrivateMean, "bounds", account))


def test_a_release_names_a_file_beside_it_only_where_its_learner_has_one_and_it_holds_no_numbers(release, monkeypatch):
    without_numbers = replace(release, content=replace(release.content, tensors={}))
    assert without_numbers.beside_digest is None
    monkeypatch.setattr(PrivateMean, "beside_digest", "neighbours")
    assert without_numbers.beside_digest == "replace-one"
    assert release.beside_digest is None


def test_a_file_beside_a_release_is_there_before_it(release, account, tmp_path, monkeypatch):
    """And after the entry: a reader finds both files or no release."""
    entered = len(account.entries())

    def pieces():
        assert account.entries()[entered].kind == "release"
        assert leftovers(tmp_path) == [] or all(name.startswith(".sudare") for name in leftovers(tmp_path))
        yield from (b"some ", b"rows")

    with_rows = replace(release, content=replace(release.content, beside=Beside(".rows", pieces)))
    with refused(NotCharged, "The file beside this release is not the one it names."):
        with_rows.save(tmp_path / "a.sudare", KEY)
    assert leftovers(tmp_path) == []
    # No parameter of this learner names a file, so one is taken to, and not another one.
    monkeypatch.setattr(PrivateMean, "beside_digest", "neighbours")
    with refused(NotCharged, "The file beside this release is not the one it names."):
        with_rows.save(tmp_path / "a.sudare", KEY)
    hashed = SimpleNamespace(hexdigest=lambda: "replace-one", update=lambda _piece: None)
    monkeypatch.setattr("sudare.privacy.release.hashlib", SimpleNamespace(sha256=lambda: hashed))
    with_rows.save(tmp_path / "a.sudare", KEY)
    assert leftovers(tmp_path) == ["a.rows", "a.sudare"]
    assert (tmp_path / "a.rows").read_bytes() == b"some rows"
    entries = account.entries()
    with refused(ReleaseExists, "'a.rows' exists already."):
        (tmp_path / "a.sudare").unlink()
        with_rows.save(tmp_path / "a.sudare", KEY)
    assert account.entries() == entries
    assert leftovers(tmp_path) == ["a.rows"]


def test_never_over_another_file(release, account, tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = account.entries()
    for name in leftovers(tmp_path):
        with refused(ReleaseExists, f"'{name}' exists already."):
            release.save(tmp_path / name, KEY)
    assert (tmp_path / "file").read_bytes() == b"mine"
    assert not (tmp_path / "nowhere").exists()
    assert account.entries() == before


def test_file_that_appears_meanwhile_stays(release, tmp_path, monkeypatch):
    original = os.link

    def race(source, target):
        target.write_bytes(b"faster")
        original(source, target)

    monkeypatch.setattr(os, "link", race)
    with refused(ReleaseExists, "'a' exists already."):
        release.save(tmp_path / "a", KEY)
    assert (tmp_path / "a").read_bytes() == b"faster"
    assert leftovers(tmp_path) == ["a"]


class HalfWritten:
    """A stream that writes half and fails."""

    def __init__(self, *arguments):
        self._stream = open(*arguments)  # noqa: SIM115 - closed by __exit__

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._stream.close()

    def write(self, data):
        self._stream.write(data[: len(data) // 2])
        self._stream.flush()
        no_space()


def no_space(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def failing_on_call(function, number):
    calls = iter(range(1, 100))
    return lambda *arguments: no_space() if next(calls) == number else function(*arguments)


def test_fault_list_names_every_call_of_the_operating_system():
    import inspect
    import re

    source = "".join(
        inspect.getsource(part)
        for part in (
            file_room.write_new,
            file_room._written_beside,
            file_room._remove,
            file_room._make_name_durable,
            file_room.opened_folder,
        )
    )
    called = set(re.findall(r"(?:os|tempfile)\.[a-z]+(?=\()|(?<![\w.])open(?=\()|stream\.write", source))
    assert called == {
        "tempfile.mkstemp",
        "open",
        "stream.write",
        "os.fchmod",
        "os.fsync",
        "os.link",
        "os.unlink",
        "os.open",
        "os.close",
    }


FAULTS = {
    "mkstemp": lambda patch: patch.setattr(file_room.tempfile, "mkstemp", lambda **_: no_space()),
    "open": lambda patch: patch.setattr(file_room, "open", no_space, raising=False),
    "write": lambda patch: patch.setattr(file_room, "open", HalfWritten, raising=False),
    "fchmod": lambda patch: patch.setattr(os, "fchmod", no_space),
    "fsync of the file": lambda patch: patch.setattr(os, "fsync", failing_on_call(os.fsync, 1)),
    "link": lambda patch: patch.setattr(os, "link", no_space),
    "open of the folder": lambda patch: patch.setattr(os, "open", failing_on_call(os.open, 2)),
    "fsync of the folder": lambda patch: patch.setattr(os, "fsync", failing_on_call(os.fsync, 2)),
    "close of the folder": lambda patch: patch.setattr(os, "close", failing_on_call(os.close, 1)),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_whole_or_not_at_all(account, tmp_path, fault):
    release = Release.of(fitted(PrivateMean, "bounds", account))
    # Entered already, so that the ledger needs no file any more and the fault hits the release's own.
    release.save(tmp_path / "first", KEY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "enter_release", lambda *_: None)
        fault(patch)
        with refused(
            ReleaseError, "'a' cannot be written (No space left on device).", "Check folder, rights and space."
        ):
            release.save(tmp_path / "a", KEY)
    assert leftovers(tmp_path) == ["first"]
    release.save(tmp_path / "a", KEY)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "first").read_bytes()


def test_litter_that_cannot_be_removed_does_not_undo_a_release(release, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "unlink", failing_on_call(os.unlink, 1))
    release.save(tmp_path / "a", KEY)
    assert Release.load(tmp_path / "a", TRUSTED).receipt == release.receipt
    litter = [name for name in leftovers(tmp_path) if name != "a"]
    assert len(litter) == 1
    assert litter[0].startswith(".sudare-")
    assert litter[0].endswith(".partial")


def test_interruption_leaves_nothing(release, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", interrupt)
    with pytest.raises(KeyboardInterrupt):
        release.save(tmp_path / "a", KEY)
    assert leftovers(tmp_path) == []


def test_folder_that_is_not_there(release, tmp_path):
    with refused(ReleaseError, "'a' cannot be written (No such file or directory).", "Check folder, rights and space."):
        release.save(tmp_path / "nowhere" / "a", KEY)


def test_relative_paths(release, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release.save("a", KEY)
    assert Release.load("a", TRUSTED).receipt == release.receipt


def test_file_and_folder_are_forced_to_disk(release, tmp_path, monkeypatch):
    """First the whole file, then the name: a power cut leaves a whole file or none."""
    forced = []
    original = os.fsync

    def recorded(handle):
        path = os.readlink(f"/proc/self/fd/{handle}")
        size = os.path.getsize(path)
        forced.append((path, size, (tmp_path / "a").exists()))
        original(handle)

    monkeypatch.setattr(Ledger, "enter_release", lambda *_: None)
    monkeypatch.setattr(os, "fsync", recorded)
    release.save(tmp_path / "a", KEY)
    (partial, size, existed), (folder, _, exists) = forced
    assert partial.endswith(".partial")
    assert (size, existed) == ((tmp_path / "a").stat().st_size, False)
    assert (folder, exists) == (str(tmp_path), True)


# Reading


def test_paths_that_cannot_be_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with refused(SourceUnreadable, "'pipe' is not a file.", "Give the path of a release."):
        read(tmp_path / "pipe")
    with refused(SourceUnreadable, "'zero' is not a file.", "Give the path of a release."):
        Release.load("/dev/zero", TRUSTED)
    with refused(SourceUnreadable, f"'{tmp_path.name}' cannot be read (Is a directory).", "Check the path."):
        read(tmp_path)
    with refused(SourceUnreadable, "'a' cannot be read (No such file or directory).", "Check the path."):
        read(str(tmp_path / "a"))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with refused(SourceUnreadable, "'loop' cannot be read (Too many levels of symbolic links).", "Check the path."):
        read(tmp_path / "loop")


def test_links_to_files_are_followed(files, tmp_path):
    path = files[PrivateMean, "bounds"][1]
    (tmp_path / "link").symlink_to(path)
    assert Release.load(tmp_path / "link", TRUSTED) == Release.load(path, TRUSTED)


def test_size_is_looked_at_before_reading(tmp_path, monkeypatch):
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate(10 * 2**40)
    with refused(ReleaseMalformed, "The file is larger than 64 MiB."):
        read(path)
    os.truncate(path, LARGEST_FILE_BYTES + 1)
    with refused(ReleaseMalformed, "The file is larger than 64 MiB."):
        read(path)
    monkeypatch.setattr(room, "parsed", len)
    os.truncate(path, LARGEST_FILE_BYTES)
    assert read(path) == LARGEST_FILE_BYTES


def test_file_that_grows_while_it_is_read(tmp_path, monkeypatch):
    """The size says little about a file that somebody still writes: no more than the limit and one byte is read."""
    path = tmp_path / "a"
    with open(path, "wb") as file:
        file.truncate(LARGEST_FILE_BYTES + 100)
    status = os.stat(tmp_path / "a")
    shrunk = os.stat_result([*status[:6], 100, *status[7:]])
    monkeypatch.setattr(room.os, "fstat", lambda handle: shrunk)
    monkeypatch.setattr(room, "parsed", len)
    assert read(path) == LARGEST_FILE_BYTES + 1


def test_untrusted_and_damaged_files(files, tmp_path):
    path = files[PrivateMean, "bounds"][1]
    with refused(
        ReleaseUntrusted,
        "The file is signed by a key that is not trusted "
        f"(fingerprint {fingerprint(KEY.public_key().public_bytes_raw())}).",
    ):
        Release.load(path, [OTHER_KEY.public_key()])
    file = path.read_bytes()
    signature = taken_apart(file)[0]["__metadata__"]["signature"].encode()
    for digit in (b"0", b"f"):
        position = file.index(signature) + 5
        changed = file[:position] + digit + file[position + 1 :]
        if changed != file:
            (tmp_path / "a").write_bytes(changed)
            with refused(ReleaseUntrusted, "The file's signature does not match its bytes."):
                Release.load(tmp_path / "a", TRUSTED)


def test_signature_is_checked_before_anything_is_believed(mean_file, tmp_path):
    manifest = {**manifest_of(mean_file), "format": 2}
    fields, data = taken_apart(mean_file)
    fields["__metadata__"]["manifest"] = plain_json(manifest)
    (tmp_path / "a").write_bytes(signed(padded(plain_json(fields)), data, OTHER_KEY))
    with pytest.raises(ReleaseUntrusted):
        Release.load(tmp_path / "a", TRUSTED)


# The audit of a manifest


def changed(file: bytes, *path_and_value) -> bytes:
    """The file with one field of the manifest replaced, signed anew."""
    *path, last, value = path_and_value
    manifest = manifest_of(file)
    place = manifest
    for key in path:
        place = place[key]
    place[last] = value
    return with_manifest(file, manifest)


def audit(file: bytes) -> Release:
    return audited(parsed(file))


def test_signed_again_without_a_change(mean_file):
    assert with_manifest(mean_file, manifest_of(mean_file)) == mean_file
    assert audit(mean_file).manifest() == manifest_of(mean_file)


@pytest.mark.parametrize("format_", [0, 2, 10**9, -1, "1", None, True, 1.0, [1], {}])
def test_unknown_formats(mean_file, format_):
    with refused(ReleaseVersion, "The file has a format other than 1."):
        audit(changed(mean_file, "format", format_))


def test_unknown_format_with_unknown_fields(mean_file):
    with refused(ReleaseVersion, "The file has a format other than 1."):
        audit(with_manifest(mean_file, {"format": 2, "whatever": []}))


@pytest.mark.parametrize(
    "field", ["format", "guarantee", "learner", "parameters", "receipt", "schema", "tensors", "versions"]
)
def test_fields_of_the_manifest(mean_file, field):
    manifest = manifest_of(mean_file)
    del manifest[field]
    with unfit("its manifest has other fields than it should"):
        audit(with_manifest(mean_file, manifest))
    with unfit("its manifest has other fields than it should"):
        audit(with_manifest(mean_file, {**manifest_of(mean_file), field + "s": 1}))


@pytest.mark.parametrize("name", [None, 1, ["PrivateMean"], {}, True])
def test_learner_without_a_name(mean_file, name):
    with unfit("its learner has no name"):
        audit(changed(mean_file, "learner", name))


@pytest.mark.parametrize("name", ["", "os", "PrivateEstimator", "privateMean", "x" * 1000])
def test_unknown_learners(mean_file, name):
    with refused(ReleaseVersion, f"No learner of this version is called {name[:64]!r}."):
        audit(changed(mean_file, "learner", name))


@pytest.mark.parametrize("digest", ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64, 0, True, ["0"] * 64, "٠" * 64])
def test_schema_digest(mean_file, digest):
    with unfit("its schema is not 64 hexadecimal digits"):
        audit(changed(mean_file, "schema", digest))
    assert audit(changed(mean_file, "schema", "0123456789abcdef" * 4)).schema_digest == "0123456789abcdef" * 4


@pytest.mark.parametrize("tensors", [None, [], "mean", {}, {"mean": -20, "other": -20}, {"other": -20}, ["mean"]])
def test_tensors_of_the_manifest(mean_file, tensors):
    with unfit("its tensors are not those its manifest names"):
        audit(changed(mean_file, "tensors", tensors))


@pytest.mark.parametrize("exponent", [0.5, "-20", True, [1], -1075, 1024, 10**30, -20.0])
def test_grids_of_the_manifest(mean_file, exponent):
    with unfit("a grid is not a power of two"):
        audit(changed(mean_file, "tensors", "mean", exponent))


def test_finest_and_coarsest_grid(mean_file):
    assert audit(changed(mean_file, "tensors", "mean", -1074)).content.grid("mean") == 2.0**-1074
    with unfit("tensor 'mean' is not on its public grid"):
        audit(changed(mean_file, "tensors", "mean", 1023))


def test_grids_of_the_wrong_kind(files, mean_file):
    with unfit("tensor 'mean' has a grid of the wrong kind"):
        audit(changed(mean_file, "tensors", "mean", None))
    with unfit("tensor 'counts' has a grid of the wrong kind"):
        audit(changed(files[PrivateHistogram, "bounds"][1].read_bytes(), "tensors", "counts", 0))


def with_tensor(file: bytes, tensor: np.ndarray) -> bytes:
    fields, _ = taken_apart(file)
    dtype = {"f": "F64", "i": "I64", "u": "U8"}[tensor.dtype.kind]
    name = next(name for name in fields if name != "__metadata__")
    fields[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [0, tensor.nbytes]}
    return signed(padded(plain_json(fields)), tensor.tobytes())


def test_numbers_off_their_grid(mean_file):
    grid = audit(mean_file).content.grid("mean")
    on = np.array([50.0, 30.0])
    assert audit(with_tensor(mean_file, on)).content.tensors["mean"].tolist() == [50.0, 30.0]
    for off in (on + grid / 2, on + [grid / 4, 0], np.array([-0.0, 30.0]), on + [0, 2.0**-48]):
        with unfit("tensor 'mean' is not on its public grid"):
            audit(with_tensor(mean_file, off))


def test_every_tensor_is_looked_at():
    numbers = np.array([0.5, 0.3])
    for tensors in ({"a": np.array([1]), "b": numbers}, {"a": np.array([0.5]), "b": numbers}):
        grids = {"a": None if tensors["a"].dtype.kind == "i" else 0.25, "b": 0.25}
        with unfit("tensor 'b' is not on its public grid"):
            room._check_grids(Content({}, tensors, grids))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite(mean_file, value):
    with unfit("its numbers lie outside of what was declared"):
        audit(with_tensor(mean_file, np.array([50.0, value])))


def test_finite_is_checked_whatever_the_learner_says(mean_file, monkeypatch):
    monkeypatch.setattr(PrivateMean, "check_numbers", lambda *_: None)
    for value in (math.nan, math.inf):
        with unfit("tensor 'mean' is not on its public grid"):
            audit(with_tensor(mean_file, np.array([50.0, value])))


@pytest.mark.parametrize(
    "tensor",
    [
        np.array([50.0]),
        np.array([50.0, 30.0, 20.0]),
        np.array([[50.0, 30.0]]),
        np.array([50, 30]),
        np.array([50, 30], dtype=np.uint8),
        np.array(50.0),
    ],
)
def test_shapes_and_types_of_the_learner(mean_file, tensor):
    with unfit("its tensors do not have the shapes and types of its learner"):
        audit(with_tensor(mean_file, tensor))


@pytest.mark.parametrize("value", [None, [], "text", 1, True])
@pytest.mark.parametrize("field", ["parameters", "guarantee", "receipt", "versions"])
def test_fields_that_are_lists_of_fields(mean_file, field, value):
    with unfit(f"its '{field}' is not a list of fields"):
        audit(changed(mean_file, field, value))


GUARANTEES = {
    "epsilon": [1, "1", None, True, "inf", 0.0, -1.0, 5e-324],
    "delta": [0, "0", None, False, 1.0, -1e-9],
    "neighbours": [1, None, "add-remove", "replace", ["replace-one"]],
    "unit": [1, None, "person", "people"],
    "notion": [1, None, "local", "parameter", "none", "central "],
    "towards": [1, None, "somebody", ""],
    "valid": [1, None, "true", False],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in GUARANTEES.items() for value in values]
)
def test_guarantees_that_cannot_be(mean_file, field, value):
    with pytest.raises(ReleaseMalformed) as caught:
        audit(changed(mean_file, "guarantee", field, value))
    assert caught.value.problem.startswith("This is not a release sudare can use: ")
    assert not caught.value.problem.endswith("..")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epsilon", 0.5),
        ("epsilon", 1.0 + 1e-8),
        ("delta", 1e-6),
        ("unit", "person"),
        ("towards", "members"),
        ("valid", False),
        ("notion", "local"),
    ],
)
def test_guarantee_that_is_not_the_learners(mean_file, field, value):
    with unfit("its guarantee is not the one that its parameters give"):
        audit(changed(mean_file, "guarantee", field, value))


def test_guarantee_in_a_relation_that_does_not_follow(mean_file):
    with unfit("A replace-one guarantee says nothing about add/remove neighbours"):
        audit(changed(mean_file, "guarantee", "neighbours", "add-remove"))


def test_guarantee_with_a_field_too_many(mean_file):
    with unfit("A guarantee lacks a field or has one too many"):
        audit(changed(mean_file, "guarantee", "comment", ""))


def test_limits_of_converted_guarantees(account, tmp_path):
    """2ε to nine digits, and δ from that of the learner to (1 + e^ε)δ: what a ledger can state for two steps."""
    model = PrivateHistogram(0.5, 1e-6, bounds=(-1, 3), neighbours="add-remove", account=account).fit(matrix())
    Release.of(model).save(tmp_path / "a", KEY)
    file = (tmp_path / "a").read_bytes()
    most = (1 + math.exp(0.5)) * 1e-6
    for field, value in (
        ("delta", 1e-6),
        ("delta", most),
        ("delta", most * (1 + 5e-10)),
        ("epsilon", 1.0 + 5e-10),
        ("epsilon", 1.0 - 5e-10),
    ):
        assert getattr(audit(changed(file, "guarantee", field, value)).guarantee, field) == value
    for field, value in (
        ("delta", math.nextafter(1e-6, 0)),
        ("delta", 0.0),
        ("delta", most * (1 + 2e-9)),
        ("epsilon", 1.0 + 2e-9),
        ("epsilon", 1.0 - 2e-9),
        ("epsilon", 0.5),
    ):
        with unfit("its guarantee is not the one that its parameters give"):
            audit(changed(file, "guarantee", field, value))


RECEIPTS = {
    "position": ("its receipt has a field of the wrong type", [0, -1, 2**63, 1.0, "1", None, True]),
    "account": ("its receipt has a field of the wrong type", ["", "x" * 257, None, 1, ["a"]]),
    "ledger": ("its ledger is not 32 hexadecimal digits", ["", "0" * 31, "0" * 33, "X" * 32, None, 1]),
    "hash": ("its hash is not 64 hexadecimal digits", ["", "0" * 63, "0" * 65, "G" * 64, None, 1]),
}


@pytest.mark.parametrize(
    ("field", "reason", "value"),
    [(field, reason, value) for field, (reason, values) in RECEIPTS.items() for value in values],
)
def test_receipts_that_cannot_be(mean_file, field, reason, value):
    with unfit(reason):
        audit(changed(mean_file, "receipt", field, value))


def test_receipts_that_can_be(mean_file):
    for field, value in (("position", 1), ("position", 2**63 - 1), ("account", "x" * 256), ("account", "x")):
        assert getattr(audit(changed(mean_file, "receipt", field, value)).receipt, field) == value


def test_receipt_with_other_fields(mean_file):
    with unfit("its receipt has other fields than it should"):
        audit(changed(mean_file, "receipt", "time", ""))
    manifest = manifest_of(mean_file)
    del manifest["receipt"]["hash"]
    with unfit("its receipt has other fields than it should"):
        audit(with_manifest(mean_file, manifest))


@pytest.mark.parametrize(
    "versions",
    [
        {},
        {"opendp": "1"},
        {"opendp": "1", "sudare": 1},
        {"opendp": "1", "sudare": "1" * 65},
        {"opendp": "1", "sudare": ""},
    ]
    + [
        {"opendp": "1", "sudare": text}
        for text in ("0.1.0, approved", "strong", "1.0 ", "١.0", "1..0", "1+" + 17 * "a")
    ]
    + [{"opendp": "1", "sudare": "1", "numpy": "2"}, {"opendp": None, "sudare": "1"}],
)
def test_versions_that_cannot_be(mean_file, versions):
    with unfit("its library versions are not written as versions are"):
        audit(changed(mean_file, "versions", versions))


def test_versions_that_can_be(mean_file):
    versions = {"opendp": "1" * 64, "sudare": "1.0rc1.post2.dev3+g12ab34c.d2026"}
    assert audit(changed(mean_file, "versions", versions)).versions == versions


# Nothing but the payload depends on the data


class FixedNoise(SeededNoise):
    """The same noise every time, taken for the system's."""

    valid = True

    def __init__(self):
        super().__init__(0)


def neighbours(declared: str) -> tuple[object, object]:
    """Two tables that differ in one row: one within the bounds and one far outside, so that clip counts differ too."""
    if declared == "bounds":
        first = matrix()
        second = first.copy()
        second[7] = [1e9, -1e9, 1.0]
        return first, second
    rows = table()
    other = rows.copy()
    other.loc[7, ["age", "bmi", "smoker", "ill"]] = [1e9, -5.0, None, 1]
    return rows, other


def release_files(learner, declared: str, folder, monkeypatch, **parameters) -> list[bytes]:
    """The files released from two neighbouring tables under the same noise, clock and ledger."""
    monkeypatch.setattr(room, "SystemNoise", FixedNoise)
    monkeypatch.setattr(ledger_room, "_now", lambda: "2026-01-01T00:00:00+00:00")
    monkeypatch.setattr(ledger_room, "_nonce", lambda: "0" * 32)
    Ledger(folder / "original.db").account("patients", epsilon=3.0, delta=1e-3)
    made = []
    for number, rows in enumerate(neighbours(declared)):
        shutil.copy(folder / "original.db", folder / f"{number}.db")
        account = Account(Ledger(folder / f"{number}.db"), "patients")
        model = learner(account=account, **DECLARATIONS[declared], **parameters).fit(rows)
        Release.of(model).save(folder / f"{number}.sudare", KEY)
        made.append((folder / f"{number}.sudare").read_bytes())
    return made


def without_payload(file: bytes) -> bytes:
    """The file with its tensors, digest and signature blanked out: everything that must not depend on the data."""
    fields, data = taken_apart(file)
    for name in ("digest", "signature"):
        file = file.replace(fields["__metadata__"][name].encode(), b"0" * len(fields["__metadata__"][name]))
    return file[: len(file) - len(data)] + bytes(len(data))


@pytest.mark.parametrize("parameters", [{}, {"delta": 1e-5}], ids=["pure", "gaussian"])
@pytest.mark.parametrize("declared", DECLARATIONS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_only_the_payload_depends_on_the_data(learner, declared, parameters, tmp_path, monkeypatch):
    first, second = release_files(learner, declared, tmp_path, monkeypatch, **parameters)
    assert first != second
    assert without_payload(first) == without_payload(second)


def test_only_the_payload_of_an_add_remove_histogram_depends_on_the_data(tmp_path, monkeypatch):
    """Not even the number of rows: add/remove neighbours differ in it."""
    tables = [matrix(40), matrix(41)]
    monkeypatch.setitem(globals(), "neighbours", lambda declared: tables)
    first, second = release_files(PrivateHistogram, "bounds", tmp_path, monkeypatch, neighbours="add-remove")
    assert first != second
    assert without_payload(first) == without_payload(second)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_planted_leak_is_caught(learner, tmp_path, monkeypatch):
    original = learner._content

    def leaking(self, *arguments):
        honest = original(self, *arguments)
        return replace(honest, parameters={**honest.parameters, "clipped": sum(self.clipped_.values())})

    monkeypatch.setattr(learner, "_content", leaking)
    with unfit("its parameters are not those of its learner"):
        release_files(learner, "bounds", tmp_path, monkeypatch)
    for path in tmp_path.iterdir():
        path.unlink()
    monkeypatch.setattr(release_parameters, "_NAMES", release_parameters._NAMES | {"clipped"})
    first, second = release_files(learner, "bounds", tmp_path, monkeypatch)
    assert without_payload(first) != without_payload(second)


def test_fixed_noise_is_what_makes_the_comparison_fair(tmp_path, monkeypatch):
    """The same table twice gives the same file, byte for byte: nothing else in it is random."""
    rows = matrix()
    monkeypatch.setitem(globals(), "neighbours", lambda declared: (rows, rows))
    first, second = release_files(PrivateMean, "bounds", tmp_path, monkeypatch)
    assert first == second


def test_no_pickle_in_a_release(files):
    """Nothing in a file is a pickle: the data are numbers and the rest is JSON."""
    for _, path in files.values():
        fields, data = taken_apart(path.read_bytes())
        assert json.loads(fields["__metadata__"]["manifest"])["format"] == 1
        assert len(data) == sum(
            8 * math.prod(field["shape"]) for name, field in fields.items() if name != "__metadata__"
        )


def test_copies_of_a_release_are_the_same_release(files):
    release = Release.of(files[PrivateMean, "bounds"][0])
    assert copy.copy(release) == release


def test_a_card_says_what_leaves_and_who_signed_it(files):
    model, path = files[PrivateMean, "schema"]
    release = Release.load(path, TRUSTED)
    card = release.card()
    assert card.what == f"PrivateMean: {model.mean_.size} numbers (mean)"
    assert (card.epsilon, card.rows) == (release.guarantee.epsilon, model.n_rows_)
    assert [(name, text.split(":")[0]) for name, text in card.remarks] == [("noise", "infinity-norm")]
    assert (card.signature, card.signed_by, card.digest) == ("trusted", release.signed_by, release.digest)
    assert release.card("unchecked").signature == "unchecked"
