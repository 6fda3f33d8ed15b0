"""Ask, price, approve, run: the pages of requests for a release."""

from __future__ import annotations

from sudare.web.parts import PagePart

PART = PagePart(routes=[])
