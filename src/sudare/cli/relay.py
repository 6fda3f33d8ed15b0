"""`sudare relay`: the place where members' outbound connections meet. It passes on what it cannot read, and collects sums where that is agreed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli.command_output import AsJson, answer, reported
from sudare.cli.key_files import PassphraseFile, passphrase
from sudare.cli.options import SigningKey
from sudare.cli.stop_signals import StopSignals
from sudare.consortium.certificate_expiry import expiry_lines
from sudare.safe_text import escaped_for_terminal

if TYPE_CHECKING:
    from sudare.consortium.collector_node import RelayNode
    from sudare.consortium.network.transport.flare import FlareRelay

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
    agreement: Annotated[
        Path | None,
        typer.Option(
            "--agreement",
            metavar="FILE",
            help="The agreement (TOML) that lets this relay collect sums, with its statements beside it.",
        ),
    ] = None,
    key: SigningKey = None,
    state: Annotated[
        Path,
        typer.Option("--state", metavar="FOLDER", help="Where the relay keeps what it must not forget of sums."),
    ] = Path("relay-state"),
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="FILE", help="Append structured logs of collecting (JSON lines) to this file."),
    ] = None,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Run a relay. It needs no account and no data, and sees who talks to whom, when, and how much: never what.

    With --agreement and --key it also collects that agreement's sums, and so learns their totals; still no addend.
    """
    if context.invoked_subcommand is not None:
        return
    from sudare.consortium.network.transport.flare import FlareRelay
    from sudare.errors import InvalidParameter

    if kit is None:
        raise InvalidParameter("A relay needs its certificates.", "Give --kit; `sudare relay kits` makes them.")
    if agreement is not None and key is None:
        raise InvalidParameter(
            "A relay that collects sums needs the key that the agreement names.", "Give --key, or no --agreement."
        )
    # What is refused is refused before anybody connects.
    with _collecting(kit, agreement, key, state, log, passphrase_file) as collecting, StopSignals() as stop:
        running = FlareRelay(kit, listen)
        running.start()
        try:
            _serve(running, kit, listen, health_port, collecting, stop)
        finally:
            running.close()


@contextmanager
def _collecting(
    kit: Path,
    agreement: Path | None,
    key: Path | None,
    state: Path,
    log: Path | None,
    passphrase_file: Path | None,
) -> Iterator[RelayNode | None]:
    """The relay's part in sums; None where it has none."""
    if agreement is None or key is None:
        yield None
        return
    from sudare.consortium.agreement.identity import Identity
    from sudare.consortium.collector_node import RelayNode
    from sudare.consortium.event_log import EventLog
    from sudare.consortium.network.transport.certificates import collector_kit, kit_files
    from sudare.errors import ConsortiumError
    from sudare.files import LogFile, held_alone, make_private_folder
    from sudare.sums.context import RELAY_NAME

    kit_files(collector_kit(kit), "client")
    identity = Identity.load(key, passphrase(passphrase_file, f"Passphrase of {key.name}"))
    make_private_folder(state)
    with (
        held_alone(state / "relay.lock") as alone,
        LogFile(log) as stream,
    ):
        if not alone:
            raise ConsortiumError("Another relay collects with this state folder.", "Stop it first, or let it work.")
        yield RelayNode(agreement, identity, state, EventLog(stream, RELAY_NAME), _say)


def _serve(
    running: FlareRelay,
    kit: Path,
    listen: str,
    health_port: int | None,
    collecting: RelayNode | None,
    stop: StopSignals,
) -> None:
    """Pass messages on, and collect, until the process is told to stop."""
    from sudare.consortium.health_endpoint import HealthEndpoint

    def facts() -> dict[str, Any]:
        told = {"relay": listen, "connected": len(running.connected()), "dropped": running.drops.by_reason()}
        return told if collecting is None else {**told, "collects": collecting.health()}

    health = None if health_port is None else HealthEndpoint(health_port, facts)
    collects = [] if collecting is None else [collecting.introduction]
    for line in (*expiry_lines(kit, "server"), f"relay listens at {listen}", *collects):
        _say(line)
    if collecting is not None:
        _collect(collecting, kit, listen, stop)
    stop.wait()
    if health is not None:
        health.close()


def _collect(collecting: RelayNode, kit: Path, listen: str, stop: StopSignals) -> None:
    """Take part in sums, connected to the relay itself as members are."""
    from sudare.consortium.network.transport.certificates import collector_kit
    from sudare.consortium.network.transport.flare import FlareTransport
    from sudare.sums.context import RELAY_NAME

    peers, folder = collecting.agreement.member_names, collecting.state_folder
    transport = FlareTransport(RELAY_NAME, collector_kit(kit), listen, peers=peers, folder=folder)
    try:
        collecting.run(transport, lambda: stop.is_requested)
    finally:
        transport.close()


@app.command("transcripts")
@reported
def transcripts(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task of the agreement, by its name.")],
    agreement: Annotated[
        Path, typer.Option("--agreement", metavar="FILE", help="The agreement (TOML) whose sums this relay collects.")
    ] = Path("agreement.toml"),
    state: Annotated[
        Path, typer.Option("--state", metavar="FOLDER", help="The folder that the relay was given with --state.")
    ] = Path("relay-state"),
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="A new file, for members to give with --with.")
    ] = Path("relay.transcripts"),
    as_json: AsJson = False,
) -> None:
    """Write what was signed in a task's sums, as this relay kept it, for members: sudare consortium blame TASK --with FILE."""
    from sudare.consortium.agreement.agreement import Agreement
    from sudare.consortium.collector_node import relay_task_folder
    from sudare.consortium.tasks.sum_transcripts import own_transcripts, write_transcripts

    found = Agreement.load(agreement)
    found.task(task)
    kept = own_transcripts(relay_task_folder(state, found, task))
    write_transcripts(output, kept)
    values = {
        "task": task,
        "agreement": found.digest,
        "sums": len(kept),
        "statements": sum(len(each.statements) for each in kept),
        "output": str(output),
    }
    answer(
        values,
        as_json,
        f"Wrote {output}: {values['statements']} signed statements in {values['sums']} sums of {task}, no totals and no addends.",
        f"Members look at it with: sudare consortium blame {task} --with {output}",
    )


def _say(text: str) -> None:
    sys.stderr.write(f"{escaped_for_terminal(text)}\n")
    sys.stderr.flush()


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
    authority: Annotated[
        Path | None,
        typer.Option(
            "--authority",
            metavar="FILE",
            help="Keep the key that signs the certificates in this file, or use the one that is there: later kits then work beside earlier ones. Default: it is forgotten.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make certificates for the relay and for every member, in the layout of FLARE's kits."""
    from sudare.consortium.agreement.agreement import Agreement
    from sudare.consortium.network.transport.certificates import write_kits
    from sudare.sums.context import RELAY_NAME

    found = Agreement.load(agreement)
    names = found.member_names
    written = write_kits(folder, host, names, None if found.relay is None else RELAY_NAME, authority)
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
