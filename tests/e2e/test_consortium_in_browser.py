"""The consortium's page in a real browser: who is there, what a task reveals and costs, and the steward's say."""

from __future__ import annotations

from pathlib import Path

import pytest

from sudare.consortium import Approvals, Member
from tests.e2e import page_kit as kit

pytestmark = pytest.mark.skipif(kit.CHROMIUM is None, reason="chromium is not installed")


def test_a_task_is_looked_at_approved_and_denied(house: Path, address: str, browser: kit.Browser) -> None:
    own = Member.load(house / "consortium" / kit.HOSPITALS[0] / "member.toml")
    agreement = own.agreement()
    approvals = Approvals(own.state_folder)
    steward, viewer = kit.signed_in(browser, address, "aiko"), kit.signed_in(browser, address, "lena")
    steward.click("text=Task 'risk' of agreement 'three-hospitals' waits for the steward.")
    steward.wait_for_selector("text=3 members want to learn together; you are island-hospital.")
    members = steward.locator("section", has_text="Members").first.inner_text().split("\n")
    assert [line.split() for line in members if "signed" in line] == [
        ["island-hospital", "(you)", "signed", "present"],
        ["north-general", "signed", "absent"],
        ["st-marys", "signed", "present"],
    ]
    steward.wait_for_selector("text=Round 2 is under way.")
    risk = steward.locator("section", has_text="Task risk")
    assert "You reveal masked sums only" in risk.inner_text()
    assert "It costs at most ε = 0.5, δ = 0." in risk.inner_text()
    risk.locator("[name=reason]").fill("the board agreed")
    risk.locator("button[value=approved]").click()
    steward.wait_for_selector("text=approved by aiko: the board agreed")
    found = approvals.state(agreement, agreement.task("risk"))
    assert (found.state, found.who, found.reason) == ("approved", "aiko", "the board agreed")
    viewer.goto(f"{address}consortium")
    viewer.wait_for_selector("text=approved by aiko: the board agreed")
    assert viewer.locator("main button").count() == 0
    risk.locator("button[value=denied]").click()
    steward.wait_for_selector("text=needs a reason")
    assert approvals.state(agreement, agreement.task("risk")).state == "approved"
    steward.goto(f"{address}consortium")
    risk.locator("[name=reason]").fill("not this year")
    risk.locator("button[value=denied]").click()
    steward.wait_for_selector("text=denied by aiko: not this year")
    assert approvals.state(agreement, agreement.task("risk")).state == "denied"
