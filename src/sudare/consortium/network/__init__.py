"""Sealed messages between members over any transport."""
