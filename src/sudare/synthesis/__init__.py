"""Private synthetic tables: rows of nobody, drawn from noisy counts."""

from sudare.synthesis.synthesizer import PrivateSynthesizer

__all__ = ["PrivateSynthesizer"]
