"""What the page's settings say about requests: which tables can be asked about, who signs, and how many people approve."""

from __future__ import annotations

from pathlib import Path

from sudare.requests.steward_settings import AskableTable, RequestSettings
from sudare.web.settings import PageSettings, TableSettings


def request_settings(settings: PageSettings) -> RequestSettings:
    """The settings of requests that a page's settings name."""
    return RequestSettings(
        ledger=settings.ledger,
        requests_folder=settings.requests,
        releases_folder=settings.releases,
        tables={name: _table(table, settings.schemas) for name, table in settings.tables.items()},
        signing_key=settings.signing_key,
        passphrase_file=settings.passphrase_file,
        two_people=settings.two_people,
    )


def _table(table: TableSettings, schemas: Path) -> AskableTable:
    return AskableTable(
        table.name,
        table.source,
        schemas / f"{table.schema}.toml",
        table.account,
        table.has_header,
        table.encoding,
        table.csv,
        table.budget,
        table.budget_delta,
        may_change=table.may_change,
    )
