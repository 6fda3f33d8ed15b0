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


def spent_text(epsilon: float, delta: float) -> str:
    """ε, and δ where it is not 0, rounded up: what was spent or is asked for."""
    shown = [rounded_up(number) if number else "0" for number in (epsilon, delta)]
    return f"ε = {shown[0]}{f', δ = {shown[1]}' if delta else ''}"


def left_text(epsilon: float, delta: float, *, has_delta: bool) -> str:
    """ε, and δ where it is counted, rounded down: what is left."""
    shown = [rounded_down(number) if number else "0" for number in (epsilon, delta)]
    return f"ε = {shown[0]}{f', δ = {shown[1]}' if has_delta else ''}"


def nearest(number: float, digits: int = SIGNIFICANT_DIGITS) -> str:
    """Returns the number with `digits` digits, rounded to the nearest: for measurements."""
    return _rounded(number, decimal.ROUND_HALF_EVEN, digits)


def six_digits(number: float) -> str:
    """Six digits, rounded to the nearest, for tables of numbers; never a zero with a sign, and written out up to 10¹⁵."""
    text = f"{number:.6g}"
    if "e+" in text and abs(number) < _LARGEST_WRITTEN_OUT:
        return f"{float(text):.0f}"
    return "0" if text == "-0" else text


def between(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A number and the ends of its interval, to two digits of half the interval's width, ends rounded outwards; in six digits where there is no width."""
    width = (high - low) / 2
    if not 0 < width < _LARGEST_WRITTEN_OUT:
        return six_digits(value), six_digits(low), six_digits(high)
    step = decimal.Decimal(1).scaleb(min(0, math.floor(math.log10(width)) - 1))
    roundings = (decimal.ROUND_HALF_EVEN, decimal.ROUND_FLOOR, decimal.ROUND_CEILING)
    kept = (
        decimal.Decimal(repr(number)).quantize(step, rounding, decimal.Context(prec=400)) + 0
        for number, rounding in zip((value, low, high), roundings, strict=True)
    )
    shown = (f"{number:f}" if abs(float(number)) >= 1e-4 or not number else f"{float(number):g}" for number in kept)
    first, second, third = ("0" if not decimal.Decimal(text) else text for text in shown)
    return first, second, third


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
