"""Embeds sentences of a day, for `prebake profile -o profile.json -- python warmup.py`.

The sentences are those of Python's own reference manual, as every Python carries it: 5 to 128 tokens, mostly one at a
time, sometimes in small batches.
"""

from __future__ import annotations

import re
from pydoc_data.topics import topics

from minilm_search import Embedder

LONGEST = 128


def read_sentences() -> list[str]:
    """Sentences of running text, without markup."""
    text = " ".join(topics[name] for name in sorted(topics))
    found = re.split(r"(?<=[.:])\s+(?=[A-Z])", re.sub(r"[*\"|`]+", "", text))
    tidy = (" ".join(sentence.split()) for sentence in found)
    return sorted({s for s in tidy if 20 < len(s) < 700 and re.fullmatch(r"[\w ,.;:()'/-]+", s)})


def main() -> None:
    """Single sentences, then batches of 8."""
    embedder = Embedder()
    sentences = [s for s in read_sentences() if len(embedder.tokenizer.encode(s).ids) <= LONGEST]
    for sentence in sentences[:300]:
        embedder.embed([sentence])
    for at in range(0, 160, 8):
        embedder.embed(sentences[at:at + 8])


if __name__ == "__main__":
    main()
