"""Sentence embeddings by MiniLM-L6: `Embedder().embed([...])`."""

from .service import Embedder

__all__ = ["Embedder"]
