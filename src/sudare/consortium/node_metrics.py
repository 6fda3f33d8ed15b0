"""What a node counts, for monitoring: names of tasks and reasons, numbers of members, rounds and messages, and what is left of the budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sudare.consortium.certificate_expiry import kit_days_left
from sudare.consortium.operator_warnings import amount_left
from sudare.report.prometheus import Metric

if TYPE_CHECKING:
    from sudare.consortium.node import Node


def node_metrics(node: Node) -> Sequence[Metric]:
    """All of them as they are now; those of the budget only where the ledger has the account and can be read."""
    facts, runs = node.health(), list(node.task_runs.items())
    left, days = amount_left(node.member), kit_days_left(node.member.transport.kit, "client")
    found = [
        _gauge("sudare_node_up_seconds", "Seconds since this life of the node began.", facts["up_seconds"]),
        _gauge(
            "sudare_node_turned_seconds_ago", "Seconds since the loop last came round.", facts["turned_seconds_ago"]
        ),
        _gauge("sudare_node_members", "Members of the agreement.", facts["members"]),
        _gauge("sudare_node_present_members", "Members that are present, this one included.", facts["present"]),
        _gauge("sudare_node_relay_reached", "Whether the line to the relay is up.", float(facts["relay_reached"])),
        Metric(
            "sudare_node_tasks",
            "Tasks of this life of the node, by state.",
            "gauge",
            [({"task": name, "state": run.state}, 1.0) for name, run in runs],
        ),
        Metric(
            "sudare_node_rounds_total",
            "Rounds of sums that tasks have ended here.",
            "counter",
            [({"task": name}, float(run.rounds)) for name, run in runs],
        ),
        Metric(
            "sudare_node_resends_total",
            "Messages that were sent again because their answer was overdue.",
            "counter",
            [({}, float(node.dispatcher.session.resends))],
        ),
        Metric(
            "sudare_node_dropped_total",
            "Messages that were dropped, by reason.",
            "counter",
            [({"reason": reason}, float(count)) for reason, count in sorted(facts["dropped"].items())],
        ),
        _gauge("sudare_node_held_bytes", "Bytes kept for tasks that have not come so far.", facts["held_bytes"]),
    ]
    if left is not None:
        found.append(_gauge("sudare_node_epsilon_left", "What is left of the budget's epsilon.", left.epsilon))
        found.append(_gauge("sudare_node_delta_left", "What is left of the budget's delta.", left.delta))
    if days is not None:
        found.append(_gauge("sudare_node_certificate_days_left", "Days until a certificate of the kit ends.", days))
    return found


def _gauge(name: str, text: str, value: float) -> Metric:
    return Metric(name, text, "gauge", [({}, value)])
