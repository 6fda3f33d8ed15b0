"""The consortium's page: the agreement in plain words, who is there, and tasks that wait for the steward."""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sudare.consortium import Approvals, CensusTask, DictionaryTask, Member, ModelsTask
from sudare.consortium.local_socket import NO_ANSWER, NO_SOCKET, OTHER_MEMBER, SOCKET, LocalSocket
from sudare.consortium.node_control_files import STATES, present_members
from sudare.errors import LedgerRolledBack
from sudare.web.consortium_pages import revealed
from tests.cli.conftest import invoked
from tests.cli.test_consortium_commands import EASY_SCRYPT, NEW, PASSPHRASE, SCHEMA, join
from tests.web.kit import Client, TestPage


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two members with records that have joined and signed."""
    folder = tmp_path_factory.mktemp("consortium")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SUDARE_PASSPHRASE", PASSPHRASE)
        patch.setattr(*EASY_SCRYPT)
        (folder / "schema.toml").write_text(SCHEMA)
        assert invoked(*NEW).exit_code == 0
        table = pd.DataFrame({"age": np.linspace(20.0, 80.0, 100), "ill": np.tile([0, 1], 50)})
        for name in ("east", "north"):
            table.to_parquet(folder / f"{name}.parquet")
            assert join(invoked, name).exit_code == 0
        for name in ("east", "north"):
            assert invoked("consortium", "sign", "--member", f"{name}/member.toml").exit_code == 0
    return folder


@pytest.fixture
def page(folder: Path, tmp_path: Path) -> TestPage:
    return TestPage(tmp_path, member=folder / "east" / "member.toml")


def shown(client: Client, path: str = "/consortium") -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.unescape(answer.text)))


def test_without_a_member(tmp_path: Path) -> None:
    page = TestPage(tmp_path)
    page.ledger()
    assert "No member of a consortium is configured" in shown(page.client())
    assert page.client().submit("/consortium/risk/decide", {"verdict": "approved"}).status_code == 303


def test_the_agreement_in_plain_words(page: TestPage, folder: Path) -> None:
    page.ledger()
    text = shown(page.client("viewer"))
    assert "two-clinics in force" in text
    assert "2 members want to learn together; you are east." in text
    assert "all 2 members must stay" in text
    assert "Task risk" in text
    assert "You reveal masked sums only; what all see has noise that protects your records." in text
    assert re.search(r"It costs at most ε = 0\.5", text)
    assert "No node of this member is running here" in text
    assert "Approve" not in text
    assert "Task 'risk' of agreement 'two-clinics' waits for the steward." in shown(page.client(), "/")


def test_what_keeps_a_node_from_starting_is_told_to_the_steward(
    page: TestPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_older(_: Member) -> None:
        raise LedgerRolledBack("The ledger is an older one.", "Find the newer one.")

    monkeypatch.setattr("sudare.consortium.task_review.check_not_older", is_older)
    assert "No node would start here: The ledger is an older one. Find the newer one." in shown(page.client())
    assert "No node would start here" not in shown(page.client("viewer"))


def test_who_is_present_and_which_round(page: TestPage, folder: Path) -> None:
    own = Member.load(folder / "east" / "member.toml")
    own.state_folder.mkdir(exist_ok=True)
    states = own.state_folder / "node.json"
    task = {"state": "running", "round": 3, "error": None, "files": []}
    told = {"agreement": own.agreement().digest, "process": os.getpid(), "present": ["north"], "tasks": {"risk": task}}
    states.write_text(json.dumps(told))
    try:
        assert present_members(own) == ["north"]
        answer = page.client().get("/consortium")
        assert answer.headers["refresh"] == "10"
        text = shown(page.client())
        assert "Round 3 is under way." in text
        assert "north signed present" in text
        states.write_text(json.dumps({**told, "process": 2**22 + 1}))
        assert present_members(own) is None
        answer = page.client().get("/consortium")
        assert "refresh" not in answer.headers
        text = shown(page.client())
        assert "Task risk learning interrupted" in text
        assert "is under way" not in text
        states.write_text(
            json.dumps({**told, "process": None, "tasks": {"risk": {**task, "state": "failed", "error": "<b>x</b>"}}})
        )
        assert "&lt;b&gt;x&lt;/b&gt;" in page.client().get("/consortium").text
        told_to_others = page.client("viewer").get("/consortium").text
        assert "&lt;b&gt;" not in told_to_others
        assert "A steward sees why." in told_to_others
    finally:
        states.unlink()


def test_what_the_node_tells_over_its_socket_counts_and_else_its_files_do(
    page: TestPage, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sudare.consortium.local_socket.CLIENT_SECONDS", 20.0)
    own = Member.load(folder / "east" / "member.toml")
    own.state_folder.mkdir(mode=0o700, exist_ok=True)
    own.state_folder.chmod(0o700)
    states, path = own.state_folder / STATES, own.state_folder / SOCKET
    task = {"state": "running", "round": 3, "error": None, "files": []}
    told = {"agreement": own.agreement().digest, "process": os.getpid(), "present": ["north"], "tasks": {"risk": task}}
    states.write_text(json.dumps({**told, "present": [], "tasks": {}}))
    live: dict[str, object] = {"states": told, "turned_seconds_ago": 0.4}
    try:
        text = shown(page.client("viewer"))
        assert "Shown is what the node last wrote into its files." in text
        assert "north signed absent" in text
        with contextlib.closing(LocalSocket(own)) as local:
            # It is bound and does not answer yet.
            assert NO_ANSWER in shown(page.client())
            local.serve(lambda: live)
            answer = page.client().get("/consortium")
            assert answer.headers["refresh"] == "10"
            text = shown(page.client("viewer"))
            assert "over its local socket; its loop last came round 0.4 seconds ago." in text
            assert "into its files" not in text
            assert "Round 3 is under way." in text
            assert "north signed present" in text
            japanese = page.client()
            japanese.headers["Accept-Language"] = "ja"
            text = shown(japanese)
            assert "ノードの処理が最後に一巡したのは 0.4 秒前です。" in text
            hostile = "<img src=x onerror=alert(1)>\u202e\x1b[31m"
            live["states"] = {**told, "tasks": {"risk": {**task, "state": hostile, "error": hostile}}}
            content = page.client().get("/consortium").text
            assert content.count("&lt;img src=x") == 2
            assert not {"\u202e", "\x1b"} & set(content)
            live["states"] = {**told, "agreement": "0" * 64}
            text = shown(page.client("viewer"))
            assert "The node that runs here works under 000000000000, not under what stands in" in text
            assert "is under way" not in text
            live["states"] = {**told, "member": "north"}
            assert OTHER_MEMBER in shown(page.client())
            live["states"] = told
            assert "works under" not in shown(page.client())
            live["turned_seconds_ago"] = "<b>"
            assert NO_ANSWER in shown(page.client())
        path.symlink_to(folder)
        text = shown(page.client())
        assert NO_SOCKET in text
        assert "north signed absent" in text
    finally:
        states.unlink()
        path.unlink(missing_ok=True)


def test_a_task_is_approved_and_denied_with_a_reason(page: TestPage, folder: Path) -> None:
    own = Member.load(folder / "east" / "member.toml")
    agreement = own.agreement()
    steward = page.client("steward", "mori")
    page.ledger()
    seen = {"agreement": agreement.digest}
    assert page.client("analyst").submit("/consortium/risk/decide", {"verdict": "approved"}).status_code == 403
    assert steward.submit("/consortium/risk/decide", {**seen, "verdict": "denied", "reason": ""}).status_code == 400
    assert steward.submit("/consortium/nothing/decide", {**seen, "verdict": "approved"}).status_code == 400
    approval = {"verdict": "approved", "reason": "all agreed"}
    for unseen in ({}, {"agreement": "0" * 64}):
        refused = steward.submit("/consortium/risk/decide", {**approval, **unseen})
        assert (refused.status_code, "Nothing was decided" in refused.text) == (400, True)
    assert Approvals(own.state_folder).state(agreement, agreement.task("risk")).state != "approved"
    assert steward.submit("/consortium/risk/decide", {**approval, **seen}).status_code == 303
    found = Approvals(own.state_folder).state(agreement, agreement.task("risk"))
    assert (found.state, found.who, found.reason, found.epsilon) == ("approved", "mori", "all agreed", 0.5)
    assert "approved by mori: all agreed" in shown(steward)
    steward.submit("/consortium/risk/decide", {**seen, "verdict": "denied", "reason": "not now"})
    assert Approvals(own.state_folder).state(agreement, agreement.task("risk")).state == "denied"


def test_what_each_kind_reveals() -> None:
    models = ModelsTask("m", "PrivateMean", 1.0)
    exact = DictionaryTask("d", patterns=2)
    assert len({revealed(task) for task in (models, CensusTask("c", ("age",), 1.0), exact)}) == 3
