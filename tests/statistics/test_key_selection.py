"""Keys that nobody declared: how rows are coded, which keys are found, and how they are written and read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sudare.errors import DataError, ReleaseMalformed, WrongType
from sudare.privacy.noise import SeededNoise
from sudare.schema.table_from_any_frame import as_table
from sudare.statistics import key_selection
from sudare.statistics.key_selection import KeyCodes, Keys, KeySelection


def coded(columns: tuple[str, ...], *frames: pd.DataFrame) -> tuple[KeyCodes, list[np.ndarray]]:
    codes = KeyCodes(columns)
    return codes, [codes.of(as_table(frame, list(columns))) for frame in frames]


def test_codes_are_the_same_in_every_part() -> None:
    first, second = pd.DataFrame({"a": ["x", "y", None]}), pd.DataFrame({"a": pd.Categorical(["y", "z", "x"])})
    codes, parts = coded(("a",), first, second)
    assert parts[0].tolist()[:2] == [parts[1].tolist()[2], parts[1].tolist()[0]]
    assert parts[0][2] == 0
    assert codes.counts(parts).tolist() == [1, 2, 2, 1]


def test_values_that_may_not_leave_are_among_the_others() -> None:
    frame = pd.DataFrame({"a": ["x" * 129, "", "line\nbreak", "fine"], "b": [1, 2, 3, 4]})
    _, (codes,) = coded(("a", "b"), frame)
    assert codes.tolist() == [0, 0, 0, 1]


def test_columns_of_fractions_and_of_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongType, match="neither text"):
        coded(("a",), pd.DataFrame({"a": [0.5]}))
    monkeypatch.setattr(key_selection, "MOST_VALUES", 3)
    with pytest.raises(DataError, match="whose row"):
        coded(("a",), pd.DataFrame({"a": list("abcdef")}))


def test_one_record_of_another_type_does_not_name_a_group() -> None:
    """True and 1 are one to Python: whichever came first named the group of all."""
    for first, then in ((True, 1), (1, True), (1, "1")):
        with pytest.raises(WrongType, match="in one part of the source"):
            coded(("a",), pd.DataFrame({"a": [first]}), pd.DataFrame({"a": [then] * 500}))
    codes, _ = coded(("a",), pd.DataFrame({"a": [None]}), pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [None]}))
    assert list(codes.found) == [None, (1,)]


def test_where_too_many_keys_pass_no_order_of_records_decides_among_equal_counts() -> None:
    # So little noise that both counts are equal.
    selection = KeySelection(60.0, 1e-6, "add-remove", 1)
    for column in (["a"] * 50 + ["b"] * 50, ["b"] * 50 + ["a"] * 50):
        codes, parts = coded(("k",), pd.DataFrame({"k": column}))
        assert selection.selected(codes, codes.counts(parts), SeededNoise(0), 1).found == (("a",),)


def test_frequent_keys_are_found_and_rare_ones_are_not() -> None:
    selection = KeySelection(1.0, 1e-6, "add-remove", 1)
    frame = pd.DataFrame({"a": ["often"] * 500 + ["too"] * 400 + ["rare"], "b": [1] * 901})
    codes, parts = coded(("a", "b"), frame)
    found = selection.selected(codes, codes.counts(parts), SeededNoise(0))
    assert found.found == (("often", 1), ("too", 1))
    assert found.levels[-1] == (None, None)
    assert found.places(codes).tolist() == [2, 0, 1, 2, 2]
    assert Keys.from_list(("a", "b"), found.to_list()) == found


def test_of_too_many_keys_the_largest_are_kept() -> None:
    codes, parts = coded(("a",), pd.DataFrame({"a": ["x"] * 300 + ["y"] * 900}))
    selection = KeySelection(1.0, 1e-6, "replace-one", 1)
    assert selection.selected(codes, codes.counts(parts), SeededNoise(0), 1).found == (("y",),)
    assert selection.cost.delta > 0


@pytest.mark.parametrize(
    ("columns", "written"),
    [(("a",), None), ((), []), (("a",), [["b"], ["a"]]), (("a",), [["a"], ["a"]]), (("a",), [["a", "b"]]), (("a",), [[0.5]]), (("a",), ["a"])],
)  # fmt: skip
def test_keys_that_no_table_wrote_are_refused(columns: tuple[str, ...], written: object) -> None:
    with pytest.raises(ReleaseMalformed):
        Keys.from_list(columns, written)
