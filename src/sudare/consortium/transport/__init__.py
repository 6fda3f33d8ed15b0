"""What carries bytes between members: `local` in one process, `flare` between organisations."""

from sudare.consortium.transport.base import Packet, Transport
from sudare.consortium.transport.local import LocalHub, LocalTransport

__all__ = ["LocalHub", "LocalTransport", "Packet", "Transport"]
