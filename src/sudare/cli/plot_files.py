"""What commands that draw share: the look at the file's name before any work, and the drawing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sudare.errors import InvalidParameter

_ENDINGS = (".png", ".svg")


def check_picture(file: Path | None) -> None:
    """Raise InvalidParameter unless the name ends like a picture that can be drawn; None is accepted."""
    if file is not None and file.suffix not in _ENDINGS:
        raise InvalidParameter("A plot is a .png or a .svg file.", "Name it so.")


def draw(panel: Any, file: Path) -> None:
    """Draw a panel into a new PNG or SVG file."""
    from sudare.report import rendered

    try:
        with file.open("xb") as image:
            image.write(rendered([panel], "png" if file.suffix == ".png" else "svg"))
    except OSError as error:
        raise InvalidParameter(f"'{file}' cannot be written ({error.strerror}).", "Choose another --plot.") from None
