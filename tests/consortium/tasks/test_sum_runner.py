"""A member that runs a script of sums: what it takes up from its store, and when it refuses to."""

from __future__ import annotations

import pytest

from sudare.errors import MaskReused
from tests.consortium.simulated_consortium import Consortium


@pytest.mark.parametrize("threshold", [3, 4], ids=["some may leave", "nobody may leave"])
@pytest.mark.parametrize("lost", [("sum-0",), ("sum-1",), ("sum-0", "sum-1")], ids=" and ".join)
def test_a_sum_whose_state_is_gone_is_not_begun_again(lost: tuple[str, ...], threshold: int) -> None:
    """Begun again it would hide another vector, or the same one for others, behind the same masks."""
    consortium = Consortium(4, threshold, silence_seconds=5.0)
    store = consortium.stores["member-01"]
    assert consortium.simulation.run(lambda: int.from_bytes(store.contents.get("begun", b""), "big") >= 1, 60.0)
    begun = int.from_bytes(store.contents["begun"], "big")
    consortium.simulation.kill("member-01", 1.0)
    for name in lost:
        store.contents.pop(name, None)
    consortium.run(300.0)
    failure = consortium.failures().get("member-01")
    if f"sum-{begun % 2}" in lost:
        assert isinstance(failure, MaskReused)
        assert "is gone from its folder" in str(failure)
    else:
        assert not isinstance(failure, MaskReused)
