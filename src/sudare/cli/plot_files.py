"""What commands that draw share: the look at the file's name before any work, and the drawing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from sudare.errors import InvalidParameter

_ENDINGS = (".png", ".svg")


def check_picture(file: Path | None) -> None:
    """Raise InvalidParameter unless a picture can be drawn into a file of that name, or none is wanted."""
    if file is not None and file.suffix not in _ENDINGS:
        raise InvalidParameter("A plot is a .png or a .svg file.", "Name it so.")


def draw(*panels: Any, file: Path, columns: int = 1, replace: bool = False, panel_inches: float | None = None) -> None:
    """Draw panels in rows of so many columns into a PNG or SVG file: a new one, unless it may be replaced."""
    content = picture_content(*panels, file=file, columns=columns, panel_inches=panel_inches)
    try:
        with file.open("wb" if replace else "xb") as image:
            image.write(content)
    except OSError as error:
        raise InvalidParameter(f"'{file}' cannot be written ({error.strerror}).", "Choose another --plot.") from None


def picture_content(
    *panels: Any, file: Path, columns: int = 1, panel_inches: float | None = None, title: str = ""
) -> bytes:
    """What belongs into a PNG or SVG file of that name, with a title above all panels if there is one; says on standard error which letters could not be drawn."""
    import warnings

    from sudare.cli.command_output import note
    from sudare.cli.language import spoken_language
    from sudare.report import rendered
    from sudare.report.fonts import MissingLetters, missing_font_note
    from sudare.report.plots import PANEL_HEIGHT_INCHES

    language = spoken_language()
    note(missing_font_note(language))
    form: Literal["png", "svg"] = "png" if file.suffix == ".png" else "svg"
    height = panel_inches or PANEL_HEIGHT_INCHES
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", MissingLetters)
        content = rendered(panels, form, columns=columns, language=language, panel_inches=height, title=title)
    for text in dict.fromkeys(str(each.message) for each in told if each.category is MissingLetters):
        note(text)
    return content
