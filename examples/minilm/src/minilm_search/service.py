"""What a server holds: tokenizer, frozen weights, and `embed`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import prebake

from .encoder import encode
from .weights import load_model, load_tokenizer


class Embedder:
    """Embeddings of sentences, (n, 384) float32 of unit length; at most 512 tokens a sentence."""

    def __init__(self) -> None:
        self.tokenizer = load_tokenizer()
        self.model = prebake.freeze(load_model())

    def embed(self, sentences: Sequence[str]) -> np.ndarray:
        """One row a sentence; the batch is as long as its longest sentence."""
        return encode(self.model, *self.tokenize(sentences))

    def tokenize(self, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Token ids and mask, (n, s) int64."""
        encoded = self.tokenizer.encode_batch(list(sentences))
        return (np.array([e.ids for e in encoded], dtype=np.int64),
                np.array([e.attention_mask for e in encoded], dtype=np.int64))
