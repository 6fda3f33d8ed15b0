"""Messages in the words of the shell: where a learner's error names its parameter, a command names its option."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from typer.models import OptionInfo

# Variables of a command that stand for parameters of a learner begin with this, where another option has the name.
ASKED: Final = "asked_"
_NO_NAME_BEFORE: Final = r"(?<![A-Za-z0-9_.\-'])"

# A CSV file as Python describes it, beside the option that says the same: in brackets, or between commas.
_CSV_FILE_IN_PYTHON: Final = re.compile(
    r" ?[(（](?:Python では )?sudare\.frames\.CsvFile\([^)]*\)(?: in Python)?[)）]"
    r"|,(?: or)? sudare\.frames\.CsvFile\([^)]*\) in Python"
    r"|、(?:または )?Python では sudare\.frames\.CsvFile\([^)]*\)"
)


def options_by_parameter(command: Callable[..., Any]) -> dict[str, str]:
    """Options of a command by the parameter that they set."""
    found = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        for note in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(note, OptionInfo):
                # Inside Annotated the first word of an option is kept as its default.
                words = [word for word in (note.default, *(note.param_decls or ())) if isinstance(word, str)]
                written = next((word for word in words if word.startswith("--")), None)
                if written is not None:
                    found[name.removeprefix(ASKED)] = written.partition("/")[0]
    return found


def with_option_names(text: str, options: Mapping[str, str]) -> str:
    """The text with options in place of parameters, where it is plain that one is meant: `by=`, "epsilon must be", `mean_of`."""
    # What is the same in Python is left out where the shell's own word stands before it.
    text = re.sub(r"(\(--[a-z-]+), or [^(),]* in Python\)", r"\1)", text)
    text = re.sub(r"(（--[a-z-]+)、Python では [^（）]*）", r"\1）", text)
    text = _CSV_FILE_IN_PYTHON.sub("", text)
    # Kinds of releases without this option are told of those that have it.
    text = text.replace('neighbours="add-remove"', "--neighbours add-remove")
    # What is written in Python stays what it is.
    pieces = re.split(r"(CsvFile\([^)]*\))", text.replace("schema=Schema.load(…)", "--schema FILE"))
    for name, option in options.items():
        pieces[::2] = [_with_option(piece, name, option) for piece in pieces[::2]]
    return "".join(pieces)


def _with_option(text: str, name: str, option: str) -> str:
    named = f"{_NO_NAME_BEFORE}{name}"
    # A field of a section of a file stays what it is.
    text = re.sub(rf"`{name}`(?! of \[)", option, text)
    text = re.sub(rf"{named}=\[\"?([^\]\",]*)\"?[^\]]*\]", rf"{option} \1", text)
    text = re.sub(rf"{named}=True\b", option, text)
    text = re.sub(rf"{named}=False\b", f"--no-{option[2:]}", text)
    text = re.sub(rf"{named}=\"([^\"]*)\"", rf"{option} \1", text)
    text = re.sub(rf"{named}=(?=\S)", f"{option} ", text)
    text = re.sub(rf"{named}(?= <= )", option, text)
    if "_" in name:
        return re.sub(rf"{named}(?![A-Za-z0-9_])", option, text)
    text = re.sub(rf"^{name}(?= (?:must|is|are|has|do|takes|=) )", option, text)
    # In Japanese a particle follows what is named.
    text = re.sub(rf"{named}(?= must | ?[はがをに])", option, text)
    return re.sub(rf"\b(Give|Leave) {name}(?= (?:such|out|below|above|a ))", rf"\1 {option}", text)
