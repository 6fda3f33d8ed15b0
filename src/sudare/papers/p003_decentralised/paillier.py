"""Averaging under Paillier encryption, by the exchange of Ruan, Ahmad and Wang (2017); needs the extra `papers`.

Member i sends E_i(−x_i) to its neighbour j, which adds its own x_j and multiplies by a secret weight a_j, all under encryption. Member i
decrypts a_j(x_j − x_i) and multiplies by its own secret weight a_i. Both ends of an edge move by a_i·a_j times the difference, so the sum stays,
and neither learns the other's value from one round. Numbers of one round share an edge's weight, so that as many as a plaintext has room for
travel in one ciphertext, and each is what it would be alone. It is slow, inexact, and protects no better than its weights do; use masks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Final

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.optional_packages import optional_package
from sudare.papers.p003_decentralised.averaging import checked_values
from sudare.papers.p003_decentralised.graphs import Graph
from sudare.papers.p003_decentralised.spectra import nonzero_range
from sudare.parameter_checks import Numbers
from sudare.sums.pseudorandom_streams import derived, unit_floats

# Weights are whole numbers of 2^−16 between a half and one, values whole numbers of 2^−32; all products fit any key allowed here.
_WEIGHT_BITS: Final = 16
_VALUE_BITS: Final = 32
_LEAST_KEY_BITS: Final = 256
# Room for a signed number in a plaintext: differences of two values below 2^92, times a weight below 2^16.
_SLOT_BITS: Final = 112
_MOST_VALUE: Final = 2.0**60
_LEAST_PRODUCT: Final = 0.25
_TOLERANCES: Final = Numbers(0, 1, open_low=True, open_high=True)


@dataclass(frozen=True)
class PaillierCost:
    """What averaging takes: rounds, the most ciphertexts one member sends in a round, and bits of all, for every number that has a ciphertext of its own."""

    rounds: int
    ciphertexts_per_round: int
    bits_per_number: int


@dataclass(frozen=True)
class PaillierRun:
    """What each member ends with (members × numbers), and what it took for every number."""

    averages: Floats
    cost: PaillierCost


def paillier_cost(graph: Graph, tolerance: float, key_bits: int) -> PaillierCost:
    """Rounds until disagreement is at most tolerance times the first one, whatever the weights, and what is sent in them.

    Products of weights lie between a quarter and one, so with the step 1/λ_S a round shrinks disagreement to 1 − λ₂/4λ_S at most.
    """
    _TOLERANCES.check("tolerance", tolerance)
    smallest, largest = nonzero_range(graph)
    rounds = math.ceil(math.log(tolerance) / math.log1p(-_LEAST_PRODUCT * smallest / largest))
    # On every edge, each way: a request and an answer, each modulo the square of the key.
    return PaillierCost(rounds, 2 * graph.largest_degree, rounds * 4 * len(graph.edges) * 2 * key_bits)


def keypairs(members: int, key_bits: int) -> list[tuple[Any, Any]]:
    """A public and a private key for each member."""
    if key_bits < _LEAST_KEY_BITS:
        raise InvalidParameter(
            f"A Paillier key of {key_bits} bits cannot hold the numbers.",
            "Use 2048 bits or more; fewer only in tests, at least 256.",
        )
    phe = _library()
    return [phe.generate_paillier_keypair(n_length=key_bits) for _ in range(members)]


def _library() -> Any:
    problem = "Paillier encryption needs the packages phe and gmpy2."
    remedy = "Install them: pip install 'sudare[papers]'"
    # Without it phe works a hundred times slower.
    optional_package("gmpy2", problem, remedy)
    return optional_package("phe", problem, remedy)


def request(public: Any, value: int) -> Any:
    """E_i(−x_i), from member i to a neighbour; of several numbers at once if they are packed."""
    return public.encrypt(-value)


def answer(encrypted: Any, value: int, weight: int) -> Any:
    """E_i(a_j(x_j − x_i)), the neighbour's answer; fresh randomness so that it shows nothing but what it decrypts to."""
    replied = (encrypted + value) * weight
    replied.obfuscate()
    return replied


def steps_from(private: Any, replied: Any, weight: int, numbers: int) -> list[float]:
    """a_i·a_j(x_j − x_i) for each number: how far member i is pulled along this edge."""
    differences = unpacked(private.decrypt(replied), numbers)
    return [math.ldexp(each * weight, -2 * _WEIGHT_BITS - _VALUE_BITS) for each in differences]


def slots(key_bits: int) -> int:
    """How many numbers one ciphertext holds; a plaintext is a signed number of up to a third of the key."""
    return (key_bits - 2) // _SLOT_BITS


def packed(values: Sequence[int]) -> int:
    """One whole number with the values as its signed digits."""
    return sum(value << (_SLOT_BITS * place) for place, value in enumerate(values))


def unpacked(plaintext: int, numbers: int) -> list[int]:
    """The signed digits of a whole number, each between −2^111 and 2^111."""
    found, half = [], 1 << (_SLOT_BITS - 1)
    for _ in range(numbers):
        digit = ((plaintext + half) & (2 * half - 1)) - half
        found.append(digit)
        plaintext = (plaintext - digit) >> _SLOT_BITS
    return found


def paillier_average(
    vectors: Floats, graph: Graph, tolerance: float, pairs: Sequence[tuple[Any, Any]], seed: bytes
) -> PaillierRun:
    """Everyone's vector after the rounds of `paillier_cost`."""
    cost = paillier_cost(graph, tolerance, pairs[0][0].n.bit_length())
    states = paillier_trajectory(vectors, graph, pairs, seed)
    return PaillierRun(next(islice(states, cost.rounds, None)), cost)


def paillier_trajectory(
    vectors: Floats, graph: Graph, pairs: Sequence[tuple[Any, Any]], seed: bytes
) -> Iterator[Floats]:
    """What everyone holds before the first round and after each, without end."""
    vectors = checked_values(vectors, graph.members)
    if np.abs(vectors).max(initial=0.0) > _MOST_VALUE:
        raise InvalidParameter("Values are too large for the encryption's fixed point.", "Scale them below 2^60.")
    current, largest = vectors.copy(), nonzero_range(graph)[1]
    for number in count():
        yield current
        pulls = _pulls(current, graph, pairs, derived(seed, b"weights", number.to_bytes(4, "big")))
        current = current + pulls / largest


def _pulls(current: Floats, graph: Graph, pairs: Sequence[tuple[Any, Any]], seed: bytes) -> Floats:
    """How far each member is pulled in one round by all its neighbours."""
    whole = [[round(math.ldexp(value, _VALUE_BITS)) for value in row] for row in current]
    weights = _round_weights(graph, seed)
    pulls = np.zeros_like(current)
    for first, second in graph.edges:
        for one, other in ((first, second), (second, first)):
            public, private = pairs[one]
            together = slots(public.n.bit_length())
            for start in range(0, current.shape[1], together):
                own, others = (whole[member][start : start + together] for member in (one, other))
                replied = answer(request(public, packed(own)), packed(others), weights[other, one])
                steps = steps_from(private, replied, weights[one, other], len(own))
                pulls[one, start : start + together] += steps
    return pulls


def _round_weights(graph: Graph, seed: bytes) -> dict[tuple[int, int], int]:
    """Each member's secret weight for each of its edges in a round: between a half and one, in steps of 2^−16."""
    directed = [pair for edge in graph.edges for pair in (edge, edge[::-1])]
    half = 2 ** (_WEIGHT_BITS - 1)
    drawn = half + np.floor(half * unit_floats(seed, len(directed))).astype(np.int64)
    return {pair: int(weight) for pair, weight in zip(directed, drawn, strict=True)}
