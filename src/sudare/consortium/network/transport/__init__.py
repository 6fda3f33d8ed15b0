"""What carries bytes between members: `local` in one process, `flare` between organisations."""

from sudare.consortium.network.transport.base import Packet, Transport
from sudare.consortium.network.transport.local import LocalHub, LocalTransport

__all__ = ["LocalHub", "LocalTransport", "Packet", "Transport"]
