"""Numbers for monitoring, in the text format of Prometheus. None of them tells anything of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Metric:
    """A number for monitoring, with its labels; `name` begins with sudare_ and the part that it is of."""

    name: str
    help: str
    kind: str
    values: Sequence[tuple[dict[str, str], float]]


def prometheus_text(metrics: Sequence[Metric]) -> str:
    """Metrics in the text format that Prometheus reads."""
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.values:
            named = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(f"{metric.name}{f'{{{named}}}' if named else ''} {value:.10g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
