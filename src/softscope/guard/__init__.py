"""A detector to deploy: uncertainty with a promised false-alarm rate, in one file, over streams of any size."""

from .guard import Guard

__all__ = ["Guard"]
