"""How long the certificates of a kit still open the line to the relay; told before they do not."""

from __future__ import annotations

import datetime
from pathlib import Path

# A new kit takes a telephone call or two.
WARNING_DAYS = 30


def kit_days_left(kit: Path | None, role: str) -> int | None:
    """Whole days until a certificate of the kit ends; None where there is no kit that could be read."""
    if kit is None:
        return None
    from sudare.consortium.network.transport.certificates import days_left
    from sudare.errors import NotConnected

    try:
        return days_left(kit, role)
    except NotConnected:
        return None


def expiry_lines(kit: Path | None, role: str, now: datetime.datetime | None = None) -> list[str]:
    """A warning if a certificate of the kit has ended, ends soon or has not begun by this computer's clock; nothing otherwise."""
    days = kit_days_left(kit, role)
    if kit is None or days is None:
        return []
    from sudare.consortium.network.transport.certificates import begins

    begun = begins(kit, role)
    if begun > (datetime.datetime.now(datetime.UTC) if now is None else now):
        return [
            f"The certificate of kit '{kit.name}' is not valid before {begun:%Y-%m-%d %H:%M} UTC, and nobody will be reached with it until then: is this computer's clock right?"
        ]
    if days >= WARNING_DAYS:
        return []
    ends = (
        f"has expired ({-days} {'day' if days == -1 else 'days'} ago), and nobody will be reached with it"
        if days < 0
        else f"expires in {days} {'day' if days == 1 else 'days'}"
    )
    return [f"The certificate of kit '{kit.name}' {ends}: ask whoever runs the relay for new kits (sudare relay kits)."]
