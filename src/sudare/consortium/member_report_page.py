"""A member's report as a page for people; the signed file beside it is what counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sudare import __version__
from sudare.consortium.member_report import SignedReport
from sudare.privacy.guarantee import readable_up
from sudare.report import Page, PageTable, Part
from sudare.report.budget_bar import time_text

MADE_BY: Final = f"sudare consortium report, version {__version__}"


def report_page(report: SignedReport) -> Page:
    """Agreements, tasks, decisions, ledger."""
    values = report.values
    parts = [_agreements(values), _tasks(values)]
    if values["decisions"] is not None:
        parts.append(_decisions(values))
    return Page(
        title=f"What {values['member']} did together with others",
        lead="Made from agreements, ledger and decisions of this member. No record and no result is on this page.",
        parts=[*parts, _ledger(report)],
        made_by=MADE_BY,
    )


def _agreements(values: Mapping[str, Any]) -> Part:
    rows = [
        (str(each["version"]), each["digest"], ", ".join(each["signed"]), ", ".join(each["not_signed"]))
        for each in values["agreements"]
    ]
    return Part(
        title="What was agreed, and who signed",
        result=f"{len(rows)} versions; each names the hash of the one before.",
        blocks=[PageTable(("version", "hash", "signed by", "not signed by"), rows)],
        how_to_read=["A version is in force once all of its members have signed its hash with the keys that it names."],
    )


def _tasks(values: Mapping[str, Any]) -> Part:
    rows = []
    for task in values["tasks"]:
        for entry in task["entries"]:
            rows.append((task["task"], task["kind"], _cost(entry), str(entry["position"]), time_text(entry["time"])))
        if not task["entries"]:
            rows.append((task["task"], task["kind"], "not run", "", ""))
    digests = [(task["task"], name, text) for task in values["tasks"] for name, text in sorted(task["results"].items())]
    return Part(
        title="What ran, what it revealed and what it cost",
        result=f"{sum(bool(task['entries']) for task in values['tasks'])} tasks were paid for or disclosed.",
        blocks=[
            PageTable(("task", "kind", "revealed and cost", "entry", "time"), rows),
            PageTable(("task", "result", "digest"), digests, "What all members hold alike", folded=True),
        ],
        how_to_read=["An exact disclosure shows totals over all members without noise; it is entered, and costs no ε."],
    )


def _cost(entry: Mapping[str, Any]) -> str:
    guarantee = entry["guarantee"]
    if guarantee is None:
        return f"up to {entry['exact_numbers']} exact totals"
    return (
        f"{entry['what']}: ε = {readable_up(float(guarantee['epsilon']))}, δ = {readable_up(float(guarantee['delta']))}"
    )


def _decisions(values: Mapping[str, Any]) -> Part:
    rows = [
        (each["task"], each["state"], each["who"], time_text(each["when"]), each["reason"])
        for each in values["decisions"]
    ]
    return Part(
        title="Who decided, and why",
        result=f"{len(rows)} requests and decisions.",
        blocks=[PageTable(("task", "decision", "by", "time", "reason"), rows)],
        how_to_read=[],
    )


def _ledger(report: SignedReport) -> Part:
    head = report.values["ledger"]
    rows = [(str(head["position"]), head["hash"]), ("public key", report.public_key), ("signature", report.signature)]
    return Part(
        title="Where the ledger ends, and who signed this",
        result=f"The chain of {head['position'] + 1} entries is intact.",
        blocks=[PageTable(("entry", "hash"), rows)],
        how_to_read=["Whoever keeps this head notices an older ledger that is put back (sudare budget verify --head)."],
    )
