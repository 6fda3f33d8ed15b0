"""The bytes of a release: one file for one content, and every other spelling refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter, ReleaseMalformed, ReleaseUntrusted
from sudare.privacy import release_file as container
from sudare.privacy.release_file import fingerprint, parsed, verify_signature, written
from sudare.safe_text import text_fault
from tests.release_kit import (
    KEY,
    OTHER_KEY,
    TRUSTED,
    data_of,
    header_of,
    malformed,
    padded,
    plain_json,
    refused,
    signed,
    taken_apart,
)

MANIFEST = {"format": 1, "name": "Ärzte – ε", "number": 0.1, "nothing": None, "list": [1, 2.5, True]}
TENSORS = {
    "mean": np.array([1.0, 2.5, -3.0]),
    "counts": np.array([[1, 2], [3, -4]], dtype=np.int64),
    "bytes": np.arange(5, dtype=np.uint8),
}
FILE = written(MANIFEST, TENSORS, KEY)


def edited(change, data: bytes | None = None, *, text=None) -> bytes:
    """The file with a header that `change` altered, as text if `text` is given; digest and signature fit again."""
    fields, old_data = taken_apart(FILE)
    if change is not None:
        change(fields)
    written_text = padded(plain_json(fields)) if text is None else text(plain_json(fields))
    return signed(written_text, old_data if data is None else data)


def test_file_is_what_the_description_says():
    assert signed(padded(plain_json(header_of(MANIFEST, TENSORS))), data_of(TENSORS)) == FILE
    length = int.from_bytes(FILE[:8], "little")
    assert length % 8 == 0
    header = json.loads(FILE[8 : 8 + length])
    assert header["bytes"] == {"dtype": "U8", "shape": [5], "data_offsets": [0, 5]}
    assert header["counts"] == {"dtype": "I64", "shape": [2, 2], "data_offsets": [5, 37]}
    assert header["mean"] == {"dtype": "F64", "shape": [3], "data_offsets": [37, 61]}


def test_safetensors_reads_the_same(tmp_path):
    loaded = safetensors.numpy.load(FILE)
    assert loaded.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert loaded[name].dtype == tensor.dtype
        assert np.array_equal(loaded[name], tensor)
    (tmp_path / "a").write_bytes(FILE)
    with safetensors.safe_open(tmp_path / "a", framework="numpy") as opened:
        assert json.loads(opened.metadata()["manifest"]) == MANIFEST


def test_parsing_gives_back_what_was_written():
    content = parsed(FILE)
    assert content.manifest == MANIFEST
    assert list(content.tensors) == ["bytes", "counts", "mean"]
    for name, tensor in TENSORS.items():
        assert content.tensors[name].dtype == tensor.dtype
        assert content.tensors[name].shape == tensor.shape
        assert np.array_equal(content.tensors[name], tensor)
        assert not content.tensors[name].flags.writeable
    metadata = taken_apart(FILE)[0]["__metadata__"]
    assert content.public_key == KEY.public_key().public_bytes_raw()
    assert content.signature.hex() == metadata["signature"]
    assert content.digest == metadata["digest"]
    KEY.public_key().verify(content.signature, content.signed_bytes)
    assert content.signed_bytes == b"sudare release\n" + FILE.replace(content.signature.hex().encode(), b"0" * 128)
    verify_signature(content, TRUSTED)


def test_scalars_and_no_tensors_at_all():
    assert parsed(written({}, {"one": np.array(2.0)}, KEY)).tensors["one"].shape == ()
    assert parsed(written({}, {}, KEY)).tensors == {}


@given(
    st.dictionaries(
        st.text(max_size=5).filter(lambda text: text_fault(text) is None),
        st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0),
    ),
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True),
        st.lists(st.floats(width=64), min_size=1, max_size=9).map(np.array),
        max_size=4,
    ),
)
def test_round_trip(manifest, tensors):
    file = written(manifest, tensors, KEY)
    content = parsed(file)
    assert content.manifest == manifest
    assert {name: tensor.tobytes() for name, tensor in content.tensors.items()} == {
        name: tensor.tobytes() for name, tensor in tensors.items()
    }
    assert written(content.manifest, content.tensors, KEY) == file
    assert file == signed(padded(plain_json(header_of(manifest, tensors))), data_of(tensors))


def test_only_ed25519_keys_sign():
    with refused(InvalidParameter, "key is not an Ed25519 private key.", "Sign with an Ed25519PrivateKey."):
        written(MANIFEST, TENSORS, generate_private_key(65537, 2048))


# Lengths


@pytest.mark.parametrize("file", [b"", b"\0" * 7, b"\0" * 8, (1).to_bytes(8, "little"), b"\xff" * 8 + b"{}"])
def test_header_of_impossible_length(file):
    with malformed("its header has an impossible length"):
        parsed(file)


def test_header_may_fill_the_whole_file_and_no_more():
    length, header = FILE[:8], FILE[8 : 8 + int.from_bytes(FILE[:8], "little")]
    with malformed("its data are longer or shorter than its header says"):
        parsed(length + header)
    with malformed("its header has an impossible length"):
        parsed(length + header[:-1])


def header_with(size: int) -> bytes:
    """A file whose header has exactly this size."""
    base = int.from_bytes(written({"a": ""}, {}, KEY)[:8], "little")
    shortest = len(plain_json(header_of({"a": ""}, {})).encode())
    assert base - 8 < shortest <= base
    return written({"a": "x" * (size - shortest)}, {}, KEY)


def test_largest_header():
    assert container.LARGEST_HEADER_BYTES == 1_048_576
    assert len(header_with(1_048_576)) == 8 + 1_048_576
    assert len(parsed(header_with(1_048_576)).manifest["a"]) > 1_000_000
    with malformed("its header has an impossible length"):
        parsed(header_with(1_048_577))


def test_largest_file(monkeypatch):
    assert container.LARGEST_FILE_BYTES == 64 * 1024 * 1024
    with malformed("it is larger than 64 MiB"):
        parsed(bytes(64 * 1024 * 1024 + 1))
    with malformed("its header has an impossible length"):
        parsed(bytes(64 * 1024 * 1024))
    monkeypatch.setattr(container, "LARGEST_FILE_BYTES", len(FILE))
    assert parsed(FILE).manifest == MANIFEST


def test_data_longer_or_shorter():
    for data in (data_of(TENSORS) + b"\0", data_of(TENSORS)[:-1], b""):
        with malformed("its data are longer or shorter than its header says"):
            parsed(edited(None, data))


# Spelling of the header


@pytest.mark.parametrize(
    "respell",
    [
        lambda text: padded(text.replace(":", ": ", 1)),
        lambda text: padded(" " + text),
        lambda text: padded(text.replace('{"data_offsets":[0,5],"dtype":"U8"', '{"dtype":"U8","data_offsets":[0,5]')),
        lambda text: padded(text.replace('"dtype":"U8"', '"dtype":"\\u00558"')),
        lambda text: padded(text.replace('"bytes":', '"\\u0062ytes":')),
        lambda text: padded(text).rstrip(b" ") + b"\n" * (-len(text.encode()) % 8 or 8),
        lambda text: padded(text) + b" " * 8,
        lambda text: text.encode().rstrip(b" ") + b" " * ((-len(text.encode()) % 8) + 1),
        lambda text: padded(text.replace('"data_offsets":[0,5]', '"data_offsets":[0,6]')),
        lambda text: padded(text.replace('"data_offsets":[0,5]', '"data_offsets":[0.0,5.0]')),
        lambda text: padded(text.replace('"data_offsets":[0,5]', '"data_offsets":[0,5,5]')),
        lambda text: padded(text.replace('"data_offsets":[0,5]', '"data_offsets":null')),
        lambda text: padded(text.replace('"data_offsets":[5,37]', '"data_offsets":[29,61]')),
        lambda text: padded(text.replace("Ä", "\\\\u00c4").replace("\\\\u00c4", "\\u00c4")),
    ],
)
def test_header_in_another_spelling(respell):
    file = edited(None, text=respell)
    assert file != FILE
    with malformed("its header is not in canonical form"):
        parsed(file)


@pytest.mark.parametrize(
    "text",
    [
        b"not json",
        b'{"a":1',
        b'{"a":1,"a":1}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1e999}',
        b'{"a":-1e999}',
        b'{"a":-0.0}',
        b'{"a":-0e5}',
        b'{"a":"\\ud800"}',
        b'{"\\ud800":1}',
        b"{'a':1}",
        b'{"a":1}{}',
        b'{"a":"\n"}',
        b"",
        b"   ",
    ],
)
def test_json_that_cannot_be_read(text):
    with malformed("its JSON cannot be read"):
        parsed(signed(text or b"\0", b""))
    fields = header_of(text.decode("latin-1"), TENSORS)
    with malformed("its JSON cannot be read"):
        parsed(signed(padded(plain_json(fields)), data_of(TENSORS)))


def test_header_that_is_not_utf8():
    with malformed("its JSON cannot be read"):
        parsed(signed(b'{"\xff":1}', b""))


@pytest.mark.parametrize("text", ["[]", "1", '"text"', "null", "true", "[{}]"])
def test_json_that_is_no_object(text):
    with malformed("its JSON is not an object"):
        parsed(signed(text.encode(), b""))
    with malformed("its JSON is not an object"):
        parsed(signed(padded(plain_json(header_of(text, TENSORS))), data_of(TENSORS)))


@pytest.mark.parametrize(
    "manifest",
    [
        '{"a": 1}',
        ' {"a":1}',
        '{"a":1} ',
        '{"b":1,"a":1}',
        '{"a":1e0}',
        '{"a":1.00}',
        '{"a":-0}',
        '{"a":0.10}',
        '{"a":1E5}',
        '{"a":"\\u0041"}',
        '{"a":"\\/"}',
        '{"a":[1, 2]}',
    ],
)
def test_manifest_in_another_spelling(manifest):
    file = signed(padded(plain_json(header_of(manifest, TENSORS))), data_of(TENSORS))
    with malformed("its manifest is not in canonical form"):
        parsed(file)


def nested(levels: int) -> dict:
    value: object = 0
    for level in range(levels - 1):
        value = [value] if level % 2 else {"a": value}
    return {"a": value}


def test_nesting():
    assert container.LARGEST_NESTING == 12
    assert parsed(written(nested(12), {}, KEY)).manifest == nested(12)
    with malformed("its JSON cannot be read"):
        parsed(written(nested(13), {}, KEY))
    with malformed("its JSON cannot be read"):
        parsed(signed(padded('{"a":' + "[" * 500 + "]" * 500 + "}"), b""))


# Fields of the header


def set_metadata(**values):
    return lambda fields: fields["__metadata__"].update(values)


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.pop("__metadata__"),
        lambda fields: fields.update(__metadata__=[]),
        lambda fields: fields.update(__metadata__="manifest"),
        lambda fields: fields["__metadata__"].pop("manifest"),
        lambda fields: fields["__metadata__"].pop("digest"),
        set_metadata(comment=""),
    ],
)
def test_metadata_with_other_fields(change):
    with malformed("its metadata have other fields than they should"):
        parsed(edited(change))


@pytest.mark.parametrize(("name", "length"), [("digest", 64), ("public_key", 64), ("signature", 128)])
@pytest.mark.parametrize(
    "value",
    [None, 1, ["0"] * 64, "", "0" * 63, "0" * 65, "0" * 127, "0" * 129, "g" * 64, "A" * 64, "٠" * 64, "0" * 63 + "\n"],
)
def test_metadata_that_are_not_hexadecimal(name, length, value):
    with malformed(f"its {name.replace('_', ' ')} is not {length} hexadecimal digits"):
        parsed(edited(set_metadata(**{name: value})))


@pytest.mark.parametrize("value", [None, 1, {}, ["a"]])
def test_manifest_that_is_no_text(value):
    with malformed("its manifest is not text"):
        parsed(edited(set_metadata(manifest=value)))


def test_lone_surrogates():
    for half in ("\\ud800", "\\udbff", "\\udc00", "\\udfff"):
        with malformed("its JSON cannot be read"):
            parsed(edited(None, text=lambda text, half=half: padded(text.replace("rzte", half))))
    assert parsed(written({"a": "\ud7fb\uf900\U0001f600"}, {}, KEY)).manifest == {"a": "\ud7fb\uf900\U0001f600"}


@pytest.mark.parametrize(
    "mark",
    ["\n", "\x1b", "\x7f", "\x9b", "\u200b", "\u202e", "\u2028", "\ue000", "\ud7ff", "\u3164", "\u2800", " " * 4],
)
def test_texts_that_could_forge_a_card(mark):
    for manifest in ({"a": mark}, {mark: 1}, {"a": [{"b": [1, f"x{mark}"]}]}, {"a": {"b": {f"x{mark}": None}}}):
        with malformed(
            "a text in it has a control character, a line break, an invisible mark, or many blanks or marks in a row"
        ):
            parsed(written(manifest, {}, KEY))


@pytest.mark.parametrize("name", ["", "A", "Mean", "1a", "_a", "a-b", "a b", "a\n", "ä", "a" * 65, "__metadata", "a/b"])
def test_names_of_tensors(name):
    def rename(fields):
        fields[name] = fields.pop("bytes")

    with malformed("a tensor has a name that is not allowed"):
        parsed(edited(rename))


def test_longest_name_of_a_tensor():
    name = "a" + "_0z" * 21
    assert len(name) == 64
    assert list(parsed(written({}, {name: np.ones(1)}, KEY)).tensors) == [name]


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.update(mean=None),
        lambda fields: fields.update(mean=[]),
        lambda fields: fields.update(mean="dtype"),
        lambda fields: fields["mean"].pop("shape"),
        lambda fields: fields["mean"].pop("data_offsets"),
        lambda fields: fields["mean"].update(comment=""),
    ],
)
def test_tensors_with_other_fields(change):
    with malformed("a tensor's description has other fields than it should"):
        parsed(edited(change))


@pytest.mark.parametrize("dtype", ["F32", "f64", "BOOL", "", None, 1, ["F64"], {}])
def test_types_of_tensors(dtype):
    with malformed("a tensor has a type that is not allowed"):
        parsed(edited(lambda fields: fields["mean"].update(dtype=dtype)))


@pytest.mark.parametrize(
    "shape",
    [
        None,
        3,
        "3",
        {"0": 3},
        [3.0],
        [True],
        [-3],
        [0],
        [3, 0],
        [-1, -3],
        ["3"],
        [None],
        [[3]],
        [64 * 1024 * 1024 + 1],
        [10**30],
        [1] * 9,
    ],
)
def test_shapes_of_tensors(shape):
    with malformed("a tensor has a shape that is not allowed"):
        parsed(edited(lambda fields: fields["mean"].update(shape=shape)))


def test_shapes_whose_product_overflows():
    """Eight times 2^26: 2^208 numbers; a machine word would make it 0."""

    def enlarge(fields):
        sizes = [2**26] * 8
        fields["mean"].update(shape=sizes, data_offsets=[37, 37 + 8 * 2**208])

    with malformed("its data are longer or shorter than its header says"):
        parsed(edited(enlarge))


def test_as_many_dimensions_as_allowed():
    assert container.LARGEST_DIMENSIONS == 8
    assert parsed(written({}, {"a": np.ones((1,) * 7 + (2,))}, KEY)).tensors["a"].shape == (1,) * 7 + (2,)


def test_as_many_tensors_as_allowed():
    assert container.LARGEST_TENSOR_COUNT == 256
    tensors = {f"t{index}": np.ones(1) for index in range(257)}
    with malformed("it has more than 256 tensors"):
        parsed(written({}, tensors, KEY))
    tensors.popitem()
    assert len(parsed(written({}, tensors, KEY)).tensors) == 256


def test_largest_size_is_that_of_a_file(monkeypatch):
    file = written({}, {"a": np.arange(200, dtype=np.uint8)}, KEY)
    monkeypatch.setattr(container, "LARGEST_FILE_BYTES", len(file))
    assert len(file) > 200
    assert parsed(file).tensors["a"].size == 200

    def enlarge(fields):
        fields["a"].update(shape=[len(file)], data_offsets=[0, len(file)])

    fields, data = taken_apart(file)
    enlarge(fields)
    with malformed("its data are longer or shorter than its header says"):
        parsed(signed(padded(plain_json(fields)), data))


# Digest and signature


def test_digest_covers_every_byte_but_itself_and_the_signature():
    metadata = taken_apart(FILE)[0]["__metadata__"]
    signature = FILE.index(metadata["signature"].encode())
    refused_by_digest = 0
    for position in range(len(FILE)):
        changed = bytearray(FILE)
        changed[position] ^= 1
        try:
            content = parsed(bytes(changed))
        except ReleaseMalformed as error:
            refused_by_digest += "digest does not match" in error.problem
            continue
        assert signature <= position < signature + 128
        with refused(ReleaseUntrusted, "The file's signature does not match its bytes."):
            verify_signature(content, TRUSTED)
    assert refused_by_digest > 61


def test_digest_that_does_not_match():
    changed = bytearray(FILE)
    changed[-1] ^= 1
    with malformed("its digest does not match its content"):
        parsed(bytes(changed))


def test_untrusted_key_is_named_by_its_fingerprint():
    assert fingerprint(KEY.public_key().public_bytes_raw()) == "5647 5aa7 5463 474c 0285 df5d bf2b cab7"
    file = written(MANIFEST, TENSORS, OTHER_KEY)
    for trusted in ([], TRUSTED, iter(TRUSTED)):
        with refused(
            ReleaseUntrusted,
            "The file is signed by a key that is not trusted "
            f"(fingerprint {fingerprint(OTHER_KEY.public_key().public_bytes_raw())}).",
        ):
            verify_signature(parsed(file), trusted)
    verify_signature(parsed(file), [*TRUSTED, OTHER_KEY.public_key()])
    verify_signature(parsed(file), iter([OTHER_KEY.public_key()]))


def test_signature_of_another_key_under_a_trusted_name():
    fields, data = taken_apart(FILE)
    with refused(ReleaseUntrusted, "The file's signature does not match its bytes."):
        verify_signature(parsed(signed(padded(plain_json(fields)), data, OTHER_KEY)), TRUSTED)


@pytest.mark.parametrize(
    "trusted",
    [
        KEY.public_key(),
        "key",
        b"key",
        [KEY],
        [KEY.public_key().public_bytes_raw()],
        [KEY.public_key(), "key"],
        None,
        ["key"],
        Ed25519PrivateKey,
    ],
)
def test_trusted_must_be_a_list_of_keys(trusted):
    with refused(InvalidParameter, "trusted is not a list of Ed25519 public keys.", "Give trusted=[public_key, …]."):
        verify_signature(parsed(FILE), trusted)


def test_fingerprint_is_the_beginning_of_a_hash():
    assert fingerprint(b"") == "e3b0 c442 98fc 1c14 9afb f4c8 996f b924"
