"""`jit(shapes={"x": "b d", "w": "d//2 k"})`: names and relations of extents, checked at every call.

The notation of jaxtyping and einops: axes separated by spaces, each a name, a number, an arithmetic expression over
names (`d//2`, `2*d`, `(a+b)`), `_` (anything) or one `...` (any number of axes).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from ..errors import ConfigError

_ALLOWED = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Name, ast.Load, ast.Constant, ast.Add, ast.Sub, ast.Mult,
            ast.FloorDiv, ast.Mod, ast.Pow, ast.USub)


class Axis:
    """One axis of a parameter: a new name, a name, a number, an expression, or nothing to check."""

    __slots__ = ("code", "name", "number", "text")

    def __init__(self, text: str, where: str) -> None:
        self.text, self.name, self.number = text, "", -1
        self.code: CodeType | None = None
        if text == "_":
            return
        if text.isidentifier():
            self.name = text
        elif text.isdecimal():
            self.number = int(text)
        else:
            try:
                tree = ast.parse(text, mode="eval")
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                tree = None
            if tree is None or not all(map(_is_allowed, ast.walk(tree))):
                raise ConfigError(f"'{text}' is no name, number or arithmetic over names", key=where,
                                  hint="axes separated by blanks, such as 'b 2*d' or 'b ... _'")
            self.code = compile(tree, "<shapes>", "eval")


def _is_allowed(node: ast.AST) -> bool:
    return isinstance(node, _ALLOWED) and (not isinstance(node, ast.Constant) or type(node.value) is int)


class ParameterSpec:
    """The axes of one parameter; `gap` is the position of `...`, or -1."""

    __slots__ = ("axes", "gap", "index", "name")

    def __init__(self, index: int, name: str, text: str) -> None:
        self.index, self.name = index, name
        if not isinstance(text, str):
            raise ConfigError(f"found {text!r}, expected a text of its axes", key=f"shapes.{name}",
                              hint=f"shapes={{'{name}': 'b d'}}")
        words = split_axes(text)
        if words.count("...") > 1:
            raise ConfigError(f"'...' may stand once, found '{text}'", key=f"shapes.{name}", hint="'b ... d'")
        self.gap = words.index("...") if "..." in words else -1
        self.axes = [Axis(word, f"shapes.{name}") for word in words if word != "..."]


def split_axes(text: str) -> list[str]:
    """Words of a specification; blanks inside parentheses or around operators do not separate."""
    tight = re.sub(r"\s*(//|\*\*|[-+*%])\s*", r"\1", text.replace(",", " "))
    words, depth, word = [], 0, ""
    for char in tight:
        depth += (char == "(") - (char == ")")
        if char.isspace() and depth == 0:
            words.append(word)
            word = ""
        else:
            word += char
    return [w for w in [*words, word] if w]


def parse_shapes(fn: Any, shapes: Mapping[str, str]) -> list[ParameterSpec]:
    """Specifications by parameter. Raises ConfigError for unknown parameters and texts that are none."""
    code = fn.__code__
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    if not isinstance(shapes, Mapping):
        text = shapes if isinstance(shapes, str) else "b d"
        raise ConfigError(f"found {shapes!r}, expected a mapping of parameters to their axes", key="shapes",
                          hint=f"shapes={{'{next((n for n in names if n != 'self'), 'x')}': '{text}'}}")
    specs = []
    for name, text in shapes.items():
        if name not in names:
            from ..options import suggest

            raise ConfigError(f"'{fn.__qualname__}' has no parameter '{name}'", key="shapes",
                              hint=suggest(str(name), list(names)) or "parameters are " + ", ".join(names))
        specs.append(ParameterSpec(names.index(name), name, text))
    return specs


def compile_check(fn: Any, shapes: Mapping[str, str]) -> Callable[[tuple], None]:
    """A function of the full argument tuple that raises ValueError, naming both sides, where the shapes do not hold."""
    specs = parse_shapes(fn, shapes)
    # names first, so that an expression may stand before the axis that binds its name
    simple = [(s, k, axis) for s in specs for k, axis in enumerate(s.axes) if axis.name or axis.number >= 0]
    derived = [(s, k, axis) for s in specs for k, axis in enumerate(s.axes) if axis.code is not None]
    bound_names = {axis.name for _, _, axis in simple if axis.name}
    for spec, _, axis in derived:
        missing = sorted(set(axis.code.co_names) - bound_names)  # type: ignore[union-attr]
        if missing:
            raise ConfigError(f"'{axis.text}' uses '{missing[0]}', which no axis is called", key=f"shapes.{spec.name}",
                              hint=f"call an axis '{missing[0]}', of this parameter or of another one")
    qualname = fn.__qualname__

    def extent(spec: ParameterSpec, k: int, shape: tuple[int, ...]) -> tuple[int, int]:
        axis = k if spec.gap < 0 or k < spec.gap else len(shape) - len(spec.axes) + k
        return axis, shape[axis]

    def check(args: tuple) -> None:
        shapes_of: dict[int, tuple[int, ...]] = {}
        for spec in specs:
            shape = getattr(args[spec.index], "shape", None)
            if shape is None:
                raise ValueError(f"{qualname}: {spec.name} is to have {len(spec.axes)} axes, "
                                 f"but is a {type(args[spec.index]).__name__}")
            if len(shape) != len(spec.axes) if spec.gap < 0 else len(shape) < len(spec.axes):
                words = " ".join(axis.text for axis in spec.axes)
                raise ValueError(f"{qualname}: {spec.name} has shape {shape}, but is declared as '{words}'")
            shapes_of[spec.index] = shape
        values: dict[str, tuple[int, str]] = {}
        for spec, k, axis in simple:
            at, n = extent(spec, k, shapes_of[spec.index])
            if axis.name:
                known = values.setdefault(axis.name, (n, f"{spec.name}.shape[{at}]"))
                if known[0] != n:
                    raise ValueError(f"{qualname}: {spec.name}.shape[{at}] is {n}, but {known[1]} is {known[0]}; "
                                     f"both are '{axis.name}'")
            elif axis.number != n:
                raise ValueError(f"{qualname}: {spec.name}.shape[{at}] is {n}, but is declared as {axis.number}")
        if derived:
            plain = {name: value for name, (value, _) in values.items()}
            for spec, k, axis in derived:
                at, n = extent(spec, k, shapes_of[spec.index])
                try:
                    expected = eval(axis.code, {"__builtins__": {}}, plain)  # type: ignore[arg-type]
                except ZeroDivisionError:
                    expected = None
                if expected != n:
                    sides = ", ".join(f"{values[name][1]} is {values[name][0]}"
                                      for name in sorted(set(axis.code.co_names)))  # type: ignore[union-attr]
                    raise ValueError(f"{qualname}: {spec.name}.shape[{at}] is {n}, but '{axis.text}' is {expected}"
                                     + (f" ({sides})" if sides else ""))

    return check


def short_names(fn: Any, shapes: Mapping[str, str]) -> dict[str, str]:
    """{'x.shape[0]': 'b'}: the first axis of each name; parameters with `...` name their leading axes only."""
    names: dict[str, str] = {}
    for spec in parse_shapes(fn, shapes):
        for k, axis in enumerate(spec.axes):
            if axis.name and (spec.gap < 0 or k < spec.gap):
                names[f"{spec.name}.shape[{k}]"] = axis.name
    return names
