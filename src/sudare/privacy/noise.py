"""Randomness that protects people, and its seeded twin for tests and simulation.

`SystemNoise` draws from the operating system's entropy and is exact: discrete Laplace and Gaussian noise on integers by
OpenDP, infinity-norm noise on integers by rejection, and Euclidean gamma-norm noise by interval refinement, so that no
floating-point rounding of a noisy sum ever shows the value underneath. `SeededNoise` has the same methods on a numpy generator; whatever is made with it is not
private, and says so (`valid`).
"""

from __future__ import annotations

import functools
import itertools
import math
import secrets
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from flint import arb, fmpz

# Not `opendp.prelude`, which imports polars, pandas and half of scikit-learn: 60 MB.
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import Measurement, enable_features

from sudare.array_types import Floats, Integers, Words
from sudare.ball_precision import ball_precision
from sudare.errors import InvalidParameter

enable_features("contrib")

_FIRST_BITS: Final = 128
_PRODUCT_TERMS: Final = 12
# Of a sum in floats: relative to the sizes of its terms and far above what rounding can do (proofs/gamma_norm.md).
_FLOAT_ERROR: Final = 2.0**-40
_LEAST_FOR_FLOATS: Final = 2**60
_MOST_BITS_FOR_FLOATS: Final = 128
_FEWEST_STREAMED_WORDS: Final = 512
_LARGEST_SUM: Final = 2**62


class WordSource(Protocol):
    """A source of fair bits."""

    def words(self, count: int) -> Words:
        """Independent words of 64 fair bits."""


class WholeNoise(Protocol):
    """A source of noise on whole numbers."""

    def laplace(self, values: Integers, scale: float) -> Integers:
        """Values plus independent Z with P(Z = z) ∝ exp(−|z|/scale)."""

    def gaussian(self, values: Integers, scale: float) -> Integers:
        """Values plus independent Z with P(Z = z) ∝ exp(−z²/(2·scale²))."""


class NoiseSource(WholeNoise, WordSource, Protocol):
    """A source of all noise. `valid` says whether a guarantee may rest on it."""

    valid: ClassVar[bool]

    def infinity_norm(self, values: Integers, scale: float) -> Integers:
        """A vector of values plus one Z with P(Z = z) ∝ exp(−max|zᵢ|/scale)."""

    def gamma_norm(self, values: Floats, rate: float, grid: float) -> Floats:
        """Values plus b with density ∝ exp(−rate·‖b‖₂), rounded to multiples of `grid`."""

    def integer_below(self, limit: int) -> int:
        """A uniform whole number from 0 to limit − 1."""


class SystemNoise:
    """Exact noise from the operating system's entropy. Proofs: proofs/laplace.md, proofs/gaussian.md, proofs/gamma_norm.md, proofs/infinity_norm.md."""

    valid: ClassVar[bool] = True

    def laplace(self, values: Integers, scale: float) -> Integers:
        """OpenDP's discrete Laplace; a sum beyond 64 bits saturates, which is post-processing."""
        return np.array(_discrete_laplace(scale)(values.tolist()), dtype=np.int64)

    def gaussian(self, values: Integers, scale: float) -> Integers:
        """OpenDP's discrete Gaussian; a sum beyond 64 bits saturates, which is post-processing."""
        return np.array(_discrete_gaussian(scale)(values.tolist()), dtype=np.int64)

    def infinity_norm(self, values: Integers, scale: float) -> Integers:
        """A uniform point of a cube of random size; a sum beyond 62 bits saturates, which is post-processing."""
        half_side = _cube_half_side(len(values), Fraction(scale), self)
        noisy = [value + secrets.randbelow(2 * half_side + 1) - half_side for value in values.tolist()]
        return np.array([max(-_LARGEST_SUM, min(number, _LARGEST_SUM)) for number in noisy], dtype=np.int64)

    def gamma_norm(self, values: Floats, rate: float, grid: float) -> Floats:
        """The exact rounding of an ideal draw: bits are added until every coordinate's rounding is certain."""
        # One a coordinate for the radius; and for each pair of coordinates one for its angle and all but one for lengths.
        uniforms = _LazyUniforms(count=len(values) + 2 * ((len(values) + 1) // 2) - 1)
        multiples: Sequence[int | fmpz] | None = _sums_rounded_by_floats(values, rate, grid, uniforms)
        if multiples is None:
            multiples = _sums_rounded_by_balls(values, rate, grid, uniforms)
        while multiples is None:
            uniforms.refine()
            multiples = _sums_rounded_by_balls(values, rate, grid, uniforms)
        return np.array([float(multiple) for multiple in multiples]) * grid

    def integer_below(self, limit: int) -> int:
        """A number from the operating system's entropy (`secrets`)."""
        return secrets.randbelow(limit)

    def words(self, count: int) -> Words:
        """The system's random bytes, eight a word; many words are a ChaCha20 stream under a fresh key of the system's.

        The key is used for one call: no state is left that a forked process could share. Proof: proofs/record_perturbation.md.
        """
        if count < _FEWEST_STREAMED_WORDS:
            return np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64)
        stream = Cipher(ChaCha20(secrets.token_bytes(32), nonce=bytes(16)), mode=None).encryptor()
        return np.frombuffer(stream.update(bytes(8 * count)), dtype=np.uint64)


class SeededNoise:
    """Reproducible noise for tests and simulation: protects nobody, because whoever knows the seed can subtract it."""

    valid: ClassVar[bool] = False

    def __init__(self, random_state: int | np.random.RandomState | None) -> None:
        self._random: Any = seeded_generator(random_state)

    def laplace(self, values: Integers, scale: float) -> Integers:
        """The difference of two geometric variables, each an exponential one rounded down."""
        first, second = np.floor(scale * self._random.exponential(size=(2, *values.shape)))
        return _saturated_sum(values, first - second)

    def gaussian(self, values: Integers, scale: float) -> Integers:
        """A rounded normal variable."""
        return _saturated_sum(values, np.rint(self._random.normal(scale=scale, size=values.shape)))

    def infinity_norm(self, values: Integers, scale: float) -> Integers:
        """A uniform point of a cube whose half side is a gamma variable, rounded."""
        half_side = self._random.gamma(shape=len(values) + 1, scale=scale)
        return _saturated_sum(values, np.rint(half_side * self._random.uniform(-1.0, 1.0, size=values.shape)))

    def gamma_norm(self, values: Floats, rate: float, grid: float) -> Floats:
        """A gamma radius times a uniform direction."""
        direction = self._random.normal(size=values.shape)
        direction /= np.linalg.norm(direction)
        radius = self._random.gamma(shape=len(values), scale=1 / rate)
        return np.asarray(np.rint((values + radius * direction) / grid) * grid, dtype=np.float64)

    def integer_below(self, limit: int) -> int:
        """A number from the seeded generator."""
        return int(self._random.randint(limit))

    def words(self, count: int) -> Words:
        """The seeded generator's bytes, eight a word."""
        return np.frombuffer(self._random.bytes(8 * count), dtype=np.uint64)


def seeded_generator(random_state: int | np.random.RandomState | None) -> np.random.RandomState:
    """The generator with that seed, or the one given. Raise InvalidParameter for anything else."""
    # With it come SciPy's distributions and pandas: a second that whoever draws without a seed does not wait.
    from sklearn.utils import check_random_state

    try:
        found: np.random.RandomState = check_random_state(random_state)
    except ValueError:
        raise InvalidParameter(
            "random_state is neither a seed nor a RandomState.", "Give a whole number from 0 to 4294967295."
        ) from None
    return found


def noise_source(random_state: int | np.random.RandomState | None) -> NoiseSource:
    """Seeded noise when a seed is given, else the operating system's."""
    return SystemNoise() if random_state is None else SeededNoise(random_state)


def row_secret(random_state: int | np.random.RandomState | None, lent: NoiseSource | None = None) -> bytes:
    """A key that chooses which rows of persons are kept: from the noise that was lent, a seed, or the operating system."""
    return (noise_source(random_state) if lent is None else lent).words(4).tobytes()


def _saturated_sum(values: Integers, noise: Floats) -> Integers:
    """Values plus whole-numbered noise; noise beyond 62 bits saturates, so that a sum with 61-bit values cannot wrap."""
    return values + np.clip(noise, -(2.0**62), 2.0**62).astype(np.int64)


@functools.lru_cache(maxsize=64)
def _discrete_laplace(scale: float) -> Measurement:
    return make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=scale)


@functools.lru_cache(maxsize=64)
def _discrete_gaussian(scale: float) -> Measurement:
    return make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=scale)


def _cube_half_side(dimension: int, scale: Fraction, source: NoiseSource) -> int:
    """R with P(R = r) ∝ (2r + 1)^dimension · exp(−r/scale).

    A sum of geometric variables has (r+1)⋯(r+dimension)·exp(−r/scale) instead, and is kept with the ratio of both.
    """
    while True:
        half_side = sum(geometric(scale, source) for _ in range(dimension + 1))
        if all(secrets.randbelow(2 * (half_side + place)) <= 2 * half_side for place in range(1, dimension + 1)):
            return half_side


def geometric(scale: Fraction, source: NoiseSource) -> int:
    """K with P(K = k) ∝ exp(−k/scale) (Canonne, Kamath and Steinke 2020, Algorithm 2)."""
    steps, parts = scale.as_integer_ratio()
    rest = source.integer_below(steps)
    while not _happens(rest, steps, source):
        rest = source.integer_below(steps)
    whole = 0
    while _happens(1, 1, source):
        whole += 1
    return (rest + steps * whole) // parts


def _happens(numerator: int, denominator: int, source: NoiseSource) -> bool:
    """True with probability exp(−numerator/denominator), a fraction of at most one (the same, Algorithm 1)."""
    trials = 1
    while source.integer_below(denominator * trials) < numerator:
        trials += 1
    return trials % 2 == 1


@functools.lru_cache(maxsize=64)
def _power_of_two(exponent: int) -> arb:
    return arb((1, exponent))


class _LazyUniforms:
    """Uniform numbers in (0, 1) known to ever more bits: of each its first `bits` bits, as a whole number."""

    def __init__(self, count: int) -> None:
        self.bits = _FIRST_BITS
        self.numerators = _random_words(count, self.bits)

    def refine(self) -> None:
        """Double the number of known bits; those known already stay."""
        more = _random_words(len(self.numerators), self.bits)
        self.numerators = [(known << self.bits) | new for known, new in zip(self.numerators, more, strict=True)]
        self.bits *= 2


def _random_words(count: int, bits: int) -> list[int]:
    """Whole numbers of so many fair bits each, read from the system in one go."""
    width = (bits + 7) // 8
    drawn, spare = secrets.token_bytes(count * width), 8 * width - bits
    return [int.from_bytes(drawn[start : start + width], "big") >> spare for start in range(0, count * width, width)]


def _sums_rounded_by_floats(values: Floats, rate: float, grid: float, uniforms: _LazyUniforms) -> list[int] | None:
    """Nearest multiples of the grid to values + b, or None where the error of floats leaves one uncertain.

    The draw is that of `_gamma_norm_balls`; proofs/gamma_norm.md bounds the error.
    """
    dimension, unit = len(values), 2.0**-uniforms.bits
    exponents, cuts, turns = _parts(uniforms, dimension)
    gaps = [high - low for low, high in itertools.pairwise(cuts)]
    if uniforms.bits > _MOST_BITS_FOR_FLOATS or min(*exponents, *gaps) < _LEAST_FOR_FLOATS:
        return None
    direction: list[float] = []
    for gap, turn in zip(gaps, turns, strict=True):
        length, angle = math.sqrt(gap * unit), turn * (unit * math.tau)
        direction += [length * math.cos(angle), length * math.sin(angle)]
    del direction[dimension:]
    square = sum([coordinate * coordinate for coordinate in direction])
    logarithm = -sum([math.log(math.prod([number * unit for number in part])) for part in _few_at_a_time(exponents)])
    radius = logarithm / (rate * grid)
    centres = (values / grid).tolist()
    factor, largest = radius / math.sqrt(square), max(map(abs, centres))
    error = _FLOAT_ERROR * ((logarithm + dimension) / (rate * grid) / square + largest)
    multiples: list[int] = []
    for centre, coordinate in zip(centres, direction, strict=True):
        place = centre + factor * coordinate + 0.5
        multiple = math.floor(place)
        if not error < place - multiple < 1 - error:
            return None
        multiples.append(multiple)
    return multiples


def _sums_rounded_by_balls(values: Floats, rate: float, grid: float, uniforms: _LazyUniforms) -> list[fmpz] | None:
    """Nearest multiples of the grid to values + b, or None while some coordinate's rounding is not certain."""
    with ball_precision(uniforms.bits + 64):
        step, half = arb(grid), arb(0.5)
        noise = _gamma_norm_balls(len(values), arb(rate) * step, uniforms)
        multiples: list[fmpz] = []
        for value, offset in zip(values.tolist(), noise, strict=True):
            multiple = (arb(value) / step + offset + half).floor().unique_fmpz()
            if multiple is None:
                return None
            multiples.append(multiple)
    return multiples


def _gamma_norm_balls(dimension: int, rate: arb, uniforms: _LazyUniforms) -> list[arb]:
    """b = r·v with r ~ Gamma(dimension, rate) and v uniform on the sphere.

    r is a sum of exponentials. v is built of pairs √S·(cos, sin): the squared lengths of the pairs of a
    uniform direction are the spacings of uniforms, its angles are uniform. An odd coordinate too many is dropped.
    """
    bits, (exponents, cuts, turns) = uniforms.bits, _parts(uniforms, dimension)
    unit, turn_unit = _power_of_two(-bits), _power_of_two(1 - bits)
    # A uniform is in [n, n + 1]/2^bits, and the difference of two that begin with m and n within (m − n ± 1)/2^bits.
    within, around = arb(0.5, 0.5), arb(0, 1)
    direction: list[arb] = []
    for (low, high), turn in zip(itertools.pairwise(cuts), turns, strict=True):
        length = ((arb(high - low) + around) * unit).sqrt()
        sine, cosine = ((arb(turn) + within) * turn_unit).sin_cos_pi()
        direction += [length * cosine, length * sine]
    radius = -sum([_logarithm_of_product(part, bits) for part in _few_at_a_time(exponents)], start=arb(0)) / rate
    if dimension % 2:
        radius /= (1 - direction.pop() ** 2).sqrt()
    return [radius * coordinate for coordinate in direction]


def _logarithm_of_product(numerators: list[int], bits: int) -> arb:
    """A ball around log(U₁·U₂·…) for uniforms that begin with these bits."""
    least, most = math.prod(numerators), math.prod([number + 1 for number in numerators])
    return (arb(least, most - least) * _power_of_two(-bits * len(numerators))).log()


def _parts(uniforms: _LazyUniforms, dimension: int) -> tuple[list[int], list[int], list[int]]:
    """The uniforms of the radius; those that cut [0, 1] into squared lengths, in order, with both ends; and the angles."""
    numerators = uniforms.numerators
    turns = numerators[-((dimension + 1) // 2) :]
    return numerators[:dimension], [0, *sorted(numerators[dimension : -len(turns)]), 1 << uniforms.bits], turns


def _few_at_a_time(numerators: list[int]) -> list[list[int]]:
    """Parts so short that their products are neither too long nor too small."""
    return [numerators[start : start + _PRODUCT_TERMS] for start in range(0, len(numerators), _PRODUCT_TERMS)]
