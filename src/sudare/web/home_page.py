"""The first screen: what is left of each budget, what waits, and what left lately."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from sudare.errors import SudareError
from sudare.web.account_views import account_views
from sudare.web.page_part import PagePart, Waiting
from sudare.web.release_views import ListedFile, listed_files, trusted_keys
from sudare.web.rendering import NavigationItem
from sudare.web.visit import Visit, page

NEWEST = 5


@page("viewer")
def home(visit: Visit) -> Response:
    """Budgets, what waits for whoever is signed in, and the newest files of releases."""
    problem = visit.services.ledger_problem()
    return visit.render(
        "home.html",
        accounts=[] if problem else account_views(visit.services.ledger()),
        waiting=_waiting(visit),
        ledger_problem=problem,
        files=_newest(visit),
    )


def _newest(visit: Visit) -> list[ListedFile]:
    """The releases that were written last; none where their folder cannot be read, which their own page tells."""
    settings = visit.services.settings
    try:
        return listed_files(settings.releases, trusted_keys(settings.trusted_keys))[:NEWEST]
    except SudareError:
        return []


def _waiting(visit: Visit) -> list[Waiting]:
    found: list[Waiting] = []
    for part in visit.request.app.state.parts:
        try:
            found.extend(part.waiting(visit))
        except SudareError as error:
            found.append(Waiting(str(error), part.navigation[0].path))
    return found


PART = PagePart(routes=[Route("/", home)], navigation=[NavigationItem("/", "Overview")])
