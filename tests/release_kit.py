"""Release files taken apart, built and signed by code that shares nothing with `sudare.privacy.release_file`."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.errors import ReleaseMalformed, SudareError
from sudare.privacy import Account
from sudare.privacy.private_estimator import PrivateEstimator
from sudare.schema import Category, Label, Number, Person, Schema
from sudare.statistics import PrivateHistogram, PrivateMean, PrivateStandardScaler

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
TRUSTED = [KEY.public_key()]

DTYPES = {"F64": "<f8", "I64": "<i8", "U8": "u1"}
BLANKS = {"digest": b"0" * 64, "signature": b"0" * 128}

SCHEMA = Schema(
    {
        "age": Number(0, 110, unit="years", missing="centre"),
        "bmi": Number(10, 60, bins=(18.5, 25, 30)),
        "smoker": Category(("no", "yes"), missing="no answer"),
        "ill": Label((0, 1)),
    }
)
PERSON_SCHEMA = Schema(dict(SCHEMA.columns), Person("patient", 2))


def table(rows: int = 40, seed: int = 0) -> pd.DataFrame:
    """A table that fits both schemas."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "patient": np.arange(rows) // 2,
            "age": random.uniform(0, 110, rows),
            "bmi": random.normal(26, 5, rows),
            "smoker": random.choice(["no", "yes"], rows),
            "ill": random.integers(0, 2, rows),
            "not declared": random.uniform(0, 1, rows),
        }
    )


def matrix(rows: int = 40, columns: int = 3, seed: int = 0) -> np.ndarray:
    """An array for learners with bounds (-1, 3)."""
    return np.random.default_rng(seed).uniform(-1, 3, size=(rows, columns))


LEARNERS = (PrivateMean, PrivateHistogram, PrivateStandardScaler)
DECLARATIONS: dict[str, dict[str, Any]] = {
    "bounds": {"bounds": (-1, 3)},
    "schema": {"schema": SCHEMA},
    "person": {"schema": PERSON_SCHEMA},
}


def fitted(
    learner: type[PrivateEstimator], declared: str, account: Account | None, rows: Any = None, **parameters: Any
) -> Any:
    """A learner fitted to the table of its declaration, or to `rows`."""
    model = learner(account=account, **DECLARATIONS[declared], **parameters)
    return model.fit((matrix() if declared == "bounds" else table()) if rows is None else rows)


def plain_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def header_of(manifest: object, tensors: dict[str, np.ndarray], key: Ed25519PrivateKey = KEY) -> dict[str, Any]:
    """The fields of a header, with nothing yet in the place of digest and signature."""
    fields: dict[str, Any] = {
        "__metadata__": {
            **{name: blank.decode() for name, blank in BLANKS.items()},
            "manifest": manifest if isinstance(manifest, str) else plain_json(manifest),
            "public_key": key.public_key().public_bytes_raw().hex(),
        }
    }
    end = 0
    for name, tensor in sorted(tensors.items()):
        start, end = end, end + tensor.nbytes
        dtype = next(known for known, numpy_name in DTYPES.items() if np.dtype(numpy_name) == tensor.dtype)
        fields[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [start, end]}
    return fields


def data_of(tensors: dict[str, np.ndarray]) -> bytes:
    return b"".join(tensor.tobytes() for _, tensor in sorted(tensors.items()))


def padded(text: str) -> bytes:
    encoded = text.encode()
    return encoded + b" " * (-len(encoded) % 8)


def signed(header: bytes, data: bytes, key: Ed25519PrivateKey = KEY) -> bytes:
    """A file with this header, whose digest and signature are made to fit, whatever else is wrong with it."""
    for name, blank in BLANKS.items():
        header = replaced_hexadecimal(header, name, blank)
    length = len(header).to_bytes(8, "little")
    digest = hashlib.sha256(length + header + data).hexdigest().encode()
    header = replaced_hexadecimal(header, "digest", digest)
    signature = key.sign(b"sudare release\n" + length + header + data).hex().encode()
    return length + replaced_hexadecimal(header, "signature", signature) + data


def replaced_hexadecimal(header: bytes, name: str, digits: bytes) -> bytes:
    return re.sub(b'("%s":")[0-9a-f]{%d}"' % (name.encode(), len(digits)), b'\\g<1>%s"' % digits, header, count=1)


def taken_apart(file: bytes) -> tuple[dict[str, Any], bytes]:
    """The fields of the header, and the data."""
    length = int.from_bytes(file[:8], "little")
    return json.loads(file[8 : 8 + length]), file[8 + length :]


def manifest_of(file: bytes) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(taken_apart(file)[0]["__metadata__"]["manifest"])
    return manifest


def with_manifest(file: bytes, manifest: object, data: bytes | None = None) -> bytes:
    """The file with another manifest, signed anew."""
    fields, old_data = taken_apart(file)
    fields["__metadata__"]["manifest"] = manifest if isinstance(manifest, str) else plain_json(manifest)
    return signed(padded(plain_json(fields)), old_data if data is None else data)


class refused:
    """`with refused(SomeError, "What was wrong.", "What to do."):` — exactly these words."""

    def __init__(self, kind: type[SudareError], problem: str, remedy: str | None = None) -> None:
        self.kind, self.problem, self.remedy = kind, problem, remedy

    def __enter__(self) -> None:
        self._raises = pytest.raises(self.kind)
        self._caught = self._raises.__enter__()

    def __exit__(self, *error: Any) -> bool:
        if not self._raises.__exit__(*error):
            return False
        assert type(self._caught.value) is self.kind
        assert self._caught.value.problem == self.problem
        assert self._caught.value.remedy == (self.kind.help if self.remedy is None else self.remedy)
        return True


def malformed(reason: str) -> refused:
    """The file is not in canonical form."""
    return refused(ReleaseMalformed, f"The file is not a release: {reason}.")


def unfit(reason: str) -> refused:
    """The file is in canonical form, and says what cannot be."""
    return refused(ReleaseMalformed, f"This is not a release sudare can use: {reason}.")
