"""The first screen: what is left of each budget, what waits, and what left lately."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from sudare.errors import LedgerMissing, SudareError
from sudare.web.account_display import account_views
from sudare.web.page_part import PagePart, Waiting
from sudare.web.release_display import ListedFile, listed_files, trusted_keys
from sudare.web.rendering import NavigationItem
from sudare.web.signed_in_request import Visit, page

NEWEST = 5


@page("viewer")
def home(visit: Visit) -> Response:
    """Budgets, what waits for whoever is signed in, and the newest files of releases."""
    problem, files = visit.services.ledger_problem(), _newest(visit)
    return visit.render(
        "home.html",
        accounts=[] if problem else account_views(visit.services.ledger()),
        waiting=_waiting(visit),
        ledger_problem=problem,
        # A ledger that was taken away is told as a problem: something has left already.
        is_new=isinstance(problem, LedgerMissing) and not files,
        files=files,
    )


def _newest(visit: Visit) -> list[ListedFile]:
    """The releases that were written last; none where their folder cannot be read, which their own page tells."""
    settings = visit.services.settings
    try:
        return listed_files(settings.releases, trusted_keys(settings))[:NEWEST]
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
