"""Embeds sentences of a day, for `prebake profile -o profile.json -- python warmup.py`.

The sentences are those of Python's own reference manual, as every Python carries it: 5 to 128 tokens, mostly one at a
time, sometimes in small batches.
"""

from __future__ import annotations

import re
import sys
from pydoc_data.topics import topics

from minilm_search import Embedder

LONGEST = 128


def read_sentences() -> list[str]:
    """Sentences of running text, without markup."""
    text = " ".join(topics[name] for name in sorted(topics))
    found = re.split(r"(?<=[.:])\s+(?=[A-Z])", re.sub(r"[*\"|`]+", "", text))
    tidy = (" ".join(sentence.split()) for sentence in found)
    return sorted({s for s in tidy if 20 < len(s) < 700 and re.fullmatch(r"[\w ,.;:()'/-]+", s)})


def main(count: int) -> None:
    """`count` sentences one by one, and half as many in batches of 8 and 16."""
    embedder = Embedder()
    sentences = [s for s in read_sentences() if len(embedder.tokenizer.encode(s).ids) <= LONGEST]
    for sentence in sentences[:count]:
        embedder.embed([sentence])
    for size in (8, 16):
        for at in range(0, count // 4, size):
            embedder.embed(sentences[at:at + size])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
