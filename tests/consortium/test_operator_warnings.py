"""What a node says before it stops anything: certificates that end, budgets that are nearly spent."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from sudare.consortium import LearningTask, Member
from sudare.consortium.event_log import EventLog
from sudare.consortium.network.transport import certificates
from sudare.consortium.operator_warnings import OperatorWarnings, amount_left, percent_left
from sudare.privacy import Guarantee
from sudare.privacy.accounting import pure_cost
from tests.consortium.clinics import founded

DAY = 86_400.0


class Watched:
    """Warnings of a member, with what they logged and told."""

    def __init__(self, member: Member) -> None:
        self._log, self.told = io.StringIO(), []
        self.warnings = OperatorWarnings(member, member.agreement(), EventLog(self._log, member.name), self.told.append)

    def events(self) -> list[tuple[str, int]]:
        found = [json.loads(line) for line in self._log.getvalue().splitlines()]
        return [(each["event"], each.get("days", each.get("percent"))) for each in found]


def east(folder: Path) -> Member:
    return founded(folder, LearningTask("risk", "one-sum", 1.0))[0]


def test_a_certificate_that_ends_is_logged_once_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "_VALID_DAYS", 9.5)
    kit = certificates.write_kits(tmp_path / "kits", "localhost", ["east"])[1]
    member = east(tmp_path)
    watched = Watched(replace(member, transport=replace(member.transport, kit=kit)))
    for hour in range(49):
        watched.warnings.look(3600.0 * hour)
    assert watched.events() == [("certificate-ends", 9)] * 3
    assert all("expires in 9 days: ask whoever runs the relay" in text for text in watched.told)


def test_a_budget_that_is_nearly_spent_is_told_when_it_is_and_when_it_gets_worse(tmp_path: Path) -> None:
    member = east(tmp_path)
    watched = Watched(member)
    assert amount_left(member) is None
    watched.warnings.look(0.0)
    account = member.account(member.agreement())
    for spent, percent in ((7.9, 21), (0.2, 19)):
        account.charge(Guarantee(spent), pure_cost(spent), "something else")
        assert percent_left(member, member.agreement()) in (percent, percent - 1)
        watched.warnings.look(1.0)
        watched.warnings.look_soon()
        watched.warnings.look(2.0)
    account.charge(Guarantee(1.0), pure_cost(1.0), "something else")
    watched.warnings.look_soon()
    watched.warnings.look(3.0)
    watched.warnings.look(4.0)
    first, second = watched.events()
    assert first[0] == second[0] == "budget-low"
    assert first[1] > second[1]
    assert watched.told[1] == f"{second[1]} % of the agreed budget are left (sudare status)"


def test_nothing_is_said_where_nothing_is_wrong(tmp_path: Path) -> None:
    watched = Watched(east(tmp_path))
    watched.warnings.look(0.0)
    assert (watched.events(), watched.told) == ([], [])
