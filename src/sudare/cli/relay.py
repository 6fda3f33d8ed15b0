"""`sudare relay`: the place where members' outbound connections meet. It passes on what it cannot read."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from sudare.cli.answers import AsJson, answer, reported
from sudare.cli.certificate_expiry import expiry_lines

app = typer.Typer(
    help="Run a relay for a consortium, or make the certificates that it takes.", invoke_without_command=True
)


@app.callback()
@reported
def relay(
    context: typer.Context,
    kit: Annotated[
        Path | None,
        typer.Option("--kit", metavar="FOLDER", help="The relay's own kit, with server.crt and server.key."),
    ] = None,
    listen: Annotated[
        str,
        typer.Option("--listen", metavar="HOST:PORT", help="Where members connect to; the host is that of the kit."),
    ] = "localhost:8102",
    health_port: Annotated[
        int | None,
        typer.Option("--health-port", min=1, max=65_535, help="Answer GET /health on 127.0.0.1 at this port."),
    ] = None,
) -> None:
    """Run a relay. It needs no account and no data, and sees who talks to whom, when, and how much: never what."""
    if context.invoked_subcommand is not None:
        return
    from sudare.consortium.health_endpoint import HealthEndpoint
    from sudare.consortium.network.transport.flare import FlareRelay
    from sudare.errors import InvalidParameter

    if kit is None:
        raise InvalidParameter("A relay needs its certificates.", "Give --kit; `sudare relay kits` makes them.")
    running = FlareRelay(kit, listen)
    running.start()
    health = None
    if health_port is not None:
        health = HealthEndpoint(
            health_port,
            lambda: {"relay": listen, "connected": len(running.connected()), "dropped": running.drops.by_reason()},
        )
    for line in (*expiry_lines(kit, "server"), f"relay listens at {listen}"):
        sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
    if health is not None:
        health.close()
    running.close()


@app.command("kits")
@reported
def kits(
    agreement: Annotated[
        Path, typer.Argument(metavar="AGREEMENT", help="The agreement that names the members (TOML).")
    ],
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where one folder for each is made.")
    ] = Path("kits"),
    host: Annotated[str, typer.Option("--host", help="The name by which members reach the relay.")] = "localhost",
    as_json: AsJson = False,
) -> None:
    """Make certificates for the relay and for every member, in the layout of FLARE's kits."""
    from sudare.consortium.agreement.agreement import Agreement
    from sudare.consortium.network.transport.certificates import write_kits

    names = Agreement.load(agreement).member_names
    written = write_kits(folder, host, names)
    values = {
        "relay": str(written[0]),
        "members": {name: str(kit) for name, kit in zip(names, written[1:], strict=True)},
    }
    answer(
        values,
        as_json,
        f"Wrote kits for the relay at {host} and {len(names)} members below {folder}.",
        "Send each member its own, and nobody else's. They open the line; who a member is, is proved by the agreement's keys.",
    )
