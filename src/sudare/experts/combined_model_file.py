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
from sudare.parsing import bounded_bytes, first_bytes, parsed_json
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
# Larger numbers than any fit gives would overflow in sums.
_LARGEST_NUMBER: Final = 1e30
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
    return first_bytes(path, len(beginning)) == beginning


def read_combined_model(
    path: str | os.PathLike[str], trusted: Sequence[Ed25519PublicKey] | None = None
) -> CombinedExperts:
    """The fitted combination in a file. Raise DataError where it is none; each expert's signature and content are checked as those of a release are.

    With `trusted`, raise ReleaseUntrusted unless one of these keys has signed each expert; without, any key may have.
    """
    try:
        document = _document(path)
        releases = [base64.b64decode(text, validate=True) for text in document["experts"]]
        model = combination(document["method"], [_expert(release, trusted) for release in releases])
        left_out = set(document["left_out"])
        learned = {name: np.asarray(values) for name, values in document["learned"].items() if name in _ARRAYS}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, binascii.Error):
        raise _unusable() from None
    experts = ExpertSet.of(model.experts)
    if not all(type(number) is int and 0 <= number < len(experts) for number in left_out):
        raise _unusable()
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


def _expert(release: bytes, trusted: Sequence[Ed25519PublicKey] | None) -> Any:
    content = parsed(release)
    own = Ed25519PublicKey.from_public_bytes(content.public_key)
    verify_signature(content, [own] if trusted is None else trusted)
    return audited(content)


def _take(model: CombinedExperts, learned: Mapping[str, Any]) -> None:
    """Set what own data chose. Raise DataError unless it fits the experts."""
    experts = model.expert_set_
    allowed = _shapes(model)
    numbers = {name: values for name, values in learned.items() if name != "classes_"}
    fits = set(allowed) - {"intercept_"} <= set(numbers) <= set(allowed) and all(
        values.shape in allowed[name]
        and values.dtype.kind in "fi"
        and bool(np.all(np.abs(values) <= _LARGEST_NUMBER))  # not so of NaN
        for name, values in numbers.items()
    )
    classes = learned.get("classes_")
    if experts.classes is not None:
        fits = fits and classes is not None and classes.tolist() == experts.classes.tolist()
        model.classes_ = experts.classes
    if not fits:
        raise _unusable()
    for name, values in numbers.items():
        setattr(model, name, values if values.ndim else values.item())


def _shapes(model: CombinedExperts) -> dict[str, list[tuple[int, ...]]]:
    """The shapes that what own data chose may have, by name. The intercept may be missing."""
    experts = model.expert_set_
    outputs = experts.outputs
    intercept: list[tuple[int, ...]] = [()] if outputs == 1 else [(outputs,)]
    if isinstance(model, OwnPlusConsensus):
        columns = experts.messages()[0].shape[2]
        return {"coef_": [(columns,)] if outputs == 1 else [(outputs, columns)], "intercept_": intercept}
    senders = len(model.guarantee_)
    return {"weights_": [(senders,)] if outputs == 1 else [(senders,), (outputs, senders)], "intercept_": intercept}


def _unusable() -> SudareError:
    return DataError("The file is no combined model.", "Give the file that `sudare combine` wrote, unchanged.")
