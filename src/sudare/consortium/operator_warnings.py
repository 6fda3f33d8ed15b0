"""What will need a person soon, said before it stops anything: a certificate that ends, a budget that is nearly spent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.certificate_expiry import WARNING_DAYS, expiry_lines, kit_days_left
from sudare.consortium.event_log import EventLog
from sudare.errors import SudareError
from sudare.privacy.account_balance import Amount

# A budget of which less is left is low.
LOW_PERCENT: Final = 20
_LOOK_SECONDS: Final = 3600.0
_DAY_SECONDS: Final = 86_400.0


@dataclass
class OperatorWarnings:
    """Looks once an hour, and when a task has ended; says each thing once a day, and at once when it has got worse."""

    member: Member
    agreement: Agreement
    log: EventLog
    tell: Callable[[str], None]
    _looks_at: float = float("-inf")
    _said: dict[str, tuple[float, int]] = field(default_factory=dict)

    def look(self, now: float) -> None:
        """Say what is due."""
        if now < self._looks_at:
            return
        self._looks_at = now + _LOOK_SECONDS
        days = kit_days_left(self.member.transport.kit, "client")
        if days is not None and days < WARNING_DAYS and self._is_due("certificate-ends", days, now):
            self.log.write("certificate-ends", days=max(days, 0))
            for line in expiry_lines(self.member.transport.kit, "client"):
                self.tell(line)
        percent = percent_left(self.member, self.agreement)
        if percent is not None and percent < LOW_PERCENT and self._is_due("budget-low", percent, now):
            self.log.write("budget-low", percent=percent)
            self.tell(f"{percent} % of the agreed budget are left (sudare status)")

    def look_soon(self) -> None:
        """Something was spent."""
        self._looks_at = float("-inf")

    def _is_due(self, what: str, amount: int, now: float) -> bool:
        at, before = self._said.get(what, (float("-inf"), amount))
        if now - at < _DAY_SECONDS and amount >= before:
            return False
        self._said[what] = now, amount
        return True


def amount_left(member: Member) -> Amount | None:
    """What is left of the member's budget; None where it has no account yet, or its ledger cannot be read now."""
    try:
        ledger = member.ledger(create=False)
        if member.account_name not in {account.name for account in ledger.accounts()}:
            return None
        return ledger.account(member.account_name).remaining()
    except SudareError:
        return None


def percent_left(member: Member, agreement: Agreement) -> int | None:
    """Whole percents of the agreed budget that are left, of ε or of δ, whichever is less."""
    left, agreed = amount_left(member), agreement.member(member.name).budget
    if left is None:
        return None
    shares = [part / whole for part, whole in ((left.epsilon, agreed.epsilon), (left.delta, agreed.delta)) if whole > 0]
    return max(math.floor(100.0 * min(shares, default=1.0)), 0)
