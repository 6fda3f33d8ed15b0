"""Ways of hiding an addend: masks, additive and Shamir shares, chunks, Paillier."""
