"""A sum under Paillier encryption, by python-paillier: one member's part in it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import phe

Run = Callable[[], object]


def masked_sum(members: int, numbers: int, encrypted: int) -> Run:
    """Encrypt the own numbers, add the other members' ciphertexts, decrypt the totals; `numbers` is our number."""
    public, private = phe.generate_paillier_keypair(n_length=2048)
    own, *others = np.random.default_rng(0).normal(size=(members, encrypted)).tolist()
    received = [[public.encrypt(value) for value in row] for row in others[:1]] * len(others)

    def run() -> object:
        totals = [public.encrypt(value) for value in own]
        for row in received:
            totals = [total + cipher for total, cipher in zip(totals, row, strict=True)]
        return [private.decrypt(total) for total in totals]

    return run


CASES = {"masked_sum": masked_sum}
