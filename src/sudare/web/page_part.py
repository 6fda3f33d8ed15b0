"""What a part of the page brings along: its addresses, its place in the navigation, what waits there, what it counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.routing import BaseRoute

from sudare.report.prometheus import Metric
from sudare.web.rendering import NavigationItem
from sudare.web.shared_server_state import Services
from sudare.web.signed_in_request import Visit


@dataclass(frozen=True)
class Waiting:
    """Something that waits for whoever is signed in: an English sentence, where to decide about it, and what a person wrote, which is not translated.

    With a `button` one click does it: it sends the `fields` to the path.
    """

    text: str
    path: str
    written: str = ""
    button: str = ""
    fields: tuple[tuple[str, str], ...] = ()


def _nothing_waits(visit: Visit) -> Sequence[Waiting]:
    return ()


def _counts_nothing(services: Services) -> Sequence[Metric]:
    return ()


def _does_nothing(services: Services) -> None:
    return None


@dataclass(frozen=True)
class PagePart:
    """One part of the page. `start` and `stop` run when the server does; `waiting` is asked for the first screen."""

    routes: Sequence[BaseRoute]
    navigation: Sequence[NavigationItem] = ()
    waiting: Callable[[Visit], Sequence[Waiting]] = _nothing_waits
    metrics: Callable[[Services], Sequence[Metric]] = _counts_nothing
    start: Callable[[Services], None] = _does_nothing
    stop: Callable[[Services], None] = _does_nothing
