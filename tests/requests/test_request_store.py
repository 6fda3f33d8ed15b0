"""Where requests are kept: damaged files beside good ones."""

from __future__ import annotations

import json

import pytest

from sudare.errors import RequestError
from sudare.requests.steward_settings import RequestSettings
from tests.requests.conftest import asked


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "{",
        lambda text: text.replace('"kind":"mean"', '"kind":"zzz"'),
        lambda text: json.dumps({**json.loads(text), "when": 7}),
        lambda text: json.dumps({**json.loads(text), "purpose": ["a"]}),
    ],
    ids=["cut short", "unknown kind", "a number as time", "a list as purpose"],
)
def test_a_damaged_request_is_named_and_stops_no_other(settings: RequestSettings, spoil) -> None:
    good, bad = asked(settings), asked(settings)
    path = settings.requests_folder / f"{bad.identity}.json"
    path.write_text(spoil(path.read_text()))
    assert settings.store.readable_and_damaged() == ([good], [bad.identity])
    assert settings.store.requests() == [good]
    with pytest.raises(RequestError, match="cannot be read"):
        settings.store.request(bad.identity)


@pytest.mark.parametrize("wrong", ["a", None, [1], {"a": 1}, -1, True], ids=str)
@pytest.mark.parametrize(
    "field",
    [
        ("people",),
        ("versions", 0, "number"),
        ("versions", 0, "values"),
        ("versions", 0, "values", "columns"),
        ("versions", 0, "expected", 0, "what"),
        ("versions", 0, "expected", 0, "size"),
        ("decisions", 0, "verdict"),
        ("outcome", "epsilon"),
        ("outcome", "problem"),
    ],
    ids=lambda field: ".".join(map(str, field)),
)
def test_a_field_of_another_type_is_damage(settings: RequestSettings, field, wrong) -> None:
    good, bad = asked(settings), asked(settings)
    path = settings.requests_folder / f"{bad.identity}.json"
    whole = json.loads(path.read_text())
    whole["versions"][0]["expected"] = [{"what": "mean", "size": 1.0, "unit": "", "whole": None}]
    whole["decisions"] = [{"version": 1, "verdict": "denied", "who": "sato", "when": "", "reason": "no"}]
    whole["outcome"] = {"state": "failed", "when": ""}
    path.write_text(json.dumps(whole))
    assert settings.store.readable_and_damaged()[1] == []
    place = whole
    for step in field[:-1]:
        place = place[step]
    # Texts may be "a", and an unknown error has no size.
    place[field[-1]] = (
        7
        if (field[-1], wrong) in [("what", "a"), ("problem", "a")]
        else "1"
        if (field[-1], wrong) == ("size", None)
        else wrong
    )
    path.write_text(json.dumps(whole))
    assert settings.store.readable_and_damaged() == ([good], [bad.identity])
