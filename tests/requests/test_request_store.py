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
