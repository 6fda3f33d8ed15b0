"""JSON and TOML are measured before they are parsed."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.languages import translated
from sudare.parsing import NotParsed, finite_float, parsed_json, parsed_toml

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_what_json_writes_is_read(value):
    text = json.dumps(value)
    assert parsed_json(text) == parsed_json(text.encode()) == value
    assert parsed_json(json.dumps(value, ensure_ascii=False)) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "a": 2}', "twice"),
        ("[1e400]", "not finite"),
        ("NaN", "not finite"),
        ("-Infinity", "not finite"),
        ("1" * 65, "digits"),
        ('"\\ud800"', "not Unicode"),
        ('{"\\udc00": 1}', "not Unicode"),
        ('[["\\ud800"]]', "not Unicode"),
        ("\ud800", "UTF-8"),
        (b"\xff", "UTF-8"),
        ("[" * 17 + "]" * 17, "nested"),
        ("[" * 100_000, "nested"),
        ('{"a":' * 17 + "1" + "}" * 17, "nested"),
        ("[" + "0," * 200_000 + "0]", "entries"),
        (" " * (1 << 20) + "1", "larger"),
        ("é" * (1 << 19) + '""', "larger"),
        ("nothing", "not JSON"),
        ("", "not JSON"),
    ],
)
def test_json_beyond_the_bounds_is_refused(text, reason):
    with pytest.raises(NotParsed, match=reason):
        parsed_json(text)


def test_brackets_inside_of_strings_are_not_nesting():
    assert parsed_json(json.dumps(["[" * 100, '"' + "{" * 100])) == ["[" * 100, '"' + "{" * 100]
    assert parsed_json("[" * 16 + "]" * 16) is not None
    assert parsed_json('"\\ud83d\\ude00"') == "😀"


def test_the_caller_decides_what_a_float_is():
    assert parsed_json("[1.5]", float_of=str) == ["1.5"]
    assert finite_float("1e5") == 1e5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a" + ".a" * 60_000 + " = 1", "parts"),
        ("[a" + ".a" * 60_000 + "]", "parts"),
        ("x = {a" + ".a" * 8 + " = 1}", "parts"),
        ("a . a . a.a.a.a.a.a.a = 1", "parts"),
        ('"a"' + '."a"' * 8 + " = 1", "parts"),
        ("[{x='''a'''', a" + ".a" * 600 + "='1'}]", "parts"),
        ('[{x="""a"""", a' + ".a" * 600 + '="1"}]', "parts"),
        ("x = " + "[" * 17 + "]" * 17, "nested"),
        ("x = " + "[" * 100_000, "nested"),
        ("x = [" + "0," * 200_000 + "]", "entries"),
        ("x = 1\n" * 200_000, "larger"),
        ("x = " + "1" * 5000, "too long"),
        ("x = = 1", "line 1, column 5"),
        ('x = "', "end of document"),
        (b"\xff", "UTF-8"),
    ],
)
def test_toml_beyond_the_bounds_is_refused(text, reason):
    with pytest.raises(NotParsed, match=reason):
        parsed_toml(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bins = [" + ", ".join(["1.5"] * 1000) + "]",
        'x = "' + "." * 1000 + '"',
        "x = 1 # " + "." * 1000,
        "x = '''\n" + "[.\n" * 1000 + "'''''",
        'x = """\n' + '[.\\"""\n' * 1000 + '"""',
        "a.b.c.d.e.f.g.h = 1",
        'x = "a"\r\ny = 2',
    ],
)
def test_toml_within_the_bounds_is_read(text):
    assert parsed_toml(text) == parsed_toml(text.encode()) == tomllib.loads(text)


@given(st.text(alphabet="a.='\"#\\\n[]{}, 1", max_size=60))
def test_no_quoting_hides_the_parts_of_a_key(text):
    """What the measure lets pass has, in the parser's eyes too, no key of more parts than allowed."""
    try:
        value = parsed_toml(text, most_key_parts=2, largest_nesting=2)
    except NotParsed:
        return

    def depth(value: object) -> int:
        if isinstance(value, dict):
            return 1 + max(map(depth, value.values()), default=0)
        return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0

    # A header, the key below it, and two levels of brackets with a key in each.
    assert depth(value) <= 1 + 2 + 2 + 2 * (1 + 2)


@pytest.mark.parametrize("text", ["年齢 = 3", "[columns.年齢]", "a = 1\ncolumns.âge = 1", "[[年]]"])
def test_names_that_need_quotation_marks_are_told_so(text: str) -> None:
    with pytest.raises(NotParsed, match="stands in quotation marks"):
        parsed_toml(text)


@pytest.mark.parametrize("text", ['["年" ]x = 3', "a = 年", 'a = "年', "é" * 100_000, '"""\n\n年 = """ 年'])
def test_other_faults_are_not(text: str) -> None:
    with pytest.raises(NotParsed) as raised:
        parsed_toml(text)
    assert "quotation" not in str(raised.value)


def test_the_place_of_a_fault_is_told_in_japanese() -> None:
    for text, place in (("x = 1\ny = = 1", "2 行目の 5 文字目"), ('x = "', "末尾の位置")):
        with pytest.raises(NotParsed) as raised:
            parsed_toml(text)
        assert (
            translated(f"The text is not valid TOML ({raised.value}).", "ja")
            == f"テキストが正しい TOML ではありません（{place}）。"
        )
