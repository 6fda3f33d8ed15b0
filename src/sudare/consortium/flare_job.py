"""A task of an agreement as a job in a federation that already runs FLARE: its sites are the members, its server the relay.

The federation decides how its lines are secured. What members say to each other is sealed by our session in any case, and the server
sees ciphertext. A site's passphrase comes from its own environment (SUDARE_PASSPHRASE or SUDARE_PASSPHRASE_FILE), its
member file from its own disk: neither is part of the job.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from sudare.consortium.agreement.identity import passphrase_from
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.event_log import EventLog
from sudare.consortium.network.transport.flare import CellTransport
from sudare.consortium.node import Node
from sudare.errors import InvalidParameter, SudareError

JOB_TASK = "sudare"


class SudareController(Controller):
    """The server's part: tells every site to take part, and waits. It sees no result."""

    def __init__(self, timeout_seconds: int = 0) -> None:
        """A timeout of 0 waits as long as the members do."""
        super().__init__()
        self._timeout_seconds = timeout_seconds

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to prepare."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to clear up."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """One task for all sites."""
        task = Task(name=JOB_TASK, data=Shareable(), timeout=self._timeout_seconds)
        everyone = len(fl_ctx.get_engine().get_clients())
        self.broadcast_and_wait(task=task, fl_ctx=fl_ctx, min_responses=everyone, abort_signal=abort_signal)


class SudareExecutor(Executor):
    """A site's part: its member runs one task of the agreement over the job's cell. The site has the member's name."""

    def __init__(self, member_file: str, task: str) -> None:
        """`member_file` may hold <site>, which stands for the name of the site."""
        super().__init__()
        self._member_file, self._task = member_file, task

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Run the task to its end. The server hears whether it went well, and nothing else."""
        if task_name != JOB_TASK:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        site = fl_ctx.get_identity_name()
        try:
            is_done = self._run(Path(self._member_file.replace("<site>", site)), fl_ctx.get_engine().get_cell())
        except SudareError as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            is_done = False
        return make_reply(ReturnCode.OK if is_done else ReturnCode.EXECUTION_EXCEPTION)

    def _run(self, file: Path, cell: Any) -> bool:
        member = Member.load(file)
        if member.agreement().relay_collects:
            raise InvalidParameter(
                "The agreement lets the relay collect sums, and the server of a FLARE job collects none.",
                "Run `sudare node` and `sudare relay` beside the federation, or agree that members collect.",
            )
        identity = member.identity(passphrase_from())
        job = cell.get_fqcn().partition(".")[2]
        transport = CellTransport(
            member.name, cell, lambda name: f"{name}.{job}", seal=cell.core_cell.supports_secure_messages()
        )
        node = Node(member, identity, transport, EventLog(sys.stderr, member.name))
        try:
            node.run([self._task], most_seconds=member.agreement().deadlines.task_seconds)
        finally:
            transport.close()
        return node.task_runs[self._task].state == "finished"
