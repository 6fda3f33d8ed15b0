"""The bytes of a release: a canonical safetensors file, its manifest in the header, and an Ed25519 signature.

There is exactly one file for one content. Reading rebuilds the header from what was parsed and refuses any other
spelling, so no two readers can disagree about what was signed. Sizes are bounded before anything is allocated, and
nothing in the file is ever executed.

    8 bytes   length of the header, little-endian
    header    JSON, sorted keys, no spaces, padded with spaces to a multiple of 8:
              {"__metadata__": {"digest", "manifest", "public_key", "signature"}, NAME: {"data_offsets", "dtype", "shape"}}
    data      the tensors in the order of their names, without gaps

The digest (SHA-256) covers every byte but itself and the signature; the signature covers every byte but itself.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray

from sudare.errors import InvalidParameter, ReleaseMalformed, ReleaseUntrusted
from sudare.parsing import NotParsed, finite_float, parsed_json
from sudare.privacy.ledger_chain import canonical_json
from sudare.safe_text import text_fault

LARGEST_HEADER_BYTES: Final = 1 << 20
LARGEST_FILE_BYTES: Final = 64 << 20
LARGEST_TENSOR_COUNT: Final = 256
LARGEST_DIMENSIONS: Final = 8
LARGEST_NESTING: Final = 12

Tensors = Mapping[str, NDArray[Any]]

_DTYPES: Final[dict[str, np.dtype[Any]]] = {"F64": np.dtype("<f8"), "I64": np.dtype("<i8"), "U8": np.dtype("u1")}
_NAMES_OF_DTYPES: Final = {dtype: name for name, dtype in _DTYPES.items()}
_TENSOR_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NO_DIGEST: Final = "0" * 64
_NO_SIGNATURE: Final = "0" * 128
_SIGNED_AS: Final = b"sudare release\n"


@dataclass(frozen=True)
class Parsed:
    """A file that is in canonical form; nothing is known yet about who signed it or what it means."""

    manifest: Mapping[str, Any]
    tensors: Tensors
    public_key: bytes
    signature: bytes
    digest: str
    signed_bytes: bytes


def written(manifest: Mapping[str, Any], tensors: Tensors, key: Ed25519PrivateKey) -> bytes:
    """The one file for this content under this key."""
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidParameter("key is not an Ed25519 private key.", "Sign with an Ed25519PrivateKey.")
    data = b"".join(tensors[name].tobytes() for name in sorted(tensors))
    public_key = key.public_key().public_bytes_raw().hex()
    shapes = {name: (_NAMES_OF_DTYPES[tensor.dtype], tensor.shape) for name, tensor in tensors.items()}

    def header(digest: str, signature: str) -> bytes:
        return _header(canonical_json(manifest), public_key, digest, signature, shapes)

    digest = _digest(header(_NO_DIGEST, _NO_SIGNATURE), data)
    signature = key.sign(_SIGNED_AS + header(digest, _NO_SIGNATURE) + data).hex()
    return header(digest, signature) + data


def _header(
    manifest: str, public_key: str, digest: str, signature: str, shapes: Mapping[str, tuple[str, Sequence[int]]]
) -> bytes:
    metadata = {"manifest": manifest, "public_key": public_key, "digest": digest, "signature": signature}
    fields: dict[str, Any] = {"__metadata__": metadata}
    start = 0
    for name in sorted(shapes):
        dtype, shape = shapes[name]
        end = start + math.prod(shape) * _DTYPES[dtype].itemsize
        fields[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
        start = end
    text = canonical_json(fields).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def parsed(file: bytes) -> Parsed:
    """The content of a canonical file; anything else is `ReleaseMalformed`."""
    if len(file) > LARGEST_FILE_BYTES:
        raise _malformed(f"it is larger than {LARGEST_FILE_BYTES >> 20} MiB")
    length = int.from_bytes(file[:8], "little")
    if len(file) < 8 or not 0 < length <= min(LARGEST_HEADER_BYTES, len(file) - 8):
        raise _malformed("its header has an impossible length")
    header, data = file[: 8 + length], memoryview(file)[8 + length :]
    fields = _json_object(header[8:])
    metadata = _metadata(fields.pop("__metadata__", None))
    shapes = {name: _shape(name, field) for name, field in fields.items()}
    if len(shapes) > LARGEST_TENSOR_COUNT:
        raise _malformed(f"it has more than {LARGEST_TENSOR_COUNT} tensors")
    manifest = _json_object(metadata["manifest"].encode())
    if not _can_be_shown(manifest):
        raise _malformed(
            "a text in it has a control character, a line break, an invisible mark, or many blanks or marks in a row"
        )
    arguments = metadata["manifest"], metadata["public_key"]
    if header != _header(*arguments, metadata["digest"], metadata["signature"], shapes):
        raise _malformed("its header is not in canonical form")
    if canonical_json(manifest) != metadata["manifest"]:
        raise _malformed("its manifest is not in canonical form")
    tensors = dict(_tensors(shapes, data))
    unsigned = _header(*arguments, _NO_DIGEST, _NO_SIGNATURE, shapes)
    if _digest(unsigned, data) != metadata["digest"]:
        raise _malformed("its digest does not match its content")
    return Parsed(
        manifest=manifest,
        tensors=tensors,
        public_key=bytes.fromhex(metadata["public_key"]),
        signature=bytes.fromhex(metadata["signature"]),
        digest=metadata["digest"],
        signed_bytes=_SIGNED_AS + _header(*arguments, metadata["digest"], _NO_SIGNATURE, shapes) + data,
    )


def verify_signature(content: Parsed, trusted: Iterable[Ed25519PublicKey]) -> None:
    """Raise ReleaseUntrusted unless a trusted key signed the file."""
    for key in trusted_keys(trusted):
        if key.public_bytes_raw() == content.public_key:
            try:
                key.verify(content.signature, content.signed_bytes)
            except InvalidSignature:
                raise ReleaseUntrusted(
                    "The file's signature does not match its bytes.", ReleaseUntrusted.help
                ) from None
            return
    raise ReleaseUntrusted(
        f"The file is signed by a key that is not trusted (fingerprint {fingerprint(content.public_key)}).",
        ReleaseUntrusted.help,
    )


def trusted_keys(trusted: Iterable[Ed25519PublicKey]) -> list[Ed25519PublicKey]:
    """The keys, if they are keys: one alone, or text, is a slip that must not look like a bad file."""
    keys = list(trusted) if isinstance(trusted, Iterable) else None
    if keys is None or not all(isinstance(key, Ed25519PublicKey) for key in keys):
        raise InvalidParameter("trusted is not a list of Ed25519 public keys.", "Give trusted=[public_key, …].")
    return keys


def fingerprint(public_key: bytes) -> str:
    """Eight groups of four hexadecimal digits, to be read out on the telephone."""
    text = hashlib.sha256(public_key).hexdigest()
    return " ".join(text[start : start + 4] for start in range(0, 32, 4))


def _digest(header: bytes, data: bytes | memoryview) -> str:
    hashed = hashlib.sha256(header)
    hashed.update(data)
    return hashed.hexdigest()


def _malformed(reason: str) -> ReleaseMalformed:
    return ReleaseMalformed(f"The file is not a release: {reason}.", ReleaseMalformed.help)


def _json_object(text: bytes) -> dict[str, Any]:
    try:
        value = parsed_json(
            text,
            largest_bytes=LARGEST_HEADER_BYTES,
            largest_nesting=LARGEST_NESTING,
            most_entries=LARGEST_HEADER_BYTES,
            float_of=_plain_float,
        )
    except NotParsed:
        raise _malformed("its JSON cannot be read") from None
    if not isinstance(value, dict):
        raise _malformed("its JSON is not an object")
    return value


def _can_be_shown(value: object) -> bool:
    """Whether every text is such as cannot forge a line of a card: names, categories and units are printed."""
    if isinstance(value, str):
        return text_fault(value, longest=LARGEST_HEADER_BYTES) is None
    if isinstance(value, dict):
        return all(_can_be_shown(key) and _can_be_shown(entry) for key, entry in value.items())
    return not isinstance(value, list) or all(map(_can_be_shown, value))


def _plain_float(text: str) -> float:
    """A finite float; minus zero is refused, because it is equal to zero and written in another way."""
    number = finite_float(text)
    if number == 0 and math.copysign(1.0, number) < 0:
        raise NotParsed("a number in it is minus zero")
    return number


def _metadata(value: object) -> dict[str, str]:
    lengths = {"digest": 64, "public_key": 64, "signature": 128}
    if not isinstance(value, dict) or set(value) != {"manifest", *lengths}:
        raise _malformed("its metadata have other fields than they should")
    for name, length in lengths.items():
        if not isinstance(value[name], str) or not re.fullmatch(f"[0-9a-f]{{{length}}}", value[name]):
            raise _malformed(f"its {name.replace('_', ' ')} is not {length} hexadecimal digits")
    if not isinstance(value["manifest"], str):
        raise _malformed("its manifest is not text")
    return value


def _shape(name: str, field: object) -> tuple[str, Sequence[int]]:
    if not _TENSOR_NAME.fullmatch(name):
        raise _malformed("a tensor has a name that is not allowed")
    if not isinstance(field, dict) or set(field) != {"dtype", "shape", "data_offsets"}:
        raise _malformed("a tensor's description has other fields than it should")
    dtype, shape = field["dtype"], field["shape"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise _malformed("a tensor has a type that is not allowed")
    if not isinstance(shape, list) or len(shape) > LARGEST_DIMENSIONS:
        raise _malformed("a tensor has a shape that is not allowed")
    if not all(type(size) is int and 1 <= size <= LARGEST_FILE_BYTES for size in shape):
        raise _malformed("a tensor has a shape that is not allowed")
    return dtype, shape


def _tensors(shapes: Mapping[str, tuple[str, Sequence[int]]], data: memoryview) -> Iterable[tuple[str, NDArray[Any]]]:
    sizes = {name: math.prod(shape) * _DTYPES[dtype].itemsize for name, (dtype, shape) in shapes.items()}
    if sum(sizes.values()) != len(data):
        raise _malformed("its data are longer or shorter than its header says")
    start = 0
    for name in sorted(shapes):
        dtype, shape = shapes[name]
        tensor = np.frombuffer(data[start : start + sizes[name]], dtype=_DTYPES[dtype]).reshape(shape)
        start += sizes[name]
        yield name, tensor
