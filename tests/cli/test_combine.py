"""`sudare combine`: experts weighted on own data, for oneself."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sudare.errors import ReleaseUntrusted, SudareError
from sudare.experts.combined_model_file import METHODS, combination
from sudare.frames import read
from sudare.privacy import Release
from sudare.privacy.release import audited
from sudare.privacy.release import read as read_release
from sudare.requests.request_kinds import with_target
from sudare.schema import Schema
from tests.cli.conftest import FIT_MEAN, Sudare

EXPERTS = ("one.sudare", "two.sudare", "three.sudare")


@pytest.fixture
def experts(house: Path, sudare: Sudare) -> None:
    for name, regularization in zip(EXPERTS, ("0.1", "1", "10"), strict=True):
        words = ("--target", "smoker", "--regularization", regularization, "-o", name, "--key", "key.pem")
        made = sudare("fit", "logistic", *FIT_MEAN[2:6], 0.1, *FIT_MEAN[7:], *words)
        assert made.exit_code == 0, made.stderr
    generator = np.random.default_rng(1)
    own = pd.DataFrame({"age": generator.integers(0, 100, 60)})
    own["smoker"] = np.where(own["age"] > 50, "yes", "no")
    own.to_csv(house / "own.csv", index=False)


@pytest.mark.parametrize("method", METHODS)
def test_a_combined_model_predicts_as_it_does_in_python(
    house: Path, sudare: Sudare, experts: None, method: str
) -> None:
    words = ("combine", "own.csv", *EXPERTS, "--schema", "schema.toml", "--target", "smoker", "--method", method)
    told = sudare(*words, "-o", "own.model", "--trusted", "key-public.pem", "--json")
    assert told.exit_code == 0, told.stdout
    assert told.values["release"] is False
    assert stat.S_IMODE((house / "own.model").stat().st_mode) == 0o600
    declared = with_target(Schema.load(house / "schema.toml"), "smoker")
    own = read(house / "own.csv", schema=declared)
    model = combination(method, [audited(read_release(house / name)) for name in EXPERTS])
    model.fit(own.select(["age"]), own["smoker"])
    predicted = sudare("predict", "own.model", "own.csv", "--proba", "--json")
    assert predicted.exit_code == 0, predicted.stdout
    assert predicted.values["predictions"]["prediction"] == model.predict(own.select(["age"])).tolist()
    assert np.allclose(
        predicted.values["predictions"]["probability_yes"], model.predict_proba(own.select(["age"]))[:, 1], atol=1e-12
    )


def test_whose_models_are_in_a_combined_one_is_told_and_checked(house: Path, sudare: Sudare, experts: None) -> None:
    words = ("combine", "own.csv", *EXPERTS, "--schema", "schema.toml", "--target", "smoker", "-o", "own.model")
    assert sudare(*words).exit_code == 0
    predict = ("predict", "own.model", "own.csv")
    unchecked = sudare(*predict).stdout
    assert "has no signature; the models in it were NOT CHECKED against keys you trust" in unchecked
    checked = sudare(*predict, "--trusted", "key-public.pem")
    assert checked.exit_code == 0, checked.stderr
    assert "has no signature; each of the models in it is signed by a key you trust." in checked.stdout
    assert "NOT CHECKED" not in checked.stdout
    assert "署名はありません。中のモデルは" in sudare(*predict, "--trusted", "key-public.pem", "--lang", "ja").stdout
    stranger = Ed25519PrivateKey.generate().public_key()
    (house / "stranger.pem").write_bytes(stranger.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert "'absent.pem' cannot be read" in sudare(*predict, "--trusted", "absent.pem").stderr
    refused = sudare(*predict, "--trusted", "stranger.pem")
    assert refused.exit_code == ReleaseUntrusted.exit_code
    assert refused.stdout == ""


def test_errors_name_the_file_that_they_are_about(house: Path, sudare: Sudare, experts: None) -> None:
    (house / "half.sudare").write_bytes((house / EXPERTS[0]).read_bytes()[:500])
    for name in ("mean.sudare", "half.sudare", "gone.sudare", "own.csv"):
        told = sudare(
            "combine", "own.csv", EXPERTS[0], name, "--schema", "schema.toml", "--target", "smoker", "-o", "own.model"
        )
        assert told.exit_code not in (0, 1)
        assert name in told.stderr
    assert not (house / "own.model").exists()


def test_a_model_of_ones_own_is_called_so_where_a_release_is_wanted(house: Path, sudare: Sudare, experts: None) -> None:
    words = ("combine", "own.csv", *EXPERTS, "--schema", "schema.toml", "--target", "smoker", "-o", "own.model")
    assert sudare(*words).exit_code == 0
    for command in ("show", "inspect", "export"):
        told = sudare(command, "own.model", *(("--onnx", "x.onnx") if command == "export" else ()))
        assert told.exit_code == 51
        assert "'own.model' is a combined model for its owner, and no release." in told.stderr
    assert "統合モデル" in sudare("show", "own.model", "--lang", "ja").stderr


def test_it_can_never_be_released(house: Path, sudare: Sudare, experts: None) -> None:
    words = ("combine", "own.csv", *EXPERTS, "--schema", "schema.toml", "--target", "smoker", "-o", "own.model")
    told = sudare(*words)
    assert told.exit_code == 0, told.stderr
    assert "can never be released" in told.stdout
    assert "one.sudare: weight" in told.stdout
    assert sudare("inspect", "own.model").exit_code == 51
    with pytest.raises(SudareError):
        Release.load(house / "own.model", trusted=[])
    assert sudare(*words).exit_code == 10


REFUSALS = [
        (("own.csv", *EXPERTS, "--schema", "schema.toml"), 10, "--target"),
        (("own.csv", *EXPERTS, "--schema", "schema.toml", "--target", "smoker", "--method", "magic"), 72, "mirror-averaging"),
        (("own.csv", "mean.sudare", "--schema", "schema.toml", "--target", "smoker"), 10, "mean.sudare"),
        (("none.csv", *EXPERTS, "--schema", "schema.toml", "--target", "smoker"), 21, "none.csv"),
        (("own.csv", *EXPERTS, "--schema", "schema.toml", "--target", "age"), 20, "class"),
]  # fmt: skip


def test_what_cannot_be_combined(house: Path, sudare: Sudare, experts: None) -> None:
    for words, exit_code, told in REFUSALS:
        refused = sudare("combine", *words, "-o", "own.model")
        assert (refused.exit_code, refused.stdout) == (exit_code, ""), refused.stderr
        assert told in refused.stderr
        assert not (house / "own.model").exists()


CHANGES: list[Any] = [
    lambda document: document.pop("experts"),
    lambda document: document.update(method=3),
    lambda document: document.update(method="magic"),
    lambda document: document["learned"].pop("weights_"),
    lambda document: document["learned"].update(weights_=["a", "b", "c"]),
    lambda document: document["learned"].update(weights_=[0.5]),
    lambda document: document["learned"].update(classes_=["no"]),
    lambda document: document.update(experts=document["experts"][:1]),
    lambda document: document["experts"].__setitem__(0, "AAAA"),
    lambda document: document.update(left_out=[0, 1, 2]),
    lambda document: document.update(left_out=[3]),
    lambda document: document.update(left_out=[-1]),
    lambda document: document.update(left_out=[10**400]),
    lambda document: document.update(left_out=[True]),
    lambda document: document["learned"].update(weights_=[[[0.5, 0.2, 0.3]]]),
    lambda document: document["learned"].update(weights_=[[0.5, 0.2, 0.3]] * 7),
    lambda document: document["learned"].update(weights_=0.5),
    lambda document: document["learned"].update(weights_=[1e308, 1e308, 1e308]),
    lambda document: document["learned"].update(intercept_=["a"]),
    lambda document: document["learned"].update(classes_="no"),
    lambda document: document.update(
        method="own-plus-consensus", learned={"classes_": ["no", "yes"], "coef_": [[1.0]], "intercept_": 0.0}
    ),
    lambda document: document.update(
        method="own-plus-consensus", learned={"classes_": ["no", "yes"], "coef_": [1.0] * 9, "intercept_": 0.0}
    ),
]


def test_files_that_were_changed_are_refused_in_words(house: Path, sudare: Sudare, experts: None) -> None:
    words = ("combine", "own.csv", *EXPERTS, "--schema", "schema.toml", "--target", "smoker", "-o", "own.model")
    assert sudare(*words).exit_code == 0
    written = (house / "own.model").read_text()
    for change in CHANGES:
        document = json.loads(written)
        change(document)
        (house / "own.model").write_text(json.dumps(document))
        refused = sudare("predict", "own.model", "own.csv")
        assert refused.exit_code >= 10, refused.stderr
        assert refused.stdout == ""


def test_models_of_different_kinds_are_combined_and_of_other_schemas_are_named(
    house: Path, sudare: Sudare, experts: None
) -> None:
    words = (*FIT_MEAN[2:6], 0.1, *FIT_MEAN[7:], "--key", "key.pem")
    made = sudare("fit", "additive", *words, "--target", "smoker", "-o", "additive.sudare")
    assert made.exit_code == 0, made.stderr
    combined = ("combine", "own.csv", "one.sudare", "additive.sudare", "--schema", "schema.toml", "--target", "smoker")
    told = sudare(*combined, "-o", "mixed.model", "--json")
    assert told.exit_code == 0, told.stdout
    assert len(told.values["weights"]) == 2
    assert sudare("predict", "mixed.model", "own.csv", "--proba").exit_code == 0
    (house / "other.toml").write_text((house / "schema.toml").read_text().replace("110", "120"))
    other = [word if word != "schema.toml" else "other.toml" for word in words]
    assert sudare("fit", "logistic", *other, "--target", "smoker", "-o", "stranger.sudare").exit_code == 0
    refused = sudare("combine", "own.csv", "one.sudare", "stranger.sudare", *combined[4:], "-o", "not.model")
    assert refused.exit_code == 10
    assert "stranger.sudare" in refused.stderr
