"""What all pages of a running server share: settings, ledger, sessions, log, counts."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from starlette.requests import HTTPConnection

from sudare.errors import LedgerError, RequestError, SudareError
from sudare.privacy import Ledger
from sudare.privacy.ledger_chain import Head
from sudare.web.fair_turns import FairTurns
from sudare.web.page_log import PageLog
from sudare.web.sessions import Session, Sessions
from sudare.web.settings import PageSettings

# A chain that was found intact is looked at again when it has grown, and after so many seconds.
CHAIN_SECONDS = 60.0
# So many prices are computed at once: each may take a processor for seconds, and pages run in the same process.
MOST_PRICES = 4
MOST_FILES_HELD = 4


@dataclass(frozen=True)
class ChainState:
    """What was found when the ledger's chain was last looked at; `problem` and `remedy` are None where it is intact."""

    head: Head | None
    problem: str | None = None
    remedy: str | None = None
    checked_at: float = 0.0

    @property
    def is_intact(self) -> bool:
        """Whether nothing was edited, deleted or reordered."""
        return self.problem is None


@dataclass
class Answers:
    """How many answers were given, by page, method and status, and how many seconds they took in all."""

    counts: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)


class Services:
    """One for each application. Pages reach it as `visit.services`."""

    def __init__(self, settings: PageSettings, sessions: Sessions, log: PageLog) -> None:
        self.settings = settings
        self.sessions = sessions
        self.log = log
        self.answers = Answers()
        # What the parts of the page keep for themselves while it runs, by a name of their own.
        self.kept: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._chain: ChainState | None = None
        self._ledger: Ledger | None = None
        self._priced_for: set[str] = set()
        # Comparing a password takes 32 MiB: a few at once, in threads of their own, so that pages do not wait for them.
        self.comparing = FairTurns(2)
        # A received file is held in memory, several times over while it is looked at: a few at once, and of each user one.
        self.receiving = FairTurns(MOST_FILES_HELD)

    @property
    def cookie(self) -> str:
        """The name of the session's cookie. Pages on other ports of one computer have other names."""
        if self.settings.is_https:
            return "__Host-sudare"
        return f"sudare_{self.settings.port}"

    def session(self, request: HTTPConnection) -> Session | None:
        """Who asks; None where nobody is signed in."""
        return self.sessions.session(request.cookies.get(self.cookie, ""))

    @contextlib.contextmanager
    def pricing(self, user: str) -> Iterator[None]:
        """While a price is computed for a user: one at a time for each, and few at once in all. Raise RequestError beyond, at once: nobody keeps others' pages waiting."""
        with self._lock:
            if user in self._priced_for or len(self._priced_for) >= MOST_PRICES:
                raise RequestError(
                    "The page is still computing prices, for you or for several others.",
                    "Nothing was asked for. Wait a few seconds, and try again.",
                )
            self._priced_for.add(user)
        try:
            yield
        finally:
            with self._lock:
                self._priced_for.discard(user)

    def ledger(self) -> Ledger:
        """The ledger. Raise LedgerMissing where there is none."""
        if self._ledger is None:
            self._ledger = Ledger(self.settings.ledger, create=False, timeout_seconds=10.0)
        return self._ledger

    def chain(self) -> ChainState:
        """Whether the ledger's chain is intact; computed anew when it has grown, and every minute."""
        ledger, now = self.ledger(), time.monotonic()
        head = ledger.head()
        with self._lock:
            known = self._chain
        if known is not None and known.head == head and now - known.checked_at < CHAIN_SECONDS:
            return known
        try:
            found = ChainState(ledger.verify(), checked_at=now)
        except LedgerError as error:
            found = ChainState(head, error.problem, error.remedy, now)
        with self._lock:
            self._chain = found
        return found

    def ledger_problem(self) -> SudareError | None:
        """Why the ledger cannot be read; None where it can."""
        try:
            self.ledger().head()
        except SudareError as error:
            return error
        return None

    def note_answer(self, page: str, method: str, status: int, seconds: float) -> None:
        """Count an answer, for /metrics."""
        with self._lock:
            self.answers.counts[page, method, status] += 1
            self.answers.seconds[page] += seconds  # type: ignore[assignment]

    def answers_so_far(self) -> Answers:
        """A copy of the counts."""
        with self._lock:
            return Answers(Counter(self.answers.counts), Counter(self.answers.seconds))


def services_of(request: HTTPConnection) -> Services:
    """What the application was made with."""
    return cast(Services, request.app.state.services)
