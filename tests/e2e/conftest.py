"""One page and one browser for each file of stories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import page_kit as kit


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("house")
    kit.furnished(folder)
    return folder


@pytest.fixture(scope="module")
def address(house: Path) -> Iterator[str]:
    with kit.served(house) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[kit.Browser]:
    with kit.chromium() as found:
        yield found
