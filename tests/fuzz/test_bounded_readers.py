"""Texts and files that are small and would become large: refused, or read within memory that their size bounds."""

from __future__ import annotations

import json
import random
import re
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sudare
from sudare.consortium import Agreement
from sudare.consortium.agreement.approvals import parsed_event
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.ledger_rollback import parsed_head
from sudare.errors import SudareError
from sudare.experts import MirrorAveraging, OwnPlusConsensus, StackedExperts
from sudare.parsing import NotParsed, parsed_json, parsed_toml
from sudare.privacy import Ledger, Release
from sudare.privacy.ledger_restore import parsed_export
from sudare.schema import Category, Number, Schema
from sudare.synthesis import PrivateSynthesizer
from tests.experts.members import Line
from tests.release_kit import KEY, TRUSTED, manifest_of, with_manifest

# A dictionary, a key and a value for every few bytes of text.
MOST_BYTES_A_BYTE = 200
SMALL = 200_000


@contextmanager
def bounded_memory(most_bytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()


def json_bomb(random_: random.Random) -> str:
    """A text that makes much of little, whole or cut off somewhere."""
    count = random_.randrange(1, 20_000)
    bomb = random_.choice(
        [
            "[" * count + "]" * count, '{"a":' * count + "1" + "}" * count, "[" + "[]," * count + "1]", "[" + "{}," * count + "1]",
            "1" * count, "-1" + "0" * count, f"1e{count}", "[" + "1e400," * count + "1]", '"' + "\\u0041" * count + '"',
            '{"a":1,' * count, '"' + "\\" * count, "[" * count, '[["' + "]" * count + '"]]', "{" + '"a":[],' * count + '"a":1}',
        ]
    )  # fmt: skip
    return bomb if random_.random() < 0.5 else bomb[: random_.randrange(len(bomb) + 1)]


def toml_bomb(random_: random.Random) -> str:
    count = random_.randrange(1, 5_000)
    bomb = random_.choice(
        [
            "a" + ".a" * count + "=1", "[a" + ".a" * count + "]", "[[a" + ".a" * count + "]]", "x=" + "[" * count + "]" * count,
            "x=" + "{a=" * count + "1" + "}" * count, "[a]\n" * count, "[[a]]\n" * count, "x=[" + "{a.a=1}," * count + "]",
            "x=" + "1" * count, 'x="' + "\\" * count, "x='''" + "'" * count, '"a"' + '."a"' * count + "=1", "# " + "." * count,
            "x={y='''a'''', a" + ".a" * count + "='1'}", "\n".join(f"a{i}.b.c.d=1" for i in range(count)),
        ]
    )  # fmt: skip
    return bomb if random_.random() < 0.5 else bomb[: random_.randrange(len(bomb) + 1)]


@pytest.mark.parametrize("seed", range(60))
def test_json_bombs(seed: int) -> None:
    text = json_bomb(random.Random(seed))
    with bounded_memory(MOST_BYTES_A_BYTE * len(text) + SMALL):
        try:
            value = parsed_json(text)
        except NotParsed:
            return
        assert value == json.loads(text)


@pytest.mark.parametrize("seed", range(60))
def test_toml_bombs(seed: int) -> None:
    text = toml_bomb(random.Random(seed))
    # The standard parser keeps several dictionaries for a table.
    with bounded_memory(5 * MOST_BYTES_A_BYTE * len(text) + SMALL), suppress(NotParsed):
        parsed_toml(text)


READERS: list[tuple[Callable[[random.Random], str], Callable[[str], Any]]] = [
    (toml_bomb, Schema.from_toml),
    (toml_bomb, lambda text: Agreement.from_toml(text, Path())),
    (toml_bomb, lambda text: Member.from_toml(text, Path())),
    (json_bomb, parsed_event),
    (json_bomb, parsed_head),
    (json_bomb, parsed_export),
]


@pytest.mark.parametrize(("bomb", "reader"), READERS)
def test_every_reader_answers_a_bomb_with_an_error_of_ours(bomb: Any, reader: Any) -> None:
    for seed in range(40):
        text = bomb(random.Random(seed))
        if reader is parsed_export and text.strip() == "[]":
            continue
        with pytest.raises(SudareError) as caught:
            reader(text)
        assert len(str(caught.value)) < 1000


def test_no_other_reader_of_json_or_toml_is_used() -> None:
    """Whoever parses with the standard library parses without bounds. The exceptions read what they wrote a line before, and what is in the package."""
    calls = re.compile(r"\bjson\.(loads?|JSONDecoder)\b|\btomllib\b|from json import")
    root = Path(sudare.__file__).parent
    found = {file.relative_to(root).as_posix() for file in root.rglob("*.py") if calls.search(file.read_text("utf-8"))}
    assert found == {"parsing.py", "privacy/declared_columns.py", "languages/translation.py"}


@pytest.fixture(scope="module")
def synthesizer(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("synthesizer")
    account = Ledger(folder / "ledger.db").account("visits", epsilon=1.0)
    schema = Schema({"age": Number(0, 110), "town": Category(("x" * 1000, "y" * 1000))})
    rows = {"age": np.linspace(0, 110, 200), "town": ["x" * 1000, "y" * 1000] * 100}
    model = PrivateSynthesizer(schema, account=account).fit(rows)
    Release.of(model).save(folder / "a.sudare", key=KEY)
    return (folder / "a.sudare").read_bytes()


@pytest.mark.parametrize("rows", [1, 2**53 - 1])
def test_what_a_release_says_of_its_rows_takes_no_memory(synthesizer: bytes, tmp_path: Path, rows: int) -> None:
    manifest = manifest_of(synthesizer)
    manifest["parameters"]["rows"] = rows
    (tmp_path / "forged.sudare").write_bytes(with_manifest(synthesizer, manifest))
    model = Release.load(tmp_path / "forged.sudare", TRUSTED).model()
    with bounded_memory(200_000_000):
        assert 1 <= model.rows_by_default <= min(rows, 1_000_000)
        first = next(model.sample_batches())
        assert 1 <= len(first) <= model.rows_by_default
        assert first["town"].map(len).max() * len(first) <= 2**28


@pytest.mark.parametrize("seed", range(20))
def test_experts_of_any_numbers_spoil_nothing(seed: int) -> None:
    draw = random.Random(seed)
    numbers = np.random.default_rng(seed)
    X = numbers.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    odd = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e200, 1e101, 1e99, 5e-324, 0.0)
    strange = [Line([draw.choice(odd), draw.choice(odd)], draw.choice(odd)) for _ in range(3)]
    experts = [Line([1.0, 0.0]), *strange, Line([0.9, 0.1])]
    for combination in (MirrorAveraging, StackedExperts, OwnPlusConsensus):
        with np.errstate(all="ignore"), pytest.warns() if _unscorable(strange) else nullcontext():
            model = combination(experts).fit(X, y)
        assert np.isfinite(model.decision_values(X)).all()
        assert not {0, 4} & set(model.left_out_)


def _unscorable(experts: list[Line]) -> bool:
    return any(not np.all(np.abs([*each.coef_[0], each.intercept_[0]]) < 1e102) for each in experts)
