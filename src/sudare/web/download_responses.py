"""Files that a browser saves and never shows."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response


def disposition(name: str) -> dict[str, str]:
    """The header that makes a browser save a file under a name, in a form that no name can break out of."""
    return {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}


def download(content: bytes, name: str, media_type: str = "application/octet-stream") -> Response:
    """Content to be saved under a name."""
    return Response(content, media_type=media_type, headers=disposition(name))
