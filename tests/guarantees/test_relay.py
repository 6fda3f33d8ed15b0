"""A relay that records everything learns nothing; and the same search finds addends and relations where hiding is taken away."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from sudare.array_types import Words
from sudare.consortium.network import session
from sudare.consortium.tasks.sum_participant import Attempt
from sudare.consortium.tasks.sum_script_runner import Checkpoint, IterationStart
from sudare.joint.sum_script import Finished
from sudare.sums import collector, member, serverless
from sudare.sums.canonical_encoding import unpacked
from tests.consortium.simulated_consortium import Consortium, RoughNetwork

WORDS = 4


class RandomWalk:
    """Two sums of random words, so that nothing is in a log by chance: 256 bits, of which 64 would do."""

    is_exact = False

    def __init__(self, position: int) -> None:
        self.addends = [
            np.frombuffer(np.random.default_rng([position, number]).bytes(8 * WORDS), "<u8") for number in (0, 1)
        ]

    def begun(self) -> tuple[bytes, Words]:
        return b"", self.addends[0]

    def step(self, state: bytes, total: Words, included: tuple[int, ...]) -> tuple[bytes, Words | Finished]:
        return (b"second", self.addends[1]) if not state else (state, Finished(total.tobytes()))


class NoCipher:
    """A test double: what is sealed stays readable."""

    def __init__(self, key: bytes) -> None:
        pass

    def encrypt(self, nonce: bytes, content: bytes, header: bytes) -> bytes:
        return content + bytes(16)

    def decrypt(self, nonce: bytes, content: bytes, header: bytes) -> bytes:
        return content[:-16]


def recorded(members: int, threshold: int | None = None) -> tuple[list[bytes], list[Words], list[Words]]:
    """A relay's log of a whole task, with the addends and totals that it is to be searched for."""
    network = RoughNetwork(0)
    consortium = Consortium(members, threshold, RandomWalk, network)
    assert consortium.run()
    assert not consortium.failures()
    stores = consortium.stores.values()
    saved = [
        unpacked(store.contents[f"sum-{place}"], Checkpoint, IterationStart, Attempt)
        for store in stores
        for place in (0, 1)
    ]
    addends = [checkpoint.start.addend for checkpoint in saved]
    totals = [np.sum(addends[number::2], axis=0, dtype=np.uint64) for number in (0, 1)]
    assert all(np.frombuffer(result, "<u8").tolist() == totals[1].tolist() for result in consortium.results().values())
    return [content for _, _, content in network.recorded], addends, totals


def plain_statistics(log: Iterable[bytes], statistics: Iterable[Words]) -> int:
    """How many addends or totals stand in the log, any of their words."""
    together = b"\0".join(log)
    return sum(any(word.tobytes() in together for word in statistic) for statistic in statistics)


def share_relations(log: Iterable[bytes], statistics: Iterable[Words]) -> int:
    """How many addends or totals are the sum or difference, modulo 2^64, of two vectors anywhere in the log."""
    size, found = 8 * WORDS, 0
    windows = {content[at : at + size] for content in log for at in range(len(content) - size + 1)}
    vectors = np.frombuffer(b"".join(sorted(windows)), "<u8").reshape(-1, WORDS)
    first_words = {int(word) for word in vectors[:, 0]}
    for statistic in statistics:
        for other in (statistic - vectors, statistic + vectors, vectors - statistic):
            near = [row for row in other if int(row[0]) in first_words]
            found += any(row.tobytes() in windows and row.any() for row in near)
    return found


@pytest.fixture
def no_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members that send their vectors as they are."""
    for module in (serverless, member):
        monkeypatch.setattr(module, "add_pair_masks", lambda words, position, seeds: None)
    monkeypatch.setattr(member, "mask_of", lambda seed, count: np.zeros(count, dtype=np.uint64))
    monkeypatch.setattr(collector, "take_self_masks", lambda words, seeds: None)


# Without a collector, and with one that members may leave.
SIZES = [(3, None), (4, 3)]


@pytest.mark.parametrize(("members", "threshold"), SIZES)
def test_a_relay_that_records_everything_finds_nothing(members: int, threshold: int | None) -> None:
    log, addends, totals = recorded(members, threshold)
    assert len(log) > 50
    assert plain_statistics(log, [*addends, *totals]) == 0
    assert share_relations(log, [*addends, *totals]) == 0


@pytest.mark.parametrize(("members", "threshold"), [(2, None), (4, 3)])
def test_without_our_encryption_totals_are_found_but_no_addend(
    members: int, threshold: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two masked values that add up to the total, or the total that a collector sends back."""
    monkeypatch.setattr(session, "ChaCha20Poly1305", NoCipher)
    log, addends, totals = recorded(members, threshold)
    assert plain_statistics(log, addends) == 0
    found = share_relations(log, totals) if threshold is None else plain_statistics(log, totals)
    assert found > 0


@pytest.mark.parametrize(("members", "threshold"), SIZES)
@pytest.mark.usefixtures("no_masks")
def test_without_encryption_and_masks_every_addend_is_found(
    members: int, threshold: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But the collector's own, which does not travel."""
    monkeypatch.setattr(session, "ChaCha20Poly1305", NoCipher)
    log, addends, _ = recorded(members, threshold)
    assert plain_statistics(log, addends) == len(addends) - (0 if threshold is None else 2)


@pytest.mark.parametrize(("members", "threshold"), SIZES)
@pytest.mark.usefixtures("no_masks")
def test_masks_are_not_seen_through_encryption_alone(members: int, threshold: int | None) -> None:
    log, addends, totals = recorded(members, threshold)
    assert plain_statistics(log, [*addends, *totals]) == 0
