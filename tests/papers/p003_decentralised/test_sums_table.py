"""The comparison of sums: masks send a hundredth of what chunking sends, and are exact."""

from __future__ import annotations

import numpy as np

from sudare.papers.p003_decentralised.sums_table import sums_table


def test_masks_send_a_hundredth_of_what_chunks_send() -> None:
    table = sums_table(np.random.default_rng(0))
    found = {str(row[0]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert next(iter(found)) == "masks, dissemination"
    for name, row in found.items():
        error, ratio = row["relative error"], row["bits ÷ masks"]
        assert isinstance(ratio, float)
        if "chunks" in name:
            assert ratio >= 100
            assert isinstance(error, float)
            assert 1e-5 < error < 1e-2
        elif "Paillier" in name:
            assert ratio > 10_000
        else:
            assert isinstance(error, float)
            assert error < 1e-9
    assert found["masks, dissemination"]["rounds"] == 4
    # Four values of 64 bits a member and number, the frames of four messages, and nine signed statements on the total.
    assert 256 < float(str(found["masks, dissemination"]["bits a member and number"])) < 280
    # One vector to the collector and one back, and keys, shares, votes and words on the total.
    assert 9 / 10 * 2 * 64 < float(str(found["masks, one may leave (t = 9)"]["bits a member and number"])) < 210
