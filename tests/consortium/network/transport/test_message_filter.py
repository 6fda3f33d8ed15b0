"""What a cell of ours takes of what FLARE brings: bytes under its seal, certificates, and nothing else."""

from __future__ import annotations

import os
import stat
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.consortium.network.dropped_messages import Drops
from sudare.consortium.network.transport.certificates import kit_files, write_kits
from sudare.consortium.network.transport.message_filter import (
    MOST_PAYLOAD_BYTES,
    MemberRules,
    RelayRules,
    certificates_in,
    is_certificate_of,
    needed_headers,
)

pytest.importorskip("nvflare")

PACKET: dict[str, Any] = {
    "cn__msg_type": "req",
    "cn__origin": "north",
    "cn__destination": "east",
    "cn__from": "server",
    "cn__to": "east",
    "cn__channel": "sudare",
    "cn__topic": "packet",
    "cn__payload_encoding": "bytes",
    "cn__secure": True,
    "cn__encrypted": True,
    "cn__clear_payload_len": 5,
}
CERTIFICATE = {"cn__channel": "credential_manager", "cn__topic": "key_exchange", "cn__payload_encoding": "fobs"}
EXCHANGE = {**PACKET, **CERTIFICATE, "cn__secure": False, "cn__encrypted": None}
EAST = MemberRules(
    "east", frozenset({"north", "west"}), lambda name: name == "north", lambda name, content: content == b"good"
)
RELAY = RelayRules("server")


def decision_on(changes: dict[str, Any], payload: object = b"bytes") -> str | None:
    return EAST.decision_on("server", {**PACKET, **changes}, payload).reason


def relayed(changes: dict[str, Any], payload: object = b"bytes") -> str | None:
    return RELAY.decision_on("north", {**PACKET, **changes}, payload).reason


CLEAR = {"cn__secure": False, "cn__encrypted": None, "cn__clear_payload_len": None}
ANNOUNCED = {**CLEAR, "cn__topic": "announcement", "cn__destination": "server"}
BULLETIN = {**CLEAR, "cn__topic": "bulletin", "cn__origin": "server"}


def test_announcements_are_taken_by_the_relay_and_bulletins_by_members() -> None:
    assert relayed(ANNOUNCED) is None
    assert decision_on(BULLETIN) is None


@pytest.mark.parametrize(
    ("changes", "payload", "reason"),
    [
        ({"cn__origin": "west"}, b"bytes", "unauthentic"),
        ({"cn__destination": "east"}, b"bytes", "not-admitted"),
        ({"cn__msg_type": "reply"}, b"bytes", "not-admitted"),
        ({"cn__payload_encoding": "fobs"}, b"bytes", "not-bytes"),
        ({}, {"an": "object"}, "not-bytes"),
        ({"cn__secure": True}, b"bytes", "not-admitted"),
        ({"cn__reply_expected": True}, b"bytes", "not-admitted"),
        ({}, bytes((1 << 15) + 1), "too-large"),
    ],
)
def test_a_relay_takes_no_other_announcements(changes: dict[str, Any], payload: object, reason: str) -> None:
    assert relayed({**ANNOUNCED, **changes}, payload) == reason


@pytest.mark.parametrize(
    ("changes", "payload", "reason"),
    [
        ({"cn__origin": "north"}, b"bytes", "not-admitted"),
        ({"cn__topic": "announcement"}, b"bytes", "not-admitted"),
        ({"cn__payload_encoding": "fobs"}, b"bytes", "not-bytes"),
        ({}, ["a", "list"], "not-bytes"),
        ({}, bytes((1 << 20) + 1), "too-large"),
    ],
)
def test_a_member_takes_bulletins_of_its_relay_only(changes: dict[str, Any], payload: object, reason: str) -> None:
    assert decision_on({**BULLETIN, **changes}, payload) == reason


def test_a_relay_passes_no_bulletin_on() -> None:
    assert relayed({**CLEAR, "cn__topic": "bulletin"}) == "not-admitted"


def test_bytes_under_a_seal_are_taken_and_passed_on() -> None:
    assert decision_on({}) is None
    assert relayed({}) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cn__payload_encoding": "fobs"}, "not-bytes"),
        ({"cn__payload_encoding": None}, "not-bytes"),
        ({"cn__payload_encoding": "none"}, "not-bytes"),
        ({"cn__secure": False}, "unauthentic"),
        ({"cn__encrypted": None}, "unauthentic"),
        ({"cn__channel": "_stream_"}, "not-admitted"),
        ({"cn__topic": "other"}, "not-admitted"),
        ({"cn__channel": "cellnet.channel", "cn__topic": "bulk"}, "not-admitted"),
        ({"cn__msg_type": "reply"}, "not-admitted"),
        ({"cn__msg_type": 7}, "malformed"),
        ({"cn__origin": {"a": 1}}, "malformed"),
        ({"cn__origin": "x" * 300}, "malformed"),
        ({"cn__clear_payload_len": 2**80}, "malformed"),
    ],
)
def test_what_is_not_that_is_neither_taken_nor_passed_on(changes: dict[str, Any], reason: str) -> None:
    assert decision_on(changes) == reason
    assert relayed(changes) in (reason, "unauthentic")


def test_a_member_takes_only_what_is_for_it_from_members_whose_certificate_it_has() -> None:
    assert decision_on({"cn__destination": "west"}) == "not-admitted"
    assert decision_on({"cn__origin": "stranger"}) == "unknown-sender"
    assert decision_on({"cn__origin": "west"}) == "no-certificate"
    assert decision_on({}, b"x" * (MOST_PAYLOAD_BYTES + 1)) == "too-large"
    assert decision_on({"cn__channel": "cellnet.channel", "cn__topic": "bye"}, None) == "not-admitted"


def test_a_relay_passes_on_in_the_name_of_the_line_only_and_takes_goodbyes() -> None:
    assert relayed({"cn__origin": "west"}) == "unauthentic"
    assert relayed({"cn__destination": "server"}) == "not-admitted"
    goodbye = {"cn__channel": "cellnet.channel", "cn__topic": "bye", "cn__destination": "server"}
    assert relayed(goodbye, None) is None
    assert relayed(goodbye) == "not-admitted"
    assert RELAY.decision_on("north", EXCHANGE, b"x" * 1000).reason is None
    assert RELAY.decision_on("north", EXCHANGE, b"x" * 100_000).reason == "too-large"
    assert relayed({"cn__msg_type": "return", "cn__original_headers": {"cn__destination": "x"}}, None) == "not-admitted"


def test_headers_that_make_flare_act_are_taken_away() -> None:
    extra = {
        "cn__conn_url": "grpc://evil:1",
        "cn__route": [["x" * 9999, 0.0]],
        "cn__pass_through": True,
        "x": [1] * 100,
    }
    assert set(EAST.decision_on("server", {**PACKET, **extra}, b"bytes").headers) == set(PACKET)


@settings(max_examples=100)
@given(
    st.dictionaries(
        st.sampled_from([*PACKET, "cn__req_id", "cn__original_headers", "cn__return_code", "other"]),
        st.sampled_from([None, True, 0, -1, 2**70, "", "req", "reply", "return", "fobs", "north", b"x", [], ["x"], {}]),
        max_size=4,
    ),
    st.sampled_from([None, b"", b"payload", "text", {"a": 1}]),
)
def test_no_headers_make_judging_fail_and_nothing_to_decode_is_left(headers: dict[str, Any], payload: object) -> None:
    for changed in (headers, {**PACKET, **headers}, {**EXCHANGE, **headers}):
        for rules in (EAST, RELAY):
            decision = rules.decision_on("north", changed, payload)
            if decision.reason is None and rules is EAST:
                assert decision.headers.get("cn__payload_encoding") in (None, "bytes", "none")
    assert needed_headers(None) is None


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kits")
    write_kits(folder / "one", "localhost", ["east", "north"])
    write_kits(folder / "two", "localhost", ["east"])
    return folder


def test_certificates_are_read_as_flare_packs_them_and_nothing_else_is(kits: Path) -> None:
    from nvflare.fuel.utils import fobs

    root, own = (Path(kit_files(kits / "one/east", "client")[name]).read_bytes() for name in ("ca_cert", "client_cert"))
    document = {"cert_content": own, "cert_ca_content": root}
    payload = bytes(fobs.dumps(document))
    assert certificates_in(payload) == document
    for other in (
        {"cert_error": "no"},
        {**document, "more": b""},
        {**document, "cert_content": "text"},
        [own],
        Path("x"),
    ):
        assert certificates_in(bytes(fobs.dumps({"a": 1} if isinstance(other, Path) else other))) is None
    for damaged in (payload[:-1], payload + b"x", b"\x65" + payload[1:], b"", None, payload[:10]):
        assert certificates_in(damaged) is None
    good = EAST.decision_on("server", EXCHANGE, bytes(fobs.dumps({"cert_content": b"good", "cert_ca_content": b""})))
    assert (good.reason, good.certificates) == (None, {"cert_content": b"good", "cert_ca_content": b""})
    assert "cn__payload_encoding" not in good.headers
    assert EAST.decision_on("server", EXCHANGE, payload).reason == "bad-certificate"
    assert EAST.decision_on("server", EXCHANGE, b"payload").reason == "not-bytes"
    assert EAST.decision_on("server", {**EXCHANGE, "cn__secure": True}, payload).reason == "not-admitted"


def test_a_certificate_counts_in_its_own_name_and_under_the_same_root(kits: Path) -> None:
    root = x509.load_pem_x509_certificate(Path(kit_files(kits / "one/east", "client")["ca_cert"]).read_bytes())
    own, foreign = (
        Path(kit_files(kits / kit / "east", "client")["client_cert"]).read_bytes() for kit in ("one", "two")
    )
    assert is_certificate_of("east", own, root)
    assert not is_certificate_of("north", own, root)
    assert not is_certificate_of("east", foreign, root)
    assert not is_certificate_of("east", b"nonsense", root)
    assert not is_certificate_of("east", own * 9, root)


def test_flares_folder_is_private_new_each_time_and_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nvflare.fuel.utils import fobs
    from nvflare.fuel.utils.config_service import ConfigService
    from nvflare.fuel.utils.fobs.datum import Datum

    from sudare.consortium.network.transport.flare import closed_folder
    from sudare.files import remove_folder

    monkeypatch.setattr(ConfigService, "_var_values", {})
    monkeypatch.setenv("NVFLARE_DATUM_DIR", "")
    state = tmp_path / "state"
    victim, left = tmp_path / "records", state / "flare-left"
    victim.mkdir()
    (victim / "table.csv").write_text("kept")
    left.mkdir(parents=True)
    (left / "old").write_text("x")
    (state / "flare-link").symlink_to(victim)
    first = closed_folder(state)
    assert sorted(path.name for path in state.iterdir()) == [first.name]
    assert (victim / "table.csv").read_text() == "kept"
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    (tmp_path / "evil").write_bytes(bytes(1000))
    packed = fobs.dumps({"file": Datum.file_datum(str(tmp_path / "evil"))})
    with pytest.raises(OSError, match="Not a directory"):
        fobs.loads(packed)
    second = closed_folder(state)
    assert second.name != first.name
    assert len(second.name) > 12
    assert not first.exists()
    remove_folder(second)
    assert list(state.iterdir()) == []
    temporary = closed_folder(None)
    assert stat.S_IMODE(temporary.stat().st_mode) == 0o700
    assert os.environ["NVFLARE_DATUM_DIR"].startswith(str(temporary))
    remove_folder(temporary)


class _SendingCell:
    """As much of a cell as a line's queue needs."""

    def __init__(self) -> None:
        self.drops, self.sending_for = Drops(), ""


def test_what_waits_on_a_line_is_limited_for_each_sender_and_sent_in_turns() -> None:
    from nvflare.fuel.f3.drivers.grpc.qq import QueueClosed
    from nvflare.fuel.f3.drivers.grpc.streamer_pb2 import Frame

    from sudare.consortium.network.transport.flare_bytes_cell import UnsentFrames

    cell = _SendingCell()
    frames = UnsentFrames(cell)  # type: ignore[arg-type]
    cell.sending_for = "loud"
    for number in range(9_000):
        frames.append(Frame(seq=number, data=b"x"))
    cell.sending_for = "quiet"
    frames.append(Frame(seq=1, data=b"y"))
    assert [bytes(next(frames).data) for _ in range(3)] == [b"x", b"y", b"x"]
    assert cell.drops.counts() == {("loud", "over-quota"): 9_000 - 8_192}
    frames.close()
    assert next(iter(frames), None) is None
    with pytest.raises(QueueClosed):
        frames.append(Frame(seq=2, data=b"z"))


@pytest.mark.parametrize(
    ("kind", "header_bytes", "size", "is_possible"),
    [
        (1, 0, 16, True),
        (1, 0, 15, False),
        (1, 5, 20, False),
        (4, 0, 5_000, False),
        (4, 0, 100, True),
        (1, 9, 100_000, True),
    ],
)
def test_frames_that_cannot_be_one_are_not_looked_at(
    kind: int, header_bytes: int, size: int, is_possible: bool
) -> None:
    from sudare.consortium.network.transport.flare_bytes_cell import _has_possible_size

    frame = struct.pack(">IHBBHHHH", size, header_bytes, kind, 0, 0, 1, 1, 1).ljust(size, b"\0")[:size]
    assert _has_possible_size(frame) == is_possible


def test_a_line_waits_until_its_frames_were_worked_off() -> None:
    from sudare.consortium.network.transport.flare_bytes_cell import MOST_FRAME_BYTES, _UnderWay

    under_way = _UnderWay()
    assert under_way.begin(MOST_FRAME_BYTES)
    threading.Timer(0.05, lambda: under_way.end(MOST_FRAME_BYTES)).start()
    assert under_way.begin(10)
