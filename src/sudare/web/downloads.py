"""Files that a browser saves and never shows."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response


def download(content: bytes, name: str, media_type: str = "application/octet-stream") -> Response:
    """A file under a name; the header has it in a form that no name can break out of."""
    return Response(
        content,
        media_type=media_type,
        headers={"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"},
    )
