"""The costs of secure sums on the page docs/scale.md: a table, and a picture of how they grow with the number of members.

    python -m benchmarks.secure_sums_page

takes benchmarks/secure_sums.json, which `python -m benchmarks.secure_sums --flower` has written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from benchmarks.peers import ROOT
from benchmarks.secure_sums_cost import Cost, markdown
from sudare.report.plots import Panel, Series, Theme, curves, rendered

RESULTS: Final = Path(__file__).with_name("secure_sums.json")
PAGE: Final = ROOT / "docs" / "scale.md"
PICTURE: Final = ROOT / "docs" / "images" / "secure-sums.svg"
BEGIN, END = "<!-- secure sums: written by its command -->", "<!-- end of secure sums -->"


def costs_read(path: Path = RESULTS) -> list[Cost]:
    """What the last run has measured."""
    return [Cost(**each) for each in json.loads(path.read_text("utf-8"))]


def table(costs: Sequence[Cost]) -> str:
    """Ours at every size, then ours beside the peer's at the sizes where both were run."""
    ours = [cost for cost in costs if cost.who == "sudare"]
    peers = {cost.members: cost for cost in costs if cost.who != "sudare"}
    pairs = [(cost, peers[cost.members]) for cost in ours if cost.members in peers]
    rows = [
        f"| {cost.members:,} | {cost.degree} | {cost.threshold} | {cost.member_seconds:.2g} s | {cost.member_seconds - cost.certificate_seconds:.2g} s"
        f" | {cost.member_bytes_sent / 1e3:.0f} kB | {cost.member_bytes_received / 1e3:.0f} kB | {(cost.member_bytes_received - cost.certificate_bytes) / 1e3:.0f} kB"
        f" | {cost.collector_seconds:.2g} s | {cost.collector_bytes_sent / 1e6:.0f} MB |"
        for cost in ours
    ]
    head = (
        "| members | shares dealt, k | open, t_k | a member computes | without certificates | sends | receives | without certificates | the collector computes | sends |\n"
        f"|{' ---: |' * 10}"
    )
    parts = ["\n".join([head, *rows])]
    if pairs:
        parts.append("Beside Flower, on the same sizes:")
        parts.append(markdown(pairs))
    return "\n\n".join(parts)


def picture(costs: Sequence[Cost]) -> bytes:
    """A member's seconds and bytes over the number of members on a logarithmic axis, with and without certificates."""
    ours = [cost for cost in costs if cost.who == "sudare"]
    members = [cost.members for cost in ours]
    seconds = [
        Series("a member", [cost.member_seconds for cost in ours]),
        Series("without certificates", [cost.member_seconds - cost.certificate_seconds for cost in ours]),
    ]
    kilobytes = [
        Series("sent", [cost.member_bytes_sent / 1e3 for cost in ours]),
        Series("received", [cost.member_bytes_received / 1e3 for cost in ours]),
        Series("received without certificates", [(c.member_bytes_received - c.certificate_bytes) / 1e3 for c in ours]),
    ]
    panels = [
        _from_zero(curves(members, seconds, x_label="members", y_label="processor seconds", logarithmic=True)),
        _in_plain_numbers(curves(members, kilobytes, x_label="members", y_label="kB", logarithmic=True)),
    ]
    return rendered(panels, columns=2)


def _from_zero(panel: Panel) -> Panel:
    """With a linear axis of y, on which what grows like log S is a straight line."""

    def drawn(axes: Axes, theme: Theme) -> None:
        panel(axes, theme)
        axes.set_yscale("linear")
        axes.set_ylim(bottom=0)

    return drawn


def _in_plain_numbers(panel: Panel) -> Panel:
    """With 1000 rather than a power of ten at the axis of y."""

    def drawn(axes: Axes, theme: Theme) -> None:
        panel(axes, theme)
        axes.set_yticks([30, 100, 300, 1000], ["30", "100", "300", "1000"])
        axes.yaxis.set_minor_formatter(NullFormatter())

    return drawn


def write_page(costs: Sequence[Cost], page: Path = PAGE, image: Path = PICTURE) -> None:
    """Replace the part between the marks, and the picture."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{table(costs)}\n\n{END}{after}", "utf-8")
    image.write_bytes(picture(costs))


if __name__ == "__main__":
    write_page(costs_read())
