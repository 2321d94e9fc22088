"""Scores of transactions: a small network over any number of rows."""

from .model import score

__all__ = ["score"]
