"""Clients of Dask clusters: found or made from what a person gives, and waited for when workers die."""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
import socket
from typing import Any, Final

from sudare.errors import ClusterFailed, InvalidParameter
from sudare.optional_packages import optional_package
from sudare.schema.table_from_any_frame import attempt

# How long a scheduler may take to answer.
CONNECTION_SECONDS: Final = 5
_ADDRESS: Final = re.compile(
    r"(?:(?:tcp|tls|ws|wss|ucx)://)?(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):(?P<port>\d{1,5})/?"
)
# Clients that were made here, by the address of their scheduler.
_CLIENTS: Final[dict[str | None, Any]] = {}


def client_of(cluster: Any) -> Any:
    """A client of the cluster. One that is made here is used again for the same cluster, and closed when the process ends."""
    distributed = optional_package(
        "distributed",
        "Sums on a cluster need dask.distributed, which is not installed.",
        "Install it: pip install 'sudare[consortium]'",
    )
    client_class: Any = distributed.Client
    if isinstance(cluster, client_class):
        return cluster
    address = cluster if isinstance(cluster, str) else getattr(cluster, "scheduler_address", None)
    made = _CLIENTS.get(address)
    if made is not None and made.status == "running":
        return made
    if isinstance(cluster, str) and not cluster.startswith("inproc://"):
        _check_answers(cluster)
    client = attempt(lambda: client_class(cluster, set_as_default=False, timeout=CONNECTION_SECONDS))
    if client is None or not isinstance(address, str):
        raise _unreachable()
    _CLIENTS[address] = client
    return client


def _check_answers(address: str) -> None:
    """Raise InvalidParameter unless the text is the address of a scheduler that answers.

    It is looked at before a client is made: one that cannot connect goes on trying after it was given up, and prints what failed.
    """
    found = _ADDRESS.fullmatch(address.strip())
    if found is None:
        raise InvalidParameter(
            "`cluster` is not the address of a scheduler.", "Write host and port, such as tls://scheduler:8786."
        )
    try:
        socket.create_connection((found["host"].strip("[]"), int(found["port"])), CONNECTION_SECONDS).close()
    except (OSError, OverflowError):
        raise _unreachable() from None
    # In a thread of its own: here a loop of events may be running, as in notebooks.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        identity = thread.submit(lambda: asyncio.run(_identity(address.strip()))).result()
    if not isinstance(identity, dict) or identity.get("type") != "Scheduler":
        raise InvalidParameter(
            f"At the address of `cluster` something answers, and within {CONNECTION_SECONDS} seconds not as a scheduler of Dask.",
            "Check the port: that of the scheduler (8786), not of its dashboard (8787); and tls:// where it asks for TLS.",
        )


async def _identity(address: str) -> Any:
    """What a server of Dask says it is; None where something else answers, or nothing in time."""
    import distributed

    library: Any = distributed
    arguments = library.Security().get_connection_args("client")
    server = library.rpc(address, timeout=CONNECTION_SECONDS, connection_args=arguments)
    try:
        return await asyncio.wait_for(server.identity(), CONNECTION_SECONDS)
    except Exception:  # noqa: BLE001 - the first bytes of other servers are taken for lengths, larger than all memory
        return None
    finally:
        await server.close_rpc()


def _unreachable() -> InvalidParameter:
    return InvalidParameter(
        "`cluster` is not a cluster that can be reached.",
        "Check that the scheduler runs. Give its address (tls://scheduler:8786), a Client or a LocalCluster.",
    )


def thread_count(client: Any) -> int:
    """How many threads the workers have together. Raise InvalidParameter where there is no worker."""
    threads = int(sum(client.nthreads().values()))
    if not threads:
        raise InvalidParameter("The cluster has no workers.", "Start at least one worker first.")
    return threads


def wait_for_workers(client: Any) -> None:
    """Wait until there is a worker. Raise ClusterFailed where none comes."""
    if attempt(lambda: client.wait_for_workers(1, timeout=30) or True) is None:
        raise workers_died()


def workers_died() -> ClusterFailed:
    """What is raised where rows were lost with their workers, time and again."""
    return ClusterFailed("Workers of the cluster died while they added rows.", ClusterFailed.help)
