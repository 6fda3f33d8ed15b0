"""Mutated releases of perturbed records, signed again with a trusted key: refused with an error of ours, or meaning what they say."""

from __future__ import annotations

import hashlib
import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import safetensors.numpy

from sudare.errors import SudareError
from sudare.perturbation import RecordPerturbation
from sudare.perturbation.one_column_per_record import ANSWERED, row_cost
from sudare.perturbation.parquet_writer import FileLayout
from sudare.perturbation.release_format import written_perturbations
from sudare.privacy import Ledger, Release
from sudare.privacy.accounting import exact
from sudare.privacy.release_file import written
from sudare.schema import Category, Label, Number, Person, Schema
from tests.fuzz.test_release_files import FORGERIES, Tally, damaged, mangle
from tests.release_kit import KEY, TRUSTED, header_of, padded, plain_json, signed, taken_apart

SCHEMA = Schema(
    {
        "age": Number(17, 90, missing="centre"),
        "income": Number(0, 9.5, unit="ducats"),
        "sex": Category(("f", "m")),
        "town": Category(tuple(range(11)), missing="none"),
        "ill": Label((False, True)),
    }
)


def originals(folder: Path) -> list[bytes]:
    """Releases with every kind of perturbation, by schema, with persons and by bounds."""
    account = Ledger(folder / "ledger.db").account("people", epsilon=100.0, unit="record")
    persons = Ledger(folder / "persons.db").account("people", epsilon=100.0, unit="person")
    rng = np.random.default_rng(0)
    table = {
        "age": rng.uniform(17, 90, 24),
        "income": rng.uniform(0, 9.5, 24),
        "sex": rng.choice(["f", "m"], 24),
        "town": rng.integers(0, 11, 24),
        "ill": rng.integers(0, 2, 24).astype(bool),
    }
    methods = {"age": "square-wave", "sex": "unary", "ill": "subset"}
    with_person = Schema(dict(SCHEMA.columns), Person("who", 2))
    models = [
        RecordPerturbation(SCHEMA, epsilon=5.0, account=account).fit(table),
        RecordPerturbation(SCHEMA, k=2, methods=methods, account=account).fit(table),
        RecordPerturbation(SCHEMA, epsilon=2.0, one_column=True, account=account).fit(table),
        RecordPerturbation(with_person, epsilon=6.0, account=persons).fit(table | {"who": np.arange(24) // 2}),
        RecordPerturbation(bounds=(-1, 3), epsilon=2.0, shuffle=False, account=account).fit(rng.uniform(-1, 3, (9, 2))),
    ]
    files = []
    for number, model in enumerate(models):
        path = folder / f"{number}.original"
        Release.of(model).save(path, KEY)
        files.append(path.read_bytes())
    return files


def forged_perturbations(file: bytes, chance: random.Random) -> bytes:
    """Other perturbations: kinds, ε, scales, and what they are said to add up to."""
    fields, data = taken_apart(file)
    manifest = json.loads(fields["__metadata__"]["manifest"])
    parameters = manifest["parameters"]
    kind = chance.randrange(4)
    if kind == 0:
        mangle(parameters["perturbations"], chance)
    elif kind == 1:
        facts = chance.choice(parameters["perturbations"])
        facts["kind"] = chance.choice(("laplace", "square-wave", "retain-replace", "unary", "subset", "auto"))
    elif kind == 2:
        facts = chance.choice(parameters["perturbations"])
        name = chance.choice([name for name in facts if name != "kind"])
        facts[name] *= chance.choice((0.5, 1 + 1e-9, 2.0, -1.0))
    else:
        parameters["row_epsilon"] *= chance.choice((0.5, 1 - 1e-12, 1 + 1e-12, 2.0))
    fields["__metadata__"]["manifest"] = plain_json(manifest)
    return signed(padded(plain_json(fields)), data)


def place_of_a_value(parameters: dict[str, Any], chance: random.Random) -> int:
    """Some byte of the Parquet file that is not of its layout."""
    layout = FileLayout.of(written_perturbations(parameters), parameters["rows"])
    place = chance.choice([place for places in layout.places.values() for place in places])
    return chance.randrange(place.values, place.end)


def forged_rows(file: bytes, chance: random.Random) -> bytes:
    """Other rows, which the manifest names: bits, bytes and lengths of the Parquet file, or one of another number of rows."""
    fields, data = taken_apart(file)
    manifest = json.loads(fields["__metadata__"]["manifest"])
    rows = bytearray(data)
    kind = chance.randrange(5)
    place = chance.choice((chance.randrange(len(rows)), place_of_a_value(manifest["parameters"], chance)))
    if kind <= 1:
        rows[place] ^= 1 << chance.randrange(8)
    elif kind == 2:
        rows[place] = chance.randrange(256)
    elif kind == 3:
        end = min(len(rows), place + chance.randrange(1, 9))
        other = chance.randrange(len(rows) - (end - place) + 1)
        rows[place:end] = rows[other : other + end - place]
    else:
        manifest["parameters"]["rows"] += chance.choice((-8, -1, 1, 8, 2**31))
        rows = rows if chance.random() < 0.5 else rows[:place]
    manifest["parameters"]["rows_digest"] = hashlib.sha256(rows).hexdigest()
    return signed(padded(plain_json(header_of(manifest, {"rows": np.frombuffer(bytes(rows), np.uint8)}))), bytes(rows))


def check_meaning(file: bytes, release: Release) -> None:
    """An accepted file is the one spelling of what it says, promises what its columns cost, and holds outputs that can be."""
    assert written(release.manifest(), release.content.tensors, KEY) == file
    for name, tensor in safetensors.numpy.load(file).items():
        assert tensor.tobytes() == release.content.tensors[name].tobytes()
    model = release.model()
    table = model.table_
    assert release.guarantee.notion == "local"
    most_rows = table.rows_per_person
    assert sum(exact(epsilon) for epsilon in row_cost(table.perturbations)) * most_rows <= exact(
        release.guarantee.epsilon
    )
    for name, each in table.perturbations.items():
        outputs = table.column(name)
        own = table.column(ANSWERED) == name if table.is_sampled and name != ANSWERED else np.ones(table.rows)
        assert len(outputs) == own.sum()
        if len(outputs) and hasattr(each, "output_bounds"):
            low, high = each.output_bounds
            assert low - 1e-6 <= outputs.min() <= outputs.max() <= high + 1e-6
    # A Parquet reader that knows nothing of us sees the same rows.
    assert pq.read_table(io.BytesIO(release.content.tensors["rows"].tobytes())).equals(table.arrow())
    assert b"".join(table.parquet()) == release.content.tensors["rows"].tobytes()
    statement = model.statement()
    assert statement.local == release.guarantee
    assert (statement.k is None) == (not table.shuffled or table.rows <= most_rows)


def fuzz(count: int, seed: int, folder: Path) -> Tally:
    """Load so many mutated files, half damaged and half forged."""
    files, chance, tally = originals(folder), random.Random(seed), Tally()
    forgeries = (*FORGERIES, *[forged_perturbations] * 3, *[forged_rows] * 3)
    path = folder / "mutated.sudare"
    for number in range(count):
        original = chance.choice(files)
        forging = number % 2 == 1
        file = chance.choice(forgeries)(original, chance) if forging else damaged(original, chance)
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
        check_meaning(file, release)
    return tally


def test_mutated_perturbed_tables(tmp_path: Path) -> None:
    tally = fuzz(1_500, seed=20260101, folder=tmp_path)
    assert tally.total == 1_500
    # A fuzzer that never gets past the first check would prove little.
    assert tally.accepted >= 20
    assert len(tally.refused) >= 40


@pytest.mark.long
def test_many_mutated_perturbed_tables(tmp_path: Path) -> None:
    assert fuzz(50_000, seed=11, folder=tmp_path).accepted >= 500
