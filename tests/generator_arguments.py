"""Arguments of random programs: recipes that build equal arguments again and again, and copies that keep the layout.

A recipe is drawn once and built with any seed and any extents for its dimension names, so that one program can be
called with several shapes. Every array is a view into a flat base of its own (or of the argument it overlaps) with
unused elements around it: a stray write shows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

DTYPES = ("float32", "float64", "int64", "int32", "bool")
RARE_DTYPES = ("float16", "int8", "uint8", "int16", "uint16", "uint32", "uint64", "uint64")
LAYOUTS = ("c", "f", "strided", "gaps", "reversed", "broadcast", "readonly")
GUARD = 3  # unused elements before and behind a view


@dataclass
class Layer:
    """A container as users write them."""

    w: Any
    b: Any


@dataclass(frozen=True)
class ArrayRecipe:
    """An array argument. dims: names of extents; flavour: what its values are like; overlaps: shares memory with the
    argument of this name, one element further along the first axis."""

    dtype: str
    dims: tuple[str, ...]
    layout: str
    flavour: str
    overlaps: str = ""


@dataclass(frozen=True)
class ScalarRecipe:
    """A scalar argument. kind: int, float, bool, or a NumPy scalar's dtype."""

    kind: str
    value: float


@dataclass(frozen=True)
class TreeRecipe:
    """A container argument. kind: list, tuple, dict, namespace, layer; keys for the last three."""

    kind: str
    items: tuple[ArrayRecipe | ScalarRecipe | TreeRecipe, ...]
    keys: tuple[str, ...] = ()


Recipe = ArrayRecipe | ScalarRecipe | TreeRecipe


@dataclass
class Arguments:
    """Recipes by parameter name, and the extents that the program was generated with."""

    recipes: dict[str, Recipe] = field(default_factory=dict)
    dims: dict[str, int] = field(default_factory=dict)

    def build(self, seed: int, dims: Mapping[str, int] | None = None) -> list[Any]:
        """New arguments in parameter order; equal for equal seed and extents."""
        rng = np.random.default_rng(seed)
        extents = self.dims if dims is None else dims
        built: dict[str, Any] = {}
        for name, recipe in self.recipes.items():
            built[name] = _build(recipe, rng, extents, built)
        return list(built.values())

    def other_dims(self, rnd: random.Random) -> dict[str, int]:
        """The same dimension names with new extents, not so large that outer products of outer products explode."""
        return {name: min(draw_extent(rnd), 2 * max(extent, 2)) for name, extent in self.dims.items()}


def draw_extent(rnd: random.Random) -> int:
    """A small extent, 0 and 1 among them."""
    return rnd.choices((0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 33), (1, 3, 4, 6, 5, 4, 3, 3, 1, 1, 0.5))[0]


def draw_array(rnd: random.Random, dims: tuple[str, ...]) -> ArrayRecipe:
    """An array recipe over the given dimension names."""
    dtype = rnd.choice(RARE_DTYPES) if rnd.random() < 0.08 else rnd.choices(DTYPES, (7, 6, 3, 2, 1))[0]
    layout = "c" if rnd.random() < 0.55 else rnd.choice(LAYOUTS)
    flavour = rnd.choices(("eighths", "normal", "small", "special", "extreme"), (6, 5, 3, 0.6, 0.3))[0]
    return ArrayRecipe(dtype, dims, layout, flavour)


def draw_scalar(rnd: random.Random) -> ScalarRecipe:
    """A scalar recipe; Python's scalars are the usual ones."""
    kinds = ("int", "float", "bool", "float32", "float64", "int32", "int64", "uint64", "float16", "uint8", "bool_")
    kind = rnd.choices(kinds, (6, 6, 1, 1, 1, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3))[0]
    value = rnd.choice((0.5, 2.0, -1.5, 0.25, 3.0, 0.0, 1e-3)) if "float" in kind else rnd.choice((0, 1, 2, 3, 5, -2))
    if kind[0] == "u":
        value = rnd.choice((abs(value), 2**64 - 1 if kind == "uint64" else 255))
    return ScalarRecipe(kind, value)


def draw_tree(rnd: random.Random, dims: list[str]) -> TreeRecipe:
    """A container of arrays, as models keep their parameters: layers (w, b), or named arrays."""
    inner = rnd.choice(dims)
    dtype = rnd.choice(("float32", "float64"))
    square = (ArrayRecipe(dtype, (inner, inner), "c", "eighths"), ArrayRecipe(dtype, (inner,), "c", "eighths"))
    kind = rnd.choice(("layers", "layers", "dict", "namespace", "layer", "list"))
    if kind == "layers":
        one = rnd.choice(("tuple", "dict", "layer", "namespace", "list"))
        layer = TreeRecipe(one, square, ("w", "b"))
        return TreeRecipe(rnd.choice(("list", "tuple")), (layer,) * rnd.choice((1, 2, 3)))
    if kind == "list":
        return TreeRecipe("list", (square[1],) * rnd.choice((2, 3)))
    scale = ScalarRecipe("float", 0.5)
    return TreeRecipe(kind, square if kind == "layer" else (*square, scale),
                      ("w", "b") if kind == "layer" else ("w", "b", "scale"))


def fill(rng: np.random.Generator, dtype: str, count: int, flavour: str) -> np.ndarray:
    """count values of a dtype: exact eighths, normal numbers, small integers, NaN and infinities, extremes."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(0 if kind == "u" else -5, 8, count).astype(dtype)
        if flavour == "extreme" and count:
            at = rng.integers(0, count, max(1, count // 4))
            values[at] = rng.choice(np.array([info.min, info.max], dtype), at.size)
        return values
    if flavour == "small":
        return rng.integers(-3, 4, count).astype(dtype)
    if flavour in ("eighths", "extreme"):
        values = (rng.integers(-40, 41, count) / 8).astype(dtype)
        if flavour == "extreme" and count:
            at = rng.integers(0, count, max(1, count // 4))
            scale = float(np.finfo(dtype).max)
            values[at] = rng.choice(np.array([scale, -scale, float(np.finfo(dtype).tiny), 0.0]).astype(dtype), at.size)
        return values
    values = rng.standard_normal(count).astype(dtype)
    if flavour == "special" and count:
        at = rng.integers(0, count, max(1, count // 5))
        values[at] = rng.choice(np.array([np.nan, np.inf, -np.inf, -0.0, 0.0]).astype(dtype), at.size)
    return values


def _build(recipe: Recipe, rng: np.random.Generator, dims: Mapping[str, int], built: Mapping[str, Any]) -> Any:
    if isinstance(recipe, ScalarRecipe):
        if recipe.kind in ("int", "float", "bool"):
            return {"int": int, "float": float, "bool": bool}[recipe.kind](recipe.value)
        return np.dtype(recipe.kind).type(recipe.value)
    if isinstance(recipe, TreeRecipe):
        items = [_build(item, rng, dims, built) for item in recipe.items]
        if recipe.kind == "dict":
            return dict(zip(recipe.keys, items, strict=True))
        if recipe.kind == "namespace":
            return SimpleNamespace(**dict(zip(recipe.keys, items, strict=False)))
        if recipe.kind == "layer":
            return Layer(*items)
        return items if recipe.kind == "list" else tuple(items)
    if recipe.overlaps:
        return _shifted(built[recipe.overlaps])
    return _array(recipe, rng, tuple(dims[d] for d in recipe.dims))


def _array(recipe: ArrayRecipe, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A view of a flat base. The base has room for one more element along the first axis, for overlapping arguments."""
    layout, held = recipe.layout, list(shape)
    if layout == "broadcast" and shape:
        held[rng.integers(len(shape))] = 1
    step = 2 if layout == "strided" else 1
    gap = 2 if layout == "gaps" else 0
    room = [step * (extent + (axis == 0)) + gap for axis, extent in enumerate(held)]
    base = fill(rng, recipe.dtype, int(np.prod(room)) + 2 * GUARD, recipe.flavour)
    inner = base[GUARD:len(base) - GUARD]
    whole = inner.reshape(room[::-1]).T if layout == "f" else inner.reshape(room)
    view = whole[tuple(slice(0, step * extent, step) for extent in held)]
    if layout == "reversed" and shape:
        axes = {int(rng.integers(len(shape))), int(rng.integers(len(shape)))}
        view = view[tuple(slice(None, None, -1) if axis in axes else slice(None) for axis in range(len(shape)))]
    if layout == "broadcast":
        view = np.broadcast_to(view, shape)
    if layout == "readonly":
        view = view[...]
        view.flags.writeable = False
    return view


def _shifted(view: np.ndarray) -> np.ndarray:
    """The view one element further along its first axis (its base has room for that)."""
    base = base_of(view)
    offset = view.__array_interface__["data"][0] - base.__array_interface__["data"][0] + view.strides[0]
    return _view(base, view, offset)


def _view(base: np.ndarray, like: np.ndarray, offset: int) -> np.ndarray:
    """A view of base with the shape and strides of `like`; base may be in any dense order."""
    memory = base.transpose(sorted(range(base.ndim), key=lambda axis: -base.strides[axis]))
    if like.size == 0:  # strides of nothing: NumPy would check them against the memory
        return np.ndarray(like.shape, like.dtype, memory)
    return np.ndarray(like.shape, like.dtype, memory, offset, like.strides)


def base_of(array: np.ndarray) -> np.ndarray:
    """The array that owns an array's memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def map_tree(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """The same containers with every leaf replaced."""
    if isinstance(value, (list, tuple)):
        return type(value)(map_tree(item, leaf) for item in value)
    if isinstance(value, dict):
        return {key: map_tree(item, leaf) for key, item in value.items()}
    if isinstance(value, SimpleNamespace):
        return SimpleNamespace(**map_tree(vars(value), leaf))
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{f.name: map_tree(getattr(value, f.name), leaf) for f in fields(value)})
    return leaf(value)


def copy_arguments(values: Any, bases: dict[int, tuple[np.ndarray, np.ndarray]] | None = None) -> Any:
    """A copy of arguments that keeps strides, offsets, shared memory and read-only flags.

    bases, when given, receives id(base) -> (base, its copy), for comparing effects.
    """
    seen = {} if bases is None else bases

    def leaf(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        base = base_of(value)
        if id(base) not in seen:
            seen[id(base)] = (base, base.copy(order="K"))
        copy = seen[id(base)][1]
        if value is base:
            return copy
        offset = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        view = _view(copy, value, offset)
        if not value.flags.writeable:
            view.flags.writeable = False
        return view

    return map_tree(values, leaf)
