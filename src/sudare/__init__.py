"""sudare: organisations learn together without showing each other their records."""

from importlib.metadata import version

__version__ = version("sudare")
