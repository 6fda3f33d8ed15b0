"""Templates: escaped, in the reader's language, with navigation and notices around them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sudare.report.budget_bar import time_text
from sudare.report.number_formatting import left_text, rounded_down, rounded_up, spent_text, whole
from sudare.requests.users import Role, may
from sudare.safe_text import escaped_for_terminal
from sudare.web.field_names_in_messages import page_translator
from sudare.web.language import LANGUAGES, language_of
from sudare.web.sessions import Session


@dataclass(frozen=True)
class NavigationItem:
    """An entry of the navigation: where it leads, its English text, and who sees it."""

    path: str
    title: str
    least: Role = "viewer"


@cache
def environment() -> Environment:
    """Jinja with escaping always on, and names that are not there refused. Texts are marked {{ _("…") }}."""
    found = Environment(
        loader=PackageLoader("sudare.web"),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals.update(spent_text=spent_text, left_text=left_text)
    found.filters.update(
        shown=lambda text: escaped_for_terminal(str(text)),
        rounded_up=lambda number: rounded_up(number) if number else "0",
        rounded_down=lambda number: rounded_down(number) if number else "0",
        whole=whole,
        time_text=time_text,
        moment=lambda seconds: datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M"),
    )
    return found


def rendered(request: Request, template: str, session: Session | None, status: int = 200, **values: Any) -> Response:
    """A page. `session` is None where nobody is signed in: then there is no navigation."""
    language = language_of(request)
    navigation: Sequence[NavigationItem] = request.app.state.navigation
    is_steward = session is not None and may(session.role, "steward")
    text = (
        environment()
        .get_template(template)
        .render(
            _=page_translator(language, shows_folders=is_steward),
            language=language,
            languages=LANGUAGES,
            session=session,
            form_token="" if session is None else session.form_token,
            notices=[] if session is None else session.taken_notices(),
            navigation=navigation,
            here=request.url.path,
            may=lambda least: session is not None and may(session.role, least),
            **values,
        )
    )
    if not is_steward:
        for folder in _table_folders(request):
            # Not where a value begins: the page's own addresses may begin like a folder.
            text = re.sub(f'(?<!="){re.escape(escape(folder) + os.sep)}', "", text)
    return HTMLResponse(text, status_code=status)


def _table_folders(request: Request) -> list[str]:
    """Where the tables are, longest first: errors name their files, and only stewards need to know the folders."""
    tables = request.app.state.services.settings.tables.values()
    places = [Path(table.source).absolute() for table in tables if "://" not in table.source]
    folders = {str(parent) for place in places for parent in (place.parent, place.resolve().parent)}
    return sorted((folder for folder in folders if folder != os.sep), key=len, reverse=True)
