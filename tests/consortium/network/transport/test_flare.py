"""Transports: what every one of them does, and protocols over processes with FLARE between them, bit for bit as in one process."""

from __future__ import annotations

import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cryptography import x509

from sudare.consortium.network.transport.base import Packet, Transport
from sudare.consortium.network.transport.certificates import common_name, kit_files, write_kits
from sudare.errors import InvalidParameter, NotConnected
from tests.consortium.local_transport import LocalHub
from tests.consortium.processes import (
    Processes,
    check_outcomes,
    dictionary_in_process,
    free_port,
    hospitals_in_process,
    names_of,
    processes,
    wait_for_iteration,
)

# In process


def test_packets_arrive_with_their_senders_name() -> None:
    hub = LocalHub()
    first, second = hub.join("first"), hub.join("second")
    first.send("second", b"hello")
    assert second.receive(1.0) == Packet("first", b"hello")
    assert second.receive(0.0) is None


def test_what_is_sent_to_nobody_is_lost_without_an_error() -> None:
    hub = LocalHub()
    first = hub.join("first")
    first.send("second", b"hello")
    assert hub.join("second").receive(0.0) is None


def test_a_name_is_taken_once_and_free_after_closing() -> None:
    hub = LocalHub()
    first = hub.join("first")
    with pytest.raises(InvalidParameter, match="already here"):
        hub.join("first")
    first.close()
    assert hub.join("first").receive(0.0) is None


def test_receiving_waits_no_longer_than_asked_and_wakes_up_for_a_packet() -> None:
    hub = LocalHub()
    first, second = hub.join("first"), hub.join("second")
    threading.Timer(0.05, lambda: first.send("second", b"late")).start()
    assert second.receive(30.0) == Packet("first", b"late")


def test_a_closed_transport_receives_nothing() -> None:
    transport: Transport = LocalHub().join("first")
    transport.close()
    assert transport.receive(0.0) is None


# Certificates


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kits")
    write_kits(folder, "relay.example.org", ["east"])
    return folder


def test_kits_have_flares_layout_and_keys_that_only_their_owner_reads(kits: Path) -> None:
    assert common_name(kits / "relay", "server") == "relay.example.org"
    assert common_name(kits / "east", "client") == "east"
    files = kit_files(kits / "east", "client")
    assert set(files) == {"ca_cert", "client_cert", "client_key"}
    assert stat.S_IMODE(Path(files["client_key"]).stat().st_mode) == 0o600
    root = x509.load_pem_x509_certificate(Path(files["ca_cert"]).read_bytes())
    leaf = x509.load_pem_x509_certificate(Path(files["client_cert"]).read_bytes())
    leaf.verify_directly_issued_by(root)


def test_a_kit_for_another_role_or_in_a_taken_folder_is_refused(kits: Path) -> None:
    with pytest.raises(NotConnected, match=r"startup/client\.crt"):
        kit_files(kits / "relay", "client")
    with pytest.raises(InvalidParameter, match="already a kit"):
        write_kits(kits, "relay.example.org", [])


def test_a_kit_in_another_name_is_refused_before_anything_is_connected(kits: Path) -> None:
    pytest.importorskip("nvflare")
    from sudare.consortium.network.transport.flare import FlareTransport

    with pytest.raises(NotConnected, match="'east', not for 'west'"):
        FlareTransport("west", kits / "east", "localhost:1")


def test_a_member_that_was_started_again_hears_others_before_it_has_sent_them_anything(tmp_path: Path) -> None:
    """Others have its certificate from before and do not ask for it: it asks for theirs."""
    pytest.importorskip("nvflare")
    from sudare.consortium.network.transport.flare import FlareRelay, FlareTransport

    write_kits(tmp_path / "kits", "localhost", ["east", "west"])
    address = f"localhost:{free_port()}"

    def joined(name: str) -> FlareTransport:
        return FlareTransport(name, tmp_path / "kits" / name, address, peers=["east", "west"])

    def heard(content: bytes) -> None:
        """Until west has heard this from east, which says it again and again, as a session does."""
        end = time.monotonic() + 120.0
        while time.monotonic() < end:
            east.send("west", content)
            if west.receive(0.5) == Packet("east", content):
                return
        raise TimeoutError(west.drops.by_reason())

    relay = FlareRelay(tmp_path / "kits/relay", address)
    relay.start()
    east, west = joined("east"), joined("west")
    try:
        heard(b"before")
        west.close()
        west = joined("west")
        heard(b"after")
    finally:
        for each in (east, west, relay):
            each.close()


# Between processes


@pytest.mark.long
def test_the_chapters_example_between_processes_gives_the_bits_of_one_process(tmp_path: Path) -> None:
    expected = dictionary_in_process()
    with processes(tmp_path, 3) as together:
        for position in range(3):
            together.start(together.order(position, "dictionary"))
        check_outcomes(together, expected)


@pytest.mark.long
def test_a_member_killed_and_restarted_and_a_relay_that_was_down_change_no_bit(tmp_path: Path) -> None:
    expected = dictionary_in_process()
    with processes(tmp_path, 3) as together:
        for position in range(3):
            together.start(together.order(position, "dictionary", silence_seconds=300.0))
        name = names_of(3)[1]
        wait_for_iteration(tmp_path / f"state-{name}", 5)
        together.kill(name)
        together.start(together.order(1, "dictionary", silence_seconds=300.0))
        wait_for_iteration(tmp_path / f"state-{name}", 20)
        together.kill("relay")
        time.sleep(5.0)
        together.start_relay()
        check_outcomes(together, expected)


@pytest.mark.long
def test_ten_hospitals_learn_the_bits_of_one_process(tmp_path: Path) -> None:
    expected = hospitals_in_process()
    with processes(tmp_path, 10) as together:
        for position in range(10):
            together.start(together.order(position, "hospitals"))
        check_outcomes(together, expected)


@pytest.mark.long
def test_a_certificate_of_another_authority_gets_nowhere(tmp_path: Path) -> None:
    with processes(tmp_path, 3) as together:
        write_kits(tmp_path / "other", "localhost", [names_of(3)[2]])
        (tmp_path / "kits" / names_of(3)[2]).rename(tmp_path / "right")
        (tmp_path / "other" / names_of(3)[2]).rename(tmp_path / "kits" / names_of(3)[2])
        for position in range(3):
            together.start(together.order(position, "vector", gathering_seconds=60.0, options={"length": 4, "sums": 2}))
        outcomes = together.outcomes()
    assert all(outcome["result"] is None for outcome in outcomes)
    assert all(outcome["error"].startswith(("NotConnected", "TaskStopped")) for outcome in outcomes)


@pytest.mark.long
def test_another_agreement_is_refused_between_processes(tmp_path: Path) -> None:
    with processes(tmp_path, 3) as together:
        for position in range(3):
            agreement = "other" if position == 2 else "together"
            together.start(together.order(position, "vector", agreement=agreement, options={"length": 4, "sums": 2}))
        outcomes = together.outcomes()
    assert all(outcome["result"] is None for outcome in outcomes)
    assert any(outcome["error"].startswith("AgreementMismatch") for outcome in outcomes)
    assert all(outcome["error"].startswith(("AgreementMismatch", "TaskStopped")) for outcome in outcomes)


class ConnectProxy:
    """An HTTP proxy that lets CONNECT through and counts; what passes is TLS."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.first_bytes: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            line, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            request += line.recv(4096)
        target = request.split()[1].decode()
        self.asked.append(target)
        host, _, port = target.rpartition(":")
        try:
            onward = socket.create_connection((host.strip("[]"), int(port)))
        except ConnectionRefusedError:
            # The relay is not up yet.
            line.close()
            return
        line.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        threading.Thread(target=self._pass_on, args=(onward, line, False), daemon=True).start()
        self._pass_on(line, onward, True)

    def _pass_on(self, source: socket.socket, target: socket.socket, is_first: bool) -> None:
        while content := source.recv(65536):
            if is_first:
                self.first_bytes.append(content[:1])
                is_first = False
            target.sendall(content)


@pytest.mark.long
def test_members_reach_the_relay_through_a_proxy_that_sees_tls(tmp_path: Path) -> None:
    proxy = ConnectProxy()
    environment = {"grpc_proxy": proxy.address, "no_proxy": "", "no_grpc_proxy": ""}
    with processes(tmp_path, 2) as together:
        for position in range(2):
            order = together.order(position, "vector", options={"length": 4, "sums": 2})
            together.start(order, **environment)
        outcomes = together.outcomes()
        assert set(proxy.asked) == {together.relay_address}
    assert [outcome["error"] for outcome in outcomes] == [None, None]
    assert len(proxy.asked) >= 2
    # A TLS handshake begins with 22.
    assert set(proxy.first_bytes) == {b"\x16"}


PROJECT = """
api_version: 3
name: clinics
description: kits as FLARE makes them
participants:
  - {name: localhost, type: server, org: relay, fed_learn_port: 8002, admin_port: 8003}
  - {name: site-00, type: client, org: east}
  - {name: site-01, type: client, org: west}
  - {name: admin@relay.org, type: admin, org: relay, role: project_admin}
builders:
  - {path: nvflare.lighter.impl.workspace.WorkspaceBuilder}
  - {path: nvflare.lighter.impl.static_file.StaticFileBuilder, args: {config_folder: config}}
  - {path: nvflare.lighter.impl.cert.CertBuilder}
  - {path: nvflare.lighter.impl.signature.SignatureBuilder}
"""


@pytest.mark.long
def test_kits_that_flare_provisioned_work_as_well(tmp_path: Path) -> None:
    (tmp_path / "project.yml").write_text(PROJECT)
    nvflare = str(Path(sys.executable).parent / "nvflare")
    program = [nvflare, "provision", "-p", str(tmp_path / "project.yml"), "-w", str(tmp_path / "made")]
    subprocess.run(program, check=True, capture_output=True, timeout=300)
    (made,) = (tmp_path / "made").glob("*/prod_00")
    together = Processes(tmp_path, 2)
    shutil.rmtree(tmp_path / "kits")
    (tmp_path / "kits").mkdir()
    for kit, name in (("localhost", "relay"), ("site-00", "site-00"), ("site-01", "site-01")):
        (tmp_path / "kits" / name).symlink_to(made / kit)
    try:
        together.start_relay()
        for position in range(2):
            together.start(together.order(position, "vector", options={"length": 4, "sums": 2}))
        assert [outcome["error"] for outcome in together.outcomes()] == [None, None]
    finally:
        together.end()
