"""Numbers as people read them: few digits, and never rounded to the flattering side."""

from __future__ import annotations

import decimal
import math
import re

SIGNIFICANT_DIGITS = 4
_LARGEST_WRITTEN_OUT = 1e15


def rounded_up(number: float) -> str:
    """At most four digits, rounded up: what was spent, what is claimed, what went wrong."""
    return _rounded(number, decimal.ROUND_CEILING)


def rounded_down(number: float) -> str:
    """At most four digits, rounded down: what is left."""
    return _rounded(number, decimal.ROUND_FLOOR)


def nearest(number: float, digits: int = SIGNIFICANT_DIGITS) -> str:
    """So many digits, rounded to the nearest: measurements."""
    return _rounded(number, decimal.ROUND_HALF_EVEN, digits)


def six_digits(number: float) -> str:
    """Six digits, rounded to the nearest, for tables of numbers; never a zero with a sign, and written out up to 10¹⁵."""
    text = f"{number:.6g}"
    if "e+" in text and abs(number) < _LARGEST_WRITTEN_OUT:
        return f"{float(text):.0f}"
    return "0" if text == "-0" else text


def whole(number: int) -> str:
    """A count with commas between thousands."""
    return f"{number:,}"


def one_in(probability: float) -> str:
    """A small probability in words: "1 in 1,000,000"."""
    return f"1 in {math.floor(1 / probability + 1e-9):,}" if probability > 0 else "never"


def percent_up(share: float) -> str:
    """A share in whole percent, rounded up; close to certainty in tenths, hundredths …, never as 100 %."""
    for digits in range(8):
        scale = 10.0**digits
        shown = math.ceil(share * 100 * scale - 1e-9) / scale
        if shown < 100:
            return f"{shown:.{digits}f} %"
    return "practically 100 %"


def _rounded(number: float, rounding: str, digits: int = SIGNIFICANT_DIGITS) -> str:
    if not math.isfinite(number):
        return {math.inf: "∞", -math.inf: "−∞"}.get(number, "?")
    # The shortest decimal text of a float is what a person typed: 0.1 must not be rounded up to 0.1001.
    kept = decimal.Context(prec=digits, rounding=rounding).create_decimal(repr(float(number)))
    text = repr(float(kept))
    if "e" not in text and 0 < abs(float(kept)) < 1e-3:
        text = f"{float(kept):.{digits - 1}e}"
    return re.sub(r"\.?0*e([+-])0*(\d+)", lambda match: f"e{match[1].strip('+')}{match[2]}", text)
