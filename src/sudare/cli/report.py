"""`sudare report`: one page of an account or of chosen releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sudare.cli.command_output import DEFAULT_LEDGER, AsJson, LedgerAddress, answer, reported, write_new_text
from sudare.cli.inspect import read_release
from sudare.cli.language import spoken_language
from sudare.cli.options import TrustedKeys
from sudare.errors import InvalidParameter


@reported
def report(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="RELEASE…", help="Releases to show, with numbers and pictures.")
    ] = None,
    account: Annotated[
        str | None, typer.Option("--account", metavar="NAME", help="The account whose budget and entries are shown.")
    ] = None,
    ledger: LedgerAddress = DEFAULT_LEDGER,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The page to write, a new file.")
    ] = None,
    trusted: TrustedKeys = None,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page about an account, or about releases, or both: what left, what it cost, how strong it is. It holds no private value and fetches nothing."""
    from sudare.dossier.account_report import report_page, report_values
    from sudare.privacy import Ledger
    from sudare.report.html_page import page_html
    from sudare.requests.request_kinds import title_of

    if account is None and not files:
        raise InvalidParameter("There is nothing to report.", "Name an account with --account, or give releases.")
    if output is None and not as_json:
        raise InvalidParameter("There is no place for the page.", "Give --output FILE, or --json for the values alone.")
    opened = None if account is None else Ledger(ledger, create=False)
    head = None if opened is None else opened.verify()
    paid = None if opened is None or account is None else opened.account(account)
    releases = [read_release(file, trusted) for file in files or []]
    if output is not None:
        page = report_page(paid, head, releases, spoken_language(), title_of)
        write_new_text(output, page_html(page, spoken_language()))
    values = {"output": None if output is None else str(output), **report_values(paid, head, releases)}
    unchecked = sum(signature != "trusted" for _, signature in releases)
    warning = (
        [f"The signatures of {unchecked} releases were NOT CHECKED against a key you trust; give --trusted."]
        if unchecked
        else []
    )
    answer(values, as_json, f"Wrote {output}.", *warning)
