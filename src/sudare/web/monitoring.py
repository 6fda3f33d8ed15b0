"""For the IT department's own tools: /health, and /metrics in the text format of Prometheus. No names, no private values."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sudare.errors import SudareError
from sudare.report.prometheus import PROMETHEUS, Metric, prometheus_text
from sudare.web.page_part import PagePart
from sudare.web.settings import is_loopback
from sudare.web.shared_server_state import Services, services_of
from sudare.web.signed_in_request import refusal


async def health(request: Request) -> Response:
    """200 where the ledger can be read, else 503; one word for each."""
    problem = await run_in_threadpool(services_of(request).ledger_problem)
    words = {
        "status": "ok" if problem is None else "degraded",
        "ledger": "ok" if problem is None else type(problem).__name__,
    }
    return JSONResponse(words, status_code=200 if problem is None else 503)


async def metrics(request: Request) -> Response:
    """All numbers, for whoever has the token; without one in the settings, for this computer only."""
    services = services_of(request)
    if not may_read_metrics(request, services):
        return refusal(request, 403)
    found = await run_in_threadpool(_all_metrics, services, request.app.state.parts)
    return PlainTextResponse(prometheus_text(found), media_type=PROMETHEUS)


def may_read_metrics(request: Request, services: Services) -> bool:
    """Whether a request has the token of the settings, or comes from this computer where there is none and no proxy."""
    token = services.settings.metrics_token
    if token is not None:
        given = request.headers.get("authorization", "")
        return hmac.compare_digest(given.encode("utf-8", "replace"), f"Bearer {token}".encode())
    is_proxied = services.settings.public_address is not None or "x-forwarded-for" in request.headers
    return not is_proxied and request.client is not None and is_loopback(request.client.host)


def _all_metrics(services: Services, parts: Sequence[PagePart]) -> list[Metric]:
    return [metric for part in parts for metric in part.metrics(services)]


def page_metrics(services: Services) -> Sequence[Metric]:
    """Answers, seconds and sessions; of the ledger the number of entries and accounts, and whether it is intact."""
    answers = services.answers_so_far()
    found = [
        Metric(
            "sudare_page_answers_total",
            "Answers by page, method and status.",
            "counter",
            [
                ({"page": name, "method": method, "status": str(status)}, count)
                for (name, method, status), count in sorted(answers.counts.items())
            ],
        ),
        Metric(
            "sudare_page_answer_seconds_total",
            "Seconds that answers took, by page.",
            "counter",
            [({"page": name}, seconds) for name, seconds in sorted(answers.seconds.items())],
        ),
        Metric("sudare_page_sessions", "How many are signed in.", "gauge", [({}, services.sessions.count())]),
    ]
    try:
        chain, accounts = services.chain(), len(services.ledger().accounts())
    except SudareError:
        return [*found, Metric("sudare_page_ledger_up", "Whether the ledger can be read.", "gauge", [({}, 0)])]
    return [
        *found,
        Metric("sudare_page_ledger_up", "Whether the ledger can be read.", "gauge", [({}, 1)]),
        Metric("sudare_page_ledger_intact", "Whether its chain is intact.", "gauge", [({}, int(chain.is_intact))]),
        Metric(
            "sudare_page_ledger_entries",
            "Entries of the ledger.",
            "gauge",
            [({}, 0 if chain.head is None else chain.head.position + 1)],
        ),
        Metric("sudare_page_ledger_accounts", "Accounts of the ledger.", "gauge", [({}, accounts)]),
    ]


PART = PagePart(routes=[Route("/health", health), Route("/metrics", metrics)], metrics=page_metrics)
