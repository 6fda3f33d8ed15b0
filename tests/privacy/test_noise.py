"""Noise sources: exact draws, exact rounding, nothing shared between processes, and a seeded twin that says it is one."""

from __future__ import annotations

import json
import math
import random
import secrets
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from flint import arb
from flint import ctx as ball_context
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sudare.errors import InvalidParameter
from sudare.privacy import noise
from sudare.privacy.noise import NoiseSource, SeededNoise, SystemNoise, noise_source

SOURCES = [SystemNoise(), SeededNoise(7)]


def zeros(count: int) -> np.ndarray:
    return np.zeros(count, dtype=np.int64)


class BitStreams:
    """Stands in for the words read from the system: each uniform number reads its own fixed, endless stream of bits."""

    def __init__(self, count: int, seed: int, length: int = 8192) -> None:
        self.count, self.length = count, length
        self.streams = [random.Random(f"{seed}/{index}").getrandbits(length) for index in range(count)]
        self.used = 0

    def __call__(self, count: int, bits: int) -> list[int]:
        assert count == self.count
        self.used += bits
        assert self.used <= self.length
        return [(stream >> (self.length - self.used)) & ((1 << bits) - 1) for stream in self.streams]

    def uniforms(self) -> list[float]:
        return [stream / 2**self.length for stream in self.streams]


def uniform_count(dimension: int) -> int:
    """One a coordinate for the radius; half as many, rounded up, for angles; and one less for squared lengths."""
    pairs = (dimension + 1) // 2
    return dimension + pairs - 1 + pairs


def expected_noise(dimension: int, rate: float, uniforms: list[float]) -> np.ndarray:
    """r·v in ordinary floats: v of pairs whose squared lengths are the spacings of uniforms."""
    pairs = (dimension + 1) // 2
    radius = -math.fsum(math.log(uniform) for uniform in uniforms[:dimension]) / rate
    shares = np.diff([0.0, *sorted(uniforms[dimension : dimension + pairs - 1]), 1.0])
    angles = 2 * np.pi * np.array(uniforms[dimension + pairs - 1 :])
    pairwise = np.sqrt(shares) * np.array([np.cos(angles), np.sin(angles)])
    direction = pairwise.T.ravel()[:dimension]
    return radius * direction / np.linalg.norm(direction)


@pytest.mark.parametrize("first_bits", [128, 1024], ids=["by floats", "by balls"])
@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 5, 12, 13, 25, 26])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gamma_norm_is_the_rounding_of_the_ideal_draw(
    monkeypatch: pytest.MonkeyPatch, dimension: int, seed: int, first_bits: int
) -> None:
    monkeypatch.setattr(noise, "_FIRST_BITS", first_bits)
    streams = BitStreams(uniform_count(dimension), seed)
    monkeypatch.setattr(noise, "_random_words", streams)
    values, rate, grid = np.linspace(-3, 4, dimension), 0.375, 2.0**-10
    ideal = values + expected_noise(dimension, rate, streams.uniforms())
    drawn = SystemNoise().gamma_norm(values, rate, grid)
    assert drawn.dtype == np.float64
    np.testing.assert_array_equal(drawn, np.floor(ideal / grid + 0.5) * grid)
    assert streams.used == first_bits


@pytest.mark.parametrize("first_bits", [2, 3, 4])
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_refinement_gives_the_same_rounding_as_many_bits_at_once(
    monkeypatch: pytest.MonkeyPatch, first_bits: int, dimension: int
) -> None:
    def drawn(bits: int, seed: int) -> tuple[list[float], int]:
        monkeypatch.setattr(noise, "_FIRST_BITS", bits)
        streams = BitStreams(uniform_count(dimension), seed)
        monkeypatch.setattr(noise, "_random_words", streams)
        output = SystemNoise().gamma_norm(np.full(dimension, 0.3), 2.0, 2.0**-20)
        return output.tolist(), streams.used

    for seed in range(20):
        with_few, bits_used = drawn(first_bits, seed)
        with_many, bits_at_once = drawn(1024, seed)
        assert with_few == with_many
        assert bits_at_once == 1024
        # 2, 3 or 4 bits cannot settle a rounding to a millionth: bits were doubled, more than once.
        assert bits_used >= 8 * first_bits
        assert math.log2(bits_used / first_bits).is_integer()


@pytest.mark.parametrize(("bits", "width"), [(1, 1), (3, 1), (8, 1), (9, 2), (124, 16), (128, 16)])
def test_words_are_the_systems_bytes_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, bits: int, width: int
) -> None:
    stream = random.Random(bits).randbytes(5 * width)
    asked: list[int] = []
    monkeypatch.setattr(secrets, "token_bytes", lambda size: asked.append(size) or stream)
    words = noise._random_words(5, bits)
    assert asked == [5 * width]
    assert words == [int.from_bytes(stream[i * width : (i + 1) * width], "big") >> (8 * width - bits) for i in range(5)]
    assert max(words) < 2**bits


def test_known_bits_stay_when_more_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_FIRST_BITS", 3)
    answers = iter([[5, 0, 7], [6, 1, 2]])
    monkeypatch.setattr(noise, "_random_words", lambda count, bits: next(answers))
    uniforms = noise._LazyUniforms(3)
    assert (uniforms.bits, uniforms.numerators) == (3, [5, 0, 7])
    uniforms.refine()
    assert (uniforms.bits, uniforms.numerators) == (6, [5 * 8 + 6, 1, 7 * 8 + 2])


class Known:
    """Uniforms of which the first bits are written down."""

    def __init__(self, bits: int, numerators: list[int]) -> None:
        self.bits, self.numerators = bits, numerators


def random_uniforms(dimension: int, seed: object, bits: int = 128) -> Known:
    source = random.Random(str(seed))
    return Known(bits, [source.getrandbits(bits) for _ in range(uniform_count(dimension))])


@given(st.integers(1, 6), st.integers(3, 40), st.integers(0, 10**9))
def test_balls_hold_every_draw_that_begins_with_the_known_bits(dimension: int, bits: int, seed: int) -> None:
    """Whatever bits follow: all zeros, all ones, or any."""
    few = random_uniforms(dimension, seed, bits)
    later = random.Random(seed)
    with ball_context.workprec(bits + 64):
        wide = noise._gamma_norm_balls(dimension, arb(1.5), few)
    for more in ([0] * 40, [2**200 - 1] * 40, [later.getrandbits(200) for _ in range(40)]):
        known = Known(bits + 200, [(n << 200) | m for n, m in zip(few.numerators, more, strict=False)])
        with ball_context.workprec(bits + 400):
            narrow = noise._gamma_norm_balls(dimension, arb(1.5), known)
            for outer, inner in zip(wide, narrow, strict=True):
                assert not outer.is_finite() or not inner.is_finite() or outer.overlaps(inner)
                assert not outer.is_finite() or not inner.is_finite() or inner.mid() in outer


def test_balls_are_narrow() -> None:
    """What is certain after 128 bits is certain to about 2⁻¹⁰⁰."""
    for dimension in (1, 2, 7):
        with ball_context.workprec(192):
            for ball in noise._gamma_norm_balls(dimension, arb(1.0), random_uniforms(dimension, 5)):
                assert float(ball.rad()) < 2.0**-100


@given(st.integers(1, 30), st.integers(0, 10**9), st.sampled_from([2.0**-8, 2.0**-20, 2.0**-27, 0.001]))
def test_floats_decide_as_balls_do(dimension: int, seed: int, grid: float) -> None:
    uniforms = random_uniforms(dimension, seed)
    values = np.random.default_rng(seed).normal(size=dimension) * 10.0 ** (seed % 5)
    by_floats = noise._sums_rounded_by_floats(values, 0.4, grid, uniforms)
    by_balls = noise._sums_rounded_by_balls(values, 0.4, grid, uniforms)
    assert by_floats is None or by_floats == [int(multiple) for multiple in by_balls]


@pytest.mark.parametrize("dimension", [1, 2, 3, 11])
@pytest.mark.parametrize("side", [-1, 1])
def test_floats_decide_what_is_clear_and_leave_what_is_close(dimension: int, side: int) -> None:
    """One coordinate is put near a boundary, by much less and by a little more than floats are trusted to tell."""
    rate, grid = 0.4, 2.0**-20
    for seed in range(20):
        uniforms = random_uniforms(dimension, (dimension, seed))
        with ball_context.workprec(192):
            offsets = noise._gamma_norm_balls(dimension, arb(rate) * arb(grid), uniforms)
        sizes = np.array([float(offset.mid()) for offset in offsets])
        values = np.full(dimension, 0.25 - sizes + np.rint(sizes)) * grid
        assert noise._sums_rounded_by_floats(values, rate, grid, uniforms) is not None
        logarithm = np.linalg.norm(sizes) * rate * grid
        pairs = (dimension + 1) // 2
        last = noise_of_dropped(uniforms, dimension, pairs)
        trusted = 2.0**-40 * ((logarithm + dimension) / (rate * grid) / (1 - last**2) + np.abs(values / grid).max())
        for index in range(dimension):
            near, clear = values.copy(), values.copy()
            near[index] = (0.5 - sizes[index] + np.rint(sizes[index]) + side * 0.5 * trusted) * grid
            clear[index] = (0.5 - sizes[index] + np.rint(sizes[index]) + side * 2.0 * trusted) * grid
            assert noise._sums_rounded_by_floats(near, rate, grid, uniforms) is None
            decided = noise._sums_rounded_by_floats(clear, rate, grid, uniforms)
            assert decided == [int(m) for m in noise._sums_rounded_by_balls(clear, rate, grid, uniforms)]


def noise_of_dropped(uniforms: Known, dimension: int, pairs: int) -> float:
    """The coordinate of the direction that an odd dimension leaves over; zero for an even one."""
    if dimension % 2 == 0:
        return 0.0
    numbers = [number / 2**uniforms.bits for number in uniforms.numerators]
    cuts = [0.0, *sorted(numbers[dimension : dimension + pairs - 1]), 1.0]
    return math.sqrt(cuts[-1] - cuts[-2]) * math.sin(2 * math.pi * numbers[-1])


def test_the_c_library_is_as_accurate_as_the_proof_asks() -> None:
    """proofs/gamma_norm.md takes log, sin and cos to be right to 2⁻⁴⁵; here they are to 2⁻⁵¹ at ten thousand places."""
    source = random.Random(7)
    with ball_context.workprec(160):
        for _ in range(10_000):
            turn, number = source.random() * math.tau, source.random() ** 8
            assert abs(float(arb(turn).cos() - arb(math.cos(turn)))) < 2.0**-51
            assert abs(float(arb(turn).sin() - arb(math.sin(turn)))) < 2.0**-51
            logarithm = math.log(number)
            assert abs(float(arb(number).log() - arb(logarithm))) < 2.0**-51 * abs(logarithm)


@pytest.mark.parametrize("index", range(5))
def test_floats_leave_uniforms_with_few_known_digits_to_balls(index: int) -> None:
    """In three dimensions: three for the radius, one cut; a gap of less than 2⁶⁰ counts as well. Angles may be anything."""
    plenty = random_uniforms(3, 11)
    assert noise._sums_rounded_by_floats(np.zeros(3), 1.0, 2.0**-20, plenty) is not None
    small = Known(128, list(plenty.numerators))
    small.numerators[index] = 2**60 - 1
    decided = noise._sums_rounded_by_floats(np.zeros(3), 1.0, 2.0**-20, small)
    assert (decided is None) == (index <= 3)
    enough = Known(128, list(plenty.numerators))
    enough.numerators[index] = 2**60
    assert noise._sums_rounded_by_floats(np.zeros(3), 1.0, 2.0**-20, enough) is not None


def test_floats_leave_values_that_are_many_steps_away_to_balls() -> None:
    """A float of 2⁴¹ steps has room for a fraction of a step still; but so large a sum is not trusted to it."""
    uniforms, grid = random_uniforms(2, 3), 2.0**-8
    assert noise._sums_rounded_by_floats(np.array([2.0**20 * grid, 0.0]), 1.0, grid, uniforms) is not None
    assert noise._sums_rounded_by_floats(np.array([-(2.0**41) * grid, 0.0]), 1.0, grid, uniforms) is None


def test_floats_are_not_asked_where_they_could_overflow() -> None:
    assert noise._sums_rounded_by_floats(np.zeros(2), 1.0, 2.0**-20, random_uniforms(2, 1, bits=128)) is not None
    assert noise._sums_rounded_by_floats(np.zeros(2), 1.0, 2.0**-20, random_uniforms(2, 1, bits=129)) is None
    # The smallest numbers they are asked about, as many as are multiplied at once.
    smallest = Known(128, [2**60] * 26 + random_uniforms(26, 1).numerators[26:])
    assert noise._sums_rounded_by_floats(np.zeros(26), 1.0, 2.0**-10, smallest) is not None


@pytest.mark.parametrize("stuck", [0, 2**64 - 1], ids=["all zeros", "all ones"])
def test_uniforms_at_the_very_ends_are_refined_not_rounded(monkeypatch: pytest.MonkeyPatch, stuck: int) -> None:
    """A first chunk of zeros or ones leaves log 0, √0 or no length in the interval; the answer must wait for more bits."""
    monkeypatch.setattr(noise, "_FIRST_BITS", 64)
    calls: list[int] = []

    def words(count: int, bits: int) -> list[int]:
        calls.append(bits)
        source = random.Random(len(calls))
        return [stuck if len(calls) == 1 else source.getrandbits(bits) for _ in range(count)]

    monkeypatch.setattr(noise, "_random_words", words)
    output = SystemNoise().gamma_norm(np.zeros(4), 1.0, 2.0**-20)
    assert np.isfinite(output).all()
    assert len(calls) > 1


def test_gamma_norm_starts_with_128_bits_of_every_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    # In three dimensions: three exponentials, two angles, and one cut between two squared lengths.
    streams = BitStreams(6, seed=1)
    monkeypatch.setattr(noise, "_random_words", streams)
    SystemNoise().gamma_norm(np.zeros(3), 1.0, 2.0**-20)
    assert streams.used == 128


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


@pytest.mark.parametrize("count", [1, 511, 512, 5000])
def test_words_are_fair_and_never_the_same_twice(count: int) -> None:
    """Few come from the system one by one, many as a stream; fair within six deviations, and no two words are alike."""
    source = SystemNoise()
    words = np.concatenate([source.words(count) for _ in range(max(4, 20_000 // count))])
    assert words.dtype == np.uint64
    assert len(np.unique(words)) == len(words)
    bits = np.unpackbits(words.view(np.uint8)).reshape(len(words), 64)
    assert abs(bits.mean() - 0.5) < 6 * 0.5 / math.sqrt(bits.size)
    assert len(SeededNoise(1).words(count)) == count


def test_many_words_are_a_chacha20_stream_under_a_key_used_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 8439, section 2.3.2 begins with the same block function; the all-zero key is test vector 1 of its appendix A.1."""
    keys = [bytes(32), bytes(31) + b"\x01"]
    asked = []

    def token_bytes(count: int) -> bytes:
        asked.append(count)
        return keys[len(asked) - 1]

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)
    first, second = (SystemNoise().words(512).tobytes() for _ in range(2))
    assert first[:64].hex() == (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    # Appendix A.1, test vector 3 has this key and block 1; block 0 differs from it and from the first stream.
    assert second[64:80].hex() == "3aeb5224ecf849929b9d828db1ced4dd"
    assert asked == [32, 32]


@pytest.mark.parametrize("seed", ["x", -1, 2**32, 1.5, float("nan"), [1, 2]])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(InvalidParameter, match="random_state is neither a seed nor a RandomState") as refusal:
        SeededNoise(seed)
    assert refusal.value.__suppress_context__
