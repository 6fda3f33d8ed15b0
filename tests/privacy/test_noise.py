"""Noise sources: exact draws, exact rounding, nothing shared between processes, and a seeded twin that says it is one."""

from __future__ import annotations

import json
import math
import random
import secrets
import subprocess
import sys
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from flint import ctx as ball_context
from scipy import stats

from sudare.privacy import noise
from sudare.privacy.noise import NoiseSource, SeededNoise, SystemNoise, noise_source

SOURCES = [SystemNoise(), SeededNoise(7)]


def zeros(count: int) -> np.ndarray:
    return np.zeros(count, dtype=np.int64)


class BitStreams:
    """Stands in for `secrets.randbits`: each uniform number reads its own fixed, endless stream of bits."""

    def __init__(self, count: int, seed: int, length: int = 8192) -> None:
        self.count, self.length = count, length
        self.streams = [random.Random(f"{seed}/{index}").getrandbits(length) for index in range(count)]
        self.used = [0] * count
        self.calls = 0

    def __call__(self, bits: int) -> int:
        index = self.calls % self.count
        self.calls += 1
        self.used[index] += bits
        assert self.used[index] <= self.length
        return (self.streams[index] >> (self.length - self.used[index])) & ((1 << bits) - 1)

    def uniforms(self) -> list[float]:
        return [stream / 2**self.length for stream in self.streams]


def uniform_count(dimension: int) -> int:
    return 2 * dimension + dimension % 2


def expected_noise(dimension: int, rate: float, uniforms: list[float]) -> np.ndarray:
    """r·g/‖g‖ in ordinary floats."""
    radius = -math.fsum(math.log(uniform) for uniform in uniforms[:dimension]) / rate
    normals: list[float] = []
    for index in range(dimension, len(uniforms), 2):
        length = math.sqrt(-2 * math.log(uniforms[index]))
        angle = 2 * math.pi * uniforms[index + 1]
        normals += [length * math.cos(angle), length * math.sin(angle)]
    direction = np.array(normals[:dimension])
    return radius * direction / np.linalg.norm(direction)


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gamma_norm_is_the_rounding_of_the_ideal_draw(
    monkeypatch: pytest.MonkeyPatch, dimension: int, seed: int
) -> None:
    streams = BitStreams(uniform_count(dimension), seed)
    monkeypatch.setattr(secrets, "randbits", streams)
    values, rate, grid = np.linspace(-3, 4, dimension), 0.375, 2.0**-10
    ideal = values + expected_noise(dimension, rate, streams.uniforms())
    drawn = SystemNoise().gamma_norm(values, rate, grid)
    assert drawn.dtype == np.float64
    np.testing.assert_array_equal(drawn, np.floor(ideal / grid + 0.5) * grid)


@pytest.mark.parametrize("first_bits", [2, 3, 4])
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_refinement_gives_the_same_rounding_as_many_bits_at_once(
    monkeypatch: pytest.MonkeyPatch, first_bits: int, dimension: int
) -> None:
    def drawn(bits: int, seed: int) -> tuple[list[float], int]:
        monkeypatch.setattr(noise, "_FIRST_BITS", bits)
        streams = BitStreams(uniform_count(dimension), seed)
        monkeypatch.setattr(secrets, "randbits", streams)
        output = SystemNoise().gamma_norm(np.full(dimension, 0.3), 2.0, 2.0**-20)
        assert len(set(streams.used)) == 1
        return output.tolist(), streams.used[0]

    for seed in range(20):
        with_few, bits_used = drawn(first_bits, seed)
        with_many, bits_at_once = drawn(1024, seed)
        assert with_few == with_many
        assert bits_at_once == 1024
        # 2, 3 or 4 bits cannot settle a rounding to a millionth: bits were doubled, more than once.
        assert bits_used >= 8 * first_bits
        assert math.log2(bits_used / first_bits).is_integer()


def test_intervals_hold_the_numbers_that_begin_with_the_known_bits_and_hardly_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(noise, "_FIRST_BITS", 3)
    answers = iter([5, 0, 7, 6, 1, 2])
    monkeypatch.setattr(secrets, "randbits", lambda bits: next(answers))
    uniforms = noise._LazyUniforms(3)
    assert uniforms.bits == 3
    for ball, number in zip(uniforms.intervals(), [5, 0, 7], strict=True):
        assert_around(ball, Fraction(number, 8), Fraction(number + 1, 8))
    uniforms.refine()
    assert uniforms.bits == 6
    for ball, number in zip(uniforms.intervals(), [5 * 8 + 6, 1, 7 * 8 + 2], strict=True):
        assert_around(ball, Fraction(number, 64), Fraction(number + 1, 64))


def test_intervals_are_as_narrow_with_many_bits() -> None:
    uniforms = noise._LazyUniforms(1)
    with ball_context.workprec(192):
        (ball,) = uniforms.intervals()
    (number,) = uniforms._numerators
    assert_around(ball, Fraction(number, 2**128), Fraction(number + 1, 2**128))


def assert_around(ball: arb, low: Fraction, high: Fraction) -> None:
    """The ball holds [low, high] and exceeds it by less than a millionth of its width on either side."""
    (middle, radius) = (
        Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
        for mantissa, exponent in (ball.mid().man_exp(), ball.rad().mid().man_exp())
    )
    slack = (high - low) / 10**6
    assert low - slack < middle - radius <= low
    assert high <= middle + radius < high + slack


@pytest.mark.parametrize("stuck", [0, 2**64 - 1], ids=["all zeros", "all ones"])
def test_uniforms_at_the_very_ends_are_refined_not_rounded(monkeypatch: pytest.MonkeyPatch, stuck: int) -> None:
    """A first chunk of zeros or ones leaves log 0 or √0 in the interval; the answer must wait for more bits."""
    monkeypatch.setattr(noise, "_FIRST_BITS", 64)
    calls: list[int] = []

    def randbits(bits: int) -> int:
        calls.append(bits)
        return stuck if len(calls) <= 4 else random.Random(len(calls)).getrandbits(bits)

    monkeypatch.setattr(secrets, "randbits", randbits)
    output = SystemNoise().gamma_norm(np.zeros(2), 1.0, 2.0**-20)
    assert np.isfinite(output).all()
    assert len(calls) > 4


def test_gamma_norm_starts_with_128_bits_of_every_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    # In three dimensions: three exponentials, and two pairs for three normals.
    streams = BitStreams(7, seed=1)
    monkeypatch.setattr(secrets, "randbits", streams)
    SystemNoise().gamma_norm(np.zeros(3), 1.0, 2.0**-20)
    assert streams.used == [128] * 7


def test_gamma_norm_of_large_values_needs_more_bits_than_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_FIRST_BITS", 32)
    output = SystemNoise().gamma_norm(np.array([2.0**70]), 1.0, 2.0**-20)
    assert output[0] == 2.0**70


@pytest.mark.parametrize("source", SOURCES, ids=["system", "seeded"])
def test_noise_is_added_to_the_values(source: NoiseSource) -> None:
    """At a scale of a thousandth, discrete noise is zero except with probability e^−1000."""
    values = np.array([-5, 0, 2**40, 17], dtype=np.int64)
    for drawn in (source.laplace(values, 1e-3), source.gaussian(values, 1e-3)):
        assert drawn.dtype == np.int64
        np.testing.assert_array_equal(drawn, values)


@pytest.mark.parametrize("source", SOURCES, ids=["system", "seeded"])
def test_gamma_norm_is_centred_on_the_values(source: NoiseSource) -> None:
    """The norm is Gamma(3, 10⁶): above 10⁻³ with probability below e^−900."""
    values = np.array([-5.0, 1.5, 1e6])
    drawn = source.gamma_norm(values, 1e6, 2.0**-30)
    assert 0 < np.linalg.norm(drawn - values) < 1e-3
    assert (drawn / 2.0**-30 == np.rint(drawn / 2.0**-30)).all()


def test_system_noise_saturates_at_64_bits_instead_of_wrapping() -> None:
    largest, smallest = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    edge = np.repeat(np.array([largest, smallest], dtype=np.int64), 200)
    for drawn in (SystemNoise().laplace(edge, 1000.0), SystemNoise().gaussian(edge, 1000.0)):
        above, below = drawn[:200], drawn[200:]
        # Half of all draws push outwards; that none of 200 saturates has probability 2^−200.
        assert (above > largest - 10**6).all()
        assert (below < smallest + 10**6).all()
        assert (above == largest).any()
        assert (below == smallest).any()


@pytest.mark.parametrize("scale", [1e19, 1e300])
def test_seeded_noise_saturates_and_does_not_vanish_at_huge_scales(scale: float) -> None:
    values = np.full(2000, 2**61, dtype=np.int64)
    for drawn in (SeededNoise(1).laplace(values, scale), SeededNoise(1).gaussian(values, scale)):
        assert drawn.max() == 2**61 + 2**62
        assert drawn.min() == 2**61 - 2**62


def test_seeded_noise_repeats_itself_and_protects_nobody() -> None:
    def draws(source: NoiseSource) -> list[object]:
        return [
            source.laplace(zeros(20), 50.0).tolist(),
            source.gaussian(zeros(20), 50.0).tolist(),
            source.gamma_norm(np.zeros(5), 1.0, 2.0**-10).tolist(),
            source.integer_below(10**9),
        ]

    assert draws(SeededNoise(3)) == draws(SeededNoise(3))
    assert draws(SeededNoise(3)) == draws(SeededNoise(np.random.RandomState(3)))
    assert draws(SeededNoise(3)) != draws(SeededNoise(4))
    source = SeededNoise(3)
    assert draws(source) != draws(source)
    assert SeededNoise.valid is False
    assert SystemNoise.valid is True
    assert draws(SystemNoise()) != draws(SystemNoise())


def test_a_seed_chooses_the_seeded_source() -> None:
    assert isinstance(noise_source(None), SystemNoise)
    assert isinstance(noise_source(0), SeededNoise)
    assert noise_source(5).integer_below(10**9) == SeededNoise(5).integer_below(10**9)


@pytest.mark.parametrize("source", SOURCES, ids=["system", "seeded"])
def test_integer_below_is_uniform(source: NoiseSource) -> None:
    """Chi-square on six faces with 12,000 throws: p below 1e-7 by the approximation, so a false alarm is below 1e-6."""
    seen = Counter(source.integer_below(6) for _ in range(12_000))
    assert sorted(seen) == [0, 1, 2, 3, 4, 5]
    assert stats.chisquare([seen[face] for face in range(6)]).pvalue > 1e-7
    assert {source.integer_below(1) for _ in range(20)} == {0}


def test_a_forked_process_draws_other_noise_than_its_parent() -> None:
    """64 values of spread 2⁴⁰ agree by chance with probability below 2^−2000; a shared generator state would agree always."""
    program = """
import json, os
import numpy as np
from sudare.privacy.noise import SystemNoise
source, values = SystemNoise(), np.zeros(64, dtype=np.int64)
def draws():
    return [source.laplace(values, 2.0**40).tolist(), source.gaussian(values, 2.0**40).tolist(),
            source.gamma_norm(np.zeros(8), 1.0, 2.0**-20).tolist(), [source.integer_below(2**256)]]
draws()
pipes = []
for _ in range(2):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, json.dumps(draws()).encode())
        os._exit(0)
    os.close(write)
    pipes.append(read)
answers = [draws()] + [json.loads(os.fdopen(read).read()) for read in pipes]
print(json.dumps(answers))
"""
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    parent, first_child, second_child = json.loads(finished.stdout)
    for kind in range(4):
        assert parent[kind] != first_child[kind]
        assert parent[kind] != second_child[kind]
        assert first_child[kind] != second_child[kind]


def test_seeded_laws_are_those_of_the_system() -> None:
    """The twin is for tests and simulation, so its law must match: chi-square gates at 1e-9 and exact KS at 1e-6."""
    source = SeededNoise(11)
    drawn = source.laplace(zeros(20_000), 2.0)
    decay = math.exp(-1 / 2.0)
    for value in (0, 1, -1, 3):
        probability = (1 - decay) / (1 + decay) * decay ** abs(value)
        assert stats.binomtest(int(np.sum(drawn == value)), 20_000, probability).pvalue > 1e-6
    gaussian = source.gaussian(zeros(20_000), 1000.0)
    assert stats.kstest(gaussian, stats.norm(scale=1000.0).cdf).pvalue > 1e-6
    norms = [np.linalg.norm(source.gamma_norm(np.zeros(3), 2.0, 2.0**-20)) for _ in range(4000)]
    assert stats.kstest(norms, stats.gamma(3, scale=0.5).cdf).pvalue > 1e-6
