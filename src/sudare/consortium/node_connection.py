"""How a node reaches the others under an agreement: who talks, how often, with which keys, by which transport."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.member_settings import TransportSettings
from sudare.consortium.network.session import PinnedAgreement
from sudare.consortium.network.transport.base import Transport
from sudare.errors import InvalidParameter
from sudare.sums.context import RELAY_NAME

# How often a member is heard of where nothing happens, at least.
_LONGEST_BEAT_SECONDS: Final = 15.0
_BEATS_IN_A_ROUND: Final = 4.0


def talking_names(agreement: Agreement) -> tuple[str, ...]:
    """Who talks to whom under an agreement: the members and, where it collects their sums, the relay."""
    return (*agreement.member_names, RELAY_NAME) if agreement.relay_collects else agreement.member_names


def beat_seconds_of(agreement: Agreement) -> float:
    """How often a member says that it is there: several times in a round's deadline, so that none is missed for a packet that was lost."""
    return min(_LONGEST_BEAT_SECONDS, agreement.deadlines.round_seconds / _BEATS_IN_A_ROUND)


def pins_of(agreement: Agreement, keys: Mapping[str, bytes]) -> PinnedAgreement:
    """What a session takes from the agreement."""
    talking = {name: keys[name] for name in talking_names(agreement)}
    return PinnedAgreement(bytes.fromhex(agreement.digest), talking, agreement.field_digests)


def transport_of(
    name: str, settings: TransportSettings, *, peers: Collection[str] | None = None, folder: Path | None = None
) -> Transport:
    """The way to the others that a member file describes. Packets come from `peers` only; `folder` is where FLARE's own folder is made."""
    from sudare.consortium.network.transport.flare import FlareTransport

    if settings.kind != "flare" or settings.kit is None or settings.relay is None:
        raise InvalidParameter(
            "The member file does not say how to reach the others.",
            'Give --kit and --relay, or write them under [transport]: kind = "flare", kit = "…", relay = "host:port".',
        )
    if settings.proxy is not None:
        # gRPC reads an HTTP proxy, which must let CONNECT through, from this variable in small letters.
        os.environ["grpc_proxy"] = settings.proxy  # noqa: SIM112
    return FlareTransport(name, settings.kit, settings.relay, peers=peers, folder=folder)
