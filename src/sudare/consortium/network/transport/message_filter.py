"""Which of FLARE's messages a cell of ours takes: a short list, and what is not on it is refused before anything is decoded.

FLARE decodes a payload before it looks for whoever wants it, and its decoder writes files. So a message is decided on by its headers alone: a
member takes packets of bytes and certificates, a relay passes on the same, and announcements to all, and decodes nothing. Headers that are not needed are taken
away, because FLARE acts upon some of them (it connects to an address in one, and keeps statistics by the words in others).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from sudare.consortium.network.dropped_messages import Reason
from sudare.consortium.network.transport.announcement_board import MOST_ANNOUNCEMENT_BYTES, MOST_BULLETIN_BYTES
from sudare.consortium.network.transport.base import MOST_PACKET_BYTES

CHANNEL: Final = "sudare"
TOPIC: Final = "packet"
ANNOUNCEMENT: Final = "announcement"
BULLETIN: Final = "bulletin"
REFUSED: Final = "refused"
RELAY: Final = "server"
_CERTIFICATES: Final = ("credential_manager", "key_exchange")
_GOODBYE: Final = ("cellnet.channel", "bye")
_PACKET: Final = (CHANNEL, TOPIC)
_REFUSAL: Final = (REFUSED, REFUSED)
_ANNOUNCEMENT: Final = (CHANNEL, ANNOUNCEMENT)
_BULLETIN: Final = (CHANNEL, BULLETIN)

# FLARE's seal around a packet, and more.
MOST_PAYLOAD_BYTES: Final = MOST_PACKET_BYTES + (1 << 12)
_MOST_CERTIFICATE_BYTES: Final = 1 << 15
_MOST_WORD: Final = 255
_MOST_CHAIN: Final = 4

# FLARE's names for headers.
TYPE, ID, EXPECTS_REPLY = "cn__msg_type", "cn__req_id", "cn__reply_expected"
ORIGIN, DESTINATION, FROM, TO = "cn__origin", "cn__destination", "cn__from", "cn__to"
ON_CHANNEL, ON_TOPIC, ENCODING = "cn__channel", "cn__topic", "cn__payload_encoding"
CODE, SECURE, ENCRYPTED = "cn__return_code", "cn__secure", "cn__encrypted"
CLEAR_BYTES, OPTIONAL, ORIGINAL = "cn__clear_payload_len", "cn__optional", "cn__original_headers"
_CODES: Final = frozenset(
    {
        *("ok", "timeout", "invalid_target", "target_unreachable", "comm_error", "msg_too_big", "filter_error"),
        *("invalid_request", "process_exception", "authentication_error", "service_unavailable"),
        *("invalid_session", "abort_run", "unauthenticated"),
    }
)


def _is_word(value: object) -> bool:
    return type(value) is str and 0 < len(value) <= _MOST_WORD


def _is_id(value: object) -> bool:
    return _is_word(value) or (type(value) is list and len(value) == 1 and _is_word(value[0]))


_NEEDED: Final[dict[str, Callable[[object], bool]]] = {
    **dict.fromkeys((TYPE, ORIGIN, DESTINATION, FROM, TO, ON_CHANNEL, ON_TOPIC, ENCODING), _is_word),
    **dict.fromkeys((EXPECTS_REPLY, SECURE, ENCRYPTED, OPTIONAL), lambda value: type(value) is bool),
    ID: _is_id,
    CODE: lambda value: type(value) is str and value in _CODES,
    CLEAR_BYTES: lambda value: type(value) is int and 0 <= value <= MOST_PAYLOAD_BYTES,
}


@dataclass(frozen=True)
class FilterDecision:
    """The headers that a message may keep, or why it is refused. `certificates` are what a payload holds that FLARE need not decode."""

    headers: dict[str, Any]
    reason: Reason | None = None
    certificates: dict[str, bytes] | None = None


def needed_headers(headers: object) -> dict[str, Any] | None:
    """Those of the headers that are needed, or None if one of them is not of its kind. All others are left out."""
    if not isinstance(headers, Mapping):
        return None
    found = {name: headers[name] for name in _NEEDED if headers.get(name) not in (None, "")}
    if not all(_NEEDED[name](value) for name, value in found.items()):
        return None
    if found.get(TYPE) == "return":
        original = headers.get(ORIGINAL)
        destination = original.get(DESTINATION) if isinstance(original, Mapping) else None
        if not _is_word(destination):
            return None
        found[ORIGINAL] = {DESTINATION: destination, ON_CHANNEL: "returned", ON_TOPIC: "returned"}
    return found if {TYPE, ORIGIN, DESTINATION} <= found.keys() else None


@dataclass(frozen=True)
class MemberRules:
    """What a member's cell takes. `peers` are all who may speak to it, or None if the certificates alone decide."""

    name: str
    peers: Collection[str] | None
    has_certificate: Callable[[str], bool]
    check_certificate: Callable[[str, bytes], bool]

    def decision_on(self, neighbour: str, headers: object, payload: object) -> FilterDecision:
        """Whether a message is taken, by its headers and the size of its payload."""
        found = needed_headers(headers)
        if found is None:
            return FilterDecision({}, "malformed")
        origin = found[ORIGIN]
        if found[DESTINATION] != self.name:
            return FilterDecision(found, "not-admitted")
        if self.peers is not None and origin != RELAY and origin not in self.peers:
            return FilterDecision(found, "unknown-sender")
        kind, place = found[TYPE], (found.get(ON_CHANNEL), found.get(ON_TOPIC))
        if kind == "req" and place == _PACKET:
            reason = sealed_packet_fault(found, payload)
            if reason is None and not self.has_certificate(origin):
                # The cell asks the sender for it then; the session sends this packet again.
                reason = "no-certificate"
            return FilterDecision(found, reason)
        if kind == "req" and place == _BULLETIN and origin == RELAY:
            return FilterDecision(found, clear_bytes_fault(found, payload, MOST_BULLETIN_BYTES))
        if place == _CERTIFICATES and kind in ("req", "reply") and payload:
            return self._with_certificates(found, payload)
        if kind in ("reply", "return") and not payload and place in (_CERTIFICATES, _GOODBYE, _REFUSAL, (None, None)):
            return FilterDecision({**found, ENCODING: "none", SECURE: False})
        return FilterDecision(found, "not-admitted")

    def _with_certificates(self, found: dict[str, Any], payload: object) -> FilterDecision:
        if found.get(SECURE) or found.get(ENCRYPTED):
            return FilterDecision(found, "not-admitted")
        certificates = certificates_in(payload)
        if certificates is None:
            return FilterDecision(found, "not-bytes")
        if not self.check_certificate(found[ORIGIN], certificates["cert_content"]):
            return FilterDecision(found, "bad-certificate")
        del found[ENCODING]
        return FilterDecision(found, None, certificates)


@dataclass(frozen=True)
class RelayRules:
    """What a relay passes on: packets and certificates, in the name of the member whose line they came by. It decodes nothing."""

    name: str

    def decision_on(self, neighbour: str, headers: object, payload: object) -> FilterDecision:
        """Whether a message is passed on, by its headers and the size of its payload."""
        found = needed_headers(headers)
        if found is None:
            return FilterDecision({}, "malformed")
        if found[ORIGIN] != neighbour:
            return FilterDecision(found, "unauthentic")
        kind, place = found[TYPE], (found.get(ON_CHANNEL), found.get(ON_TOPIC))
        if found[DESTINATION] == self.name and kind == "req" and place == _ANNOUNCEMENT:
            return FilterDecision(found, clear_bytes_fault(found, payload, MOST_ANNOUNCEMENT_BYTES))
        if found[DESTINATION] == self.name:
            admitted = kind in ("req", "reply") and not payload and place in (_GOODBYE, _REFUSAL)
            return FilterDecision({**found, ENCODING: "none", SECURE: False}, None if admitted else "not-admitted")
        if kind == "req" and place == _PACKET:
            return FilterDecision(found, sealed_packet_fault(found, payload))
        if kind == "reply" and not payload and place in (_CERTIFICATES, _REFUSAL):
            return FilterDecision({**found, ENCODING: "none", SECURE: False})
        if kind in ("req", "reply") and place == _CERTIFICATES and not found.get(SECURE):
            is_small = isinstance(payload, bytes) and len(payload) <= _MOST_CERTIFICATE_BYTES
            return FilterDecision(found, None if is_small and found.get(ENCODING) == "fobs" else "too-large")
        return FilterDecision(found, "not-admitted")


def sealed_packet_fault(headers: Mapping[str, Any], payload: object) -> Reason | None:
    """Why a packet is not one of bytes under FLARE's seal, or None if it is."""
    if headers.get(ENCODING) != "bytes" or not isinstance(payload, bytes | bytearray | memoryview):
        return "not-bytes"
    if headers.get(SECURE) is not True or headers.get(ENCRYPTED) is not True or CLEAR_BYTES not in headers:
        return "unauthentic"
    return "too-large" if len(payload) > MOST_PAYLOAD_BYTES else None


def clear_bytes_fault(headers: Mapping[str, Any], payload: object, most_bytes: int) -> Reason | None:
    """Why a payload is not so many bytes, without FLARE's seal, that nobody answers; None if it is."""
    if headers.get(ENCODING) != "bytes" or not isinstance(payload, bytes | bytearray | memoryview):
        return "not-bytes"
    if headers.get(SECURE) or headers.get(ENCRYPTED) or headers.get(EXPECTS_REPLY):
        return "not-admitted"
    return "too-large" if len(payload) > most_bytes else None


_SECTION: Final = struct.Struct(">BBQ")
_MAIN_SECTION: Final = 100


def certificates_in(payload: object) -> dict[str, bytes] | None:
    """The two certificates in FLARE's message about them, read without FLARE's decoder; None if it holds anything else."""
    import msgpack

    if not isinstance(payload, bytes) or not _SECTION.size < len(payload) <= _MOST_CERTIFICATE_BYTES:
        return None
    marker, _, size = _SECTION.unpack_from(payload)
    if marker != _MAIN_SECTION or size != len(payload) - _SECTION.size:
        return None
    try:
        found = msgpack.unpackb(payload[_SECTION.size :], max_ext_len=0, max_array_len=0, max_map_len=2, max_str_len=64)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
        return None
    if not isinstance(found, dict) or set(found) != {"cert_content", "cert_ca_content"}:
        return None
    return found if all(type(value) is bytes for value in found.values()) else None


def is_certificate_of(name: str, content: bytes, root: x509.Certificate) -> bool:
    """Whether these are PEM certificates of that name that the root stands for."""
    from nvflare.lighter.utils import verify_cert_chain

    try:
        chain = x509.load_pem_x509_certificates(content)
        names = chain[0].subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        if len(chain) > _MOST_CHAIN or [each.value for each in names] != [name]:
            return False
        verify_cert_chain(leaf_cert=chain[0], intermediate_certs=chain[1:], root_ca_cert=root)
    except Exception:  # noqa: BLE001 - whatever is wrong with a certificate, it is none
        return False
    return True
