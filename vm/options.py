"""Every option, in one table. The decorator, `configure`, YAML and the JSON Schema derive from it.

Adding an option: add a row to `_TABLE`, rule on `in_key` (does it change the code that is made?), use it through
`Settings`. A test asserts that each row is ruled on and documented.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import ConfigError

ENGINES: tuple[str, ...] = ("auto", "prebuilt", "jit", "interpreter", "python")
FUSIONS: tuple[str, ...] = (
    "chain", "product_epilogue", "product_residual", "product_norm", "sibling_products", "reduce_epilogue",
    "row_softmax", "row_norm", "attention", "gather_sum", "conv_bn", "conv_act", "conv_pool", "layout",
)

ROUNDINGS: dict[str, str] = {"float32": "", "bfloat16": "bf16", "float16": "f16"}  # precision -> what plans call it


class Option:
    """One option: name, kind ('bool' 'int' 'choice' 'names'), default, bounds or choices, whether it changes code.

    shared: one value for the process, which only `configure` sets; the others may be stated for each function.
    """

    __slots__ = ("choices", "default", "doc", "in_key", "kind", "lowest", "name", "nullable", "shared")

    def __init__(self, name: str, kind: str, default: Any, doc: str, *, in_key: bool, choices: tuple[str, ...] = (),
                 lowest: int = 0, nullable: bool = False, shared: bool = False) -> None:
        self.name, self.kind, self.default, self.doc, self.in_key = name, kind, default, doc, in_key
        self.choices, self.lowest, self.nullable, self.shared = choices, lowest, nullable, shared

    def check(self, value: object) -> Any:
        """The value in its normal form. Raises ConfigError when it does not belong to the option."""
        if value is None and self.nullable:
            return None
        if self.kind == "bool":
            if isinstance(value, bool):
                return value
            raise self._fail(value, "true or false")
        if self.kind == "int":
            if isinstance(value, int) and not isinstance(value, bool) and value >= self.lowest:
                return value
            raise self._fail(value, f"an integer, {self.lowest} or more")
        if self.kind == "choice":
            if isinstance(value, str) and value in self.choices:
                return value
            raise self._fail(value, "one of " + ", ".join(self.choices), value)
        if isinstance(value, (list, tuple, set, frozenset)):
            for item in value:
                if not isinstance(item, str) or item not in self.choices:
                    raise self._fail(item, "names out of " + ", ".join(self.choices), item)
            return tuple(sorted(set(value)))
        raise self._fail(value, "a list of names out of " + ", ".join(self.choices))

    def json_schema(self) -> dict[str, object]:
        """JSON Schema of the option's value."""
        schema: dict[str, object]
        if self.kind == "bool":
            schema = {"type": "boolean"}
        elif self.kind == "int":
            schema = {"type": ["integer", "null"] if self.nullable else "integer", "minimum": self.lowest}
        elif self.kind == "choice":
            schema = {"enum": list(self.choices)}
        else:
            schema = {"type": "array", "items": {"enum": list(self.choices)}, "uniqueItems": True}
        return schema | {"description": self.doc}

    def _fail(self, value: object, expected: str, word: object = None) -> ConfigError:
        hint = suggest(word, self.choices) if isinstance(word, str) else ""
        return ConfigError(f"found {value!r}, expected {expected}", key=self.name, hint=hint)


def suggest(word: str, known: tuple[str, ...] | list[str]) -> str:
    """'did you mean ...?' for a misspelt word, or ''."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else ""


_TABLE: tuple[Option, ...] = (
    Option("engine", "choice", "auto", "who serves calls: auto is prebuilt, then jit, then interpreter",
           in_key=False, choices=ENGINES),
    Option("strict", "bool", False, "a bundle that does not fit raises instead of warning", in_key=False),
    Option("disable_fusions", "names", (), "fusions that are switched off", in_key=True, choices=FUSIONS),
    Option("precision", "choice", "float32", "of float32 products' operands, which are rounded to it; sums stay float32",
           in_key=True, choices=tuple(ROUNDINGS)),
    Option("jit_timeout_ms", "int", 5000, "a specialisation that takes longer is given up: that shape is interpreted",
           in_key=False, lowest=1),
    Option("threads", "int", 1, "threads inside a kernel; kernels of this version use one, more warn", in_key=False, lowest=1),
    Option("memory_bytes", "int", None, "limit for the temporaries of one call; over it: MemoryError",
           in_key=False, lowest=1, nullable=True),
    Option("result_pool_bytes", "int", 128 << 20, "memory kept for results of the next calls; 0 switches the pool off",
           in_key=False, shared=True),
    Option("max_plans", "int", 64, "plans kept for one function; the least recently used goes first", in_key=False,
           lowest=1),
    Option("max_shapes", "int", 1024, "shapes counted one by one for each plan; rarer ones are counted as 'other'",
           in_key=False, lowest=1),
)
OPTIONS: dict[str, Option] = {option.name: option for option in _TABLE}


def check_options(given: Mapping[str, object] | None) -> dict[str, Any]:
    """A function's own options in normal form.

    Raises ConfigError for an unknown name (with a suggestion), a wrong value, or an option of the whole process.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"found {type(given).__name__}, expected a mapping of option names to values", key="options")
    for name in given:
        if _known(name).shared:
            raise ConfigError("is one value for the whole process, not a function's own", key=name,
                              hint=f"prebake.configure({name}=...)")
    return {name: _known(name).check(value) for name, value in given.items()}


def _known(name: object) -> Option:
    option = OPTIONS.get(name) if isinstance(name, str) else None
    if option is None:
        hint = suggest(str(name), list(OPTIONS)) or "options are " + ", ".join(sorted(OPTIONS))
        raise ConfigError(f"unknown option {name!r}", key="options", hint=hint)
    return option


_configured: dict[str, Any] = {}
_listeners: list[Any] = []


def configure(**options: object) -> dict[str, Any]:
    """Set options for every function that does not state its own; returns all options as they are now.

    A value of None sets an option back to its default. Raises ConfigError, then nothing was changed.
    """
    checked = {name: None if value is None and not _known(name).nullable else _known(name).check(value)
               for name, value in options.items()}
    for name, value in checked.items():
        if value is None:
            _configured.pop(name, None)
        else:
            _configured[name] = value
    for listener in _listeners:
        listener()
    return {name: _configured.get(name, option.default) for name, option in OPTIONS.items()}


def on_configure(listener: Any) -> None:
    """Call `listener()` after each `configure`."""
    _listeners.append(listener)


def effective(own: Mapping[str, Any]) -> dict[str, Any]:
    """All options for a function: its own, else configured, else default."""
    return {name: own[name] if name in own else _configured.get(name, option.default)
            for name, option in OPTIONS.items()}


def key_options(own: Mapping[str, Any]) -> dict[str, Any]:
    """The function's own options that change the code which is made, those at their default left out, JSON-able."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in sorted(own.items())
            if OPTIONS[name].in_key and value != OPTIONS[name].default}
