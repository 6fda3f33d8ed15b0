"""Ratios against peers, measured in one run: `python -m benchmarks`, or `make bench`."""
