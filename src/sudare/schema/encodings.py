"""How declared columns become columns of a matrix: names, bounds and norm of each encoding, from public facts alone.

scaled    numbers as (x - low) / (high - low) in [0, 1]; categories one-hot
centred   numbers as (x - centre) / scale, in [-1, 1] unless centre or scale is declared; categories one-hot
binned    numbers one-hot by bin; categories one-hot
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.schema.columns import Category, Column, Label, Number, level_text

Encoding = Literal["scaled", "centred", "binned"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)


@dataclass(frozen=True)
class Block:
    """The encoded columns of one declared column.

    `norm_squared` bounds the sum of their squares in any row, `absolute_sum` the sum of their absolute values; both exactly.
    """

    names: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    norm_squared: Fraction
    absolute_sum: Fraction

    @property
    def width(self) -> int:
        return len(self.names)


def checked_encoding(encoding: object) -> Encoding:
    """`encoding` if there is one of that name."""
    for known in ENCODINGS:
        if encoding == known:
            return known
    raise InvalidParameter("There is no encoding of that name.", f"Use one of {', '.join(map(repr, ENCODINGS))}.")


def block_of(name: str, column: Column, encoding: Encoding) -> Block:
    """The layout of a declared column."""
    if isinstance(column, Category | Label):
        return one_hot_block(name, [level_text(level) for level in column.levels])
    if encoding == "binned":
        indicator = ["missing"] if column.has_indicator else []
        return one_hot_block(name, bin_texts(column) + indicator)
    low, high = encoded_bounds(column, encoding)
    largest = max(abs(Fraction(low)), abs(Fraction(high)))
    if not column.has_indicator:
        return Block((name,), (low,), (high,), largest**2, largest)
    # The indicator is 1 only where the value is what stands in for missing ones, encoded.
    centre = abs(Fraction(float(encoded_numbers(np.array([column.stand_in]), column, encoding)[0])))
    names = (name, f"{name}=missing")
    return Block(names, (low, 0.0), (high, 1.0), max(largest**2, centre**2 + 1), max(largest, centre + 1))


def one_hot_block(name: str, texts: list[str]) -> Block:
    """The layout of a group of columns of which one is 1 and the others are 0: its norm and its sum are exactly 1."""
    low, high = (0.0,) * len(texts), (1.0,) * len(texts)
    return Block(tuple(f"{name}={text}" for text in texts), low, high, Fraction(1), Fraction(1))


def encoded_bounds(number: Number, encoding: Encoding) -> tuple[float, float]:
    """The least and greatest encoded value of a number, not binned.

    Subtraction and division round monotonically, so the encoded bounds bound every encoded value between them.
    """
    if encoding == "scaled":
        return 0.0, 1.0
    if number.centre is None and number.scale is None:
        return -1.0, 1.0
    low, high = (np.array([number.low, number.high]) - number.public_centre) / number.public_scale
    return float(low), float(high)


def shift_and_scale(number: Number, encoding: Encoding) -> tuple[float, float]:
    """What is subtracted from a number that is not binned, and what it is then divided by."""
    if encoding == "scaled":
        return number.low, number.high - number.low
    return number.public_centre, number.public_scale


def encoded_numbers(values: Floats, number: Number, encoding: Encoding) -> Floats:
    """Values within the bounds of `number`, scaled or centred."""
    shift, scale = shift_and_scale(number, encoding)
    return np.clip((values - shift) / scale, *encoded_bounds(number, encoding))


def bin_texts(number: Number) -> list[str]:
    """The bins of a number in interval notation: closed on the left, open on the right, the last closed on both sides."""
    edges = [plain_number(edge) for edge in (number.low, *number.edges, number.high)]
    texts = [f"[{left}, {right})" for left, right in itertools.pairwise(edges)]
    return [*texts[:-1], texts[-1].replace(")", "]")]


def plain_number(value: float) -> int | float:
    """A whole float as an int, so that files say 110 and not 110.0; other floats as they are."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def norm_rounded_up(blocks: Iterable[Block]) -> float:
    """The smallest float that is at least the largest Euclidean norm a row of these blocks can have."""
    return square_root_rounded_up(sum((block.norm_squared for block in blocks), Fraction(0)))


def sum_rounded_up(blocks: Iterable[Block]) -> float:
    """The smallest float that is at least the largest sum of absolute values a row of these blocks can have."""
    exact = sum((block.absolute_sum for block in blocks), Fraction(0))
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def square_root_rounded_up(value: Fraction) -> float:
    """The smallest float whose exact square is at least `value`."""
    if value == 0:
        return 0.0
    # With 4^shift · value near 2^120 the integer root is right to 60 bits, more than a float holds.
    shift = (120 - value.numerator.bit_length() + value.denominator.bit_length()) // 2
    root = float(math.isqrt(math.floor(value * Fraction(4) ** shift)) / Fraction(2) ** shift)
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root
