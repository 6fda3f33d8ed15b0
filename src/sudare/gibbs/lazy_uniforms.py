"""Random numbers that are known as well as a decision needs: floats with an error bound first, more bits where that is not enough.

A proposal owns a row of 64-bit words, the first bits of ideal uniform numbers. `uniforms` and `normals` turn whole blocks of them into
floats and bound what the missing bits and the rounding can change. A decision that those bounds leave open is made with `LazyUniforms`,
which adds bits to the same ideal numbers and gives balls that contain them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from flint import arb

from sudare.array_types import Floats, Words
from sudare.privacy.noise import NoiseSource

UNIT_ROUNDOFF: Final = 2.0**-53
_WORD: Final = 2.0**-64
# Elementary functions of numpy and scipy are taken to be accurate to so many units in the last place.
LIBRARY_ULPS: Final = 8


def uniforms(words: Words) -> Floats:
    """The middle of the interval that each word leaves."""
    return (words.astype(np.float64) + 0.5) * _WORD


def log_uniforms(words: Words) -> tuple[Floats, Floats]:
    """log u and a bound on its error; accurate at both ends of (0, 1)."""
    below = uniforms(words)
    above = ((~words).astype(np.float64) + 0.5) * _WORD
    logs = np.where(below < 0.5, np.log(below), np.log1p(-np.minimum(above, 0.75)))
    return logs, _WORD / below + LIBRARY_ULPS * UNIT_ROUNDOFF * np.abs(logs)


def normals(words: Words) -> tuple[Floats, Floats]:
    """Standard normal numbers, two from two words (Box and Muller), and bounds on their errors."""
    logs, log_errors = log_uniforms(words[..., 0::2])
    lengths = np.sqrt(-2 * logs)
    turns = 2 * np.pi * uniforms(words[..., 1::2])
    # |√a − √b| ≤ |a − b|/√a, however far apart they are.
    errors = 2 * log_errors / lengths + lengths * (8 * _WORD + 4 * LIBRARY_ULPS * UNIT_ROUNDOFF)
    both = np.stack([lengths * np.cos(turns), lengths * np.sin(turns)], axis=-1)
    shape = (*both.shape[:-2], -1)
    return both.reshape(shape), np.repeat(errors[..., np.newaxis], 2, axis=-1).reshape(shape)


class LazyUniforms:
    """The ideal uniform numbers that begin with the given words, as balls; `refine` makes the balls smaller."""

    def __init__(self, words: Words, source: NoiseSource) -> None:
        self.bits = 64
        self._numerators = [int(word) for word in words]
        self._source = source

    def refine(self) -> None:
        """Double the number of known bits; those known already stay."""
        extra = self._source.words(len(self._numerators) * self.bits // 64).tobytes()
        size = self.bits // 8
        self._numerators = [
            (number << self.bits) | int.from_bytes(extra[size * index : size * (index + 1)], "big")
            for index, number in enumerate(self._numerators)
        ]
        self.bits *= 2

    def balls(self) -> list[arb]:
        """Balls around [n/2^b, (n+1)/2^b]."""
        unit = arb((1, -self.bits))
        half = arb(0.5, 0.5)
        return [(arb(number) + half) * unit for number in self._numerators]


def normal_balls(uniform_balls: list[arb]) -> list[arb]:
    """The normal numbers that `normals` approximates."""
    result: list[arb] = []
    for first, second in zip(uniform_balls[0::2], uniform_balls[1::2], strict=True):
        length = (-2 * first.log()).sqrt()
        sine, cosine = (2 * second).sin_cos_pi()
        result += [length * cosine, length * sine]
    return result
