"""Mutated release files, signed again with a trusted key: refused with an error of ours, or meaning what they say.

Two kinds. *Damage* changes bytes anywhere and repairs the signature only: the digest must notice. *Forgery* changes the
meaning (manifest, header, tensors, lengths) and repairs digest and signature: whatever is still accepted must be the one
spelling of its content, must be read in the same way by the safetensors library and by json, and must make a model.
"""

from __future__ import annotations

import copy
import json
import random
import re
import resource
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import safetensors.numpy

from sudare.errors import ReleaseMalformed, SudareError
from sudare.privacy import Ledger, Release
from sudare.privacy.release_file import LARGEST_FILE_BYTES, written
from sudare.statistics import PrivateHistogram, PrivateMean, PrivateStandardScaler
from tests.release_kit import (
    KEY,
    TRUSTED,
    data_of,
    fitted,
    header_of,
    manifest_of,
    matrix,
    padded,
    plain_json,
    replaced_hexadecimal,
    signed,
    table,
    taken_apart,
)

MOST_MEMORY_BYTES = 200_000_000
ODD_FLOATS = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, 1e300, 1.7e308, 0.1, float("nan"), float("inf"), 2.0**53, -3.7)
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    40,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63),
    10**30,
    10**400,
    0.0,
    1.0,
    0.5,
    -1.5,
    1e-320,
    1e308,
    "",
    "a",
    "PrivateMean",
    "PrivateHistogram",
    "PrivateStandardScaler",
    "replace-one",
    "add-remove",
    "person",
    "local",
    "none",
    "inf",
    "number",
    "category",
    "label",
    "?",
    "centre",
    "indicator",
    "0" * 32,
    "0" * 64,
    "ä€😀",
    "\x00",
    "\u2028",
    "__class__",
    "os.system",
    "x" * 300,
    [],
    {},
    [[]],
    {"a": 1},
    [1, 2],
    [0.5],
    [None] * 5,
    {"column": "p", "most_rows": 2},
    {"kind": "number", "low": 0, "high": 1},
    ["x0", {"kind": "number", "low": 0, "high": 1}],
    ["c", {"kind": "category", "values": ["a", "b"]}],
)
TEXT_CHANGES: tuple[tuple[str, str], ...] = (
    (":", ": "),
    (",", ", "),
    ("{", "{ "),
    ("1", "1.0"),
    ("1", "1e0"),
    ("0", "-0"),
    ("0.0", "-0.0"),
    ("1.0", "NaN"),
    ("1.0", "Infinity"),
    ("1.0", "1e999"),
    ("1.0", "1.00"),
    ("a", "\\u0061"),
    ("e", "\\u0065"),
    ('"', '\\"'),
    ("a", "\\ud800"),
    ("}", ',"zz":1}'),
    ("}", ',"format":1}'),
    ("{", '{"a":1,"a":1,'),
    ("[", "[[[[[[[["),
    ("null", "nul"),
    ("true", "1"),
    ("F64", "F32"),
    ("F64", "I64"),
    ("I64", "F64"),
    ("mean", "scale"),
    ("mean", "means"),
    ("counts", "mean"),
    (" ", ""),
    ("}", "} "),
)


@dataclass
class Originals:
    """Real releases, and rows that their models can look at."""

    files: list[bytes]
    rows: list[Any]

    @classmethod
    def made(cls, folder: Path) -> Originals:
        account = Ledger(folder / "ledger.db").account("patients", epsilon=100.0, delta=0.1)
        cases = [
            (PrivateMean, "bounds", {}),
            (PrivateHistogram, "bounds", {"bins": 3, "neighbours": "add-remove"}),
            (PrivateStandardScaler, "bounds", {"delta": 1e-6}),
            (PrivateMean, "person", {}),
            (PrivateHistogram, "person", {}),
            (PrivateStandardScaler, "schema", {}),
        ]
        files = []
        for number, (learner, declared, parameters) in enumerate(cases):
            path = folder / f"{number}.original"
            Release.of(fitted(learner, declared, account, **parameters)).save(path, KEY)
            files.append(path.read_bytes())
        return cls(files, [matrix() if declared == "bounds" else table() for _, declared, _ in cases])


# Damage


def damaged(file: bytes, chance: random.Random) -> bytes:
    """The file with bytes changed, inserted, removed, doubled or cut off, and its signature repaired."""
    changed = bytearray(file)
    for _ in range(chance.choice((1, 1, 1, 2, 5, 50))):
        place = chance.randrange(len(changed) + 1)
        kind = chance.randrange(8)
        if kind < 3 and place < len(changed):
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == 3 and place < len(changed):
            changed[place] = chance.randrange(256)
        elif kind == 4:
            changed[place:place] = chance.randbytes(chance.randrange(1, 9))
        elif kind == 5:
            del changed[place : place + chance.randrange(1, 9)]
        elif kind == 6:
            changed[place:place] = changed[place : place + chance.randrange(1, 300)]
        else:
            del changed[place:]
        if not changed:
            break
    return with_signature(bytes(changed))


def with_signature(file: bytes) -> bytes:
    """The file under a signature that fits its bytes, digest and all else left as they are."""
    blank = replaced_hexadecimal(file, "signature", b"0" * 128)
    return replaced_hexadecimal(blank, "signature", KEY.sign(b"sudare release\n" + blank).hex().encode())


# Forgery


def somewhere(value: Any, chance: random.Random) -> tuple[Any, Any] | None:
    """A container inside a JSON value and one of its keys; None in an empty one."""
    here = None
    while isinstance(value, dict | list) and value:
        key = chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
        here, value = (value, key), value[key]
        if chance.random() < 0.25:
            break
    return here


def odd_number(value: float, chance: random.Random) -> float:
    return chance.choice((value + 1, value - 1, -value, value * 2, value / 2, value + 2**-40, float(value), int(value)))


def mangle(value: Any, chance: random.Random) -> None:
    """Change one place of a JSON value."""
    found = somewhere(value, chance)
    if found is None:
        return
    place, key = found
    old = place[key]
    kind = chance.randrange(6)
    if kind == 0:
        del place[key]
    elif kind == 1 and isinstance(place, dict):
        place[chance.choice(("zz", "clipped", "format", "mean", "a" * 70, key + "x"))] = old
    elif kind == 1:
        place.insert(key, old)
    elif kind == 2 and isinstance(old, str) and old:
        cut = chance.randrange(len(old))
        place[key] = old[:cut] + chance.choice(("", "x", "0", "ä", "\n")) + old[cut + 1 :]
    elif kind == 3 and isinstance(old, int | float) and abs(old) < 2**53:
        place[key] = odd_number(old, chance)
    else:
        place[key] = copy.deepcopy(chance.choice(ODD_VALUES))


def forged_manifest(file: bytes, chance: random.Random) -> bytes:
    fields, data = taken_apart(file)
    manifest = json.loads(fields["__metadata__"]["manifest"])
    for _ in range(chance.choice((1, 1, 2, 3))):
        mangle(manifest, chance)
    fields["__metadata__"]["manifest"] = plain_json(manifest)
    return signed(padded(plain_json(fields)), data)


def forged_columns(file: bytes, chance: random.Random) -> bytes:
    """Other declarations: the part of a manifest with the most meaning."""
    fields, data = taken_apart(file)
    manifest = json.loads(fields["__metadata__"]["manifest"])
    columns = manifest["parameters"]["columns"]
    declared = [pair[1] for pair in columns]
    for _ in range(chance.choice((1, 1, 2, 3))):
        facts = chance.choice(declared)
        kind = chance.randrange(5)
        if kind == 0:
            mangle(columns, chance)
        elif kind == 1:
            facts[chance.choice(("low", "high", "centre", "scale", "missing"))] = chance.choice(
                (0, 1, 0.5, 55, -1e308, 1.7e308, 1e-310, 2**53, 10**30, "centre", "indicator", None)
            )
        elif kind == 2:
            facts[chance.choice(("unit", "values", "classes", "bins", "kind"))] = chance.choice(
                (
                    "years",
                    ["a", "b"],
                    ["a", "a"],
                    [0, 1],
                    [True, False],
                    [0.5],
                    [18.5, 25, 31],
                    [],
                    "number",
                    "category",
                )
            )
        elif kind == 3:
            chance.shuffle(columns)
        else:
            manifest["parameters"]["person"] = chance.choice(
                (
                    None,
                    {"column": "p", "most_rows": 3},
                    {"column": "age", "most_rows": 3},
                    {"column": "p", "most_rows": 0},
                )
            )
    fields["__metadata__"]["manifest"] = plain_json(manifest)
    return signed(padded(plain_json(fields)), data)


def forged_manifest_text(file: bytes, chance: random.Random) -> bytes:
    fields, data = taken_apart(file)
    fields["__metadata__"]["manifest"] = respelled(fields["__metadata__"]["manifest"], chance)
    return signed(padded(plain_json(fields)), data)


def respelled(text: str, chance: random.Random) -> str:
    old, new = chance.choice([change for change in TEXT_CHANGES if change[0] in text])
    places = [place for place in range(len(text)) if text.startswith(old, place)]
    place = chance.choice(places)
    return text[:place] + new + text[place + len(old) :]


def forged_header(file: bytes, chance: random.Random) -> bytes:
    fields, data = taken_apart(file)
    mangle(fields if chance.random() < 0.5 else fields[chance.choice(list(fields))], chance)
    return signed(padded(plain_json(fields)), data)


def forged_header_text(file: bytes, chance: random.Random) -> bytes:
    fields, data = taken_apart(file)
    text = respelled(plain_json(fields), chance)
    return signed(padded(text) if chance.random() < 0.8 else text.encode(), data)


def forged_tensors(file: bytes, chance: random.Random) -> bytes:
    """Other numbers: odd ones, small steps, other bits."""
    fields, data = taken_apart(file)
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        place = 8 * chance.randrange(len(changed) // 8)
        kind = chance.randrange(4)
        if kind == 0:
            changed[place : place + 8] = struct.pack("<d", chance.choice(ODD_FLOATS))
        elif kind == 1:
            changed[place : place + 8] = struct.pack("<q", chance.choice((0, 1, -1, 7, 2**53, 2**53 + 1, -(2**63))))
        elif kind == 2:
            changed[place + chance.randrange(8)] ^= 1 << chance.randrange(8)
        else:
            (number,) = struct.unpack("<d", changed[place : place + 8])
            changed[place : place + 8] = struct.pack("<d", number / 2)
    return signed(padded(plain_json(fields)), bytes(changed))


def forged_shapes(file: bytes, chance: random.Random) -> bytes:
    """Tensors of other shapes, types, names and numbers, with offsets that fit or nearly fit."""
    fields, data = taken_apart(file)
    names = [name for name in fields if name != "__metadata__"]
    kind = chance.randrange(5)
    if kind == 0:
        fields[chance.choice(names)]["shape"] = [chance.choice((0, 1, 2, 3, -1, 2**26, 2**62, True)) for _ in range(3)]
    elif kind == 1:
        data += chance.randbytes(chance.choice((1, 8, 64)))
    elif kind == 2:
        data = data[: chance.randrange(len(data))]
    elif kind == 3:
        fields["extra"] = {"dtype": "U8", "shape": [8], "data_offsets": [len(data), len(data) + 8]}
        data += bytes(8)
    else:
        tensors = {name: np.arange(chance.randrange(1, 6), dtype=np.float64) for name in names}
        fields = header_of(fields["__metadata__"]["manifest"], tensors)
        data = data_of(tensors)
    return signed(padded(plain_json(fields)), data)


def forged_length(file: bytes, chance: random.Random) -> bytes:
    length = int.from_bytes(file[:8], "little")
    new = chance.choice(
        (0, 1, length - 1, length + 1, length + 8, length - 8, 2**20, 2**20 + 8, 2**32, 2**63, 2**64 - 1)
    )
    header, data = file[8 : 8 + length], file[8 + length :]
    body = signed(header[:new], header[new:] + data)[8:] if new < length else header + data
    return new.to_bytes(8, "little") + body


FORGERIES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    forged_manifest,
    forged_manifest,
    forged_columns,
    forged_columns,
    forged_manifest_text,
    forged_header,
    forged_header_text,
    forged_tensors,
    forged_tensors,
    forged_shapes,
    forged_length,
)


@dataclass
class Tally:
    """What became of the files."""

    refused: Counter[str] = field(default_factory=Counter)
    accepted: int = 0
    unchanged: int = 0

    @property
    def total(self) -> int:
        return self.refused.total() + self.accepted + self.unchanged


def fuzz(count: int, seed: int, folder: Path) -> Tally:
    """Load so many mutated files, half damaged and half forged; raises where one does what none may do."""
    originals, chance, tally = Originals.made(folder), random.Random(seed), Tally()
    path = folder / "mutated.sudare"
    for number in range(count):
        index = chance.randrange(len(originals.files))
        original = originals.files[index]
        forging = number % 2 == 1
        file = chance.choice(FORGERIES)(original, chance) if forging else damaged(original, chance)
        path.write_bytes(file)
        try:
            release = Release.load(path, TRUSTED)
        except SudareError as error:
            tally.refused[str(error)] += 1
            continue
        if file == original:
            tally.unchanged += 1
            continue
        assert forging, "a damaged file was accepted"
        tally.accepted += 1
        check_meaning(file, release, original, originals.rows[index])
    return tally


def check_meaning(file: bytes, release: Release, original: bytes, rows: Any) -> None:
    """An accepted file is the one spelling of what it says, others read the same in it, and its model works."""
    assert written(release.manifest(), release.content.tensors, KEY) == file
    fields, _ = taken_apart(file)
    assert json.loads(fields["__metadata__"]["manifest"]) == release.manifest()
    tensors = safetensors.numpy.load(file)
    assert tensors.keys() == release.content.tensors.keys()
    for name, tensor in tensors.items():
        assert tensor.dtype == release.content.tensors[name].dtype
        assert tensor.tobytes() == release.content.tensors[name].tobytes()
    model = release.model()
    try:
        assert np.isfinite(model.score(rows))
    except SudareError:
        # The rows are those of the original: they need not have the columns that a forged declaration names.
        assert release.manifest()["parameters"]["columns"] != manifest_of(original)["parameters"]["columns"]


def test_mutated_files(tmp_path):
    tally = fuzz(5_000, seed=20260101, folder=tmp_path)
    assert tally.total == 5_000
    # A fuzzer that never gets past the first check would prove little.
    assert tally.accepted >= 100
    assert len(tally.refused) >= 50


IN_A_PROCESS_OF_ITS_OWN = """
import sys
from pathlib import Path
from tests.fuzz import test_release_files as room
room.report_growth(lambda folder: room.{call}, Path(sys.argv[1]))
"""


def memory_growth_bytes(call: str, folder: Path) -> int:
    """How much the peak memory of a fresh process grows over what it needs for loading ordinary files."""
    finished = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN.format(call=call), str(folder)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    growth, with_control = map(int, finished.stdout.split())
    # The measure itself: 256 MiB more are seen as such.
    assert with_control >= 250_000_000
    return growth


def peak_memory_bytes() -> int:
    """The most memory that this program has had; getrusage would count the one that started it as well on Linux."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s*(\d+) kB", status.read_text())[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def report_growth(work: Callable[[Path], object], folder: Path) -> None:
    (folder / "ordinary").mkdir()
    fuzz(20, seed=1, folder=folder / "ordinary")
    before = psutil.Process().memory_info().rss
    work(folder)
    growth = peak_memory_bytes() - before
    control = bytearray(b"x") * 2**28
    print(growth, len(control) and peak_memory_bytes() - before)


def load_largest(folder: Path) -> None:
    """The largest files there can be, with every part of them as large as it can be, all refused late."""
    for path in sorted(folder.glob("*.large")):
        with pytest.raises(ReleaseMalformed, match="This is not a release sudare can use"):
            Release.load(path, TRUSTED)


def test_largest_files_take_little_memory(tmp_path):
    """Files made outside of the process that is measured: 64 MiB of data, and a megabyte of the worst JSON."""
    (tmp_path / "made").mkdir()
    original = Originals.made(tmp_path / "made").files[0]
    fields, _ = taken_apart(original)
    manifest = fields["__metadata__"]["manifest"]
    numbers = (LARGEST_FILE_BYTES - 2**20) // 8
    tensors = {"mean": np.zeros(numbers)}
    (tmp_path / "tensor.large").write_bytes(
        signed(padded(plain_json(header_of(manifest, tensors))), tensors["mean"].tobytes())
    )
    for name, worst in (("lists", "[],"), ("objects", "{},"), ("numbers", "0.5,"), ("texts", '"a",')):
        text = '{"format":1,"parameters":[' + (worst * (1_000_000 // (len(plain_json(worst)) - 2)))[:-1] + "]}"
        (tmp_path / f"{name}.large").write_bytes(signed(padded(plain_json(header_of(text, {}))), b""))
    assert memory_growth_bytes("load_largest(folder)", tmp_path) < MOST_MEMORY_BYTES


@pytest.mark.long
def test_many_mutated_files(tmp_path):
    assert memory_growth_bytes("fuzz(200_000, 7, folder)", tmp_path) < MOST_MEMORY_BYTES
