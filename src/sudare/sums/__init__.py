"""Secure sums: members learn the sum of their vectors and nothing else. Proof: proofs/secure_sums.md."""
