"""The application: which commands there are."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from sudare.cli import (
    approvals as steward,
)
from sudare.cli import (
    audit,
    budget,
    combine,
    consortium,
    crosstab,
    demo,
    explain,
    export,
    fit,
    inspect,
    key,
    node,
    page,
    perturb,
    predict,
    reconstruct,
    relay,
    report,
    request,
    risk,
    schema,
    score,
    show,
    study,
    synthesize,
)
from sudare.cli.language import TranslatedGroup
from sudare.languages import Language

app = typer.Typer(
    name="sudare",
    cls=TranslatedGroup,
    help="Organisations learn together without showing each other their records.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(version("sudare"))
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    lang: Annotated[
        Language | None,
        typer.Option(
            "--lang",
            help="The language: en or ja, anywhere on the line. Without it: SUDARE_LANG, then the locale (LANG).",
        ),
    ] = None,
) -> None:
    """Organisations learn together without showing each other their records."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot write ε gets a question mark, not a crash.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


app.command("demo", short_help="Private releases end to end on made-up data, with a report.")(demo.demo)
app.add_typer(schema.app, name="schema")
app.add_typer(fit.app, name="fit", short_help="From a table to a signed release, charged to an account.")
app.command("perturb", short_help="Every record randomised before it leaves, as a signed release.")(perturb.perturb)
app.command("reconstruct", short_help="The distribution of a column from perturbed records.")(reconstruct.reconstruct)
app.command("crosstab", short_help="Two columns against each other, from perturbed records.")(crosstab.crosstab)
app.command("synthesize", short_help="A private synthetic table, as a signed release.")(synthesize.synthesize)
app.command("sample", short_help="Rows of nobody, drawn from a released synthetic table.")(synthesize.sample)
app.command("predict", short_help="What a released model says of new records.")(predict.predict)
app.command("combine", short_help="Other members' models, weighted on own data, for oneself.")(combine.combine)
app.command("export", short_help="A released model for ONNX or MLflow.")(export.export)
app.command("show", short_help="What is in a release: numbers with intervals, coefficients, layers.")(show.show)
app.command("inspect", short_help="The privacy card of a release.")(inspect.inspect)
app.command("report", short_help="One page of an account or of releases: what left, what it cost.")(report.report)
app.add_typer(budget.app, name="budget")
app.add_typer(key.app, name="key")
app.add_typer(consortium.app, name="consortium")
app.add_typer(relay.app, name="relay")
app.command("node", short_help="Run this member: connect outwards, wait for tasks, take part.")(node.node)
app.command("run", short_help="Run a task of the agreement with the other members.")(node.run)
app.command("score", short_help="How strange new records are, by this member's dictionary of patterns.")(score.score)
app.command("status", short_help="Agreement, tasks that wait for the steward, and budget of this member.")(
    steward.status
)
app.command("approve", short_help="Let a task of the agreement run at this member.")(steward.approve)
app.command("deny", short_help="Keep a task of the agreement from running at this member.")(steward.deny)
app.add_typer(page.app, name="page")
app.add_typer(request.app, name="request")
app.command("audit", short_help="Does the promise hold? Claimed beside measured.")(audit.audit)
app.add_typer(risk.app, name="risk")
app.command("study", short_help="Our numbers beside the papers'.")(study.study)
app.command("explain", short_help="What an error, an exit code or a word means.")(explain.explain)
