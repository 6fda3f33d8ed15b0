"""Who is signed in: one-time tokens, sessions in memory, and guesses of passwords that are slowed down.

Nothing here is written to disk: a page that is started again has nobody signed in.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from sudare.requests.users import Role
from sudare.web.secret_tokens import new_secret, new_token
from sudare.web.settings import plain_address

TOKEN_SECONDS: Final = 600.0
IDLE_SECONDS: Final = 2 * 3600.0
LONGEST_SECONDS: Final = 12 * 3600.0
MOST_SESSIONS: Final = 1000
MOST_NOTICES: Final = 5
# So many guesses of one name's password in so many seconds, from one address.
MOST_GUESSES: Final = 5
GUESS_SECONDS: Final = 300.0
# So many pairs of address and name are counted: more than can be compared in GUESS_SECONDS.
MOST_COUNTED: Final = 20_000
# So many passwords wait at once to be compared, from one place and in all; beyond that the first one of each further place, up to so many places.
# All together are fewer than the server has requests under way.
MOST_WAITING_OF_A_PLACE: Final = 50
MOST_WAITING: Final = 200
MOST_WAITING_PLACES: Final = 200

Clock = Callable[[], float]


@dataclass
class Session:
    """Somebody who is signed in. `form_token` is in every form that this session was shown, and in nobody else's."""

    user: str
    role: Role
    began: float
    seen: float
    form_token: str = field(default_factory=new_token, repr=False)
    notices: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_NOTICES))

    def is_form_token(self, text: str) -> bool:
        """Whether a form was made by this page for this session."""
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.form_token.encode())

    def taken_notices(self) -> list[str]:
        """What there is to tell on the next page, once."""
        told = []
        while self.notices:
            told.append(self.notices.popleft())
        return told


class Sessions:
    """All sessions and unused one-time tokens of a running page. Keys are hashes: what is in memory signs nobody in."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: dict[str, tuple[float, str, Role]] = {}
        self._sessions: dict[str, Session] = {}
        self._guesses: dict[str, deque[float]] = {}
        self._waiting: Counter[str] = Counter()
        self._secret = new_secret()

    def new_token(self, user: str, role: Role) -> str:
        """A token that signs this user in once, within ten minutes. Earlier ones that nobody used end."""
        token = new_token()
        with self._lock:
            self._tokens = {_key(token): (self._clock() + TOKEN_SECONDS, user, role)}
        return token

    def signed_in_by_token(self, token: str) -> str | None:
        """The secret of a new session, for the cookie; None where the token was used, has ended, or never was."""
        with self._lock:
            ends, user, role = self._tokens.pop(_key(token), (0.0, "", "viewer"))
        return self.sign_in(user, role) if self._clock() < ends else None

    def sign_in(self, user: str, role: Role) -> str:
        """The secret of a new session, for the cookie."""
        secret, now = new_token(), self._clock()
        with self._lock:
            self._forget_ended(now)
            while len(self._sessions) >= MOST_SESSIONS:
                del self._sessions[min(self._sessions, key=lambda key: self._sessions[key].seen)]
            self._sessions[_key(secret)] = Session(user, role, now, now)
        return secret

    def session(self, secret: str) -> Session | None:
        """The session of a cookie; None where there is none, or it has ended."""
        now = self._clock()
        with self._lock:
            found = self._sessions.get(_key(secret))
            if found is None or _has_ended(found, now):
                return None
            found.seen = now
            return found

    def sign_out(self, secret: str) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(_key(secret), None)

    def count(self) -> int:
        """How many are signed in."""
        with self._lock:
            self._forget_ended(self._clock())
            return len(self._sessions)

    def count_guess(self, address: str, name: str, browser: str = "") -> bool:
        """Count a guess before anybody knows whether it is right. False where no further password may be compared for that name from that address.

        Names are counted as they were typed, whether or not there is such a user. Guesses from one address never keep another out; and where
        many share an address, those of the others keep out no browser from which this name has signed in before: it is counted by itself.
        """
        now, key = self._clock(), self._counted_as(address, name, browser)
        with self._lock:
            guesses = self._guesses.pop(key, deque())
            while guesses and guesses[0] < now - GUESS_SECONDS:
                guesses.popleft()
            is_allowed = len(guesses) < MOST_GUESSES
            if is_allowed:
                guesses.append(now)
            # The one that was used last is last.
            self._guesses[key] = guesses
            while len(self._guesses) > MOST_COUNTED:
                # A count that keeps somebody out now is not forgotten; where all do, the new one is, and may not guess.
                forgotten = next((each for each, past in self._guesses.items() if not _is_full(past, now)), key)
                del self._guesses[forgotten]
                is_allowed = is_allowed and forgotten != key
            return is_allowed

    def forget_guesses(self, address: str, name: str, browser: str = "") -> None:
        """Count from the beginning again: whoever is at this address knew the password."""
        with self._lock:
            self._guesses.pop(self._counted_as(address, name, browser), None)

    @contextlib.contextmanager
    def place_to_wait(self, address: str, name: str, browser: str = "") -> Iterator[bool]:
        """Whether another password from there may wait to be compared. Those who hang up still wait, and would take the place of everybody."""
        place = self.place(address, name, browser)
        with self._lock:
            waiting = self._waiting[place]
            is_first = waiting == 0 and sum(count > 0 for count in self._waiting.values()) < MOST_WAITING_PLACES
            is_free = is_first or (waiting < MOST_WAITING_OF_A_PLACE and self._waiting.total() < MOST_WAITING)
            self._waiting[place] += is_free
        try:
            yield is_free
        finally:
            with self._lock:
                self._waiting[place] -= is_free
                if not self._waiting[place]:
                    del self._waiting[place]

    def new_browser_token(self, name: str) -> str:
        """What a browser keeps from which a name has signed in: only this page, as long as it runs, can make it, and for this name only."""
        number = new_token()
        return f"{number}.{self._browser_mark(number, name)}"

    def _counted_as(self, address: str, name: str, browser: str) -> str:
        return _key(f"{self.place(address, name, browser)} {name}")

    def place(self, address: str, name: str, browser: str) -> str:
        """The browser, where this name has signed in from it; else the address."""
        number, _, mark = browser.partition(".")
        is_known = hmac.compare_digest(mark.encode("utf-8", "replace"), self._browser_mark(number, name).encode())
        return number if is_known else address_block(address)

    def _browser_mark(self, number: str, name: str) -> str:
        return self._mark("browser", f"{number} {name}")

    def form_mark(self, cookie: str) -> str:
        """What a form holds that is shown before anybody signed in: only this page can make it from the browser's cookie."""
        return self._mark("form", cookie)

    def _mark(self, what: str, text: str) -> str:
        # What a mark is for is part of it: browsers choose the texts.
        return hmac.new(self._secret, f"{what} {text}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def _forget_ended(self, now: float) -> None:
        for key in [key for key, session in self._sessions.items() if _has_ended(session, now)]:
            del self._sessions[key]


def _is_full(guesses: deque[float], now: float) -> bool:
    """Whether these are all guesses that may be made at present."""
    return len(guesses) >= MOST_GUESSES and guesses[0] >= now - GUESS_SECONDS


def _has_ended(session: Session, now: float) -> bool:
    return now - session.seen > IDLE_SECONDS or now - session.began > LONGEST_SECONDS


def address_block(address: str) -> str:
    """An address, or the /64 network of one of IPv6, which one computer has as a whole."""
    try:
        found = plain_address(address)
    except ValueError:
        return address
    return str(found) if found.version == 4 else str(ipaddress.ip_network((int(found), 64), strict=False))


def _key(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
