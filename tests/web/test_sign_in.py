"""Who gets in: one-time addresses, passwords, sessions that end, roles; and everything that must not get in."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from sudare.requests.users import User
from sudare.web.passwords import hashed_password
from sudare.web.server import MOST_CONNECTIONS
from sudare.web.sessions import (
    GUESS_SECONDS,
    IDLE_SECONDS,
    LONGEST_SECONDS,
    MOST_GUESSES,
    MOST_WAITING,
    MOST_WAITING_OF_A_PLACE,
    MOST_WAITING_PLACES,
    TOKEN_SECONDS,
    address_block,
)
from sudare.web.settings import is_everywhere, is_loopback
from tests.web.kit import Client, TestPage

PASSWORD = "correct horse battery"
HASHED = hashed_password(PASSWORD)


def test_a_token_signs_in_once(page: TestPage) -> None:
    client = page.client(None)
    token = page.sessions.new_token("aiko", "steward")
    entered = client.get(f"/sign-in?token={token}")
    assert entered.status_code == 303
    assert entered.headers["location"] == "/"
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert client.get("/").status_code == 200

    another = page.client(None)
    again = another.get(f"/sign-in?token={token}")
    assert again.status_code == 403
    assert "used already" in again.text
    assert another.get("/").headers["location"] == "/sign-in"


def test_a_token_ends(page: TestPage) -> None:
    client = page.client(None)
    token = page.sessions.new_token("aiko", "steward")
    page.clock.now += TOKEN_SECONDS + 1
    assert client.get(f"/sign-in?token={token}").status_code == 403


def test_a_new_token_ends_those_before(page: TestPage) -> None:
    old = page.sessions.new_token("aiko", "steward")
    page.sessions.new_token("aiko", "steward")
    assert page.client(None).get(f"/sign-in?token={old}").status_code == 403


@pytest.mark.parametrize("token", ["", "x", "é", "%00", "a" * 3000])
def test_other_tokens_do_not(page: TestPage, token: str) -> None:
    client = page.client(None)
    client.get("/sign-in", params={"token": token})
    assert client.get("/").status_code == 303


def test_a_head_request_does_not_use_a_token_up(page: TestPage) -> None:
    client = page.client(None)
    token = page.sessions.new_token("aiko", "steward")
    client.head(f"/sign-in?token={token}")
    assert client.get(f"/sign-in?token={token}").status_code == 303


@pytest.mark.parametrize("seconds", [IDLE_SECONDS, LONGEST_SECONDS])
def test_sessions_end(page: TestPage, seconds: float) -> None:
    client = page.client()
    assert client.get("/").status_code == 200
    page.clock.now += seconds + 1
    assert client.get("/").status_code == 303


def test_a_session_that_is_used_ends_all_the_same(page: TestPage) -> None:
    client = page.client()
    for _ in range(12):
        page.clock.now += LONGEST_SECONDS / 11
        last = client.get("/")
    assert last.status_code == 303


def test_signing_out_ends_the_session(page: TestPage) -> None:
    client = page.client()
    secret = client.cookies[page.services.cookie]
    assert client.submit("/sign-out").status_code == 303
    client.cookies.set(page.services.cookie, secret)
    assert client.get("/").status_code == 303


class TestPasswords:
    @pytest.fixture
    def page(self, tmp_path: Path) -> TestPage:
        users = {"aiko": User("aiko", "steward", HASHED), "ken": User("ken", "viewer", HASHED)}
        return TestPage(tmp_path, users=users)

    def sign_in(self, client: Client, user: str, password: str) -> int:
        token = client.form_token("/sign-in")
        return client.post("/sign-in", data={"form_token": token, "user": user, "password": password}).status_code

    def test_the_right_one_signs_in(self, page: TestPage) -> None:
        client = page.client(None)
        assert self.sign_in(client, "ken", PASSWORD) == 303
        assert "ken" in client.get("/").text

    @pytest.mark.parametrize(("user", "password"), [("aiko", "x"), ("nobody", PASSWORD), ("", ""), ("aiko", "é" * 500)])
    def test_another_does_not(self, page: TestPage, user: str, password: str) -> None:
        client = page.client(None)
        assert self.sign_in(client, user, password) == 403
        assert client.get("/").status_code == 303

    @pytest.mark.parametrize("user", ["aiko", "nobody"])
    def test_guesses_are_few_for_users_and_for_others_alike(self, page: TestPage, user: str) -> None:
        client = page.client(None)
        assert [self.sign_in(client, user, "x" * 300) for _ in range(MOST_GUESSES + 1)] == [403] * MOST_GUESSES + [429]
        page.clock.now += GUESS_SECONDS + 1
        assert self.sign_in(client, user, "x" * 300) == 403

    def test_other_names_do_not_use_the_guesses_of_one_up(self, page: TestPage) -> None:
        client = page.client(None)
        for number in range(3 * MOST_GUESSES):
            assert self.sign_in(client, f"nobody{number % 3}", "x" * 300) in (403, 429)
        assert self.sign_in(client, "aiko", PASSWORD) == 303

    def test_a_right_password_is_taken_whatever_others_guess_elsewhere(self, page: TestPage) -> None:
        for _ in range(3 * MOST_GUESSES):
            page.sessions.count_guess("10.0.0.1", "aiko")
        assert not page.sessions.count_guess("10.0.0.1", "aiko")
        assert self.sign_in(page.client(None), "aiko", PASSWORD) == 303

    def test_guesses_count_before_they_are_compared(self, page: TestPage, monkeypatch: pytest.MonkeyPatch) -> None:
        compared, everybody = [], threading.Barrier(2)

        def slow(password: str, kept: str | None) -> bool:
            compared.append(password)
            everybody.wait(60)
            return False

        monkeypatch.setattr("sudare.web.sign_in_pages.is_password", slow)
        for _ in range(MOST_GUESSES - 1):
            page.sessions.count_guess("testclient", "aiko")
        first = threading.Thread(target=self.sign_in, args=(page.client(None), "aiko", "first"))
        first.start()
        while not compared:
            first.join(0.01)
        assert self.sign_in(page.client(None), "aiko", "second") == 429
        everybody.wait(60)
        first.join()
        assert compared == ["first"]

    def test_few_passwords_wait_to_be_compared_however_many_names_are_guessed(self, page: TestPage) -> None:
        known = page.client(None)
        assert self.sign_in(known, "aiko", PASSWORD) == 303
        known.cookies.delete(page.services.cookie)
        with contextlib.ExitStack() as waiting:
            places = [
                waiting.enter_context(page.sessions.place_to_wait("testclient", f"nobody{number}"))
                for number in range(MOST_WAITING_OF_A_PLACE + 1)
            ]
            assert places == [True] * MOST_WAITING_OF_A_PLACE + [False]
            assert self.sign_in(page.client(None), "aiko", PASSWORD) == 429
            assert self.sign_in(known, "aiko", PASSWORD) == 303
            elsewhere = [
                waiting.enter_context(page.sessions.place_to_wait(f"10.0.0.{number % 4}", "aiko"))
                for number in range(2 * MOST_WAITING)
            ]
            assert sum(places) + sum(elsewhere) == MOST_WAITING
            further = [
                waiting.enter_context(page.sessions.place_to_wait(f"10.1.{number // 200}.{number % 200}", "aiko"))
                for number in range(2 * MOST_WAITING_PLACES)
            ]
            assert sum(further) == MOST_WAITING_PLACES - 5
            assert MOST_WAITING + MOST_WAITING_PLACES < MOST_CONNECTIONS
        assert self.sign_in(page.client(None), "aiko", PASSWORD) == 303

    def test_who_signed_in_may_guess_again(self, page: TestPage) -> None:
        client = page.client(None)
        for _ in range(MOST_GUESSES - 1):
            page.sessions.count_guess("testclient", "aiko")
        assert self.sign_in(client, "aiko", PASSWORD) == 303
        assert self.sign_in(page.client(None), "aiko", "x" * 300) == 403

    def test_a_browser_that_signed_in_before_is_not_kept_out_by_others_at_its_address(self, page: TestPage) -> None:
        client = page.client(None)
        assert self.sign_in(client, "aiko", PASSWORD) == 303
        client.cookies.delete(page.services.cookie)
        for _ in range(MOST_GUESSES):
            page.sessions.count_guess("testclient", "aiko")
        assert self.sign_in(page.client(None), "aiko", PASSWORD) == 429
        assert self.sign_in(client, "aiko", PASSWORD) == 303

    def test_such_a_browser_has_few_guesses_too_and_none_for_other_names(self, page: TestPage) -> None:
        known = page.sessions.new_browser_token("aiko")
        assert [page.sessions.count_guess("10.0.0.1", "aiko", known) for _ in range(MOST_GUESSES + 1)][-2:] == [
            True,
            False,
        ]
        for _ in range(MOST_GUESSES):
            page.sessions.count_guess("10.0.0.1", "ken")
        assert not page.sessions.count_guess("10.0.0.1", "ken", known)

    def test_marks_of_forms_are_none_of_browsers(self, page: TestPage) -> None:
        """The cookie of a form is whatever a browser sends, and its mark is shown."""
        forged = f"7.{page.sessions.form_mark('browser 7 aiko')}", f"7.{page.sessions.form_mark('7 aiko')}"
        for _ in range(MOST_GUESSES):
            page.sessions.count_guess("10.0.0.1", "aiko")
        assert not any(page.sessions.count_guess("10.0.0.1", "aiko", each) for each in forged)

    def test_addresses_of_one_computer_count_together(self, page: TestPage) -> None:
        assert address_block("2001:db8::1") == address_block("2001:db8::2:1") != address_block("2001:db8:0:1::1")
        assert address_block("10.0.0.1") != address_block("10.0.0.2")

    def test_computers_of_ipv4_are_apart_where_a_socket_for_both_is_listened_at(self) -> None:
        """One of them could use up the guesses of all."""
        assert address_block("::ffff:10.0.0.1") == address_block("10.0.0.1") != address_block("::ffff:10.0.0.2")
        assert is_loopback("::ffff:127.0.0.1")
        assert is_everywhere("::ffff:0.0.0.0")
        assert not is_loopback("::ffff:10.0.0.1")

    def test_a_forged_form_does_not(self, page: TestPage) -> None:
        client = page.client(None)
        client.get("/sign-in")
        forged = {"form_token": "x", "user": "aiko", "password": PASSWORD}
        assert client.post("/sign-in", data=forged).status_code == 403

    def test_no_token_is_printed_or_taken(self, page: TestPage) -> None:
        assert page.client(None).get("/sign-in?token=x").status_code == 403


def test_forms_of_others_are_refused(page: TestPage) -> None:
    client, other = page.client(), page.client(user="ken")
    assert client.post("/sign-out", data={"form_token": "x"}).status_code == 403
    assert client.post("/sign-out", data={"form_token": other.form_token()}).status_code == 403
    assert client.get("/").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "null", "sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_forms_sent_from_elsewhere_are_refused(page: TestPage, headers: dict[str, str]) -> None:
    client = page.client()
    assert client.submit("/sign-out", headers=headers).status_code == 403
    assert client.get("/").status_code == 200


def test_an_origin_that_is_none_is_refused_in_words(page: TestPage) -> None:
    refused = page.client().submit("/sign-out", headers={"origin": "http://["})
    assert refused.status_code == 400
    assert "<h1>" in refused.text


def test_forms_as_browsers_send_them_are_taken(page: TestPage) -> None:
    headers = {"origin": "null", "sec-fetch-site": "same-origin"}
    assert page.client().submit("/sign-out", headers=headers).status_code == 303
    assert page.client().submit("/sign-out", headers={"origin": "http://127.0.0.1:8177"}).status_code == 303


def test_a_form_without_a_session_is_refused(page: TestPage) -> None:
    refused = page.client(None).post("/sign-out", data={"form_token": "x"})
    assert refused.status_code == 401
    assert "not signed in" in refused.text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8177.evil.example", ""])
def test_a_foreign_host_is_refused(page: TestPage, host: str) -> None:
    refused = page.client().get("/", headers={"host": host})
    assert refused.status_code == 421
    assert "visits" not in refused.text


@pytest.mark.parametrize("path", ["/", "/sign-in", "/static/page.css", "/nothing", "/health", "/metrics"])
def test_every_answer_carries_the_headers(page: TestPage, path: str) -> None:
    headers = page.client().get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_the_language_can_be_chosen(page: TestPage) -> None:
    client = page.client()
    chosen = client.get("/language/ja?back=/health")
    assert chosen.headers["location"] == "/health"
    assert '<html lang="ja">' in client.get("/").text
    assert client.get("/language/xx").status_code == 404
    for back in ("//evil.example", "https://evil.example", "/\\evil.example", "/\n"):
        assert client.get("/language/en", params={"back": back}).headers["location"] == "/"


def test_a_page_that_is_not_there(page: TestPage) -> None:
    missing = page.client().get("/nothing")
    assert missing.status_code == 404
    assert "There is no such page" in missing.text
    assert page.client().put("/sign-out").status_code == 405


def test_forms_that_are_too_large_or_no_forms(page: TestPage) -> None:
    client = page.client()
    token = client.form_token()
    large = {"form_token": token, "x": "y" * 100_000}
    assert client.post("/sign-out", data=large).status_code == 413
    chunked = client.post(
        "/sign-out", content=iter([b"x" * 50_000] * 3), headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert chunked.status_code == 413
    assert client.post("/sign-out", json={"form_token": token}).status_code == 400
    assert client.post("/sign-out", content=b"x", headers={"content-type": "multipart/form-data"}).status_code == 400
    assert client.get("/?" + "x" * 5000).status_code == 400
    assert client.get("/").status_code == 200


def test_health_and_metrics(page: TestPage) -> None:
    assert page.client(None).get("/health").json() == {"status": "ok", "ledger": "ok"}
    here = TestClient(page.app, base_url="http://127.0.0.1:8177", client=("127.0.0.1", 5000))
    page.client().get("/")
    text = here.get("/metrics").text
    assert 'sudare_page_answers_total{page="home",method="GET",status="200"} 1' in text
    assert "sudare_page_ledger_intact 1" in text
    assert "visits" not in text
    assert here.get("/metrics", headers={"x-forwarded-for": "10.0.0.1"}).status_code == 403
    away = TestClient(page.app, base_url="http://127.0.0.1:8177", client=("10.0.0.1", 5000))
    assert away.get("/metrics").status_code == 403


def test_metrics_by_token(tmp_path: Path) -> None:
    client = TestPage(tmp_path, metrics_token="a-long-token").client(None)
    assert client.get("/metrics").status_code == 403
    assert client.get("/metrics", headers={"authorization": "Bearer x"}).status_code == 403
    assert client.get("/metrics", headers={"authorization": "Bearer a-long-token"}).status_code == 200


def test_a_page_without_a_ledger_says_so(tmp_path: Path) -> None:
    page = TestPage(tmp_path)
    assert "the ledger begins with the first request" in page.client().get("/").text
    page.services.settings.releases.mkdir(exist_ok=True)
    (page.services.settings.releases / "earlier.sudare").write_bytes(b"x")
    assert "There is no ledger" in page.client().get("/").text
    assert page.client().get("/health").status_code == 503


def test_with_https_cookies_are_secure(tmp_path: Path) -> None:
    users = {"aiko": User("aiko", "steward", HASHED)}
    page = TestPage(tmp_path, users=users, public_address="https://page.example.org")
    client = Client(page.app, "https://page.example.org")
    answer = client.get("/sign-in")
    assert "Secure" in answer.headers["set-cookie"]
    assert "strict-transport-security" in answer.headers
    assert page.services.cookie == "__Host-sudare"
