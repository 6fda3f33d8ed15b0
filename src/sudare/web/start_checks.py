"""Keys and tables are looked at before a page is served: what is wrong with them would otherwise come to light when somebody waits for a release."""

from __future__ import annotations

import ssl

from sudare.errors import InvalidParameter, SudareError
from sudare.files import check_private
from sudare.frames import source
from sudare.web.request_settings_of_page import request_settings
from sudare.web.settings import PageSettings


def check_keys(settings: PageSettings) -> None:
    """Raise an error unless the keys that the settings name open: the one that signs releases, and that of HTTPS."""
    if settings.signing_key is not None:
        request_settings(settings).key()
    if settings.certificate is None or settings.key is None:
        return
    check_private(settings.key, "The page's key")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.certificate, settings.key, "")
    except (OSError, ValueError):
        raise InvalidParameter(
            f"'{settings.certificate.name}' and '{settings.key.name}' are not a certificate and its key without a passphrase.",
            "Correct certificate and key under [server].",
        ) from None


def table_problems(settings: PageSettings) -> dict[str, SudareError]:
    """By table, why it or its schema cannot be read now. The page is served all the same: a table may be on its way, and a schema is written there."""
    found: dict[str, SudareError] = {}
    for name, table in request_settings(settings).tables.items():
        try:
            source(table.data()).state()
            table.schema()
        except SudareError as error:
            found[name] = error
    return found
