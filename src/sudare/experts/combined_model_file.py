"""A combination of experts as a file for its owner: the experts' releases as they came, and what own data chose. It is no release.

Weights are exact facts about own records, so the file has another format than releases, which `Release.load` refuses, and only its owner may read it.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sudare.errors import DataError, SudareError, UnknownName
from sudare.experts.combined_experts import CombinedExperts
from sudare.experts.estimators import AverageExperts, ExponentialWeights, MirrorAveraging, StackedExperts
from sudare.experts.expert_set import ExpertSet
from sudare.experts.own_plus_consensus import OwnPlusConsensus
from sudare.parsing import bounded_bytes, parsed_json
from sudare.privacy.release import audited
from sudare.privacy.release_file import parsed, verify_signature

METHODS: Final[Mapping[str, type[CombinedExperts]]] = {
    "mirror-averaging": MirrorAveraging,
    "exponential-weights": ExponentialWeights,
    "average": AverageExperts,
    "stacking": StackedExperts,
    "own-plus-consensus": OwnPlusConsensus,
}
FORMAT: Final = "sudare combined model 1"
LARGEST_FILE_BYTES: Final = 1 << 28
_ARRAYS: Final = ("weights_", "coef_", "intercept_", "classes_")


def combination(method: str, experts: Sequence[Any]) -> CombinedExperts:
    """An unfitted combination of this method. Raise UnknownName where there is none."""
    if method not in METHODS:
        raise UnknownName(
            f"No method of combining experts is called {method[:64]!r}.", f"There are: {', '.join(METHODS)}."
        )
    made: Any = METHODS[method]
    combined: CombinedExperts = made(experts)
    return combined


def combined_model_bytes(model: CombinedExperts, releases: Sequence[bytes]) -> bytes:
    """The file of a fitted combination of experts, whose release files are given in their order."""
    method = next(name for name, kind in METHODS.items() if type(model) is kind)
    learned = {name: np.asarray(getattr(model, name)).tolist() for name in _ARRAYS if hasattr(model, name)}
    document = {
        "format": FORMAT,
        "method": method,
        "learned": learned,
        "left_out": list(model.left_out_),
        "experts": [base64.b64encode(release).decode() for release in releases],
    }
    return json.dumps(document, allow_nan=False).encode()


def is_combined_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a combined model does. Raise OSError where it cannot be read."""
    beginning = f'{{"format": "{FORMAT}"'.encode()
    with open(path, "rb") as file:
        return file.read(len(beginning)) == beginning


def read_combined_model(path: str | os.PathLike[str]) -> CombinedExperts:
    """The fitted combination in a file. Raise DataError where it is none; each expert's signature and content are checked as those of a release are."""
    try:
        document = _document(path)
        releases = [base64.b64decode(text, validate=True) for text in document["experts"]]
        model = combination(document["method"], [_expert(release) for release in releases])
        left_out = set(map(int, document["left_out"]))
        learned = {name: np.asarray(values) for name, values in document["learned"].items() if name in _ARRAYS}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, binascii.Error):
        raise _unusable() from None
    experts = ExpertSet.of(model.experts)
    model.guarantee_ = experts.guarantees
    model.expert_set_ = experts.without(left_out) if left_out else experts
    model.left_out_ = tuple(sorted(left_out))
    names = list(experts.models[0].declared_.features)
    model.n_features_in_, model.feature_names_in_ = len(names), np.array(names, dtype=object)
    _take(model, learned)
    return model


def _document(path: str | os.PathLike[str]) -> Any:
    content = bounded_bytes(path, LARGEST_FILE_BYTES)
    return parsed_json(content, largest_bytes=LARGEST_FILE_BYTES)


def _expert(release: bytes) -> Any:
    content = parsed(release)
    verify_signature(content, [Ed25519PublicKey.from_public_bytes(content.public_key)])
    return audited(content)


def _take(model: CombinedExperts, learned: Mapping[str, Any]) -> None:
    """Set what own data chose. Raise DataError unless it fits the experts."""
    experts = model.expert_set_
    weights_or_coefficients = learned.get("coef_" if isinstance(model, OwnPlusConsensus) else "weights_")
    numbers = [values for name, values in learned.items() if name != "classes_"]
    is_whole = weights_or_coefficients is not None and all(
        values.dtype.kind in "fi" and np.isfinite(values).all() for values in numbers
    )
    if not is_whole or (experts.classes is not None and "classes_" not in learned):
        raise _unusable()
    for name, values in learned.items():
        setattr(model, name, values if values.ndim else values.item())
    if experts.classes is not None:
        if model.classes_.tolist() != experts.classes.tolist():
            raise _unusable()
        model.classes_ = experts.classes
    if not isinstance(model, OwnPlusConsensus) and model.weights_.shape[-1] != len(model.guarantee_):
        raise _unusable()


def _unusable() -> SudareError:
    return DataError("The file is no combined model.", "Give the file that `sudare combine` wrote, unchanged.")
