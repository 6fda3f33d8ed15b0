"""Pages."""

from __future__ import annotations

from sudare.web.parts import PagePart

PART = PagePart(routes=[])
